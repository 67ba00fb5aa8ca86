//! Whether a card is fit to be given out: healthy → suspect → drained, by what it reports. An error of the card
//! affects that card, never the node. What is no trouble of the card is noted with the jobs on it and affects nothing.
//! No job is ended for a card's health. Only an administrator leads a card out of drained; suspect passes when
//! nothing has happened for a while.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::listed;
use crate::time::{BootTime, Span};

use super::Health;
use super::xids::{Class, RESET, known};

/// What a look at a card has found about its health.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signs {
    /// Xid events since the last look.
    pub xids: Vec<u32>,
    /// Uncorrected memory errors since the driver was loaded, where the driver says.
    pub ecc: Option<u64>,
    /// Memory waits to be taken out of use at a reset, or could not be.
    pub retirement_pending: bool,
    /// What the driver recommends to repair it.
    pub recovery: Option<String>,
    /// Why the card could not be looked at, or what else is odd about it now.
    pub odd: Option<String>,
}

/// What is remembered of a card between looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    ecc: Option<u64>,
    /// Since when nothing has happened.
    clean_since: Option<BootTime>,
    /// Errors of programs, and when each was noted last.
    noted: BTreeMap<u32, BootTime>,
}

/// An error that a program goes on making is noted this often at most, because it also appears in the stories of the
/// program's neighbours.
const NOTED_EVERY: Span = Span::seconds(600);

/// What a card is now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Whether it is fit.
    pub health: Health,
    /// Why it is not.
    pub why: Option<String>,
    /// True if the card is not fit because of an error of its own.
    pub faulty: bool,
}

