//! The socket's file: made in place of a stale one, never in place of anybody else's.
//!
//! A lock beside the socket says whether its daemon lives: asking the socket itself would hang on a
//! daemon that hangs, and two daemons that start together could both find it dead.

use ax_sys::{SysError, credentials, socket};
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A daemon that lives has it.
    #[error("{}: another daemon serves this socket", .path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something there is no socket of this user.
    #[error("{}: {what} has this name; remove it if it is not needed", .path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// Others could put their own socket in place of this one.
    #[error("{}: the directory must belong to root or this user and be writable for its owner alone", .path.display())]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The file system's answer.
    #[error("{}: {source}", .path.display())]
    File {
        /// What it was about.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The system's answer.
    #[error(transparent)]
    System(#[from] SysError),
}

/// The socket's name for as long as this daemon serves it; dropping it takes the name away.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Held, not used: it goes after the name does.
    _lock: File,
}

impl SocketFile {
    /// Takes the name and listens.
    pub(super) fn claim(path: &Path, mode: u32) -> Result<(SocketFile, UnixListener), BindError> {
        check_directory(path)?;
        let lock = lock(path)?;
        check_old(path)?;
        let listener = socket::listen(path, mode)?;
        Ok((SocketFile { path: path.to_owned(), _lock: lock }, listener))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it stays, the next daemon replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

fn check_directory(path: &Path) -> Result<(), BindError> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let meta = fs::metadata(directory).map_err(|source| file_error(directory, source))?;
    let (own, _) = credentials::own();
    if (meta.uid() != 0 && meta.uid() != own) || meta.mode() & 0o022 != 0 {
        return Err(BindError::UnsafeDirectory { path: directory.to_owned() });
    }
    Ok(())
}

fn lock(path: &Path) -> Result<File, BindError> {
    let mut name = OsString::from(path);
    name.push(".lock");
    let name = PathBuf::from(name);
    // Private, so that nobody else can hold the lock.
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
    let file = file.map_err(|source| file_error(&name, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BindError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(file_error(&name, source)),
    }
}

fn check_old(path: &Path) -> Result<(), BindError> {
    let foreign = |what| Err(BindError::Foreign { path: path.to_owned(), what });
    let old: Metadata = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(file_error(path, source)),
    };
    if !old.file_type().is_socket() {
        return foreign("something that is no socket");
    }
    if old.uid() != credentials::own().0 {
        return foreign("another user's socket");
    }
    Ok(())
}

fn file_error(path: &Path, source: io::Error) -> BindError {
    BindError::File { path: path.to_owned(), source }
}
