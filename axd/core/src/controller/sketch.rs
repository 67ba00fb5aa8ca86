//! A small copy of the controller, on which can be tried what would become of a submission: its size grows with the
//! users who have jobs waiting, not with the number of those jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::explain::PLANNED;
use crate::id::JobNumber;
use crate::job::shared::Shared;
use crate::schedule::kept::KeptPlaces;

use super::keys::Keys;
use super::moments::Moments;
use super::{Controller, Troubles, WaitingOrder};

impl Controller {
    /// Whether more jobs may wait than it knows.
    pub(crate) fn is_sketch(&self) -> bool {
        self.is_sketch
    }

    /// A copy with what a new job could meet: all that is given out, and of each user in each queue the first jobs that
    /// wait, as far as plans are followed; also of those that wait for a time of their own. Those that are held, or fit
    /// nowhere, stand in nobody's way.
    #[must_use]
    pub fn sketch(&self) -> Controller {
        let mut copy = Controller {
            config: Arc::clone(&self.config),
            nodes: self.nodes.clone(),
            jobs: BTreeMap::new(),
            shared: Shared::default(),
            keys: Keys::default(),
            by_epoch: BTreeMap::new(),
            order: WaitingOrder::default(),
            limits: self.limits.clone(),
            measure: self.measure.clone(),
            times: self.times.clone(),
            unspent: self.unspent.clone(),
            usages: self.usages.clone(),
            history: Arc::clone(&self.history),
            losses: self.losses.clone(),
            seen: self.seen,
            seen_boot: self.seen_boot,
            mix: self.mix.clone(),
            absent: BTreeMap::new(),
            claims: BTreeSet::new(),
            pass_due: false,
            found_places: KeptPlaces::default(),
            begins: BTreeSet::new(),
            moments: Moments::default(),
            zone: Arc::clone(&self.zone),
            backoffs: BTreeSet::new(),
            leaving: BTreeSet::new(),
            active: BTreeSet::new(),
            queued: BTreeMap::new(),
            next_number: self.next_number,
            next_epoch: self.next_epoch,
            // What would be if all were well.
            troubles: Troubles::default(),
            is_sketch: true,
        };
        copy.limits.none_held();
        let mut chosen: BTreeSet<JobNumber> = self.order.first_of_each(PLANNED).collect();
        chosen.extend(self.active.iter().chain(&self.claims));
        chosen.extend(self.between_hours().map(|job| job.id.number));
        chosen.extend(self.waiting_for_times(PLANNED).map(|job| job.id.number));
        for job in chosen.iter().filter_map(|number| self.jobs.get(number)) {
            copy.index(job.clone());
        }
        // The limit of a user counts all their jobs.
        copy.queued.clone_from(&self.queued);
        copy
    }

    /// The same, with one waiting job that need not be among the first.
    pub(crate) fn sketch_with(&self, number: JobNumber) -> Controller {
        let mut copy = self.sketch();
        if let Some(job) = self.jobs.get(&number).filter(|_| copy.job(number).is_none()) {
            copy.index(job.clone());
            copy.queued.clone_from(&self.queued);
        }
        copy
    }
}
