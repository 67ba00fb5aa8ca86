//! Jobs as data: what they ask for, their states, their attempts. Only the controller changes them.

pub mod bounds;
pub mod division;
pub mod features;
pub mod gang;
pub mod hours;
pub mod idle;
pub mod rare;
pub mod request;
pub mod shared;
pub mod spec;
pub mod state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptName, HostName, JobId, QueueName, SubmissionKey, Uid};
use crate::node::{Allocation, AttemptKey, EndTimes};
use crate::schedule::history::Signature;
use crate::schedule::share::Charged;
use crate::size::Megabytes;
use crate::time::{Span, WallTime};
use gang::Gang;
use idle::Idleness;
use rare::Rarely;
use request::Request;
use state::{JobState, Outcome};

/// To whom a job belongs: number and name together, as found at submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// User number.
    pub uid: Uid,
    /// User name.
    pub name: Arc<str>,
}

/// Who acts on a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Actor {
    /// ax itself.
    Ax,
    /// A person.
    User {
        /// User number, from the kernel.
        uid: Uid,
        /// Name.
        name: Arc<str>,
        /// Whether an administrator.
        admin: bool,
    },
}

impl Actor {
    /// The name for logs.
    pub fn name(&self) -> &str {
        match self {
            Actor::Ax => "ax",
            Actor::User { name, .. } => name,
        }
    }

    /// True for administrators and for ax itself.
    pub fn is_admin(&self) -> bool {
        matches!(self, Actor::Ax | Actor::User { admin: true, .. })
    }

    /// True if they may act on an owner's job: owners on their own, administrators on all.
    pub fn may_act_on(&self, owner: &Owner) -> bool {
        match self {
            Actor::Ax => true,
            Actor::User { uid, admin, .. } => *admin || *uid == owner.uid,
        }
    }
}

/// A job as the controller holds it, until some time after its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Id.
    pub id: JobId,
    /// Key of its submission.
    pub key: SubmissionKey,
    /// Owner.
    pub owner: Arc<Owner>,
    /// Name.
    pub name: Box<str>,
    /// Queue.
    pub queue: QueueName,
    /// Which cards limits leave it; follows from the configuration.
    #[serde(skip)]
    pub bounds: Option<Arc<bounds::Bounds>>,
    /// What it needs. Equal requests of many jobs are kept once.
    pub request: Arc<Request>,
    /// State.
    pub state: JobState,
    /// When it was accepted.
    pub submitted_at: WallTime,
    /// When it last became ready.
    pub eligible_at: Option<WallTime>,
    /// Attempts made so far.
    pub attempts: u32,
    /// Identifies what its owner submits again and again as the same thing.
    #[serde(default, skip_serializing_if = "Signature::is_unknown")]
    pub signature: Signature,
    /// What was learnt from earlier runs of the same thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learnt: Option<Arc<Learnt>>,
    /// Fields that few jobs use.
    #[serde(flatten)]
    pub rare: Rarely,
    /// The running attempt, or the last one.
    pub attempt: Option<Box<Attempt>>,
}

/// What earlier runs of the same thing say of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Learnt {
    /// The expected length: the mean of the last two runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Span>,
    /// What it asked for of each card, if it is charged a different amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Megabytes>,
    /// The number of runs that this rests on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub measured: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Job {
    /// How long it is planned to run altogether, and whether anybody or anything says so: what was learnt, at most what
    /// was declared; nothing without either.
    pub fn length(&self) -> Option<Span> {
        let learnt = self.learnt.as_deref().and_then(|learnt| learnt.length);
        self.declared().into_iter().chain(learnt).min()
    }

    /// The declared length: the estimate, but no more than the time limit. Ignores what was learnt.
    pub fn declared(&self) -> Option<Span> {
        self.request.estimate.into_iter().chain(self.request.time_limit).min()
    }

    /// True if no hold, pause or begin time keeps it from starting; its hours may.
    pub(crate) fn is_free(&self, at: WallTime) -> bool {
        let begun = self.request.begin.is_none_or(|begin| begin <= at);
        self.rare.hold.is_none() && self.rare.backoff_until.is_none() && begun
    }

    /// The number of nodes on which it holds something, or the least that it will need.
    pub fn width(&self) -> u32 {
        let holds = self.attempt.as_deref().filter(|_| self.state.is_active());
        holds.map_or_else(|| self.request.nodes().min, Attempt::width)
    }

    /// True if its planned length is that of its last runs.
    pub fn is_planned_as_learnt(&self) -> bool {
        self.length().is_some() && self.length() == self.learnt.as_deref().and_then(|learnt| learnt.length)
    }
}

