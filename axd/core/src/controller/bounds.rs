//! Limits on what jobs hold at once: which cards a queue, a user or a group may have, how many of them, how many CPUs and
//! how much memory. Within a limit nobody passes whoever waits for it: else those who want one card would keep who wants
//! more from ever starting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::{Config, Most};
use crate::id::{JobId, QueueName, Uid};
use crate::job::Job;
use crate::job::bounds::{Bounds, Cards, SumId, WholeNode};
use crate::node::Nodes;
use crate::size::Megabytes;
use crate::text;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Cards; a slice counts as one.
    #[default]
    Cards,
    /// CPUs.
    Cpus,
    /// Host memory, MB.
    Ram,
    /// Jobs.
    Jobs,
}

impl Counted {
    /// `3 cards`.
    pub fn in_words(self, number: u64) -> String {
        match self {
            Counted::Cards => text::count(number, "card"),
            Counted::Cpus => text::count(number, "CPU"),
            Counted::Ram => format!("{} of memory", Megabytes(number)),
            Counted::Jobs => text::count(number, "job"),
        }
    }

    /// The number alone, where the unit stands beside it.
    pub fn number(self, number: u64) -> String {
        match self {
            Counted::Ram => Megabytes(number).to_string(),
            _ => number.to_string(),
        }
    }

    /// So much of it a job holds on all of its nodes, or asks for: of whole nodes all that they have.
    pub(crate) fn of(self, job: &Job) -> u64 {
        let whole = job.attempt.as_deref().filter(|_| job.request.exclusive && job.state.is_active());
        match (self, whole) {
            (Counted::Jobs, _) => 1,
            (Counted::Cpus, Some(attempt)) => attempt.parts().map(|part| part.cpus.len() as u64).sum(),
            (Counted::Ram, Some(attempt)) => attempt.parts().map(|part| part.ram.0).sum(),
            _ => self.on_each(job).saturating_mul(u64::from(job.width())),
        }
    }

    /// So much of it a job asks for on each of its nodes; a job is one whatever these are.
    fn on_each(self, job: &Job) -> u64 {
        let (request, whole) = (&job.request, job.bounds.as_ref().and_then(|bounds| bounds.whole));
        match self {
            Counted::Cards => request.cards.as_ref().map_or(0, |cards| u64::from(cards.count)),
            Counted::Cpus => u64::from(whole.map_or(request.cpus, |whole| whole.cpus)),
            Counted::Ram => whole.map_or(request.ram, |whole| whole.ram).0,
            Counted::Jobs => 0,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Counted::Cards => "max_cards",
            Counted::Cpus => "max_cpus",
            Counted::Ram => "max_ram",
            Counted::Jobs => "max_running",
        }
    }
}

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Whose: `queue night`, `user li`, `group staff`.
    pub(crate) whose: String,
    /// The key that says it: `queues[].max_cards`.
    pub(crate) key: String,
    /// What.
    pub(crate) what: Counted,
    /// At most so many at once.
    pub(crate) max: u64,
    /// So many are held.
    pub(crate) held: u64,
}

/// Who counts in a sum, or is confined.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    Queue(QueueName),
    User(String),
    Group(String),
    /// Each user for themselves, in a queue or in all.
    EachUser(Option<QueueName>),
}

/// One limit as it is configured, its cards found.
#[derive(Debug, Clone)]
struct Limit {
    whose: Whose,
    only: Option<Cards>,
    what: Counted,
    max: Option<u64>,
}

/// Which limits concern a job, in which sums it counts, for whom its slice is under MPS, how large its whole nodes may be.
type Concerned = (Vec<usize>, Vec<SumId>, Option<Uid>, Option<WholeNode>);

/// All limits, and what is held under them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    /// Those of single users before those of groups and queues: see [`Turns::take`].
    limits: Vec<Limit>,
    sums: BTreeMap<SumId, Sum>,
    /// What jobs are bound to that the same limits hold for: there are many jobs and few of these.
    known: BTreeMap<Concerned, Arc<Bounds>>,
    /// Queues whose slices are under MPS.
    mps: BTreeSet<QueueName>,
}

impl Whose {
    fn is(&self, job: &Job) -> bool {
        match self {
            Whose::Queue(queue) => job.queue == *queue,
            Whose::User(user) => *job.owner.name == **user,
            Whose::Group(group) => job.rare.groups.iter().any(|own| **own == **group),
            Whose::EachUser(queue) => queue.as_ref().is_none_or(|queue| job.queue == *queue),
        }
    }

