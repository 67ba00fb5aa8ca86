//! What a user asked for: the meaning of the options of a submission,
//! before the queue's and the cluster's defaults are applied.

use serde::{Deserialize, Serialize};

use crate::size::Megabytes;
use crate::time::{Span, WallTime};

/// The options of one submission. `None` means that an option was not given, so that the default of the queue, then
/// of the cluster, applies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSpec {
    /// `--job-name`; default: the script's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `--queue`, as typed: an unknown one is an error, or a note in `#SBATCH` scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What the job needs of machines.
    pub resources: ResourceSpec,
    /// When and how long it may run, and after what.
    pub timing: TimingSpec,
    /// What to do when it fails, is lost, or is in the way of an urgent job.
    pub policy: PolicySpec,
    /// Files, folder and environment.
    pub io: IoSpec,
    /// `--mail-type`, in capitals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mail_type: Vec<String>,
    /// `--mail-user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail_user: Option<String>,
    /// `--comment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// `--account`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Slurm's options that ax has no use for, with their values: kept and shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<(String, String)>,
}

/// CPUs, memory, cards and nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceSpec {
    /// `--gpus=[TYPE:]N`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuCount>,
    /// `--gpus-per-node`, and `--gres=gpu:…` in `#SBATCH` scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<GpuCount>,
    /// `--gpus-per-task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_task: Option<GpuCount>,
    /// `--mem`: GPU memory of each card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_mem: Option<Megabytes>,
    /// `--gpu-mem-hints`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_mem_hints: Option<MemHints>,
    /// `--mem-fit`: it may be charged less than that, if its last runs used less.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fit_memory: bool,
    /// `--ram`: host memory of each node (Slurm's `--mem` in `#SBATCH` scripts).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram: Option<RamRequest>,
    /// `--cpus-per-task`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_per_task: Option<u32>,
    /// `--ntasks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks: Option<u32>,
    /// `--ntasks-per-node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ntasks_per_node: Option<u32>,
    /// `--nodes`: at least and at most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCount>,
    /// `--nodelist`, or `--nodes` with names: expanded host names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodelist: Vec<String>,
    /// `--exclude`: expanded host names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// `--constraint`, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<String>,
    /// `--exclusive`: whole nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// A number of cards, of one type if named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuCount {
    /// Lower-case type, such as `a100`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// How many.
    pub count: u32,
}

/// `--gpu-mem-hints`: which settings of frameworks are made for slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemHints {
    /// Those that every version in use accepts.
    #[default]
    Usual,
    /// Also PyTorch's fraction of a card, with which versions before 2.10 refuse to start.
    Torch,
    /// None.
    None,
}

/// How much host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RamRequest {
    /// So much on each node.
    PerNode(Megabytes),
    /// So much for each CPU (Slurm's `--mem-per-cpu`).
    PerCpu(Megabytes),
    /// So much for each card (Slurm's `--mem-per-gpu`).
    PerGpu(Megabytes),
    /// All of the node (Slurm's `--mem=0`).
    WholeNode,
}

/// A number of nodes, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeCount {
    /// At least, from 1.
    pub min: u32,
    /// At most.
    pub max: u32,
}

impl NodeCount {
    /// One node.
    pub const ONE: NodeCount = NodeCount { min: 1, max: 1 };
}

impl std::fmt::Display for NodeCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.min == self.max {
            true => write!(f, "{}", self.min),
            false => write!(f, "{}-{}", self.min, self.max),
        }
    }
}

/// Times and order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimingSpec {
    /// `--time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<TimeLimit>,
    /// `--estimate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Span>,
    /// `--begin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<When>,
    /// `--deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<When>,
    /// `--window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// `--dependency`, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// `--array`, as typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// `--hold`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hold: bool,
    /// `--priority`, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
}

/// `--time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeLimit {
    /// This long at most.
    After(Span),
    /// As long as it takes.
    Unlimited,
}

/// A point in time as written. Local times are the cluster's; the shell resolves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// `now+2h`.
    In(Span),
    /// `16:00`, `noon`, `midnight`, `teatime`: the next time at which the clock shows that (seconds after midnight).
    Clock(u32),
    /// `today`, `tomorrow`, perhaps with a clock time: days from today, seconds after midnight.
    Day {
        /// 0 today, 1 tomorrow.
        days: u32,
        /// Seconds after midnight.
        clock: u32,
    },
    /// `2026-12-24T18:00:00`.
    Date {
        /// Year.
        year: u16,
        /// Month, from 1.
        month: u8,
        /// Day, from 1.
        day: u8,
        /// Seconds after midnight.
        clock: u32,
    },
    /// `2026-12-24T18:00:00Z`, `uts…`: an instant, independent of the cluster's zone.
    At(WallTime),
}

/// Daily hours, `22:00-08:00`: minutes after midnight, in the cluster's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Window {
    /// Opens.
    pub from: u16,
    /// Closes; smaller than `from` when it passes midnight.
    pub to: u16,
}

/// Retries, loss and preemption.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PolicySpec {
    /// `--requeue`, `--no-requeue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue: Option<bool>,
    /// `--retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<u32>,
    /// `--retry-delay`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_delay: Option<Span>,
    /// `--retry-on`: exit codes that may be retried; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<u8>,
    /// `--idempotent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `--lease-timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_timeout: Option<Span>,
    /// `--signal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<WarnSignal>,
    /// `--preempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt: Option<PreemptMode>,
    /// `--grace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
}

/// `--signal=[B:]SIG[@SECONDS]`: a warning before the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarnSignal {
    /// Only to the script's own shell, not to its children (`B:`).
    pub batch_only: bool,
    /// The signal's number.
    pub signal: u8,
    /// How long before the limit; Slurm's default is 60 s.
    pub before: Span,
}

/// `--preempt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptMode {
    /// End it and start it again later.
    Requeue,
    /// Freeze it.
    Suspend,
    /// End it for good.
    Cancel,
    /// Leave it alone.
    Never,
}

/// Files, folder and environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IoSpec {
    /// `--output`: a pattern that `crate::pattern` reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// `--error`: a pattern; `None` means with the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `--input`: a pattern.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// `--open-mode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_mode: Option<OpenMode>,
    /// `--chdir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chdir: Option<String>,
    /// `--export`.
    pub export: Export,
    /// `--env=NAME=VALUE`, in order; values are expanded at start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(String, String)>,
}

/// `--open-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenMode {
    /// Begin anew.
    Truncate,
    /// Go on at the end.
    Append,
}

/// `--export`: which of the submitter's variables the job gets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Export {
    /// `ALL`: the whole environment, with additions and changes.
    #[default]
    All,
    /// `ALL,NAME,NAME=VALUE`.
    AllAnd(Vec<ExportItem>),
    /// `NONE`: only what ax sets.
    None,
    /// `NAME,NAME=VALUE`: these and what ax sets.
    Only(Vec<ExportItem>),
}

/// One word of `--export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportItem {
    /// The variable.
    pub name: String,
    /// Its value; `None` means the submitter's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}
