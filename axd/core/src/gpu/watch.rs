//! Jobs that use more of a card than their slice, where the driver does not limit them: warned of at once, and ended
//! if it lasts. Only memory that the driver attributes to single processes counts. So no job is ended that kept to
//! its slice, or for what a neighbour uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{AttemptName, HostName};
use crate::size::Megabytes;
use crate::time::{BootTime, Span};

use super::{CardSeen, Grant, Sample};

/// A job that goes up and down around its slice is warned of this often at most.
const WARN_AGAIN: Span = Span::seconds(60);

/// How much is too much, and how long is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Memory beyond the slice that is tolerated.
    pub tolerance: Megabytes,
    /// A job is ended after this many samples in a row; `None`: it is only warned of.
    pub samples: Option<u32>,
}

/// An attempt with slices that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// The attempt.
    pub attempt: AttemptName,
    /// Its slices, by the card's number on the node.
    pub slices: Vec<(u32, Grant)>,
}

/// What to do about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The attempt.
    pub attempt: AttemptName,
    /// In words with numbers: `used 31.2 GB of a 20 GB slice on gpu-01 card 3 for 4 s`.
    pub words: String,
    /// The most that it used of the card.
    pub peak: Megabytes,
    /// True if it is to be ended, false if it is only warned of.
    pub ends: bool,
}

/// A stretch of samples in which an attempt used too much of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    since: BootTime,
    samples: u32,
    peak: Megabytes,
}

/// What is remembered between samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    over: BTreeMap<(AttemptName, String), Stretch>,
    warned: BTreeMap<(AttemptName, String), BootTime>,
    /// Attempts that are being ended: reported once.
    ended: BTreeSet<AttemptName>,
}

impl Watch {
    /// Takes in a sample. A card that is missing in it says nothing about the attempts on it.
    pub fn look(
        &mut self,
        now: BootTime,
        node: &HostName,
        sample: &Sample,
        watched: &[Watched],
        rules: Rules,
    ) -> Vec<Finding> {
        let living: BTreeSet<AttemptName> = watched.iter().map(|each| each.attempt).collect();
        self.over.retain(|(attempt, _), _| living.contains(attempt));
        self.warned.retain(|(attempt, _), _| living.contains(attempt));
        self.ended.retain(|attempt| living.contains(attempt));
        let mut findings = Vec::new();
        for each in watched {
            for (number, grant) in &each.slices {
                let Some(card) = sample.cards.iter().find(|card| card.uuid == grant.uuid) else { continue };
                let place = format!("{node} card {number}");
                findings.extend(self.look_at(now, &place, card, each.attempt, grant, rules));
            }
        }
        findings
    }

    fn look_at(
        &mut self,
        now: BootTime,
        place: &str,
        card: &CardSeen,
        attempt: AttemptName,
        grant: &Grant,
        rules: Rules,
    ) -> Option<Finding> {
        let key = (attempt, grant.uuid.clone());
        let used = used_by(card, attempt);
        if used <= grant.mem + rules.tolerance {
            self.over.remove(&key);
            return None;
        }
        let begun = Stretch { since: now, samples: 0, peak: Megabytes::ZERO };
        let stretch = self.over.entry(key.clone()).or_insert(begun);
        stretch.samples = stretch.samples.saturating_add(1);
        stretch.peak = stretch.peak.max(used);
        let peak = stretch.peak;
        let (most, slice) = (peak.of_card(), grant.mem.of_card());
        let ends = rules.samples.is_some_and(|enough| stretch.samples >= enough);
        let lasted = (now - stretch.since).0.div_ceil(1000);
        if ends {
            let words = format!("used {most} of a {slice} slice on {place} for {lasted} s");
            return self.ended.insert(attempt).then_some(Finding { attempt, words, peak, ends });
        }
        let warned = self.warned.get(&key).is_some_and(|at| now - *at < WARN_AGAIN);
        if warned || self.ended.contains(&attempt) {
            return None;
        }
        self.warned.insert(key, now);
        Some(Finding { attempt, words: format!("uses {most} of a {slice} slice on {place}"), peak, ends })
    }
}

