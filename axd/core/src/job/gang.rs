//! An attempt on several nodes: what it holds of each, and how far its end has come. Its script runs on the first of
//! them; the others hold what its steps use.

use serde::{Deserialize, Serialize};

use super::state::Outcome;
use super::{Attempt, AttemptEnd};
use crate::id::HostName;
use crate::node::Allocation;
use crate::size::Megabytes;

/// What an attempt on one node has not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gang {
    /// Its other parts, by the names of their nodes.
    pub others: Vec<Allocation>,
    /// The nodes on which it is over and proved empty, in the order in which that was heard.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<HostName>,
    /// As what the whole counts once all parts are closed: what the first part that settled it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<AttemptEnd>,
    /// What settled it is that nothing began there and never will, which is no fault of the job's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_began: bool,
    /// The most memory that it was seen to use on a card of the parts that are closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_peak: Option<Megabytes>,
}

impl Attempt {
    /// What it was given of each of its nodes.
    pub fn parts(&self) -> impl Iterator<Item = &Allocation> {
        std::iter::once(&self.allocation).chain(self.others())
    }

    /// What it was given beside its first node.
    pub fn others(&self) -> &[Allocation] {
        self.gang.as_ref().map_or(&[], |gang| &gang.others)
    }

    /// What it holds still: of the nodes on which it is not over.
    pub fn open_parts(&self) -> impl Iterator<Item = &Allocation> {
        self.parts().filter(|part| !self.is_closed_on(&part.node))
    }

    /// What it holds of a node.
    pub fn open_part_on(&self, node: &HostName) -> Option<&Allocation> {
        self.open_parts().find(|part| part.node == *node)
    }

    /// Whether its part on that node is over.
    pub fn is_closed_on(&self, node: &HostName) -> bool {
        self.end.is_some() || self.gang.as_ref().is_some_and(|gang| gang.closed.contains(node))
    }

    /// Whether it has ended, is settled, or was asked to end.
    pub fn is_going(&self) -> bool {
        let settled = self.gang.as_ref().is_some_and(|gang| gang.verdict.is_some());
        settled || self.ending.is_some() || self.end.is_some()
    }

    /// As what, and why, it is to end, if somebody asked for that or a part has settled it: whoever was to be told may not
    /// have been.
    pub fn wants_ending(&self) -> Option<(Outcome, String)> {
        if let Some((outcome, who)) = &self.ending {
            return Some((*outcome, who.to_string()));
        }
        let gang = self.gang.as_deref().filter(|_| self.open_parts().next().is_some())?;
        let verdict = gang.verdict.as_ref()?;
        let closed: Vec<&str> = gang.closed.iter().map(HostName::as_str).collect();
        Some((verdict.outcome, format!("it has ended on {}", crate::hostlist::compress(&closed))))
    }

    /// On how many nodes it was started.
    pub fn width(&self) -> u32 {
        1 + u32::try_from(self.others().len()).unwrap_or(u32::MAX - 1)
    }

    /// The nodes, those that follow one another put together: `gpu-[01-02]`.
    pub fn hosts(&self) -> String {
        match self.others() {
            [] => self.allocation.node.to_string(),
            _ => crate::hostlist::compress(&self.parts().map(|part| part.node.as_str()).collect::<Vec<_>>()),
        }
    }
}
