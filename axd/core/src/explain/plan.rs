//! When waiting jobs are expected to start, and what that rests on. In the plan, running jobs end at their estimates
//! or limits, and each waiting job has its place kept in its order. Only the explanations use it; no start is decided
//! from it.

mod basis;
mod sums;

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Queue, QueueState, Scheduler};
use crate::controller::Controller;
use crate::id::{JobId, JobNumber, QueueName, Uid};
use crate::job::Job;
use crate::schedule::placement::Place;
use crate::schedule::timeline::Timeline;
use crate::time::WallTime;

pub use basis::{Basis, Said, learnt_in_words};
use sums::Sums;

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

/// The future of the nodes.
pub(super) struct Plan {
    timeline: Timeline,
    /// The same, with the jobs that a limit lets start only later: they delay each other, but no other jobs.
    with_limited: Timeline,
    /// What is held under limits, and when it becomes free.
    sums: Sums,
    /// For nodes, by position: the time from which on their future is unknown, because this job has no known length.
    unknown: BTreeMap<usize, (WallTime, JobId)>,
    /// Under strict order: the start of the job before, before which none may start.
    last: Option<(WallTime, Option<JobId>)>,
    /// The places of queues with a limit on running jobs.
    queues: BTreeMap<QueueName, Places>,
    /// The places of users with such a limit, in a queue or in all.
    users: BTreeMap<(Uid, Option<QueueName>), Places>,
    /// A job whose start can't be foretold: then that of no later job can.
    stuck: Option<JobId>,
}

/// The places of a queue with a limit on running jobs: free ones, and when further ones become free, if known.
#[derive(Default)]
struct Places {
    free: u32,
    /// So many jobs must end first, because the limit was lowered.
    over: u32,
    ends: BTreeSet<(WallTime, JobNumber)>,
    /// A job with a place and no known length.
    unsaid: Option<JobId>,
}

impl Places {
    /// A job that has a place and ends at `end`, if that is known.
    fn add(&mut self, end: Option<WallTime>, job: JobId) {
        match end {
            Some(end) => drop(self.ends.insert((end, job.number))),
            None => drop(self.unsaid.get_or_insert(job)),
        }
    }

    /// Takes a place: at once, or when it becomes free, and after which job.
    fn take(&mut self) -> Result<Option<(WallTime, JobNumber)>, Basis> {
        if self.free > 0 {
            self.free -= 1;
            return Ok(None);
        }
        self.take_later()
    }

    fn take_later(&mut self) -> Result<Option<(WallTime, JobNumber)>, Basis> {
        for _ in 0..std::mem::take(&mut self.over) {
            self.ends.pop_first();
        }
        match self.ends.pop_first() {
            Some(found) => Ok(Some(found)),
            None => Err(self.unsaid.map_or(Basis::Somebody, |job| Basis::Unsaid { job })),
        }
    }
}

/// At most so many days are searched for room in a job's daily hours.
const DAYS: usize = 7;

impl Plan {
    pub(super) fn of(controller: &Controller, now: WallTime) -> Plan {
        let places = |queue: &Queue| {
            let max = if queue.state == QueueState::Stopped { Some(0) } else { queue.max_running };
            let (max, active) = (max?, controller.active_in(&queue.name));
            let (free, over) = (max.saturating_sub(active), active.saturating_sub(max));
            Some((queue.name.clone(), Places { free, over, ..Places::default() }))
        };
        let queues = controller.config().queues.iter().filter_map(places).collect();
        let strict = controller.config().policy.scheduler == Scheduler::FifoStrict;
        let timeline = controller.timeline(now).as_is_likely();
        let mut plan = Plan {
            with_limited: timeline.clone(),
            timeline,
            sums: Sums::default(),
            unknown: BTreeMap::new(),
            last: strict.then_some((now, None)),
            queues,
            users: BTreeMap::new(),
            stuck: None,
        };
        for job in controller.active_jobs() {
            plan.enter_active(controller, job, now);
        }
        plan
    }

    fn enter_active(&mut self, controller: &Controller, job: &Job, now: WallTime) {
        let Some(attempt) = &job.attempt else { return };
        let ends = attempt.ends_from(attempt.started_at.unwrap_or(now));
        let end = if ends.likely > now { ends.likely } else { ends.until };
        let said = job.length().is_some();
        self.sums.hold(controller, job, said.then_some(end.max(now)));
        for places in self.places_of_user(controller, job) {
            places.add(said.then_some(end.max(now)), job.id);
        }
        let places = self.queues.get_mut(&job.queue).filter(|_| !is_stopped(controller, job));
        if !said {
            if let Some(places) = places {
                places.unsaid.get_or_insert(job.id);
            }
            for node in attempt.open_parts().filter_map(|part| controller.position_of(&part.node)) {
                self.rests_on_unknown(node, end.max(now), job.id);
            }
            return;
        }
        if let Some(places) = places {
            places.ends.insert((end.max(now), job.id.number));
        }
    }

