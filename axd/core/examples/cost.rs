//! What the scheduler costs: a table of times for clusters of a size and queues of growing length.
//!
//!     cargo run --release -p ax-core --example cost [NODES [PENDING…]]
//!
//! Nothing is asserted about the times. `pass` fills an empty cluster from a queue of that length, with indexes that are
//! just made; `full` is one pass over a full cluster that starts nothing, the least of several; then the medians of single events on the full cluster: an end of
//! a job (and what starts in its place), a submission that has to wait, and a note that changes nothing.
//! Bytes a job are right for the first length alone: later ones get what earlier ones gave back.
//! A second table: what reading costs, with a copy made for it: of all, or of what one job could meet; why the last job
//! waits, and what would start it.
//! `AX_COST_WITH=limits` has limits on what each user and a queue hold, which many wait for; `AX_COST_WITH=gangs` has every
//! eighth job ask for two to four nodes.
//! `AX_COST_STEPS=N` does nothing but N ends and submissions on the full cluster, to be counted by valgrind.

#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ax_core::config::{Config, Most, Queue, Scheduler};
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::id::{AttemptName, SubmissionKey, Uid};
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::NodeCount;
use ax_core::job::state::Outcome;
use ax_core::job::{AttemptEnd, Owner};
use ax_core::node::{Allocation, Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

const QUEUES: [(&str, u32, Option<u32>); 4] =
    [("urgent", 10, Some(3000)), ("default", 5, None), ("batch", 2, None), ("spare", 1, Some(2000))];

/// What there is beside jobs on one node, without limits but those of queues.
#[derive(Debug, Clone, Copy, PartialEq)]
enum With {
    Nothing,
    Limits,
    Gangs,
}

/// So many events of a kind.
const REPEATS: usize = 100;

/// A stream of numbers, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn config(with: With, nodes: usize) -> Config {
    let queue = |(name, priority, max_running): (&str, u32, Option<u32>)| {
        let mut queue = Queue::named(name.parse().unwrap());
        (queue.priority, queue.max_running) = (priority, max_running);
        queue
    };
    let mut config = Config { queues: QUEUES.map(queue).to_vec(), ..Config::default() };
    config.default_queue = "default".parse().unwrap();
    config.policy.scheduler = Scheduler::FairShare;
    config.policy.max_queued_per_user = u32::MAX;
    if with == With::Limits {
        // Of twelve users: a tenth of all cards for each, in a queue a twentieth.
        let all = nodes as u32 * 8;
        config.policy.per_user = Most { cards: Some(all / 10), cpus: Some(nodes as u32 * 12), ram: None };
        config.queues[1].per_user = Most { cards: Some(all / 20), ..Most::default() };
        (config.queues[2].max_cards, config.queues[2].max_cpus) = (Some(all / 4), Some(nodes as u32 * 30));
    }
    config
}

fn node(number: usize) -> Inventory {
    let mem = Megabytes(if number.is_multiple_of(4) { 40_000 } else { 80_000 });
    let card = |index| Card::new(index, format!("GPU-{number:06}-{index}"), Some("a100".into()), mem);
    Inventory {
        name: format!("gpu-{number:05}").parse().unwrap(),
        epoch: 1,
        cpus: 128,
        ram: Megabytes(1_000_000),
        cards: (0..8).map(card).collect(),
        features: vec![],
        numa_cpus: vec![],
    }
}

/// Sixteen shapes: slices, whole cards, a few without cards.
fn request(numbers: &mut Numbers, with: With) -> Request {
    let (count, slice, cpus) = match numbers.below(16) {
        0..=3 => (1, Some(5_000), 2),
        4 | 5 => (1, Some(10_000), 2),
        6 => (1, Some(20_000), 4),
        7 => (1, Some(30_000), 4),
        8 => (1, Some(60_000), 8),
        9 => (2, Some(20_000), 8),
        10 | 11 => (1, None, 8),
        12 => (2, None, 16),
        13 => (4, None, 32),
        14 => (8, None, 64),
        _ => (0, None, 1),
    };
    let limit = Span::seconds(600 * (1 + numbers.below(20)));
    let several = (with == With::Gangs && numbers.below(8) == 0).then(|| 2 + numbers.below(3) as u32);
    let mut request = Request {
        cards: (count > 0).then(|| CardRequest { count, kind: None, slice: slice.map(Megabytes) }),
        time_limit: Some(limit),
        priority: 30 + numbers.below(40) as u8,
        ..Request::plain(cpus, Megabytes(4000))
    };
    request.set_special(|special| special.nodes = several.map(|nodes| NodeCount { min: nodes, max: nodes }));
    request
}

