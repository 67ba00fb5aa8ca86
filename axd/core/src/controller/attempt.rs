//! The life of attempts: started, ending, ended, lost; and what becomes of the
//! job then: its end, a retry with back-off, or another start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::directive::signals;
use crate::id::{AttemptName, HostName, JobNumber};
use crate::job::request::Request;
use crate::job::spec::PreemptMode;
use crate::job::state::{Cause, JobState, MOVES, Outcome};
use crate::job::{Actor, Attempt, AttemptEnd, Job};
use crate::node::Node;
use crate::size::Megabytes;
use crate::time::{Now, Span, WallTime};

use super::gang::{End, Part};
use super::{Controller, Decision, Move};

/// Back-off doubles up to this.
const LONGEST_BACKOFF: Span = Span::seconds(3600);

/// Checkpoints that follow one another faster are not told one by one in the job's story.
const NOTED_AGAIN: Span = Span::seconds(60);

/// What follows for the job when an attempt has ended.
enum Next {
    /// The job is over.
    Over(JobState),
    /// It waits again at once.
    Again,
    /// It waits again for its back-off.
    RetryAfter(Span),
}

/// How the end of an attempt counts.
struct Verdict {
    at: WallTime,
    end: AttemptEnd,
    next: Next,
}

impl Controller {
    /// The living attempt of that name, if its job is in a state that this news may
    /// move; anything else is late or impossible news, written down and ignored.
    pub(super) fn living(
        &mut self,
        name: AttemptName,
        cause: Cause,
        news: &str,
        out: &mut Vec<Decision>,
    ) -> Option<&mut Attempt> {
        let movable = |state| MOVES.iter().any(|(from, on, _)| *on == cause && from.contains(&state));
        let job = self
            .jobs
            .get_mut(&name.job.number)
            .map(Arc::make_mut)
            .filter(|j| j.state.is_active() && movable(j.state));
        let attempt = job.and_then(|j| j.attempt.as_mut()).filter(|a| a.name == name && a.end.is_none());
        if attempt.is_none() {
            let why = format!("{news} of {name}, which is not a living attempt that it could be true of");
            out.push(Decision::Ignored { job: Some(name.job), why });
        }
        attempt.map(|attempt| &mut **attempt)
    }

    pub(super) fn attempt_started(
        &mut self,
        now: Now,
        name: AttemptName,
        at: WallTime,
        out: &mut Vec<Decision>,
    ) {
        let Some(attempt) = self.living(name, Cause::Confirmed, "start", out) else { return };
        let planned = attempt.unspent();
        attempt.started_at = Some(at);
        let (ends, unspent) = (attempt.ends(), attempt.unspent());
        let nodes: Vec<HostName> = attempt.open_parts().map(|part| part.node.clone()).collect();
        // On the others nothing of it may have begun yet.
        let first = attempt.allocation.node.clone();
        if let (Some(job), Some((charged, end)), Some((_, later))) =
            (self.jobs.get(&name.job.number), planned, unspent)
        {
            self.unspent.leave(&job.queue, charged, end);
            self.unspent.enter(&job.queue, charged, later);
        }
        self.can_start(&first);
        for node in &nodes {
            if let Some(node) = self.nodes.get_mut(node) {
                node.expect_end(name, ends);
            }
        }
        let step = Move::by_ax(Cause::Confirmed, JobState::Running, "its script runs");
        self.shift(now, name.job.number, step, out);
    }

    pub(super) fn attempt_ending(&mut self, now: Now, name: AttemptName, out: &mut Vec<Decision>) {
        if self.living(name, Cause::Ending, "ending", out).is_some() {
            let why = "its script has ended or is being ended";
            self.shift(now, name.job.number, Move::by_ax(Cause::Ending, JobState::Completing, why), out);
        }
    }

    pub(super) fn attempt_ended(
        &mut self,
        now: Now,
        name: AttemptName,
        at: WallTime,
        end: AttemptEnd,
        out: &mut Vec<Decision>,
    ) {
        let Some(attempt) = self.living(name, Cause::Ended, "end", out) else { return };
        let node = attempt.allocation.node.clone();
        self.part_ended(now, Part { attempt: name, node }, at, End { end, never_began: false }, out);
    }

