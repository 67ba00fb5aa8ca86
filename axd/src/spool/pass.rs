//! One pass: looks at folders, takes one file from each in turn, makes all of them durable in `taken/`, then reads
//! them and hands them to the loop. Also the rescan, which makes every folder due from time to time, with or without
//! hints.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use ax_core::id::Uid;
use ax_core::time::{Span, WallTime};
use ax_sys::clock;
use ax_sys::path::{FileType, Meta};

use super::News;
use super::folder::{Folder, Unusable};
use super::ingest::Ingest;
use super::name::{is_hidden, shown};
use super::places::Places;
use super::take::{Found, Taken, read, take, take_up};

/// A rescan where the watch sees all, and where it does not.
const RESCAN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(2);
/// A long rescan is followed by a longer rest.
const REST: u32 = 20;
/// Names of `incoming/` that are read at once.
const WALK: usize = 1000;
/// Folders that are looked at in a pass.
const FOLDERS: usize = 256;
/// Folders with more in them that are kept open.
const KEPT_OPEN: usize = 64;
/// Empty folders of a name that `axbatch` made up go after this.
const EMPTY_STAYS: Span = Span::seconds(24 * 3600);

/// A folder and its name.
type Named = (OsString, Folder);

impl Ingest {
    /// What an earlier daemon had taken is submitted again, under the same key.
    pub(super) fn take_up_left(&mut self) {
        let left = Places::open(&self.paths).and_then(|places| {
            let left = places.left();
            self.places = Some(places);
            left
        });
        match left {
            Ok((left, foreign)) => {
                self.left = left.into();
                if foreign > 0 {
                    self.say(
                        "spool_ignored",
                        None,
                        "taken",
                        &format!("{foreign} names in it are none of axd's"),
                    );
                }
            }
            Err(error) => self.failed("spool", None, &error),
        }
    }

    /// Makes the next folders due, if it is time.
    pub(super) fn rescan(&mut self) {
        if self.walk.is_none() && Instant::now() >= self.next_rescan {
            self.begin_rescan();
        }
        if self.due.len() >= WALK {
            return;
        }
        let Some((mut names, since)) = self.walk.take() else { return };
        for _ in 0..WALK {
            match names.next() {
                None => return self.end_rescan(since),
                Some(Err(error)) => {
                    self.failed("spool", None, &error);
                    return self.end_rescan(since);
                }
                Some(Ok(entry)) if entry.file_type.is_some_and(|t| t != FileType::Directory) => {
                    let places = self.places.take();
                    self.ignored(
                        places.as_ref(),
                        &entry.name,
                        "it is no folder; drops belong into a folder of one's own",
                    );
                    self.places = places;
                }
                Some(Ok(entry)) => self.due.push(entry.name),
            }
        }
        self.walk = Some((names, since));
    }

    fn begin_rescan(&mut self) {
        let begun = Places::open(&self.paths).and_then(|places| {
            let meta = Meta::of(&places.incoming)?;
            // Watched first, looked at then.
            let watched = self.watched.add_top((meta.device, meta.inode));
            let names = places.incoming.names()?;
            self.places = Some(places);
            Ok((names, watched))
        });
        match begun {
            Ok((names, watched)) => {
                self.walk = Some((names, Instant::now()));
                if let Err(why) = watched {
                    self.say("spool_watch", None, "incoming", &why.to_string());
                }
                for name in self.watched.names() {
                    self.due.push(name);
                }
            }
            Err(error) => {
                self.failed("spool", None, &error);
                self.next_rescan = Instant::now() + POLL;
            }
        }
    }

    fn end_rescan(&mut self, since: Instant) {
        let shared = self.places.as_ref().is_some_and(|places| places.shared);
        let usual = if self.watched.sees_all() && !shared { RESCAN } else { POLL };
        self.next_rescan = Instant::now() + usual.max(since.elapsed() * REST);
    }

    /// Takes what may be taken now.
    pub(super) fn pass(&mut self) {
        let Some(places) = self.places.take() else { return };
        let mut taken = self.taken_before(&places);
        taken.extend(self.taken_now(&places));
        self.places = Some(places);
        // Should this fail, a loss of power might bring a script back under a new key.
        self.make_durable(&taken);
        taken.sort_by_key(|each| (each.meta.modified_ms, each.name.key));
        for each in taken {
            self.hand_over(each);
        }
    }

    /// Files that are in `taken/` already.
    fn taken_before(&mut self, places: &Places) -> Vec<Taken> {
        let now = Instant::now();
        let mut taken = Vec::new();
        for name in std::mem::take(&mut self.left) {
            if self.users.allowance(name.uid, now) == 0 {
                self.left.push_back(name);
                continue;
            }
            match take_up(places, name) {
                Ok(each) => {
                    self.users.taken(each.name.uid, each.bytes());
                    taken.push(each);
                }
                Err(error) => self.failed("spool", None, &error),
            }
        }
        taken
    }

