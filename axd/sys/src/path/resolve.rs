//! Two ways from a directory to a name below it: openat2(2), and a walk for kernels before 5.6.
//! Both refuse the same paths with the same error numbers.

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fstatat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// How names are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolver {
    /// openat2(2) where the kernel has it, else the walk.
    #[default]
    Kernel,
    /// Component by component with O_NOFOLLOW.
    Walk,
}

/// Set once the kernel has said that it does not know openat2.
static NO_OPENAT2: AtomicBool = AtomicBool::new(false);

/// openat2 says EAGAIN when something on the path was renamed meanwhile; a hostile user can do that for ever.
const RACES: u32 = 32;

impl Resolver {
    pub(super) fn open(
        self,
        base: BorrowedFd<'_>,
        relative: &Path,
        flags: OFlag,
        mode: u32,
    ) -> Result<OwnedFd, Errno> {
        check(relative)?;
        // openat2 is strict where open is lenient: a mode without O_CREAT is an error.
        let makes = flags.contains(OFlag::O_CREAT) || flags.contains(OFlag::O_TMPFILE);
        let mode = Mode::from_bits_truncate(if makes { mode } else { 0 });
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        if self == Resolver::Kernel && !NO_OPENAT2.load(Ordering::Relaxed) {
            match by_kernel(base, relative, flags, mode) {
                Err(Errno::ENOSYS) => NO_OPENAT2.store(true, Ordering::Relaxed),
                other => return other,
            }
        }
        by_walk(base, relative, flags, mode)
    }
}

/// The part of a path above its last component (`None` for a plain name), and that component.
pub(super) fn split(relative: &Path) -> Result<(Option<&Path>, &OsStr), Errno> {
    check(relative)?;
    let name = relative.file_name().ok_or(Errno::EINVAL)?;
    let above = relative.parent().filter(|above| !above.as_os_str().is_empty());
    Ok((above, name))
}

/// Only plain names: the kernel would allow `a/../b`, the walk would not.
fn check(relative: &Path) -> Result<(), Errno> {
    if relative.as_os_str().is_empty() {
        return Err(Errno::ENOENT);
    }
    let leaves = |part| !matches!(part, Component::Normal(_) | Component::CurDir);
    if relative.components().any(leaves) { Err(Errno::EXDEV) } else { Ok(()) }
}

fn by_kernel(base: BorrowedFd<'_>, relative: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    // RESOLVE_NO_SYMLINKS refuses the last component too, unless O_NOFOLLOW asks (with O_PATH) for the link itself.
    let flags = flags.difference(OFlag::O_NOFOLLOW);
    let how = OpenHow::new().flags(flags).mode(mode).resolve(resolve);
    for _ in 1..RACES {
        match openat2(base, relative, how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            other => return other,
        }
    }
    openat2(base, relative, how)
}

fn by_walk(base: BorrowedFd<'_>, relative: &Path, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let Ok((above, name)) = split(relative) else { return openat(base, ".", flags, mode) };
    let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut here: Option<OwnedFd> = None;
    for part in above.into_iter().flat_map(Path::components) {
        let from = here.as_ref().map_or(base, AsFd::as_fd);
        let next = openat(from, part.as_os_str(), step, Mode::empty());
        here = Some(next.map_err(|errno| link_or(errno, from, part.as_os_str()))?);
    }
    let from = here.as_ref().map_or(base, AsFd::as_fd);
    let opened = openat(from, name, flags, mode).map_err(|errno| link_or(errno, from, name))?;
    refuse_link(opened, flags)
}

/// O_DIRECTORY on a link says ENOTDIR; say ELOOP as openat2 does.
fn link_or(errno: Errno, from: BorrowedFd<'_>, name: &OsStr) -> Errno {
    let stat = fstatat(from, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    let link = stat.is_ok_and(|raw| raw.st_mode & libc::S_IFMT == libc::S_IFLNK);
    if errno == Errno::ENOTDIR && link { Errno::ELOOP } else { errno }
}

/// O_PATH with O_NOFOLLOW opens a link itself where openat2 refuses.
fn refuse_link(fd: OwnedFd, flags: OFlag) -> Result<OwnedFd, Errno> {
    if flags.contains(OFlag::O_PATH) {
        let raw = nix::sys::stat::fstat(&fd)?;
        if raw.st_mode & libc::S_IFMT == libc::S_IFLNK {
            return Err(Errno::ELOOP);
        }
    }
    Ok(fd)
}
