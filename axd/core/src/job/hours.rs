//! When a job may start by its own daily hours and deadline: it must be over before its hours end, and by its
//! deadline.

use crate::job::spec::Window;
use crate::time::{Span, WallTime, Zone};

use super::Job;

/// A job that is as long as its hours can only start a moment after they begin, and is ended with them. It may be
/// late by this much, and by at most a tenth of its length.
const MOMENT: Span = Span::seconds(60);

/// So many days are searched for hours that are long enough, as clocks may change in between.
const DAYS: i64 = 8;

/// Hours and deadline of a job, and how long it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    window: Option<Window>,
    deadline: Option<WallTime>,
    /// The longest time that it can take: its time limit.
    limit: Span,
    /// The time that it is expected to take.
    needs: Span,
}

/// A time during which a job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Its first instant.
    pub from: WallTime,
    /// Its last instant.
    pub until: WallTime,
    /// When the job has to be over.
    pub over_by: WallTime,
}

/// The last instant at which something of this length may begin that has to be over when its hours are.
fn latest_within(over_by: WallTime, length: Span) -> WallTime {
    let late = MOMENT.min(Span(length.0 / 10));
    latest_before(over_by, Span(length.0 - late.0))
}

/// The last instant at which something of this length may begin that has to be over by a deadline: nobody is forgiven a
/// moment there, or what was promised to be over in time would be ended.
fn latest_before(over_by: WallTime, length: Span) -> WallTime {
    let latest = over_by.0.saturating_sub_unsigned(length.0);
    WallTime(latest.min(over_by.0.saturating_sub(1)))
}

impl Window {
    /// Its length on a day without a change of clocks.
    pub fn length(&self) -> Span {
        let minutes = (u64::from(self.to) + 24 * 60 - u64::from(self.from)) % (24 * 60);
        Span::seconds(minutes * 60)
    }

    /// When it opens on a day, and when it closes after that.
    fn on(&self, day: i64, zone: &Zone) -> (WallTime, WallTime) {
        (zone.instant(day, self.from), zone.instant(day + i64::from(self.to < self.from), self.to))
    }

    /// True if it is open.
    pub fn is_open(&self, at: WallTime, zone: &Zone) -> bool {
        let today = zone.day(at);
        (today - 1..=today).any(|day| {
            let (opens, closes) = self.on(day, zone);
            opens <= at && at < closes
        })
    }
}

/// `22:00-08:00`.
impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}:{:02}-{:02}:{:02}", self.from / 60, self.from % 60, self.to / 60, self.to % 60)
    }
}

impl Hours {
    /// The first opening that ends at `at` or later; `None` if there never is one again.
    pub fn next(&self, at: WallTime, zone: &Zone) -> Option<Opening> {
        let Some(window) = self.window else {
            let over_by = self.deadline?;
            let opening =
                Opening { from: WallTime(i64::MIN), until: latest_before(over_by, self.needs), over_by };
            return Some(opening).filter(|opening| at <= opening.until);
        };
        let today = zone.day(at);
        let openings = (today - 1..today + DAYS).filter_map(|day| self.on(&window, day, zone));
        openings.filter(|opening| at <= opening.until).min_by_key(|opening| opening.from)
    }

    /// The opening that begins on a day; `None` if the job does not fit into it or would miss its deadline.
    fn on(&self, window: &Window, day: i64, zone: &Zone) -> Option<Opening> {
        let (from, closes) = window.on(day, zone);
        let mut opening = Opening { from, until: latest_within(closes, self.limit), over_by: closes };
        if let Some(deadline) = self.deadline {
            opening.until = opening.until.min(latest_before(deadline, self.needs));
            opening.over_by = opening.over_by.min(deadline);
        }
        (opening.from <= opening.until).then_some(opening)
    }
}

impl Job {
    /// The job's hours and deadline, if it has any.
    pub fn hours(&self) -> Option<Hours> {
        let special = self.request.special.as_deref()?;
        let (window, deadline) = (special.window, special.deadline);
        if window.is_none() && deadline.is_none() {
            return None;
        }
        let limit = self.request.time_limit.unwrap_or_default();
        let needs = self.request.estimate.unwrap_or(limit);
        Some(Hours { window, deadline, limit, needs: Span(needs.0.saturating_sub(self.rare.saved.0)) })
    }

    /// How long an attempt may run that begins at `start`, and whether that follows from its deadline rather than its
    /// time limit.
    pub fn limit_from(&self, start: WallTime, zone: &Zone) -> (Option<Span>, bool) {
        let own = self.request.time_limit;
        let Some(over_by) = self.over_by(start, zone) else { return (own, false) };
        let left = over_by - start;
        let by_deadline = self.request.deadline() == Some(over_by) && own.is_none_or(|own| left < own);
        (Some(own.map_or(left, |own| own.min(left))), by_deadline)
    }

