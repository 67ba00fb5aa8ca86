//! What becomes of cards and nodes beside what jobs hold of them: what is seen on a card, what is wrong with one, and
//! what people take out of use and give back.

use std::sync::Arc;

use crate::gpu::{CardName, CardState, Health};
use crate::id::{HostName, JobId, JobNumber};
use crate::job::state::Outcome;
use crate::job::{Actor, AttemptEnd, Job};
use crate::node::{Allocation, Card};
use crate::size::Megabytes;
use crate::text::listed;

use super::event::NodeWish;
use super::refusal::Refusal;
use super::renaming::{number_of, parent_of};
use super::{Controller, Decision};

impl Controller {
    /// How much others than jobs may hold of a card that is given out.
    fn foreign_bound(&self) -> Megabytes {
        self.config.resources.gpu_foreign_bound
    }

    /// Nodes give out what the configuration lets them.
    pub(super) fn weigh_cards(&mut self) {
        let bound = self.foreign_bound();
        self.nodes.iter_mut().for_each(|node| node.weigh(bound));
    }

    /// What is known of a card has changed.
    pub(super) fn card_changed(
        &mut self,
        name: &HostName,
        uuid: &str,
        mut state: CardState,
        out: &mut Vec<Decision>,
    ) {
        let Some(before) =
            self.nodes.get(name).map(|node| node.card_state(uuid).cloned().unwrap_or_default())
        else {
            let why = format!("{name} has not registered: nothing is noted of its card {uuid}");
            return out.push(Decision::Ignored { job: None, why });
        };
        // Only a person gives a drained card back.
        if before.health == Health::Drained {
            state = CardState {
                health: before.health,
                why: before.why,
                faulty: before.faulty || state.faulty,
                number: before.number,
                formerly: before.formerly,
                part_of: before.part_of,
                ..state
            };
        }
        self.set_card(name, uuid, state, &Actor::Ax, out);
    }

    fn set_card(
        &mut self,
        name: &HostName,
        uuid: &str,
        mut state: CardState,
        actor: &Actor,
        out: &mut Vec<Decision>,
    ) {
        let bound = self.foreign_bound();
        let Some(node) = self.nodes.get(name) else { return };
        let before = node.card_state(uuid).cloned().unwrap_or_default();
        if state.health == Health::Drained && before.health != Health::Drained {
            let card = node.inventory.cards.iter().find(|card| card.uuid == uuid);
            state.number = card.and_then(|card| number_of(card, name));
            state.part_of = card.and_then(parent_of);
        }
        if before == state {
            return;
        }
        let much = |state: &CardState| state.outside() >= bound;
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.know_cards([(uuid.to_owned(), state.clone())], bound);
        let lost = (before.health, before.faulty) != (state.health, state.faulty) || before.why != state.why;
        // What is measured changes all the time and is measured again after a restart.
        if !lost && much(&before) == much(&state) {
            return;
        }
        let index = node.inventory.cards.iter().find(|card| card.uuid == uuid).map(|card| card.index);
        let who = index.map_or_else(|| format!("{name} card {uuid}"), |index| format!("{name} card {index}"));
        let what = match (state.health, node.card_in_words(uuid)) {
            (Health::Healthy, None) => format!("{who} is given out again"),
            (_, Some(words)) => words,
            (health, None) => format!("{who} is {health}"),
        };
        // Whoever was told that its card is unwell hears that it is well again.
        if lost && (state.health != Health::Healthy || before.health != Health::Healthy) {
            let holds = |job: &&Job| self.holds_card(job, name, uuid);
            let jobs: Vec<JobId> = self.active_jobs().filter(holds).map(|job| job.id).collect();
            for job in jobs {
                let what = match state.health {
                    Health::Healthy => what.clone(),
                    Health::Suspect | Health::Drained => format!("{what}; nothing new is started there"),
                };
                out.push(Decision::Noted { job, actor: Arc::from(actor.name()), what });
            }
        }
        out.push(Decision::CardMoved {
            node: name.clone(),
            uuid: uuid.to_owned(),
            state: Box::new(state),
            actor: Arc::from(actor.name()),
            what,
        });
    }

