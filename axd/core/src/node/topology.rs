//! How the cards of a node are linked to one another and how near they are to its CPUs: which of several equally good
//! sets of cards is linked best, and which CPUs are near.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Card, Inventory, Node};

/// At most so many sets are compared; if there are more, cards are chosen one after the other.
const SETS: usize = 5000;

/// How the cards of a node are linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Lanes between two cards, by position.
    lanes: Vec<Vec<u32>>,
    numa: Vec<Option<u32>>,
}

/// The quality of a set of cards; the smallest is the best: many lanes, then few NUMA nodes.
type Rating = (Reverse<u64>, usize);

impl Topology {
    /// `None` if all cards are linked alike: then there is nothing to choose.
    pub fn of(cards: &[Card]) -> Option<Topology> {
        let lanes = |a: &Card, b: &Card| {
            let to = |from: &Card, to: &Card| {
                from.hardware.links.iter().filter(|(uuid, _)| *uuid == to.uuid).map(|(_, lanes)| *lanes).sum()
            };
            let (there, back): (u32, u32) = (to(a, b), to(b, a));
            if a.uuid == b.uuid { 0 } else { there.max(back) }
        };
        let row = |a| cards.iter().map(|b| lanes(a, b)).collect::<Vec<u32>>();
        let this = Topology {
            lanes: cards.iter().map(row).collect(),
            numa: cards.iter().map(|card| card.hardware.numa).collect(),
        };
        (!this.is_even()).then_some(this)
    }

    fn is_even(&self) -> bool {
        let pairs = || (0..self.numa.len()).flat_map(|a| (0..a).map(move |b| self.lanes[a][b]));
        let same_lanes = pairs().all(|lanes| pairs().next() == Some(lanes));
        same_lanes && self.numa.iter().all(|numa| *numa == self.numa[0])
    }

    fn rating(&self, set: &[usize]) -> Rating {
        let pairs = set.iter().enumerate().flat_map(|(at, a)| set[..at].iter().map(move |b| (*a, *b)));
        let lanes = pairs.map(|(a, b)| u64::from(self.lanes[a][b])).sum();
        let mut numa: Vec<Option<u32>> = set.iter().map(|card| self.numa[*card]).collect();
        numa.sort_unstable();
        numa.dedup();
        (Reverse(lanes), numa.len())
    }

    /// The best `count` cards of `choice` to go with the cards in `taken`; among equals the first.
    pub fn best(&self, taken: &[usize], choice: &[usize], count: usize) -> Vec<usize> {
        if count >= choice.len() {
            return choice.to_vec();
        }
        if sets(choice.len(), count) > SETS {
            return self.one_by_one(taken, choice, count);
        }
        let mut best: Option<(Rating, Vec<usize>)> = None;
        let mut set: Vec<usize> = taken.to_vec();
        each_set(choice, count, &mut Vec::new(), &mut |chosen| {
            set.truncate(taken.len());
            set.extend(chosen);
            let rating = self.rating(&set);
            if best.as_ref().is_none_or(|(least, _)| rating < *least) {
                best = Some((rating, chosen.to_vec()));
            }
        });
        best.map_or_else(Vec::new, |(_, chosen)| chosen)
    }

    fn one_by_one(&self, taken: &[usize], choice: &[usize], count: usize) -> Vec<usize> {
        let (mut set, mut left) = (taken.to_vec(), choice.to_vec());
        for _ in 0..count {
            let with = |card: usize| self.rating(&set.iter().copied().chain([card]).collect::<Vec<_>>());
            let best = left.iter().enumerate().min_by_key(|(_, card)| with(**card)).map(|(at, _)| at);
            let Some(at) = best else { break };
            set.push(left.remove(at));
        }
        set.split_off(taken.len())
    }
}

impl Node {
    /// How the cards are linked; `None` if all are linked alike, as far as is known.
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_deref()
    }
}

