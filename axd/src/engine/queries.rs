//! Reads: jobs, nodes, cards, the daemon itself. From memory as far as it
//! holds them, from the accounts otherwise. Nothing is changed here.

use ax_core::advice::Advice;
use ax_core::api::{ApiError, DaemonView, ErrorClass, JobView, JobsAnswer, JobsQuery, NodeShow, NodeView};
use ax_core::config::Queue;
use ax_core::controller::Controller;
use ax_core::explain::Explanation;
use ax_core::id::{JobId, JobNumber, SubmissionKey, Uid};
use ax_core::job::Job;
use ax_core::node::{Card, Node};
use ax_core::size::Megabytes;
use ax_core::text::{count, quoted};
use ax_core::time::WallTime;

use super::{Engine, now};
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::cards::Cards;
use crate::people::Person;
use crate::store::{StoreError, view};
use crate::submission::may_use;
use crate::worker::Listing;

fn refused(text: String) -> ApiError {
    ApiError { class: ErrorClass::Refused, error: text }
}

/// Whether a job in memory is among those that a query means.
pub(super) fn fits(job: &Job, query: &JobsQuery) -> bool {
    let any = |list: &[String], value: &str| list.is_empty() || list.iter().any(|each| each == value);
    let state = match query.state.is_empty() {
        true => query.all || !job.state.is_final(),
        false => query.state.contains(&job.state),
    };
    let after = query.since.is_none_or(|since| job.submitted_at >= since);
    let before = query.until.is_none_or(|until| job.submitted_at < until);
    let named = any(&query.user, &job.owner.name) && any(&query.name, &job.name);
    state && after && before && named && any(&query.queue, job.queue.as_str())
}

/// Reads `user=…&state=…`: names may repeat, unknown ones are refused.
fn jobs_query(request: &Request) -> Result<JobsQuery, ApiError> {
    let mut query = JobsQuery::default();
    let bad = |name: &str, value: &str| ApiError {
        class: ErrorClass::Usage,
        error: format!("query '{name}': {} is no value for it", quoted(value)),
    };
    for (name, value) in &request.query {
        let flag = || matches!(value.as_str(), "" | "1" | "true");
        match name.as_str() {
            "user" => query.user.push(value.clone()),
            "queue" => query.queue.push(value.clone()),
            "name" => query.name.push(value.clone()),
            "state" => query.state.push(value.parse().map_err(|_| bad(name, value))?),
            "all" => query.all = flag(),
            "finished" => query.finished = flag(),
            "since" => query.since = Some(value.parse().map_err(|_| bad(name, value))?),
            "until" => query.until = Some(value.parse().map_err(|_| bad(name, value))?),
            "limit" => query.limit = Some(value.parse().map_err(|_| bad(name, value))?),
            _ => {
                let error = format!("there is no query {} here", quoted(name));
                return Err(ApiError { class: ErrorClass::Usage, error });
            }
        }
    }
    Ok(query)
}

/// What is asked of the accounts beside the jobs in memory: those that ended lately (`all`), or
/// as the query says. Never more than an answer can carry.
fn of_accounts(mut query: JobsQuery, in_memory: usize) -> JobsQuery {
    const LATELY: i64 = 300_000;
    const MOST: u32 = 100_000;
    let has = u32::try_from(in_memory).unwrap_or(u32::MAX);
    query.limit = Some(query.limit.unwrap_or(MOST).min(MOST).saturating_sub(has));
    if !query.finished {
        query.since = Some(query.since.unwrap_or_default().max(WallTime(now().wall.0 - LATELY)));
        query.state.retain(|s| s.is_final());
    }
    query
}

fn explained(job: &Job, told: Explanation) -> JobView {
    let mut view = view::of_job(job);
    if let Some(first) = told.reasons.first() {
        view.reason = Some(first.clone());
    }
    view.reasons = told.reasons;
    view.conditions = told.conditions;
    view.expected_start = told.expected_start;
    view.expected_basis = told.basis.map(|basis| basis.words());
    view
}

impl Engine {
    /// Answers a read; `None` if there is no such thing.
    pub(super) fn query(&self, path: &[&str], person: &Person) -> Option<Response> {
        let answer = match path {
            ["jobs", job, "why"] => self.why(job, person),
            ["nodes", node] => self.show_node(node, person),
            ["nodes"] => Ok(Response::json(200, &self.nodes(person))),
            ["cards"] => Ok(Response::json(200, &self.cards(person))),
            ["diag"] => self.diag(person).map(|view| Response::json(200, &view)),
            ["status"] => Ok(Response::json(200, &self.daemon())),
            _ => return None,
        };
        Some(answer.unwrap_or_else(|error| Response::error(&error)))
    }

