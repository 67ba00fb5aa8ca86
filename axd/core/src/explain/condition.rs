//! What a waiting job waits for: as data for programs, and in words. The data decide nothing.

use serde::{Deserialize, Serialize};

use crate::controller::{Counted, Spared};
use crate::id::{HostName, JobId, QueueName};
use crate::job::request::Request;
use crate::node::Lack;
use crate::text::{count, listed};
use crate::time::{Span, WallTime};

use super::spared;

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
    Hours {
        /// Its daily hours: `22:00-08:00`.
        window: String,
        /// The hours have begun, but it would not be over when they end.
        open: bool,
        /// How long it may run.
        limit: Option<Span>,
        /// When it may start next; `None` if its time limit fits into no such hours.
        next: Option<WallTime>,
    },
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
    QueueFull {
        /// The queue.
        queue: QueueName,
        /// Jobs that it runs.
        active: u32,
        /// The most jobs that it may run.
        max: u32,
        /// Some of them, those that were started first.
        jobs: Vec<JobId>,
    },
    /// The last places of its queue are kept for jobs that go before it.
    QueueKept {
        /// The queue.
        queue: QueueName,
        /// Jobs that it runs.
        active: u32,
        /// The most jobs that it may run.
        max: u32,
        /// The jobs for which its last places are kept.
        jobs: Vec<JobId>,
    },
    /// A limit on what is held at once is used up until others have ended.
    #[serde(rename = "cards_full")]
    LimitFull {
        /// To whom the limit applies: `user li`.
        whose: String,
        /// The key of the limit: `policy.max_cpus_per_user`.
        #[serde(default)]
        key: String,
        /// What is counted.
        #[serde(default)]
        what: Counted,
        /// How many are held under it.
        held: u64,
        /// The most that may be held.
        max: u64,
        /// How many the job asks for.
        wanted: u64,
        /// Some of those that hold them, those that were started first.
        #[serde(default)]
        jobs: Vec<JobId>,
        /// How many jobs hold some.
        #[serde(default)]
        holders: u32,
        /// The job before it that waits for the same limit.
        first: Option<JobId>,
    },
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
    UserFull {
        /// Who.
        user: String,
        /// In this queue; `None`: in all queues.
        queue: Option<QueueName>,
        /// Jobs that they run there.
        active: u32,
        /// The most jobs that they may run.
        max: u32,
        /// Some of them, those that were started first.
        jobs: Vec<JobId>,
        /// True if a place that is kept for another job counts among them.
        kept: bool,
    },
    /// There is no node.
    NoNodes,
    /// No node could hold it.
    FitsNowhere,
    /// It needs several nodes at once, and too few could hold its part.
    TooFewNodes {
        /// Number of nodes that it needs.
        wanted: u32,
        /// What it needs of each node, in words.
        each: String,
        /// Number of nodes that could hold its part.
        fitting: u32,
        /// True if they are too few even when all are empty.
        empty: bool,
    },
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
    MakingRoom {
        /// Those jobs.
        victims: Vec<JobId>,
        /// Where it will start.
        node: HostName,
        /// The further nodes, for a job on several.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<HostName>,
        /// True for a job that is not submitted: no job has been ended yet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        foretold: bool,
    },
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
    EvictionsSpent {
        /// What they have cost, in thousandths of what all cards can do in an hour.
        per_mille: u32,
        /// The most that they may cost, in percent.
        most_percent: u32,
        /// When the cost of the last hour is low enough again.
        until: WallTime,
    },
    /// It fits, but a place is kept for another job that it would delay.
    Kept {
        /// The job that has the place.
        job: JobId,
        /// Where.
        node: HostName,
        /// On which of its cards.
        cards: Vec<u32>,
        /// When that job starts; `None` if others are being ended for it, and it starts when they are gone.
        from: Option<WallTime>,
        /// The planned length of the waiting job.
        planned: Span,
        /// How long its last runs took, if they no longer count because the other job has waited for so long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usual: Option<Span>,
        /// Number of further nodes on which it fits and a place is kept.
        more: u32,
    },
    /// Its queue has had more for its weight than another queue, whose jobs go first.
    QueueAhead {
        /// Its queue.
        queue: QueueName,
        /// The weight of its queue.
        weight: u32,
        /// By how much its queue is ahead, in thousandths of the unit.
        thousandths: u64,
        /// `start`, `card-hour` or `CPU-hour`.
        unit: String,
        /// The queue that it is ahead of.
        than: QueueName,
        /// The first job of that queue.
        first: JobId,
    },
    /// Its owner has had more lately than another user, whose job goes first for that reason.
    UserAhead {
        /// Its owner.
        user: String,
        /// The owner's part of what all users had, in thousandths.
        per_mille: u32,
        /// The other user.
        than: String,
        /// The other user's part, in thousandths.
        others: u32,
        /// The other user's job.
        first: JobId,
    },
    /// Other jobs go before it.
    Behind {
        /// How many.
        jobs: u64,
        /// True if further jobs may go before it, which were not looked at.
        at_least: bool,
        /// The first of those jobs.
        first: JobId,
        /// True under `fifo_strict`, where no job may pass another.
        strict: bool,
    },
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

