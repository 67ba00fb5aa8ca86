//! The types on the wire: what the commands ask of the daemon and what it answers, as JSON. Made for the local
//! socket, and for TCP later. Data only: nothing is decided here.

mod cards;
mod checks;
mod daemon;
mod diag;
mod forecast;
mod learnt;
mod list;
mod nodes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::explain::Condition;
use crate::id::{JobId, SubmissionKey};
use crate::job::spec::NodeCount;
use crate::job::state::{JobState, Outcome};
use crate::time::WallTime;

pub use cards::{AttemptUsage, CardHistory, CardPoint, CardView, HeldView, UsageView};
pub use checks::{Adopted, BackupMade, DatabaseCheck, FileCheck, FileKind};
pub use daemon::{DaemonView, ReloadAnswer, StopAnswer, StopRequest};
pub use diag::{DiagView, ForecastErrors, PassTimes, QueueDiag};
pub use forecast::Forecast;
pub use learnt::LearntView;
pub use list::{JobsAnswer, JobsQuery};
pub use nodes::{NodeAction, NodeAnswer, NodeRequest, NodeShow, NodeState, NodeView};

/// The exit code of a command whose output can't be written, as in sysexits(3).
pub const OUTPUT_FAILED: u8 = 74;

/// The exit code of a command whose waiting Ctrl-C has ended, as a shell has it.
pub const INTERRUPTED: u8 = 130;

/// Exit codes of the commands, and the class of every error on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Understood and refused: unknown job, limit reached.
    Refused,
    /// Wrong usage.
    Usage,
    /// A script or file that does not parse.
    Data,
    /// A file that can't be read.
    NoInput,
    /// No daemon and no usable spool.
    Unavailable,
    /// Try again later: queue full, disk full.
    TryAgain,
    /// Not allowed.
    NoPermission,
    /// A bad configuration.
    Config,
}

impl ErrorClass {
    /// The exit code that scripts rely on.
    pub const fn exit_code(self) -> u8 {
        match self {
            ErrorClass::Refused => 1,
            ErrorClass::Usage => 2,
            ErrorClass::Data => 65,
            ErrorClass::NoInput => 66,
            ErrorClass::Unavailable => 69,
            ErrorClass::TryAgain => 75,
            ErrorClass::NoPermission => 77,
            ErrorClass::Config => 78,
        }
    }

    /// The HTTP status that carries it.
    pub const fn http_status(self) -> u16 {
        match self {
            ErrorClass::Refused => 409,
            ErrorClass::Usage | ErrorClass::Data | ErrorClass::NoInput => 400,
            ErrorClass::Unavailable | ErrorClass::TryAgain => 503,
            ErrorClass::NoPermission => 403,
            ErrorClass::Config => 422,
        }
    }
}

/// An error on the wire: one line for a person, and its class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// The class, hence the exit code.
    pub class: ErrorClass,
    /// One line, with its hint; control characters escaped.
    pub error: String,
}

/// `POST /api/v1/jobs`: a submission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SubmitRequest {
    /// The submission's own key; a second arrival is answered with the first's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SubmissionKey>,
    /// The program that asks (`axbatch`, `ax submit`, `sbatch`): decides what `--mem` means in `options`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Option words as on the command line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// `AXBATCH_…` variables, name and value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub option_variables: Vec<(String, String)>,
    /// The script, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The script in base 64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_base64: Option<String>,
    /// The script's name for messages and as the default of the job's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_name: Option<String>,
    /// A shell command instead of a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// Words after the script's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The submitter's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The submitter's folder; absent: the user's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The submitter's file creation mask; absent: 022.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Root only: on behalf of this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Check only, and say when and where it would start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub test_only: bool,
    /// Options by their long names, as other languages send them: `{"queue":"high","gpus":4}`.
    #[serde(flatten)]
    pub named: BTreeMap<String, NamedValue>,
}

/// A value of a named option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "the value of an option is true, false, a whole number, a text or a list of texts"
)]
pub enum NamedValue {
    /// A flag: present or not.
    Flag(bool),
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// An option given several times.
    List(Vec<String>),
}

/// Answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitAnswer {
    /// The job; absent with `test_only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// Its number alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// What was understood and taken, line by line, for `--verbose`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub understood: Vec<String>,
    /// Warnings for the person, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// With `test_only`: when and where it would start, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<String>,
    /// The same for a program, or for a client that words times in its own zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretold: Option<Forecast>,
}