/// Room that victims are making for an urgent job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// On one node, or on the first of several.
    #[serde(flatten)]
    pub first: ClaimedPart,
    /// On the other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ClaimedPart>,
    /// The attempts that have to end.
    pub victims: Vec<AttemptKey>,
}

/// The part of a claim on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedPart {
    /// The node.
    pub node: HostName,
    /// Cards by number, with what will be charged on each.
    pub cards: Vec<(u32, Megabytes)>,
}

impl Claim {
    /// The parts on all nodes.
    pub fn parts(&self) -> impl Iterator<Item = &ClaimedPart> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Name.
    pub name: AttemptName,
    /// Its number among the job's attempts, from 1.
    pub number: u32,
    /// What it holds or held of its node, or of the first of several, on which its script runs.
    pub allocation: Allocation,
    /// Its parts on other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<Box<Gang>>,
    /// When its start was decided.
    #[serde(default)]
    pub assigned_at: WallTime,
    /// How long it was planned to run at its start, and so what its queue was charged for.
    #[serde(default)]
    pub planned: Span,
    /// How long it is taken to run when places are kept for others, if that is longer than planned, because it may
    /// run longer than the last runs of the same thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_for: Option<Span>,
    /// What its queue was charged, if that is to be corrected when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charged: Option<Charged>,
    /// When the job last told that its work is safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_at: Option<WallTime>,
    /// The most of a card that it was seen to use, if that matters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_used: Option<Megabytes>,
    /// How long its cards have done nothing.
    #[serde(default, skip_serializing_if = "Idleness::is_none")]
    pub idle: Idleness,
    /// True if it is ended to begin anew from its checkpoint, and not to make room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    /// True if its time limit was changed while it ran: a supervisor that is met again may not have heard of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relimited: bool,
    /// Whether a person has cancelled it.
    #[serde(default, skip_serializing_if = "Cancelled::is_not")]
    pub cancelled: Cancelled,
    /// When the script began, as its supervisor reports.
    pub started_at: Option<WallTime>,
    /// Set if a person or a policy asked for its end: the outcome, and who asked.
    pub ending: Option<(Outcome, Box<str>)>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
}

impl Attempt {
    /// When it is expected to end.
    pub fn ends(&self) -> EndTimes {
        self.ends_from(self.started_at.unwrap_or(self.assigned_at))
    }

    /// When it is expected to end if it starts at `start`.
    pub fn ends_from(&self, start: WallTime) -> EndTimes {
        let likely = start + self.planned;
        EndTimes { likely, until: self.taken_for.map_or(likely, |taken| start + taken) }
    }

    /// What its queue was charged, and until when the charge lasts.
    pub(crate) fn unspent(&self) -> Option<(Charged, WallTime)> {
        Some((self.charged?, self.ends().likely))
    }
}

/// Whether a person has cancelled an attempt, and how urgently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancelled {
    /// Nobody has.
    #[default]
    Not,
    /// Its grace goes on.
    Once,
    /// There is no more grace.
    Again,
}

impl Cancelled {
    fn is_not(&self) -> bool {
        *self == Cancelled::Not
    }
}

/// How an attempt ended, as far as the controller cares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// How the end counts.
    pub outcome: Outcome,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Signal.
    pub signal: Option<u8>,
    /// In words.
    pub message: Option<String>,
    /// The most memory of one of its cards that it was seen to use; `None` if it was never measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card_peak: Option<Megabytes>,
}

impl AttemptEnd {
    /// An end of which only the outcome is known.
    pub fn of(outcome: Outcome) -> AttemptEnd {
        AttemptEnd { outcome, exit_code: None, signal: None, message: None, card_peak: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred thousand jobs may wait: fields that few jobs use belong into `Rare`, and values that many jobs share
    /// are kept once.
    #[test]
    fn a_job_is_small() {
        assert!(size_of::<Job>() <= 144, "{}", size_of::<Job>());
        assert!(size_of::<Request>() <= 208, "{}", size_of::<Request>());
    }
}
