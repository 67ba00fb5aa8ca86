//! The machines of a simulation: what they register with, and how full their cards really are.

use std::collections::BTreeMap;

use crate::id::{BadName, HostName};
use crate::node::{Allocation, Card, Inventory};
use crate::sim::workload::{NodeShape, Workload};
use crate::size::Megabytes;

/// The simulated machines, in the order in which they were named.
pub(super) struct Cluster {
    nodes: Vec<SimNode>,
    by_name: BTreeMap<HostName, usize>,
}

struct SimNode {
    inventory: Inventory,
    mem: Megabytes,
    cards: Vec<SimCard>,
}

impl SimNode {
    fn new(inventory: Inventory, shape: &NodeShape) -> SimNode {
        SimNode { inventory, mem: shape.mem, cards: vec![SimCard::default(); shape.cards as usize] }
    }
}

#[derive(Debug, Clone, Default)]
struct SimCard {
    /// Attempts on it.
    attempts: u32,
    /// What those that have loaded really use.
    used: Megabytes,
}

/// The cards of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) node: usize,
    pub(super) cards: Vec<u32>,
}

impl Cluster {
    /// The machines of the workload's origin, or such on which nothing but cards is ever scarce.
    pub(super) fn new(shapes: &[NodeShape], workload: &Workload) -> Result<Cluster, BadName> {
        let nodes = match workload.machines(shapes) {
            Some(machines) => {
                machines.iter().zip(shapes).map(|(has, shape)| SimNode::new(has.clone(), shape)).collect()
            }
            None => Cluster::ample(shapes, workload)?,
        };
        let by_name = nodes.iter().enumerate().map(|(at, node)| (node.inventory.name.clone(), at));
        Ok(Cluster { by_name: by_name.collect(), nodes })
    }

    fn ample(shapes: &[NodeShape], workload: &Workload) -> Result<Vec<SimNode>, BadName> {
        let width = shapes.len().to_string().len();
        let nodes = shapes.iter().zip(1..).map(|(shape, number)| {
            let name: HostName = format!("node-{number:0width$}").parse()?;
            Ok(SimNode::new(inventory(name, shape, ample(shape, workload)), shape))
        });
        nodes.collect()
    }

    pub(super) fn inventories(&self) -> impl Iterator<Item = &Inventory> {
        self.nodes.iter().map(|node| &node.inventory)
    }

    pub(super) fn place(&self, allocation: &Allocation) -> Option<Place> {
        let node = *self.by_name.get(&allocation.node)?;
        Some(Place { node, cards: allocation.cards.iter().map(|card| card.index).collect() })
    }

    /// The name of a node.
    pub(super) fn name(&self, place: &Place) -> HostName {
        self.nodes[place.node].inventory.name.clone()
    }

    /// Memory of each card of a node.
    pub(super) fn card_size(&self, place: &Place) -> Megabytes {
        self.nodes[place.node].mem
    }

    /// Counts an attempt on its cards; returns how many of them had none.
    pub(super) fn occupy(&mut self, place: &Place) -> u64 {
        let mut fresh = 0;
        for card in self.cards(place) {
            fresh += u64::from(card.attempts == 0);
            card.attempts += 1;
        }
        fresh
    }

    /// Takes an attempt off its cards; returns how many of them now have none.
    pub(super) fn leave(&mut self, place: &Place, loaded: Option<Megabytes>) -> u64 {
        let mut empty = 0;
        for card in self.cards(place) {
            card.attempts -= 1;
            empty += u64::from(card.attempts == 0);
            card.used = card.used.saturating_sub(loaded.unwrap_or_default());
        }
        empty
    }

    /// An attempt takes the memory that it really needs; false if that is more than there is.
    pub(super) fn load(&mut self, place: &Place, mem: Megabytes) -> bool {
        let size = self.nodes[place.node].mem;
        let fits = self.cards(place).all(|card| card.used + mem <= size);
        if fits {
            self.cards(place).for_each(|card| card.used = card.used + mem);
        }
        fits
    }

    /// It takes it no more: elsewhere there was too little.
    pub(super) fn unload(&mut self, place: &Place, mem: Megabytes) {
        self.cards(place).for_each(|card| card.used = card.used.saturating_sub(mem));
    }

    fn cards<'a>(&'a mut self, place: &'a Place) -> impl Iterator<Item = &'a mut SimCard> + 'a {
        let cards = self.nodes[place.node].cards.iter_mut().zip(0..);
        cards.filter(|(_, index)| place.cards.contains(index)).map(|(card, _)| card)
    }
}

fn inventory(name: HostName, shape: &NodeShape, cpus: u32) -> Inventory {
    let card = |index| Card::new(index, format!("{name}-card-{index}"), None, shape.mem);
    let cards = (0..shape.cards).map(card).collect();
    Inventory {
        cpus,
        ram: Megabytes(u64::from(cpus)),
        epoch: 1,
        cards,
        name,
        features: Vec::new(),
        numa_cpus: Vec::new(),
    }
}

/// As many CPUs, and megabytes of RAM, as attempts can be on a node at once: each asks for one.
fn ample(shape: &NodeShape, workload: &Workload) -> u32 {
    let all = workload.tasks.len() as u64;
    let without_cards = workload.tasks.iter().any(|task| task.cards == 0);
    let smallest = workload.tasks.iter().filter_map(|t| t.mem).min().unwrap_or(shape.mem);
    let on_cards = u64::from(shape.cards) * (shape.mem.0 / smallest.0.max(1)).max(1);
    let most = if without_cards { all } else { all.min(on_cards) };
    u32::try_from(most.max(1)).unwrap_or(u32::MAX)
}
