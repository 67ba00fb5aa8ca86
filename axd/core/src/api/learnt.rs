//! What earlier runs of the same thing say of a job, as it is shown.

use serde::{Deserialize, Serialize};

use crate::explain::learnt_in_words;
use crate::job::Job;
use crate::size::Megabytes;
use crate::text::count;
use crate::time::Span;

/// What was learnt of a job and counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearntView {
    /// How long it is planned to run, if no longer was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_s: Option<u64>,
    /// What it asked for of each card, MB, where it is counted with something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_gpu_mem_mb: Option<u64>,
    /// On how many runs the memory rests.
    #[serde(default)]
    pub measured_runs: u32,
}

impl LearntView {
    /// Of a job; nothing if nothing was learnt of it.
    pub fn of(job: &Job) -> Option<LearntView> {
        let learnt = job.learnt.as_deref()?;
        let length = learnt.length.filter(|_| job.is_planned_as_learnt());
        let view = LearntView {
            length_s: length.map(|length| length.as_seconds()),
            asked_gpu_mem_mb: learnt.asked.map(|asked| asked.0),
            measured_runs: learnt.measured,
        };
        (view.length_s.is_some() || view.asked_gpu_mem_mb.is_some()).then_some(view)
    }

    /// `learnt from its last 2 runs: 41 min`.
    pub fn length_in_words(&self) -> Option<String> {
        self.length_s.map(|seconds| learnt_in_words(Span::seconds(seconds)))
    }

    /// `by its last 5 runs; it asks for 10GB`.
    pub fn memory_in_words(&self) -> Option<String> {
        let asked = Megabytes(self.asked_gpu_mem_mb?).of_card();
        Some(format!("by its last {}; it asks for {asked}", count(self.measured_runs, "run")))
    }
}
