//! Who is next, and where. For now: the queue's rank, the job's priority, then
//! first come, strictly; a queue at its limit and a job that no node can ever
//! hold stand in nobody's way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, Queue, QueueState};
use crate::id::{AttemptName, JobNumber, QueueName};
use crate::job::state::{Cause, JobState};
use crate::job::{Attempt, Job};
use crate::node::Allocation;
use crate::text::count;
use crate::time::Now;

use super::{Controller, Decision, Move};

/// Place of a job within its queue: higher priority first, then the smaller number.
type Place = (Reverse<u8>, JobNumber);

/// The ready jobs, by queue and place; a key fixed by the job, so never sorted anew.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingOrder {
    queues: BTreeMap<QueueName, OneQueue>,
    /// Ready jobs that no node could hold even if it were empty.
    misfits: BTreeSet<JobNumber>,
}

#[derive(Debug, Clone, Default)]
struct OneQueue {
    ready: BTreeSet<Place>,
    active: u32,
}

fn place_of(job: &Job) -> Place {
    (Reverse(job.request.priority), job.id.number)
}

impl WaitingOrder {
    /// Enters a ready job; a misfit stands aside.
    pub(super) fn insert(&mut self, job: &Job, misfit: bool) {
        if misfit {
            self.misfits.insert(job.id.number);
        } else {
            self.queues.entry(job.queue.clone()).or_default().ready.insert(place_of(job));
        }
    }

    pub(super) fn remove(&mut self, job: &Job) {
        self.misfits.remove(&job.id.number);
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.ready.remove(&place_of(job));
        }
    }

    pub(super) fn started(&mut self, queue: &QueueName) {
        self.queues.entry(queue.clone()).or_default().active += 1;
    }

    pub(super) fn ended(&mut self, queue: &QueueName) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.active = queue.active.saturating_sub(1);
        }
    }

    /// Active jobs of a queue.
    pub(super) fn active(&self, queue: &QueueName) -> u32 {
        self.queues.get(queue).map_or(0, |q| q.active)
    }

    /// Whether a queue may start another job.
    fn may_start(&self, queue: &Queue) -> bool {
        queue.state != QueueState::Stopped
            && queue.max_running.is_none_or(|max| self.active(&queue.name) < max)
    }

    /// The queues that hold ready jobs, the highest rank first.
    fn ranked<'a>(&'a self, config: &'a Config) -> Vec<(&'a Queue, &'a OneQueue)> {
        let mut ranked: Vec<_> = config
            .queues
            .iter()
            .filter_map(|q| self.queues.get(&q.name).map(|own| (q, own)))
            .filter(|(_, own)| !own.ready.is_empty())
            .collect();
        ranked.sort_by_key(|(q, _)| Reverse(q.priority));
        ranked
    }

    /// The job that would start next among the queues that may start one.
    fn next(&self, config: &Config) -> Option<JobNumber> {
        let startable = self.ranked(config).into_iter().find(|(q, _)| self.may_start(q));
        startable.and_then(|(_, own)| own.ready.first()).map(|(_, number)| *number)
    }

    /// The first ready jobs of each queue, so many at most.
    pub(super) fn first_of_each(&self, most: usize) -> impl Iterator<Item = JobNumber> + '_ {
        self.queues.values().flat_map(move |own| own.ready.iter().take(most).map(|(_, number)| *number))
    }

    /// All ready jobs, in order, misfits last.
    pub(super) fn in_order<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = JobNumber> + 'a {
        let ranked = self.ranked(config).into_iter();
        ranked.flat_map(|(_, own)| own.ready.iter().map(|(_, n)| *n)).chain(self.misfits.iter().copied())
    }
}

impl Controller {
    /// Starts whatever can be started now.
    pub(super) fn schedule(&mut self, now: Now, out: &mut Vec<Decision>) {
        while let Some(number) = self.order.next(&self.config) {
            let Some(allocation) = self.jobs.get(&number).and_then(|j| self.place(j)) else { return };
            if !self.assign(now, number, allocation, out) {
                return;
            }
        }
    }

    fn place(&self, job: &Job) -> Option<Allocation> {
        self.nodes.values().find_map(|node| node.place(&job.request))
    }

    fn assign(
        &mut self,
        now: Now,
        number: JobNumber,
        allocation: Allocation,
        out: &mut Vec<Decision>,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(&number) else { return false };
        let name = AttemptName { job: job.id, epoch: self.next_epoch };
        self.next_epoch = self.next_epoch.next();
        job.attempts += 1;
        let attempt = Attempt {
            name,
            number: job.attempts,
            allocation: allocation.clone(),
            started_at: None,
            ending: None,
            end: None,
        };
        let attempt_number = attempt.number;
        job.attempt = Some(attempt);
        let why = why_it(job, &allocation);
        if let Some(node) = self.nodes.get_mut(&allocation.node) {
            node.hold(name, allocation.clone());
        }
        let shifted = self.shift(now, number, Move::by_ax(Cause::Assigned, JobState::Starting, &why), out);
        out.push(Decision::Launch { attempt: name, number: attempt_number, allocation, why });
        shifted
    }

    /// Whether no node could hold the job even if it were empty.
    pub(super) fn fits_nowhere(&self, job: &Job) -> bool {
        !self.nodes.values().any(|node| node.could_ever_hold(&job.request))
    }

    /// After a change of nodes: which ready jobs can, and which can't, ever be placed now.
    pub(super) fn sort_out_misfits(&mut self) {
        let ready = self.jobs.values().filter(|j| j.state == JobState::Ready).map(|j| j.id.number);
        for number in ready.collect::<Vec<_>>() {
            if let Some(job) = self.unindex(number) {
                self.index(job);
            }
        }
    }

    /// Whether a job waits for something that no node has.
    pub fn is_misfit(&self, number: JobNumber) -> bool {
        self.order.misfits.contains(&number)
    }

    /// Active jobs of a queue.
    pub fn active_in(&self, queue: &QueueName) -> u32 {
        self.order.active(queue)
    }
}

/// Why this job, and why there.
fn why_it(job: &Job, allocation: &Allocation) -> String {
    let cards = match allocation.cards.as_slice() {
        [] => String::new(),
        cards => {
            let word = if cards.len() == 1 { "card" } else { "cards" };
            format!(", {word} {}", cards.iter().map(|c| c.index.to_string()).collect::<Vec<_>>().join(","))
        }
    };
    format!(
        "first in queue {} with priority {}; {} has {} and {} free for it{cards}",
        job.queue,
        job.request.priority,
        allocation.node,
        count(allocation.cpus.len() as u64, "CPU"),
        allocation.ram
    )
}
