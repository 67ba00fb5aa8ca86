//! The supervisor's loop: what happens becomes an event for the table. How an attempt starts, what actions do and how it
//! ends are in the modules beside this one. Nothing here waits but the one poll of each turn.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ax_core::job::state::Outcome;
use ax_core::record::{Assignment, AttemptResult, Report, Request, Started};
use ax_core::time::WallTime;
use ax_sys::cgroup::Events;
use ax_sys::pidfd::{Exit, ProcessIdentity};
use ax_sys::process::{self, ChildReport};
use ax_sys::shared_word::Fence;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::socket::{self, Interest, Poller};
use ax_sys::{Result, clock, crash_point};

use super::FIRST_LOOK;
use super::control::{Control, PeerId};
use super::place::Place;
use super::table::{Event, State};
use super::timers::Timers;
use super::tree::Tree;
use super::verdict::{Cause, Facts, ScriptExit};

const SIGNALS: u64 = 0;
pub(super) const REPORT: u64 = 1;
pub(super) const TREE: u64 = 2;
const CONTROL: u64 = 3;

/// Zombies taken at a time: a fork bomb makes them without end, and the timers have to run.
const REAP_AT_ONCE: usize = 256;

/// One attempt under supervision.
pub(super) struct Attempt {
    pub(super) place: Place,
    pub(super) assignment: Assignment,
    pub(super) own: ProcessIdentity,
    pub(super) state: State,
    pub(super) facts: Facts,
    pub(super) timers: Timers,
    pub(super) look: u64,
    pub(super) tree: Option<Tree>,
    pub(super) tree_events: Option<Events>,
    pub(super) fence: Option<Fence>,
    /// The script's own process, until it is reaped.
    pub(super) script: Option<i32>,
    /// There may be more zombies than were taken.
    zombies: bool,
    pub(super) report: Option<ChildReport>,
    pub(super) started: Option<Started>,
    pub(super) began_at: Option<WallTime>,
    pub(super) told_ending: bool,
    pub(super) result: Option<AttemptResult>,
    pub(super) signals: SignalWatch,
    pub(super) control: Control,
    pub(super) poller: Poller,
}

/// What one event carries that the table need not know.
#[derive(Default)]
pub(super) struct Detail {
    pub(super) cause: Option<Cause>,
    pub(super) signal: Option<(Signal, bool)>,
}

impl Attempt {
    pub(super) fn new(
        place: Place,
        assignment: Assignment,
        own: ProcessIdentity,
        signals: SignalWatch,
        axd: Option<OwnedFd>,
    ) -> Result<Attempt> {
        let poller = Poller::new()?;
        poller.add(&signals, SIGNALS, Interest::READ)?;
        let control = Control::new(axd, assignment.user.uid.0)?;
        poller.add(&control, CONTROL, Interest::READ)?;
        Ok(Attempt {
            place,
            assignment,
            own,
            state: State::Preparing,
            facts: Facts::default(),
            timers: Timers::default(),
            look: FIRST_LOOK,
            tree: None,
            tree_events: None,
            fence: None,
            script: None,
            zombies: false,
            report: None,
            started: None,
            began_at: None,
            told_ending: false,
            result: None,
            signals,
            control,
            poller,
        })
    }

    /// Until nothing of the job is left.
    pub(super) fn supervise(&mut self) {
        self.look_for_emptiness();
        while self.state != State::Done {
            self.turn();
        }
    }

    /// Waits for something to happen, and deals with it.
    pub(super) fn turn(&mut self) {
        let now = clock::boot_ms();
        let next = self.timers.next().map(|at| Duration::from_millis(at.saturating_sub(now)));
        let limit = if self.zombies { Some(Duration::ZERO) } else { next };
        let mut events = Vec::new();
        if self.poller.wait(&mut events, limit).is_err() {
            // Can't happen; but a supervisor that spins is better than one that ends.
            std::thread::sleep(Duration::from_millis(FIRST_LOOK));
        }
        self.read_fence();
        for event in &events {
            self.ready(event);
        }
        if self.zombies {
            self.reap();
        }
        while let Some(event) = self.timers.take_due(clock::boot_ms()) {
            self.on_for(event, Some(Cause::Limit(self.assignment.ending.limit)));
        }
        self.look_for_emptiness();
    }

    /// Before what happened is looked at: the guard raises the fence, then kills. A death by that kill is no failure
    /// of the job's.
    fn read_fence(&mut self) {
        let lowest = self.fence.as_ref().map_or(0, Fence::lowest_node_epoch);
        if lowest > self.assignment.node_epoch && !self.state.is_ending() {
            self.on_for(Event::LeaseLost, Some(Cause::LeaseLost));
        }
    }

