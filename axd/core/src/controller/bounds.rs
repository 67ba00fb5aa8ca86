//! Limits on cards: which ones a queue, a user or a group may have, and how many at once. Within a limit on their number
//! nobody passes whoever waits for it: else those who want one card would keep who wants more from ever starting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::Config;
use crate::id::{JobId, QueueName, Uid};
use crate::job::Job;
use crate::job::bounds::{Bounds, Cards};
use crate::node::Nodes;

/// Cards that are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Whose: `queue night`, `user li`, `group staff`.
    pub(crate) whose: String,
    /// At most so many at once.
    pub(crate) max: u32,
    /// So many are held.
    pub(crate) held: u32,
}

/// Who counts in a sum, or is confined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Queue(QueueName),
    User(String),
    Group(String),
}

/// One limit as it is configured, its cards found.
#[derive(Debug, Clone)]
struct Limit {
    whose: Whose,
    only: Option<Cards>,
    sum: Option<usize>,
}

/// All limits on cards, and what is held under them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    limits: Vec<Limit>,
    sums: Vec<Sum>,
    /// What jobs are bound to that the same limits hold for: there are many jobs and few of these.
    known: BTreeMap<(Vec<usize>, Option<Uid>), Arc<Bounds>>,
    /// Queues whose slices are under MPS.
    mps: BTreeSet<QueueName>,
}

impl Whose {
    fn is(&self, job: &Job) -> bool {
        match self {
            Whose::Queue(queue) => job.queue == *queue,
            Whose::User(user) => *job.owner.name == **user,
            Whose::Group(group) => job.groups.iter().any(|own| **own == **group),
        }
    }

    fn in_words(&self) -> String {
        match self {
            Whose::Queue(queue) => format!("queue {queue}"),
            Whose::User(user) => format!("user {user}"),
            Whose::Group(group) => format!("group {group}"),
        }
    }
}

/// The cards that these names mean: `host:index`, or a UUID. What there is not is no card.
fn found(names: &[String], nodes: &Nodes) -> Option<Cards> {
    if names.is_empty() {
        return None;
    }
    let mut cards = Cards::new();
    for node in nodes.iter() {
        let host = &node.inventory.name;
        let is_named = |card: &crate::node::Card| {
            let here = |name: &String| {
                let place = name.rsplit_once(':');
                let by_place = place.is_some_and(|(of, index)| {
                    index.parse() == Ok(card.index)
                        && of.parse().is_ok_and(|of: crate::id::HostName| of == *host)
                });
                by_place || *name == card.uuid
            };
            names.iter().any(here)
        };
        let own: BTreeSet<u32> =
            node.inventory.cards.iter().filter(|card| is_named(card)).map(|card| card.index).collect();
        if !own.is_empty() {
            cards.insert(host.clone(), own);
        }
    }
    Some(cards)
}

fn both(a: &Cards, b: &Cards) -> Cards {
    let common = |(host, own): (&crate::id::HostName, &BTreeSet<u32>)| {
        let own: BTreeSet<u32> = own & b.get(host)?;
        (!own.is_empty()).then(|| (host.clone(), own))
    };
    a.iter().filter_map(common).collect()
}

impl Limits {
    /// Those of a configuration on these nodes; nothing is held yet.
    pub(crate) fn of(config: &Config, nodes: &Nodes) -> Limits {
        let mut this = Limits::default();
        for queue in &config.queues {
            this.add(Whose::Queue(queue.name.clone()), &queue.cards, queue.max_cards, nodes);
            if queue.mps {
                this.mps.insert(queue.name.clone());
            }
        }
        for limit in &config.limits {
            let user = limit.user.clone().map(Whose::User);
            if let Some(whose) = user.or_else(|| limit.group.clone().map(Whose::Group)) {
                this.add(whose, &limit.cards, limit.max_cards, nodes);
            }
        }
        this
    }

    fn add(&mut self, whose: Whose, cards: &[String], max: Option<u32>, nodes: &Nodes) {
        if cards.is_empty() && max.is_none() {
            return;
        }
        let sum = max.map(|max| {
            self.sums.push(Sum { whose: whose.in_words(), max, held: 0 });
            self.sums.len() - 1
        });
        self.limits.push(Limit { whose, only: found(cards, nodes), sum });
    }

