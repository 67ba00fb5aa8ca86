//! What jobs of the same kind took: the last runs of each thing that a user submits again and again, and what a new
//! one is planned and charged with after them.
//!
//! Only runs that succeeded teach: one that failed, was ended or was lost says how far it came, not how long it takes.
//! What is remembered is bounded for each user and each thing, and depends on nothing but the runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::Uid;
use crate::job::request::CardRequest;
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// A length is learnt from so many runs: the last ones.
pub const LENGTHS: usize = 2;
/// The peaks of so many runs are remembered.
pub const PEAKS: usize = 20;
/// Of fewer runs nobody takes a peak for usual.
pub const LEAST_PEAKS: usize = 3;
/// So many things of a user are remembered; the one that ended longest ago goes first.
pub const THINGS: usize = 128;

/// No run is planned shorter.
const SHORTEST: Span = Span::seconds(1);

/// What a user submits as the same thing: its name, or the command that nobody named, without the numbers at its end,
/// the cards it asks for and, if there are several, its nodes. A number that comes out the same on every machine; of
/// two users equal numbers have nothing to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Signature(pub u64);

impl Signature {
    /// Of a submission; what has no name is not known to be the same as anything.
    pub fn of(name: &str, cards: Option<&CardRequest>) -> Signature {
        Signature::called(name).with(cards)
    }

    /// Of a name, or of a command.
    pub fn called(name: &str) -> Signature {
        if name.is_empty() {
            return Signature::default();
        }
        let mut hash = Hash::new();
        hash.text(stem(name));
        // Nought is that of jobs that were recorded before there were any.
        Signature(hash.0.max(1))
    }

    /// The same with such cards.
    #[must_use]
    pub fn with(self, cards: Option<&CardRequest>) -> Signature {
        if self.is_unknown() {
            return self;
        }
        self.and(&bytes_of_cards(cards))
    }

    /// The same on so many nodes: on one it is what it is.
    #[must_use]
    pub fn on(self, nodes: u32) -> Signature {
        if self.is_unknown() { self } else { self.and(&bytes_of_nodes(nodes)) }
    }

    fn and(self, bytes: &[u8]) -> Signature {
        let mut hash = Hash(self.0);
        bytes.iter().for_each(|byte| hash.byte(*byte));
        Signature(hash.0.max(1))
    }

    /// What it is on any cards and nodes, of one on these: jobs, of which there are many, needn't keep that beside it.
    #[must_use]
    pub fn without(self, cards: Option<&CardRequest>, nodes: u32) -> Signature {
        if self.is_unknown() {
            return self;
        }
        let bytes = [bytes_of_cards(cards), bytes_of_nodes(nodes)].concat();
        let mut hash = Hash(self.0);
        bytes.iter().rev().for_each(|byte| hash.take_back(*byte));
        Signature(hash.0.max(1))
    }

    /// Whether nobody knows it.
    pub fn is_unknown(&self) -> bool {
        *self == Signature::default()
    }
}

fn bytes_of_cards(cards: Option<&CardRequest>) -> Vec<u8> {
    let Some(CardRequest { count, kind, slice }) = cards else { return Vec::new() };
    let mut bytes = u64::from(*count).to_le_bytes().to_vec();
    bytes.extend(kind.as_deref().unwrap_or_default().bytes().chain([0xff]));
    bytes.extend(slice.map_or(0, |slice| slice.0).to_le_bytes());
    bytes
}

fn bytes_of_nodes(nodes: u32) -> Vec<u8> {
    if nodes > 1 { u64::from(nodes).to_le_bytes().to_vec() } else { Vec::new() }
}

/// FNV-1a: short, and the same everywhere and for ever. Whoever makes two of their own things collide harms themselves.
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    /// The hash before this byte: an odd factor can be taken back.
    fn take_back(&mut self, byte: u8) {
        self.0 = self.0.wrapping_mul(0xce96_5057_aff6_957b) ^ u64::from(byte);
    }

    fn text(&mut self, text: &str) {
        text.bytes().chain([0xff]).for_each(|byte| self.byte(byte));
    }
}

/// A name without its ending, such as `.sh`, and the numbers before that with what separates them: `train-03`,
/// `train-04.sh` and `train` are the same. A name that is nothing but a number is itself.
fn stem(name: &str) -> &str {
    let ending = |text: &str| (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphabetic());
    let whole = match name.rsplit_once('.') {
        Some((before, after)) if ending(after) && !before.is_empty() => before,
        _ => name,
    };
    let short = whole.trim_end_matches(|c: char| c.is_ascii_digit() || "-_.#[](), ".contains(c));
    if short.is_empty() { name } else { short }
}

