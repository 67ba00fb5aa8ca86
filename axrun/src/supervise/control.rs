//! Who may ask this supervisor for something, and whom it tells what happens: message sockets.
//!
//! There is axd's own socket (descriptor 3), a socket in the attempt's folder that only root reaches, and one in the
//! job's folder for its user, who could remove or replace that one but not root's. Nothing here waits: a peer that
//! does not read, sends nonsense or asks for too much loses its connection and nobody else notices. Root's sockets and the
//! user's are apart, so that the supervisor can hear root alone for a while.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ax_core::record::{Report, Request};
use ax_sys::path::Dir;
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::socket::{Interest, Poller};
use ax_sys::{Result, credentials, process};

/// Name of both sockets.
pub(crate) const NAME: &str = "ctl";

/// Connections at once; the user's are fewer, so that there is always room for root.
const MOST: usize = 16;
const MOST_OF_USER: usize = 8;

/// Longest request.
const REQUEST_MAX: usize = 64 << 10;

/// Numbers under which the poller knows these sockets: listeners, then connections.
const FIRST_PEER: u64 = 16;

struct Peer {
    socket: OwnedFd,
    master: bool,
    follows: bool,
}

impl Peer {
    fn side(&self) -> Side {
        if self.master { Side::Root } else { Side::User }
    }
}

/// The sockets of one supervisor.
pub(crate) struct Control {
    listeners: Vec<OwnedFd>,
    peers: Vec<Option<Peer>>,
    own_uid: u32,
    job_uid: u32,
    /// Inside the supervisor's: readable when one of root's sockets is, or one of the user's.
    root: Poller,
    user: Poller,
}

/// Whose sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Root's, and those of whoever may do everything.
    Root,
    /// Those of the job's user: root is heard there, too.
    User,
}

/// A connection, for the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerId(usize);

impl Control {
    /// Nobody listens yet; axd's socket, if there is one, is told everything from here on.
    pub(crate) fn new(axd: Option<OwnedFd>, job_uid: u32) -> Result<Control> {
        let (own_uid, root, user) = (credentials::own().0, Poller::new()?, Poller::new()?);
        let mut control = Control { listeners: Vec::new(), peers: Vec::new(), own_uid, job_uid, root, user };
        if let Some(socket) = axd {
            control.keep(Peer { socket, master: true, follows: true });
        }
        Ok(control)
    }

    /// Listens in the attempt's folder (root's) and in the job's (the user's).
    pub(crate) fn listen(&mut self, attempt: &Dir, job: &Dir) -> Result<()> {
        // Permissions come from the umask and are not set afterwards: in the user's folder the name could be
        // another file by then. Root's is for root alone; the user's is guarded by its folder and by credentials.
        for (dir, mask, side) in [(attempt, 0o177, Side::Root), (job, 0o111, Side::User)] {
            let before = process::set_umask(mask);
            let listener = seqpacket::listen(dir, NAME);
            process::set_umask(before);
            let listener = match listener {
                // The user has put something there: the user's loss, and no reason not to run.
                Err(error) if std::ptr::eq(dir, job) && error.kind() == ErrorKind::AddrInUse => continue,
                other => other?,
            };
            self.side(side).add(&listener, self.listeners.len() as u64, Interest::READ)?;
            self.listeners.push(listener);
        }
        Ok(())
    }

    /// To be watched: readable when somebody on that side says something.
    pub(crate) fn side(&self, side: Side) -> &Poller {
        match side {
            Side::Root => &self.root,
            Side::User => &self.user,
        }
    }

    /// One of the sockets of a side is readable: accepts at most one connection a listener and reads at most one request a
    /// peer, so that whoever connects or asks without end keeps neither the others nor the timers waiting.
    pub(crate) fn ready(&mut self, side: Side) -> Vec<(PeerId, Request)> {
        let mut events = Vec::new();
        let poller = match side {
            Side::Root => &mut self.root,
            Side::User => &mut self.user,
        };
        if poller.wait(&mut events, Some(Duration::ZERO)).is_err() {
            return Vec::new();
        }
        let mut requests = Vec::new();
        for token in events.iter().map(|event| event.token) {
            match token.checked_sub(FIRST_PEER).map(usize::try_from) {
                Some(Ok(slot)) => requests.extend(self.receive(PeerId(slot))),
                Some(Err(_)) => {}
                None => self.accept(usize::try_from(token).unwrap_or(usize::MAX)),
            }
        }
        requests
    }

