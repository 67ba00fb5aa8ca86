//! Which cards keep a job waiting: those that are withheld from jobs, and those that others share otherwise.

use std::collections::BTreeSet;

use crate::gpu::Health;
use crate::id::Uid;
use crate::job::Job;
use crate::job::bounds::Asks;
use crate::node::{Card, Company, Node};

use super::plan::{Basis, Expected};
use super::{Condition, LINES, Story};

impl Story<'_> {
    fn reserve(&self) -> u32 {
        self.controller.config().resources.gpu_reserve
    }

    /// The nodes on which it may run now.
    fn open_to<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Node> {
        let open = |node: &&Node| node.inventory.admits(&job.request) && node.drained().is_none();
        self.pass.after.nodes().filter(open)
    }

    /// The cards that it could have and that are withheld from jobs.
    pub(super) fn withheld_from(&self, job: &Job) -> Vec<Condition> {
        let (asks, reserve) = (Asks::from(job), self.reserve());
        let withheld = self.open_to(job).flat_map(|node| {
            let kept: BTreeSet<&str> =
                node.withheld_from(asks, reserve).map(|card| card.uuid.as_str()).collect();
            // Also one that a job holds and that is not fit: it does not come free when that job ends.
            let named = move |card: &&Card| {
                kept.contains(card.uuid.as_str())
                    || (health_of(node, card).is_some() && serves(card, asks, reserve))
            };
            let cards = node.inventory.cards.iter().filter(named);
            cards.filter(move |card| asks.may_have(node, card)).map(move |card| (node, card))
        });
        let mut withheld = withheld.filter_map(|(node, card)| self.card_in_words(node, card));
        let mut lines: Vec<Condition> =
            withheld.by_ref().take(LINES).map(|why| Condition::Withheld { why }).collect();
        let more = withheld.count() as u32;
        lines.extend((more > 0).then_some(Condition::MoreWithheld { cards: more }));
        lines
    }

    fn card_in_words(&self, node: &Node, card: &Card) -> Option<String> {
        let words = node.card_in_words(&card.uuid)?;
        if health_of(node, card) != Some(Health::Suspect) {
            return Some(words);
        }
        let time = self.controller.config().resources.gpu_suspect_time.in_words();
        Some(format!("{words}; it comes back by itself when nothing odd was seen of it for {time}"))
    }

    /// Who waits for a card that is only suspect waits for no person.
    pub(super) fn unless_by_itself(&self, job: &Job, told: Expected) -> Expected {
        let (asks, reserve) = (Asks::from(job), self.reserve());
        let suspect = |node: &Node| {
            node.inventory.cards.iter().any(|card| {
                health_of(node, card) == Some(Health::Suspect)
                    && serves(card, asks, reserve)
                    && asks.may_have(node, card)
            })
        };
        match told.basis {
            Basis::Somebody if self.open_to(job).any(suspect) => Expected::never(Basis::SuspectCard),
            _ => told,
        }
    }

    /// Cards with room that it can't share: they are others' under MPS, or are used by jobs that are not under MPS.
    pub(super) fn in_other_company(&self, job: &Job) -> Vec<Condition> {
        let (asks, reserve) = (Asks::from(job), self.reserve());
        let taken = self.open_to(job).flat_map(|node| {
            let cards = node.taken_by_company(asks, reserve);
            cards
                .filter(move |(card, _)| asks.may_have(node, card))
                .map(move |(card, on_it)| (node, card, on_it))
        });
        let words = taken.map(|(node, card, on_it)| {
            let name = |user: Uid| {
                let mut owners = self.controller.active_jobs().map(|job| &job.owner);
                let owner = owners.find(|owner| owner.uid == user);
                owner.map_or_else(|| user.to_string(), |owner| owner.name.to_string())
            };
            let what = match on_it {
                Company::Mps(user) => format!("is under MPS for user {}", name(user)),
                _ => "is shared without MPS".to_owned(),
            };
            Condition::Withheld { why: format!("{} card {} {what}", node.inventory.name, card.index) }
        });
        words.take(LINES).collect()
    }
}

/// How a card is, if it is not fit.
fn health_of(node: &Node, card: &Card) -> Option<Health> {
    node.card_state(&card.uuid).map(|state| state.health).filter(|health| *health != Health::Healthy)
}

/// Whether a share of a request could be on a card, if that were empty.
fn serves(card: &Card, asks: Asks<'_>, reserve: u32) -> bool {
    asks.request.cards.as_ref().is_some_and(|wanted| card.demand(wanted, reserve).is_some())
}
