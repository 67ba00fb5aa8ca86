//! Where a job fits and when, found by looking at every node and every instant: slow, plain, and from the ledger alone.

use std::collections::BTreeSet;

use ax_core::config::{Packing, QueueState, Scheduler};
use ax_core::controller::Controller;
use ax_core::id::{JobNumber, QueueName};
use ax_core::job::Job;
use ax_core::job::request::Request;
use ax_core::node::{Card, Inventory};
use ax_core::time::{Now, Span, WallTime};

use crate::ledger::{Held, Ledger, declared, is_firm, planned};

/// A place that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The node, by its place among the nodes.
    pub(crate) node: usize,
    /// From then.
    pub(crate) from: WallTime,
    /// Until then.
    pub(crate) until: WallTime,
    cpus: u32,
    ram: u64,
    cards: Vec<(u32, u64)>,
}

impl Kept {
    /// The same for so long.
    fn until(self, length: Span) -> Kept {
        Kept { until: self.from + length, ..self }
    }
}

/// What is taken of a node.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    cpus: u32,
    ram: u64,
    cards: Vec<u64>,
    /// What others than jobs hold of each card; nothing: it is given to nobody.
    others: Vec<Option<u64>>,
    /// Nothing is started on the node.
    closed: bool,
}

/// What a job takes of a card, and the most that may be taken of it with that.
pub(crate) fn of_card(card: &Card, request: &Request, reserve: u32) -> Option<(u64, u64)> {
    let wanted = request.cards.as_ref()?;
    let shared = card.mem.0 * u64::from(100 - reserve) / 100;
    if wanted.kind.is_some() && wanted.kind != card.kind {
        return None;
    }
    match wanted.slice.map(|slice| slice.0) {
        Some(slice) if slice > card.mem.0 => None,
        Some(slice) if slice <= shared => Some((slice, shared)),
        _ => Some((card.mem.0, card.mem.0)),
    }
}

fn of_node(has: &Inventory, request: &Request) -> (u32, u64) {
    match request.exclusive {
        true => (has.cpus.max(request.cpus), has.ram.0.max(request.ram.0)),
        false => (request.cpus, request.ram.0),
    }
}

fn admits(has: &Inventory, request: &Request) -> bool {
    (request.only_nodes.is_empty() || request.only_nodes.contains(&has.name))
        && !request.not_nodes.contains(&has.name)
        && request
            .features()
            .is_none_or(|wanted| features_of(&wanted.to_string()).contains(&has.name.as_str()))
}

/// The nodes of `chance::node` that have what is asked for there, found by eye.
pub(crate) fn features_of(wanted: &str) -> &'static [&'static str] {
    match wanted {
        "new" => &["gpu-02", "gpu-03"],
        "old|nvlink" => &["gpu-01", "gpu-02"],
        "new&nvlink" | "(old|new)&nvlink" => &["gpu-02"],
        _ => &[],
    }
}

/// What attempts hold of a node, as if nobody else held anything.
pub(crate) fn held_by<'a>(has: &Inventory, all: impl Iterator<Item = &'a Held>) -> Taken {
    let count = has.cards.len();
    let mut taken =
        Taken { cpus: 0, ram: 0, cards: vec![0; count], others: vec![Some(0); count], closed: false };
    for held in all {
        taken.cpus += held.allocation.cpus.len() as u32;
        taken.ram += held.allocation.ram.0;
        for (index, charge) in &held.charges {
            taken.add(has, *index, *charge);
        }
    }
    taken
}

impl Taken {
    fn add(&mut self, has: &Inventory, index: u32, charge: u64) {
        if let Some(at) = has.cards.iter().position(|card| card.index == index) {
            self.cards[at] += charge;
        }
    }

    /// The same beside all that others hold.
    pub(crate) fn beside_others(mut self, ledger: &Ledger, has: &Inventory) -> Taken {
        self.closed = ledger.drained.contains(&has.name);
        self.others = has.cards.iter().map(|card| ledger.of_others(&has.name, card)).collect();
        self
    }
}