    /// The job that somebody means by an id, a number or a ticket.
    pub(super) fn find_job(&self, text: &str, person: &Person) -> Result<JobId, ApiError> {
        let unknown = || refused(format!("there is no job {}", quoted(text)));
        let unknown_or_gone = |number| self.forgotten(number, text).unwrap_or_else(unknown);
        let read = |e: StoreError| ApiError { class: ErrorClass::TryAgain, error: e.to_string() };
        if let Some(key) = text.strip_prefix("spool-").and_then(|key| key.parse::<SubmissionKey>().ok()) {
            if let Some(id) = self.known_key(person.uid, key)? {
                return Ok(id);
            }
            let others = self.reader.by_ticket(key).map_err(read)?;
            return match others.iter().find(|(id, _)| self.may_see(*id, person)) {
                Some((id, _)) => Ok(*id),
                None => Err(refused(self.tickets.about(key, person, self.controller.config()))),
            };
        }
        let (number, id) = match (text.parse::<JobId>(), text.parse::<u32>()) {
            (Ok(id), _) => (id.number, Some(id)),
            (_, Ok(number)) => (JobNumber(number), None),
            _ => {
                return Err(refused(format!("{} is no job: ids look like ax-2026-0001, or 1", quoted(text))));
            }
        };
        let found = match self.controller.job(number) {
            Some(job) => Some(job.id),
            None => self.reader.by_number(number).map_err(read)?,
        };
        let found = found.filter(|found| id.is_none_or(|id| id == *found));
        let found = found.ok_or_else(|| unknown_or_gone(number))?;
        match self.may_see(found, person) {
            true => Ok(found),
            false => Err(unknown()),
        }
    }

    /// What is said of a number that was given, and is in the accounts no more. Where jobs are private, nobody learns
    /// which numbers were.
    fn forgotten(&self, number: JobNumber, text: &str) -> Option<ApiError> {
        let config = self.controller.config();
        let keep = config.accounting.keep.filter(|_| !config.cluster.private_jobs)?;
        let given = number.0 > 0 && number < self.controller.next_number();
        given.then(|| {
            let text = quoted(text);
            refused(format!(
                "there is no job {text}; the accounts keep finished jobs for {keep} (accounting.keep)"
            ))
        })
    }

    /// Everybody sees all jobs, unless the cluster keeps them private.
    pub(super) fn may_see(&self, id: JobId, person: &Person) -> bool {
        if !self.controller.config().cluster.private_jobs || person.is_admin(self.controller.config()) {
            return true;
        }
        let owner = match self.controller.job(id.number) {
            Some(job) => Some(job.owner.uid),
            None => self.reader.job(id.number).ok().flatten().map(|job| job.owner.uid),
        };
        owner == Some(person.uid)
    }

    /// Lists jobs: at once what is in memory, a little later what has to come out of the accounts.
    pub(super) fn list_jobs(&mut self, request: &Request, conn: ConnId, person: &Person) {
        match self.begin_list(request, conn, person) {
            Ok(None) => {}
            Ok(Some(answer)) => self.respond(conn, &Response::json(200, &answer)),
            Err(error) => self.respond(conn, &Response::error(&error)),
        }
    }

    /// The whole list, or nothing where the accounts have to be asked first.
    fn begin_list(
        &mut self,
        request: &Request,
        conn: ConnId,
        person: &Person,
    ) -> Result<Option<JobsAnswer>, ApiError> {
        let Some(query) = self.allowed(jobs_query(request)?, person) else {
            return Ok(Some(JobsAnswer::default()));
        };
        let mut answer = if query.finished { JobsAnswer::default() } else { self.living(&query) };
        for (job, expected) in answer.jobs.iter().filter_map(|job| Some((job.id.number, job.expected_start?)))
        {
            self.measures.forecasts.told(job, expected);
        }
        answer.warnings = self.warnings_of(&query, person);
        if !query.finished && !query.all && !query.state.iter().any(|s| s.is_final()) {
            return Ok(Some(answer));
        }
        let query = of_accounts(query, answer.jobs.len());
        self.worker.admit_list(person.uid)?;
        self.list_when_durable(Listing { uid: person.uid, conn, answer, query });
        Ok(None)
    }

