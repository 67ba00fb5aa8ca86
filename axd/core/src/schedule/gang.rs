//! Several nodes at one instant: a place on each of them, or none at all. On each node the rules are those of a single
//! place; the nodes with the best places are taken. What has room now, and which nodes have it first, is looked for along
//! the index of the nodes.

use std::collections::{BTreeSet, BinaryHeap};

use crate::job::bounds::Asks;
use crate::node::{At, Node, Nodes};
use crate::time::{Span, WallTime};

use super::placement::{Place, Rules, Score, Search, is_indexed};
use super::timeline::{Ends, Timeline};

mod room;
mod shared;

use shared::Watched;

/// Where a job runs: a place on each of its nodes, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// On the first or only one.
    pub first: Place,
    /// On the others.
    pub others: Vec<Place>,
}

impl From<Place> for Places {
    fn from(first: Place) -> Places {
        Places { first, others: Vec::new() }
    }
}

impl Places {
    /// One place for each node; nothing for no node.
    pub fn of(mut places: Vec<Place>) -> Option<Places> {
        places.sort_unstable_by_key(|place| place.node);
        let mut places = places.into_iter();
        Some(Places { first: places.next()?, others: places.collect() })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// How many nodes.
    pub fn count(&self) -> u32 {
        1 + u32::try_from(self.others.len()).unwrap_or(u32::MAX - 1)
    }
}

impl Rules {
    /// The best places for a request from `from` on for `length`: on as many nodes as it takes and there are, or
    /// nothing.
    pub fn places<'a>(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        asks: impl Into<Asks<'a>>,
        from: WallTime,
        length: Span,
    ) -> Option<Places> {
        let asks = asks.into();
        if asks.request.several().is_none() {
            return self.place(nodes, timeline, asks, from, length).map(Places::from);
        }
        let search = Search::new(self, nodes, timeline, asks, length);
        match from <= timeline.now() && names_none(asks) && is_indexed(asks) {
            true => search.best_now(&nodes.room()),
            false => search.best_of(candidates(nodes, asks).into_iter(), from, asks.nodes.max),
        }
    }

    /// The first instant after now, and not before `not_before`, at which a request that does not fit now does, and
    /// where: on no more nodes than it needs.
    pub fn earliest_places<'a>(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        asks: impl Into<Asks<'a>>,
        not_before: WallTime,
        length: Span,
    ) -> Option<(WallTime, Places)> {
        let found = self.earliest_scored(nodes, timeline, asks.into(), not_before, length);
        found.map(|(at, _, places)| (at, places))
    }

    /// The same, with how good a place on one node is.
    pub(super) fn earliest_scored(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        asks: Asks<'_>,
        not_before: WallTime,
        length: Span,
    ) -> Option<(WallTime, Option<Score>, Places)> {
        let search = Search::new(self, nodes, timeline, asks, length);
        if asks.request.several().is_none() {
            let found = search.earliest(nodes, not_before);
            return found.map(|(at, score, place)| (at, Some(score), place.into()));
        }
        let begins = search.begins(nodes, not_before);
        let latest = begins.enough.unwrap_or(WallTime(i64::MAX));
        let later = not_before > timeline.now();
        let changes = begins.shared.iter().flat_map(|at| timeline.changes(*at, &search.nodes[*at], latest));
        let mut instants: Vec<WallTime> = begins.own.iter().map(|(from, _)| *from).chain(changes).collect();
        instants.extend(later.then_some(not_before));
        instants.retain(|at| *at <= latest && *at >= not_before && (later || *at > timeline.now()));
        instants.sort_unstable();
        instants.dedup();
        let mut watched: Vec<Watched> = begins.shared.iter().map(|at| search.watched(*at)).collect();
        instants.into_iter().find_map(|at| {
            let own = begins.own.iter().filter(|(from, _)| *from <= at).map(|(_, node)| *node);
            let missing = (asks.nodes.min as usize).saturating_sub(own.clone().count());
            if begins.shared.len() < missing || !search.has_room_on(&mut watched, missing, at) {
                return None;
            }
            let places = search.best_of(own.chain(begins.shared.iter().copied()), at, asks.nodes.min)?;
            Some((at, None, places))
        })
    }
}

/// Whether too few nodes could hold a request even if all were empty.
pub fn fits_nowhere<'a>(nodes: &Nodes, asks: impl Into<Asks<'a>>, reserve: u32) -> bool {
    let asks = asks.into();
    let needed = asks.nodes.min as usize;
    nodes.iter().filter(|node| node.could_ever_hold(asks, reserve)).take(needed).count() < needed
}

/// Whether a request may run on any node, as far as it and its limits name some.
pub(super) fn names_none(asks: Asks<'_>) -> bool {
    asks.request.only_nodes.is_empty() && asks.only.is_none()
}

/// The nodes that a request may run on, by position, as far as it or its limits name them.
fn candidates(nodes: &Nodes, asks: Asks<'_>) -> Vec<usize> {
    let named: Option<Vec<usize>> = match asks.only {
        _ if !asks.request.only_nodes.is_empty() => {
            Some(asks.request.only_nodes.iter().filter_map(|name| nodes.position(name)).collect())
        }
        Some(only) => Some(only.keys().filter_map(|name| nodes.position(name)).collect()),
        None => None,
    };
    let Some(mut named) = named else { return (0..nodes.as_slice().len()).collect() };
    named.sort_unstable();
    named.dedup();
    named
}

