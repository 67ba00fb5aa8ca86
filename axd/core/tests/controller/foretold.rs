//! Who waits for a limit on what is held is told when they start: the plan knows when those who hold it end.

use std::collections::BTreeMap;

use ax_core::config::{Config, Most, Queue, QueueState};
use ax_core::controller::{Controller, Event, Submission};
use ax_core::explain::Condition;
use ax_core::id::{AttemptName, JobNumber};
use ax_core::invariants;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::{JobState, Outcome};
use ax_core::node::Inventory;
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};
use proptest::prelude::*;

use crate::{at, ended, launched, owner, request, submission};

/// CPUs or, in thousands of MB, memory that one holds at most.
#[derive(Debug, Clone, Copy)]
enum Limit {
    CpusOfUser(u32),
    RamOfUserInQueue(u32),
    CpusOfQueue(u32),
}

fn config(limit: Limit) -> Config {
    let mut config = Config::default();
    let queue = &mut config.queues[0];
    match limit {
        Limit::CpusOfUser(most) => config.policy.per_user = Most { cpus: Some(most), ..Most::default() },
        Limit::RamOfUserInQueue(most) => queue.per_user.ram = Some(Megabytes(1000 * u64::from(most))),
        Limit::CpusOfQueue(most) => queue.max_cpus = Some(most),
    }
    config
}

/// A node with room for all.
fn roomy() -> Inventory {
    Inventory::new("gpu-01".parse().unwrap(), 1000, Megabytes(1_000_000), Vec::new())
}

/// User, size, seconds.
type Wanted = (u32, u32, u64);

fn submitted(key: usize, (user, size, seconds): Wanted) -> Event {
    let wanted = Request {
        time_limit: Some(Span::seconds(seconds)),
        ram: Megabytes(1000 * u64::from(size)),
        ..request(size)
    };
    Event::Submitted(Box::new(Submission { owner: owner(1000 + user), ..submission(key as u128, wanted) }))
}

/// Time goes on; every job runs as long as it says. When each started.
fn played(
    controller: &mut Controller,
    mut ends: BTreeMap<(u64, u64), AttemptName>,
) -> BTreeMap<JobNumber, WallTime> {
    let mut starts = BTreeMap::new();
    while let Some((ms, _)) = ends.first_key_value().map(|(key, _)| *key) {
        // What ends at one instant is free at one instant.
        while let Some(entry) = ends.first_entry().filter(|entry| entry.key().0 == ms) {
            let (attempt, end) = (entry.remove(), ended(Outcome::Succeeded, Some(0)));
            controller.apply(at(ms), Event::AttemptEnded { attempt, at: at(ms).wall, end });
        }
        let out = controller.step(at(ms), Event::Tick);
        for attempt in launched(&out) {
            starts.insert(attempt.job.number, at(ms).wall);
            enter(controller, attempt, ms, &mut ends);
        }
        invariants::check(controller).unwrap();
    }
    starts
}

fn enter(
    controller: &mut Controller,
    attempt: AttemptName,
    ms: u64,
    ends: &mut BTreeMap<(u64, u64), AttemptName>,
) {
    controller.step(at(ms), Event::AttemptStarted { attempt, at: at(ms).wall });
    let length = controller.job(attempt.job.number).unwrap().request.time_limit.unwrap();
    ends.insert((ms + length.0, attempt.epoch.0), attempt);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Where only a limit is in the way, who waits for it starts when they are told.
    #[test]
    fn who_waits_for_a_limit_starts_when_told(
        limit in (0..3_u8, 3..8_u32).prop_map(|(which, most)| match which {
            0 => Limit::CpusOfUser(most),
            1 => Limit::RamOfUserInQueue(most),
            _ => Limit::CpusOfQueue(most),
        }),
        jobs in proptest::collection::vec((0..3_u32, 1..4_u32, 1..20_u64), 4..30),
    ) {
        let mut controller = Controller::new(config(limit));
        controller.step(at(0), Event::NodeRegistered(roomy()));
        let mut ends = BTreeMap::new();
        for (key, wanted) in jobs.into_iter().enumerate() {
            let ms = 1 + key as u64;
            let out = controller.step(at(ms), submitted(key, wanted));
            launched(&out).into_iter().for_each(|attempt| enter(&mut controller, attempt, ms, &mut ends));
        }
        let now = at(100);
        let told: BTreeMap<_, _> = controller
            .explain_waiting(now)
            .map(|(job, told)| {
                assert!(matches!(told.conditions[0], Condition::LimitFull(_)), "{told:?}");
                let start = told.expected_start.unwrap_or_else(|| panic!("{}: {told:?}", job.id));
                (job.id.number, start)
            })
            .collect();
        let waiting = controller.jobs().filter(|job| job.state == JobState::Ready).count();
        prop_assert_eq!(told.len(), waiting);
        prop_assert_eq!(played(&mut controller, ends), told);
    }
}

