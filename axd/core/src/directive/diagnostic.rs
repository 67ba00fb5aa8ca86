//! What is wrong, where, and what would be right: one line, the same for
//! scripts, command lines and the environment. Nothing is printed from here.

use std::fmt;

use crate::text::escaped;

/// A place in a script. Lines and columns count from 1; columns count
/// characters, a tab is one, a byte-order mark none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// An error or a warning about what a user wrote. Shown as
/// `job.sh:4:5: unknown option '--gpu'; did you mean '--gpus'?`; one about a
/// command line or the environment has no file, and names the option.
/// Control characters in it are written out (`\x1b`) when it is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// The script; `None` for the command line and the environment.
    pub file: Option<String>,
    /// Line, from 1; absent when it is about the script as a whole.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// The exit code, as in ax(1): 65 for a script that does not parse, 2 for wrong usage.
    pub fn exit_code(&self) -> u8 {
        if self.file.is_some() { 65 } else { 2 }
    }

    pub(super) fn new(file: Option<&str>, place: Option<Place>, fault: Fault) -> Diagnostic {
        Diagnostic {
            file: file.map(str::to_owned),
            line: place.map(|place| place.line),
            column: place.map(|place| place.column),
            message: fault.message,
            hint: fault.hint,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", escaped(file))?;
            for number in [self.line, self.column].into_iter().flatten() {
                write!(f, "{number}:")?;
            }
            f.write_str(" ")?;
        }
        f.write_str(&escaped(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, "; {}", escaped(hint)),
            None => Ok(()),
        }
    }
}

/// A diagnostic that does not know its place yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>) -> Fault {
        Fault { message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    /// Adds `did you mean 'x'?` if there is something near.
    pub(super) fn did_you_mean(self, name: Option<&str>) -> Fault {
        match name {
            Some(name) => self.hint(format!("did you mean '{name}'?")),
            None => self,
        }
    }
}

impl From<crate::id::BadName> for Fault {
    fn from(bad: crate::id::BadName) -> Fault {
        Fault::new(format!("{} is not {}", crate::text::quoted(&bad.text), bad.expected))
    }
}
