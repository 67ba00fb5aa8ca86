//! Follows attempts on cards, look by look: an attempt that uses more than its slice is warned and ended; an attempt
//! is over only when nothing of it is left on its cards; what an attempt has left there after its end is ended.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::controller::Event;
use ax_core::gpu::leaving::{Leavings, Leftover, attribute_mps, leftovers};
use ax_core::gpu::watch::{Rules, Watch, Watched};
use ax_core::gpu::{Health, Rung, Sample, slices};
use ax_core::id::AttemptName;
use ax_core::job::Attempt;
use ax_core::job::state::JobState;
use ax_core::record::AttemptResult;
use ax_core::time::{BootTime, Span};

use super::super::{Engine, now};
use super::enforcement::is_measured;
use crate::leftover::LeftoverError;
use crate::log::{Level, Line};
use crate::mps::{EndedDaemon, MpsError};
use crate::worker::Task;

/// What is remembered between looks.
#[derive(Debug, Default)]
pub(in crate::engine) struct CardAttempts {
    watch: Watch,
    leavings: Leavings,
    /// Results of attempts whose cards are not clean yet.
    results: BTreeMap<AttemptName, AttemptResult>,
    /// Left-over processes that are being ended.
    ending: BTreeSet<(i32, u64)>,
    /// MPS daemons that served no attempt in the last look.
    idle_mps: BTreeSet<(i32, Option<u64>)>,
    sweeps: Sweeps,
}

/// When MPS daemons that no attempt uses are ended.
#[derive(Debug, Default)]
struct Sweeps {
    /// True while a sweep is under way.
    under_way: bool,
    /// When the next sweep is due, if something is left to do.
    next: Option<BootTime>,
    /// The pause before the last one.
    pause: Span,
}

/// A sweep that failed is repeated after this pause, which doubles up to a bound.
const SWEEP_AGAIN: Span = Span::seconds(1);
const SWEEP_SELDOM: Span = Span::seconds(600);

impl CardAttempts {
    /// Why a card should not be given out, because of what an attempt left there.
    pub(in crate::engine) fn trouble(&self, card: &str) -> Option<&str> {
        self.leavings.trouble(card)
    }
}

impl Engine {
    /// Attributes processes that are exiting, and MPS daemons, to attempts; has MPS daemons ended that serve none.
    pub(in crate::engine) fn recognize(&mut self, sample: &mut Sample) {
        self.gpu.attempts.leavings.recognize(sample);
        let idle = attribute_mps(sample, |card| self.under_mps(card));
        let there: BTreeSet<(i32, Option<u64>)> =
            idle.iter().map(|(_, holder)| (holder.pid, holder.start_ticks)).collect();
        let due = self.gpu.attempts.sweeps.next.is_some_and(|next| next <= now().boot);
        if due || !there.is_subset(&self.gpu.attempts.idle_mps) {
            self.sweep_mps();
        }
        self.gpu.attempts.idle_mps = there;
    }

    /// Has MPS daemons ended that no attempt uses.
    pub(in crate::engine) fn sweep_mps(&mut self) {
        let sweeps = &mut self.gpu.attempts.sweeps;
        if sweeps.under_way {
            sweeps.next = Some(now().boot);
            return;
        }
        (sweeps.under_way, sweeps.next) = (true, None);
        self.worker.start_task(Task::SweepMps(self.isolation.parents.clone()));
    }

    pub(in crate::engine) fn on_mps_swept(&mut self, swept: Vec<Result<EndedDaemon, MpsError>>) {
        let sweeps = &mut self.gpu.attempts.sweeps;
        sweeps.under_way = false;
        if swept.iter().any(Result::is_err) {
            sweeps.pause = Span(sweeps.pause.0.saturating_mul(2)).clamp(SWEEP_AGAIN, SWEEP_SELDOM);
            sweeps.next = Some(now().boot + sweeps.pause);
        } else {
            sweeps.pause = Span(0);
        }
        for what in swept {
            let line = match &what {
                Ok(ended) => Line::new("mps").text("ended", ended),
                Err(error) => Line::new("mps").text("error", error),
            };
            self.log.line(Level::Warning, &line);
        }
    }

