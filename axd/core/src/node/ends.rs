//! When nodes could have room for a request that waits: a bound for each node,
//! the earliest first, so that few nodes have to be looked at closely.
//!
//! Bounds are those of cards alone and of nodes without reservations; whoever
//! finds a node here asks when it really has room, which is never before.

use std::collections::{BTreeMap, BTreeSet};

use crate::size::Megabytes;
use crate::time::WallTime;

use super::room::At;
use super::{Node, Sort};

/// So many wants are known at once; more are forgotten all together.
const KNOWN: usize = 64;

/// Changes that are remembered; who has missed more begins anew.
const REMEMBERED: usize = 4096;

/// So many cards with so much free memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// Position of the sort of cards; none: any node counts, whatever its cards.
    pub sort: Option<usize>,
    /// Cards.
    pub count: usize,
    /// Free memory on each.
    pub free: Megabytes,
}

/// See the module's words.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    known: BTreeMap<Want, Bounds>,
    /// Nodes that have changed, one after the other.
    changes: Vec<At>,
    /// Changes before those.
    before: usize,
}

#[derive(Debug, Clone, Default)]
struct Bounds {
    /// Changes that are taken in.
    seen: usize,
    /// By position; who has none can never have room.
    of: Vec<Option<WallTime>>,
    order: BTreeSet<(WallTime, At)>,
}

impl Bounds {
    fn enter(&mut self, at: At, bound: Option<WallTime>) {
        let old = std::mem::replace(&mut self.of[at as usize], bound);
        if old == bound {
            return;
        }
        if let Some(old) = old {
            self.order.remove(&(old, at));
        }
        if let Some(bound) = bound {
            self.order.insert((bound, at));
        }
    }
}

impl Ends {
    /// A node has changed.
    pub(super) fn changed(&mut self, at: usize) {
        if self.known.is_empty() {
            return;
        }
        if self.changes.len() >= REMEMBERED {
            self.before += self.changes.len();
            self.changes.clear();
        }
        self.changes.push(at as At);
    }

    /// Nodes that hold something, by a time before which none has room for what it has no room for now.
    pub(super) fn by_bound(
        &mut self,
        want: Want,
        nodes: &[Node],
        sorts: &[Sort],
    ) -> &BTreeSet<(WallTime, At)> {
        if self.known.len() >= KNOWN && !self.known.contains_key(&want) {
            self.known.clear();
        }
        let all = self.before + self.changes.len();
        let bounds = self.known.entry(want).or_default();
        let bound = |at: At| bound(&nodes[at as usize], want);
        if bounds.of.len() != nodes.len() || bounds.seen < self.before {
            *bounds = Bounds { of: vec![None; nodes.len()], ..Bounds::default() };
            let every = || 0..nodes.len() as At;
            match want.sort {
                Some(sort) => sorts[sort].nodes.iter().for_each(|at| bounds.enter(*at, bound(*at))),
                None => every().for_each(|at| bounds.enter(at, bound(at))),
            }
        } else {
            let fits = |at: &At| want.sort.is_none_or(|sort| sorts[sort].nodes.contains(at));
            for at in self.changes[bounds.seen - self.before..].iter().copied().filter(fits) {
                bounds.enter(at, bound(at));
            }
        }
        bounds.seen = all;
        &bounds.order
    }

    /// Whether each bound is what it would be if it were found anew.
    pub(super) fn agrees(&mut self, nodes: &[Node], sorts: &[Sort]) -> bool {
        let known: Vec<Want> = self.known.keys().copied().collect();
        known.into_iter().all(|want| {
            let ours = self.by_bound(want, nodes, sorts).clone();
            &ours == Ends::default().by_bound(want, nodes, sorts)
        })
    }
}

/// Not before the first of its jobs ends, nor before enough cards have enough memory.
fn bound(node: &Node, want: Want) -> Option<WallTime> {
    let first = node.held.values().map(|holding| holding.until).min()?;
    if want.count == 0 {
        return Some(first);
    }
    let mut charges: Vec<(usize, WallTime, Megabytes)> = node
        .held
        .values()
        .flat_map(|holding| holding.charges.iter().map(|(card, charge)| (*card, holding.until, *charge)))
        .collect();
    charges.sort_unstable();
    let mut charges = charges.as_slice();
    let mut times = Vec::with_capacity(node.cards.len());
    for (at, (card, used)) in node.inventory.cards.iter().zip(&node.cards).enumerate() {
        let own = charges.partition_point(|(on, _, _)| *on <= at);
        let (here, rest) = charges.split_at(own);
        charges = rest;
        times.extend(time_of(card.mem - used.charged, here, want.free));
    }
    times.sort_unstable();
    times.get(want.count - 1).map(|enough| first.max(*enough))
}

/// When a card has so much free.
fn time_of(
    mut free: Megabytes,
    charges: &[(usize, WallTime, Megabytes)],
    wanted: Megabytes,
) -> Option<WallTime> {
    if free >= wanted {
        return Some(WallTime(i64::MIN));
    }
    charges.iter().find_map(|(_, until, charge)| {
        free = free + *charge;
        (free >= wanted).then_some(*until)
    })
}
