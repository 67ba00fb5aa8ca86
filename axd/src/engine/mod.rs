//! The daemon's one loop: it owns the controller, takes what happens from sockets, supervisors, threads and timers,
//! feeds it to `Controller::step`, and carries out what was decided once that is durable. No locks: nothing else has
//! access to any of this.

mod actions;
mod attempts;
mod card_use;
mod card_views;
mod cards;
mod cleaning;
mod commit;
mod effects;
mod fairness;
mod guard;
mod launches;
mod measures;

mod names;
mod parked;
mod queries;
mod reload;
mod requests;
mod rungs;
mod self_check;
mod spares;
mod spool;
mod start;
mod stop;
mod stored;
mod strays;
mod tokens;
mod watch;
mod watched;
mod wishes;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ax_core::api::{ApiError, ErrorClass};
use ax_core::controller::{Controller, Decision, Event};
use ax_core::gpu::Sample;
use ax_core::gpu::ledger::Ledger;
use ax_core::id::{AttemptName, JobNumber};
use ax_core::paths::Paths;
use ax_core::time::{BootTime, Now, Span, WallTime};
use ax_sys::clock;
use ax_sys::socket::{Event as Ready, Poller, Waker};

use crate::api::http::Response;
use crate::api::server::{ConnId, Server};
use crate::calendar::Calendar;
use crate::cards::Cards;
use crate::containment;
use crate::launcher::Launcher;
use crate::local::Local;
use crate::log::{Level, Line, Log};
use crate::people::People;
use crate::signals::{Asked, Signals};
use crate::spool::Spool;
use crate::store::{NewParts, Reader, Usage, Writer};
use crate::views::Question;
use crate::worker::{Done, Task, Worker};
use actions::Actions;
use attempts::{Attempts, News};
use cleaning::Chores;
use commit::{Commits, OpenBatch};
use fairness::Fairness;
use guard::Guard;
use launches::Queued;
use measures::Measures;
use names::NameCheck;
use parked::Parked;
use rungs::Rungs;
use self_check::SelfChecks;
use spares::Spares;
use spool::Tickets;
use stored::Stored;
use tokens::Source;
use watch::CardWatch;
use watched::Watched;
use written::Written;

pub(crate) use start::{Setup, StartError};

/// After so long without activity, the database's log is folded in.
const QUIET_AFTER: Span = Span::seconds(60);

/// How often old jobs are removed from the accounts.
const PRUNE_EVERY: Span = Span::seconds(3600);

/// How often the rules of the time zone are read anew.
const ZONE_EVERY: Span = Span::seconds(24 * 3600);

/// Rules count as unchanged if they agree for so long ahead.
const ZONE_AHEAD: Span = Span::seconds(10 * 365 * 24 * 3600);

/// How long a daemon that stops waits for launches that have begun. The next daemon finds out about the rest.
const LAST_LAUNCHES: Duration = Duration::from_secs(3);

