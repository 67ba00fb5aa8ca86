//! A thread that runs the poll loop with the server and answers by simple rules, and a plain client.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ax_sys::clock::boot_ms;
use ax_sys::socket::{Interest, Poller, Waker};
use axd::api::http::Response;
use axd::api::server::{ConnId, Incoming, Limits, Notice, Server};
pub(crate) use test_kit::wait_for;

/// Far longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const BASE: u64 = 7 << 56;
const STOP: u64 = 1;

/// What the loop has seen.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: AtomicUsize,
    pub(crate) gone: AtomicUsize,
    pub(crate) accept_failures: AtomicUsize,
    pub(crate) connections: AtomicUsize,
    pub(crate) held: AtomicUsize,
}

/// A server that runs until it is dropped.
pub(crate) struct Harness {
    pub(crate) directory: PathBuf,
    pub(crate) counters: Arc<Counters>,
    stop: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

/// A fresh directory that only its owner can write to.
pub(crate) fn directory() -> PathBuf {
    let path = std::env::temp_dir().join(format!("ax-socket-{}", ax_sys::random::name().unwrap()));
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Limits under which nothing in a test ends by time.
pub(crate) fn patient() -> Limits {
    let long = 600_000;
    Limits { request_ms: long, idle_ms: long, write_ms: long, drain_ms: 2_000, ..Limits::default() }
}

impl Harness {
    pub(crate) fn start(limits: Limits) -> Harness {
        Harness::start_in(directory(), limits)
    }

    pub(crate) fn start_in(directory: PathBuf, limits: Limits) -> Harness {
        let server = Server::bind(&directory.join("axd.sock"), 0o666, limits, BASE).unwrap();
        let (stop, counters) = (Arc::new(Waker::new().unwrap()), Arc::new(Counters::default()));
        let mut daemon = Daemon {
            server,
            poller: Poller::new().unwrap(),
            counters: Arc::clone(&counters),
            held: Vec::new(),
        };
        daemon.poller.add(&*stop, STOP, Interest::READ).unwrap();
        daemon.server.register(&daemon.poller).unwrap();
        let thread = std::thread::spawn(move || daemon.run());
        Harness { directory, counters, stop, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("axd.sock")
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.connect().ask(&format!("GET {target} HTTP/1.1\r\n\r\n"))
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.stop.wake().unwrap();
        let ended = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.directory);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

struct Daemon {
    server: Server,
    poller: Poller,
    counters: Arc<Counters>,
    held: Vec<ConnId>,
}

impl Daemon {
    fn run(&mut self) {
        let mut events = Vec::new();
        loop {
            let now = boot_ms();
            let left = self.server.next_deadline().map(|at| Duration::from_millis(at.saturating_sub(now)));
            self.poller.wait(&mut events, left).unwrap();
            self.counters.turns.fetch_add(1, Ordering::SeqCst);
            for event in &events {
                if event.token == STOP {
                    return;
                }
                assert!(self.server.owns(event.token));
                for notice in self.server.ready(&self.poller, event, boot_ms()) {
                    self.hear(notice);
                }
            }
            self.server.sweep(&self.poller, boot_ms());
            self.counters.connections.store(self.server.connections(), Ordering::SeqCst);
            self.counters.held.store(self.held.len(), Ordering::SeqCst);
        }
    }

    fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Request(incoming) => self.answer(&incoming),
            Notice::Gone(conn) => {
                assert!(self.held.contains(&conn));
                self.held.retain(|held| *held != conn);
                self.counters.gone.fetch_add(1, Ordering::SeqCst);
            }
            Notice::AcceptFailed(_) => {
                self.counters.accept_failures.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    /// `/hold` is answered at the next `/release`, `/long?bytes=N` at length, anything else with what was asked.
    fn answer(&mut self, incoming: &Incoming) {
        let request = &incoming.request;
        let bytes = || request.values("bytes").next().and_then(|text| text.parse().ok()).unwrap_or(0);
        let response = match request.path.as_str() {
            "/hold" => return self.held.push(incoming.conn),
            "/release" => {
                for conn in std::mem::take(&mut self.held) {
                    self.server.respond(&self.poller, conn, &Response::json(200, "released"), boot_ms());
                }
                Response::json(200, "done")
            }
            "/long" => Response::other(200, "text/plain", vec![b'x'; bytes()]),
            path => {
                let sum: u64 = request.body.iter().map(|byte| u64::from(*byte)).sum();
                Response::json(200, &(path, incoming.peer.uid, request.body.len(), sum))
            }
        };
        self.server.respond(&self.poller, incoming.conn, &response, boot_ms());
    }
}

/// An answer as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A client that does what it is told.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    got: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { stream, got: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends although the server may have closed.
    pub(crate) fn push(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        self.send(request);
        self.answer()
    }

    /// The next answer.
    pub(crate) fn answer(&mut self) -> Answer {
        self.try_answer().unwrap().unwrap()
    }

    /// The next answer; `None` at the end of the connection.
    pub(crate) fn try_answer(&mut self) -> io::Result<Option<Answer>> {
        loop {
            if let Some((answer, used)) = whole(&self.got) {
                self.got.drain(..used);
                return Ok(Some(answer));
            }
            let mut part = vec![0; 64 * 1024];
            let count = self.stream.read(&mut part)?;
            if count == 0 {
                return Ok(None);
            }
            self.got.extend_from_slice(&part[..count]);
        }
    }
}

fn whole(bytes: &[u8]) -> Option<(Answer, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let status = head.split(' ').nth(1)?.parse().unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let body = bytes.get(end..end + length)?.to_vec();
    Some((Answer { status, body }, end + length))
}
