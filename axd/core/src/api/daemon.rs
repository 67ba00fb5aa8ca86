//! The daemon itself on the wire: what it is, reading its configuration again, stopping it.

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// `GET /api/v1/status`: the daemon itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonView {
    /// Version of the program.
    pub version: String,
    /// Cluster's name.
    pub cluster: String,
    /// Process id.
    pub pid: u32,
    /// Jobs waiting.
    pub waiting: u64,
    /// Jobs active.
    pub active: u64,
    /// Why it accepts and starts nothing, if so.
    pub read_only: Option<String>,
    /// What is missing on this host, in words.
    pub missing: Vec<String>,
}

/// `POST /api/v1/stop`: an administrator stops the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopRequest {
    /// End the jobs that run, and stop when they are over; otherwise they go on.
    pub jobs: bool,
}

/// Answer to `POST /api/v1/stop`: it is being done. It is done when the process is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopAnswer {
    /// The daemon's process.
    pub pid: u32,
    /// The jobs that are being ended.
    pub ending: Vec<JobId>,
}

/// Answer to `POST /api/v1/reload`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadAnswer {
    /// What is different now, one line each; empty: nothing.
    pub changes: Vec<String>,
    /// What a person should look at, one line each.
    pub warnings: Vec<String>,
}
