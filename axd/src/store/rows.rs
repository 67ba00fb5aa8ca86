//! Batches of rows. A batch is what one step of the controller has to record; it becomes durable as a whole or not at
//! all.

use std::collections::BTreeSet;
use std::sync::Arc;

use ax_core::config::{Packing, Scheduler};
use ax_core::controller::{Controller, Decision};
use ax_core::id::{AttemptName, Epoch, JobId, JobNumber, SubmissionKey};
use ax_core::job::state::{Cause, JobState, Outcome};
use ax_core::job::{AttemptEnd, Job};
use ax_core::node::Allocation;
use ax_core::schedule::fragmentation::Mix;
use ax_core::schedule::losses::Losses;
use ax_core::schedule::share::VirtualTimes;
use ax_core::schedule::usage::Usages;
use ax_core::time::{Now, Span, WallTime};

use super::blobs::{Content, Footprint};
use super::details::{Details, Environment, OutputFiles, Usage};
use super::nodes::{NodeChange, NodeRow};
use super::profiles::Learnt;
use crate::forecasts::Forecasts;

/// Rows that become durable together.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The caller's number for it; comes back when it is durable.
    pub id: u64,
    /// Rows, in the order in which they are to be applied.
    pub rows: Vec<Row>,
}

/// One thing to write down.
#[derive(Debug, Clone)]
pub enum Row {
    /// A job that was accepted.
    NewJob(Box<NewJob>),
    /// A job as it is now.
    JobChanged(Box<Job>),
    /// One line of a job's story.
    Log(LogRow),
    /// An attempt was decided.
    AttemptOpened(Box<AttemptOpened>),
    /// Where an attempt writes, which could not be said when it was decided.
    AttemptFiles {
        /// The attempt.
        epoch: Epoch,
        /// Its files.
        files: OutputFiles,
    },
    /// An attempt's script runs.
    AttemptStarted {
        /// The attempt.
        epoch: Epoch,
        /// Since when.
        at: WallTime,
    },
    /// How long an attempt's cards have done nothing.
    AttemptIdle {
        /// The attempt.
        epoch: Epoch,
        /// In all.
        idle: Span,
    },
    /// An attempt is over.
    AttemptClosed(Box<AttemptClosed>),
    /// Something about a node or a card.
    Node(Box<NodeRow>),
    /// What the queues and the users have had, under fair share.
    Shares(Box<(VirtualTimes, Usages)>),
    /// What was asked of cards lately.
    Mix(Box<Mix>),
    /// When jobs were told that they would start, and how far that was off.
    Forecasts(Box<Forecasts>),
    /// What the last runs of a thing took.
    Learnt(Box<Learnt>),
    /// What making room has cost lately.
    Losses(Box<Losses>),
    /// The machine's boot, by its id: the boot clock of all that follows.
    Boot(Box<str>),
}

/// A new job with all that came with it.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The controller's record.
    pub job: Job,
    /// What else is known of it.
    pub parts: NewParts,
}

/// What comes with a new job and is not the controller's.
#[derive(Debug, Clone, Default)]
pub struct NewParts {
    /// What the submission said.
    pub details: Details,
    /// The script, as submitted.
    pub script: Arc<[u8]>,
    /// The submitter's environment.
    pub environment: Arc<Environment>,
}

impl NewParts {
    /// How much of it is stored.
    pub fn footprint(&self) -> Footprint {
        // Texts and numbers: there is nothing in them that can't be written as JSON.
        let environment = serde_json::to_vec(&*self.environment).unwrap_or_default();
        let details = serde_json::to_vec(&self.details).unwrap_or_default();
        Footprint {
            contents: [Content::of(&self.script), Content::of(&environment)],
            details: u64::try_from(details.len()).unwrap_or(u64::MAX),
        }
    }
}

/// One line of a job's story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The job.
    pub job: JobNumber,
    /// When.
    pub at: WallTime,
    /// Who.
    pub actor: Arc<str>,
    /// A move, or something else.
    pub kind: LogKind,
    /// Why, or what, in words.
    pub text: String,
}

