//! From decisions to rows and back: steps are collected in a batch, the batch is handed to the writer, and its
//! effects and answers wait until it is durable. So a crash at any instant is the same as a delay.

use std::collections::VecDeque;
use std::time::Instant;

use ax_core::api::{ApiError, ErrorClass};
use ax_core::controller::{Decision, Event};
use ax_core::gpu::Health;
use ax_core::id::JobNumber;
use ax_core::time::{BootTime, Now, Span};
use ax_sys::crash_point;

use super::row_data::files_of;
use super::stop::Phase;
use super::{Engine, now, written};
use crate::api::http::Response;
use crate::api::server::ConnId;
use crate::log::{Level, Line};
use crate::spool::TakenId;
use crate::store::events::Step;
use crate::store::{Ack, Batch, LogKind, LogRow, NewParts, Row, Writer};
use crate::worker::{Listing, Task};

/// Time for an answer while commits fail: on a full disk the reserve is given up, and then most commits succeed after
/// all.
const UNSAVED_WAITS: Span = Span::seconds(2);

/// How often a snapshot of the controller is added to the recorded events.
const SNAPSHOT_EVERY: Span = Span::seconds(86_400);

/// How often forecasts that were told to jobs are written, if they change.
const FORECASTS_EVERY: Span = Span::seconds(10);

/// What waits for a batch to become durable.
#[derive(Debug, Default)]
pub(super) struct Consequences {
    pub(super) decisions: Vec<Decision>,
    pub(super) answers: Vec<(ConnId, Response)>,
    /// Drops whose jobs are in it.
    pub(super) drops: Vec<TakenId>,
    /// Lists from the accounts that wait for it.
    pub(super) lists: Vec<Listing>,
    /// Jobs to whose story it adds a line.
    noted: Vec<JobNumber>,
}

/// The batch that is being collected.
#[derive(Debug, Default)]
pub(super) struct OpenBatch {
    batch: Batch,
    then: Consequences,
    /// Set if no answer waits for it: until then it may be joined by other rows.
    may_wait_until: Option<BootTime>,
}

/// How long rows wait for others if no answer depends on them: a short job's start and end, and the next submission,
/// then cost one commit. After a crash within that time they are only found out again.
const COMPANY: Span = Span(20);

impl Consequences {
    /// True if an answer, or a resource that becomes free, depends on this being durable.
    fn is_urgent(&self) -> bool {
        let fact = |decision: &Decision| match decision {
            Decision::Moved { cause, .. } => cause.is_some(),
            Decision::Closed { .. } | Decision::Ignored { .. } | Decision::CardMoved { .. } => true,
            _ => false,
        };
        let asked = !self.answers.is_empty() || !self.lists.is_empty() || !self.drops.is_empty();
        asked || !self.decisions.iter().all(fact)
    }
}

impl OpenBatch {
    /// When it must go at the latest, if not at once.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.may_wait_until
    }

    /// Adds the boot whose clock all later rows refer to.
    pub(super) fn boot(&mut self, id: String) {
        self.add(Row::Boot(id.into()));
    }

    /// Adds a row that no answer waits for.
    pub(super) fn add(&mut self, row: Row) {
        self.batch.rows.push(row);
    }
}

/// Batches on their way to the disk.
pub(super) struct Commits {
    next: u64,
    /// Writes batches, on a thread of its own.
    pub(super) writer: Writer,
    /// The batch that is being collected.
    pub(super) open: OpenBatch,
    under_way: VecDeque<(u64, Consequences)>,
    pub(super) writes: Writes,
    /// When forecasts were last written.
    forecasts_written: BootTime,
    /// When a snapshot of the controller is recorded next.
    next_snapshot: BootTime,
}

/// Whether batches can be written.
#[derive(Debug)]
pub(super) enum Writes {
    /// They can, as far as is known.
    Working,
    /// They can't: nothing is accepted or started.
    Failing {
        since: BootTime,
        why: String,
        /// What happened meanwhile and can't be refused.
        deferred: VecDeque<Event>,
    },
}

