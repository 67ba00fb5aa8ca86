//! The controller: what follows from single events, and, in `any_events`, from any.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod advice;
mod alike;
mod any_events;
mod backoff;
mod cards;
mod changing;
mod explaining;
mod foretold;
mod gangs;
mod hours;
mod identity;
mod idle;
mod keys;
mod learning;
mod limits;
mod mps;
mod overuse;
mod replayed;
mod room;
mod shares;
mod trouble;
mod user_limits;

use std::sync::Arc;

use ax_core::api::ErrorClass;
use ax_core::config::{Config, Queue, QueueState, Scheduler};
use ax_core::controller::{Controller, Decision, Event, Submission, Wish};
use ax_core::id::{AttemptName, JobId, JobNumber, SubmissionKey, Uid};
use ax_core::invariants;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, AttemptEnd, Owner};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

fn config() -> Config {
    let mut config = Config::default();
    let mut high = Queue::named("high".parse().unwrap());
    high.priority = 10;
    high.max_running = Some(2);
    config.queues.push(high);
    config
}

fn node() -> Inventory {
    let card = |index| Card::new(index, format!("card-{index}"), Some("a100".into()), Megabytes(80_000));
    Inventory {
        name: "gpu-01".parse().unwrap(),
        epoch: 1,
        cpus: 8,
        ram: Megabytes(64_000),
        cards: (0..4).map(card).collect(),
        features: vec![],
        numa_cpus: vec![],
    }
}

fn request(cpus: u32) -> Request {
    Request { time_limit: Some(Span::seconds(60)), ..Request::plain(cpus, Megabytes(1000)) }
}

fn owner(uid: u32) -> Owner {
    Owner { uid: Uid(uid), name: Arc::from(format!("user{uid}")) }
}

fn submission(key: u128, request: Request) -> Submission {
    Submission::new(SubmissionKey(key), owner(1000), "job", "default".parse().unwrap(), 2026, request)
}

fn at(ms: u64) -> Now {
    Now { boot: BootTime(ms), wall: WallTime(1_795_000_000_000 + ms as i64) }
}

fn ready(config: Config) -> Controller {
    let mut controller = Controller::new(config);
    controller.step(at(0), Event::NodeRegistered(node()));
    controller
}

fn submit(controller: &mut Controller, ms: u64, submission: Submission) -> (JobId, Vec<Decision>) {
    let out = controller.step(at(ms), Event::Submitted(Box::new(submission)));
    let id = out.iter().find_map(|d| match d {
        Decision::Accepted { job, .. } => Some(*job),
        _ => None,
    });
    (id.expect("accepted"), out)
}

fn launched(out: &[Decision]) -> Vec<AttemptName> {
    let launch = |d: &Decision| match d {
        Decision::Launch { attempt, .. } => Some(*attempt),
        _ => None,
    };
    out.iter().filter_map(launch).collect()
}

fn ended(outcome: Outcome, exit_code: Option<u8>) -> AttemptEnd {
    AttemptEnd { outcome, exit_code, signal: None, message: None, card_peak: None }
}

fn state(controller: &Controller, job: JobId) -> JobState {
    controller.job(job.number).unwrap().state
}