struct Bench {
    with: With,
    controller: Controller,
    numbers: Numbers,
    owners: Vec<Owner>,
    key: u128,
    ms: u64,
    running: Vec<AttemptName>,
}

impl Bench {
    fn new(nodes: usize, with: With) -> Bench {
        let owner = |uid: u32| Owner { uid: Uid(uid), name: Arc::from(format!("user{uid}")) };
        let mut controller = Controller::new(config(with, nodes));
        for number in 0..nodes {
            controller.apply(now(0), Event::NodeRegistered(node(number)));
        }
        let owners = (1000..1012).map(owner).collect();
        Bench { with, controller, numbers: Numbers(1), owners, key: 0, ms: 1000, running: Vec::new() }
    }

    fn submission(&mut self) -> Event {
        self.key += 1;
        let queue = QUEUES[self.numbers.below(4) as usize].0.parse().unwrap();
        let queue = self.controller.config().queues.iter().find(|q| q.name == queue).unwrap().name.clone();
        let owner = self.owners[self.numbers.below(12) as usize].clone();
        let (key, request) = (SubmissionKey(self.key), request(&mut self.numbers, self.with));
        Event::Submitted(Box::new(Submission::new(key, owner, "train.sh", queue, 2026, request)))
    }

    fn queue_up(&mut self, pending: usize) {
        for _ in 0..pending {
            self.ms += 1;
            let event = self.submission();
            self.controller.apply(now(self.ms), event);
        }
    }

    /// One event, the time that it took, and what started.
    fn step(&mut self, event: Event) -> (Duration, usize) {
        self.ms += 1;
        let since = Instant::now();
        let out = self.controller.step(now(self.ms), event);
        let took = since.elapsed();
        let before = self.running.len();
        self.running.extend(out.iter().filter_map(|decision| match decision {
            Decision::Launch { attempt, .. } => Some(*attempt),
            _ => None,
        }));
        (took, self.running.len() - before)
    }

    /// The end of some attempt: of one on several nodes of its script, after which the other parts are ended.
    fn end(&mut self) -> (Event, Vec<Event>) {
        let at = self.numbers.below(self.running.len() as u64) as usize;
        let attempt = self.running.swap_remove(at);
        let end = AttemptEnd {
            outcome: Outcome::Succeeded,
            exit_code: Some(0),
            signal: None,
            message: None,
            card_peak: None,
        };
        let job = self.controller.job(attempt.job.number).and_then(|job| job.attempt.as_ref());
        let others = job.map_or(&[][..], |attempt| attempt.others()).iter();
        let at = WallTime(i64::MAX);
        let part =
            |part: &Allocation| Event::PartEnded { attempt, node: part.node.clone(), at, end: end.clone() };
        let parts = others.map(part).collect();
        (Event::AttemptEnded { attempt, at, end }, parts)
    }

    /// An end with all that belongs to it.
    fn end_one(&mut self) -> (Duration, usize) {
        let (end, parts) = self.end();
        let first = self.step(end);
        parts.into_iter().fold(first, |(took, started), part| {
            let (more, starts) = self.step(part);
            (took + more, started + starts)
        })
    }

    /// Fills the cluster, and then lets so many wait.
    fn fill_up(&mut self, pending: usize) {
        while self.controller.ready_jobs().nth(500).is_none() {
            self.queue_up(2000);
            self.step(Event::Tick);
        }
        self.confirm();
        let waiting = self.controller.ready_jobs().count();
        self.queue_up(pending.saturating_sub(waiting));
        self.step(Event::Tick);
    }

    fn confirm(&mut self) {
        for attempt in self.running.clone() {
            // As if they had come one after the other: they end at different times.
            let at = WallTime(now(self.ms).wall.0 - self.numbers.below(500_000) as i64);
            self.controller.apply(now(self.ms), Event::AttemptStarted { attempt, at });
        }
    }
}

fn now(ms: u64) -> Now {
    Now { boot: BootTime(ms), wall: WallTime(1_795_000_000_000 + ms as i64) }
}

/// Resident memory in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
}

