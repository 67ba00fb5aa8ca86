//! The pass: down the order of the waiting jobs, starting what fits, keeping
//! places for the first that don't, making room for urgent ones.

use std::collections::BTreeMap;

use crate::config::Scheduler;
use crate::id::{AttemptName, HostName, JobNumber, QueueName};
use crate::job::spec::PreemptMode;
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Actor, Attempt, Job};
use crate::node::{AttemptKey, Node, Nodes};
use crate::schedule::lane::Worth;
use crate::schedule::order::{ShapeId, Waiting};
use crate::schedule::placement::{Place, Rules};
use crate::schedule::preempt::{Eviction, Loss, make_room};
use crate::schedule::share::{Price, Share, correction, price};
use crate::schedule::timeline::{Reservation, Timeline};
use crate::schedule::walk::Walk;
use crate::text::count;
use crate::time::{Now, Span, WallTime};

use super::{Controller, Decision, Move};

/// A place that victims are leaving for an urgent job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    job: JobNumber,
    place: Place,
    victims: Vec<AttemptKey>,
}

/// What a pass came to.
enum Pass {
    /// Something was started: what was passed over may be first now.
    Started,
    /// Nothing more to do.
    Done,
    /// Victims are to go; the next pass follows at once.
    Evicting,
}

/// What a pass has found out about the shapes of jobs: as long as nothing ends, what did not fit will not fit.
#[derive(Default)]
struct Blocked {
    shapes: Vec<OfShape>,
    /// From this priority on others may have to go.
    urgent: Option<u8>,
}

#[derive(Clone, Copy)]
struct OfShape {
    /// The least length with which a job of the shape was found not to fit; nothing: it doesn't however short.
    length: Span,
    /// Jobs of a lower priority can make nobody go.
    no_victims_below: u8,
}

impl Blocked {
    const UNKNOWN: OfShape = OfShape { length: Span(u64::MAX), no_victims_below: 0 };

    fn covers(&self, waiting: &Waiting) -> bool {
        self.of(waiting.shape).length <= waiting.length
    }

    fn of(&self, shape: ShapeId) -> OfShape {
        self.shapes.get(shape.position()).copied().unwrap_or(Self::UNKNOWN)
    }

    fn of_mut(&mut self, shape: ShapeId) -> &mut OfShape {
        if shape.position() >= self.shapes.len() {
            self.shapes.resize(shape.position() + 1, Self::UNKNOWN);
        }
        &mut self.shapes[shape.position()]
    }

    fn add(&mut self, shape: ShapeId, length: Span) {
        let known = self.of_mut(shape);
        known.length = length.min(known.length);
    }

    /// Which jobs of a shape could still be started, or have others go.
    fn worth(&self, shape: ShapeId) -> Worth {
        let OfShape { length, no_victims_below } = self.of(shape);
        let from_priority = self.urgent.map_or(u8::MAX, |urgent| urgent.max(no_victims_below));
        Worth { shorter_than: length, from_priority }
    }
}

impl Controller {
    /// Starts whatever can be started now.
    pub(super) fn schedule(&mut self, now: Now, out: &mut Vec<Decision>) {
        self.pass_due = false;
        self.settle_claims(now, out);
        loop {
            match self.pass(now, out) {
                Pass::Started => {}
                Pass::Done => return,
                Pass::Evicting => {
                    self.pass_due = true;
                    return;
                }
            }
        }
    }

    /// Which place is the best, by the configuration.
    pub(crate) fn rules(&self) -> Rules {
        Rules::new(self.config.policy.packing, self.config.resources.gpu_reserve, &self.mix)
    }

    /// The timeline with what is claimed.
    pub(crate) fn timeline(&self, now: WallTime) -> Timeline {
        let mut timeline = Timeline::new(now);
        for claim in &self.claims {
            if let Some(job) = self.jobs.get(&claim.job) {
                timeline.reserve(self.reservation(job, &claim.place, now));
            }
        }
        timeline
    }

