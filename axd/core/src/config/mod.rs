//! The meaning of the configuration, validated: what the controller works with.
//!
//! `keys` is the one table of all keys with units and defaults; `read` turns a
//! spanned tree into a meaning or into findings; `compare` judges a reload.
//! Nothing here knows YAML or touches a file.

mod check;
mod compare;
mod finding;
pub mod keys;
mod read;
mod resources;
pub mod tree;
mod words;

use serde::{Deserialize, Serialize};

pub use compare::compare;
pub use finding::{Finding, Severity};
pub use read::read;
pub use resources::{CardLimit, FenceMode, GpuNode, Naming, Resources};

pub use words::{LeaseMode, QueueOrder, QueueState};

use crate::id::{HostName, QueueName};
use crate::job::spec::PreemptMode;
use crate::paths::Paths;
use crate::size::Megabytes;
use crate::text::{nearest, quoted};
use crate::time::Span;

/// The whole configuration. `Default` is what holds without a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The cluster's name and people.
    pub cluster: Cluster,
    /// What is declared of machines.
    pub resources: Resources,
    /// The queues, in the order of the file; never empty.
    pub queues: Vec<Queue>,
    /// Limits on people.
    #[serde(default)]
    pub limits: Vec<CardLimit>,
    /// The queue of a job that names none; one of `queues`.
    pub default_queue: QueueName,
    /// How jobs are chosen, limited and ended.
    pub policy: Policy,
    /// What is kept of finished jobs.
    pub accounting: Accounting,
    /// Places that are moved.
    pub paths: PathChanges,
}

/// `cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// `name`.
    pub name: String,
    /// `timezone`, an IANA name; absent: the system's.
    pub timezone: Option<String>,
    /// `admins`: users, and groups as `@name`.
    pub admins: Vec<String>,
    /// `private_jobs`: users see only their own.
    pub private_jobs: bool,
    /// `controllers`: hosts that may hold the controller's lease; empty: any.
    pub controllers: Vec<HostName>,
    /// `heartbeat_interval`.
    pub heartbeat_interval: Span,
    /// `heartbeat_timeout`.
    pub heartbeat_timeout: Span,
}

/// The most that may be held at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Most {
    /// Cards; a slice counts as a card.
    pub cards: Option<u32>,
    /// CPUs.
    pub cpus: Option<u32>,
    /// Host memory.
    pub ram: Option<Megabytes>,
}

/// One of `queues`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// `name`.
    pub name: QueueName,
    /// `priority`: weight under fair share, rank under fifo.
    pub priority: u32,
    /// `max_running`.
    pub max_running: Option<u32>,
    /// `max_running_per_user`.
    #[serde(default)]
    pub max_running_per_user: Option<u32>,
    /// `state`.
    pub state: QueueState,
    /// `default_time`.
    pub default_time: Option<Span>,
    /// `max_time`.
    pub max_time: Option<Span>,
    /// `max_priority`: of a job, where `priority` is the queue's own.
    #[serde(default = "highest_priority")]
    pub max_priority: u8,
    /// `retry_count`.
    pub retry_count: Option<u32>,
    /// `default_cpus_per_gpu`.
    pub default_cpus_per_gpu: Option<u32>,
    /// `default_ram`: of a job that asks for none.
    pub default_ram: Option<Megabytes>,
    /// `idempotent`: of jobs that do not say.
    pub idempotent: bool,
    /// `users`: only these; empty: all.
    pub users: Vec<String>,
    /// `groups`: only members of these; empty: all.
    pub groups: Vec<String>,
    /// `preempt`: what may be done to its jobs.
    pub preempt: PreemptMode,
    /// `order`.
    pub order: QueueOrder,
    /// `lease`.
    pub lease: LeaseMode,
    /// `restart_slices_every`: after so long slice jobs begin anew at a checkpoint.
    pub restart_slices_every: Option<Span>,
    /// `cards`: only these, as `host:index` or by UUID; empty: all.
    pub cards: Vec<String>,
    /// `max_cards`: so many at once.
    #[serde(default)]
    pub max_cards: Option<u32>,
    /// `max_cpus`: so many at once.
    #[serde(default)]
    pub max_cpus: Option<u32>,
    /// `max_ram`: so much at once.
    #[serde(default)]
    pub max_ram: Option<Megabytes>,
    /// `max_cards_per_user`, `max_cpus_per_user`, `max_ram_per_user`.
    #[serde(default)]
    pub per_user: Most,
    /// `mps`: slices of its jobs are under MPS.
    #[serde(default)]
    pub mps: bool,
}

