//! The supervisors of this node's running attempts, as the loop sees them: a socket for reports and requests, and a
//! process whose end is watched. Hands on what they report and decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use ax_core::id::{AttemptName, Epoch};
use ax_core::paths::Paths;
use ax_core::record::{Report, Request, Started};
use ax_core::time::{BootTime, Span};
use ax_sys::path::Dir;
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::socket::{Interest, Poller};
use ax_sys::{SysError, credentials};

use super::guard::Guard;
use super::launches::Queued;
use super::tokens;
use crate::launcher::Launcher;

/// A supervisor that runs but can't be reached yet is tried again after this, then ever more rarely.
const RETRY: Span = Span(100);
const LAST_RETRY: Span = Span::seconds(5);

/// Largest report; reports are small records.
const MAX_REPORT: usize = 64 << 10;

/// What starts attempts on this node, and follows them.
pub(super) struct Supervision {
    /// Starts supervisors, on a thread of its own.
    pub(super) launcher: Launcher,
    /// Launches for which the launcher has no room.
    pub(super) queued: Queued,
    pub(super) attempts: Attempts,
    /// Attempts about which the worker is finding out.
    pub(super) settling: BTreeSet<AttemptName>,
    /// Keeps a watchdog running.
    pub(super) guard: Guard,
}

impl Supervision {
    /// Without any attempt.
    pub(super) fn new(launcher: Launcher, guard: Guard) -> Supervision {
        Supervision {
            launcher,
            queued: Queued::default(),
            attempts: Attempts::default(),
            settling: BTreeSet::new(),
            guard,
        }
    }
}

/// What a supervisor made of a changed limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    /// It was told of none over this connection.
    Untold,
    /// It was, and has not refused it.
    Told,
    /// It refused it, and is told again.
    Refused,
    /// It refused it and closed the connection: it is of a version that knows no such request.
    Unknown,
}

/// One supervisor.
#[derive(Debug)]
struct Supervisor {
    name: AttemptName,
    process: Option<PidFd>,
    socket: Option<OwnedFd>,
    /// Requests that could not be sent yet.
    waiting: Vec<Request>,
    /// True if its result came over the socket.
    reported: bool,
    limits: Limits,
    /// True if it was told that it refuses one.
    complained: bool,
    /// Set if it is not adopted, not connected, or to be told a limit again: when to look, and the pause before that.
    look_again: Option<BootTime>,
    pause: Span,
}

impl Supervisor {
    fn unknown(name: AttemptName) -> Supervisor {
        Supervisor {
            name,
            process: None,
            socket: None,
            waiting: Vec::new(),
            reported: false,
            limits: Limits::Untold,
            complained: false,
            look_again: None,
            pause: RETRY,
        }
    }

    /// Ever more rarely.
    fn look_later(&mut self, now: BootTime) {
        self.look_again = Some(now + self.pause);
        self.pause = Span((self.pause.0 * 2).min(LAST_RETRY.0));
    }
}

/// What the loop hears of attempts.
#[derive(Debug)]
pub(super) enum News {
    /// The supervisor says so.
    Reported(AttemptName, Box<Report>),
    /// The supervisor is gone and had not reported the end: that has to be found out.
    Vanished(AttemptName),
    /// The supervisor is gone; its result had come before.
    Finished,
}

/// All supervisors.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    all: BTreeMap<Epoch, Supervisor>,
    /// For reports; kept, since each job sends several.
    buffer: Vec<u8>,
}

impl Attempts {
    /// Enters an attempt whose supervisor is about to be started, with our end of its socket.
    pub(super) fn expect(
        &mut self,
        poller: &Poller,
        name: AttemptName,
        socket: OwnedFd,
    ) -> Result<(), SysError> {
        poller.add(&socket, tokens::socket_of(name.epoch), Interest::READ)?;
        self.keep(poller, Supervisor { socket: Some(socket), ..Supervisor::unknown(name) });
        Ok(())
    }

    /// The supervisor was started: this is its process. It may even have ended meanwhile.
    pub(super) fn launched(
        &mut self,
        poller: &Poller,
        name: AttemptName,
        process: PidFd,
    ) -> Result<(), SysError> {
        poller.add(&process, tokens::process_of(name.epoch), Interest::READ)?;
        let entry = self.all.entry(name.epoch).or_insert_with(|| Supervisor::unknown(name));
        entry.process = Some(process);
        Ok(())
    }

