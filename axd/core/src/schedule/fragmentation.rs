//! Fragmentation of cards: the free memory that a typical submission could
//! not use, and what typical submissions are.
//!
//! After "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
//! Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023). All in
//! integers, weighted by counts instead of probabilities, so that equal
//! states give equal numbers on every machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::request::{CardRequest, Request};
use crate::node::{Card, Inventory};
use crate::size::Megabytes;

/// What one submission counts at first.
const ONE: u32 = 64;

/// All counts are halved after so many submissions.
const HALVED_AFTER: u32 = 4096;

/// At most so many kinds of submissions are remembered.
const REMEMBERED: usize = 256;

/// At most so many kinds of submissions are typical.
const TYPICAL: usize = 128;

/// What a submission asks of each of its nodes. CPUs and memory count: where a kind's are missing, the cards beside are
/// useless to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Kind {
    /// Cards.
    pub cards: CardRequest,
    /// CPUs.
    pub cpus: u32,
    /// Host memory.
    pub ram: Megabytes,
}

impl Kind {
    /// The kind of a request, if it asks for cards.
    pub fn of(request: &Request) -> Option<Kind> {
        let cards = request.cards.clone()?;
        Some(Kind { cards, cpus: request.cpus, ram: request.ram })
    }
}

/// What was asked for lately: old submissions count half as much with every few thousand new ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mix {
    /// By kind.
    counts: Vec<(Kind, u32)>,
    /// Submissions since the counts were halved.
    since: u32,
}