impl Writes {
    /// Why batches can't be written.
    pub(super) fn failing(&self) -> Option<&str> {
        match self {
            Writes::Working => None,
            Writes::Failing { why, .. } => Some(why),
        }
    }

    /// True if something has happened that waits to be decided about.
    pub(super) fn defers(&self) -> bool {
        matches!(self, Writes::Failing { deferred, .. } if !deferred.is_empty())
    }

    /// A batch has failed, perhaps not the first.
    fn fail(&mut self, since: BootTime, why: String) {
        let deferred = self.recover();
        *self = Writes::Failing { since, why, deferred };
    }

    /// They can be written again. Returns what was deferred.
    fn recover(&mut self) -> VecDeque<Event> {
        match std::mem::replace(self, Writes::Working) {
            Writes::Working => VecDeque::new(),
            Writes::Failing { deferred, .. } => deferred,
        }
    }
}

impl Commits {
    /// With nothing to be written yet; a snapshot is recorded by itself at the start.
    pub(super) fn new(writer: Writer, now: BootTime) -> Commits {
        Commits {
            next: 0,
            writer,
            open: OpenBatch::default(),
            under_way: VecDeque::new(),
            writes: Writes::Working,
            forecasts_written: BootTime::default(),
            next_snapshot: now + SNAPSHOT_EVERY,
        }
    }
}

impl Engine {
    /// Feeds one event to the controller. What follows waits in the open batch.
    pub(super) fn step(&mut self, event: Event) -> Vec<Decision> {
        self.step_with(event, None)
    }

    /// Like `step`, with what came along with a submission.
    pub(super) fn step_with(&mut self, event: Event, arriving: Option<NewParts>) -> Vec<Decision> {
        let now = now();
        self.answer_questions();
        let began = Instant::now();
        let decisions = self.controller.step(now, event.clone());
        self.measures.pass(now.wall, began.elapsed(), &decisions);
        self.record(now, event, &decisions);
        self.release(&decisions);
        if decisions.is_empty() {
            return decisions;
        }
        // A new job may be launched in the same step: its parts are not in the map yet.
        let files =
            files_of(&decisions, &self.controller, &self.row_data.parts, arriving.as_ref(), &self.reader);
        self.row_data.nameless.extend(decisions.iter().filter_map(|decision| match decision {
            Decision::Launch { attempt, .. } => Some(*attempt).filter(|attempt| !files.contains_key(attempt)),
            _ => None,
        }));
        let mut beside = self.row_data.beside(arriving, files);
        self.commits.open.batch.add_step(now, &decisions, &self.controller, &mut beside);
        self.commits.open.then.decisions.extend(decisions.iter().cloned());
        decisions
    }

    /// Adds a line to a job's story.
    pub(super) fn note(&mut self, job: JobNumber, text: String) {
        let actor = "ax".into();
        let row = LogRow { job, at: now().wall, actor, kind: LogKind::Note, text };
        self.commits.open.add(Row::Log(row));
        self.commits.open.then.noted.push(job);
    }

    fn record(&mut self, now: Now, event: Event, decisions: &[Decision]) {
        if self.commits.writer.records() && !written::is_nothing(&event, decisions) {
            self.commits.writer.record(now, Step { event, decisions: decisions.to_vec() });
            // Old events can be removed only if there is a later snapshot to begin from.
            if now.boot >= self.commits.next_snapshot {
                self.commits.next_snapshot = now.boot + SNAPSHOT_EVERY;
                self.commits.writer.record_snapshot(now, self.controller.snapshot());
            }
        }
    }

    /// Sends an answer as soon as everything that was decided before is durable.
    pub(super) fn answer_when_durable(&mut self, conn: ConnId, response: Response) {
        match self.not_durable() {
            Some(then) => then.answers.push((conn, response)),
            None => self.respond(conn, &response),
        }
    }

