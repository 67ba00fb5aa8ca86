//! Carries out durable decisions: ends and signals attempts, cleans up after them. Also takes in what supervisors
//! report of them.

use ax_core::controller::{Decision, Event};
use ax_core::id::{AttemptName, JobId};
use ax_core::job::AttemptEnd;
use ax_core::job::state::{JobState, Outcome};
use ax_core::record::{AttemptResult, Report, Request};
use ax_sys::crash_point;

use super::launches::Launch;
use super::{Engine, now};
use crate::log::{Level, Line};
use crate::settle::{SettleError, Settled};
use crate::store::Usage;
use crate::worker::Task;

impl Engine {
    pub(super) fn act(&mut self, decision: Decision) {
        match decision {
            Decision::Launch { attempt, number, allocation, .. } => {
                crash_point!("decision committed");
                if let Some(cards) = self.gpu.cards.as_mut().filter(|_| !allocation.cards.is_empty()) {
                    cards.set_busy(true, now().boot);
                }
                self.launch(Launch { attempt, number, allocation });
            }
            Decision::Terminate { attempt, outcome, message, warned, at_once } => {
                crash_point!("end asked");
                self.terminate(attempt, Request::Terminate { outcome, message, at_once, warned });
            }
            Decision::Signal { attempt, signal } => {
                self.ask(attempt, Request::Signal { signal, batch_only: false });
            }
            Decision::Limit { attempt, limit } => {
                crash_point!("limit committed");
                self.ask(attempt, Request::Limit { limit });
            }
            Decision::Closed { attempt, .. } => {
                crash_point!("end committed");
                self.clean_up(attempt);
            }
            Decision::Moved { job, to, .. } if to.is_final() => self.on_job_over(job),
            Decision::Moved { .. }
            | Decision::Noted { .. }
            | Decision::Counted { .. }
            | Decision::PartClosed { .. }
            | Decision::Accepted { .. }
            | Decision::AlreadyKnown { .. }
            | Decision::Refused { .. }
            | Decision::CardMoved { .. }
            | Decision::NodeMoved { .. }
            | Decision::Ignored { .. } => {}
        }
    }

    fn on_job_over(&mut self, job: JobId) {
        self.row_data.parts.remove(&job.number);
        self.answer_waiters(job);
    }

    fn terminate(&mut self, attempt: AttemptName, request: Request) {
        // It is not launched yet, and now never will be.
        if let Request::Terminate { message, .. } = &request
            && self.take_back(attempt)
        {
            self.happened(Event::NeverStarted { attempt, why: message.clone() });
            return;
        }
        self.ask(attempt, request);
    }

    /// Asks something of a supervisor, unless its attempt has ended before what was decided was durable.
    fn ask(&mut self, attempt: AttemptName, request: Request) {
        if self.is_living(attempt) {
            self.supervision.attempts.ask(&self.poller, attempt, request);
        }
    }

    /// Takes in a supervisor's report.
    pub(super) fn on_report(&mut self, attempt: AttemptName, report: Report) {
        match report {
            Report::Started(started) if started.attempt == attempt => {
                // An adopted supervisor repeats it.
                if self.state_of(attempt).is_none_or(|state| state == JobState::Starting) {
                    self.happened(Event::AttemptStarted { attempt, at: started.started_at });
                }
            }
            Report::Ending { attempt: named } if named == attempt => {
                if self.state_of(attempt) != Some(JobState::Completing) {
                    self.happened(Event::AttemptEnding { attempt });
                }
            }
            Report::Result(result) if result.attempt == attempt => self.on_result(result),
            Report::Refused { error } => {
                let line = Line::new("supervisor_refused").text("attempt", &attempt).text("error", &error);
                self.log.line(Level::Warning, &line);
                if self.supervision.attempts.was_refused(attempt, now().boot) {
                    let text = format!("its supervisor has not taken its new time limit: {error}");
                    self.note(attempt.job.number, text);
                }
            }
            Report::Started(_) | Report::Ending { .. } | Report::Result(_) => {
                self.log.line(Level::Warning, &Line::new("foreign_report").text("attempt", &attempt));
            }
            Report::Frozen { .. } | Report::Done => {}
        }
    }

    /// The end of an attempt, as its supervisor or its record says.
    fn on_result(&mut self, result: AttemptResult) {
        let attempt = result.attempt;
        if result.never_started {
            let why = result.message.unwrap_or_else(|| "its supervisor could not start it".to_owned());
            // The groups may have been removed by others.
            self.supervision.launcher.renew_groups();
            if result.limit_refused {
                self.limit_refused(attempt, &why);
            }
            return self.not_started(attempt, why);
        }
        let state = self.state_of(attempt);
        // A short job's start and end may come together, or the start may have been missed.
        if let (Some(JobState::Starting), Some(at)) = (state, result.started_at) {
            self.happened(Event::AttemptStarted { attempt, at });
        }
        if !self.waits_for_cards(&result) {
            self.attempt_over(result);
        }
    }

