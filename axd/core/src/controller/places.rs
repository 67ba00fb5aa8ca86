//! Places that are kept for jobs of users, as limits on what one user runs count them: each for which others are being
//! ended, and one of those that wait for theirs, in a queue and altogether.

use crate::id::{JobNumber, QueueName, Uid};
use crate::job::Job;

/// Places that are kept, by whose they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserPlaces {
    claimed: Vec<(Uid, QueueName, JobNumber)>,
    reserved: Vec<(Uid, QueueName, JobNumber)>,
}

impl UserPlaces {
    /// Those that victims are leaving.
    pub(crate) fn claimed<'a>(jobs: impl Iterator<Item = &'a Job>) -> UserPlaces {
        UserPlaces { claimed: jobs.map(entry).collect(), reserved: Vec::new() }
    }

    /// One that is kept until what is there ends by itself.
    pub(crate) fn keep(&mut self, job: &Job) {
        self.reserved.push(entry(job));
    }

    /// How many of its owner's it has beside it, in a queue or in all.
    pub(super) fn beside(&self, job: &Job, queue: Option<&QueueName>) -> u32 {
        let others = |(uid, of, number): &&(Uid, QueueName, JobNumber)| {
            *uid == job.owner.uid && *number != job.id.number && queue.is_none_or(|queue| queue == of)
        };
        let claimed = self.claimed.iter().filter(others).count();
        let reserved = usize::from(self.reserved.iter().any(|place| others(&place)));
        u32::try_from(claimed + reserved).unwrap_or(u32::MAX)
    }
}

fn entry(job: &Job) -> (Uid, QueueName, JobNumber) {
    (job.owner.uid, job.queue.clone(), job.id.number)
}
