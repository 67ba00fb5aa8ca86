//! What people ask of jobs that are there: cancel, signal, hold, release,
//! update, resolve. Owners act on their own, administrators on all.

use std::sync::Arc;

use crate::api::{ErrorClass, Resolution};
use crate::config::QueueState;
use crate::directive::signals;
use crate::id::{AttemptName, JobId, JobNumber};
use crate::job::request::fits_window;
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Actor, Cancelled, Job};
use crate::time::Now;

use super::{Change, Controller, Decision, Move, Wish};

/// A request: about which job, by whom, and why.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) id: JobId,
    pub(super) actor: &'a Actor,
    pub(super) why: Option<&'a str>,
}

impl Asked<'_> {
    /// `held by li: the disk is full`.
    pub(super) fn said(&self, what: &str) -> String {
        let name = self.actor.name();
        self.why.map_or_else(|| format!("{what} by {name}"), |why| format!("{what} by {name}: {why}"))
    }

    /// For the record.
    pub(super) fn noted(&self, what: &str) -> Decision {
        Decision::Noted { job: self.id, actor: Arc::from(self.actor.name()), what: what.to_owned() }
    }
}

/// How an attempt is to be ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// After the warning that the job asked for, and its time.
    Warned,
    /// With its grace.
    Asked,
    /// Without.
    AtOnce,
}

impl How {
    fn end(self, attempt: AttemptName, outcome: Outcome, message: String) -> Decision {
        let (warned, at_once) = (self == How::Warned, self == How::AtOnce);
        Decision::Terminate { attempt, outcome, message, warned, at_once }
    }
}

impl Controller {
    /// Does what somebody asks, or says why not.
    pub(super) fn wished(&mut self, now: Now, asked: &Asked<'_>, wish: Wish, out: &mut Vec<Decision>) {
        match wish {
            Wish::Cancel => self.cancel(now, asked, out),
            Wish::Signal(signal) => self.signal(asked, signal, out),
            Wish::Hold => self.hold(now, asked, out),
            Wish::Release => self.release(now, asked, out),
            Wish::Update(change) => self.update(now, asked, *change, out),
            Wish::Keep(span) => self.keep(now, asked, span, out),
            Wish::Checkpointed(epoch) => self.told_checkpoint(now, asked, epoch, out),
            Wish::Resolve(answer) => self.resolved(now, asked, answer, out),
        }
    }

    /// The job, if it is known, not over, and the actor may act on it; else the refusal is written.
    fn own(&self, id: JobId, actor: &Actor, out: &mut Vec<Decision>) -> Option<&Job> {
        let refuse = |class, why| Decision::Refused { class, why };
        match self.jobs.get(&id.number) {
            None if id.number < self.next_number => {
                let why = format!("{id} is over; 'ax status {id}' says what came of it");
                out.push(refuse(ErrorClass::Refused, why));
            }
            None => out.push(refuse(ErrorClass::Refused, format!("there is no job {id}"))),
            Some(job) if !actor.may_act_on(&job.owner) => {
                let why = format!(
                    "{id} belongs to {}; only its owner and administrators may do that",
                    job.owner.name
                );
                out.push(refuse(ErrorClass::NoPermission, why));
            }
            Some(job) => return Some(job),
        }
        None
    }

    /// As `own`, and the job is not over.
    pub(super) fn own_living(&self, id: JobId, actor: &Actor, out: &mut Vec<Decision>) -> Option<&Job> {
        let job = self.own(id, actor, out)?;
        if job.state.is_final() {
            let why = format!("{id} is over: {}", job.state);
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return None;
        }
        Some(job)
    }

    fn cancel(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own_living(id, actor, out) else { return };
        let message = asked.said("cancelled");
        let cause = match job.state {
            JobState::Pending | JobState::Ready => Cause::Cancelled,
            JobState::Unacknowledged => Cause::Resolved,
            _ => return self.cancel_attempt(asked, out),
        };
        self.shift(now, id.number, Move::new(cause, JobState::Cancelled, actor, &message), out);
    }

