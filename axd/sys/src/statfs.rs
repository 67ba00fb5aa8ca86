//! What kind of file system a path lies on and how much room it has.
//! Callers decide what that means: SQLite's log must not lie on NFS, leases of jobs should lie in memory.

use crate::error::{Doing, Result};
use std::path::Path;

/// The kinds of file system that ax tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// NFS of any version.
    Nfs,
    /// Memory: tmpfs or ramfs. Gone after a reboot.
    Memory,
    /// Another file system that several machines may share (CephFS, Lustre, SMB, FUSE, …).
    Shared,
    /// The unified cgroup tree.
    Cgroup2,
    /// One hierarchy of cgroup v1.
    Cgroup1,
    /// Anything else: taken for a disk of this machine.
    Local,
}

/// What statfs(2) says, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its kind.
    pub kind: Kind,
    /// The kernel's number for its type.
    pub magic: u64,
    /// Size of the file system.
    pub total_bytes: u64,
    /// Room for users other than root.
    pub available_bytes: u64,
    /// Inodes that may still be made; 0 where the file system does not count them.
    pub free_inodes: u64,
}

/// Looks at the file system that holds `path`.
///
/// # Errors
/// When the path can't be reached.
pub fn of(path: &Path) -> Result<FileSystem> {
    let raw = nix::sys::statfs::statfs(path).doing("look at the file system of", path.display())?;
    // The type is signed on some machines; only its low 32 bits carry the number.
    let magic = u64::from(raw.filesystem_type().0 as u32);
    let block = u64::try_from(raw.block_size()).unwrap_or(0);
    Ok(FileSystem {
        kind: kind(magic),
        magic,
        total_bytes: block.saturating_mul(raw.blocks()),
        available_bytes: block.saturating_mul(raw.blocks_available()),
        free_inodes: raw.files_free(),
    })
}

fn kind(magic: u64) -> Kind {
    match magic {
        0x6969 => Kind::Nfs,
        0x0102_1994 | 0x8584_58f6 => Kind::Memory,
        0x6367_7270 => Kind::Cgroup2,
        0x0027_e0eb => Kind::Cgroup1,
        // Ceph, Lustre, CIFS, SMB2, SMB, FUSE, 9p, AFS, OCFS2, GFS2, GPFS.
        0x00c3_6400 | 0x0bd0_0bd0 | 0xff53_4d42 | 0xfe53_4d42 | 0x517b | 0x6573_5546 | 0x0102_1997
        | 0x5346_414f | 0x7461_636f | 0x0116_1970 | 0x4750_4653 => Kind::Shared,
        _ => Kind::Local,
    }
}
