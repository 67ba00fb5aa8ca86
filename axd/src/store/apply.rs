//! Writes rows by SQL: cached statements, every value bound. Runs only inside the writer's transaction.

use std::collections::HashMap;

use ax_core::job::Job;
use ax_core::job::state::JobState;
use rusqlite::{Connection, Error, Result, named_params};

use super::blobs::Blobs;
use super::meta;
use super::nodes;
use super::profiles;
use super::rows::{AttemptClosed, AttemptOpened, Batch, LogKind, LogRow, NewJob, Row};

/// What the writer keeps from one transaction to the next.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    pub(crate) blobs: Blobs,
}

impl Applier {
    /// Applies batches in order. Of several records of a job in one
    /// transaction only the last is written: nobody can see the others.
    pub(crate) fn apply<'b>(
        &mut self,
        connection: &Connection,
        batches: impl Iterator<Item = &'b Batch> + Clone,
    ) -> Result<()> {
        let rows = || batches.clone().flat_map(|b| &b.rows).enumerate();
        let mut last = HashMap::new();
        for (place, row) in rows() {
            if let Row::JobChanged(job) = row {
                last.insert(job.id.number, place);
            }
        }
        for (place, row) in rows() {
            match row {
                Row::JobChanged(job) if last.get(&job.id.number) != Some(&place) => {}
                row => self.row(connection, row)?,
            }
        }
        Ok(())
    }

    fn row(&mut self, connection: &Connection, row: &Row) -> Result<()> {
        match row {
            Row::NewJob(new) => self.new_job(connection, new),
            Row::JobChanged(job) => job_changed(connection, job),
            Row::Log(line) => log(connection, line),
            Row::AttemptOpened(opened) => attempt_opened(connection, opened),
            Row::AttemptFiles { epoch, files } => connection
                .prepare_cached("UPDATE attempts SET stdout = ?2, stderr = ?3 WHERE epoch = ?1")?
                .execute((signed(epoch.0), &files.stdout, &files.stderr))
                .map(drop),
            Row::AttemptStarted { epoch, at } => connection
                .prepare_cached("UPDATE attempts SET started_at = ?2 WHERE epoch = ?1")?
                .execute((signed(epoch.0), at.0))
                .map(drop),
            Row::AttemptIdle { epoch, idle } => connection
                .prepare_cached("UPDATE attempts SET idle_ms = ?2 WHERE epoch = ?1")?
                .execute((signed(epoch.0), signed(idle.0)))
                .map(drop),
            Row::AttemptClosed(closed) => attempt_closed(connection, closed),
            Row::Node(row) => nodes::changed(connection, row),
            Row::Mix(mix) => meta::set(connection, meta::MIX, &json(mix)?),
            Row::Forecasts(forecasts) => meta::set(connection, meta::FORECASTS, &json(forecasts)?),
            Row::Learnt(learnt) => profiles::write(connection, learnt),
            Row::Losses(losses) => meta::set(connection, meta::LOSSES, &json(losses)?),
            Row::Shares(shares) => meta::set(connection, meta::SHARES, &json(shares)?),
            Row::Boot(id) => meta::set(connection, meta::BOOT, id),
        }
    }

    /// After a roll-back.
    pub(crate) fn forget(&mut self) {
        self.blobs.forget();
    }

    fn new_job(&mut self, connection: &Connection, new: &NewJob) -> Result<()> {
        let job = &new.job;
        connection
            .prepare_cached(
                "INSERT INTO jobs (number, id, key, uid, user, name, queue, state, live,
                                   submitted_at, eligible_at, ended_at, core)
                 VALUES (:number, :id, :key, :uid, :user, :name, :queue, :state, :live,
                         :submitted_at, :eligible_at, :ended_at, :core)",
            )?
            .execute(named_params! {
                ":number": job.id.number.0,
                ":id": job.id.to_string(),
                ":key": &job.key.0.to_be_bytes()[..],
                ":uid": job.owner.uid.0,
                ":user": &*job.owner.name,
                ":name": &*job.name,
                ":queue": job.queue.as_str(),
                ":state": job.state.word(),
                ":live": is_live(job.state),
                ":submitted_at": job.submitted_at.0,
                ":eligible_at": job.eligible_at.map(|t| t.0),
                ":ended_at": over_at(job),
                ":core": json(job)?,
            })?;
        let script = self.blobs.put(connection, &new.parts.script)?;
        let environment = self.blobs.put(connection, json(&*new.parts.environment)?.as_bytes())?;
        connection
            .prepare_cached(
                "INSERT INTO details (number, details, script, environment) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute((job.id.number.0, json(&new.parts.details)?, script, environment))
            .map(drop)
    }
}

