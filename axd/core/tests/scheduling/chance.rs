//! Random numbers become configurations, nodes, submissions. Nought is the simplest of each, so that what fails
//! shrinks to something that can be read.

use std::sync::Arc;

use ax_core::config::{Config, Cost, LearnMemory, Packing, Queue, QueueOrder, QueueState, Scheduler};
use ax_core::controller::Submission;
use ax_core::id::{QueueName, SubmissionKey, Uid};
use ax_core::job::Owner;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::{NodeCount, PreemptMode};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};

/// The queues of every configuration.
pub(crate) const QUEUES: [&str; 3] = ["default", "night", "soon"];

/// A random number that is used up piece by piece.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// Another one made of the same: what is left of one that has been used is nought.
    pub(crate) fn again(&self) -> Chance {
        Chance(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// One of so many.
    pub(crate) fn below(&mut self, many: u64) -> u64 {
        let piece = self.0 % many;
        self.0 /= many;
        piece
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// In one of so many cases; never for nought.
    pub(crate) fn once_in(&mut self, many: u64) -> bool {
        self.below(many) == many - 1
    }
}

/// What the configurations of a test have in common.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    /// Only this scheduler.
    pub(crate) scheduler: Option<Scheduler>,
    /// Whether anybody may be evicted; else it is left to chance.
    pub(crate) preemption: Option<bool>,
    /// Without limits on what a queue may start.
    pub(crate) unlimited: bool,
    /// Jobs take exactly as long as they said.
    pub(crate) honest: bool,
    /// Lengths are learnt all the same, and what is learnt is often too short.
    pub(crate) learning: bool,
    /// All queues are equal and each serves the first that comes.
    pub(crate) first_come: bool,
    /// All jobs are of few shapes.
    pub(crate) alike: bool,
    /// The wall clock is never set back.
    pub(crate) forward: bool,
    /// Configuration and nodes stay as they are, and the clocks agree.
    pub(crate) calm: bool,
    /// There are limits on the cards of queues and people.
    pub(crate) limits: bool,
    /// Many jobs have daily hours, or a deadline.
    pub(crate) hours: bool,
    /// The reference has to find the very places that are taken: not by fragmentation, which it can't.
    pub(crate) known_places: bool,
}

/// A configuration.
pub(crate) fn config(bits: u64, frame: Frame) -> Config {
    let mut chance = Chance(bits);
    let mut config = Config::default();
    let policy = &mut config.policy;
    policy.scheduler = chance.of(&[Scheduler::Fifo, Scheduler::FairShare, Scheduler::FifoStrict]);
    policy.scheduler = frame.scheduler.unwrap_or(policy.scheduler);
    if frame.first_come && policy.scheduler == Scheduler::FairShare {
        policy.scheduler = Scheduler::Fifo;
    }
    policy.reservations = chance.of(&[1, 0, 2, 8]);
    policy.cost = chance.of(&[Cost::Area, Cost::Count]);
    policy.packing = chance.of(&[Packing::Best, Packing::First, Packing::Worst, Packing::Fgd]);
    if frame.known_places && policy.packing == Packing::Fgd {
        policy.packing = Packing::Best;
    }
    policy.preemption = frame.preemption.unwrap_or(chance.below(2) == 1);
    policy.max_preemptions = chance.of(&[2, 1]);
    policy.starvation_bound = chance.of(&[Some(Span::seconds(100)), None, Some(Span::seconds(6000))]);
    policy.user_share = chance.of(&[0, 20]);
    policy.retry_delay = Span::seconds(2);
    policy.max_queued_per_user = chance.of(&[100_000, 4]);
    config.resources.gpu_reserve = chance.of(&[0, 10, 20]) as u32;
    let weights = [1, 10, 5, 2, 3, 7];
    config.queues = QUEUES.iter().map(|name| queue(name, chance.of(&weights), &mut chance, frame)).collect();
    let policy = &mut config.policy;
    // Who says the truth is believed.
    policy.learn_length = chance.below(2) == 1 && !frame.honest;
    policy.learnt_ends = chance.below(2) == 1;
    if frame.learning {
        (policy.learn_length, policy.learnt_ends) = (true, false);
        policy.starvation_bound = policy.starvation_bound.map(|_| Span::seconds(20));
    }
    policy.learn_memory = chance.of(&[LearnMemory::Off, LearnMemory::Raise, LearnMemory::Fit]);
    policy.preempt_budget = chance.of(&[100, 1, 0]) as u32;
    if frame.limits {
        crate::limits::given(&mut Chance(bits).again(), &mut config);
    }
    config
}

fn queue(name: &str, weight: u32, chance: &mut Chance, frame: Frame) -> Queue {
    let mut queue = Queue::named(name.parse().unwrap());
    queue.priority = weight;
    queue.order =
        chance.of(&[QueueOrder::Prio, QueueOrder::Fifo, QueueOrder::Saf, QueueOrder::Laf, QueueOrder::Lpf]);
    if frame.first_come {
        (queue.priority, queue.order) = (1, QueueOrder::Fifo);
    }
    let limits =
        if frame.first_come { [None, Some(2), Some(1), Some(2)] } else { [None, None, Some(2), Some(1)] };
    let (max, state) = (chance.of(&limits), chance.below(8));
    if !frame.unlimited {
        queue.max_running = max;
        queue.state = match state {
            7 => QueueState::Stopped,
            6 => QueueState::Closed,
            _ => QueueState::Open,
        };
    }
    queue
}

/// Node `which` of three, `more` than it had at first.
pub(crate) fn node(which: u64, more: u64) -> Inventory {
    let (cpus, ram, cards, mem, kind, features) = match which % 3 {
        0 => (4, 16_000, 2, 24_000, "small", vec!["old"]),
        1 => (8, 64_000, 3, 48_000, "large", vec!["nvlink", "new"]),
        _ => (6, 32_000, 1, 80_000, "large", vec!["new"]),
    };
    let name = format!("gpu-0{}", which % 3 + 1);
    let card = |index| {
        let mut card = Card::new(index, format!("{name}-{index}"), Some(kind.to_owned()), Megabytes(mem));
        card.hardware.mps = (kind == "large").then(Vec::new);
        card
    };
    Inventory {
        name: name.parse().unwrap(),
        epoch: 1 + more,
        cpus: cpus + more as u32,
        ram: Megabytes(ram + 1000 * more),
        cards: (0..cards + more as u32).map(card).collect(),
        features: features.iter().map(ToString::to_string).collect(),
        numa_cpus: vec![],
    }
}

/// What somebody submits, and how long it really takes.
pub(crate) struct New {
    /// The submission.
    pub(crate) submission: Submission,
    /// Milliseconds from its start to its end.
    pub(crate) takes: u64,
}

/// A submission.
pub(crate) fn submission(bits: u64, key: u128, now: WallTime, frame: Frame) -> New {
    let mut chance = Chance(bits);
    let user = 1000 + chance.below(2) as u32;
    let queue: QueueName = chance.of(&QUEUES).parse().unwrap();
    let priorities = if frame.preemption == Some(true) {
        [20, 0, 100, 80, 0, 20, 100]
    } else {
        [50, 0, 100, 80, 40, 60, 20]
    };
    let priority = chance.of(&priorities);
    let seconds = chance.of(&[10, 1, 30, 3, 60, 5, 20]);
    // Half of all are of a few shapes, as in life: some fit where others of their shape do not, being shorter.
    let usual = chance.below(2) == 0 || frame.alike;
    let cards = if usual { usual_cards(&mut chance) } else { cards(&mut chance) };
    let (cpus, ram) = (chance.of(&[1, 2, 4, 1, 7, 9]), chance.of(&[1000, 8000, 15_000, 40_000]));
    let (cpus, ram) = if usual { (1, 1000) } else { (cpus, ram) };
    let (said, truth) = (chance.below(4), chance.of(&[100, 100, 30, 150, 250]));
    let mut request = plain(cpus, ram, priority, seconds);
    request.cards = cards;
    let mut takes = seconds * 1000;
    if !frame.honest {
        takes = takes * truth / 100;
        match said {
            1 => (request.time_limit, request.estimate) = (Some(Span(2 * takes)), None),
            2 => (request.time_limit, request.estimate) = (None, None),
            _ => {}
        }
    }
    request.retries = chance.of(&[0, 1, 3]);
    (request.idempotent, request.requeue) = (!chance.once_in(4), !chance.once_in(5));
    request.preempt = chance.of(&[
        PreemptMode::Requeue,
        PreemptMode::Requeue,
        PreemptMode::Requeue,
        PreemptMode::Cancel,
        PreemptMode::Never,
    ]);
    request.exclusive = chance.once_in(12) && !usual;
    let wait = Span::seconds(chance.of(&[4, 30]));
    request.begin = chance.once_in(6).then(|| now + wait);
    match chance.below(8) {
        _ if usual => {}
        5 => {
            let features = chance.of(&["new", "old|nvlink", "new&nvlink", "(old|new)&nvlink", "gone"]);
            request.set_special(|special| special.features = features.parse().ok());
        }
        6 => request.only_nodes = vec![node(chance.below(3), 0).name],
        7 => request.not_nodes = vec![node(chance.below(3), 0).name],
        _ => {}
    }
    let hold = chance.once_in(8);
    request.fit_memory = chance.below(2) == 1;
    if frame.hours {
        crate::hours::of(&mut Chance(bits).again(), &mut request, now);
    }
    let mut submission = of(key, user, queue, request, hold);
    submission.name = chance.of(&["job", "train-1.sh", "train-2"]).into();
    if frame.learning {
        // Else hardly two are the same thing.
        (submission.name, submission.owner.uid) = ("train".into(), Uid(1000));
    }
    let nodes = chance.of(&[(1, 1), (1, 1), (2, 2), (1, 3), (3, 3), (2, 3)]);
    if nodes != (1, 1) {
        let several = Some(NodeCount { min: nodes.0, max: nodes.1 });
        submission.request.set_special(|special| special.nodes = several);
    }
    New { submission, takes }
}

fn usual_cards(chance: &mut Chance) -> Option<CardRequest> {
    let (count, slice) = (chance.below(4) as u32, chance.of(&[None, None, Some(Megabytes(12_000))]));
    (count > 0).then_some(CardRequest { count, kind: None, slice })
}

fn cards(chance: &mut Chance) -> Option<CardRequest> {
    let count = chance.of(&[0, 1, 1, 2, 1, 3]);
    let kind = chance.of(&[None, None, None, Some("large")]).map(str::to_owned);
    let slice = chance.of(&[None, Some(8000), Some(12_000), Some(23_000), Some(40_000), Some(45_000)]);
    (count > 0).then_some(CardRequest { count, kind, slice: slice.map(Megabytes) })
}

/// A request for CPUs and memory.
pub(crate) fn plain(cpus: u32, ram: u64, priority: u8, seconds: u64) -> Request {
    Request { estimate: Some(Span::seconds(seconds)), priority, ..Request::plain(cpus, Megabytes(ram)) }
}

/// A submission of that request.
pub(crate) fn of(key: u128, user: u32, queue: QueueName, request: Request, hold: bool) -> Submission {
    let owner = Owner { uid: Uid(user), name: Arc::from(format!("user{user}")) };
    let groups = if user == 1001 { vec!["students".into()] } else { Vec::new() };
    Submission { groups, hold, ..Submission::new(SubmissionKey(key), owner, "job", queue, 2026, request) }
}
