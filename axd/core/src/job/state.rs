//! The one state machine of a job, as a table. Code, tests, man page and
//! accounts all read it here; nothing else says which moves are allowed.

use std::fmt;
use std::str::FromStr;

use crate::id::{BadName, text_serde};

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Accepted; a condition of its own is not met.
    Pending,
    /// Waits for resources or for a limit.
    Ready,
    /// Assigned under an epoch, not yet confirmed by its supervisor.
    Starting,
    /// Its supervisor holds the lease.
    Running,
    /// Its processes are frozen.
    Suspended,
    /// The script has ended or is being ended; not yet proved empty.
    Completing,
    /// The lease was lost and the job may not simply be started again.
    Unacknowledged,
    /// Exit 0.
    Succeeded,
    /// Exit not 0, a signal, or it could not be launched.
    Failed,
    /// Over its time limit.
    Timeout,
    /// Killed for memory.
    OutOfMemory,
    /// Ended by a person or by policy.
    Cancelled,
    /// Its node or supervisor died and no restart was left or allowed.
    NodeFail,
    /// Could not end before its deadline.
    Deadline,
    /// Nobody can say whether it ran: for a person.
    FailedUnknownState,
    /// The same failure in two places: its input is suspect, for a person.
    FailedNeedsAttention,
}

/// One row of the vocabulary: a state, its word, Slurm's word and its meaning.
pub struct StateWord {
    /// The state.
    pub state: JobState,
    /// The word shown and stored.
    pub word: &'static str,
    /// Slurm's short word.
    pub slurm: &'static str,
    /// What it means, for ax-states(7).
    pub meaning: &'static str,
    /// No job gets there yet: the words are known before what leads there is.
    pub to_come: bool,
}

const fn word(state: JobState, word: &'static str, slurm: &'static str, meaning: &'static str) -> StateWord {
    StateWord { state, word, slurm, meaning, to_come: false }
}

const fn to_come(word: StateWord) -> StateWord {
    StateWord { to_come: true, ..word }
}

/// All states, in the order of a job's life.
pub const STATES: [StateWord; 16] = [
    word(
        JobState::Pending,
        "PENDING",
        "PD",
        "accepted; a condition of its own is not met: begin time, daily hours, hold, back-off",
    ),
    word(JobState::Ready, "READY", "PD", "waits for resources, or for a limit of its queue or user"),
    word(
        JobState::Starting,
        "STARTING",
        "CF",
        "assigned under an epoch, not yet confirmed by its supervisor",
    ),
    word(JobState::Running, "RUNNING", "R", "its supervisor holds the lease"),
    to_come(word(JobState::Suspended, "SUSPENDED", "S", "its processes are frozen")),
    word(
        JobState::Completing,
        "COMPLETING",
        "CG",
        "the script has ended or is being ended; not yet proved empty",
    ),
    to_come(word(
        JobState::Unacknowledged,
        "UNACKNOWLEDGED",
        "R",
        "the lease was lost and the job is not idempotent: ax asks for the result and starts nothing",
    )),
    word(JobState::Succeeded, "SUCCEEDED", "CD", "exit 0"),
    word(
        JobState::Failed,
        "FAILED",
        "F",
        "exit not 0 or a signal, retries used up or not allowed; or could not be launched",
    ),
    word(JobState::Timeout, "TIMEOUT", "TO", "over its time limit"),
    word(
        JobState::OutOfMemory,
        "OUT_OF_MEMORY",
        "OOM",
        "killed for host memory, or for GPU memory over its slice",
    ),
    word(
        JobState::Cancelled,
        "CANCELLED",
        "CA",
        "by a person, by preemption, or because its cards did nothing",
    ),
    word(
        JobState::NodeFail,
        "NODE_FAIL",
        "NF",
        "its node or supervisor died and no restart was left or allowed",
    ),
    word(JobState::Deadline, "DEADLINE", "DL", "could not end before its deadline"),
    word(
        JobState::FailedUnknownState,
        "FAILED_UNKNOWN_STATE",
        "NF",
        "not idempotent, and nobody can say whether it ran: for a person",
    ),
    to_come(word(
        JobState::FailedNeedsAttention,
        "FAILED_NEEDS_ATTENTION",
        "F",
        "the same failure in two places: its input is suspect, for a person",
    )),
];

