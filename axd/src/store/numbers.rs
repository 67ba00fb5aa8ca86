//! Where numbers go on at a start: database and spool are compared, the larger numbers hold, and both get a new
//! token.
//!
//! Job numbers go on without a gap if the database is provably the one from which they were last given. Epochs are
//! fencing tokens, so they always go on after the reserved range: even a database restored from a raw copy of the
//! same run can't repeat one.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use ax_core::id::{Epoch, JobNumber};
use rusqlite::Connection;

use super::error::{Doing, Result, StoreError};
use super::high::{HighWater, Marks};
use super::meta;

/// What a start begins with.
pub(crate) struct Paired {
    pub(crate) high: HighWater,
    pub(crate) next: (JobNumber, Epoch),
    pub(crate) term: u64,
    /// What a person should know.
    pub(crate) notice: Option<String>,
}

/// What the database holds of it.
pub(crate) struct Numbers {
    pub(crate) run: String,
    pub(crate) run_before: String,
    pub(crate) term: u64,
    pub(crate) number: JobNumber,
    pub(crate) epoch: Epoch,
}

/// Brings them together. The database is written first, and remembers the token that the spool has until then: a crash
/// in between changes nothing, as numbers are given only after both have the new one.
pub(crate) fn pair(connection: &Connection, database: &Path, file: &Path) -> Result<Paired> {
    let found = HighWater::read(file)?;
    let run = meta::get(connection, database, meta::RUN)?;
    let copied = meta::get(connection, database, meta::COPY)?.is_some();
    let before = meta::get(connection, database, meta::RUN_BEFORE)?.filter(|token| !token.is_empty());
    let same = found.as_ref().is_some_and(|m| [&run, &before].contains(&&Some(m.run.clone())));
    if found.is_some() && !same && meta::is_empty(connection, database)? {
        return Err(StoreError::Orphaned { database: database.to_owned(), high: file.to_owned() });
    }
    let new_spool = found.is_none();
    let marks = found.unwrap_or_else(Marks::none);
    let (own_number, own_epoch) = meta::next_numbers(connection, database)?;
    let trusted = new_spool || (same && !copied);
    let numbers = Numbers {
        run: ax_sys::random::name()?,
        run_before: marks.run.clone(),
        term: meta::get_number(connection, database, meta::TERM)?.max(marks.term).saturating_add(1),
        number: if trusted { own_number } else { own_number.max(marks.after_number()) },
        epoch: own_epoch.max(marks.epoch.next()),
    };
    set(connection, database, &numbers)?;
    let Numbers { run: token, term, number, epoch, .. } = numbers;
    let notice = if number > own_number {
        Some(format!(
            "{} is older than the spool: job numbers go on at {number}, not at {own_number}",
            database.display()
        ))
    } else if new_spool && run.is_some() {
        Some(format!("{} was not there: numbers go on from the database alone", file.display()))
    } else {
        None
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o755).create(folder).doing("create", folder)?;
    let high = HighWater::begin(file, marks.of_start(term, token))?;
    Ok(Paired { high, next: (number, epoch), term, notice })
}

/// Writes them; from now on the database is no copy.
pub(crate) fn set(connection: &Connection, database: &Path, numbers: &Numbers) -> Result<()> {
    let tx = connection.unchecked_transaction().doing("begin a change of", database)?;
    let values = [
        (meta::RUN, numbers.run.clone()),
        (meta::RUN_BEFORE, numbers.run_before.clone()),
        (meta::TERM, numbers.term.to_string()),
        (meta::NEXT_NUMBER, numbers.number.to_string()),
        (meta::NEXT_EPOCH, numbers.epoch.to_string()),
    ];
    for (key, value) in values {
        meta::set(&tx, key, &value).doing("write", database)?;
    }
    tx.execute("DELETE FROM meta WHERE key = ?1", [meta::COPY]).doing("write", database)?;
    tx.commit().doing("commit to", database)
}
