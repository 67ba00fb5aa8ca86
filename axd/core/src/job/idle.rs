//! How long the cards of an attempt have done nothing, and what was said about it.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// So much more is worth a row of its own.
const WORTH_WRITING: Span = Span::seconds(600);

/// The idle time of an attempt's cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Idleness {
    /// All stretches that are over.
    pub before: Span,
    /// The stretch that lasts, as it was last told; nothing while they work.
    pub lasted: Span,
    /// So long they had been idle when that was warned of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned: Option<Span>,
    /// It is ended for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// What of the sum was written down.
    #[serde(default)]
    written: Span,
}

impl Idleness {
    /// Whether there is nothing to tell.
    pub fn is_none(&self) -> bool {
        *self == Idleness::default()
    }

    /// All of it.
    pub fn total(&self) -> Span {
        self.before + self.lasted
    }

    /// The stretch has lasted so long. One that is shorter than what was told last is another one.
    pub fn lasts(&mut self, lasted: Span) {
        if lasted < self.lasted {
            self.ends();
        }
        self.lasted = lasted;
    }

    /// The cards work.
    pub fn ends(&mut self) {
        self.before = self.total();
        self.lasted = Span::ZERO;
        self.warned = None;
    }

    /// The sum, if so much has come to it that it should be written down, or all of it at the end.
    pub fn take_unwritten(&mut self, at_end: bool) -> Option<Span> {
        let least = if at_end { Span(1) } else { WORTH_WRITING };
        let total = self.total();
        let due = total >= self.written + least;
        if due {
            self.written = total;
        }
        due.then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    #[test]
    fn stretches_add_up() {
        let mut idle = Idleness::default();
        idle.lasts(Span::seconds(MINUTE));
        idle.lasts(Span::seconds(3 * MINUTE));
        assert_eq!(idle.total(), Span::seconds(3 * MINUTE));
        idle.ends();
        idle.lasts(Span::seconds(2 * MINUTE));
        // Begun anew, by a daemon that had not seen the end of the last.
        idle.lasts(Span::seconds(MINUTE));
        assert_eq!(idle.total(), Span::seconds(6 * MINUTE));
    }

    #[test]
    fn little_is_not_worth_a_row_before_the_end() {
        let mut idle = Idleness::default();
        assert_eq!(idle.take_unwritten(true), None);
        idle.lasts(Span::seconds(9 * MINUTE));
        assert_eq!(idle.take_unwritten(false), None);
        idle.lasts(Span::seconds(10 * MINUTE));
        assert_eq!(idle.take_unwritten(false), Some(Span::seconds(10 * MINUTE)));
        idle.lasts(Span::seconds(11 * MINUTE));
        assert_eq!(idle.take_unwritten(false), None);
        assert_eq!(idle.take_unwritten(true), Some(Span::seconds(11 * MINUTE)));
        assert_eq!(idle.take_unwritten(true), None);
    }
}
