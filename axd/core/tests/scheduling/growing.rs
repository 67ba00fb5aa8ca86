//! Law 17: an event costs no more when ten times as many jobs of the same shapes wait. Counted in jobs that are looked
//! at, not in time.

use ax_core::config::{Config, Queue, Scheduler};
use ax_core::controller::{Controller, Decision, Event};
use ax_core::id::AttemptName;
use ax_core::job::AttemptEnd;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::Outcome;
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

use crate::chance::{node, of, plain};

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
    let deadline = at(THEN + 500).wall + Span(needs.0 - needs.0 / 10);
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
                let end = AttemptEnd {
                    outcome: Outcome::Succeeded,
                    exit_code: Some(0),
                    signal: None,
                    message: None,
                    card_peak: None,
                };
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
