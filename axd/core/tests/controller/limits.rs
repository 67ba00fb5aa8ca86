//! Limits on what queues and people hold: who may have which cards, how many, how many CPUs and how much memory, what is
//! said of it, and that nobody passes whom a limit holds back.

use ax_core::config::{CardLimit, Config, Most};
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::{Span, WallTime};

use crate::{at, config, ended, launched, owner, ready, request, state, submission, submit};

fn with_cards(count: u32) -> Request {
    Request { cards: Some(CardRequest { count, kind: None, slice: None }), ..request(1) }
}

fn limit(user: Option<&str>, group: Option<&str>, cards: &[&str], max_cards: Option<u32>) -> CardLimit {
    let name = |name: Option<&str>| name.map(str::to_owned);
    let cards = cards.iter().map(|card| (*card).to_owned()).collect();
    CardLimit { user: name(user), group: name(group), cards, max_cards, ..CardLimit::default() }
}

fn limited(limits: Vec<CardLimit>) -> Config {
    Config { limits, ..config() }
}

fn of_user(key: u128, uid: u32, count: u32) -> Submission {
    Submission { owner: owner(uid), ..submission(key, with_cards(count)) }
}

fn cards(controller: &Controller, job: ax_core::id::JobId) -> Vec<u32> {
    let attempt = controller.job(job.number).unwrap().attempt.as_ref().unwrap();
    attempt.allocation.cards.iter().map(|card| card.index).collect()
}

fn reasons(controller: &Controller, job: ax_core::id::JobId) -> Vec<String> {
    controller.explain(at(9), job.number).reasons
}

fn refusal(controller: &mut Controller, submission: Submission) -> Option<String> {
    let out = controller.step(at(5), Event::Submitted(Box::new(submission)));
    out.into_iter().find_map(|decision| match decision {
        Decision::Refused { why, .. } => Some(why),
        _ => None,
    })
}

#[test]
fn a_person_has_only_the_cards_that_are_theirs() {
    let mut controller = ready(limited(vec![limit(Some("user1000"), None, &["gpu-01:2", "card-3"], None)]));
    let (first, _) = submit(&mut controller, 1, of_user(1, 1000, 1));
    let (second, _) = submit(&mut controller, 1, of_user(2, 1000, 1));
    let (third, _) = submit(&mut controller, 1, of_user(3, 1000, 1));
    let (other, _) = submit(&mut controller, 1, of_user(4, 1001, 2));
    assert_eq!((cards(&controller, first), cards(&controller, second)), (vec![2], vec![3]));
    assert_eq!(cards(&controller, other), [0, 1]);
    let told = reasons(&controller, third);
    assert_eq!(told[0], "needs 1 card (0 of 2 free) on gpu-01");
    assert_eq!(told[1], "user user1000 may use only gpu-01 cards 2,3");
    let why = refusal(&mut controller, of_user(5, 1000, 3)).unwrap();
    assert_eq!(
        why,
        "the cards that user user1000 may use could never hold it; 'ax resource' shows all cards"
    );
    assert_eq!(refusal(&mut controller, of_user(6, 1001, 3)), None, "others may");
}

#[test]
fn queue_and_person_both_bind_and_a_reload_binds_anew() {
    let mut config = limited(vec![limit(Some("user1000"), None, &["gpu-01:1", "gpu-01:2"], None)]);
    config.queues[0].cards = vec!["gpu-01:2".to_owned(), "gpu-01:3".to_owned()];
    let mut controller = ready(config.clone());
    let (first, _) = submit(&mut controller, 1, of_user(1, 1000, 1));
    let (second, _) = submit(&mut controller, 1, of_user(2, 1000, 1));
    assert_eq!(cards(&controller, first), [2]);
    assert_eq!(state(&controller, second), JobState::Ready);
    config.queues[0].cards.clear();
    controller.step(at(2), Event::ConfigLoaded(Box::new(config)));
    assert_eq!(cards(&controller, second), [1]);
}

