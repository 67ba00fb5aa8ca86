//! Watches the names in a directory (inotify), for directories that are mostly quiet. Says only that something
//! changed: look then. Sees only changes made on this machine, not those of other NFS clients.

use crate::error::{Doing, Result};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// A watch on the names in directories; readable when something changed. The removal of a directory that a process
/// holds open shows only in its parent.
#[derive(Debug)]
pub struct DirWatch {
    inotify: Inotify,
}

impl DirWatch {
    /// Watches `path` from now on: look at the directory after this call, not before.
    ///
    /// # Errors
    /// When it is missing or no directory, or there are no watches left.
    pub fn new(path: &Path) -> Result<DirWatch> {
        let flags = InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK;
        let watch = DirWatch { inotify: Inotify::init(flags).doing("watch", path.display())? };
        watch.also(path)?;
        Ok(watch)
    }

    /// Watches another directory as well.
    ///
    /// # Errors
    /// As [`DirWatch::new`].
    pub fn also(&self, path: &Path) -> Result<()> {
        let names = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_ONLYDIR;
        self.inotify.add_watch(path, names).doing("watch", path.display()).map(drop)
    }

    /// Makes it unreadable until the next change. Drain first, then look.
    ///
    /// # Errors
    /// Never in correct programs.
    pub fn drain(&self) -> Result<()> {
        loop {
            match self.inotify.read_events() {
                Ok(_) => {}
                Err(Errno::EAGAIN) => return Ok(()),
                Err(errno) => return Err(errno).doing("read", "a watch"),
            }
        }
    }
}

impl AsFd for DirWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}
