//! Changes of jobs that are there: what a waiting job asks for, and how long a running one may run. What becomes of it is
//! checked as a submission is.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::config::{Queue, QueueState};
use crate::explain::never_enough;
use crate::id::{JobNumber, QueueName, Uid};
use crate::job::features::Features;
use crate::job::request::{CardRequest, Request, fits_window};
use crate::job::spec::{GpuCount, NodeCount, Window};
use crate::job::state::JobState;
use crate::job::{Actor, Job, Learnt};
use crate::schedule::history::Signature;
use crate::size::Megabytes;
use crate::text::count;
use crate::time::{Now, Span, WallTime};

use super::person::Asked;
use super::refusal::Refusal;
use super::{Controller, Decision};

/// A change to a job; `None` leaves a thing as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// Priority.
    pub priority: Option<u8>,
    /// Time limit; the inner `None` takes it away.
    #[serde(default, deserialize_with = "that_is_there", skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Option<Span>>,
    /// Queue.
    pub queue: Option<QueueName>,
    /// Name.
    pub name: Option<Box<str>>,
    /// Begin time; here and below the inner `None` takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "that_is_there")]
    pub begin: Option<Option<WallTime>>,
    /// Daily hours.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "that_is_there")]
    pub window: Option<Option<Window>>,
    /// Deadline.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "that_is_there")]
    pub deadline: Option<Option<WallTime>>,
    /// What it needs of machines.
    #[serde(default, skip_serializing_if = "Needs::is_none")]
    pub needs: Needs,
}

/// What changes of what a waiting job needs of machines. What is not named stays as it was, also where it once followed
/// from what is: whoever asks for less memory of a card keeps the CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// Cards in all, and of which type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuCount>,
    /// Cards of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<GpuCount>,
    /// Memory of each card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem: Option<Megabytes>,
    /// Host memory of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<Megabytes>,
    /// CPUs of each task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// Features of its nodes; the inner `None` takes them away.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "that_is_there")]
    pub features: Option<Option<Features>>,
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCount>,
}

impl Needs {
    fn is_none(&self) -> bool {
        *self == Needs::default()
    }
}