    /// A place kept for a job from then on.
    pub(crate) fn reservation(&self, job: &Job, place: &Place, from: WallTime) -> Reservation {
        let has = self.nodes.as_slice().get(place.node).map(|node| &node.inventory);
        Reservation {
            job: job.id.number,
            node: place.node,
            from,
            until: from + self.planned(job),
            cards: place.cards.clone(),
            cpus: has.map_or(0, |has| has.cpus_for(&job.request)),
            ram: has.map_or_else(Default::default, |has| has.ram_for(&job.request)),
        }
    }

    /// How long a job is planned to run.
    pub(crate) fn planned(&self, job: &Job) -> Span {
        const SHORTEST: Span = Span::seconds(1);
        let request = &job.request;
        let all = request.estimate.or(request.time_limit).unwrap_or(self.config.policy.unplanned());
        if job.saved == Span(0) { all } else { Span(all.0.saturating_sub(job.saved.0)).max(SHORTEST) }
    }

    /// All nodes, by position.
    pub(crate) fn all_nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Where a node stands.
    pub(crate) fn position_of(&self, node: &HostName) -> Option<usize> {
        self.nodes.position(node)
    }

    /// The share of the cluster that a job takes.
    pub(crate) fn share(&self, job: &Job) -> Share {
        self.measure.share(&job.request)
    }

    /// Urgent jobs whose victims have gone start in their places.
    fn settle_claims(&mut self, now: Now, out: &mut Vec<Decision>) {
        for claim in std::mem::take(&mut self.claims) {
            let waits = self.jobs.get(&claim.job).filter(|job| job.state == JobState::Ready);
            let (Some(job), Some(node)) = (waits, self.nodes.as_slice().get(claim.place.node)) else {
                continue;
            };
            if claim.victims.iter().any(|victim| node.held().contains_key(victim)) {
                self.claims.push(claim);
            } else if self.still_fits(job, node, &claim.place) {
                self.assign(now, claim.job, &claim.place, out);
            }
        }
    }

    fn still_fits(&self, job: &Job, node: &Node, place: &Place) -> bool {
        let has = &node.inventory;
        let room = |(at, charge): &(usize, _)| {
            let limit = job.request.cards.as_ref().and_then(|wanted| {
                Some(has.cards.get(*at)?.demand(wanted, self.config.resources.gpu_reserve)?.limit)
            });
            limit.is_some_and(|limit| node.cards_used()[*at].charged + *charge <= limit)
        };
        node.cpus_used() + has.cpus_for(&job.request) <= has.cpus
            && node.ram_used() + has.ram_for(&job.request) <= has.ram
            && place.cards.iter().all(room)
    }

