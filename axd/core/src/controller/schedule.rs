//! The pass: down the order of the waiting jobs, starting what fits, keeping
//! places for the first that don't, making room for urgent ones.

use crate::config::{Cost, Scheduler};
use crate::explain::started::Chosen;
use crate::id::{HostName, JobNumber, QueueName, Uid};
use crate::job::Job;
use crate::job::bounds::Asks;
use crate::node::Nodes;
use crate::schedule::gang::Places;
use crate::schedule::order::{Lengths, Waiting, since};
use crate::schedule::placement::{Place, Rules};
use crate::schedule::share::{Charged, Share, VirtualTime, price};
use crate::schedule::timeline::{Reservation, Timeline};
use crate::schedule::usage::Factors;
use crate::schedule::walk::Walk;
use crate::time::{Now, Span, WallTime};

use super::bounds::Left;
use super::pass_state::PassState;
use super::places::UserPlaces;
use super::witness::Witness;
use super::{Controller, Decision};

/// In which what queues have had is told.
const HOUR: Span = Span::seconds(3600);

/// What a pass came to.
enum Pass {
    /// Something was started: what was passed over may be first now.
    Started,
    /// Nothing more to do.
    Done,
    /// Victims are to go; the next pass follows at once.
    Evicting,
}

/// Who is left out of a pass from there on.
enum LeftOut {
    /// All of the queue.
    Queue,
    /// The job alone: others are leaving its place.
    Job,
    /// All of the user, in one queue or in all.
    User {
        /// In this queue alone.
        of_queue: Option<QueueName>,
    },
}

/// A limit on what one user runs at once that is reached.
pub(crate) struct UserLimit {
    /// In this queue; absent: in all.
    pub(crate) queue: Option<QueueName>,
    pub(crate) active: u32,
    pub(crate) max: u32,
}

impl Controller {
    /// Starts whatever can be started now.
    pub(super) fn schedule(&mut self, now: Now, out: &mut Vec<Decision>) {
        self.schedule_before(now, out, &mut Witness::default());
    }

