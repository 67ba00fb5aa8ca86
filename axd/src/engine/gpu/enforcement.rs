//! How jobs are held to their slices on each card of this node: found out at the start, kept through reloads, and
//! lowered if it turns out not to work.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;

use ax_core::config::{Config, MPS_CONTROL};
use ax_core::controller::Event;
use ax_core::gpu::{Grant, Rung, slices};
use ax_core::id::{AttemptName, Uid};
use ax_core::node::{Allocation, Inventory};
use ax_core::record::Started;

use super::super::Engine;
use crate::card_limit::{self, Prober, Tried};
use crate::log::{Level, Line};
use crate::worker::Task;

/// Which of the tried cards the driver limits; for the others, why not.
#[derive(Debug, Default)]
pub(in crate::engine) struct Enforcement {
    driver: Tried,
    prober: Prober,
    /// Attempts, each with a card, that began before it was known that the driver limits the card: they are not
    /// limited there.
    before: BTreeSet<(AttemptName, String)>,
    /// Cards whose driver does not list processes: there is nobody to be watched.
    unlisted: BTreeSet<String>,
    /// Process numbers here are not the machine's: it is not certain who is who on any card, and nobody is watched.
    apart: bool,
    /// By card, the users for whom MPS could not be had there since the configuration was read.
    without_mps: BTreeMap<String, BTreeSet<Uid>>,
    /// Whether MPS is available, as far as that is known without trying, or why not; `None` if no queue wants it.
    mps: Option<Result<(), String>>,
}

/// The warning if the folders of MPS daemons can't have a file system of their own.
const UNBOUNDED: &str = "queues ask for MPS, and axd may not mount here: nothing but the memory of their jobs bounds what \
                         users write to the folders of MPS daemons below /run (CAP_SYS_ADMIN would)";

/// Whether a queue wants MPS, and nothing is in its way.
fn mps_offer(config: &Config, parents: &[String]) -> Option<Result<(), String>> {
    if !config.queues.iter().any(|queue| queue.mps) {
        return None;
    }
    if parents.is_empty() {
        return Some(Err("jobs have no control groups here".to_owned()));
    }
    let control = config.paths.mps_control.as_deref().unwrap_or(MPS_CONTROL);
    match std::fs::metadata(control) {
        Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => Some(Ok(())),
        Ok(_) => Some(Err(format!("{control} is no program"))),
        Err(error) => Some(Err(format!("{control}: {error}"))),
    }
}

/// Whether the driver can be asked about a card: one that is only declared has no place on a bus.
pub(in crate::engine) fn is_measured(card: &ax_core::node::Card) -> bool {
    card.hardware.pci.is_some()
}

impl Enforcement {
    /// Tries the driver's limit on every card that is there and is no part of another. May take some seconds.
    pub(in crate::engine) fn probe(inventory: &Inventory, prober: Prober) -> Enforcement {
        let apart = !ax_sys::process::has_the_machines_numbers();
        let mut this = Enforcement { prober, apart, ..Enforcement::default() };
        let cards = this.untried(inventory);
        if !cards.is_empty() {
            this.driver = card_limit::probe(&this.prober, &cards);
        }
        this
    }

    /// The cards that are there, are no part of another, and were never tried.
    fn untried(&self, inventory: &Inventory) -> Vec<String> {
        let cards = inventory.cards.iter().filter(|card| is_measured(card) && card.hardware.mig.is_none());
        cards.map(|card| card.uuid.clone()).filter(|uuid| !self.driver.contains_key(uuid)).collect()
    }
    /// Looks again whether MPS is available, because the configuration was read. Returns whether there is something
    /// to report.
    pub(in crate::engine) fn look_for_mps(&mut self, config: &Config, parents: &[String]) -> Option<String> {
        self.without_mps.clear();
        self.mps = mps_offer(config, parents);
        match self.mps.as_ref()? {
            Err(why) => Some(format!("queues ask for MPS, which can't be had: {why}")),
            Ok(()) if !ax_sys::mount::is_allowed() => Some(UNBOUNDED.to_owned()),
            Ok(()) => None,
        }
    }

    /// Enters on each card how jobs are held to their slices of it.
    pub(in crate::engine) fn mark(&self, inventory: &mut Inventory) {
        for card in &mut inventory.cards {
            card.hardware.limit = match self.driver.get(&card.uuid) {
                Some(Ok(())) => Rung::Driver,
                _ if is_measured(card) && !self.apart && !self.unlisted.contains(&card.uuid) => Rung::Watch,
                _ => Rung::None,
            };
            let without = self.without_mps.get(&card.uuid).into_iter().flatten().copied();
            let offered = matches!(self.mps, Some(Ok(()))) && is_measured(card);
            card.hardware.mps = offered.then(|| without.collect());
        }
    }

