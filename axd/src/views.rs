//! Answers to questions about waiting jobs (why, until when, what would start them at once), about what would become
//! of a submission, and about how the scheduler fares. Answered beside the loop, from a copy of the controller, since
//! that takes long with many jobs and nodes. Decides nothing.

use std::collections::BTreeSet;
use std::time::Instant;

use ax_core::api::{
    ApiError, DiagView, ErrorClass, Forecast, JobView, JobsAnswer, JobsQuery, QueueDiag, SubmitAnswer,
};
use ax_core::config::Queue;
use ax_core::controller::{Controller, Decision, Event};
use ax_core::explain::Explanation;
use ax_core::id::{JobNumber, QueueName, Uid};
use ax_core::job::Job;
use ax_core::job::state::{JobState, STATES};
use ax_core::time::{Now, Span, WallTime};

use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::store::view;
use crate::submission::Checked;
use crate::worker::Listing;

/// A question.
#[derive(Debug)]
pub(crate) struct Question {
    /// The user who asks.
    pub uid: Uid,
    /// The connection that waits for the answer.
    pub conn: ConnId,
    /// When it was asked.
    pub at: Now,
    /// The question.
    pub about: About,
}

/// The questions that can be asked.
#[derive(Debug)]
pub(crate) enum About {
    /// A job.
    Job {
        /// Which.
        number: JobNumber,
        /// What the accounts know of it.
        stored: Option<Box<JobView>>,
        /// For advice: the queues that its owner may use.
        advised: Option<BTreeSet<QueueName>>,
    },
    /// The jobs that have not ended.
    Living {
        /// Which of them.
        query: Box<JobsQuery>,
        /// Warnings for the user.
        warnings: Vec<String>,
    },
    /// How the scheduler fares: completes the figures.
    Scheduler(Box<DiagView>),
    /// What would become of a submission.
    Submission {
        /// The submission.
        checked: Box<Checked>,
        /// Why there is no room for its files.
        no_room: Option<String>,
        /// The queues that its owner may use.
        queues: BTreeSet<QueueName>,
    },
}

/// The answer to a question.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The user who asked.
    pub uid: Uid,
    /// The connection that waits for it.
    pub conn: ConnId,
    /// The starts that are told.
    pub expected: Vec<(JobNumber, WallTime)>,
    /// How long it took.
    pub took: Span,
    /// The answer, or the part of a list that is in memory.
    pub made: Made,
}

/// An answer, whole or begun.
#[derive(Debug)]
pub(crate) enum Made {
    /// Whole.
    Whole(Response),
    /// To be completed out of the accounts.
    Begun(Box<Listing>),
}

/// Answers a question out of a copy of the controller as it was then.
pub(crate) fn answer(copy: &Controller, question: Question) -> Answer {
    let Question { uid, conn, at, about } = question;
    let began = Instant::now();
    let mut expected = Vec::new();
    let made = match about {
        About::Job { number, stored, advised } => {
            let view = job(copy, at, number, stored, advised.as_ref());
            expected.extend(view.as_ref().and_then(|view| Some((number, view.expected_start?))));
            let gone = || ApiError { class: ErrorClass::Refused, error: format!("there is no job {number}") };
            Made::Whole(view.map_or_else(|| Response::error(&gone()), |view| Response::json(200, &view)))
        }
        About::Living { query, warnings } => {
            let answer = JobsAnswer { warnings, ..living(copy, at, &query) };
            let told = |view: &JobView| Some((view.id.number, view.expected_start?));
            expected.extend(answer.jobs.iter().filter_map(told));
            match query.all || query.state.iter().any(|state| state.is_final()) {
                true => {
                    let query = of_accounts(*query, answer.jobs.len(), at.wall);
                    Made::Begun(Box::new(Listing { uid, conn, answer, query }))
                }
                false => Made::Whole(Response::json(200, &answer)),
            }
        }
        About::Scheduler(view) => Made::Whole(Response::json(200, &scheduler(copy, at, *view))),
        About::Submission { checked, no_room, queues } => {
            Made::Whole(Response::json(200, &foretold(copy, at, *checked, no_room, &queues)))
        }
    };
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Answer { uid, conn, expected, took: Span(took), made }
}

