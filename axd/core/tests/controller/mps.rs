//! Cards under MPS: one user at a time, what is said to whoever waits for that, and what outlives a restart.

use ax_core::config::{Config, Queue};
use ax_core::controller::{Controller, Event, Submission};
use ax_core::gpu::Rung;
use ax_core::id::{JobId, Uid};
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::JobState;
use ax_core::node::CardShare;
use ax_core::size::Megabytes;

use crate::{at, config, node, owner, request, state, submission, submit};

/// A node of which only the first card is left, and MPS can be had on it; queue `shared` says that it is wanted.
fn world(limit: Rung) -> Controller {
    let mut config: Config = config();
    config.queues.push(Queue { mps: true, ..Queue::named("shared".parse().unwrap()) });
    let mut inventory = node();
    inventory.cards.truncate(1);
    inventory.cards[0].hardware.mps = Some(vec![Uid(1009)]);
    inventory.cards[0].hardware.limit = limit;
    let mut controller = Controller::new(config);
    controller.step(at(0), Event::NodeRegistered(inventory));
    controller
}

fn slice(key: u128, uid: u32, queue: &str) -> Submission {
    let cards = CardRequest { count: 1, kind: None, slice: Some(Megabytes(1000)) };
    let request = Request { cards: Some(cards), ..request(1) };
    Submission { owner: owner(uid), queue: queue.parse().unwrap(), ..submission(key, request) }
}

fn share(controller: &Controller, job: JobId) -> Option<CardShare> {
    let attempt = controller.job(job.number).unwrap().attempt.as_ref()?;
    Some(attempt.allocation.cards[0].clone())
}

#[test]
fn a_card_under_mps_is_one_user_s_and_who_waits_hears_whose() {
    let mut controller = world(Rung::Watch);
    let (first, _) = submit(&mut controller, 1, slice(1, 1000, "shared"));
    let (second, _) = submit(&mut controller, 1, slice(2, 1000, "shared"));
    let (other, _) = submit(&mut controller, 1, slice(3, 1001, "shared"));
    let (plain, _) = submit(&mut controller, 1, slice(4, 1000, "default"));
    for job in [first, second] {
        assert_eq!(share(&controller, job).unwrap().mps, Some(Uid(1000)));
    }
    for job in [other, plain] {
        assert_eq!(state(&controller, job), JobState::Ready);
        let told = controller.explain(at(2), job.number).reasons;
        assert!(told.contains(&"gpu-01 card 0 is under MPS for user user1000".to_owned()), "{told:?}");
    }
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let mut restored = Controller::restore(serde_json::from_str(&text).unwrap());
    restored.step(at(9), Event::Tick);
    assert_eq!(state(&restored, other), JobState::Ready);
    assert_eq!(share(&restored, first), share(&controller, first), "a restart knows it, too");
}

#[test]
fn who_would_be_under_mps_does_not_come_to_those_who_are_not() {
    let mut controller = world(Rung::Watch);
    let (plain, _) = submit(&mut controller, 1, slice(1, 1000, "default"));
    let (under, _) = submit(&mut controller, 1, slice(2, 1000, "shared"));
    assert_eq!(share(&controller, plain).unwrap().mps, None);
    let told = controller.explain(at(2), under.number).reasons;
    assert!(told.contains(&"gpu-01 card 0 is shared without MPS".to_owned()), "{told:?}");
}

#[test]
fn for_whom_it_could_not_be_had_goes_without() {
    let mut controller = world(Rung::Watch);
    let (job, _) = submit(&mut controller, 1, slice(1, 1009, "shared"));
    assert_eq!(share(&controller, job).unwrap().mps, None);
}

#[test]
fn where_the_driver_holds_slices_nobody_needs_mps() {
    let mut controller = world(Rung::Driver);
    for (key, uid, queue) in [(1, 1000, "shared"), (2, 1001, "shared"), (3, 1000, "default")] {
        let (job, _) = submit(&mut controller, 1, slice(key, uid, queue));
        assert_eq!(share(&controller, job).unwrap().mps, None);
    }
}
