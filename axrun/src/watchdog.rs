//! The guard's watchdog: ends what no living supervisor looks after.
//!
//! A lease that is there and not held says that its supervisor is dead: whatever is left in the groups that its `started`
//! record names is killed. One that is held is trusted until all should long be over by that record: then its groups are
//! killed, too. Without a record there are no processes, but a child that was forked just before its supervisor died may be
//! on its way into the groups: so a free lease is looked at a few times before it is left alone. Leases and records stay:
//! axd settles them. It touches only the run folder (in memory) and the groups, and sleeps while there is no lease.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ax_core::id::AttemptName;
use ax_core::record::Started;
use ax_sys::dir_watch::DirWatch;
use ax_sys::lease::{self, Probe};
use ax_sys::path::{Dir, Meta, OFlag};
use ax_sys::pidfd::ProcessIdentity;
use ax_sys::shared_word::FenceWriter;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::socket::{Event, Interest, Poller};
use ax_sys::{Result, clock, process};

use crate::failure::Failure;
use crate::supervise::tree::Tree;

/// Time between looks: what a dead supervisor left is killed within two of them.
const TICK: Duration = Duration::from_secs(1);

/// Looks at a free lease without finding anything before it is left alone.
const QUIET_LOOKS: u8 = 3;

/// A held lease's record is read anew after so many looks: a job that was frozen and thawed has another end.
const REREAD_LOOKS: u8 = 30;

/// More leases than a machine can run jobs.
const MOST_LEASES: usize = 1 << 20;

/// Longest record.
const RECORD_MAX: u64 = 1 << 20;

const SIGNALS: u64 = 0;
const LEASES: u64 = 1;

/// What to do where another watchdog holds the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfTaken {
    /// End: whoever started us watches that one.
    End,
    /// Wait for its end, then watch in its stead.
    Wait,
}

/// Watches over one run folder until it is told to end or the folder is gone.
pub(crate) fn run(folder: &Path, if_taken: IfTaken) -> std::result::Result<(), Failure> {
    if !folder.is_absolute() {
        return Err(Failure::Usage(format!("'{}' is no absolute path of a run folder", folder.display())));
    }
    process::close_from(3, &[]).map_err(Failure::system)?;
    process::set_umask(0o022);
    let run = Dir::open(folder).map_err(Failure::input)?;
    // Held until this process ends.
    let _only_one = take_place(&run, if_taken)?;
    let signals = protect().map_err(Failure::system)?;
    let leases = run.create_dirs("leases", 0o700).map_err(Failure::system)?;
    let attempts = run.create_dirs("attempts", 0o700).map_err(Failure::system)?;
    // The supervisors' children read it before they start anything, so it has to be there.
    let _fence = FenceWriter::open(&run, "guard").map_err(Failure::system)?;
    let mut watchdog = Watchdog { leases, attempts, known: HashMap::new() };
    watchdog.watch(&signals).map_err(Failure::system)
}

fn take_place(run: &Dir, if_taken: IfTaken) -> std::result::Result<std::fs::File, Failure> {
    const LOCK: &str = "watchdog.lock";
    let opened = run.open_beneath(LOCK, OFlag::O_RDWR | OFlag::O_CREAT, 0o600).map_err(Failure::system)?;
    let file = std::fs::File::from(opened);
    match if_taken {
        IfTaken::Wait => lease::wait_lock(&file, LOCK).map_err(Failure::system)?,
        IfTaken::End if !lease::try_lock(&file, LOCK).map_err(Failure::system)? => {
            return Err(Failure::LeaseTaken(run.show(LOCK)));
        }
        IfTaken::End => {}
    }
    // Not on a full disk: it may be looked for once more, but the watch goes on.
    let _ = say_who(&file);
    Ok(file)
}

/// For a daemon that did not start us: whom to watch. The lock alone counts, so this may be old while it is not held.
fn say_who(mut file: &std::fs::File) -> std::io::Result<()> {
    let own = ProcessIdentity::own().map_err(std::io::Error::other)?;
    file.set_len(0)?;
    file.write_all(own.to_string().as_bytes())
}

/// Never swapped out, never chosen when memory is short, in a session of its own. As an ordinary user, as far as
/// the machine lets us.
fn protect() -> Result<SignalWatch> {
    let _ = process::lock_memory();
    let _ = process::set_oom_score_adj(-1000);
    let _ = process::new_session();
    let deaf =
        ["HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM"].iter().filter_map(|name| name.parse().ok());
    let watched: Vec<Signal> = [Signal::TERM].into_iter().chain(deaf).collect();
    SignalWatch::new(&watched)
}

