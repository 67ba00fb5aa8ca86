//! The answer to `--test-only`: for programs, and as a sentence that both sides can make.

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::explain::Condition;
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
        /// What that rests on, or why it can't be said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expected_basis: Option<String>,
        /// What would stand in its way, for programs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<Condition>,
        /// With what it would start at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        advice: Option<Advice>,
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
            Forecast::Waits { reasons, expected_start, expected_basis, advice, .. } => {
                let basis = expected_basis.as_ref().map_or(String::new(), |basis| format!(" ({basis})"));
                let start = match expected_start {
                    Some(start) => format!("start about {}{basis}", time(start)),
                    None => format!("wait, nobody can say for how long{basis}"),
                };
                let reasons =
                    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
                let advice = advice.as_ref().map_or(String::new(), |advice| format!("; {}", advice.text));
                format!("the job would {start}{reasons}{advice}")
            }
            Forecast::Refused { why } => format!("the job would be refused: {why}"),
            Forecast::Unknown => "the job would be accepted".to_owned(),
        }
    }
}