    /// An attempt is over on all of its nodes.
    pub(super) fn attempt_over(
        &mut self,
        now: Now,
        name: AttemptName,
        at: WallTime,
        end: AttemptEnd,
        out: &mut Vec<Decision>,
    ) {
        let number = name.job.number;
        // A clock that was set back must not make it end later than now.
        let verdict = self.judge(number, at.min(now.wall), end);
        let attempt = self.living(name, Cause::Ended, "end", out);
        let (Some(attempt), Some(Verdict { at, end, next })) = (attempt, verdict) else { return };
        attempt.end = Some(end.clone());
        let node = attempt.allocation.node.clone();
        self.settle_share(number, at);
        if end.outcome == Outcome::Succeeded {
            self.teach(number, at, end.card_peak);
        }
        let idle = attempt_idle(self.jobs.get_mut(&number).map(Arc::make_mut));
        out.extend(idle.map(|idle| Decision::Counted { attempt: name, idle }));
        if end.outcome == Outcome::Preempted {
            self.count_eviction(number);
        }
        if !matches!(next, Next::Over(_)) {
            out.extend(self.grow_slice(number, &end));
        }
        // Of several nodes each was given back when it was over there.
        self.give_back(&node, name);
        out.push(Decision::Closed { attempt: name, at, end: end.clone() });
        self.suspect_cards(number, &end, out);
        self.follow(now, number, next, &end, out);
        if let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut).filter(|j| j.state.is_final()) {
            job.rare.change(|rare| rare.ended_at = Some(at));
        }
    }

    /// How the end of a job's attempt counts, and what follows from it.
    fn judge(&self, number: JobNumber, at: WallTime, end: AttemptEnd) -> Option<Verdict> {
        let job = self.jobs.get(&number)?;
        let attempt = job.attempt.as_deref()?;
        // A clock that was set back must not make it end before it began.
        let at = attempt.started_at.map_or(at, |started| at.max(started));
        let mut end = counted_as(end, attempt);
        end.card_peak = end.card_peak.max(attempt.card_used);
        let mut end = self.blamed_on_card(number, end);
        let left = if end.outcome == Outcome::Timeout { self.left_by_deadline(job) } else { None };
        let Some(left) = left else {
            let next = what_follows(&job.request, job.rare.retries_used, &end);
            return Some(Verdict { at, end, next });
        };
        // To whoever ended it that was its time limit.
        end.message = Some(format!("was not over by its deadline, for which it had {left}"));
        Some(Verdict { at, end, next: Next::Over(JobState::Deadline) })
    }

    /// A job was ended to make room.
    fn count_eviction(&mut self, number: JobNumber) {
        let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) else { return };
        let renewed = job.attempt.as_deref().is_some_and(|attempt| attempt.renewed);
        let safe = safe_work(job);
        job.rare.change(|rare| {
            rare.evictions += u32::from(!renewed);
            rare.saved = rare.saved + safe;
        });
    }

    /// Lets a job that will run again ask for more of a card, if it lacked that. A program that gets no more mostly
    /// ends by itself, with a code of its own.
    fn grow_slice(&mut self, number: JobNumber, end: &AttemptEnd) -> Option<Decision> {
        let may_lack = matches!(end.outcome, Outcome::OutOfMemory | Outcome::Failed);
        if !may_lack || !self.config.policy.grow_memory {
            return None;
        }
        let cards = self.jobs.get(&number)?.request.cards.as_ref()?;
        let next_card = self.next_card(cards, end.card_peak);
        ask_for_more(self.jobs.get_mut(&number).map(Arc::make_mut)?, end, next_card)
    }

    /// What fails on a card that has an error of its own counts as lost with it, if the job may be started again, and
    /// nobody has asked for its end.
    fn blamed_on_card(&self, number: JobNumber, end: AttemptEnd) -> AttemptEnd {
        let Some(job) = self.jobs.get(&number).filter(|_| end.outcome == Outcome::Failed) else { return end };
        let asked = job.attempt.as_ref().is_some_and(|attempt| attempt.ending.is_some());
        let Some(fault) = self.faults_under(job).filter(|_| !asked) else { return end };
        let again = job.request.idempotent && job.request.requeue;
        let outcome = if again { Outcome::NodeFail } else { end.outcome };
        AttemptEnd { outcome, message: Some(end.message.unwrap_or(fault)), ..end }
    }

    fn follow(&mut self, now: Now, number: JobNumber, next: Next, end: &AttemptEnd, out: &mut Vec<Decision>) {
        let mut why = in_words(end);
        if let Some(job) =
            self.jobs.get(&number).filter(|_| matches!(next, Next::Over(JobState::FailedUnknownState)))
        {
            let id = job.id;
            why = format!(
                "{why}; nobody knows whether its work is done: say so with 'ax resolve {id} succeeded', 'failed' or 'rerun'"
            );
        }
        match next {
            Next::Over(to) => {
                self.shift(now, number, Move::by_ax(Cause::Ended, to, &why), out);
            }
            Next::Again => self.wait_again(now, number, None, &format!("{why}; it waits again"), out),
            Next::RetryAfter(delay) => {
                let why = format!("{why}; retried after {} s", delay.0.div_ceil(1000));
                self.wait_again(now, number, Some(delay), &why, out);
            }
        }
    }

    /// Back to PENDING, and READY at once if nothing of its own stands in the way.
    fn wait_again(
        &mut self,
        now: Now,
        number: JobNumber,
        delay: Option<Span>,
        why: &str,
        out: &mut Vec<Decision>,
    ) {
        if let Some(mut kept) = self.jobs.remove(&number) {
            let job = Arc::make_mut(&mut kept);
            job.rare.change(|rare| {
                rare.retries_used += u32::from(delay.is_some());
                rare.backoff_until = delay.map(|d| now.boot + d);
            });
            self.learn_length(job);
            self.jobs.insert(number, kept);
        }
        self.shift(now, number, Move::by_ax(Cause::Requeued, JobState::Pending, why), out);
        self.settle_waiting(now, number, &Actor::Ax, "it may start at once", out);
    }

    pub(super) fn never_started(
        &mut self,
        now: Now,
        name: AttemptName,
        why: String,
        out: &mut Vec<Decision>,
    ) {
        let Some(attempt) = self.living(name, Cause::NeverStarted, "non-start", out) else { return };
        let node = attempt.allocation.node.clone();
        if attempt.gang.is_some() {
            let end = End { end: launch_failed(why), never_began: true };
            return self.part_ended(now, Part { attempt: name, node }, now.wall, end, out);
        }
        if attempt.ending.is_none() {
            self.came_to_nothing(now, &node, name, &why);
        }
        self.nothing_began(now, name, &why, out);
    }

    /// An attempt never began on any of its nodes, and never will.
    pub(super) fn nothing_began(&mut self, now: Now, name: AttemptName, why: &str, out: &mut Vec<Decision>) {
        let Some(attempt) = self.living(name, Cause::NeverStarted, "non-start", out) else { return };
        let cancelled = attempt.ending.clone();
        let end = launch_failed(format!("never started: {why}"));
        attempt.end = Some(end.clone());
        let (node, pause) = (attempt.allocation.node.clone(), pause_after(attempt.number));
        let assigned = attempt.started_at.unwrap_or(attempt.assigned_at);
        self.settle_share(name.job.number, assigned);
        self.give_back(&node, name);
        out.push(Decision::Closed { attempt: name, at: now.wall, end });
        let number = name.job.number;
        match cancelled {
            Some((outcome, who)) => {
                self.shift(now, number, Move::by_ax(Cause::Ended, outcome.final_state(), &who), out);
            }
            None => {
                let why = format!("its last assignment was never started: {why}");
                if let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) {
                    job.rare.change(|rare| rare.backoff_until = pause.map(|pause| now.boot + pause));
                }
                self.shift(now, number, Move::by_ax(Cause::NeverStarted, JobState::Pending, &why), out);
                self.settle_waiting(now, number, &Actor::Ax, &why, out);
            }
        }
    }

    /// A job that uses more of its cards than it asked for is charged with what it uses.
    pub(super) fn cards_used(&mut self, name: AttemptName, peak: Megabytes, out: &mut Vec<Decision>) {
        let Some(job) = self.jobs.get_mut(&name.job.number).map(Arc::make_mut) else { return };
        let asked = job.request.cards.as_ref().and_then(|cards| cards.slice);
        let attempt = job.attempt.as_mut().filter(|a| a.name == name && a.end.is_none());
        let (Some(attempt), Some(asked)) = (attempt, asked) else { return };
        if peak <= asked || attempt.card_used >= Some(peak) {
            return;
        }
        attempt.card_used = Some(peak);
        for part in attempt.open_parts() {
            if let Some(node) = self.nodes.get_mut(&part.node) {
                node.charge_at_least(name, peak);
            }
        }
        let what =
            format!("uses {} of a card and asked for {}: counted with that", peak.of_card(), asked.of_card());
        out.push(Decision::Noted { job: name.job, actor: Arc::from(Actor::Ax.name()), what });
    }

    /// Work up to then is not lost when the attempt ends, as somebody says.
    pub(super) fn checkpointed(
        &mut self,
        now: Now,
        name: AttemptName,
        at: WallTime,
        actor: &Actor,
        out: &mut Vec<Decision>,
    ) {
        let job = self.jobs.get_mut(&name.job.number).map(Arc::make_mut);
        let attempt = job.and_then(|j| j.attempt.as_mut()).filter(|a| a.name == name && a.end.is_none());
        let Some(attempt) = attempt else { return };
        let at = at.min(now.wall);
        let lately = attempt.checkpoint_at.is_some_and(|last| at - last < NOTED_AGAIN);
        attempt.checkpoint_at = Some(at);
        let idle = attempt.idle.total();
        let what = "told that its work so far is safe".to_owned();
        out.push(match lately {
            true => Decision::Counted { attempt: name, idle },
            false => Decision::Noted { job: name.job, actor: Arc::from(actor.name()), what },
        });
        self.restart_if_old(now, name, out);
    }

    pub(super) fn give_back(&mut self, node: &HostName, attempt: AttemptName) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.release(attempt);
        }
    }
}

