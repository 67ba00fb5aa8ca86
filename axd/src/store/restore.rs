//! What a restart reads: the jobs that are not over, and where numbers go on. A record that can't be read is set
//! aside, and the daemon goes on.

use std::collections::BTreeMap;

use ax_core::controller::Known;
use ax_core::id::{AttemptName, Epoch, HostName, JobNumber, Uid};
use ax_core::job::Job;
use ax_core::job::shared::Shared;
use ax_core::schedule::fragmentation::Mix;
use ax_core::schedule::history::History;
use ax_core::schedule::losses::Losses;
use ax_core::schedule::share::VirtualTimes;
use ax_core::schedule::usage::Usages;
use ax_core::time::WallTime;
use thiserror::Error;

use super::blobs::{Content, Footprint};
use super::error::{Doing, Result};
use super::meta;
use super::open::Store;
use crate::forecasts::Forecasts;

/// What a restart goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Restored {
    /// Jobs that are not over, and those that wait for a person's answer; by number.
    pub jobs: Vec<Job>,
    /// The number that the next job gets.
    pub next_number: JobNumber,
    /// The epoch that the next attempt gets.
    pub next_epoch: Epoch,
    /// What the queues and the users have had.
    pub shares: (VirtualTimes, Usages),
    /// What was asked of cards lately.
    pub mix: Mix,
    /// When jobs were told that they would start.
    pub forecasts: Forecasts,
    /// What is known of nodes and cards.
    pub known: BTreeMap<HostName, Known>,
    /// What jobs took.
    pub history: History,
    /// What making room has cost lately.
    pub losses: Losses,
    /// The boot whose clock the jobs' boot times refer to, if one was recorded.
    pub boot: Option<String>,
    /// Jobs that could not be read, now and before.
    pub broken: Vec<Broken>,
}

/// A job whose record can't be read: set aside, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its number.
    pub number: JobNumber,
    /// Its id, as the database has it.
    pub id: String,
    /// What is wrong with it.
    pub reason: String,
    /// Attempts of it that have not ended, as far as is known: they may still run.
    pub open_attempts: Vec<Epoch>,
}

impl Broken {
    /// Its attempts that may still run. Nobody starts it again, so they do no harm, and are somebody's work.
    pub fn may_run(&self) -> Vec<AttemptName> {
        let name = |epoch: &Epoch| format!("{}.{epoch}", self.id).parse().ok();
        self.open_attempts.iter().filter_map(name).collect()
    }
}

/// What a job that is not over has in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The job.
    pub job: JobNumber,
    /// Whose.
    pub uid: Uid,
    /// What it has.
    pub footprint: Footprint,
}

/// Jobs that can't be read, each with the reason.
type Unreadable = Vec<(JobNumber, String)>;

impl Store {
    /// Reads what a restart needs, and sets aside what can't be read.
    ///
    /// # Errors
    /// When the database itself can't be read or written.
    pub fn restore(&mut self, now: WallTime) -> Result<Restored> {
        let (jobs, unreadable) = self.living_jobs()?;
        for (number, reason) in &unreadable {
            self.set_aside(*number, now, reason)?;
        }
        let (next_number, next_epoch) = self.next();
        Ok(Restored {
            jobs,
            next_number,
            next_epoch,
            shares: self.shares()?,
            mix: self.mix()?,
            forecasts: self.forecasts()?,
            known: self.known()?,
            history: self.history()?,
            losses: self.losses()?,
            boot: meta::get(&self.connection, &self.database, meta::BOOT)?,
            broken: self.broken()?,
        })
    }

