//! One job on several nodes, case by case: together or not at all, over everywhere or not at all, and told why.

use ax_core::controller::{Controller, Decision, Event, Snapshot, Wish};
use ax_core::explain::Basis;
use ax_core::id::{AttemptName, JobId, Uid};
use ax_core::invariants;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::NodeCount;
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, AttemptEnd};
use ax_core::node::Inventory;
use ax_core::size::Megabytes;
use ax_core::time::Span;

use crate::{at, config, ended, launched, node, owner, request, state, submission, submit};

/// Four nodes, each with 8 CPUs and 4 cards.
fn four() -> Controller {
    let mut controller = Controller::new(config());
    for number in 1..=4 {
        let mut node = Inventory { name: format!("gpu-0{number}").parse().unwrap(), ..node() };
        node.cards.iter_mut().for_each(|card| card.uuid = format!("card-{number}-{}", card.index));
        controller.step(at(0), Event::NodeRegistered(node));
    }
    controller
}

fn on(min: u32, max: u32, cards: u32) -> Request {
    let mut wanted = request(1);
    wanted.cards = (cards > 0).then_some(CardRequest { count: cards, kind: None, slice: None });
    wanted.set_special(|special| special.nodes = Some(NodeCount { min, max }));
    wanted
}

fn nodes(out: &[Decision]) -> Vec<String> {
    let launch = out.iter().find_map(|decision| match decision {
        Decision::Launch { allocation, others, .. } => Some((allocation, others)),
        _ => None,
    });
    let (first, others) = launch.expect("it starts");
    std::iter::once(first).chain(others).map(|part| part.node.to_string()).collect()
}

fn told_to_end(out: &[Decision]) -> bool {
    out.iter().any(|decision| matches!(decision, Decision::Terminate { .. }))
}

fn part_ended(
    controller: &mut Controller,
    ms: u64,
    attempt: AttemptName,
    node: &str,
    how: Outcome,
) -> Vec<Decision> {
    let (node, end) = (node.parse().unwrap(), ended(how, None));
    controller.step(at(ms), Event::PartEnded { attempt, node, at: at(ms).wall, end })
}

fn script_ended(controller: &mut Controller, ms: u64, attempt: AttemptName, how: Outcome) -> Vec<Decision> {
    let end = ended(how, Some(u8::from(how != Outcome::Succeeded)));
    controller.step(at(ms), Event::AttemptEnded { attempt, at: at(ms).wall, end })
}

/// Two nodes that run.
fn running() -> (Controller, JobId, AttemptName) {
    let mut controller = four();
    let (job, out) = submit(&mut controller, 1, submission(1, on(2, 2, 4)));
    assert_eq!(nodes(&out), ["gpu-01", "gpu-02"]);
    let attempt = launched(&out)[0];
    controller.step(at(10), Event::AttemptStarted { attempt, at: at(10).wall });
    (controller, job, attempt)
}

#[test]
fn it_starts_on_all_at_once_and_waits_as_long_as_one_is_missing() {
    let mut controller = four();
    let (_, out) = submit(&mut controller, 1, submission(1, on(3, 3, 4)));
    assert_eq!(nodes(&out), ["gpu-01", "gpu-02", "gpu-03"]);
    let first = launched(&out)[0];
    controller.step(at(10), Event::AttemptStarted { attempt: first, at: at(10).wall });
    let (second, out) = submit(&mut controller, 11, submission(2, on(4, 4, 4)));
    assert!(launched(&out).is_empty());
    let told = controller.explain(at(12), second.number);
    assert_eq!(told.reasons[0], "needs 4 nodes at once, each with 4 whole cards, and 1 has that free");
    assert_eq!(told.expected_start, Some(at(10).wall + Span::seconds(60)));
    assert!(matches!(told.basis, Some(Basis::End { .. })), "{:?}", told.basis);
    let kept = controller.kept_places(at(12));
    let places: Vec<&str> = kept.iter().map(|place| place.node.as_str()).collect();
    assert_eq!(places, ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]);
    // Who is over by then fits beside what is kept; who is not delays it.
    let mut short = request(1);
    short.cards = Some(CardRequest { count: 4, kind: None, slice: None });
    short.time_limit = Some(Span::seconds(70));
    let (_, out) = submit(&mut controller, 13, submission(3, short.clone()));
    assert!(launched(&out).is_empty());
    short.time_limit = Some(Span::seconds(40));
    let (_, out) = submit(&mut controller, 14, submission(4, short));
    assert_eq!(nodes(&out), ["gpu-04"]);
    invariants::check(&controller).unwrap();
}