    fn rests_on_unknown(&mut self, node: usize, from: WallTime, job: JobId) {
        let known = self.unknown.entry(node).or_insert((from, job));
        *known = (from, job).min(*known);
    }

    /// When a job is expected to start; its place is kept from then on. `limited`: a limit on what is held bars it
    /// now.
    pub(super) fn expect(&mut self, controller: &Controller, job: &Job, limited: bool) -> Expected {
        let now = self.timeline.now();
        if let Some(job) = self.stuck {
            return Expected::never(Basis::Behind { job });
        }
        // A queue at its limit delays no others, so its jobs leave the plan of the nodes as it is.
        let in_queue = self.place_in_queue(controller, job);
        let of_user = self.place_of_user(controller, job);
        let later = |a: Option<(WallTime, Basis)>, b: Option<(WallTime, Basis)>| match (a, b) {
            (Some(a), Some(b)) => Some(if b.0 > a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        match in_queue.and_then(|in_queue| Ok(later(in_queue, of_user?))) {
            Err(basis) => Expected::never(basis),
            Ok(start) if limited || start.as_ref().is_some_and(|(start, _)| *start > now) => {
                let under_limits = match self.sums.room_for(controller, job, now) {
                    Ok(under_limits) => later(start, under_limits),
                    Err(basis) => return Expected::never(basis),
                };
                match under_limits.filter(|(start, _)| *start > now) {
                    Some(start) => self.start_limited(controller, job, start),
                    // A job before it keeps what it needs, and it is not known for how long.
                    None => Expected::never(Basis::Limit),
                }
            }
            Ok(_) => self.start(controller, job).unwrap_or_else(|basis| {
                self.stuck = Some(job.id);
                Expected::never(basis)
            }),
        }
    }

    /// When a job starts that a limit lets start at this time.
    fn start_limited(
        &mut self,
        controller: &Controller,
        job: &Job,
        (start, basis): (WallTime, Basis),
    ) -> Expected {
        let Some(opens) = controller.opens(job, start) else { return Expected::never(Basis::TooLate) };
        let (rules, nodes) = (controller.rules(), controller.all_nodes());
        let (timeline, length) = (&self.with_limited, controller.planned(job));
        let at_first = rules.places(nodes, timeline, job, opens, length).map(|places| (opens, places));
        let found = at_first.or_else(|| rules.earliest_places(nodes, timeline, job, opens, length));
        let Some((from, places)) = found else { return Expected::never(Basis::Somebody) };
        let unknown = |place: &Place| self.unknown.get(&place.node).filter(|(unknown, _)| *unknown <= from);
        if let Some((_, job)) = places.iter().find_map(unknown) {
            return Expected::never(Basis::Unsaid { job: *job });
        }
        let basis = match () {
            () if controller.opens(job, from) != Some(from) => {
                return self.in_later_hours(controller, job, from);
            }
            () if from == start => basis,
            () if from == opens => Basis::Hours,
            () => self.basis(controller, from, &places.first),
        };
        self.is_planned(controller, job, from);
        places.iter().for_each(|place| self.with_limited.reserve(controller.reservation(job, place, from)));
        Expected::at(from, basis)
    }

    /// A job for which others are being ended starts at this time at the latest.
    pub(super) fn claims(&mut self, controller: &Controller, job: &Job, start: WallTime) {
        self.sums.hold(controller, job, job.length().map(|length| start + length));
    }

    /// The first time at which the job's queue lets it start, `None` for at once; takes that place.
    fn place_in_queue(
        &mut self,
        controller: &Controller,
        job: &Job,
    ) -> Result<Option<(WallTime, Basis)>, Basis> {
        let now = self.timeline.now();
        let Some(places) = self.queues.get_mut(&job.queue) else { return Ok(None) };
        if places.free > 0 {
            places.free -= 1;
            return Ok(None);
        }
        let Some((end, number)) = places.take_later()? else { return Ok(None) };
        let id = controller.job(number).map_or(job.id, |other| other.id);
        Ok(Some((end.max(now), Basis::QueuePlace { job: id })))
    }

    /// The places of its owner, if the number of their running jobs is limited.
    fn places_of_user(&mut self, controller: &Controller, job: &Job) -> Vec<&mut Places> {
        let (config, user) = (controller.config(), job.owner.uid);
        let of_queue = config.queue(job.queue.as_str()).and_then(|queue| queue.max_running_per_user);
        let mut keys = Vec::new();
        for (queue, max) in [(Some(job.queue.clone()), of_queue), (None, config.policy.max_running_per_user)]
        {
            let Some(max) = max else { continue };
            let active = controller.active_of(user, queue.as_ref());
            let (free, over) = (max.saturating_sub(active), active.saturating_sub(max));
            let key = (user, queue);
            self.users.entry(key.clone()).or_insert_with(|| Places { free, over, ..Places::default() });
            keys.push(key);
        }
        self.users.iter_mut().filter(|(key, _)| keys.contains(key)).map(|(_, places)| places).collect()
    }

    /// The first time at which its owner's limits let the job start, `None` for at once; takes that place.
    fn place_of_user(
        &mut self,
        controller: &Controller,
        job: &Job,
    ) -> Result<Option<(WallTime, Basis)>, Basis> {
        let now = self.timeline.now();
        let mut last: Option<(WallTime, JobNumber)> = None;
        for places in self.places_of_user(controller, job) {
            last = last.max(places.take()?);
        }
        Ok(last.map(|(end, number)| {
            let id = controller.job(number).map_or(job.id, |other| other.id);
            (end.max(now), Basis::UserPlace { job: id })
        }))
    }

    /// At the job's planned end, if known, frees its place in its queue and what it holds under limits.
    fn is_planned(&mut self, controller: &Controller, job: &Job, start: WallTime) {
        let end = job.length().map(|length| start + length);
        self.sums.hold(controller, job, end);
        for places in self.places_of_user(controller, job) {
            places.add(end, job.id);
        }
        if let Some(places) = self.queues.get_mut(&job.queue) {
            places.add(end, job.id);
        }
    }

    /// The first time at which the job fits somewhere; its place is kept from then on.
    fn start(&mut self, controller: &Controller, job: &Job) -> Result<Expected, Basis> {
        let (rules, length) = (controller.rules(), controller.fitting(job, &self.timeline));
        let now = self.timeline.now();
        let nodes = controller.all_nodes();
        let not_before = self.last.map_or(now, |(at, _)| at);
        let at_once = (not_before <= now)
            .then(|| rules.places(nodes, &self.timeline, job, now, length))
            .flatten()
            .map(|places| (now, places));
        let found = at_once.or_else(|| rules.earliest_places(nodes, &self.timeline, job, not_before, length));
        let Some((first, places)) = found else { return Err(Basis::Somebody) };
        let in_time = controller.opens(job, first) == Some(first);
        let found = match in_time {
            true => Some((first, places)),
            false => controller.earliest_in_time(&rules, &self.timeline, job, (first, length)),
        };
        let Some((from, places)) = found else { return Ok(self.in_later_hours(controller, job, first)) };
        let unknown = |place: &Place| self.unknown.get(&place.node).filter(|(unknown, _)| *unknown <= from);
        if let Some((_, job)) = places.iter().find_map(unknown) {
            return Err(Basis::Unsaid { job: *job });
        }
        // The event of that time is on one of the nodes at least.
        let bases = places.iter().map(|place| self.basis(controller, from, place));
        let basis = bases.reduce(|a, b| if a == Basis::Free { b } else { a }).unwrap_or(Basis::Free);
        let basis = if in_time { basis } else { Basis::Hours };
        if self.last.is_some_and(|(last, _)| from >= last) {
            self.last = Some((from, Some(job.id)));
        }
        self.is_planned(controller, job, from);
        for place in places.iter() {
            let reservation = controller.reservation(job, place, from);
            if job.length().is_none() {
                self.rests_on_unknown(place.node, reservation.until, job.id);
            }
            self.timeline.reserve(reservation.clone());
            self.with_limited.reserve(reservation);
        }
        Ok(Expected::at(from, basis))
    }

    /// The expected start in later hours of its own. No place is kept there, so others are not planned around it.
    fn in_later_hours(&self, controller: &Controller, job: &Job, mut after: WallTime) -> Expected {
        let (rules, length) = (controller.rules(), controller.fitting(job, &self.timeline));
        for _ in 0..DAYS {
            let Some(opens) = controller.opens(job, after) else { return Expected::never(Basis::TooLate) };
            let found = rules.earliest_places(controller.all_nodes(), &self.timeline, job, opens, length);
            let Some((from, places)) = found else { break };
            let unknown =
                |place: &Place| self.unknown.get(&place.node).filter(|(unknown, _)| *unknown <= from);
            if let Some((_, job)) = places.iter().find_map(unknown) {
                return Expected::never(Basis::Unsaid { job: *job });
            }
            if controller.opens(job, from) == Some(from) {
                return Expected::at(from, Basis::Hours);
            }
            after = from;
        }
        Expected::never(Basis::Somebody)
    }

    /// What happens at that time on that node.
    fn basis(&self, controller: &Controller, from: WallTime, place: &Place) -> Basis {
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
        if let Some(job) = planned.and_then(|kept| controller.job(kept.job)) {
            return Basis::PlannedEnd { job: job.id, node: name.clone() };
        }
        match self.last {
            Some((_, Some(job))) => Basis::Follows { job },
            _ => Basis::Free,
        }
    }
}

fn is_stopped(controller: &Controller, job: &Job) -> bool {
    controller.config().queue(job.queue.as_str()).is_some_and(|queue| queue.state == QueueState::Stopped)
}
