//! Stopping when an administrator asks for it: at once, jobs go on; or, if asked to, once every attempt was ended and
//! its end is durable. Waiting jobs were promised to run: they stay, and wait for the next daemon.

use ax_core::api::{ApiError, ErrorClass, StopAnswer, StopRequest};
use ax_core::config::QueueState;
use ax_core::controller::{Event, Wish};
use ax_core::id::JobId;

use super::Engine;
use crate::api::body::parse;
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::log::{Level, Line};
use crate::people::Person;

/// How near the daemon is to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nobody has asked it to stop.
    Serving,
    /// It stops as soon as that is answered. Jobs go on.
    Leaving,
    /// It stops once every attempt was ended and its end is durable.
    EndingJobs,
    /// This turn of the loop is the last.
    Stopping,
}

impl Phase {
    /// After an administrator has asked for a stop. What was promised before holds.
    fn asked_to_stop(self, with_jobs: bool) -> Phase {
        match self {
            Phase::Serving | Phase::Leaving if with_jobs => Phase::EndingJobs,
            Phase::Serving => Phase::Leaving,
            other => other,
        }
    }
}

impl Engine {
    /// Answers, and stops behind the answer.
    pub(super) fn stop_asked(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let response = match self.try_stop(request, person) {
            Ok(answer) => Response::json(200, &answer),
            Err(error) => Response::error(&error),
        };
        // Waiting for a disk that is full would keep the daemon from being stopped.
        match self.phase {
            Phase::EndingJobs => self.answer_when_durable(conn, response),
            Phase::Serving | Phase::Leaving | Phase::Stopping => self.respond(conn, &response),
        }
    }

    fn try_stop(&mut self, request: &Request, person: &Person) -> Result<StopAnswer, ApiError> {
        if !person.is_admin(self.controller.config()) {
            let error = format!("only administrators stop the daemon; you are {}", person.name);
            return Err(ApiError { class: ErrorClass::NoPermission, error });
        }
        let asked: StopRequest = parse(&request.body).map_err(|why| ApiError {
            class: ErrorClass::Usage,
            error: format!("the request's body does not say how to stop: {why}"),
        })?;
        let ending = if asked.jobs { self.end_attempts(person)? } else { Vec::new() };
        self.log
            .line(Level::Info, &Line::new("stop").text("by", &person.name).text("ends_jobs", &asked.jobs));
        self.phase = self.phase.asked_to_stop(asked.jobs);
        Ok(StopAnswer { pid: std::process::id(), ending })
    }

    /// Starts nothing any more and ends what runs. To the controller that is another configuration, and so it is
    /// recorded for replays: what it decides from here on follows from it. The file is not touched, and holds again for the
    /// next daemon.
    fn end_attempts(&mut self, person: &Person) -> Result<Vec<JobId>, ApiError> {
        self.accepts()?;
        let mut config = self.controller.config().clone();
        for queue in &mut config.queues {
            queue.state = QueueState::Stopped;
        }
        let actor = person.actor(&config);
        self.step(Event::ConfigLoaded(Box::new(config)));
        let active: Vec<JobId> = self.controller.active_jobs().map(|job| job.id).collect();
        for job in &active {
            let why = Some("the daemon is being stopped, and its jobs with it".to_owned());
            self.step(Event::Wished { job: *job, actor: actor.clone(), wish: Wish::Cancel, why });
        }
        Ok(active)
    }

    /// Whether nothing is left to be waited for before the end.
    pub(super) fn stop_if_done(&mut self) {
        let active = || self.controller.active_jobs().next().is_some();
        match self.phase {
            Phase::Serving | Phase::Stopping => {}
            Phase::EndingJobs if self.commits_wait() || active() => {}
            Phase::EndingJobs | Phase::Leaving => self.phase = Phase::Stopping,
        }
    }
}
