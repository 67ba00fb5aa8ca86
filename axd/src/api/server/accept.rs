//! Letting connections in, or sending them away.
//!
//! Who is over a limit is told at once and costs nothing afterwards. A want of descriptors is waited out
//! with the listener out of the poll set, which would report it without end.

use super::connection::{Connection, transmit};
use super::ledger::Full;
use super::{Fate, LISTENER, Notice, Server};
use crate::api::http::{Delivery, Response};
use ax_core::api::{ApiError, ErrorClass};
use ax_sys::socket::{self, Event, Interest, Poller};
use ax_sys::{SysError, credentials};
use std::os::unix::net::UnixStream;

/// Most connections taken in one turn: between turns those that are in get theirs.
const BURST: usize = 64;

impl Server {
    pub(super) fn accept(&mut self, poller: &Poller, now: u64, notices: &mut Vec<Notice>) {
        for _ in 0..BURST {
            match socket::accept(&self.listener) {
                Ok(None) => return,
                Ok(Some(stream)) => {
                    // One broken connection concerns nobody else.
                    let _ = self.admit(poller, stream, now, notices);
                }
                Err(error) => {
                    notices.push(Notice::AcceptFailed(error));
                    self.pause_accepting(poller, now);
                    return;
                }
            }
        }
    }

    fn admit(
        &mut self,
        poller: &Poller,
        stream: UnixStream,
        now: u64,
        notices: &mut Vec<Notice>,
    ) -> Result<(), SysError> {
        let peer = credentials::peer(&stream)?;
        if let Err(full) = self.ledger.enter(peer.uid) {
            transmit(&stream, &refusal(full));
            return Ok(());
        }
        self.last += 1;
        let id = self.last;
        let mut conn = Connection::new(stream, peer);
        conn.deadline = Some(now.saturating_add(self.limits.idle_ms));
        let token = self.base | id;
        if let Err(error) = poller.add(&conn.stream, token, conn.interest) {
            self.settle(poller, id, conn, Fate::Close);
            return Err(error);
        }
        // The request is there more often than not: one turn of the loop less.
        let event = Event { token, readable: true, writable: false, priority: false, failed: false };
        let fate = self.step(id, &mut conn, &event, now, notices);
        self.settle(poller, id, conn, fate);
        Ok(())
    }

    fn pause_accepting(&mut self, poller: &Poller, now: u64) {
        self.listen_for(poller, Interest::default());
        // Never at once: the sweep that is under way would not end.
        let pause = self.limits.accept_pause_ms.max(1);
        self.deadlines.insert((now.saturating_add(pause), LISTENER));
    }

    pub(super) fn resume_accepting(&mut self, poller: &Poller, now: u64) {
        self.listen_for(poller, Interest::READ);
        if self.listening != Interest::READ {
            self.pause_accepting(poller, now);
        }
    }

    /// If the set refuses, the listener stays as it is: at worst it is reported too often, or asked again.
    fn listen_for(&mut self, poller: &Poller, interest: Interest) {
        if poller.modify(&self.listener, self.base | LISTENER, interest).is_ok() {
            self.listening = interest;
        }
    }
}

fn refusal(full: Full) -> Vec<u8> {
    let error = match full {
        Full::User(most) => format!("too many connections of this user: at most {most} at a time; try again"),
        Full::All => "too many connections; try again".to_owned(),
    };
    Response::error(&ApiError { class: ErrorClass::TryAgain, error }).render(Delivery::default())
}
