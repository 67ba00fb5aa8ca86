//! Which descriptors a program finds open.

use crate::error::{Doing, Result, check, check_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Marks every descriptor from `first` on close-on-exec. To be preferred to [`close_from`] before exec: the pipe
/// on which a failed exec is reported stays usable.
///
/// # Errors
/// Only where neither close_range(2) nor `/proc` works.
pub fn close_on_exec_from(first: RawFd) -> Result<()> {
    match close_range(first, RawFd::MAX, libc::CLOSE_RANGE_CLOEXEC) {
        Ok(()) => Ok(()),
        // Before Linux 5.11 the flag is unknown, before 5.9 the call.
        Err(_) => each_open(first, |fd| {
            // SAFETY: changes a flag of a descriptor; a closed one answers EBADF.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }),
    }
}

/// Closes every descriptor from `first` on but those in `keep`.
///
/// Meant for programs that have just started and own nothing yet: a value that thinks it owns one of these
/// descriptors would later close a stranger's.
///
/// # Errors
/// Only where neither close_range(2) nor `/proc` works.
pub fn close_from(first: RawFd, keep: &[RawFd]) -> Result<()> {
    let mut kept: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd >= first).collect();
    kept.sort_unstable();
    let mut from = first;
    for fd in kept.iter().copied().chain([RawFd::MAX]) {
        if fd > from && close_range(from, fd - 1, 0).is_err() {
            return each_open(first, |open| {
                if !keep.contains(&open) {
                    // SAFETY: by the contract of this function nobody owns the descriptor.
                    unsafe { libc::close(open) };
                }
            });
        }
        from = fd.saturating_add(1);
    }
    Ok(())
}

/// Puts descriptors at fixed numbers, where the next program finds them, whatever the overlap between old and
/// new numbers. For the child before exec. Other descriptors at the target numbers are closed.
///
/// # Errors
/// What dup(2) says.
pub fn place(wanted: &[(BorrowedFd<'_>, RawFd)]) -> Result<()> {
    // First out of the way: dup2 onto its own number would leave close-on-exec set, and one target may be
    // another's source.
    let floor = wanted.iter().map(|(_, target)| target + 1).max().unwrap_or(0).max(10);
    let moved = wanted.iter().map(|(fd, target)| Ok((duplicate_above(*fd, floor)?, *target)));
    for (copy, target) in moved.collect::<Result<Vec<_>>>()? {
        // SAFETY: both numbers are valid; what was at `target` is meant to go, by the contract.
        check(unsafe { libc::dup2(copy.as_raw_fd(), target) }).doing("place descriptor", target)?;
    }
    Ok(())
}

/// A close-on-exec copy whose number is at least `floor`.
pub(super) fn duplicate_above(fd: BorrowedFd<'_>, floor: RawFd) -> Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and returns a new descriptor.
    let raw = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, floor) })
        .doing("copy descriptor", fd.as_raw_fd())?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: takes three integers. With the flag nothing is closed; without it `close_from` answers for it.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    check_long(done).map(drop)
}

fn each_open(first: RawFd, mut visit: impl FnMut(RawFd)) -> Result<()> {
    const LIST: &str = "/proc/self/fd";
    let entries = std::fs::read_dir(LIST).doing("list", LIST)?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<RawFd>().ok());
    // Collected, as the listing has a descriptor of its own, which is closed by then.
    let open: Vec<RawFd> = names.filter(|fd| *fd >= first).collect();
    open.into_iter().for_each(&mut visit);
    Ok(())
}