impl Memory {
    /// Takes in a look. Returns what the card is now, and what to note with the jobs on it. A suspect card is trusted
    /// again once nothing has happened for `patience`.
    pub fn look(
        &mut self,
        at: BootTime,
        before: &Verdict,
        signs: &Signs,
        patience: Span,
    ) -> (Verdict, Vec<String>) {
        let (mut drains, mut suspects, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        self.noted.retain(|_, noted| at - *noted < NOTED_EVERY);
        for number in signs.xids.iter().copied().collect::<BTreeSet<u32>>() {
            if known(number).is_none_or(|xid| xid.class == Class::Noted) && self.noted.contains_key(&number) {
                continue;
            }
            match known(number) {
                None => notes.push(format!("Xid {number}, of which ax knows nothing")),
                Some(xid) => match xid.class {
                    Class::Drain => drains.push(xid.in_words(number)),
                    Class::Suspect => suspects.push(xid.in_words(number)),
                    Class::Noted => notes.push(xid.in_words(number)),
                },
            }
            self.noted.insert(number, at);
        }
        if signs.retirement_pending {
            drains
                .push("memory waits to be taken out of use: reset the card once no job is on it".to_owned());
        }
        if let Some(recovery) = &signs.recovery {
            drains.push(format!("the driver recommends: {recovery}"));
        }
        // Errors from before the daemon's start are no news.
        let more = self.ecc.zip(signs.ecc).map_or(0, |(old, new)| new.saturating_sub(old));
        self.ecc = signs.ecc.or(self.ecc);
        if more > 0 && drains.is_empty() && suspects.is_empty() {
            suspects.push(format!("{more} memory errors that can't be corrected; NVIDIA advises: {RESET}"));
        }
        // It happened again before the card was trusted again.
        if before.health == Health::Suspect && before.faulty {
            drains.append(&mut suspects);
        }
        (self.follow(at, before, &drains, &suspects, signs, patience), notes)
    }

    fn follow(
        &mut self,
        at: BootTime,
        before: &Verdict,
        drains: &[String],
        suspects: &[String],
        signs: &Signs,
        patience: Span,
    ) -> Verdict {
        let bad = |health, words: &[String], faulty| Verdict { health, why: Some(listed(words)), faulty };
        let faulty = !drains.is_empty() || !suspects.is_empty();
        if before.health == Health::Drained {
            return Verdict { faulty: before.faulty || faulty, ..before.clone() };
        }
        if !drains.is_empty() {
            return bad(Health::Drained, drains, true);
        }
        if !suspects.is_empty() {
            self.clean_since = Some(at);
            return bad(Health::Suspect, suspects, true);
        }
        if let Some(odd) = &signs.odd {
            self.clean_since = Some(at);
            // The error that it had before is the better reason.
            return match before.faulty {
                true => before.clone(),
                false => bad(Health::Suspect, std::slice::from_ref(odd), false),
            };
        }
        if before.health == Health::Healthy {
            self.clean_since = None;
            return Verdict::default();
        }
        // The pause counts from the first clean look, whatever made the card suspect.
        let since = *self.clean_since.get_or_insert(at);
        if at - since < patience {
            return before.clone();
        }
        self.clean_since = None;
        Verdict::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::xids::XIDS;
    use super::*;
    use proptest::prelude::*;

    const PATIENCE: Span = Span::seconds(300);

    fn looks(looks: &[(u64, Signs)]) -> (Verdict, Vec<String>) {
        let (mut memory, mut verdict, mut notes) = (Memory::default(), Verdict::default(), Vec::new());
        for (seconds, signs) in looks {
            let (next, more) = memory.look(BootTime(seconds * 1000), &verdict, signs, PATIENCE);
            (verdict, notes) = (next, more);
        }
        (verdict, notes)
    }

    fn xids(xids: &[u32]) -> Signs {
        Signs { xids: xids.to_vec(), ..Signs::default() }
    }

    fn odd() -> Signs {
        Signs { odd: Some("it does not answer".to_owned()), ..Signs::default() }
    }

    #[test]
    fn each_class_does_what_it_says() {
        for xid in XIDS {
            let (verdict, notes) = looks(&[(0, xids(&[xid.last]))]);
            let (health, noted) = match xid.class {
                Class::Drain => (Health::Drained, 0),
                Class::Suspect => (Health::Suspect, 0),
                Class::Noted => (Health::Healthy, 1),
            };
            assert_eq!((verdict.health, notes.len()), (health, noted), "{xid:?}");
            assert_eq!(verdict.faulty, xid.class != Class::Noted);
            let words = verdict.why.into_iter().chain(notes).collect::<String>();
            assert!(words.contains(xid.advice), "{words}");
        }
        let (verdict, notes) = looks(&[(0, xids(&[4000]))]);
        assert_eq!((verdict, notes.len()), (Verdict::default(), 1));
    }

    #[test]
    fn suspect_passes_after_a_clean_time_and_what_comes_again_needs_a_person() {
        let clean = Signs::default;
        let seen = [(0, xids(&[119])), (100, clean()), (299, clean())];
        assert_eq!(looks(&seen).0.health, Health::Suspect);
        let mut long = seen.to_vec();
        long.push((400, clean()));
        assert_eq!(looks(&long).0, Verdict::default());
        long.push((500, xids(&[119])));
        assert_eq!(looks(&long).0.health, Health::Suspect, "it had been trusted again");
        long.push((501, xids(&[120])));
        assert_eq!(looks(&long).0.health, Health::Drained);
    }

    #[test]
    fn a_mistake_that_is_made_again_and_again_is_noted_now_and_then() {
        assert_eq!(looks(&[(0, xids(&[31, 31, 31]))]).1.len(), 1);
        assert_eq!(looks(&[(0, xids(&[31])), (599, xids(&[31, 13]))]).1.len(), 1, "the other one is new");
        assert_eq!(looks(&[(0, xids(&[31])), (600, xids(&[31]))]).1.len(), 1);
        let (verdict, _) = looks(&[(0, xids(&[79; 500]))]);
        assert_eq!(verdict.why.unwrap().matches("Xid 79").count(), 1);
    }

    #[test]
    fn whoever_made_it_suspect_it_is_clean_from_the_first_clean_look_after_that_on() {
        let mut memory = Memory::default();
        let clean = Signs::default();
        let mut look = |seconds: u64, before: &Verdict| {
            memory.look(BootTime(seconds * 1000), before, &clean, PATIENCE).0
        };
        assert_eq!(look(0, &Verdict::default()), Verdict::default());
        assert_eq!(look(1000, &Verdict::default()), Verdict::default());
        let suspect = Verdict { health: Health::Suspect, why: Some("by others".to_owned()), faulty: false };
        assert_eq!((look(1001, &suspect), look(1300, &suspect)), (suspect.clone(), suspect.clone()));
        assert_eq!(look(1301, &suspect), Verdict::default());
    }

    #[test]
    fn what_does_not_answer_is_suspect_as_long_and_never_drained_by_that() {
        let looked: Vec<_> = (0..1000).map(|second| (second, odd())).collect();
        let (verdict, _) = looks(&looked);
        assert_eq!((verdict.health, verdict.faulty), (Health::Suspect, false));
        let back = [(0, odd()), (1, Signs::default()), (302, Signs::default())];
        assert_eq!(looks(&back).0, Verdict::default());
        assert_eq!(looks(&[(0, odd()), (1, odd()), (299, Signs::default())]).0.health, Health::Suspect);
    }

    #[test]
    fn memory_errors_count_from_the_first_look_on() {
        let ecc = |count| Signs { ecc: Some(count), ..Signs::default() };
        assert_eq!(looks(&[(0, ecc(7)), (1, ecc(7))]).0, Verdict::default());
        let (verdict, _) = looks(&[(0, ecc(7)), (1, ecc(9))]);
        assert_eq!((verdict.health, verdict.faulty), (Health::Suspect, true));
        assert!(verdict.why.unwrap().starts_with("2 memory errors"));
        let pending = Signs { retirement_pending: true, ..Signs::default() };
        assert_eq!(looks(&[(0, pending)]).0.health, Health::Drained);
        let recovery = Signs { recovery: Some("reset".to_owned()), ..Signs::default() };
        assert_eq!(looks(&[(0, recovery)]).0.why.unwrap(), "the driver recommends: reset");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever is seen: no look leads out of drained, and programs alone never lead out of healthy.
        #[test]
        fn only_a_person_leads_out_of_drained(
            seen in proptest::collection::vec((0..200_u64, proptest::collection::vec(0..160_u32, 0..3), any::<bool>()), 1..40),
        ) {
            let (mut memory, mut verdict, mut at) = (Memory::default(), Verdict::default(), 0);
            for (pause, numbers, is_odd) in seen {
                at += pause;
                let signs = Signs { odd: is_odd.then(|| "odd".to_owned()), ..xids(&numbers) };
                let (next, _) = memory.look(BootTime(at * 1000), &verdict, &signs, PATIENCE);
                prop_assert!(verdict.health != Health::Drained || next.health == Health::Drained);
                let harmless = |number: &u32| known(*number).is_none_or(|xid| xid.class == Class::Noted);
                if !is_odd && numbers.iter().all(harmless) {
                    prop_assert!(verdict.health != Health::Healthy || next == Verdict::default());
                }
                prop_assert_eq!(next.health == Health::Healthy, next.why.is_none());
                verdict = next;
            }
        }
    }
}
