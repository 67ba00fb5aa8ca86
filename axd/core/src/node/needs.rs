//! What a node lacks for a request, as data: to be put into words, and to say of many nodes at once.

use serde::{Deserialize, Serialize};

use crate::id::HostName;
use crate::job::bounds::Asks;
use crate::job::request::{CardRequest, Request};
use crate::size::Megabytes;

use super::{Card, CardUse, Node, Withheld};

/// One thing that a request needs and a node, or the best of several, does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Need {
    /// To be allowed there by its own `--nodelist` and `--exclude`.
    Admission,
    /// Features.
    Features {
        /// Those that it asks for.
        wanted: String,
    },
    /// A node that is in use.
    Drained {
        /// By whom it is drained and why.
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
    /// To be alone.
    WholeNode {
        /// Jobs on it.
        used_by: u32,
    },
    /// Cards.
    Cards {
        /// Asked for.
        wanted: CardRequest,
        /// Those on which it would fit now; of the empty node the same as `all`.
        free: u32,
        /// Those on which it would fit if they were empty.
        all: u32,
        /// All of the type.
        of_type: u32,
        /// Those of them that are given to nobody: not fit, or held by others.
        #[serde(default)]
        barred: u32,
    },
}

impl Need {
    /// What sort of thing it is: nodes that lack the same sorts are spoken of together.
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

    /// The better of two of a sort: where more is free.
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

/// What several nodes lack alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lack {
    /// The things, each as it is on the node that has most of it.
    pub needs: Vec<Need>,
    /// Some of the nodes, by name.
    pub nodes: Vec<HostName>,
    /// All of them.
    pub count: u32,
}

/// So many nodes of a kind are named.
const NAMED: usize = 3;

impl Lack {
    /// Nodes that lack the same put together: those that lack least first.
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
    /// Cards that can take a share of the request now.
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

    /// Whether a request wants and is allowed the node at all.
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

    /// What keeps a request from fitting now; nothing: it fits.
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

    /// What keeps a request from fitting even if the node were empty; nothing: it would fit.
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