    /// The supervisor could not be started.
    pub(super) fn abandon(&mut self, poller: &Poller, name: AttemptName) {
        if let Some(socket) = self.all.remove(&name.epoch).and_then(|entry| entry.socket) {
            let _ = poller.remove(&socket);
        }
    }

    /// Stores an entry; requests that waited at an earlier entry of the same attempt go along, and what is known of it.
    fn keep(&mut self, poller: &Poller, mut entry: Supervisor) {
        let epoch = entry.name.epoch;
        let earlier = self.all.remove(&epoch);
        if let Some(earlier) = earlier {
            entry.reported |= earlier.reported;
            entry.waiting.extend(earlier.waiting);
            entry.complained = earlier.complained;
            entry.pause = earlier.pause;
            if earlier.limits == Limits::Unknown {
                entry.limits = Limits::Unknown;
            }
        }
        self.all.insert(epoch, entry);
        self.flush(poller, epoch);
    }

    /// Takes over a supervisor that an earlier daemon started. It must be the very process that wrote the record, and
    /// its socket must belong to root or us. Returns `Ok(false)` if it has ended meanwhile.
    pub(super) fn adopt(
        &mut self,
        poller: &Poller,
        paths: &Paths,
        started: &Started,
        now: BootTime,
    ) -> Result<bool, SysError> {
        let name = started.attempt;
        let mark = started.supervisor;
        let identity = ProcessIdentity { pid: mark.pid, start_ticks: mark.start_ticks };
        let Some(process) = PidFd::open_checked(identity)? else { return Ok(false) };
        // It has the lease, but may not listen yet.
        let Ok(socket) = connect(paths, name) else {
            self.look_again(name, now);
            return Ok(true);
        };
        poller.add(&socket, tokens::socket_of(name.epoch), Interest::READ)?;
        poller.add(&process, tokens::process_of(name.epoch), Interest::READ)?;
        let (process, socket, waiting) = (Some(process), Some(socket), vec![Request::Follow]);
        self.keep(poller, Supervisor { process, socket, waiting, ..Supervisor::unknown(name) });
        Ok(true)
    }

    /// An attempt whose supervisor runs but can't be reached yet.
    pub(super) fn look_again(&mut self, name: AttemptName, now: BootTime) {
        self.all.entry(name.epoch).or_insert_with(|| Supervisor::unknown(name)).look_later(now);
    }

    /// A supervisor refused something. True if it is for the first time that it refuses a limit, which it is told again
    /// later.
    pub(super) fn was_refused(&mut self, name: AttemptName, now: BootTime) -> bool {
        let entry = self.all.get_mut(&name.epoch);
        let Some(entry) = entry.filter(|s| matches!(s.limits, Limits::Refused | Limits::Unknown)) else {
            return false;
        };
        if entry.limits == Limits::Refused && entry.look_again.is_none() {
            entry.look_later(now);
        }
        !std::mem::replace(&mut entry.complained, true)
    }

    /// Whether it can be told again what it refused.
    pub(super) fn has_refused_limit(&self, name: AttemptName) -> bool {
        self.all.get(&name.epoch).is_some_and(|s| s.socket.is_some() && s.limits == Limits::Refused)
    }

    /// Whether it knows of no other limits: told again, it would only close the connection again.
    pub(super) fn knows_no_limits(&self, name: AttemptName) -> bool {
        self.all.get(&name.epoch).is_some_and(|s| s.limits == Limits::Unknown)
    }

    /// Attempts that are to be looked at again now.
    pub(super) fn due(&mut self, now: BootTime) -> Vec<AttemptName> {
        let due = self.all.values_mut().filter(|s| s.look_again.is_some_and(|at| at <= now));
        due.map(|s| {
            s.look_again = None;
            s.name
        })
        .collect()
    }

    /// When the next attempt is to be looked at again.
    pub(super) fn next_look(&self) -> Option<BootTime> {
        self.all.values().filter_map(|s| s.look_again).min()
    }

