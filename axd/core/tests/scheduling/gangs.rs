//! Law 21: a job on several nodes starts on all of them at one instant or on none, on as many as there are of those it
//! takes; it is over when it is over everywhere, as what settled it first, and whatever settles it ends the rest.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::controller::Decision;
use ax_core::explain::Condition;
use ax_core::id::{AttemptName, Epoch, HostName};
use ax_core::invariants;
use ax_core::job::AttemptEnd;
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::BootTime;
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::{Ledger, planned};
use crate::naive::{Plan, kept};
use crate::world::{Seen, World};
use crate::{histories, history};

/// The attempts on several nodes that live, by what has become of them on each.
#[derive(Default)]
struct Gangs(BTreeMap<Epoch, Gang>);

struct Gang {
    first: HostName,
    open: BTreeSet<HostName>,
    /// What settled it.
    verdict: Option<Outcome>,
    /// It was told to end after that, or before.
    told: bool,
    /// As what somebody asked for its end, first: its job may have another attempt by the time it is over.
    asked: Option<Outcome>,
    began: bool,
}

impl Gangs {
    fn decided(&mut self, seen: &Seen<'_>, decision: &Decision) {
        match decision {
            Decision::Launch { attempt, allocation, others, .. } => {
                let wanted = seen.controller.job(attempt.job.number).unwrap().request.nodes();
                let open: BTreeSet<HostName> =
                    std::iter::once(allocation).chain(others).map(|part| part.node.clone()).collect();
                assert_eq!(open.len(), 1 + others.len(), "{attempt} is on a node twice");
                let width = open.len() as u32;
                assert!((wanted.min..=wanted.max).contains(&width), "{attempt} wants {wanted}, has {open:?}");
                let first = allocation.node.clone();
                let new = Gang { first, open, verdict: None, told: false, asked: None, began: false };
                assert!(self.0.insert(attempt.epoch, new).is_none(), "{attempt} starts twice");
            }
            Decision::PartClosed { attempt, node, end, .. } => {
                let gang = self.0.get_mut(&attempt.epoch).expect("an attempt that lives");
                assert!(gang.open.remove(node), "{attempt} ends on {node}, where it is not");
                if end.outcome != Outcome::Succeeded || *node == gang.first {
                    gang.verdict.get_or_insert(end.outcome);
                }
            }
            // Then it may have begun.
            Decision::Moved { job, to: JobState::Running | JobState::Completing, .. } => {
                let attempt =
                    seen.controller.job(job.number).and_then(|job| Some(job.attempt.as_ref()?.name));
                if let Some(gang) = attempt.and_then(|attempt| self.0.get_mut(&attempt.epoch)) {
                    gang.began = true;
                }
            }
            Decision::Terminate { attempt, outcome, message, .. } => {
                if let Some(gang) = self.0.get_mut(&attempt.epoch) {
                    // By the part that settled it, which asks for nothing, or by somebody.
                    let settled = gang.verdict.is_some() && message.starts_with("it has ended on ");
                    gang.asked = gang.asked.or((!settled).then_some(*outcome));
                    gang.told = true;
                }
            }
            Decision::Closed { attempt, end, .. } => self.closed(*attempt, end),
            _ => {}
        }
    }

    fn closed(&mut self, attempt: AttemptName, end: &AttemptEnd) {
        let Some(gang) = self.0.remove(&attempt.epoch) else { return };
        let Some(verdict) = gang.verdict else {
            assert_eq!(gang.open.len(), 1, "{attempt} is over and lives on {:?}", gang.open);
            return;
        };
        assert!(gang.open.is_empty(), "{attempt} is over and lives on {:?}", gang.open);
        let lost = matches!(verdict, Outcome::LeaseLost | Outcome::NodeFail | Outcome::LaunchFailed);
        let expected = match (gang.asked, verdict) {
            // Whoever was asked to end counts as what was asked, however it was lost.
            (Some(_), Outcome::LaunchFailed) if !gang.began => return,
            (Some(asked), _) if lost => asked,
            (_, Outcome::LaunchFailed) if gang.began => Outcome::LeaseLost,
            (_, Outcome::Failed) => return,
            (_, verdict) => verdict,
        };
        assert_eq!(end.outcome, expected, "{attempt}");
    }

    /// Whoever is settled and not over everywhere has been told to go.
    fn settled(&self) {
        for (epoch, gang) in &self.0 {
            let waits = gang.verdict.is_some() && !gang.open.is_empty();
            assert!(gang.told || !waits, "epoch {} is settled and lives on {:?}", epoch.0, gang.open);
        }
    }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_21_a_gang_is_whole_or_not_at_all_and_over_when_it_is_over_everywhere(history in history(50)) {
        let (mut ledger, mut gangs) = (Ledger::default(), Gangs::default());
        World::play(history.0, Frame::default(), history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, decision| gangs.decided(seen, decision));
            gangs.settled();
            invariants::check(seen.controller).unwrap();
        });
    }

    #[test]
    fn law_21_it_takes_as_many_nodes_as_have_room(history in history(40)) {
        // Greedy, so that no place is kept, and one at a time.
        let frame = Frame { preemption: Some(false), forward: true, ..Frame::default() };
        let mut ledger = Ledger::default();
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.follow(seen, &mut |ledger, decision| {
                let Decision::Launch { attempt, others, .. } = decision else { return };
                let job = seen.controller.job(attempt.job.number).unwrap();
                if ledger.config.policy.reservations > 0 && seen.controller.config().policy.reservations > 0 {
                    return;
                }
                let there = Plan::new(ledger, seen.now).width(&job.request, planned(job, &ledger.config));
                let due = there.min(job.request.nodes().max as usize);
                assert_eq!(1 + others.len(), due, "{} on {there} nodes with room", job.id);
            });
        });
    }

    #[test]
    fn law_21_places_are_kept_from_the_first_instant_at_which_all_that_it_needs_are_free(history in history(40)) {
        let frame = Frame { preemption: Some(false), known_places: true, ..Frame::default() };
        let mut ledger = Ledger::default();
        World::play(history.0, frame, history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, _| {});
            let Some(due) = kept(&ledger, seen.controller, seen.now) else { return };
            let name = |at: usize| ledger.nodes.keys().nth(at).unwrap().to_string();
            let due: BTreeSet<_> =
                due.into_iter().map(|(job, place)| (job, name(place.node), place.from, place.until)).collect();
            let is = seen.controller.kept_places(seen.now).into_iter();
            let is: BTreeSet<_> =
                is.map(|place| (place.job.number, place.node, place.from, place.until)).collect();
            assert_eq!(is, due);
        });
    }

    #[test]
    fn law_21_who_waits_for_nodes_is_told_how_many_are_missing(history in history(30)) {
        let mut ledger = Ledger::default();
        World::play(history.0, Frame::default(), history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, _| {});
            // What is told is as after the next pass, which may be due.
            if ledger.evicting() || seen.controller.next_wake().boot == Some(BootTime(0)) {
                return;
            }
            for (job, told) in seen.controller.explain_waiting(seen.now) {
                let said = told.conditions.iter().find_map(|condition| match condition {
                    Condition::TooFewNodes(few) if !few.empty => Some((few.wanted, few.fitting)),
                    _ => None,
                });
                let Some((wanted, fitting)) = said else { continue };
                let there = Plan::new(&ledger, seen.now).width(&job.request, ax_core::time::Span(0));
                assert_eq!((wanted, fitting as usize), (job.request.nodes().min, there), "{}", job.id);
                assert!(fitting < wanted, "{}", job.id);
            }
        });
    }
}