    fn ready(&mut self, event: &socket::Event) {
        match event.token {
            SIGNALS => self.read_signals(),
            REPORT => self.read_report(),
            // Reading re-arms it; what it says is asked for at the end of each turn.
            TREE => drop(self.tree_events.as_ref().map(Events::populated)),
            _ => {
                for (peer, request) in self.control.ready() {
                    self.asked(peer, request);
                }
            }
        }
    }

    fn read_signals(&mut self) {
        let mut told_to_end = false;
        while let Ok(Some(signal)) = self.signals.next() {
            told_to_end |= signal == Signal::TERM;
        }
        if told_to_end {
            let message = "the supervisor was told to end (SIGTERM)".to_owned();
            let cause = Some(Cause::Asked { outcome: Outcome::NodeFail, message });
            self.on_for(Event::Terminate, cause);
        }
        self.zombies = true;
    }

    /// How the start went. Readable as well when the child is dead.
    fn read_report(&mut self) {
        let Some(report) = self.report.take() else { return };
        let _ = self.poller.remove(&report);
        match report.wait() {
            Ok(None) => self.on(Event::Launched),
            Ok(Some(error)) => {
                self.facts.launch_error = Some(error.text);
                self.on(Event::LaunchFailed);
            }
            Err(error) => {
                self.facts.launch_error = Some(error.to_string());
                self.on(Event::LaunchFailed);
            }
        }
    }

    /// Takes away children that have ended: the script and what it orphaned.
    fn reap(&mut self) {
        for _ in 0..REAP_AT_ONCE {
            let Ok(Some((pid, exit))) = process::reap_any() else {
                self.zombies = false;
                return;
            };
            if self.script == Some(pid) {
                self.script_ended(script_exit(exit));
            }
        }
    }

    fn script_ended(&mut self, exit: ScriptExit) {
        crash_point!("exit seen");
        // Its report first: a short script ends before we have seen that it began.
        self.read_report();
        self.script = None;
        self.facts.exit = Some(exit);
        let failed = exit != ScriptExit::Code(0);
        if failed && self.tree.as_ref().is_some_and(|tree| tree.used().out_of_memory) {
            self.on(Event::OutOfMemory);
        }
        self.on(Event::ChildExit);
    }

    fn asked(&mut self, peer: PeerId, request: Request) {
        let event = match &request {
            Request::Follow => return self.follow(peer),
            Request::Terminate { at_once: true, .. } => Event::TerminateNow,
            Request::Terminate { at_once: false, .. } => Event::Terminate,
            Request::Signal { .. } => Event::Signal,
            Request::Freeze { frozen: true } => Event::Freeze,
            Request::Freeze { frozen: false } => Event::Thaw,
        };
        let answer = match self.detail(request) {
            Ok(detail) => self.on_with(event, &detail),
            Err(error) => Err(error),
        };
        let answer = answer.map_or_else(|error| Report::Refused { error }, |()| Report::Done);
        self.control.send(peer, &answer);
    }

    fn detail(&self, request: Request) -> std::result::Result<Detail, String> {
        match request {
            Request::Terminate { outcome, message, .. } => {
                Ok(Detail { cause: Some(Cause::Asked { outcome, message }), signal: None })
            }
            Request::Signal { signal, batch_only } => {
                let known = Signal::from_number(signal.into())
                    .ok_or_else(|| format!("there is no signal {signal}"))?;
                Ok(Detail { cause: None, signal: Some((known, batch_only)) })
            }
            Request::Follow | Request::Freeze { .. } => Ok(Detail::default()),
        }
    }

    /// Tells a new follower where the attempt stands.
    fn follow(&mut self, peer: PeerId) {
        let attempt = self.place.name;
        self.control.follow(peer);
        let begun = self.started.clone().filter(|_| self.facts.launched).map(Report::Started);
        let frozen = (self.state == State::Suspended).then_some(Report::Frozen { attempt, frozen: true });
        let ending = self.told_ending.then_some(Report::Ending { attempt });
        let result = self.result.clone().map(Report::Result);
        let all = [Some(Report::Done), begun, frozen, ending, result];
        for report in all.into_iter().flatten() {
            self.control.send(peer, &report);
        }
    }
<<<<<<< HEAD

    /// An event that nobody waits for an answer to.
    fn on(&mut self, event: Event) {
        self.on_for(event, None);
    }

