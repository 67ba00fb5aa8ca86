//! What a pass comes by, for those who ask: whom it passed over, for whom it
//! kept a place, how things stood when it looked at a job. Passes that are only
//! tried run on copies: the controller itself changes in `step` alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::advice::Remedy;
use crate::config::{Queue, QueueOrder};
use crate::explain::started::PassedOver;
use crate::id::{JobId, JobNumber, QueueName};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::{Allocation, Nodes};
use crate::schedule::gang::Places;
use crate::schedule::share::Share;
use crate::schedule::timeline::{Reservation, Timeline};
use crate::schedule::walk::Walk;
use crate::time::{Now, Span, WallTime};

use super::bounds::{Left, Limits};
use super::{Controller, Decision, Event};

/// Looks on while passes are made.
#[derive(Default)]
pub(super) struct Witness {
    /// Whom this pass has passed over so far.
    pub(super) passed: PassedOver,
    /// The places that this pass has kept.
    kept: Vec<Reservation>,
    /// A job that is asked about.
    asked: Option<JobNumber>,
    looks: Vec<Look>,
    /// How many waiting jobs passes have looked at.
    looked: u64,
}

/// How things stood when a pass looked at the job that is asked about.
pub(crate) struct Look {
    /// The nodes, with what was given out.
    pub(crate) nodes: Nodes,
    /// The places that were kept for jobs before it.
    pub(crate) timeline: Timeline,
    /// What limits left it.
    pub(crate) left: Left,
}

impl Witness {
    /// A pass begins: nothing outlives the one before.
    pub(super) fn begins(&mut self) {
        self.passed = PassedOver::default();
        self.kept.clear();
    }

    /// A pass is over.
    pub(super) fn ends(&mut self, walk: &Walk) {
        self.looked += walk.looked();
    }

    /// The pass looks at a job.
    pub(super) fn looks_at(&mut self, job: JobNumber, nodes: &Nodes, timeline: &Timeline, left: Left) {
        if self.asked == Some(job) {
            self.looks.push(Look { nodes: nodes.clone(), timeline: timeline.clone(), left });
        }
    }

    /// Whether the pass must go on until it has seen a job.
    pub(super) fn waits_for_one(&self) -> bool {
        self.asked.is_some()
    }

    /// A place is kept for a job.
    pub(super) fn keeps(&mut self, reservation: &Reservation) {
        self.kept.push(reservation.clone());
    }
}

/// What the next pass would come to.
pub(crate) struct Rehearsal {
    /// A small copy of the controller, after it.
    pub(crate) after: Controller,
    /// The places it keeps, of each job on all of its nodes.
    pub(crate) kept: BTreeMap<JobNumber, Vec<Reservation>>,
}

impl Rehearsal {
    /// Whether the pass started a job.
    pub(crate) fn started(&self, number: JobNumber) -> bool {
        self.after.job(number).is_some_and(|job| job.state != JobState::Ready)
    }
}

/// What would become of a job that asked for something else.
pub(crate) struct Trial {
    /// What it would be given of each node at once, if anything.
    pub(crate) given: Option<Vec<Allocation>>,
    /// How things stood whenever a pass looked at it.
    pub(crate) looks: Vec<Look>,
    /// Whether anything was decided at all.
    pub(crate) decided: bool,
}

impl Controller {
    /// How many waiting jobs are looked at to answer an event: what it costs, whatever the machine. For the
    /// law that says so; tried on a copy.
    pub fn effort(&self, now: Now, event: Event) -> u64 {
        let (mut copy, mut witness) = (self.clone(), Witness::default());
        let mut out = copy.apply(now, event);
        copy.schedule_before(now, &mut out, &mut witness);
        witness.looked
    }

    /// Makes the next pass on a copy.
    pub(crate) fn rehearse(&self, now: Now) -> Rehearsal {
        let mut after = self.sketch();
        let mut witness = Witness::default();
        let mut out = after.apply(now, Event::Tick);
        after.schedule_before(now, &mut out, &mut witness);
        let mut kept: BTreeMap<JobNumber, Vec<Reservation>> = BTreeMap::new();
        witness.kept.into_iter().for_each(|place| kept.entry(place.job).or_default().push(place));
        Rehearsal { after, kept }
    }

