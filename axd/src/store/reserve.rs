//! A file that holds room on the disk, so that the ends of running jobs can
//! still be written when somebody has filled it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ax_sys::statfs;

use super::error::{Doing, Result, StoreError};

/// How much is held.
const SIZE: u64 = 16 << 20;
/// So much must be free beside it, or a reserve would only make matters worse.
const MARGIN: u64 = 16 << 20;

/// The reserve of a state directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn at(path: PathBuf) -> Reserve {
        Reserve { path }
    }

    /// Whether the reserve is there in full.
    pub(crate) fn is_held(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|m| m.len() >= SIZE)
    }

    /// Holds the room, if there is enough of it.
    pub(crate) fn fill(&mut self) -> Result<()> {
        if self.is_held() {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let free = statfs::of(folder)?.available_bytes;
        if free < SIZE + MARGIN {
            let what = format!("{} MiB are free, {} are needed", free >> 20, (SIZE + MARGIN) >> 20);
            return Err(StoreError::Content { doing: "hold room in", path: self.path.clone(), what });
        }
        let written = self.write();
        if written.is_err() {
            self.release();
        }
        written
    }

    /// Real blocks, with content that no file system can fold away.
    fn write(&self) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&self.path).doing("create", &self.path)?;
        let mut block = vec![0_u8; 1 << 20];
        ax_sys::random::fill(&mut block)?;
        for part in 0..SIZE >> 20 {
            block[..8].copy_from_slice(&part.to_le_bytes());
            file.write_all(&block).doing("write", &self.path)?;
        }
        file.sync_all().doing("sync", &self.path)
    }

    /// Gives the room up. Says whether there was any.
    pub(crate) fn release(&mut self) -> bool {
        std::fs::remove_file(&self.path).is_ok()
    }
}
