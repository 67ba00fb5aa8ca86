//! What the last runs of each user's things took: written with each run, read at a start. An older database, without
//! such rows, gets them once from its accounts.

use ax_core::id::Uid;
use ax_core::job::Job;
use ax_core::schedule::history::{History, Run, Runs, Signature, THINGS};
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};
use rusqlite::Connection;

use super::error::{Doing, Result};
use super::meta;
use super::open::Store;

/// So many of the last runs in the accounts are looked at.
const LOOKED_AT: u32 = 20_000;

/// A thing's last runs, as one row.
#[derive(Debug, Clone)]
pub struct Learnt {
    /// Whose.
    pub user: Uid,
    /// What.
    pub thing: Signature,
    /// How they went.
    pub runs: Runs,
}

/// Writes one down; a user's oldest go beyond as many as the controller remembers.
pub(crate) fn write(connection: &Connection, learnt: &Learnt) -> rusqlite::Result<()> {
    let runs = serde_json::to_string(&learnt.runs)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    connection
        .prepare_cached(
            "INSERT INTO profiles (uid, thing, runs, last_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (uid, thing) DO UPDATE SET runs = ?3, last_at = ?4",
        )?
        .execute((learnt.user.0, key(learnt.thing), runs, learnt.runs.last().0))?;
    connection
        .prepare_cached(
            "DELETE FROM profiles WHERE uid = ?1 AND thing IN (
                 SELECT thing FROM profiles WHERE uid = ?1 ORDER BY last_at DESC, thing DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute((learnt.user.0, THINGS as i64))
        .map(drop)
}

/// Big-endian: the order of these bytes is that of the numbers.
fn key(thing: Signature) -> [u8; 8] {
    thing.0.to_be_bytes()
}

impl Store {
    /// What is known of earlier runs.
    pub(super) fn history(&self) -> Result<History> {
        if meta::get(&self.connection, &self.database, meta::PROFILES)?.is_none() {
            self.learn_from_accounts()?;
        }
        let mut history = History::default();
        let sql = "SELECT uid, thing, runs FROM profiles";
        let mut statement = self.connection.prepare(sql).doing("read", &self.database)?;
        let rows = statement.query_map([], |row| {
            let thing: Vec<u8> = row.get(1)?;
            let runs: String = row.get(2)?;
            Ok((Uid(row.get(0)?), thing, runs))
        });
        let rows: Vec<_> = rows.and_then(Iterator::collect).doing("read", &self.database)?;
        // One that can't be read is learnt anew.
        for (user, thing, runs) in rows {
            let thing = thing.try_into().ok().map(|bytes| Signature(u64::from_be_bytes(bytes)));
            if let (Some(thing), Ok(runs)) = (thing, serde_json::from_str(&runs)) {
                history.restore(user, thing, runs);
            }
        }
        Ok(history)
    }

    fn learn_from_accounts(&self) -> Result<()> {
        let database = &self.database;
        let mut history = History::default();
        for (job, run) in self.last_runs()? {
            let thing = match job.signature.is_unknown() {
                true => Signature::of(&job.name, job.request.cards.as_ref()).on(job.request.nodes().min),
                false => job.signature,
            };
            history.add(job.owner.uid, thing, &run);
        }
        let tx = self.connection.unchecked_transaction().doing("begin a change of", database)?;
        // What was learnt from a run is exact; the accounts know less of it.
        let learnt = "SELECT EXISTS (SELECT 1 FROM profiles)";
        let has_learnt: bool = tx.query_row(learnt, [], |row| row.get(0)).doing("read", database)?;
        for (user, thing, runs) in history.iter().filter(|_| !has_learnt) {
            write(&tx, &Learnt { user, thing, runs: runs.clone() }).doing("write to", database)?;
        }
        meta::set(&tx, meta::PROFILES, "1").doing("write to", database)?;
        tx.commit().doing("commit to", database)
    }

    /// The last runs that succeeded, the first of them first. A job that can't be read teaches nothing.
    fn last_runs(&self) -> Result<Vec<(Job, Run)>> {
        let sql = "SELECT core, started_at, attempts.ended_at, max_gpu_mem_mb FROM attempts
                   JOIN jobs ON jobs.number = attempts.job
                   WHERE outcome = 'SUCCEEDED' AND started_at IS NOT NULL AND attempts.ended_at IS NOT NULL
                   ORDER BY epoch DESC LIMIT ?1";
        let mut statement = self.connection.prepare(sql).doing("read", &self.database)?;
        let rows = statement.query_map([LOOKED_AT], |row| {
            let core: String = row.get(0)?;
            let (from, to) = (WallTime(row.get(1)?), WallTime(row.get(2)?));
            let peak: Option<i64> = row.get(3)?;
            let peak = peak.map(|mb| Megabytes(mb.unsigned_abs()));
            let job: Option<Job> = serde_json::from_str(&core).ok();
            Ok(job.map(|job| {
                let length: Span = job.rare.saved + (to - from);
                (job, Run { length, peak, ended: to })
            }))
        });
        let mut runs: Vec<_> = rows
            .and_then(|rows| rows.filter_map(rusqlite::Result::transpose).collect())
            .doing("read", &self.database)?;
        runs.reverse();
        Ok(runs)
    }

    /// What making room has cost lately; what can't be read was nothing.
    pub(super) fn losses(&self) -> Result<ax_core::schedule::losses::Losses> {
        let text = meta::get(&self.connection, &self.database, meta::LOSSES)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }
}
