//! `axd --db-events`: prints the recorded events of a time, as lines for people or as one JSON document. Prints while
//! it reads, since 30 days of events do not fit in memory. The content of an event comes from its recorded form, so a
//! new kind of event needs no change here.

use std::io::{self, Write};
use std::path::Path;

use ax_core::text::{escaped, json_escaped};
use ax_core::time::WallTime;
use chrono::{DateTime, Local};
use serde::Serialize;
use serde_json::Value;

use crate::store::StoreError;
use crate::store::events::{Entry, EventReader, Recorded};

/// Which events, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Not before.
    pub(crate) from: Option<WallTime>,
    /// Before.
    pub(crate) to: Option<WallTime>,
    /// One JSON document.
    pub(crate) json: bool,
}

impl Wanted {
    fn has(&self, at: WallTime) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }
}

/// What kept the events from being printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintError {
    /// The file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The reader of the output.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Prints the events of the file at `path`.
pub(crate) fn print(path: &Path, wanted: Wanted, out: &mut dyn Write) -> Result<(), PrintError> {
    let events = EventReader::open(path)?;
    // The wall clock may have been set back since: so from the snapshot on, and each is looked at.
    let start = match wanted.from {
        Some(from) => events.snapshot_before(from)?.unwrap_or(0),
        None => 0,
    };
    let (mut first, mut written) = (true, Ok(()));
    if wanted.json {
        out.write_all(b"[")?;
    }
    events.each_from(start, |entry| {
        if wanted.has(entry.now.wall) {
            written = one(&entry, wanted.json, first, out);
            first = false;
        }
        written.is_ok()
    })?;
    written?;
    if wanted.json {
        out.write_all(b"\n]\n")?;
    }
    Ok(out.flush()?)
}

fn one(entry: &Entry, json: bool, first: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let comma = if first { "\n" } else { ",\n" };
        return write!(out, "{comma}{}", json_escaped(&serde_json::to_string(entry)?));
    }
    writeln!(out, "{}  {}", time(entry.now.wall), escaped(&line(&entry.recorded)))
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// In the caller's zone.
fn time(at: WallTime) -> String {
    let shown = DateTime::from_timestamp_millis(at.0)
        .map(|utc| utc.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S%.3f %:z").to_string());
    shown.unwrap_or_else(|| at.to_string())
}

fn line(recorded: &Recorded) -> String {
    match recorded {
        Recorded::Snapshot(_) => "snapshot of everything".to_owned(),
        Recorded::Gap => "gap: some events are missing here".to_owned(),
        Recorded::Step(step) => {
            let mut text = in_words(&value(&step.event));
            for decision in &step.decisions {
                text.push_str(" → ");
                text.push_str(&in_words(&value(decision)));
            }
            text
        }
    }
}

/// `cancel_requested job=ax-2026-0001 actor=alice why="too slow"`: the name, and what is said in a word or two.
fn in_words(event: &Value) -> String {
    let Some((name, fields)) = event.as_object().and_then(|object| object.iter().next()) else {
        return event.as_str().unwrap_or_default().to_owned();
    };
    let fields = fields.as_object().into_iter().flatten();
    let said = fields.filter_map(|(key, value)| Some(format!(" {key}={}", word(value)?)));
    std::iter::once(name.clone()).chain(said).collect()
}

/// A value that is short, or the name of one that has a name; nothing for large ones.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.contains(' ') || text.is_empty() => Some(format!("{text:?}")),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Object(fields) => match fields.get("name") {
            Some(name) => word(name),
            // `{"user": {"name": …}}`: an actor.
            None if fields.len() == 1 => fields.values().next().and_then(word),
            None => None,
        },
        Value::Null | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_its_name_and_its_short_fields() {
        let event = json!({"cancel_requested": {
            "job": "ax-2026-0001", "actor": {"user": {"uid": 1, "name": "alice"}}, "why": "too slow",
            "list": [1], "none": null,
        }});
        assert_eq!(in_words(&event), "cancel_requested actor=alice job=ax-2026-0001 why=\"too slow\"");
        assert_eq!(in_words(&json!("tick")), "tick");
    }

    #[test]
    fn a_time_has_an_end_that_does_not_belong_to_it() {
        let wanted = Wanted { from: Some(WallTime(10)), to: Some(WallTime(20)), json: false };
        assert_eq!([9, 10, 19, 20].map(|at| wanted.has(WallTime(at))), [false, true, true, false]);
    }
}
