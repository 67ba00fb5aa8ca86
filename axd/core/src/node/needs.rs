//! What a node lacks for a request, as data that can be put into words and merged over many nodes.

use serde::{Deserialize, Serialize};

use crate::id::HostName;
use crate::job::bounds::Asks;
use crate::job::request::{CardRequest, Request};
use crate::size::Megabytes;

use super::{Card, CardUse, Node, Withheld};

/// One thing that a request needs and a node, or the best of several, lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Need {
    /// The request's own `--nodelist` and `--exclude` do not allow the node.
    Admission,
    /// Features.
    Features {
        /// The features that it asks for.
        wanted: String,
    },
    /// The node is drained.
    Drained {
        /// By whom, and why.
        why: String,
    },
    /// CPUs.
    Cpus {
        /// Asked for.
        wanted: u32,
        /// Free.
        free: u32,
        /// There.
        all: u32,
    },
    /// Host memory, MB.
    Ram {
        /// Asked for.
        wanted: Megabytes,
        /// Free.
        free: Megabytes,
        /// There.
        all: Megabytes,
    },
    /// A node without other jobs.
    WholeNode {
        /// Number of jobs on it.
        used_by: u32,
    },
    /// Cards.
    Cards {
        /// Asked for.
        wanted: CardRequest,
        /// Cards on which it would fit now; the same as `all` for an empty node.
        free: u32,
        /// Cards on which it would fit if they were empty.
        all: u32,
        /// All cards of the type.
        of_type: u32,
        /// Cards of the type that are given to no job: not fit, or held by others.
        #[serde(default)]
        barred: u32,
    },
}

impl Need {
    /// The sort of the need: nodes that lack the same sorts are reported together.
    fn sort(&self) -> u8 {
        match self {
            Need::Admission => 5,
            Need::Features { .. } => 6,
            Need::Drained { .. } => 4,
            Need::Cpus { .. } => 0,
            Need::Ram { .. } => 1,
            Need::WholeNode { .. } => 3,
            Need::Cards { .. } => 2,
        }
    }

    /// Keeps the better of two needs of one sort: the one with more free.
    fn better(&mut self, other: &Need) {
        let is_better = match (&*self, other) {
            (Need::Cpus { free: a, .. }, Need::Cpus { free: b, .. }) => b > a,
            (Need::Ram { free: a, .. }, Need::Ram { free: b, .. }) => b > a,
            (Need::WholeNode { used_by: a }, Need::WholeNode { used_by: b }) => b < a,
            (Need::Cards { free: a, all: x, .. }, Need::Cards { free: b, all: y, .. }) => (b, y) > (a, x),
            _ => false,
        };
        if is_better {
            self.clone_from(other);
        }
    }
}

/// What several nodes lack in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    /// The needs, each as it is on the node that has most of it.
    pub needs: Vec<Need>,
    /// Some of the nodes, by name.
    pub nodes: Vec<HostName>,
    /// Number of all such nodes.
    pub count: u32,
}

/// At most so many nodes of a kind are named.
const NAMED: usize = 3;

impl Lack {
    /// Puts nodes together that lack the same; those that lack least come first.
    pub fn collected<'a>(lacking: impl IntoIterator<Item = (&'a Node, Vec<Need>)>) -> Vec<Lack> {
        let mut groups: Vec<Lack> = Vec::new();
        for (node, needs) in lacking {
            let alike = |lack: &&mut Lack| lack.needs.iter().map(Need::sort).eq(needs.iter().map(Need::sort));
            let name = &node.inventory.name;
            let Some(group) = groups.iter_mut().find(alike) else {
                groups.push(Lack { needs, nodes: vec![name.clone()], count: 1 });
                continue;
            };
            group.count += 1;
            group.needs.iter_mut().zip(&needs).for_each(|(best, need)| best.better(need));
            if group.nodes.len() < NAMED {
                group.nodes.push(name.clone());
            }
        }
        groups.sort_by_key(|group| {
            let barred = group.needs.iter().any(|need| need.sort() >= Need::Admission.sort());
            (barred, group.needs.len(), group.nodes.first().cloned())
        });
        groups
    }
}

