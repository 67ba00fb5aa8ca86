//! Law 24: whoever has daily hours or a deadline starts only in time to be over in time, waits for nothing of its own when
//! it may start, is over when it has to be, and is given up when it can't be. By the clock of UTC.

use ax_core::controller::{Controller, Decision};
use ax_core::job::Job;
use ax_core::job::request::Request;
use ax_core::job::spec::Window;
use ax_core::job::state::JobState;
use ax_core::time::{Now, Span, WallTime};
use proptest::prelude::*;

use crate::chance::{Chance, Frame};
use crate::world::World;
use crate::{histories, history};

const MINUTE: i64 = 60_000;
const DAY: i64 = 1440 * MINUTE;

/// Hours and deadlines of a request that comes now.
pub(crate) fn of(chance: &mut Chance, request: &mut Request, now: WallTime) {
    let (what, at, long) = (chance.below(5), chance.of(&[0, 1, -1, 2]), chance.of(&[2, 1, 3]));
    let minute = |more: i64| (now.0 / MINUTE + more).rem_euclid(1440) as u16;
    let (window, seconds) = (Window { from: minute(at), to: minute(at + long) }, chance.of(&[20, 60, 5, 90]));
    if what == 1 || what == 3 {
        let length = request.time_limit.or(request.estimate).unwrap_or(Span::seconds(10));
        request.time_limit = Some(length.min(window.length()));
        request.set_special(|special| special.window = Some(window));
    }
    if what == 2 || what == 3 {
        request.set_special(|special| special.deadline = Some(now + Span::seconds(seconds)));
    }
}

/// How late a job of a length may begin that has to be over by an instant.
fn latest(over_by: i64, length: Span) -> i64 {
    let moment = (length.0 / 10).min(60_000);
    (over_by - length.0 as i64 + moment as i64).min(over_by - 1)
}

/// The hours around an instant: when they began and end.
fn around(window: Window, at: WallTime) -> Option<(i64, i64)> {
    let (from, to) = (i64::from(window.from) * MINUTE, i64::from(window.to) * MINUTE);
    let midnight = at.0.div_euclid(DAY) * DAY;
    let length = (to - from).rem_euclid(DAY);
    let found = [midnight - DAY, midnight].map(|day| (day + from, day + from + length));
    found.into_iter().find(|(opens, closes)| *opens <= at.0 && at.0 < *closes)
}

fn needs(job: &Job) -> Span {
    let all = job.request.estimate.or(job.request.time_limit).unwrap_or_default();
    Span(all.0.saturating_sub(job.rare.saved.0))
}

fn in_hours(job: &Job, at: WallTime) -> bool {
    let Some(window) = job.request.window() else { return true };
    let limit = job.request.time_limit.unwrap_or_default();
    around(window, at).is_some_and(|(_, closes)| at.0 <= latest(closes, limit))
}

fn in_time(job: &Job, at: WallTime) -> bool {
    job.request
        .deadline()
        .is_none_or(|deadline| at.0 <= (deadline.0 - needs(job).0 as i64).min(deadline.0 - 1))
}

fn waits_for_itself(job: &Job, now: Now) -> bool {
    let begun = job.request.begin.is_none_or(|begin| begin <= now.wall);
    job.rare.hold.is_some() || job.rare.backoff_until.is_some() || !begun || !in_hours(job, now.wall)
}

fn states_are_right(controller: &Controller, now: Now) {
    for job in controller.jobs().filter(|job| job.hours().is_some()) {
        match job.state {
            JobState::Ready => assert!(!waits_for_itself(job, now), "{job:?} at {now:?}"),
            JobState::Pending => assert!(waits_for_itself(job, now), "{job:?} at {now:?}"),
            _ => continue,
        }
        assert!(in_time(job, now.wall), "{} waits in vain at {now:?}", job.id);
    }
}

fn with_hours() -> Frame {
    Frame { hours: true, ..Frame::default() }
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_24_hours_and_deadlines_are_kept(history in history(50)) {
        World::play(history.0, with_hours(), history.1, &mut |seen| {
            for decision in seen.out {
                let job = decision.touches().and_then(|id| seen.controller.job(id.number));
                match (decision, job) {
                    (Decision::Launch { .. }, Some(job)) => {
                        assert!(in_hours(job, seen.now.wall) && in_time(job, seen.now.wall), "{job:?}");
                        let limit = seen.controller.limit_from(job, seen.now.wall);
                        let over = limit.map(|limit| seen.now.wall + limit);
                        assert!(job.request.deadline().is_none_or(|deadline| over.unwrap() <= deadline));
                        let hours = job.request.window().and_then(|window| around(window, seen.now.wall));
                        assert!(hours.is_none_or(|(_, closes)| over.unwrap().0 <= closes), "{job:?}");
                    }
                    (Decision::Moved { to: JobState::Deadline, from: Some(from), .. }, Some(job)) => {
                        let late = !in_time(job, seen.now.wall) || job.request.window().is_some();
                        assert!(!from.is_waiting() || late || job.request.begin.is_some(), "{job:?}");
                    }
                    _ => {}
                }
            }
            states_are_right(seen.controller, seen.now);
        });
    }
}
