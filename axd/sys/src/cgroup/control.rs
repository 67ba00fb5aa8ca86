//! Ends, halts and signals everything in a job's groups.
//!
//! Where the kernel has `cgroup.kill`, killing is one write. Elsewhere the processes are frozen first, so that none
//! can fork while its siblings are killed, then killed one by one, then thawed: a process that is frozen in v1 does
//! not even die.

use super::events::Events;
use super::files;
use super::group::JobGroup;
use super::hierarchy::Controller;
use crate::error::{Result, SysError};
use crate::pidfd::{PidFd, wait_for};
use crate::signals::Signal;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long killing waits for a freeze. A process in an uninterruptible call never freezes: kill it anyway.
const FREEZE_WAIT: Duration = Duration::from_millis(200);

/// How often a state is polled if nothing announces it.
const TICK: Duration = Duration::from_millis(2);

/// Descriptors of processes that are held at once while signalling.
const BATCH: usize = 128;

/// Rounds of looking for processes that were forked while their parents were signalled.
const ROUNDS: u32 = 8;

impl JobGroup {
    /// Kills every process of the job, whatever its state. Returns before they are gone: wait for emptiness, and
    /// call again as long as it does not come, since without `cgroup.kill` a process may slip through one pass.
    /// There a pass may also take 0.2 s, when a process can't be frozen.
    ///
    /// # Errors
    /// When the kernel refuses a write or signal.
    pub fn kill_all(&self) -> Result<()> {
        let Some(dir) = &self.unified else { return self.kill_frozen() };
        if self.populated()? {
            return if self.kill_at_once(dir)? { Ok(()) } else { self.kill_frozen() };
        }
        // The unified group is empty: a process that keeps a v1 group busy has been moved out of the unified one.
        for group in &self.v1 {
            signal_members(Signal::KILL, &mut HashSet::new(), || files::members(&group.dir))?;
        }
        Ok(())
    }