/// The number of sets of `count` cards, or a number that is too large.
fn sets(all: usize, count: usize) -> usize {
    (0..count.min(all - count))
        .try_fold(1_usize, |sets, k| Some(sets.checked_mul(all - k)? / (k + 1)))
        .unwrap_or(usize::MAX)
}

/// All sets of `count` cards, in the order of their first cards.
fn each_set(choice: &[usize], count: usize, chosen: &mut Vec<usize>, look: &mut impl FnMut(&[usize])) {
    if count == 0 {
        return look(chosen);
    }
    for at in 0..=choice.len().saturating_sub(count) {
        let Some((card, rest)) = choice[at..].split_first() else { return };
        chosen.push(*card);
        each_set(rest, count - 1, chosen, look);
        chosen.pop();
    }
}

/// `count` of the free CPUs, near these cards: each card in turn gets one of its NUMA node.
pub(super) fn nearest(
    free: impl Iterator<Item = u32>,
    count: usize,
    has: &Inventory,
    cards: &[usize],
) -> Vec<u32> {
    let numa_of = |card: &usize| has.cards[*card].hardware.numa;
    if has.numa_cpus.is_empty() || !cards.iter().any(|card| numa_of(card).is_some()) {
        return free.take(count).collect();
    }
    let mut near: BTreeMap<u32, Vec<u32>> =
        cards.iter().filter_map(numa_of).map(|numa| (numa, Vec::new())).collect();
    let mut far = Vec::new();
    for cpu in free {
        match has.numa_cpus.get(cpu as usize).and_then(|numa| near.get_mut(numa)) {
            Some(own) => own.push(cpu),
            None => far.push(cpu),
        }
    }
    near.values_mut().for_each(|own| own.reverse());
    let mut given = Vec::new();
    let turns: Vec<u32> = cards.iter().filter_map(numa_of).collect();
    while given.len() < count && near.values().any(|own| !own.is_empty()) {
        for numa in &turns {
            if given.len() < count {
                given.extend(near.get_mut(numa).and_then(Vec::pop));
            }
        }
    }
    let missing = count - given.len();
    given.extend(far.into_iter().take(missing));
    given.sort_unstable();
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Hardware;
    use crate::size::Megabytes;
    use proptest::prelude::*;

    fn cards(links: &[(usize, usize, u32)], numa: &[Option<u32>]) -> Vec<Card> {
        let uuid = |at: usize| format!("GPU-{at}");
        let of = |at: usize| links.iter().filter(move |(from, _, _)| *from == at);
        let hardware = |at: usize| Hardware {
            links: of(at).map(|(_, to, lanes)| (uuid(*to), *lanes)).collect(),
            numa: numa[at],
            ..Hardware::default()
        };
        let card = |at: usize| Card {
            hardware: hardware(at),
            ..Card::new(at as u32, uuid(at), None, Megabytes(80_000))
        };
        (0..numa.len()).map(card).collect()
    }

    #[test]
    fn cards_that_lie_alike_have_no_topology() {
        assert_eq!(Topology::of(&[]), None);
        assert_eq!(Topology::of(&cards(&[], &[None; 4])), None);
        assert_eq!(Topology::of(&cards(&[], &[Some(1); 4])), None);
        let all = [(0, 1, 4), (0, 2, 4), (1, 2, 4)];
        assert_eq!(Topology::of(&cards(&all, &[None; 3])), None);
        assert!(Topology::of(&cards(&all[..2], &[None; 3])).is_some());
        assert!(Topology::of(&cards(&[], &[Some(0), Some(1)])).is_some());
    }

    /// All sets as bits: plain and slow, without any code of the above.
    fn by_brute_force(cards: &[Card], taken: &[usize], choice: &[usize], count: usize) -> (u64, usize) {
        let lanes = |a: usize, b: usize| {
            let to = |a: usize, b: usize| {
                cards[a]
                    .hardware
                    .links
                    .iter()
                    .filter(|(uuid, _)| *uuid == cards[b].uuid)
                    .map(|(_, n)| *n)
                    .sum::<u32>()
            };
            u64::from(to(a, b).max(to(b, a)))
        };
        let value = |bits: u32| {
            let chosen =
                choice.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0).map(|(_, card)| *card);
            let set: Vec<usize> = taken.iter().copied().chain(chosen).collect();
            let sum: u64 = (0..set.len())
                .flat_map(|a| (0..a).map(move |b| (a, b)))
                .map(|(a, b)| lanes(set[a], set[b]))
                .sum();
            let numa: std::collections::BTreeSet<_> =
                set.iter().map(|card| cards[*card].hardware.numa).collect();
            (Reverse(sum), numa.len())
        };
        let sets = (0..1_u32 << choice.len()).filter(|bits| bits.count_ones() as usize == count);
        let (Reverse(lanes), numa) = sets.map(value).min().unwrap();
        (lanes, numa)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_set_is_linked_better_than_the_one_that_is_chosen(
            links in proptest::collection::vec((0..8_usize, 0..8_usize, 1..5_u32), 0..14),
            numa in proptest::array::uniform8(proptest::option::of(0..2_u32)),
            (taken, count) in (0..3_usize, 1..5_usize),
        ) {
            let links: Vec<_> = links.into_iter().filter(|(a, b, _)| a != b).collect();
            let cards = cards(&links, &numa);
            let Some(topology) = Topology::of(&cards) else { return Ok(()) };
            let all: Vec<usize> = (0..8).collect();
            let (taken, choice) = all.split_at(taken);
            let chosen = topology.best(taken, choice, count);
            prop_assert_eq!(chosen.len(), count);
            let set: Vec<usize> = taken.iter().chain(&chosen).copied().collect();
            let (Reverse(lanes), nodes) = topology.rating(&set);
            prop_assert_eq!((lanes, nodes), by_brute_force(&cards, taken, choice, count));
            let greedy = topology.one_by_one(taken, choice, count);
            prop_assert!(greedy.len() == count && greedy.iter().all(|card| choice.contains(card)));
        }

        #[test]
        fn as_many_cpus_are_near_as_can_be_and_cards_have_equal_parts(
            numa in proptest::array::uniform16(0..3_u32),
            free in any::<u16>(),
            on in proptest::collection::vec(0..2_u32, 1..4),
            count in 1..10_usize,
        ) {
            let cards = cards(&[], &on.iter().map(|numa| Some(*numa)).collect::<Vec<_>>());
            let name = "gpu-01".parse().unwrap();
            let has = Inventory { name, epoch: 1, cpus: 16, ram: Megabytes(1), numa_cpus: numa.to_vec(), cards, features: vec![] };
            let free: Vec<u32> = (0..16).filter(|cpu| free & (1 << cpu) != 0).collect();
            let all: Vec<usize> = (0..on.len()).collect();
            let given = nearest(free.iter().copied(), count, &has, &all);
            prop_assert_eq!(given.len(), count.min(free.len()));
            prop_assert!(given.windows(2).all(|pair| pair[0] < pair[1]) && given.iter().all(|cpu| free.contains(cpu)));
            let of = |cpus: &[u32], numa_node| cpus.iter().filter(|cpu| numa[**cpu as usize] == numa_node).count();
            let near = |cpus: &[u32]| cpus.iter().filter(|cpu| on.contains(&numa[**cpu as usize])).count();
            prop_assert_eq!(near(&given), count.min(near(&free)));
            // Who has less for each of its cards has no more, or nobody else could have had more.
            for a in [0, 1].into_iter().filter(|node| on.contains(node)) {
                for b in [0, 1].into_iter().filter(|node| on.contains(node)) {
                    let cards = |node| on.iter().filter(|each| **each == node).count();
                    let (has_a, has_b) = (of(&given, a), of(&given, b));
                    let poor = has_a / cards(a) + 1 < has_b / cards(b);
                    prop_assert!(!poor || has_a == of(&free, a), "{:?} of {:?}", given, free);
                }
            }
        }
    }
}