fn in_order(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let micros = |at: usize| times[at.min(times.len() - 1)].as_nanos() as f64 / 1000.0;
    (micros(times.len() / 2), micros(times.len() * 99 / 100))
}

fn row((nodes, with): (usize, With), pending: usize, steps: Option<usize>) {
    let mut bench = Bench::new(nodes, with);
    let with_nodes = resident();
    bench.queue_up(pending);
    let bytes = (resident() - with_nodes) / pending.max(1);
    let (pass, starts) = bench.step(Event::Tick);
    bench.fill_up(pending);
    if let Some(steps) = steps {
        for _ in 0..steps {
            bench.end_one();
            let submission = bench.submission();
            bench.step(submission);
        }
        return;
    }
    let mut ends = Vec::new();
    let mut started = 0;
    for _ in 0..REPEATS {
        let (took, starts) = bench.end_one();
        ends.push(took);
        started += starts;
    }
    // Restored, so that nothing is known from before; the first of them also has to read all from memory.
    let full = |_| {
        bench.controller = Controller::restore(bench.controller.snapshot());
        bench.ms += 1;
        let since = Instant::now();
        bench.controller.step(now(bench.ms), Event::Tick);
        since.elapsed()
    };
    let mut full: Vec<Duration> = (0..if pending > 200_000 { 3 } else { 7 }).map(full).collect();
    full.sort_unstable();
    let mut submissions = Vec::new();
    for _ in 0..REPEATS {
        let event = bench.submission();
        submissions.push(bench.step(event).0);
    }
    let mut notes = Vec::new();
    for at in 0..REPEATS {
        let attempt = bench.running[at % bench.running.len()];
        let event = Event::Checkpointed { attempt, at: now(bench.ms).wall };
        notes.push(bench.step(event).0);
    }
    let (end, end99) = in_order(ends);
    let (submission, submission99) = in_order(submissions);
    println!(
        "| {nodes} | {pending} | {:.1} ({starts}) | {:.2} | {end:.0} / {end99:.0} ({:.1}) | {submission:.0} / {submission99:.0} | {:.0} | {bytes} |",
        pass.as_secs_f64() * 1000.0,
        full[0].as_secs_f64() * 1000.0,
        started as f64 / REPEATS as f64,
        in_order(notes).0,
    );
}

/// What those cost who only ask.
fn read_row((nodes, with): (usize, With), pending: usize) {
    let mut bench = Bench::new(nodes, with);
    bench.queue_up(pending);
    bench.step(Event::Tick);
    bench.fill_up(pending);
    let (controller, at) = (&bench.controller, now(bench.ms));
    let last = controller.ready_jobs().last().unwrap().id.number;
    fn least<T>(what: impl Fn() -> T) -> f64 {
        let took = |_| {
            let since = Instant::now();
            std::hint::black_box(what());
            since.elapsed()
        };
        (0..5).map(took).min().unwrap().as_secs_f64() * 1000.0
    }
    let copy = least(|| controller.clone());
    let sketch = least(|| controller.sketch());
    let list = least(|| controller.explain_waiting(at).take(100).count());
    let explain = least(|| controller.explain(at, last));
    let advise = least(|| controller.advise(at, last, &|_| true));
    println!("| {nodes} | {pending} | {copy:.2} | {sketch:.2} | {list:.2} | {explain:.2} | {advise:.2} |");
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let nodes = words.next().unwrap_or(1000);
    let rows: Vec<usize> = words.collect();
    let rows = if rows.is_empty() { vec![1000, 10_000, 100_000, 1_000_000] } else { rows };
    let with = match std::env::var("AX_COST_WITH").as_deref() {
        Ok("limits") => With::Limits,
        Ok("gangs") => With::Gangs,
        _ => With::Nothing,
    };
    let steps = std::env::var("AX_COST_STEPS").ok().and_then(|text| text.parse().ok());
    println!(
        "| nodes | pending | pass, ms (starts) | full, ms | an end, µs, median / p99 (starts) | a submission | a note | bytes a job |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for pending in &rows {
        row((nodes, with), *pending, steps);
    }
    if steps.is_some() {
        return;
    }
    println!();
    println!(
        "| nodes | pending | copy, ms | sketch | the first 100 explained | the last one | advice for it |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    for pending in rows {
        read_row((nodes, with), pending);
    }
}
