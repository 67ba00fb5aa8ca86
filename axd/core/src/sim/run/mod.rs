//! A workload driven through the controller over a virtual clock: plays the machines and the jobs, decides nothing.
//!
//! What happens at one instant is told in a fixed order: ends, loads, back-offs that are over, arrivals, and among
//! each by id. Then the controller decides; an attempt that it launches begins at once, one that it ends is over at
//! once. With a tick it is told at the very instant and decides at the next multiple of it.

mod clock;
mod cluster;
mod player;
mod submission;

use thiserror::Error;

use crate::config::{Config, Queue};
use crate::id::QueueName;
use crate::job::state::Outcome;
use crate::sim::service::Service;
use crate::sim::workload::{NodeShape, Task, Workload};
use crate::size::Megabytes;
use crate::time::Span;
use player::Player;

/// How a workload is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the controller goes by.
    pub config: Config,
    /// The machines.
    pub nodes: Vec<NodeShape>,
    /// Decide only at multiples of this; zero: at every event.
    pub tick: Span,
    /// What ran before: it is known how long its tasks took and what they used.
    pub history: Vec<Task>,
    /// An attempt uses its true memory so long after its start; zero: memory never matters.
    pub load: Span,
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fate {
    /// Where it stands.
    pub end: End,
    /// When its first attempt started.
    pub first_start: Option<Span>,
    /// What it last asked for of each card.
    pub mem: Option<Megabytes>,
    /// Attempts that ran out of the card's memory.
    pub ooms: u32,
    /// Attempts that made room for others.
    pub evictions: u32,
    /// Work thrown away, in cards × milliseconds.
    pub lost: f64,
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum End {
    /// It has none: it waits still.
    #[default]
    Open,
    /// It succeeded.
    Done(Span),
    /// It failed for good.
    Failed(Span),
    /// It was never taken, and why.
    Rejected(Box<str>),
}

/// An attempt as it ran; of several nodes on one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay {
    /// The task's place in the workload.
    pub task: usize,
    /// The node's place among the nodes.
    pub node: usize,
    /// Numbers of its cards.
    pub cards: Vec<u32>,
    /// What it asked for of each card; absent: whole cards.
    pub mem: Option<Megabytes>,
    /// Start.
    pub from: Span,
    /// End.
    pub to: Span,
    /// As what it ended.
    pub how: Outcome,
}

/// A simulation that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// A fate for each task of the workload, in its order.
    pub fates: Vec<Fate>,
    /// All attempts, in the order in which they ended.
    pub stays: Vec<Stay>,
    /// What was used, and by which queue.
    pub(super) service: Service,
    /// Events that the controller was told.
    pub events: u64,
}

impl Run {
    /// The tasks that were never taken, and why.
    pub fn rejected(&self) -> impl Iterator<Item = (usize, &str)> {
        self.fates.iter().enumerate().filter_map(|(task, fate)| match &fate.end {
            End::Rejected(why) => Some((task, why.as_ref())),
            _ => None,
        })
    }
}

/// Why a simulation can't go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Stuck {
    /// A cluster without nodes.
    #[error("the workload names no nodes; say them, such as --nodes 2x24000,2x48000")]
    NoNodes,
    /// More nodes than have names.
    #[error("a node can't be named: {0}")]
    Name(#[from] crate::id::BadName),
    /// A queue that the configuration does not have.
    #[error("{0}")]
    NoQueue(String),
    /// The controller asks for time again and again.
    #[error("at {0} ms the scheduler comes to no end; please report this with the workload")]
    Restless(u64),
}

/// Adds the queues that only the workload names, with the defaults of all keys; returns their names.
pub fn add_missing_queues(config: &mut Config, workload: &Workload) -> Vec<QueueName> {
    let mut added = Vec::new();
    for task in &workload.tasks {
        if config.queue(task.queue.as_str()).is_none() {
            config.queues.push(Queue::named(task.queue.clone()));
            added.push(task.queue.clone());
        }
    }
    added
}

/// Runs a workload to its end.
///
/// # Errors
/// What keeps it from running at all.
pub fn simulate(workload: &Workload, options: &Options) -> Result<Run, Stuck> {
    if options.nodes.is_empty() {
        return Err(Stuck::NoNodes);
    }
    let mut player = Player::new(workload, options)?;
    player.play()?;
    Ok(player.over())
}
