//! The whole screen of a terminal, taken over, and given back however the program ends. Writes only lines that have
//! changed, which matters on a slow line.

use std::io::{self, Write};
use std::panic;

use ax_sys::terminal::Settings;

/// Another screen, no cursor, no wrapping at the edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// A screen that is taken over; given back when dropped.
pub(super) struct FullScreen {
    settings: Settings,
    shown: Vec<String>,
}

impl FullScreen {
    /// Takes it over. A panic, too, gives it back before it is told.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub(super) fn enter(out: &mut dyn Write) -> Result<FullScreen, String> {
        let settings = Settings::take_over(&io::stdin()).map_err(|error| error.to_string())?;
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |told| {
            give_back(&settings, &mut io::stdout());
            before(told);
        }));
        let screen = FullScreen { settings, shown: Vec::new() };
        let written = out.write_all(ENTER.as_bytes()).and_then(|()| out.flush());
        written.map_err(|error| error.to_string())?;
        Ok(screen)
    }

    /// Shows these lines.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn show(&mut self, lines: Vec<String>, out: &mut dyn Write) -> io::Result<()> {
        let text = changes(&self.shown, &lines);
        self.shown = lines;
        if text.is_empty() {
            return Ok(());
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The next time everything is written.
    pub(super) fn forget(&mut self) {
        self.shown.clear();
    }

    /// Gives it back for some time.
    pub(super) fn leave(&mut self, out: &mut dyn Write) {
        give_back(&self.settings, out);
    }

    /// Takes it over again.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub(super) fn enter_again(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.settings.again().map_err(io::Error::other)?;
        self.forget();
        out.write_all(ENTER.as_bytes())?;
        out.flush()
    }
}

fn give_back(settings: &Settings, out: &mut dyn Write) {
    // Nobody can do more about a terminal that is gone.
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    settings.put_back();
}

/// What has to be written to make the one screen the other.
fn changes(before: &[String], now: &[String]) -> String {
    let mut text = String::new();
    for (row, line) in now.iter().enumerate() {
        if before.get(row) != Some(line) {
            text.push_str(&format!("\x1b[{};1H{line}\x1b[K", row + 1));
        }
    }
    if before.is_empty() || before.len() > now.len() {
        text.push_str(&format!("\x1b[{};1H\x1b[J", now.len() + 1));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn only_lines_that_change_are_written() {
        assert_eq!(changes(&lines(&["a", "b"]), &lines(&["a", "c"])), "\x1b[2;1Hc\x1b[K");
        assert_eq!(changes(&lines(&["a"]), &lines(&["a"])), "");
        assert_eq!(changes(&lines(&["a", "b"]), &lines(&["a"])), "\x1b[2;1H\x1b[J");
        assert!(changes(&[], &lines(&["a"])).starts_with("\x1b[1;1Ha"));
    }
}