    /// As it counts for a job.
    fn in_words(&self, job: &Job) -> String {
        match self {
            Whose::Queue(queue) => format!("queue {queue}"),
            Whose::User(user) => format!("user {user}"),
            Whose::Group(group) => format!("group {group}"),
            Whose::EachUser(None) => format!("user {}", job.owner.name),
            Whose::EachUser(Some(queue)) => format!("user {} in queue {queue}", job.owner.name),
        }
    }

    fn key(&self, what: Counted) -> String {
        let key = what.key();
        match self {
            Whose::Queue(_) => format!("queues[].{key}"),
            Whose::User(_) | Whose::Group(_) => format!("limits[].{key}"),
            Whose::EachUser(None) => format!("policy.{key}_per_user"),
            Whose::EachUser(Some(_)) => format!("queues[].{key}_per_user"),
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
        this.add(&Whose::EachUser(None), &[], config.policy.per_user, None, nodes);
        for queue in &config.queues {
            this.add(&Whose::EachUser(Some(queue.name.clone())), &[], queue.per_user, None, nodes);
        }
        let of_people =
            |of_users: bool| config.limits.iter().filter(move |limit| limit.user.is_some() == of_users);
        for limit in of_people(true).chain(of_people(false)) {
            let user = limit.user.clone().map(Whose::User);
            if let Some(whose) = user.or_else(|| limit.group.clone().map(Whose::Group)) {
                let most = Most { cards: limit.max_cards, cpus: limit.max_cpus, ram: limit.max_ram };
                this.add(&whose, &limit.cards, most, limit.max_running, nodes);
            }
        }
        for queue in &config.queues {
            let most = Most { cards: queue.max_cards, cpus: queue.max_cpus, ram: queue.max_ram };
            this.add(&Whose::Queue(queue.name.clone()), &queue.cards, most, None, nodes);
            if queue.mps {
                this.mps.insert(queue.name.clone());
            }
        }
        this
    }

    fn add(&mut self, whose: &Whose, cards: &[String], most: Most, jobs: Option<u32>, nodes: &Nodes) {
        let limit = |what, max, only| Limit { whose: whose.clone(), only, what, max };
        let only = found(cards, nodes);
        if only.is_some() || most.cards.is_some() {
            self.limits.push(limit(Counted::Cards, most.cards.map(u64::from), only));
        }
        let others = [
            (Counted::Cpus, most.cpus.map(u64::from)),
            (Counted::Ram, most.ram.map(|ram| ram.0)),
            (Counted::Jobs, jobs.map(u64::from)),
        ];
        let given = others.into_iter().filter(|(_, max)| max.is_some());
        self.limits.extend(given.map(|(what, max)| limit(what, max, None)));
    }

    /// What a job is bound to; nothing: no limit concerns it.
    pub(crate) fn bounds(&mut self, job: &Job, nodes: &Nodes) -> Option<Arc<Bounds>> {
        if self.limits.is_empty() && self.mps.is_empty() {
            return None;
        }
        // A program speaks with one MPS daemon, and there is one for each card.
        let one_slice =
            job.request.cards.as_ref().is_some_and(|wanted| wanted.slice.is_some() && wanted.count == 1);
        let mps = Some(job.owner.uid).filter(|_| one_slice && self.mps.contains(&job.queue));
        let concerns = |limit: &Limit| limit.what.of(job) > 0 && limit.whose.is(job);
        let own: Vec<usize> = (0..self.limits.len()).filter(|at| concerns(&self.limits[*at])).collect();
        if own.is_empty() && mps.is_none() {
            return None;
        }
        let sums: Vec<SumId> = own.iter().filter_map(|at| self.sum(*at, job)).collect();
        let whole = self.whole_node(job, &own, nodes);
        let key = (own, sums, mps, whole);
        if let Some(known) = self.known.get(&key) {
            return Some(Arc::clone(known));
        }
        let mut bounds = Bounds { mps, whole, sums: key.1.clone(), only: None };
        for limit in key.0.iter().map(|at| &self.limits[*at]) {
            bounds.only = match (bounds.only.take(), &limit.only) {
                (Some(a), Some(b)) => Some(both(&a, b)),
                (a, b) => a.or_else(|| b.clone()),
            };
        }
        let bounds = Arc::new(bounds);
        self.known.insert(key, Arc::clone(&bounds));
        Some(bounds)
    }

    /// How large the nodes may be that a job has for itself: so many of them as it needs are never more than its limits
    /// let one hold. Of those the largest, so that whichever it gets there is room for it; if they are too few, so large
    /// that it is no use to wait.
    fn whole_node(&self, job: &Job, own: &[usize], nodes: &Nodes) -> Option<WholeNode> {
        let of = |what| own.iter().map(|at| &self.limits[*at]).filter(move |limit| limit.what == what);
        let count = job.request.nodes().min;
        let most =
            |what| of(what).filter_map(|limit| limit.max).min().map(|max| max / u64::from(count.max(1)));
        let (cpus, ram) = (most(Counted::Cpus), most(Counted::Ram));
        if !job.request.exclusive || (cpus, ram) == (None, None) {
            return None;
        }
        let could =
            nodes.iter().filter(|node| node.could_ever_hold(&*job.request, 0)).map(|node| &node.inventory);
        let mut could: Vec<WholeNode> = could.map(|has| WholeNode { cpus: has.cpus, ram: has.ram }).collect();
        could.sort_unstable();
        let may = |whole: &&WholeNode| {
            cpus.is_none_or(|most| u64::from(whole.cpus) <= most)
                && ram.is_none_or(|most| whole.ram.0 <= most)
        };
        let allowed: Vec<&WholeNode> = could.iter().filter(may).collect();
        if allowed.len() < count as usize {
            return could.iter().find(|whole| !may(whole)).copied();
        }
        let (cpus, ram) =
            (allowed.iter().map(|has| has.cpus).max()?, allowed.iter().map(|has| has.ram).max()?);
        Some(WholeNode { cpus, ram })
    }

    /// The sum in which a job counts under a limit, if that limits a number.
    fn sum(&mut self, at: usize, job: &Job) -> Option<SumId> {
        let limit = &self.limits[at];
        let max = limit.max?;
        let user = Some(job.owner.uid).filter(|_| matches!(limit.whose, Whose::EachUser(_)));
        let id = SumId { limit: at, user };
        let (what, key) = (limit.what, || limit.whose.key(limit.what));
        let new = || Sum { whose: limit.whose.in_words(job), key: key(), what, max, held: 0 };
        self.sums.entry(id).or_insert_with(new);
        Some(id)
    }

    /// A job holds what it asked for from now on.
    pub(crate) fn started(&mut self, job: &Job) {
        self.of_job(job, |sum| sum.held += sum.what.of(job));
    }

    /// No longer.
    pub(crate) fn ended(&mut self, job: &Job) {
        self.of_job(job, |sum| sum.held = sum.held.saturating_sub(sum.what.of(job)));
    }

    fn of_job(&mut self, job: &Job, change: impl Fn(&mut Sum)) {
        for id in sums_of(job) {
            if let Some(sum) = self.sums.get_mut(id) {
                change(sum);
            }
        }
    }

    /// Nobody holds anything.
    pub(crate) fn none_held(&mut self) {
        self.sums.values_mut().for_each(|sum| sum.held = 0);
    }

    /// A sum that could never let a job start.
    pub(crate) fn too_small(&self, job: &Job) -> Option<&Sum> {
        sums_of(job).iter().filter_map(|id| self.sums.get(id)).find(|sum| sum.what.of(job) > sum.max)
    }

    /// What is counted together.
    pub(crate) fn sum_of(&self, id: SumId) -> Option<&Sum> {
        self.sums.get(&id)
    }

    /// Of each sum in which a job counts: the most, and what it counts.
    pub(crate) fn amounts(&self, job: &Job) -> impl Iterator<Item = (SumId, u64, u64)> {
        let sums = sums_of(job).iter().filter_map(|id| Some((*id, self.sums.get(id)?)));
        sums.map(|(id, sum)| (id, sum.max, sum.what.of(job)))
    }

    /// Who confines a job to certain cards.
    pub(crate) fn confining(&self, job: &Job) -> Vec<String> {
        let own = self.limits.iter().filter(|limit| limit.only.is_some() && limit.whose.is(job));
        own.map(|limit| limit.whose.in_words(job)).collect()
    }
}

/// The sums in which a job counts, those of single users first.
fn sums_of(job: &Job) -> &[SumId] {
    job.bounds.as_ref().map_or(&[], |bounds| &bounds.sums)
}

/// Whether a job counts in a sum.
pub(crate) fn counts_in(job: &Job, sum: SumId) -> bool {
    sums_of(job).contains(&sum)
}

/// What limits leave a job, of each thing that they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    cards: u64,
    cpus: u64,
    ram: u64,
    jobs: u64,
}

