//! Which job a submission's key became. The keys themselves are kept with the jobs alone.

use std::collections::BTreeMap;

use crate::id::{JobNumber, SubmissionKey, Uid};
use crate::job::Job;

/// Jobs by a mark of their user and key, and the few whose mark another one had before by all of it. Whoever makes
/// their own marks equal gets a larger index and nothing else.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    by_mark: BTreeMap<u32, JobNumber>,
    others: BTreeMap<(Uid, SubmissionKey), JobNumber>,
}

/// What is taken by chance of a key.
fn mark(user: Uid, key: SubmissionKey) -> u32 {
    key.0 as u32 ^ user.0.rotate_left(16)
}

impl Keys {
    /// The job of a user's key; `job` says what is known of those there are.
    pub(super) fn find<'a>(
        &self,
        user: Uid,
        key: SubmissionKey,
        job: impl Fn(JobNumber) -> Option<&'a Job>,
    ) -> Option<&'a Job> {
        let likely = self.by_mark.get(&mark(user, key)).and_then(|number| job(*number));
        let found = likely.filter(|job| job.owner.uid == user && job.key == key);
        found.or_else(|| self.others.get(&(user, key)).and_then(|number| job(*number)))
    }

    /// Enters a job, if it is not there.
    pub(super) fn insert(&mut self, job: &Job) {
        let number = job.id.number;
        if self.others.contains_key(&(job.owner.uid, job.key)) {
            return;
        }
        if *self.by_mark.entry(mark(job.owner.uid, job.key)).or_insert(number) != number {
            self.others.insert((job.owner.uid, job.key), number);
        }
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, job: &Job) {
        let mark = mark(job.owner.uid, job.key);
        if self.by_mark.get(&mark) == Some(&job.id.number) {
            self.by_mark.remove(&mark);
        } else {
            self.others.remove(&(job.owner.uid, job.key));
        }
    }
}