/// The last runs of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Runs {
    /// How long they took, the last one last.
    lengths: Vec<Span>,
    /// The most memory that they used on one card, the last one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    peaks: Vec<Megabytes>,
    /// When the last one ended.
    last: WallTime,
}

impl Runs {
    /// How long the next one takes: the mean of the last two.
    pub fn length(&self) -> Option<Span> {
        let sum: u64 = self.lengths.iter().map(|length| length.0).fold(0, u64::saturating_add);
        (self.lengths.len() == LENGTHS).then(|| Span(sum / LENGTHS as u64).max(SHORTEST))
    }

    /// What they used of a card: the 95th percentile of the peaks.
    pub fn peak(&self) -> Option<Megabytes> {
        let mut peaks = self.peaks.clone();
        peaks.sort_unstable();
        let rank = (peaks.len() * 95).div_ceil(100);
        peaks.get(rank.checked_sub(1)?).copied().filter(|_| peaks.len() >= LEAST_PEAKS)
    }

    /// What the next one is charged on cards of these sizes: a twentieth more than the peak, so that a run that uses a
    /// little more harms no neighbour. Where the peak fits on a card that is not enough for that, all of that card is:
    /// there are no neighbours then. Nothing if the peak is more than any card has.
    pub fn memory(&self, cards: impl Iterator<Item = Megabytes>) -> Option<Megabytes> {
        let peak = self.peak()?;
        let least = cards.filter(|card| *card >= peak).min()?;
        Some(Megabytes(peak.0.saturating_mul(105).div_ceil(100)).min(least))
    }

    /// Of how many runs the peaks are known.
    pub fn measured(&self) -> usize {
        self.peaks.len()
    }

    /// When the last one ended.
    pub fn last(&self) -> WallTime {
        self.last
    }

    fn add(&mut self, run: &Run) {
        push(&mut self.lengths, run.length, LENGTHS);
        if let Some(peak) = run.peak {
            push(&mut self.peaks, peak, PEAKS);
        }
        self.last = self.last.max(run.ended);
    }
}

fn push<T>(list: &mut Vec<T>, new: T, most: usize) {
    list.push(new);
    let over = list.len().saturating_sub(most);
    list.drain(..over);
}

/// One run that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// From its start to its end, with what earlier attempts had done and kept.
    pub length: Span,
    /// The most memory that it was seen to use on one of its cards.
    pub peak: Option<Megabytes>,
    /// When it ended.
    pub ended: WallTime,
}

/// The last runs of all things of all users.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(BTreeMap<Uid, BTreeMap<Signature, Runs>>);

impl History {
    /// What is known of a user's thing.
    pub fn of(&self, user: Uid, thing: Signature) -> Option<&Runs> {
        self.0.get(&user)?.get(&thing)
    }

    /// A run of a user's thing has succeeded.
    pub fn add(&mut self, user: Uid, thing: Signature, run: &Run) {
        if thing.is_unknown() {
            return;
        }
        let own = self.0.entry(user).or_default();
        own.entry(thing).or_default().add(run);
        bound(own);
    }

    /// What was written down of a user's thing is known again, after a restart.
    pub fn restore(&mut self, user: Uid, thing: Signature, runs: Runs) {
        let own = self.0.entry(user).or_default();
        own.insert(thing, runs);
        bound(own);
    }

    /// All of it, by user and thing.
    pub fn iter(&self) -> impl Iterator<Item = (Uid, Signature, &Runs)> {
        self.0.iter().flat_map(|(user, own)| own.iter().map(|(thing, runs)| (*user, *thing, runs)))
    }
}

