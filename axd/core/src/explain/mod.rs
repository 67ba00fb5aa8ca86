//! Explanations for people: everything that a waiting job waits for, with numbers; when it is expected to start, and
//! what that rests on. Only reads: it makes the next pass on a copy, with the scheduler's own code.

mod cards;
mod condition;
mod limits;
mod nodes;
mod pending;
mod plan;
mod shares;
mod spared;
pub mod started;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::config::Scheduler;
use crate::controller::bounds::{Barred, Turns};
use crate::controller::{Controller, Rehearsal, Spares, UserPlaces};
use crate::id::{HostName, JobId, JobNumber, QueueName, Uid};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::{Lack, Node};
use crate::schedule::order::Shape;
use crate::schedule::placement::Place;
use crate::schedule::timeline::{Reservation, Timeline};
use crate::time::{Now, Span, WallTime};

pub(crate) use condition::jobs_in_words;
pub use condition::{Behind, Condition, EvictionsSpent, Hours, Kept, LimitFull, MakingRoom, QueueAhead};
pub use condition::{QueueFull, QueueKept, TooFewNodes, UserAhead, UserFull, never_enough};
pub use plan::{Basis, Said, learnt_in_words};
use plan::{Expected, Plan};
use shares::Before;

/// Why a job waits, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// Everything in the way, in the order in which it matters. Empty for jobs that do not wait.
    pub conditions: Vec<Condition>,
    /// The conditions in words.
    pub reasons: Vec<String>,
    /// When it is expected to start; `None` if that can't be said.
    pub expected_start: Option<WallTime>,
    /// What the expected start rests on, or why there is none.
    pub basis: Option<Basis>,
}

/// The plan follows at most so many waiting jobs.
pub(crate) const PLANNED: usize = 200;

/// At most so many kinds of nodes that lack something are told apart.
const LINES: usize = 3;

/// At most so many of the jobs that fill a queue are named.
const NAMED: usize = 3;

/// A place that the next pass keeps for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPlace {
    /// The job.
    pub job: JobId,
    /// Where.
    pub node: String,
    /// Numbers of its cards.
    pub cards: Vec<u32>,
    /// When it begins.
    pub from: WallTime,
    /// When it is planned to end.
    pub until: WallTime,
}

impl Explanation {
    fn new(now: WallTime, conditions: Vec<Condition>, expected: Expected) -> Explanation {
        let reasons = conditions.iter().map(|condition| condition.sentence(now)).collect();
        Explanation { conditions, reasons, expected_start: expected.start, basis: Some(expected.basis) }
    }
}

impl Controller {
    /// Why a waiting job waits; empty for other jobs.
    pub fn explain(&self, now: Now, number: JobNumber) -> Explanation {
        let Some(job) = self.job(number) else { return Explanation::default() };
        match job.state {
            JobState::Pending if self.own_time(job, now).is_none() => self.waits_for_somebody(job, now),
            JobState::Pending => Story::new(self, now).of_its_own(job),
            JobState::Ready => {
                let mut story = Story { asked: Some(number), ..Story::new(self, now) };
                // A job whose queue is gone is in no order: it comes after all others.
                self.ready_jobs().take_while(|each| each.id != job.id).for_each(|each| story.skip(each));
                story.next(job)
            }
            _ => Explanation::default(),
        }
    }

    /// The places that the next pass keeps for the first jobs that do not fit, the earliest first.
    pub fn kept_places(&self, now: Now) -> Vec<KeptPlace> {
        let place = |kept: &Reservation| {
            let node = self.all_nodes().as_slice().get(kept.node)?;
            let number = |(at, _): &(usize, _)| node.inventory.cards.get(*at).map(|card| card.index);
            Some(KeptPlace {
                job: self.job(kept.job)?.id,
                node: node.inventory.name.to_string(),
                cards: kept.cards.iter().filter_map(number).collect(),
                from: kept.from,
                until: kept.until,
            })
        };
        let mut places: Vec<KeptPlace> =
            self.rehearse(now).kept.values().flatten().filter_map(place).collect();
        places.sort_by_key(|place| (place.from, place.job.number));
        places
    }

    /// The waiting jobs with their explanations, in one walk: first those that are ready in their order, then those that
    /// wait for something of their own.
    pub fn explain_waiting(&self, now: Now) -> impl Iterator<Item = (&Job, Explanation)> {
        let mut story = Story::new(self, now);
        let pending = self.jobs().filter(|job| job.state == JobState::Pending);
        self.ready_jobs().chain(pending).map(move |job| match job.state {
            JobState::Pending => (job, story.of_its_own(job)),
            _ => (job, story.next(job)),
        })
    }

