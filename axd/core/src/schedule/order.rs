//! The waiting jobs in the order in which they are looked at.
//!
//! A job's rank within its queue is fixed when it starts to wait: with linear
//! ageing the order of two waiting jobs never changes, so nothing is sorted
//! anew as time passes. Queues are merged as the scheduler of the configuration says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Config, Policy, Queue, QueueOrder, QueueState, Scheduler};
use crate::id::{JobNumber, QueueName, Uid};
use crate::job::Job;
use crate::job::bounds::Bounds;
use crate::job::features::Features;
use crate::job::request::CardRequest;
use crate::job::spec::NodeCount;
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

use super::lane::Lane;
use super::share::{Share, VirtualTime, VirtualTimes, price};
use super::usage::Factors;
use super::walk::{Head, Source, Walk};

/// Place of a job within its queue: the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Urgent jobs before others, where the order says so.
    pub(super) class: u8,
    /// By the rule of the queue's order.
    pub(super) value: i64,
    pub(super) since: WallTime,
    pub(super) number: JobNumber,
}

/// What is waited for, as far as placing goes: jobs of one shape fit or don't fit alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    cards: Option<(u32, Option<Megabytes>, Option<String>)>,
    cpus: u32,
    ram: Megabytes,
    exclusive: bool,
    only_nodes: Vec<crate::id::HostName>,
    not_nodes: Vec<crate::id::HostName>,
    bounds: Option<Arc<Bounds>>,
    features: Option<Features>,
    nodes: NodeCount,
}

impl Shape {
    pub(crate) fn of(job: &Job) -> Shape {
        let request = &job.request;
        let cards = |c: &CardRequest| (c.count, c.slice, c.kind.clone());
        Shape {
            cards: request.cards.as_ref().map(cards),
            cpus: request.cpus,
            ram: request.ram,
            exclusive: request.exclusive,
            only_nodes: request.only_nodes.clone(),
            not_nodes: request.not_nodes.clone(),
            bounds: job.bounds.clone(),
            features: request.features().cloned(),
            nodes: request.nodes(),
        }
    }
}

/// Number of a shape, as long as jobs of it wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// As a position in a list of shapes.
    pub fn position(self) -> usize {
        self.0 as usize
    }
}

/// A waiting job as the walk sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// The job.
    pub number: JobNumber,
    /// Its shape.
    pub shape: ShapeId,
    /// Its planned length.
    pub length: Span,
    /// What it declares, if that is more.
    pub declared: Span,
    /// Its share of the cluster.
    pub share: Share,
    /// Its own priority.
    pub priority: u8,
}

/// With which of its lengths a job must fit in before the places that are kept for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// What it is planned with, learnt or declared.
    Planned = 0,
    /// What it declares.
    Declared = 1,
}

impl Waiting {
    /// Its length by that.
    pub fn by(&self, lengths: Lengths) -> Span {
        match lengths {
            Lengths::Planned => self.length,
            Lengths::Declared => self.declared,
        }
    }
}

/// Since when a job has waited, as its rank has it.
pub(crate) fn since(job: &Job) -> WallTime {
    job.request.begin.map_or(job.submitted_at, |begin| begin.max(job.submitted_at))
}

/// The ready jobs, by queue and rank.
#[derive(Debug, Clone, Default)]
pub struct WaitingOrder {
    queues: BTreeMap<QueueName, OneQueue>,
    /// Ready jobs that no node could hold even if it were empty.
    misfits: BTreeSet<JobNumber>,
    shapes: BTreeMap<Shape, (ShapeId, u32)>,
    /// What jobs of a shape are bound to, by its number.
    bounds: Vec<Option<Arc<Bounds>>>,
    /// Numbers of shapes below the highest that no shape has: numbers stay small.
    unused_shapes: Vec<ShapeId>,
}

#[derive(Debug, Clone, Default)]
struct OneQueue {
    /// Of each user who has some.
    ready: BTreeMap<Uid, Lane>,
    active: u32,
    /// Active jobs of each user who has some.
    active_of: BTreeMap<Uid, u32>,
}