/// What is written as `null` is there, and says that something is taken away.
fn that_is_there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Controller {
    pub(super) fn update(
        &mut self,
        now: Now,
        asked: &Asked<'_>,
        change: Change,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        match job.state {
            state if state.is_waiting() => self.change_waiting(now, asked, change, out),
            JobState::Running => self.change_running(asked, &change, out),
            JobState::Starting => Err(Refusal::for_now(format!(
                "{id} is {}: its time limit can be changed once it runs",
                job.state
            ))),
            state => Err(Refusal::because(format!("{id} is {state}: nothing of it can be changed any more"))),
        }
    }

    fn change_waiting(
        &mut self,
        now: Now,
        asked: &Asked<'_>,
        change: Change,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let needs = !change.needs.is_none();
        let mut changed = self.own_living(id, actor)?.clone();
        let longer = change.time_limit.is_some_and(|limit| is_longer(limit, changed.request.time_limit));
        let judged = Judged { priority: change.priority.is_some(), limit: longer };
        let differences = apply(&mut changed, change)?;
        changed.bounds = self.limits.bounds(&changed, &self.nodes);
        let job = self.own_living(id, actor)?;
        self.may_change(now, job, &changed, judged, actor)?;
        let moves = changed.queue != job.queue;
        if (needs || moves)
            && let Some(why) = self.out_of_bounds(&changed)
        {
            return Err(Refusal::because(why));
        }
        if needs {
            self.could_hold(&changed.request)?;
        }
        if differences.is_empty() {
            // Nothing is decided, which is what is said then.
            return Ok(());
        }
        let was_misfit = self.fits_nowhere(job);
        let what = asked.said(&format!("{},", differences.join(", ")));
        if needs {
            // What others leave for it is what it asked for before.
            changed.rare.change(|rare| rare.claim = None);
        }
        self.unindex(id.number);
        if (moves || was_misfit) && changed.state == JobState::Ready {
            self.wake_queue(&changed);
        }
        self.index(Arc::new(changed));
        out.push(asked.noted(&what));
        self.settle_waiting(now, id.number, actor, &what, out);
        Ok(())
    }

    /// Whether a waiting job may become what a change makes of it.
    fn may_change(
        &self,
        now: Now,
        job: &Job,
        changed: &Job,
        judged: Judged,
        actor: &Actor,
    ) -> Result<(), Refusal> {
        let Some(queue) = self.config.queue(changed.queue.as_str()) else {
            return Err(Refusal::because(self.config.unknown_queue(changed.queue.as_str())));
        };
        let moves = queue.name != job.queue;
        if moves && queue.state == QueueState::Closed {
            let why = format!("queue '{}' is closed: it accepts no new jobs", queue.name);
            return Err(Refusal::because(why));
        }
        let limit = changed.request.time_limit;
        if let Some(window) = changed.request.window() {
            fits_window(window, limit).map_err(|unmeetable| Refusal::because(unmeetable.message))?;
        }
        if let Some(why) = self.lapsed(changed, now.wall) {
            return Err(Refusal::because(why));
        }
        if actor.is_admin() {
            return Ok(());
        }
        let all = Judged { priority: true, limit: true };
        within_bounds(queue, &changed.request, if moves { all } else { judged })
    }

    /// As at a submission: what no node, or too few of them, could ever hold is refused with the numbers. Nodes that are
    /// declared and have not come yet may hold what needs several.
    fn could_hold(&self, request: &Request) -> Result<(), Refusal> {
        let reserve = self.config.resources.gpu_reserve;
        let fitting = self.nodes.iter().filter(|node| node.could_ever_hold(request, reserve)).count();
        let needed = request.nodes().min as usize;
        if self.nodes.iter().next().is_none() || fitting >= needed {
            return Ok(());
        }
        let because =
            |why: String| Err(Refusal::because(format!("no node here could ever hold it then: {why}")));
        if needed == 1 {
            let lacks = self.nodes.iter().filter_map(|node| node.lacks_for_ever(request, reserve));
            return because(format!("it {}", lacks.collect::<Vec<_>>().join("; it ")));
        }
        let declared = self.config.resources.gpu_nodes.iter();
        let to_come = declared.filter(|node| self.nodes.get(&node.host).is_none()).count();
        if fitting + to_come >= needed {
            return Ok(());
        }
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        because(never_enough(request, number(fitting), number(self.nodes.iter().count() + to_come)))
    }

    /// How long a running job may run is the one thing of it that can be changed: its owner makes that shorter, whoever
    /// administers also longer. It counts from the job's start, as before.
    fn change_running(
        &mut self,
        asked: &Asked<'_>,
        change: &Change,
        out: &mut Vec<Decision>,
    ) -> Result<(), Refusal> {
        let Asked { id, actor, .. } = *asked;
        let job = self.own_living(id, actor)?;
        let only_limit = Change { time_limit: change.time_limit, ..Change::default() };
        let Some(limit) = change.time_limit.filter(|_| *change == only_limit) else {
            let why = format!("{id} is {}: of a running job only --time can be changed", job.state);
            return Err(Refusal::because(why));
        };
        let was = job.request.time_limit;
        if limit == was {
            return Ok(());
        }
        if is_longer(limit, was) {
            self.may_extend(job, limit, actor)?;
        }
        let Some(attempt) = job.attempt.as_ref().filter(|attempt| attempt.ending.is_none()) else {
            return Err(Refusal::because(format!("{id} is being ended")));
        };
        let name = attempt.name;
        out.push(asked.noted(&asked.said(&format!("{},", limits_in_words(was, limit)))));
        if let Some(job) = self.jobs.get_mut(&id.number).map(Arc::make_mut) {
            Arc::make_mut(&mut job.request).time_limit = limit;
            job.attempt.iter_mut().for_each(|attempt| attempt.relimited = true);
        }
        self.plan_anew(id.number);
        let limit = self.running_limit(id.number);
        out.push(Decision::Limit { attempt: name, limit });
        Ok(())
    }

    /// Whether somebody may let a running job run for longer.
    fn may_extend(&self, job: &Job, limit: Option<Span>, actor: &Actor) -> Result<(), Refusal> {
        if !actor.is_admin() {
            let why = format!(
                "{} runs: its owner may make its time limit shorter, administrators also longer",
                job.id
            );
            return Err(Refusal::no_permission(why));
        }
        let is_root = matches!(actor, Actor::Ax | Actor::User { uid: Uid::ROOT, .. });
        let queue = self.config.queue(job.queue.as_str()).filter(|_| !is_root);
        if let Some((queue, max)) = queue.and_then(|queue| Some((queue, queue.max_time?)))
            && limit.is_none_or(|limit| limit > max)
        {
            let why =
                format!("queue '{}' takes no job longer than {max}; only root may go beyond", queue.name);
            return Err(Refusal::because(why));
        }
        // Within its hours, and by its deadline: it was started because it would be over then.
        let Some((over_by, start)) = self.has_to_be_over(job) else { return Ok(()) };
        match limit {
            Some(limit) if start + limit <= over_by => Ok(()),
            _ => Err(Refusal::because(format!(
                "{} has to be over by its --deadline or the end of its --window, in time for which it has {} in all",
                job.id,
                over_by - start
            ))),
        }
    }

    /// By when a running job has to be over, if it has hours or a deadline, and when it was started.
    fn has_to_be_over(&self, job: &Job) -> Option<(WallTime, WallTime)> {
        let start = job.attempt.as_ref()?.assigned_at;
        Some((job.over_by(start, &self.zone)?, start))
    }

    /// What is planned with an attempt follows the job's limit.
    fn plan_anew(&mut self, number: JobNumber) {
        let Some(job) = self.jobs.get(&number) else { return };
        let planned = self.planned_with(job, job.length());
        let taken_for = self.taken_for(job, planned);
        let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) else { return };
        let Some(attempt) = job.attempt.as_deref_mut() else { return };
        let (before, unspent) = (attempt.planned, attempt.unspent());
        (attempt.planned, attempt.taken_for) = (planned, taken_for);
        let ends = attempt.ends();
        if let (Some((charged, end)), Some((_, later))) = (unspent, attempt.unspent()) {
            self.unspent.leave(&job.queue, charged, end);
            self.unspent.enter(&job.queue, charged, later);
            self.times.charge(&job.queue, charged.correction(before, planned), charged.weight);
        }
        let (name, hosts) =
            (attempt.name, attempt.open_parts().map(|part| part.node.clone()).collect::<Vec<_>>());
        for host in &hosts {
            if let Some(node) = self.nodes.get_mut(host) {
                node.expect_end(name, ends);
            }
        }
    }

    /// How long a job that runs may do so in all, by its limit, hours and deadline.
    pub fn running_limit(&self, number: JobNumber) -> Option<Span> {
        let job = self.jobs.get(&number)?;
        self.limit_from(job, job.attempt.as_ref()?.assigned_at)
    }
}

