//! The walk along the waiting jobs in the merged order of all queues and users.
//!
//! It goes from job to job; once only jobs of some shapes can matter any more
//! and those are rare, it leaps from one of them to the next. A leap passes
//! the same jobs as the steps would: what they would be charged is summed up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::{Cost, Policy, Queue, Scheduler};
use crate::id::{JobNumber, QueueName, Uid};

use super::lane::{Lane, Worth};
use super::order::{Lengths, Rank, ShapeId, Waiting, WaitingOrder};
use super::share::{VirtualTime, price};
use crate::time::Span;

/// Jobs that are not worth a look are passed one by one so often; leaping would take longer for less.
const PATIENCE: usize = 48;

/// Jobs that are read ahead of a user at a time, at most: of most users few are asked for.
const AHEAD: usize = 32;

/// A walk along the waiting jobs. It survives that jobs it has passed are taken out.
#[derive(Debug)]
pub struct Walk {
    sources: Vec<Source>,
    scheduler: Scheduler,
    cost: Cost,
    /// So many jobs that are not worth a look are passed one by one before the walk leaps.
    patience: usize,
    /// Jobs that were stepped over or leapt to.
    looked: u64,
}

/// A queue.
#[derive(Debug)]
pub(super) struct Source {
    name: QueueName,
    weight: u32,
    /// With all up to `mark` charged.
    time: VirtualTime,
    mark: Option<Rank>,
    heads: Vec<Head>,
    /// The ranks of the heads' first jobs, with their bonuses, once they were asked for.
    firsts: Option<BinaryHeap<Reverse<(Rank, usize)>>>,
    /// The job that it would leap to, and the time by then.
    leap: Option<(Rank, VirtualTime)>,
}

/// The first jobs of a user in a queue.
#[derive(Debug)]
pub(super) struct Head {
    user: Uid,
    /// What is taken off the value of the user's ranks.
    bonus: i64,
    next: Option<(Rank, Waiting)>,
    /// What was read behind it.
    ahead: VecDeque<(Rank, Waiting)>,
    /// So many are read next, at most.
    read_next: usize,
    last: Option<Rank>,
    drained: bool,
    /// Its jobs are left out, and charged no more.
    left: bool,
    /// The next job that is worth a look, once it was looked for.
    front: Option<Option<(Rank, Waiting)>>,
}

/// What jobs of a shape are worth.
type WorthOf<'a> = &'a dyn Fn(ShapeId) -> Worth;

impl Head {
    /// All jobs of a user.
    pub(super) fn new(user: Uid, bonus: i64, lane: &Lane) -> Head {
        Head {
            user,
            bonus,
            next: lane.first_of_all(),
            ahead: VecDeque::new(),
            read_next: 1,
            last: None,
            drained: false,
            left: false,
            front: None,
        }
    }

    pub(super) fn user(&self) -> Uid {
        self.user
    }

    /// A rank of the user as it is compared with those of others.
    fn favoured(&self, rank: Rank) -> Rank {
        Rank { value: rank.value.saturating_sub(self.bonus), ..rank }
    }

    /// The user's own rank that compares like one of others.
    fn unfavoured(&self, rank: Rank) -> Rank {
        Rank { value: rank.value.saturating_add(self.bonus), ..rank }
    }

    fn first(&mut self, queue: &QueueName, order: &WaitingOrder) -> Option<Rank> {
        if self.next.is_none() && self.ahead.is_empty() && !self.drained {
            let most = self.read_next;
            self.read_next = (2 * most).min(AHEAD);
            if let Some(lane) = order.lane(queue, self.user) {
                lane.read(self.last.as_ref(), most, |rank, waiting| self.ahead.push_back((rank, waiting)));
            }
            self.drained = self.ahead.len() < most;
        }
        self.next = self.next.or_else(|| self.ahead.pop_front());
        self.next.map(|(rank, _)| self.favoured(rank))
    }

    /// The next job that is worth a look. What once was not worth it never will be.
    fn front(&mut self, lane: &Lane, worth: WorthOf<'_>) -> Option<(Rank, Waiting)> {
        let known =
            self.front.filter(|front| front.is_none_or(|(_, waiting)| worth(waiting.shape).covers(&waiting)));
        let last = self.last;
        let find = || {
            let firsts =
                lane.shapes(worth).filter_map(|(shape, worth)| lane.next(shape, last.as_ref(), &worth));
            firsts.min_by_key(|(rank, _)| *rank)
        };
        *self.front.insert(known.unwrap_or_else(find))
    }
}

