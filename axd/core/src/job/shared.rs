//! What many jobs have the same, kept once: fifty thousand jobs of one user are of a few owners, names and requests.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::request::Request;
use super::{Job, Learnt, Owner};

/// So many of those that are known are looked at with each new one, whether anybody still has them: twice as many as
/// come, so that those that nobody has are never more than the others.
const LOOKS: usize = 2;

/// Values of one type, each of them once.
#[derive(Debug)]
struct Once<T> {
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
pub struct Shared {
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
    /// Has a job share what others have the same.
    pub fn share(&mut self, job: &mut Job) {
        job.owner = self.owners.of(Arc::clone(&job.owner));
        job.request = self.requests.of(Arc::clone(&job.request));
        job.learnt = job.learnt.take().map(|learnt| self.learnt.of(learnt));
    }

    /// Whether a job has something for itself alone: what it shares, and what is known, is had twice at least.
    pub(crate) fn lacks(job: &Job) -> bool {
        let learnt = job.learnt.as_ref().is_some_and(|learnt| Arc::strong_count(learnt) == 1);
        learnt || Arc::strong_count(&job.owner) == 1 || Arc::strong_count(&job.request) == 1
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
