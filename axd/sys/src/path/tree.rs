//! Removing a directory with all it holds, without following links and with a bound on the work.

use super::Dir;
use crate::error::{Result, SysError};
use std::path::Path;

/// A descriptor is held for each level; deeper trees are made by mischief only.
const MAX_DEPTH: u32 = 256;

impl Dir {
    /// Removes `relative` and everything in it, at most `max_entries` entries. Returns how many were removed.
    /// What is not there counts as removed.
    ///
    /// # Errors
    /// When the bound or a depth of 256 is reached (what was removed stays removed: go on another time), and
    /// what the system says.
    pub fn remove_tree(&self, relative: impl AsRef<Path>, max_entries: u64) -> Result<u64> {
        let mut removed = 0;
        self.remove_entry(relative.as_ref(), max_entries, MAX_DEPTH, &mut removed)?;
        Ok(removed)
    }

    fn remove_entry(&self, name: &Path, max: u64, depth: u32, removed: &mut u64) -> Result<()> {
        if *removed >= max {
            let text = format!("more than {max} entries");
            return Err(SysError::found("remove", self.show(name).display(), text));
        }
        // Most entries are no directories: what is one is found out by the attempt.
        match self.unlink(name) {
            Ok(()) => {}
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            Err(error) if error.is(libc::EISDIR) || error.is(libc::EPERM) => {
                // Of a file that can't be removed this says that it is no directory: the first error says more.
                let folder = match self.open_dir(name) {
                    Err(other) if other.is(libc::ENOTDIR) => return Err(error),
                    opened => opened?,
                };
                folder.empty(max, depth, removed)?;
                gone(self.remove_dir(name))?;
            }
            Err(error) => return Err(error),
        }
        *removed += 1;
        Ok(())
    }

    fn empty(&self, max: u64, depth: u32, removed: &mut u64) -> Result<()> {
        let Some(depth) = depth.checked_sub(1) else {
            let text = format!("deeper than {MAX_DEPTH} directories");
            return Err(SysError::found("remove", self.path().display(), text));
        };
        // In portions, as the directory may hold more names than one would like to keep in memory.
        loop {
            let listing = self.list(4096)?;
            for name in &listing.names {
                self.remove_entry(Path::new(name), max, depth, removed)?;
            }
            if !listing.truncated {
                return Ok(());
            }
        }
    }
}

/// Somebody else may have been faster.
fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        other => other,
    }
}