    /// Who asks once more does not want to wait for its grace. After that only the request is repeated: it may have
    /// been lost with a supervisor's socket.
    fn cancel_attempt(&mut self, asked: &Asked<'_>, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) else { return };
        let Some(attempt) = &mut job.attempt else { return };
        let (before, name) = (attempt.cancelled, attempt.name);
        attempt.cancelled = if before == Cancelled::Not { Cancelled::Once } else { Cancelled::Again };
        let (outcome, killed) = (Outcome::Cancelled, asked.said("killed"));
        match before {
            Cancelled::Not => self.end_attempt(id.number, outcome, actor, asked.said("cancelled"), out),
            Cancelled::Once => self.end(id.number, (outcome, killed), actor, How::AtOnce, out),
            Cancelled::Again => out.push(How::AtOnce.end(name, outcome, killed)),
        }
    }

    /// Asks for the end of the living attempt.
    pub(super) fn end_attempt(
        &mut self,
        number: JobNumber,
        outcome: Outcome,
        actor: &Actor,
        message: String,
        out: &mut Vec<Decision>,
    ) {
        self.end(number, (outcome, message), actor, How::Asked, out);
    }

    /// The same by ax itself, with the warning that the job asked for before it.
    pub(super) fn end_warned(
        &mut self,
        number: JobNumber,
        outcome: Outcome,
        message: String,
        out: &mut Vec<Decision>,
    ) {
        self.end(number, (outcome, message), &Actor::Ax, How::Warned, out);
    }

    fn end(
        &mut self,
        number: JobNumber,
        (outcome, message): (Outcome, String),
        actor: &Actor,
        how: How,
        out: &mut Vec<Decision>,
    ) {
        let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) else { return };
        let Some(attempt) = &mut job.attempt else { return };
        attempt.ending.get_or_insert_with(|| (outcome, message.as_str().into()));
        let (id, attempt) = (job.id, attempt.name);
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: message.clone() });
        out.push(how.end(attempt, outcome, message));
    }

    fn signal(&mut self, asked: &Asked<'_>, signal: u8, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own_living(id, actor, out) else { return };
        match (job.state, &job.attempt) {
            (JobState::Running | JobState::Suspended | JobState::Completing, Some(attempt)) => {
                let attempt = attempt.name;
                out.push(asked.noted(&asked.said(&format!("signal {}", signals::in_words(signal)))));
                out.push(Decision::Signal { attempt, signal });
            }
            (state, _) => {
                let why = format!("{id} is {state}: a signal needs a running job");
                out.push(Decision::Refused { class: ErrorClass::Refused, why });
            }
        }
    }

    fn hold(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own_living(id, actor, out) else { return };
        // Under the owner's name it would be the owner's to take off.
        if let Some(who) = held_by_administrator(job).filter(|_| !actor.is_admin()) {
            let why = format!("{id} is held already, by {who}, an administrator");
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return;
        }
        if job.rare.hold.as_deref() == Some(actor.name()) {
            // Nothing is decided, which is what is said then.
            return;
        }
        let waiting = job.state.is_waiting();
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.hold = Some(actor.name().into()));
        }
        let said = asked.said("held");
        let what = if waiting { said } else { format!("{said}; takes effect if it waits again") };
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    fn release(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own_living(id, actor, out) else { return };
        let refusal = match (held_by_administrator(job), &job.rare.hold) {
            (_, None) => Some((ErrorClass::Refused, format!("{id} is not held"))),
            (Some(who), _) if !actor.is_admin() => {
                let why = format!("{id} is held by {who}, an administrator, and released by one");
                Some((ErrorClass::NoPermission, why))
            }
            _ => None,
        };
        if let Some((class, why)) = refusal {
            out.push(Decision::Refused { class, why });
            return;
        }
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.hold = None);
        }
        let what = asked.said("released");
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    fn update(&mut self, now: Now, asked: &Asked<'_>, change: Change, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own_living(id, actor, out) else { return };
        if let Err(why) = self.may_change(now, job, actor, &change) {
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return;
        }
        if apply(&mut job.clone(), change.clone()).is_empty() {
            // Nothing is decided, which is what is said then.
            return;
        }
        let Some(mut job) = self.unindex(id.number) else { return };
        let moves = change.queue.as_ref().is_some_and(|queue| *queue != job.queue);
        let what = asked.said(&format!("{},", apply(Arc::make_mut(&mut job), change)));
        if moves && job.state == JobState::Ready {
            self.wake_queue(&job);
        }
        self.index(job);
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    fn may_change(&self, now: Now, job: &Job, actor: &Actor, change: &Change) -> Result<(), String> {
        if !job.state.is_waiting() {
            return Err(format!("{} is {}: only waiting jobs can be changed", job.id, job.state));
        }
        let queue = change.queue.as_ref().unwrap_or(&job.queue);
        let Some(queue) = self.config.queue(queue.as_str()) else {
            return Err(self.config.unknown_queue(queue.as_str()));
        };
        let moves = queue.name != job.queue;
        if moves && queue.state == QueueState::Closed {
            return Err(format!("queue '{}' is closed: it accepts no new jobs", queue.name));
        }
        let admin = actor.is_admin();
        let limit = change.time_limit.unwrap_or(job.request.time_limit);
        let mut changed = job.clone();
        apply(&mut changed, change.clone());
        if let Some(window) = changed.request.window() {
            fits_window(window, limit).map_err(|unmeetable| unmeetable.message)?;
        }
        if let Some(why) = self.lapsed(&changed, now.wall) {
            return Err(why);
        }
        let priority = changed.request.priority;
        // What an administrator gave it stays.
        if !admin && (moves || change.priority.is_some()) && priority > queue.max_priority {
            let (name, max) = (&queue.name, queue.max_priority);
            return Err(format!(
                "queue '{name}' takes no job of a priority above {max}; this has {priority}"
            ));
        }
        match queue.max_time {
            Some(max) if !admin && limit.is_none_or(|l| l > max) => {
                Err(format!("queue '{}' takes no job longer than {max}", queue.name))
            }
            _ => Ok(()),
        }
    }

    fn resolved(&mut self, now: Now, asked: &Asked<'_>, answer: Resolution, out: &mut Vec<Decision>) {
        let Asked { id, actor, .. } = *asked;
        let Some(job) = self.own(id, actor, out) else { return };
        if !matches!(job.state, JobState::Unacknowledged | JobState::FailedUnknownState) {
            let why = format!("{id} is {}: there is no question to answer", job.state);
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return;
        }
        let (to, said) = match answer {
            Resolution::Succeeded => (JobState::Succeeded, "it succeeded"),
            Resolution::Failed => (JobState::Failed, "it failed"),
            Resolution::Rerun => (JobState::Pending, "run it again"),
        };
        let because = asked.why.map_or(String::new(), |why| format!(" ({why})"));
        let why = format!("{} says: {said}{because}", actor.name());
        if self.shift(now, id.number, Move::new(Cause::Resolved, to, actor, &why), out) {
            self.settle_waiting(now, id.number, actor, &why, out);
        }
    }
}