/// The limits of one law, on two queues: a queue may be limited, or each user, or what is held.
#[derive(Debug, Clone, Copy)]
enum Bar {
    JobsOfQueue(u32),
    JobsOfUser(u32),
    JobsOfUserInQueue(u32),
    CpusOfQueue(u32),
    CardsOfQueue(u32),
    CardsOfUser(u32),
}

fn barred_by(bar: Bar, reservations: u32) -> Config {
    let mut config = Config::default();
    config.policy.reservations = reservations;
    let mut queue = Queue::named("long".parse().unwrap());
    queue.priority = config.queues[0].priority;
    match bar {
        Bar::JobsOfQueue(most) => queue.max_running = Some(most),
        Bar::JobsOfUser(most) => config.policy.max_running_per_user = Some(most),
        Bar::JobsOfUserInQueue(most) => queue.max_running_per_user = Some(most),
        Bar::CpusOfQueue(most) => queue.max_cpus = Some(8 * most),
        Bar::CardsOfQueue(most) => queue.max_cards = Some(most),
        Bar::CardsOfUser(most) => config.policy.per_user = Most { cards: Some(most), ..Most::default() },
    }
    config.queues.push(queue);
    config
}

/// Queue, user, CPUs, cards, seconds.
type Asked = (bool, u32, u32, u32, u64);

fn asked(key: usize, (long, user, cpus, cards, seconds): Asked) -> Event {
    let cards = (cards > 0).then_some(CardRequest { kind: None, count: cards, slice: None });
    let wanted = Request { time_limit: Some(Span::seconds(seconds)), cards, ..request(cpus) };
    let queue = if long { "long" } else { "default" };
    Event::Submitted(Box::new(Submission {
        owner: owner(1000 + user),
        queue: queue.parse().unwrap(),
        ..submission(key as u128, wanted)
    }))
}