impl Source {
    pub(super) fn new(queue: &Queue, time: VirtualTime, heads: Vec<Head>) -> Source {
        let (name, weight) = (queue.name.clone(), queue.priority);
        Source { name, weight, time, mark: None, heads, firsts: None, leap: None }
    }

    /// The next job's rank, with its user's bonus, and which head it is of.
    fn first(&mut self, order: &WaitingOrder) -> Option<(Rank, usize)> {
        let (name, heads) = (&self.name, &mut self.heads);
        let firsts = self.firsts.get_or_insert_with(|| {
            let heads = heads.iter_mut().zip(0..);
            heads.filter_map(|(head, at)| Some(Reverse((head.first(name, order)?, at)))).collect()
        });
        firsts.peek().map(|Reverse(first)| *first)
    }

    /// Takes the next job.
    fn take(&mut self, order: &WaitingOrder) -> Option<Waiting> {
        let firsts = self.firsts.as_mut()?;
        let Reverse((favoured, at)) = firsts.pop()?;
        let head = &mut self.heads[at];
        let (rank, waiting) = head.next.take()?;
        head.last = Some(rank);
        self.mark = Some(favoured);
        firsts.extend(head.first(&self.name, order).map(|first| Reverse((first, at))));
        Some(waiting)
    }

    /// The same of the next job that is worth a look, and the time when all before it are charged.
    fn leap(&mut self, order: &WaitingOrder, worth: WorthOf<'_>) -> Option<(Rank, usize, VirtualTime)> {
        let name = &self.name;
        let fronts = self.heads.iter_mut().zip(0..).filter_map(|(head, at)| {
            let (rank, _) = head.front(order.lane(name, head.user)?, worth)?;
            Some((head.favoured(rank), at))
        });
        let (rank, at) = fronts.min()?;
        let time = match self.leap {
            Some((known, time)) if known == rank => time,
            _ => self.time_by(&rank, order),
        };
        self.leap = Some((rank, time));
        Some((rank, at, time))
    }

    /// The time when all before a rank are charged.
    fn time_by(&self, rank: &Rank, order: &WaitingOrder) -> VirtualTime {
        let of_head = |head: &Head| {
            let lane = order.lane(&self.name, head.user)?;
            let from = self.mark.map(|mark| {
                let next = Rank { number: JobNumber(mark.number.0 + 1), ..mark };
                lane.charges_before(&head.unfavoured(next))
            });
            Some(lane.charges_before(&head.unfavoured(*rank)) - from.unwrap_or_default())
        };
        let passed = self.heads.iter().filter(|head| !head.left);
        passed.filter_map(of_head).fold(self.time, |time, charges| time + charges)
    }
}

impl Walk {
    pub(super) fn new(mut sources: Vec<Source>, policy: &Policy) -> Walk {
        // Equal times: the heavier queue, then the name.
        sources.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
        Walk { sources, scheduler: policy.scheduler, cost: policy.cost, patience: PATIENCE, looked: 0 }
    }

    /// The next job, with its queue.
    pub fn next(&mut self, order: &WaitingOrder) -> Option<(Waiting, QueueName)> {
        let (waiting, at) = self.step(order)?;
        Some((waiting, self.sources[at].name.clone()))
    }

    /// The next job that is worth a look, which with every call may be fewer. Whoever asks for it asks for no other
    /// jobs any more.
    pub fn next_worthy(&mut self, order: &WaitingOrder, worth: WorthOf<'_>) -> Option<(Waiting, QueueName)> {
        let mut passed = 0;
        while passed < self.patience {
            let (waiting, at) = self.step(order)?;
            if worth(waiting.shape).covers(&waiting) {
                return Some((waiting, self.sources[at].name.clone()));
            }
            passed += 1;
        }
        self.patience = 0;
        self.looked += 1;
        let (at, head, time) = self.nearest(|source| source.leap(order, worth))?;
        let source = &mut self.sources[at];
        let head = &mut source.heads[head];
        let (rank, waiting) = head.front.take().flatten()?;
        head.last = Some(rank);
        source.mark = Some(head.favoured(rank));
        source.time = time.after(price(self.cost, waiting.share, waiting.length), source.weight);
        Some((waiting, source.name.clone()))
    }

