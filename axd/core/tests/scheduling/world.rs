//! A small cluster to which things happen: jobs come, start, take as long as they take and end, people interfere,
//! machines fail, the daemon restarts. Each event and what was decided upon it is shown to the checker.

use std::collections::BTreeMap;
use std::sync::Arc;

use ax_core::config::Config;
use ax_core::controller::{Change, Controller, Decision, Event, NodeWish, Snapshot, Wish};
use ax_core::gpu::{CardName, CardState, Health};
use ax_core::id::{AttemptName, HostName, JobNumber, Uid};
use ax_core::job::state::Outcome;
use ax_core::job::{Actor, AttemptEnd};
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

use crate::chance::{self, Chance, Frame};

/// One event, what was decided, and how things stand then.
pub(crate) struct Seen<'a> {
    /// When.
    pub(crate) now: Now,
    /// What happened.
    pub(crate) events: &'a [Event],
    /// What was decided.
    pub(crate) out: &'a [Decision],
    /// The state afterwards.
    pub(crate) controller: &'a Controller,
}

/// Who is shown what happens.
pub(crate) type Checker<'c> = &'c mut dyn FnMut(&Seen<'_>);

/// Several things that happened at one instant: who is next is decided once, with all of them known.
pub(crate) fn step_all(controller: &mut Controller, now: Now, mut events: Vec<Event>) -> Vec<Decision> {
    let last = events.pop().unwrap_or(Event::Tick);
    let mut out: Vec<Decision> = events.into_iter().flat_map(|event| controller.apply(now, event)).collect();
    out.append(&mut controller.step(now, last));
    out
}

/// An attempt that has been started and has not been heard to end.
#[derive(Debug, Clone)]
struct Living {
    name: AttemptName,
    /// Where; its script runs on the first of its nodes.
    node: HostName,
    first: bool,
    /// When its script began; nothing as long as nobody has heard of it.
    began: Option<u64>,
    /// When it will end, and how.
    ends: u64,
    outcome: Outcome,
    slice: Option<Megabytes>,
}

/// The cluster.
pub(crate) struct World {
    /// Who decides.
    pub(crate) controller: Controller,
    frame: Frame,
    boot: u64,
    /// What the wall clock is ahead of the other, beyond its start.
    drift: i64,
    living: Vec<Living>,
    dead: Vec<AttemptName>,
    takes: BTreeMap<JobNumber, u64>,
    keys: u128,
    grown: [u64; 3],
}

/// When the wall clock started.
const EPOCH: i64 = 1_795_000_000_000;

impl World {
    /// A cluster without nodes.
    pub(crate) fn new(mut config: Config, frame: Frame) -> World {
        // Who says the truth is not to be planned with what others took.
        config.policy.learn_length &= !frame.honest || frame.learning;
        World {
            controller: Controller::new(config),
            frame,
            boot: 0,
            drift: 0,
            living: Vec::new(),
            dead: Vec::new(),
            takes: BTreeMap::new(),
            keys: 0,
            grown: [0; 3],
        }
    }

    /// A cluster under a random configuration, in which these things happen one after the other.
    pub(crate) fn play(bits: u64, frame: Frame, ops: Vec<(u8, u64)>, check: Checker<'_>) -> World {
        let config = chance::config(bits, frame);
        let mut world = World::new(config.clone(), frame);
        world.step(vec![Event::ConfigLoaded(Box::new(config))], check);
        for which in 0..1 + bits % 3 {
            world.step(vec![Event::NodeRegistered(chance::node(which, 0))], check);
        }
        for (kind, bits) in ops {
            world.happen(kind, bits, check);
        }
        world
    }

    /// The time.
    pub(crate) fn now(&self) -> Now {
        Now { boot: BootTime(self.boot), wall: WallTime(EPOCH + self.boot as i64 + self.drift) }
    }

    /// One of the things that happen.
    fn happen(&mut self, kind: u8, bits: u64, check: Checker<'_>) {
        let calm = self.frame.calm;
        match kind {
            0..50 => {
                let new = chance::submission(bits, self.keys, self.now().wall, self.frame);
                self.submit(new, check);
            }
            70..74 if !calm => self.cards(Chance(bits), check),
            50..72 => self.pass(Chance(bits).of(&[1000, 10_000, 500, 25_000, 3001]), check),
            72..82 => self.person(Chance(bits), check),
            82..94 if self.frame.honest => self.pass(2000, check),
            82..94 => self.news(Chance(bits), check),
            94..96 if !calm => {
                let config = chance::config(bits, self.frame);
                self.step(vec![Event::ConfigLoaded(Box::new(config))], check);
            }
            96 if !calm => self.node_comes(bits, check),
            97 if !calm => {
                let back = if self.frame.forward { 0 } else { -5000 };
                self.drift += Chance(bits).of(&[0, 5000, back, 60_000]);
                self.step(vec![Event::Tick], check);
            }
            _ => self.restart(check),
        }
    }

    /// A submission that takes so long.
    pub(crate) fn submit(&mut self, new: chance::New, check: Checker<'_>) {
        self.keys += 1;
        self.takes.insert(self.controller.next_number(), new.takes);
        self.step(vec![Event::Submitted(Box::new(new.submission))], check);
    }

    /// One step, and those that the controller wants at once.
    pub(crate) fn step(&mut self, events: Vec<Event>, check: Checker<'_>) {
        let mut events = events;
        loop {
            let now = self.now();
            let out = step_all(&mut self.controller, now, events.clone());
            self.take_in(&out);
            check(&Seen { now, events: &events, out: &out, controller: &self.controller });
            if self.controller.next_wake().boot != Some(BootTime(0)) {
                return;
            }
            events = vec![Event::Tick];
        }
    }

    fn take_in(&mut self, out: &[Decision]) {
        for decision in out {
            match decision {
                Decision::Launch { attempt, allocation, others, .. } => {
                    let job = self.controller.job(attempt.job.number);
                    let slice = job.and_then(|job| job.request.cards.as_ref()?.slice);
                    let (name, outcome) = (*attempt, Outcome::Succeeded);
                    for (at, part) in std::iter::once(allocation).chain(others).enumerate() {
                        let (node, first) = (part.node.clone(), at == 0);
                        let (began, ends) = (None, u64::MAX);
                        self.living.push(Living { name, node, first, began, ends, outcome, slice });
                    }
                }
                Decision::PartClosed { attempt, node, .. } => {
                    self.living.retain(|one| one.name != *attempt || one.node != *node);
                }
                Decision::Terminate { attempt, outcome, .. } => {
                    let soon = self.boot + if self.frame.honest { 0 } else { 700 };
                    for one in self.living.iter_mut().filter(|one| one.name == *attempt && one.ends > soon) {
                        (one.ends, one.outcome) = (soon, *outcome);
                    }
                }
                Decision::Closed { attempt, .. } => {
                    self.living.retain(|one| one.name != *attempt);
                    self.dead.push(*attempt);
                }
                _ => {}
            }
        }
    }

    /// Scripts begin of which nobody has heard yet.
    fn begin(&mut self, check: Checker<'_>) {
        let now = self.now().wall;
        let mut events = Vec::new();
        for one in self.living.iter_mut().filter(|one| one.first && one.began.is_none()) {
            one.began = Some(self.boot);
            let job = self.controller.job(one.name.job.number).unwrap();
            let all = self.takes.get(&job.id.number).copied().unwrap_or(1000);
            let left = all.saturating_sub(job.rare.saved.0).max(1000);
            let assigned = job.attempt.as_ref().unwrap().assigned_at;
            let limit = self.controller.limit_from(job, assigned).map_or(u64::MAX, |limit| limit.0);
            if one.ends == u64::MAX {
                one.ends = self.boot + left.min(limit);
                one.outcome = if left > limit { Outcome::Timeout } else { Outcome::Succeeded };
            }
            events.push(Event::AttemptStarted { attempt: one.name, at: now });
        }
        if !events.is_empty() {
            self.step(events, check);
            self.begin(check);
        }
    }

    /// Time passes, and what falls due meanwhile happens at its instant, all of one instant together.
    pub(crate) fn pass(&mut self, ms: u64, check: Checker<'_>) {
        let until = self.boot + ms;
        loop {
            self.begin(check);
            let end = self.living.iter().map(|one| one.ends).min().unwrap_or(u64::MAX);
            let wake = self.controller.next_wake();
            let wall = wake.wall.map_or(u64::MAX, |at| (at.0 - EPOCH - self.drift).max(0) as u64);
            let next = end.min(wake.boot.map_or(u64::MAX, |at| at.0)).min(wall);
            if next > until {
                self.boot = until;
                return;
            }
            self.boot = self.boot.max(next);
            let now = self.now().wall;
            let due = |one: &&Living| one.ends <= self.boot;
            // Where all say the truth all parts of a job are over at one instant.
            let script_ends =
                |name: AttemptName| self.living.iter().filter(due).any(|one| one.first && one.name == name);
            let over = |one: &&Living| due(one) || (self.frame.honest && script_ends(one.name));
            let mut events: Vec<Event> =
                self.living.iter().filter(over).map(|one| one.over(one.outcome, now)).collect();
            if events.is_empty() {
                events.push(Event::Tick);
            }
            self.step(events, check);
        }
    }

    /// Somebody asks something of a job.
    fn person(&mut self, mut chance: Chance, check: Checker<'_>) {
        let (what, admin) = (chance.below(9), chance.below(2) == 1);
        let many = self.controller.jobs().count() as u64;
        if many == 0 {
            return;
        }
        let job = self.controller.jobs().nth(chance.below(many) as usize).unwrap();
        let (job, owner) = (job.id, job.owner.clone());
        let change = |change: Change| Wish::Update(Box::new(change));
        let wish = match what {
            0 | 1 => Wish::Cancel,
            2 => Wish::Hold,
            3 | 4 => Wish::Release,
            5 => change(Change { priority: Some(chance.of(&[99, 0, 50])), ..Change::default() }),
            6 => {
                let queue = Some(chance.of(&chance::QUEUES).parse().unwrap());
                change(Change { queue, ..Change::default() })
            }
            7 => {
                let begin = self.now().wall + Span::seconds(chance.below(20));
                change(Change { begin: Some(Some(begin)), ..Change::default() })
            }
            _ => Wish::Resolve(ax_core::api::Resolution::Rerun),
        };
        let actor = match admin {
            true => Actor::User { uid: Uid(0), name: Arc::from("root"), admin },
            false => Actor::User { uid: owner.uid, name: Arc::clone(&owner.name), admin },
        };
        self.step(vec![Event::Wished { job, actor, wish, why: None }], check);
    }

    /// Something is seen on a card, or somebody takes cards and nodes out of use and gives them back.
    fn cards(&mut self, mut chance: Chance, check: Checker<'_>) {
        let node = chance::node(chance.below(3), 0).name;
        let index = chance.below(3) as u32;
        let event = match chance.below(8) {
            what @ 0..6 => {
                let health = [Health::Healthy, Health::Healthy, Health::Suspect, Health::Drained];
                let of_card = Megabytes(chance.of(&[0, 300, 4000, 30_000]));
                let state = CardState {
                    health: health[(what as usize).saturating_sub(2)],
                    foreign: Megabytes(chance.of(&[0, 300, 2000])),
                    unexplained: Megabytes(chance.of(&[0, 900])),
                    taken: of_card,
                    faulty: what > 3 && chance.below(2) == 1,
                    ..CardState::default()
                };
                Event::CardChanged { uuid: format!("{node}-{index}"), node, state }
            }
            what => {
                let wish = match what {
                    6 => NodeWish::Drain { why: "to be looked at".to_owned() },
                    _ => NodeWish::Resume,
                };
                let actor = Actor::User { uid: Uid(0), name: Arc::from("root"), admin: chance.below(8) != 7 };
                let card = (chance.below(3) != 2).then_some(CardName::Index(index));
                Event::NodeWished { node, card, actor, wish }
            }
        };
        self.step(vec![event], check);
    }

    /// Something is heard of an attempt.
    fn news(&mut self, mut chance: Chance, check: Checker<'_>) {
        let what = chance.below(11);
        let now = self.now().wall;
        if what == 10 {
            let Some(attempt) = self.dead.last().copied() else { return };
            let end = AttemptEnd {
                outcome: Outcome::Failed,
                exit_code: Some(1),
                signal: None,
                message: None,
                card_peak: None,
            };
            return self.step(vec![Event::AttemptEnded { attempt, at: now, end }], check);
        }
        if self.living.is_empty() {
            return;
        }
        let one = self.living[chance.below(self.living.len() as u64) as usize].clone();
        let attempt = one.name;
        let ended = |outcome| one.over(outcome, now);
        let event = match what {
            0 if self.frame.preemption != Some(true) => ended(Outcome::Failed),
            1 | 2 => ended(Outcome::OutOfMemory),
            3 if self.frame.preemption != Some(true) => ended(Outcome::LeaseLost),
            4 => ended(Outcome::NodeFail),
            5 => Event::AttemptEnding { attempt },
            6 | 7 => {
                let asked = one.slice.unwrap_or_default().0;
                let peak = Megabytes((asked * chance.of(&[150, 50, 110]) / 100).min(24_000));
                Event::CardsUsed { attempt, peak }
            }
            8 if !one.first => ended(Outcome::LaunchFailed),
            8 if one.began.is_none() => Event::NeverStarted { attempt, why: "no room".to_owned() },
            9 if !one.first => ended(Outcome::Succeeded),
            _ => Event::Checkpointed { attempt, at: now },
        };
        self.step(vec![event], check);
    }

    /// A node comes back, with more than before.
    fn node_comes(&mut self, bits: u64, check: Checker<'_>) {
        let which = bits % 3;
        let grown = &mut self.grown[which as usize];
        *grown = (*grown + 1).min(2);
        let inventory = chance::node(which, *grown);
        self.step(vec![Event::NodeRegistered(inventory)], check);
    }

    /// The daemon ends and starts again from what is written down.
    fn restart(&mut self, check: Checker<'_>) {
        let text = serde_json::to_string(&self.controller.snapshot()).unwrap();
        let back: Snapshot = serde_json::from_str(&text).unwrap();
        self.controller = Controller::restore(back);
        self.step(vec![Event::Tick], check);
    }
}

impl Living {
    /// It is over there.
    fn over(&self, outcome: Outcome, at: WallTime) -> Event {
        let (attempt, end) = (self.name, end_of(self, outcome));
        match self.first {
            true => Event::AttemptEnded { attempt, at, end },
            false => Event::PartEnded { attempt, node: self.node.clone(), at, end },
        }
    }
}

fn end_of(one: &Living, outcome: Outcome) -> AttemptEnd {
    let exit_code = match outcome {
        Outcome::Succeeded => Some(0),
        Outcome::Failed => Some(1),
        _ => None,
    };
    // Of two that ran out of memory one had used its slice up.
    let used = |slice: Megabytes| {
        Megabytes(slice.0 * if one.name.epoch.0.is_multiple_of(2) { 95 } else { 50 } / 100)
    };
    AttemptEnd { outcome, exit_code, signal: None, message: None, card_peak: one.slice.map(used) }
}
