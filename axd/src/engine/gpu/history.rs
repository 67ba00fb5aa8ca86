//! Keeps samples of cards: the latest in memory, all of them in the database. Tells the controller since when the
//! cards of jobs do nothing.

use ax_core::api::{ApiError, CardHistory, ErrorClass};
use ax_core::gpu::Sample;
use ax_core::gpu::idle::IdleWatch;
use ax_core::gpu::seen::{AttemptSeen, Held, of_attempts};
use ax_core::id::{AttemptName, JobNumber};
use ax_core::job::Job;
use ax_core::job::state::JobState;
use ax_core::time::{BootTime, Now, Span, WallTime};
use ax_core::units::format_duration;

use super::super::{Engine, now};
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::people::Person;
use crate::samples::{Asked, Look, Question, Samples, Series, What};

/// A sample that is older than so many times the pace says nothing about now.
const FRESH: u64 = 30;
/// How often idle cards are told, or more often if the first limit is shorter.
const TELL_IDLE: Span = Span::seconds(60);
/// Of a job that was started over and over only the last attempts are told.
const MOST_ATTEMPTS: usize = 50;
/// Most points of a card's history, and its longest span: the time for which hours are kept.
const MOST_POINTS: u32 = 400;
const LONGEST_SPAN: u64 = 366 * 86_400;

/// The samples that are kept in memory.
pub(in crate::engine) struct History {
    samples: Samples,
    idle: IdleWatch,
    /// When the last sample came.
    last: Option<BootTime>,
}

impl History {
    pub(in crate::engine) fn new(samples: Samples) -> History {
        History { samples, idle: IdleWatch::default(), last: None }
    }

    /// Writes what is not written yet.
    pub(in crate::engine) fn finish(&mut self) {
        self.samples.finish();
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
    pub(in crate::engine) fn keep_sample(&mut self, sample: &Sample) {
        let Now { boot, wall } = now();
        let seen = of_attempts(sample, self.held_cards());
        self.gpu.history.last = Some(boot);
        self.gpu.history.samples.keep(look_of(wall, sample, &seen));
        let every = self.controller.config().policy.idle.map_or(TELL_IDLE, |idle| idle.min(TELL_IDLE));
        for event in self.gpu.history.idle.look(boot, &seen, every) {
            self.happened(event);
        }
    }

    /// True if the last sample says something about now.
    pub(in crate::engine) fn sees_now(&self) -> bool {
        let every = self.controller.config().resources.gpu_sample.max(Span::seconds(1));
        self.gpu.history.last.is_some_and(|last| now().boot - last <= Span(every.0.saturating_mul(FRESH)))
    }

    /// The cards of this node's running jobs. Jobs that are starting or ending are not expected to use theirs.
    fn held_cards(&self) -> Vec<Held> {
        let node = &self.local.inventory.name;
        let running = self.controller.active_jobs().filter(|job| job.state == JobState::Running);
        let attempts = running.filter_map(|job| job.attempt.as_deref());
        let here = attempts.filter_map(|attempt| Some((attempt.name, attempt.open_part_on(node)?)));
        let held = here.flat_map(|(name, part)| part.cards.iter().map(move |card| (name, card)));
        held.map(|(attempt, card)| Held { attempt, uuid: card.uuid.clone(), whole: card.slice.is_none() })
            .collect()
    }

    /// Has the history of all cards read: `span_s` back from now, in so many `points`.
    pub(in crate::engine) fn card_history(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let (span, points) = match history_query(request) {
            Ok(query) => query,
            Err(error) => return self.respond(conn, &Response::error(&error)),
        };
        let step_s = u32::try_from(span.div_ceil(u64::from(points))).unwrap_or(u32::MAX).max(1);
        let grain = ax_core::gpu::thin::Grain::reaching(span).seconds();
        // A whole number of kept stretches: otherwise some points would cover more of them than others.
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
        self.clients.fairness.began(person.uid);
        self.gpu.history.samples.ask(Question { uid: person.uid, conn, what });
    }

    /// Has the usage of a job's attempts read.
    pub(in crate::engine) fn job_usage(&mut self, job: &str, conn: ConnId, person: &Person) {
        let asked = self.find_job(job, person).and_then(|id| {
            let epochs = self.epochs_of(id.number)?;
            Ok((id, epochs))
        });
        match asked {
            Ok((id, epochs)) => {
                let running = self.controller.job(id.number).and_then(running_attempt);
                let what = Asked::Usage { id, epochs, running };
                self.clients.fairness.began(person.uid);
                self.gpu.history.samples.ask(Question { uid: person.uid, conn, what });
            }
            Err(error) => self.respond(conn, &Response::error(&error)),
        }
    }

    fn epochs_of(&self, number: JobNumber) -> Result<Vec<u64>, ApiError> {
        let stored = self.reader.view(number, now().wall);
        let stored =
            stored.map_err(|error| ApiError { class: ErrorClass::TryAgain, error: error.to_string() })?;
        Ok(stored
            .map(|view| view.attempts.iter().rev().take(MOST_ATTEMPTS).map(|attempt| attempt.epoch).collect())
            .unwrap_or_default())
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
            error: match name {
                "span_s" => {
                    format!("--history: 1s to {} can be asked for", format_duration(Span::seconds(most)))
                }
                _ => format!("query '{name}': a number from 1 to {most} is wanted"),
            },
        })
    };
    let points = number("points", 60, u64::from(MOST_POINTS))?;
    Ok((number("span_s", 3600, LONGEST_SPAN)?, u32::try_from(points).unwrap_or(MOST_POINTS)))
}