/// `policy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// `scheduler`.
    pub scheduler: Scheduler,
    /// `preemption`.
    pub preemption: bool,
    /// `task_timeout`: the limit of jobs that have none.
    pub task_timeout: Option<Span>,
    /// `retry_count`.
    pub retry_count: u32,
    /// `retry_delay`: before the first retry; doubles.
    pub retry_delay: Span,
    /// `kill_wait`: from TERM to KILL.
    pub kill_wait: Span,
    /// `max_grace`: the longest that jobs may ask for instead.
    #[serde(default = "Policy::usual_grace")]
    pub max_grace: Span,
    /// `min_uid`: smaller user numbers may not submit (root excepted when 0).
    pub min_uid: u32,
    /// `max_queued_per_user`.
    pub max_queued_per_user: u32,
    /// `max_running_per_user`: in all queues together.
    #[serde(default)]
    pub max_running_per_user: Option<u32>,
    /// `max_cards_per_user`, `max_cpus_per_user`, `max_ram_per_user`: in all queues together.
    #[serde(default)]
    pub per_user: Most,
    /// `max_stored_per_user`: of scripts, environments and options.
    #[serde(default = "Policy::usual_store")]
    pub max_stored_per_user: Megabytes,
    /// `max_processes`: processes and threads of a job.
    pub max_processes: u64,
    /// `lease_timeout`.
    pub lease_timeout: Span,
    /// `scheduling_interval`: bounds how long a missed event can matter.
    pub scheduling_interval: Span,
    /// `starvation_bound`: a waiting job reaches the highest priority within it; absent: nothing ages.
    pub starvation_bound: Option<Span>,
    /// `reservations`: so many blocked jobs have a place kept for them.
    pub reservations: u32,
    /// `cost`: what a start costs a queue under fair share.
    pub cost: Cost,
    /// `user_share`: points of priority that a user who had nothing is ahead of one who had everything.
    pub user_share: u32,
    /// `usage_half_life`: half of what a user has had is forgotten in this time.
    pub usage_half_life: Span,
    /// `packing`: which place is the best.
    pub packing: Packing,
    /// `preempt_priority`: jobs of at least this priority may have others ended for them.
    pub preempt_priority: u8,
    /// `preempt_gap`: victims have a priority lower by at least this.
    pub preempt_gap: u8,
    /// `max_preemptions`: a job is ended for others so often at most.
    pub max_preemptions: u32,
    /// `preempt_budget`: percent of what all cards can do in an hour that evictions may cost in one; 100: any.
    #[serde(default = "Policy::usual_budget")]
    pub preempt_budget: u32,
    /// `learnt_ends`: running jobs, too, are expected to end when the last runs of the same thing did.
    #[serde(default = "Policy::older_ends")]
    pub learnt_ends: bool,
    /// `learn_length`: a job is planned with what the last runs of the same thing took.
    #[serde(default)]
    pub learn_length: bool,
    /// `learn_memory`: a job is charged with what they used.
    #[serde(default)]
    pub learn_memory: LearnMemory,
    /// `grow_memory`: a job that ran out of its slice of a card asks for half as much again.
    pub grow_memory: bool,
    /// `idle`: how long a job may leave its cards without load.
    pub idle: Option<Span>,
    /// `idle_end`: after how long of that it is ended.
    pub idle_end: Option<Span>,
}

impl Policy {
    /// How long a job is taken to run of which nobody says it.
    pub fn unplanned(&self) -> Span {
        self.task_timeout.unwrap_or(Span::seconds(86_400))
    }
}

/// `policy.cost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// Part of the cluster × time: what is planned at the start, what was used at the end.
    Area,
    /// Each start the same.
    Count,
}

/// `policy.learn_memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearnMemory {
    /// A job is charged what it asks for.
    #[default]
    Off,
    /// More, if its last runs used more.
    Raise,
    /// Also less, if they used less and its owner agrees.
    Fit,
}

/// `policy.packing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Packing {
    /// The cards with the least memory left, then the node with the fewest empty cards.
    Best,
    /// The first node and cards that fit.
    First,
    /// The cards with the most memory left.
    Worst,
    /// The cards whose use leaves the least memory that usual submissions could not use.
    Fgd,
}

/// `accounting`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accounting {
    /// `keep`: how long finished jobs stay in the accounts; absent: for ever.
    pub keep: Option<Span>,
}

/// `paths`: places that are not the standard ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathChanges {
    /// `spool`.
    pub spool: Option<String>,
    /// `run`.
    pub run: Option<String>,
    /// `state`.
    pub state: Option<String>,
    /// `log`.
    pub log: Option<String>,
    /// `nvml`: the library of the NVIDIA driver.
    pub nvml: Option<String>,
    /// `mps_control`: the program that starts and asks MPS daemons.
    #[serde(default)]
    pub mps_control: Option<String>,
}

