//! Finds out what became of an attempt on which no supervisor of this daemon reports: adopted, ended with a record,
//! lost with its supervisor, or never started. Uses the lease, the records and the recorded groups, never a pid
//! alone. May block, so it runs on the worker thread.

use std::path::Path;
use std::time::{Duration, Instant};

use ax_core::id::AttemptName;
use ax_core::job::state::Outcome;
use ax_core::paths::Paths;
use ax_core::record::{Assignment, AttemptResult, CardLimits, FORMAT, ProcessMark, Started};
use ax_core::size::Megabytes;
use ax_core::time::WallTime;
use ax_sys::cgroup::{Containment, ProcessTree, Removal};
use ax_sys::lease::{self, LeaseError, Probe};
use ax_sys::path::Dir;
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::process::{ErrandError, errand};
use ax_sys::signals::Signal;
use ax_sys::{SysError, clock};
use thiserror::Error;

use crate::containment;
use crate::worker::TOO_MANY;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Its supervisor runs; this is the record that it wrote at its start, if it has got so far.
    Alive(Option<Box<Started>>),
    /// It is over: by its own record, or because its supervisor died and its tree is ended.
    Over(Box<AttemptResult>),
    /// It was never started, and is sealed now so that it never will be.
    NeverStarted(String),
}

/// Why it can't be found out, or ended. It must be asked again.
#[derive(Debug, Error)]
pub(crate) enum SettleError {
    #[error("settling {attempt}: {source}")]
    Settle {
        /// The attempt.
        attempt: AttemptName,
        /// What stood in the way.
        source: SysError,
    },
    #[error("ending {attempt}: {source}")]
    EndStray {
        /// The attempt, which the database does not know.
        attempt: AttemptName,
        /// What stood in the way.
        source: SysError,
    },
}