    /// Attempts whose supervisor is watched.
    pub(super) fn watched(&self) -> impl Iterator<Item = AttemptName> {
        self.all.values().filter(|s| s.process.is_some() || s.socket.is_some()).map(|s| s.name)
    }

    /// Sends a request to a supervisor, now or as soon as it can be reached: if an earlier daemon started it, it may
    /// not be known yet. Of limits the latest counts.
    pub(super) fn ask(&mut self, poller: &Poller, name: AttemptName, request: Request) {
        let entry = self.all.entry(name.epoch).or_insert_with(|| Supervisor::unknown(name));
        if is_limit(&request) {
            entry.waiting.retain(|waiting| !is_limit(waiting));
        }
        entry.waiting.push(request);
        self.flush(poller, name.epoch);
    }

    /// Sends what waits. What the socket does not take stays, and is tried when the supervisor sends something.
    fn flush(&mut self, poller: &Poller, epoch: Epoch) {
        let Some(entry) = self.all.get_mut(&epoch) else { return };
        let Some(socket) = entry.socket.as_ref().filter(|_| !entry.waiting.is_empty()) else { return };
        let unsent = entry.waiting.iter().position(|request| {
            let text = serde_json::to_vec(request).unwrap_or_default();
            !seqpacket::send(socket, &text)
        });
        let sent = unsent.unwrap_or(entry.waiting.len());
        if entry.waiting.drain(..sent).any(|request| is_limit(&request)) {
            entry.limits = Limits::Told;
        }
        let interest = if entry.waiting.is_empty() { Interest::READ } else { Interest::READ_WRITE };
        // If the socket can't be watched, the end of the process tells its end.
        let _ = poller.modify(socket, tokens::socket_of(epoch), interest);
    }

    /// Something came on a supervisor's socket.
    pub(super) fn socket_ready(&mut self, poller: &Poller, epoch: Epoch, now: BootTime) -> Vec<News> {
        let mut news = Vec::new();
        self.flush(poller, epoch);
        let Some(entry) = self.all.get_mut(&epoch) else { return news };
        self.buffer.resize(MAX_REPORT, 0);
        while let Some(socket) = &entry.socket {
            match seqpacket::receive(socket, &mut self.buffer) {
                Incoming::Nothing => break,
                Incoming::Message(length) => {
                    let report =
                        self.buffer.get(..length).and_then(|bytes| serde_json::from_slice(bytes).ok());
                    let Some(report) = report else { continue };
                    entry.reported |= matches!(report, Report::Result(_));
                    if entry.limits == Limits::Told && matches!(report, Report::Refused { .. }) {
                        entry.limits = Limits::Refused;
                    }
                    news.push(News::Reported(entry.name, Box::new(report)));
                }
                Incoming::TooLong => {}
                Incoming::Closed => {
                    let _ = poller.remove(socket);
                    entry.socket = None;
                    // The supervisor is about to end, or has closed a slow connection: connect again.
                    entry.look_later(now);
                    if entry.limits == Limits::Refused {
                        entry.limits = Limits::Unknown;
                    }
                }
            }
        }
        news
    }

    /// A supervisor's process has ended.
    pub(super) fn process_ended(&mut self, poller: &Poller, epoch: Epoch, now: BootTime) -> Vec<News> {
        // Its last message may still be in the socket.
        let mut news = self.socket_ready(poller, epoch, now);
        let Some(entry) = self.all.remove(&epoch) else { return news };
        if let Some(process) = &entry.process {
            let _ = poller.remove(process);
            // If an earlier daemon started it, it is not ours to reap.
            let _ = process.reap();
        }
        if let Some(socket) = &entry.socket {
            let _ = poller.remove(socket);
        }
        news.push(if entry.reported { News::Finished } else { News::Vanished(entry.name) });
        news
    }

    /// Forgets an attempt that is over.
    pub(super) fn forget(&mut self, name: AttemptName) {
        if self.all.get(&name.epoch).is_some_and(|s| s.process.is_none()) {
            self.all.remove(&name.epoch);
        }
    }
}

fn is_limit(request: &Request) -> bool {
    matches!(request, Request::Limit { .. })
}