    /// The same in the order in which they are expected to start; those of whom that can't be said come last.
    pub fn explain_by_start(&self, now: Now) -> impl Iterator<Item = (&Job, Explanation)> {
        let mut story = Story::new(self, now);
        let mut ready = self.ready_jobs();
        let mut first: Vec<(&Job, Explanation)> =
            ready.by_ref().take(PLANNED).map(|job| (job, story.next(job))).collect();
        let own: BTreeMap<JobNumber, &Job> =
            self.waiting_for_times(PLANNED).map(|job| (job.id.number, job)).collect();
        first.extend(own.values().map(|job| (*job, story.of_its_own(job))));
        // A stable sort: who starts at the same instant stays in the order of the pass.
        first.sort_by_key(|(_, told)| (told.expected_start.is_none(), told.expected_start));
        let others = move |job: &&Job| job.state == JobState::Pending && !own.contains_key(&job.id.number);
        let rest = ready.chain(self.jobs().filter(others));
        first.into_iter().chain(rest.map(move |job| match job.state {
            JobState::Pending => (job, story.of_its_own(job)),
            _ => (job, story.next(job)),
        }))
    }

    /// Why nothing of a user's is started at all at the moment, if so.
    fn resting(&self, now: Now, owner: Uid) -> Option<Condition> {
        let node = self.nodes().next().filter(|_| self.starts_nothing(now, owner))?.inventory.name.clone();
        let why = self.trouble(&node, owner)?.sentence(now.boot);
        Some(Condition::Resting { node, why })
    }

    fn first_active(&self, which: impl Fn(&Job) -> bool) -> Vec<JobId> {
        let mut jobs: Vec<&Job> = self.active_jobs().filter(|job| which(job)).collect();
        jobs.sort_by_key(|job| job.attempt.as_ref().map(|attempt| (attempt.assigned_at, job.id.number)));
        jobs.iter().take(NAMED).map(|job| job.id).collect()
    }

    fn too_small(&self, job: &Job) -> Vec<Condition> {
        let reserve = self.config().resources.gpu_reserve;
        let lacking = self.nodes().map(|node| (node, node.needs_for_ever(job, reserve)));
        let lacking = lacking.filter(|(_, needs)| !needs.is_empty());
        let mut found = vec![match job.request.several() {
            None => Condition::FitsNowhere,
            Some(nodes) => self.too_few_at_all(job, nodes.min),
        }];
        let sum = self.card_limits().too_small(job);
        found.extend(sum.map(|sum| {
            let (whose, key) = (sum.whose.clone(), sum.key.clone());
            Condition::LimitTooSmall { whose, key, what: sum.what, max: sum.max }
        }));
        found.extend(self.confined(job));
        found.extend(few_lines(Lack::collected(lacking), Condition::TooSmall));
        found
    }
}

/// Conditions about nodes in at most a few lines, however many nodes there are.
fn few_lines(lacks: Vec<Lack>, line: impl Fn(Lack) -> Condition) -> Vec<Condition> {
    let more: u32 = lacks.iter().skip(LINES).map(|lack| lack.count).sum();
    let mut lines: Vec<Condition> = lacks.into_iter().take(LINES).map(line).collect();
    if more > 0 {
        lines.push(Condition::MoreNodes { nodes: more });
    }
    lines
}

/// What nodes have for jobs of one shape.
struct NodesFor {
    /// What is lacking on the nodes that lack something.
    lacks: Vec<Condition>,
    /// The positions of the nodes that lack nothing.
    fitting: Vec<usize>,
}

/// A walk along the ready jobs in their order: how many came before, and the places kept for them.
struct Story<'a> {
    controller: &'a Controller,
    now: Now,
    /// The result of the next pass, made on a copy.
    pass: Rehearsal,
    /// What that pass has kept before it looks at the next job.
    timeline: Timeline,
    /// The places that count against a queue's limit, each with its job: those of jobs for which others are being
    /// ended, and that of the first job of each queue that has a place kept on a node.
    kept: Vec<(QueueName, JobId)>,
    reserved: BTreeSet<QueueName>,
    /// What the jobs before leave of the limits on cards.
    turns: Turns,
    /// What they leave of the limits on users.
    users_kept: UserPlaces,
    /// What nodes have, by the shape of jobs.
    known: BTreeMap<Shape, Rc<NodesFor>>,
    /// Which jobs could be ended for jobs of one shape and priority.
    spared: BTreeMap<(Shape, u8), Spares>,
    /// What is told of the first jobs, once one of them is asked for: it costs more than all the rest.
    plan: Option<Plan>,
    /// The one job that is asked for, if it is only one.
    asked: Option<JobNumber>,
    before: usize,
    first: Option<JobId>,
    /// The jobs before it that fair shares put there.
    by_shares: Before,
}