/// Who holds a job, if that is not its owner: only the owner and administrators can hold one at all.
fn held_by_administrator(job: &Job) -> Option<&str> {
    job.rare.hold.as_deref().filter(|who| **who != *job.owner.name)
}

/// Applies a change and says in words what is different; nothing if that is nothing.
fn apply(job: &mut Job, change: Change) -> String {
    let mut said = Vec::new();
    let request = Arc::make_mut(&mut job.request);
    if let Some(priority) = change.priority.filter(|priority| *priority != request.priority) {
        said.push(format!("priority {} → {priority}", request.priority));
        request.priority = priority;
    }
    if let Some(limit) = change.time_limit.filter(|limit| *limit != request.time_limit) {
        let text = |l: Option<crate::time::Span>| l.map_or("none".to_owned(), |s| s.to_string());
        said.push(format!("time limit {} → {}", text(request.time_limit), text(limit)));
        request.time_limit = limit;
    }
    if let Some(queue) = change.queue.filter(|queue| *queue != job.queue) {
        said.push(format!("queue {} → {queue}", job.queue));
        job.queue = queue;
    }
    if let Some(name) = change.name.filter(|name| *name != job.name) {
        said.push("new name".to_owned());
        job.name = name;
    }
    if let Some(begin) = change.begin.filter(|begin| *begin != request.begin) {
        said.push(begin.map_or("begins at any time".to_owned(), |begin| format!("begins at {begin}")));
        request.begin = begin;
    }
    if let Some(window) = change.window.filter(|window| *window != request.window()) {
        said.push(
            window.map_or("runs at any hour".to_owned(), |window| format!("runs only within {window}")),
        );
        request.set_special(|special| special.window = window);
    }
    if let Some(deadline) = change.deadline.filter(|deadline| *deadline != request.deadline()) {
        said.push(deadline.map_or("no deadline".to_owned(), |deadline| format!("to be over by {deadline}")));
        request.set_special(|special| special.deadline = deadline);
    }
    said.join(", ")
}
