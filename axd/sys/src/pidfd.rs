//! Processes by descriptor, and their identity across restarts of ours. Never trust a process number alone: only
//! together with the time at which the process started is it unique for a boot.

use crate::error::{Doing, Result, SysError, check, check_long};
use crate::kernel_file;
use crate::signals::Signal;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::str::FromStr;
use std::time::Duration;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// It died by this signal.
    Signal {
        /// Number of the signal.
        number: i32,
        /// Whether it left a core dump.
        core: bool,
    },
}

/// A process held by a descriptor, which is readable once the process has ended.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
    pid: i32,
}

impl PidFd {
    /// The process that has this number now.
    ///
    /// # Errors
    /// ESRCH if there is none.
    pub fn open(pid: i32) -> Result<PidFd> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let opened = check_long(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) });
        let raw = opened.doing("open process", pid)?;
        let raw = i32::try_from(raw).map_err(io::Error::other).doing("open process", pid)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(PidFd { fd: unsafe { OwnedFd::from_raw_fd(raw) }, pid })
    }

    /// A descriptor of process `pid` that was made by clone3(2) or received from another process.
    pub fn from_fd(fd: OwnedFd, pid: i32) -> PidFd {
        PidFd { fd, pid }
    }

    /// The process with this identity; `None` if it has ended and been waited for.
    ///
    /// # Errors
    /// When the system refuses for another reason.
    pub fn open_checked(identity: ProcessIdentity) -> Result<Option<PidFd>> {
        let opened = match PidFd::open(identity.pid) {
            Err(error) if error.is(libc::ESRCH) => return Ok(None),
            other => other?,
        };
        // Read after opening: if the number was given to another process before, the start time shows it.
        let same = ProcessIdentity::read(identity.pid)? == Some(identity);
        Ok(same.then_some(opened))
    }

    /// The number of the process.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal; `false` if the process is gone.
    ///
    /// # Errors
    /// EPERM and its like.
    pub fn send_signal(&self, signal: Signal) -> Result<bool> {
        let info = std::ptr::null::<libc::siginfo_t>();
        let fd = self.fd.as_raw_fd();
        // SAFETY: integers and a null pointer, which means "as kill(2) would".
        let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal.number(), info, 0) };
        match check_long(sent) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(error) => Err(error).doing("signal process", self.pid),
        }
    }

    /// Waits until the process has ended (a zombie counts), at most `limit`. Returns whether it has.
    ///
    /// # Errors
    /// When polling fails.
    pub fn wait_ended(&self, limit: Duration) -> Result<bool> {
        wait_for(self.fd.as_fd(), libc::POLLIN, limit).doing("wait for process", self.pid)
    }

    /// Reaps the process and returns how it ended; `None` while it runs. Only for children of this process.
    ///
    /// # Errors
    /// ECHILD for others' children and after the first answer.
    pub fn reap(&self) -> Result<Option<Exit>> {
        // By hand, as nix knows no real-time signals and a job may well die of one.
        // SAFETY: all zeroes is a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = self.fd.as_raw_fd().unsigned_abs();
        // SAFETY: `info` is a valid place for the answer and the descriptor is open.
        let waited =
            check(unsafe { libc::waitid(libc::P_PIDFD, id, &mut info, libc::WEXITED | libc::WNOHANG) });
        waited.doing("wait for process", self.pid)?;
        // SAFETY: waitid has filled these fields, or left the zeroes when there was nothing to say.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        Ok((pid != 0).then_some(match info.si_code {
            libc::CLD_EXITED => Exit::Code(status),
            code => Exit::Signal { number: status, core: code == libc::CLD_DUMPED },
        }))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A process, unique for this boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The identity of the process that has this number now; `None` if there is none.
    ///
    /// # Errors
    /// When `/proc` can't be read or says something unknown.
    pub fn read(pid: i32) -> Result<Option<ProcessIdentity>> {
        let stat = ProcStat::read(pid)?;
        Ok(stat.map(|stat| ProcessIdentity { pid, start_ticks: stat.start_ticks }))
    }

    /// The identity of this process.
    ///
    /// # Errors
    /// As [`ProcessIdentity::read`].
    pub fn own() -> Result<ProcessIdentity> {
        let pid = nix::unistd::getpid().as_raw();
        let found = ProcessIdentity::read(pid)?;
        found.ok_or_else(|| SysError::found("read the identity of process", pid, "it is not in /proc"))
    }
}

impl fmt::Display for ProcessIdentity {
    /// `pid:start`, which [`FromStr`] reads.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.pid, self.start_ticks)
    }
}

/// A text that is no process identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no process identity (number, colon, start time)")]
pub struct BadIdentity(String);

impl FromStr for ProcessIdentity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> std::result::Result<ProcessIdentity, BadIdentity> {
        let parts = text.split_once(':');
        let parsed = parts.and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
        let (pid, start_ticks) = parsed.ok_or_else(|| BadIdentity(text.to_owned()))?;
        Ok(ProcessIdentity { pid, start_ticks })
    }
}

/// The three fields of `/proc/PID/stat` that ax uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) state: u8,
    pub(crate) parent: i32,
    pub(crate) start_ticks: u64,
}

impl ProcStat {
    pub(crate) fn read(pid: i32) -> Result<Option<ProcStat>> {
        let path = format!("/proc/{pid}/stat");
        let text = match kernel_file::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The process ended between open and read.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
            other => other.doing("read", &path)?,
        };
        let parsed = ProcStat::parse(&text);
        parsed.map(Some).ok_or_else(|| SysError::found("read", path, "it has an unknown form"))
    }

    /// The name in parentheses may itself hold blanks, parentheses and line ends: count from the last one.
    fn parse(text: &[u8]) -> Option<ProcStat> {
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(&text[close + 1..]).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(ProcStat {
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it only waits to be reaped.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// poll(2) on one descriptor; whether anything happened within the limit. Starts anew after a signal.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, events: libc::c_short, limit: Duration) -> io::Result<bool> {
    let end = std::time::Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        // Rounded up: with 0 for less than a millisecond the loop would spin.
        let timeout = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        // SAFETY: one valid pollfd, and the descriptor outlives the call.
        match check(unsafe { libc::poll(&mut poll, 1, timeout) }) {
            Ok(ready) => return Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
