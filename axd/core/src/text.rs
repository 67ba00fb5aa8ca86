//! Texts of users inside texts of ax: escapes what is printed to a terminal or a log, shortens what is quoted, and
//! finds the right name nearest to a wrong one. Prints nothing.

/// Longest part of a user's text that a message repeats, in characters.
const QUOTED_MAX: usize = 60;

/// The text with everything that a terminal would act on, or that would be
/// invisible, written out: `\n`, `\x1b`, `\u{202e}`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_invisible(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Controls of the second set, odd blanks, marks of no width and of direction.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{a0}' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202f}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// The text in single quotes, shortened with `…` when it is long. Control
/// characters stay: whoever prints the message escapes it as a whole.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    }
}

/// `1 CPU`, `4 CPUs`: a count of things whose plural is regular.
pub fn count(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(all: &[String]) -> String {
    match all {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The right name that is nearest to a wrong one, if any is near: at most one
/// edit for each three characters, and never more than three.
pub fn nearest<'a>(wrong: &str, right: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong: Vec<char> = wrong.chars().map(|c| c.to_ascii_lowercase()).collect();
    if wrong.is_empty() || wrong.len() > QUOTED_MAX {
        return None;
    }
    let limit = (wrong.len() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for name in right {
        let distance = edits(&wrong, &name.to_ascii_lowercase().chars().collect::<Vec<_>>());
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Damerau-Levenshtein distance, optimal string alignment: insertions,
/// deletions, replacements and swaps of neighbours.
fn edits(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

/// A JSON document in which no character can act on a terminal. Inside JSON such characters
/// stand in strings only, where `\uXXXX` means the same.
pub fn json_escaped(document: &str) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        let acts = c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if acts && c != '\n' {
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Numbers as text, for serde: readers of JSON keep numbers to 53 or 64 bits.
pub mod number {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// As text.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<N: Display, S: Serializer>(number: &N, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(number)
    }

    /// From text.
    ///
    /// # Errors
    /// Where it is no text, or no number of this kind.
    pub fn deserialize<'de, N: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<N, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        assert_eq!(escaped("a\x1b[31m\n\u{202e}\u{9b}é"), "a\\x1b[31m\\n\\u{202e}\\u{9b}é");
        assert_eq!(quoted(&"x".repeat(61)), format!("'{}…'", "x".repeat(60)));
    }

    #[test]
    fn the_nearest_name_is_near() {
        let names = ["gpus", "gpus-per-node", "queue", "output"];
        for (wrong, right) in [
            ("gpu", Some("gpus")),
            ("gups", Some("gpus")),
            ("uotput", Some("output")),
            ("Queue", Some("queue")),
            ("gpus-pr-nod", Some("gpus-per-node")),
            ("", None),
            ("xyz", None),
        ] {
            assert_eq!(nearest(wrong, names), right, "{wrong}");
        }
    }

    #[test]
    fn json_keeps_its_meaning() {
        let document = serde_json::to_string(&"x\u{9b}\x1b\u{202e}").unwrap();
        let safe = json_escaped(&document);
        assert!(safe.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), "x\u{9b}\x1b\u{202e}");
    }
}
