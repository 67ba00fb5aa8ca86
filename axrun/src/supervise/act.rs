//! What the table's actions do, each in a few lines. A failed action never ends the supervisor: killing is repeated
//! until nothing is left, and any other failure is told to whoever asked.

use ax_core::record::{Ending, Report, Request};
use ax_core::time::{BootTime, Span};
use ax_sys::signals::Signal;
use ax_sys::socket::Interest;
use ax_sys::{SysError, clock};

use super::attempt::{Attempt, Detail, TREE};
use super::table::{Action, Event, State};
use super::timers::Allowance;
use super::tree::Tree;
use super::verdict::Cause;
use super::{boot_now, wall_now};
use crate::failure::Failure;

/// Looks at a tree that is ending are ever more rare, up to this, in milliseconds.
const LAST_LOOK: u64 = 1000;

/// Milliseconds until it is told that a script runs.
const TELL_AFTER: u64 = 10;

/// A start that took longer than this begins to count anew, so that its time limit is whole.
const SLOW_START: Span = Span::seconds(1);

impl Attempt {
    /// An event that nobody waits for an answer to.
    pub(super) fn on(&mut self, event: Event) {
        self.on_for(event, None);
    }

    pub(super) fn on_for(&mut self, event: Event, cause: Option<Cause>) {
        let _ = self.on_with(event, &Detail { cause, signal: None });
    }

    pub(super) fn on_with(&mut self, event: Event, detail: &Detail) -> Result<(), Refused> {
        let (next, actions) = self.state.on(event);
        self.state = next;
        let mut answer = Ok(());
        for action in actions {
            answer = answer.and(self.act(*action, detail));
        }
        if event == Event::Freeze && answer.is_err() && self.state == State::Suspended {
            // Half frozen is not frozen.
            self.on(Event::Thaw);
        }
        answer
    }

    fn act(&mut self, action: Action, detail: &Detail) -> Result<(), Refused> {
        match action {
            Action::Begin => self.begin(),
            Action::NoteCause => {
                if let Some(cause) = &detail.cause {
                    self.facts.note_cause(cause.clone());
                }
            }
            Action::NoteOutOfMemory => self.facts.out_of_memory = true,
            Action::Warn => return self.warn(),
            Action::Term => return self.with_tree(Tree::terminate),
            Action::StartGrace => self.start_grace(),
            Action::Kill => return self.kill(),
            Action::Freeze => return self.freeze(),
            Action::Thaw => return self.thaw(),
            Action::Signal => {
                let Some((signal, script_only)) = detail.signal else { return Ok(()) };
                return self.with_tree(|tree| tree.signal(signal, self.script, script_only));
            }
            Action::Refuse => return Err(Refused::State(self.state)),
        }
        Ok(())
    }

    fn with_tree(&self, act: impl Fn(&Tree) -> ax_sys::Result<()>) -> Result<(), Refused> {
        Ok(self.tree.as_ref().map_or(Ok(()), act)?)
    }

    /// The script runs from here on.
    fn begin(&mut self) {
        self.facts.launched = true;
        self.began_at = Some(wall_now());
        let now = boot_now();
        self.timers.begin(now.0, Allowance::of(&self.assignment.ending));
        if self.started.as_ref().is_some_and(|started| now - started.started_boot > SLOW_START) {
            self.rewrite_overdue(self.timers.overdue);
        }
        // Not at once: the result of a job that is over by then says it as well, and nobody is woken twice.
        self.timers.tell = Some(now.0.saturating_add(TELL_AFTER));
    }

    /// It may run for so long altogether from now on; if it has done so already, it is over its limit at once. The watchdog
    /// is told first: it must not end what may go on. Where it can't be told, only a shorter limit counts: it would end
    /// the job too late, which nobody needs then.
    pub(super) fn change_limit(&mut self, limit: Option<Span>) -> Result<(), Refused> {
        if self.state.is_ending() || self.state == State::Preparing {
            return Err(Refused::State(self.state));
        }
        let ending = Ending { limit, ..self.assignment.ending.clone() };
        let mut timers = self.timers.clone();
        timers.allow(boot_now().0, Allowance::of(&ending));
        if self.state != State::Suspended
            && let Some(mut started) = self.started.clone()
        {
            started.overdue_boot = timers.overdue.map(BootTime);
            match self.place.write_started(&started) {
                Ok(()) => self.started = Some(started),
                Err(_) if timers.is_stricter_than(&self.timers) => {}
                Err(failure) => return Err(Refused::Unwritten(failure)),
            }
        }
        // Whoever was warned of an end that does not come now is warned again.
        if self.state == State::Warned
            && self.postponed.is_none()
            && timers.warn.is_some_and(|at| at > boot_now().0)
        {
            self.state = State::Running;
        }
        self.timers = timers;
        self.assignment.ending = ending;
        Ok(())
    }

    /// Tells all who follow that the script runs.
    pub(super) fn tell_started(&mut self) {
        self.timers.tell = None;
        if let Some(started) = self.started.clone() {
            self.control.broadcast(&Report::Started(started));
        }
    }