#[test]
fn of_a_range_it_takes_what_is_free_and_waits_for_no_more() {
    let mut controller = four();
    let (_, out) = submit(&mut controller, 1, submission(1, on(1, 1, 4)));
    assert_eq!(nodes(&out), ["gpu-01"]);
    let (_, out) = submit(&mut controller, 2, submission(2, on(2, 8, 4)));
    assert_eq!(nodes(&out), ["gpu-02", "gpu-03", "gpu-04"]);
    invariants::check(&controller).unwrap();
}

#[test]
fn more_nodes_than_there_are_stand_aside_and_say_so() {
    let mut controller = four();
    let (wide, out) = submit(&mut controller, 1, submission(1, on(5, 6, 4)));
    assert!(launched(&out).is_empty());
    let told = controller.explain(at(2), wide.number);
    assert_eq!(told.reasons, ["needs 5 nodes at once, each with 4 whole cards, and 4 here have that"]);
    let (_, out) = submit(&mut controller, 3, submission(2, on(4, 4, 4)));
    assert_eq!(nodes(&out).len(), 4, "it stands in nobody's way");
}

#[test]
fn its_script_ends_it_everywhere_and_each_node_is_free_as_soon_as_it_is_over_there() {
    let (mut controller, job, attempt) = running();
    let out = script_ended(&mut controller, 100, attempt, Outcome::Succeeded);
    assert!(told_to_end(&out));
    assert_eq!(state(&controller, job), JobState::Completing);
    let (_, out) = submit(&mut controller, 101, submission(2, on(3, 3, 4)));
    assert_eq!(nodes(&out), ["gpu-01", "gpu-03", "gpu-04"]);
    invariants::check(&controller).unwrap();
    // A restart in between knows what is over.
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let mut controller = Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap());
    let again = script_ended(&mut controller, 110, attempt, Outcome::Failed);
    assert!(matches!(again[..], [Decision::Ignored { .. }]), "{again:?}");
    part_ended(&mut controller, 120, attempt, "gpu-02", Outcome::NodeFail);
    assert_eq!(state(&controller, job), JobState::Succeeded, "what the script said counts");
    invariants::check(&controller).unwrap();
}

#[test]
fn a_node_that_is_lost_loses_the_attempt() {
    let (mut controller, job, attempt) = running();
    let out = part_ended(&mut controller, 100, attempt, "gpu-02", Outcome::NodeFail);
    assert!(told_to_end(&out));
    assert_eq!(state(&controller, job), JobState::Completing);
    let out = script_ended(&mut controller, 200, attempt, Outcome::Cancelled);
    assert_eq!(nodes(&out).len(), 2, "it was not its fault: it starts again");
    let closed = out.iter().find_map(|decision| match decision {
        Decision::Closed { end, .. } => Some((end.outcome, end.message.clone())),
        _ => None,
    });
    assert_eq!(closed, Some((Outcome::NodeFail, Some("on gpu-02: NODE_FAIL".to_owned()))));
    invariants::check(&controller).unwrap();
}

