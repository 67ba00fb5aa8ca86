//! The daemon's one loop: it owns the controller, takes what happens from sockets, supervisors, threads and timers,
//! feeds it to `Controller::step`, and carries out what was decided once that is durable. No locks: nothing else has
//! access to any of this.

mod actions;
mod attempts;
mod cleaning;
mod commit;
mod effects;
mod fairness;
mod gpu;
mod guard;
mod launches;
mod measures;
mod names;
mod parked;
mod queries;
mod reload;
mod requests;
mod row_data;
mod self_check;
mod spares;
mod spool;
mod start;
mod stop;
mod stored;
mod strays;
mod timers;
mod tokens;
mod wishes;
mod written;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ax_core::api::{ApiError, ErrorClass};
use ax_core::controller::{Controller, Decision, Event};
use ax_core::paths::Paths;
use ax_core::time::{BootTime, Now, Span, WallTime};
use ax_sys::socket::{Event as Ready, Poller, Waker};
use ax_sys::{SysError, clock};
use thiserror::Error;

use crate::api::http::Response;
use crate::api::server::{ConnId, Server};
use crate::calendar::Calendar;
use crate::containment;
use crate::local::Local;
use crate::log::{Level, Line, Log};
use crate::signals::{Asked, Signals};
use crate::spool::Spool;
use crate::store::{Reader, StoreError};
use crate::worker::{Done, Worker};
use attempts::{News, Supervision};
use cleaning::Cleaning;
use commit::{Commits, Writes};
use gpu::Gpu;
use launches::Isolation;
use measures::Measures;
use names::NameCheck;
use requests::Clients;
use row_data::RowData;
use self_check::SelfChecks;
use spool::Tickets;
use stop::Phase;
use stored::Quotas;
use timers::Due;
use tokens::Source;

pub(crate) use start::{Setup, StartError};

/// How long a daemon that stops waits for launches that have begun. The next daemon finds out about the rest.
const LAST_LAUNCHES: Duration = Duration::from_secs(3);

/// The daemon.
pub(crate) struct Engine {
    paths: Paths,
    config_file: Option<PathBuf>,
    log: Log,
    calendar: Calendar,
    /// All jobs and nodes, and what is decided about them.
    controller: Controller,
    phase: Phase,
    due: Due,
    // What it is told by, and what works for it.
    poller: Poller,
    waker: Arc<Waker>,
    signals: Signals,
    server: Server,
    worker: Worker,
    // This machine.
    local: Local,
    isolation: Isolation,
    gpu: Gpu,
    self_checks: SelfChecks,
    // What is written down.
    commits: Commits,
    reader: Reader,
    row_data: RowData,
    quotas: Quotas,
    /// Jobs that could not be read: id and reason.
    set_aside: Vec<(String, String)>,
    // Users and their submissions.
    clients: Clients,
    spool: Spool,
    /// Submissions in the spool that are no jobs.
    tickets: Tickets,
    name_check: NameCheck,
    // Attempts.
    supervision: Supervision,
    cleaning: Cleaning,
    measures: Measures,
}