    fn pass(&mut self, now: Now, out: &mut Vec<Decision>) -> Pass {
        let (rules, strict) = (self.rules(), self.config.policy.scheduler == Scheduler::FifoStrict);
        let mut timeline = self.timeline(now.wall);
        let most = if strict { 0 } else { self.config.policy.reservations as usize };
        let mut left = most;
        let policy = &self.config.policy;
        let mut blocked =
            Blocked { urgent: policy.preemption.then_some(policy.preempt_priority), ..Blocked::default() };
        let mut walk = self.order.walk(&self.config, &self.times, &self.factors(now.wall), true);
        let mut started = false;
        let mut tried = false;
        loop {
            let some_only = left == 0 && !strict;
            if some_only
                && !std::mem::replace(&mut tried, true)
                && !self.try_shapes(&rules, &timeline, &walk, &mut blocked)
            {
                break;
            }
            let next = match some_only {
                true => walk.next_worthy(&self.order, &|shape| blocked.worth(shape)),
                false => walk.next(&self.order),
            };
            let Some((waiting, queue)) = next else { break };
            if !self.startable(&queue) {
                walk.leave(&queue);
                continue;
            }
            if self.claims.iter().any(|claim| claim.job == waiting.number) {
                continue;
            }
            let Some(job) = self.jobs.get(&waiting.number) else { continue };
            let known = blocked.covers(&waiting);
            let place = match known {
                true => None,
                false => rules.place(&self.nodes, &timeline, &job.request, now.wall, waiting.length),
            };
            if let Some(place) = place {
                started |= self.assign(now, waiting.number, &place, out);
                timeline.changed(place.node);
                continue;
            }
            if !known {
                let empty = Timeline::new(now.wall);
                let alone = left < most
                    && rules.place(&self.nodes, &empty, &job.request, now.wall, Span(0)).is_some();
                blocked.add(waiting.shape, if alone { waiting.length } else { Span(0) });
            }
            if let Some(eviction) = self.find_victims(now, job, waiting.shape, &timeline, &mut blocked) {
                self.evict(waiting.number, eviction, out);
                return Pass::Evicting;
            }
            if strict {
                break;
            }
            if left > 0 {
                let earliest = rules.earliest(&self.nodes, &timeline, &job.request, now.wall, waiting.length);
                if let Some((from, place)) = earliest {
                    timeline.reserve(self.reservation(job, &place, from));
                    left -= 1;
                }
            }
        }
        if started { Pass::Started } else { Pass::Done }
    }

    /// Once no more places are kept only jobs matter that can start at once, or have others go: whether there are any,
    /// by the shortest of each shape.
    fn try_shapes(&self, rules: &Rules, timeline: &Timeline, walk: &Walk, blocked: &mut Blocked) -> bool {
        let mut some = false;
        for waiting in walk.shortest_of_each(&self.order, &|shape| blocked.worth(shape)) {
            let Some(job) = self.jobs.get(&waiting.number) else { continue };
            let fits = || rules.place(&self.nodes, timeline, &job.request, timeline.now(), waiting.length);
            if !blocked.covers(&waiting) && fits().is_none() {
                blocked.add(waiting.shape, waiting.length);
            }
            some |= blocked.urgent.is_some() || !blocked.covers(&waiting);
        }
        some
    }

    fn startable(&self, queue: &QueueName) -> bool {
        self.config.queue(queue.as_str()).is_some_and(|queue| self.order.may_start(queue))
    }

    pub(super) fn assign(
        &mut self,
        now: Now,
        number: JobNumber,
        place: &Place,
        out: &mut Vec<Decision>,
    ) -> bool {
        let Some(job) = self.jobs.get(&number) else { return false };
        let (planned, share) = (self.planned(job), self.share(job));
        let Some(node) = self.nodes.as_slice().get(place.node) else { return false };
        let cards: Vec<usize> = place.cards.iter().map(|(at, _)| *at).collect();
        let allocation = node.allocation(&job.request, &cards, self.config.resources.gpu_reserve);
        let name = AttemptName { job: job.id, epoch: self.next_epoch };
        self.next_epoch = self.next_epoch.next();
        let Some(job) = self.jobs.get_mut(&number) else { return false };
        job.attempts += 1;
        let attempt_number = job.attempts;
        job.attempt = Some(Box::new(Attempt {
            name,
            number: attempt_number,
            allocation: allocation.clone(),
            assigned_at: now.wall,
            planned,
            started_at: None,
            checkpoint_at: None,
            card_used: None,
            ending: None,
            end: None,
        }));
        let why = why_it(job, &allocation);
        let queue = job.queue.clone();
        if let Some(node) = self.nodes.get_mut(&allocation.node) {
            node.hold(name, allocation.clone(), now.wall + planned);
        }
        self.charge(&queue, price(self.config.policy.cost, share, planned));
        let owner = self.jobs.get(&number).map(|job| job.owner.uid);
        if let Some(owner) = owner.filter(|_| self.config.policy.scheduler == Scheduler::FairShare) {
            self.usages.started(owner, share, now.wall, self.config.policy.usage_half_life);
        }
        let shifted = self.shift(now, number, Move::by_ax(Cause::Assigned, JobState::Starting, &why), out);
        out.push(Decision::Launch { attempt: name, number: attempt_number, allocation, why });
        shifted
    }

