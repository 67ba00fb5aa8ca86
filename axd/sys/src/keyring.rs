//! The session keyring (session-keyring(7)), in which a login session keeps its secrets. A process possesses the
//! keyring that it is born into, whichever user it becomes. Jobs that share one can read and destroy each other's
//! secrets, so each job gets a keyring of its own.

use crate::error::{Doing, Result, SysError, check_long};
use std::io;

/// The possessor may do everything but link the keyring elsewhere or change its permissions: so it is gone with its
/// last process. It is charged to the user who made it, which others could fill by keeping many. The owner's rights
/// are the kernel's default.
const PERMISSIONS: libc::c_ulong = 0x0f03_0000;

/// Gives this process, and everything that it starts, an empty session keyring of its own, which ends with the last
/// of them. Call it before a change of user: the keyring belongs to the present user. On a machine that refuses all
/// keyrings, as containers do, there is none to share.
///
/// # Errors
/// EDQUOT when there may be no more, and any refusal that leaves this process with a keyring in reach.
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

/// True if all keyrings are refused, by the kernel's build or by a filter.
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

/// The keyring of this process.
fn own() -> io::Result<libc::c_long> {
    let own = libc::KEY_SPEC_SESSION_KEYRING;
    // SAFETY: takes two integers; the last says that none is to be made.
    check_long(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_GET_KEYRING_ID, own, 0) })
}