    /// Unreadable ones are none: the queues then begin level.
    fn shares(&self) -> Result<(VirtualTimes, Usages)> {
        let text = meta::get(&self.connection, &self.database, meta::SHARES)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn forecasts(&self) -> Result<Forecasts> {
        let text = meta::get(&self.connection, &self.database, meta::FORECASTS)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    fn mix(&self) -> Result<Mix> {
        let text = meta::get(&self.connection, &self.database, meta::MIX)?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// What the jobs that are not over have in the store, one after the other: there may be very many.
    ///
    /// # Errors
    /// When the database can't be read.
    pub fn holdings(&self, mut each: impl FnMut(Holding)) -> Result<()> {
        let database = &self.database;
        let sql = "SELECT jobs.number, jobs.uid, s.sha256, s.size, e.sha256, e.size,
                          octet_length(details)
                   FROM jobs JOIN details ON details.number = jobs.number
                   JOIN blobs s ON s.id = details.script JOIN blobs e ON e.id = details.environment
                   WHERE live = 1";
        let mut statement = self.connection.prepare(sql).doing("read", database)?;
        let rows = statement.query_map([], |row| {
            let content = |hash, size| {
                let size: i64 = row.get(size)?;
                Ok::<_, rusqlite::Error>(Content::known(row.get_ref(hash)?.as_bytes()?, size.unsigned_abs()))
            };
            let (job, uid) = (JobNumber(row.get(0)?), Uid(row.get(1)?));
            let contents = [content(2, 3)?, content(4, 5)?];
            let footprint = Footprint { contents, details: row.get::<_, i64>(6)?.unsigned_abs() };
            Ok(Holding { job, uid, footprint })
        });
        rows.and_then(|mut rows| rows.try_for_each(|row| row.map(&mut each))).doing("read", database)
    }

    fn living_jobs(&self) -> Result<(Vec<Job>, Unreadable)> {
        let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
        // Each as soon as it is read: what very many have for themselves for a while is not given back in one piece.
        let mut shared = Shared::default();
        let sql = "SELECT number, core FROM jobs WHERE live = 1 ORDER BY number";
        let mut statement = self.connection.prepare(sql).doing("read", &self.database)?;
        let mut rows = statement.query([]).doing("read", &self.database)?;
        while let Some(row) = rows.next().doing("read", &self.database)? {
            let number = JobNumber(row.get(0).doing("read", &self.database)?);
            let core = row.get_ref(1).doing("read", &self.database)?;
            let text = core.as_bytes().map_err(|e| e.to_string());
            match text.and_then(|text| job_of(number, text).map_err(|e| e.to_string())) {
                Ok(mut job) => {
                    shared.share(&mut job);
                    jobs.push(job);
                }
                Err(reason) => unreadable.push((number, reason)),
            }
        }
        Ok((jobs, unreadable))
    }

    fn set_aside(&self, number: JobNumber, now: WallTime, reason: &str) -> Result<()> {
        let database = &self.database;
        let tx = self.connection.unchecked_transaction().doing("begin a change of", database)?;
        tx.execute("INSERT OR REPLACE INTO broken VALUES (?1, ?2, ?3)", (number.0, now.0, reason))
            .and_then(|_| tx.execute("UPDATE jobs SET live = 0 WHERE number = ?1", [number.0]))
            .doing("set a job aside in", database)?;
        tx.commit().doing("commit to", database)
    }

    fn broken(&self) -> Result<Vec<Broken>> {
        let database = &self.database;
        let sql = "SELECT number, id, reason FROM broken JOIN jobs USING (number) ORDER BY number";
        let mut statement = self.connection.prepare(sql).doing("read", database)?;
        let rows = statement.query_map([], |row| Ok((JobNumber(row.get(0)?), row.get(1)?, row.get(2)?)));
        let rows: Vec<_> = rows.and_then(Iterator::collect).doing("read", database)?;
        let open = |number: JobNumber| self.open_attempts(number);
        rows.into_iter()
            .map(|(number, id, reason)| Ok(Broken { number, id, reason, open_attempts: open(number)? }))
            .collect()
    }

    fn open_attempts(&self, number: JobNumber) -> Result<Vec<Epoch>> {
        let sql = "SELECT epoch FROM attempts WHERE job = ?1 AND ended_at IS NULL ORDER BY epoch";
        let mut statement = self.connection.prepare_cached(sql).doing("read", &self.database)?;
        let epochs = statement.query_map([number.0], |row| Ok(Epoch(row.get::<_, i64>(0)?.unsigned_abs())));
        epochs.and_then(Iterator::collect).doing("read", &self.database)
    }
}

/// Why a record is not that of a job.
#[derive(Debug, Error)]
pub(crate) enum BadRecord {
    /// It is none at all.
    #[error("its record does not parse: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is another's.
    #[error("its record is that of job {0}")]
    OfAnother(JobNumber),
}

/// A job out of its record.
pub(crate) fn job_of(number: JobNumber, core: &[u8]) -> std::result::Result<Job, BadRecord> {
    let job: Job = serde_json::from_slice(core)?;
    if job.id.number == number { Ok(job) } else { Err(BadRecord::OfAnother(job.id.number)) }
}
