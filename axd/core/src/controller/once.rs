//! What many jobs have the same, kept once: fifty thousand jobs of one user are of a few owners, names and requests.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::job::request::Request;
use crate::job::{Job, Learnt, Owner};

/// So many of those that are known are looked at with each new one, whether anybody still has them: twice as many as
/// come, so that those that nobody has are never more than the others.
const LOOKS: usize = 2;

/// Values of one type, each of them once.
#[derive(Debug)]
pub(super) struct Once<T> {
    known: BTreeSet<Arc<T>>,
    /// The one that was looked at last.
    last: Option<Arc<T>>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once { known: BTreeSet::new(), last: None }
    }
}

impl<T: Ord> Once<T> {
    /// The one that is known of those equal to a value; that itself if none is.
    fn of(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return Arc::clone(known);
        }
        for _ in 0..LOOKS {
            self.look_at_next();
        }
        self.known.insert(Arc::clone(&value));
        value
    }

    /// Forgets the next one if nobody else has it.
    fn look_at_next(&mut self) {
        let from = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        self.last = self.known.range((from, Bound::Unbounded)).next().cloned();
        if let Some(next) = self.last.as_ref().filter(|next| Arc::strong_count(next) == 2) {
            self.known.remove(next);
        }
    }
}

/// What of jobs is kept once. A copy begins anew: what its jobs share they share all the same.
#[derive(Debug, Default)]
pub(super) struct Shared {
    owners: Once<Owner>,
    requests: Once<Request>,
    learnt: Once<Learnt>,
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        Shared::default()
    }
}

impl Shared {
    /// Has a job share what others have the same. What is known has at least two owners.
    pub(super) fn share(&mut self, job: &mut Arc<Job>) {
        let is_known = |learnt: &Arc<Learnt>| Arc::strong_count(learnt) > 1;
        let are_known = Arc::strong_count(&job.owner) > 1 && Arc::strong_count(&job.request) > 1;
        if are_known && job.learnt.as_ref().is_none_or(is_known) {
            return;
        }
        let job = Arc::make_mut(job);
        job.owner = self.owners.of(Arc::clone(&job.owner));
        job.request = self.requests.of(Arc::clone(&job.request));
        job.learnt = job.learnt.take().map(|learnt| self.learnt.of(learnt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut once = Once::default();
        let (some, same, other) = (Arc::new(1), Arc::new(1), Arc::new(2));
        let [some, same, other] = [some, same, other].map(|value| once.of(value));
        assert!(Arc::ptr_eq(&some, &same) && *other == 2);
    }

    #[test]
    fn what_nobody_has_is_forgotten() {
        let mut once = Once::default();
        let kept: Vec<Arc<u32>> = (0..100).map(|value| once.of(Arc::new(value))).collect();
        for value in 100..10_000 {
            once.of(Arc::new(value));
            assert!(once.known.len() <= 2 * kept.len() + LOOKS, "{}", once.known.len());
        }
        for value in kept {
            assert!(Arc::ptr_eq(&value, &once.of(Arc::new(*value))));
        }
    }
}
