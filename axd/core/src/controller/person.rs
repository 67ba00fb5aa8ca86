//! What people ask of jobs that are there: cancel, signal, hold, release,
//! update, resolve. Owners act on their own, administrators on all.

use std::sync::Arc;

use crate::api::{ErrorClass, Resolution};
use crate::config::QueueState;
use crate::directive::signals;
use crate::id::{JobId, JobNumber};
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Actor, Job};
use crate::time::Now;

use super::{Change, Controller, Decision, Move};

impl Controller {
    /// The job, if it is known, not over, and the actor may act on it; else the refusal is written.
    fn own(&self, id: JobId, actor: &Actor, out: &mut Vec<Decision>) -> Option<&Job> {
        let refuse = |class, why| Decision::Refused { class, why };
        match self.jobs.get(&id.number) {
            None => out.push(refuse(ErrorClass::Refused, format!("{id} is over, or was never here"))),
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
    fn own_living(&self, id: JobId, actor: &Actor, out: &mut Vec<Decision>) -> Option<&Job> {
        let job = self.own(id, actor, out)?;
        if job.state.is_final() {
            let why = format!("{id} is over: {}", job.state);
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return None;
        }
        Some(job)
    }

    pub(super) fn cancel(
        &mut self,
        now: Now,
        id: JobId,
        actor: &Actor,
        why: Option<String>,
        out: &mut Vec<Decision>,
    ) {
        let Some(job) = self.own_living(id, actor, out) else { return };
        let message = match why {
            None => format!("cancelled by {}", actor.name()),
            Some(why) => format!("cancelled by {}: {why}", actor.name()),
        };
        match job.state {
            JobState::Pending | JobState::Ready => {
                self.shift(
                    now,
                    id.number,
                    Move::new(Cause::Cancelled, JobState::Cancelled, actor, &message),
                    out,
                );
            }
            JobState::Unacknowledged => {
                self.shift(
                    now,
                    id.number,
                    Move::new(Cause::Resolved, JobState::Cancelled, actor, &message),
                    out,
                );
            }
            _ => self.end_attempt(id.number, Outcome::Cancelled, actor, message, out),
        }
    }

    /// Asks for the end of the living attempt. Asked twice, it is asked once more:
    /// the first request may have been lost with a supervisor's socket.
    fn end_attempt(
        &mut self,
        number: JobNumber,
        outcome: Outcome,
        actor: &Actor,
        message: String,
        out: &mut Vec<Decision>,
    ) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        let Some(attempt) = &mut job.attempt else { return };
        attempt.ending.get_or_insert_with(|| (outcome, message.as_str().into()));
        let (id, attempt) = (job.id, attempt.name);
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: message.clone() });
        out.push(Decision::Terminate { attempt, outcome, message });
    }

    pub(super) fn signal(&mut self, id: JobId, actor: &Actor, signal: u8, out: &mut Vec<Decision>) {
        let Some(job) = self.own_living(id, actor, out) else { return };
        match (job.state, &job.attempt) {
            (JobState::Running | JobState::Suspended, Some(attempt)) => {
                let what = format!("signal {} by {}", signals::in_words(signal), actor.name());
                let attempt = attempt.name;
                out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what });
                out.push(Decision::Signal { attempt, signal });
            }
            (state, _) => {
                let why = format!("{id} is {state}: a signal needs a running job");
                out.push(Decision::Refused { class: ErrorClass::Refused, why });
            }
        }
    }

    pub(super) fn hold(&mut self, now: Now, id: JobId, actor: &Actor, out: &mut Vec<Decision>) {
        let Some(job) = self.own_living(id, actor, out) else { return };
        let waiting = job.state.is_waiting();
        if let Some(job) = self.jobs.get_mut(&id.number) {
            job.hold = Some(actor.name().into());
        }
        let what = match waiting {
            true => format!("held by {}", actor.name()),
            false => format!("held by {}: takes effect if it waits again", actor.name()),
        };
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: what.clone() });
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    pub(super) fn release(&mut self, now: Now, id: JobId, actor: &Actor, out: &mut Vec<Decision>) {
        let Some(job) = self.own_living(id, actor, out) else { return };
        let refusal = match &job.hold {
            None => Some((ErrorClass::Refused, format!("{id} is not held"))),
            // Only the owner and administrators can hold a job at all.
            Some(who) if **who != *job.owner.name && !actor.is_admin() => {
                let why = format!("{id} is held by {who}, an administrator, and released by one");
                Some((ErrorClass::NoPermission, why))
            }
            Some(_) => None,
        };
        if let Some((class, why)) = refusal {
            out.push(Decision::Refused { class, why });
            return;
        }
        if let Some(job) = self.jobs.get_mut(&id.number) {
            job.hold = None;
        }
        let what = format!("released by {}", actor.name());
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: what.clone() });
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    pub(super) fn update(
        &mut self,
        now: Now,
        id: JobId,
        actor: &Actor,
        change: Change,
        out: &mut Vec<Decision>,
    ) {
        let Some(job) = self.own_living(id, actor, out) else { return };
        if let Err(why) = self.may_change(job, actor, &change) {
            out.push(Decision::Refused { class: ErrorClass::Refused, why });
            return;
        }
        let Some(mut job) = self.unindex(id.number) else { return };
        let what = format!("{}, by {}", apply(&mut job, change), actor.name());
        self.index(job);
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: what.clone() });
        self.settle_waiting(now, id.number, actor, &what, out);
    }

    fn may_change(&self, job: &Job, actor: &Actor, change: &Change) -> Result<(), String> {
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
        match queue.max_time {
            Some(max) if !admin && limit.is_none_or(|l| l > max) => {
                Err(format!("queue '{}' takes no job longer than {max}", queue.name))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn resolved(
        &mut self,
        now: Now,
        id: JobId,
        actor: &Actor,
        answer: Resolution,
        out: &mut Vec<Decision>,
    ) {
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
        let why = format!("{} says: {said}", actor.name());
        if self.shift(now, id.number, Move::new(Cause::Resolved, to, actor, &why), out) {
            self.settle_waiting(now, id.number, actor, &why, out);
        }
    }
}

/// Applies a change and says it in words.
fn apply(job: &mut Job, change: Change) -> String {
    let mut said = Vec::new();
    if let Some(priority) = change.priority {
        said.push(format!("priority {} → {priority}", job.request.priority));
        job.request.priority = priority;
    }
    if let Some(limit) = change.time_limit {
        let text = |l: Option<crate::time::Span>| l.map_or("none".to_owned(), |s| s.to_string());
        said.push(format!("time limit {} → {}", text(job.request.time_limit), text(limit)));
        job.request.time_limit = limit;
    }
    if let Some(queue) = change.queue {
        said.push(format!("queue {} → {queue}", job.queue));
        job.queue = queue;
    }
    if let Some(name) = change.name {
        said.push("new name".to_owned());
        job.name = name;
    }
    if let Some(begin) = change.begin {
        said.push(format!("begins at {begin}"));
        job.request.begin = Some(begin);
    }
    if said.is_empty() { "nothing changed".to_owned() } else { said.join(", ") }
}
