//! The scheduler's own view on the wire.

use serde::{Deserialize, Serialize};

use crate::config::QueueState;
use crate::explain::KeptPlace;
use crate::time::WallTime;

/// `GET /api/v1/diag`: how the scheduler fares. Counts are since the daemon's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiagView {
    /// Version of the program.
    pub version: String,
    /// Cluster's name.
    pub cluster: String,
    /// Since when the counts are.
    pub since: WallTime,
    /// The order of queues, as it is configured.
    pub scheduler: String,
    /// Places that are kept at most.
    pub reservations: u32,
    /// Events that were answered.
    pub passes: u64,
    /// How long that took.
    pub pass_times: PassTimes,
    /// Attempts that were started.
    pub starts: u64,
    /// Of these, those that passed jobs before them.
    pub backfilled: u64,
    /// Attempts that were ended to make room.
    pub evictions: u64,
    /// Attempts that ended.
    pub ends: u64,
    /// The queues, as they are configured.
    pub queues: Vec<QueueDiag>,
    /// Places that the next pass would keep.
    pub kept: Vec<KeptPlace>,
    /// How good expected starts were.
    pub forecasts: ForecastErrors,
}

/// How long the last passes took, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PassTimes {
    /// So many are looked at.
    pub of: u64,
    /// Half were not longer.
    pub p50_us: u64,
    /// 99 of 100 were not.
    pub p99_us: u64,
    /// None was.
    pub max_us: u64,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueDiag {
    /// Its name.
    pub name: String,
    /// What it accepts and starts.
    pub state: QueueState,
    /// Its rank or weight.
    pub priority: u32,
    /// Jobs that are ready.
    pub ready: u64,
    /// Jobs that wait for something of their own.
    pub pending: u64,
    /// Jobs that hold something.
    pub active: u64,
    /// At most so many may.
    pub max_running: Option<u32>,
    /// Ready jobs that no node could ever hold.
    pub misfits: u64,
}

/// Expected starts, as they were first told, and starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ForecastErrors {
    /// Of so many days.
    pub days: u64,
    /// Jobs that were told and have started.
    pub jobs: u64,
    /// Half of them started within so many seconds of it, before or after: a power of two.
    pub half_within_s: Option<u64>,
    /// Nine of ten did.
    pub most_within_s: Option<u64>,
    /// Those that started later than told, by a second or more.
    pub late: u64,
    /// Jobs that were told and wait still.
    pub open: u64,
}
