//! Actions of users on any number of jobs: some jobs at a time, so that other requests have their turns in between.
//! The user gets one answer, when all is done and durable.

use std::collections::{BTreeSet, VecDeque};

use ax_core::api::{ActionAnswer, ActionRequest, ActionResult, ApiError, ErrorClass, JobsQuery};
use ax_core::controller::{Decision, Event, Wish};
use ax_core::id::{JobId, Uid};
use ax_core::job::{Actor, Job};

use super::requests::error;
use super::{Engine, now};
use crate::api::body::parse;
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::people::Person;
use crate::views;

/// Jobs that are acted on before other requests have their turn: a few milliseconds.
const AT_ONCE: usize = 250;

/// The client, the body of its request, and its user.
type Waiting = (ConnId, Vec<u8>, Person);

/// All actions that are not finished.
#[derive(Debug, Default)]
pub(super) struct Actions {
    /// At most one for each user; they take turns.
    under_way: VecDeque<Underway>,
    /// Later ones of those users, in the order in which they came.
    waiting: VecDeque<Waiting>,
}

impl Actions {
    /// True if there is something to go on with.
    pub(super) fn any(&self) -> bool {
        !self.under_way.is_empty() || !self.waiting.is_empty()
    }

    /// A client has gone: its actions that have not begun are dropped.
    pub(super) fn gone(&mut self, conn: ConnId) {
        self.waiting.retain(|(of, ..)| *of != conn);
    }

    fn is_busy(&self, uid: Uid) -> bool {
        self.under_way.iter().any(|each| each.person.uid == uid)
    }

    /// True if an action of this user is not finished.
    fn is_of(&self, uid: Uid) -> bool {
        self.is_busy(uid) || self.waiting.iter().any(|(_, _, person)| person.uid == uid)
    }

    /// Takes out the first whose user has none under way.
    fn next(&mut self) -> Option<Waiting> {
        let free = self.waiting.iter().position(|(_, _, person)| !self.is_busy(person.uid))?;
        self.waiting.remove(free)
    }
}

/// An action on its way.
#[derive(Debug)]
struct Underway {
    conn: ConnId,
    person: Person,
    actor: Actor,
    wish: Wish,
    why: Option<String>,
    targets: std::vec::IntoIter<Target>,
    /// The jobs that were acted on, so that a job that was named twice is acted on once.
    seen: BTreeSet<JobId>,
    results: Vec<ActionResult>,
}

/// A job that is meant.
#[derive(Debug)]
enum Target {
    /// As it was named.
    Named(String),
    /// A job of a selection.
    Selected(JobId),
}

impl Engine {
    /// Acts, or waits for the same user's earlier actions.
    pub(super) fn action(&mut self, request: &Request, conn: ConnId, person: &Person) {
        if self.clients.actions.is_of(person.uid) {
            self.clients.actions.waiting.push_back((conn, request.body.clone(), person.clone()));
        } else {
            self.start_action(&request.body, conn, person);
        }
    }

    fn start_action(&mut self, body: &[u8], conn: ConnId, person: &Person) {
        match self.begin_action(body, conn, person) {
            Ok(action) => self.go_on_with(action),
            Err(error) => self.answer_when_durable(conn, Response::error(&error)),
        }
    }

    fn begin_action(&self, body: &[u8], conn: ConnId, person: &Person) -> Result<Underway, ApiError> {
        self.accepts()?;
        let request: ActionRequest = parse(body)
            .map_err(|why| error(ErrorClass::Usage, format!("the request's body is no action: {why}")))?;
        let wish = self.wish(&request, person)?;
        let mut targets: Vec<Target> = request.jobs.into_iter().map(Target::Named).collect();
        if let Some(select) = &request.select {
            targets.extend(self.select(select, person)?.into_iter().map(Target::Selected));
        }
        Ok(Underway {
            conn,
            person: person.clone(),
            actor: person.actor(self.controller.config()),
            wish,
            why: request.why,
            targets: targets.into_iter(),
            seen: BTreeSet::new(),
            results: Vec::new(),
        })
    }

