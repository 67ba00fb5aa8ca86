//! Why a job that needs several nodes at once waits: how many are missing.

use super::condition::TooFewNodes;
use super::{Condition, Story, started};
use crate::controller::Controller;
use crate::job::Job;

impl Controller {
    /// Too few nodes could hold its part, even if all were empty.
    pub(super) fn too_few_at_all(&self, job: &Job, wanted: u32) -> Condition {
        let reserve = self.config().resources.gpu_reserve;
        let fitting = self.nodes().filter(|node| node.could_ever_hold(job, reserve)).count();
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        let each = started::of_each(&job.request);
        Condition::TooFewNodes(TooFewNodes { wanted, each, fitting, empty: true })
    }
}

impl Story<'_> {
    /// Too few nodes have room for its part now.
    pub(super) fn too_few_nodes(&self, job: &Job, fitting: usize) -> Option<Condition> {
        let wanted = job.request.several()?.min;
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX);
        let each = started::of_each(&job.request);
        let few = TooFewNodes { wanted, each, fitting, empty: false };
        (few.fitting < few.wanted).then_some(Condition::TooFewNodes(few))
    }
}
