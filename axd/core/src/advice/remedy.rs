//! Changes that can be advised: the options, the steps in which each is tried, and how much of what was asked for a
//! change gives up. Tries nothing itself.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::id::QueueName;
use crate::job::Job;
use crate::job::request::Request;
use crate::job::spec::NodeCount;
use crate::job::state::JobState;
use crate::size::Megabytes;
use crate::time::Span;

/// A change of one thing that a job asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Another queue.
    Queue(QueueName),
    /// A shorter limit.
    Time(Span),
    /// As many cards of another type; `None` means of any type.
    Kind(Option<String>),
    /// Nodes with any features.
    AnyFeatures,
    /// Less memory of each card.
    Mem(Megabytes),
    /// Less host memory.
    Ram(Megabytes),
    /// Fewer CPUs.
    Cpus(u32),
    /// Fewer cards.
    Gpus(u32),
    /// Fewer nodes, with as much on each.
    Nodes(u32),
}

/// The step of card memory in bytes: a tenth of a gigabyte, as cards are sold.
const TENTH: u64 = 100_000_000;

/// `number` tenths of a gigabyte, rounded down as `--mem` is.
fn tenths(number: u64) -> Megabytes {
    Megabytes::from_bytes(number * TENTH)
}

impl Remedy {
    /// Changes the job's request.
    pub fn apply(&self, job: &mut Job) {
        let request = Arc::make_mut(&mut job.request);
        let cards = &mut request.cards;
        match self {
            Remedy::Queue(queue) => job.queue = queue.clone(),
            Remedy::Time(limit) => request.time_limit = Some(*limit),
            Remedy::Kind(kind) => cards.iter_mut().for_each(|cards| cards.kind.clone_from(kind)),
            Remedy::AnyFeatures => request.set_special(|special| special.features = None),
            Remedy::Mem(slice) => cards.iter_mut().for_each(|cards| cards.slice = Some(*slice)),
            Remedy::Ram(ram) => request.ram = *ram,
            Remedy::Cpus(cpus) => request.cpus = *cpus,
            Remedy::Gpus(count) => cards.iter_mut().for_each(|cards| cards.count = *count),
            Remedy::Nodes(nodes) => request.set_special(|special| {
                special.nodes = (*nodes > 1).then_some(NodeCount { min: *nodes, max: *nodes });
            }),
        }
    }

    /// The option as it is typed: `--mem 30`.
    pub fn option(&self, request: &Request) -> String {
        let cards = request.cards.as_ref();
        match self {
            Remedy::Queue(queue) => format!("--queue {queue}"),
            Remedy::Time(limit) => format!("--time {limit}"),
            Remedy::Kind(kind) => {
                let count = cards.map_or(1, |cards| cards.count);
                match kind {
                    Some(kind) => format!("--gpus {kind}:{count}"),
                    None => format!("--gpus {count}"),
                }
            }
            Remedy::AnyFeatures => "--constraint none".to_owned(),
            Remedy::Mem(slice) => {
                let number = slice.bytes().div_ceil(TENTH);
                match number % 10 {
                    0 => format!("--mem {}", number / 10),
                    part => format!("--mem {}.{part}", number / 10),
                }
            }
            Remedy::Ram(Megabytes(mb)) if mb % 1024 == 0 => format!("--ram {}G", mb / 1024),
            Remedy::Ram(Megabytes(mb)) => format!("--ram {mb}M"),
            Remedy::Cpus(cpus) => format!("--cpus-per-task {}", cpus / request.tasks()),
            Remedy::Gpus(count) => match cards.and_then(|cards| cards.kind.as_deref()) {
                Some(kind) => format!("--gpus {kind}:{count}"),
                None => format!("--gpus {count}"),
            },
            Remedy::Nodes(nodes) => format!("--nodes {nodes}"),
        }
    }
}

