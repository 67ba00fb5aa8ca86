//! How long the cards of an attempt have done nothing, and which warnings were given. Counting only;
//! `controller::idle` decides.

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// An increase of this much is written to the database.
const WORTH_WRITING: Span = Span::seconds(600);

/// The idle time of an attempt's cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Idleness {
    /// The sum of all stretches that are over.
    pub before: Span,
    /// The length of the present stretch as it was last told; zero while the cards work.
    pub lasted: Span,
    /// The idle time at which the job was warned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warned: Option<Span>,
    /// True if the attempt is being ended for idleness.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// The part of the sum that has been written.
    #[serde(default)]
    written: Span,
}

impl Idleness {
    /// True if there is nothing to tell.
    pub fn is_none(&self) -> bool {
        *self == Idleness::default()
    }

    /// The sum of all stretches.
    pub fn total(&self) -> Span {
        self.before + self.lasted
    }

    /// Sets the length of the present stretch. A shorter one than before is a new stretch.
    pub fn lasts(&mut self, lasted: Span) {
        if lasted < self.lasted {
            self.ends();
        }
        self.lasted = lasted;
    }

    /// The cards work again.
    pub fn ends(&mut self) {
        self.before = self.total();
        self.lasted = Span::ZERO;
        self.warned = None;
    }

    /// The sum, if enough has been added to write it; it counts as written then.
    pub fn take_unwritten(&mut self) -> Option<Span> {
        self.take_if(WORTH_WRITING)
    }

    /// The sum at the end, if anything has been added since it was last written.
    pub fn take_rest(&mut self) -> Option<Span> {
        self.take_if(Span(1))
    }

    fn take_if(&mut self, least: Span) -> Option<Span> {
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
        // A restarted daemon has not seen the end of the last stretch, and begins a new one.
        idle.lasts(Span::seconds(MINUTE));
        assert_eq!(idle.total(), Span::seconds(6 * MINUTE));
    }

    #[test]
    fn little_is_not_worth_a_row_before_the_end() {
        let mut idle = Idleness::default();
        assert_eq!(idle.take_rest(), None);
        idle.lasts(Span::seconds(9 * MINUTE));
        assert_eq!(idle.take_unwritten(), None);
        idle.lasts(Span::seconds(10 * MINUTE));
        assert_eq!(idle.take_unwritten(), Some(Span::seconds(10 * MINUTE)));
        idle.lasts(Span::seconds(11 * MINUTE));
        assert_eq!(idle.take_unwritten(), None);
        assert_eq!(idle.take_rest(), Some(Span::seconds(11 * MINUTE)));
        assert_eq!(idle.take_rest(), None);
    }
}
