//! What a waiting job waits for: as data for programs, and in words.

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
    /// Somebody holds it.
    Held {
        /// The job.
        job: JobId,
        /// Who.
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
        /// When it may start next; absent: its time limit fits into no such hours.
        next: Option<WallTime>,
    },
    /// It failed, and pauses before it is tried again.
    Retry {
        /// Until then.
        at: WallTime,
        /// Which retry it will be.
        used: u32,
        /// Of how many.
        of: u32,
    },
    /// Its last attempt never began, and it pauses.
    NeverStarted {
        /// Until then.
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
        /// As many as it may run.
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
        /// As many as it may run.
        max: u32,
        /// Those for which its places are kept.
        jobs: Vec<JobId>,
    },
    /// A limit on what is held at once lets it start only when others have ended.
    #[serde(rename = "cards_full")]
    LimitFull {
        /// Whose: `user li`.
        whose: String,
        /// The key that says it: `policy.max_cpus_per_user`.
        #[serde(default)]
        key: String,
        /// What is counted.
        #[serde(default)]
        what: Counted,
        /// So many are held under it.
        held: u64,
        /// As many as may be.
        max: u64,
        /// So many it asks for.
        wanted: u64,
        /// Some of those that hold them, those that were started first.
        #[serde(default)]
        jobs: Vec<JobId>,
        /// So many hold some.
        #[serde(default)]
        holders: u32,
        /// Who waits for the same limit and is before it.
        first: Option<JobId>,
    },
    /// It asks for more than a limit ever allows.
    #[serde(rename = "cards_too_many")]
    LimitTooSmall {
        /// Whose: `user li`.
        whose: String,
        /// The key that says it.
        #[serde(default)]
        key: String,
        /// What is counted.
        #[serde(default)]
        what: Counted,
        /// As many as may be.
        max: u64,
    },
    /// It may have only certain cards.
    Confined {
        /// By what: `queue night`.
        by: Vec<String>,
        /// Which: `gpu-01 cards 0,1`.
        cards: Vec<String>,
    },
    /// Its owner runs as many jobs as they may.
    UserFull {
        /// Who.
        user: String,
        /// In this queue; absent: in all.
        queue: Option<QueueName>,
        /// Jobs that they run there.
        active: u32,
        /// As many as they may run.
        max: u32,
        /// Some of them, those that were started first.
        jobs: Vec<JobId>,
        /// Another has a place kept for it, which counts.
        kept: bool,
    },
    /// There is no node.
    NoNodes,
    /// No node could hold it.
    FitsNowhere,
    /// It needs several nodes at once, and too few could hold its part.
    TooFewNodes {
        /// So many.
        wanted: u32,
        /// What each is to have, in words.
        each: String,
        /// So many have it.
        fitting: u32,
        /// Even if all were empty.
        empty: bool,
    },
    /// What nodes lack for it even if they were empty.
    TooSmall(Lack),
    /// What nodes lack for it now.
    Lacks(Lack),
    /// A card that it could have is withheld from jobs, or a part of it.
    Withheld {
        /// The card, and why: `gpu-01 card 3: 21 GB held by pid 4711 python of user li, not a job`.
        why: String,
    },
    /// Further such cards.
    MoreWithheld {
        /// How many.
        cards: u32,
    },
    /// Further nodes that lack yet other things.
    MoreNodes {
        /// How many.
        nodes: u32,
    },
    /// Others are being ended for it.
    MakingRoom {
        /// They.
        victims: Vec<JobId>,
        /// Where it will start.
        node: HostName,
        /// On which nodes beside it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<HostName>,
        /// They would be: nobody is yet.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        foretold: bool,
    },
    /// It is urgent enough that others could be ended for it, but these may not be.
    NobodyToEnd {
        /// So many jobs hold something where it could run.
        jobs: u32,
        /// On so many nodes.
        nodes: u32,
        /// Why so many of them are not ended.
        why: Vec<(Spared, u32)>,
    },
    /// Others could be ended for it, but that has cost enough lately.
    EvictionsSpent {
        /// What it has cost, in thousandths of what all cards can do in an hour.
        per_mille: u32,
        /// What it may cost, in hundredths.
        most_percent: u32,
        /// Until then.
        until: WallTime,
    },
    /// It fits, but a place is kept for another job that it would delay.
    Kept {
        /// That job.
        job: JobId,
        /// Where.
        node: HostName,
        /// On which of its cards.
        cards: Vec<u32>,
        /// From when on; absent: others are being ended for that job, and it starts when they are gone.
        from: Option<WallTime>,
        /// How long this job counts as running before that.
        planned: Span,
        /// How long its last runs took, if that no longer counts before a job that has waited as long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usual: Option<Span>,
        /// So many other nodes on which it fits are kept for others.
        more: u32,
    },
    /// Its queue has had more for its weight than another, whose jobs go first.
    QueueAhead {
        /// Its queue.
        queue: QueueName,
        /// The weight of that.
        weight: u32,
        /// So much more, in thousandths of the unit.
        thousandths: u64,
        /// `start`, `card-hour` or `CPU-hour`.
        unit: String,
        /// Than this one.
        than: QueueName,
        /// The first job of that.
        first: JobId,
    },
    /// Its owner has had more lately than another user, whose job goes first for that.
    UserAhead {
        /// Its owner.
        user: String,
        /// So much of what all users had, in thousandths.
        per_mille: u32,
        /// The other.
        than: String,
        /// So much the other had.
        others: u32,
        /// The job.
        first: JobId,
    },
    /// Others go before it.
    Behind {
        /// How many.
        jobs: u64,
        /// There may be more, which were not looked at.
        at_least: bool,
        /// The first of them.
        first: JobId,
        /// Nobody may pass.
        strict: bool,
    },
    /// Nothing can be started for a while.
    Resting {
        /// Where.
        node: HostName,
        /// Why not, and until when, in words.
        why: String,
    },
    /// Nothing is in its way: it starts as soon as it is looked at.
    StartsNow,
    /// What a newer daemon says and this program can't know.
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

/// Why a job on several nodes is not taken where so few of all could hold its part.
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
    /// In a sentence with numbers; times as they are from now on.
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