    /// Something was seen on a card that is its jobs' own business: it is written down with them.
    pub(super) fn card_noted(&self, name: &HostName, uuid: &str, what: &str, out: &mut Vec<Decision>) {
        for job in self.active_jobs().filter(|job| self.holds_card(job, name, uuid)) {
            let actor = Arc::from(Actor::Ax.name());
            out.push(Decision::Noted { job: job.id, actor, what: what.to_owned() });
        }
    }

    /// Somebody takes a node or one of its cards out of use, or gives it back.
    pub(super) fn node_wished(
        &mut self,
        name: &HostName,
        card: Option<&CardName>,
        actor: &Actor,
        wish: &NodeWish,
        out: &mut Vec<Decision>,
    ) {
        if let Err(refusal) = self.node_wish(name, card, actor, wish, out) {
            out.push(refusal.into());
        }
    }

    fn node_wish(
        &mut self,
        name: &HostName,
        card: Option<&CardName>,
        actor: &Actor,
        wish: &NodeWish,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        if !actor.is_admin() {
            let why = "only administrators drain and resume nodes and cards".to_owned();
            return Err(Refusal::no_permission(why));
        }
        let refused = |why| Err(Refusal::because(why));
        let Some(node) = self.nodes.get(name) else {
            let known: Vec<String> = self.nodes().map(|node| node.inventory.name.to_string()).collect();
            return refused(format!("there is no node {name}; there are: {}", listed(&known)));
        };
        let Some(card) = card else {
            return self.drain_node(name, actor, wish, out);
        };
        let Some(found) = node.inventory.cards.iter().find(|one| card.is(one)) else {
            let parts = node.inventory.cards.iter().filter(|part| card.is_divided_into(part));
            let parts: Vec<String> = parts.map(|part| part.index.to_string()).collect();
            return refused(match parts.is_empty() {
                true => format!("{name} has no card {card}; it has {}", node.inventory.cards.len()),
                false => format!("{name} card {card} is divided; its parts are cards {}", listed(&parts)),
            });
        };
        let (uuid, who) = (found.uuid.clone(), format!("{name} card {}", found.index));
        let before = node.card_state(&uuid).cloned().unwrap_or_default();
        let state = match wish {
            NodeWish::Drain { why } => {
                let why = Some(format!("by {}: {why}", actor.name()));
                CardState { health: Health::Drained, why, ..before }
            }
            NodeWish::Resume if before.health == Health::Healthy => {
                return refused(format!("{who} is not drained"));
            }
            NodeWish::Resume if before.outside() >= self.foreign_bound() => {
                let healthy = CardState { health: Health::Healthy, ..before };
                return refused(format!("{who} is not clean: {}", healthy.outside_in_words()));
            }
            NodeWish::Resume => {
                let seen = CardState { number: None, formerly: None, part_of: None, ..before };
                CardState { health: Health::Healthy, why: None, faulty: false, ..seen }
            }
        };
        let behind = match wish {
            NodeWish::Resume => self.parts_behind(name, &uuid),
            NodeWish::Drain { .. } => Vec::new(),
        };
        self.set_card(name, &uuid, state, actor, out);
        for uuid in behind {
            self.set_card(name, &uuid, CardState::default(), actor, out);
        }
        Ok(())
    }

    /// What else was drained of a card that is only declared now: it is given back as a whole.
    fn parts_behind(&self, name: &HostName, uuid: &str) -> Vec<String> {
        let Some(node) = self.nodes.get(name) else { return Vec::new() };
        let cards = &node.inventory.cards;
        let declared = cards.iter().find(|card| card.uuid == uuid && number_of(card, name).is_none());
        let Some(number) = declared.filter(|card| card.hardware.mig.is_none()).map(|card| card.index) else {
            return Vec::new();
        };
        let behind = |(uuid, state): &(&String, &CardState)| {
            state.health == Health::Drained
                && state.number == Some(number)
                && !cards.iter().any(|card| card.uuid == **uuid)
        };
        node.card_states().iter().filter(behind).map(|(uuid, _)| uuid.clone()).collect()
    }

