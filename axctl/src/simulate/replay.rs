//! `axctl simulate --replay`: decides a daemon's record again, and compares.

use std::io::BufReader;
use std::ops::ControlFlow;
use std::path::Path;

use ax_core::api::ErrorClass;
use ax_core::replay::{Difference, Replay, each_entry};
use ax_core::text::{count, escaped, json_escaped};
use serde::Serialize;
use serde_json::{Value, json};

use super::input;
use crate::failure::Failure;
use crate::world::World;

/// Differences are told up to here; the first says most.
const TOLD: usize = 5;

/// How often what is decided again departs from the record.
#[derive(Default)]
struct Departures {
    /// Another decision, or another state.
    different: u64,
    /// At the start after a daemon that was killed, which did not record its last steps.
    killed: u64,
}

impl Departures {
    fn count(&mut self, difference: &Difference) {
        let count = if difference.is_of_a_killed_daemon() { &mut self.killed } else { &mut self.different };
        *count += 1;
    }
}

/// Reads, decides again, and says where it departs: exit code 1 if it does.
pub(super) fn run(path: &Path, as_json: bool, world: &mut World<'_>) -> Result<u8, Failure> {
    let mut replay = Replay::default();
    let (mut departures, mut told) = (Departures::default(), Vec::new());
    let mut from = serde_json::Deserializer::from_reader(BufReader::new(input::record(path)?));
    let read = each_entry(&mut from, &mut |entry| {
        if let Some(difference) = replay.take(entry) {
            departures.count(&difference);
            if told.len() < TOLD {
                told.push(difference);
            }
        }
        ControlFlow::Continue(())
    });
    read.and_then(|()| from.end())
        .map_err(|error| Failure::said(ErrorClass::Data, format!("{}: {error}", path.display())))?;
    let text = match as_json {
        true => format!("{}\n", json_escaped(&document(&replay, &departures, &told).to_string())),
        false => words(&replay, &departures, &told),
    };
    world.out.write_all(text.as_bytes())?;
    world.out.flush()?;
    if replay.steps == 0 && replay.snapshots == 0 {
        let why = "nothing to begin from: no snapshot is among the events";
        return Err(Failure::said(ErrorClass::Data, format!("{}: {why}", path.display())));
    }
    Ok(u8::from(departures.different > 0))
}

fn words(replay: &Replay, departures: &Departures, told: &[Difference]) -> String {
    let mut lines = vec![format!(
        "{} decided again, {}, from {}; {} as the steps before led to",
        count(replay.steps, "step"),
        count(replay.decisions, "decision"),
        count(replay.snapshots, "snapshot"),
        replay.confirmed
    )];
    let aside = [
        (replay.skipped, "step", "without a snapshot before, left out"),
        (replay.gaps, "gap", "in the record"),
        (departures.killed, "start", "after a daemon that was killed and did not record its last steps"),
    ];
    for (number, thing, what) in aside.into_iter().filter(|(number, ..)| *number > 0) {
        lines.push(format!("{} {what}", count(number, thing)));
    }
    lines.push(match departures.different {
        0 => "all is decided again as it was".to_owned(),
        different => format!("{} from the record", count(different, "difference")),
    });
    lines.extend(told.iter().map(|difference| match difference {
        Difference::Decisions { seq, event, then, now } => {
            format!("event {seq}: {}\n  then: {}\n  now:  {}", text(event), text(then), text(now))
        }
        Difference::State { seq, what, .. } => format!("snapshot {seq}: {what}"),
    }));
    lines.iter().flat_map(|line| line.split('\n')).map(|line| format!("{}\n", escaped(line))).collect()
}

fn document(replay: &Replay, departures: &Departures, told: &[Difference]) -> Value {
    let one = |difference: &Difference| match difference {
        Difference::Decisions { seq, event, then, now } => {
            json!({"seq": seq, "event": value(event), "then": value(then), "now": value(now)})
        }
        Difference::State { seq, what, at_start } => json!({"seq": seq, "state": what, "at_start": at_start}),
    };
    json!({
        "steps": replay.steps, "decisions": replay.decisions, "snapshots": replay.snapshots,
        "confirmed": replay.confirmed, "skipped": replay.skipped, "gaps": replay.gaps,
        "differences": departures.different, "killed": departures.killed, "first": told.iter().map(one).collect::<Vec<_>>(),
    })
}

fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

fn text(of: &impl Serialize) -> String {
    value(of).to_string()
}
