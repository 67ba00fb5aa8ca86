//! The local socket's server, driven by the daemon's poll loop.
//!
//! It moves bytes, judges them with [`super::http`], and keeps everybody within limits, so that no client
//! can disturb another or the daemon. It has no thread and no clock, never blocks, and knows no route: whole
//! requests go out as [`Notice`]s, answers come back whenever the daemon has them.

mod accept;
mod connection;
mod exchange;
mod file;
mod ledger;

pub use file::BindError;

use super::http::{Request, Response};
use ax_sys::SysError;
use ax_sys::credentials::Peer;
use ax_sys::process::{Resource, limit};
use ax_sys::socket::{Event, Interest, Poller};
use connection::{CHUNK, Connection, Phase};
use file::SocketFile;
use ledger::Ledger;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// How much the server bears. Times in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections of all ordinary users together. Lowered to what the process may open.
    pub connections: usize,
    /// Connections of an ordinary user.
    pub user_connections: usize,
    /// Connections of a privileged user, beside those of all ordinary ones. Lowered likewise.
    pub privileged_connections: usize,
    /// Who is privileged: root, and whoever brings other people's requests.
    pub privileged: Vec<u32>,
    /// Bytes of bodies and unread answers that the server holds for a user.
    pub user_bytes: usize,
    /// Descriptors left to the rest of the daemon.
    pub spare_descriptors: usize,
    /// From the first byte of a request to its last.
    pub request_ms: u64,
    /// From an answer, or the connecting, to the first byte of a request.
    pub idle_ms: u64,
    /// Without the client taking a byte of an answer.
    pub write_ms: u64,
    /// For a client to stop sending and read why it was refused.
    pub drain_ms: u64,
    /// Until the next try when no connection could be accepted.
    pub accept_pause_ms: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 2048,
            user_connections: 64,
            privileged_connections: 512,
            privileged: vec![0],
            user_bytes: 16 * 1024 * 1024,
            spare_descriptors: 256,
            request_ms: 10_000,
            idle_ms: 30_000,
            write_ms: 10_000,
            drain_ms: 1_000,
            accept_pause_ms: 100,
        }
    }
}

impl Limits {
    /// Fits them to the number of descriptors that the process may have.
    fn within(mut self, descriptors: u64) -> Limits {
        let all = usize::try_from(descriptors).unwrap_or(usize::MAX);
        // With few descriptors at all, three quarters are better than none.
        let room = all - self.spare_descriptors.min(all / 4);
        self.privileged_connections = self.privileged_connections.min(room / 2);
        self.connections = self.connections.min(room - self.privileged_connections);
        self
    }
}

/// A connection, as the daemon names it when it answers. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(u64);

#[cfg(test)]
impl ConnId {
    /// One of a connection that is not there.
    pub(crate) fn for_test(number: u64) -> ConnId {
        ConnId(number)
    }
}

/// A request to be answered with [`Server::respond`], now or later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Where the answer goes.
    pub conn: ConnId,
    /// Who asks, as the kernel vouched when the connection was made.
    pub peer: Peer,
    /// What.
    pub request: Request,
}

/// What the daemon hears from the server.
#[derive(Debug)]
pub enum Notice {
    /// Somebody asks.
    Request(Incoming),
    /// A client whose request was not answered yet has hung up: nobody waits any more.
    Gone(ConnId),
    /// No connection could be accepted, most likely for want of descriptors; tried again after a pause.
    AcceptFailed(SysError),
}

/// The server. Times handed in are milliseconds of one clock that never goes back.
#[derive(Debug)]
pub struct Server {
    /// Before the listener: nobody shall find a name that leads nowhere.
    _file: SocketFile,
    listener: UnixListener,
    base: u64,
    limits: Limits,
    ledger: Ledger,
    connections: HashMap<u64, Connection>,
    /// Deadline and connection; the listener is number 0.
    deadlines: BTreeSet<(u64, u64)>,
    last: u64,
    scratch: Box<[u8]>,
    listening: Interest,
}

/// Bits of a token that the server uses below its base.
pub const TOKEN_BITS: u32 = 56;
const LISTENER: u64 = 0;

