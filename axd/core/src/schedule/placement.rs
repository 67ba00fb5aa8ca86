//! On which node and cards a job runs: the tightest fit, or another rule that
//! the configuration names. Every rule is a total order, so that equal states
//! give equal choices.

use crate::config::Packing;
use crate::job::request::Request;
use crate::node::{Card, Node, Nodes};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

use super::timeline::{Timeline, Usage};

/// A place for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Position of the node.
    pub node: usize,
    /// Cards by position, and what is charged on each.
    pub cards: Vec<(usize, Megabytes)>,
}

/// How good a place is: the smallest is taken.
type Score = (i64, usize, i64, usize, Vec<usize>);

/// What decides about places besides the job and the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Which place is the best.
    pub packing: Packing,
    /// Percent of a card that slices may not take.
    pub reserve: u32,
}

impl Rules {
    /// The best place for a request from `from` on for `length`.
    pub fn place(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        request: &Request,
        from: WallTime,
        length: Span,
    ) -> Option<Place> {
        let mut best: Option<(Score, Place)> = None;
        for (position, node) in nodes.iter().enumerate() {
            let Some((score, place)) = self.place_on(position, node, timeline, request, from, length) else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, _)| score < *least) {
                best = Some((score, place));
            }
        }
        best.map(|(_, place)| place)
    }

    /// The first instant after now, and not before `not_before`, at which a request fits somewhere, and where: one for each node would do, the
    /// earliest counts, and among equals the best place.
    pub fn earliest(
        &self,
        nodes: &Nodes,
        timeline: &Timeline,
        request: &Request,
        not_before: WallTime,
        length: Span,
    ) -> Option<(WallTime, Place)> {
        let mut best: Option<(WallTime, Score, Place)> = None;
        for (position, node) in nodes.iter().enumerate() {
            if !self.could_hold(node, request) {
                continue;
            }
            let latest = best.as_ref().map(|(at, _, _)| *at);
            let at_first = (not_before > timeline.now()).then_some(not_before);
            let later = timeline.changes(position, node, latest).into_iter().filter(|at| *at > not_before);
            for at in at_first.into_iter().chain(later) {
                let Some((score, place)) = self.place_on(position, node, timeline, request, at, length)
                else {
                    continue;
                };
                if best.as_ref().is_none_or(|(when, least, _)| (at, &score) < (*when, least)) {
                    best = Some((at, score, place));
                }
                break;
            }
        }
        best.map(|(at, _, place)| (at, place))
    }

    /// Whether a request fits on one node from now on for `length`.
    pub fn fits_on(
        &self,
        position: usize,
        node: &Node,
        timeline: &Timeline,
        request: &Request,
        length: Span,
    ) -> bool {
        self.place_on(position, node, timeline, request, timeline.now(), length).is_some()
    }

    /// Whether a node could hold a request if it were empty, as far as a glance tells.
    fn could_hold(&self, node: &Node, request: &Request) -> bool {
        let has = &node.inventory;
        let cards = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
        request.cpus <= has.cpus && request.ram <= has.ram && cards <= has.cards.len() && has.admits(request)
    }

    fn place_on(
        &self,
        position: usize,
        node: &Node,
        timeline: &Timeline,
        request: &Request,
        from: WallTime,
        length: Span,
    ) -> Option<(Score, Place)> {
        if !self.could_hold(node, request) {
            return None;
        }
        let at_once = from <= timeline.now();
        // What does not fit beside what is held now does not fit beside reservations either.
        if at_once && (request.cpus > node.free_cpus() || request.ram > node.free_ram()) {
            return None;
        }
        if at_once && !timeline.has_reservations(position) {
            return self.choose(position, node, request, &Usage::now(node));
        }
        self.choose(position, node, request, &timeline.peak(position, node, from, length))
    }

    /// The best cards of a node for a request, with so much of it used.
    fn choose(
        &self,
        position: usize,
        node: &Node,
        request: &Request,
        used: &Usage,
    ) -> Option<(Score, Place)> {
        let has = &node.inventory;
        if used.cpus + has.cpus_for(request) > has.cpus || used.ram + has.ram_for(request) > has.ram {
            return None;
        }
        let empty = node.cards_used().iter().filter(|card| card.holders == 0).count();
        let Some(wanted) = &request.cards else {
            // The tightest node of those with the fewest cards to spare.
            let left = i64::from(has.cpus - used.cpus);
            let score = self.score(0, empty, left, position, Vec::new());
            return Some((score, Place { node: position, cards: Vec::new() }));
        };
        let fits = |(card, (used, at)): (&Card, (&Megabytes, usize))| {
            let demand = card.demand(wanted, self.reserve)?;
            (*used + demand.charge <= demand.limit).then_some((*used, at, card.mem, demand.charge))
        };
        let mut fitting: Vec<_> = has.cards.iter().zip(used.cards.iter().zip(0..)).filter_map(fits).collect();
        let count = wanted.count as usize;
        if fitting.len() < count {
            return None;
        }
        match self.packing {
            Packing::First => {}
            Packing::Worst => fitting.sort_by_key(|(used, at, mem, _)| (*used, std::cmp::Reverse(*mem), *at)),
            Packing::Best => fitting.sort_by_key(|(used, at, mem, charge)| (*mem - (*used + *charge), *at)),
        }
        fitting.truncate(count);
        let left: i64 =
            fitting.iter().map(|(used, _, mem, charge)| (*mem - (*used + *charge)).0 as i64).sum();
        let order = fitting.iter().map(|(_, at, _, _)| *at).collect();
        let cards = fitting.iter().map(|(_, at, _, charge)| (*at, *charge)).collect();
        Some((self.score(left, empty, 0, position, order), Place { node: position, cards }))
    }

    fn score(&self, left: i64, empty: usize, cpus: i64, node: usize, cards: Vec<usize>) -> Score {
        match self.packing {
            Packing::Best => (left, empty, cpus, node, cards),
            Packing::Worst => (-left, 0, -cpus, node, cards),
            Packing::First => (0, 0, 0, node, cards),
        }
    }
}