/// CPUs and cards that are given out in the plan, at each instant at which a job starts.
fn is_within(controller: &Controller, told: &BTreeMap<JobNumber, WallTime>, now: WallTime) {
    let running = controller.jobs().filter(|job| job.state.is_active()).map(|job| {
        let from = job.attempt.as_ref().unwrap().started_at.unwrap();
        (job, from)
    });
    let waiting = told.iter().map(|(number, start)| (controller.job(*number).unwrap(), *start));
    let all: Vec<_> = running.chain(waiting).collect();
    for start in all.iter().map(|(_, from)| (*from).max(now)) {
        let at_once = all
            .iter()
            .filter(|(job, from)| *from <= start && start < *from + job.request.time_limit.unwrap());
        let (cpus, cards) = at_once.fold((0, 0), |(cpus, cards), (job, _)| {
            let own = job.request.cards.as_ref().map_or(0, |wanted| wanted.count);
            (cpus + job.request.cpus, cards + own)
        });
        assert!(cpus <= 64 && cards <= 4, "{cpus} CPUs and {cards} cards at {start}: {told:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// If every job takes exactly its limit and nobody else comes, everybody for whom a place may be kept starts when they
    /// were told first, and no later, whatever limit is in the way; and what is told never gives out more than there is.
    #[test]
    fn everybody_starts_when_told_first(
        bar in (0..6_u8, 1..4_u32).prop_map(|(which, most)| match which {
            0 => Bar::JobsOfQueue(most),
            1 => Bar::JobsOfUser(most),
            2 => Bar::JobsOfUserInQueue(most),
            3 => Bar::CpusOfQueue(most + 4),
            4 => Bar::CardsOfQueue(most),
            _ => Bar::CardsOfUser(most),
        }),
        reservations in prop_oneof![1..12_u32, Just(40)],
        jobs in proptest::collection::vec(
            (any::<bool>(), 0..3_u32, 1..40_u32, 0..4_u32, 1..20_u64), 4..40),
    ) {
        let mut controller = Controller::new(barred_by(bar, reservations));
        let inventory = Inventory { cpus: 64, ..crate::node() };
        controller.step(at(0), Event::NodeRegistered(inventory));
        let mut ends = BTreeMap::new();
        for (key, wanted) in jobs.into_iter().enumerate() {
            let cards = match bar {
                Bar::CardsOfQueue(most) | Bar::CardsOfUser(most) => wanted.3.min(most),
                _ => wanted.3,
            };
            let ms = 1 + key as u64;
            let out = controller.step(at(ms), asked(key, (wanted.0, wanted.1, wanted.2, cards, wanted.4)));
            launched(&out).into_iter().for_each(|attempt| enter(&mut controller, attempt, ms, &mut ends));
        }
        let now = at(100);
        let told: BTreeMap<_, _> = controller
            .explain_waiting(now)
            .map(|(job, told)| {
                let start = told.expected_start.unwrap_or_else(|| panic!("{}: {told:?}", job.id));
                (job.id.number, start)
            })
            .collect();
        is_within(&controller, &told, now.wall);
        // Of one job alone the same is told as of it among all.
        for (job, told) in controller.explain_waiting(now) {
            prop_assert_eq!(controller.explain(now, job.id.number), told);
        }
        let mut started = played(&mut controller, ends);
        started.retain(|number, _| told.contains_key(number));
        if reservations == 40 {
            prop_assert_eq!(started, told);
        }
    }
}

/// A job of a queue that is at its limit has its place in the plan like all others, though it has none in the pass.
#[test]
fn who_waits_for_a_limit_holds_what_it_takes_in_the_plan() {
    let mut controller = Controller::new(barred_by(Bar::JobsOfQueue(1), 8));
    controller.step(at(0), Event::NodeRegistered(Inventory { cpus: 64, ..crate::node() }));
    let jobs =
        [(true, 0, 1, 0, 600), (false, 1, 63, 0, 1200), (true, 0, 40, 0, 1200), (false, 2, 40, 0, 600)];
    for (key, wanted) in jobs.into_iter().enumerate() {
        for attempt in launched(&controller.step(at(1), asked(key, wanted))) {
            controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
        }
    }
    let told = [3, 4].map(|number| controller.explain(at(2), JobNumber(number)));
    let starts = told.clone().map(|told| (told.expected_start.unwrap() - at(1).wall).as_seconds());
    assert_eq!(starts, [1200, 2400]);
    let bases = told.map(|told| told.basis.unwrap().words());
    let of_both = [
        "ax-2026-0002 ends on gpu-01 then, by its time limit",
        "ax-2026-0003, which goes before it, ends on gpu-01 then, by the plan",
    ];
    assert_eq!(bases, of_both);
}

/// Who waits for a time of their own is told the first place from then on, beside all that is planned.
#[test]
fn who_begins_later_is_told_when_there_is_room_then() {
    let mut controller = Controller::new(Config::default());
    controller.step(at(0), Event::NodeRegistered(crate::node()));
    let cards = Some(CardRequest { kind: None, count: 4, slice: None });
    let all = Request { cards, time_limit: Some(Span::seconds(1200)), ..request(1) };
    for attempt in launched(&controller.step(at(1), Event::Submitted(Box::new(submission(1, all.clone()))))) {
        controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
    }
    let one = Some(CardRequest { kind: None, count: 1, slice: None });
    let from = |seconds: u64, cpus| Request {
        cards: one.clone(),
        begin: Some(at(1).wall + Span::seconds(seconds)),
        time_limit: Some(Span::seconds(60)),
        ..request(cpus)
    };
    // Four cards at 20 minutes, then four jobs of 5 CPUs each one after the other; and one that comes when all is free.
    let later = [from(60, 5), from(60, 5), from(90, 2), from(3000, 1)];
    for (key, wanted) in later.into_iter().enumerate() {
        controller.step(at(1), Event::Submitted(Box::new(submission(2 + key as u128, wanted))));
    }
    let told = |number| {
        let told = controller.explain(at(2), JobNumber(number));
        ((told.expected_start.unwrap() - at(1).wall).as_seconds(), told.basis.unwrap().words())
    };
    assert_eq!(told(2), (1200, "ax-2026-0001 ends on gpu-01 then, by its time limit".into()));
    assert_eq!(
        told(3),
        (1260, "ax-2026-0002, which goes before it, ends on gpu-01 then, by the plan".into())
    );
    assert_eq!(told(4), (1200, "ax-2026-0001 ends on gpu-01 then, by its time limit".into()));
    assert_eq!(told(5), (3000, "its own time".into()));
    let in_order = controller.explain_by_start(at(2)).map(|(job, _)| job.id.number.0);
    assert_eq!(in_order.collect::<Vec<u32>>(), [2, 4, 3, 5], "by their expected starts");
    // Of one that is only tried the same is told, and those that wait for their limits are in its way, too.
    let mut sketch = controller.sketch();
    sketch.step(at(3), Event::Submitted(Box::new(submission(9, from(61, 8)))));
    let tried = sketch.explain(at(3), JobNumber(6));
    assert_eq!((tried.expected_start.unwrap() - at(1).wall).as_seconds(), 1320);
}

#[test]
fn what_the_start_rests_on_is_said() {
    let mut controller = Controller::new(config(Limit::CpusOfUser(4)));
    controller.step(at(0), Event::NodeRegistered(roomy()));
    for (key, wanted) in [(0, 3, 60), (0, 1, 20), (0, 4, 60), (0, 1, 60)].into_iter().enumerate() {
        let out = controller.step(at(1), submitted(key, wanted));
        for attempt in launched(&out) {
            controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
        }
    }
    let told = |number| {
        let told = controller.explain(at(2), JobNumber(number));
        (told.expected_start.map(|start| start - at(1).wall), told.basis.unwrap().words())
    };
    let first = "ax-2026-0001 ends then, which counts in the same limit".to_owned();
    assert_eq!(told(3), (Some(Span::seconds(60)), first));
    let next = "ax-2026-0003 ends then, which counts in the same limit".to_owned();
    assert_eq!(told(4), (Some(Span::seconds(120)), next));
}

/// Nothing is said of those behind a job of unknown length, and all of those before it.
#[test]
fn who_is_before_a_job_of_unknown_length_is_told_all_the_same() {
    let mut config = Config::default();
    config.policy.task_timeout = None;
    let mut controller = Controller::new(config);
    controller.step(at(0), Event::NodeRegistered(crate::node()));
    for attempt in launched(&controller.step(at(1), submitted(1, (0, 8, 600)))) {
        controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
    }
    controller.step(at(1), submitted(2, (0, 8, 1200)));
    for key in 3..6 {
        let forever = Request { time_limit: None, ..request(8) };
        controller.step(at(1), Event::Submitted(Box::new(submission(key, forever))));
    }
    let told = [2, 3, 4, 5].map(|number| controller.explain(at(2), JobNumber(number)));
    let starts = told.clone().map(|told| told.expected_start.map(|start| (start - at(1).wall).as_seconds()));
    assert_eq!(starts, [Some(600), Some(1800), None, None]);
    assert_eq!(told[2].basis.clone().unwrap().words(), "ax-2026-0003 has neither --time nor --estimate");
    let behind = "ax-2026-0004 goes before it, and its start is not known";
    assert_eq!(told[3].basis.clone().unwrap().words(), behind);
}

#[test]
fn who_waits_for_a_job_of_unknown_length_is_told_that() {
    let mut config = config(Limit::CpusOfUser(4));
    config.policy.task_timeout = None;
    let mut controller = Controller::new(config);
    controller.step(at(0), Event::NodeRegistered(roomy()));
    let forever = Request { time_limit: None, ..request(3) };
    controller.step(at(1), Event::Submitted(Box::new(submission(1, forever))));
    controller.step(at(1), submitted(2, (0, 2, 60)));
    let told = controller.explain(at(2), JobNumber(2));
    assert_eq!(told.expected_start, None);
    assert_eq!(told.basis.unwrap().words(), "ax-2026-0001 has neither --time nor --estimate");
}

/// All nodes are taken: each by one of these, the first on the first node. So many that the passes to come are made, and so
/// many that each job has its place in the order instead.
fn all_taken(mut config: Config, nodes: usize, first: Submission) -> Controller {
    config.policy.task_timeout = None;
    let mut controller = Controller::new(config);
    let mut enters = |submitted| {
        for attempt in launched(&controller.step(at(1), submitted)) {
            controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
        }
    };
    let node =
        |position| Inventory::new(name_of(position).parse().unwrap(), 4, Megabytes(100_000), Vec::new());
    enters(Event::NodeRegistered(node(0)));
    enters(Event::Submitted(Box::new(first)));
    (1..nodes).for_each(|position| enters(Event::NodeRegistered(node(position))));
    (1..nodes).for_each(|key| enters(submitted(key, (100 + key as u32, 4, 600))));
    controller
}

fn name_of(position: usize) -> String {
    format!("gpu-{position:03}")
}

/// When the last of the jobs that wait is expected to start, in seconds, after nothing is said of the one before.
fn told_of_the_last(controller: &Controller) -> Option<u64> {
    let told: Vec<_> = controller.explain_waiting(at(2)).collect();
    let [(barred, of_barred), (last, of_last)] = &told[..] else { panic!("{told:?}") };
    assert!(barred.id < last.id && of_barred.expected_start.is_none(), "{told:?}");
    assert_eq!(controller.explain(at(2), last.id.number), *of_last);
    of_last.expected_start.map(|start| (start - at(1).wall).as_seconds())
}

#[test]
fn who_waits_for_a_limit_for_good_hides_nobody_on_however_many_nodes() {
    for nodes in [3, 65] {
        let mut config = barred_by(Bar::JobsOfQueue(9), 8);
        config.queues[1].state = QueueState::Stopped;
        let first = submission(0, Request { time_limit: Some(Span::seconds(900)), ..request(4) });
        let mut controller = all_taken(config, nodes, first);
        controller.step(at(1), asked(1000, (true, 0, 1, 0, 60)));
        controller.step(at(1), asked(1001, (false, 1, 4, 0, 60)));
        assert_eq!(told_of_the_last(&controller), Some(600), "{nodes} nodes");
    }
}

#[test]
fn who_waits_in_a_limit_for_a_job_of_unknown_length_hides_nobody_on_however_many_nodes() {
    for nodes in [3, 65] {
        let forever = Request { time_limit: None, ..request(4) };
        let first = Submission { owner: owner(1000), ..submission(0, forever) };
        let mut controller = all_taken(config(Limit::CpusOfUser(4)), nodes, first);
        controller.step(at(1), submitted(1000, (0, 2, 60)));
        controller.step(at(1), submitted(1001, (1, 4, 60)));
        assert_eq!(told_of_the_last(&controller), Some(600), "{nodes} nodes");
    }
}

#[test]
fn whom_a_limit_puts_off_until_nothing_is_known_hides_nobody_on_however_many_nodes() {
    for nodes in [3, 65] {
        let forever = Request { time_limit: None, ..request(4) };
        let first = Submission { owner: owner(1000), ..submission(0, forever) };
        let mut controller = all_taken(config(Limit::CpusOfUser(4)), nodes, first);
        // The user of the job on the second node wants the first.
        let there = Request { only_nodes: vec![name_of(0).parse().unwrap()], ..request(1) };
        let wanted = Submission { owner: owner(1101), ..submission(1000, there) };
        controller.step(at(1), Event::Submitted(Box::new(wanted)));
        controller.step(at(1), submitted(1001, (1, 4, 60)));
        assert_eq!(told_of_the_last(&controller), Some(600), "{nodes} nodes");
    }
}

/// A limit in which nobody counts who is ready knows all the same who holds something.
#[test]
fn who_begins_later_is_told_when_the_limit_lets_them() {
    let mut controller = Controller::new(config(Limit::CpusOfUser(4)));
    controller.step(at(0), Event::NodeRegistered(roomy()));
    for attempt in launched(&controller.step(at(1), submitted(1, (0, 3, 600)))) {
        controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
    }
    let begin = Some(at(1).wall + Span::seconds(60));
    let later = Request { begin, time_limit: Some(Span::seconds(60)), ..request(2) };
    controller
        .step(at(1), Event::Submitted(Box::new(Submission { owner: owner(1000), ..submission(2, later) })));
    let told = controller.explain(at(2), JobNumber(2));
    assert_eq!(told.expected_start.map(|start| (start - at(1).wall).as_seconds()), Some(600));
    let first = "ax-2026-0001 ends then, which counts in the same limit";
    assert_eq!(told.basis.unwrap().words(), first);
}
