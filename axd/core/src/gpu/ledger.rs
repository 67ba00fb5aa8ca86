//! What samples of a card come to: over a sliding window, so that a spike of some hundred milliseconds neither bars a
//! card nor blinds, what each job uses, what others hold, what is really free; and when that matters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::{AttemptName, Uid};
use crate::size::Megabytes;
use crate::time::{BootTime, Span};

use super::health::{Memory, Signs, Verdict};
use super::holders::{Accounts, Stranger, in_words, stranger, who};
use super::{CardSeen, CardState, Sample, Unseen};

/// Samples in the window.
pub const WINDOW: usize = 60;

/// Whoever is missing in so many samples after each other has gone.
const GONE: usize = 3;

/// What moves by less is not worth a word.
const STEP: Megabytes = Megabytes(256);

/// Processes that hold less are not named.
const NAMED: Megabytes = Megabytes(64);

/// So many who may hold what nobody accounts for are named.
const OPENERS: usize = 3;

/// A card of this node, as far as jobs and the configuration go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The card.
    pub uuid: String,
    /// What of its memory is given out.
    pub mem: Megabytes,
    /// What it was last taken to be.
    pub state: CardState,
    /// Jobs hold something of it.
    pub held: bool,
    /// Something beside samples is odd about it: why.
    pub odd: Option<String>,
}

/// What others have to say about what is seen.
pub struct Around<'a> {
    /// Whether an attempt lives.
    pub lives: &'a dyn Fn(AttemptName) -> bool,
    /// Whether one that lives was given a card, by UUID: where it was not, it is a stranger like others.
    pub holds: &'a dyn Fn(AttemptName, &str) -> bool,
    /// A user's name.
    pub name: &'a dyn Fn(Uid) -> Option<String>,
    /// How much others may hold of a card that is given out.
    pub bound: Megabytes,
    /// For so long nothing may happen before a suspect card is trusted again.
    pub patience: Span,
}

impl Around<'_> {
    /// Whether an attempt was given the card that is seen, and lives.
    fn holders_of<'s>(&'s self, seen: &'s CardSeen) -> impl Fn(AttemptName) -> bool + 's {
        move |attempt| (self.lives)(attempt) && (self.holds)(attempt, &seen.uuid)
    }
}

/// Something that matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// What is known of a card has changed.
    Changed {
        /// The card.
        uuid: String,
        /// What is known now.
        state: CardState,
    },
    /// Something happened on a card that is the business of the jobs there.
    Noted {
        /// The card.
        uuid: String,
        /// What.
        what: String,
    },
    /// An attempt uses so much of the fullest of its cards.
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
    /// The driver's own.
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

    /// The 95th percentile by nearest rank, of so many samples: before its first there was nothing.
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

/// Who holds something of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Job(AttemptName),
    Stranger(Stranger),
}

/// What is remembered of a card.
#[derive(Debug, Clone, Default)]
struct OneCard {
    /// So many samples are in the window.
    samples: usize,
    holders: BTreeMap<Holder, Series>,
    /// All strangers together: they may be other ones each time.
    strangers: Series,
    unexplained: Series,
    /// What several jobs have now, and nobody knows which of them: an MPS server holds it for them, or the driver does not
    /// list processes.
    shared: Megabytes,
    used: Series,
    /// The least that nobody accounted for: the driver's own.
    driver: Option<Megabytes>,
    memory: Memory,
    /// The last sample was without anything that speaks against giving it out.
    trouble: Option<String>,
    /// What was told last, and of whom.
    told: Option<(CardState, BTreeSet<Stranger>)>,
}

/// All cards of a node, and what their jobs use.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    cards: BTreeMap<String, OneCard>,
    /// The most that was seen of each living attempt on one of its cards.
    peaks: BTreeMap<AttemptName, Megabytes>,
    /// What was last told that an attempt uses.
    used: BTreeMap<AttemptName, Megabytes>,
}

impl Ledger {
    /// Takes a look at all cards in; says what of it matters.
    pub fn look(&mut self, at: BootTime, sample: &Sample, cards: &[Given], around: &Around<'_>) -> Vec<News> {
        let mut news = Vec::new();
        self.cards.retain(|uuid, _| cards.iter().any(|given| given.uuid == *uuid));
        let mut used: BTreeMap<AttemptName, Megabytes> = BTreeMap::new();
        for given in cards {
            let seen = sample.cards.iter().find(|seen| seen.uuid == given.uuid);
            let unseen = sample.unseen.iter().find(|unseen| unseen.uuid == given.uuid);
            let signs = signs(sample, seen, unseen, given);
            // Not looked at: nobody measures it, or another card was the matter.
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
            // Only what is more: less is never taken off before the end.
            if p95 > told + Megabytes(STEP.0 / 4) {
                self.used.insert(attempt, p95);
                news.push(News::Used { attempt, p95 });
            }
        }
        news
    }

    /// The most that was seen of an attempt on one of its cards; nothing: it was never seen.
    pub fn peak(&self, attempt: AttemptName) -> Option<Megabytes> {
        self.peaks.get(&attempt).copied()
    }

    /// Figures of a card, once it was seen.
    pub fn figures(&self, uuid: &str) -> Option<Figures> {
        let card = self.cards.get(uuid).filter(|card| card.samples > 0)?;
        Some(Figures { p95: card.used.p95(card.samples), driver: card.driver.unwrap_or_default() })
    }

    /// What in the last look speaks against giving a card back; nothing: it was clean, or nobody looks.
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
        // A job's processes come and go; a job that is over, or a stranger, has gone with them.
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

    /// What is known of the card now, if that is worth a word.
    fn tell(
        &mut self,
        given: &Given,
        seen: Option<&CardSeen>,
        verdict: Verdict,
        around: &Around<'_>,
    ) -> Option<News> {
        let (mut state, strangers) = match (seen, &self.told) {
            (Some(seen), _) => self.state(given, seen, around),
            // As it was last seen: whoever held it then may hold it still.
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
                    // The name of a user is looked up, and may come later than the holder.
                    || (all_named(&state) && names(told) != names(&state))
            }
        };
        // Whoever decides about its health may have decided meanwhile.
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

/// Those that have a card open without memory there, by what they are.
fn openers(seen: &CardSeen, around: &Around<'_>) -> Vec<String> {
    let holds = around.holders_of(seen);
    let foreign = seen.openers.iter().filter(|opener| opener.attempt.is_none_or(|of| !holds(of)));
    foreign.take(OPENERS).map(|opener| who(opener, around.name)).collect()
}

fn all_named(state: &CardState) -> bool {
    !state.holders.is_empty() && state.holders.iter().all(|words| words.contains(" held by pid "))
}

/// Who holds something, without how much.
fn names(state: &CardState) -> Vec<&str> {
    let name = |words: &'_ String| words.split_once(" held by ").map_or(0, |(amount, _)| amount.len());
    state.holders.iter().map(|words| &words[name(words)..]).collect()
}

#[cfg(test)]
mod tests;