    /// By when an attempt has to be over that begins at `start`, if that is within the job's hours and before its
    /// deadline. However long it may be: a limit that is given to it later doesn't lift them.
    pub fn over_by(&self, start: WallTime, zone: &Zone) -> Option<WallTime> {
        let hours = Hours { limit: Span::ZERO, needs: Span::ZERO, ..self.hours()? };
        let opening = hours.next(start, zone).filter(|opening| opening.from <= start)?;
        Some(opening.over_by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Offset;

    const HOUR: Span = Span::seconds(3600);

    fn at(text: &str) -> WallTime {
        text.parse().unwrap()
    }

    fn hours(window: Option<(u16, u16)>, deadline: Option<&str>, length: Span) -> Hours {
        let window = window.map(|(from, to)| Window { from: from * 60, to: to * 60 });
        Hours { window, deadline: deadline.map(at), limit: length, needs: length }
    }

    fn next(hours: &Hours, from: &str) -> Option<(String, String)> {
        let opening = hours.next(at(from), &Zone::default())?;
        Some((opening.from.to_string(), opening.until.to_string()))
    }

    fn pair(from: &str, until: &str) -> Option<(String, String)> {
        Some((at(from).to_string(), at(until).to_string()))
    }

    #[test]
    fn hours_pass_midnight_and_a_job_has_to_end_in_them() {
        let night = hours(Some((22, 8)), None, Span(8 * HOUR.0));
        let (tonight, tomorrow) = (
            pair("2026-06-01T22:00:00Z", "2026-06-02T00:01:00Z"),
            pair("2026-06-02T22:00:00Z", "2026-06-03T00:01:00Z"),
        );
        for (from, expected) in [
            ("2026-06-01T12:00:00Z", &tonight),
            ("2026-06-01T22:00:00Z", &tonight),
            ("2026-06-01T23:59:59Z", &tonight),
            ("2026-06-02T00:01:00Z", &tonight),
            ("2026-06-02T00:01:00.001Z", &tomorrow),
            ("2026-06-02T07:00:00Z", &tomorrow),
        ] {
            assert_eq!(next(&night, from), *expected, "{from}");
        }
        let too_long = hours(Some((22, 8)), None, Span(11 * HOUR.0));
        assert_eq!(next(&too_long, "2026-06-01T12:00:00Z"), None);
        // A job that is as long as its hours may begin a minute after they do.
        let whole = hours(Some((8, 22)), None, Span(14 * HOUR.0));
        let expected = pair("2026-06-01T08:00:00Z", "2026-06-01T08:01:00Z");
        assert_eq!(next(&whole, "2026-06-01T00:00:00Z"), expected);
    }

    #[test]
    fn what_fits_only_on_long_days_waits_for_one() {
        let berlin = Zone::of([
            Offset { from: at("2025-10-26T01:00:00Z"), seconds: 3600 },
            Offset { from: at("2026-03-29T01:00:00Z"), seconds: 7200 },
        ]);
        let night = hours(Some((22, 8)), None, Span(10 * HOUR.0));
        let opening = |from: &str| night.next(at(from), &berlin).unwrap();
        assert_eq!(opening("2026-03-27T12:00:00Z").from, at("2026-03-27T22:00:00+01:00"));
        // That night's hours are nine.
        assert_eq!(opening("2026-03-28T12:00:00Z").from, at("2026-03-29T22:00:00+02:00"));
    }

    #[test]
    fn a_deadline_ends_it_all() {
        let by_noon = |length| hours(None, Some("2026-06-01T12:00:00Z"), length);
        let until = |hours: Hours| hours.next(WallTime(0), &Zone::default()).unwrap().until;
        assert_eq!(until(by_noon(Span(2 * HOUR.0))), at("2026-06-01T10:00:00Z"));
        assert_eq!(until(by_noon(Span::seconds(30))), at("2026-06-01T11:59:30Z"));
        assert_eq!(until(by_noon(Span::ZERO)), at("2026-06-01T11:59:59.999Z"));
        assert_eq!(next(&by_noon(HOUR), "2026-06-01T11:00:01Z"), None);
        let night = hours(Some((22, 8)), Some("2026-06-02T02:00:00Z"), Span(3 * HOUR.0));
        let expected = pair("2026-06-01T22:00:00Z", "2026-06-01T23:00:00Z");
        assert_eq!(next(&night, "2026-06-01T12:00:00Z"), expected);
        assert_eq!(next(&night, "2026-06-01T23:00:01Z"), None);
    }
}
