//! Conditions of a limit: on the jobs that a queue or user runs, or on what they hold at once.

use serde::{Deserialize, Serialize};

use crate::controller::Counted;
use crate::id::{JobId, QueueName};
use crate::text::count;

use super::jobs_in_words;

/// Its queue runs as many jobs as it may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFull {
    /// The queue.
    pub queue: QueueName,
    /// Jobs that it runs.
    pub active: u32,
    /// The most jobs that it may run.
    pub max: u32,
    /// Some of them, those that were started first.
    pub jobs: Vec<JobId>,
}

impl QueueFull {
    /// `queue night runs 2 of at most 2 jobs: ax-2026-0001 and ax-2026-0002`.
    pub(super) fn in_words(&self) -> String {
        let QueueFull { queue, active, max, jobs } = self;
        format!("queue {queue} runs {active} of at most {}{}", count(*max, "job"), who(jobs, *active))
    }
}

/// The last places of its queue are kept for jobs that go before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueKept {
    /// The queue.
    pub queue: QueueName,
    /// Jobs that it runs.
    pub active: u32,
    /// The most jobs that it may run.
    pub max: u32,
    /// The jobs for which its last places are kept.
    pub jobs: Vec<JobId>,
}

impl QueueKept {
    /// `queue night runs 1 of at most 2 jobs, and keeps a place for ax-2026-0001`.
    pub(super) fn in_words(&self) -> String {
        let QueueKept { queue, active, max, jobs } = self;
        let places = if jobs.len() == 1 { "a place" } else { "places" };
        let whom = jobs_in_words(jobs, jobs.len());
        format!(
            "queue {queue} runs {active} of at most {}, and keeps {places} for {whom}",
            count(*max, "job")
        )
    }
}

/// A limit on what is held at once is used up until others have ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitFull {
    /// To whom the limit applies: `user li`.
    pub whose: String,
    /// The key of the limit: `policy.max_cpus_per_user`.
    #[serde(default)]
    pub key: String,
    /// What is counted.
    #[serde(default)]
    pub what: Counted,
    /// How many are held under it.
    pub held: u64,
    /// The most that may be held.
    pub max: u64,
    /// How many the job asks for.
    pub wanted: u64,
    /// Some of those that hold them, those that were started first.
    #[serde(default)]
    pub jobs: Vec<JobId>,
    /// How many jobs hold some.
    #[serde(default)]
    pub holders: u32,
    /// The job before it that waits for the same limit.
    pub first: Option<JobId>,
}

impl LimitFull {
    /// `user li holds 6 of at most 8 CPUs (policy.max_cpus_per_user): ax-2026-0001, and it asks for 4 CPUs`.
    pub(super) fn in_words(&self) -> String {
        let LimitFull { whose, key, what, .. } = self;
        let who = who(&self.jobs, self.holders);
        let behind = self.first.map_or(String::new(), |first| format!("; {first} waits for them before it"));
        let (held, max, wanted) =
            (what.number(self.held), what.in_words(self.max), what.in_words(self.wanted));
        format!("{whose} holds {held} of at most {max} ({key}){who}, and it asks for {wanted}{behind}")
    }
}

/// Its owner runs as many jobs as they may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserFull {
    /// Who.
    pub user: String,
    /// In this queue; `None`: in all queues.
    pub queue: Option<QueueName>,
    /// Jobs that they run there.
    pub active: u32,
    /// The most jobs that they may run.
    pub max: u32,
    /// Some of them, those that were started first.
    pub jobs: Vec<JobId>,
    /// True if a place that is kept for another job counts among them.
    pub kept: bool,
}

impl UserFull {
    /// `li runs 2 of at most 2 jobs in queue night (queues[].max_running_per_user): ax-2026-0001 and 1 more`.
    pub(super) fn in_words(&self) -> String {
        let UserFull { user, active, .. } = self;
        let (there, key) = match &self.queue {
            Some(queue) => (format!(" in queue {queue}"), "queues[].max_running_per_user"),
            None => (String::new(), "policy.max_running_per_user"),
        };
        let (max, who) = (count(self.max, "job"), who(&self.jobs, *active));
        let kept = if self.kept { ", and a place is kept for another" } else { "" };
        format!("{user} runs {active} of at most {max}{there} ({key}){who}{kept}")
    }
}

/// `: ax-2026-0001 and 2 more`, or nothing.
fn who(jobs: &[JobId], all: u32) -> String {
    if jobs.is_empty() { String::new() } else { format!(": {}", jobs_in_words(jobs, all as usize)) }
}
