//! Under fair share: which jobs go first because a queue or user has had less. Uses the virtual times and ranks of
//! the order itself.

use std::collections::BTreeMap;

use crate::config::Scheduler;
use crate::controller::Controller;
use crate::id::{JobId, JobNumber, QueueName};
use crate::job::Job;
use crate::schedule::order::{Rank, rank_in};
use crate::time::Now;

use super::Condition;
use super::condition::{QueueAhead, UserAhead};

/// The jobs that went before in the order.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The first job of each queue.
    first: BTreeMap<QueueName, JobId>,
    /// The job of each queue that would be last if users' shares did not count.
    last: BTreeMap<QueueName, (Rank, JobNumber)>,
}

impl Before {
    /// Adds a job.
    pub(super) fn add(&mut self, controller: &Controller, job: &Job) {
        if controller.config().policy.scheduler != Scheduler::FairShare {
            return;
        }
        self.first.entry(job.queue.clone()).or_insert(job.id);
        let own = (rank_in(job, controller.config(), controller.size(job)), job.id.number);
        let last = self.last.entry(job.queue.clone()).or_insert(own);
        *last = own.max(*last);
    }

    /// The conditions of a job that other jobs precede because of shares.
    pub(super) fn conditions(&self, controller: &Controller, job: &Job, now: Now) -> Vec<Condition> {
        let of_queue = self.queue_ahead(controller, job);
        of_queue.into_iter().chain(self.user_ahead(controller, job, now)).collect()
    }

    /// The queue that has had the least among those with a job before this one, if that is less than the job's own
    /// queue has had.
    fn queue_ahead(&self, controller: &Controller, job: &Job) -> Option<Condition> {
        let (times, config) = (controller.virtual_times(), controller.config());
        let own = times.of(&job.queue);
        let others = self.first.iter().filter(|(queue, _)| **queue != job.queue && times.of(queue) < own);
        let (than, first) = others.min_by_key(|(queue, _)| times.of(queue))?;
        let weight = config.queue(job.queue.as_str())?.priority;
        let (thousandths, unit) = controller.had_more(own - times.of(than), weight);
        let (queue, than, first) = (job.queue.clone(), than.clone(), *first);
        let unit = unit.to_owned();
        Some(Condition::QueueAhead(QueueAhead { queue, weight, thousandths, unit, than, first }))
    }

    /// A job of another user that goes first, and would not if both users had had the same.
    fn user_ahead(&self, controller: &Controller, job: &Job, now: Now) -> Option<Condition> {
        let (rank, number) = self.last.get(&job.queue)?;
        let other = controller.job(*number).filter(|other| other.owner.uid != job.owner.uid)?;
        if *rank < rank_in(job, controller.config(), controller.size(job)) {
            return None;
        }
        let half = controller.config().policy.usage_half_life;
        let had = |uid| controller.usages().per_mille(uid, now.wall, half);
        let (per_mille, others) = (had(job.owner.uid), had(other.owner.uid));
        let ahead = || UserAhead {
            user: job.owner.name.to_string(),
            per_mille,
            than: other.owner.name.to_string(),
            others,
            first: other.id,
        };
        (per_mille > others).then(|| Condition::UserAhead(ahead()))
    }
}
