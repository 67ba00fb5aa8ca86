//! The supervisor's loop: what happens becomes an event, the table says what to do, and it is done here.
//! Each action is a few lines. An action that fails never ends the supervisor: killing is tried again until
//! nothing is left, and what could not be done otherwise shows in the result or in the answer.

use std::os::fd::OwnedFd;
use std::time::Duration;

use ax_core::job::state::Outcome;
use ax_core::record::{Assignment, AttemptResult, FORMAT, ProcessMark, Report, Request, Started};
use ax_core::time::{Span, WallTime};
use ax_sys::cgroup::Events;
use ax_sys::path::Dir;
use ax_sys::pidfd::{Exit, ProcessIdentity};
use ax_sys::process::{self, ChildReport};
use ax_sys::shared_word::Fence;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::socket::{self, Interest, Poller};
use ax_sys::{Result, clock, crash_point};

use super::control::{Control, FIRST_TOKEN, PeerId};
use super::launch::Launch;
use super::place::Place;
use super::table::{Action, Event, State};
use super::timers::Timers;
use super::tree::Tree;
use super::verdict::{Cause, Facts, ScriptExit};
use super::{OVERDUE_MARGIN, boot_now, make_work_folder, wall_now};

const SIGNALS: u64 = 0;
const REPORT: u64 = 1;
const TREE: u64 = 2;

/// Zombies taken at a time: a fork bomb makes them without end, and the timers have to run.
const REAP_AT_ONCE: usize = 256;

/// Looks at a tree that is ending, in milliseconds: often at first, then ever more rarely.
const FIRST_LOOK: u64 = 10;
const LAST_LOOK: u64 = 1000;

/// Tries to write a result, in milliseconds.
const LAST_TRY: u64 = 5000;

/// A start that took longer than this begins to count anew, so that its time limit is whole.
const SLOW_START: Span = Span::seconds(1);

/// One attempt under supervision.
pub(super) struct Attempt {
    place: Place,
    assignment: Assignment,
    own: ProcessIdentity,
    state: State,
    facts: Facts,
    timers: Timers,
    look: u64,
    tree: Option<Tree>,
    tree_events: Option<Events>,
    fence: Option<Fence>,
    /// The script's own process, until it is reaped.
    script: Option<i32>,
    report: Option<ChildReport>,
    started: Option<Started>,
    began_at: Option<WallTime>,
    told_ending: bool,
    result: Option<AttemptResult>,
    signals: SignalWatch,
    control: Control,
    poller: Poller,
}

/// What one event carries that the table need not know.
#[derive(Default)]
struct Detail {
    cause: Option<Cause>,
    signal: Option<(Signal, bool)>,
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
        let control = Control::new(axd, assignment.user.uid.0, &poller);
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

    /// Makes everything that the child needs, and the child. What fails becomes the attempt's result.
    pub(super) fn start(&mut self) {
        if let Err((step, error)) = self.prepare() {
            self.facts.launch_error = Some(format!("{step}: {error}"));
            self.on(Event::LaunchFailed);
        }
    }

    fn prepare(&mut self) -> std::result::Result<(), (&'static str, String)> {
        let tree = Tree::create(&self.assignment, self.own).map_err(|error| ("groups", error.to_string()))?;
        self.tree_events = tree.events().map_err(|error| ("groups", error.to_string()))?;
        self.tree = Some(tree);
        crash_point!("cgroup");
        make_work_folder(&self.assignment).map_err(|error| ("work folder", error.to_string()))?;
        // Before the fork: the watchdog finds what it may have to kill through this record, so nothing may live
        // in the groups before it is written.
        self.record_start().map_err(|error| ("record", error.to_string()))?;
        self.listen().map_err(|error| ("control socket", error.to_string()))?;
        self.fork().map_err(|error| ("child", error.to_string()))?;
        crash_point!("forked");
        Ok(())
    }

