//! The points in time that matter to one attempt, on the clock that counts suspend. Pure: callers say what time it
//! is. While the job is frozen, its limit, warning and overdue point stand still; the grace does not, since nothing
//! that is ending is ever frozen.

use ax_core::record::Ending;

use super::OVERDUE_MARGIN;
use super::table::Event;

/// In what time a script should have set its traps.
const TRAP_TIME: u64 = 1000;

/// Deadlines in milliseconds since boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timers {
    /// The warning before the limit.
    pub(crate) warn: Option<u64>,
    /// The limit.
    pub(crate) limit: Option<u64>,
    /// Limit, grace and ten seconds: past it there is no more politeness.
    pub(crate) overdue: Option<u64>,
    /// The warning of an end that was asked for has had its time.
    pub(crate) asked: Option<u64>,
    /// End of the grace after TERM.
    pub(crate) grace: Option<u64>,
    /// Next look at what is still there.
    pub(crate) again: Option<u64>,
    /// When to move out of the daemon's unit.
    pub(crate) leave: Option<u64>,
    /// When to tell that it began.
    pub(crate) tell: Option<u64>,
    /// When its user is heard again.
    pub(crate) hear: Option<u64>,
    /// When it began to run, later by the time for which it was frozen.
    counted_from: Option<u64>,
    frozen_since: Option<u64>,
}

/// How long a job may run, in milliseconds from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    limit: u64,
    /// It is warned so long before that.
    warn_before: Option<u64>,
    /// So long after it was to end there is no more politeness.
    patience: u64,
}

impl Allowance {
    /// By an assignment; `None` if it may run without end.
    pub(crate) fn of(ending: &Ending) -> Option<Allowance> {
        let limit = ending.limit?;
        let patience = (ending.kill_wait + OVERDUE_MARGIN).0;
        Some(Allowance { limit: limit.0, warn_before: ending.warn.map(|warn| warn.before.0), patience })
    }
}

impl Timers {
    /// Begins to count the limit.
    pub(crate) fn begin(&mut self, now: u64, allowed: Option<Allowance>) {
        self.counted_from = Some(now);
        self.allow(now, allowed);
    }

    /// Counts another limit from the same beginning; `None`: it has none any more. One that is over already ends it
    /// now, with the whole grace.
    pub(crate) fn allow(&mut self, now: u64, allowed: Option<Allowance>) {
        (self.warn, self.limit, self.overdue) = (None, None, None);
        let (Some(from), Some(Allowance { limit, warn_before, patience })) = (self.counted_from, allowed)
        else {
            return;
        };
        let end = from.saturating_add(limit);
        self.limit = Some(end);
        // A warning that is longer than the limit comes as soon as a script may have set its trap: before that
        // it would only end it.
        let soonest = TRAP_TIME.min(limit / 2);
        self.warn = warn_before.map(|before| from.saturating_add(limit.saturating_sub(before).max(soonest)));
        self.overdue = Some(end.max(self.frozen_since.unwrap_or(now)).saturating_add(patience));
    }

    /// Whether it is overdue no later than by others, so that a watchdog which knows those ends nothing too early.
    pub(crate) fn is_stricter_than(&self, others: &Timers) -> bool {
        self.overdue.is_some_and(|at| others.overdue.is_none_or(|other| at <= other))
    }

    /// The job was frozen: its time stands still.
    pub(crate) fn freeze(&mut self, now: u64) {
        self.frozen_since.get_or_insert(now);
    }

    /// The job was thawed: what was left before is left now.
    pub(crate) fn thaw(&mut self, now: u64) {
        let Some(since) = self.frozen_since.take() else { return };
        let slept = now.saturating_sub(since);
        let counted = [&mut self.counted_from, &mut self.warn, &mut self.limit, &mut self.overdue];
        for deadline in counted.into_iter().flatten() {
            *deadline = deadline.saturating_add(slept);
        }
    }

    /// The earliest deadline that is running.
    pub(crate) fn next(&self) -> Option<u64> {
        let counted =
            if self.frozen_since.is_some() { [None; 3] } else { [self.warn, self.limit, self.overdue] };
        let others = [self.asked, self.grace, self.again, self.leave, self.tell, self.hear];
        counted.into_iter().chain(others).flatten().min()
    }

    /// Whether it is time to leave the daemon's unit, once.
    pub(crate) fn take_leave(&mut self, now: u64) -> bool {
        self.leave.take_if(|at| *at <= now).is_some()
    }

    /// Whether it is time to tell that it began, once.
    pub(crate) fn take_tell(&mut self, now: u64) -> bool {
        self.tell.take_if(|at| *at <= now).is_some()
    }

    /// Whether it is time to hear its user again, once.
    pub(crate) fn take_hear(&mut self, now: u64) -> bool {
        self.hear.take_if(|at| *at <= now).is_some()
    }

