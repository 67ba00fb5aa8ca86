//! Requests of clients: the routes, who may use them, and the changes that they ask for. The caller is the socket's
//! peer, as the kernel says; nothing in a request changes that.

use std::sync::Arc;

use ax_core::api::{ApiError, ErrorClass, SubmitAnswer, SubmitRequest};
use ax_core::controller::{Decision, Event};
use ax_core::id::{JobId, SubmissionKey, Uid};
use ax_core::time::BootTime;
use ax_sys::{clock, crash_point, random};

use super::actions::Actions;
use super::fairness::Fairness;
use super::parked::{Asker, Parked};
use super::{Engine, now};
use crate::api::body::parse;
use crate::api::http::{Method, Request, Response};
use crate::api::server::{ConnId, Incoming, Notice};
use crate::log::{Level, Line};
use crate::people::{NoPerson, People, Person};
use crate::store::NewParts;
use crate::submission::{self, Checked, Rules};
use crate::views::Question;

pub(super) fn error(class: ErrorClass, text: impl Into<String>) -> ApiError {
    ApiError { class, error: text.into() }
}

/// Those who ask for something, and what they wait for.
#[derive(Default)]
pub(super) struct Clients {
    /// Users, as the name service knows them.
    pub(super) people: People,
    /// What waits for something else than the disk.
    pub(super) parked: Parked,
    /// How much each user asks for.
    pub(super) fairness: Fairness,
    /// Questions that were asked since something last happened.
    pub(super) questions: Vec<Question>,
    /// What is to be done to many jobs.
    pub(super) actions: Actions,
}

/// The error if a person is unknown: final only if the name service says that there is no such user.
fn no_person(why: &NoPerson, if_unknown: ErrorClass) -> ApiError {
    let class = match why {
        NoPerson::Unknown(_) => if_unknown,
        NoPerson::CannotAsk(..) => ErrorClass::TryAgain,
    };
    error(class, why.to_string())
}

/// The result of a submission.
enum Submitted {
    /// A job, new or submitted before with the same key.
    As(u16, SubmitAnswer),
    /// A question, and whose job it would be.
    Only(Box<Checked>, Person),
}

/// The part of a submission that names the user for whom it is.
#[derive(serde::Deserialize)]
struct Subject {
    uid: Option<u32>,
}

