//! Keeps the watchdog running: a process that outlives the daemon and kills what a supervisor should have ended and
//! has not. Under systemd a unit runs it, and stands by if the daemon's was there first; elsewhere the daemon starts
//! it, detached, whenever it is missing.

use std::ffi::CString;
use std::path::{Path, PathBuf};

use ax_core::time::{BootTime, Span};
use ax_sys::path::Dir;
use ax_sys::pidfd::{Exit, PidFd};
use ax_sys::process::Spawn;
use ax_sys::socket::{Interest, Poller};

use super::tokens;
use crate::log::{Level, Line, Log};

/// A watchdog that ended soon after its start is started again after this pause, an older one at once.
const PAUSE: Span = Span::seconds(1);

/// Under systemd the unit has so long to start its own, which has more rights to memory and CPU.
const UNIT_FIRST: Span = Span::seconds(5);

/// Exit code of `axrun --watchdog` if another one holds its place.
const TAKEN: Exit = Exit::Code(10);

/// The watchdog, as the daemon knows it.
#[derive(Debug)]
pub(super) struct Guard {
    axrun: PathBuf,
    run: PathBuf,
    /// How long others have to start it.
    patience: Span,
    process: Option<PidFd>,
    since: BootTime,
    next: Option<BootTime>,
}

impl Guard {
    /// A watchdog that is started at the first look, or, `under_systemd`, if a unit has not started one by then.
    pub(super) fn new(axrun: &Path, run: &Path, under_systemd: bool, now: BootTime) -> Guard {
        let patience = if under_systemd { UNIT_FIRST } else { Span::ZERO };
        let next = Some(now + patience);
        Guard { axrun: axrun.to_owned(), run: run.to_owned(), patience, process: None, since: now, next }
    }

    /// When to look next.
    pub(super) fn next_look(&self) -> Option<BootTime> {
        self.next
    }

    /// Starts it if it is time to.
    pub(super) fn look(&mut self, poller: &Poller, now: BootTime, log: &mut Log) {
        if self.next.is_none_or(|at| at > now) {
            return;
        }
        self.next = None;
        self.since = now;
        if let Err(error) = self.start(poller) {
            log.line(Level::Error, &Line::new("guard").text("error", &error));
            self.next = Some(now + PAUSE);
        }
    }

    fn start(&mut self, poller: &Poller) -> Result<(), ax_sys::SysError> {
        let text = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).unwrap_or_default();
        let process = Spawn {
            program: text(&self.axrun),
            arguments: vec![c"axrun".to_owned(), c"--watchdog".to_owned(), text(&self.run)],
            environment: Vec::new(),
            descriptors: Vec::new(),
            directory: Some(c"/".to_owned()),
            new_session: true,
        }
        .start()?;
        poller.add(&process, tokens::GUARD, Interest::READ)?;
        self.process = Some(process);
        Ok(())
    }

    /// It has ended: if another one is there, that is watched instead; if it was killed, a new one is needed.
    pub(super) fn ended(&mut self, poller: &Poller, now: BootTime) {
        let Some(process) = self.process.take() else { return };
        let _ = poller.remove(&process);
        let taken = matches!(process.reap(), Ok(Some(exit)) if exit == TAKEN);
        if taken && self.adopt(poller).is_some() {
            return;
        }
        let young = now - self.since < PAUSE;
        let pause = if young { PAUSE } else { Span::ZERO };
        self.next = Some(now + pause.max(self.patience));
    }

    /// Watches the one that an earlier daemon started; it wrote its identity into its lock.
    fn adopt(&mut self, poller: &Poller) -> Option<()> {
        let written = Dir::open(&self.run).and_then(|run| run.read("watchdog.lock", 64)).ok()?;
        let identity = String::from_utf8(written).ok()?.trim().parse().ok()?;
        let process = PidFd::open_checked(identity).ok()??;
        poller.add(&process, tokens::GUARD, Interest::READ).ok()?;
        self.process = Some(process);
        Some(())
    }
}
