//! Conditions that a time of the day ends.

use serde::{Deserialize, Serialize};

use crate::time::{Span, WallTime};

/// It may not start at this time of the day, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hours {
    /// Its daily hours: `22:00-08:00`.
    pub window: String,
    /// The hours have begun, but it would not be over when they end.
    pub open: bool,
    /// How long it may run.
    pub limit: Option<Span>,
    /// When it may start next; `None` if its time limit fits into no such hours.
    pub next: Option<WallTime>,
}

impl Hours {
    /// `may start only between 22:00 and 08:00 (--window); next at 22:00, in 03:12:05`.
    pub(super) fn in_words(&self, now: WallTime) -> String {
        let (from, to) = self.window.split_once('-').unwrap_or((&self.window, &self.window));
        let limit = match self.limit {
            Some(limit) if self.open => {
                format!(", and would not be over by {to}: its time limit is {}", limit.in_words())
            }
            _ => String::new(),
        };
        let next = match self.next {
            Some(next) => format!("next at {from}, in {}", (next - now).in_words()),
            None => "and never, as its time limit is longer than that".to_owned(),
        };
        format!("may start only between {from} and {to} (--window){limit}; {next}")
    }
}
