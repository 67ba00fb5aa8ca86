//! Which cards the limits on queues and people leave a job, and in which sums it counts. Derived from the job, the
//! configuration and the nodes, and computed anew when any of these changes; none of it is stored.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{HostName, Uid};
use crate::node::{Card, Company, Node};
use crate::size::Megabytes;

use super::Job;
use super::request::Request;
use super::spec::NodeCount;

/// Cards, by node and number there.
pub type Cards = BTreeMap<HostName, BTreeSet<u32>>;

/// A sum under a limit: the limit's position among all limits, and the user if each user has a sum of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumId {
    /// The limit.
    pub limit: usize,
    /// The user.
    pub user: Option<Uid>,
}

/// The bounds of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bounds {
    /// The only cards that it may have; `None` means any.
    pub only: Option<Cards>,
    /// The sums in which it counts with more than nothing, those of single users first.
    pub sums: Vec<SumId>,
    /// Its slice runs under MPS for this user, where MPS is available.
    pub mps: Option<Uid>,
    /// If it wants whole nodes: the largest that it may have. It counts as this one until it has started.
    pub whole: Option<WholeNode>,
}

/// The CPUs and memory of a node that one job has to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WholeNode {
    /// CPUs.
    pub cpus: u32,
    /// Host memory.
    pub ram: Megabytes,
}

/// What is asked of nodes: the request, and of the asking job only what matters for places.
#[derive(Debug, Clone, Copy)]
pub struct Asks<'a> {
    /// The request.
    pub request: &'a Request,
    /// The only cards that may serve.
    pub only: Option<&'a Cards>,
    /// The least and most nodes.
    pub nodes: NodeCount,
    /// The slice runs under MPS for this user, where MPS is available.
    pub mps: Option<Uid>,
    /// No larger whole node than this.
    pub whole: Option<WholeNode>,
}

impl<'a> From<&'a Request> for Asks<'a> {
    fn from(request: &'a Request) -> Self {
        Asks { request, only: None, nodes: request.nodes(), mps: None, whole: None }
    }
}

impl<'a> From<&'a Job> for Asks<'a> {
    fn from(job: &'a Job) -> Self {
        Asks::within(&job.request, job.bounds.as_deref())
    }
}

impl<'a> Asks<'a> {
    /// What a job asks for with this request within these bounds.
    pub fn within(request: &'a Request, bounds: Option<&'a Bounds>) -> Asks<'a> {
        Asks {
            request,
            only: bounds.and_then(|bounds| bounds.only.as_ref()),
            nodes: request.nodes(),
            mps: bounds.and_then(|bounds| bounds.mps),
            whole: bounds.and_then(|bounds| bounds.whole),
        }
    }

    /// Asks for at most `nodes` nodes, if that is not less than it needs.
    #[must_use]
    pub fn at_most(mut self, nodes: u32) -> Self {
        self.nodes.max = self.nodes.max.min(nodes).max(self.nodes.min);
        self
    }

    /// True if a node is not larger than the job may have.
    pub fn may_fill(&self, node: &Node) -> bool {
        let has = &node.inventory;
        self.whole.is_none_or(|most| has.cpus <= most.cpus && has.ram <= most.ram)
    }

    /// True if a card of a node may serve.
    pub fn may_have(&self, node: &Node, card: &Card) -> bool {
        let named =
            |only: &Cards| only.get(&node.inventory.name).is_some_and(|own| own.contains(&card.index));
        self.only.is_none_or(named)
    }

    /// The user for whom a slice of this card would run under MPS.
    pub fn mps_on(&self, card: &Card) -> Option<Uid> {
        self.mps.filter(|user| card.hardware.offers_mps(*user))
    }

    /// Which slices it would share a card with. A job that gets a whole card for its slice shares it with none.
    pub fn company(&self, card: &Card, reserve: u32) -> Company {
        if self.mps.is_none() {
            return Company::Anybody;
        }
        let demand = self.request.cards.as_ref().and_then(|wanted| card.demand(wanted, reserve));
        let slice = demand.and_then(|demand| demand.slice);
        slice.and(self.mps_on(card)).map_or(Company::Anybody, Company::Mps)
    }
}
