//! Attempts whose control groups are empty but whose processes may still be on their cards: such an attempt is over
//! only when its cards are clean. Also finds processes that attempts left on cards after their end.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::AttemptName;
use crate::time::{BootTime, Span};

use super::holders::DRIVERS;
use super::{CardSeen, HolderSeen, Sample};

/// A process that is still on a card and belongs to an attempt that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its number.
    pub pid: i32,
    /// Its start, which makes the number unique.
    pub start_ticks: u64,
    /// The attempt.
    pub attempt: AttemptName,
    /// The card.
    pub card: String,
}

/// An attempt that is leaving.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Leaving {
    cards: Vec<String>,
    since: BootTime,
}

/// Number and start of a process, seen while its attempt ran: the driver may list it after it can no longer be looked
/// at.
type Seen = (i32, u64);

/// Which processes were on the cards, which attempts are leaving, and which have left something behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leavings {
    leaving: BTreeMap<AttemptName, Leaving>,
    seen: BTreeMap<AttemptName, BTreeSet<Seen>>,
    /// Why a card is not clean, by attempt and card.
    troubles: BTreeMap<(AttemptName, String), String>,
}

impl Leavings {
    /// An attempt is over, except that its cards must become clean. A second call changes nothing.
    pub fn leave(&mut self, attempt: AttemptName, cards: Vec<String>, now: BootTime) {
        self.leaving.entry(attempt).or_insert(Leaving { cards, since: now });
    }

    /// Whether an attempt is waiting for its cards to be clean.
    pub fn is_leaving(&self, attempt: AttemptName) -> bool {
        self.leaving.contains_key(&attempt)
    }

