//! What a job asks for, with the defaults of queue and cluster applied. The controller keeps it for each job, so it
//! is small: there may be a hundred thousand.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{Config, Policy, Queue};
use crate::gpu::model::meant;
use crate::id::HostName;
use crate::job::division::{Division, divide};
use crate::job::features::{BadFeatures, Features};
use crate::job::spec::{JobSpec, NodeCount, PreemptMode, RamRequest, TimeLimit, Window};
use crate::node::{Inventory, Node};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// A job's needs and rules, as decided at submission. CPUs, memory and cards are those of each of its nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Request {
    /// CPUs.
    pub cpus: u32,
    /// Host memory.
    pub ram: Megabytes,
    /// Cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cards: Option<CardRequest>,
    /// Whole nodes, shared with no other job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Only on these nodes; empty means any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only_nodes: Vec<HostName>,
    /// Not on these nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_nodes: Vec<HostName>,
    /// Time limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
    /// Expected length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Span>,
    /// Begin time: not before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<WallTime>,
    /// 0 to 100, within the queue.
    pub priority: u8,
    /// A lost attempt may be started again without asking.
    pub idempotent: bool,
    /// It may be started again after its node or supervisor was lost.
    pub requeue: bool,
    /// Number of retries after a failure.
    pub retries: u32,
    /// Pause before the first retry; it doubles.
    pub retry_delay: Span,
    /// What may be done to it when a more urgent job needs its place.
    #[serde(default = "by_default")]
    pub preempt: PreemptMode,
    /// It may be charged less memory of a card than it asks for, if its last runs used less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fit_memory: bool,
    /// Exit codes that are retried; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<u8>,
    /// What few jobs ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special: Option<Box<Special>>,
}

/// What few jobs ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Special {
    /// Features that its node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// Several nodes at once, or a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCount>,
    /// Tasks on each of its nodes, if more than one: they have the same number of its CPUs each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// Daily hours: it runs only within them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// It has to be over by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WallTime>,
}

impl Request {
    /// Features that its node must have.
    pub fn features(&self) -> Option<&Features> {
        self.special.as_ref()?.features.as_ref()
    }

    /// The number of nodes, if it may be more than one.
    pub fn several(&self) -> Option<NodeCount> {
        self.special.as_ref()?.nodes
    }

    /// The number of nodes.
    pub fn nodes(&self) -> NodeCount {
        self.several().unwrap_or(NodeCount::ONE)
    }

    /// Tasks on each node.
    pub fn tasks(&self) -> u32 {
        self.special.as_ref().and_then(|special| special.tasks).unwrap_or(1)
    }

    /// Its daily hours.
    pub fn window(&self) -> Option<Window> {
        self.special.as_ref()?.window
    }

    /// When it has to be over.
    pub fn deadline(&self) -> Option<WallTime> {
        self.special.as_ref()?.deadline
    }

    /// Changes what few jobs ask for; drops it if nothing is left of it.
    pub fn set_special(&mut self, change: impl FnOnce(&mut Special)) {
        let mut special = self.special.take().map_or_else(Special::default, |special| *special);
        change(&mut special);
        self.special = (special != Special::default()).then(|| Box::new(special));
    }
}

/// Cards of one node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CardRequest {
    /// How many.
    pub count: u32,
    /// Of this type only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The size of a slice on each card; `None` means whole cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Megabytes>,
}

fn by_default() -> PreemptMode {
    PreemptMode::Requeue
}

/// Why a submission is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Unmeetable {
    /// One sentence with numbers and a hint.
    pub message: String,
}

fn unmeetable<T>(message: String) -> Result<T, Unmeetable> {
    Err(Unmeetable { message })
}

/// Priority of a job that names none.
pub const DEFAULT_PRIORITY: u8 = 50;

impl Request {
    /// A request for CPUs and memory on any node and nothing else: no time limit, no retries, restarted if lost.
    pub fn plain(cpus: u32, ram: Megabytes) -> Request {
        Request {
            cpus,
            ram,
            cards: None,
            exclusive: false,
            only_nodes: Vec::new(),
            not_nodes: Vec::new(),
            time_limit: None,
            estimate: None,
            begin: None,
            priority: DEFAULT_PRIORITY,
            idempotent: true,
            requeue: true,
            retries: 0,
            retry_delay: Span::seconds(2),
            preempt: by_default(),
            fit_memory: false,
            retry_on: Vec::new(),
            special: None,
        }
    }
}

