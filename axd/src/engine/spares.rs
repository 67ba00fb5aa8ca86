//! Folders in the spool that ended attempts left untouched: the next attempt of the same user gets them instead of
//! new ones. A folder is either to be removed or lent, never both: its removal is called off while it is lent, and
//! scheduled again afterwards, unless the borrower has used it.

use std::collections::{BTreeMap, VecDeque};

use ax_core::id::{AttemptName, Uid};
use ax_core::paths::Paths;
use ax_core::record::{AttemptResult, Spare, Untouched};
use ax_core::time::BootTime;
use ax_sys::statfs;

use super::Engine;

/// At most so many are kept: so many attempts begin before the first of them has ended.
const MOST: usize = 256;

/// The folders of an ended attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Folders {
    attempt: AttemptName,
    owner: Uid,
    work: Untouched,
    /// When they are removed.
    goes_at: BootTime,
}

/// All such folders.
#[derive(Debug)]
pub(super) struct Spares {
    /// True if the file system's times can be compared with this machine's.
    possible: bool,
    /// Of attempts whose end is not durable yet.
    ending: BTreeMap<AttemptName, (Uid, Untouched)>,
    /// The folders that may be lent, the latest last.
    free: VecDeque<Folders>,
    /// Lent folders, by the attempt that has them.
    lent: BTreeMap<AttemptName, Folders>,
}

impl Spares {
    /// None yet.
    pub(super) fn of(paths: &Paths) -> Spares {
        let kind = statfs::of(&paths.spool).map(|found| found.kind);
        let possible = matches!(kind, Ok(statfs::Kind::Local | statfs::Kind::Memory));
        Spares { possible, ending: BTreeMap::new(), free: VecDeque::new(), lent: BTreeMap::new() }
    }

    /// An attempt is over, which is not durable yet.
    fn ends(&mut self, attempt: AttemptName, owner: Uid, work: Untouched) {
        if self.possible {
            self.ending.insert(attempt, (owner, work));
        }
    }

    /// An attempt's end is durable: it returns what it had borrowed, and its own folders may be lent if its job is
    /// over; otherwise they are removed at this time. Returns whose folders it had borrowed and left in place: these
    /// must be removed there.
    fn settle(&mut self, attempt: AttemptName, job_over: bool, goes_at: BootTime) -> Option<AttemptName> {
        let left = self.ending.remove(&attempt);
        let borrowed = self.lent.remove(&attempt);
        if let Some((owner, work)) = left.filter(|_| job_over) {
            if self.free.len() == MOST {
                self.free.pop_front();
            }
            self.free.push_back(Folders { attempt, owner, work, goes_at });
        }
        // If it has used them, they are its own, and nothing is found in the old place.
        borrowed.filter(|had| left.is_none_or(|(_, work)| work != had.work)).map(|had| had.attempt)
    }

    /// Lends the user's latest folders, which the kernel still has in its caches; older ones are left to be removed.
    /// `is_called_off` calls their removal off; if it has begun, the folders are not lent.
    fn lend(
        &mut self,
        to: AttemptName,
        owner: Uid,
        mut is_called_off: impl FnMut(AttemptName, BootTime) -> bool,
    ) -> Option<Folders> {
        while let Some(place) = self.free.iter().rposition(|folders| folders.owner == owner) {
            let folders = self.free.remove(place)?;
            if is_called_off(folders.attempt, folders.goes_at) {
                self.lent.insert(to, folders);
                return Some(folders);
            }
        }
        None
    }
}

impl Engine {
    /// An attempt is over, which is not durable yet. Its job's folder can go to another job only if the attempt's
    /// folder is the only one in it.
    pub(super) fn may_become_spare(&mut self, result: &AttemptResult) {
        let job = self.controller.job(result.attempt.job.number);
        let job = job.filter(|job| job.attempt.as_ref().is_some_and(|own| own.number == 1));
        if let (Some(job), Some(work)) = (job, result.work) {
            self.cleaning.spares.ends(result.attempt, job.owner.uid, work);
        }
    }

