//! How an attempt is held to its slices of cards, and what the driver is told of them.

use crate::node::{Allocation, Card};
use crate::size::Megabytes;

use super::Rung;

/// What an attempt may have of a card, where that is enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The card.
    pub uuid: String,
    /// It gets exactly this much; the context that the driver needs for the job is a part of it.
    pub mem: Megabytes,
}

/// The slices among what an attempt holds, each with how it is held to them.
pub fn slices<'a>(allocation: &'a Allocation, cards: &'a [Card]) -> impl Iterator<Item = (Grant, Rung)> + 'a {
    allocation.cards.iter().filter_map(move |share| {
        let mem = share.slice?;
        let card = cards.iter().find(|card| card.is_of(share, &allocation.node));
        let uuid = card.map_or(&share.uuid, |card| &card.uuid).clone();
        let rung = card.map_or(Rung::None, |card| card.hardware.limit);
        Some((Grant { uuid, mem }, if share.mps.is_some() { Rung::Mps } else { rung }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::CardShare;

    #[test]
    fn slices_of_cards_that_are_there_go_by_the_card_s_rung_and_whole_cards_need_nobody() {
        let card = |index, uuid: &str, limit| {
            let mut card = Card::new(index, uuid.to_owned(), None, Megabytes(80_000));
            card.hardware.limit = limit;
            card
        };
        let cards = [card(0, "a", Rung::Driver), card(1, "b", Rung::Watch)];
        let share = |index, uuid: &str, slice: Option<u64>| CardShare {
            index,
            uuid: uuid.to_owned(),
            slice: slice.map(Megabytes),
            of: None,
            mps: None,
        };
        let held = Allocation {
            node: "gpu-01".parse().unwrap(),
            cpus: vec![0],
            ram: Megabytes(1),
            cards: vec![
                share(0, "a", Some(10)),
                share(1, "gpu-01-1", Some(20)),
                share(2, "gone", Some(30)),
                share(3, "whole", None),
            ],
        };
        let found: Vec<_> =
            slices(&held, &cards).map(|(grant, rung)| (grant.uuid, grant.mem.0, rung)).collect();
        let expected = [("a", 10, Rung::Driver), ("b", 20, Rung::Watch), ("gone", 30, Rung::None)];
        assert_eq!(found, expected.map(|(uuid, mem, rung)| (uuid.to_owned(), mem, rung)));
    }
}