    /// True if something about a job was decided or noted and is not durable yet.
    pub(super) fn is_unsettled(&self, number: JobNumber) -> bool {
        let open = std::iter::once(&self.commits.open.then);
        let mut all = open.chain(self.commits.under_way.iter().map(|(_, then)| then));
        let touches = |decision: &Decision| decision.touches().is_some_and(|job| job.number == number);
        all.any(|then| then.noted.contains(&number) || then.decisions.iter().any(touches))
    }

    /// True if an answer waits for a commit.
    pub(super) fn commits_wait(&self) -> bool {
        !self.commits.under_way.is_empty() || !self.commits.open.batch.rows.is_empty()
    }

    /// Lets the spool remove a drop once its job is durable.
    pub(super) fn finish_drop_when_durable(&mut self, drop: TakenId) {
        match self.not_durable() {
            Some(then) => then.drops.push(drop),
            None => self.finish_drop(drop),
        }
    }

    /// Makes a list once the accounts have everything that was decided before: a job that has just ended would be
    /// neither in memory nor in the accounts. While commits fail, the list is made of what there is.
    pub(super) fn list_when_durable(&mut self, listing: Listing) {
        let failing = self.commits.writes.failing().is_some();
        match self.not_durable().filter(|_| !failing) {
            Some(then) => then.lists.push(listing),
            None => self.worker.start_task(Task::Accounts(Box::new(listing))),
        }
    }

    /// Commits fail: lists do not wait for them.
    fn list_what_there_is(&mut self) {
        let under_way = self.commits.under_way.iter_mut().map(|(_, then)| then);
        let all = under_way.chain([&mut self.commits.open.then]);
        let lists: Vec<Listing> = all.flat_map(|then| std::mem::take(&mut then.lists)).collect();
        for listing in lists {
            self.worker.start_task(Task::Accounts(Box::new(listing)));
        }
    }

    /// What waits for everything that was decided before; `None` if all of it is durable.
    fn not_durable(&mut self) -> Option<&mut Consequences> {
        if !self.commits.open.batch.rows.is_empty() {
            return Some(&mut self.commits.open.then);
        }
        self.commits.under_way.back_mut().map(|(_, then)| then)
    }

    /// Hands the open batch to the writer, unless it may wait. If it has no rows, its effects follow at once.
    pub(super) fn flush(&mut self) {
        if !self.commits.open.batch.rows.is_empty()
            && !self.commits.open.then.is_urgent()
            && !self.clients.parked.anybody()
        {
            let now = now().boot;
            if *self.commits.open.may_wait_until.get_or_insert(now + COMPANY) > now {
                return;
            }
        }
        self.flush_now();
    }

    /// Like `flush`, but never waits.
    pub(super) fn flush_now(&mut self) {
        let mut open = std::mem::take(&mut self.commits.open);
        // Forecasts may be large and no answer waits for them: they are not added to each batch, and never make one.
        let at = now().boot;
        let due = !open.batch.rows.is_empty() && at - self.commits.forecasts_written >= FORECASTS_EVERY;
        if due || self.phase == Phase::Stopping {
            self.commits.forecasts_written = at;
            open.batch.rows.extend(self.measures.forecasts.changes().map(Row::Forecasts));
        }
        if open.batch.rows.is_empty() {
            self.carry_out(open.then);
            return;
        }
        self.commits.next += 1;
        let id = self.commits.next;
        self.commits.writer.send(Batch { id, ..open.batch });
        self.commits.under_way.push_back((id, open.then));
    }

    /// Takes in what the writer reports of batches.
    pub(super) fn on_acks(&mut self) {
        for ack in self.commits.writer.poll() {
            match ack {
                Ack::Committed(id) => self.on_committed(id),
                Ack::Failing { error, .. } => {
                    self.log.line(Level::Error, &Line::new("read_only").text("error", &error));
                    self.commits.writes.fail(now().boot, error);
                    self.answer_reads();
                    self.list_what_there_is();
                }
                Ack::Recovered => self.on_recovered(),
                Ack::Pruned(0) => {}
                Ack::Pruned(jobs) => {
                    self.log.line(Level::Info, &Line::new("pruned").text("jobs", &jobs));
                    self.due.log_has_grown(now().boot);
                }
                Ack::NotPruned(error) => {
                    self.log.line(Level::Error, &Line::new("prune").text("error", &error));
                }
            }
        }
    }