    /// What somebody who asks for this list should know: it may be empty for another reason than they think.
    fn warnings_of(&self, query: &JobsQuery, person: &Person) -> Vec<String> {
        let config = self.controller.config();
        let unknown = query.queue.iter().filter(|queue| config.queue(queue).is_none());
        let mut warnings: Vec<String> = unknown.map(|queue| config.unknown_queue(queue)).collect();
        let sees_all = !config.cluster.private_jobs || person.is_admin(config);
        if sees_all && !query.finished && !self.set_aside.is_empty() {
            let what = count(self.set_aside.len() as u64, "job");
            let ids: Vec<&str> = self.set_aside.iter().take(3).map(|(id, _)| id.as_str()).collect();
            let more = if self.set_aside.len() > ids.len() { ", …" } else { "" };
            warnings.push(format!(
                "{what} can't be read, and nothing is done about it: {}{more}; 'axctl db check' says why",
                ids.join(", ")
            ));
        }
        warnings
    }

    /// In a cluster that keeps jobs private, everybody sees their own; `None`: only others were asked for.
    fn allowed(&self, mut query: JobsQuery, person: &Person) -> Option<JobsQuery> {
        if self.controller.config().cluster.private_jobs && !person.is_admin(self.controller.config()) {
            let own = person.name.to_string();
            if !query.user.is_empty() && !query.user.contains(&own) {
                return None;
            }
            query.user = vec![own];
        }
        Some(query)
    }

    /// Running jobs, then waiting ones in their order.
    fn living(&self, query: &JobsQuery) -> JobsAnswer {
        let limit = query.limit.map_or(usize::MAX, |l| l as usize);
        let mut answer = JobsAnswer::default();
        let waits = |job: &&Job| job.state.is_waiting();
        let chosen = |job: &&Job| !job.state.is_final() && fits(job, query);
        for job in self.controller.jobs().filter(chosen).filter(|j| !waits(j)) {
            if answer.jobs.len() < limit {
                answer.jobs.push(view::of_job(job));
            } else {
                answer.left_out += 1;
            }
        }
        for (job, told) in self.controller.explain_waiting(now()) {
            if answer.jobs.len() >= limit {
                break;
            }
            if fits(job, query) {
                answer.jobs.push(explained(job, told));
            }
        }
        let all = self.controller.jobs().filter(chosen).count();
        answer.left_out = all.saturating_sub(answer.jobs.len()) as u64;
        answer
    }

    /// Everything about a job; with advice for somebody who asks for it.
    pub(super) fn show_job(&mut self, number: JobNumber, advised: Option<&Person>) -> Response {
        let stored = self.reader.view(number, now().wall);
        let living = self.controller.job(number);
        let view = match (stored, living) {
            (Ok(Some(view)), None) => view,
            (Ok(stored), Some(job)) => {
                let told = self.controller.explain(now(), number);
                if let Some(expected) = told.expected_start {
                    self.measures.forecasts.told(number, expected);
                }
                let mut view = explained(job, told);
                view.advice = advised.and_then(|person| self.advise(&self.controller, job, person));
                if let Some(stored) = stored {
                    take_stored(&mut view, stored);
                }
                tell_idle(&mut view, job);
                view
            }
            (Ok(None), None) => return Response::error(&refused(format!("there is no job {number}"))),
            (Err(error @ StoreError::Content { .. }), None) => {
                return Response::error(&refused(error.to_string()));
            }
            (Err(error), _) => {
                return Response::error(&ApiError { class: ErrorClass::TryAgain, error: error.to_string() });
            }
        };
        Response::json(200, &view)
    }

    /// What a job could ask for instead to start at once, of what its owner may have.
    pub(super) fn advise(&self, controller: &Controller, job: &Job, person: &Person) -> Option<Advice> {
        let may_use = |queue: &Queue| match person.uid == job.owner.uid {
            true => may_use(queue, person).is_ok(),
            // Of whose groups nothing is known here.
            false => {
                let open = queue.users.is_empty() && queue.groups.is_empty();
                open || job.owner.uid == Uid::ROOT || queue.users.iter().any(|user| **user == *job.owner.name)
            }
        };
        controller.advise(now(), job.id.number, &may_use)
    }

    fn why(&self, job: &str, person: &Person) -> Result<Response, ApiError> {
        let id = self.find_job(job, person)?;
        let stored = self.reader.view(id.number, now().wall);
        let stored = stored.map_err(|e| ApiError { class: ErrorClass::TryAgain, error: e.to_string() })?;
        Ok(Response::json(200, &stored.map(|view| view.decisions).unwrap_or_default()))
    }

    fn nodes(&self, person: &Person) -> Vec<NodeView> {
        let mut views: Vec<NodeView> = self.controller.nodes().map(|node| self.node(node, person)).collect();
        let here = |host: &str| views.iter().any(|v| v.name == host);
        let config = self.controller.config();
        let absent: Vec<NodeView> = config
            .resources
            .gpu_nodes
            .iter()
            .filter(|declared| !here(declared.host.as_str()))
            .map(|declared| NodeView {
                name: declared.host.to_string(),
                state: "never registered".to_owned(),
                reason: Some("it is declared, and no daemon of that name has ever come".to_owned()),
                cpus: 0,
                cpus_used: 0,
                ram_mb: 0,
                ram_used_mb: 0,
                gpus: declared.gpus,
                gpus_used: 0,
                epoch: 0,
                last_heartbeat_at: None,
                jobs: Vec::new(),
            })
            .collect();
        views.extend(absent);
        views
    }