impl Engine {
    pub(super) fn on_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Request(incoming) => self.on_request(incoming),
            Notice::Gone(conn) => {
                self.clients.parked.gone(conn);
                self.clients.fairness.gone(conn);
                self.clients.actions.gone(conn);
                self.self_checks.gone(conn);
            }
            Notice::AcceptFailed(error) => {
                self.log.line(Level::Error, &Line::new("accept").text("error", &error));
            }
        }
    }

    /// Answers a request, now or later: it waits if its user has used up the allowance.
    pub(super) fn on_request(&mut self, incoming: Incoming) {
        crash_point!("request read");
        let uid = Uid(incoming.peer.uid);
        if let Some(incoming) = self.clients.fairness.admit(uid, incoming, now().boot) {
            self.serve(incoming);
        }
    }

    /// Serves the requests whose users have waited long enough.
    pub(super) fn serve_late(&mut self, at: BootTime) {
        for incoming in self.clients.fairness.due(at) {
            self.serve(incoming);
        }
    }

    fn serve(&mut self, incoming: Incoming) {
        let (uid, began) = (Uid(incoming.peer.uid), now().boot);
        self.answer(incoming);
        let ended = now().boot;
        self.clients.fairness.charge(uid, ended - began, ended);
    }

    /// Answers a request; it waits if its user is not known yet.
    fn answer(&mut self, incoming: Incoming) {
        let uid = Uid(incoming.peer.uid);
        match self.clients.people.get(uid, now().boot).cloned() {
            None => {
                self.worker.look_up(uid);
                self.clients.parked.request(uid, incoming);
            }
            Some(Err(why)) => {
                let answer = no_person(&why, ErrorClass::NoPermission);
                self.respond(incoming.conn, &Response::error(&answer));
            }
            Some(Ok(person)) => match self.stranger(&incoming.request, &person) {
                Some(uid) => {
                    self.worker.look_up(uid);
                    self.clients.parked.request(uid, incoming);
                }
                None => self.route(&incoming.request, incoming.conn, &person),
            },
        }
    }

    /// The user for whom root submits, if the name service has to be asked about them first.
    fn stranger(&self, request: &Request, person: &Person) -> Option<Uid> {
        let submits = person.uid == Uid::ROOT && request.method == Method::Post;
        if !submits || request.path.trim_matches('/') != "api/v1/jobs" {
            return None;
        }
        // A body that is no submission is refused where it is read as one.
        let uid = Uid(serde_json::from_slice::<Subject>(&request.body).ok()?.uid?);
        self.clients.people.get(uid, now().boot).is_none().then_some(uid)
    }

    fn route(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let path: Vec<&str> = request.path.trim_matches('/').split('/').collect();
        let ["api", "v1", rest @ ..] = path.as_slice() else {
            return self.not_found(conn, &request.path);
        };
        match (request.method, rest) {
            (Method::Post, ["jobs"]) => self.submit(request, conn, person),
            (Method::Post, ["jobs", "action"]) => self.action(request, conn, person),
            (Method::Post, ["nodes", "action"]) => self.node_action(request, conn, person),
            (Method::Post, ["reload"]) => self.reload_asked(conn, person),
            (Method::Post, ["stop"]) => self.stop_asked(request, conn, person),
            (Method::Get, ["jobs", job]) => match self.find_job(job, person) {
                Ok(id) => {
                    let advised = request.values("advice").next().map(|_| person.clone());
                    self.tell(conn, id.number, Asker { uid: person.uid, advised });
                }
                Err(error) => self.respond(conn, &Response::error(&error)),
            },
            (Method::Get, ["jobs", job, "wait"]) => self.wait(request, conn, person, job),
            (Method::Get, ["diag"]) => self.diag(conn, person),
            (Method::Get, ["jobs"]) => self.list_jobs(request, conn, person),
            (Method::Get, ["jobs", job, "usage"]) => self.job_usage(job, conn, person),
            (Method::Get, ["cards", "history"]) => self.card_history(request, conn, person),
            (Method::Get, rest) => match self.query(rest, person) {
                Some(response) => self.respond(conn, &response),
                None => self.not_found(conn, &request.path),
            },
            _ => self.not_found(conn, &request.path),
        }
    }

    fn not_found(&mut self, conn: ConnId, path: &str) {
        let text = format!("there is no {path:?} here for this method");
        let mut response = Response::error(&error(ErrorClass::Usage, text));
        response.status = 404;
        self.respond(conn, &response);
    }

    // ---- submission ----

    fn submit(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let response = match self.try_submit(&request.body, person) {
            Ok(Submitted::As(status, answer)) => Response::json(status, &answer),
            Ok(Submitted::Only(checked, owner)) => {
                return self.foretell(person.uid, conn, *checked, &owner);
            }
            Err(error) => Response::error(&error),
        };
        self.answer_when_durable(conn, response);
    }

    fn try_submit(&mut self, bytes: &[u8], person: &Person) -> Result<Submitted, ApiError> {
        self.accepts()?;
        let request: SubmitRequest = parse(bytes)
            .map_err(|why| error(ErrorClass::Usage, format!("the request's body is no submission: {why}")))?;
        let person = self.on_behalf(&request, person)?;
        let key = match request.key {
            Some(key) => key,
            None => new_key()?,
        };
        if let Some(known) = self.known_key(person.uid, key)? {
            return Ok(Submitted::As(200, accepted(known, Vec::new(), Vec::new())));
        }
        let test_only = request.test_only;
        let mut checked = self.check(SubmitRequest { key: Some(key), ..request }, &person)?;
        if test_only || checked.conduct.test_only {
            return Ok(Submitted::Only(Box::new(checked), person));
        }
        let (warnings, understood) =
            (std::mem::take(&mut checked.warnings), std::mem::take(&mut checked.understood));
        self.accept(checked, &warnings)
            .map(|(status, id)| Submitted::As(status, accepted(id, understood, warnings)))
    }

    /// Gives a checked submission to the controller.
    pub(super) fn accept(&mut self, checked: Checked, warnings: &[String]) -> Result<(u16, JobId), ApiError> {
        self.accepts()?;
        let mut details = checked.details;
        details.warnings = warnings.to_vec();
        let parts = NewParts {
            details,
            script: Arc::from(checked.script),
            environment: Arc::new(checked.environment),
        };
        let uid = checked.submission.owner.uid;
        let footprint = self.has_room(uid, &parts)?;
        let decisions = self.step_with(Event::Submitted(Box::new(checked.submission)), Some(parts));
        decisions
            .into_iter()
            .find_map(|decision| match decision {
                Decision::Accepted { job, .. } => {
                    self.store(job.number, uid, footprint);
                    Some(Ok((201, job)))
                }
                Decision::AlreadyKnown { job, .. } => Some(Ok((200, job))),
                Decision::Refused { class, why } => Some(Err(error(class, why))),
                _ => None,
            })
            .unwrap_or_else(|| Err(error(ErrorClass::TryAgain, "nothing was decided about this submission")))
    }

    /// The owner of the job: the caller, or the user that root names with `--uid`.
    fn on_behalf(&mut self, request: &SubmitRequest, person: &Person) -> Result<Person, ApiError> {
        let Some(uid) = request.uid.map(Uid).filter(|uid| *uid != person.uid) else {
            return Ok(person.clone());
        };
        if person.uid != Uid::ROOT {
            let text = format!("only root submits for others; you are {}", person.name);
            return Err(error(ErrorClass::NoPermission, text));
        }
        match self.clients.people.get(uid, now().boot) {
            Some(known) => known.clone().map_err(|why| no_person(&why, ErrorClass::Refused)),
            // Such requests are parked before they come here; the answer may have expired just now.
            None => Err(error(ErrorClass::TryAgain, format!("user {uid} is being looked up; ask again"))),
        }
    }

    /// The job that a key became, from memory or the accounts.
    pub(super) fn known_key(&self, uid: Uid, key: SubmissionKey) -> Result<Option<JobId>, ApiError> {
        if let Some(id) = self.controller.job_of_key(uid, key) {
            return Ok(Some(id));
        }
        let stored = self.reader.by_key(uid, key);
        stored.map_err(|e| error(ErrorClass::TryAgain, e.to_string()))
    }

    pub(super) fn check(&self, request: SubmitRequest, person: &Person) -> Result<Checked, ApiError> {
        submission::check(request, person, &self.rules())
    }

    /// The rules that submissions are checked against.
    pub(super) fn rules(&self) -> Rules<'_> {
        Rules {
            config: self.controller.config(),
            nodes: self.controller.nodes().collect(),
            calendar: &self.calendar,
            now: now().wall,
        }
    }

    // ---- waiting ----

    fn wait(&mut self, request: &Request, conn: ConnId, person: &Person, job: &str) {
        let seconds = request.values("timeout_s").next().and_then(|t| t.parse().ok()).unwrap_or(60);
        match self.find_job(job, person) {
            Err(error) => self.respond(conn, &Response::error(&error)),
            Ok(id) => {
                let living = self.controller.job(id.number).is_some_and(|j| !j.state.is_final());
                if living {
                    self.clients.parked.waiter(conn, id.number, person.uid, Engine::wait_until(seconds));
                } else {
                    self.tell(conn, id.number, Asker { uid: person.uid, advised: None });
                }
            }
        }
    }
}

fn accepted(id: JobId, understood: Vec<String>, warnings: Vec<String>) -> SubmitAnswer {
    SubmitAnswer {
        id: Some(id),
        number: Some(id.number.0),
        understood,
        warnings,
        forecast: None,
        foretold: None,
    }
}

/// For requests without a key: they can't be repeated safely, which is the caller's choice.
fn new_key() -> Result<SubmissionKey, ApiError> {
    let chance = random::bytes().map_err(|e| error(ErrorClass::TryAgain, e.to_string()))?;
    Ok(SubmissionKey::new(u64::try_from(clock::wall_ms()).unwrap_or(0), chance))
}
