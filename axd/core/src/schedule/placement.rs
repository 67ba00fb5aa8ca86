//! On which node and cards a job runs: the tightest fit, or another rule that
//! the configuration names. Every rule is a total order, so that equal states
//! give equal choices.
//!
//! What fits, and how well, is asked of one node at a time. The tightest fit
//! and the first time at which something fits are looked for along the index
//! of the nodes; the other rules look at all of them.

mod earliest;
mod fragmenting;
mod glance;

use std::cmp::Reverse;

use crate::config::Packing;
use crate::job::bounds::Asks;
use crate::job::request::Request;
use crate::node::{At, Card, CardDemand, CardUse, Company, Node, Nodes, Room, Topology, Usage, Want};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

use super::fragmentation::{Mix, Typical};
use super::timeline::Timeline;

pub(super) use glance::Glance;

/// A place for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Position of the node.
    pub node: usize,
    /// Cards by position, and what is charged on each.
    pub cards: Vec<(usize, Megabytes)>,
    /// With whom they are shared.
    pub company: Company,
}

/// How good a place is, and its node: the smallest is taken. Of a node only its best place is scored.
pub(super) type Score = (i64, i64, i64, usize);

/// What decides about places besides the job and the nodes.
#[derive(Debug, Clone)]
pub struct Rules {
    packing: Packing,
    /// Percent of a card that slices may not take.
    reserve: u32,
    /// What is usually asked for, where it matters.
    typical: Typical,
}

impl Rules {
    /// Rules of a configuration, with what was asked for lately.
    pub fn new(packing: Packing, reserve: u32, mix: &Mix) -> Rules {
        let typical = if packing == Packing::Fgd { mix.typical() } else { Typical::default() };
        Rules { packing, reserve, typical }
    }

    /// The rule of which place is the best.
    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    /// Percent of a card that slices may not take.
    pub(super) fn reserve(&self) -> u32 {
        self.reserve
    }

