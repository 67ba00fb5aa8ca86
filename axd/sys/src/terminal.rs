//! The terminal of a program that fills the screen: delivers keys as they are pressed, and restores the former
//! settings.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use crate::error::{Doing, Result, check};
use nix::sys::signal::{Signal, raise};

/// The settings of a terminal: plain data, so that a panic handler can restore them.
#[derive(Clone, Copy)]
pub struct Settings {
    tty: RawFd,
    before: libc::termios,
}

impl Settings {
    /// Makes the terminal deliver each key at once, without printing or interpreting it. The descriptor must stay
    /// open as long as the settings may be restored; standard input does.
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

    /// Takes the terminal over again, after it was restored.
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

    /// Restores the settings. If the terminal is gone, there is nothing else to do.
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
