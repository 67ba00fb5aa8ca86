//! Fair shares among queues: weighted fair queueing by virtual time.
//!
//! A queue's virtual time grows by the cost of what it starts, divided by its
//! weight; the queue with the least is next. Costs are exact integers, so that
//! a history gives the same times on every machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::Cost;
use crate::id::QueueName;
use crate::job::request::Request;
use crate::node::{Card, Nodes};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// What one started job costs where each costs the same: as much as a card of a gigabyte for a second.
const ONE_START: i128 = 1_000_000;

/// Costs are multiplied by this before they are divided by a weight: a multiple of every weight up to ten.
const SCALE: i128 = 2520 << 10;

/// Virtual time of a queue, in scaled megabyte-milliseconds for each unit of weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VirtualTime(#[serde(with = "crate::text::number")] pub i128);

impl VirtualTime {
    /// Later by a cost under a weight.
    #[must_use]
    pub fn after(self, cost: Price, weight: u32) -> VirtualTime {
        VirtualTime(self.0 + cost.0 * SCALE / i128::from(weight.max(1)))
    }
}

impl std::ops::Add for VirtualTime {
    type Output = VirtualTime;

    fn add(self, other: VirtualTime) -> VirtualTime {
        VirtualTime(self.0 + other.0)
    }
}

impl std::ops::Sub for VirtualTime {
    type Output = VirtualTime;

    fn sub(self, other: VirtualTime) -> VirtualTime {
        VirtualTime(self.0 - other.0)
    }
}

/// What a queue is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Price(i128);

/// How much a job takes of the cluster at a time, in megabytes of card memory. Cards are what is scarce: a job that has
/// some is measured by them alone, another by its part of the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub u64);

impl Share {
    /// Of a job that has as much on each of so many nodes.
    #[must_use]
    pub fn on(self, nodes: u32) -> Share {
        Share(self.0.saturating_mul(u64::from(nodes)))
    }

    /// Megabytes times milliseconds.
    pub fn area(self, length: Span) -> i64 {
        i64::try_from(u128::from(self.0) * u128::from(length.0)).unwrap_or(i64::MAX)
    }
}

/// What shares are measured by; changes with the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measure {
    /// Memory of the largest card.
    largest: Megabytes,
    /// Memory of all cards.
    all: Megabytes,
    /// The cards of each kind of node, and how many nodes have just those.
    kinds: Arc<[(Vec<Card>, u64)]>,
    /// Memory of all cards for each thousand CPUs; where there are no cards a gigabyte for each CPU.
    thousand_cpus: u64,
}

impl Measure {
    /// By these nodes.
    pub fn of(nodes: &Nodes) -> Measure {
        let cards = || nodes.iter().flat_map(|node| &node.inventory.cards).map(|card| card.mem);
        let cpus: u64 = nodes.iter().map(|node| u64::from(node.inventory.cpus)).sum();
        let all: Megabytes = cards().sum();
        let thousand_cpus = if all == Megabytes::ZERO { 1_000_000 } else { all.0 * 1000 / cpus.max(1) };
        let mut kinds: Vec<(Vec<Card>, u64)> = Vec::new();
        for node in nodes.iter() {
            let has = &node.inventory.cards;
            match kinds.iter_mut().find(|(known, _)| are_alike(known, has)) {
                Some((_, nodes)) => *nodes += 1,
                None => kinds.push((has.clone(), 1)),
            }
        }
        Measure { largest: cards().max().unwrap_or_default(), all, kinds: kinds.into(), thousand_cpus }
    }