impl Left {
    /// For how many nodes that is enough, as far as each asks for any of it.
    pub(crate) fn nodes(&self, job: &Job) -> u32 {
        let all = [(Counted::Cards, self.cards), (Counted::Cpus, self.cpus), (Counted::Ram, self.ram)];
        let nodes = all.into_iter().filter_map(|(what, left)| left.checked_div(what.on_each(job)));
        nodes.min().map_or(u32::MAX, |nodes| u32::try_from(nodes).unwrap_or(u32::MAX))
    }

    /// Whether that is as much as a job asks for.
    pub(crate) fn is_enough(&self, job: &Job) -> bool {
        Counted::Cards.of(job) <= self.cards
            && Counted::Cpus.of(job) <= self.cpus
            && Counted::Ram.of(job) <= self.ram
            && Counted::Jobs.of(job) <= self.jobs
    }
}

/// What a walk along the waiting jobs leaves of the limits.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// What is kept for jobs that come before.
    kept: BTreeMap<SumId, u64>,
    /// Who waits for the limit and lets nobody pass.
    first: BTreeMap<SumId, JobId>,
}

/// Why a limit does not let a job start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Barred {
    /// The sum.
    pub(crate) sum: SumId,
    /// Who waits for it before.
    pub(crate) first: Option<JobId>,
}

