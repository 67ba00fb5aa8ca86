//! Who holds an attempt to its slices of cards, and what the driver is told of them.

use crate::node::{Allocation, Card};
use crate::size::Megabytes;

use super::Rung;

/// What an attempt may have of a card, where something is to be made sure of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The card.
    pub uuid: String,
    /// So much for certain, and never more: the context that the driver itself needs for the job is a part of it.
    pub mem: Megabytes,
}

/// The slices among what an attempt holds, each with who holds it to that: the card's own rung, or MPS where its queue
/// wants that and the driver does not do it better.
pub fn slices<'a>(
    allocation: &'a Allocation,
    cards: &'a [Card],
    mps: bool,
) -> impl Iterator<Item = (Grant, Rung)> + 'a {
    allocation.cards.iter().filter_map(move |share| {
        let mem = share.slice?;
        let card = cards.iter().find(|card| card.is_of(share, &allocation.node));
        let own = card.map_or(Rung::None, |card| card.hardware.limit);
        let rung = if mps && own < Rung::None { own.min(Rung::Mps) } else { own };
        let uuid = card.map_or(&share.uuid, |card| &card.uuid).clone();
        Some((Grant { uuid, mem }, rung))
    })
}

/// The weakest hold that an attempt has on its slices; `None` if it has no slice.
pub fn weakest(allocation: &Allocation, cards: &[Card], mps: bool) -> Option<Rung> {
    slices(allocation, cards, mps).map(|(_, rung)| rung).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::CardShare;

    fn card(uuid: &str, limit: Rung) -> Card {
        let mut card = Card::new(0, uuid.to_owned(), None, Megabytes(80_000));
        card.hardware.limit = limit;
        card
    }

    #[test]
    fn the_weakest_counts_and_a_queue_s_mps_is_better_than_watching() {
        let cards = [card("a", Rung::Driver), card("b", Rung::Env), card("c", Rung::None)];
        let held = |names: &[&str], slice: Option<u64>| Allocation {
            node: "gpu-01".parse().unwrap(),
            cpus: vec![0],
            ram: Megabytes(1),
            cards: names
                .iter()
                .map(|name| CardShare { index: 0, uuid: (*name).to_owned(), slice: slice.map(Megabytes) })
                .collect(),
        };
        let of = |names: &[&str], mps| weakest(&held(names, Some(100)), &cards, mps);
        assert_eq!(of(&["a"], false), Some(Rung::Driver));
        assert_eq!(of(&["a", "b"], false), Some(Rung::Env));
        assert_eq!(of(&["a"], true), Some(Rung::Driver), "the driver does it better");
        assert_eq!(of(&["a", "b"], true), Some(Rung::Mps));
        assert_eq!(of(&["c"], true), Some(Rung::None), "there is no driver at all");
        assert_eq!(of(&["gone"], false), Some(Rung::None));
        assert_eq!(weakest(&held(&["a", "b"], None), &cards, true), None, "whole cards need nobody");
    }
}