    /// The best place on one node for a request from `from` on for `length`.
    pub fn place<'a>(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        asks: impl Into<Asks<'a>>,
        from: WallTime,
        length: Span,
    ) -> Option<Place> {
        let asks = asks.into();
        let request = asks.request;
        let mut search = Search::new(self, nodes, timeline, asks, length);
        if !request.only_nodes.is_empty() {
            search.all(request.only_nodes.iter().filter_map(|name| nodes.position(name)), from);
        } else if let Some(only) = asks.only {
            search.all(only.keys().filter_map(|name| nodes.position(name)), from);
        } else if from <= timeline.now() && is_indexed(asks) {
            let room = nodes.room();
            if self.packing == Packing::Best {
                search.along(&room);
            } else {
                let (positions, glance) =
                    (0..nodes.as_slice().len(), Glance { rules: self, room: &room, asks });
                search.all(positions.filter(|position| glance.could(*position)), from);
            }
        } else {
            search.all(0..nodes.as_slice().len(), from);
        }
        search.best.map(|(_, _, place)| place)
    }

    /// What a request wants of each sort of cards; of any node where it wants none, or where cards differ.
    pub(super) fn wants(&self, room: &Room, request: &Request) -> Vec<Want> {
        let (cpus, ram) = (request.cpus, request.ram);
        let any = Want { sort: None, count: 0, free: Megabytes::ZERO, whole: false, cpus, ram };
        let Some(wanted) = &request.cards else { return vec![any] };
        if room.mixed().next().is_some() {
            return vec![any];
        }
        let of_sort = |(position, sort): (usize, &crate::node::Sort)| {
            let demand = sort.card.demand(wanted, self.reserve)?;
            let (free, whole) = (least_free(&sort.card, demand), demand.slice.is_none());
            Some(Want { sort: Some(position), count: wanted.count as usize, free, whole, cpus, ram })
        };
        room.sorts().iter().enumerate().filter_map(of_sort).collect()
    }

    /// Whether a request fits on one node from now on for `length`.
    pub fn fits_on<'a>(
        &self,
        position: usize,
        nodes: &Nodes,
        timeline: &Timeline,
        asks: impl Into<Asks<'a>>,
        length: Span,
    ) -> bool {
        let asks = asks.into();
        let mut search = Search::new(self, nodes, timeline, asks, length);
        search.all(std::iter::once(position), timeline.now());
        search.best.is_some()
    }

    /// Whether a node could hold a request if it were empty, and may now, as far as a glance tells.
    pub(super) fn could_hold(&self, node: &Node, asks: Asks<'_>) -> bool {
        let (has, request) = (&node.inventory, asks.request);
        let cards = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
        let enough = request.cpus <= has.cpus && request.ram <= has.ram && cards <= has.cards.len();
        enough && node.drained().is_none() && has.admits(request) && asks.may_fill(node)
    }

    /// Whether a request fits beside what a node holds now, reservations left aside.
    fn could_fit(&self, node: &Node, asks: Asks<'_>) -> bool {
        let request = asks.request;
        if request.cpus > node.free_cpus() || request.ram > node.free_ram() {
            return false;
        }
        self.has_cards(node, asks, node.cards_used())
    }

    /// Whether a request fits on a node with so much of it used.
    pub(super) fn fits_beside(&self, node: &Node, asks: Asks<'_>, used: &Usage) -> bool {
        let has = &node.inventory;
        let (cpus, ram) = (has.cpus_for(asks.request), has.ram_for(asks.request));
        used.cpus + cpus <= has.cpus && used.ram + ram <= has.ram && self.has_cards(node, asks, &used.cards)
    }

    fn has_cards(&self, node: &Node, asks: Asks<'_>, used: &[CardUse]) -> bool {
        let Some(wanted) = &asks.request.cards else { return true };
        let (count, all) = (wanted.count as usize, used.len());
        let mut fitting = 0;
        for (at, used) in used.iter().enumerate() {
            if fitting + all - at < count {
                return false;
            }
            fitting += usize::from(self.fit(node, at, *used, asks).is_some());
            if fitting >= count {
                return true;
            }
        }
        fitting >= count
    }

    /// A card with so much used of it, if a share of the request fits.
    fn fit(&self, node: &Node, at: usize, used: CardUse, asks: Asks<'_>) -> Option<Fit> {
        let card = Some(&node.inventory.cards[at]).filter(|card| asks.may_have(node, card))?;
        let fitting = node.withheld()[at].fit(card, used, asks, self.reserve)?;
        Some(Fit {
            used: used.charged,
            at,
            mem: card.mem,
            charge: fitting.charge,
            left: fitting.left.0 as i64,
            company: fitting.company,
        })
    }

    /// The best cards of a node for a request, with so much of it used.
    pub(super) fn choose(
        &self,
        position: usize,
        node: &Node,
        asks: Asks<'_>,
        used: &Usage,
    ) -> Option<(Score, Place)> {
        let (has, request) = (&node.inventory, asks.request);
        let (cpus, ram) = (has.cpus_for(request), has.ram_for(request));
        if used.cpus + cpus > has.cpus || used.ram + ram > has.ram {
            return None;
        }
        let empty = || node.empty_cards() as i64;
        let Some(wanted) = &request.cards else {
            // The tightest node of those with the fewest cards to spare.
            let left = i64::from(has.cpus - used.cpus);
            let score = match self.packing {
                Packing::Best => (0, empty(), left, position),
                Packing::Fgd => (self.beside(node, request).growth(&[]), empty(), left, position),
                Packing::Worst => (0, 0, -left, position),
                Packing::First => (0, 0, 0, position),
            };
            return Some((score, place_of(position, &[])));
        };
        let count = wanted.count as usize;
        let mut fitting: Vec<Fit> = Vec::new();
        for (tried, used) in used.cards.iter().enumerate() {
            if let Some(fit) = self.fit(node, tried, *used, asks) {
                fitting.push(fit);
            } else if fitting.len() + has.cards.len() - tried <= count {
                return None;
            }
        }
        match self.packing {
            Packing::First => {}
            Packing::Worst => fitting.sort_unstable_by_key(|fit| (fit.used, Reverse(fit.mem), fit.at)),
            Packing::Best | Packing::Fgd => fitting.sort_unstable_by_key(|fit| (fit.left, fit.at)),
        }
        if let Some(topology) = node.topology().filter(|_| count > 1) {
            match self.packing {
                Packing::First => {}
                Packing::Worst => link(&mut fitting, count, topology, |fit| (fit.used, Reverse(fit.mem))),
                Packing::Best | Packing::Fgd => link(&mut fitting, count, topology, |fit| fit.left),
            }
        }
        if self.packing == Packing::Fgd {
            return self.least_fragmenting(position, node, &fitting, request);
        }
        fitting.truncate(count);
        let left = fitting.iter().map(|fit| fit.left).sum::<i64>();
        let score = match self.packing {
            Packing::Best => (left, empty(), 0, position),
            Packing::Worst => (-left, 0, 0, position),
            Packing::First | Packing::Fgd => (0, 0, 0, position),
        };
        Some((score, place_of(position, &fitting)))
    }
}

