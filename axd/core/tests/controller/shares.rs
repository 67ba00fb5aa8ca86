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

/// A job of a minute on all cards of the node, in a queue, of a user.
fn wide(key: u128, queue: &str, uid: u32) -> ax_core::controller::Submission {
    let cards = Some(CardRequest { count: 4, kind: None, slice: None });
    let request = Request { cards, time_limit: Some(Span::seconds(3600)), ..request(1) };
    let queue = queue.parse().unwrap();
    ax_core::controller::Submission { queue, owner: crate::owner(uid), ..submission(key, request) }
}

#[test]
fn who_waits_for_having_had_more_is_told_how_much_and_who_goes_first() {
    let mut config = fair();
    config.queues[0].priority = 5;
    config.policy.user_share = 50;
    let mut controller = ready(config);
    submit(&mut controller, 0, wide(1, "default", 1000));
    let (behind, _) = submit(&mut controller, 1, wide(2, "default", 1000));
    let (first, _) = submit(&mut controller, 2, wide(3, "high", 1001));
    let told =
        |controller: &Controller, job: ax_core::id::JobId| controller.explain(at(60_000), job.number).reasons;
    // Four cards for an hour, which a queue of no more than the least is spared: it woke with what the other had.
    assert!(
        told(&controller, behind).iter().all(|reason| !reason.contains("than its share")),
        "both have had the same"
    );
    let (next, _) = submit(&mut controller, 3, wide(4, "default", 1001));
    let why = told(&controller, behind);
    let user = format!(
        "user user1000 has had 100.0 % and user user1001 0.0 % of what all users had lately: so {next} goes first, \
         which would not by priority and waiting (policy.user_share)"
    );
    assert!(why.contains(&user), "{why:?}");
    assert!(!told(&controller, next).iter().any(|reason| reason.contains("policy.user_share")));
    // When that one starts its queue has had an hour of four cards more than the other.
    let running = controller.job(ax_core::id::JobNumber(1)).unwrap().attempt.as_ref().unwrap().name;
    let out = controller.step(at(3_600_000), over(running, 3_600_000));
    let started = launched(&out)[0].job;
    let waits = if started == first { next } else { first };
    let (queue, than) = if started == first { ("high", "default") } else { ("default", "high") };
    let (late, _) = submit(&mut controller, 3_600_001, wide(5, queue, 1002));
    let why = told(&controller, late);
    let weight = if queue == "high" { 10 } else { 5 };
    let told_so = format!(
        "queue {queue} has had more than its share, by 4.000 card-hours for its weight of {weight}, beside queue {than}: \
         {waits} of that goes first (policy.scheduler)"
    );
    assert!(why.contains(&told_so), "{told_so}: {why:?}");
}