    /// Kills and waits until nothing is left, at most `limit`. Returns whether that was reached.
    ///
    /// # Errors
    /// As [`JobGroup::kill_all`].
    pub fn kill_until_empty(&self, limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        let events = self.events()?;
        loop {
            self.kill_all()?;
            // Without cgroup.kill a fork may have slipped through, so another pass follows soon.
            let pause = Duration::from_millis(20).min(end.saturating_duration_since(Instant::now()));
            if self.wait_until(events.as_ref(), pause, || Ok(!self.populated()?))? {
                return Ok(true);
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
    }

    /// Sends a signal to every process of the job, also to those that are forked meanwhile. A stopped process
    /// acts on it once it is continued.
    ///
    /// # Errors
    /// When the kernel refuses a signal.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        let mut seen = HashSet::new();
        for _ in 0..ROUNDS {
            if signal_members(signal, &mut seen, || self.pids())? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The polite end: TERM, then CONT so that stopped processes notice.
    ///
    /// # Errors
    /// As [`JobGroup::signal_all`].
    pub fn terminate_all(&self) -> Result<()> {
        self.signal_all(Signal::TERM)?;
        self.signal_all(Signal::CONT)
    }

    /// Halts every process, waiting for it at most `limit`. Returns whether all are halted; if not, the request
    /// stays.
    ///
    /// # Errors
    /// When the kernel refuses, or there is neither a unified group nor a v1 freezer.
    pub fn freeze(&self, limit: Duration) -> Result<bool> {
        self.request_freeze(true)?;
        let events = self.events()?;
        self.wait_until(events.as_ref(), limit, || self.frozen())
    }

    /// Lets the processes go on and waits until they do, at most `limit`. Returns whether that was reached.
    ///
    /// # Errors
    /// As [`JobGroup::freeze`].
    pub fn thaw(&self, limit: Duration) -> Result<bool> {
        self.request_freeze(false)?;
        let events = self.events()?;
        self.wait_until(events.as_ref(), limit, || Ok(!self.frozen()?))
    }

    /// True if every process is really halted.
    ///
    /// # Errors
    /// When the group can't be read.
    pub fn frozen(&self) -> Result<bool> {
        if let Some(dir) = &self.unified {
            return Ok(files::read_key(&dir.join("cgroup.events"), "frozen")? == Some(1));
        }
        let Some(dir) = self.v1_dir(Controller::Freezer) else { return Ok(false) };
        Ok(files::read(&dir.join("freezer.state"))?.is_some_and(|state| state.trim() == "FROZEN"))
    }

    /// True if a process that has not ended is in the job's groups. A group that is gone is empty.
    ///
    /// # Errors
    /// When the group can't be read.
    pub fn populated(&self) -> Result<bool> {
        match &self.unified {
            Some(dir) => Ok(files::read_key(&dir.join("cgroup.events"), "populated")? == Some(1)),
            None => Ok(!self.pids()?.is_empty()),
        }
    }

    /// A file that announces emptiness and freezing; `None` without a unified group (then ask
    /// [`JobGroup::populated`] from time to time) and when the group is gone.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn events(&self) -> Result<Option<Events>> {
        match self.unified.as_deref().map(Events::open).transpose() {
            Err(error) if error.is(libc::ENOENT) => Ok(None),
            other => other,
        }
    }

    /// Numbers of the job's processes, rising.
    ///
    /// # Errors
    /// When a group can't be read.
    pub fn pids(&self) -> Result<Vec<i32>> {
        match &self.unified {
            Some(dir) => files::members(dir),
            None => {
                let mut pids = Vec::new();
                for group in &self.v1 {
                    pids.extend(files::members(&group.dir)?);
                }
                pids.sort_unstable();
                pids.dedup();
                Ok(pids)
            }
        }
    }

    /// Kills through `cgroup.kill`. `false` if the kernel has no such file.
    fn kill_at_once(&self, dir: &Path) -> Result<bool> {
        if !self.kill_file {
            return Ok(false);
        }
        match files::write(&dir.join("cgroup.kill"), "1") {
            // The file or the whole group is not there; a group being removed is empty.
            Err(error) if error.is(libc::ENOENT) => Ok(!dir.exists()),
            Err(error) if error.is(libc::ENODEV) => Ok(true),
            other => other.map(|()| true),
        }
    }

    /// Freezes, kills each process, thaws. Without a freezer (mounted elsewhere, or old), the same without freezing.
    fn kill_frozen(&self) -> Result<()> {
        let frozen = self.freeze(FREEZE_WAIT);
        let killed = signal_members(Signal::KILL, &mut HashSet::new(), || self.pids());
        if frozen.is_ok() {
            // Even if killing failed: nothing may stay frozen. The group may be gone by now.
            let _ = self.request_freeze(false);
        }
        killed.map(drop)
    }

    fn request_freeze(&self, freeze: bool) -> Result<()> {
        if let Some(dir) = &self.unified {
            return files::write(&dir.join("cgroup.freeze"), if freeze { "1" } else { "0" });
        }
        match self.v1_dir(Controller::Freezer) {
            Some(dir) => files::write(&dir.join("freezer.state"), if freeze { "FROZEN" } else { "THAWED" }),
            None => Err(SysError::found("freeze", "a job", "it is in no group that can")),
        }
    }

    /// Waits for a state: on the events file if there is one, else in small steps.
    fn wait_until(
        &self,
        events: Option<&Events>,
        limit: Duration,
        mut fact: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let end = Instant::now() + limit;
        loop {
            // Reading the open file re-arms it before the fact is asked for, so no change is missed.
            events.map(Events::state).transpose()?;
            if fact()? {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            match events {
                Some(events) => {
                    // An error here is only a missed hint.
                    let _ = wait_for(events.as_fd(), libc::POLLPRI, left);
                }
                None => std::thread::sleep(TICK.min(left)),
            }
        }
    }
}

/// Signals every member that is not in `seen`. By the time a number that was read from a group is used, it may belong
/// to a foreign process: so the process is held by descriptor first, and the group must then still list the number.
/// Returns how many were signalled.
fn signal_members(
    signal: Signal,
    seen: &mut HashSet<i32>,
    list: impl Fn() -> Result<Vec<i32>>,
) -> Result<usize> {
    let mut count = 0;
    let new: Vec<i32> = list()?.into_iter().filter(|pid| !seen.contains(pid)).collect();
    for batch in new.chunks(BATCH) {
        let held: Vec<PidFd> = batch.iter().filter_map(|pid| PidFd::open(*pid).ok()).collect();
        let still: HashSet<i32> = list()?.into_iter().collect();
        for process in held.iter().filter(|process| still.contains(&process.pid())) {
            seen.insert(process.pid());
            count += usize::from(process.send_signal(signal)?);
        }
    }
    Ok(count)
}
