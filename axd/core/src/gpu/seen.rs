//! What a sample says of each running attempt: its memory on each of its cards, and how busy those were.

use std::collections::BTreeMap;

use crate::id::AttemptName;
use crate::size::Megabytes;

use super::{CardSeen, HolderSeen, Sample};

/// A card, or a part of one, that a running attempt holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The attempt.
    pub attempt: AttemptName,
    /// The card.
    pub uuid: String,
    /// No other job may have a part of it.
    pub whole: bool,
}

/// A card of an attempt's, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCard {
    /// The card.
    pub uuid: String,
    /// What the attempt's processes hold of it; `None` where the driver does not say.
    pub memory: Option<Megabytes>,
    /// How busy the card was, percent; others may have a part in that.
    pub load: Option<u32>,
}

/// What was seen of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptSeen {
    /// The attempt.
    pub attempt: AttemptName,
    /// Its cards in the order in which it holds them; `None` for a card that could not be asked.
    pub cards: Vec<Option<OwnCard>>,
}

impl AttemptSeen {
    /// Its memory on the fullest of its cards; `None` unless all were measured.
    pub fn memory(&self) -> Option<Megabytes> {
        let all: Option<Vec<Megabytes>> = self.cards.iter().map(|card| card.as_ref()?.memory).collect();
        all?.into_iter().max()
    }

    /// How busy its cards were on average, percent; `None` unless all were measured.
    pub fn load(&self) -> Option<f64> {
        let all: Option<Vec<u32>> = self.cards.iter().map(|card| card.as_ref()?.load).collect();
        let all = all.filter(|all| !all.is_empty())?;
        Some(all.iter().map(|load| f64::from(*load)).sum::<f64>() / all.len() as f64)
    }
}

/// What a sample says of the attempts that hold cards.
pub fn of_attempts(sample: &Sample, held: impl IntoIterator<Item = Held>) -> Vec<AttemptSeen> {
    let by_uuid: BTreeMap<&str, &CardSeen> =
        sample.cards.iter().map(|card| (card.uuid.as_str(), card)).collect();
    let mut seen: BTreeMap<AttemptName, AttemptSeen> = BTreeMap::new();
    for Held { attempt, uuid, whole } in held {
        let card = by_uuid.get(uuid.as_str()).map(|card| OwnCard {
            memory: memory_of(card, attempt, whole),
            load: card.load,
            uuid,
        });
        let entry = seen.entry(attempt).or_insert_with(|| AttemptSeen { attempt, cards: Vec::new() });
        entry.cards.push(card);
    }
    seen.into_values().collect()
}

/// What an attempt's processes hold of a card; `None` where the driver does not say. If the attempt has the whole
/// card and the driver does not say whose memory it is, all used memory counts as its own.
pub fn memory_of(card: &CardSeen, attempt: AttemptName, whole: bool) -> Option<Megabytes> {
    let own = |all: &Vec<HolderSeen>| {
        let own = all.iter().filter(|holder| holder.attempt == Some(attempt));
        own.map(|holder| holder.used).sum::<Option<Megabytes>>()
    };
    let known = card.holders.as_ref().and_then(own);
    known.or(whole.then_some(card.used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Epoch, JobId, JobNumber};

    fn attempt(number: u32) -> AttemptName {
        AttemptName { job: JobId { year: 2026, number: JobNumber(number) }, epoch: Epoch(u64::from(number)) }
    }

    fn holder(of: u32, used: Option<u64>) -> HolderSeen {
        HolderSeen { pid: 1, used: used.map(Megabytes), attempt: Some(attempt(of)), ..HolderSeen::default() }
    }

    fn card(uuid: &str, holders: Vec<HolderSeen>, load: u32) -> CardSeen {
        CardSeen {
            uuid: uuid.to_owned(),
            used: Megabytes(900),
            holders: Some(holders),
            load: Some(load),
            ..CardSeen::default()
        }
    }

    fn held(of: u32, uuid: &str, whole: bool) -> Held {
        Held { attempt: attempt(of), uuid: uuid.to_owned(), whole }
    }

    #[test]
    fn each_attempt_has_its_own_part() {
        let holders = vec![holder(1, Some(100)), holder(1, Some(50)), holder(2, Some(300))];
        let sample =
            Sample { cards: vec![card("a", holders, 40), card("b", vec![], 20)], ..Sample::default() };
        let seen = of_attempts(&sample, [held(1, "a", false), held(2, "a", false), held(2, "b", false)]);
        assert_eq!((seen[0].memory(), seen[0].load()), (Some(Megabytes(150)), Some(40.0)));
        assert_eq!((seen[1].memory(), seen[1].load()), (Some(Megabytes(300)), Some(30.0)));
    }

    #[test]
    fn what_is_not_measured_is_unknown_and_not_zero() {
        let sample = Sample { cards: vec![card("a", vec![holder(1, None)], 40)], ..Sample::default() };
        let seen = of_attempts(&sample, [held(1, "a", false), held(2, "a", true), held(2, "gone", true)]);
        assert_eq!((seen[0].memory(), seen[0].load()), (None, Some(40.0)));
        assert_eq!((seen[1].memory(), seen[1].load()), (None, None));
        let whole = of_attempts(&sample, [held(1, "a", true)]);
        assert_eq!(whole[0].memory(), Some(Megabytes(900)));
    }
}
