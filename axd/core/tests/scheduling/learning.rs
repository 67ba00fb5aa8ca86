//! Laws 18 and 19: a job is planned with the mean of the last two runs of the same thing, never longer than it says
//! itself, and charged with what they used, as far as the policy and its owner want it. Both depend on the log alone.

use std::collections::BTreeMap;

use ax_core::config::LearnMemory;
use ax_core::controller::{Decision, Event};
use ax_core::id::{JobNumber, Uid};
use ax_core::job::Job;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::state::Outcome;
use ax_core::schedule::history::{History, Run, Signature, THINGS};
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};
use proptest::prelude::*;

use crate::chance::Frame;
use crate::ledger::Ledger;
use crate::naive::fits_somewhere;
use crate::world::{Seen, World};
use crate::{histories, history};

/// What is the same thing: whose, what it is called, what it asks for.
type Thing = (Uid, String, Option<CardRequest>, u32);

/// Runs that have succeeded: how long they took and what they used at most.
#[derive(Default)]
struct Log {
    things: BTreeMap<JobNumber, Thing>,
    runs: BTreeMap<Thing, Vec<(u64, Option<u64>)>>,
}

impl Log {
    /// New jobs, before what is decided about them.
    fn take_submissions(&mut self, seen: &Seen<'_>) -> Vec<JobNumber> {
        let mut new = Vec::new();
        for event in seen.events {
            let Event::Submitted(submission) = event else { continue };
            let accepted = |decision: &Decision| match decision {
                Decision::Accepted { key, job } if *key == submission.key => Some(job.number),
                _ => None,
            };
            let Some(number) = seen.out.iter().find_map(accepted) else { continue };
            // All names of these histories.
            let name = if submission.name.starts_with("train") { "train" } else { "job" };
            let request = &submission.request;
            let thing = (submission.owner.uid, name.to_owned(), request.cards.clone(), request.nodes().min);
            self.things.insert(number, thing);
            new.push(number);
        }
        new
    }

    /// An attempt is over, and what was known of it before that.
    fn take_end(&mut self, ledger: &Ledger, decision: &Decision) {
        let Decision::Closed { attempt, at, end } = decision else { return };
        let began = ledger.held.get(&attempt.epoch).and_then(|held| held.began);
        let (Outcome::Succeeded, Some(began)) = (end.outcome, began) else { return };
        let length = ledger.jobs[&attempt.job.number].saved + (*at - began);
        let thing = self.things[&attempt.job.number].clone();
        self.runs.entry(thing).or_default().push((length.0, end.card_peak.map(|peak| peak.0)));
    }

    fn usual_length(&self, thing: &Thing) -> Option<Span> {
        let [.., (first, _), (second, _)] = self.runs.get(thing)?[..] else { return None };
        Some(Span(u64::midpoint(first, second).max(1000)))
    }

    /// The 95th of a hundred peaks, of the last twenty.
    fn usual_peak(&self, thing: &Thing) -> Option<u64> {
        let mut peaks: Vec<u64> = self.runs.get(thing)?.iter().filter_map(|(_, peak)| *peak).collect();
        peaks.drain(..peaks.len().saturating_sub(20));
        peaks.sort_unstable();
        let most = (1..=peaks.len()).find(|rank| rank * 100 >= peaks.len() * 95)?;
        (peaks.len() >= 3).then(|| peaks[most - 1])
    }
}

