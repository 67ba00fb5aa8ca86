//! The terminal of a program that fills the screen: keys as they are pressed, and everything as it was afterwards.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::error::{Doing, Result, check};
use nix::sys::signal::{Signal, raise};

/// How a terminal was set: plain data, so that a panic's last words can put it back.
#[derive(Clone, Copy)]
pub struct Settings {
    tty: RawFd,
    before: libc::termios,
}

impl Settings {
    /// Has the terminal hand over each key at once, and neither print nor interpret any. The descriptor must stay open
    /// for as long as the settings may be put back: that of standard input does.
    ///
    /// # Errors
    /// When it is no terminal.
    pub fn take_over(tty: &impl AsFd) -> Result<Settings> {
        let tty = tty.as_fd().as_raw_fd();
        // SAFETY: a structure of numbers, for which all zeroes is a value.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is ours and as large as the call expects.
        check(unsafe { libc::tcgetattr(tty, &mut before) })
            .doing("ask for the settings of", "the terminal")?;
        let settings = Settings { tty, before };
        settings.again()?;
        Ok(settings)
    }

    /// Takes it over once more, after it was put back.
    ///
    /// # Errors
    /// When it is no terminal any more.
    pub fn again(&self) -> Result<()> {
        let mut raw = self.before;
        // SAFETY: the structure is ours.
        unsafe { libc::cfmakeraw(&mut raw) };
        // SAFETY: as above; nothing is kept.
        check(unsafe { libc::tcsetattr(self.tty, libc::TCSADRAIN, &raw) })
            .doing("change the settings of", "the terminal")
            .map(drop)
    }

    /// Puts it back. Nobody can do more about a terminal that is gone.
    pub fn put_back(&self) {
        // SAFETY: the structure is ours; nothing is kept.
        let _ = unsafe { libc::tcsetattr(self.tty, libc::TCSADRAIN, &self.before) };
    }
}

/// Halts this process as Ctrl-Z would; returns when it is told to go on.
///
/// # Errors
/// Never, on Linux.
pub fn halt() -> Result<()> {
    raise(Signal::SIGSTOP).doing("halt", "this process")
}
