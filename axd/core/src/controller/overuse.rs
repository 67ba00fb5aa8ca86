//! Attempts that use more of a card than their slice: noted, and ended when it lasts.

use std::sync::Arc;

use crate::id::AttemptName;
use crate::job::Actor;
use crate::job::state::{JobState, Outcome};
use crate::size::Megabytes;

use super::{Controller, Decision};

impl Controller {
    /// The words go into the job's record. One that ends for it is charged with what it used, so that the next attempt
    /// can be given more.
    pub(super) fn over_slice(
        &mut self,
        name: AttemptName,
        (words, peak): (String, Megabytes),
        ends: bool,
        out: &mut Vec<Decision>,
    ) {
        let job = self.jobs.get(&name.job.number);
        let runs = job.filter(|job| matches!(job.state, JobState::Running | JobState::Suspended));
        let attempt = runs.and_then(|job| job.attempt.as_deref());
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
