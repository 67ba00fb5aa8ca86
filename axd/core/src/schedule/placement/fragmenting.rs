//! Where what is free stays of the most use.

use crate::job::request::Request;
use crate::node::Node;
use crate::schedule::fragmentation::{Finds, Free};
use crate::size::Megabytes;

use super::{Fit, Place, Rules, Score, place_of};

impl Rules {
    /// What typical requests find on a node now, and would find beside a request.
    pub(super) fn beside(&self, node: &Node, request: &Request) -> Finds {
        // Whoever has the whole of an empty card has all of it, whatever others hold.
        let cards = node.inventory.cards.iter().zip(node.cards_used());
        let cards = cards.zip(node.free_memory()).map(|((card, used), free)| match used.holders {
            0 if free > Megabytes::ZERO => card.mem.0 as i64,
            _ => free.0 as i64,
        });
        let (cpus, ram) = (i64::from(node.free_cpus()), node.free_ram().0 as i64);
        let (has, free) = (&node.inventory, Free { cpus, ram, cards: cards.collect() });
        self.typical.beside(has, free, (has.cpus_for(request), has.ram_for(request)), self.reserve)
    }

    /// Of the cards that fit, the tightest first, those whose use adds the least to what is free and useless now. One
    /// card may be any; of several the tightest are tried.
    pub(super) fn least_fragmenting(
        &self,
        position: usize,
        node: &Node,
        fitting: &[Fit],
        request: &Request,
    ) -> Option<(Score, Place)> {
        let count = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
        let finds = self.beside(node, request);
        let scored = |cards: &[Fit]| {
            let charges: Vec<(usize, Megabytes)> = cards.iter().map(|fit| (fit.at, fit.charge)).collect();
            let left = cards.iter().map(|fit| fit.left).sum();
            ((finds.growth(&charges), left, 0, position), place_of(position, cards))
        };
        if count > 1 {
            return Some(scored(&fitting[..count]));
        }
        let cards = &node.inventory.cards;
        let alike =
            |a: &Fit, b: &Fit| (a.used, a.mem) == (b.used, b.mem) && cards[a.at].kind == cards[b.at].kind;
        // Among equals the first, which is the tightest.
        fitting.chunk_by(alike).map(|same| scored(&same[..1])).min_by_key(|(score, _)| *score)
    }
}
