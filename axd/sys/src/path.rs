//! Directories kept open, and names resolved below them without following a link.
//!
//! Everything that root does in directories where others may write goes through [`Dir`]: paths are relative,
//! `..` and absolute paths are refused, symbolic and magic links too, in any component. Only
//! [`Dir::open`] takes an ordinary path and follows links: use it for directories of our own.

mod hostile;
mod names;
mod resolve;
mod tree;

pub use hostile::{Demand, HostileError, is_open_for_writing};
pub use names::{Entry, Names};
pub use nix::fcntl::OFlag;
pub use resolve::Resolver;

use crate::error::{Doing, Result};
use nix::fcntl::{AT_FDCWD, AtFlags, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, linkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Special,
}

/// What fstat(2) says about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Its type.
    pub file_type: FileType,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Permission bits, with set-id and sticky.
    pub mode: u32,
    /// Number of names.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Number of the inode.
    pub inode: u64,
    /// Number of the file system.
    pub device: u64,
    /// Last change of the content, milliseconds since 1970.
    pub modified_ms: i64,
    /// Last change of content, name, owner or mode, milliseconds since 1970: its owner can't set it.
    pub changed_ms: i64,
}

/// What [`Dir::list`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Names without `.` and `..`, in no order.
    pub names: Vec<OsString>,
    /// Whether there were more than the limit.
    pub truncated: bool,
}

/// An open directory: the starting point of relative paths.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    resolver: Resolver,
}

impl Dir {
    /// Opens a directory by an ordinary path. Links are followed: only for paths that no other user controls.
    ///
    /// # Errors
    /// When it is missing, no directory or not readable.
    pub fn open(path: impl AsRef<Path>) -> Result<Dir> {
        let path = path.as_ref();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = nix::fcntl::open(path, flags, Mode::empty()).doing("open directory", path.display())?;
        Ok(Dir { fd, path: path.to_owned(), resolver: Resolver::default() })
    }

    /// A directory that was opened elsewhere, for instance received from another process; `path` is used in
    /// messages alone.
    pub fn from_fd(fd: OwnedFd, path: impl Into<PathBuf>) -> Dir {
        Dir { fd, path: path.into(), resolver: Resolver::default() }
    }

    /// Resolves names in another way. For tests of the way taken on old kernels.
    pub fn with_resolver(mut self, resolver: Resolver) -> Dir {
        self.resolver = resolver;
        self
    }

    /// The path it was opened by, for messages; may have been renamed since.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The full name of `relative`, for messages.
    pub fn show(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.path.join(relative)
    }

    /// Opens `relative` strictly below this directory; no link in any component. `flags` are those of open(2);
    /// close-on-exec is added. `mode` counts when a file is made, less the umask.
    ///
    /// # Errors
    /// ELOOP for a link, EXDEV for a path that would leave the directory, and what open(2) says.
    pub fn open_beneath(&self, relative: impl AsRef<Path>, flags: OFlag, mode: u32) -> Result<OwnedFd> {
        let relative = relative.as_ref();
        self.resolver
            .open(self.fd.as_fd(), relative, flags, mode)
            .doing("open", self.show(relative).display())
    }

    /// Opens `relative` for reading. Never waits for the other end of a pipe.
    ///
    /// # Errors
    /// As [`Dir::open_beneath`].
    pub fn open_file(&self, relative: impl AsRef<Path>) -> Result<File> {
        self.open_beneath(relative, OFlag::O_RDONLY | OFlag::O_NONBLOCK, 0).map(File::from)
    }

