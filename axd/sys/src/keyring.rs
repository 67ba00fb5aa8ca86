//! The keyring in which a session keeps its secrets (session-keyring(7)). Whoever is born into one possesses it, whoever
//! they become: what they put there others read, and destroy, unless each has a session of its own.

use crate::error::{Doing, Result, SysError, check_long};
use std::io;

/// A possessor may do everything but link it elsewhere or say who else may: so it is gone with its last process. It is on
/// the account of who made it, which others would fill by keeping many. What the owner may is as the kernel has it.
const PERMISSIONS: libc::c_ulong = 0x0f03_0000;

/// From here on this process, and all that it starts, has a session keyring of its own, empty, which ends with the last
/// of them. To be called before a change of user: it counts as whose the process is then. A machine that refuses all
/// keyrings, as containers do, has none to share.
///
/// # Errors
/// EDQUOT when there may be no more, and any refusal that leaves this process where it was, with a keyring in reach.
pub(crate) fn begin_session() -> Result<()> {
    const WHAT: &str = "a session keyring";
    const NO_NAME: libc::c_long = 0;
    // SAFETY: takes a pointer to a name, or none.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, NO_NAME) };
    match check_long(joined) {
        Ok(_) => close().doing("close", WHAT),
        Err(error) if has_none(&error) => Ok(()),
        Err(error) => Err(SysError::new("make", WHAT, error)),
    }
}

/// Whether this refusal is of all keyrings, by the kernel's build or by a filter.
fn has_none(refusal: &io::Error) -> bool {
    let errno = refusal.raw_os_error();
    matches!(errno, Some(libc::ENOSYS | libc::EPERM | libc::EACCES))
        && own().is_err_and(|error| error.raw_os_error() == errno)
}

fn close() -> io::Result<()> {
    let own = libc::KEY_SPEC_SESSION_KEYRING;
    // SAFETY: takes two integers.
    check_long(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SETPERM, own, PERMISSIONS) }).map(drop)
}

/// Which keyring this process has.
fn own() -> io::Result<libc::c_long> {
    let own = libc::KEY_SPEC_SESSION_KEYRING;
    // SAFETY: takes two integers; the last says that none is to be made.
    check_long(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_GET_KEYRING_ID, own, 0) })
}
