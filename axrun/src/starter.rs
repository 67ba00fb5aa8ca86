//! Starts supervisors for axd: a process that has paid the cost of a program start once, and forks for each attempt.
//! What it starts is a child of axd, like one that axd executes; if this process is gone, axd executes supervisors
//! itself. It has no state, and ends with axd.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ax_sys::process::{self, CommandLine};
use ax_sys::{clock, seqpacket, socket};

use crate::failure::Failure;
use crate::supervise;

/// The number under which axd hands over its end of a socket.
const AXD_SOCKET: i32 = 3;

/// A path, and some room.
const MESSAGE_MAX: usize = 8192;

/// Serves until axd closes its end.
pub(crate) fn run() -> Result<(), Failure> {
    let Some(axd) = seqpacket::inherited(AXD_SOCKET) else {
        return Err(Failure::Usage("--starter is for axd alone".to_owned()));
    };
    process::close_from(AXD_SOCKET + 1, &[]).map_err(Failure::system)?;
    supervise::become_supervisor().map_err(Failure::system)?;
    // Each will write it down: asked for once.
    let _ = clock::boot_id();
    // That they can't be told apart by ps(1) is no reason not to start them.
    let shown = CommandLine::own().ok();
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let received = socket::receive(&axd, &mut buffer).map_err(Failure::system)?;
        if received.length == 0 {
            return Ok(());
        }
        let folder = Path::new(OsStr::from_bytes(&buffer[..received.length]));
        // A number that no process has says that it did not work.
        let started =
            received.fds.into_iter().next().map_or(0, |supervisors| start(folder, supervisors, shown));
        seqpacket::send(&axd, started.to_string().as_bytes());
    }
}

fn start(folder: &Path, supervisors: OwnedFd, shown: Option<CommandLine>) -> i32 {
    let run = || {
        // Nobody needs these in the child; the one that is kept is known by its number.
        let _ = process::close_from(AXD_SOCKET, &[supervisors.as_raw_fd()]);
        let words = [OsStr::new("axrun"), OsStr::new("--supervise"), folder.as_os_str()];
        if let Some(line) = shown {
            line.show(&words);
        }
        crate::exit_code(supervise::run_for(folder, Some(supervisors)))
    };
    process::fork_sibling(run).unwrap_or(0)
}