    /// Takes in a look at the cards that began at this time.
    pub(in crate::engine) fn watch_cards(&mut self, begun: BootTime, sample: &Sample) {
        self.watch_slices(sample);
        self.end_leftovers(sample);
        let mut leavings = std::mem::take(&mut self.gpu.attempts.leavings);
        let gone = leavings.look(begun, sample, |attempt| self.is_living(attempt));
        self.gpu.attempts.leavings = leavings;
        for attempt in gone {
            self.left_cards(attempt);
        }
    }

    fn watch_slices(&mut self, sample: &Sample) {
        if self.gpu.enforcement.is_apart() {
            // Nobody is ended for what another may have.
            return;
        }
        let resources = &self.controller.config().resources;
        let samples = Some(resources.gpu_over_samples).filter(|samples| *samples > 0);
        let rules = Rules { tolerance: resources.gpu_tolerance, samples };
        let watched: Vec<Watched> = self.living_attempts().filter_map(|each| self.watched(each)).collect();
        let node = &self.local.inventory.name;
        let findings = self.gpu.attempts.watch.look(now().boot, node, sample, &watched, rules);
        for finding in findings {
            let kind = if finding.ends { "over_slice_ended" } else { "over_slice" };
            let line = Line::new(kind).text("attempt", &finding.attempt).text("what", &finding.words);
            self.log.line(Level::Warning, &line);
            let (attempt, words) = (finding.attempt, finding.words);
            self.happened(Event::OverSlice { attempt, words, peak: finding.peak, ends: finding.ends });
        }
    }

    fn living_attempts(&self) -> impl Iterator<Item = &Attempt> {
        let all = self.controller.active_jobs().filter_map(|job| job.attempt.as_deref());
        all.filter(|attempt| attempt.end.is_none())
    }

    /// An attempt's slices to which nothing else holds it for certain.
    fn watched(&self, attempt: &Attempt) -> Option<Watched> {
        let cards = &self.local.inventory.cards;
        let held = slices(&attempt.allocation, cards).filter(|(grant, rung)| {
            *rung != Rung::Driver || !self.is_limited_by_driver(attempt.name, &grant.uuid)
        });
        let number = |uuid: &str| cards.iter().find(|card| card.uuid == uuid).map(|card| card.index);
        let slices: Vec<_> = held.filter_map(|(grant, _)| Some((number(&grant.uuid)?, grant))).collect();
        (!slices.is_empty()).then_some(Watched { attempt: attempt.name, slices })
    }

    /// True if the end of an attempt has to wait, because its cards can be looked at and were not since it ended.
    pub(in crate::engine) fn waits_for_cards(&mut self, result: &AttemptResult) -> bool {
        let attempt = result.attempt;
        if !self.is_living(attempt) || self.gpu.attempts.leavings.is_leaving(attempt) {
            return self.gpu.attempts.leavings.is_leaving(attempt);
        }
        let cards = self.measured_cards(attempt);
        if cards.is_empty() || !self.can_look_at_cards() {
            return false;
        }
        if self.state_of(attempt) != Some(JobState::Completing) {
            self.happened(Event::AttemptEnding { attempt });
        }
        self.gpu.attempts.leavings.leave(attempt, cards, now().boot);
        self.gpu.attempts.results.insert(attempt, result.clone());
        self.look_at_cards_now();
        true
    }

