//! What queues, and limits on people, leave a job. It follows from the job, the configuration and the nodes,
//! and is found anew when any of these changes; nothing of it is written down.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{HostName, Uid};
use crate::node::{Card, Company, Node};
use crate::size::Megabytes;

use super::Job;
use super::request::Request;
use super::spec::NodeCount;

/// Cards, by node and number there.
pub type Cards = BTreeMap<HostName, BTreeSet<u32>>;

/// What is counted together: under which limit, by position among all of them, and whose, where each user has one of
/// their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumId {
    /// The limit.
    pub limit: usize,
    /// The user.
    pub user: Option<Uid>,
}

/// What a job is bound to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bounds {
    /// The only cards that it may have; nothing: any.
    pub only: Option<Cards>,
    /// Which sums it counts in, with more than nothing, those of single users first.
    pub sums: Vec<SumId>,
    /// Its slice is under MPS for its user, where that can be had.
    pub mps: Option<Uid>,
    /// No larger whole node than this, where it wants whole ones; each counts as this until it has one.
    pub whole: Option<WholeNode>,
}

/// The CPUs and the memory of a node, all of which one job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WholeNode {
    /// CPUs.
    pub cpus: u32,
    /// Host memory.
    pub ram: Megabytes,
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
    /// Under MPS for this user, where that can be had.
    pub mps: Option<Uid>,
    /// No larger node than this.
    pub whole: Option<WholeNode>,
}

impl<'a> From<&'a Request> for Asks<'a> {
    fn from(request: &'a Request) -> Self {
        Asks { request, only: None, nodes: request.nodes(), mps: None, whole: None }
    }
}

impl<'a> From<&'a Job> for Asks<'a> {
    fn from(job: &'a Job) -> Self {
        let bounds = job.bounds.as_deref();
        Asks {
            request: &job.request,
            only: bounds.and_then(|bounds| bounds.only.as_ref()),
            nodes: job.request.nodes(),
            mps: bounds.and_then(|bounds| bounds.mps),
            whole: bounds.and_then(|bounds| bounds.whole),
        }
    }
}

impl Asks<'_> {
    /// On so many nodes at most, if that is not less than it needs.
    #[must_use]
    pub fn at_most(mut self, nodes: u32) -> Self {
        self.nodes.max = self.nodes.max.min(nodes).max(self.nodes.min);
        self
    }

    /// Whether a node is not larger than it may have.
    pub fn may_fill(&self, node: &Node) -> bool {
        let has = &node.inventory;
        self.whole.is_none_or(|most| has.cpus <= most.cpus && has.ram <= most.ram)
    }

    /// Whether a card of a node may serve.
    pub fn may_have(&self, node: &Node, card: &Card) -> bool {
        let named =
            |only: &Cards| only.get(&node.inventory.name).is_some_and(|own| own.contains(&card.index));
        self.only.is_none_or(named)
    }

    /// For whom a slice of this card would be under MPS.
    pub fn mps_on(&self, card: &Card) -> Option<Uid> {
        self.mps.filter(|user| card.hardware.offers_mps(*user))
    }

    /// With whom it would share a card. Who gets a whole one for a slice shares it with nobody.
    pub fn company(&self, card: &Card, reserve: u32) -> Company {
        if self.mps.is_none() {
            return Company::Anybody;
        }
        let demand = self.request.cards.as_ref().and_then(|wanted| card.demand(wanted, reserve));
        let slice = demand.and_then(|demand| demand.slice);
        slice.and(self.mps_on(card)).map_or(Company::Anybody, Company::Mps)
    }
}