/// What a point of priority is worth in the value of a rank: the milliseconds of waiting that it outweighs. Waiting for
/// `starvation_bound` is worth a hundred points; without a bound waiting is worth nothing.
fn point(policy: &Policy) -> i64 {
    match policy.starvation_bound {
        Some(bound) => i64::try_from(bound.0 / 100).unwrap_or(i64::MAX).clamp(1, i64::MAX / 1_000_000),
        None => 1000,
    }
}

/// Steps of a doubling of the area.
const STEPS: i64 = 1024;

/// Doublings that an area can have.
const DOUBLINGS: i64 = 63;

/// The size of an area in steps, of which a thousand and twenty-four double it: its binary logarithm, straight between
/// powers of two.
fn steps(area: i64) -> i64 {
    let area = area.max(1).unsigned_abs();
    let power = area.ilog2();
    let above = ((u128::from(area) - (1_u128 << power)) * u128::from(STEPS.unsigned_abs())) >> power;
    i64::from(power) * STEPS + i64::try_from(above).unwrap_or(STEPS)
}

/// The value of a rank by size, the smallest or largest area first. Where waiting counts, all sizes lie within one
/// starvation bound: whoever has waited so long goes before whoever comes, as small or large as they are.
fn by_size(since: WallTime, area: i64, smallest_first: bool, policy: &Policy) -> i64 {
    let Some(bound) = policy.starvation_bound else { return if smallest_first { area } else { -area } };
    let size = if smallest_first { steps(area) } else { DOUBLINGS * STEPS - steps(area) };
    let bound = i128::from(bound.0);
    since.0.saturating_add(
        i64::try_from(bound * i128::from(size) / i128::from(DOUBLINGS * STEPS)).unwrap_or(i64::MAX),
    )
}

/// The rank of a job under an order.
fn rank(job: &Job, order: QueueOrder, policy: &Policy, area: i64) -> Rank {
    let since = since(job);
    let priority = i64::from(job.request.priority);
    let waited = if policy.starvation_bound.is_some() { since.0 } else { 0 };
    let by_priority = waited - point(policy) * priority;
    let urgent = job.request.priority >= policy.preempt_priority;
    let (class, value) = match order {
        QueueOrder::Prio => (0, by_priority),
        QueueOrder::Fifo => (0, 0),
        QueueOrder::Saf => (0, by_size(since, area, true, policy)),
        QueueOrder::Laf | QueueOrder::Lpf if urgent => (0, by_priority),
        QueueOrder::Laf | QueueOrder::Lpf => (1, by_size(since, area, false, policy)),
    };
    Rank { class, value, since, number: job.id.number }
}

impl WaitingOrder {
    /// Enters a ready job, planned and declared so long, which its queue's order by size takes for so large.
    pub fn insert(&mut self, job: &Job, config: &Config, lengths: (Span, Span), share: Share, size: Share) {
        let shape = self.enter_shape(job);
        let priority = job.request.priority;
        // Comparisons with what is a little longer must not overflow.
        let [length, declared] = [lengths.0, lengths.1].map(|length| length.min(Span(u64::MAX / 4)));
        let waiting = Waiting { number: job.id.number, shape, length, declared, share, priority };
        let rank = rank_in(job, config, size);
        let weight = config.queue(job.queue.as_str()).map_or(1, |queue| queue.priority);
        let charge = VirtualTime::default().after(price(config.policy.cost, share, length), weight);
        let queue = self.queues.entry(job.queue.clone()).or_default();
        queue.ready.entry(job.owner.uid).or_default().insert(rank, waiting, charge);
    }

    /// Enters a ready job that stands aside, since nothing here could hold it.
    pub fn insert_misfit(&mut self, number: JobNumber) {
        self.misfits.insert(number);
    }

