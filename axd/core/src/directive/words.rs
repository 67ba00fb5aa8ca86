//! Splits a directive line into words. Quotes group as in the shell, and
//! nothing is expanded. Each word knows where each of its characters stood.

use super::Dialect;
use super::diagnostic::{Fault, Place};

/// A word of a directive line or of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// What it says, without its quotes.
    pub(super) text: String,
    /// Where it stood; `None` on a command line.
    origin: Option<Origin>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    line: u32,
    /// Column of the word's first character, perhaps a quote.
    start: u32,
    /// Column of each character of the text, and of what follows the last.
    columns: Vec<u32>,
}

impl Word {
    /// A word that stands on no line of a script.
    pub(super) fn of_command_line(text: &str) -> Word {
        Word { text: text.to_owned(), origin: None }
    }

    /// Where the word begins.
    pub(super) fn place(&self) -> Option<Place> {
        self.origin.as_ref().map(|origin| Place { line: origin.line, column: origin.start })
    }

    /// Where the byte `at` of the text stood.
    pub(super) fn place_at(&self, at: usize) -> Option<Place> {
        let origin = self.origin.as_ref()?;
        let index = self.text.get(..at)?.chars().count();
        Some(Place { line: origin.line, column: *origin.columns.get(index)? })
    }
}

/// Splits what follows the prefix (`#AX`) of the line with number `line`;
/// `column` is that of the rest's first character.
///
/// In ax's dialect a `#` begins a comment at the start of a word, and within
/// double quotes a backslash escapes `"`, `\`, `$` and a back quote, as in the shell. In
/// Slurm's a `#` that is not quoted begins a comment anywhere, and a backslash
/// escapes any character anywhere.
///
/// # Errors
/// A quote that is not closed, or in ax's dialect a backslash at the end of the line.
pub(super) fn split(
    rest: &str,
    line: u32,
    column: u32,
    dialect: Dialect,
) -> Result<Vec<Word>, (Place, Fault)> {
    let mut splitter = Splitter { chars: rest.chars().collect(), at: 0, line, column, dialect };
    let mut words = Vec::new();
    while let Some(word) = splitter.word()? {
        words.push(word);
    }
    Ok(words)
}

struct Splitter {
    chars: Vec<char>,
    at: usize,
    line: u32,
    column: u32,
    dialect: Dialect,
}

/// A word that is being read.
struct Building {
    text: String,
    columns: Vec<u32>,
}

impl Splitter {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// The column of the next character.
    fn here(&self) -> u32 {
        self.column.saturating_add(u32::try_from(self.at).unwrap_or(u32::MAX))
    }

    fn fault(&self, column: u32, fault: Fault) -> (Place, Fault) {
        (Place { line: self.line, column }, fault)
    }

    /// Takes the next character into the word.
    fn keep(&mut self, building: &mut Building) {
        if let Some(c) = self.peek() {
            building.columns.push(self.here());
            building.text.push(c);
            self.at += 1;
        }
    }

    /// The next word, or `None` at the end of the line or at a comment.
    fn word(&mut self) -> Result<Option<Word>, (Place, Fault)> {
        while self.peek().is_some_and(is_blank) {
            self.at += 1;
        }
        if matches!(self.peek(), None | Some('#')) {
            return Ok(None);
        }
        let start = self.here();
        let mut building = Building { text: String::new(), columns: Vec::new() };
        while let Some(c) = self.peek().filter(|c| !is_blank(*c)) {
            match c {
                '\'' | '"' => self.quoted(c, &mut building)?,
                '\\' => self.escape(&mut building)?,
                '#' if self.dialect == Dialect::Slurm => break,
                _ => self.keep(&mut building),
            }
        }
        building.columns.push(self.here());
        let origin = Origin { line: self.line, start, columns: building.columns };
        Ok(Some(Word { text: building.text, origin: Some(origin) }))
    }