/// The times that a submission names, resolved in the cluster's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// `--begin`.
    pub begin: Option<WallTime>,
    /// `--deadline`.
    pub deadline: Option<WallTime>,
}

/// Applies the defaults of queue and cluster to a submission, for the nodes that there are.
pub fn resolve(
    spec: &JobSpec,
    times: Times,
    config: &Config,
    queue: &Queue,
    nodes: &[&Node],
) -> Result<Request, Unmeetable> {
    let division = divide(&spec.resources).or_else(|uneven| unmeetable(uneven.to_string()))?;
    let mut cards = cards_of_each(spec, division)?;
    if let Some(cards) = &mut cards {
        if nodes.iter().all(|n| n.inventory.cards.is_empty()) {
            return unmeetable(no_cards(config));
        }
        if let Some(typed) = &cards.kind {
            cards.kind = Some(type_meant(typed, config, nodes.iter().copied())?);
        }
    }
    let host = typical_node(nodes, cards.as_ref());
    let cpus = cpus_for(spec, division.tasks, queue, cards.as_ref(), host);
    let policy = &config.policy;
    let features = spec.resources.constraint.as_deref().map(str::parse::<Features>).transpose();
    let features = features.or_else(|error: BadFeatures| unmeetable(format!("--constraint: {error}")))?;
    let nodes = Some(division.nodes).filter(|nodes| nodes.max > 1);
    let tasks = Some(division.tasks).filter(|tasks| *tasks > 1);
    let special = Special { features, nodes, tasks, window: spec.timing.window, deadline: times.deadline };
    let time_limit = time_limit(spec, config, queue)?;
    check_grace(spec, policy)?;
    if let Some(window) = special.window {
        fits_window(window, time_limit)?;
    }
    Ok(Request {
        cpus,
        ram: ram_for(spec, queue, cards.as_ref(), cpus, host),
        exclusive: spec.resources.exclusive,
        only_nodes: host_names(&spec.resources.nodelist)?,
        not_nodes: host_names(&spec.resources.exclude)?,
        time_limit,
        estimate: spec.timing.estimate,
        begin: times.begin,
        priority: priority(spec, queue)?,
        idempotent: spec.policy.idempotent.unwrap_or(queue.idempotent),
        requeue: spec.policy.requeue.unwrap_or(true),
        retries: spec.policy.retry.or(queue.retry_count).unwrap_or(policy.retry_count),
        retry_delay: spec.policy.retry_delay.unwrap_or(policy.retry_delay),
        retry_on: spec.policy.retry_on.clone(),
        preempt: spec.policy.preempt.unwrap_or(queue.preempt),
        fit_memory: spec.resources.fit_memory,
        cards,
        special: (special != Special::default()).then(|| Box::new(special)),
    })
}

/// The type of card that a typed name means, among the nodes that are there and those that are declared.
///
/// # Errors
/// If it means none, or several.
pub fn type_meant<'a>(
    typed: &str,
    config: &'a Config,
    nodes: impl Iterator<Item = &'a Node>,
) -> Result<String, Unmeetable> {
    let found = nodes.flat_map(|node| &node.inventory.cards).filter_map(|card| card.kind.as_deref());
    let declared = config.resources.gpu_nodes.iter().filter_map(|node| node.kind.as_deref());
    meant(typed, &found.chain(declared).collect()).or_else(unmeetable)
}

fn no_cards(config: &Config) -> String {
    let declared: Vec<&str> = config.resources.gpu_nodes.iter().map(|node| node.host.as_str()).collect();
    match declared.is_empty() {
        true => {
            "no node here has cards; leave --gpus out, or declare them under resources.gpu_nodes".to_owned()
        }
        false => format!(
            "no node here has cards: the declared ones, {}, have never registered",
            declared.join(", ")
        ),
    }
}

fn host_names(names: &[String]) -> Result<Vec<HostName>, Unmeetable> {
    names.iter().map(|n| n.parse().or_else(|e: crate::id::BadName| unmeetable(e.to_string()))).collect()
}

/// The cards that a submission asks for on each of its nodes.
pub(crate) fn card_request(spec: &JobSpec) -> Result<Option<CardRequest>, Unmeetable> {
    let division = divide(&spec.resources).or_else(|uneven| unmeetable(uneven.to_string()))?;
    cards_of_each(spec, division)
}

