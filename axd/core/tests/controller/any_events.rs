//! The controller under random sequences of events: the invariants hold after every step, a restored controller
//! goes on exactly like the first, every move is one of the table and told, and whoever waits has a reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use ax_core::api::Resolution;
use ax_core::config::QueueState;
use ax_core::controller::{Change, Controller, Decision, Event, Needs, NodeWish, Snapshot, Wish};
use ax_core::gpu::{CardName, CardState, Health};
use ax_core::id::{AttemptName, JobNumber, Uid};
use ax_core::invariants;
use ax_core::job::Actor;
use ax_core::job::request::CardRequest;
use ax_core::job::spec::GpuCount;
use ax_core::job::state::{JobState, Outcome, allowed};
use ax_core::node::Inventory;
use ax_core::size::Megabytes;
use ax_core::time::{Now, Span, WallTime};
use proptest::prelude::*;

use crate::{at, config, ended, launched, node, ready, request, submission};

#[derive(Debug, Clone)]
enum Op {
    Submit {
        cpus: u32,
        ram: u64,
        cards: u32,
        slice: Option<u64>,
        high: bool,
        hold: bool,
        retries: u32,
        idempotent: bool,
        begin: Option<u64>,
    },
    Act {
        job: u32,
        what: u8,
        admin: bool,
    },
    Attempt {
        epoch: u64,
        what: u8,
    },
    Reload {
        stopped: bool,
    },
    Register {
        cpus: u32,
    },
    Card {
        index: u32,
        what: u8,
        taken: u64,
    },
    Restart,
}

fn ops() -> impl Strategy<Value = Op> {
    let submit =
        (
            1..10_u32,
            1..40_000_u64,
            0..5_u32,
            proptest::option::of(1..90_000_u64),
            any::<[bool; 3]>(),
            0..3_u32,
            proptest::option::of(0..2000_u64),
        )
            .prop_map(|(cpus, ram, cards, slice, [high, hold, idempotent], retries, begin)| {
                Op::Submit { cpus, ram, cards, slice, high, hold, retries, idempotent, begin }
            });
    prop_oneof![
        4 => submit,
        3 => (1..20_u32, 0..9_u8, any::<bool>()).prop_map(|(job, what, admin)| Op::Act { job, what, admin }),
        6 => (1..30_u64, 0..11_u8).prop_map(|(epoch, what)| Op::Attempt { epoch, what }),
        1 => any::<bool>().prop_map(|stopped| Op::Reload { stopped }),
        1 => (8..12_u32).prop_map(|cpus| Op::Register { cpus }),
        2 => (0..5_u32, 0..9_u8, 0..90_000_u64).prop_map(|(index, what, taken)| Op::Card { index, what, taken }),
        1 => Just(Op::Restart),
    ]
}

fn job_event(controller: &Controller, number: u32, what: u8, admin: bool) -> Option<Event> {
    let job = controller.job(JobNumber(number))?.id;
    let actor = Actor::User { uid: Uid(if admin { 0 } else { 1000 }), name: Arc::from("who"), admin };
    let change = Change { priority: Some(99), queue: Some("high".parse().unwrap()), ..Change::default() };
    Some(match what {
        0 => Event::Wished { job, actor, wish: Wish::Cancel, why: None },
        1 => Event::Wished { job, actor, wish: Wish::Hold, why: None },
        2 | 3 => Event::Wished { job, actor, wish: Wish::Release, why: None },
        4 => Event::Wished { job, actor, wish: Wish::Update(Box::new(change)), why: None },
        5 => Event::Wished { job, actor, wish: Wish::Resolve(Resolution::Rerun), why: None },
        6 => Event::Wished { job, actor, wish: Wish::Keep(Span::seconds(60)), why: Some("a".to_owned()) },
        7 => Event::Wished { job, actor, wish: Wish::Checkpointed(None), why: None },
        9 | 10 => {
            let seconds = [Some(Span::seconds(u64::from(number) * 7)), None][usize::from(what) - 9];
            let change = Change { time_limit: Some(seconds), ..Change::default() };
            Event::Wished { job, actor, wish: Wish::Update(Box::new(change)), why: None }
        }
        11 => {
            let gpus = Some(GpuCount { kind: None, count: 1 + number % 3 });
            let needs = Needs { gpus, cpus_per_task: Some(1 + number % 5), ..Needs::default() };
            let needs = Needs { mem: number.is_multiple_of(2).then_some(Megabytes(30_000)), ..needs };
            let change = Change { needs, ..Change::default() };
            Event::Wished { job, actor, wish: Wish::Update(Box::new(change)), why: None }
        }
        _ => Event::Wished { job, actor, wish: Wish::Signal(10), why: None },
    })
}