#[test]
fn a_job_starts_in_the_step_that_brings_it_and_the_next_in_the_step_that_frees_its_place() {
    let mut controller = ready(config());
    let (first, out) = submit(&mut controller, 1, submission(1, request(8)));
    let attempt = launched(&out)[0];
    assert_eq!((attempt.job, state(&controller, first)), (first, JobState::Starting));
    let (second, out) = submit(&mut controller, 2, submission(2, request(8)));
    assert!(launched(&out).is_empty());
    let why = controller.explain(at(3), second.number);
    assert_eq!(why.reasons, ["needs 8 CPUs (0 of 8 free) on gpu-01"]);
    controller.step(at(10), Event::AttemptStarted { attempt, at: at(10).wall });
    let why = controller.explain(at(3), second.number);
    assert_eq!(why.expected_start, Some(at(10).wall + Span::seconds(60)));
    let end = ended(Outcome::Succeeded, Some(0));
    let out = controller.step(at(20), Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
    assert_eq!(launched(&out).len(), 1);
    assert_eq!(
        (state(&controller, first), state(&controller, second)),
        (JobState::Succeeded, JobState::Starting)
    );
    invariants::check(&controller).unwrap();
}

#[test]
fn higher_priority_goes_first_and_a_queue_at_its_limit_blocks_nobody() {
    let mut controller = ready(config());
    submit(&mut controller, 1, submission(1, request(8)));
    let running = controller.job(JobNumber(1)).unwrap().attempt.clone().unwrap().name;
    let mut urgent = submission(3, request(4));
    urgent.request.priority = 90;
    let (low, _) = submit(&mut controller, 2, submission(2, request(4)));
    let (first, _) = submit(&mut controller, 3, urgent);
    let order: Vec<_> = controller.ready_jobs().map(|j| j.id).collect();
    assert_eq!(order, [first, low]);
    let mut queue = config();
    queue.queues[1].state = QueueState::Stopped;
    controller.step(at(4), Event::ConfigLoaded(Box::new(queue)));
    let mut high = submission(4, request(1));
    high.queue = "high".parse().unwrap();
    let (stopped, _) = submit(&mut controller, 5, high);
    let out = controller.step(
        at(6),
        Event::AttemptEnded {
            attempt: running,
            at: WallTime(i64::MAX),
            end: ended(Outcome::Succeeded, Some(0)),
        },
    );
    assert_eq!(launched(&out).iter().map(|a| a.job).collect::<Vec<_>>(), [first, low]);
    assert_eq!(
        controller.explain(at(7), stopped.number).reasons[0],
        "queue high is stopped: it starts nothing"
    );

    let mut controller = ready(config());
    for (key, starts) in [(1, 1), (2, 1), (3, 0)] {
        let mut high = submission(key, request(1));
        high.queue = "high".parse().unwrap();
        let (_, out) = submit(&mut controller, key as u64, high);
        assert_eq!(launched(&out).len(), starts, "the queue may run 2");
    }
    assert_eq!(launched(&submit(&mut controller, 4, submission(4, request(1))).1).len(), 1);
}

#[test]
fn failures_are_retried_with_doubling_delay_and_only_for_the_codes_asked_for() {
    let mut controller = ready(config());
    let mut wanted = request(1);
    wanted.retries = 2;
    wanted.retry_on = vec![75];
    let (id, out) = submit(&mut controller, 0, submission(1, wanted));
    let mut attempt = launched(&out)[0];
    for (now, delay) in [(1000, 2000), (10_000, 4000)] {
        let end = ended(Outcome::Failed, Some(75));
        controller.step(at(now), Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
        assert_eq!(state(&controller, id), JobState::Pending);
        assert_eq!(controller.next_wake().boot, Some(BootTime(now + delay)));
        assert!(launched(&controller.step(at(now + delay - 1), Event::Tick)).is_empty());
        attempt = launched(&controller.step(at(now + delay), Event::Tick))[0];
    }
    controller.step(
        at(50_000),
        Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(Outcome::Failed, Some(75)) },
    );
    assert_eq!(state(&controller, id), JobState::Failed);
    let mut other = request(1);
    other.retries = 2;
    other.retry_on = vec![75];
    let (id, out) = submit(&mut controller, 60_000, submission(2, other));
    let attempt = launched(&out)[0];
    controller.step(
        at(60_001),
        Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(Outcome::Failed, Some(1)) },
    );
    assert_eq!(state(&controller, id), JobState::Failed);
}

