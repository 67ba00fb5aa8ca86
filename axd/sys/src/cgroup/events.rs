//! Tells when a group has become empty or frozen, without polling.

use crate::error::{Doing, Result};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// An open `cgroup.events` file. Poll it for [`crate::socket::Interest::PRIORITY`]; read it after each event, or the
/// next poll returns at once.
#[derive(Debug)]
pub struct Events {
    file: File,
    path: PathBuf,
}

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventState {
    pub(super) populated: bool,
    pub(super) frozen: bool,
}

impl Events {
    pub(super) fn open(group: &Path) -> Result<Events> {
        let path = group.join("cgroup.events");
        let file = File::open(&path).doing("open", path.display())?;
        Ok(Events { file, path })
    }

    /// True if a process that has not ended is in the group or below. `false` if the group is removed.
    ///
    /// # Errors
    /// When reading fails.
    pub fn populated(&self) -> Result<bool> {
        Ok(self.state()?.populated)
    }

    /// True if every process in the group and below is really frozen, not only asked to freeze.
    ///
    /// # Errors
    /// When reading fails.
    pub fn frozen(&self) -> Result<bool> {
        Ok(self.state()?.frozen)
    }

    pub(super) fn state(&self) -> Result<EventState> {
        let mut buffer = [0; 256];
        let length = match self.file.read_at(&mut buffer, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => 0,
            other => other.doing("read", self.path.display())?,
        };
        Ok(EventState::parse(&String::from_utf8_lossy(&buffer[..length])))
    }
}

impl EventState {
    fn parse(text: &str) -> EventState {
        let set = |key| super::files::key_of(text, key) == Some(1);
        EventState { populated: set("populated"), frozen: set("frozen") }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