impl<'a> Story<'a> {
    fn new(controller: &'a Controller, now: Now) -> Story<'a> {
        let pass = controller.rehearse(now);
        let mut turns = Turns::default();
        pass.after.claiming().for_each(|job| turns.keep(pass.after.card_limits(), job));
        Story {
            turns,
            timeline: pass.after.timeline(now.wall),
            kept: pass.after.claiming().map(|job| (job.queue.clone(), job.id)).collect(),
            reserved: BTreeSet::new(),
            users_kept: UserPlaces::claimed(pass.after.claiming()),
            pass,
            controller,
            now,
            known: BTreeMap::new(),
            spared: BTreeMap::new(),
            plan: None,
            asked: None,
            before: 0,
            first: None,
            by_shares: Before::default(),
        }
    }

    /// The explanation of the next job in the order.
    fn next(&mut self, job: &Job) -> Explanation {
        let misfit = self.controller.is_misfit(job.id.number);
        let barred = self.barred(job, misfit);
        let is_barred = barred.is_some();
        let conditions = self.conditions(job, misfit, barred);
        let expected = if misfit { Expected::never(Basis::Somebody) } else { self.foretell(job) };
        self.goes_before(job, misfit, is_barred);
        Explanation::new(self.now.wall, conditions, expected)
    }

    /// Goes past the next job in the order, of which nothing is told.
    fn skip(&mut self, job: &Job) {
        let misfit = self.controller.is_misfit(job.id.number);
        let is_barred = self.barred(job, misfit).is_some();
        self.goes_before(job, misfit, is_barred);
    }

    /// What the next job means for those behind it.
    fn goes_before(&mut self, job: &Job, misfit: bool, is_barred: bool) {
        if misfit {
            return;
        }
        if is_barred {
            self.before += 1;
            self.first.get_or_insert(job.id);
            return;
        }
        self.by_shares.add(self.controller, job);
        self.before += 1;
        self.first.get_or_insert(job.id);
        if let Some(places) = self.pass.kept.remove(&job.id.number) {
            places.into_iter().for_each(|place| self.timeline.reserve(place));
            self.turns.keep(self.pass.after.card_limits(), job);
            self.users_kept.keep(job);
            if self.reserved.insert(job.queue.clone()) {
                self.kept.push((job.queue.clone(), job.id));
            }
        }
    }

    /// All conditions of a ready job.
    fn conditions(&mut self, job: &Job, misfit: bool, barred: Option<Barred>) -> Vec<Condition> {
        let mut found = self.controller.queue_conditions(job);
        found.extend(barred.and_then(|barred| self.limit_full(job, &barred)));
        found.extend(self.place_in_queue(job).filter(|_| found.is_empty() && !misfit));
        found.extend(self.controller.user_full(job, &self.users_kept).filter(|_| !misfit));
        if self.controller.nodes().next().is_none() {
            found.push(Condition::NoNodes);
        } else if misfit {
            found.extend(self.controller.too_small(job));
        } else {
            // If its queue or owner keeps it from starting, no job would be ended for it anyway.
            let nothing_else = found.is_empty();
            let places = self.places(job).into_iter();
            found.extend(
                places.filter(|place| nothing_else || !matches!(place, Condition::NobodyToEnd { .. })),
            );
        }
        if !misfit {
            found.extend(self.by_shares.conditions(self.controller, job, self.now));
        }
        if let Some(first) = self.first.filter(|_| !misfit) {
            let at_least = self.controller.is_sketch() && self.before >= PLANNED;
            let strict = self.controller.config().policy.scheduler == Scheduler::FifoStrict;
            let behind = Behind { jobs: self.before as u64, at_least, first, strict };
            found.push(Condition::Behind(behind));
        }
        let resting = self.controller.resting(self.now, job.owner.uid);
        if found.is_empty() || self.pass.started(job.id.number) {
            return vec![resting.unwrap_or(Condition::StartsNow)];
        }
        resting.into_iter().chain(found).collect()
    }

    /// The jobs for which the last places of its queue are kept.
    fn place_in_queue(&self, job: &Job) -> Option<Condition> {
        let queue = self.controller.config().queue(job.queue.as_str())?;
        let (active, max) = (self.controller.active_in(&queue.name), queue.max_running?);
        let kept = self.kept.iter().filter(|(of, id)| *of == queue.name && *id != job.id);
        let jobs: Vec<JobId> = kept.map(|(_, id)| *id).collect();
        let full = active as usize + jobs.len() >= max as usize;
        (full && !jobs.is_empty() && self.pass.after.claim_of(job.id.number).is_none())
            .then(|| Condition::QueueKept(QueueKept { queue: queue.name.clone(), active, max, jobs }))
    }

    /// Why no place is found for it.
    fn places(&mut self, job: &Job) -> Vec<Condition> {
        let after = &self.pass.after;
        if let Some((places, victims)) = after.claim_of(job.id.number) {
            let node =
                |place: &Place| Some(after.all_nodes().as_slice().get(place.node)?.inventory.name.clone());
            let nodes: Vec<HostName> = places.iter().filter_map(node).collect();
            let node = nodes.first().cloned();
            let others = nodes.into_iter().skip(1).collect();
            // No job has been ended before the pass is made.
            let foretold = self.controller.claim_of(job.id.number).is_none();
            let making = |node| Condition::MakingRoom(MakingRoom { victims, node, others, foretold });
            return node.map(making).into_iter().collect();
        }
        let known = self.nodes_for(job);
        let kept = self.kept_for_others(job, &known.fitting);
        let mut found: Vec<Condition> = kept.into_iter().chain(known.lacks.iter().cloned()).collect();
        match self.nobody_ended(job, &known) {
            // The budget recovers by itself.
            Some(spent @ Condition::EvictionsSpent(_)) => found.insert(0, spent),
            other => found.extend(other),
        }
        found
    }

    /// What nodes lack for it, and which nodes lack nothing.
    fn nodes_for(&mut self, job: &Job) -> Rc<NodesFor> {
        let shape = Shape::of(job);
        if let Some(known) = self.known.get(&shape) {
            return Rc::clone(known);
        }
        let reserve = self.controller.config().resources.gpu_reserve;
        let needs = self.pass.after.nodes().map(|node| (node, node.needs_now(job, reserve)));
        let (lacking, fitting): (Vec<_>, Vec<_>) = needs.enumerate().partition(|(_, (_, n))| !n.is_empty());
        let lacks = Lack::collected(lacking.into_iter().map(|(_, lacking)| lacking));
        let fitting: Vec<usize> = fitting.into_iter().map(|(position, _)| position).collect();
        let mut lacks = few_lines(lacks, Condition::Lacks);
        lacks.splice(0..0, self.too_few_nodes(job, fitting.len()));
        lacks.extend(self.withheld_from(job));
        lacks.extend(self.in_other_company(job));
        lacks.extend(self.controller.confined(job).filter(|_| !lacks.is_empty()));
        let known = Rc::new(NodesFor { lacks, fitting });
        self.known.insert(shape, Rc::clone(&known));
        known
    }

    /// The place that ends its time on the node on which it fits and may run longest.
    fn kept_for_others(&self, job: &Job, fitting: &[usize]) -> Option<Condition> {
        let planned = self.controller.fitting(job, &self.timeline);
        let nodes = self.pass.after.all_nodes().as_slice();
        let in_the_way = |at: &usize| {
            let node = nodes.get(*at)?;
            Some((self.in_the_way(job, *at, planned)?, node))
        };
        let mut barred: Vec<(&Reservation, &Node)> = fitting.iter().filter_map(in_the_way).collect();
        // A job on several nodes may find enough others.
        let needed = job.request.nodes().min as usize;
        if fitting.len() < needed || fitting.len() - barred.len() >= needed {
            return None;
        }
        barred.sort_by_key(|(place, _)| std::cmp::Reverse(place.from));
        let (place, node) = barred.first()?;
        let number = |(at, _): &(usize, _)| node.inventory.cards.get(*at).map(|card| card.index);
        Some(Condition::Kept(Kept {
            job: self.controller.job(place.job)?.id,
            node: node.inventory.name.clone(),
            cards: place.cards.iter().filter_map(number).collect(),
            from: (place.from > self.now.wall).then_some(place.from),
            planned,
            usual: Some(self.controller.planned(job)).filter(|usual| *usual < planned),
            more: barred.len() as u32 - 1,
        }))
    }

    /// The first place kept on a node beside which the job does not fit.
    fn in_the_way(&self, job: &Job, position: usize, planned: Span) -> Option<&Reservation> {
        let (rules, nodes) = (self.controller.rules(), self.pass.after.all_nodes());
        let mut so_far = Timeline::new(self.now.wall);
        self.timeline.on(position).iter().find(|place| {
            so_far.reserve((*place).clone());
            !rules.fits_on(position, nodes, &so_far, job, planned)
        })
    }

    /// When the job is expected to start.
    fn foretell(&mut self, job: &Job) -> Expected {
        let told = match self.before >= PLANNED {
            true => Expected::never(Basis::TooFar),
            false => {
                let told = self.plan().told(job.id.number).cloned();
                told.unwrap_or_else(|| Expected::never(Basis::Somebody))
            }
        };
        self.unless_by_itself(job, told)
    }

    /// The plan of the first jobs.
    fn plan(&mut self) -> &mut Plan {
        let (controller, after) = (self.controller, &self.pass.after);
        self.plan.get_or_insert_with(|| Plan::of(controller, after, self.now.wall, self.asked))
    }
}