    /// Under other schedulers nobody keeps count.
    fn charge(&mut self, queue: &QueueName, price: Price) {
        if self.config.policy.scheduler == Scheduler::FairShare {
            let weight = self.config.queue(queue.as_str()).map_or(1, |queue| queue.priority);
            self.times.charge(queue, price, weight);
        }
    }

    /// Charges a queue for what a job really used instead of what was planned.
    pub(super) fn settle_share(&mut self, job: JobNumber, until: WallTime) {
        let Some(job) = self.jobs.get(&job) else { return };
        let Some(attempt) = &job.attempt else { return };
        let ran = until - attempt.started_at.unwrap_or(attempt.assigned_at);
        let (owner, share) = (job.owner.uid, self.share(job));
        let correction = correction(self.config.policy.cost, share, attempt.planned, ran);
        let queue = job.queue.clone();
        if self.config.policy.scheduler == Scheduler::FairShare {
            self.usages.ended(owner, share, until, self.config.policy.usage_half_life);
        }
        self.charge(&queue, correction);
    }

    /// A queue that gets its first waiting job has earned nothing while it had none.
    pub(super) fn wake_queue(&mut self, queue: &QueueName) {
        if self.config.policy.scheduler == Scheduler::FairShare && !self.order.waits(queue) {
            self.times.wake(queue, self.order.in_use());
        }
    }

    fn find_victims(
        &self,
        now: Now,
        job: &Job,
        shape: ShapeId,
        timeline: &Timeline,
        blocked: &mut Blocked,
    ) -> Option<Eviction> {
        // Whoever can't make others go could not if it were less urgent either.
        if job.request.priority < blocked.worth(shape).from_priority {
            return None;
        }
        let claims: Vec<&Reservation> = timeline.iter().filter(|r| r.from <= now.wall).collect();
        let options = self.nodes.iter().enumerate().filter_map(|(position, node)| {
            if !node.inventory.admits(&job.request) {
                return None;
            }
            let kept: Vec<&Reservation> = claims.iter().copied().filter(|r| r.node == position).collect();
            let candidates = self.victims_on(now.wall, node, job);
            make_room(position, node, &kept, &job.request, self.config.resources.gpu_reserve, &candidates)
        });
        let least =
            options.min_by_key(|eviction| (eviction.loss, eviction.victims.len(), eviction.place.node));
        if least.is_none() {
            blocked.of_mut(shape).no_victims_below = job.request.priority.saturating_add(1);
        }
        least
    }

    /// Who on a node may be ended for a job, and what that would lose.
    fn victims_on(&self, now: WallTime, node: &Node, urgent: &Job) -> BTreeMap<AttemptKey, Loss> {
        let policy = &self.config.policy;
        let gap =
            |job: &Job| urgent.request.priority >= job.request.priority.saturating_add(policy.preempt_gap);
        let candidate = |key: &AttemptKey| {
            let job = self.jobs.get(self.by_epoch.get(key)?)?;
            let attempt = job.attempt.as_ref().filter(|a| a.ending.is_none() && a.end.is_none())?;
            let may_go = gap(job)
                && job.evictions < policy.max_preemptions
                && match job.request.preempt {
                    PreemptMode::Requeue => job.request.requeue,
                    PreemptMode::Cancel => true,
                    PreemptMode::Suspend | PreemptMode::Never => false,
                };
            if !may_go {
                return None;
            }
            let start = attempt.started_at.unwrap_or(attempt.assigned_at);
            let lost = now - attempt.checkpoint_at.unwrap_or(start);
            let work = card_millionths(node, attempt) * u128::from(lost.0);
            Some((*key, Loss { work, started: std::cmp::Reverse(start.0), job: u64::from(job.id.number.0) }))
        };
        node.held().keys().filter_map(candidate).collect()
    }