/// A card that has room.
#[derive(Debug, Clone, Copy)]
struct Fit {
    used: Megabytes,
    at: usize,
    mem: Megabytes,
    charge: Megabytes,
    left: i64,
    company: Company,
}

/// Of cards in their order, of which the first so many are taken, puts first among equals those that are linked best with
/// them, then those of one NUMA node.
fn link<K: PartialEq>(fitting: &mut [Fit], count: usize, topology: &Topology, key: impl Fn(&Fit) -> K) {
    let Some(last) = count.checked_sub(1).and_then(|last| fitting.get(last)) else { return };
    let last = key(last);
    let Some(from) = fitting.iter().position(|fit| key(fit) == last) else { return };
    let equal = fitting[from..].iter().take_while(|fit| key(fit) == last).count();
    let at = |fits: &[Fit]| fits.iter().map(|fit| fit.at).collect::<Vec<usize>>();
    let (taken, choice) = (at(&fitting[..from]), at(&fitting[from..from + equal]));
    let best = topology.best(&taken, &choice, count - from);
    // A stable sort: those that are chosen and the others keep their order.
    fitting[from..from + equal].sort_by_key(|fit| !best.contains(&fit.at));
}

fn place_of(node: usize, cards: &[Fit]) -> Place {
    let company = cards.first().map_or(Company::default(), |fit| fit.company);
    Place { node, cards: cards.iter().map(|fit| (fit.at, fit.charge)).collect(), company }
}

/// How much of a card has to be free for a demand.
pub(super) fn least_free(card: &Card, demand: CardDemand) -> Megabytes {
    card.mem - demand.limit + demand.charge
}

/// Whether what the index says of nodes holds for a request that may run on any of them.
pub(super) fn is_indexed(asks: Asks<'_>) -> bool {
    !asks.request.exclusive && asks.mps.is_none()
}

/// A search for the earliest and best place for something of a length.
pub(super) struct Search<'a> {
    pub(super) rules: &'a Rules,
    pub(super) nodes: &'a [Node],
    pub(super) timeline: &'a Timeline,
    pub(super) asks: Asks<'a>,
    pub(super) length: Span,
    pub(super) best: Option<(WallTime, Score, Place)>,
}

