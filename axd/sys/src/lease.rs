//! Lease files: a lease file appears locked and only once, and shows whether its holder lives.
//!
//! The lock is flock(2): the kernel releases it when the holder's last descriptor is closed, so the descriptor is
//! close-on-exec and must reach no job. If a lease file exists and is not locked, its holder is dead: it never
//! existed without being locked, unless it was [sealed](seal).

use crate::atomic_file::temporary_name;
use crate::error::{Doing, Result, SysError, check};
use crate::path::{Dir, OFlag};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;

/// Why a lease could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The file is there: made or sealed before. Touch nothing.
    #[error("lease {0} was made before")]
    AlreadyExists(PathBuf),
    /// The system refused.
    #[error(transparent)]
    System(#[from] SysError),
}

/// What a lease file says about its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// No file: nobody started yet.
    Absent,
    /// Locked: the holder lives.
    Held,
    /// There and not locked: the holder is dead, or the file was sealed.
    Free,
}

/// A lease that this process holds until the value is dropped or the process ends. The file stays.
#[derive(Debug)]
pub struct Lease {
    file: File,
}

impl Lease {
    /// Makes the file `name` in `dir` with `content`, locked from the first moment it can be seen.
    ///
    /// # Errors
    /// [`LeaseError::AlreadyExists`] for all but one of any number of attempts.
    pub fn create(dir: &Dir, name: &str, content: &[u8]) -> std::result::Result<Lease, LeaseError> {
        make(dir, name, content, true).map(|file| Lease { file })
    }

    /// The open file, for writing a record into it.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes the file without a holder, so that nobody can make it afterwards.
///
/// # Errors
/// [`LeaseError::AlreadyExists`] when somebody was faster.
pub fn seal(dir: &Dir, name: &str, content: &[u8]) -> std::result::Result<(), LeaseError> {
    make(dir, name, content, false).map(drop)
}

/// Asks whether a lease is held. Probers take a shared lock, so they do not take each other for holders. A maker
/// locks before its file has a name, so no prober can be in its way.
///
/// # Errors
/// When the file can't be opened for another reason than that it is missing.
pub fn probe(dir: &Dir, name: &str) -> Result<Probe> {
    let file = match dir.open_file(name) {
        Err(error) if error.is(libc::ENOENT) => return Ok(Probe::Absent),
        other => other?,
    };
    let locked = lock(&file, libc::LOCK_SH | libc::LOCK_NB).doing("probe lease", dir.show(name).display())?;
    Ok(if locked { Probe::Free } else { Probe::Held })
}

/// Locks an open file exclusively if nobody holds it; `false` if somebody does. For the long-lived leases of
/// nodes and controllers, whose files are there before their holders.
///
/// # Errors
/// What flock(2) says other than "held".
pub fn try_lock(file: &File, what: &str) -> Result<bool> {
    lock(file, libc::LOCK_EX | libc::LOCK_NB).doing("lock", what)
}

/// Locks an open file exclusively, as soon as nobody holds it any more. Signals that end the process end it here, too.
///
/// # Errors
/// What flock(2) says.
pub fn wait_lock(file: &File, what: &str) -> Result<()> {
    lock(file, libc::LOCK_EX).doing("lock", what).map(drop)
}

/// Releases the lock of an open file, however many copies of its descriptor there are.
///
/// # Errors
/// What flock(2) says.
pub fn unlock(file: &File, what: &str) -> Result<()> {
    lock(file, libc::LOCK_UN).doing("unlock", what).map(drop)
}

fn lock(file: &File, operation: libc::c_int) -> io::Result<bool> {
    loop {
        // SAFETY: the descriptor is open for the length of the call; flock touches no memory of ours.
        match check(unsafe { libc::flock(file.as_raw_fd(), operation) }) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn make(dir: &Dir, name: &str, content: &[u8], held: bool) -> std::result::Result<File, LeaseError> {
    match make_nameless(dir, name, content, held) {
        // File systems without nameless files (NFS, old overlays), or no /proc to link them through.
        Err(LeaseError::System(error)) if unsupported(&error) => make_named(dir, name, content, held),
        other => other,
    }
}

fn unsupported(error: &SysError) -> bool {
    [libc::EOPNOTSUPP, libc::EISDIR, libc::ENOENT, libc::EINVAL].iter().any(|errno| error.is(*errno))
}

fn make_nameless(dir: &Dir, name: &str, content: &[u8], held: bool) -> std::result::Result<File, LeaseError> {
    let file = File::from(dir.open_beneath(".", OFlag::O_TMPFILE | OFlag::O_RDWR, 0o600)?);
    prepare(&file, dir, name, content, held)?;
    dir.link_open(&file, name).map_err(|error| taken(error, dir, name))?;
    Ok(file)
}

fn make_named(dir: &Dir, name: &str, content: &[u8], held: bool) -> std::result::Result<File, LeaseError> {
    let temporary = temporary_name(name)?;
    let file = dir.create_file(&temporary, 0o600)?;
    let linked = prepare(&file, dir, name, content, held).and_then(|()| dir.link(&temporary, dir, name));
    let removed = dir.unlink(&temporary);
    linked.map_err(|error| taken(error, dir, name))?;
    removed?;
    Ok(file)
}

/// Locks before the file has the name that others look for.
fn prepare(mut file: &File, dir: &Dir, name: &str, content: &[u8], held: bool) -> Result<()> {
    if held {
        let locked = lock(file, libc::LOCK_EX | libc::LOCK_NB).doing("lock", dir.show(name).display())?;
        debug_assert!(locked, "nobody else can know a file without a name");
    }
    file.write_all(content).doing("write", dir.show(name).display())
}

fn taken(error: SysError, dir: &Dir, name: &str) -> LeaseError {
    if error.is(libc::EEXIST) { LeaseError::AlreadyExists(dir.show(name)) } else { LeaseError::System(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way for file systems without nameless files; the other tests may run on one that has them.
    #[test]
    fn the_way_of_nfs_makes_one_too() {
        let path = test_kit::TempDir::new();
        let made: Vec<File> = std::thread::scope(|scope| {
            let make = || make_named(&Dir::open(&path).unwrap(), "7.1", b"x", true);
            let racers: Vec<_> = (0..50).map(|_| scope.spawn(make)).collect();
            let results = racers.into_iter().map(|racer| racer.join().unwrap());
            results
                .filter_map(|result| match result {
                    Ok(file) => Some(file),
                    Err(LeaseError::AlreadyExists(_)) => None,
                    Err(error) => panic!("{error}"),
                })
                .collect()
        });
        let dir = Dir::open(&path).unwrap();
        assert_eq!(made.len(), 1);
        assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Held);
        assert_eq!(dir.list(10).unwrap().names, ["7.1"], "no temporary name is left");
        drop(made);
        assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Free);
    }
}
