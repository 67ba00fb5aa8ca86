//! Since when the cards of attempts do nothing: no kernel runs on any of them, and the attempt's memory does not
//! change. A card that is not measured is never idle. This module only counts; the controller decides what follows.

use std::collections::BTreeMap;

use crate::controller::Event;
use crate::id::AttemptName;
use crate::size::Megabytes;
use crate::time::{BootTime, Span};

use super::seen::AttemptSeen;

/// After a longer pause between two looks it is not known what happened in between.
pub(crate) const LONGEST_PAUSE: Span = Span::seconds(30);

/// The time for which one attempt's cards have done nothing.
#[derive(Debug, Clone)]
struct Stretch {
    since: BootTime,
    seen: BootTime,
    memory: Vec<Megabytes>,
    /// The length that was last told.
    told: Option<Span>,
}

/// Watches all attempts with cards, sample by sample. A restarted daemon starts to count anew.
#[derive(Debug, Clone, Default)]
pub struct IdleWatch {
    stretches: BTreeMap<AttemptName, Stretch>,
}

impl IdleWatch {
    /// Takes in a sample. Returns what to tell: cards that have been idle for `every` or a multiple of it, and cards
    /// that were told to be idle and are idle no longer.
    pub fn look(&mut self, now: BootTime, seen: &[AttemptSeen], every: Span) -> Vec<Event> {
        let mut before = std::mem::take(&mut self.stretches);
        let mut events = Vec::new();
        for attempt in seen {
            let earlier = before.remove(&attempt.attempt);
            let told = earlier.as_ref().is_some_and(|stretch| stretch.told.is_some());
            let quiet = quiet_memory(attempt);
            let goes_on = earlier.filter(|stretch| {
                now - stretch.seen <= LONGEST_PAUSE && quiet.as_ref() == Some(&stretch.memory)
            });
            let stretch = match (goes_on, quiet) {
                (Some(stretch), _) => stretch,
                (None, quiet) => {
                    if told {
                        events.push(Event::CardsBusy { attempt: attempt.attempt });
                    }
                    let Some(memory) = quiet else { continue };
                    Stretch { since: now, seen: now, memory, told: None }
                }
            };
            let lasted = now - stretch.since;
            let due = lasted >= stretch.told.unwrap_or_default() + every;
            if due {
                events.push(Event::CardsIdle { attempt: attempt.attempt, lasted });
            }
            let told = if due { Some(lasted) } else { stretch.told };
            self.stretches.insert(attempt.attempt, Stretch { seen: now, told, ..stretch });
        }
        // An attempt that is not seen any more has ended, or can't be measured any more.
        let lost = before.into_iter().filter(|(_, stretch)| stretch.told.is_some());
        events.extend(lost.map(|(attempt, _)| Event::CardsBusy { attempt }));
        events
    }
}

/// The memory on each card, if all cards were measured and no kernel ran on any.
fn quiet_memory(attempt: &AttemptSeen) -> Option<Vec<Megabytes>> {
    let quiet = |card: &Option<super::seen::OwnCard>| {
        let card = card.as_ref()?;
        card.memory.filter(|_| card.load == Some(0))
    };
    attempt.cards.iter().map(quiet).collect::<Option<Vec<_>>>().filter(|cards| !cards.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::seen::OwnCard;
    use crate::id::{Epoch, JobId, JobNumber};

    const EVERY: Span = Span::seconds(60);

    fn name() -> AttemptName {
        AttemptName { job: JobId { year: 2026, number: JobNumber(1) }, epoch: Epoch(1) }
    }

    fn seen(cards: &[(u64, Option<u32>)]) -> Vec<AttemptSeen> {
        let card = |(memory, load): &(u64, Option<u32>)| {
            Some(OwnCard { uuid: String::new(), memory: Some(Megabytes(*memory)), load: *load })
        };
        vec![AttemptSeen { attempt: name(), cards: cards.iter().map(card).collect() }]
    }

    fn idle(seconds: u64) -> Event {
        Event::CardsIdle { attempt: name(), lasted: Span::seconds(seconds) }
    }

    fn busy() -> Event {
        Event::CardsBusy { attempt: name() }
    }

    /// Looks once a second over this range; returns everything that was told.
    fn over(watch: &mut IdleWatch, seconds: std::ops::Range<u64>, what: &[AttemptSeen]) -> Vec<Event> {
        seconds.flat_map(|second| watch.look(BootTime(second * 1000), what, EVERY)).collect()
    }

    #[test]
    fn it_is_told_once_a_minute_and_when_it_is_over() {
        let mut watch = IdleWatch::default();
        let quiet = seen(&[(500, Some(0)), (0, Some(0))]);
        assert_eq!(over(&mut watch, 0..130, &quiet), [idle(60), idle(120)]);
        assert_eq!(watch.look(BootTime(130_000), &seen(&[(500, Some(0)), (0, Some(3))]), EVERY), [busy()]);
        assert_eq!(over(&mut watch, 131..190, &quiet), []);
    }

    #[test]
    fn a_change_of_memory_on_any_card_is_work() {
        let mut watch = IdleWatch::default();
        over(&mut watch, 0..59, &seen(&[(500, Some(0)), (7, Some(0))]));
        assert_eq!(over(&mut watch, 59..119, &seen(&[(500, Some(0)), (8, Some(0))])), []);
    }

    #[test]
    fn what_is_not_measured_is_never_idle() {
        for cards in [&[(500, None)][..], &[(500, Some(0)), (500, None)]] {
            assert_eq!(over(&mut IdleWatch::default(), 0..300, &seen(cards)), []);
        }
        let hidden = vec![AttemptSeen { attempt: name(), cards: vec![None] }];
        assert_eq!(over(&mut IdleWatch::default(), 0..300, &hidden), []);
        let none = vec![AttemptSeen { attempt: name(), cards: vec![] }];
        assert_eq!(over(&mut IdleWatch::default(), 0..300, &none), []);
    }

    #[test]
    fn nobody_knows_what_was_in_a_long_pause() {
        let mut watch = IdleWatch::default();
        let quiet = seen(&[(500, Some(0))]);
        assert_eq!(over(&mut watch, 0..70, &quiet), [idle(60)]);
        assert_eq!(watch.look(BootTime(110_000), &quiet, EVERY), [busy()]);
        assert_eq!(over(&mut watch, 111..171, &quiet), [idle(60)]);
    }

    #[test]
    fn what_is_no_longer_seen_is_no_longer_idle() {
        let mut watch = IdleWatch::default();
        over(&mut watch, 0..70, &seen(&[(500, Some(0))]));
        assert_eq!(watch.look(BootTime(71_000), &[], EVERY), [busy()]);
        assert_eq!(watch.look(BootTime(72_000), &[], EVERY), []);
    }
}