#[test]
fn a_person_holds_no_more_cards_than_they_may_and_nobody_passes_whoever_waits_for_that() {
    let mut controller = ready(limited(vec![limit(Some("user1000"), None, &[], Some(2))]));
    let (_, out) = submit(&mut controller, 1, of_user(1, 1000, 1));
    let holder = launched(&out)[0];
    let (two, _) = submit(&mut controller, 1, of_user(2, 1000, 2));
    let (one, _) = submit(&mut controller, 1, of_user(3, 1000, 1));
    let (none, _) =
        submit(&mut controller, 1, Submission { owner: owner(1000), ..submission(4, request(1)) });
    let (other, _) = submit(&mut controller, 1, of_user(5, 1001, 2));
    let first = |controller: &Controller, job| reasons(controller, job).swap_remove(0);
    assert_eq!(
        first(&controller, two),
        "user user1000 holds 1 of at most 2 cards (limits[].max_cards): ax-2026-0001, and it asks for 2 cards"
    );
    let behind = format!(
        "user user1000 holds 1 of at most 2 cards (limits[].max_cards): ax-2026-0001, and it asks for 1 card; {two} waits for them before it"
    );
    assert_eq!(first(&controller, one), behind);
    // The first ends a minute after now at the latest, the second a minute later.
    let starts = [two, one].map(|job| controller.explain(at(2), job.number).expected_start);
    assert_eq!(starts, [Some(at(60_002).wall), Some(at(120_002).wall)]);
    for started in [none, other] {
        assert_eq!(state(&controller, started), JobState::Starting, "no limit concerns it");
    }
    let end =
        Event::AttemptEnded { attempt: holder, at: WallTime(0), end: ended(Outcome::Succeeded, Some(0)) };
    let out = controller.step(at(3), end);
    assert_eq!(launched(&out).iter().map(|attempt| attempt.job).collect::<Vec<_>>(), [two]);
    let why = refusal(&mut controller, of_user(6, 1000, 3)).unwrap();
    assert_eq!(
        why,
        "it asks for 3 cards, and user user1000 may hold at most 2 cards at once (limits[].max_cards)"
    );
}

#[test]
fn members_of_a_group_and_jobs_of_a_queue_are_counted_together() {
    let mut config = limited(vec![limit(None, Some("students"), &[], Some(2))]);
    config.queues[1].max_cards = Some(1);
    let mut controller = ready(config);
    let student = |key, uid| Submission { groups: vec!["students".into()], ..of_user(key, uid, 1) };
    let started: Vec<bool> = [(1, 1000), (2, 1001), (3, 1002)]
        .into_iter()
        .map(|(key, uid)| !launched(&submit(&mut controller, 1, student(key, uid)).1).is_empty())
        .collect();
    assert_eq!(started, [true, true, false]);
    let high = |key| Submission { queue: "high".parse().unwrap(), ..of_user(key, 1003, 1) };
    let (_, out) = submit(&mut controller, 2, high(4));
    assert_eq!(launched(&out).len(), 1);
    let (waits, out) = submit(&mut controller, 2, high(5));
    assert!(launched(&out).is_empty());
    assert_eq!(
        reasons(&controller, waits)[0],
        "queue high holds 1 of at most 1 card (queues[].max_cards): ax-2026-0004, and it asks for 1 card"
    );
}

#[test]
fn whoever_asks_for_fewer_cards_than_a_limit_leaves_is_advised_so() {
    let mut controller = ready(limited(vec![limit(Some("user1000"), None, &[], Some(3))]));
    submit(&mut controller, 1, of_user(1, 1000, 1));
    let (three, _) = submit(&mut controller, 1, of_user(2, 1000, 3));
    let advice = controller.advise(at(2), three.number, &|_| true).unwrap();
    assert_eq!(advice.option.as_deref(), Some("--gpus 2"));
}

fn cpus_of(key: u128, uid: u32, cpus: u32) -> Submission {
    Submission { owner: owner(uid), ..submission(key, request(cpus)) }
}

