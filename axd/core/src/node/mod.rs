//! Nodes: what they have and what is given out. The only place that adds up resources. Slices that are promised of a
//! card never exceed its memory. It chooses nothing: places are chosen in `schedule`.

mod cards;
mod company;
mod cpus;
mod ends;
mod future;
mod needs;
mod nodes;
mod room;
mod topology;
mod words;

pub use cards::{Fitting, Withheld};
pub use company::{CardUse, Company};
pub use future::{Future, Step, Taken, Usage};
pub use needs::{Lack, Need};
pub use nodes::{Nodes, Version};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::cpus::GivenCpus;
use crate::gpu::{CardState, Hardware};
use crate::id::{AttemptName, HostName, Uid};
use crate::job::bounds::Asks;
use crate::job::request::{CardRequest, Request};
use crate::size::Megabytes;
use crate::time::WallTime;

pub use ends::{EndTimes, Want};
pub use room::{At, Room, Sort};
pub use topology::Topology;

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
    /// What `--constraint` may ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// NUMA node of each CPU; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_cpus: Vec<u32>,
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
    /// Its hardware.
    #[serde(default)]
    pub hardware: Hardware,
}

impl Inventory {
    /// A node of which only this is known.
    pub fn new(name: HostName, cpus: u32, ram: Megabytes, cards: Vec<Card>) -> Inventory {
        Inventory { name, epoch: 1, cpus, ram, cards, features: Vec::new(), numa_cpus: Vec::new() }
    }

    /// The cards of a type, or all.
    pub fn cards_of<'a>(&'a self, kind: Option<&'a str>) -> impl Iterator<Item = &'a Card> {
        self.cards.iter().filter(move |c| kind.is_none() || c.kind.as_deref() == kind)
    }

    /// True if the node has the request's features, and the request allows the node.
    pub fn admits(&self, request: &Request) -> bool {
        self.is_named(request) && request.features().is_none_or(|features| features.met_by(&self.features))
    }

    /// True if the request names the node, or names none and does not exclude it.
    pub fn is_named(&self, request: &Request) -> bool {
        (request.only_nodes.is_empty() || request.only_nodes.contains(&self.name))
            && !request.not_nodes.contains(&self.name)
    }

    /// CPUs that a request takes here.
    pub fn cpus_for(&self, request: &Request) -> u32 {
        if request.exclusive { self.cpus.max(request.cpus) } else { request.cpus }
    }

    /// Memory that a request takes here.
    pub fn ram_for(&self, request: &Request) -> Megabytes {
        if request.exclusive { self.ram.max(request.ram) } else { request.ram }
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
    /// Reserved memory; `None` means the whole card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Megabytes>,
    /// Of a slice: the memory of the card, so that its part of it is known when the card is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Megabytes>,
    /// It runs under MPS for this user: no other user's slices are on the card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps: Option<Uid>,
}

impl CardShare {
    /// The part of the card that it is.
    pub fn part(&self) -> f64 {
        match (self.slice, self.of) {
            (Some(slice), Some(of)) if of > Megabytes::ZERO => (slice.0 as f64 / of.0 as f64).min(1.0),
            _ => 1.0,
        }
    }
}

/// What a job would take of one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CardDemand {
    /// What is charged for it.
    pub charge: Megabytes,
    /// The most that may be charged on the card in all, including this.
    pub limit: Megabytes,
    /// The slice; `None` means the whole card.
    pub slice: Option<Megabytes>,
}

impl Card {
    /// A card of which only this is known.
    pub fn new(index: u32, uuid: String, kind: Option<String>, mem: Megabytes) -> Card {
        Card { index, uuid, kind, mem, hardware: Hardware::default() }
    }

    /// The name of a card whose UUID no driver tells.
    pub fn declared_name(node: &HostName, index: u32) -> String {
        format!("{node}-{index}")
    }

    /// True if a share was given of this card. The UUID decides, whatever number the card has now; the number decides
    /// if the card had no UUID then or has none now.
    pub fn is_of(&self, share: &CardShare, node: &HostName) -> bool {
        let nameless = |uuid: &str, index: u32| uuid == Card::declared_name(node, index);
        self.uuid == share.uuid
            || (self.index == share.index
                && (nameless(&self.uuid, self.index) || nameless(&share.uuid, share.index)))
    }

    /// The memory that slices may share if `reserve` percent are kept back.
    pub fn shared(&self, reserve: u32) -> Megabytes {
        Megabytes(self.mem.0 * u64::from(100 - reserve.min(100)) / 100)
    }

