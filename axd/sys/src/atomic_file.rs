//! Files that appear whole or not at all: written under a temporary name in the same directory, then renamed,
//! or linked where the first one must stay. Temporary names begin with a dot; readers skip those.

use crate::error::{Doing, Result};
use crate::path::Dir;
use crate::random;
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Gid, Uid, fchown};
use std::fs::File;
use std::io::Read;

/// How a file is put into place.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Its permission bits, whatever the umask.
    pub mode: u32,
    /// Owner and group; `None`: those of this process.
    pub owner: Option<(u32, u32)>,
    /// Wait until the content is on the disk before the name appears.
    pub sync_file: bool,
    /// Wait until the name is on the disk as well.
    pub sync_dir: bool,
    /// The first one stays: an existing file of that name is left as it is.
    pub keep_first: bool,
}

impl Default for Options {
    /// Mode 0600, no waiting, replaces.
    fn default() -> Options {
        Options { mode: 0o600, owner: None, sync_file: false, sync_dir: false, keep_first: false }
    }
}

impl Options {
    /// Survives a loss of power: both waits.
    pub fn durable() -> Options {
        Options { sync_file: true, sync_dir: true, ..Options::default() }
    }
}

/// What became of a file that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is in place with the new content.
    Placed,
    /// One was there already and stays (`keep_first`).
    WasThere,
}

/// Writes `content` to the file `name` (a plain name) in `dir`.
///
/// # Errors
/// What the system says; then neither the file nor a temporary one is left behind, unless only the last wait
/// for the directory failed.
pub fn write(dir: &Dir, name: &str, content: &[u8], options: &Options) -> Result<Written> {
    copy(dir, name, content, options)
}

/// As [`write()`], for what is too large to be held: all that `content` has to give. Whoever else may write to
/// the directory can take the file away, but neither read it nor have it written elsewhere.
///
/// # Errors
/// As [`write()`].
pub fn copy(dir: &Dir, name: &str, content: impl Read, options: &Options) -> Result<Written> {
    let temporary = temporary_name(name)?;
    let file = dir.create_file(&temporary, 0o600)?;
    let placed = fill(dir, &temporary, &file, content, options)
        .and_then(|()| place(dir, &temporary, name, options.keep_first));
    if !matches!(placed, Ok(Written::Placed)) {
        // After a rename it is gone.
        let _ = dir.unlink(&temporary);
    }
    let written = placed?;
    if options.sync_dir {
        dir.sync()?;
    }
    Ok(written)
}

/// A hidden name that nobody else uses.
pub(crate) fn temporary_name(name: &str) -> Result<String> {
    // Names may be as long as the file system allows: keep room for the rest.
    let short: String = name.chars().take(40).collect();
    Ok(format!(".{short}.{}", random::name()?))
}

fn fill(dir: &Dir, name: &str, mut file: &File, mut content: impl Read, options: &Options) -> Result<()> {
    let what = dir.show(name);
    std::io::copy(&mut content, &mut file).doing("write", what.display())?;
    if let Some((uid, gid)) = options.owner {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        fchown(file, uid, gid).doing("change the owner of", what.display())?;
    }
    let mode = Mode::from_bits_truncate(options.mode);
    fchmod(file, mode).doing("set the mode of", what.display())?;
    if options.sync_file {
        file.sync_all().doing("sync", what.display())?;
    }
    Ok(())
}

fn place(dir: &Dir, temporary: &str, name: &str, keep_first: bool) -> Result<Written> {
    if !keep_first {
        return dir.rename(temporary, dir, name).map(|()| Written::Placed);
    }
    let placed = match dir.rename_new(temporary, dir, name) {
        // A file system (NFS) or kernel that can't.
        Err(error) if error.is(libc::EINVAL) || error.is(libc::ENOSYS) => {
            dir.link(temporary, dir, name).inspect(|()| drop(dir.unlink(temporary)))
        }
        other => other,
    };
    match placed {
        Err(error) if error.is(libc::EEXIST) => Ok(Written::WasThere),
        other => other.map(|()| Written::Placed),
    }
}
