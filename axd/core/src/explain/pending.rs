//! What a job waits for that is its own: a hold, its begin time, its hours, a pause.

use crate::controller::Controller;
use crate::job::Job;
use crate::job::state::Outcome;
use crate::time::{Now, WallTime};

use super::condition::Hours;
use super::plan::{Basis, Expected};
use super::{Condition, Explanation, Story};

impl Story<'_> {
    /// The explanation of a job that waits for something of its own.
    pub(super) fn of_its_own(&mut self, job: &Job) -> Explanation {
        let (controller, now) = (self.controller, self.now);
        if controller.own_time(job, now).is_none() {
            return controller.waits_for_somebody(job, now);
        }
        let told = self.plan().told_own(controller, now, job.id.number);
        let told = told.cloned().unwrap_or_else(|| Expected::never(Basis::TooFar));
        let expected = self.unless_by_itself(job, told);
        Explanation::new(now.wall, controller.own_conditions(job, now), expected)
    }
}

impl Controller {
    /// The explanation of a job that no time brings to start.
    pub(super) fn waits_for_somebody(&self, job: &Job, now: Now) -> Explanation {
        let expected = Expected::never(Basis::Somebody);
        Explanation::new(now.wall, self.own_conditions(job, now), expected)
    }

    fn own_conditions(&self, job: &Job, now: Now) -> Vec<Condition> {
        let mut found = Vec::new();
        if let Some(who) = &job.rare.hold {
            found.push(Condition::Held { job: job.id, by: who.to_string() });
        }
        if let Some(at) = job.request.begin.filter(|b| *b > now.wall) {
            found.push(Condition::Begin { at });
        }
        found.extend(self.out_of_hours(job, now));
        if let Some(until) = job.rare.backoff_until {
            let at = now.wall + (until - now.boot);
            let end = job.attempt.as_ref().and_then(|attempt| attempt.end.as_ref());
            found.push(match end.filter(|end| end.outcome == Outcome::LaunchFailed) {
                // Not a retry that the job asked for: its last attempt never started.
                Some(end) => {
                    let why = end.message.as_deref().unwrap_or("never started").to_owned();
                    Condition::NeverStarted { at, why }
                }
                None => Condition::Retry { at, used: job.rare.retries_used, of: job.request.retries },
            });
        }
        found
    }

    /// The condition, if its daily hours keep a job from starting now.
    fn out_of_hours(&self, job: &Job, now: Now) -> Option<Condition> {
        let window = job.request.window()?;
        let next = self.opens(job, now.wall);
        if next == Some(now.wall) {
            return None;
        }
        let (window, limit) = (window.to_string(), job.request.time_limit);
        Some(Condition::Hours(Hours { window, open: self.is_open(job, now.wall), limit, next }))
    }

    /// When nothing of its own keeps a job from starting any more, if that is known.
    pub(super) fn own_time(&self, job: &Job, now: Now) -> Option<WallTime> {
        if job.rare.hold.is_some() {
            return None;
        }
        let backoff = job.rare.backoff_until.map(|until| now.wall + (until - now.boot));
        self.opens(job, backoff.max(job.request.begin).map_or(now.wall, |at| at.max(now.wall)))
    }
}
