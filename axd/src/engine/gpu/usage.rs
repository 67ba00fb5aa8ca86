//! Weighs samples of cards: which attempt uses how much, which others hold memory, what is wrong. Tells the
//! controller when that matters.

use ax_core::controller::Event;
use ax_core::gpu::ledger::{Around, Given, News};
use ax_core::gpu::{CardSeen, Sample};
use ax_core::id::{AttemptName, Uid};
use ax_core::node::{Card, Inventory};

use super::super::{Engine, now};

impl Engine {
    /// Takes in a look at the cards.
    pub(in crate::engine) fn weigh_cards(&mut self, sample: &Sample) {
        let at = now().boot;
        let given = self.given();
        let resources = &self.controller.config().resources;
        let (bound, patience) = (resources.gpu_foreign_bound, resources.gpu_suspect_time);
        let mut ledger = std::mem::take(&mut self.gpu.ledger);
        let name =
            |uid: Uid| self.clients.people.get(uid, at)?.as_ref().ok().map(|person| person.name.to_string());
        let lives = |attempt| self.is_living(attempt);
        let holds = |attempt, uuid: &str| self.was_given(attempt, uuid);
        let around = Around { lives: &lives, holds: &holds, name: &name, bound, patience };
        let news = ledger.look(at, sample, &given, &around);
        self.gpu.ledger = ledger;
        self.learn_names(sample);
        let node = self.local.inventory.name.clone();
        for each in news {
            let node = node.clone();
            self.happened(match each {
                News::Changed { uuid, state } => Event::CardChanged { node, uuid, state },
                News::Noted { uuid, what } => Event::CardNoted { node, uuid, what },
                News::Used { attempt, p95 } => Event::CardsUsed { attempt, peak: p95 },
            });
        }
    }

    /// True if an attempt was given a card of this node, or a part of it.
    fn was_given(&self, attempt: AttemptName, uuid: &str) -> bool {
        let Inventory { name, cards, .. } = &self.local.inventory;
        let held = self.controller.job(attempt.job.number).and_then(|job| job.attempt.as_deref());
        let Some(held) = held.and_then(|held| held.open_part_on(name)) else { return false };
        let is_it = |card: &Card| {
            card.uuid == uuid || card.hardware.mig.as_ref().is_some_and(|part| part.parent == uuid)
        };
        let mut here = cards.iter().filter(|card| is_it(card));
        here.any(|card| held.cards.iter().any(|share| card.is_of(share, name)))
    }

    /// The cards of this node that can be measured, with their state in the controller.
    fn given(&self) -> Vec<Given> {
        let name = &self.local.inventory.name;
        let Some(node) = self.controller.nodes().find(|node| node.inventory.name == *name) else {
            return Vec::new();
        };
        let of = |card: &Card| Given {
            uuid: card.uuid.clone(),
            mem: card.mem,
            state: node.card_state(&card.uuid).cloned().unwrap_or_default(),
            held: node.card_holders(card) > 0,
            odd: self.why_not(node, card),
        };
        node.inventory.cards.iter().map(of).collect()
    }

    /// Looks up the users of holders; a name that is not known yet is there the next time.
    fn learn_names(&mut self, sample: &Sample) {
        let at = now().boot;
        // Jobs may be on cards that they were not given.
        let holders = sample.cards.iter().flat_map(CardSeen::listed);
        let unknown: Vec<Uid> = holders
            .filter_map(|holder| holder.uid)
            .filter(|uid| self.clients.people.get(*uid, at).is_none())
            .collect();
        for uid in unknown {
            self.worker.look_up(uid);
        }
    }
}