    /// Takes a job out.
    pub fn remove(&mut self, job: &Job, config: &Config, size: Share) {
        if self.misfits.remove(&job.id.number) {
            return;
        }
        let rank = rank_in(job, config, size);
        let Some(queue) = self.queues.get_mut(&job.queue) else { return };
        let Some(own) = queue.ready.get_mut(&job.owner.uid) else { return };
        let was_there = own.remove(&rank);
        if own.is_empty() {
            queue.ready.remove(&job.owner.uid);
        }
        if was_there {
            self.leave_shape(job);
        }
    }

    fn enter_shape(&mut self, job: &Job) -> ShapeId {
        let (unused, all) = (&mut self.unused_shapes, self.shapes.len() as u32);
        let new = || (unused.pop().unwrap_or(ShapeId(all)), 0);
        let (id, count) = self.shapes.entry(Shape::of(job)).or_insert_with(new);
        *count += 1;
        if *count == 1 {
            self.bounds.resize(self.bounds.len().max(id.position() + 1), None);
            self.bounds[id.position()].clone_from(&job.bounds);
        }
        *id
    }

    fn leave_shape(&mut self, job: &Job) {
        let shape = Shape::of(job);
        let Some((id, count)) = self.shapes.get_mut(&shape) else { return };
        *count -= 1;
        if *count == 0 {
            self.bounds[id.position()] = None;
            self.unused_shapes.push(*id);
            self.shapes.remove(&shape);
        }
    }

    #[cfg(test)]
    pub(super) fn enter(
        &mut self,
        queue: &QueueName,
        user: Uid,
        rank: Rank,
        waiting: Waiting,
        charge: VirtualTime,
    ) {
        let queue = self.queues.entry(queue.clone()).or_default();
        queue.ready.entry(user).or_default().insert(rank, waiting, charge);
    }

    #[cfg(test)]
    pub(super) fn take_out(&mut self, queue: &QueueName, user: Uid, rank: &Rank) {
        if let Some(lane) = self.queues.get_mut(queue).and_then(|queue| queue.ready.get_mut(&user)) {
            lane.remove(rank);
        }
    }

    /// The waiting jobs of a user in a queue.
    pub(super) fn lane(&self, queue: &QueueName, user: Uid) -> Option<&Lane> {
        self.queues.get(queue)?.ready.get(&user)
    }

    /// What waiting jobs of a shape are bound to.
    pub(crate) fn bounds_of(&self, shape: ShapeId) -> Option<&Bounds> {
        self.bounds.get(shape.position())?.as_deref()
    }

    /// A job of the queue was started.
    pub fn started(&mut self, queue: &QueueName, user: Uid) {
        let queue = self.queues.entry(queue.clone()).or_default();
        queue.active += 1;
        *queue.active_of.entry(user).or_default() += 1;
    }

