//! Conditions of the order: other jobs go first.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, QueueName};
use crate::text::count;

/// Its queue has had more for its weight than another queue, whose jobs go first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueAhead {
    /// Its queue.
    pub queue: QueueName,
    /// The weight of its queue.
    pub weight: u32,
    /// By how much its queue is ahead, in thousandths of the unit.
    pub thousandths: u64,
    /// `start`, `card-hour` or `CPU-hour`.
    pub unit: String,
    /// The queue that it is ahead of.
    pub than: QueueName,
    /// The first job of that queue.
    pub first: JobId,
}

impl QueueAhead {
    /// `queue a has had 1.500 card-hours more than its share …: ax-2026-0001 of queue b goes first`.
    pub(super) fn in_words(&self) -> String {
        let QueueAhead { queue, weight, unit, than, first, .. } = self;
        let more = format!("{}.{:03} {unit}s", self.thousandths / 1000, self.thousandths % 1000);
        let how = if unit == "start" { "" } else { "; running jobs count with their planned length" };
        format!(
            "queue {queue} has had {more} more than its share, compared with queue {than} (weight {weight}{how}): \
             {first} of queue {than} goes first (policy.scheduler)"
        )
    }
}

/// Its owner has had more lately than another user, whose job goes first for that reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAhead {
    /// Its owner.
    pub user: String,
    /// The owner's part of what all users had, in thousandths.
    pub per_mille: u32,
    /// The other user.
    pub than: String,
    /// The other user's part, in thousandths.
    pub others: u32,
    /// The other user's job.
    pub first: JobId,
}

impl UserAhead {
    pub(super) fn in_words(&self) -> String {
        let UserAhead { user, than, first, .. } = self;
        let percent = |per_mille: u32| format!("{}.{} %", per_mille / 10, per_mille % 10);
        format!(
            "user {user} has had {} and user {than} {} of what all users had lately: so {first} goes first, which \
             would not by priority and waiting (policy.user_share)",
            percent(self.per_mille),
            percent(self.others)
        )
    }
}

/// Other jobs go before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// How many.
    pub jobs: u64,
    /// True if further jobs may go before it, which were not looked at.
    pub at_least: bool,
    /// The first of those jobs.
    pub first: JobId,
    /// True under `fifo_strict`, where no job may pass another.
    pub strict: bool,
}

impl Behind {
    /// `at least 200 jobs before it, the first is ax-2026-0001`.
    pub(super) fn in_words(&self) -> String {
        let least = if self.at_least { "at least " } else { "" };
        let strict = if self.strict { ", and nobody passes (policy.scheduler)" } else { "" };
        format!("{least}{} before it, the first is {}{strict}", count(self.jobs, "job"), self.first)
    }
}
