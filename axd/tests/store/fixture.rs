//! A store in a folder of its own, and a small cluster that writes to it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ax_core::config::{Config, Queue};
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::id::{AttemptName, JobId, SubmissionKey, Uid};
use ax_core::job::request::Request;
use ax_core::job::state::Outcome;
use ax_core::job::{AttemptEnd, Job, Owner};
use ax_core::node::{Card, Inventory};
use ax_core::paths::Paths;
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};
use axd::store::events::Step;
use axd::store::{Ack, Batch, Beside, Details, NewParts, Options, OutputFiles, Reader, Store, Usage, Writer};
use test_kit::TempDir;

pub const EPOCH_MS: i64 = 1_795_000_000_000;

pub fn at(ms: u64) -> Now {
    Now { boot: BootTime(ms), wall: WallTime(EPOCH_MS + ms as i64) }
}

/// A folder, gone with the test.
pub struct Place {
    pub root: TempDir,
    pub paths: Paths,
}

impl Place {
    pub fn new() -> Place {
        Place::below(&std::env::temp_dir())
    }

    /// In memory where there is such a place: for tests that open very often.
    pub fn in_memory() -> Place {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Place::below(memory) } else { Place::new() }
    }

    pub fn below(folder: &Path) -> Place {
        let root = TempDir::below(folder);
        Place { paths: Paths::under(&root), root }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.paths).unwrap()
    }

    pub fn writer(&self) -> Writer {
        spawn(self.open())
    }

    pub fn reader(&self) -> Reader {
        Reader::open(&self.paths).unwrap()
    }
}

pub fn spawn(store: Store) -> Writer {
    Writer::spawn(store, Options { events: true }, Box::new(|| {})).unwrap()
}

/// Waits for reports until one of them is the one wanted; returns all.
pub fn wait_for(writer: &Writer, wanted: impl Fn(&Ack) -> bool) -> Vec<Ack> {
    let (since, mut seen) = (Instant::now(), Vec::new());
    loop {
        let new = writer.poll();
        let found = new.iter().any(&wanted);
        seen.extend(new);
        if found {
            return seen;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "waited in vain; seen: {seen:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn config() -> Config {
    let mut config = Config::default();
    let mut high = Queue::named("high".parse().unwrap());
    high.priority = 10;
    config.queues.push(high);
    config
}

pub fn node(cpus: u32) -> Inventory {
    let card = |index| Card::new(index, format!("card-{index}"), Some("a100".into()), Megabytes(80_000));
    Inventory {
        name: "gpu-01".parse().unwrap(),
        epoch: 1,
        cpus,
        ram: Megabytes(64_000),
        cards: (0..4).map(card).collect(),
        features: vec![],
        numa_cpus: vec![],
    }
}

pub fn request(cpus: u32) -> Request {
    Request { time_limit: Some(Span::seconds(60)), ..Request::plain(cpus, Megabytes(1000)) }
}

pub fn submission(key: u128, request: Request) -> Submission {
    let owner = Owner { uid: Uid(1000), name: Arc::from("ann") };
    Submission::new(SubmissionKey(key), owner, "train.sh", "default".parse().unwrap(), 2026, request)
}

/// What the daemon would know beside the controller.
pub struct Known;

impl Beside for Known {
    fn new_job(&mut self, _key: SubmissionKey, _job: &Job) -> NewParts {
        parts()
    }

    fn files(&mut self, attempt: AttemptName) -> OutputFiles {
        OutputFiles { stdout: Some(format!("/home/ann/ax-{}.out", attempt.epoch)), stderr: None }
    }

    fn usage(&mut self, _attempt: AttemptName) -> Usage {
        Usage { cpu_us: Some(1_500_000), max_ram: Some(Megabytes(77)), max_gpu_mem: None }
    }
}

pub fn parts() -> NewParts {
    let mut details = Details { cwd: "/home/ann".into(), umask: 0o22, ..Details::default() };
    details.args = vec!["--epochs".into(), "3".into()];
    details.spec.comment = Some("a comment".into());
    let variable = |i| (format!("VARIABLE_{i}"), format!("/usr/local/some/where/{i}"));
    NewParts {
        details,
        script: Arc::from(&b"#!/bin/sh\n#AX --gpus=1\necho \xff\n"[..]),
        environment: Arc::new((0..60).map(variable).collect()),
    }
}

/// A controller whose steps go to a writer.
pub struct Cluster {
    pub controller: Controller,
    pub batches: u64,
}

impl Cluster {
    pub fn new() -> Cluster {
        let mut controller = Controller::new(config());
        controller.step(at(0), Event::NodeRegistered(node(8)));
        Cluster { controller, batches: 0 }
    }

    /// One step, sent to the writer and recorded.
    pub fn step(&mut self, writer: &Writer, now: Now, event: Event) -> Vec<Decision> {
        let decisions = self.controller.step(now, event.clone());
        self.batches += 1;
        let mut batch = Batch::new(self.batches);
        batch.add_step(now, &decisions, &self.controller, &mut Known);
        writer.send(batch);
        writer.record(now, Step { event, decisions: decisions.clone() });
        decisions
    }

    pub fn submit(
        &mut self,
        writer: &Writer,
        ms: u64,
        submission: Submission,
    ) -> (JobId, Option<AttemptName>) {
        let out = self.step(writer, at(ms), Event::Submitted(Box::new(submission)));
        let id = out.iter().find_map(|d| match d {
            Decision::Accepted { job, .. } => Some(*job),
            _ => None,
        });
        (id.expect("accepted"), launched(&out).first().copied())
    }

    /// Starts and ends an attempt.
    pub fn run(&mut self, writer: &Writer, ms: u64, attempt: AttemptName, code: u8) {
        self.step(writer, at(ms), Event::AttemptStarted { attempt, at: at(ms).wall });
        let outcome = if code == 0 { Outcome::Succeeded } else { Outcome::Failed };
        let end = AttemptEnd { outcome, exit_code: Some(code), signal: None, message: None, card_peak: None };
        self.step(writer, at(ms + 1000), Event::AttemptEnded { attempt, at: at(ms + 1000).wall, end });
    }

    /// Waits until all that was sent is durable.
    pub fn settle(&self, writer: &Writer) -> Vec<Ack> {
        wait_for(writer, |ack| *ack == Ack::Committed(self.batches))
    }
}

pub fn launched(out: &[Decision]) -> Vec<AttemptName> {
    let launch = |d: &Decision| match d {
        Decision::Launch { attempt, .. } => Some(*attempt),
        _ => None,
    };
    out.iter().filter_map(launch).collect()
}
