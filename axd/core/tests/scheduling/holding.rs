//! Laws 1, 2, 5 and 10: nothing is given twice, a job holds what it asked for once and not before its time, and queues
//! and users keep their limits at every instant.

use std::collections::BTreeMap;

use ax_core::config::QueueState;
use ax_core::controller::{Decision, Event};
use ax_core::id::AttemptName;
use ax_core::invariants;
use ax_core::job::Job;
use ax_core::job::state::JobState;
use ax_core::node::Allocation;
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::{Known, Ledger};
use crate::naive::{features_of, of_card};
use crate::world::{Seen, World};
use crate::{histories, history};

/// Shows what each launch of a random history gives of each node, with how things stood before it.
fn each_launch(
    (bits, ops): (u64, Vec<(u8, u64)>),
    check: impl Fn(&Ledger, &Seen<'_>, AttemptName, &Allocation, &Job),
) -> Ledger {
    let mut ledger = Ledger::default();
    World::play(bits, Frame::default(), ops, &mut |seen| {
        ledger.follow(seen, &mut |ledger, decision| {
            if let Decision::Launch { attempt, allocation, others, .. } = decision {
                let job = seen.controller.job(attempt.job.number).unwrap();
                for part in std::iter::once(allocation).chain(others) {
                    check(ledger, seen, *attempt, part, job);
                }
            }
        });
        invariants::check(seen.controller).unwrap();
    });
    ledger
}

/// CPUs, memory and cards are free that are given.
fn nothing_is_given_twice(ledger: &Ledger, given: &Allocation, job: &Job) {
    let has = &ledger.nodes[&given.node];
    assert!(!ledger.drained.contains(&has.name), "{} starts on {}, which is drained", job.id, has.name);
    let held: Vec<_> = ledger.on(&has.name).collect();
    for cpu in &given.cpus {
        assert!(
            *cpu < has.cpus && !held.iter().any(|h| h.allocation.cpus.contains(cpu)),
            "CPU {cpu} for {}",
            job.id
        );
    }
    let ram: u64 = held.iter().map(|h| h.allocation.ram.0).sum();
    assert!(
        ram + given.ram.0 <= has.ram.0,
        "{ram} of {} MB are taken, and {} gets {}",
        has.ram.0,
        job.id,
        given.ram.0
    );
    for share in &given.cards {
        let card = has.cards.iter().find(|card| card.index == share.index).unwrap();
        let charges = held.iter().flat_map(|h| &h.charges).filter(|(index, _)| *index == card.index);
        let charged: Vec<u64> = charges.map(|(_, charge)| *charge).collect();
        let sum: u64 = charged.iter().sum();
        let Some(others) = ledger.of_others(&has.name, card) else {
            panic!("{} gets card {}, which is given to nobody", job.id, card.index);
        };
        match share.slice {
            None => {
                assert!(charged.is_empty(), "{} gets card {} whole, {sum} MB are taken", job.id, card.index)
            }
            Some(slice) => {
                let reserve = u64::from(ledger.config.resources.gpu_reserve);
                let shared = card.mem.0 * (100 - reserve) / 100;
                assert!(
                    sum + others + slice.0 <= shared,
                    "{} gets {} of {shared} MB, {sum} are taken, {others} by others",
                    job.id,
                    slice.0
                );
            }
        }
    }
}

/// What was asked for, on a node that it may run on.
fn it_is_what_was_asked_for(ledger: &Ledger, given: &Allocation, job: &Job) {
    let (has, request) = (&ledger.nodes[&given.node], &job.request);
    assert!(request.only_nodes.is_empty() || request.only_nodes.contains(&has.name), "{}", job.id);
    assert!(!request.not_nodes.contains(&has.name), "{}", job.id);
    if let Some(wanted) = request.features() {
        assert!(features_of(&wanted.to_string()).contains(&has.name.as_str()), "{}: {wanted}", job.id);
    }
    let (cpus, ram) = if request.exclusive { (has.cpus, has.ram) } else { (request.cpus, request.ram) };
    assert_eq!((given.cpus.len() as u32, given.ram), (cpus, ram), "{}", job.id);
    let count = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
    assert_eq!(given.cards.len(), count, "{}", job.id);
    for (at, share) in given.cards.iter().enumerate() {
        let card = has.cards.iter().find(|card| card.index == share.index).unwrap();
        let (charge, _) =
            of_card(card, request, ledger.config.resources.gpu_reserve).expect("a card that fits");
        assert_eq!(share.slice.map_or(card.mem.0, |slice| slice.0), charge, "{}", job.id);
        assert!(
            given.cards[..at].iter().all(|other| other.index != share.index),
            "{} gets a card twice",
            job.id
        );
    }
    if request.exclusive {
        assert_eq!(ledger.on(&has.name).count(), 0, "{} wants the node for itself", job.id);
    }
}

fn its_time_has_come(known: &Known, seen: &Seen<'_>, job: &Job) {
    assert!(!known.hold, "{} is held", job.id);
    assert!(known.begin.is_none_or(|begin| begin <= seen.now.wall), "{} begins later", job.id);
    assert!(known.backoff.is_none_or(|until| until <= seen.now.boot), "{} is in its back-off", job.id);
    assert_eq!(known.state, Some(JobState::Starting), "{} starts from another state", job.id);
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_1_nothing_is_given_twice(history in history(50)) {
        each_launch(history, |ledger, _, _, given, job| nothing_is_given_twice(ledger, given, job));
    }

    #[test]
    fn law_2_a_job_holds_what_it_asked_for_and_each_attempt_ends_once(history in history(50)) {
        let mut closed = BTreeMap::new();
        let mut ledger = Ledger::default();
        World::play(history.0, Frame::default(), history.1, &mut |seen| {
            ledger.follow(seen, &mut |ledger, decision| match decision {
                Decision::Launch { attempt, allocation, others, number, .. } => {
                    let job = seen.controller.job(attempt.job.number).unwrap();
                    for part in std::iter::once(allocation).chain(others) {
                        it_is_what_was_asked_for(ledger, part, job);
                    }
                    assert_eq!(*number, ledger.jobs[&attempt.job.number].attempts + 1);
                    assert!(ledger.held.values().all(|h| h.name.job != attempt.job), "{} runs already", job.id);
                    let newest = ledger.held.keys().chain(&ledger.closed).max();
                    assert!(newest.is_none_or(|epoch| *epoch < attempt.epoch), "{attempt} is no new epoch");
                }
                Decision::Closed { attempt, end, .. } => {
                    assert!(ledger.held.contains_key(&attempt.epoch), "{attempt} ends and does not live");
                    assert_eq!(closed.insert(*attempt, end.clone()), None, "{attempt} ends twice");
                }
                _ => {}
            });
        });
    }

    #[test]
    fn law_5_nobody_starts_before_their_time(history in history(50)) {
        each_launch(history, |ledger, seen, attempt, _, job| {
            its_time_has_come(&ledger.jobs[&attempt.job.number], seen, job);
        });
    }

    #[test]
    fn law_10_queues_and_users_keep_their_limits(history in history(50)) {
        let waiting = |ledger: &Ledger, seen: &Seen<'_>, uid| {
            let waits = |known: &Known| known.state.is_some_and(JobState::is_waiting);
            let own = |number| seen.controller.job(number).is_some_and(|job| job.owner.uid == uid);
            ledger.jobs.iter().filter(|(number, known)| waits(known) && own(**number)).count()
        };
        let frame = Frame { preemption: (history.0.is_multiple_of(2)).then_some(true), ..Frame::default() };
        let mut ledger = Ledger::default();
        World::play(history.0, frame, history.1, &mut |seen| {
            if let [Event::Submitted(submission)] = seen.events {
                let most = ledger.config.policy.max_queued_per_user as usize;
                let taken = seen.out.iter().any(|d| matches!(d, Decision::Accepted { .. }));
                let full = waiting(&ledger, seen, submission.owner.uid) >= most;
                let closed = ledger.config.queue(submission.queue.as_str()).unwrap().state == QueueState::Closed;
                assert_eq!(taken, !full && !closed, "{:?}", seen.out);
            }
            ledger.follow(seen, &mut |ledger, decision| {
                let Decision::Launch { attempt, .. } = decision else { return };
                let job = seen.controller.job(attempt.job.number).unwrap();
                let queue = ledger.config.queue(job.queue.as_str()).expect("a queue that is there");
                let active = ledger.active(&queue.name);
                assert!(queue.max_running.is_none_or(|max| active < max as usize), "{} runs {active}", queue.name);
                assert_ne!(queue.state, QueueState::Stopped, "{} starts from a stopped queue", job.id);
            });
        });
    }
}
