//! Submissions: a new job, or the answer that there is one already.

use std::sync::Arc;

use crate::config::{Packing, QueueState};
use crate::id::{JobId, Uid};
use crate::job::rare::{Rare, Rarely};
use crate::job::state::JobState;
use crate::job::{Actor, Job};
use crate::schedule::fragmentation::Mix;
use crate::schedule::history::Signature;
use crate::time::Now;

use super::refusal::Refusal;
use super::{Controller, Decision, Submission};

impl Controller {
    pub(super) fn submitted(&mut self, now: Now, submission: Submission, out: &mut Vec<Decision>) {
        let key = submission.key;
        if let Some(job) = self.job_of_key(submission.owner.uid, key) {
            out.push(Decision::AlreadyKnown { key, job });
            return;
        }
        match self.job_of(now, submission) {
            Ok(job) => self.accept(now, job, out),
            Err(refusal) => out.push(refusal.into()),
        }
    }

    /// The job that a submission would become, under the next number, which is not taken yet; or why none.
    fn job_of(&mut self, now: Now, submission: Submission) -> Result<Job, Refusal> {
        let Submission { key, owner, name, thing, queue, groups, year, request, hold } = submission;
        self.admits(owner.uid, queue.as_str())?;
        let thing = thing.unwrap_or_else(|| Signature::called(&name));
        let signature = thing.with(request.cards.as_ref()).on(request.nodes().min);
        let hold = hold.then(|| owner.name.as_ref().into());
        let mut job = Job {
            id: JobId { year, number: self.next_number },
            key,
            name,
            queue,
            bounds: None,
            request: Arc::new(request),
            state: JobState::Pending,
            submitted_at: now.wall,
            eligible_at: None,
            attempts: 0,
            signature,
            learnt: None,
            rare: Rarely::from(Rare { groups, hold, ..Rare::default() }),
            attempt: None,
            owner: Arc::new(owner),
        };
        job.bounds = self.limits.bounds(&job, &self.nodes);
        match self.out_of_bounds(&job).or_else(|| self.lapsed(&job, now.wall)) {
            Some(why) => Err(Refusal::because(why)),
            None => Ok(job),
        }
    }

    fn accept(&mut self, now: Now, mut job: Job, out: &mut Vec<Decision>) {
        let (id, key) = (job.id, job.key);
        let Some(after) = id.number.next() else {
            let why = "the last job number is used up".to_owned();
            out.push(Refusal::because(why).into());
            return;
        };
        self.next_number = after;
        self.learn_length(&mut job);
        let learnt = self.learn_memory(&mut job);
        if self.own_conditions_met(&job, now) {
            job.state = JobState::Ready;
            job.eligible_at = Some(now.wall);
            self.wake_queue(&job);
        }
        if self.config.policy.packing == Packing::Fgd {
            self.mix.count(&job.request);
        }
        let to = job.state;
        let actor = Actor::User { uid: job.owner.uid, name: Arc::clone(&job.owner.name), admin: false };
        self.index(Arc::new(job));
        out.push(Decision::Accepted { key, job: id });
        let (actor, why) = (Arc::from(actor.name()), "submitted".to_owned());
        out.push(Decision::Moved { job: id, from: None, to, cause: None, actor, why });
        if let Some(what) = learnt {
            out.push(Decision::Noted { job: id, actor: Arc::from(Actor::Ax.name()), what });
        }
    }

    /// Whether the queue takes jobs and the user has not too many in it.
    fn admits(&self, uid: Uid, queue: &str) -> Result<(), Refusal> {
        match self.config.queue(queue).map(|q| q.state) {
            None => Err(Refusal::because(self.config.unknown_queue(queue))),
            Some(QueueState::Closed) => {
                Err(Refusal::because(format!("queue '{queue}' is closed: it accepts no new jobs")))
            }
            Some(QueueState::Open | QueueState::Stopped) => {
                let max = self.config.policy.max_queued_per_user;
                let has = self.queued.get(&uid).copied().unwrap_or(0);
                if uid == Uid::ROOT || has < max {
                    return Ok(());
                }
                let why = format!(
                    "{has} of your jobs wait already, at most {max} may (policy.max_queued_per_user)"
                );
                Err(Refusal::for_now(why))
            }
        }
    }

    /// Why limits would never let a job start.
    pub(super) fn out_of_bounds(&self, job: &Job) -> Option<String> {
        if let Some(sum) = self.limits.too_small(job) {
            let (asks, most) = (sum.what.in_words(sum.what.of(job)), sum.what.in_words(sum.max));
            let (whose, key) = (&sum.whose, &sum.key);
            return Some(format!("it asks for {asks}, and {whose} may hold at most {most} at once ({key})"));
        }
        // What no node could hold whoever asks is somebody else's to say.
        let reserve = self.config.resources.gpu_reserve;
        let anybody = self.nodes.iter().any(|node| node.could_ever_hold(&*job.request, reserve));
        let confining = self.limits.confining(job);
        (anybody && !confining.is_empty() && self.fits_nowhere(job)).then(|| {
            let who = crate::text::listed(&confining);
            format!("the cards that {who} may use could never hold it; 'ax resource' shows all cards")
        })
    }

    /// What was asked of cards lately; only packing by fragmentation counts it.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }
}