/// The idle time of an attempt that has ended, if that is not written down yet.
fn attempt_idle(job: Option<&mut Job>) -> Option<Span> {
    job?.attempt.as_mut()?.idle.take_rest()
}

fn launch_failed(why: String) -> AttemptEnd {
    AttemptEnd { message: Some(why), ..AttemptEnd::of(Outcome::LaunchFailed) }
}

/// A job that somebody ended is CANCELLED however its supervisor fared,
/// unless its script had succeeded by itself.
pub(super) fn counted_as(end: AttemptEnd, attempt: &Attempt) -> AttemptEnd {
    match (&attempt.ending, end.outcome) {
        (Some((outcome, who)), Outcome::LeaseLost | Outcome::NodeFail | Outcome::LaunchFailed) => {
            AttemptEnd { outcome: *outcome, message: Some(who.to_string()), ..end }
        }
        _ => end,
    }
}

/// TIMEOUT, CANCELLED and LAUNCH_FAILED are never retried: they would come to the same. The loss of a node and preemption
/// do not count as retries: they say nothing about the job.
fn what_follows(request: &Request, retries_used: u32, end: &AttemptEnd) -> Next {
    let retry_left = retries_used < request.retries;
    let code_allowed =
        request.retry_on.is_empty() || end.exit_code.is_some_and(|c| request.retry_on.contains(&c));
    match end.outcome {
        Outcome::Failed | Outcome::OutOfMemory if retry_left && code_allowed => {
            Next::RetryAfter(backoff(request.retry_delay, retries_used))
        }
        Outcome::NodeFail | Outcome::LeaseLost if !request.idempotent => {
            Next::Over(JobState::FailedUnknownState)
        }
        Outcome::Preempted if request.preempt == PreemptMode::Cancel => Next::Over(JobState::Cancelled),
        Outcome::NodeFail | Outcome::LeaseLost | Outcome::Preempted if request.requeue => Next::Again,
        outcome => Next::Over(outcome.final_state()),
    }
}

