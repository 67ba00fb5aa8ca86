//! Where places were found for those who wait first, from pass to pass: the search for one is the dearest part of a pass,
//! and most are still where they were.
//!
//! An answer is the one that a new search would give. Of what was found before, only nodes that have changed since, or of
//! which something else is kept for others, are looked at again; wherever that does not settle it, the search is done
//! anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Packing;
use crate::id::JobNumber;
use crate::job::Job;
use crate::job::bounds::{Asks, Bounds};
use crate::job::request::Request;
use crate::node::{Nodes, Version};
use crate::time::{Span, WallTime};

use super::gang::{Places, names_none};
use super::placement::{Place, Rules, Score, Search};
use super::timeline::{Reservation, SOON, Timeline};

/// So many are remembered for each place that is kept: who was first may be so again soon.
const REMEMBERED: usize = 4;

/// If more nodes than this have changed, the search is no dearer than looking at them.
const FEW: usize = 16;

/// The earliest places that were found for some jobs.
#[derive(Debug, Clone, Default)]
pub struct KeptPlaces {
    /// The one that was asked for last is the last.
    found: Vec<Found>,
}

/// What was found for a job, and what that rests on.
#[derive(Debug, Clone)]
struct Found {
    asked: Asked,
    at: WallTime,
    places: Places,
    /// How good it is, on a single node.
    score: Option<Score>,
    /// What the nodes were then.
    version: Version,
    /// What was kept of them for others then.
    beside: BTreeMap<usize, Arc<Vec<Reservation>>>,
    /// When that was.
    since: WallTime,
    /// When the first of the jobs that run on those places is expected to end.
    first_end: WallTime,
}

/// Who asked, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    job: JobNumber,
    request: Arc<Request>,
    bounds: Option<Arc<Bounds>>,
    length: Span,
    packing: Packing,
    reserve: u32,
}

/// What matters of a job that asks.
#[derive(Clone, Copy)]
struct Asker<'a> {
    job: JobNumber,
    request: &'a Arc<Request>,
    bounds: Option<&'a Arc<Bounds>>,
}

/// Whether what was found before holds.
enum Still {
    /// It does, or something better was found on nodes that have changed.
    Found(WallTime, Option<Score>, Places),
    /// That can't be told.
    Unknown,
}

impl KeptPlaces {
    /// For whom places were found, those first who asked last.
    pub fn jobs(&self) -> impl Iterator<Item = JobNumber> + '_ {
        self.found.iter().rev().map(|found| found.asked.job)
    }

    /// Forgets who asked longest ago, if very many did beside the so many for whom places are kept.
    pub fn forget(&mut self, kept: usize) {
        let most = REMEMBERED * kept.max(8);
        self.found.drain(..self.found.len().saturating_sub(most));
    }

    /// The same as [`Rules::earliest_places`] from now on, for a job that has no place now.
    pub fn earliest(
        &mut self,
        rules: &Rules,
        nodes: &Nodes,
        timeline: &Timeline,
        job: &Job,
        length: Span,
    ) -> Option<(WallTime, Places)> {
        let asker = Asker { job: job.id.number, request: &job.request, bounds: job.bounds.as_ref() };
        self.earliest_for(rules, nodes, timeline, asker, length)
    }

    fn earliest_for(
        &mut self,
        rules: &Rules,
        nodes: &Nodes,
        timeline: &Timeline,
        asker: Asker<'_>,
        length: Span,
    ) -> Option<(WallTime, Places)> {
        let Asker { job, request, bounds } = asker;
        let (asks, now) = (Asks::within(request, bounds.map(|bounds| &**bounds)), timeline.now());
        // What is usually asked for, by which that rule goes, is something else after each submission.
        if rules.packing() == Packing::Fgd || !names_none(asks) {
            return rules.earliest_places(nodes, timeline, asks, now, length);
        }
        let asked = Asked {
            job,
            request: Arc::clone(request),
            bounds: bounds.cloned(),
            length,
            packing: rules.packing(),
            reserve: rules.reserve(),
        };
        let known = self.found.iter().position(|found| found.asked == asked);
        let known = known.map(|position| self.found.remove(position));
        let search = || Search::new(rules, nodes, timeline, asks, length);
        let still = known.as_ref().map_or(Still::Unknown, |found| found.still(&search, nodes, timeline));
        let (at, score, places) = match still {
            Still::Found(at, score, places) => (at, score, places),
            Still::Unknown => rules.earliest_scored(nodes, timeline, asks, now, length)?,
        };
        let first_of = |place: &Place| nodes.as_slice()[place.node].by_until().steps().first();
        let first_end = places.iter().filter_map(first_of).map(|step| step.at).min();
        self.found.push(Found {
            asked,
            at,
            places: places.clone(),
            score,
            version: nodes.version(),
            beside: timeline.by_node().clone(),
            since: now,
            first_end: first_end.unwrap_or(WallTime(i64::MAX)),
        });
        Some((at, places))
    }
}

