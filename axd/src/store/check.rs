//! `axd --db-check`: checks the database by SQLite's rules and ax's. Only reads; may run beside the daemon.

use std::collections::HashMap;

use ax_core::id::{Epoch, JobNumber};
use ax_core::job::Job;
use ax_core::paths::Paths;
use rusqlite::{Connection, Row};

use super::apply::{is_live, over_at, signed};
use super::error::{Doing, Result};
use super::{blobs, open, restore};

/// So many problems are named; the rest are counted.
const NAMED: usize = 100;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Jobs looked at.
    pub jobs: u64,
    /// Attempts looked at.
    pub attempts: u64,
    /// Scripts and environments looked at.
    pub blobs: u64,
    /// Jobs that were set aside at a start.
    pub set_aside: u64,
    /// What is wrong, one line each: the first hundred.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < NAMED {
            self.problems.push(text);
        } else {
            self.more += 1;
        }
    }
}

/// Checks the whole database.
///
/// # Errors
/// When it can't be read at all.
pub fn check(paths: &Paths) -> Result<Report> {
    let path = paths.database();
    let connection = open::reading_connection(&path)?;
    // One transaction: the daemon may be writing.
    let moment = connection.unchecked_transaction().doing("read", &path)?;
    let mut report = Report::default();
    let checks = [integrity, references, set_aside, jobs, attempts, contents, unused];
    for check in checks {
        check(&moment, &mut report).doing("check", &path)?;
    }
    Ok(report)
}

fn each(
    connection: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

fn integrity(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    each(connection, "PRAGMA integrity_check", |row| {
        let line: String = row.get(0)?;
        if line != "ok" {
            report.problem(line);
        }
        Ok(())
    })
}

fn references(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    each(connection, "PRAGMA foreign_key_check", |row| {
        let (table, line, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        report.problem(format!("{table} {} refers to what is not in {parent}", line.unwrap_or_default()));
        Ok(())
    })
}

fn set_aside(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    each(connection, "SELECT number, reason FROM broken ORDER BY number", |row| {
        let (number, reason): (u32, String) = (row.get(0)?, row.get(1)?);
        report.set_aside += 1;
        report.problem(format!("job {number} was set aside: {reason}"));
        Ok(())
    })
}

/// Every record parses and says what the columns beside it say; no two jobs hold one epoch.
fn jobs(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let mut epochs: HashMap<Epoch, JobNumber> = HashMap::new();
    let sql = "SELECT number, core, id, key, uid, state, live, ended_at FROM jobs
               WHERE number NOT IN (SELECT number FROM broken) ORDER BY number";
    each(connection, sql, |row| {
        report.jobs += 1;
        let number = JobNumber(row.get(0)?);
        let job = match restore::job_of(number, row.get_ref(1)?.as_bytes()?) {
            Ok(job) => job,
            Err(reason) => {
                report.problem(format!("job {number}: {reason}"));
                return Ok(());
            }
        };
        if !columns_agree(row, &job)? {
            report.problem(format!("{}: its record and the columns beside it differ", job.id));
        }
        if let Some(attempt) = &job.attempt
            && let Some(other) = epochs.insert(attempt.name.epoch, number)
        {
            report.problem(format!("jobs {other} and {number} share epoch {}", attempt.name.epoch));
        }
        Ok(())
    })
}

fn columns_agree(row: &Row<'_>, job: &Job) -> rusqlite::Result<bool> {
    Ok(row.get_ref(2)?.as_str()? == job.id.to_string()
        && row.get_ref(3)?.as_bytes()? == job.key.0.to_be_bytes()
        && row.get::<_, u32>(4)? == job.owner.uid.0
        && row.get_ref(5)?.as_str()? == job.state.word()
        && row.get::<_, bool>(6)? == is_live(job.state)
        && row.get::<_, Option<i64>>(7)? == over_at(job))
}

/// The last attempt of each job is the one that its record names, and its end is in both or in none.
fn attempts(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let mut last: HashMap<JobNumber, (i64, bool)> = HashMap::new();
    each(connection, "SELECT job, epoch, ended_at IS NOT NULL FROM attempts ORDER BY epoch", |row| {
        report.attempts += 1;
        last.insert(JobNumber(row.get(0)?), (row.get(1)?, row.get(2)?));
        Ok(())
    })?;
    let sql = "SELECT number, core FROM jobs WHERE number NOT IN (SELECT number FROM broken)";
    each(connection, sql, |row| {
        let number = JobNumber(row.get(0)?);
        let Ok(job) = restore::job_of(number, row.get_ref(1)?.as_bytes()?) else { return Ok(()) };
        let says = job.attempt.as_ref().map(|a| (signed(a.name.epoch.0), a.end.is_some()));
        if says != last.get(&number).copied() {
            report.problem(format!("{}: its record and its attempts differ", job.id));
        }
        Ok(())
    })
}

/// Every script and environment can be unpacked.
fn contents(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    each(connection, "SELECT id, size, packed, content FROM blobs", |row| {
        report.blobs += 1;
        let (id, size, packed, content): (i64, i64, bool, Vec<u8>) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        if let Err(error) = blobs::unpack(size, packed, content) {
            report.problem(format!("content {id} can't be unpacked: {error}"));
        }
        Ok(())
    })
}

/// Every script and environment is some job's.
fn unused(connection: &Connection, report: &mut Report) -> rusqlite::Result<()> {
    let sql = "SELECT id FROM blobs
               WHERE id NOT IN (SELECT script FROM details UNION SELECT environment FROM details)";
    each(connection, sql, |row| {
        report.problem(format!("content {} is no job's", row.get::<_, i64>(0)?));
        Ok(())
    })
}