impl Node {
    /// Number of cards that can take a share of the request now.
    fn cards_free_for(&self, asks: Asks<'_>, reserve: u32) -> u32 {
        let fits = |(card, withheld, used): &(&Card, Withheld, CardUse)| {
            asks.may_have(self, card) && withheld.fit(card, *used, asks, reserve).is_some()
        };
        self.each_card().filter(fits).count() as u32
    }

    fn cards_big_enough(&self, wanted: &CardRequest, asks: Asks<'_>, reserve: u32) -> u32 {
        let serves = |card: &&Card| card.demand(wanted, reserve).is_some() && asks.may_have(self, card);
        self.inventory.cards.iter().filter(serves).count() as u32
    }

    /// The need, if the request does not allow the node or asks for features that it lacks.
    fn barred(&self, request: &Request) -> Option<Need> {
        let has = &self.inventory;
        match request.features() {
            _ if !has.is_named(request) => Some(Need::Admission),
            Some(wanted) if !wanted.met_by(&has.features) => {
                Some(Need::Features { wanted: wanted.to_string() })
            }
            _ => None,
        }
    }

    /// What keeps a request from fitting now; empty if it fits.
    pub fn needs_now<'a>(&self, asks: impl Into<Asks<'a>>, reserve: u32) -> Vec<Need> {
        let asks = asks.into();
        let request = asks.request;
        let has = &self.inventory;
        if let Some(barred) = self.barred(request) {
            return vec![barred];
        }
        if let Some(why) = self.drained() {
            return vec![Need::Drained { why: why.to_owned() }];
        }
        let mut found = Vec::new();
        let free = self.free_cpus();
        if request.cpus > free {
            found.push(Need::Cpus { wanted: request.cpus, free, all: has.cpus });
        }
        let free = self.free_ram();
        if request.ram > free {
            found.push(Need::Ram { wanted: request.ram, free, all: has.ram });
        }
        if request.exclusive && !self.held().is_empty() {
            found.push(Need::WholeNode { used_by: self.held().len() as u32 });
        }
        found.extend(
            request
                .cards
                .as_ref()
                .and_then(|wanted| self.card_need(wanted, self.cards_free_for(asks, reserve), asks, reserve)),
        );
        found
    }

    /// What keeps a request from fitting even if the node were empty; empty if it would fit.
    pub fn needs_for_ever<'a>(&self, asks: impl Into<Asks<'a>>, reserve: u32) -> Vec<Need> {
        let asks = asks.into();
        let request = asks.request;
        let has = &self.inventory;
        if let Some(barred) = self.barred(request) {
            return vec![barred];
        }
        let mut found = Vec::new();
        if request.cpus > has.cpus {
            found.push(Need::Cpus { wanted: request.cpus, free: has.cpus, all: has.cpus });
        }
        if request.ram > has.ram {
            found.push(Need::Ram { wanted: request.ram, free: has.ram, all: has.ram });
        }
        found.extend(request.cards.as_ref().and_then(|wanted| {
            self.card_need(wanted, self.cards_big_enough(wanted, asks, reserve), asks, reserve)
        }));
        found
    }

    fn card_need(&self, wanted: &CardRequest, free: u32, asks: Asks<'_>, reserve: u32) -> Option<Need> {
        let of_type = self.inventory.cards_of(wanted.kind.as_deref());
        let of_type = of_type.filter(|card| asks.may_have(self, card)).count() as u32;
        let all = self.cards_big_enough(wanted, asks, reserve);
        let serves = |card: &Card| card.demand(wanted, reserve).is_some() && asks.may_have(self, card);
        let barred = self.each_card().filter(|(card, withheld, _)| withheld.barred && serves(card)).count();
        let barred = u32::try_from(barred).unwrap_or(u32::MAX);
        (free < wanted.count).then(|| Need::Cards { wanted: wanted.clone(), free, all, of_type, barred })
    }
}
