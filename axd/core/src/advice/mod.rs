//! The cheapest single change with which a waiting job would start at once, found by trying changes on a copy of the
//! controller. Changes nothing itself.

// A change counts only if it was tried: it is put into a copy of the controller, the next pass is made there, and the
// job starts in it. Of each amount the search finds the least reduction that helps. Steps are those in which people
// write: whole minutes (seconds below one), whole gigabytes of host memory (megabytes below one), tenths of a
// gigabyte of a card, CPUs, cards, nodes.
//
// The cheapest change is the one that gives up the least part of what was asked for: (before − after) / before,
// compared exactly. Another queue, another type of card and other features give up nothing. Among equals the order is
// queue, time, type, features, memory of cards, host memory, CPUs, cards, nodes; among queues that of the
// configuration, among types "any" first, then by name.
//
// How the search is exact without trying every step: what a pass finds when it looks at the job depends on how much
// the job asks for only through the job's rank, and only where the order is by area. So all steps that give the job
// the same rank are one class. For the largest step of a class one pass is made, and the state in which it looked at
// the job is kept. The largest step of the class that fits in that state is found by binary search, since what fits
// still fits when it asks for less; that step is then tried.

mod remedy;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::config::{Queue, QueueState};
use crate::controller::{Controller, Look, Trial, UserPlaces};
use crate::hostlist::compress;
use crate::id::{HostName, JobNumber};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::Allocation;
use crate::schedule::timeline::Timeline;
use crate::size::Megabytes;
use crate::time::{Now, Span};

pub use remedy::Remedy;
use remedy::{AMOUNTS, Scale, Whole};

/// At most so many passes are made for one amount. Where the order is by area there may be a class for each waiting
/// job, and one user's question should not delay the others.
const PASSES: u32 = 40;

/// The change with which a waiting job would start at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The cheapest change; `None` if no single one helps.
    #[serde(skip)]
    pub remedy: Option<Remedy>,
    /// The change as a person types it: `--mem 30`.
    pub option: Option<String>,
    /// The node on which it would start, the first of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<HostName>,
    /// The cards on which it would start there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<u32>,
    /// In words: `with --mem 30 at once on gpu-02 card 3`.
    pub text: String,
    /// What to say instead if the job is expected to start anyway: set if the change leaves less than half of what
    /// was asked for.
    #[serde(skip)]
    pub room: Option<String>,
}

impl Advice {
    fn nothing(job: &Job) -> Advice {
        let text = match job.state {
            JobState::Pending => "no shorter --time would start it at once",
            _ => "no single change of what it asks for would start it at once",
        };
        let text = text.to_owned();
        Advice { remedy: None, option: None, node: None, cards: Vec::new(), text, room: None }
    }

    /// The advice for a job that is expected to start as it is: it says how much there is room for, instead of giving
    /// up more than half of what the job asks for.
    #[must_use]
    pub fn to_one_who_starts(self) -> Advice {
        match self.room {
            Some(text) => Advice { option: None, room: None, text, ..self },
            None => self,
        }
    }

    fn of((remedy, given, drastic): &Found, job: &Job) -> Advice {
        let cards: Vec<u32> = match given.as_slice() {
            [one] => one.cards.iter().map(|card| card.index).collect(),
            _ => Vec::new(),
        };
        let hosts = compress(&given.iter().map(|part| part.node.as_str()).collect::<Vec<_>>());
        let numbers = cards.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let on = match cards.len() {
            0 => String::new(),
            1 => format!(" card {numbers}"),
            _ => format!(" cards {numbers}"),
        };
        let option = match job.request.several() {
            None => remedy.option(&job.request),
            Some(_) => remedy.option(&job.request).replacen("--gpus ", "--gpus-per-node ", 1),
        };
        let place = format!("{hosts}{on}");
        let any = if *remedy == Remedy::Kind(None) { " (of any type)" } else { "" };
        let with = match remedy {
            Remedy::AnyFeatures => "without --constraint".to_owned(),
            Remedy::Nodes(_) => format!("with {option}, as much on each,"),
            _ => format!("with {option}{any}"),
        };
        let text = format!("{with} at once on {place}");
        let room = drastic.then(|| format!("at once there is room for {option} at most, on {place}"));
        let (remedy, node) = (Some(remedy.clone()), given.first().map(|part| part.node.clone()));
        Advice { remedy, option: Some(option), node, cards, text, room }
    }
}

