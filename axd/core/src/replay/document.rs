//! A record as one JSON document, a list with an object for each entry: `axctl db events --json` prints it and `axctl
//! simulate` reads it. Handled entry by entry, since 30 days of them do not fit in memory.

use std::fmt;
use std::ops::ControlFlow;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::{Entry, Recorded, Step};
use crate::controller::{Decision, Event, Snapshot};
use crate::time::{BootTime, Now, WallTime};

/// `kind`, by which the others are there or not.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Snapshot,
    Step,
    Gap,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Entry", 6)?;
        object.serialize_field("seq", &self.seq)?;
        object.serialize_field("at", &self.now.wall)?;
        object.serialize_field("boot_ms", &self.now.boot)?;
        match &self.recorded {
            Recorded::Snapshot(snapshot) => {
                object.serialize_field("kind", &Kind::Snapshot)?;
                object.serialize_field("snapshot", snapshot)?;
            }
            Recorded::Step(step) => {
                object.serialize_field("kind", &Kind::Step)?;
                object.serialize_field("event", &step.event)?;
                object.serialize_field("decisions", &step.decisions)?;
            }
            Recorded::Gap => object.serialize_field("kind", &Kind::Gap)?,
        }
        object.end()
    }
}

#[derive(Deserialize)]
struct Document {
    seq: i64,
    at: WallTime,
    boot_ms: BootTime,
    kind: Kind,
    snapshot: Option<Box<Snapshot>>,
    event: Option<Event>,
    decisions: Option<Vec<Decision>>,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        let read = Document::deserialize(deserializer)?;
        let lacks = D::Error::missing_field;
        let recorded = match read.kind {
            Kind::Snapshot => Recorded::Snapshot(read.snapshot.ok_or_else(|| lacks("snapshot"))?),
            Kind::Step => Recorded::Step(Step {
                event: read.event.ok_or_else(|| lacks("event"))?,
                decisions: read.decisions.ok_or_else(|| lacks("decisions"))?,
            }),
            Kind::Gap => Recorded::Gap,
        };
        Ok(Entry { seq: read.seq, now: Now { boot: read.boot_ms, wall: read.at }, recorded })
    }
}

/// Reads a list of entries and hands over one after the other, until it is told to stop.
///
/// # Errors
/// What is no such list.
pub fn each_entry<'de, D: Deserializer<'de>>(
    from: D,
    take: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> Result<(), D::Error> {
    Entries(take).deserialize(from)
}

struct Entries<'a>(&'a mut dyn FnMut(Entry) -> ControlFlow<()>);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of recorded events, as `axctl db events --json` prints it")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(entry) = list.next_element()? {
            if (self.0)(entry).is_break() {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                break;
            }
        }
        Ok(())
    }
}