fn cards_of_each(spec: &JobSpec, division: Division) -> Result<Option<CardRequest>, Unmeetable> {
    let r = &spec.resources;
    let per_task = r.gpus_per_task.as_ref().map(|g| (g, g.count.saturating_mul(division.tasks)));
    let all = r.gpus.as_ref().map(|g| (g, g.count / division.nodes.min));
    let per_node = r.gpus_per_node.as_ref().map(|g| (g, g.count));
    let Some((named, count)) = all.or(per_node).or(per_task) else { return Ok(None) };
    if r.gpu_mem == Some(Megabytes::ZERO) {
        return unmeetable("--mem=0 asks for no GPU memory at all; leave it out for whole cards".into());
    }
    let request = CardRequest { count, kind: named.kind.clone(), slice: r.gpu_mem };
    Ok((count > 0).then_some(request))
}

/// The node whose shares become the defaults: the one with most of what is asked for.
fn typical_node<'a>(nodes: &[&'a Node], cards: Option<&CardRequest>) -> Option<&'a Inventory> {
    let fitting = |n: &&&Node| cards.is_none_or(|c| n.inventory.cards_of(c.kind.as_deref()).next().is_some());
    let best = nodes.iter().filter(fitting).max_by_key(|n| (n.inventory.cards.len(), n.inventory.cpus));
    best.map(|n| &n.inventory)
}

/// Without cards 1 CPU a task; with cards an equal share of the node's CPUs for each card; for a slice that share ×
/// slice / card, at least 1. Cut to whole ones, so that slices that fill a card do not take more than its share.
fn cpus_for(
    spec: &JobSpec,
    tasks: u32,
    queue: &Queue,
    cards: Option<&CardRequest>,
    host: Option<&Inventory>,
) -> u32 {
    if let Some(per_task) = spec.resources.cpus_per_task {
        return per_task.max(1).saturating_mul(tasks);
    }
    let (Some(cards), Some(host)) = (cards, host) else { return tasks };
    let share = match queue.default_cpus_per_gpu {
        Some(cpus) => f64::from(cpus),
        None => f64::from(host.cpus) / host.cards.len().max(1) as f64,
    };
    let wanted = share * f64::from(cards.count) * slice_part(cards, host);
    ((wanted + ROUNDING) as u32).clamp(1, host.cpus.max(1)).max(tasks)
}

/// Quotients of whole numbers are a little off.
const ROUNDING: f64 = 1e-6;

/// Bytes as they were asked for, or as a card is sold: eight slices of 10 GB are a card of 80 GB, although both are in
/// whole megabytes.
fn as_sold(mem: Megabytes) -> u64 {
    const TENTH: u64 = 100_000_000;
    let whole = mem.bytes().saturating_add(TENTH / 2) / TENTH * TENTH;
    if whole.abs_diff(mem.bytes()) < Megabytes(1).bytes() { whole } else { mem.bytes() }
}

/// The fraction of a card that a slice is; 1 for whole cards.
fn slice_part(cards: &CardRequest, host: &Inventory) -> f64 {
    let card = host.cards_of(cards.kind.as_deref()).map(|c| c.mem).max().unwrap_or_default();
    match cards.slice {
        Some(slice) if card > Megabytes::ZERO => (as_sold(slice) as f64 / as_sold(card) as f64).min(1.0),
        _ => 1.0,
    }
}

/// Where a job asks for no memory: the larger of the CPU and the card share of the node's memory.
fn ram_for(
    spec: &JobSpec,
    queue: &Queue,
    cards: Option<&CardRequest>,
    cpus: u32,
    host: Option<&Inventory>,
) -> Megabytes {
    let whole = host.map_or(Megabytes::ZERO, |h| h.ram);
    let default = || {
        let Some(host) = host else { return queue.default_ram.unwrap_or_default() };
        let by_cpu = share(host.ram, f64::from(cpus) / f64::from(host.cpus.max(1)));
        let by_card = cards.map_or(Megabytes::ZERO, |c| {
            share(host.ram, f64::from(c.count) * slice_part(c, host) / host.cards.len().max(1) as f64)
        });
        queue.default_ram.unwrap_or(by_cpu.max(by_card)).max(Megabytes(1))
    };
    match spec.resources.ram {
        None => default(),
        Some(RamRequest::PerNode(mb)) => mb,
        Some(RamRequest::PerCpu(mb)) => Megabytes(mb.0.saturating_mul(u64::from(cpus))),
        Some(RamRequest::PerGpu(mb)) => {
            Megabytes(mb.0.saturating_mul(cards.map_or(0, |c| u64::from(c.count))))
        }
        Some(RamRequest::WholeNode) => whole,
    }
}

