//! The processes of one job as a whole: asked, signalled, frozen and killed. The one place that knows the difference
//! between control groups and a process tree.

use std::collections::HashSet;
use std::time::Duration;

use ax_core::id::Uid;
use ax_core::record::{Assignment, ProcessMark, Started};
use ax_core::size::Megabytes;
use ax_sys::cgroup::device_filter::{DeviceFilter, DeviceKind, DeviceRule};
use ax_sys::cgroup::{Containment, Events, JobGroup, Limits, Place, ProcessTree, Removal, Stats};
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::process::{Child, ToParent};
use ax_sys::signals::Signal;
use ax_sys::{Result, SysError};

/// How long a freeze may take to become a fact. A process in an uninterruptible call does not freeze.
const FREEZE_WAIT: Duration = Duration::from_secs(2);

/// Everything that belongs to a job.
pub(crate) struct Tree {
    hold: Containment,
}

/// What a job has used.
pub(crate) struct Used {
    /// CPU time, microseconds.
    pub(crate) cpu_us: Option<u64>,
    /// Peak memory.
    pub(crate) max_ram: Option<Megabytes>,
    /// Whether a process was killed for memory.
    pub(crate) out_of_memory: bool,
}

impl Tree {
    /// Makes the groups that the assignment asks for. Where none may be made, the tree below this process and
    /// the marked processes are the job, and memory is not limited.
    pub(crate) fn create(assignment: &Assignment, own: ProcessIdentity) -> Result<Tree> {
        if assignment.cgroup_parents.is_empty() {
            return Ok(Tree { hold: marked(own, Some(assignment.user.uid), &assignment.marker) });
        }
        let (hierarchy, place) = Place::from_record(&assignment.cgroup_parents)?;
        let name = assignment.attempt.to_string();
        let group = JobGroup::create(&hierarchy, &place, &name, &limits(assignment))?;
        Ok(Tree { hold: Containment::Groups(group) })
    }

    /// Keeps it from devices, as the assignment says. For an empty tree: nothing in it has one open.
    pub(crate) fn fence(&self, assignment: &Assignment) -> Result<()> {
        if assignment.devices.is_empty() {
            return Ok(());
        }
        let Containment::Groups(group) = &self.hold else {
            let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
            return Err(SysError::new("filter the devices of", "a job without control groups", error));
        };
        let rule = |rule: &ax_core::gpu::fence::DeviceRule| DeviceRule {
            allow: rule.allow,
            kind: DeviceKind::Character,
            major: rule.major,
            minor: rule.minor,
        };
        let rules: Vec<DeviceRule> = assignment.devices.iter().map(rule).collect();
        let (hierarchy, _) = Place::from_record(&assignment.cgroup_parents)?;
        DeviceFilter::load(&hierarchy, &rules)?.attach(group)
    }

    /// The tree of an attempt that another supervisor started. Its groups may be gone: then it is empty.
    pub(crate) fn reopen(started: &Started) -> Result<Tree> {
        let ProcessMark { pid, start_ticks } = started.supervisor;
        let hold = if started.cgroups.is_empty() {
            marked(ProcessIdentity { pid, start_ticks }, started.uid, &started.marker)
        } else {
            Containment::Groups(JobGroup::from_record(&started.cgroups)?)
        };
        Ok(Tree { hold })
    }

    /// The groups, for the record; none for a tree without.
    pub(crate) fn record(&self) -> Vec<String> {
        match &self.hold {
            Containment::Groups(group) => group.to_record(),
            Containment::Tree(_) => Vec::new(),
        }
    }

    /// Starts a child in the groups.
    pub(crate) fn fork<F>(&self, child: F) -> Result<Child>
    where
        F: FnOnce(&ToParent) -> std::result::Result<std::convert::Infallible, ax_sys::process::ChildError>,
    {
        ax_sys::process::fork_child(Some(&self.hold.join_handle()?), child)
    }

    /// What announces emptiness, where something does.
    pub(crate) fn events(&self) -> Result<Option<Events>> {
        self.hold.events()
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        self.hold.populated().map(|populated| !populated)
    }

    /// KILL to all of it; returns before it is gone.
    pub(crate) fn kill(&self) -> Result<()> {
        self.hold.kill_all()
    }

    /// TERM, then CONT.
    pub(crate) fn terminate(&self) -> Result<()> {
        self.hold.terminate_all()
    }