/// What a line of the story tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// A move of the state machine.
    Move {
        /// From; absent for a new job.
        from: Option<JobState>,
        /// To.
        to: JobState,
    },
    /// Anything else.
    Note,
}

/// A decided attempt.
#[derive(Debug, Clone)]
pub struct AttemptOpened {
    /// The attempt.
    pub name: AttemptName,
    /// From 1.
    pub number: u32,
    /// What it holds of its first node.
    pub allocation: Allocation,
    /// Of the others.
    pub others: Vec<Allocation>,
    /// When it was decided.
    pub at: WallTime,
    /// Why this job, and why there.
    pub why: String,
    /// Where it writes.
    pub files: OutputFiles,
}

/// The end of an attempt.
#[derive(Debug, Clone)]
pub struct AttemptClosed {
    /// The attempt.
    pub epoch: Epoch,
    /// When it was proved over.
    pub at: WallTime,
    /// How it ended.
    pub end: AttemptEnd,
    /// What it used.
    pub usage: Usage,
}

/// What the caller knows beside the controller's decisions.
pub trait Beside {
    /// What came with the submission that became this job.
    fn new_job(&mut self, key: SubmissionKey, job: &Job) -> NewParts;

    /// Where an attempt that was just decided will write.
    fn files(&mut self, _attempt: AttemptName) -> OutputFiles {
        OutputFiles::default()
    }

