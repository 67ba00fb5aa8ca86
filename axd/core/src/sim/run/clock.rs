//! The coming events of a simulation in their order: by time, then ends before loads, then by the task's id.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::Epoch;
use crate::time::Span;

/// What happens to an attempt by itself. The order is that of one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// It is over.
    End,
    /// It uses all the memory that it will.
    Load,
}

/// One thing to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at: Span,
    pub(super) what: What,
    /// The task's place among all by id.
    pub(super) rank: u32,
    /// The attempt that it is about.
    pub(super) epoch: Epoch,
    pub(super) task: usize,
}

#[derive(Debug, Default)]
pub(super) struct Clock(BinaryHeap<Reverse<Due>>);

impl Clock {
    pub(super) fn add(&mut self, due: Due) {
        self.0.push(Reverse(due));
    }

    /// When the next thing happens.
    pub(super) fn next(&self) -> Option<Span> {
        self.0.peek().map(|Reverse(due)| due.at)
    }

    /// The next thing, if it happens by now.
    pub(super) fn take(&mut self, now: Span) -> Option<Due> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse(due)| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_go_before_loads_and_smaller_ids_first() {
        let mut clock = Clock::default();
        for (at, what, rank) in
            [(5, What::Load, 0), (5, What::End, 2), (5, What::End, 1), (7, What::End, 0), (3, What::Load, 9)]
        {
            clock.add(Due { at: Span(at), what, rank, epoch: Epoch(1), task: 0 });
        }
        let mut seen = Vec::new();
        while let Some(due) = clock.take(Span(5)) {
            seen.push((due.at.0, due.what, due.rank));
        }
        assert_eq!(seen, [(3, What::Load, 9), (5, What::End, 1), (5, What::End, 2), (5, What::Load, 0)]);
        assert_eq!(clock.next(), Some(Span(7)));
    }
}
