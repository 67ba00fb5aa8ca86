//! From bytes to requests and from answers to bytes, for one connection at a time.
//!
//! The steps of [`Phase`]: each event, answer or deadline moves one connection and says whether it lives on.
//! What is held for a user is counted here, so that it is given back on every way out.

use super::connection::{After, Connection, Moved, Phase, transmit};
use super::{ConnId, Fate, Incoming, Notice, Server};
use crate::api::http::{self, CONTINUE, Delivery, Framing, Missing, Parsed, Refusal, Request, Response};
use ax_core::api::ErrorClass;
use ax_sys::socket::{Event, Poller};

/// An answer up to this length is sent without asking whether it fits.
const SMALL: usize = 64 * 1024;

impl Server {
    /// Does what an event calls for.
    pub(super) fn step(
        &mut self,
        id: u64,
        conn: &mut Connection,
        event: &Event,
        now: u64,
        notices: &mut Vec<Notice>,
    ) -> Fate {
        match conn.phase {
            Phase::Idle | Phase::Reading => self.read(id, conn, now, notices),
            Phase::Waiting if event.failed => {
                notices.push(Notice::Gone(ConnId(id)));
                Fate::Close
            }
            Phase::Waiting => {
                // The next request, or the client has closed its half: both can wait for the answer.
                conn.deaf = true;
                Fate::Keep
            }
            _ if event.failed => Fate::Close,
            Phase::Parked => Fate::Keep,
            Phase::Writing(_) => self.write(conn, now),
            Phase::Ahead => self.take(id, conn, now, notices),
            Phase::Draining => match conn.drain(&mut self.scratch) {
                Moved::End => Fate::Close,
                Moved::Bytes(_) | Moved::Blocked => Fate::Keep,
            },
        }
    }

    fn read(&mut self, id: u64, conn: &mut Connection, now: u64, notices: &mut Vec<Notice>) -> Fate {
        let count = match conn.fill(&mut self.scratch) {
            Moved::Bytes(count) => count,
            Moved::Blocked => return Fate::Keep,
            Moved::End => return Fate::Close,
        };
        self.begin_request(conn, now);
        if conn.is_worth_parsing(count) { self.take(id, conn, now, notices) } else { Fate::Keep }
    }

    fn begin_request(&self, conn: &mut Connection, now: u64) {
        if conn.phase != Phase::Reading {
            conn.phase = Phase::Reading;
            conn.deadline = Some(now.saturating_add(self.limits.request_ms));
        }
    }

    /// Takes a request out of what came, if one is whole.
    fn take(&mut self, id: u64, conn: &mut Connection, now: u64, notices: &mut Vec<Notice>) -> Fate {
        self.begin_request(conn, now);
        match http::parse(&conn.input) {
            Parsed::NeedMore(Missing::Head) => Fate::Keep,
            Parsed::NeedMore(Missing::Body { total, expects_continue }) => {
                conn.total = Some(total);
                conn.continue_due = expects_continue;
                self.make_room(id, conn, total)
            }
            Parsed::Request(request, framing) => {
                hand_over(conn, framing);
                notices.push(Notice::Request(incoming(id, conn, request)));
                Fate::Keep
            }
            Parsed::Bad(refusal) => self.refuse(conn, &refusal, now),
        }
    }

    /// Gets room for a body, or puts the connection in line for it.
    fn make_room(&mut self, id: u64, conn: &mut Connection, total: usize) -> Fate {
        let uid = conn.peer.uid;
        if self.ledger.first_waiting(uid).is_none() && self.ledger.fits(uid, total) {
            return self.grant(conn, total);
        }
        conn.phase = Phase::Parked;
        self.ledger.wait(uid, id);
        Fate::Keep
    }

    fn grant(&mut self, conn: &mut Connection, total: usize) -> Fate {
        self.ledger.hold(conn.peer.uid, total);
        conn.held = total;
        conn.phase = Phase::Reading;
        conn.input.reserve_exact(total.saturating_sub(conn.input.len()));
        let due = std::mem::take(&mut conn.continue_due);
        // So few bytes always fit, unless the client has left earlier answers unread.
        if due && transmit(&conn.stream, CONTINUE) != Moved::Bytes(CONTINUE.len()) {
            return Fate::Close;
        }
        Fate::Keep
    }

