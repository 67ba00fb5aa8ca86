//! Signals to the daemon as data in its loop: HUP makes it read the configuration and open the log again, TERM and
//! INT stop it. Jobs are not affected.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

/// What was asked by signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Read the configuration again.
    Reload,
    /// Stop.
    Stop,
}

/// One self-pipe for each meaning. The mask stays as it is, so that nothing of it reaches jobs.
#[derive(Debug)]
pub(crate) struct Signals {
    reload: UnixStream,
    stop: UnixStream,
}

impl Signals {
    /// Catches the signals from now on.
    pub(crate) fn catch() -> std::io::Result<Signals> {
        let (reload, reload_in) = pair()?;
        let (stop, stop_in) = pair()?;
        pipe::register(SIGHUP, reload_in)?;
        pipe::register(SIGINT, stop_in.try_clone()?)?;
        pipe::register(SIGTERM, stop_in)?;
        Ok(Signals { reload, stop })
    }

    /// The descriptors that become readable.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.reload.as_fd(), self.stop.as_fd()]
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&mut self) -> Vec<Asked> {
        let mut asked = Vec::new();
        for (pipe, meaning) in [(&mut self.reload, Asked::Reload), (&mut self.stop, Asked::Stop)] {
            let mut buffer = [0; 64];
            if matches!(pipe.read(&mut buffer), Ok(count) if count > 0) {
                asked.push(meaning);
            }
        }
        asked
    }
}

fn pair() -> std::io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs))
}
