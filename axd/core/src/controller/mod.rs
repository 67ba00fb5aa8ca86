//! The one owner of all jobs: a state that takes events and returns decisions.
//!
//! Nothing outside holds or changes a job's state, order or resource. The same
//! events at the same times give the same decisions, bit for bit.

mod assign;
mod attempt;
mod blocked;
pub(crate) mod bounds;
mod cards;
mod change;
mod entering;
mod event;
mod evict;
mod gang;
mod idle;
mod keys;
mod learn;
mod moments;
mod needs;
mod overuse;
mod pass_state;
mod person;
mod places;
mod refusal;
mod renaming;
mod schedule;
mod sketch;
mod snapshot;
mod submit;
mod trouble;
mod witness;

pub(crate) use evict::Spares;
pub(crate) use places::UserPlaces;
pub(crate) use schedule::UserLimit;
pub(crate) use witness::{Look, Rehearsal, Trial};

pub use bounds::Counted;
pub use change::Change;
pub use event::{Decision, Event, NodeWish, Submission, Wish};
pub use evict::Spared;
pub use needs::Needs;
pub use snapshot::{Known, Snapshot};
pub use trouble::{Trouble, Troubles};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Config, Scheduler};
use crate::id::{Epoch, HostName, JobId, JobNumber, SubmissionKey, Uid};
use crate::job::shared::Shared;
use crate::job::state::{Cause, JobState, Outcome, allowed};
use crate::job::{Actor, Job};
use crate::node::{AttemptKey, Node, Nodes};
use crate::schedule::fragmentation::Mix;
use crate::schedule::history::History;
use crate::schedule::kept::KeptPlaces;
use crate::schedule::losses::Losses;
use crate::schedule::order::WaitingOrder;
use crate::schedule::share::{Measure, Unspent, VirtualTimes};
use crate::schedule::usage::{Factors, Usages};
use crate::time::{BootTime, Now, Span, WallTime, Zone};
use attempt::hold_what_jobs_hold;
use bounds::Limits;
use gang::Part;
use keys::Keys;
use moments::Moments;
use overuse::Overuse;
use person::Asked;

/// How long a finished job stays in memory, so that what is on its way about it
/// still finds it; afterwards the accounts answer.
const FINISHED_STAYS: Span = Span::seconds(5);

/// The controller. See the module's words.
#[derive(Debug, Clone)]
pub struct Controller {
    config: Arc<Config>,
    nodes: Nodes,
    /// Shared with copies that are read elsewhere; a tree of values of this size would be half empty anyhow.
    jobs: BTreeMap<JobNumber, Arc<Job>>,
    /// What many of them have the same.
    shared: Shared,
    keys: Keys,
    /// The job of each living attempt, by epoch.
    by_epoch: BTreeMap<AttemptKey, JobNumber>,
    order: WaitingOrder,
    /// Limits on cards, and what is held under them.
    limits: Limits,
    /// What shares are measured by.
    measure: Measure,
    /// What the queues have had.
    times: VirtualTimes,
    /// What they were charged of it and have not had yet.
    unspent: Unspent,
    /// What the users have had.
    usages: Usages,
    /// What jobs took. Shared with sketches.
    history: Arc<History>,
    /// What making room has cost lately.
    losses: Losses,
    /// The time of the last event, by both clocks.
    seen: WallTime,
    seen_boot: BootTime,
    /// What was asked of cards lately.
    mix: Mix,
    /// What is known of nodes that have not registered.
    absent: BTreeMap<HostName, Known>,
    /// Jobs for which victims are leaving their places.
    claims: BTreeSet<JobNumber>,
    /// Where the last passes found places for those who wait first. Nothing is decided otherwise for it.
    found_places: KeptPlaces,
    /// Whether the last pass wants another one at once.
    pass_due: bool,
    /// Jobs that wait for a wall-clock time.
    begins: BTreeSet<(WallTime, JobNumber)>,
    /// Jobs whose hours or deadlines change something while they wait.
    moments: Moments,
    /// The clock that hours go by.
    zone: Arc<Zone>,
    /// Jobs that wait for their back-off to pass.
    backoffs: BTreeSet<(BootTime, JobNumber)>,
    /// Finished jobs, by the time at which they leave memory.
    leaving: BTreeSet<(WallTime, JobNumber)>,
    /// Jobs that hold something.
    active: BTreeSet<JobNumber>,
    /// Waiting jobs of each user, for the limit.
    queued: BTreeMap<Uid, u32>,
    next_number: JobNumber,
    next_epoch: Epoch,
    /// Nodes that can start nothing.
    troubles: Troubles,
    /// It lacks most of the jobs that wait.
    is_sketch: bool,
}

