//! Tasks as the controller sees them: what their owners ask for, with the defaults of queue and cluster applied as
//! the daemon does.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::player::YEAR;
use super::{Options, Stuck};
use crate::config::Config;
use crate::controller::Submission;
use crate::explain::never_enough;
use crate::id::{SubmissionKey, Uid};
use crate::job::Owner;
use crate::job::request::{Request, Times, card_request, resolve};
use crate::job::spec::{GpuCount, JobSpec, NodeCount, RamRequest, TimeLimit};
use crate::node::{Inventory, Node};
use crate::schedule::history::{History, Run, Signature};
use crate::sim::workload::{BEGINNING, Task, Workload};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// Users of simulations have numbers from here on.
const FIRST_UID: u32 = 1000;

/// The tasks that are still to come, and what is needed to submit them.
pub(super) struct Submissions {
    /// Time and number of each task, the next one last.
    coming: Vec<(Span, usize)>,
    ranks: Vec<u32>,
    owners: BTreeMap<Arc<str>, Uid>,
    /// An empty node of each shape, and how many there are of it; or all of the workload's origin.
    shapes: Vec<(Node, usize)>,
    /// Whether these are such: what tasks ask for has its meaning there.
    at_home: bool,
}

impl Submissions {
    pub(super) fn new<'a>(
        workload: &Workload,
        options: &Options,
        nodes: impl Iterator<Item = &'a Inventory>,
    ) -> Result<Submissions, Stuck> {
        let (config, before) = (&options.config, &options.history);
        let at_home = workload.machines(&options.nodes).is_some();
        let mut owners = BTreeMap::new();
        for task in &workload.tasks {
            if config.queue(task.queue.as_str()).is_none() {
                return Err(Stuck::NoQueue(config.unknown_queue(task.queue.as_str())));
            }
        }
        for task in workload.tasks.iter().chain(before) {
            let next = Uid(FIRST_UID + owners.len() as u32);
            owners.entry(Arc::clone(&task.user)).or_insert(next);
        }
        let coming = workload.in_order().into_iter().rev().map(|at| (workload.tasks[at].arrive, at));
        let shapes = match at_home {
            true => nodes.cloned().map(|has| (Node::new(has), 1)).collect(),
            false => shapes(nodes),
        };
        Ok(Submissions { coming: coming.collect(), ranks: workload.ranks(), owners, shapes, at_home })
    }

    /// What is known of tasks that ran before, in the order in which they came: as if each had run alone.
    pub(super) fn history(&self, before: &[Task]) -> History {
        let mut order: Vec<&Task> = before.iter().collect();
        order.sort_by_key(|task| task.arrive);
        let mut history = History::default();
        for task in order {
            let (owner, cards) = (self.owner(task), card_request(&spec(task)).ok().flatten());
            let peak = cards.is_some().then_some(task.mem_true);
            let run = Run { length: task.runtime, peak, ended: WallTime(0) + task.arrive };
            history.add(owner, Signature::of(&task.name, cards.as_ref()).on(task.nodes), &run);
        }
        history
    }

    fn owner(&self, task: &Task) -> Uid {
        self.owners.get(&task.user).copied().unwrap_or(Uid(FIRST_UID))
    }

    /// When the next task arrives.
    pub(super) fn next(&self) -> Option<Span> {
        self.coming.last().map(|(at, _)| *at)
    }

    /// The next task, if it arrives by now.
    pub(super) fn take(&mut self, now: Span) -> Option<usize> {
        self.next().filter(|at| *at <= now)?;
        self.coming.pop().map(|(_, task)| task)
    }

    /// The task's place among all by id.
    pub(super) fn rank(&self, task: usize) -> u32 {
        self.ranks[task]
    }

    /// The submission of a task, or why there can be none.
    pub(super) fn make(&self, number: usize, task: &Task, config: &Config) -> Result<Submission, String> {
        let request = self.request(task, config)?;
        let owner = Owner { uid: self.owner(task), name: Arc::clone(&task.user) };
        let key = SubmissionKey(number as u128 + 1);
        Ok(Submission::new(key, owner, &task.name, task.queue.clone(), YEAR, request))
    }

    fn request(&self, task: &Task, config: &Config) -> Result<Request, String> {
        let Some(queue) = config.queue(task.queue.as_str()) else {
            return Err(config.unknown_queue(task.queue.as_str()));
        };
        let reserve = config.resources.gpu_reserve;
        let largest: Vec<&Node> = self.shapes.first().into_iter().map(|(node, _)| node).collect();
        let request = match task.asked.as_deref().filter(|_| self.at_home) {
            Some(asked) => asked.clone(),
            None => {
                resolve(&spec(task), times(task), config, queue, &largest).map_err(|why| why.to_string())?
            }
        };
        let holds = |(node, _): &&(Node, usize)| node.could_ever_hold(&request, reserve);
        let fitting: usize = self.shapes.iter().filter(holds).map(|(_, count)| count).sum();
        if fitting >= request.nodes().min as usize {
            return Ok(request);
        }
        if fitting > 0 {
            let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
            let all: usize = self.shapes.iter().map(|(_, count)| count).sum();
            return Err(never_enough(&request, number(fitting), number(all)));
        }
        let lacks = self.shapes.first().and_then(|(node, _)| node.lacks_for_ever(&request, reserve));
        Err(lacks.unwrap_or_else(|| "no node could ever hold it".to_owned()))
    }
}

/// What the owner of a task would have said to `axbatch`.
fn spec(task: &Task) -> JobSpec {
    let mut spec = JobSpec::default();
    spec.resources.gpus_per_node = Some(GpuCount { kind: None, count: task.cards });
    spec.resources.nodes = Some(NodeCount { min: task.nodes, max: task.nodes });
    spec.resources.gpu_mem = task.mem;
    // Whether less may be given is the configuration's to say here.
    spec.resources.fit_memory = true;
    spec.resources.ram = Some(RamRequest::PerNode(Megabytes(1)));
    spec.resources.cpus_per_task = Some(1);
    spec.timing.estimate = Some(task.estimate);
    spec.timing.priority = Some(task.priority);
    // Who has to be over in time says how long they take.
    if task.hours.window.is_some() {
        (spec.timing.window, spec.timing.limit) = (task.hours.window, Some(TimeLimit::After(task.estimate)));
    }
    spec
}

fn times(task: &Task) -> Times {
    Times { begin: None, deadline: task.hours.deadline.map(|deadline| BEGINNING + deadline) }
}

/// One empty node of each shape, that with most cards, then most memory, first.
fn shapes<'a>(nodes: impl Iterator<Item = &'a Inventory>) -> Vec<(Node, usize)> {
    let mut shapes: BTreeMap<(usize, Megabytes), (Node, usize)> = BTreeMap::new();
    for inventory in nodes {
        let mem = inventory.cards.first().map(|card| card.mem).unwrap_or_default();
        let key = (inventory.cards.len(), mem);
        shapes.entry(key).or_insert_with(|| (Node::new(inventory.clone()), 0)).1 += 1;
    }
    shapes.into_values().rev().collect()
}
