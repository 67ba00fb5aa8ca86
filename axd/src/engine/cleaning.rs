//! Removes what attempts leave behind: on this node as soon as the end is durable, in the spool a while later. What
//! can't be removed is tried again with growing pauses, and at last by the next daemon.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::id::{AttemptName, JobNumber};
use ax_core::job::state::JobState;
use ax_core::time::{BootTime, Span};

use super::spares::Spares;
use super::{Engine, now};
use crate::log::{Level, Line};
use crate::settle::RemovalError;
use crate::worker::{Chore, Leftover, Task, Trace};

/// The folders of a finished attempt in the spool are removed after this.
const SPOOL_STAYS: Span = Span::seconds(300);

/// What can't be removed is tried again after this, then after twice as long, up to the longest pause.
const RETRY: Span = Span::seconds(1);
const LAST_RETRY: Span = Span::seconds(600);

/// What can't be removed for two hours is left to the next start.
const MOST_TRIES: u32 = 20;

/// What waits for the driver of the cards is tried at least this often, without end: until then the driver counts
/// memory of a card for a group that no job has any more.
const DRIVER_RETRY: Span = Span::seconds(20);

/// What ended attempts have left behind.
#[derive(Debug)]
pub(super) struct Cleaning {
    pub(super) chores: Chores,
    /// Folders that others may use.
    pub(super) spares: Spares,
}

/// What is to be removed later.
#[derive(Debug, Default)]
pub(super) struct Chores {
    due: BTreeMap<(BootTime, AttemptName, Trace), Chore>,
    /// Attempts to clean up once `settle` no longer looks at them: if it found nothing of an attempt, it would seal
    /// it.
    after_settling: BTreeSet<AttemptName>,
}

impl Chores {
    fn put(&mut self, at: BootTime, chore: Chore) {
        self.due.insert((at, chore.attempt, chore.trace), chore);
    }

    /// When the next removal is due.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        self.due.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Calls off the removal of an attempt's folder in the spool. Returns whether it was still to come.
    pub(super) fn call_off(&mut self, attempt: AttemptName, at: BootTime) -> bool {
        self.due.remove(&(at, attempt, Trace::Spool)).is_some()
    }

    fn pop_due(&mut self, now: BootTime) -> Option<Chore> {
        self.next_due().filter(|at| *at <= now)?;
        self.due.pop_first().map(|(_, chore)| chore)
    }

    /// Schedules another try. Returns the pause; `None` if this daemon does not try again.
    fn again(&mut self, chore: Chore, now: BootTime) -> Option<Span> {
        let tries = chore.tries.saturating_add(1);
        let last = if chore.waits_for_driver { DRIVER_RETRY } else { LAST_RETRY };
        let pause = Span(RETRY.0 << chore.tries.min(30)).min(last);
        (chore.waits_for_driver || tries < MOST_TRIES).then(|| {
            self.put(now + pause, Chore { tries, ..chore });
            pause
        })
    }
}

impl Engine {
    /// The attempt is settled and that is durable: removes its traces on this node.
    pub(super) fn clean_up(&mut self, attempt: AttemptName) {
        self.supervision.attempts.forget(attempt);
        self.row_data.nameless.remove(&attempt);
        match self.supervision.settling.contains(&attempt) {
            true => drop(self.cleaning.chores.after_settling.insert(attempt)),
            false => self.worker.start_task(Task::CleanUp(Chore::new(attempt, Trace::Node))),
        }
        let at = self.spool_goes_later(attempt);
        self.settle_spares(attempt, at);
    }

    /// `settle` no longer looks at the attempt.
    pub(super) fn clean_up_settled(&mut self, attempt: AttemptName) {
        if self.cleaning.chores.after_settling.remove(&attempt) {
            self.worker.start_task(Task::CleanUp(Chore::new(attempt, Trace::Node)));
        }
    }

    /// Keeps what a finished attempt left in the spool for a while. Returns until when.
    pub(super) fn spool_goes_later(&mut self, attempt: AttemptName) -> BootTime {
        let at = now().boot + SPOOL_STAYS;
        self.cleaning.chores.put(at, Chore::new(attempt, Trace::Spool));
        at
    }

    /// Hands what is due to the worker.
    pub(super) fn remove_what_is_due(&mut self, now: BootTime) {
        let mut leftovers = Vec::new();
        while let Some(chore) = self.cleaning.chores.pop_due(now) {
            match chore.trace {
                Trace::Node => self.worker.start_task(Task::CleanUp(chore)),
                Trace::Spool => leftovers.push(Leftover {
                    folder: self.paths.epoch_dir(chore.attempt),
                    job_over: self.is_over(chore.attempt.job.number),
                    chore,
                }),
            }
        }
        if !leftovers.is_empty() {
            self.worker.start_task(Task::Remove(leftovers));
        }
    }

    /// Something could not be removed.
    pub(super) fn on_not_removed(&mut self, chore: Chore, error: &RemovalError) {
        let again = self.cleaning.chores.again(chore, now().boot);
        // Of many tries only some are logged.
        if chore.waits_for_driver && chore.tries > 0 && !chore.tries.is_power_of_two() {
            return;
        }
        let next = again.map_or("the next start".to_owned(), |pause| pause.to_string());
        let line = Line::new("cleanup").text("attempt", &chore.attempt).text("error", error);
        self.log.line(Level::Warning, &line.text("again", &next));
    }

    /// Whether a job will never have another attempt.
    pub(super) fn is_over(&self, number: JobNumber) -> bool {
        self.controller.job(number).is_none_or(|job| {
            // A person may still have it run again.
            job.state.is_final() && job.state != JobState::FailedUnknownState
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_t_be_removed_is_tried_ever_more_rarely_and_not_for_ever() {
        let mut chores = Chores::default();
        let mut chore = Chore::new("ax-2026-0007.3".parse().unwrap(), Trace::Node);
        let (mut at, mut pauses) = (BootTime(5), Vec::new());
        while let Some(pause) = chores.again(chore, at) {
            pauses.push(pause);
            let due = chores.next_due().unwrap();
            assert_eq!(due, at + pause);
            assert_eq!(chores.pop_due(BootTime(due.0 - 1)), None);
            chore = chores.pop_due(due).unwrap();
            at = due;
        }
        assert_eq!(pauses[..3], [Span::seconds(1), Span::seconds(2), Span::seconds(4)]);
        assert!(
            pauses.is_sorted() && pauses.len() < 30 && *pauses.last().unwrap() == LAST_RETRY,
            "{pauses:?}"
        );
        assert_eq!(chores.next_due(), None);
    }

    #[test]
    fn what_waits_for_the_driver_is_soon_done_once_it_answers_however_long_that_takes() {
        let mut chores = Chores::default();
        let attempt = "ax-2026-0007.3".parse().unwrap();
        let mut chore = Chore { waits_for_driver: true, ..Chore::new(attempt, Trace::Node) };
        for _ in 0..MOST_TRIES * 3 {
            let pause = chores.again(chore, BootTime(5)).unwrap();
            assert!(pause <= DRIVER_RETRY, "{pause:?}");
            chore = chores.pop_due(BootTime(5) + pause).unwrap();
        }
    }
}