/// What a job that asks for a slice is to be charged.
fn charge(ledger: &Ledger, log: &Log, job: &Job) -> Option<Megabytes> {
    let thing = &log.things[&job.id.number];
    let wanted = thing.2.as_ref()?;
    let asked = wanted.slice?;
    let kind = |card: &&ax_core::node::Card| wanted.kind.is_none() || card.kind == wanted.kind;
    let cards = ledger.nodes.values().map(|node| node.cards.iter().filter(kind).collect::<Vec<_>>());
    let sizes: Vec<u64> =
        cards.filter(|c| c.len() >= wanted.count as usize).flatten().map(|card| card.mem.0).collect();
    let usual = log.usual_peak(thing).and_then(|peak| {
        let least = sizes.iter().copied().filter(|size| *size >= peak).min()?;
        Some(Megabytes((peak * 105).div_ceil(100).min(least)))
    });
    let Some(usual) = usual else { return Some(asked) };
    let wants = match ledger.config.policy.learn_memory {
        LearnMemory::Off => false,
        LearnMemory::Raise => usual > asked,
        LearnMemory::Fit => usual > asked || job.request.fit_memory,
    };
    let mut request = Request::clone(&job.request);
    request.cards = Some(CardRequest { slice: Some(usual), ..wanted.clone() });
    let reserve = ledger.config.resources.gpu_reserve;
    let somewhere = fits_somewhere(ledger, &request, reserve);
    Some(if wants && (somewhere || usual < asked) { usual } else { asked })
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_18_a_job_is_planned_with_its_last_two_runs_and_never_longer_than_it_says(history in history(60)) {
        let (mut ledger, mut log) = (Ledger::default(), Log::default());
        World::play(history.0, Frame { alike: true, ..Frame::default() }, history.1, &mut |seen| {
            let new = log.take_submissions(seen);
            let on = seen.controller.config().policy.learn_length;
            // A submission is one event, so nothing ended in its step before it was taken.
            for number in new {
                let job = seen.controller.job(number).unwrap();
                let usual = log.usual_length(&log.things[&number]).filter(|_| on);
                let learnt = job.learnt.as_ref().and_then(|learnt| learnt.length);
                assert_eq!(learnt, usual, "{}", job.id);
            }
            ledger.follow(seen, &mut |ledger, decision| log.take_end(ledger, decision));
            for job in seen.controller.jobs() {
                let declared = job.request.estimate.or(job.request.time_limit).unwrap_or(Span(u64::MAX));
                assert!(job.length().is_none_or(|length| length <= declared), "{}", job.id);
                let planned = job.attempt.as_ref().map(|attempt| attempt.planned);
                assert!(planned.is_none_or(|planned| planned <= declared.max(Span(1000))), "{}", job.id);
            }
        });
    }

    #[test]
    fn law_18_a_job_that_starts_is_planned_with_what_has_been_learnt_since_it_came(history in history(60)) {
        let (mut ledger, mut log) = (Ledger::default(), Log::default());
        World::play(history.0, Frame { alike: true, ..Frame::default() }, history.1, &mut |seen| {
            log.take_submissions(seen);
            let on = seen.controller.config().policy.learn_length;
            ledger.follow(seen, &mut |ledger, decision| {
                log.take_end(ledger, decision);
                if let Decision::Launch { attempt, .. } = decision {
                    let job = seen.controller.job(attempt.job.number).unwrap();
                    let usual = log.usual_length(&log.things[&attempt.job.number]).filter(|_| on);
                    let planned = job.attempt.as_ref().unwrap().planned;
                    let left = |all: Span| {
                        if job.rare.saved.0 == 0 { all } else { Span(all.0.saturating_sub(job.rare.saved.0).max(1000)) }
                    };
                    assert!(usual.is_none_or(|usual| planned <= left(usual)), "{} for {planned:?}", job.id);
                }
            });
        });
    }

    #[test]
    fn law_19_a_job_is_charged_with_what_its_last_runs_used_if_that_is_wanted(history in history(60)) {
        let (mut ledger, mut log) = (Ledger::default(), Log::default());
        World::play(history.0, Frame { alike: true, ..Frame::default() }, history.1, &mut |seen| {
            let new = log.take_submissions(seen);
            ledger.take_events(seen);
            for number in new {
                let job = seen.controller.job(number).unwrap();
                let wanted = job.request.cards.as_ref();
                assert_eq!(wanted.and_then(|cards| cards.slice), charge(&ledger, &log, job), "{}", job.id);
                let asked = job.learnt.as_ref().and_then(|learnt| learnt.asked);
                let thing = log.things[&number].2.as_ref().and_then(|cards| cards.slice);
                assert!(asked.is_none_or(|asked| Some(asked) == thing), "what it asked for is known still");
            }
            ledger.take_decisions(seen, &mut |ledger, decision| log.take_end(ledger, decision));
        });
    }

    #[test]
    fn law_18_what_is_remembered_is_bounded_and_can_be_written_down(
        runs in proptest::collection::vec((Just(1_u32), 1..4000_u64, 0..9_u64, 0..50_i64), 140..220),
    ) {
        let (mut history, mut twin) = (History::default(), History::default());
        for (user, thing, length, ended) in runs {
            let run = Run { length: Span(length), peak: Some(Megabytes(length)), ended: WallTime(ended) };
            for each in [&mut history, &mut twin] {
                each.add(Uid(user), Signature(thing), &run);
            }
        }
        prop_assert_eq!(&history, &twin);
        for user in 0..=2 {
            prop_assert!(history.iter().filter(|(own, _, _)| own.0 == user).count() <= THINGS);
        }
        let mut read = History::default();
        for (user, thing, runs) in history.iter() {
            let text = serde_json::to_string(runs).unwrap();
            read.restore(user, thing, serde_json::from_str(&text).unwrap());
        }
        prop_assert_eq!(history, read);
    }
}