/// What an attempt that was ended for others has done and kept.
fn safe_work(job: &Job) -> Span {
    let kept = |attempt: &Attempt| Some(attempt.checkpoint_at? - attempt.started_at?);
    job.attempt.as_deref().and_then(kept).unwrap_or_default()
}

/// Out of its slice of a card: half as much again next time, or a tenth more than it was seen to use beyond it, but no more
/// than the whole of the next card; but only if it was seen to have used the slice up. One that was charged less than it asked
/// for has what it asked for first, if that may be enough.
fn ask_for_more(job: &mut Job, end: &AttemptEnd, next_card: Option<Megabytes>) -> Option<Decision> {
    let asked = job.learnt.as_deref().and_then(|learnt| learnt.asked);
    let slice = Arc::make_mut(&mut job.request).cards.as_mut().and_then(|cards| cards.slice.as_mut())?;
    let peak = end.card_peak.filter(|peak| peak.0 >= slice.0 * 9 / 10)?;
    let half_more = Megabytes(slice.0 * 3 / 2);
    let next = if peak > *slice { half_more.max(and_a_tenth(peak)) } else { half_more }.min(next_card?);
    let more = asked.filter(|asked| *asked > *slice && *asked >= peak).unwrap_or(next);
    let had = std::mem::replace(slice, more);
    let (had, peak, more) = (had.of_card(), peak.of_card(), more.of_card());
    let how = if end.outcome == Outcome::OutOfMemory { "ran out of memory" } else { "failed" };
    let what = format!("used {peak} of its {had} slice when it {how}: asks for {more} of a card now");
    Some(Decision::Noted { job: job.id, actor: Arc::from(Actor::Ax.name()), what })
}

