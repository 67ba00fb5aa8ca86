//! When waiting jobs are expected to start, and what that rests on. In the plan, running jobs end at their estimates
//! or limits, nobody else comes, and the passes to come are made one after the other: in each the first jobs that find
//! no room keep a place, and jobs that wait for a limit are not looked at until it lets them start. Only the
//! explanations use it; no start is decided from it.

mod basis;
mod limits;
mod own;
mod search;

use std::collections::BTreeMap;

use crate::config::Scheduler;
use crate::controller::Controller;
use crate::explain::PLANNED;
use crate::id::{JobId, JobNumber};
use crate::job::Job;
use crate::time::{Span, WallTime};

pub use basis::{Basis, Said, learnt_in_words};
use limits::{Count, Limit, Limits, counts};
use search::{Found, PlannedNodes};

/// When a job is expected to start (`None` if that can't be said), and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) start: Option<WallTime>,
    pub(super) basis: Basis,
}

impl Expected {
    pub(super) fn at(start: WallTime, basis: Basis) -> Expected {
        Expected { start: Some(start), basis }
    }

    pub(super) fn never(basis: Basis) -> Expected {
        Expected { start: None, basis }
    }
}

/// So many nodes are looked at at most for passes to come; each pass counts as one more for every 32 jobs that wait. What
/// is left then has its place in the order, after all that is planned: that costs one search for each job.
const EFFORT: usize = 4000;

/// With more nodes than this no passes to come are made: what is free now is found along the index of the nodes, what is
/// free later would be looked for on each of them.
const MANY: usize = 64;

/// A job that runs longer than planned is expected to end so much later than now.
const SOON: Span = Span::seconds(1);

/// The future of the nodes, and what is told of the jobs that wait.
pub(super) struct Plan {
    /// With the jobs that have a place for good.
    future: PlannedNodes,
    limits: Limits,
    told: BTreeMap<JobNumber, Expected>,
    /// Only what is told of this job is asked for.
    asked: Option<JobNumber>,
    /// A job whose start can't be foretold: then that of no later job can.
    stuck: Option<JobId>,
    /// Not all jobs that are ready are planned.
    too_many: bool,
    /// Jobs that wait for something of their own have been planned.
    has_own: bool,
    /// Under strict order: the job that started last.
    last: Option<(WallTime, JobId)>,
    strict: bool,
    effort: usize,
}

/// A job that has not started yet.
struct Waiting<'a> {
    job: &'a Job,
    counts: Vec<Count>,
    /// The place that is kept for it.
    kept: Option<Found>,
    /// Beside what is kept, it can't start before.
    not_before: WallTime,
    /// The limit that kept it from starting in the last pass.
    barred: Option<Limit>,
    /// One has at some time.
    was_barred: bool,
}

impl Waiting<'_> {
    fn is_barred(&mut self, limit: Limit, at: WallTime) {
        (self.not_before, self.barred, self.was_barred) = (at, Some(limit), true);
    }
}

/// A pass to come.
struct Pass {
    at: WallTime,
    /// With the places that it keeps.
    future: PlannedNodes,
    /// So many more are to be kept.
    left: usize,
    /// Whatever the pass before has kept still stands.
    same: bool,
    /// Somebody has started: who is behind them meets other limits then, so the pass is made again.
    started: bool,
    /// When something may start next.
    next: Option<WallTime>,
}

impl Pass {
    fn again_at(&mut self, at: WallTime) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

impl Plan {
    /// The plan of those that are ready. `after`: the controller after the next pass. `asked`: no more is planned than
    /// decides what is told of this job.
    pub(super) fn of(
        controller: &Controller,
        after: &Controller,
        now: WallTime,
        asked: Option<JobNumber>,
    ) -> Plan {
        let mut plan = Plan {
            future: PlannedNodes::of(controller.timeline(now).as_is_likely(), controller.rules()),
            limits: Limits::default(),
            told: BTreeMap::new(),
            asked,
            stuck: None,
            too_many: false,
            has_own: false,
            last: None,
            strict: controller.config().policy.scheduler == Scheduler::FifoStrict,
            effort: EFFORT,
        };
        let fits = |job: &&Job| !controller.is_misfit(job.id.number);
        let mut ready = controller.ready_jobs().take_while(fits);
        let first: Vec<&Job> = ready.by_ref().take(PLANNED).collect();
        plan.too_many = ready.next().is_some();
        let claims = |job: &Job| after.claim_of(job.id.number).is_some();
        let (making_room, first): (Vec<&Job>, Vec<&Job>) = first.into_iter().partition(|job| claims(job));
        let waiting: Vec<Waiting> = first.into_iter().map(|job| plan.waiting(controller, job, now)).collect();
        for job in controller.active_jobs() {
            plan.enter_active(controller, job, now);
        }
        for job in making_room {
            plan.enter_claim(controller, after, job, now);
        }
        match controller.all_nodes().as_slice().len() > MANY {
            true => plan.place_in_order(controller, waiting, now),
            false => plan.pass_by_pass(controller, waiting, now),
        }
        plan
    }

