//! Lists of hosts in short form, `gpu-[01-04,07],cpu-1`, and back. Only texts: the caller checks whether such hosts
//! exist. A short text can name very many hosts, so there is a limit.

use thiserror::Error;

/// The most names that one list may have.
pub const MAX_NAMES: usize = 65_536;

/// Digits that a number in brackets may have.
const MAX_DIGITS: usize = 9;

/// Why a text is not a list of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadHostlist {
    /// `a,,b`, or nothing at all.
    #[error("an empty name in the list of hosts")]
    Empty,
    /// `a[1`, `a]`, `a[1[2]]`.
    #[error("brackets that do not match in {0}")]
    Brackets(String),
    /// `a[x]`, `a[]`, `a[3-1]`.
    #[error("'{0}' in brackets is not a number such as 07 or a range such as 01-04")]
    Range(String),
    /// More names than are allowed.
    #[error("more than {0} names in a list of hosts")]
    TooMany(usize),
}

/// Writes out a list: each name once, in the order of the text.
/// `gpu-[01-02]` is `gpu-01`, `gpu-02`: a number keeps the width of the first of its range.
///
/// # Errors
/// When the text is not a list of hosts or has more than [`MAX_NAMES`] names.
pub fn expand(text: &str) -> Result<Vec<String>, BadHostlist> {
    expand_at_most(text, MAX_NAMES)
}

/// The same with a limit of the caller's.
///
/// # Errors
/// When the text is not a list of hosts or has more than `limit` names.
pub fn expand_at_most(text: &str, limit: usize) -> Result<Vec<String>, BadHostlist> {
    let mut names = Vec::new();
    for item in split_outside_brackets(text)? {
        if item.is_empty() {
            return Err(BadHostlist::Empty);
        }
        expand_item(item, limit, &mut names)?;
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// Splits at the commas that are not in brackets.
fn split_outside_brackets(text: &str) -> Result<Vec<&str>, BadHostlist> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if !inside => inside = true,
            ']' if inside => inside = false,
            '[' | ']' => return Err(BadHostlist::Brackets(crate::text::quoted(text))),
            ',' if !inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(BadHostlist::Brackets(crate::text::quoted(text)));
    }
    items.push(&text[start..]);
    Ok(items)
}

/// Adds the names of one item, whose brackets are known to match.
fn expand_item(item: &str, limit: usize, names: &mut Vec<String>) -> Result<(), BadHostlist> {
    let mut parts = vec![String::new()];
    let mut rest = item;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, after) = after.split_once(']').unwrap_or((after, ""));
        let numbers = expand_ranges(ranges, limit)?;
        if names.len() + parts.len().saturating_mul(numbers.len()) > limit {
            return Err(BadHostlist::TooMany(limit));
        }
        parts = parts.iter().flat_map(|p| numbers.iter().map(move |n| format!("{p}{before}{n}"))).collect();
        rest = after;
    }
    if names.len() + parts.len() > limit {
        return Err(BadHostlist::TooMany(limit));
    }
    names.extend(parts.into_iter().map(|part| part + rest));
    Ok(())
}

/// `01-04,07` as texts of their width.
fn expand_ranges(ranges: &str, limit: usize) -> Result<Vec<String>, BadHostlist> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let bad = || BadHostlist::Range(range.chars().take(40).collect());
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (number(first).ok_or_else(bad)?, number(last).ok_or_else(bad)?);
        if low > high {
            return Err(bad());
        }
        if numbers.len() + (high - low) as usize >= limit {
            return Err(BadHostlist::TooMany(limit));
        }
        numbers.extend((low..=high).map(|n| format!("{n:0width$}", width = first.len())));
    }
    Ok(numbers)
}

