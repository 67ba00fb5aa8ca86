//! The text file: what it says of cards, processes and switches.

use std::collections::BTreeMap;

/// What a line of the file can't be read for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine(pub(crate) String);

/// A card, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Card {
    pub(crate) uuid: String,
    /// Of a part: the card that it is of, and its numbers there.
    pub(crate) part: Option<Part>,
    /// Everything else, as written.
    pub(crate) fields: BTreeMap<String, String>,
}

/// Which part of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) parent: String,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

impl Card {
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// A number; `None` where the file has none, which the library calls "not supported".
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

/// A process with memory on a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) card: String,
    /// MiB; `None`: the driver does not say.
    pub(crate) memory: Option<u64>,
    pub(crate) kind: Kind,
    /// It is there even if no such process is.
    pub(crate) stays: bool,
}

/// In which of the library's lists a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    #[default]
    Compute,
    Graphics,
    Both,
    Mps,
}

/// An error that is to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Xid {
    pub(crate) card: String,
    pub(crate) number: u64,
    pub(crate) gpu_instance: Option<u32>,
}

/// A call, of one card or of any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) call: String,
    pub(crate) card: Option<String>,
    /// The library's number, for failures; milliseconds, for what is slow.
    pub(crate) status: u32,
}

impl Switch {
    fn meets(&self, call: &str, card: Option<&str>) -> bool {
        self.call == call && (self.card.is_none() || self.card.as_deref() == card)
    }
}

/// All that the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) driver: Option<String>,
    pub(crate) cuda: Option<String>,
    pub(crate) cards: Vec<Card>,
    pub(crate) parts: Vec<Card>,
    /// Both ends and the lanes; the other end `None`: a switch.
    pub(crate) links: Vec<(String, Option<String>, u32)>,
    pub(crate) processes: Vec<Process>,
    pub(crate) xids: Vec<Xid>,
    pub(crate) lost: Vec<String>,
    /// MiB that a group is said to use of a card.
    pub(crate) uses: Vec<(String, String, u64)>,
    /// Whether every call is logged.
    pub(crate) trace: bool,
    hangs: Vec<Switch>,
    slow: Vec<Switch>,
    crashes: Vec<Switch>,
    failures: Vec<Switch>,
}

impl Script {
    pub(crate) fn read(text: &str) -> Result<Script, BadLine> {
        let mut script = Script::default();
        for line in text.lines() {
            let words: Vec<&str> =
                line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
            if let [what, rest @ ..] = words.as_slice() {
                script.line(what, rest).ok_or_else(|| BadLine(line.to_owned()))?;
            }
        }
        Ok(script)
    }

    fn line(&mut self, what: &str, words: &[&str]) -> Option<()> {
        let owned = |word: &&str| (**word).to_owned();
        match (what, words) {
            ("driver", [version]) => self.driver = Some(owned(version)),
            ("cuda", [version]) => self.cuda = Some(owned(version)),
            ("card", [uuid, fields @ ..]) => self.cards.push(card(uuid, fields)?),
            ("mig", [uuid, fields @ ..]) => self.parts.push(part(uuid, fields)?),
            ("link", [a, b, lanes]) => self.links.push((owned(a), Some(owned(b)), lanes.parse().ok()?)),
            ("switch", [a, lanes]) => self.links.push((owned(a), None, lanes.parse().ok()?)),
            ("process", [pid, card, memory, rest @ ..]) => {
                self.processes.push(process(pid, card, memory, rest)?);
            }
            ("xid", [card, number, rest @ ..]) => {
                let gpu_instance = rest.first().and_then(|word| word.strip_prefix("gi="));
                let gpu_instance = gpu_instance.map(str::parse).transpose().ok()?;
                self.xids.push(Xid { card: owned(card), number: number.parse().ok()?, gpu_instance });
            }
            ("hang", [call, card @ ..]) => self.hangs.push(switch(call, card, 0)),
            ("slow", [call, ms, card @ ..]) => self.slow.push(switch(call, card, ms.parse().ok()?)),
            ("crash", [call, card @ ..]) => self.crashes.push(switch(call, card, 0)),
            ("fail", [call, status, card @ ..]) => {
                self.failures.push(switch(call, card, status.parse().ok()?));
            }
            ("absent", calls) => self.failures.extend(calls.iter().map(|call| switch(call, &[], 13))),
            ("lost", [card]) => self.lost.push(owned(card)),
            ("uses", [card, group, memory]) => {
                self.uses.push((owned(card), owned(group), memory.parse().ok()?));
            }
            ("trace", []) => self.trace = true,
            _ => return None,
        }
        Some(())
    }

