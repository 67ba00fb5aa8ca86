//! What is free when: running jobs end as planned, reservations hold their place.
//!
//! The rules are those of "reservations rebuilt at each pass": nothing here
//! is believed in the next one, but what `kept` compares. A node's future is a step function, made when it is first
//! asked for and again after the node has changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use crate::id::JobNumber;
use crate::node::{Company, Holding, Node, Step, Taken, Usage};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

use super::order::Lengths;

/// A job that runs longer than planned is expected to end so much later than now.
pub(super) const SOON: Span = Span::seconds(1);

/// A place kept for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// For whom.
    pub job: JobNumber,
    /// Position of the node.
    pub node: usize,
    /// From when.
    pub from: WallTime,
    /// Until when, if it takes as long as planned.
    pub until: WallTime,
    /// Cards by position, and what will be charged on each.
    pub cards: Vec<(usize, Megabytes)>,
    /// With whom they will be shared.
    pub company: Company,
    /// CPUs.
    pub cpus: u32,
    /// Memory.
    pub ram: Megabytes,
    /// Whether nobody is let in before it any more who declares to take longer, though the last runs did not.
    pub firm: bool,
}

impl Reservation {
    fn taken(&self) -> Taken<'_> {
        Taken { cpus: self.cpus, ram: self.ram, cards: &self.cards }
    }
}

/// The ends of what a node holds, one instant after the other, with what is used of it from then on.
#[derive(Debug)]
pub enum Ends<'a> {
    /// As they are expected.
    Expected(std::slice::Iter<'a, Step>),
    /// Some are overdue, and end soon after now: the last first.
    Overdue(Vec<(WallTime, &'a Holding)>, Box<Usage>),
}

impl<'a> Ends<'a> {
    /// Those that are expected after now.
    pub fn of(node: &'a Node, timeline: &Timeline) -> Ends<'a> {
        let steps = if timeline.likely { node.by_likely().steps() } else { node.by_until().steps() };
        if steps.first().is_none_or(|step| step.at > timeline.now) {
            return Ends::Expected(steps.iter());
        }
        let end_of = |holding: &'a Holding| (timeline.end_of(holding), holding);
        let mut ends: Vec<(WallTime, &Holding)> = node.held().values().map(end_of).collect();
        ends.sort_unstable_by_key(|(end, _)| std::cmp::Reverse(*end));
        Ends::Overdue(ends, Box::new(node.used().clone()))
    }

    /// The next instant at which something ends, and what is used from then on.
    pub fn advance(&mut self) -> Option<(WallTime, &Usage)> {
        match self {
            Ends::Expected(steps) => steps.next().map(|step| (step.at, &step.left)),
            Ends::Overdue(ends, usage) => {
                let (at, _) = *ends.last()?;
                while let Some((_, holding)) = ends.pop_if(|(end, _)| *end == at) {
                    usage.remove(&holding.taken());
                }
                Some((at, usage))
            }
        }
    }
}

/// A node's future: each step holds until the next.
#[derive(Debug, Clone)]
pub(super) struct Profile(Vec<(WallTime, Usage)>);

impl Profile {
    fn of(node: &Node, timeline: &Timeline) -> Profile {
        let mut ends = Ends::of(node, timeline);
        let mut steps = vec![(timeline.now, node.used().clone())];
        while let Some((at, usage)) = ends.advance() {
            steps.push((at, usage.clone()));
        }
        Profile(steps)
    }

    /// Makes sure that a step begins at that instant, which is not before the first.
    fn split(&mut self, at: WallTime) -> usize {
        match self.0.binary_search_by_key(&at, |(from, _)| *from) {
            Ok(position) => position,
            Err(0) => 0,
            Err(position) => {
                let usage = self.0[position - 1].1.clone();
                self.0.insert(position, (at, usage));
                position
            }
        }
    }

    fn add(&mut self, reservation: &Reservation) {
        let from = self.split(reservation.from);
        let until = self.split(reservation.until);
        for (_, usage) in &mut self.0[from..until] {
            usage.add(&reservation.taken(), |_| reservation.company);
        }
    }

    /// The steps of a while.
    fn steps_of(&self, from: WallTime, length: Span) -> Range<usize> {
        let end = from + length;
        let first = match self.0.binary_search_by_key(&from, |(at, _)| *at) {
            Ok(position) => position,
            Err(position) => position.saturating_sub(1),
        };
        let more = self.0[first + 1..].iter().take_while(|(at, _)| *at < end).count();
        first..first + 1 + more
    }

    /// The most that is used in some steps, of which there is one at least.
    fn peak_of(&self, steps: Range<usize>) -> Usage {
        let mut peak = self.0[steps.start].1.clone();
        self.0[steps.start + 1..steps.end].iter().for_each(|(_, usage)| peak.raise_to(usage));
        peak
    }

    /// The most that is used in a while.
    fn peak(&self, from: WallTime, length: Span) -> Usage {
        self.peak_of(self.steps_of(from, length))
    }

    /// The steps at whose beginning something of a length may begin, after an instant.
    pub(super) fn begins_after(&self, after: WallTime, length: Span) -> Begins<'_> {
        let next = self.0.partition_point(|(at, _)| *at <= after).max(1);
        Begins { steps: self, length, next, fitting: next }
    }

    /// Whether something of a length fits if it begins then, and before which instant that stays as it is; `fits` says so
    /// of what is used at most.
    pub(super) fn fits_from(
        &self,
        from: WallTime,
        length: Span,
        fits: impl Fn(&Usage) -> bool,
    ) -> (bool, WallTime) {
        let steps = self.steps_of(from, length);
        let time = |step: usize| self.0.get(step).map(|(at, _)| *at);
        let left = time(steps.start + 1).unwrap_or(WallTime(i64::MAX));
        let joined = time(steps.end).map_or(left, |at| from + (at - (from + length)) + Span(1));
        let all = steps.clone().all(|step| fits(&self.0[step].1));
        (all && fits(&self.peak_of(steps)), left.min(joined))
    }
}

/// Where something of a length may begin in a node's future.
pub(super) struct Begins<'a> {
    steps: &'a Profile,
    length: Span,
    next: usize,
    /// The steps from the next one up to this one have room.
    fitting: usize,
}

impl Begins<'_> {
    /// The next step, not after `latest`, from whose beginning on each one for that length has room, with the most that
    /// is used meanwhile, beside which there may be none. Each is asked once: a step without room is one for all that
    /// begin before it.
    pub(super) fn next(
        &mut self,
        latest: WallTime,
        fits: impl Fn(&Usage) -> bool,
    ) -> Option<(WallTime, Usage)> {
        loop {
            let first = self.next;
            let at = self.steps.0.get(first).map(|(at, _)| *at).filter(|at| *at <= latest)?;
            let steps = self.steps.steps_of(at, self.length);
            let full = (self.fitting.max(first)..steps.end).find(|step| !fits(&self.steps.0[*step].1));
            self.next = full.unwrap_or(first) + 1;
            self.fitting = self.next.max(steps.end.min(full.unwrap_or(usize::MAX)));
            if full.is_none() {
                return Some((at, self.steps.peak_of(steps)));
            }
        }
    }
}

