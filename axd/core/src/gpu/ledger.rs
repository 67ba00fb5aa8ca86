//! A sliding window of samples for each card of a node: what each job uses, what others hold, what is really free.
//! Percentiles of the window count, so that a spike of some hundred milliseconds neither bars a card nor hides a
//! holder. Reports only changes that matter; the caller passes them to the controller.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{AttemptName, Uid};
use crate::size::Megabytes;
use crate::time::{BootTime, Span};

use super::health::{Memory, Signs, Verdict};
use super::holders::{Accounts, Stranger, in_words, stranger, who};
use super::{CardSeen, CardState, Sample, Unseen};

/// Samples in the window.
pub const WINDOW: usize = 60;

/// A holder that is missing in so many samples in a row has gone.
const GONE: usize = 3;

/// A smaller change is not reported.
const STEP: Megabytes = Megabytes(256);

/// Processes that hold less are not named.
const NAMED: Megabytes = Megabytes(64);

/// At most so many processes are named that may hold unexplained memory.
const OPENERS: usize = 3;

/// What jobs and the configuration say of a card of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The card.
    pub uuid: String,
    /// How much of its memory is given out.
    pub mem: Megabytes,
    /// The state that was last reported.
    pub state: CardState,
    /// Jobs hold something of it.
    pub held: bool,
    /// Something beside samples is odd about it: why.
    pub odd: Option<String>,
}

/// What the caller knows about attempts, users and limits.
pub struct Around<'a> {
    /// Whether an attempt lives.
    pub lives: &'a dyn Fn(AttemptName) -> bool,
    /// Whether a running attempt was given a card, by UUID. On other cards it counts as foreign.
    pub holds: &'a dyn Fn(AttemptName, &str) -> bool,
    /// A user's name.
    pub name: &'a dyn Fn(Uid) -> Option<String>,
    /// How much foreign memory a card may have and still be given out.
    pub bound: Megabytes,
    /// A suspect card is trusted again once nothing has happened for so long.
    pub patience: Span,
}

impl Around<'_> {
    /// Tells whether an attempt runs and was given this card.
    fn holders_of<'s>(&'s self, seen: &'s CardSeen) -> impl Fn(AttemptName) -> bool + 's {
        move |attempt| (self.lives)(attempt) && (self.holds)(attempt, &seen.uuid)
    }
}

/// A change that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The state of a card has changed.
    Changed {
        /// The card.
        uuid: String,
        /// The new state.
        state: CardState,
    },
    /// Something happened on a card that concerns the jobs on it.
    Noted {
        /// The card.
        uuid: String,
        /// What happened, in words.
        what: String,
    },
    /// An attempt uses this much of the fullest of its cards.
    Used {
        /// The attempt.
        attempt: AttemptName,
        /// The 95th percentile of the window.
        p95: Megabytes,
    },
}

/// Figures of a card for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// In use, the 95th percentile of the window.
    pub p95: Megabytes,
    /// The driver's own memory.
    pub driver: Megabytes,
}

/// Values of the last samples, the oldest first.
#[derive(Debug, Clone, Default)]
struct Series(VecDeque<Megabytes>);

impl Series {
    fn push(&mut self, value: Megabytes) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    /// The 95th percentile by nearest rank among `samples` samples; those before the first value count as zero.
    fn p95(&self, samples: usize) -> Megabytes {
        let mut sorted: Vec<Megabytes> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (samples * 95).div_ceil(100);
        let missing = samples.saturating_sub(sorted.len());
        rank.checked_sub(missing + 1).and_then(|at| sorted.get(at)).copied().unwrap_or_default()
    }

    fn has_gone(&self) -> bool {
        self.0.iter().rev().take(GONE).all(|value| *value == Megabytes::ZERO)
    }
}

/// A holder of memory of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Job(AttemptName),
    Stranger(Stranger),
}

