//! Values that many jobs have in common, kept once: fifty thousand jobs of one user have few different owners, names
//! and requests.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::request::Request;
use super::{Job, Learnt, Owner};

/// With each new value, so many known ones are checked for being unused. That is twice as many as are added, so
/// unused values never outnumber the used ones.
const LOOKS: usize = 2;

/// Values of one type, each kept once.
#[derive(Debug)]
struct Once<T> {
    known: BTreeSet<Arc<T>>,
    /// The value that was checked last.
    last: Option<Arc<T>>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Once { known: BTreeSet::new(), last: None }
    }
}

impl<T: Ord> Once<T> {
    /// Returns the known value that is equal to this one; if there is none, keeps this one.
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

    /// Checks the next value, and drops it if no job uses it.
    fn look_at_next(&mut self) {
        let from = self.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        self.last = self.known.range((from, Bound::Unbounded)).next().cloned();
        if let Some(next) = self.last.as_ref().filter(|next| Arc::strong_count(next) == 2) {
            self.known.remove(next);
        }
    }
}

/// The values that jobs share. A copy starts empty: the copied jobs go on sharing.
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
    /// Replaces a job's values by equal ones that other jobs use.
    pub fn share(&mut self, job: &mut Job) {
        job.owner = self.owners.of(Arc::clone(&job.owner));
        job.request = self.requests.of(Arc::clone(&job.request));
        job.learnt = job.learnt.take().map(|learnt| self.learnt.of(learnt));
    }

    /// True if one of the job's shared values is referenced by nobody else (strong count 1).
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
