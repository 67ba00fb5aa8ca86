//! What a waiting job waits for: as data for programs, and in words. The data decide nothing. A condition with much to
//! say has a type and a sentence of its own in a module below.

mod order;
mod places;
mod room;
mod times;

use serde::{Deserialize, Serialize};

use crate::controller::{Counted, Spared};
use crate::id::{HostName, JobId, QueueName};
use crate::job::request::Request;
use crate::node::Lack;
use crate::text::{count, listed};
use crate::time::{Span, WallTime};

use super::spared;
pub use order::{Behind, QueueAhead, UserAhead};
pub use places::{LimitFull, QueueFull, QueueKept, UserFull};
pub use room::{EvictionsSpent, Kept, MakingRoom, TooFewNodes};
pub use times::Hours;

/// One condition that is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// The job is held.
    Held {
        /// The job.
        job: JobId,
        /// The user or administrator who holds it.
        by: String,
    },
    /// Its begin time has not come.
    Begin {
        /// That time.
        at: WallTime,
    },
    /// It may not start at this time of the day, or not any more.
    Hours(Hours),
    /// Its last attempt failed, and it pauses before the next.
    Retry {
        /// The end of the pause.
        at: WallTime,
        /// The number of the coming retry.
        used: u32,
        /// The most retries.
        of: u32,
    },
    /// Its last attempt never started, and it pauses.
    NeverStarted {
        /// The end of the pause.
        at: WallTime,
        /// Why not.
        why: String,
    },
    /// Its queue is no longer there.
    QueueGone {
        /// The queue.
        queue: QueueName,
    },
    /// Its queue starts nothing.
    QueueStopped {
        /// The queue.
        queue: QueueName,
    },
    /// Its queue runs as many jobs as it may.
    QueueFull(QueueFull),
    /// The last places of its queue are kept for jobs that go before it.
    QueueKept(QueueKept),
    /// A limit on what is held at once is used up until others have ended.
    #[serde(rename = "cards_full")]
    LimitFull(LimitFull),
    /// It asks for more than a limit ever allows.
    #[serde(rename = "cards_too_many")]
    LimitTooSmall {
        /// To whom the limit applies: `user li`.
        whose: String,
        /// The key of the limit.
        #[serde(default)]
        key: String,
        /// What is counted.
        #[serde(default)]
        what: Counted,
        /// The most that may be held.
        max: u64,
    },
    /// It may have only certain cards.
    Confined {
        /// What confines it: `queue night`.
        by: Vec<String>,
        /// The cards that it may have: `gpu-01 cards 0,1`.
        cards: Vec<String>,
    },
    /// Its owner runs as many jobs as they may.
    UserFull(UserFull),
    /// There is no node.
    NoNodes,
    /// No node could hold it.
    FitsNowhere,
    /// It needs several nodes at once, and too few could hold its part.
    TooFewNodes(TooFewNodes),
    /// What nodes lack for it even when they are empty.
    TooSmall(Lack),
    /// What nodes lack for it now.
    Lacks(Lack),
    /// A card that it could have is withheld from jobs, wholly or in part.
    Withheld {
        /// The card, and why: `gpu-01 card 3: 21 GB held by pid 4711 python of user li, not a job`.
        why: String,
    },
    /// Further such cards.
    MoreWithheld {
        /// How many cards.
        cards: u32,
    },
    /// Further nodes that lack yet other things.
    MoreNodes {
        /// How many nodes.
        nodes: u32,
    },
    /// Other jobs are being ended for it.
    MakingRoom(MakingRoom),
    /// It is urgent enough that others could be ended for it, but these may not be.
    NobodyToEnd {
        /// Number of jobs that hold something where it could run.
        jobs: u32,
        /// Number of nodes on which they run.
        nodes: u32,
        /// Why those jobs are not ended, each reason with the number of jobs.
        why: Vec<(Spared, u32)>,
    },
    /// Others could be ended for it, but evictions have cost enough lately.
    EvictionsSpent(EvictionsSpent),
    /// It fits, but a place is kept for another job that it would delay.
    Kept(Kept),
    /// Its queue has had more for its weight than another queue, whose jobs go first.
    QueueAhead(QueueAhead),
    /// Its owner has had more lately than another user, whose job goes first for that reason.
    UserAhead(UserAhead),
    /// Other jobs go before it.
    Behind(Behind),
    /// A node can start nothing for a while.
    Resting {
        /// The node.
        node: HostName,
        /// Why not, and until when, in words.
        why: String,
    },
    /// Nothing is in its way: it starts when it is looked at next.
    StartsNow,
    /// A condition of a newer daemon that this program does not know.
    #[serde(other)]
    Unknown,
}

