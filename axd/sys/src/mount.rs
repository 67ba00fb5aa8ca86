//! Small file systems in memory, mounted on folders that users fill, to bound what they write.

use crate::error::{Doing, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::Path;

/// How much a file system may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Bytes of files.
    pub bytes: u64,
    /// Files and folders.
    pub entries: u64,
}

/// At most so many may be mounted upon each other.
const LAYERS: u32 = 16;

/// The bit of CAP_SYS_ADMIN among a process's capabilities.
const SYS_ADMIN: u32 = 21;

/// True if this process has the right to mount. If not, [`of_memory`] fails with EPERM.
pub fn is_allowed() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set >> SYS_ADMIN & 1 == 1)
}

/// Mounts a new file system on a folder of ours. It lies in memory, since what is written there need not outlive the
/// machine. Devices, execution and set-id bits have no effect on it. Its top belongs to root and has these permission
/// bits.
///
/// # Errors
/// What mount(2) says: EPERM where it is not allowed.
pub fn of_memory(folder: &Path, bound: Bound, mode: u32) -> Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let data = format!("size={},nr_inodes={},mode={mode:o}", bound.bytes, bound.entries);
    mount(Some("ax"), folder, Some("tmpfs"), flags, Some(data.as_str())).doing("mount on", folder.display())
}

/// Unmounts what is mounted on a folder of ours, if it is not in use. Returns whether nothing is mounted there any
/// more.
///
/// # Errors
/// What umount2(2) says.
pub fn take_away(folder: &Path) -> Result<bool> {
    unmount(folder, MntFlags::empty())
}

/// Unmounts what is mounted on a folder of ours, and everything below; files that are open there stay until they are
/// closed. It disappears at once, but this call may not return: the kernel may wait here until a user's file system
/// has written everything. So only a process that may hang calls it.
///
/// # Errors
/// What umount2(2) says.
pub fn detach(folder: &Path) -> Result<bool> {
    unmount(folder, MntFlags::MNT_DETACH)
}

fn unmount(folder: &Path, flags: MntFlags) -> Result<bool> {
    for _ in 0..LAYERS {
        match umount2(folder, flags | MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::EINVAL | Errno::ENOENT) => return Ok(true),
            // If it may not mount, it has mounted nothing.
            Err(Errno::EPERM) if !is_allowed() => return Ok(true),
            Err(Errno::EBUSY) => return Ok(false),
            Err(errno) => return Err(errno).doing("unmount", folder.display()),
        }
    }
    Ok(false)
}