/// Why something that an attempt left is still there.
#[derive(Debug, Error)]
pub(crate) enum RemovalError {
    #[error("clearing {attempt} away: taking the limits of its cards away: {source}")]
    Limits {
        /// The attempt.
        attempt: AttemptName,
        /// What the driver's process says.
        source: ErrandError,
    },
    #[error("clearing {attempt} away: {source}")]
    Groups {
        /// The attempt.
        attempt: AttemptName,
        /// What stood in the way.
        source: SysError,
    },
    #[error(transparent)]
    Folder(#[from] SysError),
    /// Nothing was tried.
    #[error("clearing {attempt} away: {TOO_MANY}", TOO_MANY = TOO_MANY)]
    TooManyWait {
        /// The attempt.
        attempt: AttemptName,
    },
}

/// A job's tree must be gone within this, or the next look goes on with it: others wait behind it.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// At a start, an attempt that is not to be believed in must be gone within this.
const STRAY_PATIENCE: Duration = Duration::from_secs(10);

/// A record is small; anything larger is not one.
const RECORD_LIMIT: u64 = 1 << 20;

/// What a supervisor writes into its lease: `pid:start`.
const IDENTITY_LIMIT: u64 = 64;

/// Groups of an attempt that is over, with the driver's limits on them: memory of cards that the driver keeps for
/// them is free only when these are gone.
#[derive(Debug)]
pub(crate) struct Limited {
    tree: Containment,
    limits: CardLimits,
}

impl Limited {
    /// Takes the limits away and removes the groups, if that can be done now; otherwise a later clean-up does. Waits
    /// for the driver.
    pub(crate) fn release(&self) {
        if release_cards(&self.limits).is_ok() {
            let _ = self.tree.remove();
        }
    }
}

/// Finds out, and returns what the driver must be asked for before that is reported. On an error nothing is known,
/// and the question must be asked again.
pub(crate) fn settle(paths: &Paths, attempt: AttemptName) -> Result<(Settled, Option<Limited>), SettleError> {
    settle_by_lease(paths, attempt).map_err(|source| SettleError::Settle { attempt, source })
}

fn settle_by_lease(paths: &Paths, attempt: AttemptName) -> Result<(Settled, Option<Limited>), SysError> {
    let leases = Dir::open(paths.leases())?;
    let name = attempt.to_string();
    match lease::probe(&leases, &name)? {
        Probe::Held => {
            let started = started_by_holder(paths, &leases, attempt)?;
            Ok((Settled::Alive(started.map(Box::new)), None))
        }
        Probe::Free => settle_dead(paths, attempt),
        Probe::Absent => match lease::seal(&leases, &name, b"sealed") {
            Ok(()) => Ok((Settled::NeverStarted("no supervisor had begun it".to_owned()), None)),
            // Another process was faster: look once more.
            Err(LeaseError::AlreadyExists(_)) => settle_by_lease(paths, attempt),
            Err(LeaseError::System(error)) => Err(error),
        },
    }
}

/// Ends everything that runs of an attempt which must not count. Returns whether anything did.
pub(crate) fn end_stray(paths: &Paths, attempt: AttemptName) -> Result<bool, SettleError> {
    end_supervisor_and_tree(paths, attempt).map_err(|source| SettleError::EndStray { attempt, source })
}

fn end_supervisor_and_tree(paths: &Paths, attempt: AttemptName) -> Result<bool, SysError> {
    // Over: at most its supervisor is about to end by itself.
    if read_result(paths, attempt)?.is_some() {
        return Ok(false);
    }
    let (leases, name) = (Dir::open(paths.leases())?, attempt.to_string());
    let mut ran = false;
    let end = Instant::now() + STRAY_PATIENCE;
    while lease::probe(&leases, &name)? == Probe::Held {
        ran = true;
        if Instant::now() > end {
            return Err(SysError::new("end", attempt, std::io::ErrorKind::TimedOut));
        }
        if let Some(process) = holder(&leases, attempt)?.map_or(Ok(None), PidFd::open_checked)? {
            process.send_signal(Signal::KILL)?;
            process.wait_ended(KILL_PATIENCE)?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (tree, limits) = match started(paths, attempt)? {
        Some(started) => (Some(recorded(&started)?), started.card_limits),
        None => (nameless(paths, attempt), None),
    };
    if let Some(tree) = tree {
        ran |= tree.populated()?;
        empty(&tree, attempt, STRAY_PATIENCE)?;
        // If the driver limits them this would wait for it: the later clean-up does it.
        if limits.is_none() {
            let _ = tree.remove();
        }
    }
    Ok(ran)
}

/// Kills all that is in it, and sees it gone.
fn empty(tree: &Containment, attempt: AttemptName, patience: Duration) -> Result<(), SysError> {
    if tree.kill_until_empty(patience)? {
        return Ok(());
    }
    let what = "processes of the job are still there after SIGKILL";
    Err(SysError::new("end", attempt, std::io::Error::other(what)))
}

/// The lease is there and not held: the supervisor is dead, or the lease was a seal.
fn settle_dead(paths: &Paths, attempt: AttemptName) -> Result<(Settled, Option<Limited>), SysError> {
    if let Some(result) = read_result(paths, attempt)? {
        return Ok((Settled::Over(Box::new(result)), None));
    }
    // A supervisor writes `started` before it forks: without it no process of the job ever was.
    let Some(started) = started(paths, attempt)? else {
        let why = "its supervisor ended before it began the script";
        return Ok((Settled::NeverStarted(why.to_owned()), None));
    };
    let tree = recorded(&started)?;
    empty(&tree, attempt, KILL_PATIENCE)?;
    let result = lost(&started, &tree)?;
    let limited = match started.card_limits {
        Some(limits) => Some(Limited { tree, limits }),
        None => {
            // If it can be done at once; otherwise the later clean-up does it.
            let _ = tree.remove();
            None
        }
    };
    Ok((Settled::Over(Box::new(result)), limited))
}

/// The result of an attempt that was lost with its supervisor.
fn lost(started: &Started, tree: &Containment) -> Result<AttemptResult, SysError> {
    let stats = tree.stats().unwrap_or_default();
    let same_boot = clock::boot_id()? == started.boot_id;
    Ok(AttemptResult {
        v: FORMAT,
        attempt: started.attempt,
        outcome: if same_boot { Outcome::LeaseLost } else { Outcome::NodeFail },
        exit_code: None,
        signal: None,
        started_at: Some(started.started_at),
        ended_at: WallTime(clock::wall_ms()),
        cpu_us: stats.cpu_usec,
        max_ram: stats.memory_peak_bytes.map(Megabytes::from_bytes),
        message: Some(match same_boot {
            true => "its supervisor died; its processes were ended".to_owned(),
            false => "the machine was restarted".to_owned(),
        }),
        never_started: false,
        limit_refused: false,
        groups_gone: false,
        work: None,
    })
}

/// The living processes of an attempt, as far as its record of the start names them by groups.
pub(crate) fn containment_of(paths: &Paths, attempt: AttemptName) -> Option<Containment> {
    let started = started(paths, attempt).ok()??;
    (!started.cgroups.is_empty()).then(|| recorded(&started).ok())?
}

/// Takes the driver's limits off a group, which must still exist: otherwise the memory would stay taken.
fn release_cards(limits: &CardLimits) -> Result<(), ErrandError> {
    errand(&limits.clear, Duration::from_millis(limits.patience.0)).map(drop)
}

/// Where no group could be made, descendants and marked processes are the job.
fn recorded(started: &Started) -> Result<Containment, SysError> {
    if !started.cgroups.is_empty() {
        return Containment::from_record(&started.cgroups);
    }
    let ProcessMark { pid, start_ticks } = started.supervisor;
    let supervisor = Some(ProcessIdentity { pid, start_ticks });
    let mark = format!("{}={}", started.marker.0, started.marker.1);
    Ok(Containment::Tree(ProcessTree::new(supervisor, started.uid.map(|uid| uid.0), vec![mark])))
}

/// The record of the start, with the process that wrote itself into the lease while it locked it: that one is its
/// supervisor, whatever the record says.
fn started_by_holder(paths: &Paths, leases: &Dir, attempt: AttemptName) -> Result<Option<Started>, SysError> {
    let Some(started) = started(paths, attempt)? else { return Ok(None) };
    let Some(holder) = holder(leases, attempt)? else { return Ok(None) };
    let supervisor = ProcessMark { pid: holder.pid, start_ticks: holder.start_ticks };
    Ok(Some(Started { supervisor, ..started }))
}

/// Returns the process that wrote itself into a lease; `None` for a seal.
fn holder(leases: &Dir, attempt: AttemptName) -> Result<Option<ProcessIdentity>, SysError> {
    let text = leases.read(attempt.to_string(), IDENTITY_LIMIT)?;
    Ok(String::from_utf8_lossy(&text).trim().parse().ok())
}

/// The record of the start, if there is one.
fn started(paths: &Paths, attempt: AttemptName) -> Result<Option<Started>, SysError> {
    read_record(&paths.attempt_dir(attempt), "started")
}

/// The record of the end, if there is one and it is this attempt's.
pub(crate) fn read_result(paths: &Paths, attempt: AttemptName) -> Result<Option<AttemptResult>, SysError> {
    let result: Option<AttemptResult> = read_record(&paths.attempt_dir(attempt), "result")?;
    Ok(result.filter(|r| r.attempt == attempt))
}

fn read_record<T: serde::de::DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>, SysError> {
    let bytes = match Dir::open(folder).and_then(|dir| dir.read(name, RECORD_LIMIT)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let record = serde_json::from_slice(&bytes);
    record.map(Some).map_err(|e| SysError::new("read", folder.join(name).display(), std::io::Error::other(e)))
}

/// What a settled attempt left on this node.
pub(crate) struct Remains<'a> {
    paths: &'a Paths,
    attempt: AttemptName,
    groups: Option<(Containment, Option<CardLimits>)>,
}

impl<'a> Remains<'a> {
    /// Looks for its groups.
    pub(crate) fn of(paths: &'a Paths, attempt: AttemptName) -> Remains<'a> {
        Remains { paths, attempt, groups: any_groups(paths, attempt) }
    }

    /// True if their removal has to wait for the driver.
    pub(crate) fn are_limited(&self) -> bool {
        matches!(self.groups, Some((_, Some(_))))
    }

    /// Removes all, each only when those before it are gone: its groups are found by its records; and without its folder
    /// a supervisor that comes late starts nothing, so that the lease, which kept it from starting, may go last.
    pub(crate) fn remove(&self) -> Result<(), RemovalError> {
        let Remains { paths, attempt, .. } = *self;
        if let Some((tree, limits)) = &self.groups {
            let released = limits.as_ref().map_or(Ok(()), release_cards);
            released.map_err(|source| RemovalError::Limits { attempt, source })?;
            remove_groups(tree).map_err(|source| RemovalError::Groups { attempt, source })?;
        }
        // One folder is half made until it becomes the other.
        if !remove_folder(&paths.attempt_dir(attempt))? {
            remove_folder(&paths.half_made(attempt))?;
        }
        remove_folder(&paths.job_dir(attempt))?;
        remove_folder(&paths.leases().join(attempt.to_string()))?;
        Ok(())
    }
}

/// The attempt's groups; `None` if its supervisor has removed them. The record of the start names them. A supervisor
/// that died before it wrote one made them, if at all, where its assignment said, and had not limited them yet. If no
/// record can be read, groups with the attempt's name are its own.
fn any_groups(paths: &Paths, attempt: AttemptName) -> Option<(Containment, Option<CardLimits>)> {
    if matches!(read_result(paths, attempt), Ok(Some(result)) if result.groups_gone) {
        return None;
    }
    let assignment = || read_record(&paths.attempt_dir(attempt), "assignment").ok()?;
    let by_assignment = |assignment: Assignment| {
        let lines = assignment.cgroup_parents.iter().map(|parent| format!("{parent}/{attempt}"));
        Containment::from_record(&lines.collect::<Vec<_>>()).ok()
    };
    let (tree, limits) = match started(paths, attempt) {
        Ok(Some(started)) => (recorded(&started).ok(), started.card_limits),
        _ => (assignment().map_or_else(|| nameless(paths, attempt), by_assignment), None),
    };
    Some((tree?, limits))
}

/// Groups of which no record tells.
fn nameless(paths: &Paths, attempt: AttemptName) -> Option<Containment> {
    containment::group_of(paths, attempt).map(Containment::Groups)
}

/// The last process may still be on its way out.
fn remove_groups(tree: &Containment) -> Result<(), SysError> {
    let end = Instant::now() + KILL_PATIENCE;
    while tree.remove()? == Removal::NotYet {
        if Instant::now() > end {
            return Err(SysError::new("remove", "its groups", std::io::ErrorKind::ResourceBusy));
        }
        tree.kill_all()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Removes a folder with everything in it, never following a link out of it. Returns whether it was there.
pub(crate) fn remove_folder(folder: &Path) -> Result<bool, SysError> {
    const MOST: u64 = 10_000_000;
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(false) };
    match Dir::open(parent).and_then(|dir| dir.remove_tree(name, MOST)) {
        Ok(removed) => Ok(removed > 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    /// An attempt in `dir` whose supervisor has died.
    fn dead(dir: &TempDir, card_limits: Option<CardLimits>) -> (Paths, AttemptName, (String, String)) {
        let paths = Paths::under(dir.path());
        let attempt: AttemptName = "ax-2026-0007.3".parse().unwrap();
        let mark = ("AX_JOB_MARK".to_owned(), dir.path().display().to_string());
        std::fs::create_dir_all(paths.leases()).unwrap();
        std::fs::create_dir_all(paths.attempt_dir(attempt)).unwrap();
        let leases = Dir::open(paths.leases()).unwrap();
        drop(lease::Lease::create(&leases, &attempt.to_string(), b"1:2").unwrap());
        let started = Started {
            v: FORMAT,
            attempt,
            boot_id: clock::boot_id().unwrap(),
            supervisor: ProcessMark { pid: i32::MAX, start_ticks: 1 },
            cgroups: Vec::new(),
            uid: Some(ax_core::id::Uid(ax_sys::credentials::own().0)),
            card_limits,
            marker: mark.clone(),
            started_at: WallTime(0),
            started_boot: ax_core::time::BootTime(0),
            overdue_boot: None,
        };
        let record = serde_json::to_vec(&started).unwrap();
        std::fs::write(paths.attempt_dir(attempt).join("started"), record).unwrap();
        (paths, attempt, mark)
    }

    /// The daemon clears away soon after; but the job may start again at once.
    #[test]
    fn what_a_dead_supervisor_left_has_ended_when_the_attempt_is_over() {
        let dir = TempDir::new();
        let (paths, attempt, mark) = dead(&dir, None);
        let mut left = std::process::Command::new("sleep").arg("600").env(&mark.0, &mark.1).spawn().unwrap();
        let settled = settle(&paths, attempt);
        let ended = left.try_wait().unwrap();
        left.kill().unwrap();
        left.wait().unwrap();
        assert!(matches!(settled, Ok((Settled::Over(_), None))), "{settled:?}");
        assert!(ended.is_some(), "it still ran");
    }

    /// Others wait behind both.
    #[test]
    fn the_driver_is_waited_for_neither_by_the_settling_nor_by_the_start() {
        let dir = TempDir::new();
        let asked = dir.path().join("asked");
        let clear = ["/bin/touch", &asked.display().to_string()].map(str::to_owned).to_vec();
        let limits = CardLimits { set: Vec::new(), clear, patience: ax_core::time::Span::seconds(60) };
        let (paths, attempt, _) = dead(&dir, Some(limits));
        end_stray(&paths, attempt).unwrap();
        let (_, limited) = settle(&paths, attempt).unwrap();
        assert!(!asked.exists(), "the driver was asked");
        limited.expect("that it has to be asked").release();
        assert!(asked.exists());
        assert!(Remains::of(&paths, attempt).are_limited(), "nor by the thread that clears up after others");
    }

    #[test]
    fn what_was_never_begun_is_sealed_so_that_a_late_supervisor_does_not_begin_it() {
        let dir = TempDir::new();
        let paths = Paths::under(dir.path());
        std::fs::create_dir_all(paths.leases()).unwrap();
        let attempt: AttemptName = "ax-2026-0007.3".parse().unwrap();
        assert!(matches!(settle(&paths, attempt), Ok((Settled::NeverStarted(_), None))));
        let late = lease::Lease::create(&Dir::open(paths.leases()).unwrap(), &attempt.to_string(), b"1:2");
        assert!(matches!(late, Err(LeaseError::AlreadyExists(_))), "{late:?}");
        assert!(matches!(settle(&paths, attempt), Ok((Settled::NeverStarted(_), None))), "asked again");
    }
}
