//! Attempts on several nodes end part by part: the attempt is over when all parts are. What its script says counts for
//! the whole, unless another part failed before; whichever settles it, the other parts are ended.

use crate::id::{AttemptName, HostName};
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Attempt, AttemptEnd, Job};
use crate::schedule::gang::fits_nowhere;
use crate::time::{Now, WallTime};

use super::attempt::counted_as;
use super::{Controller, Decision, Move};

/// What an attempt has on one node.
pub(super) struct Part {
    pub(super) attempt: AttemptName,
    pub(super) node: HostName,
}

/// How a part has ended.
pub(super) struct End {
    pub(super) end: AttemptEnd,
    /// Nothing began there and never will. A job that can't be started by its own fault ends as that instead.
    pub(super) never_began: bool,
}

impl End {
    /// By what is told of a part on which no script runs: that has no faults of the job's.
    pub(super) fn of_part(end: AttemptEnd) -> End {
        End { never_began: end.outcome == Outcome::LaunchFailed, end }
    }
}

impl Controller {
    /// Whether no node, or not enough of them, could hold the job even if all were empty.
    pub(super) fn fits_nowhere(&self, job: &Job) -> bool {
        let reserve = self.config.resources.gpu_reserve;
        let too_many = self.limits.too_small(job).is_some();
        too_many || fits_nowhere(&self.nodes, job, reserve)
    }

    /// What an attempt had on a node is over and proved empty.
    pub(super) fn part_ended(
        &mut self,
        now: Now,
        part: Part,
        at: WallTime,
        end: End,
        out: &mut Vec<Decision>,
    ) {
        let Part { attempt: name, node } = part;
        let Some(attempt) = self.living(name, Cause::Ended, "end of a part", out) else { return };
        if attempt.gang.is_none() && attempt.allocation.node == node {
            return self.attempt_over(now, name, at, end.end, out);
        }
        let asked = attempt.ending.is_some();
        let closed = close(attempt, &node, &end);
        let End { end, never_began } = end;
        let Some(Closed { settles, verdict, left }) = closed else {
            let why = format!("end of {name} on {node}, where it has no living part");
            out.push(Decision::Ignored { job: Some(name.job), why });
            return;
        };
        self.give_back(&node, name);
        if settles && !asked && never_began {
            let why = end.message.as_deref().unwrap_or_default();
            self.came_to_nothing(now, &node, name, why);
        }
        out.push(Decision::PartClosed { attempt: name, node: node.clone(), at, end });
        let Some(verdict) = verdict else { return };
        if left == 0 {
            return self.parts_over(now, name, at, verdict, out);
        }
        if settles {
            self.completes(now, name, &node, out);
        }
        // Who was asked to end was asked on all nodes.
        if settles && !asked {
            let (outcome, message) = (verdict.outcome, format!("it has ended on {node}"));
            out.push(Decision::Terminate { attempt: name, outcome, message, warned: false, at_once: false });
        }
    }

    /// The whole is settled by what became of it on one node.
    fn completes(&mut self, now: Now, name: AttemptName, node: &HostName, out: &mut Vec<Decision>) {
        let number = name.job.number;
        let Some(job) = self.job(number) else { return };
        // What never began is not completing: it goes back to those that wait.
        let begins = job.state == JobState::Starting && settled_before_it_began(job);
        if job.state != JobState::Completing && !begins {
            let why = format!("it has ended on {node}; its other parts are being ended");
            self.shift(now, number, Move::by_ax(Cause::Ending, JobState::Completing, &why), out);
        }
    }

    /// All parts of an attempt are over.
    fn parts_over(
        &mut self,
        now: Now,
        name: AttemptName,
        at: WallTime,
        end: AttemptEnd,
        out: &mut Vec<Decision>,
    ) {
        let job = self.job(name.job.number);
        let began = job.is_some_and(|job| job.state != JobState::Starting);
        match end.outcome {
            Outcome::LaunchFailed if !job.is_some_and(settled_before_it_began) => {
                self.attempt_over(now, name, at, end, out);
            }
            Outcome::LaunchFailed if !began => {
                self.nothing_began(now, name, &end.message.unwrap_or_default(), out);
            }
            // Its script ran, and had not all its nodes.
            Outcome::LaunchFailed => {
                let end = AttemptEnd { outcome: Outcome::LeaseLost, ..end };
                self.attempt_over(now, name, at, end, out);
            }
            _ => self.attempt_over(now, name, at, end, out),
        }
    }
}

/// Whether a part never began and never will, and nothing settled it before that.
fn settled_before_it_began(job: &Job) -> bool {
    let gang = job.attempt.as_deref().and_then(|attempt| attempt.gang.as_deref());
    gang.is_some_and(|gang| gang.never_began)
}

/// What the end of a part comes to.
struct Closed {
    /// It settles as what the whole counts.
    settles: bool,
    /// As what, once that is settled.
    verdict: Option<AttemptEnd>,
    /// So many parts are not over.
    left: usize,
}

/// Enters the end of a part; nothing if none lives on that node.
fn close(attempt: &mut Attempt, node: &HostName, End { end, never_began }: &End) -> Option<Closed> {
    attempt.open_part_on(node)?;
    let first = attempt.allocation.node == *node;
    let counted = counted_as(end.clone(), attempt);
    let gang = attempt.gang.as_deref_mut()?;
    gang.closed.push(node.clone());
    gang.card_peak = gang.card_peak.max(end.card_peak);
    let settles = gang.verdict.is_none() && (first || counted.outcome != Outcome::Succeeded);
    if settles {
        let message = if first { counted.message.clone() } else { Some(on_node(node, &counted)) };
        gang.never_began = *never_began && counted.outcome == Outcome::LaunchFailed;
        gang.verdict = Some(AttemptEnd { message, ..counted });
    }
    let verdict = gang.verdict.clone().map(|verdict| AttemptEnd { card_peak: gang.card_peak, ..verdict });
    let left = gang.others.len() + 1 - gang.closed.len();
    Some(Closed { settles, verdict, left })
}

/// What is said of the whole when a part settled it on which its script did not run.
fn on_node(node: &HostName, end: &AttemptEnd) -> String {
    match &end.message {
        Some(message) => format!("on {node}: {message}"),
        None => format!("on {node}: {}", end.outcome.word()),
    }
}
