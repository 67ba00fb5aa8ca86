//! Answers for people: why a job waits, with numbers, and when it is expected
//! to start. A pure read over what the scheduler itself goes by.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Queue, QueueState, Scheduler};
use crate::controller::Controller;
use crate::id::{JobId, JobNumber, QueueName};
use crate::job::Job;
use crate::job::state::{JobState, Outcome};
use crate::node::Node;
use crate::schedule::timeline::Timeline;
use crate::text::count;
use crate::time::{Now, Span, WallTime};

/// Why a job waits and until when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// Everything in the way, the first thing first. Empty for jobs that do not wait.
    pub reasons: Vec<String>,
    /// When it is expected to start, if that can be said.
    pub expected_start: Option<WallTime>,
}

/// How far the plan is followed, in jobs.
pub(crate) const PLANNED: usize = 200;

impl Controller {
    /// Why a waiting job waits; nothing for others.
    pub fn explain(&self, now: Now, number: JobNumber) -> Explanation {
        let Some(job) = self.job(number) else { return Explanation::default() };
        match job.state {
            JobState::Pending => self.explain_pending(job, now),
            JobState::Ready => {
                let mut story = Story::new(self, now);
                let found = self.ready_jobs().find_map(|each| {
                    let told = story.next(each, each.id == job.id);
                    (each.id == job.id).then_some(told)
                });
                found.unwrap_or_default()
            }
            _ => Explanation::default(),
        }
    }

    /// The waiting jobs in the order in which they would start, then those that wait for
    /// something of their own; each with its explanation, in one walk.
    pub fn explain_waiting(&self, now: Now) -> impl Iterator<Item = (&Job, Explanation)> {
        let mut story = Story::new(self, now);
        let ready = self.ready_jobs().map(move |job| (job, story.next(job, true)));
        let pending = self.jobs().filter(|j| j.state == JobState::Pending);
        ready.chain(pending.map(move |job| (job, self.explain_pending(job, now))))
    }

    fn explain_pending(&self, job: &Job, now: Now) -> Explanation {
        Explanation { reasons: own_reasons(job, now), expected_start: expected_begin(job, now) }
    }

    fn queue_reasons(&self, job: &Job) -> Vec<String> {
        let Some(queue) = self.config().queue(job.queue.as_str()) else {
            return vec![format!("queue {} is no longer configured", job.queue)];
        };
        let mut reasons = Vec::new();
        if queue.state == QueueState::Stopped {
            reasons.push(format!("queue {} is stopped: it starts nothing", queue.name));
        }
        let active = self.active_in(&queue.name);
        if let Some(max) = queue.max_running.filter(|max| active >= *max) {
            reasons.push(format!("queue {} runs {active} of at most {}", queue.name, count(max, "job")));
        }
        reasons
    }

    /// All conditions that a ready job waits for; `before` says how many go first, and which is next.
    fn ready_reasons(&self, job: &Job, before: usize, first: Option<JobId>) -> Vec<String> {
        let mut reasons = self.queue_reasons(job);
        let misfit = self.is_misfit(job.id.number);
        let reserve = self.config().resources.gpu_reserve;
        let lacks = |node: &Node| match misfit {
            true => node.lacks_for_ever(&job.request, reserve),
            false => node.lacks_now(&job.request, reserve),
        };
        reasons.extend(self.nodes().filter_map(lacks));
        if misfit {
            reasons.insert(0, "no node here could hold it, even empty".to_owned());
        } else if let Some(first) = first {
            let at_least = if self.is_sketch() && before >= PLANNED { "at least " } else { "" };
            let before = count(before as u64, "job");
            reasons.push(format!("{at_least}{before} before it, the first is {first}"));
        }
        if self.nodes().next().is_none() {
            reasons.push("no node has registered yet".to_owned());
        }
        reasons
    }
}

fn own_reasons(job: &Job, now: Now) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(who) = &job.hold {
        reasons.push(format!("held by {who}; 'ax release {}' lets it go", job.id));
    }
    if let Some(begin) = job.request.begin.filter(|b| *b > now.wall) {
        reasons.push(format!("waits for its begin time, in {}", begin - now.wall));
    }
    if let Some(until) = job.backoff_until {
        let left = (until - now.boot).0.div_ceil(1000);
        let end = job.attempt.as_ref().and_then(|attempt| attempt.end.as_ref());
        reasons.push(match end.filter(|end| end.outcome == Outcome::LaunchFailed) {
            // Not a retry that the job asked for, but another try of what never began.
            Some(end) => {
                let why = end.message.as_deref().unwrap_or("never started");
                format!("its last attempt {why}; tried again in {left} s")
            }
            None => {
                let (used, all) = (job.retries_used, job.request.retries);
                format!("retry {used} of {all} in {left} s after a failure")
            }
        });
    }
    reasons
}

fn expected_begin(job: &Job, now: Now) -> Option<WallTime> {
    if job.hold.is_some() {
        return None;
    }
    let backoff = job.backoff_until.map(|until| now.wall + (until - now.boot));
    backoff.max(job.request.begin)
}

/// The walk along the order of the ready jobs: how many came before, and the plan so far.
struct Story<'a> {
    controller: &'a Controller,
    /// `None` once a job's start can't be foretold: then nothing behind it can.
    plan: Option<Plan>,
    before: usize,
    first: Option<JobId>,
}