    fn on_committed(&mut self, id: u64) {
        self.due.log_has_grown(now().boot);
        crash_point!("durable");
        while let Some((_, then)) = self.commits.under_way.pop_front_if(|(up_to, _)| *up_to <= id) {
            self.carry_out(then);
        }
        self.answer_reads();
    }

    /// Until when answers wait that were asked before commits failed.
    pub(super) fn answers_due(&self) -> Option<BootTime> {
        let Writes::Failing { since, .. } = self.commits.writes else { return None };
        let waits = self.commits.under_way.iter().any(|(_, then)| !then.answers.is_empty());
        waits.then_some(since + UNSAVED_WAITS)
    }

    /// Answers the clients that have waited long enough for the disk. What they asked for is decided and takes effect
    /// if it can be written; that can't be promised, so they are told to ask again with the same key.
    pub(super) fn answer_unsaved(&mut self, now: BootTime) {
        if self.answers_due().is_none_or(|at| at > now) {
            return;
        }
        let Some(why) = self.commits.writes.failing() else { return };
        let error =
            format!("this can't be written down yet and may still take effect, try again later: {why}");
        let response = Response::error(&ApiError { class: ErrorClass::TryAgain, error });
        let waiting = self.commits.under_way.iter_mut();
        let waiting: Vec<ConnId> =
            waiting.flat_map(|(_, then)| std::mem::take(&mut then.answers)).map(|(conn, _)| conn).collect();
        for conn in waiting {
            self.respond(conn, &response);
        }
    }

    fn on_recovered(&mut self) {
        self.log.line(Level::Info, &Line::new("writable"));
        for event in self.commits.writes.recover() {
            self.step(event);
        }
        self.step(Event::Tick);
    }

    fn carry_out(&mut self, then: Consequences) {
        let accepts = then.decisions.iter().any(|d| matches!(d, Decision::Accepted { .. }));
        for (conn, response) in then.answers {
            if accepts {
                crash_point!("committed");
            }
            self.respond(conn, &response);
            if accepts {
                crash_point!("answered");
            }
        }
        for drop in then.drops {
            self.finish_drop(drop);
        }
        for listing in then.lists {
            self.worker.start_task(Task::Accounts(Box::new(listing)));
        }
        let accepted = |decision: &Decision| match decision {
            Decision::Accepted { job, .. } => Some(job.number),
            _ => None,
        };
        let new: Vec<JobNumber> = then.decisions.iter().filter_map(accepted).collect();
        for decision in then.decisions {
            self.log_decision(&decision);
            self.act(decision);
        }
        // Scripts and environments of waiting jobs stay in the store: they may be many and large.
        for number in new {
            self.row_data.parts.remove(&number);
        }
    }

    fn log_decision(&mut self, decision: &Decision) {
        let (level, line) = match decision {
            Decision::Moved { job, from, to, actor, why, .. } => {
                let from = from.map_or("-", |s| s.word());
                let line = Line::new("moved").text("job", job).text("from", &from).text("to", to);
                (Level::Info, line.text("by", actor).text("why", why))
            }
            Decision::Noted { job, actor, what } => {
                (Level::Info, Line::new("noted").text("job", job).text("by", actor).text("what", what))
            }
            Decision::Launch { attempt, why, .. } => {
                (Level::Info, Line::new("launch").text("attempt", attempt).text("why", why))
            }
            Decision::CardMoved { uuid, actor, what, state, .. } => {
                let level = if state.health == Health::Healthy { Level::Info } else { Level::Warning };
                (level, Line::new("card").text("uuid", uuid).text("by", actor).text("what", what))
            }
            Decision::NodeMoved { node, actor, what, .. } => {
                (Level::Info, Line::new("node").text("node", node).text("by", actor).text("what", what))
            }
            Decision::Ignored { why, .. } => (Level::Warning, Line::new("ignored").text("why", why)),
            _ => return,
        };
        self.log.line(level, &line);
    }
}
