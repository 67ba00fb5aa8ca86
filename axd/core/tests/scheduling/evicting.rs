//! Law 11: who makes room for others may be asked to, not too often, is needed, and loses no more than since it last said
//! that its work is safe; and the room is used by whom it was made for.

use std::collections::BTreeMap;

use ax_core::controller::{Controller, Decision, Event};
use ax_core::id::{AttemptName, Epoch, HostName, JobId, JobNumber};
use ax_core::job::Job;
use ax_core::job::spec::PreemptMode;
use ax_core::job::state::{JobState, Outcome};
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::{Held, Ledger};
use crate::naive::{allowed, held_by, room};
use crate::world::{Seen, World};
use crate::{histories, history};

/// Room that is being made.
struct Asked {
    nodes: Vec<HostName>,
    victims: Vec<Epoch>,
}

/// For whom a message says that room is made.
fn made_for(message: &str) -> JobId {
    message.split([' ', ',']).find_map(|word| word.parse().ok()).expect("it says for whom")
}

/// The attempts that a step asks to make room, and for whom.
fn asked(seen: &Seen<'_>) -> Option<(JobId, Vec<AttemptName>)> {
    let mut found: Option<(JobId, Vec<AttemptName>)> = None;
    for decision in seen.out {
        if let Decision::Terminate { attempt, outcome: Outcome::Preempted, message, .. } = decision {
            let (urgent, victims) = found.get_or_insert_with(|| (made_for(message), Vec::new()));
            assert_eq!(*urgent, made_for(message), "one at a time");
            victims.push(*attempt);
        }
    }
    found
}

/// Whether a job would fit if those were gone.
fn fits_without(ledger: &Ledger, node: &HostName, job: &Job, gone: impl Fn(&Held) -> bool) -> bool {
    let has = &ledger.nodes[node];
    let taken = held_by(has, ledger.on(node).filter(|held| !gone(held))).beside_others(ledger, has);
    room(has, &taken, &job.request, ledger.config.resources.gpu_reserve).is_some()
}

fn they_may_be_asked(ledger: &Ledger, controller: &Controller, urgent: &Job, victims: &[AttemptName]) {
    let policy = &ledger.config.policy;
    assert!(policy.preemption && urgent.request.priority >= policy.preempt_priority, "{}", urgent.id);
    assert_eq!(ledger.jobs[&urgent.id.number].state, Some(JobState::Ready));
    for victim in victims {
        let job = controller.job(victim.job.number).unwrap();
        let held = &ledger.held[&victim.epoch];
        assert_eq!(held.ending, None, "{victim} is being ended already");
        let gap = policy.preempt_gap;
        let (own, other) = (job.request.priority, urgent.request.priority);
        assert!(own + gap <= other, "{victim} of priority {own} goes for one of {other}, the gap is {gap}");
        let often = ledger.jobs[&victim.job.number].evictions;
        assert!(often < policy.max_preemptions, "{victim} has made room {often} times");
        match job.request.preempt {
            PreemptMode::Requeue => assert!(job.request.requeue, "{victim} may not be started again"),
            mode => assert_eq!(mode, PreemptMode::Cancel, "{victim}"),
        }
    }
}

/// With all of them gone there is room, with one of them there is not.
fn none_could_be_spared(ledger: &Ledger, urgent: &Job, victims: &[AttemptName]) {
    let nodes = claimed(urgent);
    let all_fit =
        |gone: &dyn Fn(&Held) -> bool| nodes.iter().all(|node| fits_without(ledger, node, urgent, gone));
    let one = |held: &Held| victims.contains(&held.name);
    assert!(all_fit(&one), "they go in vain for {}", urgent.id);
    for spared in victims {
        let but_one = |held: &Held| one(held) && held.name != *spared;
        assert!(!all_fit(&but_one), "{spared} could be spared for {}", urgent.id);
    }
}

/// Where room is made for a job.
fn claimed(urgent: &Job) -> Vec<HostName> {
    urgent.rare.claim.as_ref().unwrap().parts().map(|part| part.node.clone()).collect()
}

