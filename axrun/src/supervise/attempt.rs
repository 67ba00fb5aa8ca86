//! The supervisor's loop: turns what happens into an event for the table. How an attempt starts, what actions do and
//! how it ends are in the modules beside this one. Only the one poll in each turn waits.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ax_core::job::state::Outcome;
use ax_core::record::{Assignment, AttemptResult, Report, Request, Started, Untouched};
use ax_core::time::WallTime;
use ax_sys::cgroup::{Events, Station};
use ax_sys::pidfd::{Exit, ProcessIdentity};
use ax_sys::process::{self, ChildReport, ChildStart, Hands};
use ax_sys::shared_word::Fence;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::socket::{self, Interest, Poller};
use ax_sys::{Result, clock, crash_point};

use super::FIRST_LOOK;
use super::act::Refused;
use super::control::{Control, PeerId, Side};
use super::place::Place;
use super::table::{Event, State};
use super::timers::Timers;
use super::tree::Tree;
use super::verdict::{Cause, Facts, LaunchError, ScriptExit};

const SIGNALS: u64 = 0;
pub(super) const REPORT: u64 = 1;
pub(super) const TREE: u64 = 2;
const CONTROL: u64 = 3;
const OF_USER: u64 = 4;

/// What its user asks for costs one part in so many of a CPU, and waits for no more than so long.
const USER_PARTS: u32 = 20;
const LONGEST_REST: Duration = Duration::from_secs(5);

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
    pub(super) awaits_tree: bool,
    /// Where this process goes; the unified part of the way is left until there is time.
    pub(super) station: Station,
    pub(super) fence: Option<Fence>,
    /// The work folder as the job got it, if it is seen when something is done to it.
    pub(super) work: Option<Untouched>,
    /// The script's own process, until it is reaped.
    pub(super) script: Option<i32>,
    /// There may be more zombies than were taken.
    zombies: bool,
    pub(super) report: Option<ChildReport>,
    pub(super) started: Option<Started>,
    pub(super) began_at: Option<WallTime>,
    pub(super) told_ending: bool,
    /// Why it is ended as soon as its warning has had its time.
    pub(super) postponed: Option<Cause>,
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
        poller.add(control.side(Side::Root), CONTROL, Interest::READ)?;
        poller.add(control.side(Side::User), OF_USER, Interest::READ)?;
        let ram = assignment.limits.ram;
        Ok(Attempt {
            place,
            assignment,
            own,
            state: State::Preparing,
            facts: Facts { ram, ..Facts::default() },
            timers: Timers::default(),
            look: FIRST_LOOK,
            tree: None,
            tree_events: None,
            awaits_tree: false,
            station: Station::default(),
            fence: None,
            work: None,
            script: None,
            zombies: false,
            report: None,
            started: None,
            began_at: None,
            told_ending: false,
            postponed: None,
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
        if self.timers.take_leave(clock::boot_ms()) {
            // Where it stays in the unit it started in, it works as well.
            let _ = self.station.enter_unified();
        }
        if self.timers.take_tell(clock::boot_ms()) {
            self.tell_started();
        }
        if self.timers.take_hear(clock::boot_ms()) {
            let _ = self.poller.add(self.control.side(Side::User), OF_USER, Interest::READ);
        }
        while let Some(event) = self.timers.take_due(clock::boot_ms()) {
            let limit = Cause::Limit(self.assignment.ending.limit);
            let cause = self.postponed.clone().filter(|_| event == Event::Terminate).unwrap_or(limit);
            self.on_for(event, Some(cause));
        }
        self.look_for_emptiness();
    }

    /// Before what happened is looked at: whoever raises the fence does so before it kills. A death by that kill is no
    /// failure of the job's. On one machine nobody raises it; see ax-leases(7).
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
            OF_USER => self.hear_user(),
            _ => self.hear(Side::Root),
        }
    }

    fn hear(&mut self, side: Side) {
        for (peer, request) in self.control.ready(side) {
            self.asked(peer, request);
        }
    }

    /// A signal to very many processes takes a while, and this process is on nobody's account: after each the user's
    /// sockets are left alone in proportion.
    fn hear_user(&mut self) {
        let begin = Instant::now();
        self.hear(Side::User);
        let rest = (begin.elapsed() * USER_PARTS).min(LONGEST_REST);
        let _ = self.poller.remove(self.control.side(Side::User));
        // The next millisecond at the earliest.
        let rest = u64::try_from(rest.as_millis()).unwrap_or_default() + 1;
        self.timers.hear = Some(clock::boot_ms().saturating_add(rest));
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

    /// How the start went, as soon as the child has no more to say: exec itself may hang.
    fn read_report(&mut self) {
        let Some(start) = self.report.as_mut().and_then(|report| report.look().transpose()) else { return };
        if let Some(report) = self.report.take() {
            let _ = self.poller.remove(&report);
        }
        let error = match start {
            Ok(ChildStart::Executed) => return self.on(Event::Launched),
            Ok(ChildStart::Failed(error, Hands::TheUsers)) => LaunchError::Job(error.text),
            Ok(ChildStart::Failed(error, Hands::Ours)) => LaunchError::Node(error.text),
            Ok(ChildStart::Died(hands)) => killed(hands),
            Err(error) => LaunchError::Node(error.to_string()),
        };
        self.facts.launch_error = Some(error);
        self.on(Event::LaunchFailed);
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
            Request::Terminate { at_once: false, warned: true, .. } if self.may_be_warned() => {
                let answer = self.warn_first(request);
                return self.control.send(peer, &reply(answer));
            }
            Request::Limit { limit } => {
                let answer = self.change_limit(*limit);
                return self.control.send(peer, &reply(answer));
            }
            Request::Terminate { at_once: true, .. } => Event::TerminateNow,
            Request::Terminate { at_once: false, .. } => Event::Terminate,
            Request::Signal { .. } => Event::Signal,
            Request::Freeze { frozen: true } => Event::Freeze,
            Request::Freeze { frozen: false } => Event::Thaw,
        };
        let answer = detail(request).and_then(|detail| self.on_with(event, &detail));
        self.control.send(peer, &reply(answer));
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
}

/// What the table's actions need to know of a request.
fn detail(request: Request) -> std::result::Result<Detail, Refused> {
    match request {
        Request::Terminate { outcome, message, .. } => {
            Ok(Detail { cause: Some(Cause::Asked { outcome, message }), signal: None })
        }
        Request::Signal { signal, batch_only } => {
            let known = Signal::from_number(signal.into()).ok_or(Refused::NoSignal(signal))?;
            Ok(Detail { cause: None, signal: Some((known, batch_only)) })
        }
        Request::Follow | Request::Limit { .. } | Request::Freeze { .. } => Ok(Detail::default()),
    }
}

fn reply(answer: std::result::Result<(), Refused>) -> Report {
    match answer {
        Ok(()) => Report::Done,
        Err(refused) => Report::Refused { error: refused.to_string() },
    }
}

/// Whoever it was while it was ours, it was not the job.
fn killed(hands: Hands) -> LaunchError {
    match hands {
        Hands::Ours => LaunchError::Node("the child was killed before it could start the script".to_owned()),
        Hands::TheUsers => LaunchError::Job("it was killed before its script began".to_owned()),
    }
}

/// Exit codes and signal numbers fit a byte on Linux.
fn script_exit(exit: Exit) -> ScriptExit {
    match exit {
        Exit::Code(code) => ScriptExit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        Exit::Signal { number, .. } => ScriptExit::Signal(u8::try_from(number).unwrap_or(u8::MAX)),
    }
}
