//! What launching and showing a job need and the controller does not. Kept beside the core's record, and after the
//! submission only replaced as a whole.

use ax_core::job::spec::JobSpec;
use ax_core::size::Megabytes;
use serde::{Deserialize, Serialize};

/// A job's environment variables, in order.
pub type Environment = Vec<(String, String)>;

/// What a submission said, as understood.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The options, before any default was applied: patterns of the output
    /// files, `--env`, comment, account, options without effect.
    pub spec: JobSpec,
    /// Words after the script's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The folder that it starts in, absolute.
    pub cwd: String,
    /// The folder that it was submitted from, absolute.
    pub submit_dir: String,
    /// File creation mask.
    pub umask: u32,
    /// It was read by Slurm's rules.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slurm: bool,
    /// The script's name, for messages; absent: a command, or standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_name: Option<String>,
    /// The program that submitted it (`axbatch`, `sbatch`, …).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What was warned of, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// It came through the spool, so a person knows it by its ticket.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
}

/// Where an attempt writes, patterns expanded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputFiles {
    /// Standard output.
    pub stdout: Option<String>,
    /// Standard error, if it has a file of its own.
    pub stderr: Option<String>,
}

/// What an attempt used, as its supervisor measured it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time, microseconds.
    pub cpu_us: Option<u64>,
    /// Peak host memory.
    pub max_ram: Option<Megabytes>,
    /// Peak memory of a card.
    pub max_gpu_mem: Option<Megabytes>,
}