/// Something is seen of a card, or somebody drains it, or its node, or gives it back.
fn card_event(index: u32, what: u8, taken: u64) -> Event {
    let node = node().name;
    let wished = |card, wish| Event::NodeWished {
        node: node.clone(),
        card,
        actor: Actor::User { uid: Uid(0), name: Arc::from("root"), admin: true },
        wish,
    };
    let drain = || NodeWish::Drain { why: "test".to_owned() };
    let health = [Health::Healthy, Health::Healthy, Health::Suspect, Health::Drained];
    match what {
        4 => wished(Some(CardName::Index(index)), drain()),
        5 => wished(Some(CardName::Index(index)), NodeWish::Resume),
        6 => wished(None, drain()),
        7 => wished(None, NodeWish::Resume),
        8 => Event::CardNoted { node, uuid: format!("card-{index}"), what: "Xid 31".to_owned() },
        what => {
            let (outside, health) = (Megabytes(taken / 50), health[usize::from(what)]);
            let state = CardState {
                health,
                foreign: outside,
                taken: Megabytes(taken),
                faulty: health == Health::Drained,
                ..CardState::default()
            };
            Event::CardChanged { node, uuid: format!("card-{index}"), state }
        }
    }
}

/// An event of the attempt with that epoch, living or dead.
fn attempt_event(names: &[AttemptName], epoch: u64, what: u8) -> Option<Event> {
    let attempt = *names.iter().find(|a| a.epoch.0 == epoch)?;
    let end =
        |outcome, code| Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(outcome, code) };
    Some(match what {
        0 => Event::AttemptStarted { attempt, at: WallTime(0) },
        1 => Event::AttemptEnding { attempt },
        2 => end(Outcome::Succeeded, Some(0)),
        3 => end(Outcome::Failed, Some(1)),
        4 => end(Outcome::LeaseLost, None),
        5 => end(Outcome::NodeFail, None),
        6 => end(Outcome::Cancelled, None),
        7 => Event::CardsIdle { attempt, lasted: Span::seconds(epoch * 7) },
        8 => Event::CardsIdle { attempt, lasted: Span::seconds(epoch * 700) },
        9 => Event::CardsBusy { attempt },
        _ => Event::NeverStarted { attempt, why: "test".into() },
    })
}

fn event_of(controller: &Controller, names: &[AttemptName], key: u128, op: Op) -> Option<Event> {
    match op {
        Op::Submit { cpus, ram, cards, slice, high, hold, retries, idempotent, begin } => {
            let mut wanted = request(cpus);
            wanted.ram = Megabytes(ram);
            wanted.cards =
                (cards > 0).then(|| CardRequest { count: cards, kind: None, slice: slice.map(Megabytes) });
            (wanted.retries, wanted.idempotent) = (retries, idempotent);
            wanted.begin = begin.map(|ms| at(ms).wall);
            let mut new = submission(key, wanted);
            new.hold = hold;
            if high {
                new.queue = "high".parse().unwrap();
            }
            Some(Event::Submitted(Box::new(new)))
        }
        Op::Act { job, what, admin } => job_event(controller, job, what, admin),
        Op::Attempt { epoch, what } => attempt_event(names, epoch, what),
        Op::Reload { stopped } => {
            let mut config = config();
            (config.policy.idle, config.policy.idle_end) =
                (Some(Span::seconds(60)), Some(Span::seconds(600)));
            config.queues[0].restart_slices_every = Some(Span::seconds(1));
            config.queues[0].state = if stopped { QueueState::Stopped } else { QueueState::Open };
            Some(Event::ConfigLoaded(Box::new(config)))
        }
        Op::Register { cpus } => {
            // A node that shrinks below what it gave out is another test's.
            let has = controller.nodes().map(|n| n.inventory.cpus).max().unwrap_or(0);
            Some(Event::NodeRegistered(Inventory { cpus: cpus.max(has), ..node() }))
        }
        Op::Card { index, what, taken } => Some(card_event(index, what, taken)),
        Op::Restart => None,
    }
}

fn moves_are_of_the_table(out: &[Decision]) {
    for decision in out {
        if let Decision::Moved { from: Some(from), cause: Some(cause), to, .. } = decision {
            assert!(allowed(*from, *cause, *to), "{decision:?}");
        }
    }
}

