//! Who is at the other end of a socket, and becoming a user for good.
//! Looks up no names: callers pass numbers, so that this may be used between fork and exec.

use crate::error::{Doing, Result, SysError};
use crate::keyring;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::{Gid, Uid};
use std::os::fd::AsFd;

/// The process that connected a Unix socket, as the kernel vouches for it at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process number; may be gone or another's by now.
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// The peer of a connected Unix socket.
///
/// # Errors
/// When `socket` is not a Unix socket.
pub fn peer(socket: &impl AsFd) -> Result<Peer> {
    let raw = getsockopt(socket, sockopt::PeerCredentials).doing("ask for", "the peer of a socket")?;
    Ok(Peer { pid: raw.pid(), uid: raw.uid(), gid: raw.gid() })
}

/// The effective user and group of this process.
pub fn own() -> (u32, u32) {
    (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())
}

/// Makes this process that user, with just these supplementary groups, and proves that there is no way back. As at a
/// login it begins a session of the user's: with a keyring of its own, and for the kernel's audit it is the user who acts.
///
/// The order is supplementary groups, group, user: the other way round the first two would be refused. Needs
/// root. On an error the process is between two users and must end. `before` is called last before the user has any rights
/// on this process.
///
/// # Errors
/// Any refusal of the kernel, and a proof that failed (then without an error number).
pub fn become_user(uid: u32, gid: u32, groups: &[u32], before: impl FnOnce()) -> Result<()> {
    keyring::begin_session()?;
    // Fails where there is no audit, or where the user who started the daemon may not be replaced by another.
    let _ = std::fs::write("/proc/self/loginuid", uid.to_string());
    let list: Vec<Gid> = groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
    nix::unistd::setgroups(&list).doing("take the groups of uid", uid)?;
    let group = Gid::from_raw(gid);
    nix::unistd::setresgid(group, group, group).doing("become gid", gid)?;
    before();
    let user = Uid::from_raw(uid);
    nix::unistd::setresuid(user, user, user).doing("become uid", uid)?;
    prove(uid, gid)
}

/// The kernel may lie under a faulty module or filter: look, and try to get root back.
fn prove(uid: u32, gid: u32) -> Result<()> {
    let failed = |text: &str| SysError::found("become for good uid", uid, text);
    let users = nix::unistd::getresuid().doing("read back the users of uid", uid)?;
    let groups = nix::unistd::getresgid().doing("read back the groups of uid", uid)?;
    if [users.real, users.effective, users.saved].iter().any(|id| id.as_raw() != uid) {
        return Err(failed("a user id did not change"));
    }
    if [groups.real, groups.effective, groups.saved].iter().any(|id| id.as_raw() != gid) {
        return Err(failed("a group id did not change"));
    }
    let root = Uid::from_raw(0);
    if uid != 0 && nix::unistd::setresuid(root, root, root).is_ok() {
        return Err(failed("root could be regained"));
    }
    Ok(())
}
