//! Attempts on several nodes end part by part: the attempt is over when all parts are. What its script says counts for
//! the whole, unless another part failed before; whichever settles it, the other parts are ended.

use crate::id::{AttemptName, HostName};
use crate::job::AttemptEnd;
use crate::job::gang::Verdict;
use crate::job::state::{Cause, JobState, Outcome};
use crate::time::{Now, WallTime};

use super::attempt::counted_as;
use super::{Controller, Decision, Move};

/// The end of what an attempt had on one node.
pub(super) struct PartEnd {
    pub(super) node: HostName,
    pub(super) at: WallTime,
    pub(super) end: AttemptEnd,
}

impl Controller {
    /// What an attempt had on a node is over and proved empty.
    pub(super) fn part_ended(&mut self, now: Now, name: AttemptName, part: PartEnd, out: &mut Vec<Decision>) {
        let Some(attempt) = self.living(name, Cause::Ended, "end of a part", out) else { return };
        let first = attempt.allocation.node == part.node;
        if attempt.gang.is_none() && first {
            return self.attempt_over(now, name, part.at, part.end, out);
        }
        let (open, ending) = (attempt.open_part_on(&part.node).is_some(), attempt.ending.is_some());
        let counted = counted_as(part.end.clone(), attempt);
        let Some(gang) = attempt.gang.as_deref_mut().filter(|_| open) else {
            let why = format!("end of {name} on {}, where it has no living part", part.node);
            out.push(Decision::Ignored { job: Some(name.job), why });
            return;
        };
        gang.closed.push(part.node.clone());
        let settles = gang.verdict.is_none() && (first || counted.outcome != Outcome::Succeeded);
        if settles {
            let message = counted.message.clone();
            let message = if first { message } else { Some(on_node(&part.node, &counted)) };
            gang.verdict = Some(Verdict { at: part.at, end: AttemptEnd { message, ..counted } });
        }
        let (verdict, left) = (gang.verdict.clone(), gang.others.len() + 1 - gang.closed.len());
        self.give_back(&part.node, name);
        if settles && !ending && part.end.outcome == Outcome::LaunchFailed {
            let why = part.end.message.as_deref().unwrap_or_default();
            self.came_to_nothing(now, &part.node, name, why);
        }
        let PartEnd { node, at, end } = part;
        out.push(Decision::PartClosed { attempt: name, node: node.clone(), at, end });
        let Some(verdict) = verdict else { return };
        if left == 0 {
            return self.parts_over(now, name, at, verdict.end, out);
        }
        if settles {
            self.completes(now, name, &node, &verdict.end, out);
        }
        // Who was asked to end was asked on all nodes.
        if settles && !ending {
            let (outcome, message) = (verdict.end.outcome, format!("it has ended on {node}"));
            out.push(Decision::Terminate { attempt: name, outcome, message, warned: false });
        }
    }

    /// The whole is settled by what became of it on one node.
    fn completes(
        &mut self,
        now: Now,
        name: AttemptName,
        node: &HostName,
        end: &AttemptEnd,
        out: &mut Vec<Decision>,
    ) {
        let number = name.job.number;
        let Some(job) = self.job(number) else { return };
        // What never began is not completing: it goes back to those that wait.
        let begins = job.state == JobState::Starting && end.outcome == Outcome::LaunchFailed;
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
        let began = self.job(name.job.number).is_some_and(|job| job.state != JobState::Starting);
        match end.outcome {
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

/// What is said of the whole when a part settled it on which its script did not run.
fn on_node(node: &HostName, end: &AttemptEnd) -> String {
    match &end.message {
        Some(message) => format!("on {node}: {message}"),
        None => format!("on {node}: {}", end.outcome.word()),
    }
}
