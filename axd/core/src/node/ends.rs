//! When nodes could have room for a request that waits: a bound for each node,
//! the earliest first, so that few nodes have to be looked at closely.
//!
//! Bounds are those of nodes without reservations; whoever finds a node here
//! asks when it really has room, which is never before.

use std::collections::{BTreeMap, BTreeSet};

use crate::size::Megabytes;
use crate::time::WallTime;

use super::room::At;
use super::{Card, CardUse, Node, Sort, Withheld};

/// So many wants are known at once; more are forgotten all together.
const KNOWN: usize = 128;

/// Changes that are remembered; who has missed more begins anew.
const REMEMBERED: usize = 4096;

/// When an attempt is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTimes {
    /// By what is said of it: what is kept for others counts on that.
    pub until: WallTime,
    /// By what is known of it, which is not later.
    pub likely: WallTime,
}

/// What has to be free of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// Position of the sort of cards; none: any node counts, whatever its cards.
    pub sort: Option<usize>,
    /// Cards.
    pub count: usize,
    /// Free memory on each.
    pub free: Megabytes,
    /// Nobody else may be on them.
    pub whole: bool,
    /// Free CPUs.
    pub cpus: u32,
    /// Free memory.
    pub ram: Megabytes,
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

/// When enough is free, if its jobs end one after the other and at least one has to.
fn bound(node: &Node, want: Want) -> Option<WallTime> {
    let mut ends: Vec<_> = node.held.values().map(|holding| (holding.likely, holding)).collect();
    ends.sort_unstable_by_key(|(likely, _)| *likely);
    let (mut cpus, mut ram) = (node.free_cpus(), node.free_ram());
    let free = |(card, withheld, used): (&Card, Withheld, CardUse)| {
        let missing = if want.whole { Megabytes::ZERO } else { withheld.taken };
        (!withheld.barred).then(|| card.mem.0 as i64 - (used.charged + missing).0 as i64)
    };
    let mut free: Vec<Option<i64>> = node.each_card().map(free).collect();
    let suits = |free: &Option<i64>| free.is_some_and(|free| free >= want.free.0 as i64);
    let mut enough = free.iter().filter(|free| suits(free)).count();
    let end = ends.into_iter().find(|(_, holding)| {
        cpus += holding.allocation.cpus.len() as u32;
        ram = ram + holding.allocation.ram;
        for (card, charge) in &holding.charges {
            let before = suits(&free[*card]);
            free[*card] = free[*card].map(|free| free + charge.0 as i64);
            enough += usize::from(!before && suits(&free[*card]));
        }
        enough >= want.count && cpus >= want.cpus && ram >= want.ram
    });
    end.map(|(likely, _)| likely)
}
