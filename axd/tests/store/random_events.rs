//! Whatever happens to the controller: what the store gives back is what the
//! controller held, and replaying the recorded events leads to the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use ax_core::api::Resolution;
use ax_core::controller::{Change, Controller, Event, Known, NodeWish, Wish};
use ax_core::gpu::{CardName, CardState, Health};
use ax_core::id::{AttemptName, HostName, JobNumber, Uid};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, AttemptEnd, Job};
use ax_core::size::Megabytes;
use ax_core::time::Now;
use axd::store::check;
use axd::store::events::{EventReader, Recorded};
use proptest::prelude::*;

use crate::fixture::*;

#[derive(Debug, Clone)]
enum Op {
    Submit { cpus: u32, hold: bool, retries: u32, idempotent: bool, begin: Option<u64> },
    Act { job: u32, what: u8 },
    Attempt { epoch: u64, what: u8 },
    Card { index: u32, what: u8 },
    Restart,
}

fn ops() -> impl Strategy<Value = Op> {
    let submit = (1..10_u32, any::<[bool; 2]>(), 0..3_u32, proptest::option::of(0..2000_u64)).prop_map(
        |(cpus, [hold, idempotent], retries, begin)| Op::Submit { cpus, hold, retries, idempotent, begin },
    );
    prop_oneof![
        4 => submit,
        3 => (1..12_u32, 0..7_u8).prop_map(|(job, what)| Op::Act { job, what }),
        6 => (0..20_u64, 0..7_u8).prop_map(|(epoch, what)| Op::Attempt { epoch, what }),
        2 => (0..4_u32, 0..7_u8).prop_map(|(index, what)| Op::Card { index, what }),
        1 => Just(Op::Restart),
    ]
}

