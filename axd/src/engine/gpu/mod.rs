//! The daemon's part in cards. A look at them is taken elsewhere (`crate::cards`); here the loop takes it in: `looks`
//! receives it, `usage` says who uses what, `attempts` ends what goes too far or stays behind, `enforcement` knows what
//! keeps jobs to their slices, `history` remembers, `views` shows. What becomes of a job or a card the controller
//! decides.

mod attempts;
mod enforcement;
mod history;
mod looks;
mod usage;
mod views;

use ax_core::gpu::Sample;
use ax_core::gpu::ledger::Ledger;

use crate::cards::Cards;
use attempts::CardAttempts;
pub(super) use enforcement::{Enforcement, is_measured};
pub(super) use history::History;
pub(super) use looks::{new, pace};

/// What the loop knows of cards.
pub(super) struct Gpu {
    /// The process that looks at the cards of this machine; `None` if none are given out.
    pub(super) cards: Option<Cards>,
    /// The last sample of the cards.
    pub(super) sample: Sample,
    /// The window of samples.
    pub(super) ledger: Ledger,
    /// How jobs are held to their slices on each card.
    pub(super) enforcement: Enforcement,
    /// What jobs were seen to do on cards.
    pub(super) attempts: CardAttempts,
    /// The samples that are kept.
    pub(super) history: History,
}

impl Gpu {
    /// With cards of which nothing was seen yet.
    pub(super) fn new(cards: Option<Cards>, enforcement: Enforcement, history: History) -> Gpu {
        Gpu {
            cards,
            sample: Sample::default(),
            ledger: Ledger::default(),
            enforcement,
            attempts: CardAttempts::default(),
            history,
        }
    }
}