/// The cards that have room, by position, with what would be left of each and what is charged; nothing: the node has no
/// room.
pub(crate) fn room(
    has: &Inventory,
    taken: &Taken,
    request: &Request,
    reserve: u32,
) -> Option<Vec<(usize, u64, u64)>> {
    let (cpus, ram) = of_node(has, request);
    if taken.closed || !admits(has, request) || taken.cpus + cpus > has.cpus || taken.ram + ram > has.ram.0 {
        return None;
    }
    let count = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
    let mut fitting = Vec::new();
    for (at, card) in has.cards.iter().enumerate() {
        let (Some((charge, limit)), Some(others)) = (of_card(card, request, reserve), taken.others[at])
        else {
            continue;
        };
        // Who has the whole card has nobody beside them.
        let all = taken.cards[at] + charge + if charge < card.mem.0 { others } else { 0 };
        if all <= limit {
            fitting.push((at, card.mem.0.saturating_sub(all), charge));
        }
    }
    (fitting.len() >= count).then_some(fitting)
}

/// Whether a node could hold a request if it were empty.
fn fits_empty(has: &Inventory, request: &Request, reserve: u32) -> bool {
    room(has, &held_by(has, std::iter::empty()), request, reserve).is_some()
}

/// Whether enough nodes could hold a request if they were empty.
pub(crate) fn fits_somewhere(ledger: &Ledger, request: &Request, reserve: u32) -> bool {
    let fitting = ledger.nodes.values().filter(|node| fits_empty(node, request, reserve));
    fitting.count() >= request.nodes().min as usize
}

/// How good a place is: the smallest is taken.
type Score = (i64, usize, i64, usize, Vec<usize>);

/// The state of the cluster, and places that are kept.
pub(crate) struct Plan<'a> {
    ledger: &'a Ledger,
    now: Now,
    /// The places.
    pub(crate) kept: Vec<Kept>,
}