    pub(crate) fn hangs(&self, call: &str, card: Option<&str>) -> bool {
        self.hangs.iter().any(|hang| hang.meets(call, card))
    }

    /// Milliseconds that a call takes.
    pub(crate) fn takes(&self, call: &str, card: Option<&str>) -> Option<u32> {
        self.slow.iter().find(|slow| slow.meets(call, card)).map(|slow| slow.status)
    }

    pub(crate) fn crashes(&self, call: &str, card: Option<&str>) -> bool {
        self.crashes.iter().any(|crash| crash.meets(call, card))
    }

    pub(crate) fn failure(&self, call: &str, card: Option<&str>) -> Option<u32> {
        self.failures.iter().find(|failure| failure.meets(call, card)).map(|failure| failure.status)
    }

    /// The card or part of that name.
    pub(crate) fn find(&self, uuid: &str) -> Option<&Card> {
        self.cards.iter().chain(&self.parts).find(|card| card.uuid == uuid)
    }

    pub(crate) fn parts_of<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = &'a Card> {
        self.parts.iter().filter(move |card| card.part.as_ref().is_some_and(|part| part.parent == parent))
    }

    /// Whether a card, or the card that it is a part of, is lost.
    pub(crate) fn is_lost(&self, card: &Card) -> bool {
        let parent = card.part.as_ref().map(|part| &part.parent);
        self.lost.iter().any(|lost| *lost == card.uuid || Some(lost) == parent)
    }

    /// Whether a card is divided.
    pub(crate) fn is_divided(&self, card: &Card) -> bool {
        card.text("mig") == Some("on") || self.parts_of(&card.uuid).next().is_some()
    }

    /// The other ends of a card's links, one entry a lane.
    pub(crate) fn lanes(&self, uuid: &str) -> Vec<Option<String>> {
        let ends = self.links.iter().flat_map(|(a, b, lanes)| {
            let other = match b {
                Some(b) if b == uuid => Some(Some(a.clone())),
                other if a == uuid => Some(other.clone()),
                _ => None,
            };
            other.map(|end| vec![end; *lanes as usize]).unwrap_or_default()
        });
        ends.collect()
    }
}

fn card(uuid: &str, words: &[&str]) -> Option<Card> {
    let field = |word: &&str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let fields = words.iter().map(field).collect::<Option<_>>()?;
    Some(Card { uuid: uuid.to_owned(), part: None, fields })
}

fn part(uuid: &str, words: &[&str]) -> Option<Card> {
    let mut card = card(uuid, words)?;
    card.part = Some(Part {
        parent: card.text("parent")?.to_owned(),
        gpu_instance: card.text("gi")?.parse().ok()?,
        compute_instance: card.text("ci")?.parse().ok()?,
    });
    Some(card)
}

fn process(pid: &str, card: &str, memory: &str, rest: &[&str]) -> Option<Process> {
    let memory = match memory {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    let mut process =
        Process { pid: pid.parse().ok()?, card: card.to_owned(), memory, kind: Kind::Compute, stays: false };
    for word in rest {
        match *word {
            "compute" => process.kind = Kind::Compute,
            "graphics" => process.kind = Kind::Graphics,
            "both" => process.kind = Kind::Both,
            "mps" => process.kind = Kind::Mps,
            "stays" => process.stays = true,
            _ => return None,
        }
    }
    Some(process)
}

fn switch(call: &str, card: &[&str], status: u32) -> Switch {
    Switch { call: call.to_owned(), card: card.first().map(|card| (*card).to_owned()), status }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_a_bad_line_is_named() {
        let text = "# two cards\ncard GPU-a minor=0 memory=81920\ncard GPU-b\nmig MIG-x parent=GPU-b gi=1 ci=0\n\
                    link GPU-a GPU-b 2\nprocess 4711 GPU-a - mps\nxid GPU-a 79\nhang nvmlInit_v2\nabsent nvmlX\n";
        let script = Script::read(text).unwrap();
        assert_eq!(script.cards[0].number("memory"), Some(81_920));
        assert_eq!(script.lanes("GPU-b"), [Some("GPU-a".to_owned()), Some("GPU-a".to_owned())]);
        assert!(script.is_divided(&script.cards[1]) && !script.is_divided(&script.cards[0]));
        assert!(script.hangs("nvmlInit_v2", None) && !script.hangs("nvmlInit_v2x", None));
        assert_eq!(script.failure("nvmlX", Some("GPU-a")), Some(13));
        assert_eq!(script.processes[0].kind, Kind::Mps);
        for bad in ["crad GPU-a", "card GPU-a memory", "process x GPU-a 3", "process 1 GPU-a 3 odd"] {
            assert_eq!(Script::read(bad), Err(BadLine(bad.to_owned())));
        }
    }
}
