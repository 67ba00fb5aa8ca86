//! A job's processes, whether groups or a process tree hold them together: the supervisor need not know which.

use super::events::Events;
use super::group::{JobGroup, Removal};
use super::join::JoinHandle;
use super::process_tree::ProcessTree;
use super::stats::Stats;
use crate::error::{Result, SysError};
use crate::pidfd::ProcessIdentity;
use crate::signals::Signal;
use std::time::{Duration, Instant};

/// How often a process tree is looked through while waiting for its end.
const LOOK: Duration = Duration::from_millis(20);

/// What holds a job together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Containment {
    /// Control groups.
    Groups(JobGroup),
    /// The supervisor's descendants and marked processes.
    Tree(ProcessTree),
}

impl Containment {
    /// Lines for a file; [`Containment::from_record`] reads them.
    pub fn to_record(&self) -> Vec<String> {
        match self {
            Containment::Groups(group) => group.to_record(),
            Containment::Tree(tree) => {
                let supervisor =
                    tree.supervisor().map_or_else(|| "-".to_owned(), |identity| identity.to_string());
                let user = tree.user().map(|user| format!("user:{user}"));
                let marks = tree.marks().iter().map(|mark| format!("mark:{mark}"));
                [format!("tree:{supervisor}")].into_iter().chain(user).chain(marks).collect()
            }
        }
    }

    /// Reads what [`Containment::to_record`] wrote.
    ///
    /// # Errors
    /// When a line is malformed; see [`JobGroup::from_record`].
    pub fn from_record(lines: &[impl AsRef<str>]) -> Result<Containment> {
        let mut lines_iter = lines.iter().map(AsRef::as_ref).peekable();
        let Some(supervisor) = lines_iter.next().and_then(|line: &str| line.strip_prefix("tree:")) else {
            return JobGroup::from_record(lines).map(Containment::Groups);
        };
        let bad = |line: &str| SysError::found("use the recorded process tree", line, "it is malformed");
        let supervisor = match supervisor {
            "-" => None,
            text => Some(text.parse::<ProcessIdentity>().map_err(|_| bad(text))?),
        };
        let user = lines_iter.next_if(|line| line.starts_with("user:"));
        let number = |line: &str| line["user:".len()..].parse().map_err(|_| bad(line));
        let user = user.map(number).transpose()?;
        let mark = |line: &str| line.strip_prefix("mark:").map(str::to_owned).ok_or_else(|| bad(line));
        let marks = lines_iter.map(mark).collect::<Result<_>>()?;
        Ok(Containment::Tree(ProcessTree::new(supervisor, user, marks)))
    }

    /// What a child needs to join; `None` for a tree, where being a child is enough.
    ///
    /// # Errors
    /// See [`JobGroup::join_handle`].
    pub fn join_handle(&self) -> Result<JoinHandle> {
        match self {
            Containment::Groups(group) => group.join_handle(),
            Containment::Tree(_) => Ok(JoinHandle::default()),
        }
    }

    /// Kills every process; returns before they are gone. Call again as long as [`Containment::populated`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill_all(&self) -> Result<()> {
        match self {
            Containment::Groups(group) => group.kill_all(),
            Containment::Tree(tree) => tree.kill_all(),
        }
    }

    /// Kills and waits until nothing is left, at most `limit`. Returns whether that was reached. Does not reap.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kill_until_empty(&self, limit: Duration) -> Result<bool> {
        let tree = match self {
            Containment::Groups(group) => return group.kill_until_empty(limit),
            Containment::Tree(tree) => tree,
        };
        let end = Instant::now() + limit;
        loop {
            tree.kill_all()?;
            if !tree.populated()? {
                return Ok(true);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(LOOK.min(left));
        }
    }

    /// Sends a signal to every process.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        match self {
            Containment::Groups(group) => group.signal_all(signal),
            Containment::Tree(tree) => tree.signal_all(signal),
        }
    }

    /// The polite end: TERM, then CONT.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn terminate_all(&self) -> Result<()> {
        self.signal_all(Signal::TERM)?;
        self.signal_all(Signal::CONT)
    }

    /// Halts everything, waiting for it at most `limit`. Returns whether everything is halted. A tree is halted by
    /// SIGSTOP, which a job can undo, so there it is not certain.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn freeze(&self, limit: Duration) -> Result<bool> {
        match self {
            Containment::Groups(group) => group.freeze(limit),
            Containment::Tree(tree) => tree.signal_all(Signal::STOP).map(|()| true),
        }
    }

    /// Lets everything go on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thaw(&self, limit: Duration) -> Result<bool> {
        match self {
            Containment::Groups(group) => group.thaw(limit),
            Containment::Tree(tree) => tree.signal_all(Signal::CONT).map(|()| true),
        }
    }

    /// True if a process is left.
    ///
    /// # Errors
    /// When that can't be seen.
    pub fn populated(&self) -> Result<bool> {
        match self {
            Containment::Groups(group) => group.populated(),
            Containment::Tree(tree) => tree.populated(),
        }
    }

    /// The file that announces emptiness; `None`: ask from time to time.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn events(&self) -> Result<Option<Events>> {
        match self {
            Containment::Groups(group) => group.events(),
            Containment::Tree(_) => Ok(None),
        }
    }

    /// Numbers of the processes, rising.
    ///
    /// # Errors
    /// When they can't be listed.
    pub fn pids(&self) -> Result<Vec<i32>> {
        match self {
            Containment::Groups(group) => group.pids(),
            Containment::Tree(tree) => tree.pids(),
        }
    }

    /// What the job has used; all unknown for a tree, where only wait4(2) can tell.
    ///
    /// # Errors
    /// When a figure can't be read.
    pub fn stats(&self) -> Result<Stats> {
        match self {
            Containment::Groups(group) => group.stats(),
            Containment::Tree(_) => Ok(Stats::default()),
        }
    }

    /// What an account needs of it; see [`Containment::stats`].
    ///
    /// # Errors
    /// When a figure can't be read.
    pub fn used(&self) -> Result<Stats> {
        match self {
            Containment::Groups(group) => group.used(),
            Containment::Tree(_) => Ok(Stats::default()),
        }
    }

    /// Removes the groups; for a tree, only says whether it is empty.
    ///
    /// # Errors
    /// See [`JobGroup::remove`].
    pub fn remove(&self) -> Result<Removal> {
        match self {
            Containment::Groups(group) => group.remove(),
            Containment::Tree(tree) if tree.populated()? => Ok(Removal::NotYet),
            Containment::Tree(_) => Ok(Removal::Done),
        }
    }
}