#[test]
fn a_lost_attempt_is_started_again_only_where_that_is_safe() {
    for (idempotent, requeue, expected) in [
        (true, true, JobState::Starting),
        (true, false, JobState::NodeFail),
        (false, true, JobState::FailedUnknownState),
    ] {
        let mut controller = ready(config());
        let mut wanted = request(1);
        (wanted.idempotent, wanted.requeue) = (idempotent, requeue);
        let (id, out) = submit(&mut controller, 0, submission(1, wanted));
        let attempt = launched(&out)[0];
        controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
        let out = controller.step(
            at(2),
            Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(Outcome::LeaseLost, None) },
        );
        assert_eq!(state(&controller, id), expected);
        if let [again] = launched(&out)[..] {
            assert!(again.epoch > attempt.epoch);
            // News of the dead attempt changes nothing any more.
            let late = controller.step(
                at(3),
                Event::AttemptEnded {
                    attempt,
                    at: WallTime(i64::MAX),
                    end: ended(Outcome::Succeeded, Some(0)),
                },
            );
            assert!(matches!(late[..], [Decision::Ignored { .. }]), "{late:?}");
            assert_eq!(state(&controller, id), JobState::Starting);
        }
    }
}

#[test]
fn news_that_can_t_be_true_changes_nothing() {
    let mut controller = ready(config());
    let (id, out) = submit(&mut controller, 0, submission(1, request(1)));
    let attempt = launched(&out)[0];
    controller.step(at(1), Event::AttemptEnding { attempt });
    let before = controller.job(id.number).cloned();
    let out = controller.step(at(2), Event::AttemptStarted { attempt, at: at(2).wall });
    assert!(matches!(out[..], [Decision::Ignored { .. }]), "{out:?}");
    assert_eq!(controller.job(id.number).cloned(), before);
}

#[test]
fn memory_and_cards_are_given_once() {
    let four = |slice| Some(CardRequest { count: 4, kind: None, slice });
    let wanted = |ram, cards| Request { ram: Megabytes(ram), cards, ..request(1) };
    for (first, second) in [
        (wanted(40_000, None), wanted(40_000, None)),
        (wanted(1, four(Some(Megabytes(1)))), wanted(1, four(None))),
    ] {
        let mut controller = ready(config());
        assert_eq!(launched(&submit(&mut controller, 1, submission(1, first)).1).len(), 1);
        assert!(launched(&submit(&mut controller, 2, submission(2, second)).1).is_empty());
    }
}

#[test]
fn strangers_are_refused_and_administrators_not() {
    let mut controller = ready(config());
    let (id, _) = submit(&mut controller, 0, submission(1, request(1)));
    let actor = |uid, admin| Actor::User { uid: Uid(uid), name: Arc::from("x"), admin };
    let stranger = controller
        .step(at(1), Event::Wished { job: id, actor: actor(2000, false), wish: Wish::Cancel, why: None });
    assert!(
        matches!(stranger[..], [Decision::Refused { class: ErrorClass::NoPermission, .. }]),
        "{stranger:?}"
    );
    let admin = controller
        .step(at(1), Event::Wished { job: id, actor: actor(2000, true), wish: Wish::Cancel, why: None });
    assert!(admin.iter().any(|d| matches!(d, Decision::Terminate { .. })), "{admin:?}");
}

#[test]
fn an_owner_does_not_get_around_the_hold_of_an_administrator() {
    let mut controller = ready(config());
    let (id, _) = submit(&mut controller, 0, Submission { hold: true, ..submission(1, request(1)) });
    let owner = Actor::User { uid: Uid(1000), name: Arc::from("user1000"), admin: false };
    let admin = Actor::User { uid: Uid(0), name: Arc::from("root"), admin: true };
    let mut refused = |actor: &Actor, wish| {
        let event = Event::Wished { job: id, actor: actor.clone(), wish, why: None };
        let out = controller.step(at(1), event);
        out.iter().any(|decision| matches!(decision, Decision::Refused { .. }))
    };
    assert!(!refused(&admin, Wish::Hold));
    assert!(refused(&owner, Wish::Hold), "under the owner's name it would be the owner's to take off");
    assert!(refused(&owner, Wish::Release));
    assert!(!refused(&admin, Wish::Release));
    assert_eq!(state(&controller, id), JobState::Starting);
}

