//! ax-states(7): the states, the outcomes and the allowed moves, from the tables of the code.

use std::fmt::Write;

use ax_core::job::state::{JobState, MOVES, OUTCOMES, STATES};

const HEAD: &str = include_str!("states_head.mdoc");
const TAIL: &str = include_str!("states_tail.mdoc");

/// Said of what the tables have and this version has no use for: of a state, and of a move.
const STATE_TO_COME: &str = "No job gets there yet: it comes with a later version.\n";
const MOVE_TO_COME: &str = "Does not happen yet: it comes with a later version.\n";

/// The whole page.
pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    text.push_str(".Sh STATES\n.Bl -tag -width Ds\n");
    for row in &STATES {
        // Writing to a String can't fail.
        let _ = writeln!(text, ".It Sy {} Pq Slurm: {}\n{}.", row.word, row.slurm, capital(row.meaning));
        text.push_str(if row.to_come { STATE_TO_COME } else { "" });
    }
    text.push_str(".El\n.Sh MOVES\nA job moves so, and in no other way:\n.Bl -tag -width Ds\n");
    for (from, cause, to) in MOVES {
        let _ =
            writeln!(text, ".It \\&{}\n{}\nto {}.", capital(cause.words()), words("from", from), list(to));
        text.push_str(if cause.is_to_come() { MOVE_TO_COME } else { "" });
    }
    text.push_str(".El\n.Sh ATTEMPTS\nAn attempt ends so, and gives its job this state if it is the last:\n");
    text.push_str(".Bl -column LAUNCH_FAILED FAILED_UNKNOWN_STATE\n");
    for (outcome, word) in &OUTCOMES {
        let later = if outcome.is_to_come() { " (not yet)" } else { "" };
        let _ = writeln!(text, ".It {word} Ta {}{later}", outcome.final_state().word());
    }
    text.push_str(".El\n.Pp\n");
    text.push_str("A job that is not idempotent is FAILED_UNKNOWN_STATE after NODE_FAIL or LEASE_LOST.\n");
    text.push_str("One whose time was cut short by its deadline is DEADLINE after TIMEOUT.\n");
    text.push_str(TAIL);
    text
}

fn words(preposition: &str, states: &[JobState]) -> String {
    format!("{preposition} {}", list(states))
}

fn list(states: &[JobState]) -> String {
    states.iter().map(|state| state.word()).collect::<Vec<_>>().join(", ").replace(", ", ",\n")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default() + chars.as_str()
}
