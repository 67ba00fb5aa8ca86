//! What queues are charged and what they are not: by what held at the start, and nothing for having been idle.

use ax_core::config::{Config, Queue, Scheduler};
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

/// What a queue of weight one has had after a second of a card.
const CARD_SECOND: i128 = 80_000 * 1000 * (2520 << 10);

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
    let due = CARD_SECOND;
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
    submit(&mut controller, 2, submission(3, request(8)));
    let root = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
    let change = Change { queue: Some("high".parse().unwrap()), ..Change::default() };
    let wish = Wish::Update(Box::new(change));
    controller.step(at(60_000), Event::Wished { job: moved, actor: root, wish, why: None });
    assert_eq!(had(&controller, "high"), CARD_SECOND * 60, "what the other has had of a card so far");
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
    controller.step(at(60_001), Event::NodeRegistered(Inventory { cpus: 9, ..node() }));
    assert_eq!(had(&controller, "high"), CARD_SECOND * 60, "what the other has had of a card so far");
}

#[test]
fn who_has_had_nothing_does_not_go_behind_what_others_only_planned() {
    let mut config = fair();
    config.queues[0].priority = 5;
    let mut controller = ready(config);
    // Each says that it takes an hour, and takes two seconds.
    let (_, out) = submit(&mut controller, 0, wide(0, "default", 1000));
    let mut running = launched(&out)[0];
    for key in 1..10 {
        submit(&mut controller, 0, wide(key, "default", 1000));
    }
    controller.step(at(2000), over(running, 2000));
    running = controller.active_jobs().next().unwrap().attempt.as_ref().unwrap().name;
    let (urgent, _) = submit(&mut controller, 3000, wide(10, "high", 1001));
    let told = controller.explain(at(3000), urgent.number).reasons;
    assert!(told.iter().all(|reason| !reason.contains("its share")), "it has had nothing: {told:?}");
    assert_eq!(controller.ready_jobs().next().unwrap().id, urgent, "and is expected to be next");
    let out = controller.step(at(4000), over(running, 4000));
    assert_eq!(launched(&out)[0].job, urgent);
}

#[test]
fn what_was_had_while_nobody_waited_is_held_against_nobody() {
    let mut controller = ready(fair());
    let (_, out) = submit(&mut controller, 0, wide(0, "default", 1000));
    controller.step(at(600_000), over(launched(&out)[0], 600_000));
    let (_, out) = submit(&mut controller, 700_000, wide(1, "high", 1001));
    submit(&mut controller, 700_000, wide(2, "default", 1000));
    assert_eq!(had(&controller, "high"), had(&controller, "default") + CARD_SECOND * 4 * 3600 / 10);
    controller.step(at(701_000), over(launched(&out)[0], 701_000));
    assert_eq!(had(&controller, "high"), CARD_SECOND * 4 * 600 + CARD_SECOND * 4 / 10);
}

/// A job of an hour at most on all cards of the node, in a queue, of a user.
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
    config.queues.push(Queue { priority: 1, ..Queue::named("night".parse().unwrap()) });
    let mut controller = ready(config);
    submit(&mut controller, 0, wide(1, "default", 1000));
    let (behind, _) = submit(&mut controller, 0, wide(2, "default", 1000));
    let (first, _) = submit(&mut controller, 0, wide(3, "high", 1001));
    let (nothing, _) = submit(&mut controller, 0, wide(5, "night", 1002));
    let told =
        |controller: &Controller, job: ax_core::id::JobId| controller.explain(at(60_000), job.number).reasons;
    let why = told(&controller, behind);
    let of_queue = format!(
        "queue default has had 4.000 card-hours more than its share, compared with queue high (weight 5; running jobs \
         count with their planned length): {first} of queue high goes first (policy.scheduler)"
    );
    assert!(why.contains(&of_queue), "{why:?}");
    let why = told(&controller, nothing);
    assert!(
        why.iter().all(|reason| !reason.contains("its share")),
        "the one before it has had as much: {why:?}"
    );
    let (next, _) = submit(&mut controller, 3, wide(4, "default", 1001));
    let why = told(&controller, behind);
    let user = format!(
        "user user1000 has had 100.0 % and user user1001 0.0 % of what all users had lately: so {next} goes first, \
         which would not by priority and waiting (policy.user_share)"
    );
    assert!(why.contains(&user), "{why:?}");
    assert!(!told(&controller, next).iter().any(|reason| reason.contains("policy.user_share")));
}

#[test]
fn who_waited_for_the_others_stays_before_them_as_long_as_its_job_runs() {
    let mut config = fair();
    config.queues[0].priority = 5;
    let mut controller = ready(config);
    let (_, out) = submit(&mut controller, 0, wide(0, "default", 1000));
    for key in 1..4 {
        submit(&mut controller, 0, wide(key, "default", 1000));
    }
    submit(&mut controller, 1000, wide(10, "high", 1001));
    // One after the other, each as soon as the one before it runs, and none takes long.
    let mut running = launched(&out)[0];
    for (key, end) in (11..14).zip([3_600_000, 3_660_000, 3_720_000]) {
        let out = controller.step(at(end), over(running, end));
        running = launched(&out)[0];
        let started = controller.job(running.job.number).unwrap();
        assert_eq!(started.queue.as_str(), "high", "{key}: an hour of the others is worth two of its own");
        submit(&mut controller, end + 1000, wide(key, "high", 1001));
    }
}
