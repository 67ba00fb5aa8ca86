//! Law 17: an event costs no more when ten times as many jobs of the same shapes wait, whatever the rules and the shapes.
//! Counted in jobs that are looked at, not in time.

use ax_core::config::{Config, Queue, Scheduler};
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::id::AttemptName;
use ax_core::job::AttemptEnd;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::Outcome;
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, WallTime};

use proptest::prelude::*;

use crate::chance::{self, Frame, node, of, plain};
use crate::histories;

/// No queue is closed or at its limit.
fn everybody_waits() -> Frame {
    Frame { unlimited: true, ..Frame::default() }
}

fn at(ms: u64) -> Now {
    Now { boot: BootTime(ms), wall: WallTime(ms as i64) }
}

/// The shapes that wait, however many do: each of its own length.
fn request(which: u64) -> Request {
    let which = which % 12;
    let mut wanted = plain(1 + which as u32 % 3, 1000, (10 * which) as u8 % 60, 60 + which);
    let (count, slice) = (1 + which as u32 % 2, (which.is_multiple_of(3)).then_some(Megabytes(20_000)));
    wanted.cards = Some(CardRequest { count, kind: None, slice });
    wanted
}

/// The instant of the events whose cost is counted.
const THEN: u64 = 100_000;

/// With a deadline that lets it start now, and no later: what runs ends later than that.
fn in_a_hurry(mut wanted: Request) -> Request {
    let needs = wanted.estimate.unwrap_or_default();
    let deadline = at(THEN + 500).wall + needs;
    wanted.set_special(|special| special.deadline = Some(deadline));
    wanted
}

/// Full nodes, and so many jobs that wait, all of them in a hurry or none; some of those that run.
fn crowded(
    (scheduler, preemption, hurry): (Scheduler, bool, bool),
    waiting: u64,
) -> (Controller, Vec<AttemptName>) {
    let mut config = Config::default();
    (config.policy.scheduler, config.policy.preemption) = (scheduler, preemption);
    config.queues.push(Queue::named("other".parse().unwrap()));
    let mut controller = Controller::new(config);
    for which in 0..3 {
        controller.step(at(0), Event::NodeRegistered(node(which, 0)));
    }
    let mut running = Vec::new();
    for key in 0..waiting {
        let queue = ["default", "other"][key as usize % 2].parse().unwrap();
        let wanted = if hurry { in_a_hurry(request(key)) } else { request(key) };
        let new = of(u128::from(key), 1000 + key as u32 % 4, queue, wanted, false);
        for decision in controller.step(at(key), Event::Submitted(Box::new(new))) {
            if let Decision::Launch { attempt, .. } = decision {
                running.push(attempt);
            }
        }
    }
    (controller, running)
}

#[test]
fn law_17_an_event_costs_no_more_when_ten_times_as_many_wait() {
    for scheduler in [Scheduler::Fifo, Scheduler::FairShare] {
        for (preemption, hurry) in [(false, false), (true, false), (false, true), (true, true)] {
            let cost = |waiting| {
                let (controller, running) = crowded((scheduler, preemption, hurry), waiting);
                let now = at(THEN);
                let end = AttemptEnd::of(Outcome::Succeeded);
                let new = of(u128::MAX, 1000, "default".parse().unwrap(), request(1), false);
                [
                    Event::Tick,
                    Event::Submitted(Box::new(new)),
                    Event::AttemptEnded { attempt: running[0], at: now.wall, end },
                ]
                .map(|event| controller.effort(now, event))
            };
            let (few, many) = (cost(1000), cost(10_000));
            for (few, many) in few.into_iter().zip(many) {
                assert!(
                    few > 0 && many <= few,
                    "{scheduler:?}, {preemption}, {hurry}: {many} jobs looked at, {few} of a tenth"
                );
            }
        }
    }
}

/// A random cluster, in which ever more jobs of a few random shapes wait.
struct Crowd {
    controller: Controller,
    shapes: Vec<u64>,
    waiting: u64,
    running: Vec<AttemptName>,
}

impl Crowd {
    fn new(bits: u64, shapes: Vec<u64>) -> Crowd {
        let mut config = chance::config(bits, everybody_waits());
        config.policy.max_queued_per_user = u32::MAX;
        let mut controller = Controller::new(config);
        for which in 0..1 + bits % 3 {
            controller.step(at(0), Event::NodeRegistered(node(which, 0)));
        }
        Crowd { controller, shapes, waiting: 0, running: Vec::new() }
    }

    /// The next of the shapes; nobody is held, or comes too early.
    fn submission(&self) -> Submission {
        let bits = self.shapes[self.waiting as usize % self.shapes.len()];
        let mut new =
            chance::submission(bits, u128::from(self.waiting), at(0).wall, everybody_waits()).submission;
        (new.hold, new.request.begin) = (false, None);
        new
    }

    fn grow(&mut self, to: u64) {
        while self.waiting < to {
            let event = Event::Submitted(Box::new(self.submission()));
            self.waiting += 1;
            for decision in self.controller.step(at(self.waiting), event) {
                match decision {
                    Decision::Launch { attempt, .. } => self.running.push(attempt),
                    Decision::Closed { attempt, .. } => self.running.retain(|one| *one != attempt),
                    _ => {}
                }
            }
        }
    }

    /// Jobs looked at upon each of a few events.
    fn cost(&self) -> Vec<u64> {
        let (now, end) = (at(THEN), AttemptEnd::of(Outcome::Succeeded));
        let over = |attempt| Event::AttemptEnded { attempt, at: now.wall, end: end.clone() };
        let over = self.running.first().copied().map(over);
        let events = [Event::Tick, Event::Submitted(Box::new(self.submission()))];
        events.into_iter().chain(over).map(|event| self.controller.effort(now, event)).collect()
    }
}

// Up to some hundreds are passed one by one, since leaping would take longer, and up to some dozens read ahead of each user:
// only where more wait of each shape is all the walk there that it ever is.
proptest! {
    #![proptest_config(ProptestConfig { cases: histories().cases / 100, max_shrink_iters: 20, ..histories() })]

    #[test]
    fn law_17_an_event_costs_no_more_whatever_the_rules_and_shapes(bits in any::<u64>(), shapes in proptest::collection::vec(any::<u64>(), 1..8)) {
        let mut crowd = Crowd::new(bits, shapes);
        let few = 1000 * crowd.shapes.len() as u64;
        crowd.grow(few);
        let of_few = crowd.cost();
        crowd.grow(4 * few);
        let of_many = crowd.cost();
        let dearer = of_few.iter().zip(&of_many).any(|(few, many)| many > few);
        prop_assert!(!dearer, "looked at upon each event: {of_few:?} of {few}, {of_many:?} of {}", 4 * few);
    }
}