    /// What an attempt that has just ended used.
    fn usage(&mut self, _attempt: AttemptName) -> Usage {
        Usage::default()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new(id: u64) -> Batch {
        Batch { id, rows: Vec::new() }
    }

    /// Adds all that one step decided: new jobs first, then attempts and the
    /// log in the order of the decisions, then the touched jobs as they are now.
    pub fn add_step(
        &mut self,
        now: Now,
        decisions: &[Decision],
        controller: &Controller,
        beside: &mut dyn Beside,
    ) {
        let mut changed: BTreeSet<JobNumber> =
            decisions.iter().filter_map(|d| written_for(d).map(|j| j.number)).collect();
        for decision in decisions {
            if let Decision::Accepted { key, job } = decision
                && let Some(job) = controller.job(job.number)
            {
                changed.remove(&job.id.number);
                let parts = beside.new_job(*key, job);
                self.rows.push(Row::NewJob(Box::new(NewJob { job: job.clone(), parts })));
            }
        }
        for decision in decisions {
            self.rows.extend(attempt_row(now, decision, controller, beside));
            self.rows.extend(log_row(now, decision).map(Row::Log));
            self.rows.extend(node_row(now, decision).map(|row| Row::Node(Box::new(row))));
        }
        let jobs = changed.into_iter().filter_map(|number| controller.job(number));
        self.rows.extend(jobs.map(|job| Row::JobChanged(Box::new(job.clone()))));
        self.rows.extend(decisions.iter().filter_map(|decision| learnt_row(decision, controller)));
        if decisions.iter().any(is_eviction) {
            self.rows.push(Row::Losses(Box::new(controller.losses().clone())));
        }
        let accepted = |decision: &Decision| matches!(decision, Decision::Accepted { .. });
        if controller.config().policy.packing == Packing::Fgd && decisions.iter().any(accepted) {
            self.rows.push(Row::Mix(Box::new(controller.mix().clone())));
        }
        if controller.config().policy.scheduler == Scheduler::FairShare && decisions.iter().any(may_charge) {
            let shares = (controller.virtual_times().clone(), controller.usages().clone());
            self.rows.push(Row::Shares(Box::new(shares)));
        }
    }

    /// The highest job number and epoch that the batch brings into use.
    pub(crate) fn highest(&self) -> (JobNumber, Epoch) {
        let mut highest = (JobNumber(0), Epoch(0));
        for row in &self.rows {
            match row {
                Row::NewJob(new) => highest.0 = highest.0.max(new.job.id.number),
                Row::AttemptOpened(opened) => highest.1 = highest.1.max(opened.name.epoch),
                _ => {}
            }
        }
        highest
    }
}

/// The job whose record is written again. Also after an event that was ignored:
/// what is on the disk must be what the controller holds, to the last time stamp.
fn written_for(decision: &Decision) -> Option<JobId> {
    match decision {
        Decision::Ignored { job, .. } => *job,
        other => other.touches(),
    }
}

/// Whether the shares of queues may have changed with a decision: also by a job that is moved to another queue.
fn may_charge(decision: &Decision) -> bool {
    matches!(
        decision,
        Decision::Launch { .. }
            | Decision::Closed { .. }
            | Decision::Noted { .. }
            | Decision::Moved { to: JobState::Ready, .. }
    )
}

fn attempt_row(
    now: Now,
    decision: &Decision,
    controller: &Controller,
    beside: &mut dyn Beside,
) -> Option<Row> {
    match decision {
        Decision::Launch { attempt, number, allocation, others, why, .. } => {
            Some(Row::AttemptOpened(Box::new(AttemptOpened {
                name: *attempt,
                number: *number,
                allocation: allocation.clone(),
                others: others.clone(),
                at: now.wall,
                why: why.clone(),
                files: beside.files(*attempt),
            })))
        }
        Decision::Moved { job, cause: Some(Cause::Confirmed), .. } => {
            let attempt = controller.job(job.number)?.attempt.as_ref()?;
            Some(Row::AttemptStarted { epoch: attempt.name.epoch, at: attempt.started_at? })
        }
        Decision::Counted { attempt, idle } if *idle > Span::ZERO => {
            Some(Row::AttemptIdle { epoch: attempt.epoch, idle: *idle })
        }
        Decision::Closed { attempt, at, end } => Some(Row::AttemptClosed(Box::new(AttemptClosed {
            epoch: attempt.epoch,
            at: *at,
            end: end.clone(),
            usage: beside.usage(*attempt),
        }))),
        _ => None,
    }
}

/// What a decision changes of a node, if it does.
fn node_row(now: Now, decision: &Decision) -> Option<NodeRow> {
    let (node, change, actor, text) = match decision {
        Decision::CardMoved { node, uuid, state, actor, what } => {
            (node, NodeChange::Card { uuid: uuid.clone(), state: state.clone() }, actor, what)
        }
        Decision::NodeMoved { node, drained, actor, what } => {
            (node, NodeChange::Drained(drained.clone()), actor, what)
        }
        _ => return None,
    };
    Some(NodeRow { node: node.clone(), change, at: now.wall, actor: Arc::clone(actor), text: text.clone() })
}

/// What was learnt from a run that has succeeded.
fn learnt_row(decision: &Decision, controller: &Controller) -> Option<Row> {
    let Decision::Closed { attempt, end: AttemptEnd { outcome: Outcome::Succeeded, .. }, .. } = decision
    else {
        return None;
    };
    let job = controller.job(attempt.job.number)?;
    let (user, thing) = (job.owner.uid, job.signature);
    let runs = controller.history().of(user, thing)?.clone();
    Some(Row::Learnt(Box::new(Learnt { user, thing, runs })))
}

fn is_eviction(decision: &Decision) -> bool {
    matches!(decision, Decision::Terminate { outcome: Outcome::Preempted, .. })
}

/// The line of the log that a decision leaves, if it leaves one.
pub fn log_row(now: Now, decision: &Decision) -> Option<LogRow> {
    let (job, actor, kind, text) = match decision {
        Decision::Moved { job, from, to, actor, why, .. } => {
            (job, actor, LogKind::Move { from: *from, to: *to }, why)
        }
        Decision::Noted { job, actor, what } => (job, actor, LogKind::Note, what),
        _ => return None,
    };
    let (actor, text) = (Arc::clone(actor), text.clone());
    Some(LogRow { job: job.number, at: now.wall, actor, kind, text })
}