    /// What a request keeps from others like it: all cards, divided by how many such requests they could hold at once
    /// if they were empty. Two that need more than half of a card each can't share one, whatever is left over; and who
    /// fits only on some of the cards takes a larger part of those. A request without cards takes its share.
    pub fn part(&self, request: &Request, reserve: u32) -> Share {
        let share = self.share(request);
        let Some(wanted) = &request.cards else { return share };
        let on = |card: &Card| {
            let demand = card.demand(wanted, reserve)?;
            Some(demand.limit.0 / demand.charge.0.max(1))
        };
        let on_kind = |(cards, nodes): &(Vec<Card>, u64)| {
            let each: Vec<u64> = cards.iter().filter_map(on).collect();
            nodes * at_once(&each, u64::from(wanted.count))
        };
        let at_once: u64 = self.kinds.iter().map(on_kind).sum();
        self.all.0.checked_div(at_once).map_or(share, Share)
    }

    /// What a share is told in: megabytes, and of what.
    pub fn unit(&self) -> (Share, &'static str) {
        match self.largest {
            Megabytes::ZERO => (Share(self.thousand_cpus / 1000), "CPU"),
            largest => (Share(largest.0), "card"),
        }
    }

    /// The share of a request on each of its nodes. A whole card counts as the largest.
    pub fn share(&self, request: &Request) -> Share {
        match &request.cards {
            Some(wanted) => {
                let part = wanted.slice.unwrap_or(self.largest).min(self.largest);
                Share(u64::from(wanted.count) * part.0)
            }
            None => Share(u64::from(request.cpus) * self.thousand_cpus / 1000),
        }
    }
}

/// Whether the cards of two nodes hold the same jobs.
fn are_alike(some: &[Card], others: &[Card]) -> bool {
    let alike = |(one, other): (&Card, &Card)| one.mem == other.mem && one.kind == other.kind;
    some.len() == others.len() && some.iter().zip(others).all(alike)
}

/// How many jobs that want so many different cards each there is room for, where a card has room for so many: the most
/// that no card holds twice.
fn at_once(each: &[u64], count: u64) -> u64 {
    let mut most = each.iter().sum::<u64>() / count.max(1);
    loop {
        let fewer = each.iter().map(|room| room.min(&most)).sum::<u64>() / count.max(1);
        if fewer >= most {
            return most;
        }
        most = fewer;
    }
}

/// What a start costs a queue.
pub fn price(cost: Cost, share: Share, length: Span) -> Price {
    match cost {
        Cost::Count => Price(ONE_START),
        Cost::Area => Price(i128::from(share.0) * i128::from(length.0)),
    }
}

/// By what a queue was charged for a start: its end is settled by the same, whatever nodes and configuration have become
/// meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charged {
    /// The job's share then.
    pub share: Share,
    /// The queue's weight then.
    pub weight: u32,
}

impl Charged {
    /// What is still to be charged, since a job ran for `ran` and was charged for `planned`: negative if it was shorter.
    pub fn correction(self, planned: Span, ran: Span) -> Price {
        Price(i128::from(self.share.0) * (i128::from(ran.0) - i128::from(planned.0)))
    }

    /// By how much its queue has had more with each millisecond that the job runs, in virtual time.
    fn rate(self) -> i128 {
        i128::from(self.share.0) * SCALE / i128::from(self.weight.max(1))
    }
}

/// What queues were charged for jobs that run, and have not had yet. It is known at any instant without a look at the
/// jobs: each is a rate, and the instant at which that is used up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unspent(BTreeMap<QueueName, Rest>);

/// Sums over the jobs of a queue that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Rest {
    rate: i128,
    /// Of rate × planned end.
    ends: i128,
}

impl Unspent {
    /// A job that was charged runs, and is planned to end then.
    pub fn enter(&mut self, queue: &QueueName, charged: Charged, end: WallTime) {
        let rest = self.0.entry(queue.clone()).or_default();
        rest.rate += charged.rate();
        rest.ends += charged.rate() * i128::from(end.0);
    }

    /// Takes it out again.
    pub fn leave(&mut self, queue: &QueueName, charged: Charged, end: WallTime) {
        let rest = self.0.entry(queue.clone()).or_default();
        rest.rate -= charged.rate();
        rest.ends -= charged.rate() * i128::from(end.0);
    }

