//! Starts supervisors: `axrun --starter` forks them, which is cheaper than executing the program for each; if it is
//! missing or does not answer, the program is executed. Either way the supervisor is a child of this daemon, and
//! outlives it.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_sys::pidfd::PidFd;
use ax_sys::process::Spawn;
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::signals::Signal;
use ax_sys::{SysError, socket};

/// The socket to axd in what is started.
const OUR_SOCKET: i32 = 3;

/// A fork takes well under a millisecond. Should an answer be late, a second supervisor is started and finds the
/// lease of the first.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than the usual path of an attempt's folder.
const ROOM: usize = 400;

/// Starts supervisors.
#[derive(Debug)]
pub(crate) struct Starter {
    axrun: PathBuf,
    helper: Option<Helper>,
}

#[derive(Debug)]
struct Helper {
    process: PidFd,
    socket: OwnedFd,
}

impl Starter {
    /// Nothing is started before the first supervisor.
    pub(crate) fn new(axrun: &Path) -> Starter {
        Starter { axrun: axrun.to_owned(), helper: None }
    }

    /// Starts the supervisor of the attempt in this folder; `theirs` is its end of a socket.
    pub(crate) fn start(&mut self, folder: &Path, theirs: BorrowedFd<'_>) -> Result<PidFd, SysError> {
        if self.helper.is_none() {
            self.helper = self.new_helper().ok();
        }
        match self.helper.as_ref().and_then(|helper| helper.start(folder, theirs)) {
            Some(process) => Ok(process),
            None => {
                self.helper = None;
                self.run(&[c"--supervise".to_owned(), text(folder)], theirs)
            }
        }
    }

    fn new_helper(&self) -> Result<Helper, SysError> {
        let (socket, theirs) = socket::message_pair()?;
        Ok(Helper { process: self.run(&[c"--starter".to_owned(), room()], theirs.as_fd())?, socket })
    }

    fn run(&self, words: &[CString], theirs: BorrowedFd<'_>) -> Result<PidFd, SysError> {
        Spawn {
            program: text(&self.axrun),
            arguments: [&[c"axrun".to_owned()], words].concat(),
            environment: environment(),
            descriptors: vec![(theirs, OUR_SOCKET)],
            directory: Some(c"/".to_owned()),
            new_session: true,
        }
        .start()
    }
}

impl Helper {
    fn start(&self, folder: &Path, theirs: BorrowedFd<'_>) -> Option<PidFd> {
        socket::send(&self.socket, folder.as_os_str().as_encoded_bytes(), &[theirs]).ok()?;
        let mut buffer = [0; 16];
        let Incoming::Message(length) = seqpacket::receive_within(&self.socket, &mut buffer, PATIENCE) else {
            return None;
        };
        let pid: i32 = std::str::from_utf8(buffer.get(..length)?).ok()?.parse().ok()?;
        // It is our child and not reaped: the number can't have changed hands.
        (pid > 0).then(|| PidFd::open(pid).ok()).flatten()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // One that is dead already, or about to be: it holds nothing.
        let _ = self.process.send_signal(Signal::KILL);
        let _ = self.process.wait_ended(PATIENCE);
        let _ = self.process.reap();
    }
}

/// An argument that leaves room for each supervisor to show what it is.
fn room() -> CString {
    CString::new([b' '; ROOM]).unwrap_or_default()
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default()
}

/// What supervisors inherit: nothing but where a test wants them to die.
#[cfg(feature = "crash-points")]
fn environment() -> Vec<CString> {
    let of = |name: &str| CString::new(format!("{name}={}", std::env::var(name).ok()?)).ok();
    ["AX_CRASH_POINT", "AX_CRASH_LOG"].into_iter().filter_map(of).collect()
}

/// What supervisors inherit: nothing.
#[cfg(not(feature = "crash-points"))]
fn environment() -> Vec<CString> {
    Vec::new()
}
