//! Opens what an untrusted user may have put into a directory: a file is accepted only if it is plain, belongs to the
//! user, is not too large and has no other name. The user may still write to an accepted file: copy it before use.

use super::{Dir, FileType, Meta};
use crate::error::SysError;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What a dropped file must be.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    /// Its owner; `None` for anybody.
    pub owner: Option<u32>,
    /// Largest size in bytes.
    pub max_size: u64,
}

/// Why a dropped file was not taken.
#[derive(Debug, thiserror::Error)]
pub enum HostileError {
    /// A directory, pipe, device or socket. A link fails with ELOOP in `System`.
    #[error("{0} is no regular file")]
    NotRegular(PathBuf),
    /// It belongs to another user.
    #[error("{path} belongs to uid {found}, not {wanted}")]
    WrongOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        found: u32,
        /// Who should own it.
        wanted: u32,
    },
    /// It has further names: perhaps it is a link to a file that its maker could not read.
    #[error("{path} has {links} names")]
    ManyLinks {
        /// The file.
        path: PathBuf,
        /// Number of names.
        links: u64,
    },
    /// Too large.
    #[error("{path} has {size} bytes, at most {max} are allowed")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// The system refused.
    #[error(transparent)]
    System(#[from] SysError),
}

impl Dir {
    /// Opens a file for reading if it meets the demand; all checks are made on the open file. Does not wait for
    /// pipes, and does nothing to a device beyond opening its entry.
    ///
    /// # Errors
    /// [`HostileError`] names the check that failed.
    pub fn open_checked(
        &self,
        relative: impl AsRef<Path>,
        demand: Demand,
    ) -> Result<(File, Meta), HostileError> {
        let relative = relative.as_ref();
        let path = self.show(relative);
        // The type first: merely opening a device may have effects (rewinding tapes, watchdogs).
        if self.stat(relative)?.file_type == FileType::Special {
            return Err(HostileError::NotRegular(path));
        }
        let file = self.open_file(relative)?;
        let meta = Meta::of(&file)?;
        if meta.file_type != FileType::Regular {
            return Err(HostileError::NotRegular(path));
        }
        if let Some(wanted) = demand.owner.filter(|wanted| *wanted != meta.uid) {
            return Err(HostileError::WrongOwner { path, found: meta.uid, wanted });
        }
        if meta.links != 1 {
            return Err(HostileError::ManyLinks { path, links: meta.links });
        }
        if meta.size > demand.max_size {
            return Err(HostileError::TooLarge { path, size: meta.size, max: demand.max_size });
        }
        Ok((file, meta))
    }
}

/// True if a process has this file, which is open for reading here, open for writing. Asks the kernel for a lease and
/// gives it back at once. `false` also if the file system can't tell; not for network file systems, which refuse
/// leases for reasons of their own.
pub fn is_open_for_writing(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    /// From <linux/fcntl.h>; libc does not have it.
    const F_SETSIG: libc::c_int = 10;
    let fd = file.as_raw_fd();
    // SAFETY: fcntl with integer arguments on a descriptor that is open. Should somebody open the file in between, the
    // holder of a lease gets a signal: one that is ignored unless asked for, instead of SIGIO, which would kill.
    let taken = unsafe {
        libc::fcntl(fd, F_SETSIG, libc::SIGURG) == 0 && libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) == 0
    };
    let busy = !taken && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
    if taken {
        // SAFETY: as above. Closing the descriptor would give it back too.
        let _ = unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
    }
    busy
}

/// At most so much memory is reserved for a file because of the size that it claims.
const FIRST_ROOM: u64 = 1 << 20;

/// Reads to the end, but no more than `limit` bytes even if the file grows meanwhile.
pub(super) fn read_limited(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    // Room for all of it, and one byte more to find its end.
    let size = file.metadata()?.len().min(limit).saturating_add(1);
    let mut content = Vec::with_capacity(usize::try_from(size.min(FIRST_ROOM)).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {limit} bytes")));
    }
    Ok(content)
}