/// A job as shown: `ax queue`, `status`, `acct` and their `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    /// `ax-2026-0001`.
    pub id: JobId,
    /// `1`.
    pub number: u32,
    /// Of an array: the element (`7`), or the elements that are shown as one (`[8-15]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Name.
    pub name: String,
    /// Owner's name.
    pub user: String,
    /// Owner's number.
    pub uid: u32,
    /// Queue.
    pub queue: String,
    /// State.
    pub state: JobState,
    /// One sentence: why it waits, or why it ended so.
    pub reason: Option<String>,
    /// All that stands in its way.
    pub reasons: Vec<String>,
    /// The same for programs.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// 0 to 100.
    pub priority: u8,
    /// Accepted at.
    pub submitted_at: WallTime,
    /// Its own conditions met at.
    pub eligible_at: Option<WallTime>,
    /// Start of the last attempt.
    pub started_at: Option<WallTime>,
    /// End of the job.
    pub ended_at: Option<WallTime>,
    /// When a waiting job is expected to start.
    pub expected_start: Option<WallTime>,
    /// What that rests on, or why it can't be said.
    #[serde(default)]
    pub expected_basis: Option<String>,
    /// With what it would start at once (status and why only).
    #[serde(default)]
    pub advice: Option<Advice>,
    /// Of the last attempt.
    pub exit_code: Option<u8>,
    /// Of the last attempt.
    pub signal: Option<u8>,
    /// Where it runs or ran.
    pub node: Option<String>,
    /// The same as a list; of several the first is where its script runs.
    pub nodes: Vec<String>,
    /// On how many it is to run, if that may be more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_asked: Option<NodeCount>,
    /// CPUs, as all that follows those of all its nodes.
    pub cpus: u32,
    /// Host memory, MB.
    pub ram_mb: Option<u64>,
    /// Cards.
    pub gpus: u32,
    /// The type of cards that it asked for; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// Its cards now or last.
    pub gpu_uuids: Vec<String>,
    /// What it holds or held of cards, in cards: a slice counts as its part of the card. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_share: Option<f64>,
    /// GPU memory of each card, MB; absent: whole cards.
    pub gpu_mem_mb: Option<u64>,
    /// Time limit.
    pub time_limit_s: Option<u64>,
    /// The daily hours that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// When it has to be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<WallTime>,
    /// What its last runs say of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<LearntView>,
    /// Number of the last attempt, 0 before the first.
    pub attempt: u32,
    /// All attempts (status and acct only).
    pub attempts: Vec<AttemptView>,
    /// Seconds spent in each state (status and acct only).
    pub time_in_state: BTreeMap<String, f64>,
    /// Why it started when and where it did (status only).
    pub decisions: Vec<DecisionView>,
    /// Output file of the last attempt.
    pub stdout: Option<String>,
    /// Error file of the last attempt, if it has one of its own.
    pub stderr: Option<String>,
    /// Comment.
    pub comment: Option<String>,
    /// Options that were accepted and have no effect (status only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused_options: Vec<String>,
    /// The options that it was submitted with and that are not shown elsewhere, in canonical form, without the values
    /// of variables (status only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What was warned of at its submission (status only).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The folder that it starts in (status only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Whether a lost attempt may be started again without asking.
    pub idempotent: bool,
    /// Whether a lost attempt is started again at all.
    #[serde(default = "yes")]
    pub requeue: bool,
    /// How often a failed attempt is tried again.
    #[serde(default)]
    pub retries: u32,
    /// Until then somebody answers for its cards if they do nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<WallTime>,
    /// Account.
    pub account: Option<String>,
    /// Ticket under which it was submitted.
    pub ticket: Option<String>,
}

fn yes() -> bool {
    true
}

/// One attempt as shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptView {
    /// From 1.
    pub number: u32,
    /// Fencing token.
    pub epoch: u64,
    /// Where.
    pub node: String,
    /// And where beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// A job's state while it lives, its outcome afterwards.
    pub state: String,
    /// When the script began.
    pub started_at: Option<WallTime>,
    /// When it was proved over.
    pub ended_at: Option<WallTime>,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Signal.
    pub signal: Option<u8>,
    /// CPU time in seconds.
    pub cpu_time_s: Option<f64>,
    /// Peak memory, MB.
    pub max_ram_mb: Option<u64>,
    /// Peak GPU memory, MB.
    pub max_gpu_mem_mb: Option<u64>,
    /// How long its cards did nothing, in stretches of a minute and more, seconds; absent: never, or not measured.
    #[serde(default)]
    pub idle_s: Option<u64>,
    /// Output file.
    pub stdout: Option<String>,
    /// Error file, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// In words: what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How it ended.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// One line of a job's story: a move of its state, or a decision about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionView {
    /// When.
    pub at: WallTime,
    /// Who: a user's name, or `ax`.
    pub actor: String,
    /// What: `submitted`, `READY → STARTING`, `passed over`.
    pub what: String,
    /// Why, in words with numbers.
    pub why: String,
}

/// What `POST /api/v1/jobs/action` does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// End them, or send them a signal.
    Cancel {
        /// Send this signal and no more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<u8>,
    },
    /// Do not start them.
    Hold,
    /// Take the hold off.
    Release,
    /// Change waiting jobs: option words as on the command line.
    Update {
        /// The words.
        options: Vec<String>,
    },
    /// Answer the question whether an attempt counts: by its owner or an administrator.
    Resolve {
        /// What happened, or what shall happen.
        answer: Resolution,
    },
    /// Leave their cards to them for so long, whatever those do: by their owner or an administrator, who says why.
    Keep {
        /// How long, seconds.
        seconds: u64,
    },
    /// From within a job: its work so far is safe.
    Checkpointed {
        /// The attempt that tells it (`AX_LEASE_EPOCH`); absent: the one that runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    /// Freeze their processes.
    Suspend,
    /// Thaw their processes.
    Resume,
}

/// Answers of `ax resolve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It did its work.
    Succeeded,
    /// It did not.
    Failed,
    /// Start it again.
    Rerun,
}

/// `POST /api/v1/jobs/action`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionRequest {
    /// What to do.
    #[serde(flatten)]
    pub action: Action,
    /// To these jobs, as people write them: ids, numbers, tickets.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// Or to all living ones that fit: at least one condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select: Option<JobsQuery>,
    /// Why, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Answer to an action, one line a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionAnswer {
    /// What became of each.
    pub results: Vec<ActionResult>,
}

/// What became of an action on one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionResult {
    /// The job as it was named.
    pub job: String,
    /// Its id, if there is such a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JobId>,
    /// What was done, in words; absent on error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}
