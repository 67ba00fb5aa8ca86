//! Conditions of a place on a node: too few nodes have one, it is kept for another job, or others are ended for it.

use serde::{Deserialize, Serialize};

use crate::id::{HostName, JobId};
use crate::text::count;
use crate::time::{Span, WallTime};

use super::{jobs_in_words, left};

/// It needs several nodes at once, and too few could hold its part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TooFewNodes {
    /// Number of nodes that it needs.
    pub wanted: u32,
    /// What it needs of each node, in words.
    pub each: String,
    /// Number of nodes that could hold its part.
    pub fitting: u32,
    /// True if they are too few even when all are empty.
    pub empty: bool,
}

impl TooFewNodes {
    /// `needs 4 nodes at once, each with 8 CPUs, and 2 have that free`.
    pub(super) fn in_words(&self) -> String {
        let (here, free) = if self.empty { (" here", "") } else { ("", " free") };
        let found = match self.fitting {
            0 => format!("none{here} has that{free}"),
            1 => format!("1{here} has that{free}"),
            more => format!("{more}{here} have that{free}"),
        };
        format!("needs {} at once, each with {}, and {found}", count(self.wanted, "node"), self.each)
    }
}

/// Other jobs are being ended for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakingRoom {
    /// Those jobs.
    pub victims: Vec<JobId>,
    /// Where it will start.
    pub node: HostName,
    /// The further nodes, for a job on several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<HostName>,
    /// True for a job that is not submitted: no job has been ended yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foretold: bool,
}

impl MakingRoom {
    /// `ax-2026-0001 is being ended for it; then it starts on gpu-01`.
    pub(super) fn in_words(&self) -> String {
        let names: Vec<&str> =
            std::iter::once(&self.node).chain(&self.others).map(HostName::as_str).collect();
        let node = crate::hostlist::compress(&names);
        if self.victims.is_empty() {
            return format!(
                "takes the place on {node} that was kept for others: it starts when it is next looked at"
            );
        }
        let who = jobs_in_words(&self.victims, self.victims.len());
        let (are, starts) = match (self.foretold, self.victims.len()) {
            (true, _) => ("would be", "it would start"),
            (false, 1) => ("is being", "it starts"),
            (false, _) => ("are being", "it starts"),
        };
        format!("{who} {are} ended for it; then {starts} on {node}")
    }
}

/// Others could be ended for it, but evictions have cost enough lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionsSpent {
    /// What they have cost, in thousandths of what all cards can do in an hour.
    pub per_mille: u32,
    /// The most that they may cost, in percent.
    pub most_percent: u32,
    /// When the cost of the last hour is low enough again.
    pub until: WallTime,
}

impl EvictionsSpent {
    pub(super) fn in_words(&self, now: WallTime) -> String {
        format!(
            "nobody is ended for it for another {}: within an hour that has cost {}.{} % of all cards, at most \
             {} % (policy.preempt_budget)",
            left(self.until, now).in_words(),
            self.per_mille / 10,
            self.per_mille % 10,
            self.most_percent
        )
    }
}

/// It fits, but a place is kept for another job that it would delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The job that has the place.
    pub job: JobId,
    /// Where.
    pub node: HostName,
    /// On which of its cards.
    pub cards: Vec<u32>,
    /// When that job starts; `None` if others are being ended for it, and it starts when they are gone.
    pub from: Option<WallTime>,
    /// The planned length of the waiting job.
    pub planned: Span,
    /// How long its last runs took, if they no longer count because the other job has waited for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<Span>,
    /// Number of further nodes on which it fits and a place is kept.
    pub more: u32,
}

impl Kept {
    /// `fits on gpu-01 now, but takes 2h00m and would delay ax-2026-0001, which is to start in 1h00m on gpu-01 card 3`.
    pub(super) fn in_words(&self, now: WallTime) -> String {
        let Kept { job, node, planned, .. } = self;
        let others = match self.more {
            0 => String::new(),
            more => format!("; so it is on {}", count(more, "other node")),
        };
        let Some(from) = self.from else {
            return format!("fits on {node} now, but others are being ended there for {job}{others}");
        };
        let planned = planned.in_words();
        let usual = self.usual.map_or(String::new(), |usual| {
            let usual = usual.in_words();
            format!(
                " by what it says ({usual} by its last runs, but {job} has waited too long for that to count)"
            )
        });
        let (on, left) = (self.cards_in_words(), (from - now).in_words());
        format!(
            "fits on {node} now, but takes {planned}{usual} and would delay {job}, which is to start in {left} on \
             {node}{on}{others}"
        )
    }

    /// ` cards 0,1`, or nothing.
    fn cards_in_words(&self) -> String {
        let numbers: Vec<String> = self.cards.iter().map(u32::to_string).collect();
        match numbers.len() {
            0 => String::new(),
            1 => format!(" card {}", numbers.join(",")),
            _ => format!(" cards {}", numbers.join(",")),
        }
    }
}
