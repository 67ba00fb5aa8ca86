//! Cards that are not fit, or of which others hold something: who gets them, what is said of them, who takes them out of
//! use and gives them back.

use ax_core::api::ErrorClass;
use ax_core::config::Config;
use ax_core::controller::{Controller, Decision, Event, NodeWish, Snapshot};
use ax_core::gpu::{CardName, CardState, Health};
use ax_core::id::Uid;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, AttemptEnd};
use ax_core::node::{Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::WallTime;

use crate::{at, config, ended, launched, node, ready, request, state, submission, submit};

fn gb(number: u64) -> Megabytes {
    Megabytes::from_bytes(number * 1_000_000_000)
}

fn with_cards(count: u32, slice: Option<Megabytes>) -> Request {
    Request { cards: Some(CardRequest { count, kind: None, slice }), ..request(1) }
}

fn seen(index: u32, state: CardState) -> Event {
    Event::CardChanged { node: node().name, uuid: format!("card-{index}"), state }
}

fn held_by_others(mem: Megabytes) -> CardState {
    let holders = vec![format!("{} held by pid 4711 python of user li, not a job", mem.of_card())];
    CardState { foreign: mem, taken: mem, holders, ..CardState::default() }
}

fn asked(admin: bool, card: Option<u32>, wish: NodeWish) -> Event {
    let actor = Actor::User { uid: Uid(0), name: "ann".into(), admin };
    Event::NodeWished { node: node().name, card: card.map(CardName::Index), actor, wish }
}

fn drain() -> NodeWish {
    NodeWish::Drain { why: "its fan is loud".to_owned() }
}

fn cards_of(out: &[Decision]) -> Vec<u32> {
    let launches = out.iter().filter_map(|decision| match decision {
        Decision::Launch { allocation, .. } => Some(allocation),
        _ => None,
    });
    let mut cards: Vec<u32> = launches.flat_map(|given| &given.cards).map(|card| card.index).collect();
    cards.sort_unstable();
    cards
}

fn reasons(controller: &Controller, number: ax_core::id::JobNumber) -> Vec<String> {
    controller.explain(at(9), number).reasons
}

#[test]
fn who_waits_for_a_card_that_others_hold_is_told_who() {
    let mut controller = ready(config());
    for index in 0..3 {
        controller.step(at(1), seen(index, held_by_others(gb(21))));
    }
    let (first, out) = submit(&mut controller, 2, submission(1, with_cards(2, None)));
    assert!(cards_of(&out).is_empty());
    let told = reasons(&controller, first.number);
    assert_eq!(told[0], "needs 2 cards (1 of 4 free, 3 out of use) on gpu-01");
    assert_eq!(told[1], "gpu-01 card 0: 21 GB held by pid 4711 python of user li, not a job");
    assert_eq!(told.len(), 4);
    let out = controller.step(at(3), seen(1, CardState::default()));
    assert_eq!(cards_of(&out), [1, 3]);
}

#[test]
fn below_the_bound_what_others_hold_is_missing_for_slices_and_not_for_whole_cards() {
    let half = Megabytes(40_000);
    for (taken, fits) in [(0, true), (1, false)] {
        let mut controller = ready(config());
        for index in 0..4 {
            let state = CardState { taken: Megabytes(taken), ..held_by_others(Megabytes(taken)) };
            controller.step(at(1), seen(index, state));
        }
        let (_, out) = submit(&mut controller, 2, submission(1, with_cards(1, Some(half))));
        assert_eq!(cards_of(&out), [0]);
        let (_, out) = submit(&mut controller, 2, submission(2, with_cards(1, Some(half))));
        assert_eq!(cards_of(&out), [if fits { 0 } else { 1 }], "{taken} MB are held by others");
        let (_, out) = submit(&mut controller, 3, submission(3, with_cards(if fits { 3 } else { 2 }, None)));
        assert_eq!(launched(&out).len(), 1, "whoever has a card for himself has what is there");
    }
}

#[test]
fn the_bound_is_configured_and_a_reload_weighs_anew() {
    let mut controller = ready(config());
    for index in 0..4 {
        controller.step(at(1), seen(index, held_by_others(gb(2))));
    }
    let (_, out) = submit(&mut controller, 2, submission(1, with_cards(1, None)));
    assert!(cards_of(&out).is_empty());
    let mut lenient = config();
    lenient.resources.gpu_foreign_bound = gb(3);
    let out = controller.step(at(3), Event::ConfigLoaded(Box::new(lenient)));
    assert_eq!(cards_of(&out), [0]);
}

#[test]
fn a_drained_card_comes_back_by_an_administrator_alone_and_when_it_is_clean() {
    let mut controller = ready(config());
    let refused = |out: &[Decision]| match out {
        [Decision::Refused { class, why }] => Some((*class, why.clone())),
        _ => None,
    };
    let out = controller.step(at(1), asked(false, Some(3), drain()));
    assert_eq!(refused(&out).unwrap().0, ErrorClass::NoPermission);
    let out = controller.step(at(1), asked(true, Some(7), drain()));
    assert_eq!(refused(&out).unwrap().1, "gpu-01 has no card 7; it has 4");
    let out = controller.step(at(1), asked(true, Some(3), drain()));
    assert!(matches!(&out[..], [Decision::CardMoved { .. }]), "{out:?}");
    // Whatever is seen of it, and after a restart, and when the node comes again.
    controller.step(at(2), seen(3, CardState::default()));
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let mut controller = Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap());
    controller.step(at(3), Event::NodeRegistered(node()));
    let (job, out) = submit(&mut controller, 4, submission(1, with_cards(4, None)));
    assert!(cards_of(&out).is_empty());
    let told = reasons(&controller, job.number);
    assert_eq!(told[1], "gpu-01 card 3 is drained: by ann: its fan is loud");
    controller.step(at(5), seen(3, held_by_others(gb(5))));
    let out = controller.step(at(6), asked(true, Some(3), NodeWish::Resume));
    let why = "gpu-01 card 3 is not clean: 5 GB held by pid 4711 python of user li, not a job";
    assert_eq!(refused(&out).unwrap().1, why);
    controller.step(at(7), seen(3, CardState::default()));
    let out = controller.step(at(8), asked(true, Some(3), NodeWish::Resume));
    assert_eq!(cards_of(&out), [0, 1, 2, 3]);
    let out = controller.step(at(9), asked(true, Some(3), NodeWish::Resume));
    assert_eq!(refused(&out).unwrap().1, "gpu-01 card 3 is not drained");
}