    fn warn(&self) -> Result<(), Refused> {
        let Some(warn) = self.assignment.ending.warn else { return Ok(()) };
        let Some(signal) = Signal::from_number(warn.signal.into()) else { return Ok(()) };
        self.with_tree(|tree| tree.signal(signal, self.script, warn.batch_only))
    }

    /// Whether there is a warning that it asked for and could hear.
    pub(super) fn may_be_warned(&self) -> bool {
        self.state.is_live() && self.assignment.ending.warn.is_some()
    }

    /// Its end is asked for: it is warned, and ended after the time that it wanted. Asked again, that time goes on.
    pub(super) fn warn_first(&mut self, request: Request) -> Result<(), Refused> {
        let Some(warn) = self.assignment.ending.warn.filter(|_| self.postponed.is_none()) else {
            return Ok(());
        };
        if let Request::Terminate { outcome, message, .. } = request {
            self.postponed = Some(Cause::Asked { outcome, message });
        }
        let longest = self.assignment.ending.longest_warning.unwrap_or(warn.before);
        self.timers.asked = Some(clock::boot_ms().saturating_add(warn.before.min(longest).0));
        self.warn()
    }

    fn start_grace(&mut self) {
        let now = clock::boot_ms();
        self.timers.grace = Some(now.saturating_add(self.assignment.ending.kill_wait.0));
        self.look_again(now);
    }

    fn kill(&mut self) -> Result<(), Refused> {
        self.look_again(clock::boot_ms());
        if self.is_empty() { Ok(()) } else { self.with_tree(Tree::kill) }
    }

    /// Whether nothing is left of its tree. Where that can't be seen something is.
    fn is_empty(&self) -> bool {
        match (&self.tree_events, &self.tree) {
            // One read of a file that is open.
            (Some(events), _) => events.populated().is_ok_and(|populated| !populated),
            (None, Some(tree)) => tree.is_empty().unwrap_or(false),
            (None, None) => true,
        }
    }

    /// Lets the groups wake us from now on. Not before: most jobs are empty when their script has ended, and
    /// should not pay for being told that they began.
    fn await_emptiness(&mut self) {
        if let Some(events) = self.tree_events.as_ref().filter(|_| !self.awaits_tree) {
            self.awaits_tree = self.poller.add(events, TREE, Interest::PRIORITY).is_ok();
        }
    }

    fn look_again(&mut self, now: u64) {
        self.timers.again = Some(now.saturating_add(self.look));
        self.look = (self.look * 2).min(LAST_LOOK);
    }

    fn freeze(&mut self) -> Result<(), Refused> {
        self.with_tree(Tree::freeze)?;
        self.timers.freeze(clock::boot_ms());
        // The watchdog must not take a job that stands still for one that is overdue.
        self.rewrite_overdue(None);
        if self.timers.tell.is_some() {
            self.tell_started();
        }
        self.control.broadcast(&Report::Frozen { attempt: self.place.name, frozen: true });
        Ok(())
    }

    fn thaw(&mut self) -> Result<(), Refused> {
        let thawed = self.with_tree(Tree::thaw);
        self.timers.thaw(clock::boot_ms());
        self.rewrite_overdue(self.timers.overdue);
        self.control.broadcast(&Report::Frozen { attempt: self.place.name, frozen: false });
        thawed
    }

    /// Should this fail, the old record stays and the watchdog may end the job late or early by what it says.
    fn rewrite_overdue(&mut self, overdue: Option<u64>) {
        let Some(started) =
            self.started.as_mut().filter(|started| started.overdue_boot.is_some() || overdue.is_some())
        else {
            return;
        };
        started.overdue_boot = overdue.map(BootTime);
        let _ = self.place.write_started(started);
    }

    /// At the end of each turn of an attempt that is ending: is anything left?
    pub(super) fn look_for_emptiness(&mut self) {
        if !self.state.is_ending() || self.state == State::Done {
            return;
        }
        if self.script.is_none() && self.is_empty() {
            return self.on(Event::Empty);
        }
        self.await_emptiness();
        if self.timers.again.is_none() {
            self.look_again(clock::boot_ms());
        }
        if !self.told_ending && self.facts.launched {
            if self.timers.tell.is_some() {
                self.tell_started();
            }
            self.told_ending = true;
            self.control.broadcast(&Report::Ending { attempt: self.place.name });
        }
    }
}

/// Why something that was asked for is not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// It is not possible in this state.
    #[error("{}", refusal(*.0))]
    State(State),
    /// Linux has none with this number.
    #[error("there is no signal {0}")]
    NoSignal(u8),
    /// The watchdog can't be told.
    #[error("{0}")]
    Unwritten(Failure),
    /// The system refused it.
    #[error(transparent)]
    System(#[from] SysError),
}

fn refusal(state: State) -> &'static str {
    match state {
        State::Preparing => "it has not started yet",
        State::Terminating | State::Killing | State::Draining => "it is ending",
        State::Done => "it has ended",
        State::Running | State::Suspended | State::Warned => "it can't be done now",
    }
}