/// When the controller wants a `Tick` at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wake {
    /// By the boot clock.
    pub boot: Option<BootTime>,
    /// By the wall clock.
    pub wall: Option<WallTime>,
}

/// One move of a job: what for, whereto, who and why.
struct Move<'a> {
    cause: Cause,
    to: JobState,
    actor: &'a Actor,
    why: &'a str,
}

impl<'a> Move<'a> {
    fn new(cause: Cause, to: JobState, actor: &'a Actor, why: &'a str) -> Self {
        Move { cause, to, actor, why }
    }

    fn by_ax(cause: Cause, to: JobState, why: &'a str) -> Self {
        Move { cause, to, actor: &Actor::Ax, why }
    }
}

impl Controller {
    /// A controller with no jobs and no nodes.
    pub fn new(config: Config) -> Controller {
        let (next_number, next_epoch) = (JobNumber(1), Epoch(1));
        Controller::restore(Snapshot {
            config,
            nodes: Vec::new(),
            jobs: Vec::new(),
            next_number,
            next_epoch,
            times: VirtualTimes::default(),
            usages: Usages::default(),
            mix: Mix::default(),
            troubles: Troubles::since(next_epoch),
            known: BTreeMap::new(),
            history: History::default(),
            losses: Losses::default(),
            zone: Zone::default(),
        })
    }

