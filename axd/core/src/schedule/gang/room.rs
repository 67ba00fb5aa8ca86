//! Nodes with room now, along what is known of them.

use std::collections::BTreeSet;

use crate::config::Packing;
use crate::job::request::CardRequest;
use crate::node::{At, CardDemand, Room, Sort};
use crate::schedule::placement::{Glance, Place, Score, Search, least_free};

use super::Places;

impl Search<'_> {
    /// The best places now.
    pub(super) fn best_now(&self, room: &Room) -> Option<Places> {
        let (most, now) = (self.asks.nodes.max, self.timeline.now());
        let glance = Glance { rules: self.rules, room, asks: self.asks };
        // The index has the order of the tightest fit: behind those that come first there are no better ones.
        let in_order = self.rules.packing() == Packing::Best;
        let mut found = self.with_room(room, if in_order { most as usize } else { usize::MAX });
        let reserved = self.timeline.reserved().filter(|position| glance.could(*position));
        found.extend(reserved.filter_map(|position| self.place_on(position, now)));
        self.best_among(found, most)
    }

    /// Nodes with room of which nothing is reserved: of each sort so many with the tightest fit, and all whose cards
    /// differ.
    pub(super) fn with_room(&self, room: &Room, most: usize) -> Vec<(Score, Place)> {
        let request = self.asks.request;
        let mut found = Vec::new();
        let Some(wanted) = &request.cards else {
            self.first_with_room(room, room.with_cpus(request.cpus), most, &mut found);
            return found;
        };
        let others: BTreeSet<At> = room.mixed().chain(room.under_mps()).collect();
        self.first_with_room(room, others.into_iter(), usize::MAX, &mut found);
        for sort in room.sorts() {
            let Some(demand) = sort.card.demand(wanted, self.rules.reserve()) else { continue };
            if demand.slice.is_none() {
                let nodes = sort.whole.range((wanted.count, 0)..).map(|(_, at)| *at);
                self.first_with_room(room, nodes, most, &mut found);
            } else {
                let nodes = tightest(room, sort, wanted, demand);
                self.first_with_room(room, nodes.into_iter(), most, &mut found);
            }
        }
        found
    }

    /// Of nodes in the order of their scores the first so many with room.
    fn first_with_room(
        &self,
        room: &Room,
        nodes: impl Iterator<Item = At>,
        most: usize,
        found: &mut Vec<(Score, Place)>,
    ) {
        let now = self.timeline.now();
        let have = nodes.filter(|at| self.may(room, *at)).filter_map(|at| self.place_on(at as usize, now));
        found.extend(have.take(most));
    }
}

/// The nodes with enough free on as many cards as are wanted, those first where that leaves least.
fn tightest(room: &Room, sort: &Sort, wanted: &CardRequest, demand: CardDemand) -> Vec<At> {
    let (least, count) = (least_free(&sort.card, demand), wanted.count as usize);
    let nodes: BTreeSet<(u32, At)> =
        sort.cards.range((least, 0, 0)..).map(|(_, empty, at)| (*empty, *at)).collect();
    let left = |(empty, at): (u32, At)| Some((room.of(at).least_left(count, least)?, empty, at));
    let mut nodes: Vec<_> = nodes.into_iter().filter_map(left).collect();
    nodes.sort_unstable();
    nodes.into_iter().map(|(_, _, at)| at).collect()
}
