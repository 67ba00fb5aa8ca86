//! Jobs that have their place in the plan one by one, beside all that is planned: those that wait for a time of their own,
//! and what is left when the passes to come would cost too much.

use crate::controller::Controller;
use crate::explain::PLANNED;
use crate::id::JobNumber;
use crate::job::Job;
use crate::time::{Now, WallTime};

use super::{Basis, Expected, Found, Plan, Waiting};

/// No place is found for a job.
struct NoPlace {
    told: Expected,
    /// A limit bars it or puts it off: a pass lets those behind it go ahead.
    by_limit: bool,
}

impl Plan {
    /// What is told of a job that waits for a time of its own; they have their places in the order in which these come.
    pub(in crate::explain) fn told_own(
        &mut self,
        controller: &Controller,
        now: Now,
        job: JobNumber,
    ) -> Option<&Expected> {
        if !std::mem::replace(&mut self.has_own, true) {
            let mut own: Vec<(WallTime, JobNumber, &Job)> = controller
                .waiting_for_times(PLANNED)
                .filter_map(|job| Some((controller.own_time(job, now)?, job.id.number, job)))
                .collect();
            own.sort_unstable_by_key(|(at, number, _)| (*at, *number));
            for (at, _, job) in own.into_iter().take(PLANNED) {
                self.place_own(controller, job, at);
            }
        }
        self.told.get(&job)
    }

    fn place_own(&mut self, controller: &Controller, job: &Job, at: WallTime) {
        if let Some(stuck) = self.stuck {
            self.told.insert(job.id.number, Expected::never(Basis::Behind { job: stuck }));
            return;
        }
        if self.too_many {
            self.told.insert(job.id.number, Expected::never(Basis::TooFar));
            return;
        }
        // Between its hours the pass keeps a place for it already.
        let kept = self.future.timeline.iter().find(|kept| kept.job == job.id.number).map(|kept| kept.from);
        if let Some(from) = kept {
            self.told.insert(job.id.number, Expected::at(from, Basis::Itself));
            return;
        }
        let one = self.waiting(controller, job, at);
        match self.place(controller, &one, at) {
            Ok((found, _)) if found.from == at => self.tell(controller, job, &found, Basis::Itself),
            Ok((found, basis)) => self.tell(controller, job, &found, basis),
            Err(told) => drop(self.told.insert(job.id.number, told)),
        }
    }

    /// Those that have not started yet, in their order.
    pub(super) fn place_in_order(&mut self, controller: &Controller, waiting: Vec<Waiting>, at: WallTime) {
        let stuck = self.stuck;
        for one in waiting {
            if self.is_answered() {
                return;
            }
            if self.is_behind(one.job, stuck) {
                continue;
            }
            let after = self.last.filter(|_| self.strict).map_or(at, |(last, _)| last.max(at));
            match self.first_place(controller, &one, after) {
                Ok((found, basis)) => self.tell(controller, one.job, &found, basis),
                Err(NoPlace { told, by_limit }) => self.foretells_nothing(one.job, told, by_limit),
            }
        }
    }

    /// What is free from now on is found along the index of the nodes, so this is tried first.
    fn find_from(&self, controller: &Controller, job: &Job, at: WallTime) -> Result<Found, Expected> {
        let by_index = self.future.find(controller, job, self.future.timeline.now());
        match by_index {
            Ok(found) if found.from < at => self.future.find(controller, job, at),
            found => found,
        }
    }

    fn place(
        &self,
        controller: &Controller,
        one: &Waiting,
        at: WallTime,
    ) -> Result<(Found, Basis), Expected> {
        self.first_place(controller, one, at).map_err(|none| none.told)
    }

    /// The first place, not before `at`, beside all that is planned, that the limits let it have; with what that rests on.
    fn first_place(
        &self,
        controller: &Controller,
        one: &Waiting,
        mut at: WallTime,
    ) -> Result<(Found, Basis), NoPlace> {
        let length = controller.planned(one.job);
        let room = |from| {
            let never = |basis| NoPlace { told: Expected::never(basis), by_limit: true };
            self.limits.room(&one.counts, from, length).map_err(never)
        };
        let mut by_limit = None;
        loop {
            let (allowed, basis) = room(at)?;
            if let Some(basis) = basis {
                by_limit = Some((allowed, basis));
            }
            let barred = one.was_barred || allowed > at;
            let found = match barred {
                true => self.future.find(controller, one.job, allowed),
                false => self.find_from(controller, one.job, allowed),
            };
            let found = found.map_err(|told| NoPlace { told, by_limit: barred })?;
            let (still, _) = room(found.from)?;
            if still > found.from {
                at = found.from;
                continue;
            }
            let basis = match by_limit {
                _ if found.later_hours => Basis::Hours,
                Some((when, basis)) if when == found.from => basis,
                _ => self.basis(controller, &found),
            };
            return Ok((found, basis));
        }
    }
}
