//! `ax reload`: has the daemon read its configuration again, and shows what has changed.

use std::fmt::Write;

use ax_core::api::ReloadAnswer;

use crate::failure::Failure;
use crate::session::Session;
use crate::shown::shown;

/// Read the configuration again: all of it or, on an error, none of it
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// One JSON document: changes and warnings
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Asks and prints.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        let nothing = serde_json::Map::new();
        let answer: ReloadAnswer = session.client.post("/api/v1/reload", &nothing)?;
        if self.json {
            session.json(&answer)?;
            return Ok(0);
        }
        for warning in &answer.warnings {
            // Those about a place in the file say what they are behind it.
            match warning.contains(": warning: ") {
                true => session.remark(warning),
                false => session.remark(&format!("warning: {warning}")),
            }
        }
        let mut text = String::new();
        for change in &answer.changes {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{}", shown(change));
        }
        if answer.changes.is_empty() {
            text.push_str("nothing changed\n");
        }
        session.print(&text)?;
        Ok(0)
    }
}
