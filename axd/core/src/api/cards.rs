//! Cards as `ax resource` and `ax top` show them: now and over time.

use serde::{Deserialize, Serialize};

use crate::gpu::thin::Figure;
use crate::gpu::{Hardware, Health, Rung};
use crate::id::JobId;
use crate::time::WallTime;

/// A card: `GET /api/v1/cards`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CardView {
    /// Node.
    pub node: String,
    /// Number on its node.
    pub index: u32,
    /// UUID, or a name made from node and number where no driver says it.
    pub uuid: String,
    /// Product or declared type.
    pub name: String,
    /// Memory counted, MB.
    pub mem_mb: u64,
    /// Not reserved, MB.
    pub free_mb: u64,
    /// Reserved by jobs, MB.
    pub reserved_mb: u64,
    /// Used now, MB; absent where nobody measures.
    pub used_mb: Option<u64>,
    /// Used, 95th percentile of the window, MB.
    pub p95_mb: Option<u64>,
    /// Busy, percent.
    pub load: Option<u32>,
    /// Jobs on it.
    pub jobs: Vec<JobId>,
    /// Strangers on it, in words.
    pub foreign: Vec<String>,
    /// How memory limits are enforced.
    pub limit: Rung,
    /// Whether it is fit to be given out.
    pub health: Health,
    /// Why it is not healthy, in words.
    #[serde(default)]
    pub why: Option<String>,
    /// Nothing new is started on it: it is not healthy, or others than jobs hold too much of it, or its node is drained.
    #[serde(default)]
    pub barred: bool,
    /// What others than jobs hold of what could be given out, in words; or that its node is drained.
    #[serde(default)]
    pub withheld: Option<String>,
    /// The jobs on it with what they hold and use, as far as the asker may see them.
    #[serde(default)]
    pub held: Vec<HeldView>,
    /// Degrees Celsius.
    #[serde(default)]
    pub temperature: Option<u32>,
    /// Milliwatts.
    #[serde(default)]
    pub power_mw: Option<u32>,
    /// How it is built in.
    #[serde(default)]
    pub hardware: Hardware,
    /// Memory in use that no process accounts for, MB.
    #[serde(default)]
    pub unexplained_mb: Option<u64>,
    /// Reserved by slices and not used by them, MB.
    #[serde(default)]
    pub unused_mb: Option<u64>,
    /// Share of a card in slices that is bound and not used, percent: `unused_mb` and `unexplained_mb` of `mem_mb`.
    #[serde(default)]
    pub fragmentation: Option<u32>,
    /// What somebody should know of it, in words.
    #[serde(default)]
    pub warning: Option<String>,
}

/// What a job holds of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldView {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub user: String,
    /// Its slice, MB; absent: the whole card.
    pub mem_mb: Option<u64>,
    /// What its processes hold now, MB; absent where nobody measures.
    pub used_mb: Option<u64>,
}

/// A card over time: `GET /api/v1/cards/history?span_s=3600&points=60`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CardHistory {
    /// Node.
    pub node: String,
    /// Number on its node.
    pub index: u32,
    /// As in [`CardView`].
    pub uuid: String,
    /// As in [`CardView`].
    pub name: String,
    /// Memory counted, MB.
    pub mem_mb: u64,
    /// Beginning of the first stretch.
    pub since: WallTime,
    /// Length of a stretch, seconds.
    pub step_s: u32,
    /// Stretch after stretch.
    pub points: Vec<CardPoint>,
}

/// A card in one stretch of time. What was not measured is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CardPoint {
    /// Memory in use, MB.
    pub used_mb: Option<Figure>,
    /// Busy, percent.
    pub load: Option<Figure>,
    /// Degrees Celsius.
    pub temperature: Option<Figure>,
    /// Watts.
    pub power_w: Option<Figure>,
}

/// What a job's attempts used: `GET /api/v1/jobs/JOB/usage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UsageView {
    /// The job.
    pub id: JobId,
    /// Each attempt of which something was measured, by epoch.
    pub attempts: Vec<AttemptUsage>,
}

/// What one attempt used, as it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct AttemptUsage {
    /// Which.
    pub epoch: u64,
    /// How busy its cards were on average, percent.
    pub gpu_load: Option<Figure>,
    /// Its memory on the fullest of its cards, MB.
    pub gpu_mem_mb: Option<Figure>,
    /// CPUs that its processes kept busy.
    pub cpus: Option<Figure>,
    /// Host memory, MB.
    pub ram_mb: Option<Figure>,
    /// CPU time until now, seconds, of one that runs.
    pub cpu_time_s: Option<f64>,
    /// The most host memory until now, MB, of one that runs.
    pub max_ram_mb: Option<u64>,
}
