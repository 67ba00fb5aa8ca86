//! Readers: connections that can't write, each with its own view of what is durable. They answer what the controller
//! does not hold, or no longer holds.

use std::path::PathBuf;
use std::sync::Arc;

use ax_core::api::{JobView, JobsQuery};
use ax_core::id::{Epoch, JobId, JobNumber, SubmissionKey, Uid};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{AttemptEnd, Job};
use ax_core::node::Allocation;
use ax_core::paths::Paths;
use ax_core::size::Megabytes;
use ax_core::text::count;
use ax_core::time::{Span, WallTime};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, params_from_iter};

use super::details::{Details, Environment, OutputFiles, Usage};
use super::error::{Doing, Result, StoreError};
use super::rows::{LogKind, LogRow};
use super::{blobs, open, restore, view};

/// Most lines of a job's story that are read at a time, and most bytes: it is read where others wait for it.
const MOST_LINES: u32 = 10_000;
const MOST_BYTES: usize = 256 << 10;

/// What a line has beside its text, about.
const LINE: usize = 64;

/// A connection that can only read.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Connection,
}

/// An attempt as written down.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    /// Fencing token.
    pub epoch: Epoch,
    /// From 1.
    pub number: u32,
    /// What it holds or held of its first node.
    pub allocation: Allocation,
    /// Of the others.
    pub others: Vec<Allocation>,
    /// Why this job, and why there.
    pub why: String,
    /// When it was decided.
    pub assigned_at: WallTime,
    /// When its script began.
    pub started_at: Option<WallTime>,
    /// When it was proved over.
    pub ended_at: Option<WallTime>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
    /// What it used.
    pub usage: Usage,
    /// How long its cards did nothing.
    pub idle: Option<Span>,
    /// Where it writes or wrote.
    pub files: OutputFiles,
}

/// Finished jobs, newest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finished {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// How many more there are than the limit let through.
    pub left_out: u64,
    /// Jobs among them whose record can't be read.
    pub unreadable: u64,
}

impl Finished {
    /// What is to be said of jobs that can't be read.
    pub(crate) fn warning(&self) -> Option<String> {
        let what = (self.unreadable > 0).then(|| count(self.unreadable, "finished job"))?;
        Some(format!("{what} can't be read, left out here; 'axctl db check' says which and why"))
    }
}

impl Reader {
    /// Opens the database for reading; it must be there.
    pub fn open(paths: &Paths) -> Result<Reader> {
        let path = paths.database();
        Ok(Reader { connection: open::reading_connection(&path)?, path })
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.connection.prepare_cached(sql).doing("read", &self.path)?;
        statement.query_row(params, map).optional().doing("read", &self.path)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.connection.prepare_cached(sql).doing("read", &self.path)?;
        let rows = statement.query_map(params, map).doing("read", &self.path)?;
        rows.collect::<rusqlite::Result<_>>().doing("read", &self.path)
    }

    fn content(&self, what: String) -> StoreError {
        StoreError::Content { doing: "understand", path: self.path.clone(), what }
    }

    /// The job with this number.
    pub fn by_number(&self, number: JobNumber) -> Result<Option<JobId>> {
        self.one("SELECT id FROM jobs WHERE number = ?1", [number.0], |row| parsed(row, 0))
    }

    /// The job that a user's key became: as long as the accounts have it, and at least for 30 days.
    pub fn by_key(&self, uid: Uid, key: SubmissionKey) -> Result<Option<JobId>> {
        let params = (&key.0.to_be_bytes()[..], uid.0);
        let sql = "SELECT id FROM jobs WHERE key = ?1 AND uid = ?2
                   UNION ALL SELECT id FROM old_keys WHERE key = ?1 AND uid = ?2 LIMIT 1";
        self.one(sql, params, |row| parsed(row, 0))
    }

    /// The jobs that a ticket may mean: one for each user who used the key.
    pub fn by_ticket(&self, key: SubmissionKey) -> Result<Vec<(JobId, Uid)>> {
        let sql = "SELECT id, uid FROM jobs WHERE key = ?1 ORDER BY number";
        self.all(sql, [&key.0.to_be_bytes()[..]], |row| Ok((parsed(row, 0)?, Uid(row.get(1)?))))
    }