    /// The attempt is over, and has left its cards.
    pub(super) fn attempt_over(&mut self, result: AttemptResult) {
        let attempt = result.attempt;
        // Ignore a repeated result: no end follows that would consume the usage entry, and it would leak.
        if self.is_living(attempt) {
            let max_gpu_mem = self.gpu.ledger.peak(attempt);
            let usage = Usage { cpu_us: result.cpu_us, max_ram: result.max_ram, max_gpu_mem };
            self.row_data.usage.insert(attempt, usage);
            self.may_become_spare(&result);
        }
        let end = AttemptEnd {
            outcome: result.outcome,
            exit_code: result.exit_code,
            signal: result.signal,
            message: result.message,
            card_peak: self.gpu.ledger.peak(attempt),
        };
        self.happened(Event::AttemptEnded { attempt, at: result.ended_at, end });
    }

    /// Has it found out what became of an attempt, unless that is known or under way.
    pub(super) fn settle(&mut self, attempt: AttemptName) {
        if self.is_living(attempt) && self.supervision.settling.insert(attempt) {
            self.worker.start_task(Task::Settle(attempt));
        }
    }

    pub(super) fn state_of(&self, attempt: AttemptName) -> Option<JobState> {
        self.controller.job(attempt.job.number).map(|job| job.state)
    }

    pub(super) fn is_living(&self, attempt: AttemptName) -> bool {
        let job = self.controller.job(attempt.job.number).filter(|job| job.state.is_active());
        let own = job.and_then(|job| job.attempt.as_ref());
        own.is_some_and(|own| own.name == attempt && own.end.is_none())
    }

    /// What was found out about an attempt whose supervisor did not report.
    pub(super) fn on_settled(&mut self, attempt: AttemptName, answer: Result<Settled, SettleError>) {
        self.supervision.settling.remove(&attempt);
        self.clean_up_settled(attempt);
        let now = now().boot;
        match answer {
            Err(error) => {
                self.log
                    .line(Level::Error, &Line::new("settle").text("attempt", &attempt).text("error", &error));
                self.supervision.attempts.look_again(attempt, now);
            }
            Ok(Settled::Alive(None)) => self.supervision.attempts.look_again(attempt, now),
            Ok(Settled::Alive(Some(started))) => {
                self.recall_limits(&started);
                match self.supervision.attempts.adopt(&self.poller, &self.paths, &started, now) {
                    Ok(true) => self.repeat_limit(attempt),
                    // It has ended meanwhile.
                    Ok(false) => self.supervision.attempts.look_again(attempt, now),
                    Err(error) => {
                        let line = Line::new("adopt").text("attempt", &attempt).text("error", &error);
                        self.log.line(Level::Error, &line);
                        self.supervision.attempts.look_again(attempt, now);
                    }
                }
            }
            Ok(Settled::Over(result)) => {
                self.supervision.attempts.forget(attempt);
                self.on_result(*result);
            }
            Ok(Settled::NeverStarted(why)) => {
                self.supervision.attempts.forget(attempt);
                self.never_started(attempt, why);
            }
        }
    }

    /// Looks at an attempt again: what became of its supervisor, or whether that takes now what it has refused.
    pub(super) fn look_at(&mut self, attempt: AttemptName) {
        if self.supervision.attempts.has_refused_limit(attempt) {
            self.repeat_limit(attempt);
        } else {
            self.settle(attempt);
        }
    }

    /// A limit that was changed may not have reached a supervisor that is met again: it is told once more. Not one that is
    /// not durable yet: as soon as it is, it is told anyway.
    fn repeat_limit(&mut self, attempt: AttemptName) {
        if self.is_unsettled(attempt.job.number) || self.supervision.attempts.knows_no_limits(attempt) {
            return;
        }
        let job = self.controller.job(attempt.job.number);
        let job = job.filter(|job| job.state != JobState::Completing);
        let own = job.and_then(|job| job.attempt.as_ref());
        if own.is_some_and(|own| own.name == attempt && own.relimited && own.ending.is_none()) {
            let limit = self.controller.running_limit(attempt.job.number);
            self.ask(attempt, Request::Limit { limit });
        }
    }

    /// Nothing of the attempt is on this node. If it is known to have run, either its traces were removed or an older
    /// database was put back: how it ended can't be said.
    fn never_started(&mut self, attempt: AttemptName, why: String) {
        if self.state_of(attempt).is_none_or(|state| state == JobState::Starting) {
            return self.happened(Event::NeverStarted { attempt, why });
        }
        let end = AttemptEnd {
            outcome: Outcome::LeaseLost,
            exit_code: None,
            signal: None,
            message: Some("it ran, and its records are gone".to_owned()),
            card_peak: None,
        };
        self.happened(Event::AttemptEnded { attempt, at: now().wall, end });
    }
}
