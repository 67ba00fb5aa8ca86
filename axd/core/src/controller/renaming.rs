//! Cards that are known by another name than before. Where no driver tells their UUIDs they have names made from their
//! numbers; whatever one was drained for under either name, it stays drained for under the other.

use std::collections::BTreeMap;
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

/// The number by which a card would be known if no driver told its UUID. Parts of cards would not be there.
pub(super) fn number_of(card: &Card, node: &HostName) -> Option<u32> {
    let by_uuid = card.hardware.mig.is_none() && card.uuid != Card::declared_name(node, card.index);
    by_uuid.then_some(card.index)
}

/// Puts what drained cards were drained for under the names that they have in an inventory.
fn renamed(inventory: &Inventory, known: &mut States) -> Vec<Change> {
    let mut changes = Vec::new();
    for card in &inventory.cards {
        if card.uuid == Card::declared_name(&inventory.name, card.index) {
            only_declared(inventory, card, known, &mut changes);
        } else {
            with_uuid(inventory, card, known, &mut changes);
        }
    }
    changes
}

/// It may have been drained when it had a UUID, and this number.
fn only_declared(inventory: &Inventory, card: &Card, known: &mut States, changes: &mut Vec<Change>) {
    let here = |uuid: &str| inventory.cards.iter().any(|card| card.uuid == uuid);
    let was = |(uuid, state): &(&String, &CardState)| {
        state.health == Health::Drained && state.number == Some(card.index) && !here(uuid)
    };
    if is_drained(known, &card.uuid) {
        return;
    }
    if let Some(uuid) = known.iter().find(was).map(|(uuid, _)| uuid.clone()) {
        moved(inventory, card, &uuid, known, changes);
    }
}

/// It may have been drained when it was only declared: as what it was before that, or else by its number.
fn with_uuid(inventory: &Inventory, card: &Card, known: &mut States, changes: &mut Vec<Change>) {
    let name = &inventory.name;
    let was =
        |state: &CardState| state.health == Health::Drained && state.formerly.as_ref() == Some(&card.uuid);
    let declared = Card::declared_name(name, card.index);
    let by_number = |state: &CardState| state.health == Health::Drained && state.formerly.is_none();
    let from = known.iter().find(|(_, state)| was(state)).map(|(uuid, _)| uuid.clone());
    let from = from.or_else(|| known.get(&declared).is_some_and(by_number).then_some(declared));
    if let Some(from) = from {
        moved(inventory, card, &from, known, changes);
    }
    let Some(state) = known.get_mut(&card.uuid).filter(|state| state.health == Health::Drained) else {
        return;
    };
    let number = number_of(card, name);
    if state.number != number {
        state.number = number;
        let what = format!("{name} card {} is {}, {}", card.index, card.uuid, state.health);
        changes.push((card.uuid.clone(), state.clone(), what));
    }
}

fn is_drained(known: &States, uuid: &str) -> bool {
    known.get(uuid).is_some_and(|state| state.health == Health::Drained)
}

/// What a card was drained for under the name `from` it is drained for under its own.
fn moved(inventory: &Inventory, card: &Card, from: &str, known: &mut States, changes: &mut Vec<Change>) {
    let (name, index, uuid) = (&inventory.name, card.index, &card.uuid);
    let Some(old) = known.insert(from.to_owned(), CardState::default()) else { return };
    changes.push((from.to_owned(), CardState::default(), format!("{name} card {index} is {uuid} now")));
    let number = number_of(card, name);
    let formerly = number.is_none().then(|| from.to_owned());
    let state = CardState { number, formerly, ..old.lasting() };
    let why = state.why.as_deref().unwrap_or("without a reason");
    changes.push((uuid.clone(), state.clone(), format!("{name} card {index}, {uuid}, stays drained: {why}")));
    known.insert(uuid.clone(), state);
}
