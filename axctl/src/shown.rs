//! Texts of others as they are shown: control characters are escaped, so that a name or a path can neither move the
//! cursor nor reverse the line. Nothing is left out.

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
}
