//! Which processes have a card's file open although the driver lists no memory of theirs: children that keep the
//! memory of a parent that has ended, and processes that may hold unexplained memory. Looked for only if there is
//! such a question, and not at every look. Links are read, never followed: they may lead to a file server that does
//! not answer. Users decide how many processes there are, and a look must not be late because of them: a process that
//! could not be looked at in time is looked at the next time, and one that was found stays named until then.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};

use ax_core::id::Uid;

use super::holders;

/// At least so long between two searches, and so many times as long as the last one took.
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_TIMES: u32 = 20;

/// At most so many processes of a card are told.
const MOST: usize = 16;

/// How much one search may look at.
#[derive(Clone, Copy)]
struct Budget {
    /// In all; but at least one process is looked at.
    time: Duration,
    /// Open files of one process.
    files: usize,
}

const BUDGET: Budget = Budget { time: Duration::from_millis(300), files: 4096 };

/// A daemon that has every card open all the time and holds no memory there.
const PERSISTENCE: &str = "nvidia-persiste";

/// Its user, if not root.
const PERSISTENCE_USER: &str = "nvidia-persistenced";

/// A process: its number and its start, since numbers are used again.
type Process = (i32, u64);

/// Processes, by the card's minor number.
type Found = BTreeMap<u32, Vec<Process>>;

/// What has been found in all that was looked at.
#[derive(Default)]
pub(super) struct Openers {
    found: Found,
    /// When the next search may begin.
    next: Option<Instant>,
    /// The next search begins after this process.
    behind: i32,
}

impl Openers {
    /// The processes with this card open that are not in `listed`.
    pub(super) fn of(&mut self, minor: u32, listed: &[i32]) -> Vec<i32> {
        self.with(minor).filter(|pid| !listed.contains(pid)).take(MOST).collect()
    }

    /// Whether this process has the card open, as far as that has been looked at.
    pub(super) fn has(&mut self, minor: u32, pid: i32) -> bool {
        self.with(minor).any(|other| other == pid)
    }

    fn with(&mut self, minor: u32) -> impl Iterator<Item = i32> {
        let proc = Path::new("/proc");
        self.refresh(PAUSE, |behind| search(proc, behind, BUDGET), |process| is_there(proc, process));
        self.found.get(&minor).into_iter().flatten().map(|(pid, _)| *pid)
    }

    fn refresh(
        &mut self,
        pause: Duration,
        search: impl FnOnce(i32) -> Search,
        is_there: impl Fn(Process) -> bool,
    ) {
        let begun = Instant::now();
        if self.next.is_some_and(|next| begun < next) {
            return;
        }
        let search = search(self.behind);
        let known = |process: &Process| !search.looked_at.contains(&process.0) && is_there(*process);
        self.found.values_mut().for_each(|pids| pids.retain(known));
        for (card, pids) in search.found {
            self.found.entry(card).or_default().extend(pids);
        }
        self.behind = search.behind;
        // Counted from its end: a search that took long is not old at once.
        let end = Instant::now();
        self.next = Some(end + pause.max((end - begun) * PAUSE_TIMES));
    }
}

/// What one search has found.
#[derive(Default)]
struct Search {
    found: Found,
    /// The processes whose files were looked at.
    looked_at: BTreeSet<i32>,
    /// The next search begins after this process.
    behind: i32,
}

/// Looks at the processes after `behind`, then at those up to it, as far as the time allows.
fn search(proc: &Path, behind: i32, budget: Budget) -> Search {
    let end = Instant::now() + budget.time;
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let all: BTreeSet<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let after = (Bound::Excluded(behind), Bound::Unbounded);
    let mut this = Search { behind, ..Search::default() };
    for pid in all.range(after).chain(all.range(..=behind)) {
        this.look_at(&proc.join(pid.to_string()), *pid, budget);
        if Instant::now() >= end {
            break;
        }
    }
    this
}

impl Search {
    fn look_at(&mut self, folder: &Path, pid: i32, budget: Budget) {
        self.behind = pid;
        self.looked_at.insert(pid);
        let Some(start) = start(folder).filter(|_| pid.unsigned_abs() != std::process::id()) else { return };
        if is_persistence(folder) {
            return;
        }
        let links = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten().take(budget.files);
        let mut cards: Vec<u32> =
            links.filter_map(|link| minor(&std::fs::read_link(link.path()).ok()?)).collect();
        cards.sort_unstable();
        cards.dedup();
        cards.into_iter().for_each(|card| self.found.entry(card).or_default().push((pid, start)));
    }
}

/// A process's start, from the kernel's `stat`: the 20th word after its name, which may contain anything.
fn start(folder: &Path) -> Option<u64> {
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn is_there(proc: &Path, (pid, began): Process) -> bool {
    start(&proc.join(pid.to_string())) == Some(began)
}

/// Only the user proves it: a process can choose its name.
fn is_persistence(folder: &Path) -> bool {
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    name.trim_end() == PERSISTENCE
        && holders::user(folder).is_some_and(|uid| uid == Uid(0) || Some(uid) == persistence_user())
}

/// From this machine's own file of users: a name service may not answer.
fn persistence_user() -> Option<Uid> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(PERSISTENCE_USER))?;
    line.split(':').nth(2)?.parse().ok().map(Uid)
}

