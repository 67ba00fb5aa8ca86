//! What a waiting job could ask for instead to start at once: the cheapest
//! change of a single thing.
//!
//! A change counts only if it was tried: it is put into a copy of the
//! controller, the next pass is made there, and the job starts in it. Of
//! each amount the search finds the least reduction that does. Steps are those in
//! which people write: whole minutes (seconds, of a minute), whole gigabytes of
//! host memory (megabytes, of one), tenths of a gigabyte of a card, CPUs, cards.
//!
//! The cheapest change is the one that gives up the least part of what was asked
//! for: (before − after) / before, compared exactly. Another queue and another
//! type of card give up nothing. Among equals the order is queue, time, type,
//! memory of cards, host memory, CPUs, cards; among queues that of the
//! configuration, among types "any" first, then by name.
//!
//! How the search is exact without trying every step: what a pass finds when it
//! looks at the job does not depend on how much the job asks for, except through
//! its rank where the order is by area. Steps that give the job the same rank are
//! therefore one class. For the largest step of a class a pass is made, and how
//! things stood when it looked at the job is kept; the largest step of the class
//! that fits there is found by halving, since what fits still fits when it asks
//! for less, and is tried in its turn.

mod remedy;

use serde::{Deserialize, Serialize};

use crate::config::{Queue, QueueState};
use crate::controller::{Controller, Look};
use crate::id::{HostName, JobNumber};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::Allocation;
use crate::schedule::timeline::Timeline;
use crate::size::Megabytes;
use crate::time::{Now, Span};

pub use remedy::Remedy;
use remedy::{AMOUNTS, Price, Scale, Whole};

/// So many passes are made for one amount at most. Where the order is by area there may be a class for each waiting job,
/// and whoever asks is not to keep the others waiting.
const PASSES: u32 = 40;

/// With what a waiting job would start at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The cheapest change; absent: no single one helps.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
    /// The same as it is typed: `--mem 30`.
    pub option: Option<String>,
    /// Where it would start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<HostName>,
    /// On which of its cards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<u32>,
    /// In words: `with --mem 30 at once on gpu-02 card 3`.
    pub text: String,
}

impl Advice {
    fn nothing() -> Advice {
        let text = "no single change of what it asks for would start it at once".to_owned();
        Advice { remedy: None, option: None, node: None, cards: Vec::new(), text }
    }

    fn of(remedy: Remedy, job: &Job, given: &Allocation) -> Advice {
        let cards: Vec<u32> = given.cards.iter().map(|card| card.index).collect();
        let numbers = cards.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let on = match cards.len() {
            0 => String::new(),
            1 => format!(" card {numbers}"),
            _ => format!(" cards {numbers}"),
        };
        let option = remedy.option(job.request.cards.as_ref());
        let any = if remedy == Remedy::Kind(None) { " (of any type)" } else { "" };
        let text = format!("with {option}{any} at once on {}{on}", given.node);
        Advice { remedy: Some(remedy), option: Some(option), node: Some(given.node.clone()), cards, text }
    }
}

impl Controller {
    /// The cheapest single change with which a waiting job would start in the next pass. `may_use` says which queues its
    /// owner may use. Nothing for a job that waits for something of its own, that others are being ended for, or that
    /// starts as it is.
    pub fn advise(&self, now: Now, number: JobNumber, may_use: &dyn Fn(&Queue) -> bool) -> Option<Advice> {
        let job = self.job(number).filter(|job| job.state == JobState::Ready)?;
        let search = Search { copy: self.sketch_with(number), now, job };
        if search.copy.claim_of(number).is_some() || search.tried(job).is_some() {
            return None;
        }
        let mut found = search.queues(may_use);
        // No change of amounts opens a queue.
        if self.config().queue(job.queue.as_str()).is_some_and(|queue| self.may_start(queue)) {
            found.extend(search.kinds());
            found.extend(AMOUNTS.into_iter().filter_map(|amount| {
                let scale = Scale::of(amount, job, search.whole())?;
                search.least(&scale)
            }));
        }
        let cheapest = found.into_iter().min_by(|a, b| Price::order(&a.0, &b.0));
        let advice = cheapest.map(|((_, remedy), given)| Advice::of(remedy, job, &given));
        Some(advice.unwrap_or_else(Advice::nothing))
    }
}

/// A change that helps, with its price and what the job would be given.
type Found = ((Price, Remedy), Allocation);

struct Search<'a> {
    copy: Controller,
    now: Now,
    job: &'a Job,
}