fn act(controller: &Controller, number: u32, what: u8) -> Option<Event> {
    let job = controller.job(JobNumber(number))?.id;
    let actor = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
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

/// A card is seen, or somebody takes it or its node out of use and gives it back.
fn of_card(index: u32, what: u8) -> Event {
    let name = node(1).name;
    let wish = |card, wish| {
        let actor = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
        Event::NodeWished { node: name.clone(), card, actor, wish }
    };
    let drain = || NodeWish::Drain { why: "it is hot".into() };
    match what {
        0 => wish(Some(CardName::Index(index)), drain()),
        1 => wish(Some(CardName::Index(index)), NodeWish::Resume),
        2 => wish(None, drain()),
        3 => wish(None, NodeWish::Resume),
        what => {
            let health = if what == 4 { Health::Suspect } else { Health::Healthy };
            let foreign = Megabytes(if what == 5 { 20_000 } else { 7 });
            let why = (what == 4).then(|| "it does not answer".to_owned());
            let state = CardState { health, foreign, why, faulty: what == 4, ..CardState::default() };
            Event::CardChanged { node: name, uuid: format!("card-{index}"), state }
        }
    }
}

/// Who is drained, and of each card its health and whether others hold too much of it.
fn withheld(known: &BTreeMap<HostName, Known>) -> Vec<(HostName, Option<Box<str>>, Vec<String>)> {
    let of_card = |(uuid, state): (&String, &CardState)| {
        let much = state.outside() >= config().resources.gpu_foreign_bound;
        let odd = state.health != Health::Healthy || much;
        odd.then(|| format!("{uuid} {} {:?} {} {much}", state.health, state.why, state.faulty))
    };
    let of_node = |(name, known): (&HostName, &Known)| {
        (name.clone(), known.drained.clone(), known.cards.iter().filter_map(of_card).collect::<Vec<_>>())
    };
    known.iter().map(of_node).filter(|(_, drained, cards)| drained.is_some() || !cards.is_empty()).collect()
}

fn news(attempt: AttemptName, what: u8, now: Now) -> Event {
    let end = |outcome, exit_code| Event::AttemptEnded {
        attempt,
        at: now.wall,
        end: AttemptEnd {
            outcome,
            exit_code,
            signal: None,
            message: Some("so it was".into()),
            card_peak: Some(Megabytes(1000 * attempt.epoch.0)),
        },
    };
    match what {
        0 | 1 => Event::AttemptStarted { attempt, at: now.wall },
        2 => Event::AttemptEnding { attempt },
        3 => end(Outcome::Succeeded, Some(0)),
        4 => end(Outcome::Failed, Some(1)),
        5 => end(Outcome::LeaseLost, None),
        _ => Event::NeverStarted { attempt, why: "test".into() },
    }
}

fn event_of(controller: &Controller, names: &[AttemptName], key: u128, now: Now, op: Op) -> Option<Event> {
    match op {
        Op::Submit { cpus, hold, retries, idempotent, begin } => {
            let mut wanted = request(cpus);
            (wanted.retries, wanted.idempotent) = (retries, idempotent);
            // Some make room for others.
            wanted.priority = if idempotent { 10 } else { 90 };
            wanted.begin = begin.map(|ms| at(ms).wall);
            let mut new = submission(key, wanted);
            new.hold = hold;
            new.name = format!("{}-{key}", if hold { "test" } else { "train" }).into();
            Some(Event::Submitted(Box::new(new)))
        }
        Op::Act { job, what } => act(controller, job, what),
        Op::Attempt { epoch, what } => {
            let living = names.iter().rev().nth(usize::try_from(epoch).ok()?)?;
            Some(news(*living, what, now))
        }
        Op::Card { index, what } => Some(of_card(index, what)),
        Op::Restart => None,
    }
}

/// What a restart must get back of what the controller holds. A back-off that has passed while
/// the job was held is no longer in memory, and passes again at once after a restart.
fn to_come_back(controller: &Controller, now: Now) -> Vec<Job> {
    let comes_back = |job: &&Job| !job.state.is_final() || job.state == JobState::FailedUnknownState;
    controller.jobs().filter(comes_back).cloned().map(|job| settled(job, now)).collect()
}

fn settled(mut job: Job, now: Now) -> Job {
    job.rare.change(|rare| rare.backoff_until = rare.backoff_until.filter(|until| *until > now.boot));
    job
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restore_and_replay_give_what_the_controller_held(ops in proptest::collection::vec(ops(), 1..40)) {
        let place = Place::in_memory();
        let mut writer = place.writer();
        let (mut cluster, mut names) = (Cluster::new(), Vec::new());
        let mut last = at(0);
        let mut config = config();
        config.policy.preemption = true;
        cluster.step(&writer, last, Event::ConfigLoaded(Box::new(config)));
        writer.record_snapshot(last, cluster.controller.snapshot());
        for (step, op) in ops.into_iter().enumerate() {
            last = at(step as u64 * 400);
            if let Op::Restart = op {
                writer.close().unwrap();
                let mut store = place.open();
                let restored = store.restore(last.wall).unwrap();
                let jobs: Vec<Job> = restored.jobs.into_iter().map(|job| settled(job, last)).collect();
                prop_assert_eq!(&jobs, &to_come_back(&cluster.controller, last));
                let known = cluster.controller.snapshot().known;
                prop_assert_eq!(withheld(&restored.known), withheld(&known));
                prop_assert_eq!(restored.next_number, cluster.controller.next_number());
                prop_assert!(restored.next_epoch >= cluster.controller.next_epoch());
                prop_assert_eq!(&restored.history, cluster.controller.history());
                prop_assert_eq!(&restored.losses, cluster.controller.losses());
                let mut snapshot = cluster.controller.snapshot();
                snapshot.jobs = jobs.into_iter().map(Arc::new).collect();
                snapshot.next_epoch = restored.next_epoch;
                snapshot.known = restored.known;
                cluster.controller = Controller::restore(snapshot);
                writer = spawn(store);
                writer.record_snapshot(last, cluster.controller.snapshot());
                continue;
            }
            let Some(event) = event_of(&cluster.controller, &names, step as u128, last, op) else { continue };
            names.extend(launched(&cluster.step(&writer, last, event)));
        }
        writer.close().unwrap();
        let report = check::check(&place.paths).unwrap();
        prop_assert!(report.is_good(), "{:?}", report);
        let restored = place.open().restore(last.wall).unwrap();
        prop_assert_eq!(&restored.history, cluster.controller.history());
        prop_assert_eq!(&restored.losses, cluster.controller.losses());
        let jobs: Vec<Job> = restored.jobs.into_iter().map(|job| settled(job, last)).collect();
        prop_assert_eq!(&jobs, &to_come_back(&cluster.controller, last));
        let replayed = replay(&place, last);
        prop_assert_eq!(replayed.snapshot(), cluster.controller.snapshot());
    }
}

/// Whatever was written before.
#[test]
fn what_was_last_known_of_a_card_comes_back() {
    let place = Place::in_memory();
    let writer = place.writer();
    let mut cluster = Cluster::new();
    cluster.step(&writer, at(0), Event::ConfigLoaded(Box::new(config())));
    for (ms, what) in [(1, 4), (2, 0)] {
        cluster.step(&writer, at(ms), of_card(0, what));
    }
    writer.close().unwrap();
    let known = cluster.controller.snapshot().known;
    assert_eq!(known[&node(1).name].cards["card-0"].health, Health::Drained);
    let restored = place.open().restore(at(3).wall).unwrap();
    assert_eq!(withheld(&restored.known), withheld(&known));
}

/// From the last snapshot on, each step must decide what it decided then.
fn replay(place: &Place, now: Now) -> Controller {
    let events = EventReader::open(&place.paths.events()).unwrap();
    let snapshot = events.snapshot_before(now.wall).unwrap().expect("a snapshot");
    let mut controller = None;
    events
        .each_from(snapshot, |entry| {
            match entry.recorded {
                Recorded::Snapshot(snapshot) => controller = Some(Controller::restore(*snapshot)),
                Recorded::Step(step) => {
                    let again = controller.as_mut().expect("a snapshot first").step(entry.now, step.event);
                    assert_eq!(again, step.decisions);
                }
                Recorded::Gap => panic!("nothing was left out"),
            }
            true
        })
        .unwrap();
    controller.expect("a snapshot")
}