#[test]
fn each_user_has_a_limit_of_their_own_on_cpus_and_the_cheapest_change_under_it_is_advised() {
    let mut config = config();
    config.policy.per_user = Most { cpus: Some(4), ..Most::default() };
    let mut controller = ready(config.clone());
    submit(&mut controller, 1, cpus_of(1, 1000, 3));
    let (waits, out) = submit(&mut controller, 2, cpus_of(2, 1000, 2));
    assert_eq!(launched(&out), []);
    let told = "user user1000 holds 3 of at most 4 CPUs (policy.max_cpus_per_user): ax-2026-0001, and it asks for 2 CPUs";
    assert_eq!(reasons(&controller, waits)[0], told);
    let advice = controller.advise(at(2), waits.number, &|_| true).unwrap();
    assert_eq!(advice.option.as_deref(), Some("--cpus-per-task 1"));
    assert_eq!(
        launched(&submit(&mut controller, 3, cpus_of(3, 1001, 4)).1).len(),
        1,
        "others have their own"
    );
    assert_eq!(
        refusal(&mut controller, cpus_of(4, 1001, 5)).as_deref(),
        Some(
            "it asks for 5 CPUs, and user user1001 may hold at most 4 CPUs at once (policy.max_cpus_per_user)"
        )
    );
    let mut again = Controller::restore(controller.snapshot());
    assert_eq!(launched(&again.step(at(5), Event::Tick)), []);
    assert_eq!(reasons(&again, waits)[0], told);
    // A reload that takes the limit away is answered at once.
    config.policy.per_user = Most::default();
    assert_eq!(
        launched(&controller.step(at(6), Event::ConfigLoaded(Box::new(config)))).len(),
        0,
        "no CPU is free"
    );
    assert_eq!(reasons(&controller, waits), ["needs 2 CPUs (1 of 8 free) on gpu-01"]);
}

#[test]
fn queues_groups_and_users_in_queues_have_limits_on_cpus_memory_and_jobs() {
    let mut config = limited(vec![CardLimit {
        group: Some("students".to_owned()),
        max_running: Some(1),
        ..CardLimit::default()
    }]);
    config.queues[0].max_ram = Some(ax_core::size::Megabytes(2500));
    config.queues[1].max_running = None;
    config.queues[1].max_cpus = Some(2);
    config.queues[1].per_user = Most { ram: Some(ax_core::size::Megabytes(1000)), ..Most::default() };
    let mut controller = ready(config);
    let high = |key, uid| Submission { queue: "high".parse().unwrap(), ..cpus_of(key, uid, 1) };
    let student = |key, uid| Submission { groups: vec!["students".into()], ..high(key, uid) };
    let mut told = |submission: Submission| {
        let (job, out) = submit(&mut controller, 1, submission);
        let starts = !launched(&out).is_empty();
        let first = controller.explain(at(9), job.number).reasons.into_iter().next();
        first.filter(|_| !starts).map(|first| first.split(", and").next().unwrap().to_owned())
    };
    assert_eq!(told(student(1, 1000)), None);
    assert_eq!(
        told(student(2, 1001)).as_deref(),
        Some("group students holds 1 of at most 1 job (limits[].max_running): ax-2026-0001")
    );
    assert_eq!(
        told(high(3, 1000)).as_deref(),
        Some(
            "user user1000 in queue high holds 1000 MB of at most 1000 MB of memory (queues[].max_ram_per_user): ax-2026-0001"
        )
    );
    assert_eq!(told(high(4, 1002)), None, "who waits for a limit of their own keeps none of the queue's");
    assert_eq!(
        told(high(8, 1003)).as_deref(),
        Some("queue high holds 2 of at most 2 CPUs (queues[].max_cpus): ax-2026-0001 and ax-2026-0004")
    );
    assert_eq!((told(cpus_of(5, 1000, 1)), told(cpus_of(6, 1001, 1))), (None, None));
    assert_eq!(
        told(cpus_of(7, 1002, 1)).as_deref(),
        Some(
            "queue default holds 2.0 GB of at most 2.4 GB of memory (queues[].max_ram): ax-2026-0006 and ax-2026-0007"
        )
    );
}

