//! What queues are charged and what they are not: by what held at the start, and nothing for having been idle.

use ax_core::config::{Config, Scheduler};
use ax_core::controller::{Change, Controller, Event, Wish};
use ax_core::id::{AttemptName, Uid};
use ax_core::job::Actor;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::Outcome;
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::Span;

use crate::{at, config, ended, launched, node, ready, request, submission, submit};

fn fair() -> Config {
    let mut config = config();
    config.policy.scheduler = Scheduler::FairShare;
    config
}

fn day() -> Request {
    let cards = Some(CardRequest { count: 1, kind: None, slice: None });
    Request { estimate: Some(Span::seconds(86_400)), cards, ..request(1) }
}

fn over(attempt: AttemptName, ms: u64) -> Event {
    Event::AttemptEnded { attempt, at: at(ms).wall, end: ended(Outcome::Succeeded, Some(0)) }
}

fn had(controller: &Controller, queue: &str) -> i128 {
    controller.virtual_times().of(&queue.parse().unwrap()).0
}

#[test]
fn an_end_is_settled_by_what_was_charged_whatever_has_changed_meanwhile() {
    // Of a card of 80,000 MB for a second, by a weight of one.
    let due = 80_000 * 1000 * (2520 << 10);
    let heavier = || {
        let mut config = fair();
        config.queues[0].priority = 10;
        Event::ConfigLoaded(Box::new(config))
    };
    let larger = || {
        let card = Card::new(9, "large".into(), None, Megabytes(160_000));
        let mut cards = node().cards;
        cards.push(card);
        Event::NodeRegistered(Inventory { cards, ..node() })
    };
    for (first, change, due) in [
        (fair(), heavier(), due),
        (fair(), larger(), due),
        (config(), Event::ConfigLoaded(Box::new(fair())), 0),
    ] {
        let mut controller = ready(first);
        let (_, out) = submit(&mut controller, 0, submission(1, day()));
        controller.step(at(1), change);
        controller.step(at(1000), over(launched(&out)[0], 1000));
        assert_eq!(had(&controller, "default"), due);
    }
}

#[test]
fn a_queue_earns_nothing_before_a_job_is_moved_into_it() {
    let mut controller = ready(fair());
    submit(&mut controller, 0, submission(1, Request { cpus: 8, ..day() }));
    let (moved, _) = submit(&mut controller, 1, submission(2, request(8)));
    let root = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
    let change = Change { queue: Some("high".parse().unwrap()), ..Change::default() };
    let wish = Wish::Update(Box::new(change));
    controller.step(at(2), Event::Wished { job: moved, actor: root, wish, why: None });
    assert!(had(&controller, "default") > 0);
    assert_eq!(had(&controller, "high"), had(&controller, "default"));
}

#[test]
fn a_queue_earns_nothing_before_a_node_can_hold_its_jobs() {
    let mut controller = ready(fair());
    let mut large = submission(1, request(9));
    large.queue = "high".parse().unwrap();
    submit(&mut controller, 0, large);
    submit(&mut controller, 1, submission(2, day()));
    let due = had(&controller, "default");
    assert_eq!((due > 0, had(&controller, "high")), (true, 0));
    let mut grown = fair();
    grown.queues[1].max_running = Some(0);
    controller.step(at(2), Event::ConfigLoaded(Box::new(grown)));
    controller.step(at(3), Event::NodeRegistered(Inventory { cpus: 9, ..node() }));
    assert_eq!(had(&controller, "high"), due);
}
