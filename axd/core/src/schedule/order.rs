//! The waiting jobs in the order in which they are looked at.
//!
//! A job's rank within its queue is fixed when it starts to wait: with linear
//! ageing the order of two waiting jobs never changes, so nothing is sorted
//! anew as time passes. Queues are merged as the scheduler of the configuration says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::config::{Config, Policy, Queue, QueueOrder, QueueState, Scheduler};
use crate::id::{JobNumber, QueueName};
use crate::job::Job;
use crate::job::request::{CardRequest, Request};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

use super::share::{Share, VirtualTime, VirtualTimes, price};

/// Place of a job within its queue: the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Urgent jobs before others, where the order says so.
    class: u8,
    /// By the rule of the queue's order.
    value: i64,
    since: WallTime,
    number: JobNumber,
}

/// What is waited for, as far as placing goes: jobs of one shape fit or don't fit alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cards: Option<(u32, Option<Megabytes>, Option<String>)>,
    cpus: u32,
    ram: Megabytes,
    exclusive: bool,
    only_nodes: Vec<crate::id::HostName>,
    not_nodes: Vec<crate::id::HostName>,
}

impl Shape {
    fn of(request: &Request) -> Shape {
        let cards = |c: &CardRequest| (c.count, c.slice, c.kind.clone());
        Shape {
            cards: request.cards.as_ref().map(cards),
            cpus: request.cpus,
            ram: request.ram,
            exclusive: request.exclusive,
            only_nodes: request.only_nodes.clone(),
            not_nodes: request.not_nodes.clone(),
        }
    }
}

/// Number of a shape, as long as jobs of it wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

/// A waiting job as the walk sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub number: JobNumber,
    /// Its shape.
    pub shape: ShapeId,
    /// Its planned length.
    pub length: Span,
    /// Its share of the cluster.
    pub share: Share,
}

/// The ready jobs, by queue and rank.
#[derive(Debug, Clone, Default)]
pub struct WaitingOrder {
    queues: BTreeMap<QueueName, OneQueue>,
    /// Ready jobs that no node could hold even if it were empty.
    misfits: BTreeSet<JobNumber>,
    shapes: BTreeMap<Shape, (ShapeId, u32)>,
    next_shape: u32,
}

#[derive(Debug, Clone, Default)]
struct OneQueue {
    ready: BTreeMap<Rank, Waiting>,
    active: u32,
}

/// What the rank of a job depends on besides the job.
fn rank(job: &Job, order: QueueOrder, policy: &Policy, area: i64) -> Rank {
    let since = job.request.begin.map_or(job.submitted_at, |begin| begin.max(job.submitted_at));
    let priority = i64::from(job.request.priority);
    // Waiting for `starvation_bound` is worth a hundred points of priority.
    let by_priority = match policy.starvation_bound {
        Some(bound) => since.0 - i64::try_from(bound.0 / 100).unwrap_or(i64::MAX / 200) * priority,
        None => -priority,
    };
    let urgent = job.request.priority >= policy.preempt_priority;
    let (class, value) = match order {
        QueueOrder::Prio => (0, by_priority),
        QueueOrder::Fifo => (0, 0),
        QueueOrder::Saf => (0, area),
        QueueOrder::Laf if urgent => (0, by_priority),
        QueueOrder::Laf => (1, -area),
    };
    Rank { class, value, since, number: job.id.number }
}

impl WaitingOrder {
    /// Enters a ready job.
    pub fn insert(&mut self, job: &Job, config: &Config, length: Span, share: Share) {
        let shape = self.enter_shape(&job.request);
        let waiting = Waiting { number: job.id.number, shape, length, share };
        let rank = rank_in(job, config, share);
        self.queues.entry(job.queue.clone()).or_default().ready.insert(rank, waiting);
    }

    /// Enters a ready job that stands aside, since nothing here could hold it.
    pub fn insert_misfit(&mut self, number: JobNumber) {
        self.misfits.insert(number);
    }

    /// Takes a job out.
    pub fn remove(&mut self, job: &Job, config: &Config, share: Share) {
        if self.misfits.remove(&job.id.number) {
            return;
        }
        let rank = rank_in(job, config, share);
        let Some(queue) = self.queues.get_mut(&job.queue) else { return };
        if queue.ready.remove(&rank).is_some() {
            self.leave_shape(&job.request);
        }
    }

    fn enter_shape(&mut self, request: &Request) -> ShapeId {
        let next = ShapeId(self.next_shape);
        let (id, count) = self.shapes.entry(Shape::of(request)).or_insert((next, 0));
        *count += 1;
        if *id == next {
            self.next_shape += 1;
        }
        *id
    }

    fn leave_shape(&mut self, request: &Request) {
        let shape = Shape::of(request);
        let Some((_, count)) = self.shapes.get_mut(&shape) else { return };
        *count -= 1;
        if *count == 0 {
            self.shapes.remove(&shape);
        }
    }