fn number(text: &str) -> Option<u64> {
    let plain = (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// A name as what stands before its last number, that number, and what follows.
#[derive(PartialEq)]
struct Split<'a> {
    before: &'a str,
    digits: &'a str,
    after: &'a str,
}

impl<'a> Split<'a> {
    fn of(name: &'a str) -> Option<Split<'a>> {
        let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
        let start = name[..end]
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + name[at..].chars().next().map_or(0, char::len_utf8));
        let (before, digits, after) = (&name[..start], &name[start..end], &name[end..]);
        (digits.len() <= MAX_DIGITS).then_some(Split { before, digits, after })
    }

    /// Whether both can stand in one pair of brackets.
    fn fits(&self, other: &Split<'_>) -> bool {
        self.before == other.before && self.after == other.after && self.digits.len() == other.digits.len()
    }
}

/// Writes names in short form, keeping their order: `expand` gives them back,
/// as long as they are different and hold no comma and no bracket.
pub fn compress<S: AsRef<str>>(names: &[S]) -> String {
    let mut items: Vec<String> = Vec::new();
    let mut rest = names.iter().map(AsRef::as_ref).peekable();
    while let Some(name) = rest.next() {
        let Some(first) = Split::of(name) else {
            items.push(name.to_owned());
            continue;
        };
        let mut digits = vec![first.digits];
        while let Some(next) = rest.peek().copied().and_then(Split::of).filter(|next| first.fits(next)) {
            digits.push(next.digits);
            rest.next();
        }
        items.push(match digits.as_slice() {
            [_] => name.to_owned(),
            many => format!("{}[{}]{}", first.before, ranges(many), first.after),
        });
    }
    items.join(",")
}

/// Joins neighbours: `01,02,03,07` becomes `01-03,07`.
fn ranges(digits: &[&str]) -> String {
    let mut runs: Vec<(&str, &str)> = Vec::new();
    for text in digits {
        match runs.last_mut() {
            Some((_, last)) if number(last).map(|n| n + 1) == number(text) => *last = text,
            _ => runs.push((text, text)),
        }
    }
    let texts = runs.iter().map(|(a, b)| if a == b { (*a).to_owned() } else { format!("{a}-{b}") });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_written_out() {
        for (text, names) in [
            ("gpu-[01-03,07],cpu-1", "gpu-01 gpu-02 gpu-03 gpu-07 cpu-1"),
            ("r[1-2]n[3-4]", "r1n3 r1n4 r2n3 r2n4"),
            ("n[9-11]-ib", "n9-ib n10-ib n11-ib"),
            ("a,b,a", "a b"),
            ("[1-2]", "1 2"),
        ] {
            assert_eq!(expand(text).unwrap().join(" "), names, "{text}");
        }
        for text in
            ["", "a,", ",a", "a[1", "a]", "a[1]]", "a[[1]]", "a[]", "a[x]", "a[3-1]", "a[-1]", "a[1-]"]
        {
            assert!(expand(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_texts_do_not_explode() {
        assert_eq!(expand("n[1-65536]").unwrap().len(), MAX_NAMES);
        for text in ["n[1-65537]", "n[0-999999999]", "a[1-999]b[1-999]c[1-999]", "n[1-65536],m"] {
            assert_eq!(expand(text), Err(BadHostlist::TooMany(MAX_NAMES)), "{text}");
        }
        assert!(expand("n[1-9999999999999999999]").is_err());
    }

    #[test]
    fn lists_are_written_short() {
        for (names, text) in [
            (vec!["gpu-01", "gpu-02", "gpu-03", "gpu-07", "cpu-1"], "gpu-[01-03,07],cpu-1"),
            (vec!["n9", "n10", "login"], "n9,n10,login"),
            (vec!["é1", "é2"], "é[1-2]"),
            (vec![], ""),
        ] {
            assert_eq!(compress(&names), text);
        }
    }

    proptest! {
        #[test]
        fn short_form_keeps_names_and_order(
            names in prop::collection::vec("[a-c]{0,2}-?[0-9]{1,3}[x]?|[a-z]{1,4}", 1..40)
        ) {
            let mut seen = std::collections::HashSet::new();
            let names: Vec<String> = names.into_iter().filter(|n| seen.insert(n.clone())).collect();
            prop_assert_eq!(expand(&compress(&names)).unwrap(), names);
        }

        #[test]
        fn any_text_gets_an_answer(text in "[a\\[\\]0-9,-]{0,20}|.{0,20}") {
            let _ = expand(&text);
            let _ = compress(&[text]);
        }
    }
}
