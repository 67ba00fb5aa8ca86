//! What every subcommand of `ax` works with: the daemon, the clock, the screen and the streams. Prints tables and
//! documents; knows no particular command.

use std::io;

use ax_core::api::ErrorClass;
use serde::Serialize;

use crate::client::Client;
use crate::failure::Failure;
use crate::table::Table;
use crate::when::Clock;
use crate::world::{Screen, World};
use ax_core::text::json_escaped;

/// The surroundings of one subcommand.
pub(crate) struct Session<'s, 'w> {
    /// Streams and variables.
    pub(crate) world: &'s mut World<'w>,
    /// The daemon.
    pub(crate) client: Client,
    /// Present and zone.
    pub(crate) clock: Clock,
    /// Where standard output goes.
    pub(crate) screen: Screen,
}

/// From this width on a sentence has room in a column.
const ROOM_FOR_SENTENCE: usize = 120;

impl Session<'_, '_> {
    /// Whether sentences stand below their rows: a person reads, and there is no room beside.
    /// Programs read lines: they get one for each thing.
    pub(crate) fn has_room_below(&self) -> bool {
        self.screen.terminal && self.screen.width < ROOM_FOR_SENTENCE
    }

    /// Prints a document: the whole of what `--json` prints.
    ///
    /// # Errors
    /// When standard output fails.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| Failure::said(ErrorClass::Data, format!("cannot write JSON: {error}")))?;
        writeln!(self.world.out, "{}", json_escaped(&text))?;
        Ok(self.world.out.flush()?)
    }

    /// Prints a text as it is: escaped already, where others wrote it.
    ///
    /// # Errors
    /// When standard output fails.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        self.world.out.write_all(text.as_bytes())?;
        self.world.out.flush()
    }

    /// Prints a table, fitted to the screen unless `whole`.
    ///
    /// # Errors
    /// When standard output fails.
    pub(crate) fn table(&mut self, table: &Table, head: bool, whole: bool) -> io::Result<()> {
        let width = if whole { usize::MAX } else { self.screen.width };
        let text = table.text(head, width, &self.screen);
        self.print(&text)
    }

    /// A remark for the person, on standard error.
    pub(crate) fn remark(&mut self, line: &str) {
        self.world.remark("ax", line);
    }
}
