//! Turns drops in the spool into jobs, with the same checks as requests on the socket. A refusal is told to the
//! spool, and kept for people who ask by the ticket.

use std::collections::BTreeMap;

use ax_core::api::{ApiError, ErrorClass, SubmitRequest};
use ax_core::config::Config;
use ax_core::id::{JobId, SubmissionKey, Uid};
use ax_sys::crash_point;

use super::{Engine, now};
use crate::log::{Level, Line};
use crate::people::{NoPerson, Person};
use crate::spool::{Arrival, Content, News, TakenId, Verdict};
use crate::submission::{self, Script};

/// Messages of the spool that are handled before other things have their turn.
const AT_ONCE: usize = 50;

/// Tickets that are remembered; the oldest are forgotten.
const MOST_TICKETS: usize = 10_000;

/// What is known of submissions in the spool that are no jobs (yet).
#[derive(Debug, Default)]
pub(super) struct Tickets {
    known: BTreeMap<SubmissionKey, (Uid, String)>,
}

impl Tickets {
    fn put(&mut self, key: SubmissionKey, uid: Uid, what: String) {
        self.known.insert(key, (uid, what));
        while self.known.len() > MOST_TICKETS {
            self.known.pop_first();
        }
    }

    fn forget(&mut self, key: SubmissionKey) {
        self.known.remove(&key);
    }

    /// The answer to a question about a ticket that is no job.
    pub(super) fn about(&self, key: SubmissionKey, person: &Person, config: &Config) -> String {
        let ticket = key.ticket();
        let known = self.known.get(&key).filter(|(uid, _)| *uid == person.uid || person.is_admin(config));
        match known {
            Some((_, what)) => format!("{ticket} {what}"),
            None => format!(
                "{ticket} was not taken yet, or was refused; see refused/{} in the spool and ax-spool(5)",
                person.uid
            ),
        }
    }
}

fn refused(error: impl Into<String>) -> ApiError {
    ApiError { class: ErrorClass::Refused, error: error.into() }
}

impl Engine {
    /// Takes in what the spool's thread tells.
    pub(super) fn on_spool(&mut self) {
        for _ in 0..AT_ONCE {
            match self.spool.next() {
                None => return,
                Some(News::Arrived(arrival)) => self.on_arrival(*arrival),
                Some(News::Refused { uid, key, name, why }) => self.drop_refused(uid, key, &name, why),
                Some(News::Said(level, line)) => self.log.line(level, &line),
            }
        }
        // There may be more: it follows after other things.
        let _ = self.waker.wake();
    }

    /// Makes a job of a drop, as soon as its user is known.
    pub(super) fn on_arrival(&mut self, arrival: Arrival) {
        let uid = submitter(&arrival);
        let (id, key, owner) = (arrival.id.clone(), arrival.key, arrival.uid);
        let name = arrival.name.clone();
        let taken = match self.clients.people.get(uid, now().boot).cloned() {
            None => {
                self.worker.look_up(uid);
                return self.clients.parked.drops.push((uid, arrival));
            }
            // As on the socket: root named a user who does not exist.
            Some(Err(why @ NoPerson::Unknown(_))) if uid != owner => Err(refused(why.to_string())),
            // A name service that is down may look like one that knows no such user: nothing is lost by waiting.
            Some(Err(why)) => Err(ApiError { class: ErrorClass::TryAgain, error: why.to_string() }),
            Some(Ok(person)) => self.try_take(arrival, &person),
        };
        match taken {
            Ok(job) => {
                self.tickets.forget(key);
                let line = Line::new("drop").text("job", &job).text("ticket", &key.ticket());
                self.log.line(Level::Info, &line.text("uid", &owner).text("name", &name));
                self.finish_drop_when_durable(id);
            }
            Err(ApiError { class: ErrorClass::TryAgain, error }) => {
                self.tickets.put(key, owner, format!("waits in the spool: {error}"));
                self.spool.verdict(id, Verdict::Later(error));
            }
            Err(ApiError { error, .. }) => {
                self.spool.verdict(id, Verdict::Refused(error.clone()));
                self.drop_refused(owner, key, &name, error);
            }
        }
    }

    fn try_take(&mut self, arrival: Arrival, person: &Person) -> Result<JobId, ApiError> {
        self.accepts()?;
        if let Some(known) = self.known_key(person.uid, arrival.key)? {
            return Ok(known);
        }
        let mut foreign = None;
        let (mut checked, test_only) = match arrival.content {
            Content::Script(body) => {
                let (key, script_name) = (Some(arrival.key), Some(arrival.name.clone()));
                let request = SubmitRequest { key, script_name, ..SubmitRequest::default() };
                let script = Script { name: arrival.name, body };
                (submission::check_script(request, script, person, &self.rules())?, false)
            }
            Content::Request(request) => {
                foreign = request.uid.filter(|uid| *uid != person.uid.0);
                let test_only = request.test_only;
                (self.check(*request, person)?, test_only)
            }
        };
        if test_only || checked.conduct.test_only {
            // No forecast: nobody waits for this answer.
            return Err(refused("--test-only: nothing was submitted; it would be taken".to_owned()));
        }
        let mut warnings = std::mem::take(&mut checked.warnings);
        warnings.extend(foreign.map(|uid| format!("--uid={uid} was ignored: only root submits for others")));
        checked.details.spooled = true;
        self.accept(checked, &warnings).map(|(_, job)| job)
    }

    fn drop_refused(&mut self, uid: Uid, key: SubmissionKey, name: &str, why: String) {
        if self.may_be_told(uid, name.len() + why.len()) {
            let line = Line::new("drop_refused").text("ticket", &key.ticket()).text("uid", &uid);
            self.log.line(Level::Warning, &line.text("name", &name).text("why", &why));
        }
        self.tickets.put(key, uid, format!("was refused: {why}"));
    }

    /// A drop's job is durable.
    pub(super) fn finish_drop(&mut self, id: TakenId) {
        crash_point!("drop committed");
        self.spool.verdict(id, Verdict::Committed);
    }
}

/// The user of the job: the drop's owner, or the user that root names.
fn submitter(arrival: &Arrival) -> Uid {
    match &arrival.content {
        Content::Request(request) if arrival.uid == Uid::ROOT => request.uid.map_or(Uid::ROOT, Uid),
        _ => arrival.uid,
    }
}
