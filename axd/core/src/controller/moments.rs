//! Jobs whose hours open or close, or whose deadline can no longer be met, while they wait: when that is, and what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{QueueState, Scheduler};
use crate::id::JobNumber;
use crate::job::Job;
use crate::job::hours::Opening;
use crate::job::state::{Cause, JobState};
use crate::schedule::gang::Places;
use crate::schedule::placement::Rules;
use crate::schedule::timeline::{Reservation, Timeline};
use crate::time::{Now, Span, WallTime, Zone};

use super::{Controller, Decision, Move};

/// Of each waiting job that has hours or a deadline: when that changes next.
#[derive(Debug, Clone, Default)]
pub(super) struct Moments {
    by_time: BTreeSet<(WallTime, JobNumber)>,
    by_job: BTreeMap<JobNumber, WallTime>,
    /// Jobs whose hours have come and gone without a place for them.
    missed: BTreeSet<JobNumber>,
}

impl Moments {
    pub(super) fn set(&mut self, job: JobNumber, at: Option<WallTime>) {
        if let Some(known) = self.by_job.remove(&job) {
            self.by_time.remove(&(known, job));
        }
        if let Some(at) = at {
            self.by_job.insert(job, at);
            self.by_time.insert((at, job));
        }
    }

    pub(super) fn forget(&mut self, job: JobNumber) {
        self.set(job, None);
        self.missed.remove(&job);
    }

    pub(super) fn first(&self) -> Option<WallTime> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes those out that are due; all of them if the clock was set back.
    fn take(&mut self, now: WallTime, all: bool) -> BTreeSet<JobNumber> {
        let due = self.by_time.iter().take_while(|(at, _)| all || *at <= now);
        let due: BTreeSet<JobNumber> = due.map(|(_, job)| *job).collect();
        due.iter().for_each(|job| self.set(*job, None));
        due
    }
}

impl Controller {
    /// The first while from an instant on in which a job may start by its hours and deadline. The outer nothing: never
    /// again; the inner: it has neither.
    pub(crate) fn opening(&self, job: &Job, at: WallTime) -> Option<Option<Opening>> {
        match job.hours() {
            None => Some(None),
            Some(hours) => hours.next(at, &self.zone).map(Some),
        }
    }

    /// The first instant from one on at which a job may start by its hours and deadline.
    pub(crate) fn opens(&self, job: &Job, at: WallTime) -> Option<WallTime> {
        let opening = self.opening(job, at)?;
        Some(opening.map_or(at, |opening| opening.from.max(at)))
    }

    /// Whether the daily hours of a job have begun and not ended, however long it may run.
    pub(crate) fn is_open(&self, job: &Job, at: WallTime) -> bool {
        job.request.window().is_some_and(|window| window.is_open(at, &self.zone))
    }

    /// The first jobs that wait for a time of their own: that at which they begin, their hours, the end of a pause. So many
    /// of each kind at most.
    pub(crate) fn waiting_for_times(&self, most: usize) -> impl Iterator<Item = &Job> {
        let waits = |number: &JobNumber| {
            self.job(*number).is_some_and(|job| job.state == JobState::Pending && job.rare.hold.is_none())
        };
        let begins = self.begins.iter().map(|(_, job)| *job).filter(waits).take(most);
        let hours = self.moments.by_time.iter().map(|(_, job)| *job).filter(waits).take(most);
        let pauses = self.backoffs.iter().map(|(_, job)| *job).filter(waits).take(most);
        let all: BTreeSet<JobNumber> = begins.chain(hours).chain(pauses).collect();
        all.into_iter().filter_map(|number| self.job(number))
    }

    /// How long an attempt that was decided then may run, if that is limited.
    pub fn limit_from(&self, job: &Job, start: WallTime) -> Option<Span> {
        job.limit_from(start, &self.zone).0
    }

    /// How long its attempt could run, if it was its deadline that said so and not its time limit.
    pub(super) fn left_by_deadline(&self, job: &Job) -> Option<Span> {
        let start = job.attempt.as_ref()?.assigned_at;
        let (limit, by_deadline) = job.limit_from(start, &self.zone);
        limit.filter(|_| by_deadline)
    }

