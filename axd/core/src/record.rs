//! Records that cross from one process of ax to another as files and messages:
//! the assignment of an attempt, the fact that it started, its result, and what
//! is said on a supervisor's socket. Each carries the version of its format.

use serde::{Deserialize, Serialize};

use crate::gpu::fence::DeviceRule;
use crate::id::{AttemptName, Gid, Uid};
use crate::job::spec::{OpenMode, WarnSignal};
use crate::job::state::Outcome;
use crate::size::Megabytes;
use crate::time::{BootTime, Span, WallTime};

/// The format that this build writes. The protocol only grows.
pub const FORMAT: u32 = 1;

/// `assignment`: everything that a supervisor needs to run one attempt.
/// Written by axd into the attempt's folder; root's, 0600.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// Format version.
    pub v: u32,
    /// The attempt.
    pub attempt: AttemptName,
    /// The node's epoch when it was decided; a fence above it forbids the start.
    pub node_epoch: u64,
    /// Who the job is.
    pub user: UserRecord,
    /// Words after the script's name.
    pub args: Vec<String>,
    /// The job's working folder.
    pub cwd: String,
    /// The job's whole environment, `NAME=VALUE` apart.
    pub environment: Vec<(String, String)>,
    /// File creation mask.
    pub umask: u32,
    /// Where its output goes.
    pub files: Files,
    /// What it may use.
    pub limits: Limits,
    /// Which devices it may not open; empty: as its user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceRule>,
    /// Its end: limit, warning, grace.
    pub ending: Ending,
    /// Folder of the attempt's own that the user may write (`AX_SPOOL_JOB_DIR`), made by the supervisor.
    pub work_dir: String,
    /// Folders that need not be made, if they are still as they were left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<Spare>,
    /// Parent group of the job's control groups, one line a hierarchy (`memory:/sys/fs/cgroup/memory/ax-…`), as
    /// `ax_sys::cgroup::Place::to_record` writes them; empty where no group may be made.
    pub cgroup_parents: Vec<String>,
    /// Where the supervisor itself goes, so that nothing done to axd's unit reaches it, as
    /// `ax_sys::cgroup::Station::to_record` writes it; empty where it stays where it is.
    #[serde(default)]
    pub station: Vec<String>,
    /// Marks the environment of the job's processes where no control group can hold them: `NAME=VALUE`.
    pub marker: (String, String),
    /// How the driver is told what the job may have of its cards; absent where it does not limit them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_limits: Option<CardLimits>,
}

/// The folders in the spool of an attempt that is over and put nothing there, for another one of the same user: to make
/// three new ones takes a file system longer than to rename two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spare {
    /// The attempt's folder, the only one in its job's.
    pub folder: String,
    /// How its work folder was left.
    pub work: Untouched,
}

/// A work folder to which nothing was done since it was given to its user: whatever is done to a folder or in it, and
/// taken back, moves the time of its last change, which its owner can't set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untouched {
    /// Number of the inode.
    pub inode: u64,
    /// Last change, seconds since 1970.
    pub changed_s: i64,
    /// And nanoseconds.
    pub changed_ns: i64,
}

/// Command lines by which the driver limits a job's control group: a supervisor can't load the driver's library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardLimits {
    /// Sets them; to be run when the group is there and before anything of the job runs.
    pub set: Vec<String>,
    /// Takes them away; to be run before the group goes. May be run without the other, and again.
    pub clear: Vec<String>,
    /// How long either may take.
    pub patience: Span,
}

/// The submitter, resolved by axd at the start of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRecord {
    /// User number.
    pub uid: Uid,
    /// Main group.
    pub gid: Gid,
    /// All groups.
    pub groups: Vec<Gid>,
    /// Name.
    pub name: String,
}

/// Standard files: absolute paths with patterns expanded. Opened as the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Standard input; absent: nothing to read.
    pub input: Option<String>,
    /// Standard output.
    pub output: String,
    /// Standard error; absent: with the output.
    pub error: Option<String>,
    /// Begin anew or go on.
    pub open_mode: OpenMode,
}

/// Limits on the host's resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory.
    pub ram: Option<Megabytes>,
    /// CPU list such as `0-3,8`; absent: all.
    pub cpuset: Option<String>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// How the attempt's time ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Time limit, from the first instruction.
    pub limit: Option<Span>,
    /// Signal before the limit.
    pub warn: Option<WarnSignal>,
    /// From TERM to KILL.
    pub kill_wait: Span,
    /// The longest that the warning puts off an end that is asked for; absent: as long as the job wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_warning: Option<Span>,
}