/// What is remembered of a card.
#[derive(Debug, Clone, Default)]
struct OneCard {
    /// Number of samples in the window.
    samples: usize,
    holders: BTreeMap<Holder, Series>,
    /// Sum over all strangers: each time they may be different processes.
    strangers: Series,
    unexplained: Series,
    /// What several jobs have now, and nobody knows which of them: an MPS server holds it for them, or the driver does not
    /// list processes.
    shared: Megabytes,
    used: Series,
    /// The smallest unexplained memory that was ever seen, which is the driver's own.
    driver: Option<Megabytes>,
    memory: Memory,
    /// What in the last sample speaks against giving the card back; `None` if it was clean.
    trouble: Option<String>,
    /// The state that was reported last, with its strangers.
    told: Option<(CardState, BTreeSet<Stranger>)>,
}

/// All cards of a node, and what their jobs use.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    cards: BTreeMap<String, OneCard>,
    /// The peak of each running attempt on one of its cards.
    peaks: BTreeMap<AttemptName, Megabytes>,
    /// The use of each attempt that was reported last.
    used: BTreeMap<AttemptName, Megabytes>,
}

impl Ledger {
    /// Takes in a look at all cards. Returns the changes that matter.
    pub fn look(&mut self, at: BootTime, sample: &Sample, cards: &[Given], around: &Around<'_>) -> Vec<News> {
        let mut news = Vec::new();
        self.cards.retain(|uuid, _| cards.iter().any(|given| given.uuid == *uuid));
        let mut used: BTreeMap<AttemptName, Megabytes> = BTreeMap::new();
        for given in cards {
            let seen = sample.cards.iter().find(|seen| seen.uuid == given.uuid);
            let unseen = sample.unseen.iter().find(|unseen| unseen.uuid == given.uuid);
            let signs = signs(sample, seen, unseen, given);
            // The card was not looked at: it is not measured, or the look ended at another card.
            if seen.is_none() && unseen.is_none() && signs.odd.is_none() && signs.xids.is_empty() {
                continue;
            }
            let card = self.cards.entry(given.uuid.clone()).or_default();
            if let Some(seen) = seen {
                card.enter(seen, given.held, around);
                for (attempt, mem) in card.jobs() {
                    let own = used.entry(attempt).or_default();
                    *own = mem.max(*own);
                }
                for (attempt, now) in Accounts::of(seen, &around.holders_of(seen)).jobs {
                    let peak = self.peaks.entry(attempt).or_default();
                    *peak = now.max(*peak);
                }
            }
            card.trouble = trouble(&signs);
            let before = &given.state;
            let (health, why, faulty) = (before.health, before.why.clone(), before.faulty);
            let before = Verdict { health, why, faulty };
            let (verdict, notes) = card.memory.look(at, &before, &signs, around.patience);
            let noted = |what| News::Noted { uuid: given.uuid.clone(), what };
            news.extend(notes.into_iter().map(noted));
            news.extend(card.tell(given, seen, verdict, around));
        }
        self.peaks.retain(|attempt, _| (around.lives)(*attempt));
        self.used.retain(|attempt, _| (around.lives)(*attempt));
        for (attempt, p95) in used {
            let told = self.used.get(&attempt).copied().unwrap_or_default();
            // Only increases are reported: what an attempt is charged never falls before its end.
            if p95 > told + Megabytes(STEP.0 / 4) {
                self.used.insert(attempt, p95);
                news.push(News::Used { attempt, p95 });
            }
        }
        news
    }

    /// The peak of an attempt on one of its cards; `None` if it was never seen.
    pub fn peak(&self, attempt: AttemptName) -> Option<Megabytes> {
        self.peaks.get(&attempt).copied()
    }

    /// Figures of a card; `None` if it was never seen.
    pub fn figures(&self, uuid: &str) -> Option<Figures> {
        let card = self.cards.get(uuid).filter(|card| card.samples > 0)?;
        Some(Figures { p95: card.used.p95(card.samples), driver: card.driver.unwrap_or_default() })
    }