/// Two limits are full by turns, each time with jobs that only one of them concerns.
#[test]
fn whoever_counts_in_two_limits_is_not_passed_in_them_by_turns() {
    let mut config = limited(vec![limit(Some("user1000"), None, &[], Some(2))]);
    config.queues[1].max_running = None;
    config.queues[1].max_cards = Some(2);
    let mut controller = ready(config);
    let of = |key, uid, queue: &str, count| Submission {
        queue: queue.parse().unwrap(),
        ..of_user(key, uid, count)
    };
    let end = |controller: &mut Controller, attempt| {
        let end = ended(Outcome::Succeeded, Some(0));
        launched(&controller.step(at(5), Event::AttemptEnded { attempt, at: WallTime(0), end }))
    };
    // The queue is full with another's, the user holds nothing.
    let of_queue = launched(&submit(&mut controller, 1, of(1, 1001, "high", 2)).1)[0];
    let (both, out) = submit(&mut controller, 2, of(2, 1000, "high", 2));
    assert_eq!(launched(&out), []);
    // The user's other jobs would fill the user's limit just before the queue's is free.
    for key in 3..5 {
        let (_, out) = submit(&mut controller, 3, of(key, 1000, "default", 1));
        assert_eq!(launched(&out), [], "it would pass {both}");
    }
    // The other way round it is first, too.
    let (next, _) = submit(&mut controller, 4, of(5, 1001, "high", 1));
    let started = end(&mut controller, of_queue);
    assert_eq!(started[0].job, both);
    assert_eq!(state(&controller, next), JobState::Ready);
}

/// It could use nothing of what the other limit has left.
#[test]
fn whoever_waits_behind_another_for_one_limit_holds_nobody_up_in_another() {
    let mut config = limited(vec![limit(Some("user1000"), None, &[], Some(2))]);
    config.queues[0].max_cards = Some(2);
    let mut controller = ready(config);
    let of = |key, uid, queue: &str, count| Submission {
        queue: queue.parse().unwrap(),
        ..of_user(key, uid, count)
    };
    for (key, uid, queue) in [(1, 1000, "high"), (2, 1001, "default")] {
        assert_eq!(launched(&submit(&mut controller, 1, of(key, uid, queue, 1)).1).len(), 1);
    }
    let (first, _) = submit(&mut controller, 2, of(3, 1000, "high", 2));
    let (behind, _) = submit(&mut controller, 2, of(4, 1000, "default", 2));
    let (other, out) = submit(&mut controller, 3, of(5, 1001, "default", 1));
    assert_eq!(launched(&out).iter().map(|attempt| attempt.job).collect::<Vec<_>>(), [other]);
    for waiting in [first, behind] {
        assert_eq!(state(&controller, waiting), JobState::Ready);
    }
    let (full, _) = submit(&mut controller, 4, of(6, 1001, "default", 1));
    assert_eq!(
        reasons(&controller, full)[0],
        format!(
            "queue default holds 2 of at most 2 cards (queues[].max_cards): ax-2026-0002 and {other}, and it asks for 1 card"
        )
    );
}

/// Whoever is first must not find that others have filled its queue, neither meanwhile nor when its cards are free.
#[test]
fn a_place_that_is_kept_on_a_node_is_kept_in_the_queue() {
    let mut controller = ready(config());
    let of = |key, queue: &str, count| {
        let limit = Some(Span::seconds(if count == 1 { 30 } else { 60 }));
        let request = Request { time_limit: limit, ..with_cards(count) };
        Submission { queue: queue.parse().unwrap(), ..submission(key, request) }
    };
    assert_eq!(launched(&submit(&mut controller, 1, of(1, "high", 3)).1).len(), 1);
    let (first, _) = submit(&mut controller, 1, of(2, "high", 4));
    let (small, _) = submit(&mut controller, 1, of(3, "high", 1));
    for waiting in [first, small] {
        assert_eq!(state(&controller, waiting), JobState::Ready);
    }
    let (other, _) = submit(&mut controller, 1, of(4, "default", 1));
    assert_eq!(state(&controller, other), JobState::Starting, "another queue's is over before that");
}