impl<'a> Story<'a> {
    fn new(controller: &'a Controller, now: Now) -> Story<'a> {
        Story { controller, plan: Some(Plan::of(controller, now)), before: 0, first: None }
    }

    /// The next job in the order; its reasons in words only where they are wanted.
    fn next(&mut self, job: &Job, wanted: bool) -> Explanation {
        let misfit = self.controller.is_misfit(job.id.number);
        let reasons = match wanted {
            true => self.controller.ready_reasons(job, self.before, self.first),
            false => Vec::new(),
        };
        if misfit {
            return Explanation { reasons, expected_start: None };
        }
        let expected_start = self.foretell(job);
        self.before += 1;
        self.first.get_or_insert(job.id);
        Explanation { reasons, expected_start }
    }

    fn foretell(&mut self, job: &Job) -> Option<WallTime> {
        let plan = self.plan.as_mut().filter(|_| self.before < PLANNED)?;
        // A queue at its limit stands in nobody's way, so its jobs leave the plan of the nodes as it is.
        let allowed = plan.allowed(job)?;
        if allowed > plan.timeline.now() {
            plan.ends_in_queue(job, allowed);
            return Some(allowed);
        }
        let start = plan.start(self.controller, job);
        if start.is_none() {
            self.plan = None;
        }
        start
    }
}

/// The nodes as they will be: running jobs end at their estimates or limits, waiting ones have their places kept in
/// their order.
struct Plan {
    timeline: Timeline,
    /// Of each node, by position: from when on its future rests on a job of which nobody says how long it takes.
    unknown: BTreeMap<usize, WallTime>,
    /// Under strict order: nobody starts before whoever is before them.
    last: Option<WallTime>,
    /// Queues that may run only so many.
    queues: BTreeMap<QueueName, Places>,
    made_up: u64,
}

/// The places of a queue that may run only so many: free ones, and when others become free as far as is known.
#[derive(Default)]
struct Places {
    free: u32,
    /// So many ends more than one are needed first: the limit was lowered.
    over: u32,
    ends: BTreeSet<(WallTime, u64)>,
}

/// What is said of a job's length, if anything.
fn length_said(job: &Job) -> Option<Span> {
    job.request.estimate.or(job.request.time_limit)
}

impl Plan {
    fn of(controller: &Controller, now: Now) -> Plan {
        let places = |queue: &Queue| {
            let max = if queue.state == QueueState::Stopped { Some(0) } else { queue.max_running };
            let (max, active) = (max?, controller.active_in(&queue.name));
            let (free, over) = (max.saturating_sub(active), active.saturating_sub(max));
            Some((queue.name.clone(), Places { free, over, ends: BTreeSet::new() }))
        };
        let queues = controller.config().queues.iter().filter_map(places).collect();
        let strict = controller.config().policy.scheduler == Scheduler::FifoStrict;
        let mut plan = Plan {
            timeline: controller.timeline(now.wall),
            unknown: BTreeMap::new(),
            last: strict.then_some(now.wall),
            queues,
            made_up: u64::MAX,
        };
        for job in controller.active_jobs() {
            plan.enter_active(controller, job, now.wall);
        }
        plan
    }

    fn enter_active(&mut self, controller: &Controller, job: &Job, now: WallTime) {
        let Some(attempt) = &job.attempt else { return };
        let end = attempt.started_at.unwrap_or(now) + attempt.planned;
        if length_said(job).is_none() {
            if let Some(node) = controller.position_of(&attempt.allocation.node) {
                self.rests_on_unknown(node, end.max(now));
            }
            return;
        }
        if let Some(places) = self.queues.get_mut(&job.queue).filter(|_| !is_stopped(controller, job)) {
            places.ends.insert((end.max(now), attempt.name.epoch.0));
        }
    }

    fn rests_on_unknown(&mut self, node: usize, from: WallTime) {
        let known = self.unknown.entry(node).or_insert(from);
        *known = from.min(*known);
    }

    /// The first instant at which the job's queue lets it start; takes that place.
    fn allowed(&mut self, job: &Job) -> Option<WallTime> {
        let now = self.timeline.now();
        let Some(places) = self.queues.get_mut(&job.queue) else { return Some(now) };
        if places.free > 0 {
            places.free -= 1;
            return Some(now);
        }
        for _ in 0..std::mem::take(&mut places.over) {
            places.ends.pop_first();
        }
        places.ends.pop_first().map(|(end, _)| end.max(now))
    }

    /// Gives its place in its queue back when it ends, if that can be said.
    fn ends_in_queue(&mut self, job: &Job, start: WallTime) {
        self.made_up -= 1;
        let Some(length) = length_said(job) else { return };
        if let Some(places) = self.queues.get_mut(&job.queue) {
            places.ends.insert((start + length, self.made_up));
        }
    }

    /// The first instant at which the job fits somewhere, its place kept from then on; `None`: nobody can say.
    fn start(&mut self, controller: &Controller, job: &Job) -> Option<WallTime> {
        let (rules, length, now) = (controller.rules(), controller.planned(job), self.timeline.now());
        let nodes = controller.all_nodes();
        let not_before = self.last.unwrap_or(now);
        let at_once = (not_before <= now)
            .then(|| rules.place(nodes, &self.timeline, &job.request, now, length))
            .flatten()
            .map(|place| (now, place));
        let (from, place) =
            at_once.or_else(|| rules.earliest(nodes, &self.timeline, &job.request, not_before, length))?;
        if self.unknown.get(&place.node).is_some_and(|unknown| *unknown <= from) {
            return None;
        }
        self.last = self.last.map(|last| last.max(from));
        self.ends_in_queue(job, from);
        let reservation = controller.reservation(job, &place, from);
        if length_said(job).is_none() {
            self.rests_on_unknown(place.node, reservation.until);
        }
        self.timeline.reserve(reservation);
        Some(from)
    }
}

fn is_stopped(controller: &Controller, job: &Job) -> bool {
    controller.config().queue(job.queue.as_str()).is_some_and(|queue| queue.state == QueueState::Stopped)
}
