//! The MPS daemon of a card: one for all slices under MPS there, which belong to one user. It runs as that user, in a
//! group of its own, from before the first of them runs until the last has gone. Supervisors start and stop it with
//! the command lines made here. It is identified by its group, never by what a user says.

mod control;
mod error;
mod seat;

use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ax_core::gpu::fence::DeviceRule;
use ax_core::id::AttemptName;
use ax_core::paths::Paths;
use ax_core::record::{CardLimits, UserRecord};
use ax_core::time::Span;
use ax_sys::lease::{self, Probe};
use ax_sys::path::Dir;
use serde::{Deserialize, Serialize};

pub(crate) use error::MpsError;
use error::Result;
use seat::Seat;

/// How long a supervisor waits for a start or stop: the driver may have to be loaded.
const PATIENCE: Span = Span::seconds(15);

/// How long an unmounting process waits for its turn to say so.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What such a process is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Deed {
    /// The attempt comes to the card: start its daemon if it does not run.
    Start,
    /// The attempt has gone: stop the daemon if it was the last.
    Stop,
}

/// Everything that such a process has to know. Only root can write it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The attempt that comes or goes.
    pub(crate) attempt: AttemptName,
    /// The card.
    pub(crate) card: String,
    /// The folder of its daemon.
    pub(crate) folder: PathBuf,
    /// The control program.
    pub(crate) control: PathBuf,
    /// The user of the slices.
    pub(crate) user: UserRecord,
    /// Where attempts have their leases.
    pub(crate) leases: PathBuf,
    /// Where jobs have their groups.
    pub(crate) parents: Vec<String>,
    /// The devices that the daemon may open: those of the jobs.
    pub(crate) devices: Vec<DeviceRule>,
    /// Most processes and threads of it.
    pub(crate) processes: u64,
}

/// The name of the group of a card's daemon.
pub(crate) fn group_of(folder: &Path) -> String {
    format!("{GROUP}{}", folder.file_name().unwrap_or_default().to_string_lossy())
}

/// How the names of such groups begin. No attempt has such a name.
pub(crate) const GROUP: &str = "mps-";

/// The command lines of a supervisor.
pub(crate) fn command_lines(axd: &Path, order: &Order) -> serde_json::Result<CardLimits> {
    let text = serde_json::to_string(order)?;
    let words = |deed: &str| {
        let axd = axd.to_string_lossy().into_owned();
        vec![axd, "--mps".to_owned(), deed.to_owned(), "--order".to_owned(), text.clone()]
    };
    Ok(CardLimits { set: words("start"), clear: words("stop"), patience: PATIENCE })
}

/// The process behind such a command line.
pub(crate) fn run(deed: Deed, order: &str) -> ExitCode {
    let done = serde_json::from_str::<Order>(order).map_err(MpsError::Order);
    ended(done.and_then(|order| match deed {
        Deed::Start => start(&order),
        Deed::Stop => stop(&order),
    }))
}

/// The process that unmounts a folder in which users can mount: it may hang, and as long as it does, this file is
/// locked.
pub(crate) fn unmount(folder: &Path, busy: &Path) -> ExitCode {
    // Without it the hang would not be known, and the folder would have to go all the same.
    let _busy = seat::open_lock(busy).ok().filter(is_shared_soon);
    ended(ax_sys::mount::detach(folder).map(drop).map_err(MpsError::from))
}

/// Locks it, waiting for no longer than new folders take to be made elsewhere.
fn is_shared_soon(file: &File) -> bool {
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return false,
        }
    }
}