/// `ax-2026-0001, ax-2026-0002 and 3 more`.
pub(crate) fn jobs_in_words(jobs: &[JobId], all: usize) -> String {
    let mut names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    if all > names.len() {
        names.push(format!("{} more", all - names.len()));
    }
    listed(&names)
}

/// Why a job on several nodes is refused: too few nodes could ever hold its part.
pub fn never_enough(request: &Request, fitting: u32, all: u32) -> String {
    let wanted = count(request.nodes().min, "node");
    if request.nodes().min > all {
        return format!("it needs {wanted} at once, and the cluster has {all}");
    }
    let has = if fitting == 1 { "has" } else { "have" };
    let each = super::started::of_each(request);
    format!("it needs {wanted} at once, each with {each}, and {fitting} of {all} {has} that")
}

/// How long it is until then; begun seconds count.
fn left(until: WallTime, now: WallTime) -> Span {
    Span::seconds((until - now).0.div_ceil(1000))
}

impl Condition {
    /// The condition in a sentence with numbers, with times as seen from `now`.
    pub fn sentence(&self, now: WallTime) -> String {
        match self {
            Condition::Held { job, by } => format!("held by {by}; 'ax release {job}' lets it go"),
            Condition::Begin { at } => format!("waits for its begin time, in {}", (*at - now).in_words()),
            Condition::Hours(hours) => hours.in_words(now),
            Condition::Retry { at, used, of } => {
                format!("retry {used} of {of} in {} after a failure", left(*at, now).in_words())
            }
            Condition::NeverStarted { at, why } => {
                format!("its last attempt {why}; tried again in {}", left(*at, now).in_words())
            }
            Condition::QueueGone { queue } => format!("queue {queue} is no longer configured"),
            Condition::QueueStopped { queue } => format!("queue {queue} is stopped: it starts nothing"),
            Condition::QueueFull(full) => full.in_words(),
            Condition::QueueKept(kept) => kept.in_words(),
            Condition::LimitFull(full) => full.in_words(),
            Condition::LimitTooSmall { whose, key, what, max } => {
                format!("{whose} may hold at most {} at once ({key})", what.in_words(*max))
            }
            Condition::Confined { by, cards } => confined_in_words(by, cards),
            Condition::UserFull(full) => full.in_words(),
            Condition::NoNodes => "no node has registered yet".to_owned(),
            Condition::FitsNowhere => "no node here could hold it, even empty".to_owned(),
            Condition::TooFewNodes(few) => few.in_words(),
            Condition::TooSmall(lack) => lack.for_ever(),
            Condition::Lacks(lack) => lack.now(),
            Condition::Withheld { why } => why.clone(),
            Condition::MoreWithheld { cards } => more_withheld_in_words(*cards),
            Condition::MoreNodes { nodes } => {
                format!("does not fit on {} either", count(*nodes, "other node"))
            }
            Condition::MakingRoom(making) => making.in_words(),
            Condition::NobodyToEnd { jobs, nodes, why } => spared::in_words(*jobs, *nodes, why),
            Condition::EvictionsSpent(spent) => spent.in_words(now),
            Condition::Kept(kept) => kept.in_words(now),
            Condition::QueueAhead(ahead) => ahead.in_words(),
            Condition::UserAhead(ahead) => ahead.in_words(),
            Condition::Behind(behind) => behind.in_words(),
            Condition::Resting { node, why } => format!("{node} can start nothing: {why}"),
            Condition::StartsNow => "nothing is in its way: it starts when it is next looked at".to_owned(),
            Condition::Unknown => "waits for something that this program does not know".to_owned(),
        }
    }
}

fn confined_in_words(by: &[String], cards: &[String]) -> String {
    if cards.is_empty() {
        return format!("none of the cards that {} may use is here", listed(by));
    }
    format!("{} may use only {}", listed(by), listed(cards))
}

fn more_withheld_in_words(cards: u32) -> String {
    let are = match cards {
        1 => "1 more card is".to_owned(),
        more => format!("{more} more cards are"),
    };
    format!("{are} withheld from jobs; 'ax resource' names them")
}
