//! What can be told of a node without asking it.

use crate::job::bounds::Asks;
use crate::job::request::CardRequest;
use crate::node::{At, CardDemand, Room};

use super::{Rules, least_free};

/// What the index says of nodes, for a request.
pub(in crate::schedule) struct Glance<'a> {
    pub(in crate::schedule) rules: &'a Rules,
    pub(in crate::schedule) room: &'a Room,
    pub(in crate::schedule) asks: Asks<'a>,
}

impl Glance<'_> {
    /// Whether a node has room, whoever has reserved it.
    pub(in crate::schedule) fn could(&self, position: usize) -> bool {
        let (room, request) = (self.room, self.asks.request);
        let entry = room.of(position as At);
        let fits = |wanted: &CardRequest, sort: usize| {
            let card = &room.sorts()[sort].card;
            let enough = |demand: CardDemand| match demand.slice {
                None => entry.empty >= wanted.count,
                Some(_) => entry.has(wanted.count as usize, least_free(card, demand)),
            };
            card.demand(wanted, self.rules.reserve).is_some_and(enough)
        };
        let cards = request.cards.as_ref().zip(entry.sort);
        entry.free_cpus >= request.cpus && cards.is_none_or(|(wanted, sort)| fits(wanted, sort))
    }
}
