//! One connection: its buffers, where it stands, and the three system calls it needs.
//!
//! Knows neither the poll set nor other connections. No call blocks.

use super::Limits;
use crate::api::http::HEAD_MAX;
use ax_sys::credentials::Peer;
use ax_sys::socket::{self, Interest};
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Most bytes taken in one turn, so that no connection keeps the others waiting.
pub(super) const CHUNK: usize = 64 * 1024;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of a request has come.
    Idle,
    /// Part of a request has come.
    Reading,
    /// The body's room is not there yet.
    Parked,
    /// The request is with the daemon, who answers when it likes.
    Waiting,
    /// An answer is on its way out.
    Writing(After),
    /// More of the input was read than the last request took: its turn is with the next round.
    Ahead,
    /// The last answer is out; what still comes is thrown away, so that the client gets to read it.
    Draining,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The next request.
    Next,
    /// The end.
    Close,
    /// The end, once the client has stopped sending.
    Drain,
}

/// What became of a read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// So many bytes; never 0.
    Bytes(usize),
    /// Not now.
    Blocked,
    /// The other end is gone, or has nothing more to say.
    End,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    pub(super) peer: Peer,
    pub(super) phase: Phase,
    /// What came and was not used yet.
    pub(super) input: Vec<u8>,
    /// Bytes of head and body of the request that is being read, once its head is whole.
    pub(super) total: Option<usize>,
    /// The client waits to be told to send its body.
    pub(super) continue_due: bool,
    /// Of the request that waits for its answer.
    pub(super) keep_alive: bool,
    /// Of the request that waits for its answer.
    pub(super) head_only: bool,
    output: Vec<u8>,
    sent: usize,
    /// Bytes held in the ledger.
    pub(super) held: usize,
    /// When patience ends, and what the server's list says of it.
    pub(super) deadline: Option<u64>,
    pub(super) listed: Option<u64>,
    /// What the poll set waits for.
    pub(super) interest: Interest,
    /// Something came while the request is with the daemon: reading would be too early, polling would spin.
    pub(super) deaf: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, peer: Peer) -> Connection {
        Connection {
            stream,
            peer,
            phase: Phase::Idle,
            input: Vec::new(),
            total: None,
            continue_due: false,
            keep_alive: false,
            head_only: false,
            output: Vec::new(),
            sent: 0,
            held: 0,
            deadline: None,
            listed: None,
            interest: Interest::READ,
            deaf: false,
        }
    }

    /// What the poll set should wait for. A connection broken off by the client is reported in any case.
    pub(super) fn wanted(&self) -> Interest {
        match self.phase {
            Phase::Idle | Phase::Reading | Phase::Draining => Interest::READ,
            Phase::Waiting if self.deaf => Interest::default(),
            // Left as it is: nearly always the answer is there before anything else happens.
            Phase::Waiting => self.interest,
            Phase::Parked => Interest::default(),
            Phase::Writing(_) | Phase::Ahead => Interest::WRITE,
        }
    }

    /// Reads what fits the request, at most a chunk, through `scratch`.
    pub(super) fn fill(&mut self, scratch: &mut [u8]) -> Moved {
        // Before the head is whole nobody knows how much is too much.
        let whole = self.total.unwrap_or(HEAD_MAX.max(CHUNK));
        let room = whole.saturating_sub(self.input.len()).min(scratch.len());
        let moved = receive(&self.stream, &mut scratch[..room]);
        if let Moved::Bytes(count) = moved {
            self.input.extend_from_slice(&scratch[..count]);
        }
        moved
    }

    /// Whether the last `count` bytes may have made the request whole, or its fault plain.
    pub(super) fn is_worth_parsing(&self, count: usize) -> bool {
        match self.total {
            Some(total) => self.input.len() >= total,
            // A head that comes byte by byte is looked at line by line; rubbish shows at once.
            None => {
                let fresh = &self.input[self.input.len().saturating_sub(count)..];
                fresh.len() == self.input.len() || fresh.contains(&b'\n') || self.input.len() >= HEAD_MAX
            }
        }
    }

    /// Throws away what comes.
    pub(super) fn drain(&self, scratch: &mut [u8]) -> Moved {
        receive(&self.stream, scratch)
    }

    /// Puts an answer on its way.
    pub(super) fn begin_answer(&mut self, bytes: Vec<u8>, after: After, now: u64, limits: &Limits) {
        self.output = bytes;
        self.sent = 0;
        self.phase = Phase::Writing(after);
        self.deaf = false;
        self.deadline = Some(now.saturating_add(limits.write_ms));
    }

    /// Bytes of the answer still to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends what the socket takes of the answer.
    pub(super) fn flush(&mut self) -> Moved {
        let moved = transmit(&self.stream, &self.output[self.sent..]);
        if let Moved::Bytes(count) = moved {
            self.sent += count;
        }
        moved
    }

    /// Forgets a sent answer and its memory.
    pub(super) fn end_answer(&mut self) {
        self.output = Vec::new();
        self.sent = 0;
    }

    /// Says that no answer follows, and forgets what came.
    pub(super) fn begin_drain(&mut self) {
        self.input = Vec::new();
        self.phase = Phase::Draining;
        // It fails only when the client is gone, which the next read tells.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// Sends a short answer that nobody waits for: what the socket does not take at once is lost.
pub(super) fn transmit(stream: &UnixStream, bytes: &[u8]) -> Moved {
    match socket::send(stream, bytes, &[]) {
        Ok(0) => Moved::Blocked,
        Ok(count) => Moved::Bytes(count),
        Err(error) if is_passing(error.kind()) => Moved::Blocked,
        Err(_) => Moved::End,
    }
}

fn receive(mut stream: &UnixStream, buffer: &mut [u8]) -> Moved {
    let result: io::Result<usize> = stream.read(buffer);
    match result {
        Ok(0) => Moved::End,
        Ok(count) => Moved::Bytes(count),
        Err(error) if is_passing(error.kind()) => Moved::Blocked,
        Err(_) => Moved::End,
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