impl Controller {
    /// Returns the cheapest single change with which a waiting job would start in the next pass. `may_use` says which
    /// queues its owner may use. `None` for a job that starts as it is, for which others are being ended, or that
    /// waits for something of its own (except that it is too long for what is left of its hours).
    pub fn advise(&self, now: Now, number: JobNumber, may_use: &dyn Fn(&Queue) -> bool) -> Option<Advice> {
        let tried = |job: &&Job| job.state == JobState::Ready || self.is_too_long(job, now);
        let job = self.job(number).filter(tried)?;
        let mut search = Search { controller: self, now, job, copy: None };
        if self.claim_of(number).is_some() || search.try_with(job.clone()).given.is_some() {
            return None;
        }
        let advice = search.cheapest(may_use).map(|found| Advice::of(&found, job));
        Some(advice.unwrap_or_else(|| Advice::nothing(job)))
    }
}

/// A change that helps, what the job would get of each node, and whether that is less than half of what it asks for.
type Found = (Remedy, Vec<Allocation>, bool);

struct Search<'a> {
    controller: &'a Controller,
    now: Now,
    job: &'a Job,
    /// A copy on which changes are tried.
    copy: Option<Controller>,
}

impl Search<'_> {
    fn with(&self, remedy: &Remedy) -> Job {
        let mut job = self.job.clone();
        remedy.apply(&mut job);
        self.controller.get_ready(&mut job, self.now);
        job
    }

    fn try_with(&mut self, job: Job) -> Trial {
        let number = self.job.id.number;
        let mut copy = self.copy.take().unwrap_or_else(|| self.controller.sketch_with(number));
        let trial = copy.try_with(self.now, job);
        self.copy = Some(copy).filter(|_| !trial.decided);
        trial
    }

    /// The cheapest change of all. Changes that give up nothing are tried first, then the amounts, in the order of
    /// the least that each may give up. Amounts that can't be cheaper than the best so far are not tried.
    fn cheapest(&mut self, may_use: &dyn Fn(&Queue) -> bool) -> Option<Found> {
        // If the job is too long for its hours, nothing but a shorter limit helps.
        let in_time = self.job.state == JobState::Ready;
        let queues = if in_time { self.queues(may_use) } else { Vec::new() };
        if let Some(found) = self.first_of(queues) {
            return Some(found);
        }
        // No other change opens a queue, or makes room under its owner's limit.
        self.controller
            .config()
            .queue(self.job.queue.as_str())
            .filter(|queue| self.controller.may_start(queue))
            .filter(|_| self.controller.user_limit(self.job, &UserPlaces::default()).is_none())?;
        let features = self.job.request.features().map(|_| Remedy::AnyFeatures);
        let others = self.kinds().into_iter().chain(features).filter(|_| in_time).collect();
        if let Some(found) = self.first_of(others) {
            return Some(found);
        }
        let mut left = self.amounts();
        left.sort_by(|(a, most), (b, other)| a.compare(*most, b, *other));
        let mut best: Option<(Scale, u64, Vec<Allocation>)> = None;
        for (scale, most) in left {
            if best.as_ref().is_some_and(|(least, steps, _)| least.compare(*steps, &scale, most).is_le()) {
                break;
            }
            let Some((steps, given)) = self.least(&scale, most) else { continue };
            // A limit below the job's estimate is no advice.
            if matches!(scale.remedy(steps), Remedy::Time(limit) if self.job.request.estimate > Some(limit)) {
                continue;
            }
            if best.as_ref().is_none_or(|(least, known, _)| scale.compare(steps, least, *known).is_lt()) {
                best = Some((scale, steps, given));
            }
        }
        best.map(|(scale, steps, given)| (scale.remedy(steps), given, scale.is_drastic(steps)))
    }

    /// The first change that helps.
    fn first_of(&mut self, remedies: Vec<Remedy>) -> Option<Found> {
        remedies.into_iter().find_map(|remedy| {
            let given = self.try_with(self.with(&remedy)).given?;
            Some((remedy, given, false))
        })
    }

    /// Other queues that take the job and start something.
    fn queues(&self, may_use: &dyn Fn(&Queue) -> bool) -> Vec<Remedy> {
        let fits = |queue: &&Queue| {
            let limit = self.job.request.time_limit;
            let short = queue.max_time.is_none_or(|max| limit.is_some_and(|limit| limit <= max));
            queue.name != self.job.queue
                && queue.state == QueueState::Open
                && self.controller.may_start(queue)
                && short
                && self.job.request.priority <= queue.max_priority
                && may_use(queue)
        };
        let others = self.controller.config().queues.iter().filter(fits);
        others.map(|queue| Remedy::Queue(queue.name.clone())).collect()
    }

    /// Other types of cards, first "any". Empty if the job takes any type already.
    fn kinds(&self) -> Vec<Remedy> {
        let wanted = self.job.request.cards.as_ref().and_then(|wanted| wanted.kind.as_ref());
        let Some(wanted) = wanted else { return Vec::new() };
        let cards = self.controller.nodes().flat_map(|node| &node.inventory.cards);
        let others: BTreeSet<&String> =
            cards.filter_map(|card| card.kind.as_ref()).filter(|kind| *kind != wanted).collect();
        let named = others.into_iter().map(|kind| Remedy::Kind(Some(kind.clone())));
        std::iter::once(Remedy::Kind(None)).chain(named).collect()
    }

    /// The amounts that the job can reduce, each with the most steps with which it would fit if no place were kept
    /// for others: with more steps no pass can start it.
    fn amounts(&self) -> Vec<(Scale, u64)> {
        let whole = self.whole();
        let scale = |amount| {
            let scale = Scale::of(amount, self.job, whole)?;
            let most = largest(1, scale.most, |steps| self.has_room(&self.with(&scale.remedy(steps))))?;
            Some((scale, most))
        };
        AMOUNTS.into_iter().filter_map(scale).collect()
    }

    fn whole(&self) -> Whole {
        let kind = self.job.request.cards.as_ref().and_then(|wanted| wanted.kind.as_deref());
        let nodes = self.controller.nodes().filter(|node| node.inventory.admits(&self.job.request));
        let cards = nodes.flat_map(|node| node.inventory.cards_of(kind)).map(|card| card.mem);
        let length = self.controller.config().policy.unplanned();
        Whole { card: cards.max().unwrap_or(Megabytes::ZERO), length }
    }

    /// The least reduction of an amount with which the job starts, from `most` steps down.
    fn least(&mut self, scale: &Scale, mut most: u64) -> Option<(u64, Vec<Allocation>)> {
        for _ in 0..PASSES {
            let job = self.with(&scale.remedy(most));
            let rank = self.controller.before(&job);
            let trial = self.try_with(job);
            if let Some(given) = trial.given {
                return Some((most, given));
            }
            // All step sizes with the same rank see the same state, so one trial pass serves the whole class.
            let same = |steps| self.controller.before(&self.with(&scale.remedy(steps))) == rank;
            let others = largest(1, most, |steps| !same(steps)).unwrap_or(0);
            let fits = |look: &Look, steps| look.has_room(self.controller, &self.with(&scale.remedy(steps)));
            let of_look = |look: &Look| largest(others + 1, most - 1, |steps| fits(look, steps));
            most = trial.looks.iter().filter_map(of_look).max().unwrap_or(others);
            if most == 0 {
                return None;
            }
        }
        None
    }

    fn has_room(&self, job: &Job) -> bool {
        let (nodes, nothing) = (self.controller.all_nodes(), Timeline::new(self.now.wall));
        job.state == JobState::Ready
            && self.controller.rules().places(nodes, &nothing, job, self.now.wall, Span::ZERO).is_some()
    }
}

impl Look {
    fn has_room(&self, controller: &Controller, job: &Job) -> bool {
        let (now, length) = (self.timeline.now(), controller.fitting(job, &self.timeline));
        let place = || controller.rules().places(&self.nodes, &self.timeline, job, now, length);
        job.state == JobState::Ready && self.left.is_enough(job) && place().is_some()
    }
}

/// Binary search: the largest n in `least..=most` with `holds(n)`, which must be monotone; `None` if `holds(least)`
/// is false.
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
