//! What `--test-only` is answered: for programs, and as a sentence that both sides can word.

use serde::{Deserialize, Serialize};

use crate::time::WallTime;

/// What would become of a submission if it were made now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Forecast {
    /// It would start at once.
    StartsAtOnce {
        /// Where.
        node: String,
    },
    /// It would wait.
    Waits {
        /// All that would stand in its way.
        reasons: Vec<String>,
        /// When it would be expected to start, if that can be said.
        expected_start: Option<WallTime>,
    },
    /// It would be refused.
    Refused {
        /// Why.
        why: String,
    },
    /// Nothing can be said; also what a newer daemon foretells and this program can't know.
    #[serde(other)]
    Unknown,
}

impl Forecast {
    /// In one sentence, with times as `time` words them.
    pub fn sentence(&self, time: impl Fn(&WallTime) -> String) -> String {
        match self {
            Forecast::StartsAtOnce { node } => format!("the job would start at once on {node}"),
            Forecast::Waits { reasons, expected_start } => {
                let start = match expected_start {
                    Some(start) => format!("start about {}", time(start)),
                    None => "wait, nobody can say for how long".to_owned(),
                };
                let reasons =
                    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
                format!("the job would {start}{reasons}")
            }
            Forecast::Refused { why } => format!("the job would be refused: {why}"),
            Forecast::Unknown => "the job would be accepted".to_owned(),
        }
    }
}