    /// What is told of a job; nothing of one that is not planned.
    pub(super) fn told(&self, job: JobNumber) -> Option<&Expected> {
        self.told.get(&job)
    }

    /// Whether all that is asked for is told.
    fn is_answered(&self) -> bool {
        self.asked.is_some_and(|job| self.told.contains_key(&job))
    }

    fn waiting<'a>(&mut self, controller: &Controller, job: &'a Job, not_before: WallTime) -> Waiting<'a> {
        let counts = counts(controller, job);
        self.limits.matter(controller, &counts);
        Waiting { job, counts, kept: None, not_before, barred: None, was_barred: false }
    }

    fn enter_active(&mut self, controller: &Controller, job: &Job, now: WallTime) {
        let Some(attempt) = &job.attempt else { return };
        let ends = attempt.ends_from(attempt.started_at.unwrap_or(now));
        let ends = [ends.likely, ends.until].into_iter().find(|end| *end > now).unwrap_or(now + SOON);
        self.limits.hold(controller, job, now, job.length().map(|_| ends));
        if job.length().is_none() {
            for node in attempt.open_parts().filter_map(|part| controller.position_of(&part.node)) {
                self.future.rests_on_unknown(node, ends, job.id);
            }
        }
    }

    /// A job for which others are being ended starts at a known time at the latest.
    fn enter_claim(&mut self, controller: &Controller, after: &Controller, job: &Job, now: WallTime) {
        let start = now + after.config().policy.kill_wait;
        let foretold = controller.claim_of(job.id.number).is_none();
        self.told.insert(job.id.number, Expected::at(start, Basis::MakingRoom { foretold }));
        self.limits.hold(controller, job, now, job.length().map(|_| start + controller.planned(job)));
    }

    /// Makes one pass after the other until everybody has started, or more can't be said.
    fn pass_by_pass(&mut self, controller: &Controller, mut waiting: Vec<Waiting>, now: WallTime) {
        let mut at = now;
        while !self.is_answered() {
            let next;
            (waiting, next) = self.pass(controller, waiting, at);
            match next {
                _ if waiting.is_empty() => return,
                Some(next) if self.effort > 0 => at = next,
                Some(next) => return self.place_in_order(controller, waiting, next),
                None => return self.never_start(waiting),
            }
        }
    }

    /// No limit ever lets these start, as far as is known.
    fn never_start(&mut self, waiting: Vec<Waiting>) {
        for one in waiting {
            self.told.insert(one.job.id.number, Expected::never(self.limits.never(&one.counts)));
        }
    }

    /// The pass at one instant: who has not started in it, and when the next one may start somebody.
    fn pass<'a>(
        &mut self,
        controller: &Controller,
        waiting: Vec<Waiting<'a>>,
        at: WallTime,
    ) -> (Vec<Waiting<'a>>, Option<WallTime>) {
        self.limits.begin(at);
        let left = if self.strict { 0 } else { controller.config().policy.reservations as usize };
        let mut pass = Pass { at, future: self.future.clone(), left, same: true, started: false, next: None };
        let mut kept_ahead = waiting.iter().filter(|one| one.kept.is_some()).count();
        let mut remain = Vec::with_capacity(waiting.len());
        self.effort = self.effort.saturating_sub(waiting.len().div_ceil(32));
        let stuck = self.stuck;
        for mut one in waiting {
            kept_ahead -= usize::from(one.kept.is_some());
            if self.is_behind(one.job, stuck) {
                continue;
            }
            // Under strict order nobody passes who only has no room.
            if self.strict && pass.next.is_some() {
                remain.push(one);
                continue;
            }
            // Once no more places are kept, the pass looks only at those that have room.
            let open = pass.left > 0 || self.strict;
            let places = self.limits.places(&one.counts);
            if let Err(limit) =
                places.and_then(|()| if open { self.limits.take(&one.counts) } else { Ok(()) })
            {
                pass.same &= one.kept.take().is_none();
                one.is_barred(limit, at);
                remain.push(one);
                continue;
            }
            if let Some(one) = self.look(controller, &mut pass, one, kept_ahead) {
                remain.push(one);
            }
        }
        let again = pass.started && remain.iter().any(|one| !one.counts.is_empty());
        let next = pass.next.into_iter().chain(self.limits.next_end()).chain(again.then_some(at)).min();
        (remain, next)
    }

    /// Looks at a job that no limit keeps from starting. Gives it back if it has not started.
    fn look<'a>(
        &mut self,
        controller: &Controller,
        pass: &mut Pass,
        mut one: Waiting<'a>,
        kept_ahead: usize,
    ) -> Option<Waiting<'a>> {
        let found = match one.kept.take().filter(|_| pass.same) {
            Some(kept) => Ok(kept),
            None if pass.same && pass.left == 0 && one.not_before > pass.at => {
                pass.again_at(one.not_before);
                return Some(one);
            }
            None => {
                let looked = if pass.at > pass.future.timeline.now() {
                    controller.all_nodes().as_slice().len()
                } else {
                    0
                };
                self.effort = self.effort.saturating_sub(looked);
                let found = pass.future.find(controller, one.job, pass.at);
                // It may take what was kept for those after it.
                pass.same &= kept_ahead == 0;
                found
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(told) => {
                self.foretells_nothing(one.job, told, one.was_barred);
                return None;
            }
        };
        let seen = pass.left > 0 || self.strict;
        if found.from <= pass.at {
            if let Err(limit) = if seen { Ok(()) } else { self.limits.take(&one.counts) } {
                one.is_barred(limit, pass.at);
                return Some(one);
            }
            pass.future.give(controller, one.job, &found, true);
            self.starts(controller, &one, &found);
            pass.started = true;
            return None;
        }
        pass.again_at(found.from);
        (one.not_before, one.barred) = (found.from, None);
        if pass.left > 0 {
            pass.left -= 1;
            pass.future.give(controller, one.job, &found, false);
            self.limits.keep(&one.counts);
            one.kept = Some(found);
        }
        Some(one)
    }

    /// Whether a job before it is stuck since then, so that nothing is said of it.
    fn is_behind(&mut self, job: &Job, since: Option<JobId>) -> bool {
        let Some(stuck) = self.stuck.filter(|stuck| Some(*stuck) != since) else { return false };
        self.told.insert(job.id.number, Expected::never(Basis::Behind { job: stuck }));
        true
    }

    /// No place can be kept for a job. Whom a limit has kept from starting hides nobody.
    fn foretells_nothing(&mut self, job: &Job, told: Expected, by_limit: bool) {
        if !by_limit && matches!(told.basis, Basis::Unsaid { .. } | Basis::Somebody) {
            self.stuck = Some(job.id);
        }
        self.told.insert(job.id.number, told);
    }

    /// The job starts there and then: what it holds it holds until its end.
    fn starts(&mut self, controller: &Controller, one: &Waiting, found: &Found) {
        let of_limit =
            one.barred.as_ref().and_then(|limit| self.limits.basis(limit, &one.counts, found.from));
        let basis = match of_limit {
            _ if found.later_hours => Basis::Hours,
            Some(basis) => basis,
            None => self.basis(controller, found),
        };
        self.tell(controller, one.job, found, basis);
    }

    /// What happens when a job starts.
    fn basis(&self, controller: &Controller, found: &Found) -> Basis {
        match (self.future.basis(controller, found), self.last) {
            (Basis::Free, Some((at, job))) if at == found.from && at > self.future.timeline.now() => {
                Basis::Follows { job }
            }
            (basis, _) => basis,
        }
    }

    fn tell(&mut self, controller: &Controller, job: &Job, found: &Found, basis: Basis) {
        let from = found.from;
        self.told.insert(job.id.number, Expected::at(from, basis));
        self.limits.hold(controller, job, from, job.length().map(|_| from + controller.planned(job)));
        self.future.give(controller, job, found, true);
        if self.strict && self.last.is_none_or(|(at, _)| at <= from) {
            self.last = Some((from, job.id));
        }
    }
}
