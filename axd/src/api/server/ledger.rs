//! What each user has of the server: connections and bytes held.
//!
//! Only counts and says yes or no; what is done about a no is the caller's. A user who has nothing has no entry.

use super::Limits;
use std::collections::{HashMap, VecDeque};

/// Why somebody gets no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// This user has as many as one may have.
    User(usize),
    /// All users together have.
    All,
}

#[derive(Debug, Default)]
struct Share {
    connections: usize,
    bytes: usize,
    /// Connections that wait for room, in their order; those gone since are passed over when asked.
    waiting: VecDeque<u64>,
}

/// The shares of all users.
#[derive(Debug)]
pub(super) struct Ledger {
    shares: HashMap<u32, Share>,
    /// Connections of ordinary users.
    ordinary: usize,
    limits: Limits,
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Ledger {
        Ledger { shares: HashMap::new(), ordinary: 0, limits }
    }

    fn privileged(&self, uid: u32) -> bool {
        self.limits.privileged.contains(&uid)
    }

    /// Counts one more connection, if there may be one.
    pub(super) fn enter(&mut self, uid: u32) -> Result<(), Full> {
        let privileged = self.privileged(uid);
        let most = if privileged { self.limits.privileged_connections } else { self.limits.user_connections };
        let share = self.shares.entry(uid).or_default();
        if share.connections >= most {
            return Err(Full::User(most));
        }
        if !privileged && self.ordinary >= self.limits.connections {
            self.tidy(uid);
            return Err(Full::All);
        }
        share.connections += 1;
        self.ordinary += usize::from(!privileged);
        Ok(())
    }

    /// Counts one connection less.
    pub(super) fn leave(&mut self, uid: u32) {
        let privileged = self.privileged(uid);
        if let Some(share) = self.shares.get_mut(&uid) {
            share.connections = share.connections.saturating_sub(1);
            self.ordinary = self.ordinary.saturating_sub(usize::from(!privileged));
        }
        self.tidy(uid);
    }

    /// Whether so many bytes more fit. A user who holds none may hold any number: one answer may be long.
    pub(super) fn fits(&self, uid: u32, bytes: usize) -> bool {
        let held = self.shares.get(&uid).map_or(0, |share| share.bytes);
        held == 0 || held.saturating_add(bytes) <= self.limits.user_bytes
    }

    /// Counts bytes as held.
    pub(super) fn hold(&mut self, uid: u32, bytes: usize) {
        if bytes > 0 {
            self.shares.entry(uid).or_default().bytes += bytes;
        }
    }

    /// Counts bytes as given back.
    pub(super) fn release(&mut self, uid: u32, bytes: usize) {
        if let Some(share) = self.shares.get_mut(&uid) {
            share.bytes = share.bytes.saturating_sub(bytes);
        }
        self.tidy(uid);
    }

    /// Puts a connection at the end of its user's line.
    pub(super) fn wait(&mut self, uid: u32, connection: u64) {
        self.shares.entry(uid).or_default().waiting.push_back(connection);
    }

    /// The first of a user's line, which stays there.
    pub(super) fn first_waiting(&self, uid: u32) -> Option<u64> {
        self.shares.get(&uid)?.waiting.front().copied()
    }

    /// Takes the first out of a user's line.
    pub(super) fn drop_first_waiting(&mut self, uid: u32) {
        if let Some(share) = self.shares.get_mut(&uid) {
            share.waiting.pop_front();
        }
        self.tidy(uid);
    }

    fn tidy(&mut self, uid: u32) {
        let empty = |share: &Share| share.connections == 0 && share.bytes == 0 && share.waiting.is_empty();
        if self.shares.get(&uid).is_some_and(empty) {
            self.shares.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Full, Ledger};
    use crate::api::server::Limits;

    fn ledger() -> Ledger {
        Ledger::new(Limits {
            connections: 3,
            user_connections: 2,
            privileged_connections: 4,
            ..Limits::default()
        })
    }

    #[test]
    fn counts_connections() {
        let mut ledger = ledger();
        assert_eq!([ledger.enter(7), ledger.enter(7), ledger.enter(7)], [Ok(()), Ok(()), Err(Full::User(2))]);
        assert_eq!([ledger.enter(8), ledger.enter(8)], [Ok(()), Err(Full::All)]);
        assert_eq!(ledger.enter(9), Err(Full::All));
        assert_eq!(ledger.enter(0), Ok(()));
        ledger.leave(7);
        assert_eq!(ledger.enter(9), Ok(()));
        for uid in [7, 8, 9, 0] {
            ledger.leave(uid);
        }
        assert!(ledger.shares.is_empty() && ledger.ordinary == 0);
    }

    #[test]
    fn counts_bytes() {
        let mut ledger = ledger();
        let most = Limits::default().user_bytes;
        assert!(ledger.fits(7, most * 2));
        ledger.hold(7, most - 1);
        assert!(ledger.fits(7, 1) && !ledger.fits(7, 2) && ledger.fits(8, 2));
        ledger.release(7, most - 1);
        assert!(ledger.shares.is_empty());
    }
}
