//! What a pass has found out and kept so far. It lives no longer than the pass.

use std::collections::BTreeSet;

use crate::config::Scheduler;
use crate::id::QueueName;
use crate::job::Job;
use crate::schedule::kept::KeptPlaces;
use crate::schedule::lane::Worth;
use crate::schedule::order::{ShapeId, WaitingOrder};
use crate::schedule::timeline::Timeline;
use crate::time::Now;

use super::Controller;
use super::blocked::Blocked;
use super::bounds::Turns;
use super::places::UserPlaces;

/// How far a pass has come.
pub(super) struct PassState {
    pub(super) timeline: Timeline,
    pub(super) blocked: Blocked,
    /// So many places are kept at most, and may still be.
    pub(super) most: usize,
    pub(super) left: usize,
    /// Where places were found before.
    pub(super) found: KeptPlaces,
    /// So many jobs had no place in time by their hours or deadlines.
    pub(super) fruitless: usize,
    /// The queues of those for whom a place is kept, and those of them for whom it is since this pass.
    pub(super) kept: Vec<QueueName>,
    pub(super) reserved: BTreeSet<QueueName>,
    /// What is left of the limits on cards.
    pub(super) turns: Turns,
    /// The same by user.
    pub(super) users_kept: UserPlaces,
}

impl PassState {
    /// Which jobs of a shape could still be started, or have others go.
    pub(super) fn worth(&self, order: &WaitingOrder, shape: ShapeId) -> Worth {
        match self.turns.bar(order.bounds_of(shape)) {
            true => Worth::NONE,
            false => self.blocked.worth(shape, self.timeline.lengths()),
        }
    }

    /// All jobs of a shape, unless limits hold them back.
    pub(super) fn unbarred(&self, order: &WaitingOrder, shape: ShapeId) -> Worth {
        if self.turns.bar(order.bounds_of(shape)) { Worth::NONE } else { Worth::ALL }
    }
}

impl Controller {
    /// Whether what is remembered of places gives the same as a new search.
    pub(crate) fn found_places_hold(&self) -> bool {
        let (rules, mut found) = (self.rules(), self.found_places.clone());
        let mut timeline = self.timeline(self.seen);
        let last: Vec<&Job> = found
            .jobs()
            .filter_map(|number| self.job(number))
            .filter(|job| job.hours().is_none())
            .take(5)
            .collect();
        last.into_iter().rev().all(|job| {
            let (now, length) = (timeline.now(), self.fitting(job, &timeline));
            if rules.places(&self.nodes, &timeline, job, now, length).is_some() {
                return true;
            }
            let known = found.earliest(&rules, &self.nodes, &timeline, job, length);
            let anew = rules.earliest_places(&self.nodes, &timeline, job, now, length);
            for (from, place) in
                anew.iter().flat_map(|(from, places)| places.iter().map(|place| (*from, place)))
            {
                timeline.reserve(self.reservation(job, place, from));
            }
            known == anew
        })
    }

    /// How a pass begins.
    pub(super) fn begin_pass(&self, now: Now, found: KeptPlaces) -> PassState {
        let policy = &self.config.policy;
        let strict = policy.scheduler == Scheduler::FifoStrict;
        let most = if strict { 0 } else { policy.reservations as usize };
        let claiming = || self.claims.iter().filter_map(|number| self.job(*number));
        let mut turns = Turns::default();
        claiming().for_each(|job| turns.keep(&self.limits, job));
        PassState {
            turns,
            users_kept: UserPlaces::claimed(claiming()),
            kept: claiming().map(|job| job.queue.clone()).collect(),
            reserved: BTreeSet::new(),
            timeline: self.timeline(now.wall),
            blocked: Blocked {
                urgent: self.may_evict().then_some(policy.preempt_priority),
                ..Blocked::default()
            },
            most,
            left: most,
            found,
            fruitless: 0,
        }
    }
}
