//! The single values of the database: token of the last start, term, next numbers, and the boot whose clock the jobs
//! refer to.

use std::path::Path;

use ax_core::id::{Epoch, JobNumber};
use rusqlite::{Connection, OptionalExtension};

use super::error::{Doing, Result, StoreError};

/// Token of the last start; the spool has the same.
pub(crate) const RUN: &str = "run";
/// The spool's token before that. Both change it one after the other, and a start may end in between.
pub(crate) const RUN_BEFORE: &str = "run_before";
/// There in copies alone: the original may have gone on.
pub(crate) const COPY: &str = "copy";
/// The last term.
pub(crate) const TERM: &str = "term";
/// Numbers go on here at least.
pub(crate) const NEXT_NUMBER: &str = "next_number";
/// Epochs go on here at least.
pub(crate) const NEXT_EPOCH: &str = "next_epoch";
/// The boot whose clock the records refer to.
pub(crate) const BOOT: &str = "boot";

/// What the queues and the users have had under fair share, as JSON.
pub(crate) const SHARES: &str = "shares";

/// What was asked of cards lately.
pub(crate) const MIX: &str = "mix";

/// When jobs were told that they would start, and how far that was off.
pub(crate) const FORECASTS: &str = "forecasts";
/// What making room has cost lately.
pub(crate) const LOSSES: &str = "losses";

/// There once the accounts have been learnt from.
pub(crate) const PROFILES: &str = "profiles";

/// A value.
pub(crate) fn get(connection: &Connection, path: &Path, key: &str) -> Result<Option<String>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE key = ?1")
        .and_then(|mut statement| statement.query_row([key], |row| row.get(0)).optional())
        .doing("read", path)
}

/// A value that is a number; 0 if it is not there.
pub(crate) fn get_number(connection: &Connection, path: &Path, key: &str) -> Result<u64> {
    match get(connection, path, key)? {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| StoreError::Content {
            doing: "understand",
            path: path.to_owned(),
            what: format!("meta.{key} is '{text}', which is no number"),
        }),
    }
}

/// Sets a value.
pub(crate) fn set(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    connection.prepare_cached(sql)?.execute([key, value]).map(drop)
}

/// Where the numbers of this database go on, as far as it knows itself.
pub(crate) fn next_numbers(connection: &Connection, path: &Path) -> Result<(JobNumber, Epoch)> {
    let highest = |sql: &str| -> Result<u64> {
        let highest: Option<i64> = connection.query_row(sql, [], |row| row.get(0)).doing("read", path)?;
        Ok(highest.map_or(0, i64::unsigned_abs))
    };
    let number = highest("SELECT max(number) FROM jobs")?.saturating_add(1);
    let number = number.max(get_number(connection, path, NEXT_NUMBER)?).max(1);
    let epoch = highest("SELECT max(epoch) FROM attempts")?.saturating_add(1);
    let epoch = epoch.max(get_number(connection, path, NEXT_EPOCH)?).max(1);
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    Ok((JobNumber(number), Epoch(epoch)))
}

/// Whether the database never held a job: one whose jobs have had their time is a used one.
pub(crate) fn is_empty(connection: &Connection, path: &Path) -> Result<bool> {
    if get_number(connection, path, NEXT_NUMBER)? > 1 {
        return Ok(false);
    }
    let any = connection.query_row("SELECT EXISTS (SELECT 1 FROM jobs)", [], |row| row.get::<_, bool>(0));
    Ok(!any.doing("read", path)?)
}
