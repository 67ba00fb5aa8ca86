//! The daemon's handle on the process that asks the driver: its socket, its mark, its pidfd.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::time::BootTime;
use ax_sys::pidfd::PidFd;
use ax_sys::process::Spawn;
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::signals::Signal;
use ax_sys::{SysError, memory_file, socket};

use super::helper::{MARK, MARK_LENGTH, SOCKET};
use super::message::{Ask, LONGEST_TOLD, Tell};

/// How it is started.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// This program.
    pub(super) program: PathBuf,
    /// The library; `None`: the one that the loader finds.
    pub(super) library: Option<PathBuf>,
    /// Folders below which attempts have their control groups.
    pub(super) groups: Vec<PathBuf>,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) process: PidFd,
    pub(super) socket: OwnedFd,
    mark: File,
    buffer: Vec<u8>,
}

/// What it is doing: the call, the card (empty for all), and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doing {
    pub(super) call: String,
    pub(super) card: String,
    pub(super) since: BootTime,
}

/// What has come from it.
#[derive(Debug)]
pub(super) enum Heard {
    Nothing,
    Told(Tell),
    /// It has ended, or its message makes no sense.
    End,
}

impl Process {
    pub(super) fn start(start: &Start) -> Result<Process, SysError> {
        let (ours, theirs) = socket::message_pair()?;
        let mark = memory_file::empty("ax-nvml-call")?;
        let mut arguments = vec![c"axd".to_owned(), c"--nvml".to_owned()];
        if let Some(library) = &start.library {
            arguments.extend([c"--library".to_owned(), text(library.as_os_str())]);
        }
        for group in &start.groups {
            arguments.extend([c"--group".to_owned(), text(group.as_os_str())]);
        }
        let process = Spawn {
            program: text(start.program.as_os_str()),
            arguments,
            environment: environment(),
            descriptors: vec![(theirs.as_fd(), SOCKET), (mark.as_fd(), MARK)],
            directory: Some(c"/".to_owned()),
            new_session: true,
        }
        .start()?;
        Ok(Process { process, socket: ours, mark, buffer: vec![0; LONGEST_TOLD] })
    }

    /// For tests: another process in its place, with the other end of its socket, in the middle of this call.
    #[cfg(test)]
    pub(super) fn played_by(process: PidFd, call: &str) -> (Process, OwnedFd) {
        let (ours, theirs) = socket::message_pair().unwrap();
        let mark = memory_file::empty("ax-nvml-call").unwrap();
        let mut text = format!("{call}\0\01\0").into_bytes();
        text.resize(MARK_LENGTH, 0);
        mark.write_all_at(&text, 0).unwrap();
        (Process { process, socket: ours, mark, buffer: vec![0; LONGEST_TOLD] }, theirs)
    }

    pub(super) fn ask(&self, ask: &Ask) -> bool {
        serde_json::to_vec(ask).is_ok_and(|text| seqpacket::send(&self.socket, &text))
    }

    /// The next message, if there is one.
    pub(super) fn next(&mut self) -> Heard {
        match seqpacket::receive(&self.socket, &mut self.buffer) {
            Incoming::Nothing => Heard::Nothing,
            Incoming::Message(length) => match serde_json::from_slice(&self.buffer[..length]) {
                Ok(tell) => Heard::Told(tell),
                Err(_) => Heard::End,
            },
            Incoming::TooLong | Incoming::Closed => Heard::End,
        }
    }

    /// Like `next`, but waits for it at most so long.
    pub(super) fn next_within(&mut self, limit: Duration) -> Heard {
        match seqpacket::receive_within(&self.socket, &mut self.buffer, limit) {
            Incoming::Nothing => Heard::Nothing,
            Incoming::Message(length) => match serde_json::from_slice(&self.buffer[..length]) {
                Ok(tell) => Heard::Told(tell),
                Err(_) => Heard::End,
            },
            Incoming::TooLong | Incoming::Closed => Heard::End,
        }
    }

    /// The call that it is in, if any.
    pub(super) fn doing(&self) -> Option<Doing> {
        let mut text = [0; MARK_LENGTH];
        self.mark.read_exact_at(&mut text, 0).ok()?;
        let mut words = text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        let (call, card) = (words.next()?, words.next()?);
        let since = BootTime(words.next()?.parse().unwrap_or(0));
        (!call.is_empty()).then_some(Doing { call, card, since })
    }

    /// Kills it. If it waits for its driver, its end may take time: the caller decides whether to wait.
    pub(super) fn kill(self) -> PidFd {
        // It may have ended by itself.
        let _ = self.process.send_signal(Signal::KILL);
        self.process
    }
}

/// The daemon's own environment, which is set at its start: the loader and NVIDIA's library may need something of it.
fn environment() -> Vec<CString> {
    let word = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
    };
    std::env::vars_os().filter_map(word).collect()
}

fn text(text: &OsStr) -> CString {
    CString::new(text.as_bytes()).unwrap_or_default()
}

/// The folders in the lines of a place's record.
pub(super) fn folders(parents: &[String]) -> Vec<PathBuf> {
    parents
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(_, path)| Path::new(path).to_owned())
        .collect()
}
