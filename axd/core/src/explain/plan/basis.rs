//! What an expected start rests on, as data and in words.

use crate::explain::PLANNED;
use crate::id::{HostName, JobId};
use crate::schedule::history::LENGTHS;
use crate::text::count;
use crate::time::Span;

/// The source of a job's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Its estimate.
    Estimate,
    /// The last runs of the same thing.
    Learnt {
        /// How long they took.
        length: Span,
    },
    /// Its time limit.
    Limit,
    /// One of these, and the job has run longer: it may end at any moment.
    Overrun,
}

/// What an expected start rests on, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// Its own begin time, or its pause after a failure.
    Itself,
    /// The end of others under the same limit.
    Limit,
    /// Nothing: it can start.
    Free,
    /// The end of a job that runs where it is to start.
    End {
        /// The job.
        job: JobId,
        /// The node.
        node: HostName,
        /// The source of the job's length.
        said: Said,
    },
    /// The planned end of a job that waits itself.
    PlannedEnd {
        /// The job.
        job: JobId,
        /// The node.
        node: HostName,
    },
    /// The end of a job of its queue, which is at its limit of running jobs.
    QueuePlace {
        /// The job.
        job: JobId,
    },
    /// The end of a job of its owner, who is at the limit of running jobs.
    UserPlace {
        /// The job.
        job: JobId,
    },
    /// The end of a job that counts in the same limit on what is held.
    LimitPlace {
        /// The job.
        job: JobId,
    },
    /// The start of the job before it, under strict order.
    Follows {
        /// The job.
        job: JobId,
    },
    /// Its daily hours: the earlier ones end too soon.
    Hours,
    /// No start: it could not be over by its deadline.
    TooLate,
    /// The end of jobs that are being ended for it.
    MakingRoom {
        /// True for a job that is not submitted: no job has been ended yet.
        foretold: bool,
    },
    /// No start: it would rest on a job of unknown length.
    Unsaid {
        /// The job.
        job: JobId,
    },
    /// No start: it is behind a job whose start can't be foretold.
    Behind {
        /// The job.
        job: JobId,
    },
    /// No start: too many jobs are before it.
    TooFar,
    /// No start: a card has to be well again first.
    SuspectCard,
    /// No start: a person has to do something first.
    Somebody,
}

impl Basis {
    /// In words that stand beside the time.
    pub fn words(&self) -> String {
        match self {
            Basis::Itself => "its own time".to_owned(),
            Basis::Free => "there is room by the plan".to_owned(),
            Basis::End { job, node, said } => match said {
                Said::Estimate => format!("{job} ends on {node} then, by its estimate"),
                Said::Learnt { length } => {
                    format!("{job} ends on {node} then, {}", learnt_in_words(*length))
                }
                Said::Limit => format!("{job} ends on {node} then, by its time limit"),
                Said::Overrun => {
                    format!("{job} on {node} is past what was planned and may end at any moment")
                }
            },
            Basis::PlannedEnd { job, node } => {
                format!("{job}, which goes before it, ends on {node} then, by the plan")
            }
            Basis::QueuePlace { job } => format!("{job} ends then and leaves its place in the queue"),
            Basis::LimitPlace { job } => format!("{job} ends then, which counts in the same limit"),
            Basis::UserPlace { job } => format!("{job} ends then, and its owner may start another"),
            Basis::Follows { job } => format!("{job} starts then, and nobody passes it"),
            Basis::Hours => "its next daily hours in which there is room by the plan".to_owned(),
            Basis::TooLate => "by the plan it can't be over by its deadline".to_owned(),
            Basis::MakingRoom { foretold: false } => {
                "at the latest: those that are being ended for it are killed then".to_owned()
            }
            Basis::MakingRoom { foretold: true } => {
                "at the latest: those that would be ended for it are killed by then".to_owned()
            }
            Basis::Unsaid { job } => format!("{job} has neither --time nor --estimate"),
            Basis::Behind { job } => {
                format!("{job} goes before it, and its start is not known")
            }
            Basis::TooFar => {
                format!("only {} are planned", count(PLANNED as u64, "job"))
            }
            Basis::Limit => "others under the same limit have to end first".to_owned(),
            Basis::SuspectCard => "a card that is suspect has to be well again first".to_owned(),
            Basis::Somebody => "somebody has to act first".to_owned(),
        }
    }
}

/// A length in a unit that is precise enough for an expectation.
fn in_minutes(length: Span) -> String {
    match length.as_seconds() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => length.in_words(),
    }
}

/// A learnt length in words.
pub fn learnt_in_words(length: Span) -> String {
    format!("learnt from its last {LENGTHS} runs: {}", in_minutes(length))
}