    /// Makes the file `relative`, which must not exist, and opens it for reading and writing.
    ///
    /// # Errors
    /// EEXIST if the name is taken, and as [`Dir::open_beneath`].
    pub fn create_file(&self, relative: impl AsRef<Path>, mode: u32) -> Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        self.open_beneath(relative, flags, mode).map(File::from)
    }

    /// Opens the directory `relative`, or this one again for `.`.
    ///
    /// # Errors
    /// As [`Dir::open_beneath`].
    pub fn open_dir(&self, relative: impl AsRef<Path>) -> Result<Dir> {
        let relative = relative.as_ref();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let fd = self.open_beneath(relative, flags, 0)?;
        Ok(Dir { fd, path: self.show(relative), resolver: self.resolver })
    }

    /// Reads a whole file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Dir::open_beneath`], and when it is longer.
    pub fn read(&self, relative: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let relative = relative.as_ref();
        let file = self.open_file(relative)?;
        hostile::read_limited(&file, limit).doing("read", self.show(relative).display())
    }

    /// Makes a directory with exactly these permission bits, whatever the umask.
    ///
    /// # Errors
    /// EEXIST if the name is taken, and what mkdir(2) says.
    pub fn create_dir(&self, relative: impl AsRef<Path>, mode: u32) -> Result<()> {
        let relative = relative.as_ref();
        let what = self.show(relative);
        let (parent, name) = self.parent(relative)?;
        mkdirat(parent.as_fd(), name, bits(mode)).doing("make directory", what.display())?;
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
        let fd =
            self.resolver.open(parent.as_fd(), Path::new(name), flags, 0).doing("open", what.display())?;
        fchmod(&fd, bits(mode)).doing("set the mode of", what.display())
    }

    /// Makes `relative` and all directories on the way that are missing, and opens it.
    ///
    /// # Errors
    /// As [`Dir::create_dir`] and [`Dir::open_dir`].
    pub fn create_dirs(&self, relative: impl AsRef<Path>, mode: u32) -> Result<Dir> {
        let mut here = self.open_dir(".")?;
        for component in relative.as_ref().components() {
            let name = component.as_os_str();
            match here.create_dir(name, mode) {
                Err(error) if !error.is(libc::EEXIST) => return Err(error),
                _ => here = here.open_dir(name)?,
            }
        }
        Ok(here)
    }

    /// Renames `from` to `to` in the directory `target` (may be `self`), in place of whatever had that name.
    ///
    /// # Errors
    /// What rename(2) says.
    pub fn rename(&self, from: impl AsRef<Path>, target: &Dir, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let ((old_dir, old), (new_dir, new)) = (self.parent(from)?, target.parent(to)?);
        renameat(old_dir.as_fd(), old, new_dir.as_fd(), new)
            .doing("rename", format_args!("{} to {}", self.show(from).display(), target.show(to).display()))
    }

    /// Renames unless the new name is taken.
    ///
    /// # Errors
    /// EEXIST if it is; EINVAL on file systems that can't promise it (NFS); what rename(2) says.
    pub fn rename_new(&self, from: impl AsRef<Path>, target: &Dir, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let ((old_dir, old), (new_dir, new)) = (self.parent(from)?, target.parent(to)?);
        renameat2(old_dir.as_fd(), old, new_dir.as_fd(), new, RenameFlags::RENAME_NOREPLACE)
            .doing("rename", format_args!("{} to {}", self.show(from).display(), target.show(to).display()))
    }

    /// Gives the file `from` a second name.
    ///
    /// # Errors
    /// EEXIST if the name is taken; what link(2) says.
    pub fn link(&self, from: impl AsRef<Path>, target: &Dir, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let ((old_dir, old), (new_dir, new)) = (self.parent(from)?, target.parent(to)?);
        linkat(old_dir.as_fd(), old, new_dir.as_fd(), new, AtFlags::empty())
            .doing("link", format_args!("{} to {}", self.show(from).display(), target.show(to).display()))
    }

    /// Gives an open file without a name (O_TMPFILE) the name `to`. Needs `/proc`.
    ///
    /// # Errors
    /// EEXIST if the name is taken, ENOENT if the file ever had a name or `/proc` is missing; what link(2) says.
    pub fn link_open(&self, file: &File, to: impl AsRef<Path>) -> Result<()> {
        let to = to.as_ref();
        let source = format!("/proc/self/fd/{}", file.as_raw_fd());
        let (dir, name) = self.parent(to)?;
        linkat(AT_FDCWD, source.as_str(), dir.as_fd(), name, AtFlags::AT_SYMLINK_FOLLOW)
            .doing("name", self.show(to).display())
    }

    /// Removes a file's name.
    ///
    /// # Errors
    /// What unlink(2) says.
    pub fn unlink(&self, relative: impl AsRef<Path>) -> Result<()> {
        self.remove(relative.as_ref(), UnlinkatFlags::NoRemoveDir)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// What rmdir(2) says.
    pub fn remove_dir(&self, relative: impl AsRef<Path>) -> Result<()> {
        self.remove(relative.as_ref(), UnlinkatFlags::RemoveDir)
    }

    /// What the last component of `relative` is, itself if it is a link.
    ///
    /// # Errors
    /// ENOENT if there is nothing; what stat(2) says.
    pub fn stat(&self, relative: impl AsRef<Path>) -> Result<Meta> {
        let relative = relative.as_ref();
        let (parent, name) = self.parent(relative)?;
        let raw = fstatat(parent.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .doing("look at", self.show(relative).display())?;
        Ok(Meta::from_raw(&raw))
    }

    /// Gives a file or directory another owner and group; a link itself, never its target.
    ///
    /// # Errors
    /// What chown(2) says.
    pub fn chown(&self, relative: impl AsRef<Path>, uid: u32, gid: u32) -> Result<()> {
        let relative = relative.as_ref();
        let (parent, name) = self.parent(relative)?;
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        fchownat(parent.as_fd(), name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
            .doing("change the owner of", self.show(relative).display())
    }

    /// Lists at most `limit` names.
    ///
    /// # Errors
    /// When reading fails.
    pub fn list(&self, limit: usize) -> Result<Listing> {
        // A fresh description: the position of ours is shared with nobody.
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, ".", flags, Mode::empty()).doing("open directory", self.path.display())?;
        let mut stream = nix::dir::Dir::from_fd(fd).doing("list", self.path.display())?;
        let mut names = Vec::new();
        for entry in stream.iter() {
            let entry = entry.doing("list", self.path.display())?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == limit {
                return Ok(Listing { names, truncated: true });
            }
            names.push(OsStr::from_bytes(name).to_owned());
        }
        Ok(Listing { names, truncated: false })
    }

    /// Waits until the directory's names are on the disk.
    ///
    /// # Errors
    /// EIO and its like.
    pub fn sync(&self) -> Result<()> {
        nix::unistd::fsync(&self.fd).doing("sync directory", self.path.display())
    }

    fn remove(&self, relative: &Path, flags: UnlinkatFlags) -> Result<()> {
        let (parent, name) = self.parent(relative)?;
        unlinkat(parent.as_fd(), name, flags).doing("remove", self.show(relative).display())
    }

    /// The directory that holds the last component, and that component.
    fn parent<'a>(&'a self, relative: &'a Path) -> Result<(Parent<'a>, &'a OsStr)> {
        let (above, name) = resolve::split(relative).doing("use", self.show(relative).display())?;
        let Some(above) = above else { return Ok((Parent::Same(self.fd.as_fd()), name)) };
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        Ok((Parent::Other(self.open_beneath(above, flags, 0)?), name))
    }
}

