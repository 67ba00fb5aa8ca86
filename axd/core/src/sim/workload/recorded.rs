//! A daemon's record as a workload. Each job that ran arrives when nothing of its own delayed it any more, asks for
//! what it asked for, and takes as long as its last attempt did. Jobs that run when the record begins arrive with it,
//! and take as long as they went on.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{BEGINNING, BadWorkload, Hours, NodeShape, Origin, Task, Texts, Workload};
use crate::config::Config;
use crate::controller::{Decision, Event, Snapshot, Submission};
use crate::id::{JobId, QueueName};
use crate::job::request::Request;
use crate::job::state::JobState;
use crate::job::{AttemptEnd, Job};
use crate::node::Inventory;
use crate::replay::{Entry, Recorded, Step, each_entry};
use crate::size::Megabytes;
use crate::time::{Span, WallTime, Zone};

pub(super) fn read(text: &str) -> Result<Workload, BadWorkload> {
    let mut record = Record::default();
    let mut from = serde_json::Deserializer::from_str(text);
    let read = each_entry(&mut from, &mut |entry| {
        record.take(entry);
        ControlFlow::Continue(())
    });
    read.and_then(|()| from.end()).map_err(|error| {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or(&words).to_owned();
        BadWorkload::at(error.line(), error.column(), words)
    })?;
    match record.begins {
        Some(begins) => Ok(record.workload(begins)),
        None => Err(BadWorkload::whole(
            "no snapshot is among the events, so the machines are not known; print them from an earlier time on, \
             or without --from",
        )),
    }
}

/// A job, as far as the record tells.
struct Seen {
    request: Request,
    queue: QueueName,
    user: Arc<str>,
    name: Arc<str>,
    ready: Option<WallTime>,
    started: Option<WallTime>,
    ran: Option<Span>,
    peak: Option<Megabytes>,
}

#[derive(Default)]
struct Record {
    begins: Option<WallTime>,
    last: WallTime,
    machines: BTreeMap<String, Inventory>,
    config: Config,
    zone: Zone,
    jobs: BTreeMap<JobId, Seen>,
    texts: Texts,
}

impl Record {
    fn take(&mut self, Entry { now, recorded, .. }: Entry) {
        self.last = self.last.max(now.wall);
        match recorded {
            Recorded::Snapshot(snapshot) => self.snapshot(now.wall, *snapshot),
            Recorded::Step(step) if self.begins.is_some() => self.step(now.wall, step),
            Recorded::Step(_) | Recorded::Gap => {}
        }
    }

    fn snapshot(&mut self, now: WallTime, snapshot: Snapshot) {
        self.begins.get_or_insert(now);
        self.config = snapshot.config;
        self.zone = snapshot.zone;
        for inventory in snapshot.nodes {
            self.machine(inventory);
        }
        for job in snapshot.jobs.iter().filter(|job| !job.state.is_final()) {
            let seen = self.there(job, now);
            self.jobs.entry(job.id).or_insert(seen);
        }
    }

    /// Cards are counted from 0, whatever numbers they have.
    fn machine(&mut self, mut inventory: Inventory) {
        for (card, index) in inventory.cards.iter_mut().zip(0..) {
            card.index = index;
        }
        self.machines.insert(inventory.name.as_str().to_owned(), inventory);
    }

    fn there(&mut self, job: &Job, now: WallTime) -> Seen {
        let active = job.state.is_active();
        Seen {
            request: Request::clone(&job.request),
            queue: job.queue.clone(),
            user: self.texts.get(&job.owner.name),
            name: self.texts.get(&job.name),
            ready: (active || job.state == JobState::Ready).then_some(now),
            started: active.then_some(now),
            ran: None,
            peak: None,
        }
    }

    fn step(&mut self, now: WallTime, Step { event, decisions }: Step) {
        for decision in &decisions {
            let (Decision::Moved { job, .. } | Decision::Accepted { job, .. }) = decision else { continue };
            if let (Decision::Accepted { .. }, Event::Submitted(submission)) = (decision, &event) {
                let seen = self.submitted(submission);
                self.jobs.insert(*job, seen);
            }
            if let (Decision::Moved { to: JobState::Ready, .. }, Some(seen)) =
                (decision, self.jobs.get_mut(job))
            {
                seen.ready.get_or_insert(now);
            }
        }
        match event {
            Event::ConfigLoaded(config) => self.config = *config,
            Event::ZoneRead(zone) => self.zone = *zone,
            Event::NodeRegistered(inventory) => self.machine(inventory),
            Event::AttemptStarted { attempt, at } => self.with(attempt.job, |seen| {
                (seen.started, seen.ran) = (Some(at), None);
            }),
            Event::CardsUsed { attempt, peak } => {
                self.with(attempt.job, |seen| seen.peak = seen.peak.max(Some(peak)))
            }
            Event::AttemptEnded { attempt, at, end } => self.with(attempt.job, |seen| seen.ended(at, &end)),
            _ => {}
        }
    }

    fn submitted(&mut self, submission: &Submission) -> Seen {
        Seen {
            request: submission.request.clone(),
            queue: submission.queue.clone(),
            user: self.texts.get(&submission.owner.name),
            name: self.texts.get(&submission.name),
            ready: None,
            started: None,
            ran: None,
            peak: None,
        }
    }

    fn with(&mut self, job: JobId, change: impl FnOnce(&mut Seen)) {
        if let Some(seen) = self.jobs.get_mut(&job) {
            change(seen);
        }
    }

    fn workload(self, begins: WallTime) -> Workload {
        let Record { last, machines, config, zone, jobs, .. } = self;
        let all = jobs.len();
        let tasks: Vec<Task> =
            jobs.into_iter().filter_map(|(id, seen)| seen.task(id, begins, last)).collect();
        let machines: Vec<Inventory> = machines.into_values().collect();
        let zone = zone.since(WallTime(begins.0 - BEGINNING.0));
        let origin = Origin { config: Some(config), zone, never_ran: all - tasks.len(), machines };
        Workload { tasks, nodes: origin.machines.iter().map(shape).collect(), origin: Some(Box::new(origin)) }
    }
}

impl Seen {
    fn ended(&mut self, at: WallTime, end: &AttemptEnd) {
        self.ran = self.started.map(|started| at - started);
        self.peak = self.peak.max(end.card_peak);
    }

    fn task(mut self, id: JobId, begins: WallTime, last: WallTime) -> Option<Task> {
        let (ready, started) = (self.ready?, self.started?);
        let runtime = self.ran.unwrap_or(last - started);
        // It has come by the time of its arrival.
        self.request.begin = None;
        self.request.set_special(|special| {
            special.deadline = special.deadline.map(|at| BEGINNING + (at - begins));
        });
        let (cards, request) = (self.request.cards.clone(), self.request);
        let mem = cards.as_ref().and_then(|cards| cards.slice);
        Some(Task {
            id: id.number.to_string().into(),
            arrive: ready - begins,
            runtime,
            estimate: request.estimate.or(request.time_limit).unwrap_or(runtime),
            cards: cards.map_or(0, |cards| cards.count),
            nodes: request.nodes().min,
            mem,
            mem_true: self.peak.or(mem).unwrap_or_default(),
            priority: request.priority,
            queue: self.queue,
            user: self.user,
            name: self.name,
            checkpoint: None,
            hours: Hours::default(),
            asked: Some(Box::new(request)),
        })
    }
}

fn shape(inventory: &Inventory) -> NodeShape {
    let mem = inventory.cards.iter().map(|card| card.mem).max().unwrap_or_default();
    NodeShape { cards: inventory.cards.len() as u32, mem }
}