    fn record_start(&mut self) -> std::result::Result<(), crate::failure::Failure> {
        let boot_id = clock::boot_id().map_err(crate::failure::Failure::system)?;
        let started_boot = boot_now();
        let ending = &self.assignment.ending;
        let started = Started {
            v: FORMAT,
            attempt: self.place.name,
            boot_id,
            supervisor: ProcessMark { pid: self.own.pid, start_ticks: self.own.start_ticks },
            cgroups: self.tree.as_ref().map(Tree::record).unwrap_or_default(),
            marker: self.assignment.marker.clone(),
            started_at: wall_now(),
            started_boot,
            overdue_boot: ending.limit.map(|limit| started_boot + limit + ending.kill_wait + OVERDUE_MARGIN),
        };
        self.place.write_started(&started)?;
        self.started = Some(started);
        Ok(())
    }

    fn listen(&mut self) -> Result<()> {
        let job = Dir::open(self.place.job_folder())?;
        self.control.listen(&self.place.attempt, &job, &self.poller)
    }

    fn fork(&mut self) -> Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let fence = self.fence.insert(Fence::open(&self.place.run, "guard")?);
        let launch = Launch {
            assignment: &self.assignment,
            script: self.place.job_folder().join("script"),
            fence,
            parent: self.own.pid.unsigned_abs(),
            as_root: ax_sys::credentials::own().0 == 0,
        };
        let child = tree.fork(|| launch.run())?;
        self.script = Some(child.process.pid());
        self.poller.add(&child.report, REPORT, Interest::READ)?;
        self.report = Some(child.report);
        if let Some(events) = &self.tree_events {
            self.poller.add(events, TREE, Interest::PRIORITY)?;
        }
        Ok(())
    }

    /// Until nothing of the job is left.
    pub(super) fn supervise(&mut self) {
        self.look_for_emptiness();
        while self.state != State::Done {
            self.turn();
        }
    }

    /// Waits for something to happen, and deals with it.
    fn turn(&mut self) {
        let now = clock::boot_ms();
        let limit = self.timers.next().map(|at| Duration::from_millis(at.saturating_sub(now)));
        let mut events = Vec::new();
        if self.poller.wait(&mut events, limit).is_err() {
            // Can't happen; but a supervisor that spins is better than one that ends.
            std::thread::sleep(Duration::from_millis(FIRST_LOOK));
        }
        self.read_fence();
        for event in &events {
            self.ready(event);
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
            token if token >= FIRST_TOKEN => {
                if let Some((peer, request)) = self.control.ready(token, &self.poller) {
                    self.asked(peer, request);
                }
            }
            _ => {}
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
        self.reap();
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

    fn reap(&mut self) {
        for _ in 0..REAP_AT_ONCE {
            let Ok(Some((pid, exit))) = process::reap_any() else { return };
            if self.script == Some(pid) {
                crash_point!("exit seen");
                // Its report first: a short script ends before we have seen that it began.
                self.read_report();
                self.script = None;
                self.facts.exit = Some(script_exit(exit));
                let failed = self.facts.exit != Some(ScriptExit::Code(0));
                if failed && self.tree.as_ref().is_some_and(|tree| tree.used().out_of_memory) {
                    self.on(Event::OutOfMemory);
                }
                self.on(Event::ChildExit);
            }
        }
        self.timers.again = Some(clock::boot_ms());
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
}

/// Exit codes and signal numbers fit a byte on Linux.
fn script_exit(exit: Exit) -> ScriptExit {
    match exit {
        Exit::Code(code) => ScriptExit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        Exit::Signal { number, .. } => ScriptExit::Signal(u8::try_from(number).unwrap_or(u8::MAX)),
    }
}

fn refusal(state: State) -> &'static str {
    match state {
        State::Preparing => "it has not started yet",
        State::Terminating | State::Killing | State::Draining => "it is ending",
        State::Done => "it has ended",
        State::Running | State::Suspended | State::Warned => "it can't be done now",
    }
}