    /// What in the last look speaks against giving a card back; `None` if it was clean, or is not measured.
    pub fn trouble(&self, uuid: &str) -> Option<&str> {
        self.cards.get(uuid)?.trouble.as_deref()
    }
}

fn signs(sample: &Sample, seen: Option<&CardSeen>, unseen: Option<&Unseen>, given: &Given) -> Signs {
    let reported = sample.xids.iter().filter(|reported| reported.uuid == given.uuid);
    Signs {
        xids: reported.map(|reported| reported.xid).collect(),
        ecc: seen.and_then(|seen| seen.ecc_uncorrected),
        retirement_pending: seen.and_then(|seen| seen.retirement_pending) == Some(true),
        recovery: seen.and_then(|seen| seen.recovery.clone()),
        odd: given.odd.clone().or_else(|| unseen.map(|unseen| unseen.why.clone())),
    }
}

fn trouble(signs: &Signs) -> Option<String> {
    let pending =
        signs.retirement_pending.then(|| "memory waits to be taken out of use at a reset".to_owned());
    let recovery = signs.recovery.as_ref().map(|recovery| format!("the driver recommends: {recovery}"));
    let xid = signs.xids.first().map(|number| format!("it has just reported Xid {number}"));
    signs.odd.clone().or(pending).or(recovery).or(xid)
}

impl OneCard {
    fn enter(&mut self, seen: &CardSeen, held: bool, around: &Around<'_>) {
        let holds = around.holders_of(seen);
        let mut accounts = Accounts::of(seen, &holds);
        self.samples = (self.samples + 1).min(WINDOW);
        let driver = self.driver.map_or(accounts.rest, |least| least.min(accounts.rest));
        let driver = accounts.drivers(driver);
        self.driver = Some(driver);
        // Where nobody knows who is there, it is theirs who were given the card.
        if seen.holders.is_none() && held {
            (accounts.shared, accounts.rest) = (accounts.rest - driver, driver);
        }
        self.shared = accounts.shared;
        self.strangers.push(accounts.strangers.values().copied().sum());
        let jobs = accounts.jobs.into_iter().map(|(attempt, mem)| (Holder::Job(attempt), mem));
        let strangers = accounts.strangers.into_iter().map(|(who, mem)| (Holder::Stranger(who), mem));
        let mut now: BTreeMap<Holder, Megabytes> = jobs.chain(strangers).collect();
        for (holder, series) in &mut self.holders {
            series.push(now.remove(holder).unwrap_or_default());
        }
        for (holder, mem) in now {
            self.holders.entry(holder).or_default().push(mem);
        }
        // A job stays while it runs, since its processes come and go; a stranger goes with its process.
        self.holders.retain(|holder, series| match holder {
            Holder::Job(attempt) => holds(*attempt),
            Holder::Stranger(_) => !series.has_gone(),
        });
        self.unexplained.push(accounts.rest - driver);
        for series in [&mut self.strangers, &mut self.unexplained] {
            if series.has_gone() {
                *series = Series::default();
            }
        }
        self.used.push(seen.used);
    }

    /// What jobs use.
    fn jobs(&self) -> impl Iterator<Item = (AttemptName, Megabytes)> {
        self.holders.iter().filter_map(|(holder, series)| match holder {
            Holder::Job(attempt) => Some((*attempt, series.p95(self.samples))),
            Holder::Stranger(_) => None,
        })
    }

    fn strangers(&self) -> impl Iterator<Item = (Stranger, Megabytes)> {
        self.holders.iter().filter_map(|(holder, series)| match holder {
            Holder::Stranger(who) => Some((*who, series.p95(self.samples))),
            Holder::Job(_) => None,
        })
    }