    /// Gives room that has become free to those of a user who wait for it, in their order.
    pub(super) fn unpark(&mut self, poller: &Poller, uid: u32) {
        while let Some(id) = self.ledger.first_waiting(uid) {
            let parked = self.connections.get(&id).filter(|conn| conn.phase == Phase::Parked);
            let total = parked.and_then(|conn| conn.total);
            if total.is_some_and(|total| !self.ledger.fits(uid, total)) {
                return;
            }
            self.ledger.drop_first_waiting(uid);
            let (Some(total), Some(mut conn)) = (total, self.connections.remove(&id)) else { continue };
            let fate = self.grant(&mut conn, total);
            // Comes back here, with one fewer in the line.
            self.settle(poller, id, conn, fate);
        }
    }

    /// Sends the daemon's answer.
    pub(super) fn answer(&mut self, conn: &mut Connection, response: &Response, now: u64) -> Fate {
        let uid = conn.peer.uid;
        self.ledger.release(uid, std::mem::take(&mut conn.held));
        let length = response.body.len();
        let delivery = Delivery { keep_alive: conn.keep_alive, head_only: conn.head_only };
        let bytes = if length <= SMALL || self.ledger.fits(uid, length) {
            response.render(delivery)
        } else {
            unread_answers().render(delivery)
        };
        let after = if conn.keep_alive { After::Next } else { After::Close };
        conn.begin_answer(bytes, after, now, &self.limits);
        let fate = self.write(conn, now);
        if matches!(conn.phase, Phase::Writing(_)) {
            conn.held = conn.unsent();
            self.ledger.hold(uid, conn.held);
        }
        fate
    }

    /// Says why not, and ends the connection once the client could read it.
    fn refuse(&mut self, conn: &mut Connection, refusal: &Refusal, now: u64) -> Fate {
        let bytes = Response::from(refusal).render(Delivery::default());
        conn.begin_answer(bytes, After::Drain, now, &self.limits);
        self.write(conn, now)
    }

    fn write(&mut self, conn: &mut Connection, now: u64) -> Fate {
        match conn.flush() {
            Moved::End => return Fate::Close,
            Moved::Blocked => return Fate::Keep,
            Moved::Bytes(_) => conn.deadline = Some(now.saturating_add(self.limits.write_ms)),
        }
        match conn.phase {
            Phase::Writing(after) if conn.unsent() == 0 => self.written(conn, after, now),
            _ => Fate::Keep,
        }
    }

    fn written(&mut self, conn: &mut Connection, after: After, now: u64) -> Fate {
        conn.end_answer();
        self.ledger.release(conn.peer.uid, std::mem::take(&mut conn.held));
        match after {
            After::Close => return Fate::Close,
            After::Drain => {
                conn.begin_drain();
                conn.deadline = Some(now.saturating_add(self.limits.drain_ms));
            }
            After::Next if conn.input.is_empty() => {
                conn.phase = Phase::Idle;
                conn.deadline = Some(now.saturating_add(self.limits.idle_ms));
            }
            After::Next => {
                conn.phase = Phase::Ahead;
                conn.deadline = Some(now.saturating_add(self.limits.request_ms));
            }
        }
        Fate::Keep
    }

    /// Ends the patience with a connection.
    pub(super) fn expire(&mut self, conn: &mut Connection, now: u64) -> Fate {
        conn.deadline = None;
        match conn.phase {
            Phase::Reading | Phase::Ahead => self.refuse(conn, &too_slow(), now),
            Phase::Parked => self.refuse(conn, &no_room(), now),
            Phase::Waiting => Fate::Keep,
            Phase::Idle | Phase::Writing(_) | Phase::Draining => Fate::Close,
        }
    }
}

fn hand_over(conn: &mut Connection, framing: Framing) {
    // A copy of the little that is left: a long request's memory goes back.
    conn.input = conn.input.get(framing.used..).unwrap_or_default().to_vec();
    conn.total = None;
    conn.continue_due = false;
    conn.keep_alive = framing.keep_alive;
    conn.head_only = framing.head_only;
    conn.phase = Phase::Waiting;
    conn.deadline = None;
}

fn incoming(id: u64, conn: &Connection, request: Request) -> Incoming {
    Incoming { conn: ConnId(id), peer: conn.peer, request }
}

fn too_slow() -> Refusal {
    Refusal::new(408, ErrorClass::TryAgain, "the request took too long to arrive")
}

fn no_room() -> Refusal {
    Refusal::new(503, ErrorClass::TryAgain, "too many long requests of this user at a time; try again")
}

fn unread_answers() -> Response {
    let text = "too many long answers of this user are unread; try again";
    Response::from(&Refusal::new(503, ErrorClass::TryAgain, text))
}