    /// Shapes that jobs wait for.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// A job of the queue was started.
    pub fn started(&mut self, queue: &QueueName) {
        self.queues.entry(queue.clone()).or_default().active += 1;
    }

    /// A job of the queue has ended.
    pub fn ended(&mut self, queue: &QueueName) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.active = queue.active.saturating_sub(1);
        }
    }

    /// Active jobs of a queue.
    pub fn active(&self, queue: &QueueName) -> u32 {
        self.queues.get(queue).map_or(0, |q| q.active)
    }

    /// Whether a queue may start another job, beside so many that will start.
    pub fn may_start(&self, queue: &Queue, beside: usize) -> bool {
        queue.state != QueueState::Stopped
            && queue.max_running.is_none_or(|max| self.active(&queue.name) as usize + beside < max as usize)
    }

    /// Queues with jobs that wait or run.
    pub fn in_use(&self) -> impl Iterator<Item = &QueueName> {
        self.queues.iter().filter(|(_, own)| own.active > 0 || !own.ready.is_empty()).map(|(name, _)| name)
    }

    /// Whether jobs of a queue wait.
    pub fn waits(&self, queue: &QueueName) -> bool {
        self.queues.get(queue).is_some_and(|own| !own.ready.is_empty())
    }

    /// Whether a ready job stands aside.
    pub fn is_misfit(&self, number: JobNumber) -> bool {
        self.misfits.contains(&number)
    }

    /// The jobs that stand aside.
    pub fn misfits(&self) -> impl Iterator<Item = JobNumber> + '_ {
        self.misfits.iter().copied()
    }

    /// The first ready jobs of each queue, so many at most.
    pub fn first_of_each(&self, most: usize) -> impl Iterator<Item = JobNumber> + '_ {
        self.queues.values().flat_map(move |own| own.ready.values().take(most).map(|waiting| waiting.number))
    }

    /// The walk along the merged order of all queues, or of those that may start something.
    pub fn walk(&self, config: &Config, times: &VirtualTimes, startable: bool) -> Walk {
        let mut sources: Vec<Source> = config
            .queues
            .iter()
            .filter(|queue| !startable || self.may_start(queue, 0))
            .filter(|queue| self.waits(&queue.name))
            .map(|queue| Source {
                name: queue.name.clone(),
                weight: queue.priority,
                time: times.of(&queue.name),
                ahead: VecDeque::new(),
                last: None,
                drained: false,
            })
            .collect();
        // Equal times: the heavier queue, then the name.
        sources.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        Walk { sources, scheduler: config.policy.scheduler, cost: config.policy.cost }
    }
}

fn rank_in(job: &Job, config: &Config, share: Share) -> Rank {
    let order = config.queue(job.queue.as_str()).map_or(QueueOrder::Prio, |queue| queue.order);
    let length = job.request.estimate.or(job.request.time_limit).unwrap_or(config.policy.unplanned());
    rank(job, order, &config.policy, share.area(length))
}

/// A walk along the waiting jobs. It survives that jobs it has passed are taken out.
#[derive(Debug)]
pub struct Walk {
    sources: Vec<Source>,
    scheduler: Scheduler,
    cost: crate::config::Cost,
}

#[derive(Debug)]
struct Source {
    name: QueueName,
    weight: u32,
    time: VirtualTime,
    ahead: VecDeque<(Rank, Waiting)>,
    last: Option<Rank>,
    drained: bool,
}

/// Jobs that are read ahead of a queue at a time.
const AHEAD: usize = 32;

impl Source {
    fn head(&mut self, order: &WaitingOrder) -> Option<Rank> {
        if self.ahead.is_empty() && !self.drained {
            let Some(queue) = order.queues.get(&self.name) else { return None };
            use std::ops::Bound::{Excluded, Unbounded};
            let from = self.last.map_or(Unbounded, Excluded);
            let more = queue.ready.range((from, Unbounded)).take(AHEAD);
            self.ahead.extend(more.map(|(rank, waiting)| (*rank, *waiting)));
            self.drained = self.ahead.len() < AHEAD;
        }
        self.ahead.front().map(|(rank, _)| *rank)
    }
}

impl Walk {
    /// The next job, with its queue.
    pub fn next(&mut self, order: &WaitingOrder) -> Option<(Waiting, QueueName)> {
        let fair = self.scheduler == Scheduler::FairShare;
        let mut best: Option<(usize, Rank)> = None;
        for at in 0..self.sources.len() {
            let Some(head) = self.sources[at].head(order) else { continue };
            let better = best.is_none_or(|(least, rank)| {
                let (this, that) = (&self.sources[at], &self.sources[least]);
                // The sources stand by weight, so that among equals the first is right.
                if fair { this.time < that.time } else { this.weight == that.weight && head < rank }
            });
            if better {
                best = Some((at, head));
            }
        }
        let source = &mut self.sources[best?.0];
        let (rank, waiting) = source.ahead.pop_front()?;
        source.last = Some(rank);
        source.time = source.time.after(price(self.cost, waiting.share, waiting.length), source.weight);
        Some((waiting, source.name.clone()))
    }
}