    /// The unfinished jobs that a selection means; for an ordinary user only their own.
    fn select(&self, select: &JobsQuery, person: &Person) -> Result<Vec<JobId>, ApiError> {
        if !select.is_of_some() {
            return Err(error(ErrorClass::Usage, "a selection needs at least one condition"));
        }
        let admin = person.is_admin(self.controller.config());
        // If they were left out silently, it would look as if there were none.
        if let Some(other) = select.user.iter().find(|user| !admin && **user != *person.name) {
            let text = format!(
                "only administrators choose jobs of others: {} is not you, {}",
                ax_core::text::quoted(other),
                person.name
            );
            return Err(error(ErrorClass::NoPermission, text));
        }
        let own = |job: &Job| admin || job.owner.uid == person.uid;
        let living = self.controller.jobs().filter(|j| !j.state.is_final());
        Ok(living.filter(|j| own(j) && views::fits(j, select)).map(|j| j.id).collect())
    }

    /// Goes on with the action whose turn it is, or begins a waiting one.
    pub(super) fn go_on_with_actions(&mut self) {
        let began = now().boot;
        let uid = if let Some((conn, body, person)) = self.clients.actions.next() {
            self.start_action(&body, conn, &person);
            person.uid
        } else if let Some(action) = self.clients.actions.under_way.pop_front() {
            let uid = action.person.uid;
            self.go_on_with(action);
            uid
        } else {
            return;
        };
        let ended = now().boot;
        self.clients.fairness.charge(uid, ended - began, ended);
    }

    fn go_on_with(&mut self, mut action: Underway) {
        let some: Vec<Target> = action.targets.by_ref().take(AT_ONCE).collect();
        for target in some {
            self.act_on(&mut action, target);
        }
        if action.targets.len() > 0 {
            self.clients.actions.under_way.push_back(action);
            return;
        }
        let answer = ActionAnswer { results: action.results };
        self.answer_when_durable(action.conn, Response::json(200, &answer));
    }

    fn act_on(&mut self, action: &mut Underway, target: Target) {
        let (name, found) = match target {
            Target::Named(name) => {
                let found = self.find_job(&name, &action.person);
                (name, found)
            }
            // A job that has ended meanwhile is no longer meant.
            Target::Selected(id) if self.controller.job(id.number).is_none_or(|j| j.state.is_final()) => {
                return;
            }
            Target::Selected(id) => (id.to_string(), Ok(id)),
        };
        let id = found.as_ref().ok().copied();
        if id.is_some_and(|id| !action.seen.insert(id)) {
            return;
        }
        let done = found.and_then(|job| {
            self.may_wish(action.person.uid, job, &action.wish)?;
            let (actor, wish, why) = (action.actor.clone(), action.wish.clone(), action.why.clone());
            let decisions = self.wished(Event::Wished { job, actor, wish, why })?;
            self.wished_for(action.person.uid, &decisions);
            said(job, &decisions)
        });
        let (done, error) = match done {
            Ok(done) => (Some(done), None),
            Err(error) => (None, Some(error)),
        };
        action.results.push(ActionResult { job: name, id, done, error });
    }
}

/// Told again within a few minutes, it is counted from then on and stands in the story as it was first told.
const TOLD_AGAIN: &str = "told that its work so far is safe, as it was told a short while ago";

/// What became of a wish, in words; or why it was refused.
fn said(job: JobId, decisions: &[Decision]) -> Result<String, ApiError> {
    let about_it = decisions.iter().find_map(|d| match d {
        Decision::Refused { class, why } => Some(Err(error(*class, why.clone()))),
        Decision::Ignored { why, .. } => Some(Err(error(ErrorClass::Refused, why.clone()))),
        Decision::Noted { job: of, what, .. } if *of == job => Some(Ok(what.clone())),
        Decision::Moved { job: of, why, .. } if *of == job => Some(Ok(why.clone())),
        Decision::Counted { attempt, .. } if attempt.job == job => Some(Ok(TOLD_AGAIN.to_owned())),
        _ => None,
    });
    about_it.unwrap_or_else(|| Ok("nothing changed".to_owned()))
}