#[test]
fn where_a_part_never_began_nothing_did() {
    let mut controller = four();
    let (job, out) = submit(&mut controller, 1, submission(1, on(2, 2, 4)));
    let attempt = launched(&out)[0];
    let out = part_ended(&mut controller, 2, attempt, "gpu-02", Outcome::LaunchFailed);
    assert!(told_to_end(&out));
    assert_eq!(state(&controller, job), JobState::Starting);
    let why = "taken back".to_owned();
    let out = controller.step(at(3), Event::NeverStarted { attempt, why });
    assert_eq!(nodes(&out).len(), 2, "it waits again, and starts again: {out:?}");
    let own = controller.job(job.number).unwrap();
    assert_eq!((own.attempts, own.rare.retries_used), (2, 0));
    invariants::check(&controller).unwrap();
}

#[test]
fn what_can_t_be_started_by_its_own_fault_is_over_for_that() {
    let mut controller = four();
    let (job, out) = submit(&mut controller, 1, submission(1, on(2, 2, 4)));
    let attempt = launched(&out)[0];
    let out = script_ended(&mut controller, 2, attempt, Outcome::LaunchFailed);
    assert!(told_to_end(&out));
    let out = part_ended(&mut controller, 3, attempt, "gpu-02", Outcome::LaunchFailed);
    assert_eq!((launched(&out), state(&controller, job)), (vec![], JobState::Failed));
    invariants::check(&controller).unwrap();
}

#[test]
fn the_most_that_any_part_used_of_a_card_counts_for_the_whole() {
    for first in [9000, 21_000] {
        let (mut controller, job, attempt) = running();
        let peak = |mb| AttemptEnd { card_peak: Some(Megabytes(mb)), ..ended(Outcome::Succeeded, Some(0)) };
        controller.step(at(20), Event::AttemptEnded { attempt, at: at(20).wall, end: peak(first) });
        let node = "gpu-02".parse().unwrap();
        controller.step(at(30), Event::PartEnded { attempt, node, at: at(30).wall, end: peak(15_000) });
        let end = controller.job(job.number).unwrap().attempt.as_ref().unwrap().end.clone().unwrap();
        assert_eq!(end.card_peak, Some(Megabytes(first.max(15_000))));
    }
}

#[test]
fn what_is_settled_is_still_to_end_elsewhere_after_a_restart() {
    let (mut controller, job, attempt) = running();
    let wants = |controller: &Controller| {
        controller.job(job.number).unwrap().attempt.as_ref().unwrap().wants_ending()
    };
    assert_eq!(wants(&controller), None);
    part_ended(&mut controller, 20, attempt, "gpu-02", Outcome::NodeFail);
    let told = Some((Outcome::NodeFail, "it has ended on gpu-02".to_owned()));
    assert_eq!(wants(&controller), told);
    assert_eq!(wants(&Controller::restore(controller.snapshot())), told);
}

#[test]
fn a_script_that_runs_says_nothing_of_the_other_nodes() {
    let mut controller = four();
    let mut vain = Vec::new();
    for key in 1..=3 {
        let wanted = Request { only_nodes: vec!["gpu-02".parse().unwrap()], ..request(1) };
        vain.extend(launched(&submit(&mut controller, 1, submission(key, wanted)).1));
    }
    let (_, out) = submit(&mut controller, 2, submission(9, on(4, 4, 4)));
    let attempt = launched(&out)[0];
    let trouble =
        |controller: &Controller| controller.trouble(&"gpu-02".parse().unwrap(), Uid(1000)).cloned();
    let never = |attempt| Event::NeverStarted { attempt, why: "no room".to_owned() };
    controller.step(at(3), never(vain[0]));
    assert!(trouble(&controller).is_some());
    controller.step(at(4), Event::AttemptStarted { attempt, at: at(4).wall });
    assert!(trouble(&controller).is_some(), "its script runs on gpu-01");
}

#[test]
fn whoever_is_asked_to_end_is_asked_once_and_ends_as_what_was_asked() {
    let (mut controller, job, attempt) = running();
    let actor = Actor::User { uid: owner(1000).uid, name: owner(1000).name, admin: false };
    let out = controller.step(at(50), Event::Wished { job, actor, wish: Wish::Cancel, why: None });
    assert!(told_to_end(&out));
    let out = part_ended(&mut controller, 60, attempt, "gpu-02", Outcome::NodeFail);
    assert!(!told_to_end(&out), "{out:?}");
    script_ended(&mut controller, 61, attempt, Outcome::Cancelled);
    assert_eq!(state(&controller, job), JobState::Cancelled);
    invariants::check(&controller).unwrap();
}

