//! Lower bounds on when a node could have room for a waiting request, the earliest first, so that few nodes have to
//! be looked at closely.
//!
//! The bounds ignore reservations. The caller must ask each node when it really has room, which is never before its
//! bound.

use std::collections::{BTreeMap, BTreeSet};

use crate::size::Megabytes;
use crate::time::WallTime;

use super::room::At;
use super::{Card, CardUse, Node, Sort, Usage, Withheld};

/// Bounds are kept for so many wants; beyond that all are dropped.
const KNOWN: usize = 128;

/// So many changes are remembered; bounds that have missed more are computed anew.
const REMEMBERED: usize = 4096;

/// When an attempt is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTimes {
    /// By its declared length: reservations for others rest on this.
    pub until: WallTime,
    /// By its planned length, which is not later.
    pub likely: WallTime,
}

/// What has to be free on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Want {
    /// Position of the sort of cards; `None`: any node counts, whatever its cards.
    pub sort: Option<usize>,
    /// Number of cards.
    pub count: usize,
    /// Free memory on each card.
    pub free: Megabytes,
    /// The cards must be unused.
    pub whole: bool,
    /// Free CPUs.
    pub cpus: u32,
    /// Free host memory.
    pub ram: Megabytes,
}

/// The bounds for each want.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    known: BTreeMap<Want, Bounds>,
    /// Positions of changed nodes, in the order of the changes.
    changes: Vec<At>,
    /// Number of changes that were dropped before those.
    before: usize,
}

#[derive(Debug, Clone, Default)]
struct Bounds {
    /// Number of changes that these bounds include.
    seen: usize,
    /// Bounds by position; `None`: the node can never have room.
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

    /// Nodes with a bound, the earliest first: before it, a node that has no room now has none.
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

    /// True if each bound is what it would be if computed anew.
    pub(super) fn agrees(&mut self, nodes: &[Node], sorts: &[Sort]) -> bool {
        let known: Vec<Want> = self.known.keys().copied().collect();
        known.into_iter().all(|want| {
            let ours = self.by_bound(want, nodes, sorts).clone();
            &ours == Ends::default().by_bound(want, nodes, sorts)
        })
    }
}

/// The time when enough is free, if the node's jobs end one after the other and at least one must end.
fn bound(node: &Node, want: Want) -> Option<WallTime> {
    let has = &node.inventory;
    let suits = |(card, withheld, used): (&Card, &Withheld, &CardUse)| {
        let missing = if want.whole { Megabytes::ZERO } else { withheld.taken };
        !withheld.barred && card.mem >= used.charged + missing + want.free
    };
    let enough = |left: &Usage| {
        let cards = || has.cards.iter().zip(node.withheld()).zip(&left.cards);
        has.cpus.saturating_sub(left.cpus) >= want.cpus
            && has.ram.saturating_sub(left.ram) >= want.ram
            && cards().filter(|((card, withheld), used)| suits((card, withheld, used))).count() >= want.count
    };
    let steps = node.by_likely().steps();
    // With each end there is more room.
    steps.get(steps.partition_point(|step| !enough(&step.left))).map(|step| step.at)
}