/// A process that can be told from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Process id.
    pub pid: i32,
    /// Start time, clock ticks since boot (field 22 of /proc/PID/stat).
    pub start_ticks: u64,
}

/// `started`: written by the supervisor once it holds the lease and has its
/// groups, before the script runs. What adoption, watchdog and settling go by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Format version.
    pub v: u32,
    /// The attempt.
    pub attempt: AttemptName,
    /// The boot in which it started.
    pub boot_id: String,
    /// The supervisor.
    pub supervisor: ProcessMark,
    /// The job's control groups, as `ax_sys::cgroup::JobGroup::to_record` writes them; empty where none may be made.
    pub cgroups: Vec<String>,
    /// Whose the job is. Absent from records of older supervisors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// As in the assignment: whoever removes the groups takes the limits on them away before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_limits: Option<CardLimits>,
    /// As in the assignment.
    pub marker: (String, String),
    /// When.
    pub started_at: WallTime,
    /// The same instant on the boot clock.
    pub started_boot: BootTime,
    /// Past this instant the watchdog kills it: limit + kill_wait + 10 s. The record is written anew when that moves:
    /// absent while the job is frozen, later after a thaw or a slow start.
    pub overdue_boot: Option<BootTime>,
}

/// `result`: how an attempt ended, written by the supervisor after the job's
/// groups were proved empty. The first record of an attempt stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// Format version.
    pub v: u32,
    /// The attempt.
    pub attempt: AttemptName,
    /// How it ended.
    pub outcome: Outcome,
    /// The script's exit code, if it exited.
    pub exit_code: Option<u8>,
    /// The signal that ended the script, if one did.
    pub signal: Option<u8>,
    /// When the script began; absent if it never did.
    pub started_at: Option<WallTime>,
    /// When the groups were empty.
    pub ended_at: WallTime,
    /// CPU time of the whole tree, microseconds; absent where it can't be measured.
    pub cpu_us: Option<u64>,
    /// Peak memory of the whole tree.
    pub max_ram: Option<Megabytes>,
    /// In words: the failed step of a launch with path and error, the limit passed, who cancelled.
    pub message: Option<String>,
    /// Nothing of the job ran, for a reason of this machine's: the job may be started again. Absent from records of
    /// older supervisors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never_started: bool,
    /// It was never started because the driver would not limit its cards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit_refused: bool,
    /// Its groups are removed: nobody has to look for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub groups_gone: bool,
    /// Nothing was done to its work folder, and nothing of the job is left that could do anything to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Untouched>,
}

/// What a supervisor tells axd on its socket, one message a packet, JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// The script runs.
    Started(Started),
    /// The script ended or is being ended; its groups are not yet empty.
    Ending {
        /// The attempt.
        attempt: AttemptName,
    },
    /// The attempt is over.
    Result(AttemptResult),
    /// Its processes are frozen, or no longer.
    Frozen {
        /// The attempt.
        attempt: AttemptName,
        /// Frozen or thawed.
        frozen: bool,
    },
    /// Answer to a request that was understood.
    Done,
    /// Answer to a request that can't be met.
    Refused {
        /// Why.
        error: String,
    },
}

/// What axd (or the job's user, within limits) asks of a supervisor on its
/// `ctl` socket, one message a packet, JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Root only: send all reports of this attempt here from now on, beginning with where it stands.
    Follow,
    /// End the attempt: TERM, grace, KILL. `outcome` says as what it then counts (CANCELLED, PREEMPTED).
    Terminate {
        /// What the end counts as.
        outcome: Outcome,
        /// Who and why, for the record.
        message: String,
        /// No grace: KILL at once.
        at_once: bool,
        /// First the warning that the job asked for, and the time that it asked for after it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        warned: bool,
    },
    /// Send a signal.
    Signal {
        /// Its number.
        signal: u8,
        /// To the script's own process only, not to the whole tree.
        batch_only: bool,
    },
    /// Root only: the attempt may run for so long altogether from now on.
    Limit {
        /// From its first instruction; `None`: without end.
        limit: Option<Span>,
    },
    /// Freeze or thaw.
    Freeze {
        /// Freeze, or thaw.
        frozen: bool,
    },
}
