//! Lists of jobs on the wire: which are wanted, and the answer.

use serde::{Deserialize, Serialize};

use super::JobView;
use crate::job::state::JobState;
use crate::time::WallTime;

/// Which jobs `GET /api/v1/jobs` lists. All conditions hold at once; lists mean any of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobsQuery {
    /// Only these users' (names).
    pub user: Vec<String>,
    /// Only in these queues.
    pub queue: Vec<String>,
    /// Only these, by number; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub number: Vec<u32>,
    /// Only of these names.
    pub name: Vec<String>,
    /// Only in these states; empty: all that have not ended.
    pub state: Vec<JobState>,
    /// Also those that ended within the last 300 s.
    pub all: bool,
    /// Finished jobs out of the accounts instead.
    pub finished: bool,
    /// Ended (finished) or submitted at or after.
    pub since: Option<WallTime>,
    /// Ended (finished) or submitted before.
    pub until: Option<WallTime>,
    /// Waiting jobs in the order in which they are expected to start, and not in that in which they are looked at.
    pub by_start: bool,
    /// At most so many; absent: all.
    pub limit: Option<u32>,
}

impl JobsQuery {
    /// Whether anything in it leaves jobs that have not ended out. The order, a bound on the answer and what it has besides
    /// them don't: who asks so asks for all.
    pub fn is_of_some(&self) -> bool {
        let JobsQuery { user, queue, number, name, state, since, until, .. } = self;
        let listed = [user, queue, name].iter().any(|list| !list.is_empty());
        listed || !number.is_empty() || !state.is_empty() || since.is_some() || until.is_some()
    }
}

/// Answer to `GET /api/v1/jobs`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobsAnswer {
    /// The jobs: running first, then waiting in their order.
    pub jobs: Vec<JobView>,
    /// How many more there are than `limit` let through.
    pub left_out: u64,
    /// What the asker should know, one line each: a queue that there is not, jobs that can't be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