    /// Makes the next pass with a job as given. For copies: what is decided is not told. If nothing was, the copy is good
    /// for another try.
    pub(crate) fn try_with(&mut self, now: Now, job: Job) -> Trial {
        let number = job.id.number;
        self.exchange(job);
        let mut witness = Witness { asked: Some(number), ..Witness::default() };
        let mut out = self.apply(now, Event::Tick);
        self.schedule_before(now, &mut out, &mut witness);
        // An urgent job may have taken a place that was kept for another: nobody has to go, and nothing is decided yet.
        let decided = !out.is_empty() || self.pass_due;
        let given = out.into_iter().find_map(|decision| match decision {
            Decision::Launch { attempt, allocation, others, .. } if attempt.job.number == number => {
                Some(std::iter::once(allocation).chain(others).collect())
            }
            _ => None,
        });
        Trial { given, looks: witness.looks, decided }
    }

    /// The controller as it would be if a waiting job had asked for something else from the start. For the laws that try
    /// out what [`Controller::advise`] says; nothing when the job does not wait, or for something of its own even then.
    #[must_use]
    pub fn as_if(mut self, now: Now, number: JobNumber, remedy: &Remedy) -> Option<Controller> {
        let mut job = self.job(number).filter(|job| job.state.is_waiting())?.clone();
        remedy.apply(&mut job);
        self.get_ready(&mut job, now);
        let is_ready = job.state == JobState::Ready;
        self.exchange(job);
        is_ready.then_some(self)
    }

    /// Puts a job in the place of what it was. If that was not among those that wait in its queue, it comes there as in
    /// truth it would.
    fn exchange(&mut self, job: Job) {
        let was_misfit = self.is_misfit(job.id.number);
        let was = self.unindex(job.id.number);
        let comes = |was: Arc<Job>| was.state == JobState::Pending || was.queue != job.queue;
        if (was_misfit || was.is_some_and(comes)) && job.state == JobState::Ready {
            self.wake_queue(&job);
        }
        self.index(Arc::new(job));
    }

    /// A job that waits for nothing of its own any more is ready.
    pub(crate) fn get_ready(&self, job: &mut Job, now: Now) {
        if job.state == JobState::Pending && self.own_conditions_met(job, now) {
            job.state = JobState::Ready;
            job.eligible_at = Some(now.wall);
        }
    }

    /// Whether a waiting job's hours have come, and only it is too long for what is left of them.
    pub(crate) fn is_too_long(&self, job: &Job, now: Now) -> bool {
        let mut shorter = job.clone();
        let request = Arc::make_mut(&mut shorter.request);
        (request.time_limit, request.estimate) = (Some(Span(1)), None);
        job.state == JobState::Pending
            && self.is_open(job, now.wall)
            && self.own_conditions_met(&shorter, now)
    }

    /// The time of the last event.
    pub(crate) fn last_seen(&self) -> WallTime {
        self.seen
    }

    /// Limits on cards, and what is held under them.
    pub(crate) fn card_limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether a queue may start another job now.
    pub(crate) fn may_start(&self, queue: &Queue) -> bool {
        self.order.may_start(queue, 0)
    }

    /// How large a job is by the order of its queue.
    pub(crate) fn size(&self, job: &Job) -> Share {
        match self.config.queue(job.queue.as_str()).map(|queue| queue.order) {
            Some(QueueOrder::Lpf) => {
                self.measure.part(&job.request, self.config.resources.gpu_reserve).on(job.width())
            }
            _ => self.share(job),
        }
    }

    /// How many ready jobs are before a job by rank: of all queues, since those of equal weight are merged by it.
    pub(crate) fn before(&self, job: &Job) -> usize {
        self.order.before(job, &self.config, self.size(job))
    }

    /// Whether jobs of other queues wait, too.
    pub(crate) fn others_wait(&self, queue: &QueueName) -> bool {
        self.order.waiting().any(|other| other != queue)
    }

    /// The places that others are leaving for a job, and who they are.
    pub(crate) fn claim_of(&self, number: JobNumber) -> Option<(Places, Vec<JobId>)> {
        let job = self.job(number)?;
        let claim = job.rare.claim.as_ref()?;
        let victims = claim.victims.iter().filter_map(|epoch| self.job_of_epoch(*epoch)).collect();
        Some((self.claimed(job)?, victims))
    }

    /// The jobs for which others are being ended.
    pub(crate) fn claiming(&self) -> impl Iterator<Item = &Job> {
        self.claims.iter().filter_map(|number| self.job(*number))
    }

    /// The job of a living attempt.
    pub(crate) fn job_of_epoch(&self, epoch: crate::node::AttemptKey) -> Option<JobId> {
        self.job(*self.by_epoch.get(&epoch)?).map(|job| job.id)
    }
}
