//! Who waits for a limit on what is held is told when they start: the plan knows when those who hold it end.

use std::collections::BTreeMap;

use ax_core::config::{Config, Most};
use ax_core::controller::{Controller, Event, Submission};
use ax_core::explain::Condition;
use ax_core::id::{AttemptName, JobNumber};
use ax_core::invariants;
use ax_core::job::request::Request;
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
    while let Some(((ms, _), attempt)) = ends.pop_first() {
        let end = ended(Outcome::Succeeded, Some(0));
        let out = controller.step(at(ms), Event::AttemptEnded { attempt, at: at(ms).wall, end });
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
