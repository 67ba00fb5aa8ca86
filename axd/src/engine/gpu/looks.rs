//! Passes what is found out about cards on: to the controller, to jobs' stories, to the log. The loop never waits for
//! a driver.

use ax_core::config::Config;
use ax_core::controller::Event;
use ax_core::gpu::{CardSeen, Sample, Unseen};
use ax_core::id::HostName;
use ax_core::node::{Card, Node};
use ax_core::time::BootTime;
use ax_sys::socket::Poller;

use super::super::{Engine, now, tokens};
use crate::cards::{Cards, News, Pace, Tokens};
use crate::local;
use crate::log::{Level, Line};

/// How the cards of this machine are looked at, by the configuration.
pub(in crate::engine) fn pace(host: &HostName, config: &Config) -> Pace {
    let resources = &config.resources;
    let declared = resources.gpu_nodes.iter().any(|node| node.host == *host && node.gpus > 0);
    Pace { sample: resources.gpu_sample, timeout: resources.gpu_timeout, declared }
}

/// The cards of this machine, of which nothing is known yet.
pub(in crate::engine) fn new(host: &HostName, config: &Config, parents: &[String]) -> Cards {
    let library = config.paths.nvml.as_ref().map(Into::into);
    let tokens = Tokens { socket: tokens::CARDS, ended: tokens::CARDS_ENDED };
    Cards::new(library, parents, pace(host, config), tokens)
}

impl Engine {
    /// Lets the cards do something, then takes what they have found out.
    pub(in crate::engine) fn on_cards(&mut self, act: impl FnOnce(&mut Cards, &Poller, BootTime)) {
        let Some(cards) = &mut self.gpu.cards else { return };
        act(cards, &self.poller, now().boot);
        for news in cards.take_news() {
            match news {
                News::Inventory => self.on_inventory(),
                News::Sample(begun, sample) => self.on_sample(begun, sample),
                News::Errors(xids) => self.weigh_cards(&Sample { xids, ..Sample::default() }),
                News::Sick { card, why } => {
                    let line = Line::new("cards").text("card", &named(&card)).text("suspect", &why);
                    self.log.line(Level::Warning, &line);
                    // It may take long until a sample comes.
                    self.weigh_cards(&Sample::default());
                }
                News::Deaf { card, why } => {
                    let line = Line::new("cards").text("card", &card).text("errors_not_reported", &why);
                    self.log.line(Level::Warning, &line);
                }
                News::Well { card } => {
                    let line = Line::new("cards").text("card", &named(&card)).text("well", &"it answers");
                    self.log.line(Level::Info, &line);
                }
            }
        }
    }

    /// Jobs have come to cards, or have left them. While foreign processes are on cards, these are looked at often, too:
    /// a job that waits for them to go should not wait for a look, and a new one should be seen before a job is given
    /// its card.
    pub(in crate::engine) fn pace_cards(&mut self) {
        let with_cards = |job: &ax_core::job::Job| {
            job.attempt.as_ref().is_some_and(|attempt| !attempt.allocation.cards.is_empty())
        };
        let held = |card: &CardSeen| !card.listed().is_empty();
        let own = self.controller.nodes().find(|node| node.inventory.name == self.local.inventory.name);
        let barred = |node: &Node| node.card_states().values().any(|state| !state.holders.is_empty());
        let busy = self.controller.active_jobs().any(with_cards)
            || self.gpu.sample.cards.iter().any(held)
            || own.is_some_and(barred);
        if let Some(cards) = &mut self.gpu.cards {
            cards.set_busy(busy, now().boot);
        }
    }

    /// The cards may have changed: then the node registers anew.
    fn on_inventory(&mut self) {
        let known = self.gpu.cards.as_ref().map(Cards::known);
        let host = self.local.inventory.name.clone();
        let mut local = local::look(&host, self.controller.config(), known);
        self.gpu.enforcement.mark(&mut local.inventory);
        for warning in local.warnings.iter().filter(|warning| !self.local.warnings.contains(warning)) {
            self.log.line(Level::Warning, &Line::new("notice").text("text", warning));
        }
        let changed = local.inventory != self.local.inventory;
        self.local = local;
        if changed {
            let line = Line::new("cards").text("counted", &self.local.inventory.cards.len());
            self.log.line(Level::Info, &line);
            self.happened(Event::NodeRegistered(self.local.inventory.clone()));
        }
        self.try_new_cards();
    }

    fn on_sample(&mut self, begun: BootTime, mut sample: Sample) {
        self.add_unasked(&mut sample);
        self.recognize(&mut sample);
        self.weigh_cards(&sample);
        self.watch_cards(begun, &sample);
        self.keep_sample(&sample);
        self.check_cards(begun, &sample);
        self.gpu.sample = sample;
        let seen = self.gpu.sample.cards.iter();
        let unlisted = seen.filter(|card| card.holders.is_none()).map(|card| card.uuid.clone()).collect();
        // Nobody is watched there.
        if self.gpu.enforcement.set_unlisted(unlisted) {
            self.on_inventory();
        }
        self.pace_cards();
    }

    /// Cards that count as declared while the driver does not work are not among those that it was asked about.
    fn add_unasked(&self, sample: &mut Sample) {
        let Some(cards) = &self.gpu.cards else { return };
        for card in &self.local.inventory.cards {
            let told = sample.cards.iter().any(|seen| seen.uuid == card.uuid)
                || sample.unseen.iter().any(|unseen| unseen.uuid == card.uuid);
            if let Some(why) = cards.why_not(&card.uuid).filter(|_| !told) {
                sample.unseen.push(Unseen { uuid: card.uuid.clone(), why: why.to_owned() });
            }
        }
    }

    /// What a card was last seen to do.
    pub(in crate::engine) fn seen(&self, card: &Card) -> Option<&CardSeen> {
        self.gpu.sample.cards.iter().find(|seen| seen.uuid == card.uuid)
    }

    /// Why a card of a node can't be used, if it is this machine's.
    pub(in crate::engine) fn why_not(&self, node: &Node, card: &Card) -> Option<String> {
        let own = node.inventory.name == self.local.inventory.name;
        let cards = self.gpu.cards.as_ref().filter(|_| own)?;
        // A card that is only declared does not belong to the driver.
        let declared = card.uuid == Card::declared_name(&node.inventory.name, card.index);
        let of_driver = || cards.driver_trouble().filter(|_| !declared);
        let why =
            cards.why_not(&card.uuid).or_else(of_driver).or_else(|| self.gpu.attempts.trouble(&card.uuid))?;
        Some(why.to_owned())
    }
}

/// The empty name stands for the driver.
fn named(card: &str) -> &str {
    if card.is_empty() { "all" } else { card }
}