/// A tenth more, in tenths of a gigabyte as people write it.
fn and_a_tenth(peak: Megabytes) -> Megabytes {
    const STEP: u64 = 100_000_000;
    let bytes = peak.bytes().saturating_add(peak.bytes() / 10);
    Megabytes::from_bytes(bytes.div_ceil(STEP).saturating_mul(STEP))
}

/// A crash leaves one assignment unstarted, and its job starts again at once. Where supervisors can't start at all
/// their jobs would be assigned without end: those wait a little longer with each attempt.
fn pause_after(attempt: u32) -> Option<Span> {
    let doublings = attempt.checked_sub(2)?.min(6);
    Some(Span::seconds(1 << doublings))
}

/// The delay doubles with every retry.
fn backoff(first: Span, retries_used: u32) -> Span {
    let factor = 1_u64.checked_shl(retries_used.min(32)).unwrap_or(u64::MAX);
    Span(first.0.saturating_mul(factor).min(LONGEST_BACKOFF.0.max(first.0)))
}

fn in_words(end: &AttemptEnd) -> String {
    let what = match (end.exit_code, end.signal) {
        (_, Some(signal)) => format!("signal {}", signals::in_words(signal)),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => String::new(),
    };
    match (&end.message, what.is_empty()) {
        (Some(message), true) => message.clone(),
        (Some(message), false) => format!("{message}; {what}"),
        (None, false) => what,
        (None, true) => end.outcome.word().to_owned(),
    }
}

/// Gives a node's resources to the living attempts on it.
pub(super) fn hold_what_jobs_hold(jobs: &BTreeMap<JobNumber, Arc<Job>>, node: &mut Node) {
    for job in jobs.values().filter(|j| j.state.is_active()) {
        let Some(attempt) = job.attempt.as_ref() else { continue };
        if let Some(part) = attempt.open_part_on(&node.inventory.name) {
            node.hold(attempt.name, part.clone(), attempt.ends());
            if let Some(used) = attempt.card_used {
                node.charge_at_least(attempt.name, used);
            }
        }
    }
}
