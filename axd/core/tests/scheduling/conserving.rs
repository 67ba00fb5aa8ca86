//! Laws 3 and 4: nothing that could be used lies idle, and who is first and does not fit starts when it was promised.

use std::collections::BTreeMap;

use ax_core::config::Scheduler;
use ax_core::controller::{Decision, Event};
use ax_core::id::JobNumber;
use ax_core::job::Job;
use ax_core::time::{BootTime, WallTime};
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::{Ledger, is_firm, planned};
use crate::naive::{Plan, allowed, fits_somewhere, idle};
use crate::world::{Seen, World};
use crate::{histories, history};

/// What those were promised that were first and did not fit. First come, first served, so that nobody who comes later
/// goes before them.
#[derive(Default)]
struct Promises(BTreeMap<JobNumber, WallTime>);

/// Place of a job among all that wait, where the first that comes is the first.
fn turn(job: &Job) -> (WallTime, JobNumber) {
    (job.request.begin.map_or(job.submitted_at, |begin| begin.max(job.submitted_at)), job.id.number)
}

impl Promises {
    /// Of the first job, if it `counts`.
    fn settle(&mut self, ledger: &Ledger, seen: &Seen<'_>, counts: &dyn Fn(&Job) -> bool) {
        let job = |number| seen.controller.job(number);
        for decision in seen.out {
            let Decision::Launch { attempt, .. } = decision else { continue };
            if let Some(promise) = self.0.remove(&attempt.job.number) {
                assert!(seen.now.wall <= promise, "{} starts {} late", attempt.job, seen.now.wall - promise);
            }
            // Who was before them and was not allowed to start goes first once it is.
            let started = turn(job(attempt.job.number).unwrap());
            self.0.retain(|number, _| job(*number).is_some_and(|other| turn(other) < started));
        }
        let reserve = ledger.config.resources.gpu_reserve;
        let fits = |request| fits_somewhere(ledger, request, reserve);
        let promised = |job: &Job| self.0.contains_key(&job.id.number);
        let mut ready = seen.controller.ready_jobs();
        let first = ready.find(|job| fits(&job.request) && (promised(job) || allowed(ledger, job, 0)));
        let Some(first) = first else { return self.0.clear() };
        let number = first.id.number;
        self.0.retain(|other, _| *other == number);
        if !counts(first) {
            return;
        }
        let place = Plan::new(ledger, seen.now).earliest(&first.request, planned(first, &ledger.config));
        let from = place.expect("on empty nodes it fits")[0].from;
        let promise = *self.0.entry(number).or_insert(from);
        assert!(from <= promise, "{} was to start {} sooner", first.id, from - promise);
        assert!(promise > seen.now.wall, "{} should have started by now", first.id);
    }
}

/// After each step nobody waits who could start.
fn nothing_lies_idle((bits, ops): (u64, Vec<(u8, u64)>), frame: Frame) {
    let (mut ledger, frame) = (Ledger::default(), Frame { known_places: true, ..frame });
    World::play(bits, frame, ops, &mut |seen| {
        ledger.follow(seen, &mut |_, _| {});
        if ledger.evicting() || seen.controller.next_wake().boot == Some(BootTime(0)) {
            return;
        }
        if let Some(job) = idle(&ledger, seen.controller, seen.now) {
            panic!("{} fits now and waits: {:?}", job.id, seen.controller.explain(seen.now, job.id.number));
        }
    });
}

/// Whoever is first and does not fit starts when that was promised, from when its promise counts.
fn promises_hold(
    (bits, ops): (u64, Vec<(u8, u64)>),
    frame: Frame,
    counts: fn(&Job, &Ledger, WallTime) -> bool,
) {
    let frame = Frame { honest: true, calm: true, first_come: true, preemption: Some(false), ..frame };
    let (mut ledger, mut promises) = (Ledger::default(), Promises::default());
    World::play(bits, frame, ops, &mut |seen| {
        ledger.follow(seen, &mut |_, _| {});
        // People change what was planned, and greedy schedules promise nothing.
        let changed = seen.events.iter().any(|event| matches!(event, Event::Wished { .. }));
        if changed || ledger.config.policy.reservations == 0 {
            promises.0.clear();
        } else {
            promises.settle(&ledger, seen, &|job| counts(job, &ledger, seen.now.wall));
        }
    });
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_3_nothing_lies_idle_that_could_be_used(history in history(40)) {
        nothing_lies_idle(history, Frame::default());
    }

    #[test]
    fn law_3_nothing_lies_idle_among_jobs_of_few_shapes(history in history(40)) {
        let frame = Frame { alike: true, unlimited: true, preemption: Some(false), ..Frame::default() };
        nothing_lies_idle(history, Frame { scheduler: Some(Scheduler::Fifo), calm: true, ..frame });
    }

    #[test]
    fn law_4_with_honest_lengths_the_first_that_does_not_fit_starts_when_promised(history in history(40)) {
        let alike = history.0.is_multiple_of(2);
        promises_hold(history, Frame { alike, ..Frame::default() }, |_, _, _| true);
    }

    /// Others who declare to take longer are let in before it by what their last runs took, and it waits for what they
    /// declare: until it has waited for the bound.
    #[test]
    fn law_4_who_has_waited_for_the_bound_is_not_passed_on_what_was_learnt(history in history(80)) {
        let frame = Frame { learning: true, alike: true, ..Frame::default() };
        promises_hold(history, frame, |job, ledger, now| is_firm(job, &ledger.config, now));
    }
}
