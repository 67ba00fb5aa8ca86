//! Cards that do nothing: counted always, and where `policy.idle` is set warned of and ended, unless somebody answers
//! for them.

use std::sync::Arc;

use crate::id::{AttemptName, JobId};
use crate::job::state::{JobState, Outcome};
use crate::job::{Actor, Attempt, Job};
use crate::time::{Now, Span};
use crate::units::format_duration;

use super::person::Asked;
use super::refusal::Refusal;
use super::{Controller, Decision};

/// Longer than this nobody answers for idle cards at once.
const LONGEST_KEEP: Span = Span::seconds(7 * 86_400);

/// What is due about idle cards.
enum Due {
    Nothing,
    Warning,
    End,
}

impl Controller {
    /// A living attempt and its job; late news finds none.
    fn with_cards(&mut self, name: AttemptName) -> Option<&mut Job> {
        let job = self.jobs.get_mut(&name.job.number).map(Arc::make_mut)?;
        let living = |attempt: &Attempt| attempt.name == name && attempt.end.is_none();
        job.attempt.as_deref().is_some_and(living).then_some(job)
    }

    pub(super) fn cards_idle(&mut self, now: Now, name: AttemptName, lasted: Span, out: &mut Vec<Decision>) {
        let (first, last) = (self.config.policy.idle, self.config.policy.idle_end);
        let Some(job) = self.with_cards(name) else { return };
        let Some(attempt) = &mut job.attempt else { return };
        attempt.idle.lasts(lasted);
        if let Some(idle) = attempt.idle.take_unwritten() {
            out.push(Decision::Counted { attempt: name, idle });
        }
        // Who has answered is asked again only after that time, and has all of the first limit anew.
        let counted = job.rare.kept_until.map_or(lasted, |until| lasted.min(now.wall - until));
        match due(job, first, last, counted) {
            Due::Nothing => {}
            Due::Warning => warn(job, last, counted, out),
            Due::End => {
                if let Some(attempt) = &mut job.attempt {
                    attempt.idle.ended = true;
                }
                let message = format!(
                    "IDLE: its cards did nothing for {} (policy.idle_end); 'ax keep' would have kept it",
                    format_duration(Span::seconds(counted.as_seconds()))
                );
                self.end_warned(name.job.number, Outcome::Cancelled, message, out);
            }
        }
    }

    pub(super) fn cards_busy(&mut self, name: AttemptName) {
        if let Some(attempt) = self.with_cards(name).and_then(|job| job.attempt.as_mut()) {
            attempt.idle.ends();
        }
    }

    /// Somebody answers for a job's idle cards.
    pub(super) fn keep(
        &mut self,
        now: Now,
        asked: &Asked<'_>,
        span: Span,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, why } = *asked;
        let job = self.own_living(id, actor)?;
        may_be_kept(job, why, span)?;
        let until = now.wall + span;
        let what = asked.said(&format!("idle cards kept for {}", format_duration(span)));
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            job.rare.change(|rare| rare.kept_until = Some(until));
            if let Some(attempt) = &mut job.attempt {
                attempt.idle.warned = None;
            }
        }
        out.push(asked.noted(&what));
        Ok(())
    }

    /// The job itself tells that its work so far is safe.
    pub(super) fn told_checkpoint(
        &mut self,
        now: Now,
        asked: &Asked<'_>,
        epoch: Option<u64>,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        // It may be faster than the news that it runs.
        let running = job.attempt.as_deref().filter(|_| job.state.is_active());
        let name = running.map(|attempt| attempt.name).filter(|name| epoch.is_none_or(|e| e == name.epoch.0));
        match name {
            Some(name) => {
                self.checkpointed(now, name, now.wall, actor, out);
                Ok(())
            }
            None => Err(Refusal::because(no_checkpoint(id, job))),
        }
    }

    /// Slice jobs of a queue that wants it begin anew from a checkpoint that was just told, which loses least.
    pub(super) fn restart_if_old(&mut self, now: Now, name: AttemptName, out: &mut Vec<Decision>) {
        let Some(job) = self.jobs.get(&name.job.number) else { return };
        let queue = self.config.queue(job.queue.as_str());
        let Some(every) = queue.and_then(|queue| queue.restart_slices_every) else { return };
        let Some(attempt) = job.attempt.as_deref().filter(|attempt| attempt.ending.is_none()) else { return };
        let slices = attempt.parts().flat_map(|part| &part.cards).any(|card| card.slice.is_some());
        let old = attempt.started_at.is_some_and(|start| start + every <= now.wall);
        let may_go = job.request.requeue && job.request.preempt == crate::job::spec::PreemptMode::Requeue;
        if job.state != JobState::Running || !slices || !old || !may_go {
            return;
        }
        let message = format!(
            "starts anew from its checkpoint: queue '{}' wants that after {} (restart_slices_every)",
            job.queue,
            format_duration(every)
        );
        if let Some(attempt) =
            self.jobs.get_mut(&name.job.number).map(Arc::make_mut).and_then(|job| job.attempt.as_mut())
        {
            attempt.renewed = true;
        }
        self.end_attempt(name.job.number, Outcome::Preempted, &Actor::Ax, message, out);
    }
}

fn due(job: &Job, warn: Option<Span>, end: Option<Span>, counted: Span) -> Due {
    let Some(attempt) = job.attempt.as_deref().filter(|attempt| attempt.ending.is_none()) else {
        return Due::Nothing;
    };
    let Some(warn) = warn.filter(|warn| job.state == JobState::Running && counted >= *warn) else {
        return Due::Nothing;
    };
    match (attempt.idle.warned, end) {
        (None, _) => Due::Warning,
        // Never sooner after the warning than was promised, whatever the limits were then.
        (Some(at), Some(end)) if counted >= end && counted + warn >= end + at => Due::End,
        _ => Due::Nothing,
    }
}

fn warn(job: &mut Job, end: Option<Span>, counted: Span, out: &mut Vec<Decision>) {
    let Some(attempt) = &mut job.attempt else { return };
    attempt.idle.warned = Some(counted);
    let then = end.map_or_else(String::new, |end| {
        format!(
            "; it is ended after {} of it, unless they work or 'ax keep {} --for 2h --why …' answers for them",
            format_duration(end),
            job.id
        )
    });
    let what = format!(
        "warning: its cards have done nothing for {}{then}",
        format_duration(Span::seconds(counted.as_seconds()))
    );
    out.push(Decision::Noted { job: job.id, actor: Arc::from(Actor::Ax.name()), what });
}

fn may_be_kept(job: &Job, why: Option<&str>, span: Span) -> Result<(), Refusal> {
    let id = job.id;
    let cards =
        job.attempt.as_deref().is_some_and(|attempt| attempt.parts().any(|part| !part.cards.is_empty()));
    if !job.state.is_active() || !cards {
        return Err(Refusal::because(format!("{id} is {}: it holds no cards that could be idle", job.state)));
    }
    if span == Span::ZERO || span > LONGEST_KEEP {
        let most = format_duration(LONGEST_KEEP);
        let why =
            format!("idle cards are kept for up to {most} at a time, not for {}", format_duration(span));
        return Err(Refusal::because(why));
    }
    match why.map(str::trim) {
        None | Some("") => Err(Refusal::because("say why its idle cards are to be kept: --why".to_owned())),
        Some(_) => Ok(()),
    }
}

fn no_checkpoint(id: JobId, job: &Job) -> String {
    match job.state {
        state if state.is_active() => {
            format!("{id}: the attempt that tells of a checkpoint is not the one that runs")
        }
        state => format!("{id} is {state}: only a running job tells of checkpoints"),
    }
}
