//! The order of the waiting jobs, and what users take, made anew: after a change of nodes or configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::config::Scheduler;
use crate::id::QueueName;
use crate::job::Job;
use crate::job::shared::Shared;
use crate::job::state::JobState;
use crate::schedule::share::Unspent;

use super::Controller;
use super::bounds::Limits;

impl Controller {
    /// After a change of nodes or configuration: the order of the ready jobs anew, and which can never be placed now.
    pub(super) fn enter_order_anew(&mut self) {
        self.measure = crate::schedule::share::Measure::of(&self.nodes);
        let waited: BTreeSet<QueueName> = self.order.waiting().cloned().collect();
        self.order = crate::schedule::order::WaitingOrder::default();
        self.limits = Limits::of(&self.config, &self.nodes);
        let mut jobs = std::mem::take(&mut self.jobs);
        for job in jobs.values_mut() {
            self.bind(job);
            if job.state.is_active() {
                self.limits.started(job);
            }
            self.enter_order(job);
        }
        self.jobs = jobs;
        if self.config.policy.scheduler == Scheduler::FairShare {
            // Queues whose jobs had no node that could hold them.
            let (mut awake, woken): (BTreeSet<QueueName>, BTreeSet<QueueName>) =
                self.order.waiting().cloned().partition(|name| waited.contains(name));
            for queue in woken {
                let (runs, so_far) = (self.order.active(&queue) > 0, (&self.unspent, self.seen));
                self.times.wake(&queue, runs, awake.iter(), so_far);
                awake.insert(queue);
            }
        }
        self.enter_rates();
    }

    /// What each user's jobs take now, anew: shares are measured by the nodes there are. What queues were charged for them
    /// stays as it was.
    pub(super) fn enter_rates(&mut self) {
        self.usages.forget_rates(self.seen, self.config.policy.usage_half_life);
        if self.config.policy.scheduler == Scheduler::FairShare {
            for job in self.active.iter().filter_map(|number| self.jobs.get(number)) {
                self.usages.goes_on(job.owner.uid, self.share(job));
            }
        }
        self.unspent = Unspent::default();
        for job in self.active.iter().filter_map(|number| self.jobs.get(number)) {
            if let Some((charged, end)) = job.attempt.as_ref().and_then(|attempt| attempt.unspent()) {
                self.unspent.enter(&job.queue, charged, end);
            }
        }
    }

    /// Gives a job what limits leave it by now, and has it share what others have the same.
    pub(super) fn bind(&mut self, job: &mut Arc<Job>) {
        let bounds = self.limits.bounds(job, &self.nodes);
        if job.bounds != bounds {
            Arc::make_mut(job).bounds = bounds;
        }
        if Shared::lacks(job) {
            self.shared.share(Arc::make_mut(job));
        }
    }

    /// Enters a job into the order, if it is ready or active.
    pub(super) fn enter_order(&mut self, job: &Job) {
        if job.state == JobState::Ready {
            if self.fits_nowhere(job) {
                self.order.insert_misfit(job.id.number);
            } else {
                let (share, size) = (self.share(job), self.size(job));
                let lengths = (self.planned(job), self.declared(job));
                self.order.insert(job, &self.config, lengths, share, size);
            }
        }
        if job.state.is_active() {
            self.order.started(&job.queue, job.owner.uid);
        }
    }
}
