//! What happens to the controller, and what it decides. Both are data, so that
//! they can be recorded, replayed and compared.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::api::ErrorClass;
use crate::config::Config;
use crate::gpu::{CardName, CardState};
use crate::id::{AttemptName, HostName, JobId, QueueName, SubmissionKey};
use crate::job::request::Request;
use crate::job::state::{Cause, JobState, Outcome};
use crate::job::{Actor, AttemptEnd, Owner};
use crate::node::{Allocation, Inventory};
use crate::schedule::history::Signature;
use crate::size::Megabytes;
use crate::time::{Span, WallTime, Zone};

use super::Change;

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The configuration was read, at the start or again.
    ConfigLoaded(Box<Config>),
    /// The clock on the wall goes otherwise than was known: somebody changed the rules of the place.
    ZoneRead(Box<Zone>),
    /// A node is here with these resources.
    NodeRegistered(Inventory),
    /// A checked submission.
    Submitted(Box<Submission>),
    /// Somebody wants something of a job.
    Wished {
        /// The job.
        job: JobId,
        /// Who.
        actor: Actor,
        /// What.
        wish: Wish,
        /// Why, in words, for the record.
        why: Option<String>,
    },
    /// A supervisor holds the lease and the script runs.
    AttemptStarted {
        /// The attempt.
        attempt: AttemptName,
        /// When the script began.
        at: WallTime,
    },
    /// The script ended or is being ended; it is not yet proved empty.
    AttemptEnding {
        /// The attempt.
        attempt: AttemptName,
    },
    /// An attempt is over and proved empty; of several nodes on the first, where its script ran. As `LaunchFailed` if the
    /// job itself is why it could not be started: what the node is to blame for is `NeverStarted`.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptName,
        /// When it was empty: by its supervisor, which may have been long before this is heard.
        at: WallTime,
        /// How.
        end: AttemptEnd,
    },
    /// What an attempt held of one of its nodes is over and proved empty; as having never started, if it never will.
    PartEnded {
        /// The attempt.
        attempt: AttemptName,
        /// The node.
        node: HostName,
        /// When it was empty there.
        at: WallTime,
        /// How.
        end: AttemptEnd,
    },
    /// A job has told that what it has done until then is safe: ended, it goes on from there.
    Checkpointed {
        /// The attempt.
        attempt: AttemptName,
        /// When.
        at: WallTime,
    },
    /// An attempt was seen to use so much memory on the fullest of its cards; told when it matters.
    CardsUsed {
        /// The attempt.
        attempt: AttemptName,
        /// The 95th percentile of the last samples.
        peak: Megabytes,
    },
    /// No kernel ran on any card of an attempt, and its memory there did not change, for so long; told every minute.
    CardsIdle {
        /// The attempt.
        attempt: AttemptName,
        /// Since the beginning of this stretch.
        lasted: Span,
    },
    /// Cards that were told to be idle work, or are no longer measured.
    CardsBusy {
        /// The attempt.
        attempt: AttemptName,
    },
    /// What is known of a card beyond what jobs hold of it has changed; told when it matters.
    CardChanged {
        /// Its node.
        node: HostName,
        /// The card.
        uuid: String,
        /// What is known of it now.
        state: CardState,
    },
    /// Something was seen on a card that is the business of the jobs on it alone.
    CardNoted {
        /// Its node.
        node: HostName,
        /// The card.
        uuid: String,
        /// What, in words.
        what: String,
    },
    /// Somebody wants something of a node, or of one of its cards.
    NodeWished {
        /// The node.
        node: HostName,
        /// The card; absent: the whole node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        card: Option<CardName>,
        /// Who.
        actor: Actor,
        /// What.
        wish: NodeWish,
    },
    /// An attempt uses more of a card than its slice; or has done so for too long, and is to be ended.
    OverSlice {
        /// The attempt.
        attempt: AttemptName,
        /// With the numbers, for the record.
        words: String,
        /// The most that it used of the card.
        peak: Megabytes,
        /// It is to be ended.
        ends: bool,
    },
    /// It is proved that an attempt was never started, and never will be; of several nodes on the first.
    NeverStarted {
        /// The attempt.
        attempt: AttemptName,
        /// Why, in words.
        why: String,
    },
    /// Time has passed.
    Tick,
}

/// What people ask of jobs that are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// End it.
    Cancel,
    /// Send it this signal.
    Signal(u8),
    /// Do not start it.
    Hold,
    /// Take the hold off.
    Release,
    /// Change what it asks for while it waits, or how long it may run while it runs.
    Update(Box<Change>),
    /// Leave its cards to it for so long, whatever they do.
    Keep(Span),
    /// It tells that its work so far is safe, naming its attempt's epoch if it knows that.
    Checkpointed(Option<u64>),
    /// The answer to the question whether an attempt counts.
    Resolve(crate::api::Resolution),
}

/// What administrators ask of nodes and cards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeWish {
    /// Start nothing more there.
    Drain {
        /// Why.
        why: String,
    },
    /// Give it out again.
    Resume,
}

/// A submission whose options were read, checked and given their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Its key.
    pub key: SubmissionKey,
    /// Whose.
    pub owner: Owner,
    /// Name.
    pub name: Box<str>,
    /// What it is taken for where nobody gave it that name: the command, or unknown. `None`: what it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thing: Option<Signature>,
    /// Queue.
    pub queue: QueueName,
    /// The owner's groups for which there is a limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Box<str>>,
    /// Year, in the cluster's zone.
    pub year: u16,
    /// Needs and rules.
    pub request: Request,
    /// Submitted held.
    pub hold: bool,
}

