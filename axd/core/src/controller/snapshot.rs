//! What outlives a restart: the controller as plain data, and from it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::gpu::CardState;
use crate::id::{Epoch, HostName, JobNumber};
use crate::job::Job;
use crate::job::shared::Shared;
use crate::node::{Inventory, Node, Nodes};
use crate::schedule::fragmentation::Mix;
use crate::schedule::history::History;
use crate::schedule::kept::KeptPlaces;
use crate::schedule::losses::Losses;
use crate::schedule::order::WaitingOrder;
use crate::schedule::share::{Measure, Unspent, VirtualTimes};
use crate::schedule::usage::Usages;
use crate::time::{BootTime, WallTime, Zone};

use super::attempt::hold_what_jobs_hold;
use super::bounds::Limits;
use super::keys::Keys;
use super::moments::Moments;
use super::{Controller, Troubles};

/// What is known of a node beyond what it registers with and what jobs hold of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Known {
    /// Its cards, by UUID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cards: BTreeMap<String, CardState>,
    /// Who drained it and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Box<str>>,
}

impl Known {
    fn of(node: &Node) -> Option<Known> {
        let this = Known { cards: node.card_states().clone(), drained: node.drained().map(Into::into) };
        (this != Known::default()).then_some(this)
    }
}

/// What a restart hands back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Configuration.
    pub config: Config,
    /// Nodes, without what is given out of them: the jobs say that.
    pub nodes: Vec<Inventory>,
    /// Jobs that have not ended, or only just.
    pub jobs: Vec<Arc<Job>>,
    /// The number that the next job gets.
    pub next_number: JobNumber,
    /// The epoch that the next attempt gets.
    pub next_epoch: Epoch,
    /// What the queues have had of the cluster.
    #[serde(default)]
    pub times: VirtualTimes,
    /// What the users have had of it lately.
    #[serde(default)]
    pub usages: Usages,
    /// What was asked of cards lately.
    #[serde(default)]
    pub mix: Mix,
    /// Nodes that can start nothing.
    #[serde(default)]
    pub troubles: Troubles,
    /// What is known of nodes, those included that have not registered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<HostName, Known>,
    /// What jobs took.
    #[serde(default)]
    pub history: History,
    /// What making room has cost lately.
    #[serde(default)]
    pub losses: Losses,
    /// The clock that daily hours go by.
    #[serde(default)]
    pub zone: Zone,
}

impl Controller {
    /// The controller as it was when the snapshot was taken.
    pub fn restore(snapshot: Snapshot) -> Controller {
        let (mut absent, bound) = (snapshot.known, snapshot.config.resources.gpu_foreign_bound);
        let node = |inventory: Inventory| {
            let known = absent.remove(&inventory.name).unwrap_or_default();
            let mut node = Node::new(inventory);
            node.know_cards(known.cards, bound);
            node.drain(known.drained);
            node
        };
        let nodes: Nodes = snapshot.nodes.into_iter().map(node).collect();
        let mut this = Controller {
            by_epoch: BTreeMap::new(),
            order: WaitingOrder::default(),
            limits: Limits::of(&snapshot.config, &nodes),
            measure: Measure::of(&nodes),
            times: snapshot.times,
            unspent: Unspent::default(),
            usages: snapshot.usages,
            seen: WallTime::default(),
            seen_boot: BootTime(0),
            mix: snapshot.mix,
            absent,
            history: Arc::new(snapshot.history),
            losses: snapshot.losses,
            claims: BTreeSet::new(),
            moments: Moments::default(),
            zone: Arc::new(snapshot.zone),
            pass_due: false,
            found_places: KeptPlaces::default(),
            nodes,
            jobs: BTreeMap::new(),
            shared: Shared::default(),
            keys: Keys::default(),
            begins: BTreeSet::new(),
            backoffs: BTreeSet::new(),
            leaving: BTreeSet::new(),
            active: BTreeSet::new(),
            queued: BTreeMap::new(),
            next_number: snapshot.next_number,
            next_epoch: snapshot.next_epoch,
            troubles: snapshot.troubles,
            is_sketch: false,
            config: Arc::new(snapshot.config),
        };
        for mut kept in snapshot.jobs {
            let job = Arc::make_mut(&mut kept);
            // Ten thousand jobs of one queue share its name, as they did when they came.
            this.shared.share(job);
            if let Some(queue) = this.config.queue(job.queue.as_str()) {
                job.queue = queue.name.clone();
            }
            this.next_number = this.next_number.max(JobNumber(job.id.number.0.saturating_add(1)));
            this.index(kept);
        }
        for node in this.nodes.iter_mut() {
            hold_what_jobs_hold(&this.jobs, node);
        }
        this.enter_rates();
        this
    }

    /// What a restart needs.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            config: Config::clone(&self.config),
            nodes: self.nodes.iter().map(|n| n.inventory.clone()).collect(),
            jobs: self.jobs.values().map(Arc::clone).collect(),
            next_number: self.next_number,
            next_epoch: self.next_epoch,
            times: self.times.clone(),
            usages: self.usages.clone(),
            mix: self.mix.clone(),
            troubles: self.troubles.clone(),
            known: self.known(),
            history: History::clone(&self.history),
            losses: self.losses.clone(),
            zone: Zone::clone(&self.zone),
        }
    }

    fn known(&self) -> BTreeMap<HostName, Known> {
        let mut known = self.absent.clone();
        let here = self.nodes.iter().filter_map(|node| Some((node.inventory.name.clone(), Known::of(node)?)));
        known.extend(here);
        known
    }
}
