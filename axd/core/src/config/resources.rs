//! The meaning of `resources` (what machines are declared to have, and how their cards are given out) and of
//! `limits`.

use serde::{Deserialize, Serialize};

use crate::id::HostName;
use crate::job::spec::MemHints;
use crate::size::Megabytes;
use crate::time::Span;

/// `resources`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// `cpus`: instead of what the machine has.
    pub cpus: Option<u32>,
    /// `ram`: instead of what the machine has.
    pub ram: Option<Megabytes>,
    /// `gpu_reserve`: percent of a card that slices may not take.
    pub gpu_reserve: u32,
    /// `gpu_context_mb`: of each slice, what frameworks leave to the driver.
    pub gpu_context: Megabytes,
    /// `gpu_visible`: how jobs are told of their cards.
    #[serde(default)]
    pub gpu_visible: Naming,
    /// `gpu_fence`: whether jobs can open other cards than theirs.
    #[serde(default)]
    pub gpu_fence: FenceMode,
    /// `gpu_mem_hints`: of jobs that do not say.
    #[serde(default)]
    pub gpu_mem_hints: MemHints,
    /// `gpu_foreign_bound`: a card of which others than jobs hold so much is given to nobody.
    #[serde(default = "Resources::usual_bound")]
    pub gpu_foreign_bound: Megabytes,
    /// `gpu_suspect_time`: for so long nothing may happen on a suspect card before it is given out again.
    #[serde(default = "Resources::usual_suspicion")]
    pub gpu_suspect_time: Span,
    /// `gpu_fragmentation_warning`: percent of a shared card that may be bound and not used.
    #[serde(default)]
    pub gpu_fragmentation_warning: u32,
    /// `gpu_sample`: how often cards with jobs are looked at.
    #[serde(default = "gpu_sample")]
    pub gpu_sample: Span,
    /// `gpu_timeout`: how long a look at the cards may take.
    #[serde(default = "gpu_timeout")]
    pub gpu_timeout: Span,
    /// `gpu_tolerance_mb`: what a job may be seen to use beyond its slice.
    #[serde(default)]
    pub gpu_tolerance: Megabytes,
    /// `gpu_over_samples`: in a row, after which one that uses more is ended; 0: never.
    #[serde(default)]
    pub gpu_over_samples: u32,
    /// `gpu_clean_wait`: how long ends wait for processes to leave their cards.
    #[serde(default)]
    pub gpu_clean_wait: Span,
    /// `gpu_nodes`.
    pub gpu_nodes: Vec<GpuNode>,
}

/// `resources.gpu_visible`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// By number, which every program understands.
    #[default]
    Index,
    /// By UUID.
    Uuid,
}

/// `resources.gpu_fence`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceMode {
    /// Where it can be had.
    #[default]
    Auto,
    /// Nothing starts without it.
    Require,
    /// Never.
    Off,
}

/// One of `resources.gpu_nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuNode {
    /// `host`.
    pub host: HostName,
    /// `gpus`.
    pub gpus: u32,
    /// `mem_per_gpu`.
    pub mem_per_gpu: Option<Megabytes>,
    /// `type`, lower case.
    pub kind: Option<String>,
    /// `features`.
    pub features: Vec<String>,
}

/// One of `limits`: what a user, or the members of a group together, may have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CardLimit {
    /// `user`.
    pub user: Option<String>,
    /// `group`.
    pub group: Option<String>,
    /// `cards`: only these, as `host:index` or by UUID; empty: all.
    pub cards: Vec<String>,
    /// `max_cards`: so many at once.
    pub max_cards: Option<u32>,
    /// `max_cpus`: so many at once.
    #[serde(default)]
    pub max_cpus: Option<u32>,
    /// `max_ram`: so much at once.
    #[serde(default)]
    pub max_ram: Option<Megabytes>,
    /// `max_running`: so many jobs at once.
    #[serde(default)]
    pub max_running: Option<u32>,
}

fn gpu_sample() -> Span {
    Span::seconds(1)
}

fn gpu_timeout() -> Span {
    Span::seconds(5)
}

impl Default for Resources {
    fn default() -> Self {
        Resources {
            cpus: None,
            ram: None,
            gpu_reserve: 0,
            gpu_foreign_bound: Resources::usual_bound(),
            gpu_suspect_time: Resources::usual_suspicion(),
            gpu_context: Megabytes(512),
            gpu_visible: Naming::Index,
            gpu_fence: FenceMode::Auto,
            gpu_mem_hints: MemHints::Usual,
            gpu_fragmentation_warning: 30,
            gpu_sample: gpu_sample(),
            gpu_timeout: gpu_timeout(),
            gpu_tolerance: Megabytes(512),
            gpu_over_samples: 3,
            gpu_clean_wait: Span::seconds(30),
            gpu_nodes: Vec::new(),
        }
    }
}

impl Resources {
    /// A gigabyte: also of recorded configurations that are older than the key.
    fn usual_bound() -> Megabytes {
        Megabytes::from_bytes(1_000_000_000)
    }

    fn usual_suspicion() -> Span {
        Span::seconds(300)
    }
}