    /// The shortest job of each shape of which some are worth a look.
    pub fn shortest_of_each(&self, order: &WaitingOrder, by: Lengths, worth: WorthOf<'_>) -> Vec<Waiting> {
        let mut shortest: Vec<Option<(Span, &Lane)>> = Vec::new();
        let heads =
            self.sources.iter().flat_map(|source| source.heads.iter().map(move |head| (source, head)));
        for lane in heads.filter_map(|(source, head)| order.lane(&source.name, head.user)) {
            for (shape, length) in lane.shortest_of_each(by) {
                if shape.position() >= shortest.len() {
                    shortest.resize(shape.position() + 1, None);
                }
                let known = &mut shortest[shape.position()];
                if known.is_none_or(|(known, _)| length < known) {
                    *known = Some((length, lane));
                }
            }
        }
        let of_shape = |(shape, found): (u32, Option<(Span, &Lane)>)| {
            let (length, lane) = found?;
            let (shape, shorter_than) = (ShapeId(shape), length + Span(1));
            let (_, waiting) = lane.next(shape, None, &Worth { shorter_than, by, from_priority: u8::MAX })?;
            let worth = worth(shape);
            (length < worth.shorter_than || worth.from_priority < u8::MAX).then_some(waiting)
        };
        (0..).zip(shortest).filter_map(of_shape).collect()
    }

    /// How many jobs it has looked at.
    pub fn looked(&self) -> u64 {
        self.looked
    }

    /// Leaves a queue out from now on.
    pub fn leave(&mut self, queue: &QueueName) {
        self.sources.retain(|source| source.name != *queue);
    }

    /// Leaves the jobs of a user out from now on, in one queue or in all; they are charged no more. What was passed of
    /// them by leaps in other queues than that of the job at hand may not have been charged either.
    pub fn leave_user(&mut self, user: Uid, queue: Option<&QueueName>) {
        let of_queue = |source: &&mut Source| queue.is_none_or(|queue| source.name == *queue);
        for source in self.sources.iter_mut().filter(of_queue) {
            let Some(at) = source.heads.iter().position(|head| head.user == user) else { continue };
            let head = &mut source.heads[at];
            (head.next, head.drained, head.left, head.front) = (None, true, true, Some(None));
            // What it would leap to was found with that user's jobs charged.
            source.leap = None;
            head.ahead.clear();
            if let Some(firsts) = &mut source.firsts {
                firsts.retain(|Reverse((_, of))| *of != at);
            }
        }
    }

    fn step(&mut self, order: &WaitingOrder) -> Option<(Waiting, usize)> {
        let (at, _, time) = self.nearest(|source| {
            let (rank, head) = source.first(order)?;
            Some((rank, head, source.time))
        })?;
        self.looked += 1;
        let source = &mut self.sources[at];
        let waiting = source.take(order)?;
        source.time = time.after(price(self.cost, waiting.share, waiting.length), source.weight);
        Some((waiting, at))
    }

