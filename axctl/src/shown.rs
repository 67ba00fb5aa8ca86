//! Text of others as it is shown: control characters escaped, so that a name or a path can
//! neither move the cursor nor turn the line around. Nothing is left out.

use std::io;

use ax_core::text::escaped;

/// The text on one line, without characters that a terminal acts on.
pub(crate) fn shown(text: &str) -> String {
    escaped(text)
}

/// An error of the system in words, without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match (error.raw_os_error(), text.split_once(" (os error")) {
        (Some(_), Some((words, _))) => words.to_owned(),
        _ => text,
    }
}

/// A JSON document in which no character can act on a terminal. Inside JSON such characters
/// stand in strings only, where `\uXXXX` means the same.
pub(crate) fn json_shown(document: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown("a\x1b[2J\tb\u{9b}é"), "a\\x1b[2J\\tb\\u{9b}é");
        assert_eq!(shown("\u{202e}txt"), "\\u{202e}txt");
    }

    #[test]
    fn errors_of_the_system_are_words() {
        assert_eq!(plain(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(plain(&io::Error::other("x (os error")), "x (os error");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let document = serde_json::to_string(&"x\u{9b}\x1b\u{202e}").unwrap();
        let safe = json_shown(&document);
        assert!(safe.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), "x\u{9b}\x1b\u{202e}");
    }
}