    /// Why a waiting job can't be over by its deadline any more, if so.
    pub(super) fn lapsed(&self, job: &Job, now: WallTime) -> Option<String> {
        let deadline = job.request.deadline()?;
        let begin = job.request.begin.map_or(now, |begin| begin.max(now));
        if self.opening(job, begin).is_some() {
            return None;
        }
        let needs = job.request.estimate.or(job.request.time_limit);
        let takes = needs.map_or(String::new(), |needs| format!(", and it takes {}", needs.in_words()));
        // What else keeps it from starting now: without it the numbers would not add up.
        let begins = match begin > now {
            true => format!(", it begins in {} at the earliest", (begin - now).in_words()),
            false => String::new(),
        };
        let hours = job.request.window().map_or(String::new(), |window| format!(", within {window} alone"));
        Some(match deadline <= now {
            true => "its deadline has passed".to_owned(),
            false => format!(
                "it can't be over by its deadline any more: that is in {}{begins}{takes}{hours}",
                (deadline - now).in_words()
            ),
        })
    }

    /// When that changes next.
    pub(super) fn note_moment(&mut self, job: &Job) {
        if job.hours().is_none() {
            return;
        }
        let opening = self.opening(job, self.seen).flatten().filter(|_| job.state.is_waiting());
        let next = opening.map(|opening| match self.seen < opening.from {
            true => opening.from,
            false => opening.until + Span(1),
        });
        self.moments.set(job.id.number, next);
        let between = job.state == JobState::Pending && job.request.window().is_some();
        if between && job.eligible_at.is_some() {
            self.moments.missed.insert(job.id.number);
        }
    }

    /// The earliest place for a job that lets it be over in time: the first there is or, if that is later than its hours
    /// let it start, the first in those that come next.
    pub(crate) fn earliest_in_time(
        &self,
        rules: &Rules,
        timeline: &Timeline,
        job: &Job,
        (not_before, length): (WallTime, Span),
    ) -> Option<(WallTime, Places)> {
        let earliest = |from| rules.earliest_places(&self.nodes, timeline, job, from, length);
        let in_time = |(from, _): &(WallTime, Places)| self.opens(job, *from) == Some(*from);
        let first = earliest(not_before)?;
        if in_time(&first) {
            return Some(first);
        }
        earliest(self.opens(job, first.0)?).filter(in_time)
    }

    /// The job for which a place is kept though its hours have not come: of those that have had hours and no place in them
    /// the one that came first. Else whoever starts before they come again could hold what it needs into them, every day.
    pub(super) fn between_hours(&self) -> Option<&Job> {
        let keeps =
            self.config.policy.reservations > 0 && self.config.policy.scheduler != Scheduler::FifoStrict;
        let waiting = self.moments.missed.iter().filter(|_| keeps).filter_map(|number| self.job(*number));
        waiting.into_iter().find(|job| {
            job.is_free(self.seen)
                && self
                    .config
                    .queue(job.queue.as_str())
                    .is_some_and(|queue| queue.state != QueueState::Stopped)
        })
    }

    /// The place that is kept for it.
    pub(super) fn kept_between_hours(&self, timeline: &Timeline) -> Vec<Reservation> {
        let Some(job) = self.between_hours() else { return Vec::new() };
        let rules = self.rules();
        let found = self.opens(job, timeline.now()).and_then(|opens| {
            self.earliest_in_time(&rules, timeline, job, (opens, self.fitting(job, timeline)))
        });
        let Some((from, places)) = found else { return Vec::new() };
        places.iter().map(|place| self.reservation(job, place, from)).collect()
    }

    /// Jobs of which that has changed.
    pub(super) fn pass_moments(&mut self, now: Now, set_back: bool, out: &mut Vec<Decision>) {
        for number in self.moments.take(now.wall, set_back) {
            let waits = self.job(number).filter(|job| job.state == JobState::Ready);
            let why = match waits.map(|job| self.is_open(job, now.wall)) {
                None => "its hours have come",
                Some(true) => "it would not be over within its hours any more",
                Some(false) => "outside of its hours",
            };
            self.settle_waiting(now, number, &crate::job::Actor::Ax, why, out);
            if let Some(job) = self.jobs.remove(&number) {
                self.note_moment(&job);
                self.jobs.insert(number, job);
            }
        }
    }

    /// The clock goes otherwise: of all jobs that wait with hours it is seen anew whether these have come.
    pub(super) fn zone_read(&mut self, now: Now, zone: Zone, out: &mut Vec<Decision>) {
        self.zone = Arc::new(zone);
        self.pass_moments(now, true, out);
    }

    /// How the clock of the place goes.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Ends a waiting job that can't be over by its deadline any more; whether it was one.
    pub(super) fn end_lapsed(&mut self, now: Now, number: JobNumber, out: &mut Vec<Decision>) -> bool {
        let job = self.jobs.get(&number).filter(|job| job.state.is_waiting());
        let Some(why) = job.and_then(|job| self.lapsed(job, now.wall)) else { return false };
        self.shift(now, number, Move::by_ax(Cause::DeadlineMissed, JobState::Deadline, &why), out)
    }
}