    fn show_node(&self, name: &str, person: &Person) -> Result<Response, ApiError> {
        let unknown = || refused(format!("there is no node {}; 'ax node list' shows them", quoted(name)));
        let node = self.controller.nodes().find(|node| node.inventory.name.as_str() == name);
        let node = node.ok_or_else(unknown)?;
        let read = |e: StoreError| ApiError { class: ErrorClass::TryAgain, error: e.to_string() };
        let cards = node.inventory.cards.iter().map(|card| self.card(node, card, person)).collect();
        let decisions = self.reader.node_log(&node.inventory.name).map_err(read)?;
        Ok(Response::json(200, &NodeShow { node: self.node(node, person), cards, decisions }))
    }

    fn node(&self, node: &Node, person: &Person) -> NodeView {
        let has = &node.inventory;
        let used = |card: &&Card| node.card_reserved(card) > Megabytes::ZERO;
        let trouble = self.controller.trouble(&has.name).filter(|trouble| trouble.rests_until().is_some());
        let mut reasons: Vec<String> = trouble.iter().map(|trouble| trouble.sentence(now().boot)).collect();
        if has.name == self.local.inventory.name {
            let cards = self.cards.as_ref().map(Cards::warnings).unwrap_or_default();
            let others = cards.into_iter().chain(self.unfenced.clone());
            reasons.extend(self.local.warnings.iter().cloned().chain(others));
        }
        NodeView {
            name: has.name.to_string(),
            state: match node.drained() {
                None if trouble.is_some() => "failing",
                None => "up",
                Some(_) if node.held().is_empty() => "drained",
                Some(_) => "draining",
            }
            .to_owned(),
            reason: node.drained().map(str::to_owned).or((!reasons.is_empty()).then(|| reasons.join("; "))),
            cpus: has.cpus,
            cpus_used: has.cpus - node.free_cpus(),
            ram_mb: has.ram.0,
            ram_used_mb: (has.ram - node.free_ram()).0,
            gpus: u32::try_from(has.cards.len()).unwrap_or(u32::MAX),
            gpus_used: u32::try_from(has.cards.iter().filter(used).count()).unwrap_or(u32::MAX),
            epoch: has.epoch,
            last_heartbeat_at: Some(now().wall),
            jobs: self.jobs_on(node, person, |_| true),
        }
    }

    /// The jobs that hold something of a node, as far as this person sees them.
    fn jobs_on(
        &self,
        node: &Node,
        person: &Person,
        which: impl Fn(&ax_core::node::Allocation) -> bool,
    ) -> Vec<JobId> {
        let active = self.controller.active_jobs();
        let here = active.filter(|job| {
            let held = job.attempt.as_ref().and_then(|a| a.open_part_on(&node.inventory.name));
            held.is_some_and(&which)
        });
        here.map(|job| job.id).filter(|id| self.may_see(*id, person)).collect()
    }

    fn daemon(&self) -> DaemonView {
        let count = |which: fn(&Job) -> bool| self.controller.jobs().filter(|j| which(j)).count() as u64;
        DaemonView {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: self.controller.config().cluster.name.clone(),
            pid: std::process::id(),
            waiting: count(|j| j.state.is_waiting()),
            active: count(|j| j.state.is_active()),
            read_only: self.read_only.clone(),
            missing: self.missing.clone(),
        }
    }
}

/// The idle time of the attempt that lives is written down now and then only.
fn tell_idle(view: &mut JobView, job: &Job) {
    let Some(attempt) = job.attempt.as_deref().filter(|attempt| !attempt.idle.is_none()) else { return };
    for shown in view.attempts.iter_mut().filter(|shown| shown.epoch == attempt.name.epoch.0) {
        shown.idle_s = Some(attempt.idle.total().as_seconds());
    }
}

/// What only the store knows goes into the view of a job that is in memory.
fn take_stored(view: &mut JobView, stored: JobView) {
    view.attempts = stored.attempts;
    view.time_in_state = stored.time_in_state;
    view.decisions = stored.decisions;
    view.stdout = stored.stdout;
    view.stderr = stored.stderr;
    view.comment = stored.comment;
    view.account = stored.account;
    view.unused_options = stored.unused_options;
    view.ticket = stored.ticket;
}
