//! Attempts that use more of a card than their slice: noted, and ended when it lasts.

use std::sync::Arc;

use crate::id::AttemptName;
use crate::job::state::{JobState, Outcome};
use crate::job::{Actor, Job};
use crate::size::Megabytes;

use super::{Controller, Decision};

/// What was seen of an attempt.
pub(super) struct Overuse {
    /// What it used of what it has, for its record.
    pub(super) words: String,
    /// The most of a card that it used.
    pub(super) peak: Megabytes,
    /// It has gone on for so long that the attempt is ended.
    pub(super) ends: bool,
}

impl Controller {
    /// The words go into the job's record. One that ends for it is charged with what it used, so that the next attempt
    /// can be given more.
    pub(super) fn over_slice(&mut self, name: AttemptName, overuse: Overuse, out: &mut Vec<Decision>) {
        let Overuse { words, peak, ends } = overuse;
        // Also while it starts: its processes may be seen on the card before its start is told.
        let may_end = |job: &&Arc<Job>| job.state.is_active() && job.state != JobState::Completing;
        let job = self.jobs.get(&name.job.number).filter(may_end);
        let attempt = job.and_then(|job| job.attempt.as_deref());
        let Some(attempt) = attempt.filter(|a| a.name == name && a.end.is_none() && a.ending.is_none())
        else {
            return;
        };
        let number = attempt.name.job.number;
        if ends {
            self.cards_used(name, peak, out);
            self.end_attempt(number, Outcome::OutOfMemory, &Actor::Ax, words, out);
        } else {
            out.push(Decision::Noted { job: name.job, actor: Arc::from(Actor::Ax.name()), what: words });
        }
    }
}
