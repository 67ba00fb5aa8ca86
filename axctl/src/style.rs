//! Colours: few, of the terminal's own palette, and only where the screen allows them.
//! What a colour says is always said in words too.

use ax_core::job::state::JobState;

use crate::world::Screen;

/// How a piece of text is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    /// As it is.
    #[default]
    Plain,
    /// Heads of tables and groups.
    Bold,
    /// What matters less.
    Dim,
    /// It goes well.
    Good,
    /// It waits or changes.
    Note,
    /// It went wrong.
    Bad,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Plain => "",
            Paint::Bold => "\x1b[1m",
            Paint::Dim => "\x1b[2m",
            Paint::Good => "\x1b[32m",
            Paint::Note => "\x1b[33m",
            Paint::Bad => "\x1b[31m",
        }
    }

    /// The text with its colour, if the screen has any.
    pub(crate) fn over(self, text: &str, screen: &Screen) -> String {
        if screen.colour && self != Paint::Plain && !text.trim().is_empty() {
            format!("{}{text}\x1b[0m", self.code())
        } else {
            text.to_owned()
        }
    }

    /// The colour of a state.
    pub(crate) fn of_state(state: JobState) -> Paint {
        match state {
            JobState::Pending | JobState::Ready => Paint::Plain,
            JobState::Running | JobState::Succeeded => Paint::Good,
            JobState::Starting | JobState::Suspended | JobState::Completing | JobState::Cancelled => {
                Paint::Note
            }
            _ => Paint::Bad,
        }
    }
}
