//! Why no job is ended for one that is urgent enough: evictions have cost enough lately, or the jobs in its way may
//! not be ended. Also the words for a job that is not submitted.

use crate::controller::{Spared, Spares};
use crate::job::Job;
use crate::schedule::order::Shape;
use crate::text::{count, listed};
use crate::time::WallTime;

use super::condition::EvictionsSpent;
use super::{Basis, Condition, Explanation, NodesFor, Story};

impl Story<'_> {
    /// Why no job is ended for one that finds no place; `None` if it is not urgent enough, or some are being ended.
    pub(super) fn nobody_ended(&mut self, job: &Job, known: &NodesFor) -> Option<Condition> {
        let policy = &self.controller.config().policy;
        if !policy.preemption || job.request.priority < policy.preempt_priority {
            return None;
        }
        if let Some(spent) = self.budget_spent() {
            return Some(spent);
        }
        if known.fitting.len() >= job.request.nodes().min as usize {
            return None;
        }
        let controller = &self.pass.after;
        let key = (Shape::of(job), job.request.priority);
        let spares = self.spared.entry(key).or_insert_with(|| controller.spares(job));
        let Spares { jobs, nodes, ref why } = *spares;
        let why: Vec<(Spared, u32)> = why.iter().map(|(why, jobs)| (*why, *jobs)).collect();
        (!why.is_empty()).then_some(Condition::NobodyToEnd { jobs, nodes, why })
    }

    /// The condition, if others could be ended for it but for the budget.
    fn budget_spent(&self) -> Option<Condition> {
        let policy = &self.controller.config().policy;
        let (budget, until) = (self.controller.eviction_budget()?, self.controller.no_evictions_until()?);
        let whole = budget / u128::from(policy.preempt_budget.max(1)) * 100;
        let lost = self.controller.losses().sum() * 1000 / whole.max(1);
        let lost = u32::try_from(lost).unwrap_or(u32::MAX);
        let spent = EvictionsSpent { per_mille: lost, most_percent: policy.preempt_budget, until };
        Some(Condition::EvictionsSpent(spent))
    }
}

impl Explanation {
    /// The same explanation for a job that is not submitted: no job is really ended for it.
    #[must_use]
    pub fn of_a_try(mut self, now: WallTime) -> Explanation {
        for condition in &mut self.conditions {
            if let Condition::MakingRoom(making) = condition {
                making.foretold = true;
            }
        }
        if let Some(Basis::MakingRoom { foretold }) = &mut self.basis {
            *foretold = true;
        }
        let reasons = self.conditions.iter().map(|condition| condition.sentence(now)).collect();
        Explanation { reasons, ..self }
    }
}

/// `nobody is ended for it: of 3 jobs there 2 may not be ended (--preempt) and 1 is too urgent (policy.preempt_gap)`.
pub(super) fn in_words(jobs: u32, nodes: u32, why: &[(Spared, u32)]) -> String {
    let there = if nodes == 1 { "there".to_owned() } else { format!("on {nodes} nodes") };
    let spared: u32 = why.iter().map(|(_, jobs)| jobs).sum();
    let mut words: Vec<String> =
        why.iter().map(|(why, jobs)| format!("{jobs} {}", why.words(*jobs))).collect();
    if spared < jobs {
        words.push("the others would not be enough".to_owned());
    }
    format!("nobody is ended for it: of {} {there} {}", count(jobs, "job"), listed(&words))
}