    /// A job of the queue has ended.
    pub fn ended(&mut self, queue: &QueueName, user: Uid) {
        let Some(queue) = self.queues.get_mut(queue) else { return };
        queue.active = queue.active.saturating_sub(1);
        if let Some(own) = queue.active_of.get_mut(&user) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                queue.active_of.remove(&user);
            }
        }
    }

    /// Active jobs of a user, in a queue or in all.
    pub fn active_of(&self, user: Uid, queue: Option<&QueueName>) -> u32 {
        let of = |queue: &OneQueue| queue.active_of.get(&user).copied().unwrap_or(0);
        match queue {
            Some(name) => self.queues.get(name).map_or(0, of),
            None => self.queues.values().map(of).sum(),
        }
    }

    /// How many ready jobs, of all queues, are before a job by rank alone, whether it is among them or not.
    pub fn before(&self, job: &Job, config: &Config, size: Share) -> usize {
        let rank = rank_in(job, config, size);
        let users = self.queues.values().flat_map(|queue| queue.ready.values());
        users.map(|own| own.before(&rank)).sum()
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

    /// Queues with jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &QueueName> {
        self.queues.iter().filter(|(_, own)| !own.ready.is_empty()).map(|(name, _)| name)
    }

    /// Whether any job waits.
    pub fn anybody_waits(&self) -> bool {
        self.queues.values().any(|own| !own.ready.is_empty())
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

    /// The first ready jobs of each user in each queue, so many at most of each.
    pub fn first_of_each(&self, most: usize) -> impl Iterator<Item = JobNumber> + '_ {
        let of_user = move |own: &Lane| {
            let mut first = Vec::new();
            own.read(None, most, |_, waiting| first.push(waiting.number));
            first
        };
        self.queues.values().flat_map(|queue| queue.ready.values()).flat_map(of_user)
    }

    /// The walk along the merged order of all queues, or of those that may start something. Under fair share a user who
    /// has had less goes before another, as `factors` say.
    pub fn walk(&self, config: &Config, times: &VirtualTimes, factors: &Factors, startable: bool) -> Walk {
        let policy = &config.policy;
        let sources: Vec<Source> = config
            .queues
            .iter()
            .filter(|queue| !startable || self.may_start(queue, 0))
            .filter(|queue| self.waits(&queue.name))
            .map(|queue| {
                let mut heads = self.heads(queue, policy, factors);
                if startable {
                    heads.retain(|head| self.user_may_start(head.user(), queue, policy));
                }
                Source::new(queue, times.of(&queue.name), heads)
            })
            .collect();
        Walk::new(sources, policy)
    }

    /// Whether a user may start another job in a queue: who may not is passed, and charged, by no walk.
    fn user_may_start(&self, user: Uid, queue: &Queue, policy: &Policy) -> bool {
        let limits = [(queue.max_running_per_user, Some(&queue.name)), (policy.max_running_per_user, None)];
        limits.into_iter().all(|(max, queue)| max.is_none_or(|max| self.active_of(user, queue) < max))
    }

    fn heads(&self, queue: &Queue, policy: &Policy, factors: &Factors) -> Vec<Head> {
        let by_share = policy.scheduler == Scheduler::FairShare && queue.order == QueueOrder::Prio;
        let worth = if by_share { i64::from(policy.user_share) * point(policy) } else { 0 };
        let users = self.queues.get(&queue.name).into_iter().flat_map(|own| &own.ready);
        users.map(|(user, lane)| Head::new(*user, factors.worth(*user, worth), lane)).collect()
    }
}

/// The rank of a job in its queue; users' shares are not in it.
pub(crate) fn rank_in(job: &Job, config: &Config, size: Share) -> Rank {
    let order = config.queue(job.queue.as_str()).map_or(QueueOrder::Prio, |queue| queue.order);
    let length = job.length().unwrap_or(config.policy.unplanned());
    rank(job, order, &config.policy, size.area(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubling_is_a_doubling_and_more_is_more() {
        assert_eq!([0, 1, 2, 4, 6, 1 << 62].map(steps), [0, 0, 1024, 2048, 2560, 62 * 1024]);
        let some = [1, 3, 1000, 1001, 1_000_000, i64::MAX];
        assert!(some.windows(2).all(|pair| steps(pair[0]) < steps(pair[1])));
        assert!(steps(i64::MAX) < DOUBLINGS * STEPS);
    }

    #[test]
    fn who_has_waited_for_the_bound_goes_before_whoever_comes() {
        let policy = Policy { starvation_bound: Some(Span(1000)), ..Policy::default() };
        for smallest_first in [true, false] {
            let (best, worst) = if smallest_first { (1, i64::MAX) } else { (i64::MAX, 1) };
            let value = |since, area| by_size(WallTime(since), area, smallest_first, &policy);
            assert!(value(0, best) < value(0, worst), "of those who come together the size decides");
            assert!(value(0, worst) < value(1001, best));
            assert!(value(0, worst) > value(100, best), "a little waiting does not outweigh it");
        }
        let never = Policy { starvation_bound: None, ..Policy::default() };
        assert!(by_size(WallTime(0), 2, true, &never) > by_size(WallTime(i64::MAX), 1, true, &never));
    }
}