#[test]
fn a_drained_node_ends_nobody_and_starts_nothing() {
    let mut controller = ready(config());
    let (running, _) = submit(&mut controller, 1, submission(1, request(1)));
    controller.step(at(2), asked(true, None, drain()));
    let (waiting, out) = submit(&mut controller, 3, submission(2, request(1)));
    assert!(launched(&out).is_empty());
    assert_eq!(state(&controller, running), JobState::Starting);
    assert_eq!(reasons(&controller, waiting.number)[0], "gpu-01 is drained by ann: its fan is loud");
    assert_eq!(controller.explain(at(4), waiting.number).expected_start, None);
    let out = controller.step(at(5), asked(true, None, NodeWish::Resume));
    assert_eq!(launched(&out).len(), 1);
}

/// What a job comes to that fails on a card with an error of its own.
fn fails_on_a_faulty_card(idempotent: bool, faulty: bool) -> (JobState, String) {
    let mut controller = ready(config());
    let request = Request { idempotent, ..with_cards(1, None) };
    let (job, out) = submit(&mut controller, 1, submission(1, request));
    let attempt = launched(&out)[0];
    controller.step(at(2), Event::AttemptStarted { attempt, at: at(2).wall });
    let why = Some("Xid 79: the card has fallen off the bus".to_owned());
    let fault = CardState { health: Health::Drained, why, faulty, ..CardState::default() };
    let out = controller.step(at(3), seen(0, fault));
    let noted = out.iter().any(|d| matches!(d, Decision::Noted { job: of, .. } if *of == job));
    assert!(noted, "it is written down with the job: {out:?}");
    assert_eq!(state(&controller, job), JobState::Running, "nobody is ended for it");
    let end = ended(Outcome::Failed, Some(1));
    let out = controller.step(at(4), Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
    let message = out.iter().find_map(|d| match d {
        Decision::Closed { end, .. } => end.message.clone(),
        _ => None,
    });
    if let [again] = launched(&out)[..] {
        let given = controller.job(again.job.number).unwrap().attempt.as_ref().unwrap();
        assert_ne!(given.allocation.cards[0].index, 0, "and not there again");
    }
    (state(&controller, job), message.unwrap_or_default())
}

#[test]
fn what_fails_on_a_card_that_failed_is_started_again_elsewhere_if_it_may() {
    let (state, message) = fails_on_a_faulty_card(true, true);
    assert_eq!(state, JobState::Starting);
    assert_eq!(message, "gpu-01 card 0 is drained: Xid 79: the card has fallen off the bus");
    assert_eq!(fails_on_a_faulty_card(false, true).0, JobState::Failed);
    assert_eq!(
        fails_on_a_faulty_card(true, false).0,
        JobState::Failed,
        "it was taken out of use, and is no fault"
    );
}

#[test]
fn what_is_the_jobs_own_business_is_noted_with_the_jobs_on_that_card() {
    let mut controller = ready(Config::default());
    let half = Some(Megabytes(40_000));
    let on_it: Vec<_> =
        (1..=2).map(|key| submit(&mut controller, 1, submission(key, with_cards(1, half))).0).collect();
    submit(&mut controller, 1, submission(3, with_cards(1, None)));
    let event = Event::CardNoted { node: node().name, uuid: "card-0".into(), what: "Xid 31".into() };
    let out = controller.step(at(2), event);
    let noted: Vec<_> = out.iter().filter_map(Decision::touches).collect();
    assert_eq!((noted, out.len()), (on_it, 2));
}

/// What becomes of a card on which a job of 40 GB of it failed, after it was seen to use so much; and what it asks for then.
/// `ended`: it was ended for using too much. `state`: what was seen of the card meanwhile.
fn after_failing(peak: Megabytes, ended_for_it: bool, state: CardState) -> (Health, Option<Megabytes>) {
    let mut controller = ready(config());
    let request = Request { retries: 1, ..with_cards(1, Some(gb(40))) };
    let (job, out) = submit(&mut controller, 1, submission(1, request));
    let attempt = launched(&out)[0];
    controller.step(at(2), Event::AttemptStarted { attempt, at: at(2).wall });
    controller.step(at(3), seen(0, state));
    if ended_for_it {
        let words = "uses more than its slice".to_owned();
        controller.step(at(3), Event::OverSlice { attempt, words, peak, ends: true });
    }
    let outcome = if ended_for_it { Outcome::OutOfMemory } else { Outcome::Failed };
    let end = AttemptEnd { card_peak: Some(peak), ..ended(outcome, Some(1)) };
    controller.step(at(4), Event::AttemptEnded { attempt, at: at(4).wall, end });
    let health = controller.nodes().next().unwrap().card_state("card-0").map(|state| state.health);
    let slice = controller.job(job.number).unwrap().request.cards.as_ref().unwrap().slice;
    (health.unwrap_or_default(), slice)
}

/// So much free beside what jobs use, so much in use by nobody, and by strangers.
fn lacking(free: u64, unexplained: u64, foreign: u64) -> CardState {
    let (free, unexplained, foreign) = (Some(gb(free)), gb(unexplained), gb(foreign));
    CardState { free, unexplained, foreign, ..CardState::default() }
}

#[test]
fn who_runs_out_of_a_slice_asks_for_more_or_the_card_is_suspect() {
    let more = Some(Megabytes(gb(40).0 * 3 / 2));
    for ended_for_it in [true, false] {
        let after = |peak| after_failing(peak, ended_for_it, lacking(40, 0, 0));
        assert_eq!(after(gb(38)), (Health::Healthy, more));
        assert_eq!(after(gb(30)), (Health::Healthy, Some(gb(40))));
        assert_eq!(after(gb(10)), (Health::Healthy, Some(gb(40))), "it had what it asked for");
    }
    // 10 of 40 GB used and 12 left, for 58 that nobody accounts for.
    let odd = |peak, state| after_failing(peak, false, state).0;
    assert_eq!(odd(gb(10), lacking(12, 58, 0)), Health::Suspect);
    assert_eq!(odd(gb(10), lacking(31, 39, 0)), Health::Healthy, "there was enough for it");
    assert_eq!(odd(gb(10), lacking(12, 0, 58)), Health::Healthy, "others have it, and are named");
    assert_eq!(odd(gb(10), lacking(12, 1, 0)), Health::Healthy, "its neighbours have it");
    assert_eq!(odd(gb(21), lacking(1, 58, 0)), Health::Healthy, "it was not far below");
    assert_eq!(
        odd(gb(10), CardState { free: None, ..lacking(0, 58, 0) }),
        Health::Healthy,
        "nobody measures"
    );
}

/// The same node as a driver shows it: its first card has a UUID.
fn with_names(named: bool) -> Inventory {
    let mut inventory = node();
    for card in &mut inventory.cards {
        let declared = Card::declared_name(&inventory.name, card.index);
        card.uuid = if named { format!("GPU-{}", card.index) } else { declared };
    }
    inventory
}

#[test]
fn a_card_that_was_drained_before_it_had_a_uuid_stays_drained_until_a_person_resumes_it() {
    let mut controller = Controller::new(config());
    controller.step(at(0), Event::NodeRegistered(with_names(false)));
    let (job, _) = submit(&mut controller, 1, submission(1, with_cards(1, None)));
    controller.step(at(2), asked(true, Some(0), drain()));
    let out = controller.step(at(3), Event::NodeRegistered(with_names(true)));
    let moved: Vec<(&str, Health)> = out
        .iter()
        .filter_map(|decision| match decision {
            Decision::CardMoved { uuid, state, .. } => Some((uuid.as_str(), state.health)),
            _ => None,
        })
        .collect();
    assert_eq!(moved, [("gpu-01-0", Health::Healthy), ("GPU-0", Health::Drained)]);
    let (_, out) = submit(&mut controller, 4, submission(2, with_cards(4, None)));
    assert!(cards_of(&out).is_empty());
    // Whoever was given it under its old name holds it still, and is told what is wrong with it.
    let faulty = CardState { faulty: true, ..CardState::default() };
    let faulty = Event::CardChanged { node: node().name, uuid: "GPU-0".to_owned(), state: faulty };
    let out = controller.step(at(5), faulty);
    let noted = |d: &Decision| matches!(d, Decision::Noted { job: told, .. } if *told == job);
    assert!(out.iter().any(noted), "{out:?}");
    controller.step(at(6), asked(true, Some(0), NodeWish::Resume));
    let out = controller.step(at(7), Event::NodeRegistered(with_names(true)));
    assert!(!out.iter().any(|decision| matches!(decision, Decision::CardMoved { .. })), "{out:?}");
}

/// What a restart gives back where the driver has gone, or has come.
fn restarted(controller: &Controller, named: bool) -> Controller {
    let snapshot = controller.snapshot();
    let mut controller = Controller::restore(Snapshot { nodes: vec![with_names(named)], ..snapshot });
    if controller.has_renamed_cards() {
        controller.step(at(9), Event::NodeRegistered(with_names(named)));
    }
    assert!(!controller.has_renamed_cards());
    controller
}

fn drained_cards(controller: &Controller) -> Vec<String> {
    let node = controller.nodes().next().unwrap();
    let is = |uuid: &String| node.card_state(uuid).is_some_and(|state| state.health == Health::Drained);
    let all = node.inventory.cards.iter().map(|card| card.uuid.clone());
    all.filter(is).collect()
}

#[test]
fn a_card_that_was_drained_under_its_uuid_stays_drained_where_it_is_only_declared() {
    let mut controller = Controller::new(config());
    controller.step(at(0), Event::NodeRegistered(with_names(true)));
    controller.step(at(1), asked(true, Some(2), drain()));
    let foreign =
        Event::CardChanged { node: node().name, uuid: "GPU-2".to_owned(), state: held_by_others(gb(40)) };
    controller.step(at(2), foreign);
    let mut controller = restarted(&controller, false);
    assert_eq!(drained_cards(&controller), ["gpu-01-2"]);
    let (_, out) = submit(&mut controller, 10, submission(1, with_cards(4, None)));
    assert!(cards_of(&out).is_empty());
    // It is the same card when the driver is back, whatever number it has then.
    let back = restarted(&controller, true);
    assert_eq!(drained_cards(&back), ["GPU-2"]);
    let mut other = with_names(true);
    other.cards.swap(2, 3);
    (other.cards[2].index, other.cards[3].index) = (2, 3);
    let mut back = Controller::restore(Snapshot { nodes: vec![other.clone()], ..controller.snapshot() });
    assert!(back.has_renamed_cards());
    back.step(at(11), Event::NodeRegistered(other));
    assert_eq!(drained_cards(&back), ["GPU-2"]);
    assert_eq!(drained_cards(&restarted(&back, false)), ["gpu-01-3"], "by its new number");
    // Who gives it back gives it back under both names: nobody has looked at what others hold of it meanwhile.
    let out = controller.step(at(12), asked(true, Some(2), NodeWish::Resume));
    assert!(!out.iter().any(|decision| matches!(decision, Decision::Refused { .. })), "{out:?}");
    assert!(drained_cards(&controller).is_empty());
    assert!(drained_cards(&restarted(&controller, true)).is_empty());
}

/// Two parts in the place of card 3, which is divided.
fn divided() -> Inventory {
    let mut parts = with_names(true);
    let whole = parts.cards.pop().unwrap();
    for instance in [1, 2] {
        let mut part = Card::new(3 + instance, format!("MIG-{instance}"), None, Megabytes(9_000));
        let mig =
            ax_core::gpu::Mig { parent: whole.uuid.clone(), gpu_instance: instance, compute_instance: 0 };
        (part.hardware.mig, part.hardware.whole) = (Some(mig), Some(3));
        parts.cards.push(part);
    }
    parts
}

/// The same controller after a restart on this node.
fn on(controller: &Controller, node: Inventory) -> Controller {
    let mut again = Controller::restore(Snapshot { nodes: vec![node.clone()], ..controller.snapshot() });
    if again.has_renamed_cards() {
        again.step(at(50), Event::NodeRegistered(node));
    }
    assert!(!again.has_renamed_cards());
    again
}

#[test]
fn what_a_part_was_drained_for_its_card_is_and_the_other_way_round() {
    let mut controller = Controller::new(config());
    controller.step(at(0), Event::NodeRegistered(divided()));
    controller.step(at(1), asked(true, Some(4), drain()));
    assert_eq!(drained_cards(&controller), ["MIG-1"], "one part alone");
    let out = controller.step(at(1), asked(true, Some(3), drain()));
    let told = "gpu-01 card 3 is divided; its parts are cards 4 and 5";
    assert!(out.iter().any(|each| matches!(each, Decision::Refused { why, .. } if why == told)), "{out:?}");
    // Only declared, and found again: not the card of the part's own number.
    let declared = on(&controller, with_names(false));
    assert_eq!(drained_cards(&declared), ["gpu-01-3"]);
    assert_eq!(drained_cards(&on(&declared, divided())), ["MIG-1"]);
    assert_eq!(drained_cards(&on(&declared, with_names(true))), ["GPU-3"]);
    // Not divided any more, and divided again.
    let whole = on(&controller, with_names(true));
    assert_eq!(drained_cards(&whole), ["GPU-3"]);
    assert_eq!(drained_cards(&on(&whole, divided())), ["MIG-1", "MIG-2"], "it may be any of them");
    let declared = on(&whole, with_names(false));
    assert_eq!(drained_cards(&declared), ["gpu-01-3"]);
    assert_eq!(drained_cards(&on(&declared, divided())), ["MIG-1", "MIG-2"]);
    // Drained as a declared one.
    let mut declared = Controller::new(config());
    declared.step(at(0), Event::NodeRegistered(with_names(false)));
    declared.step(at(1), asked(true, Some(3), drain()));
    assert_eq!(drained_cards(&on(&declared, divided())), ["MIG-1", "MIG-2"]);
    // Given back as a whole.
    controller.step(at(2), asked(true, Some(5), drain()));
    for node in [with_names(false), with_names(true)] {
        let mut other = on(&controller, node.clone());
        assert_eq!(drained_cards(&other).len(), 1);
        other.step(at(60), asked(true, Some(3), NodeWish::Resume));
        assert!(drained_cards(&other).is_empty());
        assert!(
            drained_cards(&on(&other, node)).is_empty() && drained_cards(&on(&other, divided())).is_empty()
        );
    }
}

#[test]
fn a_part_of_a_card_is_no_declared_card() {
    let mut parts = with_names(true);
    let mig = ax_core::gpu::Mig { parent: "GPU-9".to_owned(), gpu_instance: 1, compute_instance: 0 };
    parts.cards[3].hardware.mig = Some(mig);
    let mut controller = Controller::new(config());
    controller.step(at(0), Event::NodeRegistered(parts));
    controller.step(at(1), asked(true, Some(3), drain()));
    assert!(drained_cards(&restarted(&controller, false)).is_empty());
}
