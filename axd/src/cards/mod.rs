//! The cards of this machine, seen through a process of its own: which there are, what they are doing, and which
//! can't be asked. This module starts that process, gives it a deadline, kills it and starts it again. It never waits
//! for the process, except for the first look, which has a deadline, too. A card at which the process hangs is left
//! alone for a while.

pub(crate) mod helper;
mod holders;
mod late;
pub(crate) mod message;
mod openers;
mod process;
mod sick;
mod taken;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::gpu::{CardSeen, Reported, Sample, Unseen};
use ax_core::time::{BootTime, Span};
use ax_sys::clock;
use ax_sys::pidfd::PidFd;
use ax_sys::socket::{Interest, Poller};

use message::{Ask, Found, Look, Tell};
use process::{Heard, Process, Start};
use sick::{Ill, Ward};

/// Looking for cards may take so many times as long as looking at them.
const INVENTORY_TIMES: u64 = 2;

/// Without jobs on cards they are looked at so many times less often.
const IDLE_TIMES: u64 = 10;

/// If a look is wanted, they are looked at so many times more often at most.
const OFTENER: u64 = 4;

/// And need not wait longer for the next look, however seldom there is one.
const SOON: Span = Span::seconds(1);

/// A process that ended without a reason is started again after this pause.
const PAUSE: Span = Span::seconds(1);

/// What is found out, for the loop.
#[derive(Debug)]
pub(crate) enum News {
    /// Which cards there are has changed, or is known for the first time.
    Inventory,
    /// What the cards are doing; when the look at them began.
    Sample(BootTime, Sample),
    /// Errors of cards that were reported to a process that was ended before its look was complete.
    Errors(Vec<Reported>),
    /// A card, or with no name the driver, does not do what it should.
    Sick { card: String, why: String },
    /// The errors of a card are not reported.
    Deaf { card: String, why: String },
    /// It does again.
    Well { card: String },
}

/// What the configuration says about looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// How often cards with jobs are looked at.
    pub(crate) sample: Span,
    /// How long that may take.
    pub(crate) timeout: Span,
    /// True if cards are declared: then a missing driver is waited for.
    pub(crate) declared: bool,
}

/// The cards of this machine, as far as they are known.
#[derive(Debug, Clone)]
pub(crate) enum Known<'a> {
    /// There is no library: nothing is known.
    Nothing,
    /// The driver does not say, and why.
    Unclear(&'a str),
    /// These, by their places on the bus; and at these numbers of the driver's cards that do not say what they are.
    These(&'a [Found], Vec<u32>),
}

/// What the process is doing.
#[derive(Debug)]
enum State {
    /// There is nothing to ask, or no library.
    Off,
    /// There is none until this time, when the next is started.
    Resting(BootTime),
    /// It waits for the next look, at this time.
    Idle(Process, BootTime),
    /// It looks, until this time.
    Looking(Process, Look, BootTime),
}

/// The numbers under which the poll loop knows the descriptors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    /// Something was told.
    pub(crate) socket: u64,
    /// A killed process has ended; the lower bits say which.
    pub(crate) ended: u64,
}

/// Everything that is known of the cards.
#[derive(Debug)]
pub(crate) struct Cards {
    start: Start,
    tokens: Tokens,
    pace: Pace,
    state: State,
    ward: Ward,
    /// True if there was a library.
    library: bool,
    known: Vec<Found>,
    /// The driver's numbers of all cards that have told their UUID.
    numbers: BTreeMap<String, u32>,
    /// What the look under way has told so far.
    fresh: Fresh,
    /// Cards whose errors are not reported, and why.
    deaf: BTreeMap<String, String>,
    /// Errors that were reported and are in no sample yet: the driver tells them once, so that no end of a look loses them.
    errors: Vec<Reported>,
    news: Vec<News>,
    /// Killed processes that have not ended: if their driver hangs, that may take long.
    dying: BTreeMap<i32, PidFd>,
    /// True if jobs are on cards.
    busy: bool,
    /// After the present look, a new process is to look for cards anew.
    renew: bool,
    /// When the last look began.
    begun: BootTime,
    /// A look that begins after the present one is wanted.
    wanted: bool,
    /// The last look was broken off outside of any call of the driver.
    broken_off: bool,
}

