//! Takes in what a look has told: which cards there are, which work again, which were not asked.

use ax_core::gpu::{CardSeen, Reported, Sample, Unseen};
use ax_core::time::{BootTime, Span};

use super::message::Found;
use super::sick::Ill;
use super::{Cards, Fresh, IDLE_TIMES, News, State};

impl Cards {
    /// Takes in the cards that were found; cards that are missing may come back. `complete`: a card that was asked
    /// and was not found is not there.
    pub(super) fn take_inventory(&mut self, fresh: Fresh, complete: bool, now: BootTime) {
        let untouchable = self.ward.untouchable();
        let mut all = fresh.found;
        for old in std::mem::take(&mut self.known) {
            let there = |uuid: &str| all.iter().any(|found| found.uuid == uuid);
            let whole = old.hardware.mig.as_ref().map_or(&old.uuid, |mig| &mig.parent);
            let asked = !untouchable.contains(&old.uuid) && !untouchable.contains(whole);
            if there(&old.uuid) {
                continue;
            }
            if complete && asked && there(whole) {
                // Its card was divided differently on purpose.
                self.ward.card_is_well(&old.uuid);
                continue;
            }
            let told = fresh.unseen.iter().any(|unseen| unseen.uuid == old.uuid || unseen.uuid == *whole);
            if complete && asked && !told {
                self.sick(&old.uuid, Ill::Fails, "the driver does not find it any more", now);
            }
            all.push(old);
        }
        if complete {
            let failed: Vec<&str> = fresh.unseen.iter().map(|unseen| unseen.uuid.as_str()).collect();
            let well = self.ward.only(&failed, |name| all.iter().any(|found| found.uuid == name));
            // A divided card is not looked at itself any more.
            let whole = all.iter().filter(|found| found.divided && self.ward.is_tried(&found.uuid));
            let whole: Vec<String> = whole.map(|found| found.uuid.clone()).collect();
            let whole = whole.into_iter().filter(|card| self.ward.card_is_well(card)).collect::<Vec<_>>();
            self.news.extend(well.into_iter().chain(whole).map(|card| News::Well { card }));
        }
        all.sort_by_key(Found::place);
        self.known = all;
        self.news.push(News::Inventory);
    }

    pub(super) fn take_sample(&mut self, fresh: Fresh, now: BootTime) {
        self.driver_is_well();
        for seen in &fresh.seen {
            if self.ward.card_is_well(&seen.uuid) {
                self.news.push(News::Well { card: seen.uuid.clone() });
            }
        }
        let mut unseen = fresh.unseen;
        self.add_sick(&mut unseen, &fresh.seen);
        self.news.push(News::Sample(
            self.begun,
            Sample { cards: fresh.seen, unseen, xids: std::mem::take(&mut self.errors) },
        ));
        let before = std::mem::replace(&mut self.deaf, fresh.deaf);
        for (card, why) in self.deaf.iter().filter(|(card, why)| before.get(*card) != Some(why)) {
            self.news.push(News::Deaf { card: card.clone(), why: why.clone() });
        }
        let times = if self.busy { 1 } else { IDLE_TIMES };
        if let State::Idle(_, next) = &mut self.state {
            *next = now + Span(self.pace.sample.0 * times);
        }
        if self.wanted {
            self.look_soon(now);
        }
    }

    /// An error was reported: of a part, if it was in one, and otherwise of the card and all its parts.
    pub(super) fn report(&mut self, card: &str, gpu_instance: Option<u32>, xid: u32) {
        let own = |found: &&Found| match &found.hardware.mig {
            None => found.uuid == card,
            Some(part) => {
                part.parent == card && gpu_instance.is_none_or(|instance| instance == part.gpu_instance)
            }
        };
        let known = self.known.iter().filter(own);
        self.errors.extend(known.map(|found| Reported { uuid: found.uuid.clone(), xid }));
    }

    /// Adds the cards that were not asked because they are sick, and those of which nothing was told.
    pub(super) fn add_sick(&self, unseen: &mut Vec<Unseen>, seen: &[CardSeen]) {
        for found in self.known.iter().filter(|found| !found.divided) {
            let told = seen.iter().any(|card| card.uuid == found.uuid)
                || unseen.iter().any(|card| card.uuid == found.uuid);
            if !told {
                let why = self.why_not(&found.uuid).unwrap_or("it was not asked").to_owned();
                unseen.push(Unseen { uuid: found.uuid.clone(), why });
            }
        }
    }
}