    /// An attempt's end is durable; what it left is to be removed at this time.
    pub(super) fn settle_spares(&mut self, attempt: AttemptName, goes_at: BootTime) {
        let job_over = self.is_over(attempt.job.number);
        if let Some(unused) = self.cleaning.spares.settle(attempt, job_over, goes_at) {
            self.spool_goes_later(unused);
        }
    }

    /// Borrows folders for an attempt whose job has none yet.
    pub(super) fn lend_spare(&mut self, attempt: AttemptName, number: u32) -> Option<Spare> {
        let owner = self.controller.job(attempt.job.number).filter(|_| number == 1)?.owner.uid;
        let call_off = |attempt, at| self.cleaning.chores.call_off(attempt, at);
        let folders = self.cleaning.spares.lend(attempt, owner, call_off)?;
        let folder = self.paths.epoch_dir(folders.attempt).to_string_lossy().into_owned();
        Some(Spare { folder, work: folders.work })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Uid = Uid(1000);
    const BOB: Uid = Uid(1001);
    const LATER: BootTime = BootTime(300_000);

    fn none(possible: bool) -> Spares {
        Spares { possible, ending: BTreeMap::new(), free: VecDeque::new(), lent: BTreeMap::new() }
    }

    fn name(number: u32) -> AttemptName {
        format!("ax-2026-{number:04}.{number}").parse().unwrap()
    }

    fn work(inode: u64) -> Untouched {
        Untouched { inode, changed_s: 1, changed_ns: 1 }
    }

    fn lend(spares: &mut Spares, to: u32, owner: Uid) -> Option<AttemptName> {
        spares.lend(name(to), owner, |_, at| at == LATER).map(|folders| folders.attempt)
    }

    #[test]
    fn they_are_lent_once_the_end_is_durable_to_one_attempt_of_the_same_user() {
        let mut spares = none(true);
        spares.ends(name(1), ALICE, work(1));
        assert_eq!(lend(&mut spares, 2, ALICE), None, "its end may be lost");
        assert_eq!(spares.settle(name(1), true, LATER), None);
        assert_eq!(lend(&mut spares, 3, BOB), None);
        assert_eq!(lend(&mut spares, 4, ALICE), Some(name(1)));
        assert_eq!(lend(&mut spares, 5, ALICE), None);
    }

    #[test]
    fn what_a_job_has_that_goes_on_or_is_being_removed_is_not_lent() {
        let mut spares = none(true);
        for (number, over, goes_at) in [(1, false, LATER), (2, true, BootTime(0)), (3, true, LATER)] {
            spares.ends(name(number), ALICE, work(1));
            spares.settle(name(number), over, goes_at);
        }
        assert_eq!(lend(&mut spares, 4, ALICE), Some(name(3)));
        assert_eq!(lend(&mut spares, 5, ALICE), None);
        let mut elsewhere = none(false);
        elsewhere.ends(name(1), ALICE, work(1));
        elsewhere.settle(name(1), true, LATER);
        assert_eq!(lend(&mut elsewhere, 2, ALICE), None, "another machine's clock");
    }

    #[test]
    fn what_was_lent_in_vain_is_to_be_removed_where_it_is() {
        let lent = || {
            let mut spares = none(true);
            spares.ends(name(1), ALICE, work(1));
            spares.settle(name(1), true, LATER);
            assert_eq!(lend(&mut spares, 2, ALICE), Some(name(1)));
            spares
        };
        let mut used = lent();
        used.ends(name(2), ALICE, work(1));
        assert_eq!(used.settle(name(2), true, LATER), None, "it goes as the new one's");
        assert_eq!(lend(&mut used, 3, ALICE), Some(name(2)));
        let mut made_its_own = lent();
        made_its_own.ends(name(2), ALICE, work(2));
        assert_eq!(made_its_own.settle(name(2), true, LATER), Some(name(1)));
        assert_eq!(lent().settle(name(2), true, LATER), Some(name(1)), "nobody knows");
    }

    #[test]
    fn only_so_many_are_kept() {
        let mut spares = none(true);
        for number in 1..=MOST as u32 + 1 {
            spares.ends(name(number), ALICE, work(1));
            spares.settle(name(number), true, LATER);
        }
        assert_eq!((spares.free.len(), spares.free[0].attempt), (MOST, name(2)));
    }
}