    /// A backslash outside quotes.
    fn escape(&mut self, building: &mut Building) -> Result<(), (Place, Fault)> {
        let column = self.here();
        self.at += 1;
        if self.peek().is_none() && self.dialect == Dialect::Ax {
            let fault = Fault::new("a backslash at the end of an #AX line");
            return Err(self.fault(column, fault.hint("a line cannot be continued; write a second #AX line")));
        }
        self.keep(building);
        Ok(())
    }

    /// From an opening quote to its end.
    fn quoted(&mut self, quote: char, building: &mut Building) -> Result<(), (Place, Fault)> {
        let opened = self.here();
        self.at += 1;
        while let Some(c) = self.peek() {
            if c == quote {
                self.at += 1;
                return Ok(());
            }
            if c == '\\' && self.escapes_in(quote) {
                self.at += 1;
            }
            self.keep(building);
        }
        Err(self.fault(opened, Fault::new(format!("the quote {quote} is not closed on its line"))))
    }

    /// Whether the backslash here escapes what follows it within such quotes.
    fn escapes_in(&self, quote: char) -> bool {
        let next = self.chars.get(self.at + 1);
        match (self.dialect, quote) {
            (Dialect::Slurm, _) => next.is_some(),
            (Dialect::Ax, '"') => matches!(next, Some('"' | '\\' | '$' | '`')),
            (Dialect::Ax, _) => false,
        }
    }
}

/// What C's `isspace` calls a blank.
pub(super) fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}

/// Quotes a word, if it must be, so that `split` and a shell read it back.
/// Line breaks stay, and so such a word fits a shell only.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+:,./@%^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(rest: &str, dialect: Dialect) -> Vec<String> {
        split(rest, 1, 4, dialect).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_of_ax() {
        for (rest, words) in [
            (" -n 4  --time=8h\t-H", vec!["-n", "4", "--time=8h", "-H"]),
            (" --job-name=a#b # comment", vec!["--job-name=a#b"]),
            (r#" -J "a b" -J 'c "d"' -J e\ f"#, vec!["-J", "a b", "-J", "c \"d\"", "-J", "e f"]),
            (r#" "a\"b\\c\d\$e" '\'"#, vec![r#"a"b\c\d$e"#, "\\"]),
            (" ''", vec![""]),
            (r" \#x", vec!["#x"]),
            ("# all", vec![]),
            (" $HOME `x`", vec!["$HOME", "`x`"]),
        ] {
            assert_eq!(texts(rest, Dialect::Ax), words, "{rest}");
        }
    }

    #[test]
    fn words_of_slurm() {
        for (rest, words) in [
            ("-n 2#two", vec!["-n", "2"]),
            (" --job-name=a#b x", vec!["--job-name=a"]),
            (r#" -J "a\"b" 'c\'d' e\#f "g#h""#, vec!["-J", "a\"b", "c'd", "e#f", "g#h"]),
            (r" a\", vec!["a"]),
        ] {
            assert_eq!(texts(rest, Dialect::Slurm), words, "{rest}");
        }
    }

    #[test]
    fn every_character_knows_its_column() {
        let words = split(" é \"a b\"=c", 7, 4, Dialect::Ax).unwrap();
        let columns: Vec<_> =
            (0..=5).map(|at| words[1].place_at(at).map(|place| (place.line, place.column))).collect();
        assert_eq!(words[1].place(), Some(Place { line: 7, column: 7 }));
        assert_eq!(columns, [8, 9, 10, 12, 13, 14].map(|column| Some((7, column))));
    }

    #[test]
    fn what_is_open_is_told() {
        for (rest, column) in [(" -J 'x", 8), (" -J \"x'", 8), (" x\\", 6)] {
            let (place, _) = split(rest, 1, 4, Dialect::Ax).unwrap_err();
            assert_eq!(place.column, column, "{rest}");
        }
    }

    #[test]
    fn quoting_is_undone() {
        for word in ["", "a", "a b", "it's", "#x", "$(x)", "\"", "\\", "é", "--env=A=b c"] {
            assert_eq!(texts(&quote(word), Dialect::Ax), [word], "{word}");
        }
    }
}