impl<'a> Search<'a> {
    /// Nothing was found yet.
    pub(super) fn new(
        rules: &'a Rules,
        nodes: &'a Nodes,
        timeline: &'a Timeline,
        asks: Asks<'a>,
        length: Span,
    ) -> Search<'a> {
        Search { rules, nodes: nodes.as_slice(), timeline, asks, length, best: None }
    }

    fn keep_better(&mut self, at: WallTime, found: Option<(Score, Place)>) -> bool {
        let Some((score, place)) = found else { return false };
        if self.best.as_ref().is_none_or(|(when, least, _)| (at, score) < (*when, *least)) {
            self.best = Some((at, score, place));
        }
        true
    }

    /// Looks at these nodes.
    fn all(&mut self, mut positions: impl Iterator<Item = usize>, from: WallTime) {
        // The first of all is the first that fits.
        let one_does = self.rules.packing == Packing::First && self.asks.request.only_nodes.is_empty();
        let _ = positions.any(|position| self.offer(position, from) && one_does);
    }

    /// Looks for the tightest fit now, along what is known of the nodes.
    fn along(&mut self, room: &Room) {
        let now = self.timeline.now();
        let glance = Glance { rules: self.rules, room, asks: self.asks };
        for position in
            self.timeline.reserved().filter(|position| glance.could(*position)).collect::<Vec<_>>()
        {
            self.offer(position, now);
        }
        self.all(room.mixed().chain(room.under_mps()).map(|at| at as usize), now);
        let Some(wanted) = &self.asks.request.cards else {
            self.first_of(room, room.with_cpus(self.asks.request.cpus));
            return;
        };
        for sort in room.sorts() {
            let Some(demand) = sort.card.demand(wanted, self.rules.reserve) else { continue };
            let least = least_free(&sort.card, demand);
            if demand.slice.is_none() {
                self.first_of(room, sort.whole.range((wanted.count, 0)..).map(|(_, at)| *at));
            } else if wanted.count == 1 {
                self.first_of(room, sort.cards.range((least, 0, 0)..).map(|(_, _, at)| *at));
            } else {
                let cards = sort.cards.range((least, 0, 0)..).copied();
                self.tightest_of(room, cards, wanted.count as usize, least);
            }
        }
    }

    /// Whether it is worth asking a node without reservations.
    pub(super) fn may(&self, room: &Room, at: At) -> bool {
        room.of(at).free_cpus >= self.asks.request.cpus && !self.timeline.has_reservations(at as usize)
    }

    /// Nodes in the order of their scores: the first that fits is the best of them.
    fn first_of(&mut self, room: &Room, mut nodes: impl Iterator<Item = At>) {
        let now = self.timeline.now();
        let _ = nodes.any(|at| self.may(room, at) && self.offer(at as usize, now));
    }

    /// Of nodes with a card that has enough free, those with the least such card first, the one where slices of several
    /// cards leave the least.
    fn tightest_of(
        &mut self,
        room: &Room,
        cards: impl Iterator<Item = (Megabytes, u32, At)>,
        count: usize,
        least: Megabytes,
    ) {
        let now = self.timeline.now();
        let mut best: Option<((Megabytes, u32, At), Megabytes)> = None;
        for (free, empty, at) in cards {
            // From here on every node leaves at least as much, and of equal ones the first is the best.
            let at_least = Megabytes(free.0 * count as u64);
            if best.is_some_and(|((left, _, _), tightest)| {
                left < at_least || (left == at_least && tightest == free)
            }) {
                return;
            }
            let Some(left) = room.of(at).least_left(count, least).filter(|_| self.may(room, at)) else {
                continue;
            };
            let key = (left, empty, at);
            if best.is_none_or(|(least, _)| key < least) && self.offer(at as usize, now) {
                best = Some((key, free));
            }
        }
    }

    /// Looks at one node; whether the request fits there.
    fn offer(&mut self, position: usize, from: WallTime) -> bool {
        let found = self.place_on(position, from);
        self.keep_better(WallTime(0), found)
    }

    pub(super) fn place_on(&self, position: usize, from: WallTime) -> Option<(Score, Place)> {
        let (node, asks) = (&self.nodes[position], self.asks);
        if !self.rules.could_hold(node, asks) {
            return None;
        }
        let at_once = from <= self.timeline.now();
        // What does not fit beside what is held now does not fit beside reservations either.
        if at_once && !self.rules.could_fit(node, asks) {
            return None;
        }
        if at_once && !self.timeline.has_reservations(position) {
            return self.rules.choose(position, node, asks, node.used());
        }
        let peak = self.timeline.peak(position, node, from, self.length);
        self.rules.choose(position, node, asks, &peak)
    }
}

#[cfg(test)]
mod tests;