fn hosts(first: &HostName, others: &[HostName]) -> String {
    let names: Vec<&str> = std::iter::once(first).chain(others).map(HostName::as_str).collect();
    crate::hostlist::compress(&names)
}

/// `may start only between 22:00 and 08:00; next at 22:00, in 03:12:05`.
fn hours_in_words(
    window: &str,
    open: bool,
    limit: Option<Span>,
    next: Option<WallTime>,
    now: WallTime,
) -> String {
    let (from, to) = window.split_once('-').unwrap_or((window, window));
    let limit = limit
        .filter(|_| open)
        .map_or(String::new(), |limit| format!(", and would not be over by {to}: its time limit is {limit}"));
    let next = match next {
        Some(next) => format!("next at {from}, in {}", next - now),
        None => "and never, as its time limit is longer than that".to_owned(),
    };
    format!("may start only between {from} and {to} (--window){limit}; {next}")
}

impl Condition {
    /// The condition in a sentence with numbers, with times as seen from `now`.
    pub fn sentence(&self, now: WallTime) -> String {
        let seconds = |at: &WallTime| (*at - now).0.div_ceil(1000);
        match self {
            Condition::Held { job, by } => format!("held by {by}; 'ax release {job}' lets it go"),
            Condition::Begin { at } => format!("waits for its begin time, in {}", *at - now),
            Condition::Hours { window, open, limit, next } => {
                hours_in_words(window, *open, *limit, *next, now)
            }
            Condition::Retry { at, used, of } => {
                format!("retry {used} of {of} in {} s after a failure", seconds(at))
            }
            Condition::NeverStarted { at, why } => {
                format!("its last attempt {why}; tried again in {} s", seconds(at))
            }
            Condition::QueueGone { queue } => format!("queue {queue} is no longer configured"),
            Condition::QueueStopped { queue } => format!("queue {queue} is stopped: it starts nothing"),
            Condition::QueueFull { queue, active, max, jobs } => {
                let who = match jobs.is_empty() {
                    true => String::new(),
                    false => format!(": {}", jobs_in_words(jobs, *active as usize)),
                };
                format!("queue {queue} runs {active} of at most {}{who}", count(*max, "job"))
            }
            Condition::QueueKept { queue, active, max, jobs } => format!(
                "queue {queue} runs {active} of at most {}, and keeps {} for {}",
                count(*max, "job"),
                if jobs.len() == 1 { "a place" } else { "places" },
                jobs_in_words(jobs, jobs.len())
            ),
            Condition::LimitFull { .. } => self.limit_in_words(),
            Condition::LimitTooSmall { whose, key, what, max } => {
                format!("{whose} may hold at most {} at once ({key})", what.in_words(*max))
            }
            Condition::Confined { by, cards } if cards.is_empty() => {
                format!("none of the cards that {} may use is here", listed(by))
            }
            Condition::Confined { by, cards } => format!("{} may use only {}", listed(by), listed(cards)),
            Condition::UserFull { user, queue, active, max, jobs, kept } => {
                let key = if queue.is_some() {
                    "queues[].max_running_per_user"
                } else {
                    "policy.max_running_per_user"
                };
                let there = queue.as_ref().map_or(String::new(), |queue| format!(" in queue {queue}"));
                let who = match jobs.is_empty() {
                    true => String::new(),
                    false => format!(": {}", jobs_in_words(jobs, *active as usize)),
                };
                let kept = if *kept { ", and a place is kept for another" } else { "" };
                format!("{user} runs {active} of at most {}{there} ({key}){who}{kept}", count(*max, "job"))
            }
            Condition::NoNodes => "no node has registered yet".to_owned(),
            Condition::FitsNowhere => "no node here could hold it, even empty".to_owned(),
            Condition::TooFewNodes { wanted, each, fitting, empty } => {
                let has = match (*fitting, *empty) {
                    (0, true) => "none here has that".to_owned(),
                    (1, true) => "1 here has that".to_owned(),
                    (fitting, true) => format!("{fitting} here have that"),
                    (0, false) => "none has that free".to_owned(),
                    (1, false) => "1 has that free".to_owned(),
                    (fitting, false) => format!("{fitting} have that free"),
                };
                format!("needs {} at once, each with {each}, and {has}", count(*wanted, "node"))
            }
            Condition::TooSmall(lack) => lack.for_ever(),
            Condition::Lacks(lack) => lack.now(),
            Condition::Withheld { why } => why.clone(),
            Condition::MoreWithheld { cards } => {
                format!(
                    "{} withheld from jobs; 'ax resource' names them",
                    match cards {
                        1 => "1 more card is".to_owned(),
                        more => format!("{more} more cards are"),
                    }
                )
            }
            Condition::MoreNodes { nodes } => {
                format!("does not fit on {} either", count(*nodes, "other node"))
            }
            Condition::MakingRoom { victims, node, others, .. } if victims.is_empty() => {
                let node = hosts(node, others);
                format!(
                    "takes the place on {node} that was kept for others: it starts when it is next looked at"
                )
            }
            Condition::MakingRoom { victims, node, others, foretold } => {
                let node = hosts(node, others);
                let who = jobs_in_words(victims, victims.len());
                let (are, starts) = match (foretold, victims.len()) {
                    (true, _) => ("would be", "it would start"),
                    (false, 1) => ("is being", "it starts"),
                    (false, _) => ("are being", "it starts"),
                };
                format!("{who} {are} ended for it; then {starts} on {node}")
            }
            Condition::NobodyToEnd { jobs, nodes, why } => spared::in_words(*jobs, *nodes, why),
            Condition::EvictionsSpent { per_mille, most_percent, until } => format!(
                "nobody is ended for it for another {}: within an hour that has cost {}.{} % of all cards, at most \
                 {most_percent} % (policy.preempt_budget)",
                Span(seconds(until) * 1000),
                per_mille / 10,
                per_mille % 10
            ),
            Condition::Kept { .. } => self.kept_in_words(now),
            Condition::Behind { jobs, at_least, first, strict } => {
                let least = if *at_least { "at least " } else { "" };
                let strict = if *strict { ", and nobody passes (policy.scheduler)" } else { "" };
                format!("{least}{} before it, the first is {first}{strict}", count(*jobs, "job"))
            }
            Condition::QueueAhead { queue, weight, thousandths, unit, than, first } => {
                let planned = if unit == "start" { "" } else { ", what runs counted as long as planned" };
                format!(
                    "queue {queue} has had more than its share{planned}, by {}.{:03} {unit}s for its weight of {weight}, \
                     beside queue {than}: {first} of that goes first (policy.scheduler)",
                    thousandths / 1000,
                    thousandths % 1000
                )
            }
            Condition::UserAhead { user, per_mille, than, others, first } => format!(
                "user {user} has had {}.{} % and user {than} {}.{} % of what all users had lately: so {first} goes \
                 first, which would not by priority and waiting (policy.user_share)",
                per_mille / 10,
                per_mille % 10,
                others / 10,
                others % 10
            ),
            Condition::Resting { node, why } => format!("{node} can start nothing: {why}"),
            Condition::StartsNow => "nothing is in its way: it starts when it is next looked at".to_owned(),
            Condition::Unknown => "waits for something that this program does not know".to_owned(),
        }
    }

    fn kept_in_words(&self, now: WallTime) -> String {
        let Condition::Kept { job, node, cards, from, planned, usual, more } = self else {
            return String::new();
        };
        let numbers = cards.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let on = match cards.len() {
            0 => String::new(),
            1 => format!(" card {numbers}"),
            _ => format!(" cards {numbers}"),
        };
        let others = match more {
            0 => String::new(),
            more => format!("; so it is on {}", count(*more, "other node")),
        };
        let usual = usual.map_or(String::new(), |usual| {
            format!(
                " by what it says ({usual} by its last runs, but {job} has waited too long for that to count)"
            )
        });
        match from {
            Some(from) => format!(
                "fits on {node} now, but takes {planned}{usual} and would delay {job}, for which {node}{on} is kept in {}{others}",
                *from - now
            ),
            None => format!("fits on {node} now, but others are being ended there for {job}{others}"),
        }
    }
}
