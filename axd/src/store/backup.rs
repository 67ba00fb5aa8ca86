//! Copies of the database, made while the daemon goes on. A copy knows that it
//! is one: what was given out after it is looked up in the spool.

use std::path::Path;

use ax_core::paths::Paths;
use rusqlite::Connection;

use super::error::{Doing, Result, StoreError};
use super::{meta, open};

/// Writes a copy of the database to `target`, which must not be there. Returns its size in bytes.
///
/// # Errors
/// When the database can't be read, or the copy not be written in full.
pub fn backup(paths: &Paths, target: &Path) -> Result<u64> {
    if target.exists() {
        return Err(StoreError::Exists { path: target.to_owned() });
    }
    copy(&paths.database(), target)
}

/// Copies into a file beside the target, syncs and renames: a copy is whole or not there.
pub(crate) fn copy(database: &Path, target: &Path) -> Result<u64> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let part = target.with_file_name(format!(".{name}.part-{}", std::process::id()));
    let written = write_copy(database, &part).and_then(|size| {
        std::fs::rename(&part, target).doing("put in place", target)?;
        let folder = target.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder).and_then(|f| f.sync_all()).doing("sync", folder)?;
        Ok(size)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

fn write_copy(database: &Path, part: &Path) -> Result<u64> {
    let source = open::reading_connection(database)?;
    // SQLite writes into a file that is there and empty: so nobody else can ever read it.
    open::make_private(part)?;
    let name = part.to_str().ok_or_else(|| StoreError::Content {
        doing: "write",
        path: part.to_owned(),
        what: "its name is not UTF-8".to_owned(),
    })?;
    source.execute("VACUUM INTO ?1", [name]).doing("copy", database)?;
    let copy = Connection::open(part).doing("open", part)?;
    meta::set(&copy, meta::COPY, "1").doing("mark", part)?;
    drop(copy);
    let file = std::fs::File::open(part).doing("open", part)?;
    file.sync_all().doing("sync", part)?;
    Ok(file.metadata().doing("look at", part)?.len())
}
