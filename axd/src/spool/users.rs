//! Bounds how much is taken of each user: so many files and bytes under way, so that no user's flood delays another's
//! drop, and a pause for those who were told to come later. Knows no files; folders are names that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use ax_core::id::Uid;

/// Files of a user that are under way at a time.
const MOST_FILES: usize = 100;
/// Bytes of a user that are under way at a time; one file may go beyond.
const MOST_BYTES: u64 = 16 << 20;
/// Files of all users that are under way at a time.
const MOST_OF_ALL: usize = 1000;
/// The first pause, which doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// All users with something under way or waiting.
#[derive(Debug, Default)]
pub(super) struct Users {
    all: BTreeMap<Uid, User>,
    under_way: usize,
}

#[derive(Debug, Default)]
struct User {
    under_way: usize,
    bytes: u64,
    pause: Option<Pause>,
    /// Folders to look at when there is room again.
    waiting: BTreeSet<OsString>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl User {
    fn allowance(&self, now: Instant) -> usize {
        let most = match self.pause {
            Some(pause) if now < pause.until => 0,
            // One tries whether the time has come.
            Some(_) => 1,
            None => MOST_FILES,
        };
        if self.bytes >= MOST_BYTES { 0 } else { most.saturating_sub(self.under_way) }
    }

    fn is_idle(&self) -> bool {
        self.under_way == 0 && self.pause.is_none() && self.waiting.is_empty()
    }
}

impl Users {
    /// How many more files of this user may be taken now.
    pub(super) fn allowance(&self, uid: Uid, now: Instant) -> usize {
        let own = self.all.get(&uid).map_or(MOST_FILES, |user| user.allowance(now));
        own.min(MOST_OF_ALL - self.under_way)
    }

    /// A file was taken.
    pub(super) fn taken(&mut self, uid: Uid, bytes: u64) {
        self.under_way += 1;
        let user = self.all.entry(uid).or_default();
        user.under_way += 1;
        user.bytes += bytes;
    }

    /// It is no longer under way. `later`: its user is to come again later; whether that is new.
    pub(super) fn ended(&mut self, uid: Uid, bytes: u64, later: bool, now: Instant) -> bool {
        let Some(user) = self.all.get_mut(&uid) else { return false };
        self.under_way -= 1;
        user.under_way -= 1;
        user.bytes -= bytes;
        let paused = user.pause;
        user.pause = match (later, paused) {
            (false, _) => None,
            // Others of the same pass say the same.
            (true, Some(pause)) if now < pause.until => Some(pause),
            (true, paused) => {
                let length = paused.map_or(FIRST_PAUSE, |pause| (pause.length * 2).min(LAST_PAUSE));
                Some(Pause { until: now + length, length })
            }
        };
        if user.is_idle() {
            self.all.remove(&uid);
        }
        later && paused.is_none()
    }

    /// A folder of this user waits for room.
    pub(super) fn wait(&mut self, uid: Uid, folder: OsString) {
        self.all.entry(uid).or_default().waiting.insert(folder);
    }

    /// Folders whose users have room again: half of it, so that each look is worth its while.
    pub(super) fn ready(&mut self, now: Instant) -> Vec<OsString> {
        let room = MOST_OF_ALL - self.under_way;
        let mut folders = Vec::new();
        self.all.retain(|_, user| {
            let enough = if user.pause.is_some() { 1 } else { MOST_FILES / 2 };
            if !user.waiting.is_empty() && user.allowance(now).min(room) >= enough {
                folders.extend(std::mem::take(&mut user.waiting));
            }
            // Long over, and nothing was put again: forgotten.
            let over = |pause: &Pause| now > pause.until + LAST_PAUSE;
            if user.waiting.is_empty() && user.under_way == 0 && user.pause.as_ref().is_some_and(over) {
                user.pause = None;
            }
            !user.is_idle()
        });
        folders
    }

    /// When the next pause of somebody who waits is over.
    pub(super) fn next_end(&self, now: Instant) -> Option<Instant> {
        let ends = self.all.values().filter_map(|user| user.pause).map(|pause| pause.until);
        ends.filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Uid = Uid(1);
    const BOB: Uid = Uid(2);

    #[test]
    fn a_user_with_much_under_way_leaves_room_for_others() {
        let (mut users, now) = (Users::default(), Instant::now());
        for _ in 0..MOST_FILES {
            users.taken(BOB, 10);
        }
        assert_eq!((users.allowance(BOB, now), users.allowance(ALICE, now)), (0, MOST_FILES));
        users.wait(BOB, "2".into());
        users.ended(BOB, 10, false, now);
        assert!(users.ready(now).is_empty(), "not for one file");
        for _ in 0..MOST_FILES / 2 {
            users.ended(BOB, 10, false, now);
        }
        assert_eq!(users.ready(now), ["2"]);
        users.taken(ALICE, MOST_BYTES);
        assert_eq!(users.allowance(ALICE, now), 0, "large ones count by their size");
    }

    #[test]
    fn who_is_to_come_later_tries_with_one_and_ever_more_seldom() {
        let (mut users, mut now) = (Users::default(), Instant::now());
        users.taken(BOB, 0);
        users.taken(BOB, 0);
        assert!(users.ended(BOB, 0, true, now));
        assert!(!users.ended(BOB, 0, true, now), "said once");
        users.wait(BOB, "2".into());
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert!(users.ready(now).is_empty());
            let end = users.next_end(now).unwrap();
            pauses.push((end - now).as_secs());
            now = end;
            assert_eq!((users.ready(now).len(), users.allowance(BOB, now)), (1, 1));
            users.taken(BOB, 0);
            users.ended(BOB, 0, true, now);
            users.wait(BOB, "2".into());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        now = users.next_end(now).unwrap();
        assert_eq!(users.ready(now).len(), 1);
        users.taken(BOB, 0);
        users.ended(BOB, 0, false, now);
        assert_eq!(users.allowance(BOB, now), MOST_FILES, "the pause is over");
        assert!(users.all.is_empty(), "nothing is kept of those who have nothing here");
    }
}