    /// What a job is bound to; nothing: no limit concerns it.
    pub(crate) fn bounds(&mut self, job: &Job) -> Option<Arc<Bounds>> {
        let wanted =
            job.request.cards.as_ref().filter(|_| !self.limits.is_empty() || !self.mps.is_empty())?;
        // A program speaks with one MPS daemon, and there is one for each card.
        let one_slice = wanted.slice.is_some() && wanted.count == 1;
        let mps = Some(job.owner.uid).filter(|_| one_slice && self.mps.contains(&job.queue));
        let held_by = self.limits.iter().enumerate().filter(|(_, limit)| limit.whose.is(job));
        let own: Vec<usize> = held_by.map(|(at, _)| at).collect();
        if own.is_empty() && mps.is_none() {
            return None;
        }
        let own = (own, mps);
        if let Some(known) = self.known.get(&own) {
            return Some(Arc::clone(known));
        }
        let mut bounds = Bounds { mps, ..Bounds::default() };
        for limit in own.0.iter().map(|at| &self.limits[*at]) {
            bounds.sums.extend(limit.sum);
            bounds.only = match (bounds.only.take(), &limit.only) {
                (Some(a), Some(b)) => Some(both(&a, b)),
                (a, b) => a.or_else(|| b.clone()),
            };
        }
        let bounds = Arc::new(bounds);
        self.known.insert(own, Arc::clone(&bounds));
        Some(bounds)
    }

    /// A job holds its cards from now on.
    pub(crate) fn started(&mut self, job: &Job) {
        for sum in sums_of(job) {
            self.sums[*sum].held += count(job);
        }
    }

    /// No longer.
    pub(crate) fn ended(&mut self, job: &Job) {
        for sum in sums_of(job) {
            self.sums[*sum].held = self.sums[*sum].held.saturating_sub(count(job));
        }
    }

    /// Nobody holds anything.
    pub(crate) fn none_held(&mut self) {
        self.sums.iter_mut().for_each(|sum| sum.held = 0);
    }

    /// A sum that could never let a job start.
    pub(crate) fn too_small(&self, job: &Job) -> Option<&Sum> {
        sums_of(job).iter().map(|sum| &self.sums[*sum]).find(|sum| count(job) > sum.max)
    }

    /// All sums.
    pub(crate) fn sums(&self) -> &[Sum] {
        &self.sums
    }

    /// Who confines a job to certain cards.
    pub(crate) fn confining(&self, job: &Job) -> Vec<String> {
        let own = self.limits.iter().filter(|limit| limit.only.is_some() && limit.whose.is(job));
        own.map(|limit| limit.whose.in_words()).collect()
    }
}

fn sums_of(job: &Job) -> &[usize] {
    job.bounds.as_ref().map_or(&[], |bounds| &bounds.sums)
}

/// Cards that a job counts for, on all of its nodes: a slice counts as a card.
fn count(job: &Job) -> u32 {
    job.request.cards.as_ref().map_or(0, |cards| cards.count.saturating_mul(job.width()))
}

/// What a walk along the waiting jobs leaves of the limits.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Cards that are kept for jobs that come before.
    kept: BTreeMap<usize, u32>,
    /// Who waits for the limit and lets nobody pass.
    first: BTreeMap<usize, JobId>,
}

/// Why a limit does not let a job start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Barred {
    /// The sum.
    pub(crate) sum: usize,
    /// Who waits for it before.
    pub(crate) first: Option<JobId>,
}

impl Turns {
    /// Cards are kept for a job.
    pub(crate) fn keep(&mut self, job: &Job) {
        for sum in sums_of(job) {
            *self.kept.entry(*sum).or_default() += count(job);
        }
    }

    /// How many cards the limits leave a job.
    pub(crate) fn left(&self, limits: &Limits, job: &Job) -> u32 {
        sums_of(job).iter().map(|at| self.left_of(limits, *at)).min().unwrap_or(u32::MAX)
    }

    fn left_of(&self, limits: &Limits, at: usize) -> u32 {
        let sum = &limits.sums[at];
        let taken = sum.held + self.kept.get(&at).copied().unwrap_or(0);
        if self.first.contains_key(&at) { 0 } else { sum.max.saturating_sub(taken) }
    }

    /// Whether the limits let a job start; if not, nobody passes it in those that it waits for.
    pub(crate) fn take(&mut self, limits: &Limits, job: &Job) -> Result<(), Barred> {
        if count(job) <= self.left(limits, job) {
            return Ok(());
        }
        let is_full = |at: &&usize| self.left_of(limits, **at) < count(job);
        let full: Vec<usize> = sums_of(job).iter().filter(is_full).copied().collect();
        let barred = full.first().map(|at| Barred { sum: *at, first: self.first.get(at).copied() });
        if limits.too_small(job).is_none() {
            for at in full {
                self.first.entry(at).or_insert(job.id);
            }
        }
        barred.map_or(Ok(()), Err)
    }
}