    /// The core's record of a job, over or not.
    pub fn job(&self, number: JobNumber) -> Result<Option<Job>> {
        let core = self.one("SELECT core FROM jobs WHERE number = ?1", [number.0], |row| {
            Ok(restore::job_of(number, row.get_ref(0)?.as_bytes()?))
        })?;
        core.transpose().map_err(|what| self.content(format!("job {number}: {what}")))
    }

    /// What its submission said.
    pub fn details(&self, number: JobNumber) -> Result<Option<Details>> {
        let sql = "SELECT details FROM details WHERE number = ?1";
        self.one(sql, [number.0], |row| json(row, 0))
    }

    /// Its script, as submitted.
    pub fn script(&self, number: JobNumber) -> Result<Option<Vec<u8>>> {
        let sql =
            "SELECT size, packed, content FROM details JOIN blobs ON blobs.id = script WHERE number = ?1";
        self.blob(sql, number, "script")
    }

    /// Its submitter's environment.
    pub fn environment(&self, number: JobNumber) -> Result<Option<Environment>> {
        let sql = "SELECT size, packed, content FROM details JOIN blobs ON blobs.id = environment WHERE number = ?1";
        let text = self.blob(sql, number, "environment")?;
        text.map(|text| serde_json::from_slice(&text).doing("understand an environment in", &self.path))
            .transpose()
    }

