//! What was given to whom while a simulation ran: busy cards, memory asked for and used, and the queues' shares while
//! they compete. Sums are kept up as things start and end, in whole numbers, so that their order does not matter.

use std::collections::BTreeMap;

use crate::config::{Config, Scheduler};
use crate::id::QueueName;
use crate::sim::workload::NodeShape;
use crate::size::Megabytes;
use crate::time::Span;

/// What an attempt has of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) queue: QueueName,
    /// Memory of each card of the node.
    pub(super) size: Megabytes,
    pub(super) cards: u32,
    /// Asked for of each card; absent: whole cards.
    pub(super) mem: Option<Megabytes>,
    /// Really used of each; absent: nobody knows, so all.
    pub(super) mem_true: Option<Megabytes>,
}

impl Portion {
    /// How many cards it is worth, on cards of a size.
    pub(super) fn share(&self, of: Megabytes) -> f64 {
        share(self.cards, self.mem, of)
    }
}

/// How many cards of a size a request is worth.
pub(super) fn share(cards: u32, mem: Option<Megabytes>, of: Megabytes) -> f64 {
    f64::from(cards) * mem.map_or(1.0, |mem| (mem.0 as f64 / of.0 as f64).min(1.0))
}

/// Amounts on cards of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Flow {
    asked: u64,
    used: u64,
    asked_sum: u128,
    used_sum: u128,
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueService {
    weight: u32,
    waiting: u32,
    /// What it has now, in megabytes of the largest cards.
    has: u64,
    /// What it had while others waited too, × milliseconds.
    got: u128,
    /// What its weight entitled it to of all that was given then.
    due: f64,
}

/// Everything that is summed up over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Service {
    largest: Megabytes,
    cards: u64,
    busy: u64,
    busy_sum: u128,
    flows: BTreeMap<Megabytes, Flow>,
    queues: BTreeMap<QueueName, QueueService>,
    /// Queues with waiting jobs.
    backlogged: usize,
}

impl Service {
    /// Nothing was given yet. Queues weigh what they weigh under fair share, and the same under other policies.
    pub(super) fn new(nodes: &[NodeShape], config: &Config) -> Service {
        let fair = config.policy.scheduler == Scheduler::FairShare;
        let queue = |weight| QueueService { weight, waiting: 0, has: 0, got: 0, due: 0.0 };
        let queues = config.queues.iter().map(|q| (q.name.clone(), queue(if fair { q.priority } else { 1 })));
        Service {
            largest: nodes.iter().map(|node| node.mem).max().unwrap_or(Megabytes(1)),
            cards: nodes.iter().map(|node| u64::from(node.cards)).sum(),
            busy: 0,
            busy_sum: 0,
            flows: BTreeMap::new(),
            queues: queues.collect(),
            backlogged: 0,
        }
    }

    /// Time passes.
    pub(super) fn pass(&mut self, span: Span) {
        if span == Span::ZERO {
            return;
        }
        let time = u128::from(span.0);
        self.busy_sum += u128::from(self.busy) * time;
        for flow in self.flows.values_mut() {
            flow.asked_sum += u128::from(flow.asked) * time;
            flow.used_sum += u128::from(flow.used) * time;
        }
        // Shares mean something only while queues compete.
        if self.backlogged > 1 {
            let waiting = |q: &&mut QueueService| q.waiting > 0;
            let (mut weights, mut given) = (0_u64, 0_u64);
            for queue in self.queues.values_mut().filter(waiting) {
                weights += u64::from(queue.weight);
                given += queue.has;
            }
            for queue in self.queues.values_mut().filter(waiting) {
                queue.got += u128::from(queue.has) * time;
                queue.due += given as f64 * f64::from(queue.weight) / weights as f64 * span.0 as f64;
            }
        }
    }

    pub(super) fn started(&mut self, portion: &Portion, fresh_cards: u64) {
        self.busy += fresh_cards;
        let flow = self.flows.entry(portion.size).or_default();
        flow.asked += on_all(portion, portion.mem, portion.size);
        flow.used += on_all(portion, portion.mem_true, portion.size);
        if let Some(queue) = self.queues.get_mut(&portion.queue) {
            queue.has += on_all(portion, portion.mem.map(|mem| mem.min(self.largest)), self.largest);
        }
    }

    pub(super) fn ended(&mut self, portion: &Portion, empty_cards: u64) {
        self.busy -= empty_cards;
        let flow = self.flows.entry(portion.size).or_default();
        flow.asked -= on_all(portion, portion.mem, portion.size);
        flow.used -= on_all(portion, portion.mem_true, portion.size);
        if let Some(queue) = self.queues.get_mut(&portion.queue) {
            queue.has -= on_all(portion, portion.mem.map(|mem| mem.min(self.largest)), self.largest);
        }
    }