/// The daemon.
pub(crate) struct Engine {
    paths: Paths,
    config_file: Option<PathBuf>,
    /// The cards of this machine; `None` if none are given out.
    cards: Option<Cards>,
    /// The last sample of the cards.
    sample: Sample,
    /// The window of samples.
    ledger: Ledger,
    log: Log,
    calendar: Calendar,
    controller: Controller,
    local: Local,
    /// How jobs are held to their slices on each card.
    rungs: Rungs,
    /// What jobs were seen to do on cards.
    card_watch: CardWatch,
    self_checks: SelfChecks,
    /// Where attempts have their groups, as records name that.
    cgroup_parents: Vec<String>,
    missing: Vec<String>,
    writer: Writer,
    reader: Reader,
    commits: Commits,
    batch: OpenBatch,
    /// Why nothing is accepted or started: set while commits fail.
    read_only: Option<String>,
    /// What happened meanwhile and can't be refused.
    deferred: VecDeque<Event>,
    poller: Poller,
    waker: Arc<Waker>,
    server: Server,
    signals: Signals,
    worker: Worker,
    watched: Watched,
    launcher: Launcher,
    /// Launches for which the launcher has no room.
    launches: Queued,
    /// Why jobs are not fenced off from other cards, if they should be.
    unfenced: Option<String>,
    spool: Spool,
    /// Submissions in the spool that are no jobs.
    tickets: Tickets,
    people: People,
    parked: Parked,
    fairness: Fairness,
    /// Questions that were asked since something last happened.
    questions: Vec<Question>,
    actions: Actions,
    attempts: Attempts,
    /// Attempts about which the worker is finding out.
    settling: BTreeSet<AttemptName>,
    guard: Guard,
    /// Parts of submissions that are not durable yet.
    parts: BTreeMap<JobNumber, NewParts>,
    name_check: NameCheck,
    /// Attempts whose output files are not written down yet.
    nameless: BTreeSet<AttemptName>,
    /// Jobs that could not be read: id and reason.
    set_aside: Vec<(String, String)>,
    /// What unfinished jobs have in the store.
    stored: Stored,
    written: Written,
    usage: BTreeMap<AttemptName, Usage>,
    measures: Measures,
    chores: Chores,
    /// Folders of ended attempts that others may use.
    spares: Spares,
    next_rescan: BootTime,
    next_snapshot: BootTime,
    next_prune: BootTime,
    /// When the rules of the time zone are read next.
    next_zone: BootTime,
    last_commit: BootTime,
    quiet_done: bool,
    /// An administrator has asked it to stop, with or without the jobs.
    leaving: bool,
    ends_jobs: bool,
    stopping: bool,
}

/// The time, both clocks.
fn now() -> Now {
    Now { boot: BootTime(clock::boot_ms()), wall: WallTime(clock::wall_ms()) }
}

impl Engine {
    /// Runs until it is told to stop. Jobs go on without it.
    pub(crate) fn run(mut self) -> Result<(), String> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.stopping {
            let limit = self.patience(now());
            self.poller.wait(&mut ready, limit).map_err(|e| e.to_string())?;
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
        while self.actions.any() {
            self.go_on_with_actions();
        }
        self.flush_now();
        self.log
            .line(Level::Info, &Line::new("stopped").text("jobs_go_on", &self.attempts.watched().count()));
        let nothing_runs_on = self.nothing_runs_on();
        self.launcher.finish(LAST_LAUNCHES);
        // A supervisor that is about to make its own group needs the jobs' parent groups.
        if nothing_runs_on {
            containment::clear(&self.paths);
        }
        self.watched.finish();
        self.writer.close().map_err(|e| e.to_string())
    }

    fn nothing_runs_on(&self) -> bool {
        let any = self.controller.jobs().any(|job| job.state.is_active());
        !any && self.attempts.watched().next().is_none()
    }

