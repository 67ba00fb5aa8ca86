//! Law 22: limits on what queues, users and groups hold, of whole nodes all that they have, are kept whenever anything
//! starts, who waits for one is told, and what is kept up to date of them is what would be found anew. Law 23: a card
//! under MPS is one user's at a time, and nobody else's slices are on it.

use std::collections::BTreeMap;

use ax_core::config::{CardLimit, Most};
use ax_core::controller::Decision;
use ax_core::explain::Condition;
use ax_core::id::HostName;
use ax_core::invariants;
use ax_core::job::Job;
use ax_core::node::Allocation;
use ax_core::size::Megabytes;
use proptest::prelude::*;

use crate::chance::{self, Frame};
use crate::ledger::Ledger;
use crate::same::is_as_if_made_anew;
use crate::world::World;
use crate::{histories, history};

fn limited() -> Frame {
    Frame { limits: true, ..Frame::default() }
}

/// Of each limit that concerns a job: the names of cards, and how many.
fn limits_of(ledger: &Ledger, job: &Job) -> Vec<(String, Vec<String>, Option<u32>)> {
    let config = &ledger.config;
    let queue = config.queue(job.queue.as_str()).unwrap();
    let mut found = vec![(format!("queue {}", queue.name), queue.cards.clone(), queue.max_cards)];
    for limit in &config.limits {
        let user = limit.user.as_deref() == Some(&*job.owner.name);
        let group =
            limit.group.as_ref().is_some_and(|group| job.rare.groups.iter().any(|own| **own == **group));
        if user || group {
            let who = limit.user.clone().map_or_else(|| "group".to_owned(), |user| format!("user {user}"));
            found.push((who, limit.cards.clone(), limit.max_cards));
        }
    }
    found
}

/// Who counts where: found by looking at all that is held.
fn holds(ledger: &Ledger, whose: &str, jobs: &BTreeMap<u32, Job>) -> u32 {
    let counts = |job: &Job| match whose.split_once(' ') {
        Some(("queue", queue)) => job.queue.as_str() == queue,
        Some((_, user)) => *job.owner.name == *user,
        None => !job.rare.groups.is_empty(),
    };
    let held = ledger.held.values().filter(|held| jobs.get(&held.name.job.number.0).is_some_and(counts));
    let parts = held.flat_map(|held| ledger.parts(held.name.epoch));
    parts.map(|part| part.allocation.cards.len() as u32).sum()
}

fn is_named(names: &[String], node: &HostName, index: u32, uuid: &str) -> bool {
    names.iter().any(|name| *name == format!("{node}:{index}") || name == uuid)
}

fn the_limits_hold(ledger: &Ledger, given: &[Allocation], job: &Job, jobs: &BTreeMap<u32, Job>) {
    let cards = || given.iter().flat_map(|part| part.cards.iter().map(|card| (&part.node, card)));
    if cards().next().is_none() {
        return;
    }
    for (whose, names, max) in limits_of(ledger, job) {
        for (node, card) in cards().filter(|_| !names.is_empty()) {
            assert!(is_named(&names, node, card.index, &card.uuid), "{} by {whose}: {card:?}", job.id);
        }
        let held = holds(ledger, &whose, jobs);
        let all = held + cards().count() as u32;
        assert!(max.is_none_or(|max| all <= max), "{} makes {all} of {max:?} for {whose}", job.id);
    }
}

/// What is under MPS, and who is on a card together.
fn nobody_disturbs_mps(ledger: &Ledger, given: &Allocation, job: &Job) {
    let reserve = u64::from(ledger.config.resources.gpu_reserve);
    let queue = ledger.config.queue(job.queue.as_str()).unwrap();
    for share in &given.cards {
        let card = ledger.nodes[&given.node].cards.iter().find(|card| card.index == share.index).unwrap();
        let slice = share.slice.is_some_and(|slice| slice.0 <= card.mem.0 * (100 - reserve) / 100);
        let mps = slice && given.cards.len() == 1 && queue.mps && card.kind.as_deref() == Some("large");
        assert_eq!(share.mps, mps.then_some(job.owner.uid), "{} on card {}", job.id, card.index);
        let beside = ledger.on(&given.node).flat_map(|held| &held.allocation.cards);
        for other in beside.filter(|other| other.index == share.index) {
            assert_eq!(other.mps, share.mps, "{} comes to card {}", job.id, card.index);
        }
    }
}

/// What is held together: cards, CPUs, memory, jobs.
type Four = [u64; 4];

/// Of whole nodes all that they have.
fn held<'a>(parts: impl Iterator<Item = &'a Allocation>) -> Four {
    let mut sum = [0, 0, 0, 1];
    for part in parts {
        let of_part = [part.cards.len() as u64, part.cpus.len() as u64, part.ram.0, 0];
        sum.iter_mut().zip(of_part).for_each(|(sum, more)| *sum += more);
    }
    sum
}

fn of(most: Most, running: Option<u32>) -> [Option<u64>; 4] {
    let ram = most.ram.map(|ram| ram.0);
    [most.cards.map(u64::from), most.cpus.map(u64::from), ram, running.map(u64::from)]
}

