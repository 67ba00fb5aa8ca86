//! Which cards do not work, or the driver itself: why, and when to try them again. Pure.

use std::collections::BTreeMap;

use ax_core::time::{BootTime, Span};

/// The longest pause before something is tried again.
const LONGEST_PAUSE: Span = Span::seconds(300);

/// How a card fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ill {
    /// It must not be touched: a call about it does not return.
    Hangs,
    /// It answers with an error, or is gone: it may be asked.
    Fails,
}

/// Something that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sick {
    ill: Ill,
    /// The driver's number, which must not be touched either: the card hung before it had told its UUID.
    number: Option<String>,
    why: String,
    pause: Span,
    again: BootTime,
    /// True while it is being tried again.
    tried: bool,
}

/// Everything that does not work, by name: a card's UUID, or `#` and the driver's number if it does not tell its
/// UUID.
#[derive(Debug, Default)]
pub(super) struct Ward {
    cards: BTreeMap<String, Sick>,
    /// The driver, and so every card.
    driver: Option<Sick>,
}

fn worsen(old: Option<Sick>, ill: Ill, why: &str, first: Span, now: BootTime) -> Sick {
    let pause = old.map_or(first, |old| Span(old.pause.0.saturating_mul(2)).min(LONGEST_PAUSE.max(first)));
    Sick { ill, number: None, why: why.to_owned(), pause, again: now + pause, tried: false }
}

impl Ward {
    /// A card failed; `first` is the first pause. Returns whether that is news.
    pub(super) fn take_card(&mut self, card: &str, ill: Ill, why: &str, first: Span, now: BootTime) -> bool {
        let old = self.cards.remove(card);
        let known = old.as_ref().is_some_and(|old| old.why == why);
        // A card that fails at every look is not tried later because of that.
        let sick = match old {
            Some(old) if ill == Ill::Fails && old.ill == Ill::Fails && !old.tried => {
                Sick { why: why.to_owned(), ..old }
            }
            old => worsen(old, ill, why, first, now),
        };
        self.cards.insert(card.to_owned(), sick);
        !known
    }

    /// A card hung when only this number of it was known.
    pub(super) fn known_as(&mut self, card: &str, number: &str) {
        if let Some(sick) = self.cards.get_mut(card).filter(|_| card != number) {
            sick.number = Some(number.to_owned());
        }
    }

    /// The driver failed. Returns whether that is news.
    pub(super) fn take_driver(&mut self, why: &str, first: Span, now: BootTime) -> bool {
        let old = self.driver.take();
        let known = old.as_ref().is_some_and(|old| old.why == why);
        self.driver = Some(worsen(old, Ill::Hangs, why, first, now));
        !known
    }

    /// A card works. Returns whether that is news.
    pub(super) fn card_is_well(&mut self, card: &str) -> bool {
        self.cards.remove(card).is_some()
    }

    /// The driver works. Returns whether that is news.
    pub(super) fn driver_is_well(&mut self) -> bool {
        self.driver.take().is_some()
    }

    /// All were asked, and these failed. Those that did not and are no `known` cards have another name by now, or are
    /// gone: their names.
    pub(super) fn only(&mut self, failed: &[&str], known: impl Fn(&str) -> bool) -> Vec<String> {
        let well = |name: &String, sick: &Sick| {
            let asked = sick.tried || sick.ill == Ill::Fails;
            !known(name) && asked && !failed.contains(&name.as_str())
        };
        let well: Vec<String> =
            self.cards.iter().filter(|(name, sick)| well(name, sick)).map(|(name, _)| name.clone()).collect();
        well.iter().for_each(|name| drop(self.cards.remove(name)));
        well
    }

    /// True if it is being tried again.
    pub(super) fn is_tried(&self, card: &str) -> bool {
        self.cards.get(card).is_some_and(|sick| sick.tried)
    }

    /// Cards that must not be touched.
    pub(super) fn untouchable(&self) -> Vec<String> {
        let hangs = self.cards.iter().filter(|(_, sick)| sick.ill == Ill::Hangs && !sick.tried);
        hangs.flat_map(|(name, sick)| [Some(name.clone()), sick.number.clone()]).flatten().collect()
    }

    /// When the next is to be tried again. No card is tried before the driver.
    pub(super) fn next_try(&self) -> Option<BootTime> {
        match &self.driver {
            Some(driver) => Some(driver.again),
            None => self.cards.values().filter(|sick| !sick.tried).map(|sick| sick.again).min(),
        }
    }

    /// Starts to try all whose time has come. Returns whether there are any.
    pub(super) fn try_again(&mut self, now: BootTime) -> bool {
        let mut any = self.driver.as_ref().is_some_and(|driver| driver.again <= now);
        for sick in self.cards.values_mut().filter(|sick| sick.again <= now && !sick.tried) {
            sick.tried = true;
            any = true;
        }
        any
    }