    /// How long nothing has to happen; `None` for ever.
    fn patience(&self, now: Now) -> Option<Duration> {
        if self.actions.any() {
            return Some(Duration::ZERO);
        }
        let wake = self.controller.next_wake();
        let by_wall = wake.wall.map(|at| now.boot + (at - now.wall));
        let server = self.server.next_deadline().map(BootTime);
        let quiet = (!self.quiet_done).then(|| self.last_commit + QUIET_AFTER);
        // If nothing can be missed, there is no need to wake up.
        let watches = self.attempts.watched().next().is_some() || self.launcher.is_busy();
        let awaited = self.commits_wait() || self.worker.is_busy();
        let busy = watches || awaited || !self.deferred.is_empty();
        let rescan = busy.then_some(self.next_rescan);
        [wake.boot, by_wall, server, self.chores.next_due(), quiet, rescan, self.batch.deadline()]
            .into_iter()
            .chain([self.attempts.next_look(), self.parked.next_deadline(), self.guard.next_look()])
            .chain([self.fairness.next_due(), self.cards.as_ref().and_then(Cards::next_due)])
            .chain([
                self.answers_due(),
                Some(self.next_prune),
                Some(self.next_zone),
                self.cards_due(),
                self.self_checks.next_due(),
            ])
            .flatten()
            .min()
            .map(|at| Duration::from_millis((at - now.boot).0))
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
            Some(Source::Guard) => self.guard.ended(&self.poller, now().boot),
            Some(Source::Cards) => self.on_cards(|cards, poller, now| cards.ready(poller, now)),
            Some(Source::CardsEnded) => self.on_cards(|cards, poller, _| cards.ended(poller, event.token)),
            Some(Source::Socket(epoch)) => {
                let news = self.attempts.socket_ready(&self.poller, epoch, now().boot);
                self.on_news(news);
            }
            Some(Source::Process(epoch)) => {
                let news = self.attempts.process_ended(&self.poller, epoch, now().boot);
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
                    self.people.put(uid, now().boot, answer);
                    self.unpark(uid);
                }
                Done::Settled(attempt, answer) => self.on_settled(attempt, answer),
                Done::Listed(uid, conn, response) => {
                    self.fairness.ended(uid, Span(0), now().boot);
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
                Asked::Stop => self.stopping = true,
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

    /// Does everything that is due by the clock.
    fn on_time(&mut self) {
        let now = now();
        self.server.sweep(&self.poller, now.boot.0);
        self.answer_late_waiters(now);
        self.serve_late(now.boot);
        self.answer_unsaved(now.boot);
        let wake = self.controller.next_wake();
        if wake.boot.is_some_and(|at| at <= now.boot) || wake.wall.is_some_and(|at| at <= now.wall) {
            self.happened(Event::Tick);
        }
        for attempt in self.attempts.due(now.boot) {
            self.settle(attempt);
        }
        self.guard.look(&self.poller, now.boot, &mut self.log);
        self.on_cards(Cards::look);
        self.give_up_cards(now.boot);
        self.answer_unchecked(now.boot);
        self.remove_what_is_due(now.boot);
        if now.boot >= self.next_rescan {
            self.next_rescan = now.boot + self.controller.config().policy.scheduling_interval;
            // In case a wake-up was lost.
            self.on_wake();
            self.happened(Event::Tick);
        }
        if now.boot >= self.next_prune {
            self.next_prune = now.boot + PRUNE_EVERY;
            self.prune(now);
        }
        if now.boot >= self.next_zone {
            self.read_zone(now.boot);
        }
        if !self.quiet_done && now.boot - self.last_commit >= QUIET_AFTER {
            self.quiet_done = true;
            self.writer.quiet(now.wall);
        }
    }

    /// Has the rules of the time zone read: the administrator may have updated them.
    fn read_zone(&mut self, now: BootTime) {
        self.next_zone = now + ZONE_EVERY;
        self.worker.start_task(Task::ReadZone);
    }

    fn on_zone_read(&mut self, calendar: Calendar) {
        let now = now().wall;
        if calendar.zone().goes_like(self.controller.zone(), now, now + ZONE_AHEAD) {
            return;
        }
        self.log
            .line(Level::Info, &Line::new("zone").text("text", &"the clock goes by other rules from now on"));
        self.happened(Event::ZoneRead(Box::new(calendar.zone().clone())));
        self.calendar = calendar;
    }

    /// Has old jobs removed from the accounts.
    fn prune(&mut self, now: Now) {
        if self.read_only.is_some() {
            return;
        }
        // A job that is old enough to be removed must have left memory: nothing may be written about it any more.
        self.happened(Event::Tick);
        self.writer.prune(now.wall, self.controller.config().accounting.keep);
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
        if self.read_only.is_some() {
            if event != Event::Tick {
                self.deferred.push_back(event);
            }
            return;
        }
        self.step(event);
    }

    /// A wish, which is refused while commits fail.
    fn wished(&mut self, event: Event) -> Result<Vec<Decision>, ApiError> {
        self.accepts()?;
        Ok(self.step(event))
    }

    fn accepts(&self) -> Result<(), ApiError> {
        match &self.read_only {
            None => Ok(()),
            Some(why) => {
                let error = format!("nothing is accepted for now, try again later: {why}");
                Err(ApiError { class: ErrorClass::TryAgain, error })
            }
        }
    }

    fn respond(&mut self, conn: ConnId, response: &Response) {
        self.server.respond(&self.poller, conn, response, clock::boot_ms());
    }
}
