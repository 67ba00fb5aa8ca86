//! Limits on cards of queues and people: who may have which and how many, what is said of it, and that nobody passes whom
//! a limit holds back.

use ax_core::config::{CardLimit, Config};
use ax_core::controller::{Controller, Decision, Event, Submission};
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::WallTime;

use crate::{at, config, ended, launched, owner, ready, request, state, submission, submit};

fn with_cards(count: u32) -> Request {
    Request { cards: Some(CardRequest { count, kind: None, slice: None }), ..request(1) }
}

fn limit(user: Option<&str>, group: Option<&str>, cards: &[&str], max_cards: Option<u32>) -> CardLimit {
    let name = |name: Option<&str>| name.map(str::to_owned);
    let cards = cards.iter().map(|card| (*card).to_owned()).collect();
    CardLimit { user: name(user), group: name(group), cards, max_cards }
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
    assert_eq!(first(&controller, two), "user user1000 holds 1 of at most 2 cards, and it asks for 2 cards");
    let behind = format!(
        "user user1000 holds 1 of at most 2 cards, and it asks for 1 card; {two} waits for them before it"
    );
    assert_eq!(first(&controller, one), behind);
    assert_eq!(controller.explain(at(2), two.number).expected_start, None);
    for started in [none, other] {
        assert_eq!(state(&controller, started), JobState::Starting, "no limit concerns it");
    }
    let end =
        Event::AttemptEnded { attempt: holder, at: WallTime(0), end: ended(Outcome::Succeeded, Some(0)) };
    let out = controller.step(at(3), end);
    assert_eq!(launched(&out).iter().map(|attempt| attempt.job).collect::<Vec<_>>(), [two]);
    let why = refusal(&mut controller, of_user(6, 1000, 3)).unwrap();
    assert_eq!(why, "it asks for 3 cards, and user user1000 may hold at most 2 cards at once");
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
        "queue high holds 1 of at most 1 card, and it asks for 1 card"
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