    fn on_for(&mut self, event: Event, cause: Option<Cause>) {
        let _ = self.on_with(event, &Detail { cause, signal: None });
    }

    fn on_with(&mut self, event: Event, detail: &Detail) -> std::result::Result<(), String> {
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

    fn act(&mut self, action: Action, detail: &Detail) -> std::result::Result<(), String> {
        match action {
            Action::Begin => self.begin(),
            Action::NoteLaunchFailed => {}
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
            Action::Refuse => return Err(refusal(self.state).to_owned()),
        }
        Ok(())
    }

    fn with_tree(&self, act: impl Fn(&Tree) -> Result<()>) -> std::result::Result<(), String> {
        self.tree.as_ref().map_or(Ok(()), act).map_err(|error| error.to_string())
    }

    /// The script runs from here on.
    fn begin(&mut self) {
        self.facts.launched = true;
        self.began_at = Some(wall_now());
        let now = boot_now();
        let ending = &self.assignment.ending;
        if let Some(limit) = ending.limit {
            let warn = ending.warn.map(|warn| warn.before.0);
            self.timers.begin(now.0, limit.0, warn, (limit + ending.kill_wait + OVERDUE_MARGIN).0);
        }
        if self.started.as_ref().is_some_and(|started| now - started.started_boot > SLOW_START) {
            self.rewrite_overdue(self.timers.overdue);
        }
        if let Some(started) = self.started.clone() {
            self.control.broadcast(&Report::Started(started));
        }
    }

    fn warn(&self) -> std::result::Result<(), String> {
        let Some(warn) = self.assignment.ending.warn else { return Ok(()) };
        let Some(signal) = Signal::from_number(warn.signal.into()) else { return Ok(()) };
        self.with_tree(|tree| tree.signal(signal, self.script, warn.batch_only))
    }

    fn start_grace(&mut self) {
        let now = clock::boot_ms();
        self.timers.grace = Some(now.saturating_add(self.assignment.ending.kill_wait.0));
        self.look_again(now);
    }

    fn kill(&mut self) -> std::result::Result<(), String> {
        self.look_again(clock::boot_ms());
        self.with_tree(Tree::kill)
    }

    fn look_again(&mut self, now: u64) {
        self.timers.again = Some(now.saturating_add(self.look));
        self.look = (self.look * 2).min(LAST_LOOK);
    }

    fn freeze(&mut self) -> std::result::Result<(), String> {
        self.with_tree(Tree::freeze)?;
        self.timers.freeze(clock::boot_ms());
        // The watchdog must not take a job that stands still for one that is overdue.
        self.rewrite_overdue(None);
        self.control.broadcast(&Report::Frozen { attempt: self.place.name, frozen: true });
        Ok(())
    }

    fn thaw(&mut self) -> std::result::Result<(), String> {
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
        started.overdue_boot = overdue.map(ax_core::time::BootTime);
        let _ = self.place.write_started(started);
    }

    /// At the end of each turn of an attempt that is ending: is anything left?
    fn look_for_emptiness(&mut self) {
        if !self.state.is_ending() || self.state == State::Done {
            return;
        }
        let empty = self.tree.as_ref().is_none_or(|tree| tree.is_empty().unwrap_or(false));
        if self.script.is_none() && empty {
            return self.on(Event::Empty);
        }
        if self.timers.again.is_none() {
            self.look_again(clock::boot_ms());
        }
        if !self.told_ending && self.facts.launched {
            self.told_ending = true;
            self.control.broadcast(&Report::Ending { attempt: self.place.name });
        }
    }

    /// Records how it ended. Does not return before that has worked: the lease is held so long.
    pub(super) fn finish(&mut self) {
        crash_point!("emptied");
        let result = self.settle();
        self.result = Some(result.clone());
        let mut pause = FIRST_LOOK;
        while self.place.write_result(&result).is_err() {
            // A full disk. axd may still hear of it, and asks are still answered.
            if pause == FIRST_LOOK {
                self.control.broadcast(&Report::Result(result.clone()));
            }
            self.timers = Timers::default();
            self.timers.again = Some(clock::boot_ms().saturating_add(pause));
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
        let _ = self.tree.as_ref().map(Tree::remove);
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
        }
    }
=======
>>>>>>> axrun
}

/// Exit codes and signal numbers fit a byte on Linux.
fn script_exit(exit: Exit) -> ScriptExit {
    match exit {
        Exit::Code(code) => ScriptExit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        Exit::Signal { number, .. } => ScriptExit::Signal(u8::try_from(number).unwrap_or(u8::MAX)),
    }
}