impl Found {
    /// Looks again at the nodes where something has changed.
    fn still<'a>(&self, search: &dyn Fn() -> Search<'a>, nodes: &Nodes, timeline: &Timeline) -> Still {
        let now = timeline.now();
        // Who takes longer than planned is expected to end a little later than now, whenever that is: there, and what was
        // found so soon may be tighter elsewhere by now. If the clock was set back they may be within their time again.
        if self.at <= now + SOON || self.first_end <= now || now < self.since {
            return Still::Unknown;
        }
        let Some(changed) = nodes.changed_since(self.version) else { return Still::Unknown };
        let mut changed: BTreeSet<usize> = changed.iter().map(|at| *at as usize).collect();
        changed.extend(differing(&self.beside, timeline.by_node()));
        if changed.len() > FEW {
            return Still::Unknown;
        }
        match self.score {
            Some(score) => self.still_on_one(score, search, changed),
            None => self.still_on_several(search, &changed, now),
        }
    }

    fn still_on_one<'a>(
        &self,
        score: Score,
        search: &dyn Fn() -> Search<'a>,
        mut changed: BTreeSet<usize>,
    ) -> Still {
        let mut search = search();
        let own = self.places.first.node;
        if changed.remove(&own) {
            search.when(own, search.timeline.now());
            // If it is worse than it was, any other may be better.
            if search.best.as_ref().is_none_or(|(at, new, _)| (self.at, score) < (*at, *new)) {
                return Still::Unknown;
            }
        } else {
            search.best = Some((self.at, score, self.places.first.clone()));
        }
        changed.into_iter().for_each(|node| search.when(node, search.timeline.now()));
        match search.best {
            Some((at, score, place)) => Still::Found(at, Some(score), place.into()),
            None => Still::Unknown,
        }
    }

    /// On several nodes it holds if none of them has changed, and none that has could be taken then or before.
    fn still_on_several<'a>(
        &self,
        search: &dyn Fn() -> Search<'a>,
        changed: &BTreeSet<usize>,
        now: WallTime,
    ) -> Still {
        let is_own = |node: &usize| self.places.iter().any(|place| place.node == *node);
        let has_room = |node: &usize| {
            let mut search = search();
            search.when(*node, now);
            let later = search.best.as_ref().is_none_or(|(at, _, _)| *at > self.at);
            !later || search.place_on(*node, now).is_some()
        };
        match changed.iter().any(|node| is_own(node) || has_room(node)) {
            true => Still::Unknown,
            false => Still::Found(self.at, None, self.places.clone()),
        }
    }
}

/// The nodes of which not the same is kept in both.
fn differing(
    before: &BTreeMap<usize, Arc<Vec<Reservation>>>,
    now: &BTreeMap<usize, Arc<Vec<Reservation>>>,
) -> impl Iterator<Item = usize> {
    let of_one = |one: &BTreeMap<usize, Arc<Vec<Reservation>>>,
                  other: &BTreeMap<usize, Arc<Vec<Reservation>>>| {
        let differs = |(node, kept): (&usize, &Arc<Vec<Reservation>>)| {
            (other.get(node).is_none_or(|other| other != kept)).then_some(*node)
        };
        one.iter().filter_map(differs).collect::<Vec<usize>>()
    };
    of_one(before, now).into_iter().chain(of_one(now, before))
}

#[cfg(test)]
mod tests;