    /// The cards of an attempt about which the driver can be asked.
    fn measured_cards(&self, attempt: AttemptName) -> Vec<String> {
        let held = self.controller.job(attempt.job.number).and_then(|job| job.attempt.as_deref());
        let Some(held) = held.map(|held| &held.allocation) else { return Vec::new() };
        let node = self.controller.nodes().find(|node| node.inventory.name == held.node);
        // Where nobody knows who is there, neighbours make it impossible to say that one has left.
        let alone = |card: &&ax_core::node::Card| {
            let listed = self.seen(card).is_none_or(|seen| seen.holders.is_some());
            listed || node.is_none_or(|node| node.card_holders(card) <= 1)
        };
        let has = self.local.inventory.cards.iter().filter(|card| is_measured(card)).filter(alone);
        let theirs = has.filter(|card| held.cards.iter().any(|share| card.is_of(share, &held.node)));
        theirs.map(|card| card.uuid.clone()).collect()
    }

    /// When the first attempt has waited long enough for its cards to be clean.
    pub(in crate::engine) fn cards_due(&self) -> Option<BootTime> {
        self.gpu.attempts.leavings.next_due(self.controller.config().resources.gpu_clean_wait)
    }

    /// An attempt that has waited long enough is over; what it left makes its cards unclean.
    pub(in crate::engine) fn give_up_cards(&mut self, at: BootTime) {
        if self.cards_due().is_none_or(|due| due > at) {
            return;
        }
        let patience = self.controller.config().resources.gpu_clean_wait;
        let (gone, troubles) = self.gpu.attempts.leavings.give_up(at, patience, Some(&self.gpu.sample));
        for (card, why) in troubles {
            let line = Line::new("card_not_clean").text("card", &card).text("why", &why);
            self.log.line(Level::Warning, &line);
            self.suspect(card, why);
        }
        for attempt in gone {
            self.left_cards(attempt);
        }
    }

    /// Makes a card suspect before anything else is started on it; the next look finds the same.
    fn suspect(&mut self, uuid: String, why: String) {
        let node = self.local.inventory.name.clone();
        let here = self.controller.nodes().find(|each| each.inventory.name == node);
        let mut state = here.and_then(|node| node.card_state(&uuid).cloned()).unwrap_or_default();
        if state.health == Health::Healthy {
            (state.health, state.why) = (Health::Suspect, Some(why));
            self.happened(Event::CardChanged { node, uuid, state });
        }
    }

    /// True if the cards can be looked at at all.
    fn can_look_at_cards(&self) -> bool {
        self.gpu.cards.is_some()
    }

    pub(in crate::engine) fn look_at_cards_now(&mut self) {
        if let Some(cards) = &mut self.gpu.cards {
            cards.look_soon(now().boot);
        }
    }

    fn left_cards(&mut self, attempt: AttemptName) {
        if let Some(result) = self.gpu.attempts.results.remove(&attempt) {
            self.attempt_over(result);
        }
    }

    /// Ends processes in groups of attempts that are over.
    fn end_leftovers(&mut self, sample: &Sample) {
        // The group of an attempt that is leaving was proved empty.
        let lives = |attempt| self.is_living(attempt) && !self.gpu.attempts.results.contains_key(&attempt);
        let left: Vec<Leftover> = leftovers(sample, lives);
        let there: BTreeSet<(i32, u64)> = left.iter().map(|each| (each.pid, each.start_ticks)).collect();
        self.gpu.attempts.ending.retain(|each| there.contains(each));
        for each in left {
            if self.gpu.attempts.ending.insert((each.pid, each.start_ticks)) {
                self.worker.start_task(Task::EndLeftover(each, self.isolation.parents.clone()));
            }
        }
    }

    pub(in crate::engine) fn on_leftover_ended(
        &mut self,
        left: &Leftover,
        ended: Result<bool, LeftoverError>,
    ) {
        let line = Line::new("left_over").text("attempt", &left.attempt).text("pid", &left.pid);
        let (level, line) = match ended {
            Ok(true) => (Level::Info, line.text("done", &"ended")),
            Ok(false) => (Level::Info, line.text("done", &"gone, or a stranger")),
            Err(error) => (Level::Error, line.text("error", &error)),
        };
        self.log.line(level, &line);
    }
}