/// The reservations of one pass, and the future of the nodes with them.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    now: WallTime,
    /// Running jobs end when they most likely do, not when others may count on it.
    likely: bool,
    /// One of the reservations is firm.
    firm: bool,
    kept: BTreeMap<usize, Arc<Vec<Reservation>>>,
    profiles: RefCell<BTreeMap<usize, Rc<Profile>>>,
}

impl Timeline {
    /// Without reservations.
    pub fn new(now: WallTime) -> Timeline {
        Timeline { now, ..Timeline::default() }
    }

    /// The instant of the pass.
    pub fn now(&self) -> WallTime {
        self.now
    }

    /// The same by what is most likely: for who wants to know what will be, rather than what can be promised.
    #[must_use]
    pub fn as_is_likely(self) -> Timeline {
        Timeline { likely: true, ..self }
    }

    /// When an attempt is expected to end. One that takes longer than is likely may take as long as is said.
    pub fn end_of(&self, holding: &Holding) -> WallTime {
        let likely = Some(holding.likely).filter(|_| self.likely);
        let ends = likely.into_iter().chain([holding.until]);
        ends.into_iter().find(|end| *end > self.now).unwrap_or(self.now + SOON)
    }

    /// With which of its lengths whoever has no place yet must fit in: one firm reservation is enough for all, so that a
    /// pass need remember of a shape only one length with which it does not fit.
    pub fn lengths(&self) -> Lengths {
        if self.firm { Lengths::Declared } else { Lengths::Planned }
    }

    /// All reservations.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.kept.values().flat_map(|kept| kept.iter())
    }

    /// What is kept of one node, in the order in which it was reserved.
    pub fn on(&self, node: usize) -> &[Reservation] {
        self.kept.get(&node).map_or(&[], |kept| kept.as_slice())
    }

    /// What is kept of each node of which something is, in the order in which it was reserved.
    pub(super) fn by_node(&self) -> &BTreeMap<usize, Arc<Vec<Reservation>>> {
        &self.kept
    }

    /// Keeps a place.
    pub fn reserve(&mut self, reservation: Reservation) {
        self.firm |= reservation.firm;
        if let Some(profile) = self.profiles.get_mut().get_mut(&reservation.node) {
            Rc::make_mut(profile).add(&reservation);
        }
        Arc::make_mut(self.kept.entry(reservation.node).or_default()).push(reservation);
    }

    /// A node has changed: what was known of its future is known no more.
    pub fn changed(&mut self, node: usize) {
        self.profiles.get_mut().remove(&node);
    }

    /// The nodes of which somebody has reserved something, by position.
    pub fn reserved(&self) -> impl Iterator<Item = usize> + '_ {
        self.kept.keys().copied()
    }

    /// Whether somebody has reserved anything of a node.
    pub fn has_reservations(&self, node: usize) -> bool {
        self.kept.contains_key(&node)
    }

    /// What is used of a node from now on, as far as is known.
    pub(super) fn future(&self, position: usize, node: &Node) -> Rc<Profile> {
        let make = || {
            let mut profile = Profile::of(node, self);
            for reservation in self.on(position) {
                profile.add(reservation);
            }
            Rc::new(profile)
        };
        Rc::clone(self.profiles.borrow_mut().entry(position).or_insert_with(make))
    }

    /// The most that is used of a node from `from` on for `length`, as far as is known.
    pub fn peak(&self, position: usize, node: &Node, from: WallTime, length: Span) -> Usage {
        self.future(position, node).peak(from, length)
    }

    /// The instants after now at which the use of a node changes, in order, none after `latest`.
    pub fn changes(&self, position: usize, node: &Node, latest: WallTime) -> Vec<WallTime> {
        let profile = self.future(position, node);
        let steps = profile.0.iter().map(|(at, _)| *at).skip(1);
        steps.take_while(|at| *at <= latest).collect()
    }
}