/// Each change of a job's state is told: the moves lead from where it was to where it is.
fn every_move_is_told(before: &BTreeMap<JobNumber, JobState>, controller: &Controller, out: &[Decision]) {
    let mut told = before.clone();
    for decision in out {
        if let Decision::Moved { job, from, to, .. } = decision {
            assert_eq!(told.insert(job.number, *to), *from, "{decision:?}");
        }
    }
    for job in controller.jobs() {
        assert_eq!(told.get(&job.id.number), Some(&job.state), "{}: {out:?}", job.id);
    }
}

/// What was ignored changed nothing.
fn what_was_ignored_is_as_it_was(before: &Snapshot, controller: &Controller, out: &[Decision]) {
    if let [Decision::Ignored { job: Some(id), .. }] = out {
        let was = before.jobs.iter().find(|job| job.id == *id);
        assert!(controller.job(id.number).is_none_or(|job| was.is_some_and(|was| **was == *job)), "{out:?}");
    }
}

/// What is withheld from jobs is given to nobody.
fn nothing_that_is_withheld_is_given_out(controller: &Controller, out: &[Decision]) {
    for decision in out {
        let Decision::Launch { allocation, .. } = decision else { continue };
        let node = controller.nodes().find(|node| node.inventory.name == allocation.node).unwrap();
        assert_eq!(node.drained(), None, "{decision:?}");
        for share in &allocation.cards {
            let state = node.card_state(&share.uuid).cloned().unwrap_or_default();
            let bound = controller.config().resources.gpu_foreign_bound;
            assert!(state.health == Health::Healthy && state.outside() < bound, "{state:?}: {decision:?}");
        }
    }
}

/// Promise 4: no job starts without a reason, for it and for the place, and none waits without one.
fn whoever_starts_or_waits_has_a_reason(controller: &Controller, now: Now, out: &[Decision]) {
    for decision in out {
        if let Decision::Launch { allocation, why, .. } = decision {
            assert!(why.contains("queue") && why.contains(allocation.node.as_str()), "{decision:?}");
        }
    }
    for (job, told) in controller.explain_waiting(now) {
        assert!(told.reasons.iter().any(|reason| !reason.is_empty()), "{} is {}", job.id, job.state);
        assert_eq!(controller.explain(now, job.id.number), told);
    }
}

/// What is foretold of a submission is what becomes of it.
fn a_sketch_foretells(controller: &Controller, now: Now, event: &Event) {
    if !matches!(event, Event::Submitted(_)) {
        return;
    }
    let mut whole = controller.clone();
    whole.step(now, Event::Tick);
    let (mut sketch, number) = (whole.sketch(), whole.next_number());
    assert_eq!(sketch.step(now, event.clone()), whole.step(now, event.clone()));
    assert_eq!(sketch.explain(now, number), whole.explain(now, number));
}

/// How many random sequences: many more in the long form of the tests.
fn cases() -> u32 {
    if std::env::var_os("AX_TEST_LONG").is_some() { 20_000 } else { 400 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_after_any_events(ops in proptest::collection::vec(ops(), 1..60)) {
        let mut controller = ready(config());
        let mut names = Vec::new();
        let mut epochs_seen = std::collections::BTreeSet::new();
        for (step, op) in ops.into_iter().enumerate() {
            let now = at(step as u64 * 100);
            if let Op::Restart = op {
                let text = serde_json::to_string(&controller.snapshot()).unwrap();
                let back: Snapshot = serde_json::from_str(&text).unwrap();
                let restored = Controller::restore(back);
                prop_assert_eq!(restored.snapshot(), controller.snapshot());
                controller = restored;
                continue;
            }
            let Some(event) = event_of(&controller, &names, step as u128, op) else { continue };
            a_sketch_foretells(&controller, now, &event);
            let before = controller.snapshot();
            let mut twin = Controller::restore(before.clone());
            let out = controller.step(now, event.clone());
            prop_assert_eq!(&twin.step(now, event), &out, "the same event gives the same decisions");
            prop_assert_eq!(twin.snapshot(), controller.snapshot());
            moves_are_of_the_table(&out);
            every_move_is_told(&before.jobs.iter().map(|j| (j.id.number, j.state)).collect(), &controller, &out);
            what_was_ignored_is_as_it_was(&before, &controller, &out);
            whoever_starts_or_waits_has_a_reason(&controller, now, &out);
            nothing_that_is_withheld_is_given_out(&controller, &out);
            prop_assert!(controller.active_in(&"high".parse().unwrap()) <= 2, "the limit of a queue");
            for attempt in launched(&out) {
                prop_assert!(epochs_seen.insert(attempt.epoch), "epoch {} given twice", attempt.epoch);
                names.push(attempt);
            }
            if let Err(wrong) = invariants::check(&controller) {
                prop_assert!(false, "{}", wrong);
            }
        }
    }
}
