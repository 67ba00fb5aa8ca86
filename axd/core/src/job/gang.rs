//! An attempt on several nodes: what it holds of each, and which of its parts have ended. Its script runs on the
//! first node; the others hold what its steps use.

use serde::{Deserialize, Serialize};

use super::state::Outcome;
use super::{Attempt, AttemptEnd};
use crate::id::HostName;
use crate::node::Allocation;
use crate::size::Megabytes;

/// What only attempts on several nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gang {
    /// Its other parts, by name of node.
    pub others: Vec<Allocation>,
    /// The nodes on which it is over and proved empty, in the order in which the daemon learnt of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<HostName>,
    /// How the whole attempt ends once all parts are closed: the end of the part that settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<AttemptEnd>,
    /// True if it was settled because a part never started and never will, which is not the job's fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_began: bool,
    /// The most memory of a card that the closed parts were seen to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_peak: Option<Megabytes>,
}

impl Attempt {
    /// What it was given on each of its nodes.
    pub fn parts(&self) -> impl Iterator<Item = &Allocation> {
        std::iter::once(&self.allocation).chain(self.others())
    }

    /// What it was given on nodes other than the first.
    pub fn others(&self) -> &[Allocation] {
        self.gang.as_ref().map_or(&[], |gang| &gang.others)
    }

    /// What it still holds: the parts that are not over.
    pub fn open_parts(&self) -> impl Iterator<Item = &Allocation> {
        self.parts().filter(|part| !self.is_closed_on(&part.node))
    }

    /// What it still holds on a node.
    pub fn open_part_on(&self, node: &HostName) -> Option<&Allocation> {
        self.open_parts().find(|part| part.node == *node)
    }

    /// True if its part on that node is over.
    pub fn is_closed_on(&self, node: &HostName) -> bool {
        self.end.is_some() || self.gang.as_ref().is_some_and(|gang| gang.closed.contains(node))
    }

    /// True if it has ended, is settled, or was asked to end.
    pub fn is_going(&self) -> bool {
        let settled = self.gang.as_ref().is_some_and(|gang| gang.verdict.is_some());
        settled || self.ending.is_some() || self.end.is_some()
    }

    /// The outcome and reason with which its open parts are to end, if somebody asked for that or a part has settled
    /// it. A supervisor may not have been told yet.
    pub fn wants_ending(&self) -> Option<(Outcome, String)> {
        if let Some((outcome, who)) = &self.ending {
            return Some((*outcome, who.to_string()));
        }
        let gang = self.gang.as_deref().filter(|_| self.open_parts().next().is_some())?;
        let verdict = gang.verdict.as_ref()?;
        let closed: Vec<&str> = gang.closed.iter().map(HostName::as_str).collect();
        Some((verdict.outcome, format!("it has ended on {}", crate::hostlist::compress(&closed))))
    }

    /// Number of nodes on which it was started.
    pub fn width(&self) -> u32 {
        1 + u32::try_from(self.others().len()).unwrap_or(u32::MAX - 1)
    }

    /// Its nodes in short form: `gpu-[01-02]`.
    pub fn hosts(&self) -> String {
        match self.others() {
            [] => self.allocation.node.to_string(),
            _ => crate::hostlist::compress(&self.parts().map(|part| part.node.as_str()).collect::<Vec<_>>()),
        }
    }
}