#[derive(Debug, Default)]
struct Fresh {
    found: Vec<Found>,
    seen: Vec<CardSeen>,
    unseen: Vec<Unseen>,
    deaf: BTreeMap<String, String>,
}

impl Cards {
    /// Starts nothing yet. `parents` is the record of the place of the attempts' groups.
    pub(crate) fn new(library: Option<PathBuf>, parents: &[String], pace: Pace, tokens: Tokens) -> Cards {
        let program = std::env::current_exe().unwrap_or_else(|_| Path::new("/proc/self/exe").to_owned());
        Cards {
            start: Start { program, library, groups: process::folders(parents) },
            tokens,
            pace,
            state: State::Off,
            ward: Ward::default(),
            library: false,
            known: Vec::new(),
            numbers: BTreeMap::new(),
            fresh: Fresh::default(),
            deaf: BTreeMap::new(),
            errors: Vec::new(),
            news: Vec::new(),
            dying: BTreeMap::new(),
            busy: false,
            renew: false,
            begun: BootTime(0),
            wanted: false,
            broken_off: false,
        }
    }

    /// The cards that there are.
    pub(crate) fn known(&self) -> Known<'_> {
        match self.ward.driver() {
            Some(why) if self.known.is_empty() => Known::Unclear(why),
            _ if !self.library => Known::Nothing,
            _ => {
                let number = |card: &str| match card.strip_prefix('#') {
                    Some(number) => number.parse().ok(),
                    None => self.numbers.get(card).copied(),
                };
                Known::These(&self.known, self.strange().filter_map(|(card, _)| number(card)).collect())
            }
        }
    }

    /// Cards of which something is wrong and nothing is known, and why.
    fn strange(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ward.cards().filter(|(card, _)| !self.known.iter().any(|found| found.uuid == *card))
    }

    /// Why a card, or a part of one, can't be used.
    pub(crate) fn why_not(&self, uuid: &str) -> Option<&str> {
        let found = self.known.iter().find(|found| found.uuid == uuid);
        let whole = found.and_then(|found| found.hardware.mig.as_ref()).map(|mig| mig.parent.as_str());
        self.ward.why(uuid).or_else(|| self.ward.why(whole?))
    }

    /// What is wrong with the driver as a whole.
    pub(crate) fn driver_trouble(&self) -> Option<&str> {
        self.ward.driver()
    }

    /// Why the errors of a card, or of the card that it is a part of, are not reported; only for a card that is well
    /// otherwise.
    pub(crate) fn deaf(&self, uuid: &str) -> Option<&str> {
        let found = self.known.iter().find(|found| found.uuid == uuid)?;
        let whole = found.hardware.mig.as_ref().map_or(uuid, |mig| mig.parent.as_str());
        self.deaf.get(whole).filter(|_| self.why_not(uuid).is_none()).map(String::as_str)
    }

    /// What is wrong, in words: with cards that are not known, with the driver, and with cards whose errors are not
    /// reported.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let whole = self.known.iter().filter(|found| found.hardware.mig.is_none());
        let deaf = whole.filter_map(|found| Some((&found.uuid, self.deaf(&found.uuid)?)));
        let deaf = deaf.map(|(uuid, why)| format!("errors (Xid) of {uuid} are not reported: {why}"));
        let strange = self.strange().map(|(card, why)| format!("card {card} is not counted: {why}"));
        strange.chain(deaf).chain(self.ward.driver().map(str::to_owned)).collect()
    }

    /// What has been found out since the last call.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Starts looking, and waits for the first look, at most as long as a look may take.
    pub(crate) fn begin(&mut self, poller: &Poller, now: BootTime) {
        self.launch(poller, now);
        let end = match &self.state {
            State::Looking(_, _, end) => *end,
            _ => return,
        };
        loop {
            let now = BootTime(clock::boot_ms());
            let State::Looking(process, Look::Inventory, _) = &mut self.state else { return };
            let heard = process.next_within(Duration::from_millis((end - now).0));
            let now = BootTime(clock::boot_ms());
            self.hear(poller, heard, now);
            if now >= end {
                self.look(poller, now);
                return;
            }
        }
    }

    /// Looks for cards anew, because the configuration was read again.
    pub(crate) fn look_again(&mut self, poller: &Poller, pace: Pace, now: BootTime) {
        self.pace = pace;
        match &mut self.state {
            State::Off | State::Resting(_) => return self.launch(poller, now),
            State::Idle(_, next) => *next = now,
            State::Looking(..) => {}
        }
        self.renew = true;
    }

    /// Jobs have come to cards, or have left them all.
    pub(crate) fn set_busy(&mut self, busy: bool, now: BootTime) {
        if busy
            && !self.busy
            && let State::Idle(_, next) = &mut self.state
        {
            *next = (*next).min(now + self.pace.sample);
        }
        self.busy = busy;
    }

    /// A look that begins from now on is wanted. Many such wishes do not make looks much more frequent.
    pub(crate) fn look_soon(&mut self, now: BootTime) {
        let soon = now.max(self.begun + Span(self.pace.sample.0 / OFTENER).min(SOON));
        match &mut self.state {
            State::Idle(_, next) => *next = (*next).min(soon),
            State::Looking(..) => self.wanted = true,
            State::Off | State::Resting(_) => {}
        }
    }

    /// When there is something to do. While a process hangs, nothing that hung is tried again: there would be more
    /// and more such processes.
    pub(crate) fn next_due(&self) -> Option<BootTime> {
        let again = self.ward.next_try().filter(|_| self.dying.is_empty());
        match &self.state {
            State::Off => None,
            State::Resting(until) => Some(*until).filter(|_| self.dying.is_empty()),
            State::Looking(_, _, end) => Some(*end),
            State::Idle(_, next) => Some(again.map_or(*next, |again| again.min(*next))),
        }
    }

    /// Does what is due.
    pub(crate) fn look(&mut self, poller: &Poller, now: BootTime) {
        match &self.state {
            State::Off => {}
            State::Resting(until) if *until <= now && self.dying.is_empty() => self.launch(poller, now),
            State::Looking(_, _, end) if *end <= now => self.late(poller, now),
            State::Idle(..) if self.next_due().is_some_and(|due| due <= now) => {
                self.ask(poller, Look::Sample, now);
            }
            State::Idle(..) => {}
            State::Resting(_) | State::Looking(..) => {}
        }
    }

    /// A message has come.
    pub(crate) fn ready(&mut self, poller: &Poller, now: BootTime) {
        loop {
            let heard = match &mut self.state {
                State::Looking(process, ..) | State::Idle(process, _) => process.next(),
                State::Off | State::Resting(_) => return,
            };
            if matches!(heard, Heard::Nothing) {
                return;
            }
            self.hear(poller, heard, now);
        }
    }

    /// A killed process has ended.
    pub(crate) fn ended(&mut self, poller: &Poller, token: u64) {
        let number = i32::try_from(token & !self.tokens.ended).unwrap_or(0);
        if let Some(process) = self.dying.remove(&number) {
            let _ = poller.remove(&process);
            let _ = process.reap();
        }
    }

    fn launch(&mut self, poller: &Poller, now: BootTime) {
        self.renew = false;
        let process = match Process::start(&self.start) {
            Ok(process) => process,
            Err(error) => return self.driver_fails(poller, &error.to_string(), now),
        };
        if let Err(error) = poller.add(&process.socket, self.tokens.socket, Interest::READ) {
            self.state = State::Idle(process, now);
            return self.driver_fails(poller, &error.to_string(), now);
        }
        self.state = State::Idle(process, now);
        self.ask(poller, Look::Inventory, now);
    }

    fn ask(&mut self, poller: &Poller, look: Look, now: BootTime) {
        let State::Idle(process, _) = std::mem::replace(&mut self.state, State::Off) else { return };
        self.fresh = Fresh::default();
        let asked = process.ask(&Ask { look, except: self.ward.untouchable() });
        self.state = State::Looking(process, look, now + self.time_of(look));
        (self.begun, self.wanted) = (now, false);
        if !asked {
            self.ends(poller, now);
        }
    }

    fn hear(&mut self, poller: &Poller, heard: Heard, now: BootTime) {
        match heard {
            Heard::Nothing => {}
            Heard::Told(tell) => self.told(poller, tell, now),
            Heard::End => self.ends(poller, now),
        }
    }

    fn told(&mut self, poller: &Poller, tell: Tell, now: BootTime) {
        match tell {
            Tell::Named { number, card } => {
                self.numbers.retain(|_, other| *other != number);
                self.numbers.insert(card, number);
            }
            Tell::Found(found) => self.fresh.found.push(*found),
            Tell::Linked { uuid, links } => {
                if let Some(found) = self.fresh.found.iter_mut().find(|found| found.uuid == uuid) {
                    found.hardware.links = links;
                }
            }
            Tell::Seen(seen) => self.fresh.seen.push(*seen),
            Tell::Unseen { card, why } => {
                let card = self.named(card);
                self.sick(&card, Ill::Fails, &why, now);
                self.fresh.unseen.push(Unseen { uuid: card, why });
            }
            Tell::Deaf { card, why } => drop(self.fresh.deaf.insert(card, why)),
            Tell::Xid { card, gpu_instance, xid } => self.report(&card, gpu_instance, xid),
            Tell::Done => self.done(poller, now),
            Tell::Absent(_) if self.known.is_empty() => {
                self.library = false;
                self.ward = Ward::default();
                self.end_process(poller);
                self.news.push(News::Inventory);
            }
            Tell::Absent(why) | Tell::Failed(why) => {
                self.driver_fails(poller, &why, now);
                if self.known.is_empty() && !self.pace.declared && self.ward.driver_is_given_up() {
                    // A library without a driver, on a machine without cards: there is nothing to wait for.
                    self.state = State::Off;
                }
            }
        }
    }

    /// The UUID of a card for which only the driver's number is told, if it was known before.
    fn named(&self, card: String) -> String {
        let named = |(_, number): &(&String, &u32)| format!("#{number}") == card;
        self.numbers.iter().find(named).map(|(uuid, _)| uuid.clone()).unwrap_or(card)
    }

    fn done(&mut self, poller: &Poller, now: BootTime) {
        let State::Looking(process, look, _) = std::mem::replace(&mut self.state, State::Off) else { return };
        self.library = true;
        self.broken_off = false;
        self.state = State::Idle(process, now);
        let fresh = std::mem::take(&mut self.fresh);
        match look {
            Look::Inventory => {
                self.take_inventory(fresh, true, now);
                if self.known.is_empty() && self.ward.cards().next().is_none() {
                    // There is nothing to look at.
                    self.driver_is_well();
                    self.end_process(poller);
                } else {
                    self.ask(poller, Look::Sample, now);
                }
            }
            Look::Sample => {
                self.take_sample(fresh, now);
                let tries = self.dying.is_empty() && self.ward.try_again(now);
                if tries || self.renew {
                    // A new process, since what the driver told the old one may be stale; and right after a look,
                    // since errors that are reported before the new one looks are lost.
                    self.end_process(poller);
                    self.launch(poller, now);
                }
            }
        }
    }

    fn sick(&mut self, card: &str, ill: Ill, why: &str, now: BootTime) {
        if self.ward.take_card(card, ill, why, self.pace.timeout, now) {
            self.news.push(News::Sick { card: card.to_owned(), why: why.to_owned() });
        }
    }

    fn driver_fails(&mut self, poller: &Poller, why: &str, now: BootTime) {
        self.library = true;
        self.end_process(poller);
        if self.ward.take_driver(why, self.pace.timeout, now) {
            self.news.push(News::Sick { card: String::new(), why: why.to_owned() });
            self.news.push(News::Inventory);
        }
        let mut unseen = Vec::new();
        self.add_sick(&mut unseen, &[]);
        self.news.push(News::Sample(now, Sample { unseen, ..Sample::default() }));
        self.state = State::Resting(self.ward.next_try().unwrap_or(now + PAUSE));
    }

    fn driver_is_well(&mut self) {
        if self.ward.driver_is_well() {
            self.news.push(News::Well { card: String::new() });
        }
    }

    /// Kills the process without waiting for its end.
    fn end_process(&mut self, poller: &Poller) {
        let process = match std::mem::replace(&mut self.state, State::Off) {
            State::Idle(process, _) | State::Looking(process, ..) => process,
            State::Off | State::Resting(_) => return,
        };
        if !self.errors.is_empty() {
            self.news.push(News::Errors(std::mem::take(&mut self.errors)));
        }
        let _ = poller.remove(&process.socket);
        let process = process.kill();
        let number = process.pid();
        let token = self.tokens.ended | u64::from(number.unsigned_abs());
        // If its end can't be watched, it is reaped when the daemon ends.
        if poller.add(&process, token, Interest::READ).is_ok() {
            self.dying.insert(number, process);
        }
    }
}
