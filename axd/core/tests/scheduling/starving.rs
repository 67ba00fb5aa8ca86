//! Law 8: whoever waits starts within the bound, however many more urgent jobs keep coming.

use ax_core::config::{Config, Queue, QueueOrder, Scheduler};
use ax_core::controller::{Decision, Event};
use ax_core::id::QueueName;
use ax_core::time::Span;
use proptest::prelude::*;

use crate::chance::{self, Frame, New};
use crate::histories;
use crate::world::World;

/// The bound of the policy, in seconds.
const BOUND: u64 = 20;
/// No job takes longer, in seconds.
const LONGEST: u64 = 4;

/// Who waits: how urgent, how large.
#[derive(Debug, Clone, Copy)]
struct Patient {
    priority: u8,
    cpus: u32,
}

/// Submits one job, then two streams that ask for more than there is; says when the job started and how much work there
/// was that may go before it.
fn wait(
    config: &Config,
    patient: Patient,
    stream: &[(u8, u8)],
    to: Option<&QueueName>,
) -> (Option<u64>, u64) {
    let frame = Frame { honest: true, calm: true, ..Frame::default() };
    let mut world = World::new(config.clone(), frame);
    let (mut keys, mut started, mut number) = (0, None, None);
    world.step(vec![Event::NodeRegistered(chance::node(0, 0))], &mut |_| {});
    let mut submit = |world: &mut World, cpus, priority, seconds, queue: QueueName| {
        keys += 1;
        let submission = chance::of(keys, 1000, queue, chance::plain(cpus, 100, priority, seconds), false);
        world.submit(New { submission, takes: seconds * 1000 }, &mut |_| {});
    };
    let stream_to = to.cloned().unwrap_or_else(QueueName::default_queue);
    let mut before = 0;
    let first = 3;
    for (at, (cpus, seconds)) in stream.iter().enumerate() {
        let seconds = u64::from(*seconds) % LONGEST + 1;
        if at == first {
            number = Some(world.controller.next_number());
            submit(&mut world, patient.cpus, patient.priority, LONGEST, QueueName::default_queue());
        }
        if at as u64 <= BOUND + first as u64 {
            before += 2 * seconds;
        }
        for _ in 0..2 {
            submit(&mut world, u32::from(*cpus) % 2 + 2, 100, seconds, stream_to.clone());
        }
        let launched = |d: &Decision| matches!(d, Decision::Launch { attempt, .. } if Some(attempt.job.number) == number);
        world.pass(1000, &mut |seen| {
            if seen.out.iter().any(launched) {
                started = Some(seen.now.boot.0);
            }
        });
        if let Some(job) =
            number.and_then(|number| world.controller.job(number)).filter(|job| job.attempts > 0)
        {
            started =
                started.or(Some(job.attempt.as_ref().unwrap().assigned_at.0 as u64 - 1_795_000_000_000));
        }
        if started.is_some() {
            break;
        }
    }
    (started.map(|at| at - first as u64 * 1000), before * 1000)
}

fn streams() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((any::<u8>(), 2..4_u8), 180)
}

fn patients() -> impl Strategy<Value = Patient> {
    (0..40_u8, 1..=4_u32).prop_map(|(priority, cpus)| Patient { priority, cpus })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories().cases / 10, max_shrink_iters: 50, ..histories() })]

    #[test]
    fn law_8_an_old_job_starts_though_more_urgent_ones_keep_coming(patient in patients(), stream in streams()) {
        let mut config = Config::default();
        config.policy.starvation_bound = Some(Span::seconds(BOUND));
        let (started, before) = wait(&config, patient, &stream, None);
        let bound = (100 - u64::from(patient.priority)) * BOUND * 10 + before + 3 * LONGEST * 1000;
        prop_assert!(started.is_some_and(|at| at <= bound), "starts after {started:?}, the bound is {bound}");
    }

    #[test]
    fn law_8_a_light_queue_starts_a_job_beside_a_heavy_one(patient in patients(), stream in streams(), weight in 1..=10_u32) {
        let mut config = Config::default();
        config.policy.scheduler = Scheduler::FairShare;
        let mut heavy = Queue::named("night".parse().unwrap());
        (heavy.priority, heavy.order) = (weight, QueueOrder::Fifo);
        config.queues.push(heavy.clone());
        // It has had nothing, and its queue no more than the other: it is next, or next but one.
        let (started, _) = wait(&config, patient, &stream, Some(&heavy.name));
        let bound = 3 * LONGEST * 1000;
        prop_assert!(started.is_some_and(|at| at <= bound), "starts after {started:?}, the bound is {bound}");
    }
}
