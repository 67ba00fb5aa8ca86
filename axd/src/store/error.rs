//! Errors of the store: each says what was being done to which file, in one line that can be shown as it is.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The outcome of what the store does.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why the store could not do what it was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The system refused something about a file.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The deed, a verb in the infinitive.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The same, from the layer that asks Linux.
    #[error(transparent)]
    System(#[from] ax_sys::SysError),
    /// SQLite refused something.
    #[error("cannot {doing} {}: {source}", path.display())]
    Sql {
        /// The deed.
        doing: &'static str,
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A value in a file can't be read, or one of ours can't be written.
    #[error("cannot {doing} {}: {what}", path.display())]
    Content {
        /// The deed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another daemon works on the same state.
    #[error("another axd{holder} works on {}; only one may", path.display())]
    Locked {
        /// The state directory.
        path: PathBuf,
        /// ` (process 17)`, or nothing where it is not known.
        holder: String,
    },
    /// The state directory is on NFS.
    #[error("{} is on NFS, where the database is not safe; put the state directory on a disk of this machine", path.display())]
    OnNfs {
        /// The state directory.
        path: PathBuf,
    },
    /// The database was written by a newer version.
    #[error("{} has format {found}, made by a newer ax; this one knows formats up to {known}: install the newer ax again, or restore a backup made before it", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format of this build.
        known: i64,
    },
    /// A database of something else.
    #[error("{} is a database, but not one of ax", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The database is damaged.
    #[error("{} is damaged ({what}); restore a backup, or see axd --db-check", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What the check said first.
        what: String,
    },
    /// An empty database beside a spool that was used with another.
    #[error("{} is empty, but the spool was used before ({} is there): restore the database, or run 'axctl db adopt' to go on with the numbers of the spool", database.display(), high.display())]
    Orphaned {
        /// The database.
        database: PathBuf,
        /// The spool's high-water marks.
        high: PathBuf,
    },
    /// A target that is already there.
    #[error("{} is there already; nothing was written", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The daemon stopped while commits were failing.
    #[error("{left} changes could not be written to {}: {last}", path.display())]
    Unsaved {
        /// How many batches.
        left: usize,
        /// The database.
        path: PathBuf,
        /// The last error.
        last: String,
    },
}

impl StoreError {
    /// Whether there was no room on the disk.
    pub fn is_disk_full(&self) -> bool {
        match self {
            StoreError::Io { source, .. } => is_full(source.kind()),
            StoreError::System(error) => is_full(error.kind()),
            StoreError::Sql { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            _ => false,
        }
    }
}

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Adds the deed and the file to an error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for std::result::Result<T, rusqlite::Error> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::Sql { doing, path: path.to_owned(), source })
    }
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::Io { doing, path: path.to_owned(), source })
    }
}

impl<T> Doing<T> for serde_json::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|e| StoreError::Content { doing, path: path.to_owned(), what: e.to_string() })
    }
}