    /// How long it was left alone before it was tried; `None`: it was well. A card by its name or number; the driver has
    /// none.
    pub(super) fn pause(&self, card: &str) -> Option<Span> {
        let by_number = || self.cards.values().find(|sick| sick.number.as_deref() == Some(card));
        let sick =
            if card.is_empty() { self.driver.as_ref() } else { self.cards.get(card).or_else(by_number) };
        sick.map(|sick| sick.pause)
    }

    /// Why a card is not fit to be used.
    pub(super) fn why(&self, card: &str) -> Option<&str> {
        let sick = self.cards.get(card).or(self.driver.as_ref());
        sick.map(|sick| sick.why.as_str())
    }

    /// Why no card can be asked.
    pub(super) fn driver(&self) -> Option<&str> {
        self.driver.as_ref().map(|sick| sick.why.as_str())
    }

    /// True if the driver was tried so often that there hardly is one.
    pub(super) fn driver_is_given_up(&self) -> bool {
        self.driver.as_ref().is_some_and(|sick| sick.pause >= LONGEST_PAUSE)
    }

    /// All cards of which something is wrong, with the reason.
    pub(super) fn cards(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cards.iter().map(|(name, sick)| (name.as_str(), sick.why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Span = Span::seconds(5);

    fn at(seconds: u64) -> BootTime {
        BootTime(seconds * 1000)
    }

    #[test]
    fn a_card_that_hangs_is_left_alone_and_tried_with_growing_pauses() {
        let mut ward = Ward::default();
        assert!(ward.take_card("A", Ill::Hangs, "hangs", FIRST, at(0)));
        assert_eq!((ward.untouchable(), ward.next_try()), (vec!["A".to_owned()], Some(at(5))));
        assert!(!ward.try_again(at(4)) && ward.try_again(at(5)));
        assert_eq!((ward.untouchable(), ward.next_try()), (vec![], None));
        assert_eq!(ward.why("A"), Some("hangs"), "not well before it has answered");
        assert!(!ward.take_card("A", Ill::Hangs, "hangs", FIRST, at(10)), "nothing new");
        assert_eq!(ward.next_try(), Some(at(20)));
        for n in 0..20 {
            ward.take_card("A", Ill::Hangs, "hangs", FIRST, at(100 + n));
        }
        assert_eq!(ward.next_try(), Some(at(119 + 300)));
        assert!(ward.card_is_well("A") && !ward.card_is_well("A"));
        assert_eq!((ward.why("A"), ward.next_try()), (None, None));
    }

    #[test]
    fn one_that_fails_is_asked_all_the_same() {
        let mut ward = Ward::default();
        ward.take_card("A", Ill::Fails, "lost", FIRST, at(0));
        ward.take_card("A", Ill::Fails, "lost", FIRST, at(1));
        assert_eq!((ward.untouchable(), ward.next_try()), (vec![], Some(at(5))));
        ward.try_again(at(5));
        ward.take_card("A", Ill::Fails, "lost", FIRST, at(6));
        assert_eq!(ward.next_try(), Some(at(16)), "it was tried in vain");
    }

    #[test]
    fn the_driver_comes_first() {
        let mut ward = Ward::default();
        ward.take_card("A", Ill::Hangs, "hangs", FIRST, at(0));
        ward.take_driver("no driver", FIRST, at(0));
        ward.take_driver("no driver", FIRST, at(5));
        assert_eq!(ward.next_try(), Some(at(15)));
        assert_eq!((ward.why("A"), ward.why("B")), (Some("hangs"), Some("no driver")));
        assert!(ward.driver_is_well());
        assert_eq!((ward.why("B"), ward.driver()), (None, None));
    }

    #[test]
    fn names_of_what_is_no_card_do_not_stay() {
        let mut ward = Ward::default();
        ward.take_card("#1", Ill::Fails, "lost", FIRST, at(0));
        ward.take_card("#2", Ill::Hangs, "hangs", FIRST, at(0));
        ward.take_card("A", Ill::Fails, "lost", FIRST, at(0));
        let known = |name: &str| name == "A";
        assert_eq!(ward.only(&["#1"], known), [""; 0]);
        assert_eq!(ward.only(&[], known), ["#1"]);
        assert_eq!(ward.untouchable(), ["#2"], "it was not asked");
        ward.try_again(at(5));
        assert_eq!(ward.only(&[], known), ["#2"]);
        assert_eq!(ward.only(&[], |_| false), ["A"]);
    }

    #[test]
    fn a_card_that_hangs_before_it_says_its_name_is_left_alone_by_number() {
        let mut ward = Ward::default();
        ward.take_card("A", Ill::Hangs, "hangs", FIRST, at(0));
        ward.known_as("A", "#1");
        assert_eq!(ward.untouchable(), ["A", "#1"]);
        ward.card_is_well("A");
        assert_eq!(ward.untouchable(), [""; 0]);
    }
}