/// Whose last run is the longest ago goes; of equals the one with the least signature.
fn bound(own: &mut BTreeMap<Signature, Runs>) {
    while own.len() > THINGS {
        let oldest = own.iter().min_by_key(|(thing, runs)| (runs.last, **thing)).map(|(thing, _)| *thing);
        let Some(oldest) = oldest else { return };
        own.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(length: u64, peak: Option<u64>, ended: i64) -> Run {
        Run { length: Span(length), peak: peak.map(Megabytes), ended: WallTime(ended) }
    }

    #[test]
    fn numbers_at_the_end_and_endings_do_not_make_another_thing() {
        for (name, other, same) in [
            ("train-03", "train-04", true),
            ("train.sh", "train_12.sh", true),
            ("train", "train(7)", true),
            ("7", "8", false),
            ("train", "test", false),
            ("v2-train", "v3-train", false),
            ("a.b", "a", true),
            (".sh", "", false),
        ] {
            assert_eq!(Signature::of(name, None) == Signature::of(other, None), same, "{name} and {other}");
        }
    }

    #[test]
    fn a_command_is_a_thing_as_a_name_is() {
        let called = Signature::called("python train.py --seed 3");
        assert_eq!(called, Signature::called("python train.py --seed 4"));
        assert_ne!(called, Signature::called("python test.py --seed 3"));
        assert_eq!(Signature::of("train", None), Signature::called("train").with(None));
        assert!(
            Signature::called("").with(Some(&CardRequest { count: 1, kind: None, slice: None })).is_unknown()
        );
    }

    #[test]
    fn who_asks_for_other_cards_does_something_else() {
        let cards = |count, kind: Option<&str>, slice: Option<u64>| CardRequest {
            count,
            kind: kind.map(str::to_owned),
            slice: slice.map(Megabytes),
        };
        let all = [
            None,
            Some(cards(1, None, None)),
            Some(cards(2, None, None)),
            Some(cards(1, Some("a100"), None)),
            Some(cards(1, None, Some(8000))),
            Some(cards(1, None, Some(9000))),
        ];
        let all: std::collections::BTreeSet<Signature> =
            all.iter().map(|cards| Signature::of("train", cards.as_ref())).collect();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn what_cards_and_nodes_add_to_a_signature_can_be_taken_back() {
        let thing = Signature::called("train");
        let some = CardRequest { count: 2, kind: Some("a100".to_owned()), slice: Some(Megabytes(7)) };
        for cards in [None, Some(&some), Some(&CardRequest { count: 1, kind: None, slice: None })] {
            for nodes in [1, 2, 300] {
                assert_eq!(thing.with(cards).on(nodes).without(cards, nodes), thing, "{cards:?} {nodes}");
            }
        }
        assert!(Signature::default().without(Some(&some), 2).is_unknown());
    }

    #[test]
    fn a_signature_is_the_same_for_ever() {
        let train = Signature::of("train", None);
        assert_eq!(train, Signature(14_697_005_218_476_546_050));
        assert_eq!(train.on(1), train);
        assert!(train.on(2) != train && train.on(3) != train.on(2));
        assert_eq!(Signature::of("", None).on(2), Signature::default());
    }

    #[test]
    fn a_length_is_the_mean_of_the_last_two() {
        let mut runs = Runs::default();
        runs.add(&run(1000, None, 0));
        assert_eq!(runs.length(), None, "one run is no habit");
        runs.add(&run(3000, None, 1));
        assert_eq!(runs.length(), Some(Span(2000)));
        runs.add(&run(9000, None, 2));
        assert_eq!(runs.length(), Some(Span(6000)));
        for _ in 0..2 {
            runs.add(&run(0, None, 3));
        }
        assert_eq!(runs.length(), Some(SHORTEST));
    }

    #[test]
    fn memory_is_a_little_more_than_the_usual_peak_of_three_runs_or_more() {
        let mut runs = Runs::default();
        for peak in [100, 300] {
            runs.add(&run(1, Some(peak), 0));
        }
        runs.add(&run(1, None, 0));
        let on = |cards: &[u64]| cards.iter().copied().map(Megabytes).collect::<Vec<_>>().into_iter();
        assert_eq!(runs.memory(on(&[1000])), None);
        runs.add(&run(1, Some(200), 0));
        assert_eq!(runs.memory(on(&[1000, 400])), Some(Megabytes(315)));
        assert_eq!(runs.memory(on(&[1000, 310, 200])), Some(Megabytes(310)), "it fits there, alone");
        assert_eq!(runs.memory(on(&[1000, 299])), Some(Megabytes(315)));
        assert_eq!(runs.memory(on(&[200])), None);
        for _ in 0..19 {
            runs.add(&run(1, Some(100), 0));
        }
        assert_eq!(runs.memory(on(&[1000])), Some(Megabytes(105)), "one of twenty is an exception");
        assert_eq!(runs.measured(), PEAKS);
    }

    #[test]
    fn what_ended_longest_ago_is_forgotten_first() {
        let mut history = History::default();
        for thing in 1..=THINGS as u64 + 1 {
            let ended = if thing == 5 { -1 } else { thing as i64 };
            history.add(Uid(1), Signature(thing), &run(1, None, ended));
        }
        history.add(Uid(2), Signature(5), &run(1, None, -1));
        assert!(history.of(Uid(1), Signature(5)).is_none() && history.of(Uid(2), Signature(5)).is_some());
        assert_eq!(history.iter().count(), THINGS + 1);
        history.add(Uid(1), Signature(0), &run(1, None, 0));
        assert!(history.of(Uid(1), Signature(0)).is_none(), "of an unknown thing nothing is learnt");
    }
}
