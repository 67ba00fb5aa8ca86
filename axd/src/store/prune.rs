//! Removes from the accounts jobs that ended long ago, with everything that was written about them, and keys of
//! submissions that will not be repeated any more.
//!
//! It removes a few jobs in each transaction, so that no commit waits long and a crash leaves a database that is
//! whole. Freed pages are used again. The file is not made smaller: that would move other pages about, a write each,
//! and it would soon grow again.

use std::path::Path;

use ax_core::time::{Span, WallTime};
use rusqlite::{Connection, TransactionBehavior};

use super::blobs::Blobs;
use super::error::{Doing, Result};
use super::meta;

/// A second submission under the same key is answered with the first one's job for so long.
const KEYS_STAY: Span = Span::seconds(30 * 86_400);
/// Jobs that go in one transaction.
const JOBS: u32 = 50;
/// Lines of their stories. Of a longer one a part goes at a time, and the job with the last.
const LINES: usize = 2000;
/// Keys that go in one transaction.
const KEYS: u32 = 500;

/// How far it has come.
#[derive(Debug)]
pub(crate) struct Pruning {
    now: WallTime,
    /// Jobs that ended before this go; absent: none.
    before: Option<WallTime>,
    /// Jobs that are gone.
    pub(crate) jobs: u64,
}

/// A job that is to go.
struct Old {
    number: u32,
    key: Vec<u8>,
    uid: u32,
    id: String,
    submitted_at: WallTime,
}

impl Pruning {
    /// What is due at this time, where finished jobs stay for so long (absent: for ever).
    pub(crate) fn at(now: WallTime, keep: Option<Span>) -> Pruning {
        Pruning { now, before: keep.map(|keep| earlier(now, keep)), jobs: 0 }
    }

    /// Removes a little. `false`: nothing is left to remove.
    pub(crate) fn go_on(
        &mut self,
        connection: &mut Connection,
        database: &Path,
        blobs: &mut Blobs,
    ) -> Result<bool> {
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .doing("begin a change of", database)?;
        let old = match self.before {
            Some(before) => old_jobs(&tx, before).doing("look for old jobs in", database)?,
            None => Vec::new(),
        };
        if !old.is_empty() {
            numbers_stay(&tx, database)?;
        }
        let mut gone = 0;
        let mut lines = LINES;
        for job in &old {
            if !self.remove(&tx, job, &mut lines, blobs).doing("remove old jobs from", database)? {
                break;
            }
            gone += 1;
        }
        if let Some(before) = self.before {
            forget_nodes(&tx, before).doing("remove old lines about nodes from", database)?;
        }
        let keys = forget_keys(&tx, earlier(self.now, KEYS_STAY)).doing("remove old keys from", database)?;
        tx.commit().doing("commit to", database)?;
        self.jobs += gone;
        Ok(!old.is_empty() || keys)
    }

    /// Removes a job and what is only its own. `false`: its story was too long for this time.
    fn remove(
        &self,
        connection: &Connection,
        job: &Old,
        lines: &mut usize,
        blobs: &mut Blobs,
    ) -> rusqlite::Result<bool> {
        let told = connection
            .prepare_cached("DELETE FROM log WHERE line IN (SELECT line FROM log WHERE job = ?1 LIMIT ?2)")?
            .execute((job.number, i64::try_from(*lines).unwrap_or(i64::MAX)))?;
        *lines = lines.saturating_sub(told);
        if *lines == 0 {
            return Ok(false);
        }
        let contents = contents_of(connection, job.number)?;
        for sql in [
            "DELETE FROM attempts WHERE job = ?1",
            "DELETE FROM details WHERE number = ?1",
            "DELETE FROM jobs WHERE number = ?1",
        ] {
            connection.prepare_cached(sql)?.execute([job.number])?;
        }
        for content in contents {
            blobs.drop_unused(connection, content)?;
        }
        if job.submitted_at > earlier(self.now, KEYS_STAY) {
            connection
                .prepare_cached("INSERT OR REPLACE INTO old_keys VALUES (?1, ?2, ?3, ?4)")?
                .execute((&job.key, job.uid, &job.id, job.submitted_at.0))?;
        }
        Ok(true)
    }
}

fn earlier(now: WallTime, by: Span) -> WallTime {
    WallTime(now.0.saturating_sub(i64::try_from(by.0).unwrap_or(i64::MAX)))
}

/// The jobs that are over for longest. One that waits for a person's answer is not over, and one that was set aside
/// is a person's to look at.
fn old_jobs(connection: &Connection, before: WallTime) -> rusqlite::Result<Vec<Old>> {
    let sql = "SELECT number, key, uid, id, submitted_at FROM jobs
               WHERE ended_at IS NOT NULL AND ended_at < ?1 AND live = 0
                 AND number NOT IN (SELECT number FROM broken)
               ORDER BY ended_at, number LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map((before.0, JOBS), |row| {
        let (number, key, uid, id) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok(Old { number, key, uid, id, submitted_at: WallTime(row.get(4)?) })
    })?;
    rows.collect()
}

/// Script and environment.
fn contents_of(connection: &Connection, number: u32) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT script FROM details WHERE number = ?1
               UNION SELECT environment FROM details WHERE number = ?1";
    connection.prepare_cached(sql)?.query_map([number], |row| row.get(0))?.collect()
}

/// The next start goes on behind the highest number and epoch in the tables: they are written down before they go.
fn numbers_stay(connection: &Connection, database: &Path) -> Result<()> {
    let (number, epoch) = meta::next_numbers(connection, database)?;
    meta::set(connection, meta::NEXT_NUMBER, &number.to_string())
        .and_then(|()| meta::set(connection, meta::NEXT_EPOCH, &epoch.to_string()))
        .doing("write", database)
}

/// The story of nodes and cards goes with that of the jobs.
fn forget_nodes(connection: &Connection, before: WallTime) -> rusqlite::Result<()> {
    let sql = "DELETE FROM node_log WHERE line IN (SELECT line FROM node_log WHERE at < ?1 LIMIT ?2)";
    connection.prepare_cached(sql)?.execute((before.0, KEYS)).map(drop)
}

/// Whether there may be more.
fn forget_keys(connection: &Connection, before: WallTime) -> rusqlite::Result<bool> {
    let sql =
        "DELETE FROM old_keys WHERE rowid IN (SELECT rowid FROM old_keys WHERE submitted_at <= ?1 LIMIT ?2)";
    Ok(connection.prepare_cached(sql)?.execute((before.0, KEYS))? > 0)
}