impl Submission {
    /// One that is not held, is known by its name and whose owner is in no group with a limit.
    pub fn new(
        key: SubmissionKey,
        owner: Owner,
        name: &str,
        queue: QueueName,
        year: u16,
        request: Request,
    ) -> Submission {
        let (name, groups) = (name.into(), Vec::new());
        Submission { key, owner, name, thing: None, queue, groups, year, request, hold: false }
    }
}

/// What the shell has to do, or to write down, because of an event. Acted
/// upon only once the batch that it belongs to is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// A submission became this job.
    Accepted {
        /// Its key.
        key: SubmissionKey,
        /// The job.
        job: JobId,
    },
    /// A submission with this key had become this job before.
    AlreadyKnown {
        /// Its key.
        key: SubmissionKey,
        /// The job.
        job: JobId,
    },
    /// A request is refused and nothing is changed.
    Refused {
        /// The class of the error.
        class: ErrorClass,
        /// One sentence.
        why: String,
    },
    /// A job moved; every move is one of the table.
    Moved {
        /// The job.
        job: JobId,
        /// From; absent for a new job.
        from: Option<JobState>,
        /// To.
        to: JobState,
        /// What moved it; absent for a new job.
        cause: Option<Cause>,
        /// Who.
        actor: Arc<str>,
        /// Why.
        why: String,
    },
    /// Something about a job changed, or was asked, that is no move.
    Noted {
        /// The job.
        job: JobId,
        /// Who.
        actor: Arc<str>,
        /// What, and why.
        what: String,
    },
    /// Start this attempt.
    Launch {
        /// The attempt.
        attempt: AttemptName,
        /// Its number, from 1.
        number: u32,
        /// What it holds of its node; of several the first, on which its script runs.
        allocation: Allocation,
        /// What it holds of the others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<Allocation>,
        /// Why this job, and why there.
        why: String,
        /// So many jobs that were before it and could not start were passed over.
        #[serde(default, skip_serializing_if = "is_none")]
        passed: u64,
    },
    /// End this attempt, on all nodes on which it is not over: TERM, grace, KILL.
    Terminate {
        /// The attempt.
        attempt: AttemptName,
        /// As what its end will count.
        outcome: Outcome,
        /// Who and why.
        message: String,
        /// With the warning that the job asked for, and its time, before all that.
        #[serde(default)]
        warned: bool,
        /// Without grace: KILL.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        at_once: bool,
    },
    /// Send a signal to this attempt.
    Signal {
        /// The attempt.
        attempt: AttemptName,
        /// The signal's number.
        signal: u8,
    },
    /// This attempt, which runs, may run for so long altogether from now on.
    Limit {
        /// The attempt.
        attempt: AttemptName,
        /// From its first instruction; `None`: without end.
        limit: Option<Span>,
    },
    /// What is counted of an attempt has changed enough to be written down.
    Counted {
        /// The attempt.
        attempt: AttemptName,
        /// How long its cards have done nothing.
        idle: Span,
    },
    /// What an attempt held of one of several nodes is given out again there; the attempt is over when all are.
    PartClosed {
        /// The attempt.
        attempt: AttemptName,
        /// The node.
        node: HostName,
        /// When it was over there.
        at: WallTime,
        /// How it ended there.
        end: AttemptEnd,
    },
    /// This attempt is settled: its lease and records may go.
    Closed {
        /// The attempt.
        attempt: AttemptName,
        /// When it was over.
        at: WallTime,
        /// How it ended.
        end: AttemptEnd,
    },
    /// A card is withheld from jobs, or no longer, or for another reason.
    CardMoved {
        /// Its node.
        node: HostName,
        /// The card.
        uuid: String,
        /// What is known of it now.
        state: Box<CardState>,
        /// Who.
        actor: Arc<str>,
        /// What, and why.
        what: String,
    },
    /// A node is taken out of use, or given back.
    NodeMoved {
        /// The node.
        node: HostName,
        /// Who drained it and why; absent: nobody.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drained: Option<Box<str>>,
        /// Who.
        actor: Arc<str>,
        /// What, and why.
        what: String,
    },
    /// An event that no row of the table allows: it changed nothing.
    Ignored {
        /// The job, if there is one.
        job: Option<JobId>,
        /// Both sides, in words.
        why: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

impl Decision {
    /// The job whose state this changed or may have changed.
    pub fn touches(&self) -> Option<JobId> {
        match self {
            Decision::Moved { job, .. } | Decision::Noted { job, .. } => Some(*job),
            Decision::Launch { attempt, .. }
            | Decision::Terminate { attempt, .. }
            | Decision::Counted { attempt, .. }
            | Decision::PartClosed { attempt, .. }
            | Decision::Closed { attempt, .. } => Some(attempt.job),
            Decision::Accepted { job, .. } => Some(*job),
            Decision::AlreadyKnown { .. }
            | Decision::Refused { .. }
            | Decision::Signal { .. }
            | Decision::Limit { .. }
            | Decision::CardMoved { .. }
            | Decision::NodeMoved { .. }
            | Decision::Ignored { .. } => None,
        }
    }
}
