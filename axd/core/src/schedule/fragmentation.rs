//! Fragmentation of cards: the free memory that a typical submission could
//! not use, and what typical submissions are.
//!
//! After "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
//! Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023). All in
//! integers, weighted by counts instead of probabilities, so that equal
//! states give equal numbers on every machine.

use serde::{Deserialize, Serialize};

use crate::job::request::CardRequest;
use crate::node::{Card, Inventory};
use crate::size::Megabytes;

/// What one submission counts at first.
const ONE: u32 = 64;

/// All counts are halved after so many submissions.
const HALVED_AFTER: u32 = 4096;

/// At most so many kinds of submissions are remembered.
const REMEMBERED: usize = 256;

/// At most so many kinds of submissions are typical.
const TYPICAL: usize = 40;

/// What was asked of cards lately: old submissions count half as much with every few thousand new ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mix {
    /// By request.
    counts: Vec<(CardRequest, u32)>,
    /// Submissions since the counts were halved.
    since: u32,
}

impl Mix {
    /// Somebody asked for this.
    pub fn count(&mut self, wanted: &CardRequest) {
        match self.counts.binary_search_by(|(each, _)| each.cmp(wanted)) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(ONE),
            Err(_) if self.counts.len() >= REMEMBERED => {
                self.halve();
                // Whatever came often stays; what came once may be forgotten, or is not taken in.
                let at = self.counts.partition_point(|(each, _)| each < wanted);
                if self.counts.len() < REMEMBERED {
                    self.counts.insert(at, (wanted.clone(), ONE));
                }
            }
            Err(at) => self.counts.insert(at, (wanted.clone(), ONE)),
        }
        self.since += 1;
        if self.since >= HALVED_AFTER {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.since = 0;
        for (_, count) in &mut self.counts {
            *count /= 2;
        }
        self.counts.retain(|(_, count)| *count > 0);
    }

    /// The commonest requests with their weights.
    pub fn typical(&self) -> Typical {
        let mut all: Vec<&(CardRequest, u32)> = self.counts.iter().collect();
        all.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        all.truncate(TYPICAL);
        Typical(all.into_iter().cloned().collect())
    }
}

/// The commonest requests, each with its weight.
#[derive(Debug, Clone, Default)]
pub struct Typical(Vec<(CardRequest, u32)>);

impl Typical {
    /// What these requests find on a node's cards, with so much free on each.
    pub fn on<'a>(&'a self, node: &Inventory, free: &'a [Megabytes], reserve: u32) -> Finds<'a> {
        let of = |(wanted, weight): &'a (CardRequest, u32)| {
            let need = |card: &Card| card.demand(wanted, reserve).map(|demand| demand.charge);
            Find { wanted, weight: *weight, needs: node.cards.iter().map(need).collect() }
        };
        Finds { free, finds: self.0.iter().map(of).collect() }
    }
}

/// What typical requests find on a node.
#[derive(Debug)]
pub struct Finds<'a> {
    free: &'a [Megabytes],
    finds: Vec<Find<'a>>,
}

/// What one of them finds.
#[derive(Debug)]
struct Find<'a> {
    wanted: &'a CardRequest,
    weight: u32,
    /// What it needs of each card; none: it can't use the card.
    needs: Vec<Option<Megabytes>>,
}

impl Find<'_> {
    /// All of the free memory if the request does not fit, else what is free on the cards that are too full or too small.
    fn unusable(&self, free: &[i64]) -> i64 {
        let all: i64 = free.iter().sum();
        let fits = |(need, free): (&Option<Megabytes>, &i64)| {
            need.filter(|need| need.0 as i64 <= *free).map(|_| *free)
        };
        let (mut cards, mut usable) = (0, 0);
        for free in self.needs.iter().zip(free).filter_map(fits) {
            cards += 1;
            usable += free;
        }
        if cards < self.wanted.count { all } else { all - usable }
    }
}

impl Finds<'_> {
    /// How much free memory a typical request can't use, times the sum of the weights, with these charges on top of
    /// what is there. Where they come only later, more may be charged than is free now.
    fn useless(&self, charges: &[(usize, Megabytes)]) -> i64 {
        let mut free: Vec<i64> = self.free.iter().map(|free| free.0 as i64).collect();
        for (card, charge) in charges {
            free[*card] -= charge.0 as i64;
        }
        self.finds.iter().map(|find| find.unusable(&free) * i64::from(find.weight)).sum()
    }

    /// By how much that grows if this is charged.
    pub fn growth(&self, charges: &[(usize, Megabytes)]) -> i64 {
        self.useless(charges) - self.useless(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(count: u32, slice: Option<u64>) -> CardRequest {
        CardRequest { count, kind: None, slice: slice.map(Megabytes) }
    }

    fn node() -> Inventory {
        let card = |index| Card::new(index, format!("card-{index}"), None, Megabytes(1000));
        let cards = (0..3).map(card).collect();
        Inventory {
            name: "a".parse().unwrap(),
            epoch: 1,
            cpus: 8,
            ram: Megabytes(8),
            cards,
            features: vec![],
            numa_cpus: vec![],
        }
    }

    #[test]
    fn what_is_free_and_useless_counts() {
        let mut mix = Mix::default();
        for _ in 0..3 {
            mix.count(&asks(1, Some(400)));
        }
        mix.count(&asks(2, None));
        let free = [Megabytes(300), Megabytes(500), Megabytes(1000)];
        // Slices of 400 can't use 300 of 1800; two whole cards fit nowhere.
        let of_slices = 3 * 300;
        assert_eq!(mix.typical().on(&node(), &free, 0).useless(&[]), i64::from(ONE) * (of_slices + 1800));
    }

    #[test]
    fn a_reserve_makes_large_slices_whole_cards() {
        let mut mix = Mix::default();
        mix.count(&asks(1, Some(900)));
        let free = [Megabytes(0), Megabytes(950), Megabytes(1000)];
        assert_eq!(mix.typical().on(&node(), &free, 0).useless(&[]), 0);
        assert_eq!(mix.typical().on(&node(), &free, 20).useless(&[]), i64::from(ONE) * 950);
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_what_is_rare_is_not_typical() {
        let mut mix = Mix::default();
        mix.count(&asks(1, Some(1)));
        for _ in 0..10 * HALVED_AFTER {
            mix.count(&asks(1, Some(2)));
        }
        assert_eq!(mix.typical().0.len(), 1);
        for slice in 0..10_000 {
            mix.count(&asks(1, Some(10 + slice)));
            mix.count(&asks(1, Some(2)));
        }
        assert!(mix.counts.len() <= REMEMBERED && mix.counts.is_sorted());
        let typical = mix.typical().0;
        assert_eq!((typical.len(), &typical[0].0), (TYPICAL, &asks(1, Some(2))));
    }
}