/// Why the daemon stops although nobody has asked it to, or can't write down its last.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// Nothing can be waited for.
    #[error(transparent)]
    Wait(#[from] SysError),
    /// The last batch could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The time, both clocks.
fn now() -> Now {
    Now { boot: BootTime(clock::boot_ms()), wall: WallTime(clock::wall_ms()) }
}

impl Engine {
    /// Runs until it is told to stop. Jobs go on without it.
    pub(crate) fn run(mut self) -> Result<(), RunError> {
        let mut ready: Vec<Ready> = Vec::new();
        while self.phase != Phase::Stopping {
            let limit = self.patience(now());
            self.poller.wait(&mut ready, limit)?;
            self.on_launched();
            for event in std::mem::take(&mut ready) {
                self.on_ready(&event);
            }
            self.on_time();
            self.go_on_with_actions();
            self.answer_questions();
            self.flush();
            self.stop_if_done();
            self.log.flush();
        }
        while self.clients.actions.any() {
            self.go_on_with_actions();
        }
        self.flush_now();
        self.log.line(
            Level::Info,
            &Line::new("stopped").text("jobs_go_on", &self.supervision.attempts.watched().count()),
        );
        let nothing_runs_on = self.nothing_runs_on();
        self.supervision.launcher.finish(LAST_LAUNCHES);
        // A supervisor that is about to make its own group needs the jobs' parent groups.
        if nothing_runs_on {
            containment::clear(&self.paths);
        }
        self.gpu.history.finish();
        Ok(self.commits.writer.close()?)
    }

    fn nothing_runs_on(&self) -> bool {
        let any = self.controller.jobs().any(|job| job.state.is_active());
        !any && self.supervision.attempts.watched().next().is_none()
    }

    fn on_ready(&mut self, event: &Ready) {
        match tokens::source(event.token) {
            Some(Source::Server) => {
                let notices = self.server.ready(&self.poller, event, clock::boot_ms());
                for notice in notices {
                    self.on_notice(notice);
                }
            }
            Some(Source::Waker) => self.on_wake(),
            Some(Source::Signals) => self.on_signals(),
            Some(Source::Guard) => self.supervision.guard.ended(&self.poller, now().boot),
            Some(Source::Cards) => self.on_cards(|cards, poller, now| cards.ready(poller, now)),
            Some(Source::CardsEnded) => self.on_cards(|cards, poller, _| cards.ended(poller, event.token)),
            Some(Source::Socket(epoch)) => {
                let news = self.supervision.attempts.socket_ready(&self.poller, epoch, now().boot);
                self.on_news(news);
            }
            Some(Source::Process(epoch)) => {
                let news = self.supervision.attempts.process_ended(&self.poller, epoch, now().boot);
                self.on_news(news);
            }
            None => {}
        }
    }

    /// Takes in what threads have reported.
    fn on_wake(&mut self) {
        // If the waker can't be drained it wakes the loop again: slower, not wrong.
        let _ = self.waker.drain();
        self.on_acks();
        self.on_spool();
        self.warn_of_names();
        while let Some(done) = self.worker.next() {
            match done {
                Done::LookedUp(uid, answer) => {
                    self.clients.people.put(uid, now().boot, answer);
                    self.unpark(uid);
                }
                Done::Settled(attempt, answer) => self.on_settled(attempt, answer),
                Done::Listed(uid, conn, response) => {
                    self.clients.fairness.ended(uid, Span(0), now().boot);
                    self.respond(conn, &response);
                }
                Done::Viewed(answer) => self.on_viewed(*answer),
                Done::LeftoverEnded(left, ended) => self.on_leftover_ended(&left, ended),
                Done::CardsProbed(tried) => self.on_cards_probed(tried),
                Done::ZoneRead(calendar) => self.on_zone_read(calendar),
                Done::MpsSwept(swept) => self.on_mps_swept(swept),
                Done::NotRemoved(failed) => {
                    for (chore, error) in failed {
                        self.on_not_removed(chore, &error);
                    }
                }
            }
        }
    }

    fn on_signals(&mut self) {
        for asked in self.signals.asked() {
            match asked {
                Asked::Stop => self.phase = Phase::Stopping,
                Asked::Reload => {
                    self.log.reopen();
                    let outcome = self.reload("SIGHUP");
                    if let Err(error) = outcome {
                        self.log.line(Level::Error, &Line::new("reload").text("error", &error.error));
                    }
                }
            }
        }
    }

    fn on_news(&mut self, news: Vec<News>) {
        for each in news {
            match each {
                News::Reported(attempt, report) => self.on_report(attempt, *report),
                News::Vanished(attempt) => self.settle(attempt),
                News::Finished => {}
            }
        }
    }

    /// A fact, which can't be refused. While commits fail it waits.
    fn happened(&mut self, event: Event) {
        match &mut self.commits.writes {
            Writes::Working => drop(self.step(event)),
            Writes::Failing { .. } if event == Event::Tick => {}
            Writes::Failing { deferred, .. } => deferred.push_back(event),
        }
    }

    /// A wish, which is refused while commits fail.
    fn wished(&mut self, event: Event) -> Result<Vec<Decision>, ApiError> {
        self.accepts()?;
        Ok(self.step(event))
    }

    fn accepts(&self) -> Result<(), ApiError> {
        let Some(why) = self.commits.writes.failing() else { return Ok(()) };
        let error = format!("nothing is accepted for now, try again later: {why}");
        Err(ApiError { class: ErrorClass::TryAgain, error })
    }

    fn respond(&mut self, conn: ConnId, response: &Response) {
        self.server.respond(&self.poller, conn, response, clock::boot_ms());
    }
}