fn ended(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn start(order: &Order) -> Result<()> {
    let seat = Seat::take(&order.folder, &order.parents)?;
    // This comes first: a stop that finds no attempt here ends the daemon.
    seat.enter(order.attempt)?;
    ax_sys::crash_point!("mps entered");
    let done = serve_the_living(&seat, order);
    if done.is_err() {
        // The supervisor will also say that the attempt has gone; the next attempt should not have to wait for that.
        let _ = seat.leave(order.attempt).and_then(|()| clear_if_last(&seat));
    }
    done
}

/// Removes attempts whose supervisors have died without saying that they have gone, then serves this one. It may have
/// died itself before its turn came.
fn serve_the_living(seat: &Seat, order: &Order) -> Result<()> {
    let leases = Dir::open(&order.leases)?;
    dismiss_ended(seat, &leases)?;
    if !seat.users()?.contains(&order.attempt) {
        return Err(MpsError::AttemptEnded(order.attempt));
    }
    serve(seat, order)
}

/// An attempt whose supervisor has let its lease go is over, whether or not anybody has said so.
fn dismiss_ended(seat: &Seat, leases: &Dir) -> Result<()> {
    for user in seat.users()? {
        // If that can't be found out, it counts as running.
        if matches!(lease::probe(leases, &user.to_string()), Ok(Probe::Free | Probe::Absent)) {
            seat.leave(user)?;
        }
    }
    Ok(())
}

/// Makes sure that the card's daemon runs for this user.
fn serve(seat: &Seat, order: &Order) -> Result<()> {
    let ours = seat.owner() == Some(order.user.uid);
    let other = seat.users()?.into_iter().find(|user| *user != order.attempt);
    if ours && seat.lives()? && control::ask(seat, order, "get_server_list\n").is_ok() {
        return Ok(());
    }
    match other {
        // It does not answer because its own user stopped it: they have one again when the last job there is over.
        Some(_) if ours => return Ok(()),
        Some(other) => {
            return Err(MpsError::OtherUser { card: order.card.clone(), job: other.job });
        }
        None => seat.end()?,
    }
    control::start(seat, order)
}

fn stop(order: &Order) -> Result<()> {
    let Some(seat) = Seat::find(&order.folder, &order.parents)? else { return Ok(()) };
    seat.leave(order.attempt)?;
    if seat.users()?.is_empty() && seat.lives()? {
        // If it hangs, this is in vain, and it is killed below.
        let _ = control::ask(&seat, order, "quit\n");
        seat.wait_empty();
    }
    clear_if_last(&seat)
}

fn clear_if_last(seat: &Seat) -> Result<()> {
    if end_if_last(seat)? {
        // What can't be removed now delays nothing: it goes with the card's next daemon, or at a start of axd.
        let _ = seat.remove();
    }
    Ok(())
}

/// Ends the daemon if no attempt uses it any more. Returns whether that was so.
fn end_if_last(seat: &Seat) -> Result<bool> {
    let last = seat.users()?.is_empty();
    if last {
        seat.end()?;
    }
    Ok(last)
}

/// A daemon that was ended because no attempt used it any more.
#[derive(Debug)]
pub(crate) struct EndedDaemon {
    card: String,
}

impl fmt::Display for EndedDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the MPS daemon of {}, which nobody used any more", self.card)
    }
}

/// Ends the daemons that no attempt uses. Returns those that ran, and why others could not be ended.
pub(crate) fn sweep(paths: &Paths, parents: &[String]) -> Vec<Result<EndedDaemon>> {
    let Ok(leases) = Dir::open(paths.leases()) else { return Vec::new() };
    let entries = std::fs::read_dir(paths.mps()).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let swept = folders.map(|entry| sweep_one(&entry.path(), parents, &leases));
    swept.filter_map(Result::transpose).collect()
}

fn sweep_one(folder: &Path, parents: &[String], leases: &Dir) -> Result<Option<EndedDaemon>> {
    let Some(seat) = Seat::find(folder, parents)? else { return Ok(None) };
    dismiss_ended(&seat, leases)?;
    let lived = seat.users()?.is_empty() && seat.lives()?;
    if end_if_last(&seat)? {
        seat.remove()?;
    }
    let card = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(lived.then_some(EndedDaemon { card }))
}
