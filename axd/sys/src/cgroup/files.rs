//! Reading and writing control files, and walking a tree of groups.
//! A group or file that is gone is an ordinary answer here: jobs end while we look.

use crate::error::{Doing, Result};
use crate::kernel_file;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A bound on the groups that are walked: a job could make groups without end if they were delegated to it.
const MAX_GROUPS: usize = 65_536;

/// Writes a value to a control file that exists.
pub(super) fn write(path: &Path, value: &str) -> Result<()> {
    open_write(path)?
        .write_all(value.as_bytes())
        .doing("write", format_args!("{value} to {}", path.display()))
}

/// Opens a control file for writing; never makes one.
pub(super) fn open_write(path: &Path) -> Result<File> {
    OpenOptions::new().write(true).open(path).doing("open", path.display())
}

/// The text of a control file; `None` if it or its group is gone or the kernel does not have it.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match kernel_file::read_text(path) {
        Err(error) if absent(&error) => Ok(None),
        other => other.doing("read", path.display()).map(Some),
    }
}

/// A control file that holds one number; `None` also for `max`.
pub(super) fn read_number(path: &Path) -> Result<Option<u64>> {
    Ok(read(path)?.and_then(|text| text.trim().parse().ok()))
}

/// One line `key value` of a flat control file.
pub(super) fn read_key(path: &Path, key: &str) -> Result<Option<u64>> {
    Ok(read(path)?.and_then(|text| key_of(&text, key)))
}

pub(super) fn key_of(text: &str, key: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(found, _)| *found == key)?.1.trim().parse().ok()
}

/// ENODEV: the group was removed while its file was open. EOPNOTSUPP: a threaded group lists no processes.
fn absent(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP].iter().any(|known| errno == Some(*known))
}

/// A group and all groups below it, parents first.
pub(super) fn descend(top: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![top.to_owned()];
    let mut next = 0;
    while next < found.len() && found.len() < MAX_GROUPS {
        let entries = match std::fs::read_dir(&found[next]) {
            Err(error) if absent(&error) => None,
            other => Some(other.doing("list", found[next].display())?),
        };
        let directory = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let below = entries.into_iter().flatten().filter_map(io::Result::ok).filter(directory);
        found.extend(below.map(|entry| entry.path()));
        next += 1;
    }
    Ok(found)
}

/// Numbers of all processes in a group and below it.
pub(super) fn members(top: &Path) -> Result<Vec<i32>> {
    let mut pids = Vec::new();
    for group in descend(top)? {
        let text = read(&group.join("cgroup.procs"))?.unwrap_or_default();
        // 0 stands for a process that our process namespace does not see.
        pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    }
    pids.sort_unstable();
    pids.dedup();
    Ok(pids)
}
