//! Cards that are known by another name than before. Where no driver tells their UUIDs they have names made from their
//! numbers, and a card that is divided has those of its parts; whatever one was drained for under either name, it stays
//! drained for under the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::gpu::{CardState, Health};
use crate::id::HostName;
use crate::job::Actor;
use crate::node::{Card, Inventory, Node};

use super::{Controller, Decision};

/// What is known of cards, by UUID.
type States = BTreeMap<String, CardState>;

/// What is known of a card from now on, and why.
type Change = (String, CardState, String);

impl Controller {
    /// Whether a card of a node that is there was drained under another name. A node that registers is told of it.
    pub fn has_renamed_cards(&self) -> bool {
        self.nodes().any(|node| !renamed(&node.inventory, &mut node.card_states().clone()).is_empty())
    }

    /// A node that is new, or comes again, is known by what was known of it.
    pub(super) fn remember(&mut self, node: &mut Node, out: &mut Vec<Decision>) {
        let name = node.inventory.name.clone();
        let bound = self.config.resources.gpu_foreign_bound;
        let mut known = self.absent.remove(&name).unwrap_or_default();
        if let Some(before) = self.nodes.get(&name) {
            known.cards.extend(before.card_states().clone());
            known.drained = before.drained().map(Into::into);
        }
        let actor: Arc<str> = Arc::from(Actor::Ax.name());
        for (uuid, state, what) in renamed(&node.inventory, &mut known.cards) {
            let (node, state, actor) = (name.clone(), Box::new(state), Arc::clone(&actor));
            out.push(Decision::CardMoved { node, uuid, state, actor, what });
        }
        node.know_cards(known.cards, bound);
        node.drain(known.drained);
    }
}

/// The number by which a card would be known if no driver told its UUID; for a part, that of its card.
pub(super) fn number_of(card: &Card, node: &HostName) -> Option<u32> {
    match card.hardware.mig {
        Some(_) => card.hardware.whole,
        None => (card.uuid != Card::declared_name(node, card.index)).then_some(card.index),
    }
}

/// The UUID of the card that it is a part of.
pub(super) fn parent_of(card: &Card) -> Option<String> {
    card.hardware.mig.as_ref().map(|mig| mig.parent.clone())
}

/// Puts what drained cards were drained for under the names that they have in an inventory. What a card was drained for,
/// all its parts are, if it is divided now; what a part was drained for, its card is, if it is whole now.
fn renamed(inventory: &Inventory, known: &mut States) -> Vec<Change> {
    let mut this = Renaming { inventory, known, emptied: BTreeSet::new(), changes: Vec::new() };
    for card in &inventory.cards {
        if card.uuid == Card::declared_name(&inventory.name, card.index) {
            this.only_declared(card);
        } else {
            this.with_uuid(card);
        }
    }
    let mut all = this.emptied();
    all.append(&mut this.changes);
    all
}

/// An inventory under way to be known by what was known before.
struct Renaming<'a> {
    inventory: &'a Inventory,
    known: &'a mut States,
    /// Names under which nothing is drained any more: others have it now.
    emptied: BTreeSet<String>,
    changes: Vec<Change>,
}

impl Renaming<'_> {
    fn drained(&self) -> impl Iterator<Item = (&String, &CardState)> {
        self.known.iter().filter(|(_, state)| state.health == Health::Drained)
    }

    fn is_here(&self, uuid: &str) -> bool {
        self.inventory.cards.iter().any(|card| card.uuid == uuid)
    }

    /// It, or a part of it, may have been drained when it had a UUID, and this number.
    fn only_declared(&mut self, card: &Card) {
        if self.drained().any(|(uuid, _)| *uuid == card.uuid) {
            return;
        }
        let was = |(uuid, state): &(&String, &CardState)| {
            state.number == Some(card.index) && !self.is_here(uuid) && !self.emptied.contains(*uuid)
        };
        let from = self.drained().find(was).map(|(uuid, _)| uuid.clone());
        if let Some(uuid) = from {
            self.moved(card, &uuid);
        }
    }

    /// It may have been drained when it was only declared: as what it was before that, or else by its number; or as
    /// what it is a part of; or as a part of it.
    fn with_uuid(&mut self, card: &Card) {
        let name = &self.inventory.name;
        let (number, parent) = (number_of(card, name), parent_of(card));
        let declared = number.map(|number| Card::declared_name(name, number));
        let was = |(uuid, state): &(&String, &CardState)| {
            let formerly = state.formerly.as_ref();
            let this = formerly == Some(&card.uuid) || formerly.is_none() && Some(*uuid) == declared.as_ref();
            let of_it = state.part_of.as_ref() == Some(&card.uuid);
            let its = parent.is_some() && [Some(*uuid), formerly].contains(&parent.as_ref());
            this || (of_it || its) && !self.is_here(uuid)
        };
        let from: Vec<String> = self.drained().filter(was).map(|(uuid, _)| uuid.clone()).collect();
        for from in from {
            self.moved(card, &from);
        }
        let Some(state) = self.known.get_mut(&card.uuid).filter(|state| state.health == Health::Drained)
        else {
            return;
        };
        if number.is_some() && state.number != number {
            (state.number, state.part_of) = (number, parent);
            let what = format!("{name} card {} is {}, {}", card.index, card.uuid, state.health);
            self.changes.push((card.uuid.clone(), state.clone(), what));
        }
    }

    /// What a card was drained for under the name `from` it is drained for under its own.
    fn moved(&mut self, card: &Card, from: &str) {
        let Some(old) = self.known.get(from).map(CardState::lasting) else { return };
        self.emptied.insert(from.to_owned());
        if self.drained().any(|(uuid, _)| *uuid == card.uuid) {
            return;
        }
        let (name, index, uuid) = (&self.inventory.name, card.index, &card.uuid);
        let number = number_of(card, name);
        let formerly = number.is_none().then(|| from.to_owned());
        let part_of = if number.is_none() { old.part_of.clone() } else { parent_of(card) };
        let state = CardState { number, formerly, part_of, ..old };
        let why = state.why.as_deref().unwrap_or("without a reason");
        let what = format!("{name} card {index}, {uuid}, stays drained: {why}");
        self.changes.push((uuid.clone(), state.clone(), what));
        self.known.insert(uuid.clone(), state);
    }

    /// Nothing is drained any more under these names.
    fn emptied(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        for from in std::mem::take(&mut self.emptied) {
            self.known.insert(from.clone(), CardState::default());
            let what = format!("{} card {from} is known by another name now", self.inventory.name);
            changes.push((from, CardState::default(), what));
        }
        changes
    }
}
