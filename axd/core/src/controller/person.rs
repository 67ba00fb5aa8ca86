//! What people ask of jobs that are there: cancel, signal, hold, release,
//! resolve; updates are in `change`. Owners act on their own, administrators on all.

use std::sync::Arc;

use crate::api::Resolution;
use crate::directive::signals;
use crate::id::{AttemptName, JobId, JobNumber};
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Actor, Cancelled, Job};
use crate::time::Now;

use super::refusal::Refusal;
use super::{Controller, Decision, Move, Wish};

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
        let done = match wish {
            Wish::Cancel => self.cancel(now, asked, out),
            Wish::Signal(signal) => self.signal(asked, signal, out),
            Wish::Hold => self.hold(now, asked, out),
            Wish::Release => self.release(now, asked, out),
            Wish::Update(change) => self.update(now, asked, *change, out),
            Wish::Keep(span) => self.keep(now, asked, span, out),
            Wish::Checkpointed(epoch) => self.told_checkpoint(now, asked, epoch, out),
            Wish::Resolve(answer) => self.resolved(now, asked, answer, out),
        };
        if let Err(refusal) = done {
            out.push(refusal.into());
        }
    }

    /// The job, if it is known and the actor may act on it.
    fn own(&self, id: JobId, actor: &Actor) -> Result<&Job, Refusal> {
        match self.jobs.get(&id.number) {
            None if id.number < self.next_number => {
                Err(Refusal::because(format!("{id} is over; 'ax status {id}' says what came of it")))
            }
            None => Err(Refusal::because(format!("there is no job {id}"))),
            Some(job) if !actor.may_act_on(&job.owner) => Err(Refusal::no_permission(format!(
                "{id} belongs to {}; only its owner and administrators may do that",
                job.owner.name
            ))),
            Some(job) => Ok(job),
        }
    }

    /// As `own`, and the job is not over.
    pub(super) fn own_living(&self, id: JobId, actor: &Actor) -> Result<&Job, Refusal> {
        let job = self.own(id, actor)?;
        match job.state.is_final() {
            true => Err(Refusal::because(format!("{id} is over: {}", job.state))),
            false => Ok(job),
        }
    }

    fn cancel(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        let message = asked.said("cancelled");
        let cause = match job.state {
            JobState::Pending | JobState::Ready => Cause::Cancelled,
            JobState::Unacknowledged => Cause::Resolved,
            _ => {
                self.cancel_attempt(asked, out);
                return Ok(());
            }
        };
        self.shift(now, id.number, Move::new(cause, JobState::Cancelled, actor, &message), out);
        Ok(())
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
            Cancelled::Once => self.end(id.number, How::AtOnce, outcome, actor, killed, out),
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
        self.end(number, How::Asked, outcome, actor, message, out);
    }

    /// The same by ax itself, with the warning that the job asked for before it.
    pub(super) fn end_warned(
        &mut self,
        number: JobNumber,
        outcome: Outcome,
        message: String,
        out: &mut Vec<Decision>,
    ) {
        self.end(number, How::Warned, outcome, &Actor::Ax, message, out);
    }

    fn end(
        &mut self,
        number: JobNumber,
        how: How,
        outcome: Outcome,
        actor: &Actor,
        message: String,
        out: &mut Vec<Decision>,
    ) {
        let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) else { return };
        let Some(attempt) = &mut job.attempt else { return };
        attempt.ending.get_or_insert_with(|| (outcome, message.as_str().into()));
        let (id, attempt) = (job.id, attempt.name);
        out.push(Decision::Noted { job: id, actor: Arc::from(actor.name()), what: message.clone() });
        out.push(how.end(attempt, outcome, message));
    }

    fn signal(&mut self, asked: &Asked<'_>, signal: u8, out: &mut Vec<Decision>) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        match (job.state, &job.attempt) {
            (JobState::Running | JobState::Suspended | JobState::Completing, Some(attempt)) => {
                let attempt = attempt.name;
                out.push(asked.noted(&asked.said(&format!("signal {}", signals::in_words(signal)))));
                out.push(Decision::Signal { attempt, signal });
                Ok(())
            }
            (state, _) => Err(Refusal::because(format!("{id} is {state}: a signal needs a running job"))),
        }
    }

    fn hold(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        // Under the owner's name it would be the owner's to take off.
        if let Some(who) = held_by_administrator(job).filter(|_| !actor.is_admin()) {
            return Err(Refusal::because(format!("{id} is held already, by {who}, an administrator")));
        }
        if job.rare.hold.as_deref() == Some(actor.name()) {
            // Nothing is decided, which is what is said then.
            return Ok(());
        }
        let waiting = job.state.is_waiting();
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.hold = Some(actor.name().into()));
        }
        let said = asked.said("held");
        let what = if waiting { said } else { format!("{said}; takes effect if it waits again") };
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
        Ok(())
    }

    fn release(&mut self, now: Now, asked: &Asked<'_>, out: &mut Vec<Decision>) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        match (held_by_administrator(job), &job.rare.hold) {
            (_, None) => return Err(Refusal::because(format!("{id} is not held"))),
            (Some(who), _) if !actor.is_admin() => {
                let why = format!("{id} is held by {who}, an administrator, and released by one");
                return Err(Refusal::no_permission(why));
            }
            _ => {}
        }
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.hold = None);
        }
        let what = asked.said("released");
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
        Ok(())
    }

    fn resolved(
        &mut self,
        now: Now,
        asked: &Asked<'_>,
        answer: Resolution,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own(id, actor)?;
        if !matches!(job.state, JobState::Unacknowledged | JobState::FailedUnknownState) {
            return Err(Refusal::because(format!("{id} is {}: there is no question to answer", job.state)));
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
        Ok(())
    }
}

/// Who holds a job, if that is not its owner: only the owner and administrators can hold one at all.
fn held_by_administrator(job: &Job) -> Option<&str> {
    job.rare.hold.as_deref().filter(|who| **who != *job.owner.name)
}