    fn evict(&mut self, urgent: JobNumber, eviction: Eviction, out: &mut Vec<Decision>) {
        let Some(id) = self.jobs.get(&urgent).map(|job| job.id) else { return };
        let message = format!("makes room for {id}, which is more urgent");
        for victim in &eviction.victims {
            if let Some(number) = self.by_epoch.get(victim).copied() {
                self.end_attempt(number, Outcome::Preempted, &Actor::Ax, message.clone(), out);
            }
        }
        self.claims.push(Claim { job: urgent, place: eviction.place, victims: eviction.victims });
    }

    /// Whether no node could hold the job even if it were empty.
    pub(super) fn fits_nowhere(&self, job: &Job) -> bool {
        let reserve = self.config.resources.gpu_reserve;
        !self.nodes.iter().any(|node| node.could_ever_hold(&job.request, reserve))
    }

    /// After a change of nodes or configuration: the order of the ready jobs anew, and which can never be placed now.
    pub(super) fn enter_order_anew(&mut self) {
        self.measure = crate::schedule::share::Measure::of(&self.nodes);
        self.order = crate::schedule::order::WaitingOrder::default();
        let jobs = std::mem::take(&mut self.jobs);
        for job in jobs.values() {
            self.enter_order(job);
        }
        self.jobs = jobs;
        self.enter_rates();
    }

    /// What each user's jobs take now, anew: shares are measured by the nodes there are.
    pub(super) fn enter_rates(&mut self) {
        self.usages.forget_rates(self.seen, self.config.policy.usage_half_life);
        if self.config.policy.scheduler == Scheduler::FairShare {
            for job in self.active.iter().filter_map(|number| self.jobs.get(number)) {
                self.usages.goes_on(job.owner.uid, self.measure.share(&job.request));
            }
        }
    }

    /// Enters a job into the order, if it is ready or active.
    pub(super) fn enter_order(&mut self, job: &Job) {
        if job.state == JobState::Ready {
            if self.fits_nowhere(job) {
                self.order.insert_misfit(job.id.number);
            } else {
                self.order.insert(job, &self.config, self.planned(job), self.share(job));
            }
        }
        if job.state.is_active() {
            self.order.started(&job.queue);
        }
    }

    /// Whether a job waits for something that no node has.
    pub fn is_misfit(&self, number: JobNumber) -> bool {
        self.order.is_misfit(number)
    }

    /// Active jobs of a queue.
    pub fn active_in(&self, queue: &QueueName) -> u32 {
        self.order.active(queue)
    }
}

/// Cards' worth of what an attempt holds, in millionths: a part of a card by its memory.
fn card_millionths(node: &Node, attempt: &Attempt) -> u128 {
    let part = |share: &crate::node::CardShare| {
        let card = node.inventory.cards.iter().find(|card| card.index == share.index)?;
        let slice = share.slice.unwrap_or(card.mem);
        Some(u128::from(slice.0) * 1_000_000 / u128::from(card.mem.0.max(1)))
    };
    let cards: u128 = attempt.allocation.cards.iter().filter_map(part).sum();
    if cards > 0 { cards } else { attempt.allocation.cpus.len() as u128 }
}

/// Why this job, and why there.
fn why_it(job: &Job, allocation: &crate::node::Allocation) -> String {
    let cards = match allocation.cards.as_slice() {
        [] => String::new(),
        cards => {
            let word = if cards.len() == 1 { "card" } else { "cards" };
            format!(", {word} {}", cards.iter().map(|c| c.index.to_string()).collect::<Vec<_>>().join(","))
        }
    };
    format!(
        "first in queue {} with priority {}; {} has {} and {} free for it{cards}",
        job.queue,
        job.request.priority,
        allocation.node,
        count(allocation.cpus.len() as u64, "CPU"),
        allocation.ram
    )
}