impl JobState {
    fn row(self) -> &'static StateWord {
        &STATES[self as usize]
    }

    /// The word shown and stored, such as `RUNNING`.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// Slurm's short word, such as `R`.
    pub fn slurm_word(self) -> &'static str {
        self.row().slurm
    }

    /// Whether no job gets there yet.
    pub fn is_to_come(self) -> bool {
        self.row().to_come
    }

    /// Whether the job is over, unless a person reopens it.
    pub fn is_final(self) -> bool {
        self >= JobState::Succeeded
    }

    /// Whether the job waits to be started.
    pub fn is_waiting(self) -> bool {
        matches!(self, JobState::Pending | JobState::Ready)
    }

    /// Whether the job has a living attempt, which holds resources.
    pub fn is_active(self) -> bool {
        matches!(self, JobState::Starting | JobState::Running | JobState::Suspended | JobState::Completing)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for JobState {
    type Err = BadName;

    /// Reads a word of ax (`RUNNING`) or of Slurm (`R`), in any case.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let same = |w: &str| w.eq_ignore_ascii_case(text);
        let found = STATES.iter().find(|s| same(s.word)).or_else(|| STATES.iter().find(|s| same(s.slurm)));
        found.map(|s| s.state).ok_or_else(|| BadName { text: text.to_owned(), expected: "a job state" })
    }
}
text_serde!(JobState);

/// What moves a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Cause {
    /// Its own conditions are met.
    Eligible,
    /// A condition of its own is no longer met (hold).
    Held,
    /// It was given a place under a new epoch.
    Assigned,
    /// The assignment was never started.
    NeverStarted,
    /// Its supervisor holds the lease and the script runs.
    Confirmed,
    /// Frozen.
    Frozen,
    /// Thawed.
    Thawed,
    /// The script ended or is being ended.
    Ending,
    /// The attempt is over and so is the job.
    Ended,
    /// The attempt is over and the job waits again.
    Requeued,
    /// The lease was lost and nobody may guess.
    LeaseLost,
    /// A person ended it while it waited.
    Cancelled,
    /// Its deadline can't be met any more.
    DeadlineMissed,
    /// A person answered the question that ax asked.
    Resolved,
}

