//! The daemon's log: one line for each event, `key=value`, with full job ids. Appended to, reopened when logrotate
//! asks, and copied to standard error.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ax_core::time::WallTime;
use ax_sys::clock;

/// So much waits at most, in bytes.
const MOST_WAITING: usize = 16 << 10;

/// Where the lines go.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: Option<File>,
    to_stderr: bool,
    /// Lines of this turn of the loop that are not written yet.
    waiting: String,
}

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Normal events.
    Info,
    /// An administrator should look.
    Warning,
    /// Something does not work.
    Error,
}

impl Log {
    /// Opens the file for appending. Where that fails, standard error has the lines alone.
    pub(crate) fn open(path: &Path, to_stderr: bool) -> Log {
        let mut log = Log { path: path.to_owned(), file: None, to_stderr, waiting: String::new() };
        log.reopen();
        log
    }

    /// Opens the file again, after logrotate moved it away.
    pub(crate) fn reopen(&mut self) {
        self.flush();
        match open_append(&self.path) {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                self.file = None;
                self.line(
                    Level::Error,
                    &Line::new("log").text("error", &error).text("path", &self.path.display()),
                );
            }
        }
    }

    /// Takes one line. It is written by the next `flush`, or at once if an administrator should look.
    pub(crate) fn line(&mut self, level: Level, line: &Line) {
        let word = match level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        let _ = writeln!(self.waiting, "{} {word} {}", WallTime(clock::wall_ms()), line.0);
        if level != Level::Info || self.waiting.len() > MOST_WAITING {
            self.flush();
        }
    }

    /// Writes what is not written yet.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        // A log that can't be written must not stop the daemon; there is nowhere to report it.
        if let Some(file) = &mut self.file {
            let _ = file.write_all(self.waiting.as_bytes());
        }
        if self.to_stderr || self.file.is_none() {
            let _ = io::stderr().write_all(self.waiting.as_bytes());
        }
        self.waiting.clear();
        // One long burst is no reason to keep its room.
        self.waiting.shrink_to(MOST_WAITING);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// The words of one line: what happened, then `key=value`.
#[derive(Debug, Clone)]
pub(crate) struct Line(String);

impl Line {
    /// A line about this kind of event, one word.
    pub(crate) fn new(event: &str) -> Line {
        Line(event.to_owned())
    }

    /// Adds a value; quoted if it is more than a word, control characters escaped.
    #[must_use]
    pub(crate) fn text(mut self, key: &str, value: &dyn fmt::Display) -> Line {
        let value = value.to_string();
        let plain = |c: char| c.is_ascii_graphic() && c != '"' && c != '=';
        let _ = match !value.is_empty() && value.chars().all(plain) {
            true => write!(self.0, " {key}={value}"),
            false => write!(self.0, " {key}={value:?}"),
        };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_is_one_line_whatever_is_in_it() {
        let line = Line::new("moved").text("job", &"ax-2026-0001").text("why", &"a\nb\x1b[31m \"c\"");
        assert_eq!(line.0, "moved job=ax-2026-0001 why=\"a\\nb\\u{1b}[31m \\\"c\\\"\"");
    }
}
