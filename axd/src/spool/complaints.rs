//! What is said of what lies in the spool and can't be taken. Names there are anybody's to make, in any number, and
//! each complaint is a line in root's log: so each is said once, and of each user only so many in a day.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ax_core::id::Uid;

/// Complaints about a user's doings that are said in a day.
const MOST: usize = 20;
/// After this they are said again.
const DAY: Duration = Duration::from_secs(86_400);

/// Whether something is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Say {
    /// It is new.
    It,
    /// It is new, and no more of it is said for a day.
    NoMore,
    /// It was said, or there was too much.
    Nothing,
}

/// What was said lately.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    /// By owner; of some nobody knows whose they are.
    of: BTreeMap<Option<Uid>, Said>,
}

#[derive(Debug)]
struct Said {
    since: Instant,
    what: BTreeSet<String>,
}

impl Complaints {
    /// Takes a complaint about what this user, or nobody knows who, has done.
    pub(super) fn about(&mut self, owner: Option<Uid>, what: String, now: Instant) -> Say {
        let said = self.of.entry(owner).or_insert_with(|| Said { since: now, what: BTreeSet::new() });
        if now.saturating_duration_since(said.since) > DAY {
            *said = Said { since: now, what: BTreeSet::new() };
        }
        // Forgotten is nothing of it: what is looked at again would be said again.
        if said.what.len() > MOST || !said.what.insert(what) {
            return Say::Nothing;
        }
        if said.what.len() > MOST { Say::NoMore } else { Say::It }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once_and_of_many_a_few() {
        let (mut complaints, now) = (Complaints::default(), Instant::now());
        let mut round = |uid, at| {
            let say = (0..10_000).map(|n| complaints.about(uid, n.to_string(), at));
            say.filter(|say| *say != Say::Nothing).count()
        };
        assert_eq!(round(Some(Uid(1)), now), MOST + 1);
        assert_eq!(round(Some(Uid(1)), now + DAY / 2), 0, "they lie there still");
        assert_eq!(round(None, now), MOST + 1, "others are heard");
        assert_eq!(round(Some(Uid(1)), now + DAY * 2), MOST + 1);
        assert_eq!(complaints.about(Some(Uid(2)), "a".to_owned(), now), Say::It);
        assert_eq!(complaints.about(Some(Uid(2)), "a".to_owned(), now), Say::Nothing);
    }
}
