//! Learning from runs: what is remembered of one that has succeeded, and what a new job of the same kind is planned
//! and charged with.

use std::sync::Arc;

use crate::config::LearnMemory;
use crate::id::JobNumber;
use crate::job::request::CardRequest;
use crate::job::{Job, Learnt};
use crate::node::Node;
use crate::schedule::history::{History, Run};
use crate::size::Megabytes;
use crate::text::count;
use crate::time::{Span, WallTime};

use super::Controller;

impl Controller {
    /// What is remembered of earlier runs.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A job's script has succeeded.
    pub(super) fn teach(&mut self, number: JobNumber, ended: WallTime, peak: Option<Megabytes>) {
        let Some(job) = self.jobs.get(&number) else { return };
        let Some(started) = job.attempt.as_ref().and_then(|attempt| attempt.started_at) else { return };
        let length = job.rare.saved + (ended - started);
        Arc::make_mut(&mut self.history).add(job.owner.uid, job.signature, &Run { length, peak, ended });
    }

    /// What a job that begins to wait is planned with: it keeps that until it starts, as its place in the order may
    /// depend on it.
    pub(super) fn learn_length(&self, job: &mut Job) {
        let length = self.usual_length(job);
        let mut learnt = job.learnt.as_deref().copied().unwrap_or_default();
        learnt.length = length;
        job.learnt = (learnt != Learnt::default()).then(|| Arc::new(learnt));
    }

    /// What a job that starts is planned with: runs may have ended since it came. Never more than the place was chosen
    /// with.
    pub(super) fn length_at_start(&self, job: &Job) -> Option<Span> {
        let usual = self.usual_length(job).filter(|usual| job.length().is_none_or(|length| *usual < length));
        usual.or(job.learnt.as_deref().and_then(|learnt| learnt.length))
    }

    fn usual_length(&self, job: &Job) -> Option<Span> {
        let runs =
            self.history.of(job.owner.uid, job.signature).filter(|_| self.config.policy.learn_length)?;
        runs.length()
    }

    /// For how long others count on its place being taken, if that is longer than is planned: it may not be as short as its
    /// last runs, and whoever has a place kept is not to start later for that.
    pub(super) fn taken_for(&self, job: &Job, planned: Span) -> Option<Span> {
        let declared = job.declared().filter(|_| !self.config.policy.learnt_ends)?;
        Some(self.planned_with(job, Some(declared))).filter(|taken| *taken > planned)
    }

    /// Charges a new job with what its last runs used of a card instead of what it asks for, as far as the policy and
    /// its owner want it and there are such cards; says so.
    pub(super) fn learn_memory(&self, job: &mut Job) -> Option<String> {
        let runs = self.history.of(job.owner.uid, job.signature)?;
        let wanted = job.request.cards.as_ref()?;
        let (asked, usual) = (wanted.slice?, runs.memory(self.cards_for(wanted))?);
        let changes = match self.config.policy.learn_memory {
            LearnMemory::Off => false,
            LearnMemory::Raise => usual > asked,
            LearnMemory::Fit => usual > asked || (usual < asked && job.request.fit_memory),
        };
        if !changes {
            return None;
        }
        let mut charged = job.clone();
        Arc::make_mut(&mut charged.request).cards =
            Some(CardRequest { slice: Some(usual), ..wanted.clone() });
        if usual > asked && self.fits_nowhere(&charged) {
            return None;
        }
        job.request = charged.request;
        let measured = u32::try_from(runs.measured()).unwrap_or(u32::MAX);
        let length = job.learnt.as_deref().and_then(|learnt| learnt.length);
        job.learnt = Some(Arc::new(Learnt { length, asked: Some(asked), measured }));
        Some(format!(
            "asks for {} of a card; by its last {} counted with {}",
            asked.of_card(),
            count(runs.measured() as u64, "run"),
            usual.of_card()
        ))
    }

    /// The smallest card that has more than a slice, and all that was seen to be used: whoever needs more than a slice
    /// may have the whole of that, and nobody knows that it is too small before that was tried. If there is none, the
    /// largest.
    pub(super) fn next_card(&self, wanted: &CardRequest, peak: Option<Megabytes>) -> Option<Megabytes> {
        let enough = |mem: &Megabytes| Some(*mem) > wanted.slice && Some(*mem) >= peak;
        let more = self.cards_for(wanted).filter(enough).min();
        more.or_else(|| self.cards_for(wanted).max())
    }

    /// The sizes of the cards on which slices can be had, so many on one node.
    pub(super) fn cards_for<'a>(&'a self, wanted: &'a CardRequest) -> impl Iterator<Item = Megabytes> + 'a {
        let enough = move |node: &&Node| {
            node.inventory.cards_of(wanted.kind.as_deref()).count() >= wanted.count as usize
        };
        let nodes = self.nodes.iter().filter(enough);
        nodes.flat_map(move |node| node.inventory.cards_of(wanted.kind.as_deref())).map(|card| card.mem)
    }
}
