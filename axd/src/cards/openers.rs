//! Who has the file of a card open without having memory there by the driver's word: children that keep the memory of a
//! parent that has ended, and whoever may hold what nobody accounts for. Looked for only when there is such a question,
//! and not at every look. Links are read, never followed: what they lead to may be a file server that does not answer.
//! How many there are is up to users, and a look must not be late for them: whom the time is too short for is not named.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ax_core::id::Uid;

use super::holders;

/// Between two searches, at least; and so many times what the last one took.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_TIMES: u32 = 20;

/// So many of a card are told.
const MOST: usize = 16;

/// How much one search may look at.
#[derive(Clone, Copy)]
struct Budget {
    /// In all.
    time: Duration,
    /// Open files of one process.
    files: usize,
}

const BUDGET: Budget = Budget { time: Duration::from_millis(300), files: 4096 };

/// Has every card open all the time, and holds nothing there.
const PERSISTENCE: &str = "nvidia-persiste";

/// Whose it is, if not root's.
const PERSISTENCE_USER: &str = "nvidia-persistenced";

/// Processes, by the card's minor number.
type Found = BTreeMap<u32, Vec<i32>>;

/// What the last search has found.
#[derive(Default)]
pub(super) struct Openers {
    found: Found,
    /// When there may be another.
    next: Option<Instant>,
}

impl Openers {
    /// Those of a card who are none of these.
    pub(super) fn of(&mut self, minor: u32, listed: &[i32]) -> Vec<i32> {
        self.refresh(PAUSE, || search(Path::new("/proc"), BUDGET));
        let found = self.found.get(&minor).into_iter().flatten();
        found.filter(|pid| !listed.contains(pid)).take(MOST).copied().collect()
    }

    fn refresh(&mut self, pause: Duration, search: impl FnOnce() -> Found) {
        let begun = Instant::now();
        if self.next.is_some_and(|next| begun < next) {
            return;
        }
        self.found = search();
        // From its end: one that took long is not old at once.
        let end = Instant::now();
        self.next = Some(end + pause.max((end - begun) * PAUSE_TIMES));
    }
}

fn search(proc: &Path, budget: Budget) -> Found {
    let end = Instant::now() + budget.time;
    let mut found = Found::new();
    let own = std::process::id();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let folder = entry.path();
        if pid.unsigned_abs() == own || is_persistence(&folder) {
            continue;
        }
        let links = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let links = links.take(budget.files).take_while(|_| Instant::now() < end);
        let mut cards: Vec<u32> =
            links.filter_map(|link| minor(&std::fs::read_link(link.path()).ok()?)).collect();
        cards.sort_unstable();
        cards.dedup();
        cards.into_iter().for_each(|card| found.entry(card).or_default().push(pid));
        if Instant::now() >= end {
            break;
        }
    }
    found
}

/// Names are anybody's to choose.
fn is_persistence(folder: &Path) -> bool {
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    name.trim_end() == PERSISTENCE
        && holders::user(folder).is_some_and(|uid| uid == Uid(0) || Some(uid) == persistence_user())
}

/// By the file of this machine's own users alone: a name service may not answer.
fn persistence_user() -> Option<Uid> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(PERSISTENCE_USER))?;
    line.split(':').nth(2)?.parse().ok().map(Uid)
}

/// Of `/dev/nvidia3` 3.
fn minor(file: &Path) -> Option<u32> {
    file.to_str()?.strip_prefix("/dev/nvidia")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::TempDir;

    fn process(proc: &Path, pid: u32, uid: u32, name: &str, files: &[&str]) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(folder.join("status"), format!("Name:\t{name}\nUid:\t{uid}\t0\t0\t0\n")).unwrap();
        for (number, file) in files.iter().enumerate() {
            std::os::unix::fs::symlink(file, folder.join("fd").join(number.to_string())).unwrap();
        }
    }

    const AMPLE: Budget = Budget { time: Duration::from_secs(600), files: 100 };

    #[test]
    fn the_persistence_daemon_is_one_only_as_root_s_or_its_user_s() {
        let dir = TempDir::new();
        process(dir.path(), 101, 1000, "python3", &["/dev/null", "/dev/nvidia3", "/dev/nvidia3"]);
        process(dir.path(), 102, 1000, PERSISTENCE, &["/dev/nvidia3", "/dev/nvidiactl"]);
        process(dir.path(), 103, 0, PERSISTENCE, &["/dev/nvidia3", "/dev/nvidia0"]);
        let mut found = search(dir.path(), AMPLE);
        found.values_mut().for_each(|pids| pids.sort_unstable());
        assert_eq!(found, Found::from([(3, vec![101, 102])]));
    }

    #[test]
    fn what_the_time_is_too_short_for_is_not_looked_at() {
        let dir = TempDir::new();
        let files: Vec<String> = (0..50).map(|number| format!("/dev/nvidia{number}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        process(dir.path(), 101, 1000, "python3", &files);
        process(dir.path(), 102, 1000, "python3", &files);
        let looked = |budget| search(dir.path(), budget).values().map(Vec::len).sum::<usize>();
        assert_eq!(looked(AMPLE), 100);
        assert_eq!(looked(Budget { files: 5, ..AMPLE }), 10, "of each process");
        assert_eq!(looked(Budget { time: Duration::ZERO, ..AMPLE }), 0);
    }

    #[test]
    fn a_search_that_takes_long_is_not_old_at_once_and_the_next_comes_later() {
        let mut openers = Openers::default();
        let slow = || {
            std::thread::sleep(Duration::from_millis(500));
            Found::from([(3, vec![7])])
        };
        openers.refresh(Duration::from_millis(1), slow);
        let rest = openers.next.unwrap() - Instant::now();
        assert!(rest > Duration::from_secs(5), "{rest:?}");
        openers.refresh(Duration::from_millis(1), || panic!("for another card of the same look"));
        assert_eq!(openers.found, Found::from([(3, vec![7])]));
        openers.next = Some(Instant::now());
        openers.refresh(Duration::ZERO, Found::new);
        assert!(openers.found.is_empty());
    }
}
