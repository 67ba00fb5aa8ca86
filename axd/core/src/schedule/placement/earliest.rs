//! The first time at which a request fits somewhere. Nodes are looked at in the order of lower bounds on when they could
//! have room, until no other can be better.

use crate::node::{Nodes, Usage};
use crate::time::WallTime;

use super::{Place, Score, Search};
use crate::schedule::timeline::Ends;

impl Search<'_> {
    /// The first instant after now, and not before `not_before`, at which the request fits somewhere that does not fit
    /// now, and where: one for each node would do, the earliest counts, and among equals the best place.
    pub(in crate::schedule) fn earliest(
        mut self,
        nodes: &Nodes,
        not_before: WallTime,
    ) -> Option<(WallTime, Score, Place)> {
        let (asks, timeline) = (self.asks, self.timeline);
        let request = asks.request;
        if !request.only_nodes.is_empty() {
            let named = request.only_nodes.iter().filter_map(|name| nodes.position(name));
            named.for_each(|position| self.when(position, not_before));
        } else if let Some(only) = asks.only {
            let named = only.keys().filter_map(|name| nodes.position(name));
            named.for_each(|position| self.when(position, not_before));
        } else if not_before <= timeline.now() {
            let fits_now = |position: usize| self.rules.could_fit(&self.nodes[position], asks);
            let kept_free: Vec<usize> = timeline.reserved().filter(|position| fits_now(*position)).collect();
            let wants = self.rules.wants(&nodes.room(), request);
            for want in wants {
                nodes.by_bound(want, |bound, at| {
                    let hopeless = self.best.as_ref().is_some_and(|(best, _, _)| bound > *best);
                    match timeline.has_reservations(at as usize) {
                        _ if hopeless => {}
                        true => self.when(at as usize, not_before),
                        false => self.when_ended(at as usize, bound),
                    }
                    !hopeless
                });
            }
            // Where there is room but for what is kept, that may be before the first end.
            kept_free.into_iter().for_each(|position| self.when(position, not_before));
        } else {
            (0..nodes.as_slice().len()).for_each(|position| self.when(position, not_before));
        }
        self.best
    }

    /// Looks for the first time at which the request fits on a node, unless that is later than the best.
    pub(in crate::schedule) fn when(&mut self, position: usize, not_before: WallTime) {
        let (node, now) = (&self.nodes[position], self.timeline.now());
        if not_before <= now && !self.timeline.has_reservations(position) {
            return self.when_ended(position, not_before);
        }
        if !self.rules.could_hold(node, self.asks) {
            return;
        }
        if not_before > now {
            let found = self.place_on(position, not_before);
            if self.keep_better(not_before, found) {
                return;
            }
        }
        let (latest, future) = (self.latest(), self.timeline.future(position, node));
        let (rules, asks) = (self.rules, self.asks);
        let fits = |usage: &Usage| rules.fits_beside(node, asks, usage);
        let mut begins = future.begins_after(not_before, self.length);
        while let Some((at, peak)) = begins.next(latest, fits) {
            let found = self.rules.choose(position, node, self.asks, &peak);
            if self.keep_better(at, found) {
                return;
            }
        }
    }

    /// The same on a node without reservations, where it can't fit before `bound`.
    fn when_ended(&mut self, position: usize, bound: WallTime) {
        let node = &self.nodes[position];
        if !self.rules.could_hold(node, self.asks) {
            return;
        }
        let latest = self.latest();
        let mut ends = Ends::of(node, self.timeline);
        while let Some((at, usage)) = ends.advance().filter(|(at, _)| *at <= latest) {
            if at < bound || !self.rules.fits_beside(node, self.asks, usage) {
                continue;
            }
            let found = self.rules.choose(position, node, self.asks, usage);
            if self.keep_better(at, found) {
                return;
            }
        }
    }

    /// Nothing later than this is better than what was found.
    fn latest(&self) -> WallTime {
        self.best.as_ref().map_or(WallTime(i64::MAX), |(at, _, _)| *at)
    }
}
