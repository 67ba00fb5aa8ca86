//! What waits for something other than the disk: requests and launches for the name service, long polls for the end
//! of a job.

use std::collections::BTreeMap;

use ax_core::id::{JobId, JobNumber, Uid};
use ax_core::time::{BootTime, Now};

use super::launches::Launch;
use super::{Engine, now};
use crate::api::server::{ConnId, Incoming};
use crate::people::Person;
use crate::spool::Arrival;

/// The person who asks about a job.
#[derive(Debug)]
pub(super) struct Asker {
    /// Their user number.
    pub(super) uid: Uid,
    /// The person, if they want advice.
    pub(super) advised: Option<Person>,
}

/// All that waits.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Requests of users who are not known yet.
    requests: Vec<(Uid, Incoming)>,
    /// Drops of users who are not known yet.
    pub(super) drops: Vec<(Uid, Arrival)>,
    /// Launches of users who are not known yet.
    pub(super) launches: Vec<(Uid, Launch)>,
    /// Long polls, by connection.
    waiters: BTreeMap<ConnId, Waiter>,
    /// Questions about jobs of which something is not durable yet.
    reads: Vec<(ConnId, JobNumber, Asker)>,
}

/// A client that waits for the end of a job.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    job: JobNumber,
    uid: Uid,
    until: BootTime,
}

impl Parked {
    /// A request that waits for its user to be known.
    pub(super) fn request(&mut self, uid: Uid, request: Incoming) {
        self.requests.push((uid, request));
    }

    /// A client that waits for a job's end.
    pub(super) fn waiter(&mut self, conn: ConnId, job: JobNumber, uid: Uid, until: BootTime) {
        self.waiters.insert(conn, Waiter { job, uid, until });
    }

    /// A client has gone.
    pub(super) fn gone(&mut self, conn: ConnId) {
        self.waiters.remove(&conn);
        self.reads.retain(|(of, _, _)| *of != conn);
        self.requests.retain(|(_, request)| request.conn != conn);
    }

    /// True if a client waits for the end of a job, or for something about it to be durable.
    pub(super) fn anybody(&self) -> bool {
        !self.waiters.is_empty() || !self.reads.is_empty()
    }

    /// When the first long poll times out.
    pub(super) fn next_deadline(&self) -> Option<BootTime> {
        self.waiters.values().map(|waiter| waiter.until).min()
    }

    fn take_waiters(&mut self, which: impl Fn(&Waiter) -> bool) -> Vec<(ConnId, Waiter)> {
        let chosen = self.waiters.iter().filter(|(_, waiter)| which(waiter));
        let chosen: Vec<_> = chosen.map(|(conn, waiter)| (*conn, *waiter)).collect();
        for (conn, _) in &chosen {
            self.waiters.remove(conn);
        }
        chosen
    }
}

/// Takes out what waits for this user, in its order.
fn take_of<T>(waiting: &mut Vec<(Uid, T)>, uid: Uid) -> Vec<T> {
    let (theirs, others) = std::mem::take(waiting).into_iter().partition::<Vec<_>, _>(|(of, _)| *of == uid);
    *waiting = others;
    theirs.into_iter().map(|(_, each)| each).collect()
}

impl Engine {
    /// The name service has answered about a user.
    pub(super) fn unpark(&mut self, uid: Uid) {
        for request in take_of(&mut self.clients.parked.requests, uid) {
            self.on_request(request);
        }
        for arrival in take_of(&mut self.clients.parked.drops, uid) {
            self.on_arrival(arrival);
        }
        for launch in take_of(&mut self.clients.parked.launches, uid) {
            self.launch(launch);
        }
    }

    /// Tells everything about a job, as soon as what was decided about it is durable, so that memory and accounts
    /// agree; at once while commits fail.
    pub(super) fn tell(&mut self, conn: ConnId, job: JobNumber, asker: Asker) {
        if self.commits.writes.failing().is_none() && self.is_unsettled(job) {
            self.clients.parked.reads.push((conn, job, asker));
            return;
        }
        self.show_job(conn, job, asker);
    }

    /// Answers questions that waited for a commit.
    pub(super) fn answer_reads(&mut self) {
        for (conn, job, asker) in std::mem::take(&mut self.clients.parked.reads) {
            self.tell(conn, job, asker);
        }
    }

    /// A job is over, and that is durable.
    pub(super) fn answer_waiters(&mut self, job: JobId) {
        for (conn, waiter) in self.clients.parked.take_waiters(|waiter| waiter.job == job.number) {
            self.tell(conn, waiter.job, Asker { uid: waiter.uid, advised: None });
        }
    }

    /// Answers long polls that have timed out with the present state.
    pub(super) fn answer_late_waiters(&mut self, at: Now) {
        for (conn, waiter) in self.clients.parked.take_waiters(|waiter| waiter.until <= at.boot) {
            self.tell(conn, waiter.job, Asker { uid: waiter.uid, advised: None });
        }
    }

    /// How long a long poll may last.
    pub(super) fn wait_until(seconds: u64) -> BootTime {
        now().boot + ax_core::time::Span::seconds(seconds.min(600))
    }
}
