//! What is held under limits on users, groups and queues, as it will be: by it is said when who waits for a limit may start.

use std::collections::BTreeMap;

use crate::controller::Controller;
use crate::id::{JobId, JobNumber};
use crate::job::Job;
use crate::job::bounds::SumId;
use crate::time::WallTime;

use super::Basis;

/// All of them that anybody counts in.
#[derive(Debug, Default)]
pub(super) struct Sums(BTreeMap<SumId, Held>);

/// What is held under one, by jobs that run and, as if they ran already, by those that come before: so nobody passes them.
#[derive(Debug, Default)]
struct Held {
    all: u64,
    /// So much of it is given back, when and by whom.
    ends: BTreeMap<(WallTime, JobNumber), u64>,
    /// One of its jobs of which nobody says how long it takes.
    unsaid: Option<JobId>,
}

impl Sums {
    /// A job has what it asks for until then, if that can be said.
    pub(super) fn hold(&mut self, controller: &Controller, job: &Job, end: Option<WallTime>) {
        for (id, _, amount) in controller.card_limits().amounts(job) {
            let held = self.0.entry(id).or_default();
            held.all = held.all.saturating_add(amount);
            match end {
                Some(end) => drop(held.ends.insert((end, job.id.number), amount)),
                None => drop(held.unsaid.get_or_insert(job.id)),
            }
        }
    }

    /// The first instant at which all limits leave a job what it asks for, if not at once, and by whose leave.
    pub(super) fn room_for(
        &self,
        controller: &Controller,
        job: &Job,
        now: WallTime,
    ) -> Result<Option<(WallTime, Basis)>, Basis> {
        let mut latest: Option<(WallTime, Basis)> = None;
        for (id, max, amount) in controller.card_limits().amounts(job) {
            let Some(held) = self.0.get(&id) else { continue };
            let found = held.room_for(controller, max, amount, now)?;
            if found.as_ref().is_some_and(|(at, _)| latest.as_ref().is_none_or(|(last, _)| at > last)) {
                latest = found;
            }
        }
        Ok(latest)
    }
}

impl Held {
    fn room_for(
        &self,
        controller: &Controller,
        max: u64,
        amount: u64,
        now: WallTime,
    ) -> Result<Option<(WallTime, Basis)>, Basis> {
        let (mut held, mut ended) = (self.all, None);
        let mut ends = self.ends.iter();
        while held.saturating_add(amount) > max {
            let Some(((end, job), given_back)) = ends.next() else {
                return Err(self.unsaid.map_or(Basis::Somebody, |job| Basis::Unsaid { job }));
            };
            held = held.saturating_sub(*given_back);
            ended = Some((*end, *job));
        }
        let ended = ended.and_then(|(end, job)| Some((end, controller.job(job)?.id)));
        Ok(ended.map(|(end, job)| (end.max(now), Basis::LimitPlace { job })))
    }
}