impl Mix {
    /// Somebody asked for this; what asks for no cards is not counted.
    pub fn count(&mut self, request: &Request) {
        let Some(wanted) = Kind::of(request) else { return };
        match self.counts.binary_search_by(|(each, _)| each.cmp(&wanted)) {
            Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(ONE),
            Err(_) if self.counts.len() >= REMEMBERED => {
                self.halve();
                // Whatever came often stays; what came once may be forgotten, or is not taken in.
                let at = self.counts.partition_point(|(each, _)| *each < wanted);
                if self.counts.len() < REMEMBERED {
                    self.counts.insert(at, (wanted, ONE));
                }
            }
            Err(at) => self.counts.insert(at, (wanted, ONE)),
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
        let mut all: Vec<&(Kind, u32)> = self.counts.iter().collect();
        all.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        all.truncate(TYPICAL);
        let mut groups: BTreeMap<&CardRequest, Vec<Host>> = BTreeMap::new();
        for (kind, weight) in all {
            let (cpus, ram) = (i64::from(kind.cpus), kind.ram.0 as i64);
            groups.entry(&kind.cards).or_default().push(Host { cpus, ram, weight: i64::from(*weight) });
        }
        Typical(groups.into_iter().map(|(cards, hosts)| Group { cards: cards.clone(), hosts }).collect())
    }
}

/// The commonest requests, each with its weight.
#[derive(Debug, Clone, Default)]
pub struct Typical(Vec<Group>);

/// Those that ask for the same cards.
#[derive(Debug, Clone)]
struct Group {
    cards: CardRequest,
    /// With what beside.
    hosts: Vec<Host>,
}

/// CPUs and memory, MB, of a kind, and its weight.
#[derive(Debug, Clone)]
struct Host {
    cpus: i64,
    ram: i64,
    weight: i64,
}

impl Group {
    /// The weight of those for which there are CPUs and memory enough.
    fn with_room(&self, cpus: i64, ram: i64) -> i64 {
        self.hosts.iter().map(|host| if host.cpus <= cpus && host.ram <= ram { host.weight } else { 0 }).sum()
    }
}

/// What is free of a node, or would be: below nothing where more is charged than is there.
#[derive(Debug, Clone)]
pub struct Free {
    /// CPUs.
    pub cpus: i64,
    /// Host memory, MB.
    pub ram: i64,
    /// Memory of each card, MB.
    pub cards: Vec<i64>,
}

impl Typical {
    /// What these requests find on a node with so much free, and would find beside somebody with so many CPUs and so
    /// much memory.
    pub fn beside(&self, node: &Inventory, free: Free, (cpus, ram): (u32, Megabytes), reserve: u32) -> Finds {
        let of = |group: &Group| {
            let mut needs: Vec<i64> = Vec::with_capacity(node.cards.len());
            for (at, card) in node.cards.iter().enumerate() {
                let alike = at.checked_sub(1).filter(|last| is_alike(&node.cards[*last], card));
                let need =
                    || card.demand(&group.cards, reserve).map_or(i64::MAX, |demand| demand.charge.0 as i64);
                needs.push(alike.map_or_else(need, |last| needs[last]));
            }
            Find {
                count: group.cards.count as usize,
                weight: group.hosts.iter().map(|host| host.weight).sum(),
                before: group.with_room(free.cpus, free.ram),
                after: group.with_room(free.cpus - i64::from(cpus), free.ram - ram.0 as i64),
                needs,
            }
        };
        let finds: Vec<Find> = self.0.iter().map(of).collect();
        let before = finds.iter().map(|find| find.useless(find.before, &free.cards)).sum();
        Finds { cards: free.cards, finds, before }
    }
}

fn is_alike(a: &Card, b: &Card) -> bool {
    a.mem == b.mem && a.kind == b.kind
}

/// What typical requests find on a node.
#[derive(Debug)]
pub struct Finds {
    /// Free memory of each card.
    cards: Vec<i64>,
    finds: Vec<Find>,
    /// What is useless as it is.
    before: i64,
}

/// What those that ask for the same cards find.
#[derive(Debug)]
struct Find {
    count: usize,
    /// Of all of them.
    weight: i64,
    /// Of those for which there are CPUs and memory enough.
    before: i64,
    /// Beside somebody more.
    after: i64,
    /// What they need of each card; more than any has where they can't use it.
    needs: Vec<i64>,
}

impl Find {
    /// Of the free memory of cards, what these can't use, times their weight: all of it where they don't fit, else
    /// what is free on the cards that are too full or too small. Where CPUs or memory are missing no card is of use.
    fn useless(&self, with_room: i64, free: &[i64]) -> i64 {
        let all: i64 = free.iter().sum();
        if with_room == 0 {
            return self.weight * all;
        }
        let (mut cards, mut usable) = (0, 0);
        for (need, free) in self.needs.iter().zip(free) {
            let fits = need <= free;
            cards += usize::from(fits);
            usable += if fits { *free } else { 0 };
        }
        self.weight * all - if cards < self.count { 0 } else { with_room * usable }
    }
}

impl Finds {
    /// By how much the memory that a typical request can't use, times the sum of the weights, grows if this is charged on
    /// top of what is there. Where it comes only later, more may be charged than is free now.
    pub fn growth(&self, charges: &[(usize, Megabytes)]) -> i64 {
        let mut free = self.cards.clone();
        for (card, charge) in charges {
            free[*card] -= charge.0 as i64;
        }
        let after: i64 = self.finds.iter().map(|find| find.useless(find.after, &free)).sum();
        after - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(count: u32, slice: Option<u64>, cpus: u32, ram: u64) -> Request {
        let cards = Some(CardRequest { count, kind: None, slice: slice.map(Megabytes) });
        Request { cards, ..Request::plain(cpus, Megabytes(ram)) }
    }

    fn cards(kinds: [Option<&str>; 3]) -> Inventory {
        let card = |(index, kind): (u32, Option<&str>)| {
            Card::new(index, format!("card-{index}"), kind.map(str::to_owned), Megabytes(1000))
        };
        let cards = (0..3).zip(kinds).map(card).collect();
        Inventory::new("a".parse().unwrap(), 8, Megabytes(80), cards)
    }

    fn free(cpus: i64, ram: i64, cards: [i64; 3]) -> Free {
        Free { cpus, ram, cards: cards.to_vec() }
    }

    /// What is useless beside somebody without cards, and before.
    fn useless(mix: &Mix, free: Free, reserve: u32, (cpus, ram): (u32, u64)) -> (i64, i64) {
        let finds = mix.typical().beside(&cards([None; 3]), free, (cpus, Megabytes(ram)), reserve);
        ((finds.before + finds.growth(&[])) / i64::from(ONE), finds.before / i64::from(ONE))
    }

    #[test]
    fn what_is_free_and_useless_counts() {
        let mut mix = Mix::default();
        for _ in 0..3 {
            mix.count(&asks(1, Some(400), 2, 20));
        }
        mix.count(&asks(2, None, 1, 10));
        mix.count(&Request::plain(1, Megabytes(1)));
        // Slices of 400 can't use 300 of 1800; two whole cards fit nowhere.
        let (of_slices, of_pairs) = (3 * 300, 1800);
        let at = |cpus, ram| free(cpus, ram, [300, 500, 1000]);
        assert_eq!(useless(&mix, at(8, 80), 0, (0, 0)), (of_slices + of_pairs, of_slices + of_pairs));
        // Without CPUs or memory beside them no card is of use to them.
        let all = 3 * 1800 + of_pairs;
        assert_eq!(useless(&mix, at(4, 80), 0, (3, 0)), (all, of_slices + of_pairs));
        assert_eq!(useless(&mix, at(4, 20), 0, (0, 1)), (all, of_slices + of_pairs));
        assert_eq!(useless(&mix, at(1, 80), 0, (0, 0)), (all, all));
    }

    #[test]
    fn what_is_charged_makes_the_rest_of_its_card_useless() {
        let mut mix = Mix::default();
        mix.count(&asks(1, Some(400), 1, 1));
        let finds =
            mix.typical().beside(&cards([None; 3]), free(8, 80, [500, 1000, 0]), (1, Megabytes(1)), 0);
        // 300 of 500 are left, then 800 of 1000, and 400 go from what could be used to nowhere.
        let of = |charge: (usize, u64)| finds.growth(&[(charge.0, Megabytes(charge.1))]) / i64::from(ONE);
        assert_eq!((of((0, 200)), of((1, 200)), of((1, 700))), (300, 0, 300));
    }

    #[test]
    fn cards_of_another_type_are_useless_to_who_names_one() {
        let mut mix = Mix::default();
        let mut typed = asks(1, None, 1, 1);
        typed.cards.iter_mut().for_each(|cards| cards.kind = Some("big".to_owned()));
        mix.count(&typed);
        let node = cards([Some("small"), Some("big"), Some("big")]);
        let finds = mix.typical().beside(&node, free(8, 80, [1000, 1000, 700]), (1, Megabytes(1)), 0);
        assert_eq!(finds.before / i64::from(ONE), 1700);
    }

    #[test]
    fn a_reserve_makes_large_slices_whole_cards() {
        let mut mix = Mix::default();
        mix.count(&asks(1, Some(900), 1, 1));
        let at = || free(8, 80, [0, 950, 1000]);
        assert_eq!(useless(&mix, at(), 0, (0, 0)).1, 0);
        assert_eq!(useless(&mix, at(), 20, (0, 0)).1, 950);
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_what_is_rare_is_not_typical() {
        let mut mix = Mix::default();
        mix.count(&asks(1, Some(1), 1, 1));
        for _ in 0..10 * HALVED_AFTER {
            mix.count(&asks(1, Some(2), 1, 1));
        }
        assert_eq!(mix.typical().0.len(), 1);
        for slice in 0..10_000 {
            mix.count(&asks(1, Some(10 + slice), 1, 1));
            mix.count(&asks(1, Some(2), 1, 1));
        }
        assert!(mix.counts.len() <= REMEMBERED && mix.counts.is_sorted());
        let typical = mix.typical().0;
        let most = typical.iter().max_by_key(|group| group.hosts[0].weight).unwrap();
        assert_eq!(most.cards.slice, Some(Megabytes(2)));
        assert!(typical.len() <= TYPICAL);
    }
}
