//! An index of the nodes with room now, in the order in which the tightest fit is looked for.
//!
//! It says where to look first, not what fits: the caller must ask the node itself. Nodes with cards of one sort are
//! indexed; the others are few and listed.

use std::collections::{BTreeMap, BTreeSet};

use crate::size::Megabytes;

use super::{Card, Company, Node};

/// Position of a node, in few bytes.
pub type At = u32;

/// What is known of all nodes.
#[derive(Debug, Clone, Default)]
pub struct Room {
    entries: Vec<Entry>,
    sorts: Vec<Sort>,
    /// Nodes with cards of several sorts.
    mixed: BTreeSet<At>,
    /// Nodes with cards under MPS, of which not every job may have what is free.
    under_mps: BTreeSet<At>,
    /// All nodes, by empty cards and free CPUs.
    spare: BTreeSet<(u32, u32, At)>,
}

/// What is entered for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The sort of its cards, if all are of one.
    pub sort: Option<usize>,
    /// Number of cards that no job holds and that may be given out.
    pub empty: u32,
    /// Some of its cards are under MPS.
    pub under_mps: bool,
    /// CPUs.
    pub free_cpus: u32,
    /// Memory of each card that is free for slices, the least first.
    pub free: Vec<Megabytes>,
}

impl Entry {
    /// Number of empty cards and free memory of each, as they are indexed: none if cards are under MPS.
    fn indexed(&self) -> (u32, &[Megabytes]) {
        if self.under_mps { (0, &[]) } else { (self.empty, &self.free) }
    }

    /// True if `count` cards have at least this much free.
    pub fn has(&self, count: usize, least: Megabytes) -> bool {
        self.free
            .len()
            .checked_sub(count)
            .is_some_and(|from| self.free.get(from).is_none_or(|free| *free >= least))
    }

    /// Free memory, before the request is charged, on the `count` tightest of the cards with at least `least` free.
    pub fn least_left(&self, count: usize, least: Megabytes) -> Option<Megabytes> {
        let from = self.free.partition_point(|free| *free < least);
        self.free.get(from..from + count).map(|tightest| tightest.iter().copied().sum())
    }
}

/// Cards of one size and type.
#[derive(Debug, Clone)]
pub struct Sort {
    /// One of them.
    pub card: Card,
    /// By free memory of a card and empty cards on its node.
    pub cards: BTreeSet<(Megabytes, u32, At)>,
    /// Nodes with empty cards, by how many.
    pub whole: BTreeSet<(u32, At)>,
    /// All nodes with such cards.
    pub nodes: BTreeSet<At>,
}

impl Room {
    /// Enters a node, or its changes. New nodes come in the order of their positions.
    pub fn enter(&mut self, at: usize, node: &Node) {
        let new = self.entry(node);
        if at == self.entries.len() {
            self.entries.push(Entry::default());
            let at = at as At;
            self.spare.insert((0, 0, at));
            match new.sort {
                Some(sort) => drop(self.sorts[sort].nodes.insert(at)),
                None if !new.free.is_empty() => drop(self.mixed.insert(at)),
                None => {}
            }
        }
        let old = std::mem::replace(&mut self.entries[at], new);
        let (new, at) = (&self.entries[at], at as At);
        if (old.empty, old.free_cpus) != (new.empty, new.free_cpus) {
            self.spare.remove(&(old.empty, old.free_cpus, at));
            self.spare.insert((new.empty, new.free_cpus, at));
        }
        match new.under_mps {
            true => self.under_mps.insert(at),
            false => self.under_mps.remove(&at),
        };
        let Some(sort) = new.sort.map(|sort| &mut self.sorts[sort]) else { return };
        let ((was_empty, was_free), (empty, free)) = (old.indexed(), new.indexed());
        if was_empty != empty {
            sort.whole.remove(&(was_empty, at));
            if empty > 0 {
                sort.whole.insert((empty, at));
            }
        }
        for gone in was_free.iter().filter(|gone| was_empty != empty || !free.contains(gone)) {
            sort.cards.remove(&(*gone, was_empty, at));
        }
        for come in free.iter().filter(|come| was_empty != empty || !was_free.contains(come)) {
            sort.cards.insert((*come, empty, at));
        }
    }

    fn entry(&mut self, node: &Node) -> Entry {
        let mut free: Vec<Megabytes> = node.free_memory().collect();
        free.sort_unstable();
        let sort = self.sort_of(&node.inventory.cards);
        let under_mps = node.cards_used().iter().any(|used| matches!(used.company, Company::Mps(_)));
        Entry { sort, empty: node.empty_cards() as u32, under_mps, free_cpus: node.free_cpus(), free }
    }

    fn sort_of(&mut self, cards: &[Card]) -> Option<usize> {
        let (first, others) = cards.split_first()?;
        let same = |this: &Card, that: &Card| this.mem == that.mem && this.kind == that.kind;
        if !others.iter().all(|card| same(card, first)) {
            return None;
        }
        let known = self.sorts.iter().position(|sort| same(&sort.card, first));
        Some(known.unwrap_or_else(|| {
            let sort = Sort {
                card: first.clone(),
                cards: BTreeSet::new(),
                whole: BTreeSet::new(),
                nodes: BTreeSet::new(),
            };
            self.sorts.push(sort);
            self.sorts.len() - 1
        }))
    }

    /// What is entered for a node.
    pub fn of(&self, at: At) -> &Entry {
        &self.entries[at as usize]
    }

    /// Number of nodes that are entered.
    pub fn entered(&self) -> usize {
        self.entries.len()
    }

    /// The sorts of cards.
    pub fn sorts(&self) -> &[Sort] {
        &self.sorts
    }

    /// Nodes with cards of several sorts.
    pub fn mixed(&self) -> impl Iterator<Item = At> + '_ {
        self.mixed.iter().copied()
    }

    /// Nodes with cards under MPS.
    pub fn under_mps(&self) -> impl Iterator<Item = At> + '_ {
        self.under_mps.iter().copied()
    }

    /// Nodes with this many CPUs free: those with the fewest empty cards first, then those with the fewest free CPUs.
    pub fn with_cpus(&self, cpus: u32) -> impl Iterator<Item = At> + '_ {
        let least = self.spare.first().map_or(0, |(empty, _, _)| *empty);
        let most = self.spare.last().map_or(0, |(empty, _, _)| *empty);
        (least..=most).flat_map(move |empty| {
            self.spare.range((empty, cpus, 0)..=(empty, u32::MAX, At::MAX)).map(|(_, _, at)| *at)
        })
    }

    /// The content in a form that does not depend on the order in which it was entered.
    fn sorted(&self) -> impl PartialEq + '_ {
        let key = |card: &Card| (card.mem, card.kind.clone());
        let sorts: BTreeMap<_, _> = self
            .sorts
            .iter()
            .map(|sort| (key(&sort.card), (&sort.cards, &sort.whole, &sort.nodes)))
            .collect();
        let entries: Vec<_> = self.entries.iter().map(|e| (e.empty, e.free_cpus, &e.free)).collect();
        (sorts, entries, &self.mixed, &self.under_mps, &self.spare)
    }

    /// True if it says the same as another.
    pub fn agrees(&self, other: &Room) -> bool {
        self.sorted() == other.sorted()
    }
}