#[test]
fn what_never_started_says_why_and_when_it_is_tried_again() {
    let mut controller = ready(config());
    let (id, out) = submit(&mut controller, 0, submission(1, request(1)));
    let never = |attempt| Event::NeverStarted { attempt, why: "groups: no room".to_owned() };
    let out = controller.step(at(1), never(launched(&out)[0]));
    controller.step(at(2), never(launched(&out)[0]));
    assert_eq!(state(&controller, id), JobState::Pending);
    let reasons = controller.explain(at(2), id.number).reasons;
    assert_eq!(reasons, ["its last attempt never started: groups: no room; tried again in 1s"]);
}

#[test]
fn slices_share_a_card_and_whole_cards_are_not_shared() {
    let mut controller = ready(config());
    let slice = |mb| Some(CardRequest { count: 4, kind: None, slice: Some(Megabytes(mb)) });
    for (key, cards, fits) in [(1, slice(40_000), true), (2, slice(40_000), true), (3, slice(1), false)] {
        let mut wanted = request(1);
        wanted.cards = cards;
        let (_, out) = submit(&mut controller, key as u64, submission(key, wanted));
        assert_eq!(!launched(&out).is_empty(), fits);
        invariants::check(&controller).unwrap();
    }
    let mut controller = ready(config());
    let mut whole = request(1);
    whole.cards = Some(CardRequest { count: 4, kind: Some("a100".into()), slice: None });
    let (_, out) = submit(&mut controller, 1, submission(1, whole));
    assert_eq!(launched(&out).len(), 1);
    let mut wanted = request(1);
    wanted.cards = slice(1);
    assert!(launched(&submit(&mut controller, 2, submission(2, wanted)).1).is_empty());
}

#[test]
fn what_fits_nowhere_says_so_and_stands_in_nobody_s_way() {
    let mut controller = ready(config());
    let (big, _) = submit(&mut controller, 0, submission(1, request(9)));
    let (_, out) = submit(&mut controller, 1, submission(2, request(8)));
    assert_eq!(launched(&out).len(), 1);
    let why = controller.explain(at(2), big.number);
    assert_eq!(why.reasons[0], "no node here could hold it, even empty");
    let mut larger = node();
    larger.cpus = 17;
    let out = controller.step(at(3), Event::NodeRegistered(larger));
    assert_eq!(launched(&out)[0].job, big);
}

#[test]
fn a_node_that_comes_back_smaller_starts_nothing_until_there_is_room() {
    let mut controller = ready(config());
    let (_, out) = submit(&mut controller, 0, submission(1, request(6)));
    let attempt = launched(&out)[0];
    controller.step(at(1), Event::NodeRegistered(Inventory { cpus: 4, ..node() }));
    let (_, out) = submit(&mut controller, 2, submission(2, request(1)));
    assert!(launched(&out).is_empty());
    let out = controller.step(
        at(3),
        Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(Outcome::Succeeded, Some(0)) },
    );
    assert_eq!(launched(&out).len(), 1);
    invariants::check(&controller).unwrap();
}

#[test]
fn under_strict_order_a_queue_of_higher_rank_goes_first_then_the_smaller_number_and_nobody_passes() {
    let mut config = config();
    config.policy.scheduler = Scheduler::FifoStrict;
    let mut controller = ready(config);
    submit(&mut controller, 1, submission(1, request(6)));
    let running = controller.job(JobNumber(1)).unwrap().attempt.clone().unwrap().name;
    let (big, _) = submit(&mut controller, 2, submission(2, request(4)));
    let (small, out) = submit(&mut controller, 3, submission(3, request(1)));
    assert!(launched(&out).is_empty(), "it would fit, and {big} came before it");
    let mut high = submission(4, request(4));
    (high.queue, high.request.priority) = ("high".parse().unwrap(), 1);
    let (high, _) = submit(&mut controller, 4, high);
    assert_eq!(controller.ready_jobs().map(|j| j.id).collect::<Vec<_>>(), [high, big, small]);
    let end = ended(Outcome::Succeeded, Some(0));
    let out = controller.step(at(5), Event::AttemptEnded { attempt: running, at: at(5).wall, end });
    assert_eq!(launched(&out).iter().map(|a| a.job).collect::<Vec<_>>(), [high, big]);
}