    /// What a request takes of this card; `None` if the card is of another type or too small. A slice that is at
    /// least as large as the card, or larger than the part that may be shared, takes the whole card.
    pub fn demand(&self, wanted: &CardRequest, reserve: u32) -> Option<CardDemand> {
        if wanted.kind.is_some() && wanted.kind != self.kind {
            return None;
        }
        let whole = CardDemand { charge: self.mem, limit: self.mem, slice: None };
        match wanted.slice {
            None => Some(whole),
            Some(slice) if slice > self.mem => None,
            Some(slice) if slice == self.mem || slice > self.shared(reserve) => Some(whole),
            Some(slice) => {
                Some(CardDemand { charge: slice, limit: self.shared(reserve), slice: Some(slice) })
            }
        }
    }
}

/// What a running attempt holds of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// What it was given.
    pub allocation: Allocation,
    /// What is charged: position of the card in the inventory, and memory, which is more than was given if the
    /// attempt was seen to use more.
    pub charges: Vec<(usize, Megabytes)>,
    /// When it is expected to end by its declared length.
    pub until: WallTime,
    /// When it most likely ends, which is not later.
    pub likely: WallTime,
}

impl Holding {
    /// What it takes.
    pub fn taken(&self) -> Taken<'_> {
        let cpus = u32::try_from(self.allocation.cpus.len()).unwrap_or(u32::MAX);
        Taken { cpus, ram: self.allocation.ram, cards: &self.charges }
    }
}

/// A node and what is given out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it has.
    pub inventory: Inventory,
    held: BTreeMap<AttemptKey, Holding>,
    cpus: GivenCpus,
    /// What is used now, cards by position in the inventory.
    used: Usage,
    /// What is used from each end on, by the declared and by the most likely lengths.
    by_until: Arc<Future>,
    by_likely: Arc<Future>,
    /// What is known of cards, by UUID.
    states: BTreeMap<String, CardState>,
    /// What is withheld of cards, by position in the inventory.
    withheld: Vec<Withheld>,
    /// Set if the node is drained: by whom and why.
    drained: Option<Box<str>>,
    /// How its cards are linked, if that differs among them.
    topology: Option<Arc<Topology>>,
}

/// Attempts are keyed by epoch here: it is unique in a cluster.
pub type AttemptKey = u64;

impl Node {
    /// A node of which nothing is given out.
    pub fn new(inventory: Inventory) -> Node {
        Node {
            used: Usage { cards: vec![CardUse::default(); inventory.cards.len()], ..Usage::default() },
            by_until: Arc::default(),
            by_likely: Arc::default(),
            withheld: vec![Withheld::default(); inventory.cards.len()],
            topology: Topology::of(&inventory.cards).map(Arc::new),
            cpus: GivenCpus::none(inventory.cpus),
            inventory,
            held: BTreeMap::new(),
            states: BTreeMap::new(),
            drained: None,
        }
    }

    /// What running attempts hold, by epoch.
    pub fn held(&self) -> &BTreeMap<AttemptKey, Holding> {
        &self.held
    }

    /// What is used now.
    pub fn used(&self) -> &Usage {
        &self.used
    }

    /// What is used from the end of each of its jobs on, if they take as long as they declare.
    pub fn by_until(&self) -> &Future {
        &self.by_until
    }

    /// The same if they take as long as is most likely.
    pub fn by_likely(&self) -> &Future {
        &self.by_likely
    }

    /// CPUs given out.
    pub fn cpus_used(&self) -> u32 {
        self.used.cpus
    }

    /// Memory given out.
    pub fn ram_used(&self) -> Megabytes {
        self.used.ram
    }

    /// What is charged on each card, in the order of the inventory.
    pub fn cards_used(&self) -> &[CardUse] {
        &self.used.cards
    }

    /// CPUs not given out.
    pub fn free_cpus(&self) -> u32 {
        self.inventory.cpus.saturating_sub(self.used.cpus)
    }

    /// Memory not given out.
    pub fn free_ram(&self) -> Megabytes {
        self.inventory.ram.saturating_sub(self.used.ram)
    }

    /// Memory of a card that is given out; all of it if a job holds the whole card.
    pub fn card_reserved(&self, card: &Card) -> Megabytes {
        self.position(card.index).map_or(Megabytes::ZERO, |position| self.used.cards[position].charged)
    }

    fn position(&self, index: u32) -> Option<usize> {
        self.inventory.cards.iter().position(|card| card.index == index)
    }