    /// Nothing counts any more but the next try, and when its user is heard again.
    pub(crate) fn only_try_at(&mut self, at: u64) {
        *self = Timers { again: Some(at), hear: self.hear, ..Timers::default() };
    }

    /// Takes one deadline that has passed, the gentlest first, so that a late wake-up skips no step.
    pub(crate) fn take_due(&mut self, now: u64) -> Option<Event> {
        let frozen = self.frozen_since.is_some();
        let all = [
            (&mut self.warn, Event::Warn, true),
            (&mut self.limit, Event::Limit, true),
            (&mut self.asked, Event::Terminate, false),
            (&mut self.grace, Event::Grace, false),
            (&mut self.overdue, Event::Overdue, true),
            (&mut self.again, Event::Again, false),
        ];
        for (deadline, event, stands_still) in all {
            if !(frozen && stands_still) && deadline.is_some_and(|at| at <= now) {
                *deadline = None;
                return Some(event);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(limit: u64, warn_before: u64, overdue_after: u64) -> Option<Allowance> {
        Some(Allowance { limit, warn_before: Some(warn_before), patience: overdue_after - limit })
    }

    #[test]
    fn another_limit_counts_from_the_same_beginning_and_not_while_it_was_frozen() {
        let mut timers = Timers::default();
        timers.begin(1000, allowed(100, 30, 160));
        timers.freeze(1010);
        timers.thaw(1510);
        timers.allow(1520, allowed(1000, 30, 1060));
        assert_eq!((due(&mut timers, 2469), due(&mut timers, 2470)), (vec![], vec![Event::Warn]));
        timers.allow(2470, None);
        assert_eq!((timers.next(), due(&mut timers, u64::MAX)), (None, vec![]));
    }

    #[test]
    fn a_limit_that_is_over_already_leaves_the_whole_grace() {
        let mut timers = Timers::default();
        timers.begin(1000, allowed(100_000, 30, 100_060));
        timers.allow(50_000, allowed(10, 30, 70));
        assert_eq!(due(&mut timers, 50_059), [Event::Warn, Event::Limit]);
        assert_eq!(due(&mut timers, 50_060), [Event::Overdue]);
        // Also if it stands still meanwhile.
        timers.freeze(60_000);
        timers.allow(70_000, allowed(10, 30, 70));
        timers.thaw(80_000);
        assert_eq!(due(&mut timers, 80_059), [Event::Warn, Event::Limit]);
        assert_eq!(due(&mut timers, 80_060), [Event::Overdue]);
    }

    fn due(timers: &mut Timers, now: u64) -> Vec<Event> {
        std::iter::from_fn(|| timers.take_due(now)).collect()
    }

    #[test]
    fn each_deadline_fires_once_and_in_order() {
        let mut timers = Timers::default();
        timers.begin(1000, allowed(100, 30, 160));
        assert_eq!(timers.next(), Some(1070));
        assert_eq!(due(&mut timers, 1069), []);
        assert_eq!(due(&mut timers, 1070), [Event::Warn]);
        assert_eq!(due(&mut timers, 1100), [Event::Limit]);
        assert_eq!(due(&mut timers, 2000), [Event::Overdue]);
        assert_eq!((timers.next(), due(&mut timers, u64::MAX)), (None, vec![]));
    }

    #[test]
    fn a_late_wake_up_skips_nothing() {
        let mut timers = Timers::default();
        timers.begin(0, allowed(100, 30, 160));
        assert_eq!(due(&mut timers, 500), [Event::Warn, Event::Limit, Event::Overdue]);
    }

    #[test]
    fn frozen_time_does_not_count() {
        let mut timers = Timers::default();
        timers.begin(0, allowed(100, 30, 160));
        timers.freeze(50);
        assert_eq!((timers.next(), due(&mut timers, 1000)), (None, vec![]));
        timers.freeze(400);
        timers.thaw(1000);
        timers.thaw(2000);
        assert_eq!(timers.next(), Some(1020));
        assert_eq!(due(&mut timers, 1050), [Event::Warn, Event::Limit]);
    }

    #[test]
    fn it_leaves_once_whether_frozen_or_not() {
        let mut timers = Timers { leave: Some(1000), ..Timers::default() };
        timers.freeze(0);
        assert_eq!(timers.next(), Some(1000));
        assert!(!timers.take_leave(999) && timers.take_leave(1000) && !timers.take_leave(1001));
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn a_warning_longer_than_the_limit_comes_as_soon_as_there_may_be_a_trap() {
        for (limit, warned) in [(100, 60), (600_000, 1010)] {
            let mut timers = Timers::default();
            timers.begin(10, allowed(limit, 600_000, limit + 60));
            assert_eq!((due(&mut timers, warned - 1), due(&mut timers, warned)), (vec![], vec![Event::Warn]));
        }
    }
}
