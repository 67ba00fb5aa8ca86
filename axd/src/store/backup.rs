//! Copies of the database, made while the daemon goes on. A copy knows that it
//! is one: what was given out after it is looked up in the spool.

use std::fs::File;
use std::path::Path;

use ax_core::paths::Paths;
use ax_sys::atomic_file::{self, Options, Written};
use ax_sys::path::Dir;
use rusqlite::Connection;

use super::error::{Doing, Result, StoreError};
use super::{meta, open};

/// Writes a copy of the database to `target`, which must not be there. Returns its size in bytes.
///
/// The folder may be anybody's, and SQLite opens by name: so it writes into the state folder, where nobody else has
/// names, and the target is filled through a descriptor of a file that is new.
///
/// # Errors
/// When the database can't be read, or the copy not be written in full.
pub fn backup(paths: &Paths, target: &Path) -> Result<u64> {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(StoreError::Exists { path: target.to_owned() });
    };
    let name = name.to_str().ok_or_else(|| not_utf8(target))?;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (folder, exists) = (Dir::open(folder)?, || StoreError::Exists { path: target.to_owned() });
    if folder.stat(name).is_ok() {
        return Err(exists());
    }
    let own = paths.state.join(format!("copy-{}", std::process::id()));
    let written = write_copy(&paths.database(), &own).and_then(|(file, size)| {
        let options = Options { keep_first: true, ..Options::durable() };
        match atomic_file::copy(&folder, name, file, &options)? {
            Written::Placed => Ok(size),
            Written::WasThere => Err(exists()),
        }
    });
    let _ = std::fs::remove_file(&own);
    written
}

/// Copies into a file beside the target, in a folder that is ours alone, syncs and renames: a copy is whole or not
/// there.
pub(crate) fn copy(database: &Path, target: &Path) -> Result<()> {
    let part = target.with_extension("part");
    let written = write_copy(database, &part).and_then(|_| {
        std::fs::rename(&part, target).doing("put in place", target)?;
        let folder = target.parent().unwrap_or(Path::new("."));
        File::open(folder).and_then(|f| f.sync_all()).doing("sync", folder)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// The copy, from its beginning, and its size. What an earlier one that did not get through left goes.
fn write_copy(database: &Path, part: &Path) -> Result<(File, u64)> {
    let source = open::reading_connection(database)?;
    match std::fs::remove_file(part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).doing("remove", part);
        }
        _ => {}
    }
    // SQLite writes into a file that is there and empty: so nobody else can ever read it.
    open::make_private(part)?;
    let name = part.to_str().ok_or_else(|| not_utf8(part))?;
    source.execute("VACUUM INTO ?1", [name]).doing("copy", database)?;
    let copy = Connection::open(part).doing("open", part)?;
    meta::set(&copy, meta::COPY, "1").doing("mark", part)?;
    drop(copy);
    let file = File::open(part).doing("open", part)?;
    file.sync_all().doing("sync", part)?;
    let size = file.metadata().doing("look at", part)?.len();
    Ok((file, size))
}

fn not_utf8(path: &Path) -> StoreError {
    let what = "its name is not UTF-8".to_owned();
    StoreError::Content { doing: "write", path: path.to_owned(), what }
}
