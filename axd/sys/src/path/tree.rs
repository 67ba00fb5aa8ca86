//! Removes a directory with everything in it, without following links, without leaving its file system, and with a
//! bound on the work.

use super::Dir;
use crate::error::{Result, SysError};
use crate::random;
use std::path::Path;

/// A descriptor is held for each level. Only hostile trees are deeper: there, what is deeper is moved up first.
const MAX_DEPTH: u32 = 64;

/// A removal that is going on.
struct Removal {
    /// Number of entries that may still be removed or moved.
    left: u64,
    most: u64,
    removed: u64,
    /// True if something was moved up into the top.
    moved: bool,
}

impl Dir {
    /// Removes `relative` and everything in it, however deep, but at most `max_entries` entries. Returns how many
    /// were removed. If it does not exist, that is no error. A mount is neither entered nor removed.
    ///
    /// # Errors
    /// When the bound is reached (what was removed stays removed: call it again later), and what the system says.
    pub fn remove_tree(&self, relative: impl AsRef<Path>, max_entries: u64) -> Result<u64> {
        let mut work = Removal { left: max_entries, most: max_entries, removed: 0, moved: false };
        self.remove_entry(relative.as_ref(), None, MAX_DEPTH, &mut work)?;
        Ok(work.removed)
    }

    /// `top`: the directory that is being removed; `None`: this is it.
    fn remove_entry(&self, name: &Path, top: Option<&Dir>, depth: u32, work: &mut Removal) -> Result<()> {
        let Some(left) = work.left.checked_sub(1) else {
            let text = format!("more than {} entries", work.most);
            return Err(SysError::found("remove", self.show(name).display(), text));
        };
        // Most entries are not directories: trying to unlink shows which are.
        match self.unlink(name) {
            Ok(()) => {}
            Err(error) if error.is(libc::ENOENT) => return Ok(()),
            Err(error) if error.is(libc::EISDIR) || error.is(libc::EPERM) => {
                if let (Some(top), 0) = (top, depth) {
                    work.left = left;
                    return self.move_up(name, top, work);
                }
                // For a file that can't be removed this fails with ENOTDIR: the first error says more.
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

    /// Moves a directory up into the top, where its turn comes.
    fn move_up(&self, name: &Path, top: &Dir, work: &mut Removal) -> Result<()> {
        work.moved = true;
        gone(self.rename(name, top, random::name()?))
    }

    fn empty(&self, top: Option<&Dir>, depth: u32, work: &mut Removal) -> Result<()> {
        // In portions, since the directory may hold more names than should be kept in memory.
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

/// No error if another process has removed it first.
fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        other => other,
    }
}
