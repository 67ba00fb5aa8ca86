//! An administrator drains a node or a card, or resumes it. Whether a card is fit is asked of the driver anew, since
//! what was seen last may be old: a resume is answered after a look at the card that began later.

use ax_core::api::{ApiError, ErrorClass, NodeAction, NodeAnswer, NodeRequest};
use ax_core::controller::{Decision, Event, NodeWish};
use ax_core::gpu::{CardName, Health, Sample};
use ax_core::id::HostName;
use ax_core::time::{BootTime, Span};

use super::gpu::is_measured;
use super::requests::error;
use super::{Engine, now};
use crate::api::body::parse;
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::people::Person;
use crate::submission::MAX_COMMENT;

/// How long a look is waited for that does not end: longer than a driver may hang by default and another process
/// takes to start; shorter than clients wait for an answer.
const PATIENCE: Span = Span::seconds(30);

/// What an administrator wants of a node or of one of its cards.
#[derive(Debug, Clone)]
struct Asked {
    person: Person,
    node: HostName,
    card: Option<CardName>,
    wish: NodeWish,
}

/// A request that waits for a look.
#[derive(Debug)]
struct Waiting {
    conn: ConnId,
    asked: Asked,
    uuid: String,
    since: BootTime,
}

/// All requests to resume a card that wait for a look.
#[derive(Debug, Default)]
pub(super) struct SelfChecks(Vec<Waiting>);

impl SelfChecks {
    /// A client has gone: its request is dropped.
    pub(super) fn gone(&mut self, conn: ConnId) {
        self.0.retain(|each| each.conn != conn);
    }

    /// When the first request has waited long enough.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        self.0.iter().map(|each| each.since + PATIENCE).min()
    }

    fn take(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(which);
        self.0 = left;
        taken
    }
}

impl Engine {
    /// Answers a request about a node or a card: at once, or after a look.
    pub(super) fn node_action(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let asked = match read(&request.body, person) {
            Ok(asked) => asked,
            Err(error) => return self.answer_when_durable(conn, Response::error(&error)),
        };
        match self.to_be_looked_at(&asked) {
            None => self.act_on_node(conn, &asked),
            Some(uuid) => {
                self.self_checks.0.push(Waiting { conn, asked, uuid, since: now().boot });
                self.look_at_cards_now();
            }
        }
    }

    /// The card of this machine that must be looked at before it is resumed; `None` if nothing is to be resumed, or
    /// the card can't be looked at.
    fn to_be_looked_at(&self, asked: &Asked) -> Option<String> {
        let is_back = matches!(asked.wish, NodeWish::Resume) && asked.node == self.local.inventory.name;
        let admin = asked.person.is_admin(self.controller.config());
        let wanted = asked.card.as_ref().filter(|_| is_back && admin)?;
        let node = self.controller.nodes().find(|node| node.inventory.name == asked.node)?;
        let card = self.local.inventory.cards.iter().find(|card| wanted.is(card))?;
        // A driver that does not work is not waited for.
        if self.gpu.cards.as_ref()?.driver_trouble().is_some() {
            return None;
        }
        let unfit = node.card_state(&card.uuid).is_some_and(|state| state.health != Health::Healthy);
        (unfit && is_measured(card)).then(|| card.uuid.clone())
    }

    /// A look at the cards that began at this time is over: answers the requests that waited for it.
    pub(super) fn check_cards(&mut self, begun: BootTime, sample: &Sample) {
        let told = |uuid: &str| {
            sample.cards.iter().any(|seen| seen.uuid == uuid)
                || sample.unseen.iter().any(|unseen| unseen.uuid == uuid)
        };
        for each in self.self_checks.take(|each| begun > each.since && told(&each.uuid)) {
            self.act_on_node(each.conn, &each.asked);
        }
        // The look was about another card, or began too early.
        if !self.self_checks.0.is_empty() {
            self.look_at_cards_now();
        }
    }

    /// Answers requests that have waited long enough for a look.
    pub(super) fn answer_unchecked(&mut self, at: BootTime) {
        for each in self.self_checks.take(|each| each.since + PATIENCE <= at) {
            let why = self.gpu.ledger.trouble(&each.uuid).map_or(String::new(), |why| format!(": {why}"));
            let (card, node) = (&each.uuid, &each.asked.node);
            let text = format!("no look at {card} of {node} was over in {} s{why}", PATIENCE.as_seconds());
            let error = error(ErrorClass::TryAgain, text);
            self.answer_when_durable(each.conn, Response::error(&error));
        }
    }

    fn act_on_node(&mut self, conn: ConnId, asked: &Asked) {
        let response = match self.acted_on_node(asked) {
            Ok(answer) => Response::json(200, &answer),
            Err(error) => Response::error(&error),
        };
        self.answer_when_durable(conn, response);
    }

    fn acted_on_node(&mut self, asked: &Asked) -> Result<NodeAnswer, ApiError> {
        let Asked { person, node, card, wish } = asked.clone();
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

    /// Fails if the last look at a card found something that speaks against giving it back.
    fn self_check(&self, node: &HostName, card: &CardName) -> Result<(), ApiError> {
        if *node != self.local.inventory.name {
            return Ok(());
        }
        let cards = &self.local.inventory.cards;
        let Some(card) = cards.iter().find(|one| card.is(one)) else { return Ok(()) };
        match self.gpu.ledger.trouble(&card.uuid) {
            None => Ok(()),
            Some(why) => {
                let text = format!("{node} card {} is not clean: {why}", card.index);
                Err(error(ErrorClass::Refused, text))
            }
        }
    }
}

fn read(body: &[u8], person: &Person) -> Result<Asked, ApiError> {
    let usage = |text: String| error(ErrorClass::Usage, text);
    let request: NodeRequest =
        parse(body).map_err(|why| usage(format!("the request's body is no action on a node: {why}")))?;
    let node: HostName = request.node.parse().map_err(|e: ax_core::id::BadName| usage(e.to_string()))?;
    let wish = match request.action {
        NodeAction::Drain { why } if why.len() > MAX_COMMENT => {
            let text = format!("the reason has {} bytes, at most {MAX_COMMENT} are taken", why.len());
            return Err(usage(text));
        }
        NodeAction::Drain { why } => NodeWish::Drain { why },
        NodeAction::Resume => NodeWish::Resume,
    };
    Ok(Asked { person: person.clone(), node, card: request.card.as_deref().map(CardName::read), wish })
}