fn job(
    controller: &Controller,
    at: Now,
    number: JobNumber,
    stored: Option<Box<JobView>>,
    advised: Option<&BTreeSet<QueueName>>,
) -> Option<JobView> {
    let job = controller.job(number)?;
    let mut view = explained(job, controller.explain(at, number));
    let advice = advised.map(|queues| controller.advise(at, number, &|queue| queues.contains(&queue.name)));
    let starts = view.expected_start.is_some();
    view.advice = advice.flatten().map(|advice| if starts { advice.to_one_who_starts() } else { advice });
    if let Some(stored) = stored {
        take_stored(&mut view, *stored);
    }
    tell_idle(&mut view, job);
    Some(view)
}

/// Running jobs, then waiting ones in their order.
fn living(controller: &Controller, at: Now, query: &JobsQuery) -> JobsAnswer {
    let limit = query.limit.map_or(usize::MAX, |l| l as usize);
    let mut answer = JobsAnswer::default();
    // One that waits for a person's word would be forgotten otherwise; asked for by its state it is in the accounts.
    let asks = |job: &Job| query.state.is_empty() && job.state == JobState::FailedUnknownState;
    let chosen = |job: &&Job| (!job.state.is_final() || asks(job)) && fits(job, query);
    let all = controller.jobs().filter(chosen).count();
    let here = controller.jobs().filter(chosen).filter(|job| !job.state.is_waiting());
    answer.jobs.extend(here.take(limit).map(view::of_job));
    for (job, told) in controller.explain_waiting(at) {
        if answer.jobs.len() >= limit.min(all) {
            break;
        }
        if fits(job, query) {
            answer.jobs.push(explained(job, told));
        }
    }
    answer.left_out = all.saturating_sub(answer.jobs.len()) as u64;
    answer
}

/// What is asked of the accounts in addition to the jobs in memory: jobs that ended lately (`all`), or as the query
/// says. Never more than an answer can carry.
pub(crate) fn of_accounts(mut query: JobsQuery, in_memory: usize, now: WallTime) -> JobsQuery {
    const LATELY: i64 = 300_000;
    const MOST: u32 = 100_000;
    let has = u32::try_from(in_memory).unwrap_or(u32::MAX);
    query.limit = Some(query.limit.unwrap_or(MOST).min(MOST).saturating_sub(has));
    if !query.finished {
        query.since = Some(query.since.unwrap_or_default().max(WallTime(now.0 - LATELY)));
        if query.state.is_empty() {
            query
                .state
                .extend(STATES.iter().map(|row| row.state).filter(|s| *s != JobState::FailedUnknownState));
        }
        query.state.retain(|s| s.is_final());
    }
    query
}

/// True if a job in memory matches a query.
pub(crate) fn fits(job: &Job, query: &JobsQuery) -> bool {
    let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|each| each == value);
    let state = match query.state.is_empty() {
        true => query.all || !job.state.is_final() || job.state == JobState::FailedUnknownState,
        false => query.state.contains(&job.state),
    };
    let after = query.since.is_none_or(|since| job.submitted_at >= since);
    let before = query.until.is_none_or(|until| job.submitted_at < until);
    let named = any(&query.user, &job.owner.name) && any(&query.name, &job.name);
    let numbered = query.number.is_empty() || query.number.contains(&job.id.number.0);
    state && after && before && numbered && named && any(&query.queue, job.queue.as_str())
}

fn explained(job: &Job, told: Explanation) -> JobView {
    let mut view = view::of_job(job);
    if let Some(first) = told.reasons.first() {
        view.reason = Some(first.clone());
    }
    view.reasons = told.reasons;
    view.conditions = told.conditions;
    view.expected_start = told.expected_start;
    view.expected_basis = told.basis.map(|basis| basis.words());
    view
}