    /// A signal to every process, or to the script's own alone.
    ///
    /// USR1, USR2 and real-time signals tell programs something. A script that does not handle one would only die
    /// of it and end its job: where it has other processes they get it and the script is spared, as under Slurm.
    pub(crate) fn signal(&self, signal: Signal, script: Option<i32>, script_only: bool) -> Result<()> {
        match script {
            Some(pid) if script_only => self.send(&[pid], signal),
            None if script_only => Ok(()),
            Some(pid) if is_notice(signal) && !handles(pid, signal) => {
                let others: Vec<i32> = self.hold.pids()?.into_iter().filter(|other| *other != pid).collect();
                if others.is_empty() { self.send(&[pid], signal) } else { self.send(&others, signal) }
            }
            _ => self.hold.signal_all(signal),
        }
    }

    /// Halts all of it; an error when that does not become a fact.
    pub(crate) fn freeze(&self) -> Result<()> {
        if self.hold.freeze(FREEZE_WAIT)? {
            return Ok(());
        }
        Err(SysError::new("freeze", "the job", std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.hold.thaw(FREEZE_WAIT).map(drop)
    }

    /// What it has used. Figures that can't be had are absent: no job fails for an account.
    pub(crate) fn used(&self) -> Used {
        let stats = self.hold.used().unwrap_or_else(|_| Stats::default());
        let reaped = || match &self.hold {
            Containment::Tree(_) => ax_sys::usage::children_cpu_us().ok(),
            Containment::Groups(_) => None,
        };
        Used {
            cpu_us: stats.cpu_usec.or_else(reaped),
            max_ram: stats.memory_peak_bytes.map(|bytes| Megabytes(bytes.div_ceil(1 << 20))),
            out_of_memory: stats.oom_kills.is_some_and(|count| count > 0),
        }
    }

    /// Removes the groups; whether they are gone.
    pub(crate) fn remove(&self) -> bool {
        matches!(self.hold.remove(), Ok(Removal::Done))
    }

    /// A number may be a stranger's by the time it is used: hold each process, then see that it is still ours.
    fn send(&self, pids: &[i32], signal: Signal) -> Result<()> {
        let held: Vec<PidFd> = pids.iter().filter_map(|pid| PidFd::open(*pid).ok()).collect();
        let members: HashSet<i32> = self.hold.pids()?.into_iter().collect();
        for process in held.iter().filter(|process| members.contains(&process.pid())) {
            process.send_signal(signal)?;
        }
        Ok(())
    }
}

fn marked(supervisor: ProcessIdentity, user: Option<Uid>, marker: &(String, String)) -> Containment {
    let mark = format!("{}={}", marker.0, marker.1);
    Containment::Tree(ProcessTree::new(Some(supervisor), user.map(|uid| uid.0), vec![mark]))
}

/// No swap on top: a limit of memory that fills the disk is none.
fn limits(assignment: &Assignment) -> Limits {
    let memory_max = assignment.limits.ram.map(Megabytes::bytes);
    Limits {
        memory_max,
        swap_max: memory_max.map(|_| 0),
        pids_max: assignment.limits.pids,
        cpus: assignment.limits.cpuset.clone(),
        devices: !assignment.devices.is_empty(),
        ..Limits::default()
    }
}

fn is_notice(signal: Signal) -> bool {
    signal == Signal::USR1 || signal == Signal::USR2 || signal.number() > 31
}

/// Whether a process catches or ignores a signal.
fn handles(pid: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    handled(&status, signal.number())
}

fn handled(status: &str, number: i32) -> bool {
    let bit = u32::try_from(number - 1).ok().and_then(|shift| 1u64.checked_shl(shift)).unwrap_or(0);
    let masks = ["SigCgt:", "SigIgn:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
    });
    masks.iter().any(|mask| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caught_and_ignored_signals_are_read_from_the_masks() {
        let status =
            "Name:\tsh\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000004\nSigCgt:\t0000000000010202\n";
        assert!(handled(status, libc_usr1()) && handled(status, 3) && handled(status, 2));
        assert!(!handled(status, 12) && !handled(status, 64) && !handled("", 10));
    }

    fn libc_usr1() -> i32 {
        Signal::USR1.number()
    }

    #[test]
    fn only_what_tells_programs_something_is_a_notice() {
        assert!(is_notice(Signal::USR1) && is_notice(Signal::USR2));
        assert!(!is_notice(Signal::TERM) && !is_notice(Signal::KILL) && !is_notice(Signal::STOP));
    }
}
