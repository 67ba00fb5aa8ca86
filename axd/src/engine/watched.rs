//! What samples of cards are kept for: the latest, for whoever asks now; the database, for whoever asks later; and since
//! when the cards of jobs do nothing, which the controller is told.

use std::collections::{BTreeMap, VecDeque};

use ax_core::api::{ApiError, CardHistory, ErrorClass};
use ax_core::gpu::Sample;
use ax_core::gpu::idle::IdleWatch;
use ax_core::gpu::seen::{AttemptSeen, Held, of_attempts};
use ax_core::id::{AttemptName, JobNumber};
use ax_core::job::Job;
use ax_core::job::state::JobState;
use ax_core::size::Megabytes;
use ax_core::time::{BootTime, Now, Span, WallTime};

use super::{Engine, now};
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::people::Person;
use crate::samples::{Asked, Look, Question, Samples, Series, What};

/// A card of which nothing was seen for so long is no longer measured.
const FRESH: Span = Span::seconds(30);
/// So many of the last figures the 95th percentile is of.
const WINDOW: usize = 60;
/// How often idle cards are told, or sooner where the first limit is shorter.
const TELL_IDLE: Span = Span::seconds(60);
/// Most points of a card's history, and its longest span: what is kept by the hour.
const MOST_POINTS: u32 = 400;
const LONGEST_SPAN: u64 = 366 * 86_400;

/// All that is kept of samples in memory.
pub(super) struct Watched {
    samples: Samples,
    idle: IdleWatch,
    cards: BTreeMap<String, Recent>,
    /// The most that living attempts were seen to use on a card.
    peaks: BTreeMap<AttemptName, Megabytes>,
}

/// What was used of a card lately.
struct Recent {
    at: BootTime,
    used: VecDeque<Megabytes>,
}

impl Watched {
    pub(super) fn new(samples: Samples) -> Watched {
        Watched { samples, idle: IdleWatch::default(), cards: BTreeMap::new(), peaks: BTreeMap::new() }
    }

    /// The 95th percentile of what was used of a card lately; nothing if it is no longer measured.
    pub(super) fn percentile(&self, uuid: &str, now: BootTime) -> Option<Megabytes> {
        let recent = self.cards.get(uuid).filter(|recent| now - recent.at <= FRESH)?;
        let mut used: Vec<Megabytes> = recent.used.iter().copied().collect();
        used.sort();
        // Of up to 19 figures it is the largest.
        let place = (used.len() * 95).div_ceil(100).max(1) - 1;
        used.get(place).copied()
    }

    /// The most that an attempt was seen to use on one of its cards; asked once it is over.
    pub(super) fn take_peak(&mut self, attempt: AttemptName) -> Option<Megabytes> {
        self.peaks.remove(&attempt)
    }

    /// Writes what waits to be written.
    pub(super) fn finish(&mut self) {
        self.samples.finish();
    }

    fn take(&mut self, at: BootTime, sample: &Sample, seen: &[AttemptSeen]) {
        self.cards.retain(|_, recent| at - recent.at <= FRESH);
        for card in &sample.cards {
            let known = self.cards.remove(&card.uuid);
            let mut used = known.map(|known| known.used).unwrap_or_default();
            used.push_back(card.used);
            while used.len() > WINDOW {
                used.pop_front();
            }
            self.cards.insert(card.uuid.clone(), Recent { at, used });
        }
        let living: BTreeMap<AttemptName, Option<Megabytes>> =
            seen.iter().map(|attempt| (attempt.attempt, attempt.memory())).collect();
        for (attempt, memory) in &living {
            if let Some(memory) = memory {
                let peak = self.peaks.entry(*attempt).or_default();
                *peak = (*peak).max(*memory);
            }
        }
    }
}

/// The figures of a sample that are kept.
fn look_of(at: WallTime, sample: &Sample, seen: &[AttemptSeen]) -> Look {
    let mut figures = Vec::new();
    for card in &sample.cards {
        let mut keep = |what, value: f64| figures.push((Series::card(&card.uuid, what), value));
        keep(What::Memory, card.used.0 as f64);
        if let Some(load) = card.load {
            keep(What::Load, f64::from(load));
        }
        if let Some(temperature) = card.temperature {
            keep(What::Temperature, f64::from(temperature));
        }
        if let Some(power) = card.power_mw {
            keep(What::Power, f64::from(power) / 1000.0);
        }
    }
    for attempt in seen {
        let epoch = attempt.attempt.epoch.0;
        let memory = attempt.memory().map(|memory| (Series::attempt(epoch, What::Memory), memory.0 as f64));
        let load = attempt.load().map(|load| (Series::attempt(epoch, What::Load), load));
        figures.extend(memory.into_iter().chain(load));
    }
    Look { at, figures, attempts: seen.iter().map(|attempt| attempt.attempt).collect() }
}

impl Engine {
    /// Keeps a sample, and tells of cards that do nothing.
    pub(super) fn keep_sample(&mut self, sample: &Sample) {
        let Now { boot, wall } = now();
        let seen = of_attempts(sample, self.held_cards());
        self.watched.take(boot, sample, &seen);
        self.watched.samples.keep(look_of(wall, sample, &seen));
        let every = self.controller.config().policy.idle.map_or(TELL_IDLE, |idle| idle.min(TELL_IDLE));
        for event in self.watched.idle.look(boot, &seen, every) {
            self.happened(event);
        }
    }