/// What is known of the attempts whose leases are there.
struct Watchdog {
    leases: Dir,
    attempts: Dir,
    known: HashMap<AttemptName, Watched>,
}

#[derive(Default)]
struct Watched {
    /// Nothing more can come of it.
    done: bool,
    started: Option<Started>,
    /// Looks since the record was read.
    age: u8,
    /// Looks at a free lease that found nothing.
    quiet: u8,
}

impl Watchdog {
    fn watch(&mut self, signals: &SignalWatch) -> Result<()> {
        let mut poller = Poller::new()?;
        poller.add(signals, SIGNALS, Interest::READ)?;
        let names = DirWatch::new(self.leases.path())?;
        if let Some(run) = self.leases.path().parent() {
            names.also(run)?;
        }
        loop {
            // Drained before the look: what comes after it wakes the wait below.
            names.drain()?;
            // A run folder that was taken away (a trial's) has no leases any more, and never will again.
            if Meta::of(&self.leases)?.links == 0 {
                return Ok(());
            }
            let busy = self.look(clock::boot_ms());
            // Names are watched only while there is nothing to do: busy, the next look comes anyway, and jobs should
            // not pay for a wake-up each.
            if !busy {
                poller.add(&names, LEASES, Interest::READ)?;
            }
            if told_to_end(signals, &mut poller, busy.then_some(TICK))? {
                return Ok(());
            }
            if !busy {
                poller.remove(&names)?;
            }
        }
    }

    /// Looks at every lease once. Whether another look will be needed. One attempt that can't be looked at must not
    /// keep the others from it: it is looked at again.
    fn look(&mut self, now: u64) -> bool {
        let Ok(listing) = self.leases.list(MOST_LEASES) else { return true };
        let names = listing.names.iter().filter_map(|name| name.to_str()?.parse::<AttemptName>().ok());
        let mut before = std::mem::take(&mut self.known);
        for name in names {
            let mut watched = before.remove(&name).unwrap_or_default();
            if !watched.done {
                watched.done = self.look_at(name, &mut watched, now).unwrap_or(false);
            }
            self.known.insert(name, watched);
        }
        self.known.values().any(|watched| !watched.done)
    }

    /// Whether nothing more can come of this attempt.
    fn look_at(&self, name: AttemptName, watched: &mut Watched, now: u64) -> Result<bool> {
        match lease::probe(&self.leases, &name.to_string())? {
            Probe::Absent => Ok(true),
            Probe::Held => self.look_at_held(name, watched, now).map(|()| false),
            Probe::Free => self.look_at_free(name, watched),
        }
    }

    /// Its supervisor lives, and should have ended it long ago if this is past its time.
    fn look_at_held(&self, name: AttemptName, watched: &mut Watched, now: u64) -> Result<()> {
        watched.age = watched.age.saturating_add(1);
        let overdue = |started: &Started| started.overdue_boot.is_some_and(|at| at.0 <= now);
        let stale = watched.started.as_ref().is_none_or(overdue) || watched.age >= REREAD_LOOKS;
        if stale {
            watched.started = self.read_started(name)?;
            watched.age = 0;
        }
        match watched.started.as_ref().filter(|started| overdue(started)) {
            Some(started) => Tree::reopen(started)?.kill(),
            None => Ok(()),
        }
    }

    /// Its supervisor is dead. A result says that nothing was left when it was written.
    fn look_at_free(&self, name: AttemptName, watched: &mut Watched) -> Result<bool> {
        if self.attempts.stat(format!("{name}/result")).is_ok() {
            return Ok(true);
        }
        let left = match self.read_started(name)? {
            Some(started) => Some(Tree::reopen(&started)?).filter(|tree| !tree.is_empty().unwrap_or(false)),
            None => None,
        };
        watched.quiet = if left.is_some() { 0 } else { watched.quiet.saturating_add(1) };
        if let Some(tree) = left {
            tree.kill()?;
        }
        Ok(watched.quiet >= QUIET_LOOKS)
    }

    /// The record of a start; `None` if there is none, or none that can be understood.
    fn read_started(&self, name: AttemptName) -> Result<Option<Started>> {
        match self.attempts.read(format!("{name}/started"), RECORD_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => Ok(serde_json::from_slice(&other?).ok()),
        }
    }
}

/// Waits; whether TERM came.
fn told_to_end(signals: &SignalWatch, poller: &mut Poller, limit: Option<Duration>) -> Result<bool> {
    let mut events: Vec<Event> = Vec::new();
    poller.wait(&mut events, limit)?;
    let mut told = false;
    while let Some(signal) = signals.next()? {
        told |= signal == Signal::TERM;
    }
    Ok(told)
}