    fn accept(&mut self, index: usize) {
        let Some(listener) = self.listeners.get(index) else { return };
        if let Ok(Some(socket)) = seqpacket::accept(listener) {
            self.admit(socket);
        }
    }

    /// Answers one peer; it is dropped if it does not read.
    pub(crate) fn send(&mut self, peer: PeerId, report: &Report) {
        let Some(Some(known)) = self.peers.get(peer.0) else { return };
        if !seqpacket::send(&known.socket, &encode(report)) {
            self.drop_peer(peer);
        }
    }

    /// From now on this peer is told everything.
    pub(crate) fn follow(&mut self, peer: PeerId) {
        if let Some(Some(known)) = self.peers.get_mut(peer.0) {
            known.follows = true;
        }
    }

    /// Tells all followers.
    pub(crate) fn broadcast(&mut self, report: &Report) {
        let message = encode(report);
        for slot in 0..self.peers.len() {
            let follower = self.peers[slot].as_ref().filter(|peer| peer.follows);
            if follower.is_some_and(|peer| !seqpacket::send(&peer.socket, &message)) {
                self.drop_peer(PeerId(slot));
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        let Ok(uid) = credentials::peer(&socket).map(|peer| peer.uid) else { return };
        let master = uid == 0 || uid == self.own_uid;
        let users = self.peers.iter().flatten().filter(|peer| !peer.master).count();
        let refusal = if !master && uid != self.job_uid {
            Some("this job is another user's")
        } else if (!master && users >= MOST_OF_USER) || self.free_slot().is_none() {
            Some("too many connections")
        } else {
            None
        };
        match refusal {
            None => self.keep(Peer { socket, master, follows: false }),
            Some(error) => {
                seqpacket::send(&socket, &encode(&Report::Refused { error: error.to_owned() }));
            }
        }
    }

    fn free_slot(&self) -> Option<usize> {
        let slot = self.peers.iter().position(Option::is_none).unwrap_or(self.peers.len());
        (slot < MOST).then_some(slot)
    }

    /// A peer that can't be watched is dropped: it sees the end of its connection.
    fn keep(&mut self, peer: Peer) {
        let Some(slot) = self.free_slot() else { return };
        if self.side(peer.side()).add(&peer.socket, FIRST_PEER + slot as u64, Interest::READ).is_err() {
            return;
        }
        if slot == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[slot] = Some(peer);
    }

    fn receive(&mut self, peer: PeerId) -> Option<(PeerId, Request)> {
        let known = self.peers.get(peer.0)?.as_ref()?;
        let mut buffer = vec![0; REQUEST_MAX];
        let message = match seqpacket::receive(&known.socket, &mut buffer) {
            Incoming::Nothing => return None,
            Incoming::Message(length) => &buffer[..length],
            Incoming::TooLong => return self.expel(peer, "the request is too long"),
            Incoming::Closed => {
                self.drop_peer(peer);
                return None;
            }
        };
        let Ok(request) = serde_json::from_slice::<Request>(message) else {
            return self.expel(peer, "this is no request");
        };
        if let Err(error) = permit(&request, known.master) {
            self.send(peer, &Report::Refused { error: error.to_owned() });
            return None;
        }
        Some((peer, request))
    }

    fn expel(&mut self, peer: PeerId, why: &str) -> Option<(PeerId, Request)> {
        self.send(peer, &Report::Refused { error: why.to_owned() });
        self.drop_peer(peer);
        None
    }

    fn drop_peer(&mut self, peer: PeerId) {
        if let Some(gone) = self.peers.get_mut(peer.0).and_then(Option::take) {
            // By hand: a child on its way to exec may hold a copy, and closing ours alone would not end the watch.
            let _ = self.side(gone.side()).remove(&gone.socket);
        }
    }
}

/// Masters (root, or the user whose daemon this is) may do everything. The job's user cancels and suspends through
/// axd, which keeps the books, and may signal what is the user's own anyway.
fn permit(request: &Request, master: bool) -> std::result::Result<(), &'static str> {
    match request {
        _ if master => Ok(()),
        Request::Signal { .. } => Ok(()),
        Request::Follow | Request::Terminate { .. } | Request::Limit { .. } | Request::Freeze { .. } => {
            Err("only root may ask for this; use ax")
        }
    }
}

/// A report always has a JSON form; should one not, its peers get an empty message and see the end.
fn encode(report: &Report) -> Vec<u8> {
    serde_json::to_vec(report).unwrap_or_default()
}