#[test]
fn room_is_made_on_several_nodes_and_a_victim_on_two_of_them_goes_once() {
    let mut controller = four();
    let mut config = config();
    (config.policy.preemption, config.policy.preempt_budget) = (true, 100);
    controller.step(at(0), Event::ConfigLoaded(Box::new(config)));
    let low = |key, wanted: Request| submission(key, Request { priority: 10, idempotent: true, ..wanted });
    let (wide, out) = submit(&mut controller, 1, low(1, on(3, 3, 4)));
    controller.step(at(2), Event::AttemptStarted { attempt: launched(&out)[0], at: at(2).wall });
    let victim = launched(&out)[0];
    let (_, out) = submit(&mut controller, 3, low(2, on(1, 1, 4)));
    let spared = launched(&out)[0];
    controller.step(at(4), Event::AttemptStarted { attempt: spared, at: at(4).wall });
    let urgent = submission(3, Request { priority: 90, ..on(3, 3, 4) });
    let (urgent, out) = submit(&mut controller, 1000, urgent);
    let ending: Vec<AttemptName> = out
        .iter()
        .filter_map(|decision| match decision {
            Decision::Terminate { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(ending.iter().filter(|attempt| **attempt == victim).count(), 1, "{ending:?}");
    let told = controller.explain(at(1001), urgent.number);
    assert!(
        told.reasons[0].ends_with("are being ended for it; then it starts on gpu-[01-02,04]"),
        "{told:?}"
    );
    for (at_ms, node) in [(1100, "gpu-02"), (1101, "gpu-03")] {
        part_ended(&mut controller, at_ms, victim, node, Outcome::Preempted);
    }
    let mut out = script_ended(&mut controller, 1102, victim, Outcome::Preempted);
    for other in ending.iter().filter(|attempt| **attempt != victim) {
        out = script_ended(&mut controller, 1103, *other, Outcome::Preempted);
    }
    assert_eq!((nodes(&out).len(), state(&controller, urgent)), (3, JobState::Starting), "{out:?}");
    assert_eq!(controller.job(wide.number).unwrap().rare.evictions, 1);
    invariants::check(&controller).unwrap();
}

#[test]
fn what_is_advised_starts_it_on_all_of_its_nodes() {
    let mut controller = four();
    for key in 1..=3 {
        submit(&mut controller, key, submission(key.into(), on(1, 1, 3)));
    }
    let (wide, out) = submit(&mut controller, 5, submission(9, on(4, 4, 4)));
    assert!(launched(&out).is_empty());
    let advice = controller.advise(at(6), wide.number, &|_| true).unwrap();
    let remedy = advice.remedy.clone().expect("with fewer cards on each");
    let mut changed = controller.clone().as_if(at(6), wide.number, &remedy).unwrap();
    assert_eq!(nodes(&changed.step(at(7), Event::Tick)).len(), 4, "{}", advice.text);
    assert_eq!(advice.text, "with --gpus-per-node 1 at once on gpu-[01-04]");
}

#[test]
fn fewer_nodes_are_advised_where_that_gives_up_least() {
    let mut controller = four();
    submit(&mut controller, 1, submission(1, on(1, 1, 4)));
    let (wide, out) = submit(&mut controller, 5, submission(9, on(4, 4, 4)));
    assert!(launched(&out).is_empty());
    let advice = controller.advise(at(6), wide.number, &|_| true).unwrap();
    assert_eq!(advice.text, "with --nodes 3, as much on each, at once on gpu-[02-04]");
    let changed = controller.clone().as_if(at(6), wide.number, &advice.remedy.unwrap());
    assert_eq!(nodes(&changed.unwrap().step(at(7), Event::Tick)).len(), 3);
}