    /// Whether process numbers here are not the machine's.
    pub(super) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Whose driver does not list processes, in the last look. Whether that is news.
    pub(in crate::engine) fn set_unlisted(&mut self, unlisted: BTreeSet<String>) -> bool {
        let before = std::mem::replace(&mut self.unlisted, unlisted);
        before != self.unlisted
    }

    /// Why the driver does not limit cards: each reason once, with the cards.
    pub(in crate::engine) fn reasons(&self) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (card, tried) in &self.driver {
            if let Err(why) = tried {
                by_reason.entry(why).or_default().push(card);
            }
        }
        by_reason.into_iter().map(|(why, cards)| format!("{}: {why}", cards.join(", "))).collect()
    }

    /// The driver failed to limit these cards, so it is not relied on any more. Returns those that it had limited.
    fn falls(&mut self, cards: impl Iterator<Item = String>, why: &str) -> Vec<String> {
        let mut fallen = Vec::new();
        for card in cards {
            if let Some(tried) = self.driver.get_mut(&card).filter(|tried| tried.is_ok()) {
                *tried = Err(why.to_owned());
                fallen.push(card);
            }
        }
        fallen
    }
}

impl Engine {
    /// Tries cards that were found after the start, beside the loop; until then the driver is not relied on for them.
    pub(in crate::engine) fn try_new_cards(&mut self) {
        let cards = self.gpu.enforcement.untried(&self.local.inventory);
        if cards.is_empty() {
            return;
        }
        let untried = |card: &String| (card.clone(), Err("it is being tried".to_owned()));
        self.gpu.enforcement.driver.extend(cards.iter().map(untried));
        self.worker.start_task(Task::ProbeCards(self.gpu.enforcement.prober.clone(), cards));
    }

    pub(in crate::engine) fn on_cards_probed(&mut self, tried: Tried) {
        for (card, result) in &tried {
            match result {
                Ok(()) => {
                    let line = Line::new("cards_limited_by_driver").text("card", card);
                    self.log.line(Level::Info, &line);
                }
                Err(why) => {
                    let line =
                        Line::new("cards_not_limited_by_driver").text("why", &format!("{card}: {why}"));
                    self.log.line(Level::Info, &line);
                }
            }
        }
        let limited = |grant: &Grant| matches!(tried.get(&grant.uuid), Some(Ok(())));
        let attempts = self.controller.active_jobs().filter_map(|job| job.attempt.as_deref());
        let before: Vec<(AttemptName, String)> = attempts
            .flat_map(|each| {
                let held = slices(&each.allocation, &self.local.inventory.cards).map(|(grant, _)| grant);
                held.filter(limited).map(|grant| (each.name, grant.uuid))
            })
            .collect();
        let lives = |attempt: &AttemptName| {
            let job = self.controller.job(attempt.job.number).and_then(|job| job.attempt.as_deref());
            job.is_some_and(|held| held.name == *attempt)
        };
        self.gpu.enforcement.before.retain(|(attempt, _)| lives(attempt));
        self.gpu.enforcement.before.extend(before);
        self.gpu.enforcement.driver.extend(tried);
        self.gpu.enforcement.mark(&mut self.local.inventory);
        self.happened(Event::NodeRegistered(self.local.inventory.clone()));
    }

    /// For an attempt that began before this daemon: it is held to its slices as it was then.
    pub(in crate::engine) fn recall_limits(&mut self, started: &Started) {
        let job = self.controller.job(started.attempt.job.number).and_then(|job| job.attempt.as_deref());
        let Some(held) = job.filter(|held| held.name == started.attempt) else { return };
        let limited: Vec<&str> = started.card_limits.iter().flat_map(card_limit::limited).collect();
        let held = slices(&held.allocation, &self.local.inventory.cards).map(|(grant, _)| grant.uuid);
        let others: Vec<String> = held.filter(|uuid| !limited.contains(&uuid.as_str())).collect();
        self.gpu.enforcement.before.extend(others.into_iter().map(|uuid| (started.attempt, uuid)));
    }

    /// True if the driver holds an attempt to its slice of a card.
    pub(in crate::engine) fn is_limited_by_driver(&self, attempt: AttemptName, card: &str) -> bool {
        !self.gpu.enforcement.before.contains(&(attempt, card.to_owned()))
    }

    /// Looks again whether MPS is available, and says why not.
    pub(in crate::engine) fn look_for_mps(&mut self, config: &Config) {
        if let Some(text) = self.gpu.enforcement.look_for_mps(config, &self.isolation.parents) {
            self.log.line(Level::Warning, &Line::new("notice").text("text", &text));
        }
    }

