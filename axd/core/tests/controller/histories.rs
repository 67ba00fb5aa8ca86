//! The controller under random sequences of events: the invariants hold after
//! every step, a restored controller goes on exactly like the first, and every
//! move is one of the table.

use super::*;

use ax_core::api::Resolution;
use ax_core::controller::{Change, Snapshot};
use ax_core::job::state::allowed;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Submit {
        cpus: u32,
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
    Restart,
}

fn ops() -> impl Strategy<Value = Op> {
    let submit = (
        1..10_u32,
        0..5_u32,
        proptest::option::of(1..90_000_u64),
        any::<[bool; 3]>(),
        0..3_u32,
        proptest::option::of(0..2000_u64),
    )
        .prop_map(|(cpus, cards, slice, [high, hold, idempotent], retries, begin)| Op::Submit {
            cpus,
            cards,
            slice,
            high,
            hold,
            retries,
            idempotent,
            begin,
        });
    prop_oneof![
        4 => submit,
        3 => (1..20_u32, 0..7_u8, any::<bool>()).prop_map(|(job, what, admin)| Op::Act { job, what, admin }),
        6 => (1..30_u64, 0..8_u8).prop_map(|(epoch, what)| Op::Attempt { epoch, what }),
        1 => any::<bool>().prop_map(|stopped| Op::Reload { stopped }),
        1 => (8..12_u32).prop_map(|cpus| Op::Register { cpus }),
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
        _ => Event::Wished { job, actor, wish: Wish::Signal(10), why: None },
    })
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
        _ => Event::NeverStarted { attempt, why: "test".into() },
    })
}

fn event_of(controller: &Controller, names: &[AttemptName], key: u128, op: Op) -> Option<Event> {
    match op {
        Op::Submit { cpus, cards, slice, high, hold, retries, idempotent, begin } => {
            let mut wanted = request(cpus);
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
            config.queues[0].state = if stopped { QueueState::Stopped } else { QueueState::Open };
            Some(Event::ConfigLoaded(Box::new(config)))
        }
        Op::Register { cpus } => {
            // A node that shrinks below what it gave out is another test's.
            let has = controller.nodes().map(|n| n.inventory.cpus).max().unwrap_or(0);
            Some(Event::NodeRegistered(Inventory { cpus: cpus.max(has), ..node() }))
        }
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
            let mut twin = Controller::restore(controller.snapshot());
            let out = controller.step(now, event.clone());
            prop_assert_eq!(&twin.step(now, event), &out, "the same event gives the same decisions");
            prop_assert_eq!(twin.snapshot(), controller.snapshot());
            moves_are_of_the_table(&out);
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
