//! One attempt of one job, from its assignment to its result.
//!
//! The order of the start is a promise, so it stands here in one place: lease → own protection → groups → work
//! folder → `started` → sockets → child. Until the lease is taken nothing is touched and failures are exit codes; from
//! then on every failure becomes the attempt's result. Needs neither axd nor the network.

mod attempt;
mod control;
mod launch;
mod place;
mod script;
mod table;
mod timers;
pub(crate) mod tree;
mod verdict;

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use ax_core::record::Assignment;
use ax_core::time::{BootTime, Span, WallTime};
use ax_sys::crash_point;
use ax_sys::lease::{Lease, LeaseError};
use ax_sys::pidfd::ProcessIdentity;
use ax_sys::signals::{Signal, SignalWatch};
use ax_sys::{Result, SysError, clock, process, seqpacket};

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
    let place = Place::open(folder)?;
    let assignment = place.read_assignment()?;
    let own = ProcessIdentity::own().map_err(Failure::system)?;
    let lease = take_lease(&place, own)?;
    crash_point!("lease linked");
    let signals = protect().map_err(Failure::system)?;
    let mut attempt = Attempt::new(place, assignment, own, signals, axd).map_err(Failure::system)?;
    attempt.start();
    attempt.supervise();
    attempt.finish();
    // To the very end: a free lease says that nothing of the attempt is left to be looked after.
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

/// Makes this process hard to end by accident: out of axd's session and the reach of its terminal, the last to
/// be chosen when memory is short, deaf to all signals but TERM. Orphans of the job stay below it.
fn protect() -> Result<SignalWatch> {
    // Both fail harmlessly: without root, or as the leader of a group already.
    let _ = process::set_oom_score_adj(-900);
    let _ = process::new_session();
    process::set_umask(0o022);
    process::set_child_subreaper(true)?;
    // Blocked and read from a descriptor; only CHLD and TERM mean anything.
    let deaf = ["HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TSTP", "TTIN", "TTOU", "XCPU", "XFSZ"];
    let deaf = deaf.iter().filter_map(|name| name.parse().ok());
    let watched: Vec<Signal> = [Signal::CHLD, Signal::TERM].into_iter().chain(deaf).collect();
    SignalWatch::new(&watched)
}

/// The attempt's own folder for the user. Its parents are root's and may be passed through, not listed.
fn make_work_folder(assignment: &Assignment) -> Result<()> {
    let path = Path::new(&assignment.work_dir);
    let failed = |doing, error| SysError::new(doing, path.display(), error);
    let make = || std::fs::DirBuilder::new().mode(0o700).create(path);
    let made = match make() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path);
            let parents = std::fs::DirBuilder::new().mode(0o711).recursive(true).create(parent);
            parents.map_err(|error| failed("make the folders above", error))?;
            make()
        }
        other => other,
    };
    let user = &assignment.user;
    match made {
        // Somebody prepared it. Only root could, but an odd one is no work folder.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let meta = std::fs::symlink_metadata(path).map_err(|error| failed("look at", error))?;
            if meta.is_dir() && meta.uid() == user.uid.0 {
                return Ok(());
            }
            Err(failed("use as work folder", error))
        }
        Err(error) => Err(failed("make work folder", error)),
        Ok(()) => std::os::unix::fs::lchown(path, Some(user.uid.0), Some(user.gid.0))
            .map_err(|error| failed("give to the user", error)),
    }
}

fn boot_now() -> BootTime {
    BootTime(clock::boot_ms())
}

fn wall_now() -> WallTime {
    WallTime(clock::wall_ms())
}