/// Whether the controller needs the job after a restart.
pub(crate) fn is_live(state: JobState) -> bool {
    !state.is_final() || state == JobState::FailedUnknownState
}

/// When the job ended, if it is over: one that was opened again keeps its old time in the core.
pub(crate) fn over_at(job: &Job) -> Option<i64> {
    job.rare.ended_at.filter(|_| job.state.is_final()).map(|t| t.0)
}

/// Epochs and the like as SQLite has numbers. What is too large would stand
/// for another: then the unique key refuses it.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::ToSqlConversionFailure(Box::new(e)))
}

/// A job that is not there can't change: better to stop than to lose what was decided about it.
fn job_changed(connection: &Connection, job: &Job) -> Result<()> {
    let core = json(job)?;
    if !job.state.is_final() && job_goes_on(connection, job, &core)? {
        return Ok(());
    }
    let changed = connection
        .prepare_cached(
            "UPDATE jobs SET name = :name, queue = :queue, state = :state, live = :live,
                             eligible_at = :eligible_at, ended_at = :ended_at, core = :core
             WHERE number = :number",
        )?
        .execute(named_params! {
            ":number": job.id.number.0,
            ":name": &*job.name,
            ":queue": job.queue.as_str(),
            ":state": job.state.word(),
            ":live": is_live(job.state),
            ":eligible_at": job.eligible_at.map(|t| t.0),
            ":ended_at": over_at(job),
            ":core": core,
        })?;
    if changed == 1 { Ok(()) } else { Err(Error::StatementChangedRows(changed)) }
}

/// A job that lives and goes on living: the columns that have an index stay
/// untouched, which spares their pages. `false` if it had ended before.
fn job_goes_on(connection: &Connection, job: &Job, core: &str) -> Result<bool> {
    let changed = connection
        .prepare_cached(
            "UPDATE jobs SET name = :name, queue = :queue, state = :state, eligible_at = :eligible_at,
                             core = :core
             WHERE number = :number AND live = 1 AND ended_at IS NULL",
        )?
        .execute(named_params! {
            ":number": job.id.number.0,
            ":name": &*job.name,
            ":queue": job.queue.as_str(),
            ":state": job.state.word(),
            ":eligible_at": job.eligible_at.map(|t| t.0),
            ":core": core,
        })?;
    Ok(changed == 1)
}

fn log(connection: &Connection, line: &LogRow) -> Result<()> {
    let (from, to) = match line.kind {
        LogKind::Move { from, to } => (from.map(JobState::word), Some(to.word())),
        LogKind::Note => (None, None),
    };
    connection
        .prepare_cached(
            "INSERT INTO log (job, at, actor, from_state, to_state, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((line.job.0, line.at.0, &*line.actor, from, to, &line.text))
        .map(drop)
}

fn attempt_opened(connection: &Connection, opened: &AttemptOpened) -> Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO attempts (epoch, job, number, node, allocation, why, assigned_at, stdout, stderr,
                                   others)
             VALUES (:epoch, :job, :number, :node, :allocation, :why, :assigned_at, :stdout, :stderr, :others)",
        )?
        .execute(named_params! {
            ":epoch": signed(opened.name.epoch.0),
            ":job": opened.name.job.number.0,
            ":number": opened.number,
            ":node": opened.allocation.node.as_str(),
            ":allocation": json(&opened.allocation)?,
            ":why": opened.why,
            ":assigned_at": opened.at.0,
            ":stdout": opened.files.stdout,
            ":stderr": opened.files.stderr,
            ":others": (!opened.others.is_empty()).then(|| json(&opened.others)).transpose()?,
        })
        .map(drop)
}

fn attempt_closed(connection: &Connection, closed: &AttemptClosed) -> Result<()> {
    let (end, usage) = (&closed.end, &closed.usage);
    connection
        .prepare_cached(
            "UPDATE attempts SET ended_at = :ended_at, outcome = :outcome, exit_code = :exit_code,
                                 signal = :signal, message = :message, cpu_us = :cpu_us,
                                 max_ram_mb = :max_ram_mb, max_gpu_mem_mb = :max_gpu_mem_mb
             WHERE epoch = :epoch",
        )?
        .execute(named_params! {
            ":epoch": signed(closed.epoch.0),
            ":ended_at": closed.at.0,
            ":outcome": end.outcome.word(),
            ":exit_code": end.exit_code,
            ":signal": end.signal,
            ":message": end.message,
            ":cpu_us": usage.cpu_us.map(signed),
            ":max_ram_mb": usage.max_ram.map(|mb| signed(mb.0)),
            ":max_gpu_mem_mb": usage.max_gpu_mem.map(|mb| signed(mb.0)),
        })
        .map(drop)
}
