//! Nodes that can start nothing. A disk that is full, groups that can't be made, no process to be had: what was assigned
//! there comes back, and would be assigned again without end. After a few different jobs of a user's in a row none of that
//! user's is started there for a while, then one is tried, and so on with growing pauses, until a script runs. Each user's
//! jobs speak for themselves: whoever can have starts come to nothing holds up no one else.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::{AttemptName, Epoch, HostName, JobNumber, Uid};
use crate::schedule::gang::Places;
use crate::time::{BootTime, Now, Span};

use super::Controller;

/// So many jobs in a row: one may be at fault itself, and has pauses of its own.
const JOBS: usize = 3;

/// The first pause; each next one is twice as long, up to the last.
const FIRST_PAUSE: Span = Span::seconds(2);
const LAST_PAUSE: Span = Span::seconds(64);

/// The nodes that had vain starts lately.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Troubles {
    #[serde(default)]
    users: BTreeMap<HostName, BTreeMap<Uid, Trouble>>,
    /// Attempts of a lower epoch an earlier daemon decided: it was interrupted, which says nothing about a node.
    since: Option<Epoch>,
}

impl Troubles {
    /// None so far, for a daemon whose first attempt has this epoch.
    pub fn since(epoch: Epoch) -> Troubles {
        Troubles { users: BTreeMap::new(), since: Some(epoch) }
    }

    /// A person has changed something: everything is tried anew.
    pub(super) fn forget(&mut self) {
        self.users.clear();
    }
}

/// What of a user's came to nothing on a node since a script last began there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    jobs: BTreeSet<JobNumber>,
    /// Vain starts, and how many of them were trials.
    starts: u32,
    trials: u32,
    why: String,
    rests_until: Option<BootTime>,
}

impl Trouble {
    /// Until when nothing is started; `None`: it is not that bad yet.
    pub fn rests_until(&self) -> Option<BootTime> {
        self.rests_until
    }

    /// So many starts in a row came to nothing.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// In a sentence with numbers.
    pub fn sentence(&self, now: BootTime) -> String {
        let next = match self.rests_until.map(|until| until - now) {
            Some(Span(left @ 1..)) => format!("in {} s", left.div_ceil(1000)),
            _ => "now".to_owned(),
        };
        format!("the last {} starts came to nothing, one job is tried {next}: {}", self.starts, self.why)
    }

    fn pause(&mut self, now: BootTime) {
        let pause = Span(FIRST_PAUSE.0 << self.trials.min(8)).min(LAST_PAUSE);
        self.rests_until = Some(now + pause);
    }
}

impl Controller {
    /// What keeps a node from being given work of a user's, or may soon.
    pub fn trouble(&self, node: &HostName, owner: Uid) -> Option<&Trouble> {
        self.troubles.users.get(node)?.get(&owner)
    }

    /// What keeps a node from being given work of users, one each.
    pub fn rests(&self, node: &HostName) -> impl Iterator<Item = &Trouble> {
        let all = self.troubles.users.get(node).into_iter().flat_map(BTreeMap::values);
        all.filter(|trouble| trouble.rests_until.is_some())
    }

    /// An attempt was never started, for a reason of its node's.
    pub(super) fn came_to_nothing(&mut self, now: Now, node: &HostName, attempt: AttemptName, why: &str) {
        if self.troubles.since.is_some_and(|since| attempt.epoch < since) {
            return;
        }
        let Some(owner) = self.job(attempt.job.number).map(|job| job.owner.uid) else { return };
        let trouble = self.troubles.users.entry(node.clone()).or_default().entry(owner).or_default();
        if trouble.jobs.len() < JOBS {
            trouble.jobs.insert(attempt.job.number);
        }
        trouble.starts = trouble.starts.saturating_add(1);
        why.clone_into(&mut trouble.why);
        if trouble.rests_until.is_some() {
            trouble.trials = trouble.trials.saturating_add(1);
            trouble.pause(now.boot);
        } else if trouble.jobs.len() >= JOBS {
            trouble.pause(now.boot);
        }
    }

    /// A script runs there.
    pub(super) fn can_start(&mut self, node: &HostName) {
        self.troubles.users.remove(node);
    }

    /// Whether all nodes rest for a user.
    pub(crate) fn starts_nothing(&self, now: Now, owner: Uid) -> bool {
        let rests = |node: &HostName| {
            let until = self.trouble(node, owner).and_then(Trouble::rests_until);
            until.is_some_and(|until| until > now.boot)
        };
        !self.troubles.users.is_empty() && self.nodes.iter().all(|node| rests(&node.inventory.name))
    }

    /// Whether what was just started on a node is to show that it can: then it rests again until that is known.
    fn tries_one(&mut self, now: Now, node: usize, owner: Uid) -> bool {
        let name = self.nodes.as_slice().get(node).map(|node| &node.inventory.name);
        let troubles = name.and_then(|name| self.troubles.users.get_mut(name));
        let trouble = troubles.and_then(|troubles| troubles.get_mut(&owner));
        let Some(trouble) = trouble.filter(|trouble| trouble.rests_until.is_some()) else { return false };
        trouble.pause(now.boot);
        true
    }

    /// The same of a user's job on several nodes: whether any of them is to show it.
    pub(super) fn try_one_on(&mut self, now: Now, places: &Places, owner: Uid) -> bool {
        places.iter().fold(false, |any, place| self.tries_one(now, place.node, owner) | any)
    }

    /// When the next is to be tried. Where it is time already and nobody could be tried, whatever happens next tries.
    pub(super) fn next_trial(&self) -> Option<BootTime> {
        let troubles = self.troubles.users.values().flat_map(BTreeMap::values);
        let until =
            troubles.filter_map(Trouble::rests_until).filter(|until| *until > self.seen_boot).min()?;
        self.order.anybody_waits().then_some(until)
    }

    /// Whether a node is known to start nothing of a user's until one that is tried there has shown otherwise.
    pub(super) fn is_in_trouble(&self, node: &HostName, owner: Uid) -> bool {
        self.trouble(node, owner).is_some_and(|trouble| trouble.rests_until.is_some())
    }
}
