//! Answers for people: why a job waits, with numbers, and when it is expected
//! to start. A pure read over what the scheduler itself goes by.

use std::collections::BTreeMap;

use crate::config::QueueState;
use crate::controller::Controller;
use crate::id::{HostName, JobNumber};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::Node;
use crate::time::{Now, WallTime};

/// Why a job waits and until when.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    /// Everything in the way, the first thing first. Empty for jobs that do not wait.
    pub reasons: Vec<String>,
    /// When it is expected to start, if that can be said.
    pub expected_start: Option<WallTime>,
}

/// How far ahead of a job the plan is followed.
const PLANNED_AHEAD: usize = 1000;

impl Controller {
    /// Why a waiting job waits; nothing for others.
    pub fn explain(&self, now: Now, number: JobNumber) -> Explanation {
        let Some(job) = self.job(number) else { return Explanation::default() };
        match job.state {
            JobState::Pending => Explanation {
                reasons: self.own_reasons(job, now),
                expected_start: self.expected_begin(job, now),
            },
            JobState::Ready => {
                let ahead: Vec<&Job> =
                    self.ready_jobs().take_while(|j| j.id != job.id).take(PLANNED_AHEAD + 1).collect();
                let reasons = self.ready_reasons(job, &ahead);
                Explanation { reasons, expected_start: self.forecast(job, &ahead, now) }
            }
            _ => Explanation::default(),
        }
    }

    fn own_reasons(&self, job: &Job, now: Now) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(who) = &job.hold {
            reasons.push(format!("held by {who}; 'ax release {}' lets it go", job.id));
        }
        if let Some(begin) = job.request.begin.filter(|b| *b > now.wall) {
            reasons.push(format!("begins not before {begin}"));
        }
        if let Some(until) = job.backoff_until {
            let (used, all) = (job.retries_used, job.request.retries);
            let left = (until - now.boot).0.div_ceil(1000);
            reasons.push(format!("retry {used} of {all} in {left} s after a failure"));
        }
        reasons
    }

    fn expected_begin(&self, job: &Job, now: Now) -> Option<WallTime> {
        if job.hold.is_some() {
            return None;
        }
        let backoff = job.backoff_until.map(|until| now.wall + (until - now.boot));
        backoff.max(job.request.begin)
    }

    fn ready_reasons(&self, job: &Job, ahead: &[&Job]) -> Vec<String> {
        let mut reasons = Vec::new();
        match self.config().queue(job.queue.as_str()) {
            None => reasons.push(format!("queue {} is no longer configured", job.queue)),
            Some(queue) => {
                if queue.state == QueueState::Stopped {
                    reasons.push(format!("queue {} is stopped: it starts nothing", queue.name));
                }
                let active = self.active_in(&queue.name);
                if let Some(max) = queue.max_running.filter(|max| active >= *max) {
                    reasons.push(format!("queue {} runs {active} of at most {max} jobs", queue.name));
                }
            }
        }
        reasons.extend(self.nodes().filter_map(|node| shortage_on(node, job)));
        if self.is_misfit(job.id.number) {
            reasons.insert(0, "no node here could hold it, even empty".to_owned());
        } else if let Some(first) = ahead.first() {
            let count = ahead.len();
            let more = if count > PLANNED_AHEAD { "more than " } else { "" };
            let count = count.min(PLANNED_AHEAD);
            let jobs = if count == 1 { "job" } else { "jobs" };
            reasons.push(format!("{more}{count} {jobs} before it, the first is {}", first.id));
        }
        if self.nodes().next().is_none() {
            reasons.push("no node has registered yet".to_owned());
        }
        reasons
    }

    /// Expected start: the jobs before it and then itself are placed one after
    /// the other in a plan in which running jobs end at their limits.
    fn forecast(&self, job: &Job, ahead: &[&Job], now: Now) -> Option<WallTime> {
        if ahead.len() > PLANNED_AHEAD || self.is_misfit(job.id.number) {
            return None;
        }
        let mut plan = Plan::of(self, now);
        for waiting in ahead.iter().filter(|j| !self.is_misfit(j.id.number)) {
            let start = plan.start(waiting)?;
            plan.run(waiting, start);
        }
        plan.start(job)
    }
}

fn shortage_on(node: &Node, job: &Job) -> Option<String> {
    let shortages = node.shortages(&job.request);
    let texts: Vec<&str> = shortages.iter().map(|s| s.text.as_str()).collect();
    (!texts.is_empty()).then(|| format!("needs {} on {}", texts.join(", and "), node.inventory.name))
}

/// The nodes as they will be, moved forward from end to end.
struct Plan {
    nodes: BTreeMap<HostName, Node>,
    /// Ends to come: attempt, node, and when; unknown ends are not in it.
    ends: BTreeMap<(WallTime, u64), HostName>,
    now: WallTime,
    made_up: u64,
}

impl Plan {
    fn of(controller: &Controller, now: Now) -> Plan {
        let nodes = controller.nodes().map(|n| (n.inventory.name.clone(), n.clone())).collect();
        let mut ends = BTreeMap::new();
        for job in controller.jobs().filter(|j| j.state.is_active()) {
            let Some(attempt) = &job.attempt else { continue };
            let Some(length) = job.request.estimate.or(job.request.time_limit) else { continue };
            let since = attempt.started_at.unwrap_or(now.wall);
            let end = (since + length).max(now.wall);
            ends.insert((end, attempt.name.epoch.0), attempt.allocation.node.clone());
        }
        Plan { nodes, ends, now: now.wall, made_up: u64::MAX }
    }

    /// The first instant, from where the plan stands, at which the job fits somewhere.
    fn start(&mut self, job: &Job) -> Option<WallTime> {
        while !self.nodes.values().any(|n| n.place(&job.request).is_some()) {
            let ((end, epoch), node) = self.ends.pop_first()?;
            self.now = self.now.max(end);
            if let Some(node) = self.nodes.get_mut(&node) {
                node.held.remove(&epoch);
            }
        }
        Some(self.now)
    }

    fn run(&mut self, job: &Job, start: WallTime) {
        let placed = self.nodes.values().find_map(|n| n.place(&job.request));
        let Some(allocation) = placed else { return };
        self.made_up -= 1;
        if let Some(length) = job.request.estimate.or(job.request.time_limit) {
            self.ends.insert((start + length, self.made_up), allocation.node.clone());
        }
        if let Some(node) = self.nodes.get_mut(&allocation.node) {
            node.held.insert(self.made_up, allocation);
        }
    }
}