/// Whether a job starts where room was made for it.
fn launched(seen: &Seen<'_>, number: JobNumber, room: &Asked) -> bool {
    seen.out.iter().any(|decision| match decision {
        Decision::Launch { attempt, allocation, others, .. } => {
            let nodes: Vec<&HostName> =
                std::iter::once(allocation).chain(others).map(|part| &part.node).collect();
            attempt.job.number == number && nodes.iter().copied().eq(&room.nodes)
        }
        _ => false,
    })
}

/// Room that is made and not used yet.
#[derive(Default)]
struct Rooms(BTreeMap<JobNumber, Asked>);

impl Rooms {
    /// Who went makes room for whom it was asked for, in the same step.
    fn settle(&mut self, ledger: &Ledger, seen: &Seen<'_>) {
        let changed = |event: &Event| {
            matches!(
                event,
                Event::NodeRegistered(_)
                    | Event::ConfigLoaded(_)
                    | Event::Wished { .. }
                    | Event::CardsUsed { .. }
                    | Event::CardChanged { .. }
                    | Event::NodeWished { .. }
            )
        };
        if seen.events.iter().any(changed) {
            self.0.clear();
        }
        let gone = |asked: &Asked| asked.victims.iter().all(|victim| !ledger.held.contains_key(victim));
        let free: Vec<JobNumber> =
            self.0.iter().filter(|(_, room)| gone(room)).map(|(number, _)| *number).collect();
        for number in free {
            let room = self.0.remove(&number).unwrap();
            let job = seen.controller.job(number).unwrap();
            let starts = launched(seen, number, &room) || !allowed(ledger, job, 0);
            assert!(starts, "{} has room on {:?} and does not start: {:?}", job.id, room.nodes, seen.out);
        }
        // A victim may have left these nodes and not all of its own.
        self.0.retain(|number, room| !launched(seen, *number, room));
    }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_11_only_who_may_be_asked_makes_room_and_none_who_could_be_spared(history in history(50)) {
        let frame = Frame { preemption: Some(true), ..Frame::default() };
        let mut ledger = Ledger::default();
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.take_events(seen);
            let (mut before, mut found) = (None, asked(seen));
            ledger.take_decisions(seen, &mut |ledger, decision| {
                if let Decision::Terminate { outcome: Outcome::Preempted, .. } = decision {
                    before.get_or_insert_with(|| ledger.clone());
                }
            });
            if let (Some(before), Some((urgent, victims))) = (before, found.take()) {
                let urgent = seen.controller.job(urgent.number).unwrap();
                they_may_be_asked(&before, seen.controller, urgent, &victims);
                let nodes = claimed(urgent);
                assert_eq!(nodes.len(), urgent.request.nodes().min as usize, "no more nodes than are needed");
                let there = |v: &AttemptName| before.parts(v.epoch).any(|p| nodes.contains(&p.allocation.node));
                assert!(victims.iter().all(there), "one node is enough");
                // What others have claimed is not in the ledger, and may be on nodes where all victims have gone.
                if !before.evicting() {
                    none_could_be_spared(&before, urgent, &victims);
                }
            }
        });
    }

    #[test]
    fn law_11_room_is_used_at_once_by_whom_it_was_made_for(history in history(50)) {
        let frame = Frame { preemption: Some(true), ..Frame::default() };
        let (mut ledger, mut rooms) = (Ledger::default(), Rooms::default());
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, _| {});
            rooms.settle(&ledger, seen);
            if let Some((urgent, victims)) = asked(seen) {
                let victims: Vec<Epoch> = victims.iter().map(|victim| victim.epoch).collect();
                let nodes = claimed(seen.controller.job(urgent.number).unwrap());
                rooms.0.insert(urgent.number, Asked { nodes, victims });
            }
        });
    }

    #[test]
    fn law_11_what_is_lost_is_the_time_since_the_checkpoint(history in history(50)) {
        let frame = Frame { preemption: Some(true), ..Frame::default() };
        let mut ledger = Ledger::default();
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, _| {});
            for job in seen.controller.jobs() {
                let known = &ledger.jobs[&job.id.number];
                assert_eq!((job.rare.saved, job.rare.evictions), (known.saved, known.evictions), "{}", job.id);
            }
        });
    }
}
