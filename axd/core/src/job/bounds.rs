//! What queues, and limits on people, leave a job of the cards. It follows from the job, the configuration and the nodes,
//! and is found anew when any of these changes; nothing of it is written down.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::HostName;
use crate::node::{Card, Node};

use super::Job;
use super::request::Request;
use super::spec::NodeCount;

/// Cards, by node and number there.
pub type Cards = BTreeMap<HostName, BTreeSet<u32>>;

/// What a job that wants cards is bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bounds {
    /// The only cards that it may have; nothing: any.
    pub only: Option<Cards>,
    /// Which sums of cards it counts in, by position among all of them.
    pub sums: Vec<usize>,
}

/// What is asked of nodes: by whom is in it only as far as that decides about places.
#[derive(Debug, Clone, Copy)]
pub struct Asks<'a> {
    /// What.
    pub request: &'a Request,
    /// The only cards that may serve.
    pub only: Option<&'a Cards>,
    /// On at least and at most so many nodes.
    pub nodes: NodeCount,
}

impl<'a> From<&'a Request> for Asks<'a> {
    fn from(request: &'a Request) -> Self {
        Asks { request, only: None, nodes: request.nodes() }
    }
}

impl<'a> From<&'a Job> for Asks<'a> {
    fn from(job: &'a Job) -> Self {
        let only = job.bounds.as_ref().and_then(|bounds| bounds.only.as_ref());
        Asks { request: &job.request, only, nodes: job.request.nodes() }
    }
}

impl Asks<'_> {
    /// On so many nodes at most, if that is not less than it needs.
    #[must_use]
    pub fn at_most(mut self, nodes: u32) -> Self {
        self.nodes.max = self.nodes.max.min(nodes).max(self.nodes.min);
        self
    }

    /// Whether a card of a node may serve.
    pub fn may_have(&self, node: &Node, card: &Card) -> bool {
        let named =
            |only: &Cards| only.get(&node.inventory.name).is_some_and(|own| own.contains(&card.index));
        self.only.is_none_or(named)
    }
}