    /// The source that is next, if each offers a job of a rank at a time: that source, head and time.
    fn nearest(
        &mut self,
        mut offer: impl FnMut(&mut Source) -> Option<(Rank, usize, VirtualTime)>,
    ) -> Option<(usize, usize, VirtualTime)> {
        let fair = self.scheduler == Scheduler::FairShare;
        let mut best: Option<(usize, u32, Rank, usize, VirtualTime)> = None;
        for (at, source) in self.sources.iter_mut().enumerate() {
            let Some((rank, head, time)) = offer(source) else { continue };
            // The sources stand by weight, so that among equals the first is right.
            let better =
                best.is_none_or(
                    |(_, weight, least, _, earliest)| {
                        if fair { time < earliest } else { source.weight == weight && rank < least }
                    },
                );
            if better {
                best = Some((at, source.weight, rank, head, time));
            }
        }
        best.map(|(at, _, _, head, time)| (at, head, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::schedule::share::Share;
    use crate::time::{Span, WallTime};
    use proptest::prelude::*;

    /// Queue, user, value, shape, length, priority.
    type Spec = (usize, u32, i64, u32, u64, u8);

    fn specs() -> impl Strategy<Value = Vec<Spec>> {
        proptest::collection::vec((0..3_usize, 0..3_u32, 0..30_i64, 0..4_u32, 0..10_u64, 0..4_u8), 1..80)
    }

    fn order_of(specs: &[Spec], config: &Config) -> WaitingOrder {
        let mut order = WaitingOrder::default();
        for (number, (queue, user, value, shape, length, priority)) in specs.iter().enumerate() {
            let (number, length, share) =
                (JobNumber(number as u32), Span(*length), Share(1 + u64::from(*shape)));
            let rank = Rank { class: 0, value: *value, since: WallTime(0), number };
            let declared = length + Span(u64::from(number.0) % 3);
            let waiting =
                Waiting { number, shape: ShapeId(*shape), length, declared, share, priority: *priority };
            let queue = &config.queues[*queue];
            let charge =
                VirtualTime::default().after(price(config.policy.cost, share, length), queue.priority);
            order.enter(&queue.name, Uid(*user), rank, waiting, charge);
        }
        order
    }

    fn walk(order: &WaitingOrder, config: &Config, bonuses: &[i64; 3], patience: usize) -> Walk {
        let heads = |queue: &Queue| {
            let heads = bonuses.iter().zip(0..).filter_map(|(bonus, user)| {
                Some(Head::new(Uid(user), *bonus, order.lane(&queue.name, Uid(user))?))
            });
            heads.collect()
        };
        let source = |queue| Source::new(queue, VirtualTime(0), heads(queue));
        let walk = Walk::new(config.queues.iter().map(source).collect(), &config.policy);
        Walk { patience, ..walk }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is passed at once, and although what starts on the way is taken out and less is worth a look.
        #[test]
        fn leaps_meet_the_same_jobs_as_steps(
            specs in specs(),
            weights in proptest::array::uniform3(1..12_u32),
            bonuses in proptest::array::uniform3(0..20_i64),
            fair in any::<bool>(),
            plain_steps in 0..20_usize,
            patience in 0..3_usize,
            mut shorter in proptest::array::uniform4(0..12_u64),
            from_priority in 0..6_u8,
            declared in any::<bool>(),
            leaves in 0..9_u32,
        ) {
            let mut config = Config::default();
            config.policy.scheduler = if fair { Scheduler::FairShare } else { Scheduler::Fifo };
            config.queues = ["a", "b", "c"].map(|name| Queue::named(name.parse().unwrap())).to_vec();
            for (queue, weight) in config.queues.iter_mut().zip(weights) {
                queue.priority = weight;
            }
            let (mut stepped, mut leapt) = (order_of(&specs, &config), order_of(&specs, &config));
            let mut steps = walk(&stepped, &config, &bonuses, usize::MAX);
            let mut leaps = walk(&leapt, &config, &bonuses, patience);
            for _ in 0..plain_steps {
                prop_assert_eq!(steps.next(&stepped), leaps.next(&leapt));
            }
            let by = if declared { Lengths::Declared } else { Lengths::Planned };
            for round in 0.. {
                let worth = |shape: ShapeId| {
                    Worth { shorter_than: Span(shorter[shape.0 as usize]), by, from_priority }
                };
                let found = steps.next_worthy(&stepped, &worth);
                prop_assert_eq!(&found, &leaps.next_worthy(&leapt, &worth));
                let Some((waiting, queue)) = found else { break };
                let (_, user, value, ..) = specs[waiting.number.0 as usize];
                if round % 2 == 0 {
                    let rank = Rank { class: 0, value, since: WallTime(0), number: waiting.number };
                    stepped.take_out(&queue, Uid(user), &rank);
                    leapt.take_out(&queue, Uid(user), &rank);
                } else if let Some(least) = shorter.get_mut(waiting.shape.0 as usize) {
                    *least = waiting.by(by).0.min(*least);
                }
                if round == leaves {
                    steps.leave_user(Uid(user), Some(&queue));
                    leaps.leave_user(Uid(user), Some(&queue));
                }
                if round == 7 {
                    steps.leave(&queue);
                    leaps.leave(&queue);
                }
            }
        }
    }
}