/// The minor number, 3 for `/dev/nvidia3`.
fn minor(file: &Path) -> Option<u32> {
    file.to_str()?.strip_prefix("/dev/nvidia")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    fn process(proc: &Path, pid: u32, uid: u32, name: &str, files: &[&str]) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
        std::fs::write(folder.join("status"), format!("Name:\t{name}\nUid:\t{uid}\t0\t0\t0\n")).unwrap();
        began(proc, pid, 5);
        for (number, file) in files.iter().enumerate() {
            std::os::unix::fs::symlink(file, folder.join("fd").join(number.to_string())).unwrap();
        }
    }

    fn began(proc: &Path, pid: u32, start: u64) {
        let before = "0 ".repeat(18);
        std::fs::write(proc.join(format!("{pid}/stat")), format!("{pid} (a) b) S {before}{start} 0\n"))
            .unwrap();
    }

    const AMPLE: Budget = Budget { time: Duration::from_secs(600), files: 100 };

    #[test]
    fn the_persistence_daemon_is_one_only_as_root_s_or_its_user_s() {
        let dir = TempDir::new();
        process(dir.path(), 101, 1000, "python3", &["/dev/null", "/dev/nvidia3", "/dev/nvidia3"]);
        process(dir.path(), 102, 1000, PERSISTENCE, &["/dev/nvidia3", "/dev/nvidiactl"]);
        process(dir.path(), 103, 0, PERSISTENCE, &["/dev/nvidia3", "/dev/nvidia0"]);
        let mut found = search(dir.path(), 0, AMPLE).found;
        found.values_mut().for_each(|pids| pids.sort_unstable());
        assert_eq!(found, Found::from([(3, vec![(101, 5), (102, 5)])]));
    }

    #[test]
    fn so_many_files_of_a_process_are_looked_at() {
        let dir = TempDir::new();
        let files: Vec<String> = (0..50).map(|number| format!("/dev/nvidia{number}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        process(dir.path(), 101, 1000, "python3", &files);
        process(dir.path(), 102, 1000, "python3", &files);
        let looked = |budget| search(dir.path(), 0, budget).found.values().map(Vec::len).sum::<usize>();
        assert_eq!(looked(AMPLE), 100);
        assert_eq!(looked(Budget { files: 5, ..AMPLE }), 10, "of each process");
    }

    #[test]
    fn whom_the_time_was_too_short_for_is_looked_at_the_next_time() {
        let dir = TempDir::new();
        for pid in [7, 30, 101, 4000] {
            process(dir.path(), pid, 1000, "python3", &["/dev/nvidia3"]);
        }
        let none = Budget { time: Duration::ZERO, ..AMPLE };
        let mut openers = Openers::default();
        let look = |openers: &mut Openers| {
            openers.next = None;
            let search = |behind| search(dir.path(), behind, none);
            openers.refresh(Duration::ZERO, search, |process| is_there(dir.path(), process));
            let mut found: Vec<i32> = openers.found[&3].iter().map(|(pid, _)| *pid).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(look(&mut openers), [7], "one at least");
        assert_eq!(look(&mut openers), [7, 30]);
        // A process that has gone is not named any more, and a new one has its turn.
        std::fs::remove_dir_all(dir.path().join("7")).unwrap();
        process(dir.path(), 8, 1000, "python3", &["/dev/nvidia3"]);
        assert_eq!(look(&mut openers), [30, 101]);
        assert_eq!(look(&mut openers), [30, 101, 4000]);
        assert_eq!(look(&mut openers), [8, 30, 101, 4000], "from the beginning again");
        // A process that has closed the file is named until it is looked at again.
        std::fs::remove_file(dir.path().join("30/fd/0")).unwrap();
        assert_eq!(look(&mut openers), [8, 101, 4000]);
        assert_eq!(look(&mut openers), [8, 101, 4000], "once, however often it is looked at");
        // Another process has its number now: what it has open is not known yet.
        began(dir.path(), 8, 6);
        assert_eq!(look(&mut openers), [101, 4000]);
    }

    #[test]
    fn a_search_that_takes_long_is_not_old_at_once_and_the_next_comes_later() {
        let seven = || Found::from([(3, vec![(7, 5)])]);
        let mut openers = Openers::default();
        let slow = |_| {
            std::thread::sleep(Duration::from_millis(500));
            Search { found: seven(), ..Search::default() }
        };
        openers.refresh(Duration::from_millis(1), slow, |_| true);
        let rest = openers.next.unwrap() - Instant::now();
        assert!(rest > Duration::from_secs(5), "{rest:?}");
        openers.refresh(Duration::from_millis(1), |_| panic!("for another card of the same look"), |_| true);
        assert_eq!(openers.found, seven());
        openers.next = Some(Instant::now());
        openers.refresh(Duration::ZERO, |_| Search::default(), |_| false);
        assert!(openers.found.values().all(Vec::is_empty));
    }
}
