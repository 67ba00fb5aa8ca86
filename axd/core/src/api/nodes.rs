//! Nodes on the wire: what they have, and what administrators do with them and their cards.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::time::WallTime;

use super::{CardView, DecisionView};

/// Whether jobs can be started on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// They can.
    Up,
    /// Starts of more than one user's jobs have failed there.
    Failing,
    /// It was taken out of use, and jobs still run on it.
    Draining,
    /// It was taken out of use, and nothing runs on it.
    Drained,
    /// It is declared, and has never been seen.
    #[serde(rename = "never registered")]
    NeverRegistered,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeState::Up => "up",
            NodeState::Failing => "failing",
            NodeState::Draining => "draining",
            NodeState::Drained => "drained",
            NodeState::NeverRegistered => "never registered",
        })
    }
}

/// A node: `GET /api/v1/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// Whether jobs can be started on it.
    pub state: NodeState,
    /// Warnings and reasons.
    pub reason: Option<String>,
    /// CPUs counted.
    pub cpus: u32,
    /// CPUs given out.
    pub cpus_used: u32,
    /// Host memory counted, MB.
    pub ram_mb: u64,
    /// Host memory given out, MB.
    pub ram_used_mb: u64,
    /// Cards counted.
    pub gpus: u32,
    /// Cards given out, wholly or in part.
    pub gpus_used: u32,
    /// The node's epoch.
    pub epoch: u64,
    /// Last sign of life.
    pub last_heartbeat_at: Option<WallTime>,
    /// Jobs on it.
    pub jobs: Vec<JobId>,
}

/// `GET /api/v1/nodes/NAME`: a node, its cards and what became of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShow {
    /// The node.
    #[serde(flatten)]
    pub node: NodeView,
    /// Its cards.
    pub cards: Vec<CardView>,
    /// What was last decided about it and its cards, the newest last.
    pub decisions: Vec<DecisionView>,
}

/// What `POST /api/v1/nodes/action` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum NodeAction {
    /// Start nothing more there.
    Drain {
        /// Why, for the record.
        why: String,
    },
    /// Give it out again.
    Resume,
}

/// `POST /api/v1/nodes/action`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRequest {
    /// What to do.
    #[serde(flatten)]
    pub action: NodeAction,
    /// With this node.
    pub node: String,
    /// With this card of it, by number or UUID; absent: with the whole node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
}

/// Answer to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAnswer {
    /// What was done, in words.
    pub done: String,
}
