//! Holds a job together without control groups, for users who may write none.
//!
//! A job's processes are the descendants of its supervisor, which is a subreaper, so that orphans stay below it. When
//! the supervisor is dead they are all processes of its user that carry the job's marks in their environment, with what descends from
//! those. A process that leaves the tree *and* cleans its environment then escapes: only groups can hold that.
//!
//! An environment is memory of its process's, which may keep whoever reads it waiting for as long as its user likes.
//! So nobody's is read as long as there is a supervisor, and never another user's.

use crate::error::{Doing, Result};
use crate::kernel_file;
use crate::pidfd::{PidFd, ProcStat, ProcessIdentity};
use crate::signals::Signal;
use std::collections::{HashMap, HashSet};

/// Rounds of halting before killing. A tree that forks faster than it can be halted is killed all the same.
const ROUNDS: u32 = 16;

/// The processes of one job, found through `/proc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessTree {
    supervisor: Option<ProcessIdentity>,
    user: Option<u32>,
    marks: Vec<String>,
}

/// A process as it was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    identity: ProcessIdentity,
    parent: i32,
}

impl ProcessTree {
    /// The tree below `supervisor` (not part of it itself); where there is none any more, all processes of `user` (absent:
    /// of anybody) whose environment holds *all* of `marks` (`AX_LEASE_EPOCH=17`). Without marks only the tree counts.
    pub fn new(supervisor: Option<ProcessIdentity>, user: Option<u32>, marks: Vec<String>) -> ProcessTree {
        ProcessTree { supervisor, user, marks }
    }

    /// The supervisor that was named.
    pub fn supervisor(&self) -> Option<ProcessIdentity> {
        self.supervisor
    }

    /// The user that was named.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// The marks that were named.
    pub fn marks(&self) -> &[String] {
        &self.marks
    }

    /// Numbers of the job's processes that have not ended, rising.
    ///
    /// # Errors
    /// When `/proc` can't be listed.
    pub fn pids(&self) -> Result<Vec<i32>> {
        let mut pids: Vec<i32> = self.members()?.iter().map(|identity| identity.pid).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// Whether any is left.
    ///
    /// # Errors
    /// As [`ProcessTree::pids`].
    pub fn populated(&self) -> Result<bool> {
        Ok(!self.members()?.is_empty())
    }

    /// Halts the tree as far as it can be caught, then kills all of it. Call again until nothing is left.
    ///
    /// # Errors
    /// As [`ProcessTree::pids`].
    pub fn kill_all(&self) -> Result<()> {
        self.signal_all(Signal::STOP)?;
        for identity in self.members()? {
            signal(identity, Signal::KILL)?;
        }
        Ok(())
    }

    /// Sends a signal to every process, also to those forked meanwhile.
    ///
    /// # Errors
    /// As [`ProcessTree::pids`].
    pub fn signal_all(&self, wanted: Signal) -> Result<()> {
        let mut seen = HashSet::new();
        for _ in 0..ROUNDS {
            let new: Vec<ProcessIdentity> =
                self.members()?.into_iter().filter(|identity| seen.insert(*identity)).collect();
            if new.is_empty() {
                break;
            }
            for identity in new {
                signal(identity, wanted)?;
            }
        }
        Ok(())
    }

    fn members(&self) -> Result<HashSet<ProcessIdentity>> {
        let all = scan()?;
        let own = nix::unistd::getpid().as_raw();
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for seen in all.values() {
            children.entry(seen.parent).or_default().push(seen.identity.pid);
        }
        // The number of a dead supervisor may belong to a foreign process by now.
        let alive = |identity: &ProcessIdentity| {
            all.get(&identity.pid).is_some_and(|seen| seen.identity == *identity)
        };
        let supervisor = self.supervisor.filter(alive).map(|identity| identity.pid);
        let below = supervisor.and_then(|pid| children.get(&pid)).into_iter().flatten().copied();
        let marked = all.keys().copied().filter(|pid| supervisor.is_none() && self.is_marked(*pid));
        let mut todo: Vec<i32> = below.chain(marked).collect();
        let mut found = HashSet::new();
        while let Some(pid) = todo.pop() {
            let spared = pid == own || Some(pid) == supervisor;
            if let Some(seen) = all.get(&pid).filter(|_| !spared)
                && found.insert(seen.identity)
            {
                todo.extend(children.get(&pid).into_iter().flatten());
            }
        }
        Ok(found)
    }

    /// Environments of other users' processes can't be read, and these are not ours to kill.
    fn is_marked(&self, pid: i32) -> bool {
        if self.marks.is_empty() || !self.user.is_none_or(|user| is_of(pid, user)) {
            return false;
        }
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let entries: HashSet<&[u8]> = environment.split(|byte| *byte == 0).collect();
        self.marks.iter().all(|mark| entries.contains(mark.as_bytes()))
    }
}

/// Whether a process is a user's, also while it is under way to another's or back.
fn is_of(pid: i32, user: u32) -> bool {
    let status = kernel_file::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    uids.split_ascii_whitespace().any(|uid| uid.parse() == Ok(user))
}

/// All processes that have not ended.
fn scan() -> Result<HashMap<i32, Seen>> {
    let mut found = HashMap::new();
    let entries = std::fs::read_dir("/proc").doing("list", "/proc")?;
    for entry in entries.filter_map(std::io::Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        if let Some(stat) = ProcStat::read(pid)?.filter(|stat| !stat.is_dead()) {
            let identity = ProcessIdentity { pid, start_ticks: stat.start_ticks };
            found.insert(pid, Seen { identity, parent: stat.parent });
        }
    }
    Ok(found)
}

/// No error if the process has ended meanwhile, or became another user's (set-id) and can't be signalled.
fn signal(identity: ProcessIdentity, wanted: Signal) -> Result<()> {
    let Some(process) = PidFd::open_checked(identity)? else { return Ok(()) };
    match process.send_signal(wanted) {
        Err(error) if error.is(libc::EPERM) => Ok(()),
        other => other.map(drop),
    }
}
