//! Nodes: what they have, what is given out. The only place that adds up
//! resources; a card's reserved memory never exceeds what it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptName, HostName};
use crate::job::request::{CardRequest, Request};
use crate::size::Megabytes;
use crate::text::{count, listed};

/// What a node registered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The node.
    pub name: HostName,
    /// Its epoch.
    pub epoch: u64,
    /// CPUs to give out, numbered from 0.
    pub cpus: u32,
    /// Memory to give out.
    pub ram: Megabytes,
    /// Cards to give out.
    pub cards: Vec<Card>,
}

/// One card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Number on its node.
    pub index: u32,
    /// UUID, or a name made of node and number.
    pub uuid: String,
    /// Type, lower case.
    pub kind: Option<String>,
    /// Memory to give out.
    pub mem: Megabytes,
}

impl Inventory {
    /// The cards of a type, or all.
    pub fn cards_of<'a>(&'a self, kind: Option<&'a str>) -> impl Iterator<Item = &'a Card> {
        self.cards.iter().filter(move |c| kind.is_none() || c.kind.as_deref() == kind)
    }
}

/// What an attempt holds of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The node.
    pub node: HostName,
    /// Numbers of its CPUs.
    pub cpus: Vec<u32>,
    /// Memory.
    pub ram: Megabytes,
    /// Cards and how much of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardShare>,
}

/// A part of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardShare {
    /// Number on its node.
    pub index: u32,
    /// UUID at the time.
    pub uuid: String,
    /// Reserved memory; absent: the whole card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Megabytes>,
}

/// A node and what is given out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What it has.
    pub inventory: Inventory,
    /// What each living attempt holds.
    pub held: BTreeMap<AttemptKey, Allocation>,
}

/// `2 cards`, `1 h200 card`.
fn cards_in_words(wanted: &CardRequest) -> String {
    let kind = wanted.kind.as_ref().map_or(String::new(), |kind| format!("{kind} "));
    count(wanted.count, &format!("{kind}card"))
}

/// Attempts are keyed by epoch here: it is unique in a cluster.
pub type AttemptKey = u64;

impl Node {
    /// A node of which nothing is given out.
    pub fn new(inventory: Inventory) -> Node {
        Node { inventory, held: BTreeMap::new() }
    }