/// What the processes of an attempt hold of a card, as far as the driver says.
pub fn used_by(card: &CardSeen, attempt: AttemptName) -> Megabytes {
    card.listed()
        .iter()
        .filter(|holder| holder.attempt == Some(attempt))
        .filter_map(|holder| holder.used)
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gpu::HolderSeen;

    const RULES: Rules = Rules { tolerance: Megabytes(100), samples: Some(3) };

    fn name(number: u32) -> AttemptName {
        format!("ax-2026-{number:04}.{number}").parse().unwrap()
    }

    fn holder(attempt: Option<AttemptName>, used: Option<u64>) -> HolderSeen {
        HolderSeen {
            pid: 1,
            start_ticks: Some(1),
            used: used.map(Megabytes),
            attempt,
            ..HolderSeen::default()
        }
    }

    fn sample(uses: &[(Option<AttemptName>, Option<u64>)]) -> Sample {
        let holders = uses.iter().map(|(attempt, used)| holder(*attempt, *used)).collect();
        Sample {
            cards: vec![CardSeen { uuid: "GPU-a".to_owned(), holders: Some(holders), ..CardSeen::default() }],
            ..Sample::default()
        }
    }

    fn watched(number: u32, slice: u64) -> Watched {
        let grant = Grant { uuid: "GPU-a".to_owned(), mem: Megabytes(slice) };
        Watched { attempt: name(number), slices: vec![(3, grant)] }
    }

    fn look(watch: &mut Watch, second: u64, sample: &Sample, all: &[Watched]) -> Vec<(bool, String)> {
        let node = "gpu-01".parse().unwrap();
        let findings = watch.look(BootTime(second * 1000), &node, sample, all, RULES);
        findings.into_iter().map(|finding| (finding.ends, finding.words)).collect()
    }

    #[test]
    fn who_uses_too_much_is_warned_of_at_once_and_ended_when_it_lasts() {
        let (mut watch, all) = (Watch::default(), [watched(1, 20_000), watched(2, 20_000)]);
        let lies = sample(&[
            (Some(name(1)), Some(20_000)),
            (Some(name(1)), Some(9_800)),
            (Some(name(2)), Some(20_100)),
        ]);
        let warned = vec![(false, "uses 31.2 GB of a 21 GB slice on gpu-01 card 3".to_owned())];
        assert_eq!(look(&mut watch, 10, &lies, &all), warned);
        assert_eq!(look(&mut watch, 12, &lies, &all), []);
        let ended = vec![(true, "used 31.2 GB of a 21 GB slice on gpu-01 card 3 for 4 s".to_owned())];
        assert_eq!(look(&mut watch, 14, &lies, &all), ended);
        assert_eq!(look(&mut watch, 15, &lies, &all), [], "said once");
        assert_eq!(look(&mut watch, 16, &lies, &all[1..]), []);
        assert_eq!(watch, Watch::default(), "nothing is remembered of who is gone");
    }

    #[test]
    fn a_spike_is_warned_of_and_forgiven() {
        let (mut watch, all) = (Watch::default(), [watched(1, 20_000)]);
        let (much, little) =
            (sample(&[(Some(name(1)), Some(30_000))]), sample(&[(Some(name(1)), Some(20_100))]));
        let mut said = Vec::new();
        for second in 0..59 {
            let now = if second % 3 == 2 { &little } else { &much };
            said.extend(look(&mut watch, second, now, &all));
        }
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(!said[0].0);
        assert_eq!(look(&mut watch, 60, &much, &all).len(), 1, "and again after a while");
    }

    #[test]
    fn what_the_driver_does_not_say_is_held_against_nobody() {
        let (mut watch, all) = (Watch::default(), [watched(1, 20_000)]);
        let unknown = sample(&[(Some(name(1)), None), (None, Some(50_000)), (Some(name(2)), Some(50_000))]);
        for second in 0..10 {
            assert_eq!(look(&mut watch, second, &unknown, &all), []);
        }
    }

    #[test]
    fn a_sample_that_lacks_the_card_neither_counts_nor_forgives() {
        let (mut watch, all) = (Watch::default(), [watched(1, 20_000)]);
        let much = sample(&[(Some(name(1)), Some(30_000))]);
        assert_eq!(look(&mut watch, 1, &much, &all).len(), 1);
        for second in 2..9 {
            assert_eq!(look(&mut watch, second, &Sample::default(), &all), []);
        }
        assert_eq!(look(&mut watch, 9, &much, &all), []);
        assert!(look(&mut watch, 10, &much, &all)[0].0);
    }

    #[test]
    fn without_a_number_of_samples_nobody_is_ended() {
        let (mut watch, node) = (Watch::default(), "gpu-01".parse().unwrap());
        let (much, rules) = (sample(&[(Some(name(1)), Some(30_000))]), Rules { samples: None, ..RULES });
        let all = [watched(1, 20_000)];
        let ended =
            (0..50).any(|at| watch.look(BootTime(at), &node, &much, &all, rules).iter().any(|f| f.ends));
        assert!(!ended);
    }

    /// One attempt's processes in a sample: how much each has, and whether the driver says so.
    fn any_use() -> impl Strategy<Value = Vec<(u64, bool)>> {
        proptest::collection::vec((0_u64..30_000, any::<bool>()), 0..4)
    }

    proptest! {
        /// An attempt that is ended was over its slice in each of its last samples, by what it really used.
        #[test]
        fn nobody_is_ended_who_was_within_their_slice(
            history in proptest::collection::vec((any_use(), any_use(), any::<bool>()), 1..30),
        ) {
            let (mut watch, all) = (Watch::default(), [watched(1, 40_000), watched(2, 40_000)]);
            let mut seen: Vec<[u64; 2]> = Vec::new();
            for (at, (first, second, there)) in history.iter().enumerate() {
                let mut uses = vec![(None, Some(70_000))];
                for (number, processes) in [(1, first), (2, second)] {
                    let said = |(used, says): &(u64, bool)| (Some(name(number)), says.then_some(*used));
                    uses.extend(processes.iter().map(said));
                }
                let now = if *there { sample(&uses) } else { Sample::default() };
                if *there {
                    seen.push([first, second].map(|all| all.iter().map(|(used, _)| used).sum()));
                }
                let node = "gpu-01".parse().unwrap();
                for finding in watch.look(BootTime(at as u64 * 1000), &node, &now, &all, RULES) {
                    let which = usize::from(finding.attempt == name(2));
                    let needed = if finding.ends { 3 } else { 1 };
                    let last = seen.iter().rev().take(needed);
                    prop_assert!(last.clone().count() == needed && last.clone().all(|used| used[which] > 40_100));
                }
            }
        }
    }
}