    /// What the driver has to enforce for an attempt.
    pub(in crate::engine) fn driver_grants(&self, allocation: &Allocation) -> Vec<Grant> {
        let all = slices(allocation, &self.local.inventory.cards);
        all.filter(|(_, rung)| *rung == Rung::Driver).map(|(grant, _)| grant).collect()
    }

    /// The card on which a slice runs under MPS.
    pub(in crate::engine) fn mps_card(&self, allocation: &Allocation) -> Option<String> {
        let mut all = slices(allocation, &self.local.inventory.cards);
        all.find(|(_, rung)| *rung == Rung::Mps).map(|(grant, _)| grant.uuid)
    }

    /// The running attempts whose slices of a card are under MPS.
    pub(in crate::engine) fn under_mps(&self, card: &str) -> Vec<AttemptName> {
        let living = self.controller.active_jobs().filter_map(|job| job.attempt.as_deref());
        let living = living.filter(|attempt| attempt.end.is_none());
        let there = living.filter(|attempt| self.mps_card(&attempt.allocation).as_deref() == Some(card));
        there.map(|attempt| attempt.name).collect()
    }

    /// An attempt never started because its slices could not be limited. They are held in another way from now on.
    pub(in crate::engine) fn limit_refused(&mut self, attempt: AttemptName, why: &str) {
        let Some(job) = self.controller.job(attempt.job.number) else { return };
        let Some(held) = job.attempt.as_deref().filter(|held| held.name == attempt) else { return };
        if let Some(card) = self.mps_card(&held.allocation) {
            let user = job.owner.uid;
            let line =
                Line::new("limit_fell").text("cards", &card).text("from", &Rung::Mps).text("uid", &user);
            self.log.line(Level::Warning, &line.text("error", &why));
            // Only for this user: a user must not be able to spoil it for others.
            self.gpu.enforcement.without_mps.entry(card).or_default().insert(user);
            self.gpu.enforcement.mark(&mut self.local.inventory);
            self.happened(Event::NodeRegistered(self.local.inventory.clone()));
            return;
        }
        let cards: Vec<String> = self.driver_grants(&held.allocation).into_iter().map(|g| g.uuid).collect();
        let fallen = self.gpu.enforcement.falls(cards.into_iter(), why);
        if fallen.is_empty() {
            return;
        }
        let line = Line::new("limit_fell").text("cards", &fallen.join(",")).text("from", &Rung::Driver);
        self.log.line(Level::Warning, &line.text("error", &why));
        self.gpu.enforcement.mark(&mut self.local.inventory);
        self.happened(Event::NodeRegistered(self.local.inventory.clone()));
    }
}

#[cfg(test)]
mod tests {
    use ax_core::gpu::Mig;
    use ax_core::node::Card;
    use ax_core::size::Megabytes;

    use super::*;

    fn card(uuid: &str, measured: bool) -> Card {
        let mut card = Card::new(0, uuid.to_owned(), None, Megabytes(80_000));
        card.hardware.pci = measured.then(|| "00000000:3B:00.0".to_owned());
        card
    }

    fn inventory(cards: Vec<Card>) -> Inventory {
        Inventory {
            name: "gpu-01".parse().unwrap(),
            epoch: 1,
            cpus: 1,
            ram: Megabytes(1),
            features: vec![],
            cards,
            numa_cpus: vec![],
        }
    }

    #[test]
    fn each_card_stands_on_the_rung_that_works_for_it_and_never_climbs_again() {
        let mut part = card("MIG-1", true);
        part.hardware.mig = Some(Mig { parent: "GPU-c".to_owned(), gpu_instance: 1, compute_instance: 0 });
        let mut has =
            inventory(vec![card("GPU-a", true), card("GPU-b", true), part, card("gpu-01-3", false)]);
        let tried = [("GPU-a".to_owned(), Ok(())), ("GPU-b".to_owned(), Err("too old".to_owned()))];
        let mut enforcement = Enforcement { driver: tried.into(), ..Enforcement::default() };
        let standing = |has: &Inventory| has.cards.iter().map(|card| card.hardware.limit).collect::<Vec<_>>();
        enforcement.mark(&mut has);
        assert_eq!(standing(&has), [Rung::Driver, Rung::Watch, Rung::Watch, Rung::None]);
        assert_eq!(enforcement.reasons(), ["GPU-b: too old"]);
        let all = ["GPU-a".to_owned(), "GPU-b".to_owned(), "MIG-1".to_owned()];
        assert_eq!(enforcement.falls(all.clone().into_iter(), "no such group"), ["GPU-a"]);
        enforcement.mark(&mut has);
        assert_eq!(standing(&has), [Rung::Watch, Rung::Watch, Rung::Watch, Rung::None]);
        assert!(enforcement.falls(all.into_iter(), "again").is_empty(), "said once");
    }
}