impl<'a> Plan<'a> {
    /// With nothing kept.
    pub(crate) fn new(ledger: &'a Ledger, now: Now) -> Plan<'a> {
        Plan { ledger, now, kept: Vec::new() }
    }

    fn taken_at(&self, node: usize, has: &Inventory, at: WallTime) -> Taken {
        let there = self.ledger.on(&has.name).filter(|held| held.until(self.now) > at);
        let mut taken = held_by(has, there).beside_others(self.ledger, has);
        for kept in self.kept.iter().filter(|k| k.node == node && k.from <= at && at < k.until) {
            taken.cpus += kept.cpus;
            taken.ram += kept.ram;
            kept.cards.iter().for_each(|(index, charge)| taken.add(has, *index, *charge));
        }
        taken
    }

    /// Instants at which anything changes.
    fn instants(&self) -> Vec<WallTime> {
        let ends = self.ledger.all().map(|held| held.until(self.now));
        let kept = self.kept.iter().flat_map(|kept| [kept.from, kept.until]);
        let mut all: Vec<WallTime> = ends.chain(kept).filter(|at| *at > self.now.wall).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The most that is taken of a node in a while.
    fn most_taken(&self, node: usize, has: &Inventory, from: WallTime, length: Span) -> Taken {
        let mut most = self.taken_at(node, has, from);
        for at in self.instants().into_iter().filter(|at| *at > from && *at < from + length) {
            let then = self.taken_at(node, has, at);
            most.cpus = most.cpus.max(then.cpus);
            most.ram = most.ram.max(then.ram);
            for (card, more) in most.cards.iter_mut().zip(then.cards) {
                *card = (*card).max(more);
            }
        }
        most
    }

    /// The places that the configured packing takes for a job from then on: on as many nodes as it needs.
    pub(crate) fn place(&self, request: &Request, from: WallTime, length: Span) -> Option<Vec<Kept>> {
        let (policy, reserve) = (&self.ledger.config.policy, self.ledger.config.resources.gpu_reserve);
        let mut all: Vec<(Score, Kept)> = Vec::new();
        for (node, has) in self.ledger.nodes.values().enumerate() {
            let taken = self.most_taken(node, has, from, length);
            let Some(mut cards) = room(has, &taken, request, reserve) else { continue };
            let mem = |at: usize| std::cmp::Reverse(has.cards[at].mem.0);
            match policy.packing {
                Packing::First => {}
                // By fragmentation others may be taken: whether a job fits is the same.
                Packing::Best | Packing::Fgd => cards.sort_by_key(|(at, left, _)| (*left, *at)),
                Packing::Worst => cards.sort_by_key(|(at, _, _)| (taken.cards[*at], mem(*at), *at)),
            }
            cards.truncate(request.cards.as_ref().map_or(0, |wanted| wanted.count as usize));
            let left: i64 = cards.iter().map(|(_, left, _)| *left as i64).sum();
            let used = |card: &&Card| {
                self.ledger.on(&has.name).any(|h| h.charges.iter().any(|(i, _)| *i == card.index))
            };
            let open = |card: &&Card| self.ledger.of_others(&has.name, card).is_some();
            let empty = has.cards.iter().filter(open).filter(|card| !used(card)).count();
            let spare = if request.cards.is_some() { 0 } else { i64::from(has.cpus - taken.cpus) };
            let at = cards.iter().map(|(at, _, _)| *at).collect();
            let score = match policy.packing {
                Packing::Best | Packing::Fgd => (left, empty, spare, node, at),
                Packing::Worst => (-left, 0, -spare, node, at),
                Packing::First => (0, 0, 0, node, at),
            };
            let (cpus, ram) = of_node(has, request);
            let cards = cards.iter().map(|(at, _, charge)| (has.cards[*at].index, *charge)).collect();
            let kept = Kept { node, from, until: from + length, cpus, ram, cards };
            all.push((score, kept));
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        let needed = request.nodes().min as usize;
        (all.len() >= needed).then(|| all.into_iter().take(needed).map(|(_, kept)| kept).collect())
    }

    /// On how many nodes a job fits from now on.
    pub(crate) fn width(&self, request: &Request, length: Span) -> usize {
        let reserve = self.ledger.config.resources.gpu_reserve;
        let fits = |(node, has): &(usize, &Inventory)| {
            room(has, &self.most_taken(*node, has, self.now.wall, length), request, reserve).is_some()
        };
        self.ledger.nodes.values().enumerate().filter(fits).count()
    }

    /// The first instant after now at which a job fits somewhere.
    pub(crate) fn earliest(&self, request: &Request, length: Span) -> Option<Vec<Kept>> {
        self.instants().into_iter().find_map(|at| self.place(request, at, length))
    }
}

/// Whether the limits of a job's queue let it start, beside so many.
pub(crate) fn allowed(ledger: &Ledger, job: &Job, beside: usize) -> bool {
    ledger.config.queue(job.queue.as_str()).is_some_and(|queue| {
        let room = queue.max_running.is_none_or(|max| ledger.active(&queue.name) + beside < max as usize);
        queue.state != QueueState::Stopped && room
    })
}

/// The places that are kept for those that wait, if none of them could start now.
pub(crate) fn kept(ledger: &Ledger, controller: &Controller, now: Now) -> Option<Vec<(JobNumber, Kept)>> {
    let mut kept = Vec::new();
    idle_or_keeping(ledger, controller, now, &mut kept).is_none().then_some(kept)
}

/// A job that could start now without moving any of the places that are kept for those before it.
pub(crate) fn idle<'c>(ledger: &Ledger, controller: &'c Controller, now: Now) -> Option<&'c Job> {
    idle_or_keeping(ledger, controller, now, &mut Vec::new())
}

fn idle_or_keeping<'c>(
    ledger: &Ledger,
    controller: &'c Controller,
    now: Now,
    kept: &mut Vec<(JobNumber, Kept)>,
) -> Option<&'c Job> {
    let (policy, reserve) = (&ledger.config.policy, ledger.config.resources.gpu_reserve);
    let strict = policy.scheduler == Scheduler::FifoStrict;
    let (mut plan, mut keeping, mut firm) = (Plan::new(ledger, now), 0, false);
    // Who is first in a queue and has a place kept keeps one in the queue too.
    let mut kept_in: BTreeSet<&QueueName> = BTreeSet::new();
    for job in controller.ready_jobs() {
        if !allowed(ledger, job, usize::from(kept_in.contains(&job.queue))) {
            continue;
        }
        if !fits_somewhere(ledger, &job.request, reserve) {
            continue;
        }
        let length = if firm { declared(job, &ledger.config) } else { planned(job, &ledger.config) };
        if plan.place(&job.request, now.wall, length).is_some() {
            return Some(job);
        }
        if strict {
            return None;
        }
        if keeping < policy.reservations {
            let earliest = plan.earliest(&job.request, length);
            keeping += u32::from(earliest.is_some());
            kept_in.extend(earliest.is_some().then_some(&job.queue));
            firm |= earliest.is_some() && is_firm(job, &ledger.config, now.wall);
            let places =
                earliest.into_iter().flatten().map(|place| place.until(planned(job, &ledger.config)));
            kept.extend(places.clone().map(|place| (job.id.number, place)));
            plan.kept.extend(places);
        }
    }
    None
}
