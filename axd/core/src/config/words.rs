//! Values of queues that are one of a few words.

use serde::{Deserialize, Serialize};

/// `queues[].order`: which waiting job of a queue is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// Priority, then first come.
    Prio,
    /// First come.
    Fifo,
    /// Largest area (cards × time) first.
    Laf,
    /// Smallest area first.
    Saf,
    /// Longest first, a job counting by how few like it all cards could hold at once.
    Lpf,
}

/// `queues[].lease`: how long a node may be silent before its job is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseMode {
    /// `policy.lease_timeout`.
    Fixed,
    /// 1.5 × the job's estimate + 15 s.
    Estimate,
}

/// `queues[].state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueState {
    /// Accepts and starts.
    Open,
    /// Accepts, starts nothing.
    Stopped,
    /// Accepts nothing, starts what it has.
    Closed,
}
