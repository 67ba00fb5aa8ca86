//! One attempt of one job, from its assignment to its result.
//!
//! The order of the start is a promise, so it stands here in one place: lease → own protection → groups → device fence →
//! work folder → `started` → sockets → child. Until the lease is taken nothing is touched. Up to the groups failures are exit
//! codes, and axd finds out what is left; from the groups on every failure becomes the attempt's result. Needs neither axd nor the network.

mod act;
mod attempt;
mod control;
mod finish;
mod launch;
mod place;
mod script;
mod start;
mod table;
mod timers;
pub(crate) mod tree;
mod verdict;
mod work;

use std::os::fd::OwnedFd;
use std::path::Path;

use ax_core::time::{BootTime, Span, WallTime};
use ax_sys::crash_point;
use ax_sys::lease::{Lease, LeaseError};
use ax_sys::pidfd::ProcessIdentity;
use ax_sys::signals::{self, Signal, SignalWatch};
use ax_sys::{Result, clock, process, seqpacket};

use self::attempt::Attempt;
use self::place::Place;
use crate::failure::Failure;

/// The number under which axd hands over its end of a socket.
const AXD_SOCKET: i32 = 3;

/// Past limit and grace the watchdog waits this long before it takes the supervisor for dead.
const OVERDUE_MARGIN: Span = Span::seconds(10);

/// Supervises the attempt in this folder until its result is recorded.
pub(crate) fn run(folder: &Path) -> std::result::Result<(), Failure> {
    // First, while no descriptor of ours can be mistaken for one that we were given.
    let axd = take_descriptors()?;
    become_supervisor().map_err(Failure::system)?;
    run_for(folder, axd)
}

/// Makes this process hard to end by accident, and gives it what all supervisors have: those that it forks inherit it.
/// Out of axd's session and the reach of its terminal, the last to be chosen when memory is short; no signal
/// ignored or caught, which a job would inherit.
pub(crate) fn become_supervisor() -> Result<()> {
    // These fail harmlessly: without root, or as the leader of a group already.
    let _ = process::set_oom_score_adj(-900);
    let _ = process::new_session();
    // So that no mount is kept busy by where axd happened to be.
    let _ = process::change_dir(Path::new("/"));
    process::set_umask(0o022);
    signals::reset_all()
}

/// The same for an axd whose socket is at hand, in a process that has [become one](become_supervisor), with no other
/// descriptor open but the standard ones.
pub(crate) fn run_for(folder: &Path, axd: Option<OwnedFd>) -> std::result::Result<(), Failure> {
    let place = Place::open(folder)?;
    let assignment = place.read_assignment()?;
    let own = ProcessIdentity::own().map_err(Failure::system)?;
    let lease = take_lease(&place, own)?;
    crash_point!("lease linked");
    if place.is_gone() {
        return Err(too_late(&place));
    }
    let signals = protect().map_err(Failure::system)?;
    let mut attempt = Attempt::new(place, assignment, own, signals, axd).map_err(Failure::system)?;
    // The lease is held to the very end: a free one says that nothing of the attempt is left to be looked after.
    let mut lease = Some(lease);
    attempt.start(&mut lease);
    attempt.supervise();
    attempt.finish();
    drop(lease);
    Ok(())
}

fn take_descriptors() -> std::result::Result<Option<OwnedFd>, Failure> {
    let axd = seqpacket::inherited(AXD_SOCKET);
    let first = if axd.is_some() { AXD_SOCKET + 1 } else { AXD_SOCKET };
    process::close_from(first, &[]).map_err(Failure::system)?;
    Ok(axd)
}

/// Whoever finds the lease made must touch nothing: it is another supervisor's, or axd has sealed it.
fn take_lease(place: &Place, own: ProcessIdentity) -> std::result::Result<Lease, Failure> {
    Lease::create(&place.leases, &place.name.to_string(), own.to_string().as_bytes()).map_err(|error| {
        match error {
            LeaseError::AlreadyExists(path) => Failure::LeaseTaken(path),
            LeaseError::System(error) => Failure::System(error),
        }
    })
}

/// axd has sealed and settled this attempt, and removed all that there was of it, before we were awake. Nothing of it
/// may come back: not even the lease, which nobody would ever look at.
fn too_late(place: &Place) -> Failure {
    let _ = place.leases.unlink(place.name.to_string());
    Failure::LeaseTaken(place.leases.show(place.name.to_string()))
}

/// A process of its own, not reached by what is meant for another supervisor's group, and deaf to all signals but TERM.
/// Orphans of the job stay below it.
fn protect() -> Result<SignalWatch> {
    // One that leads a session leads its group.
    let _ = process::new_group();
    process::set_child_subreaper(true)?;
    // Blocked and read from a descriptor; only CHLD and TERM mean anything.
    let deaf = ["HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TSTP", "TTIN", "TTOU", "XCPU", "XFSZ"];
    let deaf = deaf.iter().filter_map(|name| name.parse().ok());
    let watched: Vec<Signal> = [Signal::CHLD, Signal::TERM].into_iter().chain(deaf).collect();
    SignalWatch::new(&watched)
}

/// Milliseconds until it leaves the daemon's unit of systemd, which takes a while: short jobs do not pay for it.
const LEAVE_AFTER: u64 = 1000;

/// The first look at a tree that is ending, and the first pause before another try, in milliseconds.
const FIRST_LOOK: u64 = 10;

fn boot_now() -> BootTime {
    BootTime(clock::boot_ms())
}

fn wall_now() -> WallTime {
    WallTime(clock::wall_ms())
}