    pub(super) fn waits(&mut self, queue: &QueueName) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.waiting += 1;
            self.backlogged += usize::from(queue.waiting == 1);
        }
    }

    pub(super) fn waits_no_more(&mut self, queue: &QueueName) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.waiting -= 1;
            self.backlogged -= usize::from(queue.waiting == 0);
        }
    }

    /// Memory of the largest cards.
    pub(super) fn largest(&self) -> Megabytes {
        self.largest
    }

    /// All cards for so long, in cards × milliseconds.
    pub(super) fn capacity(&self, span: Span) -> f64 {
        self.cards as f64 * span.0 as f64
    }

    /// Cards × milliseconds with at least one attempt.
    pub(super) fn busy(&self) -> f64 {
        self.busy_sum as f64
    }

    /// Cards × milliseconds by the memory that was asked for.
    pub(super) fn asked(&self) -> f64 {
        self.flows.iter().map(|(size, flow)| flow.asked_sum as f64 / size.0.max(1) as f64).sum()
    }

    /// Cards × milliseconds by the memory that was used.
    pub(super) fn used(&self) -> f64 {
        self.flows.iter().map(|(size, flow)| flow.used_sum as f64 / size.0.max(1) as f64).sum()
    }

    /// Jain's index of what the queues got of what they were due: 1 is even.
    pub(super) fn jain(&self) -> f64 {
        let parts = self.queues.values().filter(|q| q.due > 0.0).map(|q| q.got as f64 / q.due);
        let parts: Vec<f64> = parts.collect();
        let squares: f64 = parts.iter().map(|x| x * x).sum();
        if squares == 0.0 {
            return 1.0;
        }
        parts.iter().sum::<f64>().powi(2) / (parts.len() as f64 * squares)
    }

    /// The largest difference between what a queue got and was due, of all that was due.
    pub(super) fn deviation(&self) -> f64 {
        let all: f64 = self.queues.values().map(|q| q.due).sum();
        let most = self.queues.values().map(|q| (q.got as f64 - q.due).abs()).fold(0.0, f64::max);
        if all == 0.0 { 0.0 } else { most / all }
    }
}

/// Megabytes on all cards of a portion.
fn on_all(portion: &Portion, mem: Option<Megabytes>, whole: Megabytes) -> u64 {
    u64::from(portion.cards) * mem.unwrap_or(whole).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Queue;

    fn portion(queue: &str, cards: u32, mem: Option<u64>) -> Portion {
        let mem = mem.map(Megabytes);
        Portion { queue: queue.parse().unwrap(), size: Megabytes(100), cards, mem, mem_true: mem }
    }

    fn service() -> Service {
        let mut config = Config::default();
        config.policy.scheduler = Scheduler::FairShare;
        config.queues = [("a", 3), ("b", 1)]
            .map(|(name, priority)| Queue { priority, ..Queue::named(name.parse().unwrap()) })
            .to_vec();
        Service::new(&[NodeShape { cards: 4, mem: Megabytes(100) }], &config)
    }

    #[test]
    fn shares_count_only_while_two_queues_wait() {
        let (mut service, a, b) = (service(), "a".parse().unwrap(), "b".parse().unwrap());
        service.started(&portion("a", 1, None), 1);
        service.started(&portion("b", 3, None), 3);
        service.waits(&a);
        service.pass(Span(1000));
        assert_eq!((service.deviation(), service.jain()), (0.0, 1.0));
        service.waits(&b);
        service.pass(Span(10));
        // Of 4 cards a had 1 and is due 3: got 10 of 30, b 30 of 10.
        assert!((service.deviation() - 0.5).abs() < 1e-12);
        let (x, y): (f64, f64) = (1.0 / 3.0, 3.0);
        assert!((service.jain() - (x + y).powi(2) / (2.0 * (x * x + y * y))).abs() < 1e-12);
    }

    #[test]
    fn slices_are_parts_of_cards_and_unknown_use_is_all() {
        let mut service = service();
        let slice = Portion { mem_true: Some(Megabytes(10)), ..portion("a", 1, Some(25)) };
        service.started(&slice, 1);
        service.started(&portion("b", 2, None), 2);
        service.pass(Span(4));
        service.ended(&slice, 1);
        service.pass(Span(2));
        assert_eq!((service.busy(), service.asked()), (16.0, 13.0));
        assert!((service.used() - (4.0 * 2.1 + 2.0 * 2.0)).abs() < 1e-12);
    }
}