impl Turns {
    /// What a job asks for is kept for it.
    pub(crate) fn keep(&mut self, limits: &Limits, job: &Job) {
        sums_of(job).iter().for_each(|id| self.keep_in(limits, *id, job));
    }

    fn keep_in(&mut self, limits: &Limits, id: SumId, job: &Job) {
        let asks = limits.sums.get(&id).map_or(0, |sum| sum.what.of(job));
        *self.kept.entry(id).or_default() += asks;
    }

    /// What the limits leave a job.
    pub(crate) fn left(&self, limits: &Limits, job: &Job) -> Left {
        let mut left = Left { cards: u64::MAX, cpus: u64::MAX, ram: u64::MAX, jobs: u64::MAX };
        for (id, sum) in sums_of(job).iter().filter_map(|id| Some((*id, limits.sums.get(id)?))) {
            let least = match sum.what {
                Counted::Cards => &mut left.cards,
                Counted::Cpus => &mut left.cpus,
                Counted::Ram => &mut left.ram,
                Counted::Jobs => &mut left.jobs,
            };
            *least = (*least).min(self.left_of(id, sum));
        }
        left
    }

    fn left_of(&self, id: SumId, sum: &Sum) -> u64 {
        let taken = sum.held + self.kept.get(&id).copied().unwrap_or(0);
        if self.first.contains_key(&id) { 0 } else { sum.max.saturating_sub(taken) }
    }

    /// Whether the limits let a job start; if not, nobody passes it in those that it waits for, unless somebody is
    /// before it in one of them: then it could use none of what the others have left, and holds nobody up there.
    ///
    /// Who is first also keeps what it asks for in those of its own that come before the last of them and have room:
    /// else it might be passed in these while it waits for the other, and the other way round for ever. Those of
    /// single users come first, so whoever waits for a limit of their own keeps nothing of what many share.
    pub(crate) fn take(&mut self, limits: &Limits, job: &Job) -> Result<(), Barred> {
        let is_full =
            |id: SumId| limits.sums.get(&id).is_some_and(|sum| self.left_of(id, sum) < sum.what.of(job));
        let own: Vec<(SumId, bool)> = sums_of(job).iter().map(|id| (*id, is_full(*id))).collect();
        let full: Vec<SumId> = own.iter().filter(|(_, full)| *full).map(|(id, _)| *id).collect();
        let (Some(&least), Some(&last)) = (full.first(), full.last()) else { return Ok(()) };
        let barred = Barred { sum: least, first: self.first.get(&least).copied() };
        if !full.iter().any(|id| self.first.contains_key(id)) {
            self.first.extend(full.iter().map(|id| (*id, job.id)));
            let before = own.iter().filter(|(id, full)| !full && *id < last);
            before.for_each(|(id, _)| self.keep_in(limits, *id, job));
        }
        Err(barred)
    }

    /// Whether somebody waits for one of these sums and lets nobody pass, so that who counts in it need not be asked
    /// about.
    pub(crate) fn bar(&self, bounds: Option<&Bounds>) -> bool {
        let first = |bounds: &Bounds| bounds.sums.iter().any(|id| self.first.contains_key(id));
        bounds.is_some_and(|bounds| !self.first.is_empty() && first(bounds))
    }

    /// Whether that holds for any sum.
    pub(crate) fn bar_some(&self) -> bool {
        !self.first.is_empty()
    }
}
