//! The supervisor's part of a start: groups, work folder, record, sockets, child. A failure here becomes the
//! attempt's result. The child's own part is in `launch`.

use std::time::Duration;

use ax_core::record::{FORMAT, ProcessMark, Started};
use ax_sys::cgroup::Station;
use ax_sys::lease::Lease;
use ax_sys::path::Dir;
use ax_sys::process::{ErrandError, errand};
use ax_sys::shared_word::Fence;
use ax_sys::socket::Interest;
use ax_sys::{Result, SysError, clock, crash_point};

use super::attempt::{Attempt, REPORT};
use super::launch::Launch;
use super::table::Event;
use super::tree::Tree;
use super::verdict::LaunchError;
use super::{LEAVE_AFTER, OVERDUE_MARGIN, boot_now, wall_now, work};
use crate::failure::Failure;

/// What could not be made.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("groups: {0}")]
    Groups(SysError),
    #[error("device fence: {0}")]
    Fence(SysError),
    #[error("work folder: {0}")]
    WorkFolder(SysError),
    #[error("record: {0}")]
    Record(Failure),
    #[error("control socket: {0}")]
    Socket(SysError),
    #[error("card limits: {0}")]
    CardLimits(ErrandError),
    #[error("child: {0}")]
    Child(SysError),
}

impl Attempt {
    /// Makes everything that the child needs, and the child. What fails is this machine's fault, not the job's.
    pub(super) fn start(&mut self, lease: &mut Option<Lease>) {
        if let Err(error) = self.prepare(lease) {
            self.facts.launch_error = Some(LaunchError::Node(error.to_string()));
            self.on(Event::LaunchFailed);
        }
    }

    fn prepare(&mut self, lease: &mut Option<Lease>) -> std::result::Result<(), StartError> {
        self.leave_unit();
        let tree = Tree::create(&self.assignment, self.own).map_err(StartError::Groups)?;
        self.tree_events = tree.events().map_err(StartError::Groups)?;
        let tree = self.tree.insert(tree);
        crash_point!("cgroup");
        // Before anything is in it, and for as long as it is there: also when we and axd are gone.
        tree.fence(&self.assignment).map_err(StartError::Fence)?;
        self.work = work::prepare(&self.assignment).map_err(StartError::WorkFolder)?;
        // Before the fork: the watchdog finds what it may have to kill through this record, so nothing may live
        // in the groups before it is written.
        self.record_start().map_err(StartError::Record)?;
        self.listen().map_err(StartError::Socket)?;
        self.limit_cards().map_err(StartError::CardLimits)?;
        self.fork(lease).map_err(StartError::Child)?;
        crash_point!("forked");
        Ok(())
    }

    /// Out of the unit that started us, at once where that is cheap: there the job has to be born outside of it, too. In
    /// the unified tree the job is born in its own group, and we wait until most jobs are over.
    fn leave_unit(&mut self) {
        self.station = Station::from_record(&self.assignment.station).unwrap_or_default();
        let _ = self.station.enter_v1();
        let wanted = self.station != Station::default();
        self.timers.leave = wanted.then(|| clock::boot_ms().saturating_add(LEAVE_AFTER));
    }

    fn record_start(&mut self) -> std::result::Result<(), Failure> {
        let boot_id = clock::boot_id().map_err(Failure::system)?;
        let started_boot = boot_now();
        let ending = &self.assignment.ending;
        let started = Started {
            v: FORMAT,
            attempt: self.place.name,
            boot_id,
            supervisor: ProcessMark { pid: self.own.pid, start_ticks: self.own.start_ticks },
            cgroups: self.tree.as_ref().map(Tree::record).unwrap_or_default(),
            uid: Some(self.assignment.user.uid),
            card_limits: self.assignment.card_limits.clone(),
            marker: self.assignment.marker.clone(),
            started_at: wall_now(),
            started_boot,
            overdue_boot: ending.limit.map(|limit| started_boot + limit + ending.kill_wait + OVERDUE_MARGIN),
        };
        self.place.write_started(&started)?;
        self.started = Some(started);
        Ok(())
    }

    /// The group is there, nothing is in it, and whoever finds the record knows that limits may be on it.
    fn limit_cards(&mut self) -> std::result::Result<(), ErrandError> {
        let Some(limits) = &self.assignment.card_limits else { return Ok(()) };
        let patience = Duration::from_millis(limits.patience.0);
        if let Err(error) = errand(&limits.set, patience) {
            // That no process could be had for it says nothing of the driver.
            self.facts.limit_refused =
                matches!(error, ErrandError::Refused { .. } | ErrandError::Late { .. });
            return Err(error);
        }
        crash_point!("cards limited");
        Ok(())
    }

    fn listen(&mut self) -> Result<()> {
        let job = Dir::open(self.place.job_folder())?;
        self.control.listen(&self.place.attempt, &job)
    }

    fn fork(&mut self, lease: &mut Option<Lease>) -> Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let fence = self.fence.insert(Fence::open(&self.place.run, "guard")?);
        let launch = Launch {
            assignment: &self.assignment,
            script: self.place.job_folder().join("script"),
            fence,
            parent: self.own.pid.unsigned_abs(),
            as_root: ax_sys::credentials::own().0 == 0,
        };
        // What the job does to its work folder shows, or it counts as touched.
        self.work = self.work.filter(|work| clock::stamps_are_past(work.changed_s, work.changed_ns));
        let child = tree.fork(|parent| {
            // The child's copy only: while it is open the lease is held, whoever else has died.
            drop(lease.take());
            launch.run(parent)
        })?;
        self.script = Some(child.process.pid());
        self.poller.add(&child.report, REPORT, Interest::READ)?;
        self.report = Some(child.report);
        // Opening a pipe that nobody reads may take for ever: it has no more time than the script has from then on.
        let limit = self.assignment.ending.limit;
        self.timers.limit = limit.map(|limit| clock::boot_ms().saturating_add(limit.0));
        Ok(())
    }
}
