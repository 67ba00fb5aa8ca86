//! Removing a directory with all it holds, without following links, without leaving its file system, and with a bound on
//! the work.

use super::Dir;
use crate::error::{Result, SysError};
use crate::random;
use std::path::Path;

/// A descriptor is held for each level. Deeper trees are made by mischief only: what is deeper is moved up first.
const MAX_DEPTH: u32 = 64;

/// A removal that is going on.
struct Removal {
    /// Entries that may be removed or moved still.
    left: u64,
    most: u64,
    removed: u64,
    /// Whether something was moved up into the top.
    moved: bool,
}

impl Dir {
    /// Removes `relative` and everything in it, however deep, at most `max_entries` entries. Returns how many were removed.
    /// What is not there counts as removed. What is mounted there is neither entered nor removed.
    ///
    /// # Errors
    /// When the bound is reached (what was removed stays removed: go on another time), and what the system says.
    pub fn remove_tree(&self, relative: impl AsRef<Path>, max_entries: u64) -> Result<u64> {
        let mut work = Removal { left: max_entries, most: max_entries, removed: 0, moved: false };
        self.remove_entry(relative.as_ref(), None, MAX_DEPTH, &mut work)?;
        Ok(work.removed)
    }

    /// `top`: the directory that is removed with all it holds; `None`: this is it.
    fn remove_entry(&self, name: &Path, top: Option<&Dir>, depth: u32, work: &mut Removal) -> Result<()> {
        let Some(left) = work.left.checked_sub(1) else {
            let text = format!("more than {} entries", work.most);
            return Err(SysError::found("remove", self.show(name).display(), text));
        };
        // Most entries are no directories: what is one is found out by the attempt.
        match self.unlink(name) {
            Ok(()) => {}
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            Err(error) if error.is(libc::EISDIR) || error.is(libc::EPERM) => {
                if let (Some(top), 0) = (top, depth) {
                    work.left = left;
                    return self.move_up(name, top, work);
                }
                // Of a file that can't be removed this says that it is no directory: the first error says more.
                let folder = match self.open_dir_unmounted(name) {
                    Err(other) if other.is(libc::ENOTDIR) => return Err(error),
                    opened => opened?,
                };
                folder.empty(top, depth, work)?;
                gone(self.remove_dir(name))?;
            }
            Err(error) => return Err(error),
        }
        work.left = work.left.saturating_sub(1);
        work.removed += 1;
        Ok(())
    }

    /// Its turn comes there.
    fn move_up(&self, name: &Path, top: &Dir, work: &mut Removal) -> Result<()> {
        work.moved = true;
        gone(self.rename(name, top, random::name()?))
    }

    fn empty(&self, top: Option<&Dir>, depth: u32, work: &mut Removal) -> Result<()> {
        // In portions, as the directory may hold more names than one would like to keep in memory.
        loop {
            let listing = self.list(4096)?;
            for name in &listing.names {
                let depth = depth.saturating_sub(1);
                self.remove_entry(Path::new(name), Some(top.unwrap_or(self)), depth, work)?;
            }
            let more = top.is_none() && std::mem::take(&mut work.moved);
            if !listing.truncated && !more {
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
