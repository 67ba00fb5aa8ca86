//! What making room has cost lately: work of jobs that were ended for others, counted by the minute for an hour. Beyond
//! a budget nobody is ended until some of it has passed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node::Nodes;
use crate::time::{Span, WallTime};

/// Losses count for so long.
const WINDOW: Span = Span::seconds(3600);
/// They are added up for each of these, so that there are few of them.
const GRAIN: i64 = 60_000;

/// Work in millionths of a card times milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Losses(BTreeMap<WallTime, Work>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Work(#[serde(with = "crate::text::number")] u128);

impl Losses {
    /// Work was given up.
    pub fn add(&mut self, now: WallTime, work: u128) {
        if work == 0 {
            return;
        }
        let minute = WallTime(now.0.div_euclid(GRAIN) * GRAIN);
        let sum = self.0.entry(minute).or_default();
        *sum = Work(sum.0.saturating_add(work));
    }

    /// What is too old to count goes.
    pub fn forget_old(&mut self, now: WallTime) {
        while let Some(entry) = self.0.first_entry().filter(|entry| *entry.key() + WINDOW <= now) {
            entry.remove();
        }
    }

    /// What still counts.
    pub fn sum(&self) -> u128 {
        self.0.values().fold(0, |sum, work| sum.saturating_add(work.0))
    }

    /// If more than that counts: when enough of it will be too old.
    pub fn over_until(&self, budget: u128) -> Option<WallTime> {
        let mut sum = 0_u128;
        for (minute, work) in self.0.iter().rev() {
            sum = sum.saturating_add(work.0);
            if sum > budget {
                return Some(*minute + WINDOW);
            }
        }
        None
    }
}

/// What all nodes can do in an hour, in the measure of losses: a node without cards counts as one with one card.
pub fn hour_of(nodes: &Nodes) -> u128 {
    let cards: u128 = nodes.iter().map(|node| node.inventory.cards.len().max(1) as u128).sum();
    cards * 1_000_000 * u128::from(WINDOW.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    #[test]
    fn what_counts_is_what_was_lost_within_an_hour() {
        let mut losses = Losses::default();
        for (minute, work) in [(0, 10), (0, 5), (30, 20), (59, 1)] {
            losses.add(WallTime(minute * MINUTE + 7), work);
        }
        assert_eq!(losses.sum(), 36);
        assert_eq!(losses.over_until(36), None);
        assert_eq!(losses.over_until(35), Some(WallTime(60 * MINUTE)), "without the first minute it is 21");
        assert_eq!(losses.over_until(20), Some(WallTime(90 * MINUTE)));
        assert_eq!(losses.over_until(0), Some(WallTime(119 * MINUTE)));
        losses.forget_old(WallTime(60 * MINUTE - 1));
        assert_eq!(losses.sum(), 36);
        losses.forget_old(WallTime(60 * MINUTE));
        assert_eq!(losses.sum(), 21);
    }

    #[test]
    fn they_are_few_however_many_evictions_there_are() {
        let mut losses = Losses::default();
        for at in 0..100_000 {
            losses.forget_old(WallTime(at * 100));
            losses.add(WallTime(at * 100), 1);
            assert!(losses.0.len() <= 61);
        }
    }
}