    /// True if an attempt is waiting for its cards.
    pub fn any(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// When the first waiting attempt has waited for `patience`.
    pub fn next_due(&self, patience: Span) -> Option<BootTime> {
        self.leaving.values().map(|each| each.since + patience).min()
    }

    /// Why a card is not clean; `None` if it is.
    pub fn trouble(&self, card: &str) -> Option<&str> {
        self.troubles.iter().find(|((_, of), _)| of == card).map(|(_, why)| why.as_str())
    }

    /// Attributes processes that are exiting, and in no group any more, to their attempts, so that they do not count
    /// as foreign. If a number has been listed without a break since another process had it, the process is
    /// attributed to no attempt: the driver may list memory of a dead process under a number that a neighbour has by
    /// now.
    pub fn recognize(&self, sample: &mut Sample) {
        for holder in sample.cards.iter_mut().flat_map(CardSeen::listed_mut) {
            if holder.attempt.is_some() && self.was_another(holder) {
                holder.attempt = None;
            } else if holder.attempt.is_none() && holder.pid > 0 && !holder.mps {
                let mut all = self.seen.keys().copied();
                holder.attempt = all.find(|attempt| self.was(*attempt, holder.pid, holder.start_ticks));
            }
        }
    }

    fn was_another(&self, holder: &HolderSeen) -> bool {
        let Some(start) = holder.start_ticks else { return false };
        let of_number = |seen: &BTreeSet<(i32, u64)>| {
            seen.range((holder.pid, 0)..=(holder.pid, u64::MAX)).any(|(_, other)| *other != start)
        };
        self.seen.values().any(of_number)
    }

    /// Takes in a look that began at `begun`. Returns the attempts whose cards were clean in it, if they were over
    /// before it began: they may go.
    pub fn look(
        &mut self,
        begun: BootTime,
        sample: &Sample,
        lives: impl Fn(AttemptName) -> bool,
    ) -> Vec<AttemptName> {
        self.remember(sample, &lives);
        let is_clean = |attempt: AttemptName, uuid: &str| {
            let card = sample.cards.iter().find(|card| card.uuid == uuid);
            card.is_some_and(|card| self.is_clean(attempt, card))
        };
        let clean = |attempt: &AttemptName, each: &Leaving| {
            each.since <= begun && each.cards.iter().all(|uuid| is_clean(*attempt, uuid))
        };
        let gone: Vec<AttemptName> =
            self.leaving.iter().filter(|(attempt, each)| clean(attempt, each)).map(|(a, _)| *a).collect();
        let over: Vec<(AttemptName, String)> =
            self.troubles.keys().filter(|(attempt, uuid)| is_clean(*attempt, uuid)).cloned().collect();
        over.iter().for_each(|trouble| drop(self.troubles.remove(trouble)));
        gone.iter().for_each(|attempt| drop(self.leaving.remove(attempt)));
        gone
    }

    /// Lets attempts go that have waited for `patience`; what they left makes their cards unclean until it is gone.
    /// `last` is the last look, if any. Returns the attempts, and the cards with the reason.
    pub fn give_up(
        &mut self,
        now: BootTime,
        patience: Span,
        last: Option<&Sample>,
    ) -> (Vec<AttemptName>, Vec<(String, String)>) {
        let due = self.leaving.iter().filter(|(_, each)| each.since + patience <= now);
        let due: Vec<(AttemptName, Vec<String>)> = due.map(|(a, each)| (*a, each.cards.clone())).collect();
        let mut new = Vec::new();
        for (attempt, cards) in &due {
            self.leaving.remove(attempt);
            for uuid in cards {
                if let Some(why) = self.why_unclean(*attempt, uuid, last) {
                    self.troubles.insert((*attempt, uuid.clone()), why.clone());
                    new.push((uuid.clone(), why));
                }
            }
        }
        (due.into_iter().map(|(attempt, _)| attempt).collect(), new)
    }

    /// Where nobody knows who is there, a card is clean when no more of it is in use than the driver may need itself.
    fn is_clean(&self, attempt: AttemptName, card: &CardSeen) -> bool {
        match card.holders {
            Some(_) => self.of(attempt, card).next().is_none(),
            None => card.used <= DRIVERS,
        }
    }

    fn why_unclean(&self, attempt: AttemptName, uuid: &str, last: Option<&Sample>) -> Option<String> {
        let card = last.and_then(|sample| sample.cards.iter().find(|card| card.uuid == uuid));
        let Some(card) = card else {
            return Some(format!("nobody can say whether {} is gone from it", attempt.job));
        };
        if card.holders.is_none() && !self.is_clean(attempt, card) {
            let used = card.used.of_card();
            return Some(format!(
                "{} is over and {used} are in use of which nobody knows whose they are",
                attempt.job
            ));
        }
        let left: Vec<String> = self.of(attempt, card).map(in_words).collect();
        (!left.is_empty()).then(|| format!("{} is over and still there: {}", attempt.job, left.join(", ")))
    }

    /// An attempt's processes on a card: those in its group, those known to have been in it, and those that are
    /// listed but can't be looked at any more, unless they are known to be another's. Waiting for too many does no
    /// harm.
    fn of<'a>(&'a self, attempt: AttemptName, card: &'a CardSeen) -> impl Iterator<Item = &'a HolderSeen> {
        let ours = move |holder: &HolderSeen| match (holder.attempt, holder.start_ticks) {
            (Some(of), _) => of == attempt,
            // The MPS server is for other attempts, or for none.
            (None, _) if holder.mps => false,
            (None, Some(start)) => self.was(attempt, holder.pid, Some(start)),
            (None, None) if holder.keeper.is_some() => holder.keeper == Some(attempt),
            (None, None) => {
                let others = self.seen.keys().any(|of| *of != attempt && self.was(*of, holder.pid, None));
                holder.pid > 0 && (!others || self.was(attempt, holder.pid, None))
            }
        };
        card.listed().iter().filter(move |holder| ours(holder))
    }

    /// True if a process with this number, and this start if given, was seen in the attempt's group.
    fn was(&self, attempt: AttemptName, pid: i32, start: Option<u64>) -> bool {
        let (first, last) = start.map_or((0, u64::MAX), |start| (start, start));
        let seen = self.seen.get(&attempt);
        seen.is_some_and(|seen| seen.range((pid, first)..=(pid, last)).next().is_some())
    }

    fn remember(&mut self, sample: &Sample, lives: &impl Fn(AttemptName) -> bool) {
        let (leaving, troubles) = (&self.leaving, &self.troubles);
        let concerns = |attempt: AttemptName| {
            let left = troubles.range((attempt, String::new())..).next();
            lives(attempt)
                || leaving.contains_key(&attempt)
                || left.is_some_and(|((of, _), _)| *of == attempt)
        };
        self.seen.retain(|attempt, _| concerns(*attempt));
        for holder in sample.cards.iter().flat_map(CardSeen::listed) {
            if let (Some(attempt), Some(start)) = (holder.attempt, holder.start_ticks)
                && concerns(attempt)
                && !holder.mps
            {
                self.seen.entry(attempt).or_default().insert((holder.pid, start));
            }
        }
        // Once a number is not listed, it may belong to any new process.
        if sample.unseen.is_empty() {
            let all = sample.cards.iter().flat_map(CardSeen::listed);
            let listed: BTreeSet<i32> = all.map(|holder| holder.pid).collect();
            self.seen.values_mut().for_each(|seen| seen.retain(|(pid, _)| listed.contains(pid)));
        }
    }
}

/// Attributes processes of MPS daemons to attempts: `under_mps` returns the attempts under MPS on a card. A daemon
/// that serves no attempt counts as foreign. Returns such daemons with their cards.
pub fn attribute_mps(
    sample: &mut Sample,
    under_mps: impl Fn(&str) -> Vec<AttemptName>,
) -> Vec<(String, HolderSeen)> {
    let mut idle = Vec::new();
    for card in &mut sample.cards {
        let uuid = card.uuid.clone();
        for holder in card.listed_mut().iter_mut().filter(|holder| holder.mps) {
            match under_mps(&uuid).as_slice() {
                [] => {
                    idle.push((uuid.clone(), holder.clone()));
                    holder.mps = false;
                }
                [only] => holder.attempt = Some(*only),
                _ => {}
            }
        }
    }
    idle
}

/// Processes in groups of attempts that are over. The caller must check again before it ends one.
pub fn leftovers(sample: &Sample, lives: impl Fn(AttemptName) -> bool) -> Vec<Leftover> {
    let all = sample.cards.iter().flat_map(|card| card.listed().iter().map(move |holder| (card, holder)));
    let left = all.filter_map(|(card, holder)| {
        let attempt = holder.attempt.filter(|attempt| !holder.mps && !lives(*attempt))?;
        let start_ticks = holder.start_ticks?;
        Some(Leftover { pid: holder.pid, start_ticks, attempt, card: card.uuid.clone() })
    });
    left.collect()
}

fn in_words(holder: &HolderSeen) -> String {
    let command =
        holder.command.as_deref().unwrap_or(if holder.start_ticks.is_some() { "" } else { "(ended)" });
    let used = holder.used.map(|used| format!(" with {}", used.of_card())).unwrap_or_default();
    format!("pid {} {command}", holder.pid).trim_end().to_owned() + &used
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Megabytes;

    fn name(number: u32) -> AttemptName {
        format!("ax-2026-{number:04}.{number}").parse().unwrap()
    }

    fn holder(pid: i32, start: Option<u64>, attempt: Option<AttemptName>) -> HolderSeen {
        HolderSeen {
            pid,
            start_ticks: start,
            used: Some(Megabytes(2048)),
            command: start.map(|_| "python".to_owned()),
            attempt,
            ..HolderSeen::default()
        }
    }

    fn sample(holders: Vec<HolderSeen>) -> Sample {
        Sample {
            cards: vec![CardSeen { uuid: "GPU-a".to_owned(), holders: Some(holders), ..CardSeen::default() }],
            ..Sample::default()
        }
    }

    fn cards() -> Vec<String> {
        vec!["GPU-a".to_owned()]
    }

    const PATIENCE: Span = Span::seconds(30);

    #[test]
    fn only_a_look_that_began_after_the_end_says_that_a_card_is_clean() {
        let mut leavings = Leavings::default();
        leavings.leave(name(1), cards(), BootTime(1000));
        assert!(leavings.look(BootTime(999), &sample(vec![]), |_| false).is_empty(), "begun before");
        let other = sample(vec![holder(7, Some(70), None), holder(8, Some(80), Some(name(2)))]);
        let left = leavings.look(BootTime(1000), &other, |attempt| attempt == name(2));
        assert_eq!(left, [name(1)], "neighbours and strangers may stay");
        assert!(!leavings.any());
    }

    #[test]
    fn one_that_is_listed_on_after_its_death_is_waited_for_and_another_with_its_number_is_not() {
        let mut leavings = Leavings::default();
        let runs = sample(vec![holder(7, Some(70), Some(name(1)))]);
        assert!(leavings.look(BootTime(1), &runs, |_| true).is_empty());
        leavings.leave(name(1), cards(), BootTime(10));
        let dead = sample(vec![holder(7, None, None)]);
        assert!(leavings.look(BootTime(11), &dead, |_| false).is_empty());
        assert!(leavings.look(BootTime(12), &runs, |_| false).is_empty(), "it is in its group still");
        assert!(leavings.look(BootTime(13), &Sample::default(), |_| false).is_empty(), "nobody could look");
        let reused = sample(vec![holder(7, Some(99), None)]);
        assert_eq!(leavings.look(BootTime(14), &reused, |_| false).len(), 1);
        leavings.look(BootTime(15), &reused, |_| false);
        assert_eq!(leavings, Leavings::default(), "nothing is remembered of who is gone");
    }

    #[test]
    fn who_waits_in_vain_goes_and_the_card_s_trouble_is_said() {
        let mut leavings = Leavings::default();
        leavings.look(BootTime(1), &sample(vec![holder(7, Some(70), Some(name(1)))]), |_| true);
        leavings.leave(name(1), cards(), BootTime(10));
        assert_eq!(leavings.next_due(PATIENCE), Some(BootTime(30_010)));
        let dead = sample(vec![holder(7, None, None)]);
        assert!(leavings.give_up(BootTime(30_009), PATIENCE, Some(&dead)).0.is_empty());
        let (gone, new) = leavings.give_up(BootTime(30_010), PATIENCE, Some(&dead));
        let why = "ax-2026-0001 is over and still there: pid 7 (ended) with 2.1 GB";
        assert_eq!((gone, new), (vec![name(1)], vec![("GPU-a".to_owned(), why.to_owned())]));
        leavings.look(BootTime(30_011), &dead, |_| false);
        leavings.look(BootTime(30_012), &Sample::default(), |_| false);
        assert_eq!(leavings.trouble("GPU-a"), Some(why), "until it is seen that it is gone");
        leavings.look(BootTime(30_013), &sample(vec![]), |_| false);
        assert_eq!(leavings.trouble("GPU-a"), None);
        leavings.leave(name(2), cards(), BootTime(0));
        assert!(leavings.look(BootTime(1), &dead, |_| false).is_empty(), "nobody knows whose that was");
        let (_, new) = leavings.give_up(BootTime(30_010), PATIENCE, None);
        assert!(new[0].1.contains("nobody can say"), "{new:?}");
        leavings.look(BootTime(30_014), &sample(vec![]), |_| false);
        assert_eq!(leavings.trouble("GPU-a"), None, "it could be asked");
    }

    #[test]
    fn a_neighbour_s_dead_are_not_waited_for() {
        let mut leavings = Leavings::default();
        let runs = sample(vec![holder(7, Some(70), Some(name(1))), holder(8, Some(80), Some(name(2)))]);
        leavings.look(BootTime(1), &runs, |_| true);
        leavings.leave(name(1), cards(), BootTime(2));
        let dead = sample(vec![holder(8, None, None), holder(0, None, None)]);
        assert_eq!(leavings.look(BootTime(3), &dead, |attempt| attempt == name(2)), [name(1)]);
    }

    #[test]
    fn the_dying_are_known_for_what_they_were() {
        let mut leavings = Leavings::default();
        leavings.look(BootTime(1), &sample(vec![holder(7, Some(70), Some(name(1)))]), |_| true);
        let others = [holder(7, Some(71), None), holder(8, None, None), holder(0, None, None)];
        let mut now =
            sample([holder(7, Some(70), None), holder(7, None, None)].into_iter().chain(others).collect());
        leavings.recognize(&mut now);
        let whose: Vec<_> = now.cards[0].listed().iter().map(|holder| holder.attempt).collect();
        assert_eq!(whose, [Some(name(1)), Some(name(1)), None, None, None]);
    }

    #[test]
    fn a_number_that_changes_hands_makes_nobody_the_owner_of_a_dead_one_s_memory() {
        let mut leavings = Leavings::default();
        leavings.look(BootTime(1), &sample(vec![holder(7, Some(70), Some(name(1)))]), |_| true);
        // The process is dead, the driver still lists its number, and a neighbour has the number now.
        let mut now = sample(vec![holder(7, Some(90), Some(name(2)))]);
        leavings.recognize(&mut now);
        assert_eq!(now.cards[0].listed()[0].attempt, None);
        // Once it was not listed, the number is whoever has it.
        leavings.look(BootTime(2), &sample(vec![]), |_| true);
        let mut dead = sample(vec![holder(7, None, None)]);
        leavings.recognize(&mut dead);
        assert_eq!(dead.cards[0].listed()[0].attempt, None);
        let mut new = sample(vec![holder(7, Some(90), Some(name(2)))]);
        leavings.recognize(&mut new);
        assert_eq!(new.cards[0].listed()[0].attempt, Some(name(2)));
    }

    #[test]
    fn left_overs_are_in_groups_of_attempts_that_are_over_and_nobody_else_is() {
        let seen = sample(vec![
            holder(1, Some(10), Some(name(1))),
            holder(2, Some(20), Some(name(2))),
            holder(3, Some(30), None),
            holder(4, None, Some(name(1))),
        ]);
        let left = leftovers(&seen, |attempt| attempt == name(2));
        let pids: Vec<i32> = left.iter().map(|each| each.pid).collect();
        assert_eq!(pids, [1]);
    }
}