    /// The state of the card now, if it has changed enough to be reported.
    fn tell(
        &mut self,
        given: &Given,
        seen: Option<&CardSeen>,
        verdict: Verdict,
        around: &Around<'_>,
    ) -> Option<News> {
        let (mut state, strangers) = match (seen, &self.told) {
            (Some(seen), _) => self.state(given, seen, around),
            // The state as it was last seen: the holders of then may hold it still.
            (None, Some((told, strangers))) => (told.clone(), strangers.clone()),
            (None, None) => (given.state.clone(), BTreeSet::new()),
        };
        (state.health, state.why, state.faulty) = (verdict.health, verdict.why, verdict.faulty);
        let matters = match &self.told {
            None => state != given.state,
            Some((told, known)) => {
                let moved = |a: Megabytes, b: Megabytes| a.0.abs_diff(b.0) > STEP.0;
                let free = |state: &CardState| state.free.unwrap_or_default();
                let much = |state: &CardState| state.outside() >= around.bound;
                known != &strangers
                    || told.free.is_some() != state.free.is_some()
                    || moved(free(told), free(&state))
                    || moved(told.taken, state.taken)
                    || much(told) != much(&state)
                    || (told.openers != state.openers && much(&state))
                    || (told.health, &told.why, told.faulty) != (state.health, &state.why, state.faulty)
                    // A user's name is looked up, and may come later than the holder.
                    || (all_named(&state) && names(told) != names(&state))
            }
        };
        // The controller may have changed the health meanwhile.
        let elsewhere = (given.state.health, given.state.faulty) != (state.health, state.faulty);
        if !matters && !elsewhere {
            return None;
        }
        self.told = Some((state.clone(), strangers));
        Some(News::Changed { uuid: given.uuid.clone(), state })
    }

    fn state(&self, given: &Given, seen: &CardSeen, around: &Around<'_>) -> (CardState, BTreeSet<Stranger>) {
        let mut strangers: Vec<(Stranger, Megabytes)> =
            self.strangers().filter(|(_, mem)| *mem > Megabytes::ZERO).collect();
        strangers.sort_by_key(|(who, mem)| (std::cmp::Reverse(*mem), *who));
        let foreign: Megabytes = strangers.iter().map(|(_, mem)| *mem).sum();
        let foreign = foreign.max(self.strangers.p95(self.samples));
        let unexplained = self.unexplained.p95(self.samples);
        let driver = self.driver.unwrap_or_default();
        let all = seen.used + seen.free;
        let jobs = self.jobs().map(|(_, mem)| mem).sum::<Megabytes>() + self.shared;
        let named = strangers.iter().filter(|(_, mem)| *mem >= NAMED);
        let words = named.clone().filter_map(|(who, mem)| {
            let holder = seen.listed().iter().find(|holder| stranger(holder) == *who)?;
            Some(in_words(holder, *mem, around.name, around.lives))
        });
        let mut holders: Vec<String> = words.collect();
        if holders.is_empty() && foreign >= NAMED {
            holders.push(format!("{} held by processes that come and go, not jobs", foreign.of_card()));
        }
        let state = CardState {
            foreign,
            unexplained,
            holders,
            openers: if unexplained >= NAMED { openers(seen, around) } else { Vec::new() },
            free: Some(all - jobs - foreign - unexplained - driver),
            taken: (foreign + unexplained + driver) - (all - given.mem),
            ..CardState::default()
        };
        (state, named.map(|(who, _)| *who).collect())
    }
}

/// Processes that have the card open without memory on it, in words.
fn openers(seen: &CardSeen, around: &Around<'_>) -> Vec<String> {
    let holds = around.holders_of(seen);
    let foreign = seen.openers.iter().filter(|opener| opener.attempt.is_none_or(|of| !holds(of)));
    foreign.take(OPENERS).map(|opener| who(opener, around.name)).collect()
}

fn all_named(state: &CardState) -> bool {
    !state.holders.is_empty() && state.holders.iter().all(|words| words.contains(" held by pid "))
}

/// The holders of foreign memory, without amounts.
fn names(state: &CardState) -> Vec<&str> {
    let name = |words: &'_ String| words.split_once(" held by ").map_or(0, |(amount, _)| amount.len());
    state.holders.iter().map(|words| &words[name(words)..]).collect()
}

#[cfg(test)]
mod tests;
