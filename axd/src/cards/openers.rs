//! Who has the file of a card open without having memory there by the driver's word: children that keep the memory of a
//! parent that has ended, and whoever may hold what nobody accounts for. Looked for only when there is such a question,
//! and not at every look. Links are read, never followed: what they lead to may be a file server that does not answer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two searches.
const PAUSE: Duration = Duration::from_secs(2);

/// So many of a card are told.
const MOST: usize = 16;

/// Has every card open all the time, and holds nothing there.
const PERSISTENCE: &str = "nvidia-persiste";

/// What the last search has found: processes, by the card's minor number.
#[derive(Default)]
pub(super) struct Openers {
    last: Option<(Instant, BTreeMap<u32, Vec<i32>>)>,
}

impl Openers {
    /// Those of a card who are none of these.
    pub(super) fn of(&mut self, minor: u32, listed: &[i32]) -> Vec<i32> {
        if self.last.as_ref().is_none_or(|(at, _)| at.elapsed() >= PAUSE) {
            self.last = Some((Instant::now(), search()));
        }
        let found = self.last.as_ref().and_then(|(_, found)| found.get(&minor));
        let others = found.into_iter().flatten().filter(|pid| !listed.contains(pid));
        others.take(MOST).copied().collect()
    }
}

fn search() -> BTreeMap<u32, Vec<i32>> {
    let mut found: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
    let own = std::process::id();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let folder = entry.path();
        let command = || std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
        if pid.unsigned_abs() == own || command().trim_end() == PERSISTENCE {
            continue;
        }
        let links = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let mut cards: Vec<u32> =
            links.filter_map(|link| minor(&std::fs::read_link(link.path()).ok()?)).collect();
        cards.sort_unstable();
        cards.dedup();
        cards.into_iter().for_each(|card| found.entry(card).or_default().push(pid));
    }
    found
}

/// Of `/dev/nvidia3` 3.
fn minor(file: &std::path::Path) -> Option<u32> {
    file.to_str()?.strip_prefix("/dev/nvidia")?.parse().ok()
}
