//! How a child gets into its job's groups before exec: the parent opens what is needed, and the child only writes.
//!
//! Beware: writing to `cgroup.procs` (v1 or v2) takes a lock whose writer waits for a grace period of the kernel: 8
//! to 16 ms on a quiet machine, and only 8 µs under load, so no throughput test shows it. In v1 a process with one
//! thread writes `0` to `tasks` instead, which takes no such lock; in the unified tree the child is *born* in the
//! group (`process::fork_child`).

use super::files;
use crate::error::{Doing, Result};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Open descriptors of a job's groups, close-on-exec.
#[derive(Debug, Default)]
pub struct JoinHandle {
    tasks: Vec<(PathBuf, File)>,
    unified: Option<Unified>,
}

#[derive(Debug)]
struct Unified {
    path: PathBuf,
    dir: File,
}

impl JoinHandle {
    pub(super) fn open<'a>(unified: Option<&Path>, v1: impl Iterator<Item = &'a Path>) -> Result<JoinHandle> {
        let tasks = v1.map(|dir| {
            let path = dir.join("tasks");
            files::open_write(&path).map(|file| (path, file))
        });
        let unified = unified.map(|dir| {
            let file = File::open(dir).doing("open", dir.display())?;
            Ok(Unified { path: dir.join("cgroup.procs"), dir: file })
        });
        Ok(JoinHandle { tasks: tasks.collect::<Result<_>>()?, unified: unified.transpose()? })
    }

    /// The unified group's directory, in which a child can be born.
    pub fn unified_dir(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|unified| unified.dir.as_fd())
    }

    /// Puts this process, which must have one thread, into the groups. `born_in_unified`: it was cloned into the
    /// unified one; if not, joining that costs the wait described above.
    ///
    /// # Errors
    /// ENODEV when a group was removed meanwhile; ENOSPC from a cpuset without CPUs.
    pub fn join_self(&self, born_in_unified: bool) -> Result<()> {
        for (path, mut tasks) in self.tasks.iter().map(|(path, file)| (path, file)) {
            tasks.write_all(b"0").doing("join", path.display())?;
        }
        match self.unified.as_ref().filter(|_| !born_in_unified) {
            Some(unified) => files::write(&unified.path, "0"),
            None => Ok(()),
        }
    }
}