/// The directory itself in the common case that a path is a plain name.
enum Parent<'a> {
    Same(BorrowedFd<'a>),
    Other(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Same(fd) => *fd,
            Parent::Other(fd) => fd.as_fd(),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Meta {
    /// Looks at an open file.
    ///
    /// # Errors
    /// Only for descriptors that can't be asked.
    pub fn of(fd: &impl AsFd) -> Result<Meta> {
        fstat(fd).doing("look at", "an open file").map(|raw| Meta::from_raw(&raw))
    }

    fn from_raw(raw: &nix::sys::stat::FileStat) -> Meta {
        let file_type = match raw.st_mode & libc::S_IFMT {
            libc::S_IFREG => FileType::Regular,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFLNK => FileType::Link,
            _ => FileType::Special,
        };
        Meta {
            file_type,
            uid: raw.st_uid,
            gid: raw.st_gid,
            mode: raw.st_mode & 0o7777,
            links: raw.st_nlink,
            size: raw.st_size.unsigned_abs(),
            inode: raw.st_ino,
            device: raw.st_dev,
            modified_ms: raw.st_mtime * 1000 + raw.st_mtime_nsec / 1_000_000,
            changed_ms: raw.st_ctime * 1000 + raw.st_ctime_nsec / 1_000_000,
        }
    }
}

fn bits(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode)
}
