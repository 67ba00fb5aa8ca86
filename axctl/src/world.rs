//! The world around a command: variables, streams, the terminal, the time. Handed in, so that tests need no process
//! of their own. Does not talk to a daemon.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read, Write};

use ax_core::time::WallTime;

use crate::shown::shown;

/// The variables of the environment.
#[derive(Debug, Clone, Default)]
pub struct Variables(pub Vec<(OsString, OsString)>);

impl Variables {
    /// This process's.
    pub fn of_process() -> Variables {
        Variables(std::env::vars_os().collect())
    }

    /// A variable that is there and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }
}

/// The screen or file that the output goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Whether it is a terminal.
    pub terminal: bool,
    /// Whether colours may be used.
    pub colour: bool,
    /// How many columns a line may have.
    pub width: usize,
}

impl Screen {
    /// What no terminal is, unless `COLUMNS` says otherwise.
    const PLAIN_WIDTH: usize = 80;

    /// A screen: `COLUMNS` first, then the terminal's own width.
    pub fn new(terminal: bool, own_width: Option<usize>, vars: &Variables) -> Screen {
        let columns = vars.get("COLUMNS").and_then(|text| text.to_str()?.parse().ok());
        let width = columns.or(own_width).filter(|width| *width >= 20).unwrap_or(Self::PLAIN_WIDTH);
        let plain = vars.get("NO_COLOR").is_some() || vars.get("TERM").is_some_and(|term| term == "dumb");
        Screen { terminal, colour: terminal && !plain, width }
    }
}

/// Everything a command is given besides its arguments.
pub struct World<'w> {
    /// The environment.
    pub vars: Variables,
    /// Standard input.
    pub input: &'w mut dyn Read,
    /// Whether a person types it.
    pub input_is_terminal: bool,
    /// Standard output.
    pub out: &'w mut dyn Write,
    /// Standard error.
    pub err: &'w mut dyn Write,
    /// When the command began.
    pub now: WallTime,
}

impl World<'_> {
    /// A remark for the person, on standard error. If nobody reads it, that changes nothing. In one piece: others may write to
    /// the same terminal.
    pub fn remark(&mut self, program: &str, line: &str) {
        let _ = self.err.write_all(format!("{program}: {}\n", shown(line)).as_bytes());
    }
}

/// Runs a command in the world of this process.
pub fn with_process<T>(run: impl FnOnce(World<'_>) -> T) -> T {
    let stdin = io::stdin();
    let input_is_terminal = stdin.is_terminal();
    let mut out = io::BufWriter::new(io::stdout());
    let result = run(World {
        vars: Variables::of_process(),
        input: &mut stdin.lock(),
        input_is_terminal,
        out: &mut out,
        err: &mut io::stderr(),
        now: WallTime(ax_sys::clock::wall_ms()),
    });
    // Commands flush what they wrote and learn of errors there; what is left now has no reader.
    let _ = out.flush();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> Variables {
        Variables(pairs.iter().map(|(k, v)| (OsString::from(k), OsString::from(v))).collect())
    }

    #[test]
    fn colour_needs_a_terminal_and_leave() {
        assert!(Screen::new(true, Some(100), &vars(&[])).colour);
        assert!(!Screen::new(true, Some(100), &vars(&[("NO_COLOR", "1")])).colour);
        assert!(Screen::new(true, Some(100), &vars(&[("NO_COLOR", "")])).colour);
        assert!(!Screen::new(false, None, &vars(&[])).colour);
    }

    #[test]
    fn the_width_is_asked_for_in_order() {
        assert_eq!(Screen::new(false, None, &vars(&[])).width, 80);
        assert_eq!(Screen::new(true, Some(132), &vars(&[])).width, 132);
        assert_eq!(Screen::new(true, Some(132), &vars(&[("COLUMNS", "200")])).width, 200);
        assert_eq!(Screen::new(true, Some(132), &vars(&[("COLUMNS", "0")])).width, 80);
    }
}
