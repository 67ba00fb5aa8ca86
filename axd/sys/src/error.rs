//! The error of this crate: what was being done, to what, and what the kernel said.
//! Modules whose callers must tell cases apart have an enum of their own around it.

use std::fmt::Display;
use std::io;

/// The outcome of most calls of this crate.
pub type Result<T> = std::result::Result<T, SysError>;

/// A call to the system that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {what}: {source}")]
pub struct SysError {
    doing: &'static str,
    what: String,
    source: io::Error,
}

impl SysError {
    /// Wraps `source` with the deed (`"open"`) and its object (a path, `"process 17"`).
    pub fn new(doing: &'static str, what: impl Display, source: impl Into<io::Error>) -> SysError {
        SysError { doing, what: what.to_string(), source: source.into() }
    }

    /// An error that this crate found itself, without an error number.
    pub(crate) fn found(doing: &'static str, what: impl Display, text: impl Into<String>) -> SysError {
        SysError::new(doing, what, io::Error::other(text.into()))
    }

    /// The error number, if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// Whether the kernel gave just this error number (`libc::ENOENT` and so on).
    pub fn is(&self, errno: i32) -> bool {
        self.errno() == Some(errno)
    }

    /// Whether a message was longer than its socket takes at once.
    pub fn is_too_long(&self) -> bool {
        self.is(libc::EMSGSIZE)
    }

    /// The kind of the underlying error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// What was being done, a verb in the infinitive.
    pub fn doing(&self) -> &'static str {
        self.doing
    }

    /// What it was done to.
    pub fn what(&self) -> &str {
        &self.what
    }
}

/// Adds the deed and its object to an error of the system.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, what: impl Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, doing: &'static str, what: impl Display) -> Result<T> {
        self.map_err(|source| SysError::new(doing, what, source))
    }
}

/// Turns the `-1 and errno` convention of libc into a `Result`.
pub(crate) fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// The same for `syscall(2)`, which returns a long.
pub(crate) fn check_long(returned: libc::c_long) -> io::Result<libc::c_long> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
