//! Which limit on what is held a job waits for.

use crate::controller::bounds::{Barred, Sum, counts_in};
use crate::job::Job;

use super::condition::jobs_in_words;
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
        Some(Condition::LimitFull { whose, key, what, held, max, wanted, jobs, holders, first })
    }
}

impl Condition {
    /// `user li holds 6 of at most 8 CPUs (policy.max_cpus_per_user): ax-2026-0001, and it asks for 4 CPUs`.
    pub(super) fn limit_in_words(&self) -> String {
        let Condition::LimitFull { whose, key, what, held, max, wanted, jobs, holders, first } = self else {
            return String::new();
        };
        let who = match jobs.is_empty() {
            true => String::new(),
            false => format!(": {}", jobs_in_words(jobs, *holders as usize)),
        };
        let behind = first.map_or(String::new(), |first| format!("; {first} waits for them before it"));
        let (held, max, wanted) = (what.number(*held), what.in_words(*max), what.in_words(*wanted));
        format!("{whose} holds {held} of at most {max} ({key}){who}, and it asks for {wanted}{behind}")
    }
}