    /// The same before a witness.
    pub(super) fn schedule_before(&mut self, now: Now, out: &mut Vec<Decision>, witness: &mut Witness) {
        self.pass_due = false;
        self.settle_claims(now, out);
        // Nobody has had more of it because of what starts at this instant.
        let factors = self.factors(now.wall);
        loop {
            match self.pass(now, &factors, out, witness) {
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

    /// The timeline with what is claimed, and what is kept for a job between its hours.
    pub(crate) fn timeline(&self, now: WallTime) -> Timeline {
        let mut timeline = Timeline::new(now);
        for job in self.claims.iter().filter_map(|number| self.job(*number)) {
            for place in self.claimed(job).iter().flat_map(Places::iter) {
                timeline.reserve(self.reservation(job, place, now));
            }
        }
        self.kept_between_hours(&timeline).into_iter().for_each(|kept| timeline.reserve(kept));
        timeline
    }

    /// A place kept for a job from then on, on one of its nodes.
    pub(crate) fn reservation(&self, job: &Job, place: &Place, from: WallTime) -> Reservation {
        let has = self.nodes.as_slice().get(place.node).map(|node| &node.inventory);
        Reservation {
            job: job.id.number,
            node: place.node,
            from,
            until: from + self.planned(job),
            cards: place.cards.clone(),
            company: place.company,
            cpus: has.map_or(0, |has| has.cpus_for(&job.request)),
            ram: has.map_or_else(Default::default, |has| has.ram_for(&job.request)),
            firm: self.is_firm(job),
        }
    }

    /// Whether what others declare counts before the place that is kept for a job, and not what was learnt of them: from
    /// when it has waited for the starvation bound, for that is how long it may wait at most for what may happen; where
    /// nothing ages always, unless the policy counts on what was learnt.
    fn is_firm(&self, job: &Job) -> bool {
        let policy = &self.config.policy;
        policy.starvation_bound.map_or(!policy.learnt_ends, |bound| self.seen - since(job) >= bound)
    }

    /// How long a job is planned to run.
    pub(crate) fn planned(&self, job: &Job) -> Span {
        self.planned_with(job, job.length())
    }

    /// How long it runs if it takes what it declares; never less than is planned.
    pub(crate) fn declared(&self, job: &Job) -> Span {
        self.planned_with(job, job.declared()).max(self.planned(job))
    }

    /// With which length it must fit in beside the places that are kept for those before it.
    pub(crate) fn fitting(&self, job: &Job, timeline: &Timeline) -> Span {
        match timeline.lengths() {
            Lengths::Planned => self.planned(job),
            Lengths::Declared => self.declared(job),
        }
    }

    pub(super) fn planned_with(&self, job: &Job, length: Option<Span>) -> Span {
        const SHORTEST: Span = Span::seconds(1);
        let all = length.unwrap_or(self.config.policy.unplanned());
        if job.rare.saved == Span(0) {
            all
        } else {
            Span(all.0.saturating_sub(job.rare.saved.0)).max(SHORTEST)
        }
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
        self.measure.share(&job.request).on(job.width())
    }

    fn pass(&mut self, now: Now, factors: &Factors, out: &mut Vec<Decision>, witness: &mut Witness) -> Pass {
        let found = std::mem::take(&mut self.found_places);
        let mut state = self.begin_pass(now, found);
        let walk = self.order.walk(&self.config, &self.times, factors, true);
        let pass = self.go_down(walk, &mut state, now, out, witness);
        state.found.forget(state.most);
        self.found_places = state.found;
        pass
    }

    /// Goes down the order of those who wait.
    fn go_down(
        &mut self,
        mut walk: Walk,
        state: &mut PassState,
        now: Now,
        out: &mut Vec<Decision>,
        witness: &mut Witness,
    ) -> Pass {
        witness.begins();
        let (rules, strict) = (self.rules(), self.config.policy.scheduler == Scheduler::FifoStrict);
        let between = self.between_hours().map(|job| job.id.number);
        state.timeline.iter().filter(|kept| Some(kept.job) == between).for_each(|kept| witness.keeps(kept));
        let (mut started, mut tried) = (false, false);
        loop {
            let some_only = state.left == 0 && !strict && !witness.waits_for_one();
            if some_only && !std::mem::replace(&mut tried, true) && !self.try_shapes(&rules, &walk, state) {
                break;
            }
            let next = match some_only {
                true => walk.next_worthy(&self.order, &|shape| state.worth(&self.order, shape)),
                // Whoever is first behind very many that a limit holds back is found all the same.
                false if state.turns.bar_some() && !witness.waits_for_one() => {
                    walk.next_worthy(&self.order, &|shape| state.unbarred(&self.order, shape))
                }
                false => walk.next(&self.order),
            };
            let Some((waiting, queue)) = next else { break };
            let Some(job) = self.job(waiting.number) else { continue };
            let owner = job.owner.uid;
            match self.left_out(now, job, &queue, state) {
                None => {}
                Some(LeftOut::Queue) => {
                    walk.leave(&queue);
                    continue;
                }
                Some(LeftOut::Job) => continue,
                Some(LeftOut::User { of_queue }) => {
                    walk.leave_user(owner, of_queue.as_ref());
                    continue;
                }
            }
            let left = state.turns.left(&self.limits, job);
            witness.looks_at(waiting.number, &self.nodes, &state.timeline, left);
            if state.turns.take(&self.limits, job).is_err() {
                continue;
            }
            if let Some(places) = self.place_now(&rules, job, (&waiting, left), state) {
                started |= self.assign(now, waiting.number, &places, Chosen::Next(&witness.passed), out);
                if self.try_one_on(now, &places, owner) {
                    walk.leave_user(owner, None);
                }
                places.iter().for_each(|place| state.timeline.changed(place.node));
                continue;
            }
            let (timeline, blocked) = (&state.timeline, &mut state.blocked);
            if let Some(eviction) = self.find_victims(now, job, waiting.shape, timeline, blocked) {
                witness.ends(&walk);
                self.evict(now, waiting.number, eviction, out);
                return Pass::Evicting;
            }
            if strict {
                break;
            }
            witness.passed.add(&waiting);
            if let Some(kept) = self.keep_place(&rules, job, &waiting, queue, state) {
                state.users_kept.keep(job);
                for reservation in kept {
                    witness.keeps(&reservation);
                    state.timeline.reserve(reservation);
                }
            }
        }
        witness.ends(&walk);
        if started { Pass::Started } else { Pass::Done }
    }

    /// Who can't be started whatever is free, when a job's turn comes.
    fn left_out(&self, now: Now, job: &Job, queue: &QueueName, state: &PassState) -> Option<LeftOut> {
        if !self.startable(queue, &state.kept) {
            return Some(LeftOut::Queue);
        }
        if self.claims.contains(&job.id.number) {
            return Some(LeftOut::Job);
        }
        if self.starts_nothing(now, job.owner.uid) {
            return Some(LeftOut::User { of_queue: None });
        }
        let limit = self.user_limit(job, &state.users_kept)?;
        Some(LeftOut::User { of_queue: limit.queue })
    }

    /// Where a job has room now, beside the cards that limits leave it. If nowhere, that is noted for all like it.
    fn place_now(
        &self,
        rules: &Rules,
        job: &Job,
        (waiting, left): (&Waiting, Left),
        state: &mut PassState,
    ) -> Option<Places> {
        let by = state.timeline.lengths();
        if state.blocked.covers(waiting, by) {
            return None;
        }
        let (wanted, now) = (Asks::from(job).at_most(left.nodes(job)), state.timeline.now());
        let place = rules.places(&self.nodes, &state.timeline, wanted, now, waiting.by(by));
        if place.is_none() {
            let empty = Timeline::new(now);
            let alone =
                state.left < state.most && rules.places(&self.nodes, &empty, wanted, now, Span(0)).is_some();
            state.blocked.add(waiting.shape, if alone { waiting.by(by) } else { Span(0) });
        }
        place
    }

    /// Keeps the earliest place for a job that has none now, if one more is to be kept.
    fn keep_place(
        &self,
        rules: &Rules,
        job: &Job,
        waiting: &Waiting,
        queue: QueueName,
        state: &mut PassState,
    ) -> Option<Vec<Reservation>> {
        let left = state.left.checked_sub(1)?;
        let span = (state.timeline.now(), waiting.by(state.timeline.lengths()));
        let earliest = match job.hours() {
            None => state.found.earliest(rules, &self.nodes, &state.timeline, job, span.1),
            Some(_) => self.earliest_in_time(rules, &state.timeline, job, span),
        };
        let Some((from, places)) = earliest else {
            // All that is there comes too late for it. Very many of these must not be looked into one by one.
            state.fruitless += usize::from(job.hours().is_some());
            if state.fruitless > state.most {
                state.left = 0;
            }
            return None;
        };
        if state.reserved.insert(queue.clone()) {
            state.kept.push(queue);
        }
        state.left = left;
        state.turns.keep(&self.limits, job);
        Some(places.iter().map(|place| self.reservation(job, place, from)).collect())
    }

    /// Once no more places are kept only jobs matter that can start at once, or have others go: whether there are any,
    /// by the shortest of each shape.
    fn try_shapes(&self, rules: &Rules, walk: &Walk, state: &mut PassState) -> bool {
        let by = state.timeline.lengths();
        let of_each = walk.shortest_of_each(&self.order, by, &|shape| state.worth(&self.order, shape));
        let (timeline, blocked) = (&state.timeline, &mut state.blocked);
        let mut some = false;
        for waiting in of_each {
            let Some(job) = self.job(waiting.number) else { continue };
            let fits = || rules.places(&self.nodes, timeline, job, timeline.now(), waiting.by(by));
            if !blocked.covers(&waiting, by) && fits().is_none() {
                blocked.add(waiting.shape, waiting.by(by));
            }
            some |= blocked.urgent.is_some() || !blocked.covers(&waiting, by);
        }
        some
    }

    /// Whether the limits of a queue let a job start beside those that have a place in it kept for them: who is first
    /// and waits for cards must not find that others have filled its queue, neither meanwhile nor when they are free.
    pub(super) fn startable(&self, queue: &QueueName, kept: &[QueueName]) -> bool {
        let beside = kept.iter().filter(|own| *own == queue).count();
        self.config.queue(queue.as_str()).is_some_and(|queue| self.order.may_start(queue, beside))
    }

    /// The limit of its owner that keeps a job from starting, beside those that have a place kept for them.
    pub(crate) fn user_limit(&self, job: &Job, kept: &UserPlaces) -> Option<UserLimit> {
        let of_queue = self.config.queue(job.queue.as_str())?.max_running_per_user;
        let limits = [(Some(job.queue.clone()), of_queue), (None, self.config.policy.max_running_per_user)];
        limits.into_iter().find_map(|(queue, max)| {
            let (max, active) = (max?, self.order.active_of(job.owner.uid, queue.as_ref()));
            (active + kept.beside(job, queue.as_ref()) >= max).then_some(UserLimit { queue, active, max })
        })
    }

    /// What a lead in virtual time is worth for a queue of a weight: thousandths of starts, or of card-hours.
    pub(crate) fn had_more(&self, lead: VirtualTime, weight: u32) -> (u64, &'static str) {
        let (share, what) = self.measure.unit();
        let (one, unit) = match (self.config.policy.cost, what) {
            (Cost::Count, _) => (price(Cost::Count, share, Span::ZERO), "start"),
            (Cost::Area, "CPU") => (price(Cost::Area, share, HOUR), "CPU-hour"),
            (Cost::Area, _) => (price(Cost::Area, share, HOUR), "card-hour"),
        };
        let of_one = VirtualTime::default().after(one, weight);
        (u64::try_from(lead.0 * 1000 / of_one.0.max(1)).unwrap_or(u64::MAX), unit)
    }

    /// Charges a queue for a start; under other schedulers nobody keeps count. What is due later is settled by what is
    /// returned.
    pub(super) fn charge(&mut self, queue: &QueueName, share: Share, planned: Span) -> Option<Charged> {
        let policy = &self.config.policy;
        if policy.scheduler != Scheduler::FairShare {
            return None;
        }
        let weight = self.config.queue(queue.as_str()).map_or(1, |queue| queue.priority);
        self.times.start(queue, self.order.waiting(), (&self.unspent, self.seen));
        self.times.charge(queue, price(policy.cost, share, planned), weight);
        (policy.cost == Cost::Area).then_some(Charged { share, weight })
    }

    /// Charges a queue for what a job really used instead of what was planned.
    pub(super) fn settle_share(&mut self, job: JobNumber, until: WallTime) {
        let Some(job) = self.jobs.get(&job) else { return };
        let Some(attempt) = &job.attempt else { return };
        if self.config.policy.scheduler == Scheduler::FairShare {
            let (owner, share) = (job.owner.uid, self.share(job));
            self.usages.ended(owner, share, until, self.config.policy.usage_half_life);
        }
        // What was started under another scheduler was not charged.
        if let Some((charged, end)) = attempt.unspent() {
            self.unspent.leave(&job.queue, charged, end);
            let ran = until - attempt.started_at.unwrap_or(attempt.assigned_at);
            self.times.charge(&job.queue, charged.correction(attempt.planned, ran), charged.weight);
        }
    }

    /// A job is about to wait in its queue: if it is the first there that can be placed at all, the queue has earned
    /// nothing while it had none.
    pub(super) fn wake_queue(&mut self, job: &Job) {
        let fair = self.config.policy.scheduler == Scheduler::FairShare;
        if fair && !self.order.waits(&job.queue) && !self.fits_nowhere(job) {
            let (runs, so_far) = (self.order.active(&job.queue) > 0, (&self.unspent, self.seen));
            self.times.wake(&job.queue, runs, self.order.waiting(), so_far);
        }
    }

    /// Whether a job waits for something that no node has.
    pub fn is_misfit(&self, number: JobNumber) -> bool {
        self.order.is_misfit(number)
    }

    /// Active jobs of a user, in a queue or in all.
    pub fn active_of(&self, user: Uid, queue: Option<&QueueName>) -> u32 {
        self.order.active_of(user, queue)
    }

    /// Active jobs of a queue.
    pub fn active_in(&self, queue: &QueueName) -> u32 {
        self.order.active(queue)
    }
}
