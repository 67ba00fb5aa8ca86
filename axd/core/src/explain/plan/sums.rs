//! What will be held under limits on users, groups and queues: it tells when a job that waits for a limit may start.

use std::collections::BTreeMap;

use crate::controller::Controller;
use crate::id::{JobId, JobNumber};
use crate::job::Job;
use crate::job::bounds::SumId;
use crate::time::WallTime;

use super::Basis;

/// What is held under each limit.
#[derive(Debug, Default)]
pub(super) struct Sums(BTreeMap<SumId, Held>);

/// What is held under one limit by running jobs and, as if they ran already, by the jobs before: so that no job
/// passes them.
#[derive(Debug, Default)]
struct Held {
    all: u64,
    /// What becomes free, when, and by which job's end.
    ends: BTreeMap<(WallTime, JobNumber), u64>,
    /// A job of it that has no known length.
    unsaid: Option<JobId>,
}

impl Sums {
    /// A job holds what it asks for until its end, if that is known.
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

    /// The first time at which all limits leave a job what it asks for (`None` for at once), and whose end frees it.
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