    /// Files that are taken now, one from each folder in turn.
    fn taken_now(&mut self, places: &Places) -> Vec<Taken> {
        let now = Instant::now();
        let mut folders: Vec<Named> = Vec::new();
        while folders.len() < FOLDERS
            && let Some(name) = self.due.pop()
        {
            folders.extend(self.look(places, &name).map(|folder| (name, folder)));
        }
        let mut taken = Vec::new();
        let mut more = true;
        while std::mem::take(&mut more) {
            for (name, folder) in &mut folders {
                if self.users.allowance(folder.owner, now) == 0 {
                    continue;
                }
                let Some(file) = self.next_of(places, name, folder) else { continue };
                more = true;
                match take(places, folder, name, &file) {
                    Ok(None) => {}
                    Ok(Some(each)) => {
                        self.users.taken(each.name.uid, each.bytes());
                        taken.push(each);
                    }
                    Err(error) => self.ignored(Some(places), name, &format!("{}: {error}", shown(&file))),
                }
            }
        }
        for (name, folder) in folders {
            self.put_away(places, name, folder, now);
        }
        taken
    }

    fn next_of(&mut self, places: &Places, name: &OsStr, folder: &mut Folder) -> Option<OsString> {
        folder.next().unwrap_or_else(|error| {
            self.ignored(Some(places), name, &error.to_string());
            None
        })
    }

    /// Opens a folder, or goes on with one that was begun.
    fn look(&mut self, places: &Places, name: &OsStr) -> Option<Folder> {
        if let Some(folder) = self.begun.remove(name) {
            return Some(folder);
        }
        if is_hidden(name) {
            return None;
        }
        match Folder::open(places, name) {
            Ok(folder) => {
                // Watched first, read then.
                if let Err(why) = self.watched.add(name, &folder) {
                    self.say("spool_watch", Some(folder.owner), &shown(name), &why.to_string());
                }
                Some(folder)
            }
            Err(Unusable::Gone) => {
                self.watched.forget(name);
                None
            }
            Err(Unusable::Ignored(why)) => {
                self.watched.forget(name);
                self.ignored(Some(places), name, &why);
                None
            }
        }
    }

    /// What happens next to a folder after its turn.
    fn put_away(&mut self, places: &Places, name: OsString, folder: Folder, now: Instant) {
        if !folder.has_more() {
            if folder.again {
                self.due.push(name);
            } else if is_stale(&name, &folder) && places.incoming.remove_dir(&name).is_ok() {
                self.watched.forget(&name);
            }
            return;
        }
        match self.users.allowance(folder.owner, now) {
            0 => self.users.wait(folder.owner, name.clone()),
            _ => self.due.push(name.clone()),
        }
        if self.begun.len() < KEPT_OPEN {
            self.begun.insert(name, folder);
        }
    }

    /// To a journal a rename is one change, so that with the new name the loss of the old one is kept too.
    fn make_durable(&mut self, taken: &[Taken]) {
        let synced = match &self.places {
            Some(places) if !taken.is_empty() => places.taken.sync(),
            _ => Ok(()),
        };
        if let Err(error) = synced {
            self.failed("spool", None, &error);
        }
    }

    /// Reads a file and gives it to the loop, or says at once what becomes of it.
    fn hand_over(&mut self, taken: Taken) {
        let Some(places) = &self.places else { return };
        let found = read(places, &taken);
        let (uid, bytes) = (taken.name.uid, taken.bytes());
        let wait = match found {
            Found::Drop(arrival) => {
                self.under_way.insert(taken.id(), taken);
                return self.tell(News::Arrived(arrival));
            }
            Found::Refused(why) => {
                let (name, key) = (shown(&taken.name.name), taken.name.key);
                self.tell(News::Refused { uid, key, name, why: why.clone() });
                self.refuse(taken.name, &why)
            }
            // Its closing is a hint, and the next rescan comes anyhow.
            Found::Busy => match self.restore(taken) {
                Some(_) => None,
                None => Some("a file in 'taken' is still being written to".to_owned()),
            },
            Found::Failed(error) if error.kind() == ErrorKind::NotFound => None,
            Found::Failed(error) => {
                self.failed("spool", Some(uid), &error);
                self.put_back(taken);
                Some(error.to_string())
            }
        };
        self.ended(uid, bytes, wait.as_deref());
    }
}

/// A folder that `axbatch` made because its user's plain name was somebody else's, long empty.
fn is_stale(name: &OsStr, folder: &Folder) -> bool {
    let made_up = name.to_str().and_then(|name| name.split_once('-')).and_then(|(uid, _)| uid.parse().ok());
    let age = WallTime(clock::wall_ms()) - WallTime(folder.modified_ms);
    folder.empty && made_up.map(Uid) == Some(folder.owner) && age > EMPTY_STAYS
}