/// What a job can ask less of. Among reductions that give up equally much, the first in this order is the cheapest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Amount {
    Time,
    Mem,
    Ram,
    Cpus,
    Gpus,
    Nodes,
}

/// All amounts.
pub(super) const AMOUNTS: [Amount; 6] =
    [Amount::Time, Amount::Mem, Amount::Ram, Amount::Cpus, Amount::Gpus, Amount::Nodes];

/// How an amount of one job is reduced: by whole steps, of which at least one is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    amount: Amount,
    /// What is asked for now, in the unit of the request.
    now: u64,
    /// The unit of a step, where all steps are the same.
    unit: u64,
    /// The most steps that are less than what is asked for now.
    pub(super) most: u64,
}

impl Scale {
    /// The steps of an amount; `None` if the job asks for none of it. `whole` stands for what has no number: the
    /// memory of a whole card, the length of a job without limit.
    pub(super) fn of(amount: Amount, job: &Job, whole: Whole) -> Option<Scale> {
        let request = &job.request;
        let cards = request.cards.as_ref();
        let now = match amount {
            // The job is planned with its estimate: a shorter limit changes nothing, unless its hours are too short
            // for it.
            Amount::Time if request.estimate.is_some() && job.state != JobState::Pending => return None,
            Amount::Time => request.time_limit.unwrap_or(whole.length).0,
            Amount::Mem => cards?.slice.unwrap_or(whole.card).0,
            Amount::Ram => request.ram.0,
            Amount::Cpus => u64::from(request.cpus),
            Amount::Gpus => u64::from(cards?.count),
            Amount::Nodes => u64::from(request.nodes().min),
        };
        let unit = match amount {
            Amount::Time if now > 60_000 => 60_000,
            Amount::Time => 1000,
            Amount::Ram if now > 1024 => 1024,
            // Each task has as many.
            Amount::Cpus => u64::from(request.tasks()),
            Amount::Ram | Amount::Gpus | Amount::Nodes | Amount::Mem => 1,
        };
        let most = match amount {
            // The most tenths that are fewer megabytes.
            Amount::Mem => (Megabytes(now).bytes().saturating_sub(1)) / TENTH,
            _ => now.saturating_sub(1) / unit,
        };
        (most > 0).then_some(Scale { amount, now, unit, most })
    }

    /// The change that leaves `steps` steps.
    pub(super) fn remedy(&self, steps: u64) -> Remedy {
        let value = steps * self.unit;
        let number = || u32::try_from(value).unwrap_or(u32::MAX);
        match self.amount {
            Amount::Time => Remedy::Time(Span(value)),
            Amount::Mem => Remedy::Mem(tenths(steps)),
            Amount::Ram => Remedy::Ram(Megabytes(value)),
            Amount::Cpus => Remedy::Cpus(number()),
            Amount::Gpus => Remedy::Gpus(number()),
            Amount::Nodes => Remedy::Nodes(number()),
        }
    }

    /// Which of two reductions is cheaper: the one that gives up the smaller part, then the one of the earlier
    /// amount.
    pub(super) fn compare(&self, steps: u64, other: &Scale, others: u64) -> Ordering {
        let crossed = |a: &Scale, steps, b: &Scale| u128::from(a.lost(steps)) * u128::from(b.now);
        let (this, that) = (crossed(self, steps, other), crossed(other, others, self));
        this.cmp(&that).then_with(|| self.amount.cmp(&other.amount))
    }

    /// True if less than half is left.
    pub(super) fn is_drastic(&self, steps: u64) -> bool {
        self.lost(steps) > self.now / 2
    }

    fn lost(&self, steps: u64) -> u64 {
        let left = match self.amount {
            Amount::Mem => tenths(steps).0,
            _ => steps * self.unit,
        };
        self.now.saturating_sub(left)
    }
}

/// What stands for amounts without a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole {
    /// Memory of the largest card that the job could get.
    pub(super) card: Megabytes,
    /// Planned length of a job that has none of its own.
    pub(super) length: Span,
}
