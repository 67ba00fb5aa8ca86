//! Reads: jobs, nodes, cards, the daemon itself; from memory if they are there, else from the accounts. Changes
//! nothing.

use std::collections::BTreeSet;

use ax_core::api::{ApiError, DaemonView, ErrorClass, JobsAnswer, JobsQuery, NodeShow, NodeState, NodeView};
use ax_core::config::Queue;
use ax_core::controller::Trouble;
use ax_core::id::{JobId, JobNumber, QueueName, SubmissionKey, Uid};
use ax_core::job::Job;
use ax_core::node::{Card, Node};
use ax_core::size::Megabytes;
use ax_core::text::{count, quoted};

use super::parked::Asker;
use super::{Engine, now};
use crate::api::http::{Request, Response};
use crate::api::server::ConnId;
use crate::cards::Cards;
use crate::people::Person;
use crate::store::StoreError;
use crate::submission::{Checked, may_use};
use crate::views::{About, Answer, Made, Question, of_accounts};
use crate::worker::{Listing, Task};

fn refused(text: String) -> ApiError {
    ApiError { class: ErrorClass::Refused, error: text }
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
            "number" => query.number.push(value.parse().map_err(|_| bad(name, value))?),
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

/// The error for a text that names no job. Elements of arrays and steps already have their form, and will name some.
fn no_job(text: &str) -> String {
    let is_job = |text: &str| text.parse::<JobId>().is_ok() || text.parse::<u32>().is_ok();
    let part_of = |separator| text.split_once(separator).is_some_and(|(job, _)| is_job(job));
    let name = quoted(text);
    if part_of('_') {
        format!("{name} is an element of an array, and arrays are not supported yet")
    } else if part_of('.') {
        format!("{name} is a step of a job, and steps are not supported yet")
    } else {
        format!("{name} is no job: ids look like ax-2026-0001, or 1")
    }
}

impl Engine {
    /// Answers a read; `None` if there is no such thing.
    pub(super) fn query(&self, path: &[&str], person: &Person) -> Option<Response> {
        let answer = match path {
            ["jobs", job, "why"] => self.why(job, person),
            ["nodes", node] => self.show_node(node, person),
            ["nodes"] => Ok(Response::json(200, &self.nodes(person))),
            ["cards"] => Ok(Response::json(200, &self.cards(person))),
            ["status"] => Ok(Response::json(200, &self.daemon())),
            _ => return None,
        };
        Some(answer.unwrap_or_else(|error| Response::error(&error)))
    }

    /// The job that an id, a number or a ticket means.
    pub(super) fn find_job(&self, text: &str, person: &Person) -> Result<JobId, ApiError> {
        let unknown = || refused(format!("there is no job {}", quoted(text)));
        let unknown_or_gone = |number| self.forgotten(number, text).unwrap_or_else(unknown);
        let read = |e: StoreError| ApiError { class: ErrorClass::TryAgain, error: e.to_string() };
        if let Some(key) = SubmissionKey::of_ticket(text) {
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
            _ => return Err(refused(no_job(text))),
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

    /// The error for a number that was given and is no longer in the accounts. Where jobs are private it is not told
    /// which numbers were given.
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

    /// True if the person may see a job: everybody may, unless the cluster keeps jobs private.
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

    /// Lists jobs: what is in memory first, then what has to come out of the accounts.
    pub(super) fn list_jobs(&mut self, request: &Request, conn: ConnId, person: &Person) {
        let query = match jobs_query(request) {
            Ok(query) => self.allowed(query, person),
            Err(error) => return self.respond(conn, &Response::error(&error)),
        };
        let Some(query) = query else {
            return self.respond(conn, &Response::json(200, &JobsAnswer::default()));
        };
        let warnings = self.warnings_of(&query, person);
        if !query.finished {
            return self.view(person.uid, conn, About::Living { query: Box::new(query), warnings });
        }
        let answer = JobsAnswer { warnings, ..JobsAnswer::default() };
        self.clients.fairness.began(person.uid);
        self.list_when_durable(Listing {
            uid: person.uid,
            conn,
            answer,
            query: of_accounts(query, 0, now().wall),
        });
    }

    /// Warnings about a list: it may be empty for another reason than the person thinks.
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

    /// Limits a query to the person's own jobs where jobs are private; `None` if it asked only for others' jobs.
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

    /// Tells everything about a job, with advice if that is asked for.
    pub(super) fn show_job(&mut self, conn: ConnId, number: JobNumber, asker: Asker) {
        let stored = self.reader.view(number, now().wall);
        let response = match (stored, self.controller.job(number)) {
            (Ok(Some(view)), None) => Response::json(200, &view),
            (Ok(stored), Some(job)) => {
                let advised = asker.advised.map(|person| self.usable_queues(job, &person));
                let about = About::Job { number, stored: stored.map(Box::new), advised };
                return self.view(asker.uid, conn, about);
            }
            (Ok(None), None) => Response::error(&refused(format!("there is no job {number}"))),
            (Err(error @ StoreError::Content { .. }), None) => Response::error(&refused(error.to_string())),
            (Err(error), _) => {
                Response::error(&ApiError { class: ErrorClass::TryAgain, error: error.to_string() })
            }
        };
        self.respond(conn, &response);
    }

    /// Has a question about the present state answered beside the loop.
    pub(super) fn view(&mut self, uid: Uid, conn: ConnId, about: About) {
        self.clients.fairness.began(uid);
        self.clients.questions.push(Question { uid, conn, at: now(), about });
    }

    /// Has the questions answered that were asked since something last happened, all from one copy. The jobs
    /// themselves are shared with it.
    pub(super) fn answer_questions(&mut self) {
        let questions = std::mem::take(&mut self.clients.questions);
        if !questions.is_empty() {
            self.worker.start_task(Task::View(Box::new(self.controller.clone()), questions));
        }
    }

    /// A question about waiting jobs was answered, except for what comes from the accounts.
    pub(super) fn on_viewed(&mut self, answer: Answer) {
        self.clients.fairness.ended(answer.uid, answer.took, now().boot);
        for (job, expected) in answer.expected {
            self.measures.forecasts.told(job, expected);
        }
        match answer.made {
            Made::Whole(response) => self.respond(answer.conn, &response),
            Made::Begun(listing) => {
                self.clients.fairness.began(answer.uid);
                self.list_when_durable(*listing);
            }
        }
    }

    /// The queues that the owner of a job may use, as far as the asking person can know.
    fn usable_queues(&self, job: &Job, person: &Person) -> BTreeSet<QueueName> {
        let usable = |queue: &&Queue| match person.uid == job.owner.uid {
            true => may_use(queue, person).is_ok(),
            // The groups of other users are not known here.
            false => {
                let open = queue.users.is_empty() && queue.groups.is_empty();
                open || job.owner.uid == Uid::ROOT || queue.users.iter().any(|user| **user == *job.owner.name)
            }
        };
        let queues = self.controller.config().queues.iter().filter(usable);
        queues.map(|queue| queue.name.clone()).collect()
    }

    /// Tells a person what would become of a submission.
    pub(super) fn foretell(&mut self, uid: Uid, conn: ConnId, checked: Checked, person: &Person) {
        let usable = |queue: &&Queue| may_use(queue, person).is_ok();
        let queues = self.controller.config().queues.iter().filter(usable);
        let queues = queues.map(|queue| queue.name.clone()).collect();
        let no_room = self.no_room(&checked);
        let about = About::Submission { checked: Box::new(checked), no_room, queues };
        self.view(uid, conn, about);
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
                state: NodeState::NeverRegistered,
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
        let Some(node) = node else {
            // A declared node that was never here is in the list, too.
            let absent = self.nodes(person).into_iter().find(|node| node.name == name).ok_or_else(unknown)?;
            let show = NodeShow { node: absent, cards: Vec::new(), decisions: Vec::new() };
            return Ok(Response::json(200, &show));
        };
        let read = |e: StoreError| ApiError { class: ErrorClass::TryAgain, error: e.to_string() };
        let cards = node.inventory.cards.iter().map(|card| self.card(node, card, person)).collect();
        let decisions = self.reader.node_log(&node.inventory.name).map_err(read)?;
        Ok(Response::json(200, &NodeShow { node: self.node(node, person), cards, decisions }))
    }

    fn node(&self, node: &Node, person: &Person) -> NodeView {
        let has = &node.inventory;
        let used = |card: &&Card| node.card_reserved(card) > Megabytes::ZERO;
        // What one user's jobs come to alone says little of the node.
        let rest: Vec<&Trouble> = self.controller.rests(&has.name).collect();
        let failing = rest.len() > 1;
        let why = rest.into_iter().max_by_key(|trouble| trouble.starts()).map(|trouble| {
            let sentence = trouble.sentence(now().boot);
            if failing { sentence } else { format!("for one user, {sentence}") }
        });
        let mut reasons: Vec<String> = why.into_iter().collect();
        if has.name == self.local.inventory.name {
            let cards = self.gpu.cards.as_ref().map(Cards::warnings).unwrap_or_default();
            let others = cards.into_iter().chain(self.isolation.unfenced.clone());
            reasons.extend(self.local.warnings.iter().cloned().chain(others));
        }
        NodeView {
            name: has.name.to_string(),
            state: match node.drained() {
                None if failing => NodeState::Failing,
                None => NodeState::Up,
                Some(_) if node.held().is_empty() => NodeState::Drained,
                Some(_) => NodeState::Draining,
            },
            reason: node.drained().map(str::to_owned).or((!reasons.is_empty()).then(|| reasons.join("; "))),
            cpus: has.cpus,
            // After a reload there may be fewer than jobs hold.
            cpus_used: node.cpus_used(),
            ram_mb: has.ram.0,
            ram_used_mb: (has.ram - node.free_ram()).0,
            gpus: u32::try_from(has.cards.len()).unwrap_or(u32::MAX),
            gpus_used: u32::try_from(has.cards.iter().filter(used).count()).unwrap_or(u32::MAX),
            epoch: has.epoch,
            last_heartbeat_at: Some(now().wall),
            jobs: self.jobs_on(node, person, |_| true),
        }
    }

    /// The jobs that hold something of a node, as far as this person may see them.
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
            read_only: self.commits.writes.failing().map(str::to_owned),
            missing: self.isolation.missing.clone(),
        }
    }
}