/// The idle time of the attempt that lives is written down now and then only.
fn tell_idle(view: &mut JobView, job: &Job) {
    let Some(attempt) = job.attempt.as_deref().filter(|attempt| !attempt.idle.is_none()) else { return };
    for shown in view.attempts.iter_mut().filter(|shown| shown.epoch == attempt.name.epoch.0) {
        shown.idle_s = Some(attempt.idle.total().as_seconds());
    }
}

/// Completes the view of a job in memory by what only the store knows.
fn take_stored(view: &mut JobView, stored: JobView) {
    view.attempts = stored.attempts;
    view.time_in_state = stored.time_in_state;
    view.decisions = stored.decisions;
    view.stdout = stored.stdout;
    view.stderr = stored.stderr;
    view.comment = stored.comment;
    view.account = stored.account;
    view.unused_options = stored.unused_options;
    view.options = stored.options;
    view.warnings = stored.warnings;
    view.folder = stored.folder;
    view.ticket = stored.ticket;
}

/// What would become of a submission: tried on a small copy of the copy.
fn foretold(
    controller: &Controller,
    at: Now,
    checked: Checked,
    no_room: Option<String>,
    queues: &BTreeSet<QueueName>,
) -> SubmitAnswer {
    let mut copy = controller.sketch();
    let decisions = copy.step(at, Event::Submitted(Box::new(checked.submission)));
    let job = decisions.iter().find_map(|d| match d {
        Decision::Accepted { job, .. } => Some(*job),
        _ => None,
    });
    let launch = decisions.iter().find_map(|d| match d {
        Decision::Launch { attempt, allocation, .. } if Some(attempt.job) == job => Some(allocation),
        _ => None,
    });
    let refused = decisions.iter().find_map(|d| match d {
        Decision::Refused { why, .. } => Some(why.clone()),
        _ => None,
    });
    let refused = refused.or(no_room);
    let foretold = match (refused, launch, job) {
        (Some(why), _, _) => Forecast::Refused { why },
        (None, Some(allocation), _) => Forecast::StartsAtOnce { node: allocation.node.to_string() },
        (None, None, Some(job)) => {
            let told = copy.explain(at, job.number).of_a_try(at.wall);
            let advice = copy.advise(at, job.number, &|queue| queues.contains(&queue.name));
            let starts = told.expected_start.is_some();
            let advice = advice.map(|advice| if starts { advice.to_one_who_starts() } else { advice });
            Forecast::Waits {
                reasons: told.reasons,
                expected_start: told.expected_start,
                expected_basis: told.basis.map(|basis| basis.words()),
                conditions: told.conditions,
                advice,
            }
        }
        (None, None, None) => Forecast::Unknown,
    };
    SubmitAnswer {
        id: None,
        number: None,
        understood: checked.understood,
        warnings: checked.warnings,
        forecast: Some(foretold.sentence(ToString::to_string)),
        foretold: Some(foretold),
    }
}

fn scheduler(controller: &Controller, at: Now, view: DiagView) -> DiagView {
    let queues = controller.config().queues.iter().map(|queue| queue_diag(controller, queue)).collect();
    DiagView { queues, kept: controller.kept_places(at), ..view }
}

fn queue_diag(controller: &Controller, queue: &Queue) -> QueueDiag {
    let of_queue = || controller.jobs().filter(|job| job.queue == queue.name);
    let count = |which: fn(JobState) -> bool| of_queue().filter(|job| which(job.state)).count() as u64;
    let misfits = of_queue().filter(|job| controller.is_misfit(job.id.number)).count();
    QueueDiag {
        name: queue.name.to_string(),
        state: queue.state,
        priority: queue.priority,
        ready: count(|state| state == JobState::Ready),
        pending: count(|state| state == JobState::Pending),
        active: count(JobState::is_active),
        max_running: queue.max_running,
        misfits: misfits as u64,
    }
}
