//! Reads a directory's names bit by bit, for directories that others fill: as many at a time as the reader wants.

use super::{Dir, FileType, Meta};
use crate::error::{Doing, Result};
use nix::dir::{OwningIter, Type};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One name of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: OsString,
    /// What it was when the directory was read, where the file system says so.
    pub file_type: Option<FileType>,
}

/// The names of a directory, without `.` and `..`, in no order. What comes or goes meanwhile may be seen or not.
pub struct Names {
    stream: OwningIter,
    path: PathBuf,
}

impl Dir {
    /// Begins to read this directory's names.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn names(&self) -> Result<Names> {
        // A fresh open file: its position is shared with no other.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let path = self.path().to_owned();
        let fd = openat(self, ".", flags, Mode::empty()).doing("open directory", path.display())?;
        let stream = nix::dir::Dir::from_fd(fd).doing("list", path.display())?.into_iter();
        Ok(Names { stream, path })
    }

    /// Opens the directory `relative`, unless something is mounted there: an ordinary user may mount a file system on
    /// a directory of theirs, and it may never answer. A mount is detected without asking it anything.
    ///
    /// # Errors
    /// EXDEV for a mount, and as [`Dir::open_dir`].
    pub fn open_dir_unmounted(&self, relative: impl AsRef<std::path::Path>) -> Result<Dir> {
        let relative = relative.as_ref();
        let what = self.show(relative);
        let place = self.place_unmounted(relative, OFlag::O_DIRECTORY)?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(&place, ".", flags, Mode::empty()).doing("open", what.display())?;
        Ok(Dir { resolver: self.resolver, ..Dir::from_fd(fd, what) })
    }

    /// True if this directory has something of this plain name, of whatever kind. Neither that nor a mount is asked
    /// anything.
    ///
    /// # Errors
    /// EXDEV for a mount, and as [`Dir::open_beneath`].
    pub fn has_unmounted(&self, name: &str) -> Result<bool> {
        match self.place_unmounted(std::path::Path::new(name), OFlag::empty()) {
            Err(error) if error.is(libc::ENOENT) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// What the file system says of `relative`, unless it is a link or something is mounted there.
    ///
    /// # Errors
    /// ELOOP for a link, EXDEV for a mount, and as [`Dir::open_beneath`].
    pub fn look_unmounted(&self, relative: impl AsRef<std::path::Path>) -> Result<std::fs::Metadata> {
        let relative = relative.as_ref();
        let place = File::from(self.place_unmounted(relative, OFlag::empty())?);
        place.metadata().doing("look at", self.show(relative).display())
    }

    /// What this plain name is, itself if it is a link, unless something is mounted there: a name that is a mount may be
    /// one of a file system that answers never.
    ///
    /// # Errors
    /// EXDEV for a mount, and as [`Dir::stat`].
    pub fn stat_unmounted(&self, name: impl AsRef<std::path::Path>) -> Result<Meta> {
        let name = name.as_ref();
        let what = self.show(name);
        let (parent, last) = self.parent(name)?;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let place = openat(parent.as_fd(), last, flags, Mode::empty()).doing("look at", what.display())?;
        self.is_ours(&place, &what)?;
        Meta::of(&place)
    }

    /// Only the place: nothing can be read or written by it, and no file system is asked.
    fn place_unmounted(&self, relative: &std::path::Path, flags: OFlag) -> Result<OwnedFd> {
        let what = self.show(relative);
        let place = self.open_beneath(relative, OFlag::O_PATH | flags, 0)?;
        self.is_ours(&place, &what)?;
        Ok(place)
    }

    /// Whether what was opened belongs to the mount that this directory does.
    fn is_ours(&self, place: &OwnedFd, what: &std::path::Path) -> Result<()> {
        let (there, here) = (mount_of(place), mount_of(self));
        if there.doing("look at", what.display())? != here.doing("look at", what.display())? {
            return Err(nix::errno::Errno::EXDEV).doing("use", what.display());
        }
        Ok(())
    }
}

/// The number of the mount that an open file was reached through.
fn mount_of(fd: &impl AsFd) -> std::io::Result<u64> {
    mount_by_statx(fd).map_or_else(|| mount_by_proc(fd), Ok)
}

/// In one call; not on kernels before 5.8. Asks for nothing else: the kernel knows this without asking a file system.
fn mount_by_statx(fd: &impl AsFd) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let mut found = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let raw = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open, the path is empty and ends with NUL, and `found` is a valid place for the answer.
    let done = unsafe { libc::statx(raw, c"".as_ptr(), flags, libc::STATX_MNT_ID, found.as_mut_ptr()) };
    // SAFETY: all zeroes is a valid value of this structure.
    let found = unsafe { found.assume_init() };
    (done == 0 && found.stx_mask & libc::STATX_MNT_ID != 0).then_some(found.stx_mnt_id)
}

fn mount_by_proc(fd: &impl AsFd) -> std::io::Result<u64> {
    use std::os::fd::AsRawFd;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| std::io::Error::other("the kernel does not say its mount"))
}

impl Iterator for Names {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            let entry = match self.stream.next()?.doing("list", self.path.display()) {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let file_type = entry.file_type().map(|file_type| match file_type {
                    Type::File => FileType::Regular,
                    Type::Directory => FileType::Directory,
                    Type::Symlink => FileType::Link,
                    _ => FileType::Special,
                });
                return Some(Ok(Entry { name: OsStr::from_bytes(name).to_owned(), file_type }));
            }
        }
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_ask_for_a_mount_agree() {
        let mounts: Vec<_> = ["/", "/proc", "/dev"].map(|path| File::open(path).unwrap()).into();
        let by_proc: Vec<_> = mounts.iter().map(|file| mount_by_proc(file).unwrap()).collect();
        assert_ne!(by_proc[0], by_proc[1]);
        // On kernels before 5.8 there is but one.
        let by_statx: Option<Vec<_>> = mounts.iter().map(mount_by_statx).collect();
        assert_eq!(by_statx.unwrap_or(by_proc.clone()), by_proc);
    }
}
