//! Signals: their names, their defaults for a new job, and reading them from a descriptor. No handlers are installed
//! here. A process that blocks signals for [`SignalWatch`] must call [`reset_all`] in its children, since masks and
//! ignored signals survive exec.

use crate::error::{Doing, Result, check};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;

/// A signal that exists on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

/// The ends of the range that Linux offers to programs; glibc keeps 32 and 33 for itself.
const RT_MIN: i32 = 34;
const RT_MAX: i32 = 64;

#[rustfmt::skip]
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
    "WINCH", "IO", "PWR", "SYS",
];

impl Signal {
    /// Hang-up.
    pub const HUP: Signal = Signal(libc::SIGHUP);
    /// Interrupt from the keyboard.
    pub const INT: Signal = Signal(libc::SIGINT);
    /// The end that can't be refused.
    pub const KILL: Signal = Signal(libc::SIGKILL);
    /// First signal for users.
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    /// Second signal for users.
    pub const USR2: Signal = Signal(libc::SIGUSR2);
    /// The polite end.
    pub const TERM: Signal = Signal(libc::SIGTERM);
    /// A child changed.
    pub const CHLD: Signal = Signal(libc::SIGCHLD);
    /// Go on.
    pub const CONT: Signal = Signal(libc::SIGCONT);
    /// The terminal has another size.
    pub const WINCH: Signal = Signal(libc::SIGWINCH);
    /// Ctrl-Z.
    pub const TSTP: Signal = Signal(libc::SIGTSTP);
    /// Ctrl-backslash.
    pub const QUIT: Signal = Signal(libc::SIGQUIT);
    /// The halt that can't be refused.
    pub const STOP: Signal = Signal(libc::SIGSTOP);

    /// The signal with this number; `None` if programs may not use it.
    pub fn from_number(number: i32) -> Option<Signal> {
        ((1..=31).contains(&number) || (RT_MIN..=RT_MAX).contains(&number)).then_some(Signal(number))
    }

    /// Its number on this machine.
    pub fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match usize::try_from(self.0 - 1).ok().and_then(|index| NAMES.get(index)) {
            Some(name) => out.write_str(name),
            None if self.0 == RT_MIN => out.write_str("RTMIN"),
            None => write!(out, "RTMIN+{}", self.0 - RT_MIN),
        }
    }
}

/// A text that names no signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no signal (a name such as USR1 or SIGUSR1, or a number from 1 to 64)")]
pub struct UnknownSignal(String);

impl FromStr for Signal {
    type Err = UnknownSignal;

    /// Reads `USR1`, `SIGUSR1` (any case), `RTMIN+2`, `RTMAX-1` or `10`.
    fn from_str(text: &str) -> std::result::Result<Signal, UnknownSignal> {
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        number_of(name).and_then(Signal::from_number).ok_or_else(|| UnknownSignal(text.to_owned()))
    }
}

fn number_of(name: &str) -> Option<i32> {
    if let Some(index) = NAMES.iter().position(|known| *known == name) {
        return i32::try_from(index + 1).ok();
    }
    match name {
        "CLD" => return Some(libc::SIGCHLD),
        "POLL" => return Some(libc::SIGIO),
        "IOT" => return Some(libc::SIGABRT),
        "RTMIN" => return Some(RT_MIN),
        "RTMAX" => return Some(RT_MAX),
        _ => {}
    }
    let above = name.strip_prefix("RTMIN+").and_then(digits).map(|n| RT_MIN.saturating_add(n));
    let below = name.strip_prefix("RTMAX-").and_then(digits).map(|n| RT_MAX.saturating_sub(n));
    let realtime = above.or(below).filter(|number| (RT_MIN..=RT_MAX).contains(number));
    realtime.or_else(|| digits(name))
}

/// A number without sign or blanks, which `parse` alone would let through.
fn digits(text: &str) -> Option<i32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Gives every signal its default effect and blocks none: the state in which foreign code must start.
/// For the child between fork and exec.
///
/// # Errors
/// Only if the kernel refuses a mask, which it never does.
pub fn reset_all() -> Result<()> {
    // The kernel's structure is all zeroes for "default": handler, flags, restorer, mask.
    let default = [0_u64; 4];
    for number in 1..=RT_MAX {
        let previous = std::ptr::null_mut::<u64>();
        // Past glibc, which hides two signals and leaves those ignored in every program that it spawns.
        // SAFETY: `default` is at least as large as the kernel's structure, a mask has 8 bytes, and nothing is
        // written back. KILL and STOP answer EINVAL, which is right.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), previous, 8_usize) };
    }
    unblock_all()
}

/// Unblocks everything: enough in a child of a process that has called [`reset_all`] and ignores nothing.
///
/// # Errors
/// Only if the kernel refuses a mask, which it never does.
pub fn unblock_all() -> Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None).doing("clear", "the signal mask")
}

/// Ignores a signal in this process (SIGPIPE in a daemon). Children inherit that; see [`reset_all`].
///
/// # Errors
/// For KILL and STOP.
pub fn ignore(signal: Signal) -> Result<()> {
    // SAFETY: SIG_IGN is a valid disposition for any signal; no handler of ours is involved.
    let previous = unsafe { libc::signal(signal.0, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { check(-1).doing("ignore", signal).map(drop) } else { Ok(()) }
}

/// Signals delivered through a descriptor instead of a handler, for a single-threaded poll loop.
#[derive(Debug)]
pub struct SignalWatch {
    fd: SignalFd,
}

impl SignalWatch {
    /// Blocks these signals for this thread and opens the descriptor (non-blocking, close-on-exec).
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn new(signals: &[Signal]) -> Result<SignalWatch> {
        let mut raw = SigSet::empty();
        for signal in signals {
            let known = nix::sys::signal::Signal::try_from(signal.0).doing("watch for", signal)?;
            raw.add(known);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&raw), None).doing("block", "signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(SignalWatch { fd: SignalFd::with_flags(&raw, flags).doing("open", "a signal descriptor")? })
    }

    /// The next signal that arrived; `None` when there is none for now.
    ///
    /// # Errors
    /// When the descriptor fails.
    pub fn next(&self) -> Result<Option<Signal>> {
        let got = self.fd.read_signal().doing("read", "a signal descriptor")?;
        Ok(got.and_then(|info| Signal::from_number(i32::try_from(info.ssi_signo).unwrap_or(0))))
    }
}

impl AsFd for SignalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
