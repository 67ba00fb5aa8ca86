//! Where a job has room in the plan, when, and what happens there then.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::controller::Controller;
use crate::id::JobId;
use crate::job::Job;
use crate::schedule::gang::Places;
use crate::schedule::placement::{Place, Rules};
use crate::schedule::timeline::{Reservation, Timeline};
use crate::time::WallTime;

use super::{Basis, Expected, Said};

/// At most so many days are searched for room in a job's daily hours.
const DAYS: usize = 7;

/// The nodes as they are planned.
#[derive(Clone)]
pub(super) struct PlannedNodes {
    /// The same for all searches: what they know of the usual jobs is long.
    rules: Rc<Rules>,
    pub(super) timeline: Timeline,
    /// For nodes, by position: the time from which on their future is unknown, because this job has no known length.
    unknown: BTreeMap<usize, (WallTime, JobId)>,
}

/// A place that was found.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) from: WallTime,
    pub(super) places: Places,
    /// It is in later hours than those in which there would be room first.
    pub(super) later_hours: bool,
}

impl PlannedNodes {
    pub(super) fn of(timeline: Timeline, rules: Rules) -> PlannedNodes {
        PlannedNodes { rules: Rc::new(rules), timeline, unknown: BTreeMap::new() }
    }

    pub(super) fn rests_on_unknown(&mut self, node: usize, from: WallTime, job: JobId) {
        let known = self.unknown.entry(node).or_insert((from, job));
        *known = (from, job).min(*known);
    }

    /// The places are a job's from then on. `runs`: it has started by then, and nobody need keep it a place.
    pub(super) fn give(&mut self, controller: &Controller, job: &Job, found: &Found, runs: bool) {
        for place in found.places.iter() {
            let kept = controller.reservation(job, place, found.from);
            if job.length().is_none() {
                self.rests_on_unknown(place.node, kept.until, job.id);
            }
            self.timeline.reserve(Reservation { firm: kept.firm && !runs, ..kept });
        }
    }

    /// The first instant, not before `at`, at which a job has room and may start by its hours, and where; else what is
    /// to be told instead.
    pub(super) fn find(&self, controller: &Controller, job: &Job, at: WallTime) -> Result<Found, Expected> {
        let Some(opens) = controller.opens(job, at) else { return Err(Expected::never(Basis::TooLate)) };
        let (rules, nodes) = (&*self.rules, controller.all_nodes());
        let (timeline, length) = (&self.timeline, controller.fitting(job, &self.timeline));
        let at_first = || rules.places(nodes, timeline, job, opens, length).map(|places| (opens, places));
        let at_once = (opens <= timeline.now()).then(at_first).flatten();
        let found = at_once.or_else(|| rules.earliest_places(nodes, timeline, job, opens, length));
        let Some((first, places)) = found else { return Err(Expected::never(Basis::Somebody)) };
        let in_time = controller.opens(job, first) == Some(first);
        let found = match in_time {
            true => Some((first, places)),
            false => controller.earliest_in_time(rules, timeline, job, (first, length)),
        };
        let Some((from, places)) = found else { return Err(self.in_later_hours(controller, job, first)) };
        match self.unknown_by(&places, from) {
            Some(job) => Err(Expected::never(Basis::Unsaid { job })),
            None => Ok(Found { from, places, later_hours: !in_time }),
        }
    }

    /// The job of unknown length on which places rest from then on.
    fn unknown_by(&self, places: &Places, from: WallTime) -> Option<JobId> {
        let unknown = |place: &Place| self.unknown.get(&place.node).filter(|(unknown, _)| *unknown <= from);
        places.iter().find_map(unknown).map(|(_, job)| *job)
    }

    /// The expected start in later hours of its own. No place is kept there, so others are not planned around it.
    fn in_later_hours(&self, controller: &Controller, job: &Job, mut after: WallTime) -> Expected {
        let (rules, length) = (&*self.rules, controller.fitting(job, &self.timeline));
        for _ in 0..DAYS {
            let Some(opens) = controller.opens(job, after) else { return Expected::never(Basis::TooLate) };
            let found = rules.earliest_places(controller.all_nodes(), &self.timeline, job, opens, length);
            let Some((from, places)) = found else { break };
            if let Some(job) = self.unknown_by(&places, from) {
                return Expected::never(Basis::Unsaid { job });
            }
            if controller.opens(job, from) == Some(from) {
                return Expected::at(from, Basis::Hours);
            }
            after = from;
        }
        Expected::never(Basis::Somebody)
    }

    /// What happens then on one of these nodes at least.
    pub(super) fn basis(&self, controller: &Controller, found: &Found) -> Basis {
        let bases = found.places.iter().map(|place| self.basis_on(controller, found.from, place));
        bases.reduce(|a, b| if a == Basis::Free { b } else { a }).unwrap_or(Basis::Free)
    }

    fn basis_on(&self, controller: &Controller, from: WallTime, place: &Place) -> Basis {
        let now = self.timeline.now();
        let Some(node) = controller.all_nodes().as_slice().get(place.node).filter(|_| from > now) else {
            return Basis::Free;
        };
        // First look for a job that leaves these very cards.
        let leaves = |charges: &[(usize, _)]| {
            !place.cards.iter().any(|(at, _)| charges.iter().any(|(charged, _)| charged == at))
        };
        let name = &node.inventory.name;
        let ends = node.held().iter().filter(|(_, holding)| self.timeline.end_of(holding) == from);
        let first = ends.min_by_key(|(epoch, holding)| (leaves(&holding.charges), **epoch));
        if let Some((job, holding)) =
            first.and_then(|(epoch, holding)| Some((controller.job_of_epoch(*epoch)?, holding)))
        {
            let said = match controller.job(job.number) {
                _ if holding.until <= now => Said::Overrun,
                Some(job) if holding.likely == from && job.is_planned_as_learnt() => {
                    Said::Learnt { length: job.length().unwrap_or_default() }
                }
                Some(job) if job.request.estimate.is_some() => Said::Estimate,
                _ => Said::Limit,
            };
            return Basis::End { job, node: name.clone(), said };
        }
        let planned = self.timeline.on(place.node).iter().filter(|kept| kept.until == from);
        let planned = planned.min_by_key(|kept| (leaves(&kept.cards), kept.job));
        match planned.and_then(|kept| controller.job(kept.job)) {
            Some(job) => Basis::PlannedEnd { job: job.id, node: name.clone() },
            None => Basis::Free,
        }
    }
}