    /// True if the request would fit if nothing were given out.
    pub fn could_ever_hold<'a>(&self, asks: impl Into<Asks<'a>>, reserve: u32) -> bool {
        let (has, asks) = (&self.inventory, asks.into());
        let request = asks.request;
        let enough = |wanted: &CardRequest| {
            let serves = |card: &&Card| card.demand(wanted, reserve).is_some() && asks.may_have(self, card);
            has.cards.iter().filter(serves).count() >= wanted.count as usize
        };
        (has.admits(request) && asks.may_fill(self))
            && request.cpus <= has.cpus
            && request.ram <= has.ram
            && request.cards.as_ref().is_none_or(enough)
    }

    /// The allocation that gives a request these cards, by position, and the CPUs nearest to them, the lowest numbers
    /// first.
    pub fn allocation<'a>(&self, asks: impl Into<Asks<'a>>, cards: &[usize], reserve: u32) -> Allocation {
        let asks = asks.into();
        let request = asks.request;
        let share = |position: &usize| {
            let card = &self.inventory.cards[*position];
            let demand = request.cards.as_ref().and_then(|wanted| card.demand(wanted, reserve));
            let mps = match asks.company(card, reserve) {
                Company::Mps(user) => Some(user),
                Company::Anybody | Company::Several => None,
            };
            let slice = demand.and_then(|demand| demand.slice);
            CardShare { index: card.index, uuid: card.uuid.clone(), slice, of: slice.map(|_| card.mem), mps }
        };
        let mut cards = cards.to_vec();
        cards.sort_unstable();
        Allocation {
            node: self.inventory.name.clone(),
            cpus: self.nearest_free_cpus(self.inventory.cpus_for(request), &cards),
            ram: self.inventory.ram_for(request),
            cards: cards.iter().map(share).collect(),
        }
    }

    /// Each card in turn gets the lowest free CPU of its NUMA node, as long as there is one; the rest are the lowest
    /// of all.
    fn nearest_free_cpus(&self, count: u32, cards: &[usize]) -> Vec<u32> {
        topology::nearest(self.cpus.free(), count as usize, &self.inventory, cards)
    }

    /// Gives an allocation out; `ends` is when it is expected to become free.
    pub fn hold(&mut self, attempt: AttemptName, allocation: Allocation, ends: EndTimes) {
        let charge = |share: &CardShare| {
            let has = &self.inventory;
            let position = has.cards.iter().position(|card| card.is_of(share, &has.name))?;
            Some((position, share.slice.unwrap_or(self.inventory.cards[position].mem)))
        };
        let charges: Vec<_> = allocation.cards.iter().filter_map(charge).collect();
        self.release(attempt);
        let EndTimes { until, likely } = ends;
        self.hold_as(attempt.epoch.0, Holding { allocation, charges, until, likely });
    }

    fn hold_as(&mut self, attempt: AttemptKey, holding: Holding) {
        self.cpus.give(&holding.allocation.cpus);
        let (has, taken) = (&self.inventory, holding.taken());
        let company = |position: usize| {
            let own = |share: &&CardShare| has.cards[position].is_of(share, &has.name);
            holding.allocation.cards.iter().find(own).map_or(Company::default(), CardShare::company)
        };
        Arc::make_mut(&mut self.by_until).add(holding.until, &self.used, &taken, company);
        Arc::make_mut(&mut self.by_likely).add(holding.likely, &self.used, &taken, company);
        self.used.add(&taken, company);
        self.held.insert(attempt, holding);
    }

    /// Raises the charge of an attempt that was seen to use more of a card than it asked for.
    pub fn charge_at_least(&mut self, attempt: AttemptName, used: Megabytes) {
        let Some(holding) = self.held.get_mut(&attempt.epoch.0) else { return };
        for (position, charge) in &mut holding.charges {
            let more = used.saturating_sub(*charge);
            *charge = *charge + more;
            let card = &mut self.used.cards[*position];
            card.charged = card.charged + more;
            Arc::make_mut(&mut self.by_until).raise(holding.until, *position, more);
            Arc::make_mut(&mut self.by_likely).raise(holding.likely, *position, more);
        }
    }

    /// Sets when an attempt is expected to end.
    pub fn expect_end(&mut self, attempt: AttemptName, ends: EndTimes) {
        if let Some(holding) = self.take(attempt) {
            let EndTimes { until, likely } = ends;
            self.hold_as(attempt.epoch.0, Holding { until, likely, ..holding });
        }
    }

    /// Takes back what an attempt held.
    pub fn release(&mut self, attempt: AttemptName) {
        self.take(attempt);
    }

    fn take(&mut self, attempt: AttemptName) -> Option<Holding> {
        let holding = self.held.remove(&attempt.epoch.0)?;
        let taken = holding.taken();
        self.cpus.take_back(&holding.allocation.cpus);
        self.used.remove(&taken);
        Arc::make_mut(&mut self.by_until).remove(holding.until, &taken);
        Arc::make_mut(&mut self.by_likely).remove(holding.likely, &taken);
        Some(holding)
    }
}