    /// The one way in: an event at a time. Returns what follows from it, in order.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Decision> {
        let mut out = self.apply(now, event);
        self.schedule(now, &mut out);
        out
    }

    /// Takes an event in without deciding who is next: a [`Event::Tick`] must follow, at once or when the caller says.
    /// For simulations of systems that decide at fixed intervals.
    pub fn apply(&mut self, now: Now, event: Event) -> Vec<Decision> {
        let mut out = Vec::new();
        let set_back = now.wall < self.seen;
        (self.seen, self.seen_boot) = (now.wall, now.boot);
        self.pass_time(now, &mut out);
        self.pass_moments(now, set_back, &mut out);
        match event {
            Event::ConfigLoaded(config) => self.config_loaded(*config),
            Event::ZoneRead(zone) => self.zone_read(now, *zone, &mut out),
            Event::NodeRegistered(inventory) => self.node_registered(inventory, &mut out),
            Event::Submitted(submission) => self.submitted(now, *submission, &mut out),
            Event::Wished { job, actor, wish, why } => {
                self.wished(now, &Asked { id: job, actor: &actor, why: why.as_deref() }, wish, &mut out);
            }
            Event::AttemptStarted { attempt, at } => self.attempt_started(now, attempt, at, &mut out),
            Event::AttemptEnding { attempt } => self.attempt_ending(now, attempt, &mut out),
            Event::AttemptEnded { attempt, at, end } => self.attempt_ended(now, attempt, at, end, &mut out),
            Event::PartEnded { attempt, node, at, end } => {
                self.part_ended(now, Part { attempt, node }, at, gang::End::of_part(end), &mut out);
            }
            Event::NeverStarted { attempt, why } => self.never_started(now, attempt, why, &mut out),
            Event::CardsUsed { attempt, peak } => self.cards_used(attempt, peak, &mut out),
            Event::CardsIdle { attempt, lasted } => self.cards_idle(now, attempt, lasted, &mut out),
            Event::CardsBusy { attempt } => self.cards_busy(attempt),
            Event::OverSlice { attempt, words, peak, ends } => {
                self.over_slice(attempt, Overuse { words, peak, ends }, &mut out);
            }
            Event::Checkpointed { attempt, at } => self.checkpointed(now, attempt, at, &Actor::Ax, &mut out),
            Event::CardChanged { node, uuid, state } => self.card_changed(&node, &uuid, state, &mut out),
            Event::CardNoted { node, uuid, what } => self.card_noted(&node, &uuid, &what, &mut out),
            Event::NodeWished { node, card, actor, wish } => {
                self.node_wished(&node, card.as_ref(), &actor, &wish, &mut out);
            }
            Event::Tick => {}
        }
        out
    }

    /// Jobs whose begin time or back-off has come; finished jobs that may go.
    fn pass_time(&mut self, now: Now, out: &mut Vec<Decision>) {
        self.losses.forget_old(now.wall);
        let mut due = BTreeSet::new();
        while let Some(&(at, number)) = self.begins.first().filter(|(at, _)| *at <= now.wall) {
            self.begins.remove(&(at, number));
            due.insert(number);
        }
        while let Some(&(at, number)) = self.backoffs.first().filter(|(at, _)| *at <= now.boot) {
            self.backoffs.remove(&(at, number));
            if let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) {
                job.rare.change(|rare| rare.backoff_until = None);
            }
            due.insert(number);
        }
        for number in due {
            self.settle_waiting(now, number, &Actor::Ax, "its time has come", out);
        }
        while let Some(&(at, number)) = self.leaving.first().filter(|(at, _)| *at <= now.wall) {
            self.leaving.remove(&(at, number));
            self.forget(number);
        }
    }

    fn forget(&mut self, number: JobNumber) {
        if let Some(job) = self.jobs.remove(&number) {
            self.keys.remove(&job);
        }
    }

    /// When the next `Tick` is due, if nothing else happens.
    pub fn next_wake(&self) -> Wake {
        let boot = self.backoffs.first().map(|(at, _)| *at);
        let boot = boot.into_iter().chain(self.next_trial()).min();
        let boot = if self.pass_due { Some(BootTime(0)) } else { boot };
        let begin = self.begins.first().map(|(at, _)| *at);
        // Somebody may be waiting for others to be ended.
        let budget = self.no_evictions_until().filter(|_| self.order.anybody_waits());
        Wake { boot, wall: begin.into_iter().chain(budget).chain(self.moments.first()).min() }
    }

    fn config_loaded(&mut self, config: Config) {
        self.config = Arc::new(config);
        self.troubles.forget();
        self.weigh_cards();
        self.enter_order_anew();
    }

    fn node_registered(&mut self, inventory: crate::node::Inventory, out: &mut Vec<Decision>) {
        let mut node = Node::new(inventory);
        self.remember(&mut node, out);
        hold_what_jobs_hold(&self.jobs, &mut node);
        // What was to be free there may be gone.
        self.drop_claims_on(&node.inventory.name, out);
        self.nodes.insert(node);
        self.enter_order_anew();
    }

    /// Moves a job along the table; an illegal move changes nothing and says so.
    fn shift(&mut self, now: Now, number: JobNumber, step: Move<'_>, out: &mut Vec<Decision>) -> bool {
        let Move { cause, to, actor, why } = step;
        let Some(job) = self.jobs.get(&number) else { return false };
        let (id, from) = (job.id, job.state);
        if !allowed(from, cause, to) {
            let why = format!("{id} is {from}, from which it can't become {to} when {cause}");
            out.push(Decision::Ignored { job: Some(id), why });
            return false;
        }
        let Some(mut kept) = self.unindex(number) else { return false };
        let job = Arc::make_mut(&mut kept);
        job.state = to;
        job.rare.change(|rare| {
            // A running job's note stays the reason for which it, and there, was started.
            if cause != Cause::Confirmed {
                rare.note = (!why.is_empty()).then(|| why.into());
            }
            rare.claim = rare.claim.take().filter(|_| to == JobState::Ready);
            // Whoever answers later what became of it says nothing of when that was.
            rare.ended_at = to.is_final().then(|| rare.ended_at.unwrap_or(now.wall));
        });
        if to == JobState::Ready {
            job.eligible_at = Some(now.wall);
            let evicted =
                |a: &crate::job::Attempt| a.end.as_ref().is_some_and(|e| e.outcome == Outcome::Preempted);
            if !job.attempt.as_deref().is_some_and(evicted) {
                self.wake_queue(job);
            }
        }
        self.index(kept);
        let (actor, why) = (Arc::from(actor.name()), why.to_owned());
        out.push(Decision::Moved { job: id, from: Some(from), to, cause: Some(cause), actor, why });
        true
    }

    /// Enters a job into everything that is derived from it.
    fn index(&mut self, mut job: Arc<Job>) {
        let number = job.id.number;
        self.bind(&mut job);
        if job.state.is_active() {
            self.limits.started(&job);
        }
        self.keys.insert(&job);
        match job.state {
            JobState::Pending => {
                if let Some(begin) = job.request.begin {
                    self.begins.insert((begin, number));
                }
                if let Some(until) = job.rare.backoff_until {
                    self.backoffs.insert((until, number));
                }
            }
            state if state.is_final() && state != JobState::FailedUnknownState => {
                let since = job.rare.ended_at.unwrap_or_default();
                self.leaving.insert((since + FINISHED_STAYS, number));
            }
            _ => {}
        }
        if job.rare.claim.is_some() {
            self.claims.insert(number);
        }
        self.note_moment(&job);
        self.enter_order(&job);
        if let Some(attempt) = job.attempt.as_ref().filter(|_| job.state.is_active()) {
            self.active.insert(number);
            self.by_epoch.insert(attempt.name.epoch.0, number);
        }
        if job.state.is_waiting() {
            *self.queued.entry(job.owner.uid).or_default() += 1;
        }
        self.jobs.insert(number, job);
    }

    /// Takes a job out of everything that is derived from it.
    fn unindex(&mut self, number: JobNumber) -> Option<Arc<Job>> {
        let job = self.jobs.remove(&number)?;
        self.claims.remove(&number);
        self.moments.forget(number);
        if job.state == JobState::Ready {
            self.order.remove(&job, &self.config, self.size(&job));
        }
        if let Some(begin) = job.request.begin {
            self.begins.remove(&(begin, number));
        }
        if let Some(until) = job.rare.backoff_until {
            self.backoffs.remove(&(until, number));
        }
        if job.state.is_active() {
            self.limits.ended(&job);
            self.order.ended(&job.queue, job.owner.uid);
            if let Some(attempt) = &job.attempt {
                self.by_epoch.remove(&attempt.name.epoch.0);
            }
            self.active.remove(&number);
        }
        if let Some(left) = self.queued.get_mut(&job.owner.uid).filter(|_| job.state.is_waiting()) {
            *left -= 1;
            if *left == 0 {
                self.queued.remove(&job.owner.uid);
            }
        }
        Some(job)
    }

    /// A waiting job is PENDING as long as a condition of its own is not met, else READY.
    fn settle_waiting(
        &mut self,
        now: Now,
        number: JobNumber,
        actor: &Actor,
        why: &str,
        out: &mut Vec<Decision>,
    ) {
        if self.end_lapsed(now, number, out) {
            return;
        }
        let Some(job) = self.jobs.get(&number) else { return };
        let met = self.own_conditions_met(job, now);
        match (job.state, met) {
            (JobState::Pending, true) => {
                self.shift(now, number, Move::new(Cause::Eligible, JobState::Ready, actor, why), out);
            }
            (JobState::Ready, false) => {
                self.shift(now, number, Move::new(Cause::Held, JobState::Pending, actor, why), out);
            }
            (JobState::Pending, false) => {
                // It had come while the job was held, and the clock was set back.
                self.begins
                    .extend(job.request.begin.filter(|begin| *begin > now.wall).map(|begin| (begin, number)));
            }
            _ => {}
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to be kept.
    pub fn shared_config(&self) -> Arc<Config> {
        Arc::clone(&self.config)
    }

    /// A job that is in memory.
    pub fn job(&self, number: JobNumber) -> Option<&Job> {
        self.jobs.get(&number).map(|job| &**job)
    }

    /// All jobs in memory, by number.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|job| &**job)
    }

    /// The jobs that hold something, by number.
    pub fn active_jobs(&self) -> impl Iterator<Item = &Job> {
        self.active.iter().filter_map(|number| self.job(*number))
    }

    /// The job that a key became, as long as it is in memory.
    pub fn job_of_key(&self, uid: Uid, key: SubmissionKey) -> Option<JobId> {
        self.keys.find(uid, key, |number| self.job(number)).map(|job| job.id)
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    /// What the users have had of the cluster lately.
    pub fn usages(&self) -> &Usages {
        &self.usages
    }

    /// How far each user is from an equal share; only fair share asks.
    fn factors(&self, now: WallTime) -> Factors {
        match self.config.policy.scheduler {
            Scheduler::FairShare => self.usages.factors(now, self.config.policy.usage_half_life),
            Scheduler::Fifo | Scheduler::FifoStrict => Factors::default(),
        }
    }

    /// What the queues have had of the cluster.
    pub fn virtual_times(&self) -> &VirtualTimes {
        &self.times
    }

    /// Ready jobs in the order in which they are looked at, misfits last.
    pub fn ready_jobs(&self) -> impl Iterator<Item = &Job> {
        let mut walk = self.order.walk(&self.config, &self.times, &self.factors(self.seen), false);
        let in_order = std::iter::from_fn(move || walk.next(&self.order)).map(|(waiting, _)| waiting.number);
        in_order.chain(self.order.misfits()).filter_map(|number| self.job(number))
    }

    /// The number that the next job gets.
    pub fn next_number(&self) -> JobNumber {
        self.next_number
    }

    /// The epoch that the next attempt gets.
    pub fn next_epoch(&self) -> Epoch {
        self.next_epoch
    }

    /// Whether nothing of its own keeps a job from starting: hold, begin time, back-off, hours.
    fn own_conditions_met(&self, job: &Job, now: Now) -> bool {
        job.is_free(now.wall) && self.opens(job, now.wall) == Some(now.wall)
    }
}