/// No limit on a user, a group or a queue is broken by a job that starts: found by adding up all that runs.
fn the_sums_hold(ledger: &Ledger, (job, given): (&Job, &[Allocation]), jobs: &BTreeMap<u32, Job>) {
    let config = &ledger.config;
    let queue = config.queue(job.queue.as_str()).unwrap();
    let own = |other: &Job| other.owner.uid == job.owner.uid;
    let queued = |other: &Job| other.queue == job.queue;
    let member = |other: &Job| !other.rare.groups.is_empty();
    let all_of = |whose: &dyn Fn(&Job) -> bool| {
        let others = ledger.held.values().filter_map(|held| Some((jobs.get(&held.name.job.number.0)?, held)));
        let mut sum = held(given.iter());
        for (_, attempt) in others.filter(|(other, _)| whose(other)) {
            let more = held(ledger.parts(attempt.name.epoch).map(|part| &part.allocation));
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        sum
    };
    let of_queue = Most { cards: queue.max_cards, cpus: queue.max_cpus, ram: queue.max_ram };
    let mut limits = vec![
        (all_of(&own), of(config.policy.per_user, config.policy.max_running_per_user)),
        (all_of(&|other| own(other) && queued(other)), of(queue.per_user, queue.max_running_per_user)),
        (all_of(&queued), of(of_queue, queue.max_running)),
    ];
    for limit in &config.limits {
        let most = Most { cards: limit.max_cards, cpus: limit.max_cpus, ram: limit.max_ram };
        let concerned = match &limit.user {
            Some(user) => *user == *job.owner.name,
            None => member(job),
        };
        let whose: &dyn Fn(&Job) -> bool = if limit.user.is_some() { &own } else { &member };
        limits.extend(concerned.then(|| (all_of(whose), of(most, limit.max_running))));
    }
    for (sums, most) in limits {
        for ((sum, most), asks) in sums.iter().zip(most).zip(held(given.iter())) {
            assert!(asks == 0 || most.is_none_or(|most| *sum <= most), "{}: {sums:?} of {most:?}", job.id);
        }
    }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_23_a_card_under_mps_is_one_user_s_at_a_time(history in history(60)) {
        let mut ledger = Ledger::default();
        World::play(history.0, limited(), history.1, &mut |seen| {
            ledger.follow(seen, &mut |ledger, decision| {
                if let Decision::Launch { attempt, allocation, .. } = decision {
                    nobody_disturbs_mps(ledger, allocation, seen.controller.job(attempt.job.number).unwrap());
                }
            });
            invariants::check(seen.controller).unwrap();
        });
    }

    #[test]
    fn law_22_limits_on_cards_hold_whenever_anything_starts(history in history(40)) {
        let mut ledger = Ledger::default();
        let mut jobs: BTreeMap<u32, Job> = BTreeMap::new();
        World::play(history.0, limited(), history.1, &mut |seen| {
            jobs.extend(seen.controller.jobs().map(|job| (job.id.number.0, job.clone())));
            ledger.follow(seen, &mut |ledger, decision| {
                if let Decision::Launch { attempt, allocation, others, .. } = decision {
                    let given: Vec<Allocation> = std::iter::once(allocation).chain(others).cloned().collect();
                    the_limits_hold(ledger, &given, &jobs[&attempt.job.number.0], &jobs);
                    the_sums_hold(ledger, (&jobs[&attempt.job.number.0], &given), &jobs);
                }
            });
            invariants::check(seen.controller).unwrap();
        });
    }

    #[test]
    fn law_22_what_is_kept_of_limits_is_as_if_made_anew_and_who_waits_is_told(history in history(25)) {
        World::play(history.0, limited(), history.1, &mut |seen| {
            is_as_if_made_anew(seen.controller);
            let told = seen.controller.explain_waiting(seen.now).map(|(job, told)| (job.id, told));
            for (job, told) in told {
                let starts = told.conditions == [Condition::StartsNow];
                let later = seen.controller.next_wake().boot.is_some() || seen.controller.config().policy.preemption;
                assert!(!told.reasons.is_empty() && (!starts || later), "{job}: {told:?}");
            }
        });
    }
}

/// Limits for the queues and users of random configurations.
pub(crate) fn given(chance: &mut chance::Chance, config: &mut ax_core::config::Config) {
    let names =
        [&["gpu-01:0", "gpu-02:1"][..], &["gpu-02-0"], &["gpu-01:0", "gpu-01:1", "gpu-02:0", "gpu-02:2"]];
    for queue in &mut config.queues {
        queue.max_cards = chance.of(&[None, Some(2), Some(1), Some(3)]);
        queue.mps = chance.below(2) == 1;
        if chance.below(3) == 2 {
            queue.cards = chance.of(&names).iter().map(|name| (*name).to_owned()).collect();
        }
    }
    let users = &[None, Some(2), Some(1), Some(3)];
    config.policy.max_running_per_user = chance.of(users);
    for queue in &mut config.queues {
        queue.max_running_per_user = chance.of(users);
        queue.max_cpus = chance.of(&[None, Some(4), None, Some(8)]);
        queue.max_ram = chance.of(&[None, None, Some(Megabytes(20_000))]);
        queue.per_user.cards = chance.of(&[None, None, Some(1)]);
        queue.per_user.ram = chance.of(&[None, None, Some(Megabytes(16_000))]);
    }
    config.policy.per_user = Most {
        cards: chance.of(&[None, Some(3)]),
        cpus: chance.of(&[None, Some(7), Some(3)]),
        ram: chance.of(&[None, Some(Megabytes(50_000))]),
    };
    let user = "user1000".to_owned();
    let max_cards = chance.of(&[Some(2), None, Some(1), Some(4)]);
    let cards = if chance.below(3) == 2 { chance.of(&names) } else { &[] };
    let cards = cards.iter().map(|name| (*name).to_owned()).collect();
    config.limits.push(CardLimit {
        user: Some(user),
        group: None,
        cards,
        max_cards,
        max_cpus: chance.of(&[None, Some(5)]),
        ..CardLimit::default()
    });
    let max_cards = chance.of(&[None, Some(3), Some(2)]);
    let group = Some("students".to_owned());
    config.limits.push(CardLimit {
        user: None,
        group,
        max_cards,
        max_running: chance.of(&[None, Some(2)]),
        ..CardLimit::default()
    });
}