/// What of a changed job is for its queue to judge: in another queue all, in the same what was changed. What an
/// administrator gave it, or what the queue allowed when it came, stays.
#[derive(Clone, Copy)]
struct Judged {
    priority: bool,
    limit: bool,
}

/// Whether a queue takes a job that an ordinary user changes.
fn within_bounds(queue: &Queue, request: &Request, judged: Judged) -> Result<(), Refusal> {
    let (priority, max) = (request.priority, queue.max_priority);
    if judged.priority && priority > max {
        let name = &queue.name;
        let why = format!("queue '{name}' takes no job of a priority above {max}; this has {priority}");
        return Err(Refusal::because(why));
    }
    match queue.max_time.filter(|_| judged.limit) {
        Some(max) if request.time_limit.is_none_or(|limit| limit > max) => {
            Err(Refusal::because(format!("queue '{}' takes no job longer than {max}", queue.name)))
        }
        _ => Ok(()),
    }
}

fn is_longer(limit: Option<Span>, was: Option<Span>) -> bool {
    was.is_some_and(|was| limit.is_none_or(|limit| limit > was))
}

fn limits_in_words(was: Option<Span>, becomes: Option<Span>) -> String {
    let text = |limit: Option<Span>| limit.map_or("none".to_owned(), |span| span.to_string());
    format!("time limit {} → {}", text(was), text(becomes))
}

/// Applies a change. Returns in words what is different then.
fn apply(job: &mut Job, change: Change) -> Result<Vec<String>, Refusal> {
    let mut said = Vec::new();
    let request = Arc::make_mut(&mut job.request);
    if let Some(priority) = change.priority.filter(|priority| *priority != request.priority) {
        said.push(format!("priority {} → {priority}", request.priority));
        request.priority = priority;
    }
    if let Some(limit) = change.time_limit.filter(|limit| *limit != request.time_limit) {
        said.push(limits_in_words(request.time_limit, limit));
        request.time_limit = limit;
    }
    if let Some(queue) = change.queue.filter(|queue| *queue != job.queue) {
        said.push(format!("queue {} → {queue}", job.queue));
        job.queue = queue;
    }
    if let Some(name) = change.name.filter(|name| *name != job.name) {
        said.push("new name".to_owned());
        job.name = name;
    }
    if let Some(begin) = change.begin.filter(|begin| *begin != request.begin) {
        said.push(begin.map_or("begins at any time".to_owned(), |begin| format!("begins at {begin}")));
        request.begin = begin;
    }
    if let Some(window) = change.window.filter(|window| *window != request.window()) {
        said.push(
            window.map_or("runs at any hour".to_owned(), |window| format!("runs only within {window}")),
        );
        request.set_special(|special| special.window = window);
    }
    if let Some(deadline) = change.deadline.filter(|deadline| *deadline != request.deadline()) {
        said.push(deadline.map_or("no deadline".to_owned(), |deadline| format!("to be over by {deadline}")));
        request.set_special(|special| special.deadline = deadline);
    }
    apply_needs(job, change.needs, &mut said)?;
    Ok(said)
}