fn connect(paths: &Paths, name: AttemptName) -> Result<OwnedFd, SysError> {
    // The socket in root's folder: a user could replace the one in theirs.
    let folder = Dir::open(paths.attempt_dir(name))?;
    let socket = seqpacket::connect(&folder, "ctl")?;
    let peer = credentials::peer(&socket)?;
    let (own, _) = credentials::own();
    if peer.uid != 0 && peer.uid != own {
        let what = std::io::Error::other(format!("user {} listens there", peer.uid));
        return Err(SysError::new("trust the control socket of", name, what));
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use ax_sys::socket::message_pair;

    use super::*;

    fn limit(seconds: u64) -> Request {
        Request::Limit { limit: Some(Span::seconds(seconds)) }
    }

    fn received(socket: &OwnedFd) -> Vec<Request> {
        let mut buffer = vec![0; MAX_REPORT];
        let mut all = Vec::new();
        while let Incoming::Message(length) = seqpacket::receive(socket, &mut buffer) {
            all.push(serde_json::from_slice(&buffer[..length]).unwrap());
        }
        all
    }

    fn refuse(socket: &OwnedFd) {
        let report = Report::Refused { error: "no".to_owned() };
        assert!(seqpacket::send(socket, &serde_json::to_vec(&report).unwrap()));
    }

    #[test]
    fn of_limits_that_wait_the_latest_is_told() {
        let name: AttemptName = "ax-2026-0001.7".parse().unwrap();
        let (poller, mut attempts) = (Poller::new().unwrap(), Attempts::default());
        for request in [limit(1), Request::Signal { signal: 10, batch_only: false }, limit(2), limit(3)] {
            attempts.ask(&poller, name, request);
        }
        let (ours, theirs) = message_pair().unwrap();
        attempts.expect(&poller, name, ours).unwrap();
        assert_eq!(received(&theirs), [Request::Signal { signal: 10, batch_only: false }, limit(3)]);
    }

    #[test]
    fn a_limit_that_was_refused_is_told_again_ever_more_rarely() {
        let name: AttemptName = "ax-2026-0001.7".parse().unwrap();
        let (poller, mut attempts) = (Poller::new().unwrap(), Attempts::default());
        let (ours, theirs) = message_pair().unwrap();
        attempts.expect(&poller, name, ours).unwrap();
        refuse(&theirs);
        attempts.socket_ready(&poller, name.epoch, BootTime(0));
        assert!(!attempts.was_refused(name, BootTime(0)), "that was something else");
        let mut pauses = Vec::new();
        for first in [true, false, false] {
            attempts.ask(&poller, name, limit(1));
            refuse(&theirs);
            attempts.socket_ready(&poller, name.epoch, BootTime(0));
            assert_eq!(attempts.was_refused(name, BootTime(0)), first);
            assert!(attempts.has_refused_limit(name));
            pauses.extend(attempts.next_look());
            assert_eq!(attempts.due(BootTime(60_000)), [name]);
        }
        assert_eq!(pauses, [BootTime(100), BootTime(200), BootTime(400)]);
    }

    #[test]
    fn who_closes_the_connection_at_a_limit_is_not_told_again() {
        let name: AttemptName = "ax-2026-0001.7".parse().unwrap();
        let (poller, mut attempts) = (Poller::new().unwrap(), Attempts::default());
        let (ours, theirs) = message_pair().unwrap();
        attempts.expect(&poller, name, ours).unwrap();
        attempts.ask(&poller, name, limit(1));
        assert_eq!(received(&theirs), [limit(1)]);
        refuse(&theirs);
        drop(theirs);
        attempts.socket_ready(&poller, name.epoch, BootTime(0));
        assert!(attempts.was_refused(name, BootTime(0)) && attempts.knows_no_limits(name));
        assert_eq!(attempts.due(BootTime(100)), [name]);
        // Met again, it is known, and a connection that is closed again is made anew later.
        let (ours, theirs) = message_pair().unwrap();
        attempts.expect(&poller, name, ours).unwrap();
        assert!(attempts.knows_no_limits(name) && !attempts.was_refused(name, BootTime(0)));
        attempts.due(BootTime(60_000));
        drop(theirs);
        attempts.socket_ready(&poller, name.epoch, BootTime(0));
        assert_eq!(attempts.next_look(), Some(BootTime(200)));
    }
}