fn share(of: Megabytes, part: f64) -> Megabytes {
    Megabytes((of.0 as f64 * part.min(1.0) + ROUNDING) as u64)
}

/// `--priority`, if the queue allows it; without it the usual priority.
fn priority(spec: &JobSpec, queue: &Queue) -> Result<u8, Unmeetable> {
    let (wanted, max) = (spec.timing.priority, queue.max_priority);
    match wanted {
        Some(wanted) if wanted > max => {
            let (name, key) = (&queue.name, "queues[].max_priority");
            unmeetable(format!(
                "--priority={wanted} is over the limit of queue '{name}', which is {max} ({key})"
            ))
        }
        Some(wanted) => Ok(wanted),
        None => Ok(DEFAULT_PRIORITY.min(max)),
    }
}

/// `--time`, else the queue's default, else `policy.task_timeout`, else none. A limit that was not asked for is cut
/// to the queue's maximum.
fn time_limit(spec: &JobSpec, config: &Config, queue: &Queue) -> Result<Option<Span>, Unmeetable> {
    let wanted = match spec.timing.limit {
        Some(TimeLimit::After(span)) => Some(span),
        Some(TimeLimit::Unlimited) => None,
        None => {
            queue.default_time.or_else(|| config.policy.task_timeout.into_iter().chain(queue.max_time).min())
        }
    };
    match (wanted, queue.max_time) {
        (Some(span), Some(max)) if span > max => {
            unmeetable(format!("--time={span} is over the limit of queue '{}', which is {max}", queue.name))
        }
        (None, Some(max)) => unmeetable(format!(
            "queue '{}' takes no job without a time limit; at most --time={max}",
            queue.name
        )),
        _ => Ok(wanted),
    }
}

/// Checks `--grace`: without a bound a job could take for ever to end, and could not be killed.
fn check_grace(spec: &JobSpec, policy: &Policy) -> Result<(), Unmeetable> {
    match spec.policy.grace {
        Some(grace) if grace > policy.longest_grace() => unmeetable(format!(
            "--grace={grace} is longer than a job may take to end here, which is {} (policy.max_grace)",
            policy.longest_grace()
        )),
        _ => Ok(()),
    }
}

/// A job with daily hours needs a time limit that is over before they are.
pub(crate) fn fits_window(window: Window, limit: Option<Span>) -> Result<(), Unmeetable> {
    let length = window.length();
    match limit {
        Some(limit) if limit <= length => Ok(()),
        Some(limit) => unmeetable(format!(
            "a time limit of {limit} does not fit into --window={window}, which is {length} long; \
             give a shorter --time"
        )),
        None => unmeetable(format!(
            "--window={window} needs a time limit: the job starts only if it will be over in time; give --time"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Card;
    use crate::units::gpu_size;

    /// Slices of a card have the same part of the node's CPUs and memory as of the card, although sizes are cut to whole
    /// megabytes.
    #[test]
    fn a_slice_gets_its_part_of_what_a_card_gets() {
        let card = |index| Card::new(index, format!("GPU-{index}"), None, Megabytes(76_294));
        let node = Node::new(Inventory {
            name: "gpu-01".parse().unwrap(),
            epoch: 1,
            cpus: 64,
            ram: Megabytes(65_536),
            cards: (0..4).map(card).collect(),
            features: vec![],
            numa_cpus: vec![],
        });
        let mut config = Config::default();
        for (count, mem, by_node, by_eight, ram) in [
            (1, "10G", 2, 1, 2048),
            (2, "10G", 4, 2, 4096),
            (1, "20G", 4, 2, 4096),
            (1, "40G", 8, 4, 8192),
            (1, "60G", 12, 6, 12_288),
            (1, "80G", 16, 8, 16_384),
            (1, "1G", 1, 1, 1024),
        ] {
            let mut spec = JobSpec::default();
            spec.resources.gpus = Some(crate::job::spec::GpuCount { kind: None, count });
            spec.resources.gpu_mem = gpu_size(mem).ok();
            for (each, cpus) in [(None, by_node), (Some(8), by_eight)] {
                config.queues[0].default_cpus_per_gpu = each;
                let made = resolve(&spec, Times::default(), &config, &config.queues[0], &[&node]).unwrap();
                assert_eq!(made.cpus, cpus, "{count} slices of {mem}, {each:?}");
                if each.is_none() {
                    assert!(made.ram.0.abs_diff(ram) <= 1, "{count} slices of {mem}: {}", made.ram);
                }
            }
        }
    }
}
