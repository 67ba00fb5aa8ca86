//! What the loop does by the clock, and how long it may sleep until then.

use std::time::Duration;

use ax_core::controller::Event;
use ax_core::time::{BootTime, Now, Span};

use super::{Engine, now};
use crate::calendar::Calendar;
use crate::cards::Cards;
use crate::log::{Level, Line};
use crate::worker::Task;

/// After so long without activity, the database's log is folded in.
const QUIET_AFTER: Span = Span::seconds(60);

/// How often old jobs are removed from the accounts.
const PRUNE_EVERY: Span = Span::seconds(3600);

/// How often the rules of the time zone are read anew.
const ZONE_EVERY: Span = Span::seconds(24 * 3600);

/// Rules count as unchanged if they agree for so long ahead.
const ZONE_AHEAD: Span = Span::seconds(10 * 365 * 24 * 3600);

/// When the loop itself does something next.
pub(super) struct Due {
    /// A look at everything, in case a wake-up was lost.
    rescan: BootTime,
    /// Old jobs are removed from the accounts.
    pub(super) prune: BootTime,
    /// The rules of the time zone are read.
    zone: BootTime,
    /// The database's log is folded in; `None` if it has not grown since.
    fold: Option<BootTime>,
}

impl Due {
    /// For a daemon that starts now.
    pub(super) fn from(now: BootTime, rescan_every: Span) -> Due {
        Due { rescan: now + rescan_every, prune: now, zone: now + ZONE_EVERY, fold: Some(now + QUIET_AFTER) }
    }

    /// The database's log has grown: it is folded in when the daemon is quiet.
    pub(super) fn log_has_grown(&mut self, now: BootTime) {
        self.fold = Some(now + QUIET_AFTER);
    }
}

impl Engine {
    /// How long nothing has to happen; `None` for ever.
    pub(super) fn patience(&self, now: Now) -> Option<Duration> {
        if self.clients.actions.any() {
            return Some(Duration::ZERO);
        }
        let wake = self.controller.next_wake();
        let by_wall = wake.wall.map(|at| now.boot + (at - now.wall));
        let server = self.server.next_deadline().map(BootTime);
        // If nothing can be missed, there is no need to wake up.
        let watches =
            self.supervision.attempts.watched().next().is_some() || self.supervision.launcher.is_busy();
        let awaited = self.commits_wait() || self.worker.is_busy();
        let busy = watches || awaited || self.commits.writes.defers();
        let rescan = busy.then_some(self.due.rescan);
        [
            wake.boot,
            by_wall,
            server,
            self.cleaning.chores.next_due(),
            self.due.fold,
            rescan,
            self.commits.open.deadline(),
        ]
        .into_iter()
        .chain([
            self.supervision.attempts.next_look(),
            self.clients.parked.next_deadline(),
            self.supervision.guard.next_look(),
        ])
        .chain([self.clients.fairness.next_due(), self.gpu.cards.as_ref().and_then(Cards::next_due)])
        .chain([
            self.answers_due(),
            Some(self.due.prune),
            Some(self.due.zone),
            self.cards_due(),
            self.self_checks.next_due(),
        ])
        .flatten()
        .min()
        .map(|at| Duration::from_millis((at - now.boot).0))
    }

    /// Does everything that is due by the clock.
    pub(super) fn on_time(&mut self) {
        let now = now();
        self.server.sweep(&self.poller, now.boot.0);
        self.answer_late_waiters(now);
        self.serve_late(now.boot);
        self.answer_unsaved(now.boot);
        let wake = self.controller.next_wake();
        if wake.boot.is_some_and(|at| at <= now.boot) || wake.wall.is_some_and(|at| at <= now.wall) {
            self.happened(Event::Tick);
        }
        for attempt in self.supervision.attempts.due(now.boot) {
            self.look_at(attempt);
        }
        self.supervision.guard.look(&self.poller, now.boot, &mut self.log);
        self.on_cards(Cards::look);
        self.give_up_cards(now.boot);
        self.answer_unchecked(now.boot);
        self.remove_what_is_due(now.boot);
        if now.boot >= self.due.rescan {
            self.due.rescan = now.boot + self.controller.config().policy.scheduling_interval;
            // In case a wake-up was lost.
            self.on_wake();
            self.happened(Event::Tick);
        }
        if now.boot >= self.due.prune {
            self.due.prune = now.boot + PRUNE_EVERY;
            self.prune(now);
        }
        if now.boot >= self.due.zone {
            self.read_zone(now.boot);
        }
        if self.due.fold.is_some_and(|at| at <= now.boot) {
            self.due.fold = None;
            self.commits.writer.quiet(now.wall);
        }
    }

    /// Has the rules of the time zone read: the administrator may have updated them.
    pub(super) fn read_zone(&mut self, now: BootTime) {
        self.due.zone = now + ZONE_EVERY;
        self.worker.start_task(Task::ReadZone);
    }

    pub(super) fn on_zone_read(&mut self, calendar: Calendar) {
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
        if self.commits.writes.failing().is_some() {
            return;
        }
        // A job that is old enough to be removed must have left memory: nothing may be written about it any more.
        self.happened(Event::Tick);
        self.commits.writer.prune(now.wall, self.controller.config().accounting.keep);
    }
}