impl Cause {
    /// What has happened, in words.
    pub fn words(self) -> &'static str {
        match self {
            Cause::Eligible => "its own conditions are met",
            Cause::Held => "a condition of its own is no longer met",
            Cause::Assigned => "it is given a place under a new epoch",
            Cause::NeverStarted => "the assignment was never started",
            Cause::Confirmed => "its supervisor holds the lease and the script runs",
            Cause::Frozen => "it is frozen",
            Cause::Thawed => "it is thawed",
            Cause::Ending => "the script has ended or is being ended",
            Cause::Ended => "the attempt is over and so is the job",
            Cause::Requeued => "the attempt is over and the job waits again",
            Cause::LeaseLost => "the lease was lost and nobody may guess",
            Cause::Cancelled => "it is cancelled while it waits",
            Cause::DeadlineMissed => "its deadline cannot be met any more",
            Cause::Resolved => "a person answers the question that ax asked",
        }
    }

    /// Whether nothing moves a job so yet: all such moves lead to a state that is to come, or away from one.
    pub fn is_to_come(self) -> bool {
        let all = |states: &[JobState]| states.iter().all(|state| state.is_to_come());
        MOVES.iter().filter(|(_, cause, _)| *cause == self).all(|(from, _, to)| all(from) || all(to))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

use Cause as C;
use JobState as S;

/// The allowed moves: from these states, for this cause, to these states.
pub const MOVES: &[(&[JobState], Cause, &[JobState])] = &[
    (&[S::Pending], C::Eligible, &[S::Ready]),
    (&[S::Ready], C::Held, &[S::Pending]),
    (&[S::Ready], C::Assigned, &[S::Starting]),
    (&[S::Starting], C::NeverStarted, &[S::Ready, S::Pending]),
    (&[S::Starting], C::Confirmed, &[S::Running]),
    (&[S::Running], C::Frozen, &[S::Suspended]),
    (&[S::Suspended], C::Thawed, &[S::Running]),
    (&[S::Starting, S::Running, S::Suspended], C::Ending, &[S::Completing]),
    (
        &[S::Starting, S::Running, S::Suspended, S::Completing],
        C::Ended,
        &[
            S::Succeeded,
            S::Failed,
            S::Timeout,
            S::OutOfMemory,
            S::Cancelled,
            S::NodeFail,
            S::Deadline,
            S::FailedUnknownState,
            S::FailedNeedsAttention,
        ],
    ),
    (&[S::Starting, S::Running, S::Suspended, S::Completing], C::Requeued, &[S::Pending, S::Ready]),
    (&[S::Starting, S::Running, S::Suspended, S::Completing], C::LeaseLost, &[S::Unacknowledged]),
    (&[S::Pending, S::Ready], C::Cancelled, &[S::Cancelled]),
    (&[S::Pending, S::Ready], C::DeadlineMissed, &[S::Deadline]),
    (
        &[S::Unacknowledged, S::FailedUnknownState],
        C::Resolved,
        &[S::Succeeded, S::Failed, S::Ready, S::Pending, S::FailedUnknownState, S::Cancelled],
    ),
];

/// Whether the table allows this move.
pub fn allowed(from: JobState, cause: Cause, to: JobState) -> bool {
    MOVES.iter().any(|(states, on, targets)| *on == cause && states.contains(&from) && targets.contains(&to))
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Exit 0.
    Succeeded,
    /// Exit not 0, or a signal.
    Failed,
    /// Over its time limit.
    Timeout,
    /// Killed for memory.
    OutOfMemory,
    /// By a person.
    Cancelled,
    /// The node restarted.
    NodeFail,
    /// Made room for another.
    Preempted,
    /// Its supervisor died, or its lease was given up.
    LeaseLost,
    /// The script never ran.
    LaunchFailed,
    /// Nobody can say.
    Unknown,
}

/// All outcomes with their words.
pub const OUTCOMES: [(Outcome, &str); 10] = [
    (Outcome::Succeeded, "SUCCEEDED"),
    (Outcome::Failed, "FAILED"),
    (Outcome::Timeout, "TIMEOUT"),
    (Outcome::OutOfMemory, "OUT_OF_MEMORY"),
    (Outcome::Cancelled, "CANCELLED"),
    (Outcome::NodeFail, "NODE_FAIL"),
    (Outcome::Preempted, "PREEMPTED"),
    (Outcome::LeaseLost, "LEASE_LOST"),
    (Outcome::LaunchFailed, "LAUNCH_FAILED"),
    (Outcome::Unknown, "UNKNOWN"),
];

impl Outcome {
    /// Whether no attempt ends so yet.
    pub fn is_to_come(self) -> bool {
        self == Outcome::Unknown
    }

    /// The word shown and stored.
    pub fn word(self) -> &'static str {
        OUTCOMES[self as usize].1
    }

    /// The state of a job whose last attempt ended so.
    pub fn final_state(self) -> JobState {
        match self {
            Outcome::Succeeded => JobState::Succeeded,
            Outcome::Failed | Outcome::LaunchFailed => JobState::Failed,
            Outcome::Timeout => JobState::Timeout,
            Outcome::OutOfMemory => JobState::OutOfMemory,
            Outcome::Cancelled | Outcome::Preempted => JobState::Cancelled,
            Outcome::NodeFail | Outcome::LeaseLost => JobState::NodeFail,
            Outcome::Unknown => JobState::FailedUnknownState,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Outcome {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let found = OUTCOMES.iter().find(|(_, word)| *word == text);
        found
            .map(|(o, _)| *o)
            .ok_or_else(|| BadName { text: text.to_owned(), expected: "an attempt's outcome" })
    }
}
text_serde!(Outcome);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_at_their_state() {
        for (position, row) in STATES.iter().enumerate() {
            assert_eq!(row.state as usize, position);
            assert_eq!(row.word.parse::<JobState>().unwrap(), row.state);
        }
        for (position, (outcome, word)) in OUTCOMES.iter().enumerate() {
            assert_eq!(*outcome as usize, position);
            assert_eq!(word.parse::<Outcome>().unwrap(), *outcome);
        }
    }

    #[test]
    fn causes_are_told_in_words() {
        for (_, cause, _) in MOVES {
            let said = cause.to_string();
            assert!(said.contains(' ') && !said.contains(&format!("{cause:?}")), "{said}");
        }
    }

    #[test]
    fn what_is_to_come_is_no_way_yet() {
        let to_come: Vec<_> = MOVES.iter().map(|(_, cause, _)| *cause).filter(|c| c.is_to_come()).collect();
        assert_eq!(to_come, [C::Frozen, C::Thawed, C::LeaseLost]);
    }

    #[test]
    fn a_final_state_is_left_by_a_person_only() {
        for (from, cause, _) in MOVES {
            let leaves_final = from.iter().any(|s| s.is_final());
            assert!(!leaves_final || *cause == Cause::Resolved, "{cause:?}");
        }
        assert!(!allowed(JobState::Succeeded, Cause::Assigned, JobState::Starting));
    }

    #[test]
    fn every_state_can_be_reached_and_every_living_one_left() {
        for row in &STATES {
            let reached = MOVES.iter().any(|(_, _, to)| to.contains(&row.state));
            assert!(reached, "{} is reached by no move", row.word);
            let left = MOVES.iter().any(|(from, _, _)| from.contains(&row.state));
            assert!(left || row.state.is_final(), "{} is left by no move", row.word);
        }
    }
}