    /// CPUs not given out.
    pub fn free_cpus(&self) -> u32 {
        let held: usize = self.held.values().map(|a| a.cpus.len()).sum();
        self.inventory.cpus.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX))
    }

    /// Memory not given out.
    pub fn free_ram(&self) -> Megabytes {
        self.inventory.ram.saturating_sub(self.held.values().map(|a| a.ram).sum())
    }

    /// Memory of a card that is given out; all of it if a job holds the whole card.
    pub fn card_reserved(&self, card: &Card) -> Megabytes {
        let shares = self.held.values().flat_map(|a| &a.cards).filter(|s| s.index == card.index);
        shares.map(|s| s.slice.unwrap_or(card.mem)).sum()
    }

    /// Whether some job holds a part, or the whole, of a card.
    fn card_in_use(&self, card: &Card) -> bool {
        self.held.values().flat_map(|a| &a.cards).any(|s| s.index == card.index)
    }

    /// Whether a job holds the whole card.
    fn card_taken_whole(&self, card: &Card) -> bool {
        self.held.values().flat_map(|a| &a.cards).any(|s| s.index == card.index && s.slice.is_none())
    }

    /// Whether the job wants and is allowed this node at all.
    fn admits(&self, request: &Request) -> bool {
        let name = &self.inventory.name;
        (request.only_nodes.is_empty() || request.only_nodes.contains(name))
            && !request.not_nodes.contains(name)
    }

    /// Whether the request would fit if nothing were given out.
    pub fn could_ever_hold(&self, request: &Request) -> bool {
        let has = &self.inventory;
        let cards = request.cards.as_ref().is_none_or(|c| self.cards_big_enough(c) >= c.count as usize);
        self.admits(request) && request.cpus <= has.cpus && request.ram <= has.ram && cards
    }

    /// Whether the request fits now.
    pub fn fits(&self, request: &Request) -> bool {
        let cards = request.cards.as_ref().is_none_or(|c| self.fitting_cards(c).len() >= c.count as usize);
        self.admits(request)
            && request.cpus <= self.free_cpus()
            && request.ram <= self.free_ram()
            && (!request.exclusive || self.held.is_empty())
            && cards
    }

    /// Cards of the wanted type that have the wanted memory, given out or not.
    fn cards_big_enough(&self, wanted: &CardRequest) -> usize {
        let big_enough = |c: &&Card| wanted.slice.is_none_or(|s| s <= c.mem);
        self.inventory.cards_of(wanted.kind.as_deref()).filter(big_enough).count()
    }

    /// Why a request does not fit now, in a sentence with numbers; `None`: it fits.
    pub fn lacks_now(&self, request: &Request) -> Option<String> {
        let has = &self.inventory;
        if !self.admits(request) {
            return Some(self.not_admitted());
        }
        let mut found = Vec::new();
        let free = self.free_cpus();
        if request.cpus > free {
            found.push(format!("{} ({free} of {} free)", count(request.cpus, "CPU"), has.cpus));
        }
        let free = self.free_ram();
        if request.ram > free {
            found.push(format!("{} of RAM ({free} of {} free)", request.ram, has.ram));
        }
        if request.exclusive && !self.held.is_empty() {
            found.push(format!("the whole node (used by {})", count(self.held.len() as u64, "job")));
        }
        found.extend(request.cards.as_ref().and_then(|wanted| {
            let free = self.fitting_cards(wanted).len();
            let of = format!("{free} of {}", self.cards_big_enough(wanted));
            (free < wanted.count as usize).then(|| match wanted.slice {
                None => format!("{} ({of} free)", cards_in_words(wanted)),
                Some(mem) => {
                    format!("{} on {} ({of} have so much free)", mem.of_card(), cards_in_words(wanted))
                }
            })
        }));
        (!found.is_empty()).then(|| format!("needs {} on {}", listed(&found), has.name))
    }

    /// Why even the empty node could not hold a request, in a sentence with numbers; `None`: it could.
    pub fn lacks_for_ever(&self, request: &Request) -> Option<String> {
        let has = &self.inventory;
        if !self.admits(request) {
            return Some(self.not_admitted());
        }
        let mut found = Vec::new();
        if request.cpus > has.cpus {
            found.push(format!("{}, and {} has {}", count(request.cpus, "CPU"), has.name, has.cpus));
        }
        if request.ram > has.ram {
            found.push(format!("{} of RAM, and {} has {}", request.ram, has.name, has.ram));
        }
        found.extend(request.cards.as_ref().and_then(|wanted| {
            let all = has.cards_of(wanted.kind.as_deref()).count();
            let big_enough = self.cards_big_enough(wanted);
            (big_enough < wanted.count as usize).then(|| match wanted.slice.filter(|_| all > big_enough) {
                None => format!("{}, and {} has {all}", cards_in_words(wanted), has.name),
                Some(mem) => format!(
                    "{} on {}, and {big_enough} of the {all} of {} are so large",
                    mem.of_card(),
                    cards_in_words(wanted),
                    has.name
                ),
            })
        }));
        (!found.is_empty()).then(|| format!("needs {}", found.join("; ")))
    }

    fn not_admitted(&self) -> String {
        format!("may not run on {}, by its --nodelist or --exclude", self.inventory.name)
    }

    /// The cards that can take a share of the request now, the tightest first.
    fn fitting_cards<'a>(&'a self, wanted: &'a CardRequest) -> Vec<&'a Card> {
        let fits = |card: &&Card| match wanted.slice {
            None => !self.card_in_use(card),
            Some(slice) => !self.card_taken_whole(card) && self.card_reserved(card) + slice <= card.mem,
        };
        let mut cards: Vec<&Card> = self.inventory.cards_of(wanted.kind.as_deref()).filter(fits).collect();
        cards.sort_by_key(|card| (card.mem.saturating_sub(self.card_reserved(card)), card.index));
        cards
    }

    /// What the request would hold here, if it fits now.
    pub fn place(&self, request: &Request) -> Option<Allocation> {
        if !self.fits(request) {
            return None;
        }
        let cards = match &request.cards {
            None => Vec::new(),
            Some(wanted) => {
                let chosen = self.fitting_cards(wanted).into_iter().take(wanted.count as usize);
                chosen
                    .map(|c| CardShare { index: c.index, uuid: c.uuid.clone(), slice: wanted.slice })
                    .collect()
            }
        };
        let cpus = if request.exclusive { self.inventory.cpus } else { request.cpus };
        Some(Allocation {
            node: self.inventory.name.clone(),
            cpus: self.lowest_free_cpus(cpus),
            ram: if request.exclusive { self.inventory.ram } else { request.ram },
            cards,
        })
    }

    fn lowest_free_cpus(&self, count: u32) -> Vec<u32> {
        let mut taken = vec![false; self.inventory.cpus as usize];
        for cpu in self.held.values().flat_map(|a| &a.cpus) {
            if let Some(slot) = taken.get_mut(*cpu as usize) {
                *slot = true;
            }
        }
        let free = (0..self.inventory.cpus).filter(|cpu| !taken[*cpu as usize]);
        free.take(count as usize).collect()
    }

    /// Gives out what was placed.
    pub fn hold(&mut self, attempt: AttemptName, allocation: Allocation) {
        self.held.insert(attempt.epoch.0, allocation);
    }

    /// Takes back what an attempt held.
    pub fn release(&mut self, attempt: AttemptName) {
        self.held.remove(&attempt.epoch.0);
    }
}
