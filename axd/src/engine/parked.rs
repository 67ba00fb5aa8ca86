//! What waits for something else than the disk: requests and launches for an
//! answer of the name service, long polls for the end of a job.

use std::collections::BTreeMap;

use ax_core::id::{JobId, JobNumber, Uid};
use ax_core::time::{BootTime, Now};

use super::effects::Launch;
use super::{Engine, now};
use crate::api::server::{ConnId, Incoming};
use crate::spool::Arrival;

/// All that waits.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Requests of users who are not known yet.
    requests: Vec<(Uid, Incoming)>,
    /// Drops of users who are not known yet.
    pub(super) drops: Vec<(Uid, Arrival)>,
    /// Launches of users who are not known yet.
    pub(super) launches: Vec<(Uid, Launch)>,
    /// Long polls: by connection, the job and until when.
    waiters: BTreeMap<ConnId, (JobNumber, BootTime)>,
    /// Questions about jobs of which something is not durable yet.
    reads: Vec<(ConnId, JobNumber)>,
}

impl Parked {
    /// A request that waits for its user to be known.
    pub(super) fn request(&mut self, uid: Uid, request: Incoming) {
        self.requests.push((uid, request));
    }

    /// A client that waits for a job's end.
    pub(super) fn waiter(&mut self, conn: ConnId, job: JobNumber, until: BootTime) {
        self.waiters.insert(conn, (job, until));
    }

    /// A client has gone.
    pub(super) fn gone(&mut self, conn: ConnId) {
        self.waiters.remove(&conn);
        self.reads.retain(|(of, _)| *of != conn);
        self.requests.retain(|(_, request)| request.conn != conn);
    }

    /// When the first long poll has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<BootTime> {
        self.waiters.values().map(|(_, until)| *until).min()
    }

    fn take_waiters(
        &mut self,
        mut which: impl FnMut(JobNumber, BootTime) -> bool,
    ) -> Vec<(ConnId, JobNumber)> {
        let chosen = self.waiters.iter().filter(|(_, (job, until))| which(*job, *until));
        let chosen: Vec<_> = chosen.map(|(conn, (job, _))| (*conn, *job)).collect();
        for (conn, _) in &chosen {
            self.waiters.remove(conn);
        }
        chosen
    }
}

impl Engine {
    /// The name service has answered about a user.
    pub(super) fn unpark(&mut self, uid: Uid) {
        let (theirs, others) =
            std::mem::take(&mut self.parked.requests).into_iter().partition(|(of, _)| *of == uid);
        self.parked.requests = others;
        let theirs: Vec<(Uid, Incoming)> = theirs;
        for (_, request) in theirs {
            self.on_request(request);
        }
        let (theirs, others) =
            std::mem::take(&mut self.parked.drops).into_iter().partition(|(of, _)| *of == uid);
        self.parked.drops = others;
        let theirs: Vec<(Uid, Arrival)> = theirs;
        for (_, arrival) in theirs {
            self.on_arrival(arrival);
        }
        let (theirs, others) =
            std::mem::take(&mut self.parked.launches).into_iter().partition(|(of, _)| *of == uid);
        self.parked.launches = others;
        let theirs: Vec<(Uid, Launch)> = theirs;
        for (_, launch) in theirs {
            self.launch(launch);
        }
    }

    /// Everything about a job: as soon as what was decided about it is durable, so that
    /// memory and accounts say the same; at once while commits fail.
    pub(super) fn tell(&mut self, conn: ConnId, job: JobNumber) {
        if self.read_only.is_none() && self.is_unsettled(job) {
            self.parked.reads.push((conn, job));
            return;
        }
        let response = self.show_job(job);
        self.respond(conn, &response);
    }

    /// Questions that waited for a commit.
    pub(super) fn answer_reads(&mut self) {
        for (conn, job) in std::mem::take(&mut self.parked.reads) {
            self.tell(conn, job);
        }
    }

    /// A job is over, and that is durable.
    pub(super) fn answer_waiters(&mut self, job: JobId) {
        for (conn, number) in self.parked.take_waiters(|of, _| of == job.number) {
            self.tell(conn, number);
        }
    }

    /// Long polls that have waited long enough are told how things stand.
    pub(super) fn answer_late_waiters(&mut self, at: Now) {
        for (conn, number) in self.parked.take_waiters(|_, until| until <= at.boot) {
            self.tell(conn, number);
        }
    }

    /// How long a long poll may last.
    pub(super) fn wait_until(seconds: u64) -> BootTime {
        now().boot + ax_core::time::Span::seconds(seconds.min(600))
    }
}
