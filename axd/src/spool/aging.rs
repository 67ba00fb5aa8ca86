//! Removes what was refused after a while: its user may look at it, but it is not kept for ever. Old entries are
//! removed, and of too many the oldest, a few at a time.
//!
//! An entry's age counts from its last change of any kind, which was its renaming: the user can't set that time.
//! Folders stay, since what is in them is the user's business and may be a file system of their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use ax_core::id::Uid;
use ax_core::time::{Span, WallTime};
use ax_sys::SysError;
use ax_sys::path::{Dir, FileType, Names};

use super::places::Places;

/// How often it is looked for what has had its time.
const EVERY: Duration = Duration::from_secs(3600);
/// How long an entry stays.
const STAYS: Span = Span::seconds(30 * 86_400);
/// Most entries of a user: 2000 submissions, each with its reason.
const MOST: usize = 4000;
/// Names that are looked at in one step.
const STEP: usize = 500;

/// How far it has come.
#[derive(Default)]
pub(super) struct Aging {
    next: Option<Instant>,
    users: Option<Names>,
    shelf: Option<Shelf>,
}

/// The folder of a user that is being looked through.
struct Shelf {
    dir: Dir,
    names: Names,
    /// What may stay so far, the oldest on top.
    kept: BinaryHeap<Reverse<(i64, OsString)>>,
}

impl Aging {
    /// Whether there is more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.users.is_some() || self.shelf.is_some()
    }

    /// Goes on, or begins if it is time. One step is short. Says what stood in the way.
    pub(super) fn step(&mut self, places: &Places, at: Instant, now: WallTime) -> Result<(), SysError> {
        if !self.is_busy() {
            if self.next.is_some_and(|next| next > at) {
                return Ok(());
            }
            self.next = Some(at + EVERY);
            self.users = Some(places.refused.names()?);
        }
        let done = (0..STEP).try_for_each(|_| self.look(places, now));
        if done.is_err() {
            self.shelf = None;
        }
        done
    }

    fn look(&mut self, places: &Places, now: WallTime) -> Result<(), SysError> {
        let Some(shelf) = &mut self.shelf else {
            let Some(next) = self.users.as_mut().and_then(Iterator::next) else {
                self.users = None;
                return Ok(());
            };
            let name = next.inspect_err(|_| self.users = None)?.name;
            // Nobody but us makes names there, and ours are numbers.
            if name.to_str().is_some_and(|name| name.parse::<u32>().map(Uid).is_ok()) {
                let dir = places.refused.open_dir_unmounted(&name)?;
                self.shelf = Some(Shelf { names: dir.names()?, dir, kept: BinaryHeap::new() });
            }
            return Ok(());
        };
        match shelf.names.next() {
            None => self.shelf = None,
            Some(entry) => {
                let entry = entry?;
                if entry.file_type != Some(FileType::Directory) {
                    shelf.consider(entry.name, now);
                }
            }
        }
        Ok(())
    }
}

impl Shelf {
    /// Keeps an entry for now, or removes it or an older one. One that can't be removed is its user's, or is gone.
    fn consider(&mut self, name: OsString, now: WallTime) {
        let Ok(meta) = self.dir.stat_unmounted(&name) else { return };
        if meta.file_type == FileType::Directory {
            return;
        }
        if now - WallTime(meta.changed_ms) > STAYS {
            let _ = self.dir.unlink(&name);
            return;
        }
        self.kept.push(Reverse((meta.changed_ms, name)));
        if self.kept.len() > MOST
            && let Some(Reverse((_, oldest))) = self.kept.pop()
        {
            let _ = self.dir.unlink(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use ax_core::paths::Paths;
    use ax_sys::{clock, credentials};

    use super::*;
    use test_kit::TempDir;

    /// A spool of ours, and our folder of refused ones.
    fn spool(root: &Path) -> (Places, PathBuf) {
        let paths = Paths::under(root);
        let own = paths.refused().join(credentials::own().0.to_string());
        for folder in [&paths.incoming(), &paths.taken(), &own] {
            fs::create_dir_all(folder).unwrap();
        }
        (Places::open(&paths).unwrap(), own)
    }

    fn run(aging: &mut Aging, places: &Places, at: Instant, days: u64) {
        let now = WallTime(clock::wall_ms()) + Span::seconds(days * 86_400);
        aging.step(places, at, now).unwrap();
        while aging.is_busy() {
            aging.step(places, at, now).unwrap();
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_entry_goes_after_its_days_and_a_folder_and_strangers_stay() {
        let dir = TempDir::new();
        let (places, own) = spool(dir.path());
        fs::write(own.join("job.sh"), "x").unwrap();
        fs::write(own.join("job.sh.why"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", own.join("link")).unwrap();
        fs::create_dir(own.join("folder")).unwrap();
        fs::write(own.join("folder/x"), "x").unwrap();
        let other = own.with_file_name("no-number");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("x"), "x").unwrap();
        // What its owner says of its age does not count.
        let file = fs::File::open(own.join("job.sh")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let (mut aging, begun) = (Aging::default(), Instant::now());
        run(&mut aging, &places, begun, 29);
        assert_eq!(names(&own), ["folder", "job.sh", "job.sh.why", "link"]);
        run(&mut aging, &places, begun, 31);
        assert_eq!(names(&own).len(), 4, "not so soon again");
        run(&mut aging, &places, begun + EVERY, 31);
        assert_eq!(names(&own), ["folder"]);
        assert_eq!((names(&own.join("folder")).len(), names(&other).len()), (1, 1));
    }

    #[test]
    fn of_too_many_the_oldest_go() {
        let dir = TempDir::new();
        let (places, own) = spool(dir.path());
        for number in 0..3 {
            fs::write(own.join(format!("old-{number}")), "").unwrap();
        }
        // Times of files advance in steps of a timer.
        std::thread::sleep(Duration::from_millis(50));
        for number in 0..MOST {
            fs::write(own.join(number.to_string()), "").unwrap();
        }
        run(&mut Aging::default(), &places, Instant::now(), 0);
        let left = names(&own);
        assert_eq!(left.len(), MOST);
        assert!(!left.iter().any(|name| name.starts_with("old")));
    }
}