/// Where the NVIDIA driver puts its control program for MPS.
pub const MPS_CONTROL: &str = "/usr/bin/nvidia-cuda-mps-control";

impl PathChanges {
    /// The standard places with these changes.
    pub fn apply(&self, standard: Paths) -> Paths {
        let or = |change: &Option<String>, path| change.as_ref().map_or(path, Into::into);
        Paths {
            config: standard.config,
            spool: or(&self.spool, standard.spool),
            run: or(&self.run, standard.run),
            state: or(&self.state, standard.state),
            log: or(&self.log, standard.log),
        }
    }
}

/// `policy.scheduler`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// By rank of the queue, then the queue's order; who does not fit lets others pass that do not delay it.
    Fifo,
    /// The same, and nobody passes.
    FifoStrict,
    /// Weighted shares among queues and users.
    FairShare,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            name: "ax".to_owned(),
            timezone: None,
            admins: Vec::new(),
            private_jobs: false,
            controllers: Vec::new(),
            heartbeat_interval: Span::seconds(15),
            heartbeat_timeout: Span::seconds(60),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            scheduler: Scheduler::Fifo,
            preemption: false,
            task_timeout: None,
            retry_count: 0,
            retry_delay: Span::seconds(2),
            kill_wait: Span::seconds(30),
            max_grace: Policy::usual_grace(),
            min_uid: 0,
            max_queued_per_user: 100_000,
            max_running_per_user: None,
            per_user: Most::default(),
            max_stored_per_user: Policy::usual_store(),
            max_processes: 32_768,
            lease_timeout: Span::seconds(300),
            scheduling_interval: Span::seconds(5),
            starvation_bound: Some(Span::seconds(6000)),
            reservations: 8,
            cost: Cost::Area,
            user_share: 20,
            usage_half_life: Span::seconds(86_400),
            packing: Packing::Best,
            preempt_priority: 70,
            preempt_gap: 30,
            max_preemptions: 2,
            preempt_budget: Policy::usual_budget(),
            learnt_ends: false,
            learn_length: true,
            learn_memory: LearnMemory::Raise,
            grow_memory: true,
            idle: None,
            idle_end: None,
        }
    }
}

impl Policy {
    /// Also of recorded configurations that are older than the key.
    fn usual_store() -> Megabytes {
        Megabytes(1024)
    }

    /// The same.
    fn usual_grace() -> Span {
        Span::seconds(600)
    }

    /// The longest that a job may take to end once that is wanted.
    pub fn longest_grace(&self) -> Span {
        self.max_grace.max(self.kill_wait)
    }

    /// Also of recorded configurations that are older than the key.
    fn usual_budget() -> u32 {
        5
    }

    /// What was so before there was the key.
    fn older_ends() -> bool {
        true
    }
}

/// No job asks for more.
fn highest_priority() -> u8 {
    100
}

impl Queue {
    /// A queue of this name with the defaults of all other keys.
    pub fn named(name: QueueName) -> Queue {
        Queue {
            name,
            priority: 1,
            max_running: None,
            max_running_per_user: None,
            state: QueueState::Open,
            default_time: None,
            max_time: None,
            max_priority: highest_priority(),
            retry_count: None,
            default_cpus_per_gpu: None,
            default_ram: None,
            idempotent: true,
            users: Vec::new(),
            groups: Vec::new(),
            preempt: PreemptMode::Requeue,
            order: QueueOrder::Prio,
            lease: LeaseMode::Fixed,
            restart_slices_every: None,
            cards: Vec::new(),
            max_cards: None,
            max_cpus: None,
            max_ram: None,
            per_user: Most::default(),
            mps: false,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        let name = QueueName::default_queue();
        Config {
            cluster: Cluster::default(),
            resources: Resources::default(),
            queues: vec![Queue::named(name.clone())],
            limits: Vec::new(),
            default_queue: name,
            policy: Policy::default(),
            accounting: Accounting::default(),
            paths: PathChanges::default(),
        }
    }
}

impl Config {
    /// The queue of that name.
    pub fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|q| q.name.as_str() == name)
    }

    /// What to say to somebody who named a queue that is not there.
    pub fn unknown_queue(&self, name: &str) -> String {
        let names: Vec<&str> = self.queues.iter().map(|q| q.name.as_str()).collect();
        match nearest(name, names.iter().copied()) {
            Some(near) => format!("there is no queue {}; did you mean {}?", quoted(name), quoted(near)),
            None => format!("there is no queue {}; there are: {}", quoted(name), names.join(", ")),
        }
    }
}
