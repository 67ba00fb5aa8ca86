//! Which limit keeps a job waiting: of its queue, of its owner, on what is held, or on the cards that it may have.

use std::collections::BTreeSet;

use crate::config::QueueState;
use crate::controller::bounds::{Barred, Sum, counts_in};
use crate::controller::{Controller, UserLimit, UserPlaces};
use crate::id::HostName;
use crate::job::Job;

use super::condition::{LimitFull, QueueFull, UserFull};
use super::{Condition, Story};

impl Controller {
    /// What of its queue keeps a job waiting.
    pub(super) fn queue_conditions(&self, job: &Job) -> Vec<Condition> {
        let queue = job.queue.clone();
        let Some(config) = self.config().queue(queue.as_str()) else {
            return vec![Condition::QueueGone { queue }];
        };
        let mut found = Vec::new();
        if config.state == QueueState::Stopped {
            found.push(Condition::QueueStopped { queue: queue.clone() });
        }
        let active = self.active_in(&queue);
        if let Some(max) = config.max_running.filter(|max| active >= *max) {
            let jobs = self.first_active(|job| job.queue == queue);
            found.push(Condition::QueueFull(QueueFull { queue, active, max, jobs }));
        }
        found
    }

    /// What confines a job to certain cards.
    pub(super) fn confined(&self, job: &Job) -> Option<Condition> {
        let only = job.bounds.as_ref()?.only.as_ref()?;
        let place = |(host, cards): (&HostName, &BTreeSet<u32>)| {
            let numbers = cards.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            format!("{host} card{} {numbers}", if cards.len() == 1 { "" } else { "s" })
        };
        let cards = only.iter().map(place).collect();
        Some(Condition::Confined { by: self.card_limits().confining(job), cards })
    }

    /// Its owner's limit that keeps a job from starting.
    pub(super) fn user_full(&self, job: &Job, kept: &UserPlaces) -> Option<Condition> {
        let UserLimit { queue, active, max } = self.user_limit(job, kept)?;
        let jobs = self.first_active(|other| {
            other.owner.uid == job.owner.uid && queue.as_ref().is_none_or(|queue| other.queue == *queue)
        });
        let user = job.owner.name.to_string();
        Some(Condition::UserFull(UserFull { user, queue, active, max, jobs, kept: active < max }))
    }
}

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