/// Applies a change of what a job needs of machines.
fn apply_needs(job: &mut Job, needs: Needs, said: &mut Vec<String>) -> Result<(), Refusal> {
    let request = Arc::make_mut(&mut job.request);
    if let Some(nodes) = needs.nodes.filter(|nodes| *nodes != request.nodes()) {
        said.push(format!("nodes {} → {nodes}", request.nodes()));
        request.set_special(|special| special.nodes = Some(nodes).filter(|nodes| nodes.max > 1));
    }
    if let Some(features) = needs.features.filter(|features| features.as_ref() != request.features()) {
        let words = |features: Option<&Features>| features.map_or("none".to_owned(), ToString::to_string);
        said.push(format!("features {} → {}", words(request.features()), words(features.as_ref())));
        request.set_special(|special| special.features = features);
    }
    if let Some(ram) = needs.ram.filter(|ram| *ram != request.ram) {
        said.push(format!("RAM {} → {ram}", request.ram));
        request.ram = ram;
    }
    let cpus = needs.cpus_per_task.map(|each| each.max(1).saturating_mul(request.tasks()));
    if let Some(cpus) = cpus.filter(|cpus| *cpus != request.cpus) {
        said.push(format!("CPUs {} → {cpus}", request.cpus));
        request.cpus = cpus;
    }
    let nodes = request.nodes().min;
    let in_all = needs.gpus.map(|gpus| (gpus, nodes)).or(needs.gpus_per_node.map(|gpus| (gpus, 1)));
    if in_all.is_none() && needs.mem.is_none() {
        return Ok(());
    }
    let Some(before) = request.cards.clone() else {
        let why = "it asks for no card, and one that waits can't be given any; --ram is host memory";
        return Err(Refusal::because(why.to_owned()));
    };
    let after = cards_then(&before, in_all, needs.mem)?;
    if after != before {
        said.push(format!("cards {} → {}", cards_in_words(&before), cards_in_words(&after)));
        request.cards = Some(after);
        // What is known of the same thing on other cards says nothing of it there; its planned length stays.
        job.signature = Signature::default();
        let length = job.learnt.as_deref().and_then(|learnt| learnt.length);
        let learnt = Learnt { length, ..Learnt::default() };
        job.learnt = (learnt != Learnt::default()).then(|| Arc::new(learnt));
    }
    Ok(())
}

/// The cards of each node after a change; `count` is among so many nodes.
fn cards_then(
    before: &CardRequest,
    count: Option<(GpuCount, u32)>,
    mem: Option<Megabytes>,
) -> Result<CardRequest, Refusal> {
    let mut after = before.clone();
    if let Some((gpus, nodes)) = count {
        if gpus.count == 0 || !gpus.count.is_multiple_of(nodes) {
            let (cards, nodes) = (count_of(gpus.count), crate::text::count(nodes, "node"));
            let why = format!("{cards} can't be had of {nodes}; say how many of each: --gpus-per-node");
            return Err(Refusal::because(why));
        }
        (after.count, after.kind) = (gpus.count / nodes, gpus.kind);
    }
    if let Some(mem) = mem {
        if mem == Megabytes::ZERO {
            return Err(Refusal::because("--mem=0 asks for no GPU memory at all".to_owned()));
        }
        after.slice = Some(mem);
    }
    Ok(after)
}

fn count_of(cards: u32) -> String {
    count(cards, "card")
}

/// `2`, `a100:2 with 20GB each`.
fn cards_in_words(cards: &CardRequest) -> String {
    let kind = cards.kind.as_ref().map_or(String::new(), |kind| format!("{kind}:"));
    let each = cards.slice.map_or(String::new(), |mem| format!(" with {} each", mem.of_card()));
    format!("{kind}{}{each}", cards.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_takes_something_away_is_read_as_it_was_written() {
        for time_limit in [None, Some(None), Some(Some(Span(7)))] {
            let needs = Needs { features: time_limit.map(|_| None), ..Needs::default() };
            let change = Change { time_limit, needs, ..Change::default() };
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change, "{text}");
        }
    }
}