#[test]
fn a_user_waits_with_no_more_jobs_than_the_policy_allows() {
    let mut limited = config();
    limited.policy.max_queued_per_user = 1;
    let mut controller = ready(limited);
    submit(&mut controller, 1, submission(1, request(8)));
    submit(&mut controller, 2, submission(2, request(8)));
    let out = controller.step(at(3), Event::Submitted(Box::new(submission(3, request(8)))));
    assert!(matches!(out[..], [Decision::Refused { class: ErrorClass::TryAgain, .. }]), "{out:?}");
    let mut other = submission(3, request(8));
    other.owner = owner(2000);
    submit(&mut controller, 4, other);
}

#[test]
fn what_an_administrator_holds_an_administrator_releases() {
    let mut controller = ready(config());
    let mut held = submission(1, request(1));
    held.hold = true;
    let (id, out) = submit(&mut controller, 0, held);
    assert!(launched(&out).is_empty());
    let mut wish = |uid, name: &str, admin, wish| {
        let actor = Actor::User { uid: Uid(uid), name: Arc::from(name), admin };
        controller.step(at(1), Event::Wished { job: id, actor, wish, why: None })
    };
    wish(0, "root", true, Wish::Hold);
    let out = wish(1000, "user1000", false, Wish::Release);
    assert!(matches!(out[..], [Decision::Refused { class: ErrorClass::NoPermission, .. }]), "{out:?}");
    assert_eq!(launched(&wish(0, "root", true, Wish::Release)).len(), 1);
}

#[test]
fn a_job_ended_when_its_supervisor_says_but_not_before_it_began_or_later_than_now() {
    for (said, recorded) in [(5, 10), (20, 20), (999, 30)] {
        let mut controller = ready(config());
        let (id, out) = submit(&mut controller, 0, submission(1, request(1)));
        let attempt = launched(&out)[0];
        controller.step(at(11), Event::AttemptStarted { attempt, at: at(10).wall });
        let end = ended(Outcome::Succeeded, Some(0));
        let out = controller.step(at(30), Event::AttemptEnded { attempt, at: at(said).wall, end });
        let closed =
            out.iter().find_map(|d| if let Decision::Closed { at, .. } = d { Some(*at) } else { None });
        assert_eq!(closed, Some(at(recorded).wall));
        assert_eq!(controller.job(id.number).unwrap().rare.ended_at, closed);
    }
}

#[test]
fn a_sketch_is_small_and_knows_the_first_of_each_queue() {
    let mut config = config();
    config.queues.iter_mut().for_each(|queue| queue.max_running = None);
    config.policy.max_queued_per_user = 5_002;
    let mut controller = ready(config);
    let mut first = None;
    for key in 0..5_000 {
        let queue = if key % 2 == 0 { "high" } else { "default" };
        let new = Submission { queue: queue.parse().unwrap(), ..submission(key, request(8)) };
        let (id, _) = submit(&mut controller, 1, new);
        first = first.or((key == 2).then_some(id));
    }
    let sketch = controller.sketch();
    assert_eq!((sketch.jobs().count(), controller.jobs().count()), (401, 5000));
    let foretold = |key, priority| {
        let (mut copy, number) = (controller.sketch(), controller.next_number());
        let wanted = Request { priority, ..request(8) };
        submit(&mut copy, 2, submission(key, wanted));
        copy.explain(at(2), number).reasons
    };
    let said = |count| format!("{count} jobs before it, the first is {}", first.unwrap());
    assert!(foretold(9_000, 50).contains(&said("at least 400")), "{:?}", foretold(9_000, 50));
    // Those of the higher queue all go before it.
    assert!(foretold(9_001, 99).contains(&said("at least 200")), "{:?}", foretold(9_001, 99));
    // The limit of a user counts the jobs that the sketch lacks.
    for key in 9_000..9_003 {
        controller.step(at(3), Event::Submitted(Box::new(submission(key, request(8)))));
    }
    let mut copy = controller.sketch();
    let out = copy.step(at(4), Event::Submitted(Box::new(submission(9_999, request(8)))));
    assert!(matches!(out[..], [Decision::Refused { class: ErrorClass::TryAgain, .. }]), "{out:?}");
}