    /// Of a queue. Jobs that run for longer than planned have had more than they were charged: what is due for that is
    /// charged when they end, so that nobody has had more than their virtual time says.
    fn of(&self, queue: &QueueName, now: WallTime) -> VirtualTime {
        let rest = self.0.get(queue).copied().unwrap_or_default();
        VirtualTime((rest.ends - rest.rate * i128::from(now.0)).max(0))
    }
}

/// The virtual times of all queues.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VirtualTimes {
    times: BTreeMap<QueueName, VirtualTime>,
    /// How far each was behind others that waited when a job of it last started.
    behind: BTreeMap<QueueName, VirtualTime>,
}

/// What has not been had yet of what was charged, and the time.
pub type SoFar<'a> = (&'a Unspent, WallTime);

impl VirtualTimes {
    /// Of one queue.
    pub fn of(&self, queue: &QueueName) -> VirtualTime {
        self.times.get(queue).copied().unwrap_or_default()
    }

    /// Charges a queue.
    pub fn charge(&mut self, queue: &QueueName, price: Price, weight: u32) {
        let time = self.of(queue).after(price, weight);
        self.times.insert(queue.clone(), time);
    }

    /// What a queue has really had. What its running jobs are planned to take is not in it: they may end early. It is
    /// never less than nothing, although a job seems to run for less than that once the clock was set back.
    fn had(&self, queue: &QueueName, (unspent, now): SoFar<'_>) -> VirtualTime {
        (self.of(queue) - unspent.of(queue, now)).max(VirtualTime::default())
    }

    /// The least that another queue with waiting jobs has had.
    fn least<'a>(
        &self,
        queue: &QueueName,
        waiting: impl Iterator<Item = &'a QueueName>,
        so_far: SoFar<'_>,
    ) -> Option<VirtualTime> {
        waiting.filter(|name| *name != queue).map(|name| self.had(name, so_far)).min()
    }

    /// A job of a queue is about to start, and to be charged.
    pub fn start<'a>(
        &mut self,
        queue: &QueueName,
        waiting: impl Iterator<Item = &'a QueueName>,
        so_far: SoFar<'_>,
    ) {
        let behind = self.least(queue, waiting, so_far).map(|least| least - self.had(queue, so_far));
        match behind.filter(|behind| *behind > VirtualTime::default()) {
            Some(behind) => drop(self.behind.insert(queue.clone(), behind)),
            None => drop(self.behind.remove(queue)),
        }
    }

    /// A queue that had nothing waiting gets a job. It has earned nothing meanwhile: what it has had is raised to the least
    /// that another queue with waiting jobs has had; where none waits, to the most that any has had, for they took it
    /// from nobody. One of which a job still runs stays as far behind as it was, for it had waited for that.
    pub fn wake<'a>(
        &mut self,
        queue: &QueueName,
        runs: bool,
        waiting: impl Iterator<Item = &'a QueueName>,
        so_far: SoFar<'_>,
    ) {
        let behind = self.behind.get(queue).copied().filter(|_| runs).unwrap_or_default();
        let most = || self.times.keys().map(|name| self.had(name, so_far)).max();
        let level = self.least(queue, waiting, so_far).or_else(most);
        let raise = level.map(|level| level - behind - self.had(queue, so_far));
        if let Some(raise) = raise.filter(|raise| *raise > VirtualTime::default()) {
            self.times.insert(queue.clone(), self.of(queue) + raise);
        }
    }

    /// All that were ever charged.
    pub fn iter(&self) -> impl Iterator<Item = (&QueueName, VirtualTime)> {
        self.times.iter().map(|(queue, time)| (queue, *time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_no_card_twice() {
        assert_eq!(at_once(&[2, 2, 1, 1], 1), 6);
        assert_eq!(at_once(&[3, 1], 2), 1, "what is left of the first card is of no use to two");
        assert_eq!(at_once(&[2, 2], 2), 2);
        assert_eq!(at_once(&[5, 1, 1], 2), 2);
        assert_eq!([at_once(&[], 1), at_once(&[4], 2), at_once(&[0, 0], 1)], [0, 0, 0]);
    }
}