/// What is to become of a connection after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl Server {
    /// Listens at `path` with these permission bits, in place of a socket that a dead daemon of the same user left.
    /// `base` marks the server's tokens among others of the loop: its lower [`TOKEN_BITS`] bits must be 0.
    ///
    /// # Errors
    /// When the name is another's, or the system refuses.
    pub fn bind(path: &Path, mode: u32, limits: Limits, base: u64) -> Result<Server, BindError> {
        let (file, listener) = SocketFile::claim(path, mode)?;
        let descriptors = limit(Resource::OpenFiles)?.soft.unwrap_or(u64::MAX);
        let limits = limits.within(descriptors);
        Ok(Server {
            _file: file,
            listener,
            base,
            ledger: Ledger::new(limits.clone()),
            limits,
            connections: HashMap::new(),
            deadlines: BTreeSet::new(),
            last: LISTENER,
            scratch: vec![0; CHUNK].into_boxed_slice(),
            listening: Interest::READ,
        })
    }

    /// Puts the listener into the poll set. The same set must be handed to all other calls.
    ///
    /// # Errors
    /// When the set takes no more.
    pub fn register(&self, poller: &Poller) -> Result<(), SysError> {
        poller.add(&self.listener, self.base | LISTENER, self.listening)
    }

    /// Whether an event is the server's.
    pub fn owns(&self, token: u64) -> bool {
        token >> TOKEN_BITS == self.base >> TOKEN_BITS
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Does what an event of the poll set calls for. Old events of connections closed since do no harm.
    pub fn ready(&mut self, poller: &Poller, event: &Event, now: u64) -> Vec<Notice> {
        let mut notices = Vec::new();
        match event.token ^ self.base {
            LISTENER => self.accept(poller, now, &mut notices),
            id => {
                if let Some(mut conn) = self.connections.remove(&id) {
                    let fate = self.step(id, &mut conn, event, now, &mut notices);
                    self.settle(poller, id, conn, fate);
                }
            }
        }
        notices
    }

    /// Answers a request. Nothing happens if the client has gone or was answered before.
    pub fn respond(&mut self, poller: &Poller, conn: ConnId, response: &Response, now: u64) {
        let ConnId(id) = conn;
        let waits = |conn: &Connection| conn.phase == Phase::Waiting;
        if !self.connections.get(&id).is_some_and(waits) {
            return;
        }
        if let Some(mut conn) = self.connections.remove(&id) {
            let fate = self.answer(&mut conn, response, now);
            self.settle(poller, id, conn, fate);
        }
    }

    /// When to call [`Server::sweep`] next; `None`: not before something else has happened.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends what has taken too long.
    pub fn sweep(&mut self, poller: &Poller, now: u64) {
        while let Some(&(deadline, id)) = self.deadlines.first() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            if id == LISTENER {
                self.resume_accepting(poller, now);
            } else if let Some(mut conn) = self.connections.remove(&id) {
                conn.listed = None;
                let fate = self.expire(&mut conn, now);
                self.settle(poller, id, conn, fate);
            }
        }
    }

    /// Puts a connection back after a step, in step with the poll set and the deadlines; or ends it.
    fn settle(&mut self, poller: &Poller, id: u64, mut conn: Connection, fate: Fate) {
        let uid = conn.peer.uid;
        if fate == Fate::Keep && self.watch(poller, id, &mut conn) {
            self.list_deadline(id, &mut conn);
            self.connections.insert(id, conn);
        } else {
            conn.deadline = None;
            self.list_deadline(id, &mut conn);
            // A child between fork and exec may hold a copy that keeps it in the set. It may be out already.
            let _ = poller.remove(&conn.stream);
            self.ledger.leave(uid);
            self.ledger.release(uid, conn.held);
        }
        self.unpark(poller, uid);
    }

    fn watch(&self, poller: &Poller, id: u64, conn: &mut Connection) -> bool {
        let wanted = conn.wanted();
        if wanted == conn.interest {
            return true;
        }
        conn.interest = wanted;
        poller.modify(&conn.stream, self.base | id, wanted).is_ok()
    }

    fn list_deadline(&mut self, id: u64, conn: &mut Connection) {
        if conn.listed == conn.deadline {
            return;
        }
        if let Some(old) = conn.listed {
            self.deadlines.remove(&(old, id));
        }
        if let Some(new) = conn.deadline {
            self.deadlines.insert((new, id));
        }
        conn.listed = conn.deadline;
    }
}
