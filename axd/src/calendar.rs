//! Local time: begin times as people write them, the year of a job's id. The
//! zone is the cluster's. A time in a gap means the first instant after it, a
//! doubled one the earlier.

use ax_core::job::spec::When;
use ax_core::time::{Offset, WallTime, Zone};
use chrono::{DateTime, Datelike, Days, Duration, Local, LocalResult, NaiveDate, NaiveDateTime, TimeZone};

/// Milliseconds.
const DAY: i64 = 86_400_000;

/// Days.
const YEAR: i64 = 366;

/// No daemon runs longer than this without being started anew.
const YEARS: i64 = 20;

/// The calendar of a zone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calendar;

impl Calendar {
    fn local(self, at: WallTime) -> DateTime<Local> {
        match Local.timestamp_millis_opt(at.0) {
            LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => time,
            LocalResult::None => DateTime::<Local>::default(),
        }
    }

    /// The year of an instant.
    pub(crate) fn year(self, at: WallTime) -> u16 {
        u16::try_from(self.local(at).year()).unwrap_or(1970)
    }

    /// The instant that was meant, seen from now.
    pub(crate) fn resolve(self, when: When, now: WallTime) -> WallTime {
        let today = self.local(now).date_naive();
        match when {
            When::In(span) => now + span,
            When::At(at) => at,
            When::Clock(clock) => {
                let at = self.at(today, clock);
                if at >= now { at } else { self.at(after(today, 1), clock) }
            }
            When::Day { days, clock } => self.at(after(today, u64::from(days)), clock),
            When::Date { year, month, day, clock } => {
                let date = NaiveDate::from_ymd_opt(i32::from(year), u32::from(month), u32::from(day));
                self.at(date.unwrap_or(today), clock)
            }
        }
    }

    /// The clock of this place, for the core: as it goes from a year before now on for many years.
    pub(crate) fn zone(self, now: WallTime) -> Zone {
        let ahead = |at: WallTime| i64::from(self.local(at).offset().local_minus_utc());
        let day = |number: i64| WallTime(now.0.saturating_add(number * DAY));
        let mut offsets = vec![Offset { from: day(-YEAR), seconds: ahead(day(-YEAR)) }];
        for number in -YEAR..YEARS * YEAR {
            let (mut before, mut after) = (day(number), day(number + 1));
            if ahead(before) == ahead(after) {
                continue;
            }
            while after.0 - before.0 > 1 {
                let middle = WallTime(before.0 + (after.0 - before.0) / 2);
                if ahead(middle) == ahead(before) { before = middle } else { after = middle }
            }
            offsets.push(Offset { from: after, seconds: ahead(after) });
        }
        Zone::of(offsets)
    }

    fn at(self, date: NaiveDate, clock: u32) -> WallTime {
        let naive = date.and_time(chrono::NaiveTime::MIN) + Duration::seconds(i64::from(clock));
        WallTime(first_instant(naive).timestamp_millis())
    }
}

fn after(date: NaiveDate, days: u64) -> NaiveDate {
    date.checked_add_days(Days::new(days)).unwrap_or(date)
}

fn first_instant(naive: NaiveDateTime) -> DateTime<Local> {
    // A gap is at most a few hours long; its end is on a whole minute.
    let mut candidates = (0..=24 * 60).map(|minutes| naive + Duration::minutes(minutes));
    let found = candidates.find_map(|shown| match Local.from_local_datetime(&shown) {
        LocalResult::Single(time) => Some(time),
        // The library tells them in the order of their offsets, and calls the end of a doubled hour doubled too.
        LocalResult::Ambiguous(one, other) => {
            let shows =
                |time: &DateTime<Local>| Local.from_utc_datetime(&time.naive_utc()).naive_local() == shown;
            [one.min(other), one.max(other)].into_iter().find(shows)
        }
        LocalResult::None => None,
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ax_core::time::Span;

    #[test]
    fn a_clock_time_is_the_next_one() {
        let calendar = Calendar;
        let noon =
            calendar.resolve(When::Date { year: 2026, month: 11, day: 29, clock: 12 * 3600 }, WallTime(0));
        let one = calendar.resolve(When::Clock(13 * 3600), noon);
        assert_eq!(one - noon, Span::seconds(3600));
        let eleven = calendar.resolve(When::Clock(11 * 3600), noon);
        assert_eq!(eleven - noon, Span::seconds(23 * 3600));
        assert_eq!(calendar.resolve(When::In(Span::seconds(5)), noon) - noon, Span::seconds(5));
        assert_eq!(calendar.year(noon), 2026);
    }

    #[test]
    fn the_core_s_clock_is_the_place_s() {
        let calendar = Calendar;
        let now = calendar.resolve(When::Date { year: 2026, month: 11, day: 29, clock: 0 }, WallTime(0));
        let zone = calendar.zone(now);
        for hours in 0..30_000 {
            let at = now + Span::seconds(hours * 3 * 3600);
            let local = calendar.local(at);
            let day = local.date_naive().signed_duration_since(NaiveDate::default()).num_days();
            assert_eq!(zone.day(at), day, "{local}");
            let (date, minutes) = (local.date_naive(), (hours * 37 % 1440) as u16);
            assert_eq!(
                zone.instant(day, minutes),
                calendar.at(date, u32::from(minutes) * 60),
                "{date} {minutes}"
            );
        }
    }
}