    fn blob(&self, sql: &str, number: JobNumber, what: &str) -> Result<Option<Vec<u8>>> {
        let found = self.one(sql, [number.0], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        found
            .map(|(size, packed, content)| blobs::unpack(size, packed, content))
            .transpose()
            .map_err(|error| self.content(format!("{what} of job {number}: {error}")))
    }

    /// Its attempts, the first one first.
    pub fn attempts(&self, number: JobNumber) -> Result<Vec<AttemptRecord>> {
        let sql =
            "SELECT epoch, number, allocation, why, assigned_at, started_at, ended_at, outcome, exit_code,
                          signal, message, cpu_us, max_ram_mb, max_gpu_mem_mb, stdout, stderr, idle_ms, others
                   FROM attempts WHERE job = ?1 ORDER BY epoch";
        self.all(sql, [number.0], attempt_record)
    }

    /// Its moves and notes, in order; of very many, which only somebody who plays with a job
    /// makes, the last.
    pub fn log(&self, number: JobNumber) -> Result<Vec<LogRow>> {
        let sql = "SELECT at, actor, from_state, to_state, text FROM log WHERE job = ?1
                   ORDER BY line DESC LIMIT ?2";
        let mut statement = self.connection.prepare_cached(sql).doing("read", &self.path)?;
        let mut rows = statement.query((number.0, MOST_LINES)).doing("read", &self.path)?;
        let (mut lines, mut room) = (Vec::new(), MOST_BYTES);
        while let Some(row) = rows.next().doing("read", &self.path)? {
            let line = log_row(number, row).doing("read", &self.path)?;
            let Some(left) = room.checked_sub(LINE + line.text.len()) else { break };
            (room, _) = (left, lines.push(line));
        }
        lines.reverse();
        Ok(lines)
    }

    /// Everything about a job that is written down.
    pub fn view(&self, number: JobNumber, now: WallTime) -> Result<Option<JobView>> {
        // One transaction, so that all parts are of the same moment.
        let _moment = self.connection.unchecked_transaction().doing("read", &self.path)?;
        let Some(job) = self.job(number)? else { return Ok(None) };
        let log = self.log(number)?;
        let mut view = self.account(&job, &log, now)?;
        view::add_decisions(&mut view, &log);
        if let Some(details) = self.details(number)? {
            view::add_submission(&mut view, &details);
        }
        Ok(Some(view))
    }

    /// All but the decisions.
    fn account(&self, job: &Job, log: &[LogRow], now: WallTime) -> Result<JobView> {
        let mut view = view::of_job(job);
        if let Some(details) = self.details(job.id.number)? {
            view::add_details(&mut view, job, &details);
        }
        view::add_attempts(&mut view, &self.attempts(job.id.number)?);
        view::add_times(&mut view, log, now);
        Ok(view)
    }

    /// Jobs that are over, newest end first.
    pub fn finished(&self, query: &JobsQuery, now: WallTime) -> Result<Finished> {
        let _moment = self.connection.unchecked_transaction().doing("read", &self.path)?;
        let (conditions, mut values) = conditions(query);
        let limit = query.limit.map_or(-1, i64::from);
        values.push(Value::Integer(limit));
        let sql = format!(
            "SELECT number, core FROM jobs WHERE {conditions} ORDER BY ended_at DESC, number DESC LIMIT ?"
        );
        let cores = self.all(&sql, params_from_iter(&values), |row| {
            Ok(restore::job_of(JobNumber(row.get(0)?), row.get_ref(1)?.as_bytes()?))
        })?;
        let mut found = Finished::default();
        if i64::try_from(cores.len()).is_ok_and(|count| count == limit) {
            values.pop();
            let sql = format!("SELECT count(*) FROM jobs WHERE {conditions}");
            let all = self.one(&sql, params_from_iter(&values), |row| row.get::<_, i64>(0))?;
            found.left_out = all.unwrap_or(0).saturating_sub(limit).unsigned_abs();
        }
        for core in cores {
            match core {
                Ok(job) => {
                    let log = self.log(job.id.number)?;
                    found.jobs.push(self.account(&job, &log, now)?);
                }
                Err(_) => found.unreadable += 1,
            }
        }
        Ok(found)
    }
}

/// The WHERE clause: its text is made of constants alone, what people wrote is bound.
fn conditions(query: &JobsQuery) -> (String, Vec<Value>) {
    let mut texts = vec!["ended_at IS NOT NULL".to_owned()];
    let mut values = Vec::new();
    let mut any_of = |column: &str, words: Vec<&str>| match words.as_slice() {
        [] => {}
        [word] => {
            texts.push(format!("{column} = ?"));
            values.push(Value::Text((*word).to_owned()));
        }
        words => {
            texts.push(format!("{column} IN (SELECT value FROM json_each(?))"));
            values.push(Value::Text(serde_json::json!(words).to_string()));
        }
    };
    any_of("user", query.user.iter().map(String::as_str).collect());
    any_of("queue", query.queue.iter().map(String::as_str).collect());
    any_of("name", query.name.iter().map(String::as_str).collect());
    any_of("state", query.state.iter().map(|s| s.word()).collect());
    if !query.number.is_empty() {
        texts.push("number IN (SELECT value FROM json_each(?))".to_owned());
        values.push(Value::Text(serde_json::json!(query.number).to_string()));
    }
    if let Some(since) = query.since {
        texts.push("ended_at >= ?".to_owned());
        values.push(Value::Integer(since.0));
    }
    if let Some(until) = query.until {
        texts.push("ended_at < ?".to_owned());
        values.push(Value::Integer(until.0));
    }
    (texts.join(" AND "), values)
}

fn attempt_record(row: &Row<'_>) -> rusqlite::Result<AttemptRecord> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(WallTime));
    let number = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs));
    let outcome: Option<Outcome> = parsed_if_there(row, 7)?;
    let end = match outcome {
        None => None,
        Some(outcome) => {
            let (exit_code, signal, message) = (row.get(8)?, row.get(9)?, row.get(10)?);
            Some(AttemptEnd { outcome, exit_code, signal, message, card_peak: None })
        }
    };
    Ok(AttemptRecord {
        epoch: Epoch(row.get::<_, i64>(0)?.unsigned_abs()),
        number: row.get(1)?,
        allocation: json(row, 2)?,
        others: if row.get_ref(17)? == ValueRef::Null { Vec::new() } else { json(row, 17)? },
        why: row.get(3)?,
        assigned_at: WallTime(row.get(4)?),
        started_at: time(5)?,
        ended_at: time(6)?,
        end,
        usage: Usage {
            cpu_us: number(11)?,
            max_ram: number(12)?.map(Megabytes),
            max_gpu_mem: number(13)?.map(Megabytes),
        },
        idle: number(16)?.map(Span),
        files: OutputFiles { stdout: row.get(14)?, stderr: row.get(15)? },
    })
}

fn log_row(job: JobNumber, row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let actor: String = row.get(1)?;
    let from: Option<JobState> = parsed_if_there(row, 2)?;
    let kind = match parsed_if_there(row, 3)? {
        Some(to) => LogKind::Move { from, to },
        None => LogKind::Note,
    };
    Ok(LogRow { job, at: WallTime(row.get(0)?), actor: Arc::from(actor), kind, text: row.get(4)? })
}

fn wrong(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

/// A text column with a text form of its own.
fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|e| wrong(column, e))
}

fn parsed_if_there<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    T: std::str::FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| text.parse().map_err(|e| wrong(column, e))).transpose()
}

/// A text column that holds JSON.
fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|e| wrong(column, e))
}