    fn drain_node(
        &mut self,
        name: &HostName,
        actor: &Actor,
        wish: &NodeWish,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Some(node) = self.nodes.get_mut(name) else { return Ok(()) };
        let (drained, what) = match wish {
            NodeWish::Drain { why } => {
                let why = format!("by {}: {why}", actor.name());
                (Some(why.as_str().into()), format!("{name} is drained {why}"))
            }
            NodeWish::Resume if node.drained().is_none() => {
                return Err(Refusal::because(format!("{name} is not drained")));
            }
            NodeWish::Resume => (None, format!("{name} is given out again")),
        };
        node.drain(drained.clone());
        let actor = Arc::from(actor.name());
        out.push(Decision::NodeMoved { node: name.clone(), drained, actor, what });
        Ok(())
    }

    /// Who failed by itself far below its slice, of a card that had not so much left for it, since memory is in use there of
    /// which nobody says whose it is: then the card is what is odd. What others hold makes no card suspect: they are named.
    pub(super) fn suspect_cards(&mut self, number: JobNumber, end: &AttemptEnd, out: &mut Vec<Decision>) {
        let failed = end.outcome == Outcome::Failed;
        let Some(job) = self.jobs.get(&number).filter(|_| failed) else { return };
        let (Some(attempt), Some(peak)) = (job.attempt.as_deref(), end.card_peak) else { return };
        if attempt.ending.is_some() {
            return;
        }
        let (id, held): (_, Vec<Allocation>) = (job.id, attempt.parts().cloned().collect());
        for (node, share) in held.iter().flat_map(|part| part.cards.iter().map(|share| (&part.node, share))) {
            let Some(slice) = share.slice.filter(|slice| peak.0 < slice.0 / 2) else { continue };
            let known = self.nodes.get(node).and_then(|node| node.card_state(&share.uuid));
            let Some(known) = known.filter(|known| known.health == Health::Healthy).cloned() else {
                continue;
            };
            let Some(had) = known.free.map(|free| peak + free) else { continue };
            let lacking = slice - had;
            if lacking > Megabytes::ZERO && known.unexplained >= lacking {
                let (peak, slice, had) = (peak.of_card(), slice.of_card(), had.of_card());
                let why = Some(format!(
                    "{id} failed there having used {peak} of its {slice}, of which the card had {had}: {}",
                    known.unexplained_in_words()
                ));
                let state = CardState { health: Health::Suspect, why, ..known };
                self.set_card(node, &share.uuid, state, &Actor::Ax, out);
            }
        }
    }

    /// What is wrong with the cards of a job's last attempt, if an error of a card itself may have ended it.
    pub(super) fn faults_under(&self, job: &Job) -> Option<String> {
        job.attempt.as_ref()?.parts().find_map(|held| {
            let node = self.nodes.get(&held.node)?;
            let faulty = |card: &&Card| node.card_state(&card.uuid).is_some_and(|state| state.faulty);
            let is_held = |card: &&Card| held.cards.iter().any(|share| card.is_of(share, &held.node));
            let card = node.inventory.cards.iter().filter(is_held).find(faulty)?;
            node.card_in_words(&card.uuid)
        })
    }

    /// Whether a job's attempt holds a card, under whatever name it was given it.
    fn holds_card(&self, job: &Job, name: &HostName, uuid: &str) -> bool {
        let held = job.attempt.as_ref().and_then(|attempt| attempt.open_part_on(name));
        let Some(held) = held else { return false };
        let card = self.nodes.get(name);
        let card = card.and_then(|node| node.inventory.cards.iter().find(|card| card.uuid == uuid));
        held.cards.iter().any(|share| share.uuid == uuid || card.is_some_and(|card| card.is_of(share, name)))
    }
}
