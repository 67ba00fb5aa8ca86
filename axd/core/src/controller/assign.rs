//! A start that is decided: the job's next attempt, what it holds of its nodes, and what its queue and owner are charged.

use std::sync::Arc;

use crate::config::Scheduler;
use crate::explain::started::Chosen;
use crate::id::{AttemptName, JobNumber};
use crate::job::gang::Gang;
use crate::job::state::{Cause, JobState};
use crate::job::{Attempt, Cancelled, Job, Learnt};
use crate::node::Allocation;
use crate::schedule::gang::Places;
use crate::schedule::placement::Place;
use crate::time::Now;

use super::{Controller, Decision, Move};

/// What a job is given, on its first node and on others.
struct Given {
    first: Allocation,
    others: Vec<Allocation>,
}

impl Controller {
    /// Starts a job in a place. Returns whether it is started.
    pub(super) fn assign(
        &mut self,
        now: Now,
        number: JobNumber,
        places: &Places,
        chosen: Chosen<'_>,
        out: &mut Vec<Decision>,
    ) -> bool {
        let Some(job) = self.jobs.get(&number) else { return false };
        let Some(given) = self.given(job, places) else { return false };
        let (owner, queue) = (job.owner.uid, job.queue.clone());
        let share = self.measure.share(&job.request).on(places.count());
        let (why, passed) = (self.why_started(job, (&given.first, &given.others), chosen), chosen.passed());
        let learnt = self.learnt_at_start(job);
        let name = AttemptName { job: job.id, epoch: self.next_epoch };
        let mut attempt = self.attempt(now, job, name, &learnt, &given);
        self.next_epoch = self.next_epoch.next();
        attempt.charged = self.charge(&queue, share, attempt.planned);
        if let Some((charged, end)) = attempt.unspent() {
            self.unspent.enter(&queue, charged, end);
        }
        if self.config.policy.scheduler == Scheduler::FairShare {
            self.usages.started(owner, share, now.wall, self.config.policy.usage_half_life);
        }
        self.hold_on_nodes(&attempt);
        let attempt_number = attempt.number;
        if let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut) {
            job.attempts = attempt_number;
            job.attempt = Some(Box::new(attempt));
        }
        let shifted = self.shift(now, number, Move::by_ax(Cause::Assigned, JobState::Starting, &why), out);
        // Not before: its place in the order hung on what was learnt when it came.
        if learnt != Learnt::default()
            && let Some(job) = self.jobs.get_mut(&number).map(Arc::make_mut)
        {
            job.learnt = Some(Arc::new(learnt));
        }
        let Given { first: allocation, others } = given;
        out.push(Decision::Launch { attempt: name, number: attempt_number, allocation, others, why, passed });
        shifted
    }

    /// What a job gets in these places; `None` if a node is gone.
    fn given(&self, job: &Job, places: &Places) -> Option<Given> {
        let given = |place: &Place| {
            let node = self.nodes.as_slice().get(place.node)?;
            let cards: Vec<usize> = place.cards.iter().map(|(at, _)| *at).collect();
            Some(node.allocation(job, &cards, self.config.resources.gpu_reserve))
        };
        let others = places.others.iter().map(given).collect::<Option<Vec<Allocation>>>()?;
        Some(Given { first: given(&places.first)?, others })
    }

    /// What is known of a job that starts now: runs may have ended since it came.
    fn learnt_at_start(&self, job: &Job) -> Learnt {
        let mut learnt = job.learnt.as_deref().copied().unwrap_or_default();
        learnt.length = self.length_at_start(job);
        learnt
    }

    /// The job's next attempt, for which nobody is charged yet.
    fn attempt(&self, now: Now, job: &Job, name: AttemptName, learnt: &Learnt, given: &Given) -> Attempt {
        let planned = self.planned_with(job, job.length().into_iter().chain(learnt.length).min());
        let gang = || Box::new(Gang { others: given.others.clone(), ..Gang::default() });
        Attempt {
            name,
            number: job.attempts + 1,
            allocation: given.first.clone(),
            gang: (!given.others.is_empty()).then(gang),
            assigned_at: now.wall,
            planned,
            taken_for: self.taken_for(job, planned),
            charged: None,
            started_at: None,
            checkpoint_at: None,
            card_used: None,
            idle: Default::default(),
            renewed: false,
            relimited: false,
            cancelled: Cancelled::default(),
            ending: None,
            end: None,
        }
    }

    /// Takes what an attempt is given from its nodes.
    fn hold_on_nodes(&mut self, attempt: &Attempt) {
        let ends = attempt.ends();
        for part in attempt.parts() {
            if let Some(node) = self.nodes.get_mut(&part.node) {
                node.hold(attempt.name, part.clone(), ends);
            }
        }
    }
}