    /// The cards of this node's running jobs. One that is on its way up or down is not expected to use them.
    fn held_cards(&self) -> Vec<Held> {
        let node = &self.local.inventory.name;
        let running = self.controller.active_jobs().filter(|job| job.state == JobState::Running);
        let attempts = running.filter_map(|job| job.attempt.as_deref());
        let here = attempts.filter(|attempt| attempt.allocation.node == *node);
        let held = here.flat_map(|attempt| attempt.allocation.cards.iter().map(|card| (attempt.name, card)));
        held.map(|(attempt, card)| Held { attempt, uuid: card.uuid.clone(), whole: card.slice.is_none() })
            .collect()
    }

    /// Has the history of all cards read: `span_s` back from now, in so many `points`.
    pub(super) fn card_history(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let asked = history_query(request).and_then(|query| {
            self.worker.admit_list(person.uid)?;
            Ok(query)
        });
        let (span, points) = match asked {
            Ok(query) => query,
            Err(error) => return self.respond(conn, &Response::error(&error)),
        };
        let step_s = u32::try_from(span.div_ceil(u64::from(points))).unwrap_or(u32::MAX).max(1);
        let grain = ax_core::gpu::thin::Grain::reaching(span).seconds();
        // A whole number of what is kept: else some stretches would have more in them than others.
        let step_s = step_s.div_ceil(grain) * grain;
        let until = now().wall;
        let since = WallTime(until.0.saturating_sub_unsigned(span * 1000));
        let cards = self.controller.nodes().flat_map(|node| {
            node.inventory.cards.iter().map(move |card| CardHistory {
                node: node.inventory.name.to_string(),
                index: card.index,
                uuid: card.uuid.clone(),
                name: card.kind.clone().unwrap_or_else(|| "card".to_owned()),
                mem_mb: card.mem.0,
                since: ax_core::gpu::thin::beginning(since, step_s),
                step_s,
                points: Vec::new(),
            })
        });
        let what = Asked::History { cards: cards.collect(), until };
        self.watched.samples.ask(Question { uid: person.uid, conn, what });
    }

    /// Has it read what a job's attempts used.
    pub(super) fn job_usage(&mut self, job: &str, conn: ConnId, person: &Person) {
        let asked = self.find_job(job, person).and_then(|id| {
            let epochs = self.epochs_of(id.number)?;
            self.worker.admit_list(person.uid)?;
            Ok((id, epochs))
        });
        match asked {
            Ok((id, epochs)) => {
                let running = self.controller.job(id.number).and_then(running_attempt);
                let what = Asked::Usage { id, epochs, running };
                self.watched.samples.ask(Question { uid: person.uid, conn, what });
            }
            Err(error) => self.respond(conn, &Response::error(&error)),
        }
    }

    fn epochs_of(&self, number: JobNumber) -> Result<Vec<u64>, ApiError> {
        let stored = self.reader.view(number, now().wall);
        let stored =
            stored.map_err(|error| ApiError { class: ErrorClass::TryAgain, error: error.to_string() })?;
        Ok(stored.map(|view| view.attempts.iter().map(|attempt| attempt.epoch).collect()).unwrap_or_default())
    }
}

fn running_attempt(job: &Job) -> Option<AttemptName> {
    let running = job.attempt.as_deref().filter(|_| job.state.is_active());
    running.filter(|attempt| attempt.started_at.is_some()).map(|attempt| attempt.name)
}

fn history_query(request: &Request) -> Result<(u64, u32), ApiError> {
    let number = |name: &str, usual: u64, most: u64| {
        let Some(text) = request.values(name).next() else { return Ok(usual) };
        let value = text.parse().ok().filter(|value| (1..=most).contains(value));
        value.ok_or_else(|| ApiError {
            class: ErrorClass::Usage,
            error: format!("query '{name}': a number from 1 to {most} is wanted"),
        })
    };
    let points = number("points", 60, u64::from(MOST_POINTS))?;
    Ok((number("span_s", 3600, LONGEST_SPAN)?, u32::try_from(points).unwrap_or(MOST_POINTS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::gpu::CardSeen;

    #[test]
    fn a_spike_does_not_move_the_percentile_and_a_lasting_rise_does() {
        let dir = crate::store::testing::TempDir::new();
        let paths = ax_core::paths::Paths::under(dir.path());
        let (report, _answers) = std::sync::mpsc::channel();
        let waker = std::sync::Arc::new(ax_sys::socket::Waker::new().unwrap());
        let mut watched = Watched::new(Samples::start(&paths, report, &waker).unwrap());
        let mut look = |second: u64, used: u64| {
            let card = CardSeen { uuid: "a".into(), used: Megabytes(used), ..CardSeen::default() };
            let at = BootTime(second * 1000);
            watched.take(at, &Sample { cards: vec![card], ..Sample::default() }, &[]);
            watched.percentile("a", at).unwrap()
        };
        for second in 0..60 {
            look(second, 100);
        }
        assert_eq!(look(60, 9000), Megabytes(100));
        let risen: Vec<Megabytes> = (61..66).map(|second| look(second, 9000)).collect();
        assert_eq!(risen.last(), Some(&Megabytes(9000)));
        assert!(watched.percentile("a", BootTime(96_000)).is_none());
        watched.finish();
    }
}
