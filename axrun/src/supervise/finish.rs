//! The end of an attempt: reads its figures, removes its groups, records and tells the result.

use std::time::Duration;

use ax_core::record::{AttemptResult, FORMAT, Report};
use ax_sys::process::errand;
use ax_sys::{clock, crash_point};

use super::attempt::Attempt;
use super::tree::Tree;
use super::verdict::ScriptExit;
use super::{FIRST_LOOK, wall_now, work};

/// Tries to write a result, in milliseconds.
const LAST_TRY: u64 = 5000;

impl Attempt {
    /// Records how it ended. Does not return before that has worked (the lease is held so long), or nobody can ever
    /// read it, as its folder was removed.
    pub(super) fn finish(&mut self) {
        crash_point!("emptied");
        let result = self.settle();
        self.result = Some(result.clone());
        let mut pause = FIRST_LOOK;
        while self.place.write_result(&result).is_err() {
            if self.place.is_gone() {
                return;
            }
            // A full disk. axd may still hear of it, and asks are still answered.
            if pause == FIRST_LOOK {
                self.control.broadcast(&Report::Result(result.clone()));
            }
            self.timers.only_try_at(clock::boot_ms().saturating_add(pause));
            while self.timers.again.is_some() {
                self.turn();
            }
            pause = (pause * 2).min(LAST_TRY);
        }
        crash_point!("result");
        self.control.broadcast(&Report::Result(result));
    }

    /// Reads what was used while the groups are there, and removes them.
    fn settle(&mut self) -> AttemptResult {
        let used = self.tree.as_ref().map(Tree::used);
        // A group that can't be removed yet is empty all the same: axd clears such away.
        self.tree_events = None;
        let groups_gone = self.release_cards() && self.tree.as_ref().is_some_and(Tree::remove);
        // Of a script that succeeded it is not asked when it ends, but the figures are here.
        let coped = self.facts.launched && self.facts.exit == Some(ScriptExit::Code(0));
        self.facts.out_of_memory |= coped && used.as_ref().is_some_and(|used| used.out_of_memory);
        let (outcome, message) = self.facts.verdict();
        let (exit_code, signal) = match self.facts.exit.filter(|_| self.facts.launched) {
            Some(ScriptExit::Code(code)) => (Some(code), None),
            Some(ScriptExit::Signal(number)) => (None, Some(number)),
            None => (None, None),
        };
        AttemptResult {
            v: FORMAT,
            attempt: self.place.name,
            outcome,
            exit_code,
            signal,
            started_at: self.began_at,
            ended_at: wall_now(),
            cpu_us: used.as_ref().and_then(|used| used.cpu_us),
            max_ram: used.as_ref().and_then(|used| used.max_ram),
            message,
            never_started: self.facts.never_started(),
            limit_refused: self.facts.limit_refused,
            groups_gone,
            work: self.work.filter(|left| groups_gone && work::is_untouched(&self.assignment, left)),
        }
    }

    /// Takes the driver's limits off the group while it is there: what it held for the job would stay held. Whether
    /// that is done; if not, the group stays for axd to do it.
    fn release_cards(&self) -> bool {
        let Some(limits) = self.assignment.card_limits.as_ref().filter(|_| self.started.is_some()) else {
            return true;
        };
        let done = errand(&limits.clear, Duration::from_millis(limits.patience.0)).is_ok();
        crash_point!("cards released");
        done
    }
}