impl Search<'_> {
    fn with(&self, remedy: &Remedy) -> Job {
        let mut job = self.job.clone();
        remedy.apply(&mut job);
        job
    }

    fn tried(&self, job: &Job) -> Option<Allocation> {
        self.copy.try_with(self.now, job.clone()).given
    }

    fn try_free(&self, remedy: Remedy) -> Option<Found> {
        let given = self.tried(&self.with(&remedy))?;
        Some(((Price::NOTHING, remedy), given))
    }

    /// Other queues that take the job and start something.
    fn queues(&self, may_use: &dyn Fn(&Queue) -> bool) -> Vec<Found> {
        let fits = |queue: &&Queue| {
            let limit = self.job.request.time_limit;
            let short = queue.max_time.is_none_or(|max| limit.is_some_and(|limit| limit <= max));
            queue.name != self.job.queue
                && queue.state == QueueState::Open
                && self.copy.may_start(queue)
                && short
                && may_use(queue)
        };
        let others = self.copy.config().queues.iter().filter(fits);
        others.filter_map(|queue| self.try_free(Remedy::Queue(queue.name.clone()))).take(1).collect()
    }

    /// Other types of cards.
    fn kinds(&self) -> Vec<Found> {
        let Some(wanted) = &self.job.request.cards else { return Vec::new() };
        let cards = self.copy.nodes().flat_map(|node| &node.inventory.cards);
        let mut kinds: Vec<Option<String>> = cards.map(|card| card.kind.clone()).collect();
        kinds.push(None);
        kinds.sort();
        kinds.dedup();
        // Who takes any type already has no other.
        let others = kinds.into_iter().filter(|kind| wanted.kind.is_some() && *kind != wanted.kind);
        others.filter_map(|kind| self.try_free(Remedy::Kind(kind))).take(1).collect()
    }

    fn whole(&self) -> Whole {
        let kind = self.job.request.cards.as_ref().and_then(|wanted| wanted.kind.as_deref());
        let nodes = self.copy.nodes().filter(|node| node.inventory.admits(&self.job.request));
        let cards = nodes.flat_map(|node| node.inventory.cards_of(kind)).map(|card| card.mem);
        let length: Span = self.copy.config().policy.unplanned();
        Whole { card: cards.max().unwrap_or(Megabytes::ZERO), length }
    }

    /// The least reduction of an amount with which the job starts.
    fn least(&self, scale: &Scale) -> Option<Found> {
        let mut most = largest(1, scale.most, |steps| self.has_room(&self.with(&scale.remedy(steps))))?;
        for _ in 0..PASSES {
            let remedy = scale.remedy(most);
            let job = self.with(&remedy);
            let trial = self.copy.try_with(self.now, job.clone());
            if let Some(given) = trial.given {
                return Some(((scale.price(most), remedy), given));
            }
            // What the pass did with this step it did with all of the class.
            let rank = self.copy.before(&job);
            let same = |steps| self.copy.before(&self.with(&scale.remedy(steps))) == rank;
            let others = largest(1, most, |steps| !same(steps)).unwrap_or(0);
            let fits = |look: &Look, steps: u64| look.has_room(&self.copy, &self.with(&scale.remedy(steps)));
            let of_look = |look: &Look| largest(others + 1, most - 1, |steps| fits(look, steps));
            most = match trial.looks.iter().filter_map(of_look).max() {
                Some(next) => next,
                None => others,
            };
            if most == 0 {
                return None;
            }
        }
        None
    }

    /// Whether a job fits beside what is given out, if nobody had a place kept: without that no pass can start it.
    fn has_room(&self, job: &Job) -> bool {
        let (nodes, nothing) = (self.copy.all_nodes(), Timeline::new(self.now.wall));
        self.copy.rules().place(nodes, &nothing, &job.request, self.now.wall, Span::ZERO).is_some()
    }
}

impl Look {
    fn has_room(&self, controller: &Controller, job: &Job) -> bool {
        let (now, length) = (self.timeline.now(), controller.planned(job));
        controller.rules().place(&self.nodes, &self.timeline, &job.request, now, length).is_some()
    }
}

/// The largest number from `least` to `most` of which something holds that holds of all that are smaller, if of any.
fn largest(least: u64, most: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if least > most || !holds(least) {
        return None;
    }
    let (mut yes, mut no) = (least, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle) { yes = middle } else { no = middle }
    }
    Some(yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_largest() {
        for bound in 0..=9 {
            let found = largest(1, 9, |n| n <= bound);
            assert_eq!(found, (bound > 0).then_some(bound));
        }
        assert_eq!(largest(3, 2, |_| true), None);
    }
}
