//! Which limit on what is held a job waits for.

use crate::controller::bounds::{Barred, Sum, counts_in};
use crate::job::Job;

use super::condition::LimitFull;
use super::{Condition, Story};

impl Story<'_> {
    /// The limit on what is held that bars a job which could start otherwise.
    pub(super) fn barred(&mut self, job: &Job, misfit: bool) -> Option<Barred> {
        let queue = self.controller.config().queue(job.queue.as_str());
        let stands = misfit
            || queue.is_none_or(|queue| !self.controller.may_start(queue))
            || self.controller.user_limit(job, &self.users_kept).is_some();
        if stands || self.pass.started(job.id.number) || self.pass.after.claim_of(job.id.number).is_some() {
            return None;
        }
        self.turns.take(self.pass.after.card_limits(), job).err()
    }

    /// The condition for that.
    pub(super) fn limit_full(&self, job: &Job, barred: &Barred) -> Option<Condition> {
        let limits = self.pass.after.card_limits();
        let Sum { whose, key, what, max, held } = limits.sum_of(barred.sum)?.clone();
        let counts = |job: &Job| counts_in(job, barred.sum);
        let (jobs, holders) = (self.pass.after.first_active(counts), self.pass.after.active_jobs());
        let holders = holders.filter(|job| counts(job)).count() as u32;
        let (wanted, first) = (what.of(job), barred.first);
        let full = LimitFull { whose, key, what, held, max, wanted, jobs, holders, first };
        Some(Condition::LimitFull(full))
    }
}