/// From when on nodes have room.
struct Begins {
    /// Nodes of which nobody has reserved anything: once there is room there it stays.
    own: Vec<(WallTime, usize)>,
    /// The others, by position: they are asked for each instant.
    shared: Vec<usize>,
    /// From then on enough of the former have room.
    enough: Option<WallTime>,
}

/// The instants at which the first so many nodes have room.
struct Earliest {
    count: usize,
    known: BinaryHeap<WallTime>,
}

impl Earliest {
    fn add(&mut self, at: WallTime) {
        self.known.push(at);
        if self.known.len() > self.count {
            self.known.pop();
        }
    }

    /// When as many as are needed have it.
    fn enough(&self) -> Option<WallTime> {
        (self.known.len() == self.count).then(|| self.known.peek().copied())?
    }
}

impl Search<'_> {
    /// The nodes with the best places, at least as many as are needed.
    fn best_of(&self, nodes: impl Iterator<Item = usize>, from: WallTime, most: u32) -> Option<Places> {
        let found = nodes.filter_map(|node| self.place_on(node, from)).collect();
        self.best_among(found, most)
    }

    fn best_among(&self, mut found: Vec<(Score, Place)>, most: u32) -> Option<Places> {
        if found.len() < self.asks.nodes.min as usize {
            return None;
        }
        found.sort_unstable_by_key(|(score, _)| *score);
        found.truncate(most as usize);
        Places::of(found.into_iter().map(|(_, place)| place).collect())
    }

    /// From when on nodes have room: of all that matter for the first instant at which enough have.
    fn begins(&self, nodes: &Nodes, not_before: WallTime) -> Begins {
        let now = self.timeline.now();
        let mut first = Earliest { count: self.asks.nodes.min as usize, known: BinaryHeap::new() };
        let (mut own, mut shared, mut full) = (Vec::new(), Vec::new(), Vec::new());
        if names_none(self.asks) && is_indexed(self.asks) {
            return self.begins_by_room(nodes, not_before);
        }
        for position in candidates(nodes, self.asks) {
            if self.timeline.has_reservations(position) {
                shared.push(position);
            } else if self.place_on(position, now).is_some() {
                own.push((not_before.max(now), position));
                first.add(not_before.max(now));
            } else {
                full.push(position);
            }
        }
        let named = full.len() < nodes.as_slice().len() / 2;
        if named {
            for position in full {
                if let Some(at) = self.free_from(position) {
                    own.push((at.max(not_before), position));
                    first.add(at.max(not_before));
                }
            }
            return Begins { own, shared, enough: first.enough() };
        }
        let is_full = |position| full.binary_search(&position).is_ok();
        self.first_to_end(nodes, &is_full, (&mut own, &mut first), not_before);
        Begins { own, shared, enough: first.enough() }
    }

    /// The same along what is known of the nodes: those with room now, those of which something is reserved, and of the
    /// others those that matter.
    fn begins_by_room(&self, nodes: &Nodes, not_before: WallTime) -> Begins {
        let from = not_before.max(self.timeline.now());
        let mut first = Earliest { count: self.asks.nodes.min as usize, known: BinaryHeap::new() };
        let have = self.with_room(&nodes.room(), usize::MAX);
        let with_room: BTreeSet<usize> = have.iter().map(|(_, place)| place.node).collect();
        let mut own: Vec<(WallTime, usize)> = with_room.iter().map(|position| (from, *position)).collect();
        own.iter().for_each(|(from, _)| first.add(*from));
        let is_full = |position| !with_room.contains(&position) && !self.timeline.has_reservations(position);
        self.first_to_end(nodes, &is_full, (&mut own, &mut first), not_before);
        Begins { own, shared: self.timeline.reserved().collect(), enough: first.enough() }
    }

    /// Of the nodes that are full those that have room in time.
    fn first_to_end(
        &self,
        nodes: &Nodes,
        is_full: &dyn Fn(usize) -> bool,
        (own, first): (&mut Vec<(WallTime, usize)>, &mut Earliest),
        not_before: WallTime,
    ) {
        let wants = self.rules.wants(&nodes.room(), self.asks.request);
        for want in wants {
            nodes.by_bound(want, |bound, at: At| {
                let hopeless = first.enough().is_some_and(|enough| bound > enough);
                let position = at as usize;
                if !hopeless
                    && is_full(position)
                    && let Some(at) = self.free_from(position)
                {
                    own.push((at.max(not_before), position));
                    first.add(at.max(not_before));
                }
                !hopeless
            });
        }
    }

    /// When a node that has no room now, and nothing reserved, has it by the ends of what it holds.
    fn free_from(&self, position: usize) -> Option<WallTime> {
        let node: &Node = &self.nodes[position];
        if !self.rules.could_hold(node, self.asks) {
            return None;
        }
        let mut ends = Ends::of(node, self.timeline);
        while let Some((at, usage)) = ends.advance() {
            if self.rules.fits_beside(node, self.asks, usage) {
                return Some(at);
            }
        }
        None
    }
}
