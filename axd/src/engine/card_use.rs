//! Weighs samples of cards: which attempt uses how much, which others hold memory, what is wrong. Tells the
//! controller when that matters. Also the requests that drain and resume nodes and cards.

use ax_core::api::{ApiError, ErrorClass, NodeAction, NodeAnswer, NodeRequest};
use ax_core::controller::{Decision, Event, NodeWish};
use ax_core::gpu::ledger::{Around, Given, News};
use ax_core::gpu::{CardName, Sample};
use ax_core::id::{AttemptName, HostName, Uid};
use ax_core::node::{Card, Inventory};

use super::requests::error;
use super::{Engine, now};
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::people::Person;
use crate::submission::MAX_COMMENT;

impl Engine {
    /// Takes in a look at the cards.
    pub(super) fn weigh_cards(&mut self, sample: &Sample) {
        let at = now().boot;
        let given = self.given();
        let resources = &self.controller.config().resources;
        let (bound, patience) = (resources.gpu_foreign_bound, resources.gpu_suspect_time);
        let mut ledger = std::mem::take(&mut self.ledger);
        let name = |uid: Uid| self.people.get(uid, at)?.as_ref().ok().map(|person| person.name.to_string());
        let lives = |attempt| self.is_living(attempt);
        let holds = |attempt, uuid: &str| self.was_given(attempt, uuid);
        let around = Around { lives: &lives, holds: &holds, name: &name, bound, patience };
        let news = ledger.look(at, sample, &given, &around);
        self.ledger = ledger;
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
            odd: self.why_not(node, card),
        };
        node.inventory.cards.iter().map(of).collect()
    }

    /// Looks up the users of holders; a name that is not known yet is there the next time.
    fn learn_names(&mut self, sample: &Sample) {
        let at = now().boot;
        // Jobs may be on cards that they were not given.
        let holders = sample.cards.iter().flat_map(|card| &card.holders);
        let unknown: Vec<Uid> = holders
            .filter_map(|holder| holder.uid)
            .filter(|uid| self.people.get(*uid, at).is_none())
            .collect();
        for uid in unknown {
            self.worker.look_up(uid);
        }
    }

    /// An administrator drains a node or a card, or gives it back.
    pub(super) fn node_action(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let response = match self.act_on_node(&request.body, person) {
            Ok(answer) => Response::json(200, &answer),
            Err(error) => Response::error(&error),
        };
        self.answer_when_durable(conn, response);
    }

    fn act_on_node(&mut self, body: &[u8], person: &Person) -> Result<NodeAnswer, ApiError> {
        let usage = |text: String| error(ErrorClass::Usage, text);
        let request: NodeRequest = serde_json::from_slice(body)
            .map_err(|e| usage(format!("the request's body is no action on a node: {e}")))?;
        let node: HostName = request.node.parse().map_err(|e: ax_core::id::BadName| usage(e.to_string()))?;
        let card = request.card.as_deref().map(CardName::read);
        let wish = match request.action {
            NodeAction::Drain { why } if why.len() > MAX_COMMENT => {
                return Err(usage(format!(
                    "the reason has {} bytes, at most {MAX_COMMENT} are taken",
                    why.len()
                )));
            }
            NodeAction::Drain { why } => NodeWish::Drain { why },
            NodeAction::Resume => NodeWish::Resume,
        };
        let actor = person.actor(self.controller.config());
        if let (NodeWish::Resume, Some(card), true) = (&wish, &card, actor.is_admin()) {
            self.self_check(&node, card)?;
        }
        let decisions = self.wished(Event::NodeWished { node, card, actor, wish })?;
        let said = decisions.into_iter().find_map(|decision| match decision {
            Decision::Refused { class, why } => Some(Err(error(class, why))),
            Decision::CardMoved { what, .. } | Decision::NodeMoved { what, .. } => Some(Ok(what)),
            _ => None,
        });
        Ok(NodeAnswer { done: said.unwrap_or_else(|| Ok("nothing changed".to_owned()))? })
    }

    /// Whether the last look at a card found anything that speaks against giving it back.
    fn self_check(&self, node: &HostName, card: &CardName) -> Result<(), ApiError> {
        if *node != self.local.inventory.name {
            return Ok(());
        }
        let cards = &self.local.inventory.cards;
        let Some(card) = cards.iter().find(|one| card.is(one)) else { return Ok(()) };
        match self.ledger.trouble(&card.uuid) {
            None => Ok(()),
            Some(why) => {
                let text = format!("{node} card {} is not clean: {why}", card.index);
                Err(error(ErrorClass::Refused, text))
            }
        }
    }
}
