//! Local time of the cluster's zone: begin times as people write them, and the year of a job's id. A time that is
//! skipped means the first instant after it; one that comes twice, the first.

use ax_core::job::spec::When;
use ax_core::time::{Offset, Span, WallTime, Zone};
use chrono::{DateTime, Datelike, Days, Duration, Local, LocalResult, NaiveDate, TimeZone};

/// Milliseconds.
const DAY: i64 = 86_400_000;

/// Days.
const YEAR: i64 = 366;

/// So far ahead is looked.
const YEARS: i64 = 40;

/// The calendar of a place, by how its clock goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calendar(Zone);

impl Calendar {
    /// That of the system, or of the environment: as the clock goes from a year before now on for many years. Its rules
    /// are read once in a thread: what has changed of them only a new one learns.
    pub(crate) fn read(now: WallTime) -> Calendar {
        Calendar(zone(now))
    }

    /// How the clock goes, for the core.
    pub(crate) fn zone(&self) -> &Zone {
        &self.0
    }

    fn date(&self, at: WallTime) -> NaiveDate {
        let days = Duration::try_days(self.0.day(at));
        days.and_then(|days| NaiveDate::default().checked_add_signed(days)).unwrap_or_default()
    }

    /// The year of an instant.
    pub(crate) fn year(&self, at: WallTime) -> u16 {
        u16::try_from(self.date(at).year()).unwrap_or(1970)
    }

    /// The instant that was meant, seen from now.
    pub(crate) fn resolve(&self, when: When, now: WallTime) -> WallTime {
        let today = self.date(now);
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

    /// The instant at which the clock shows so many seconds after midnight.
    fn at(&self, date: NaiveDate, clock: u32) -> WallTime {
        let day = date.signed_duration_since(NaiveDate::default()).num_days();
        let minutes = u16::try_from(clock / 60).unwrap_or(u16::MAX);
        self.0.instant(day, minutes) + Span::seconds(u64::from(clock % 60))
    }
}

fn local(at: WallTime) -> DateTime<Local> {
    match Local.timestamp_millis_opt(at.0) {
        LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => time,
        LocalResult::None => DateTime::<Local>::default(),
    }
}

/// The clock of this place as a table.
fn zone(now: WallTime) -> Zone {
    let ahead = |at: WallTime| i64::from(local(at).offset().local_minus_utc());
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

fn after(date: NaiveDate, days: u64) -> NaiveDate {
    date.checked_add_days(Days::new(days)).unwrap_or(date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{NaiveDateTime, NaiveTime};

    fn first_instant(naive: NaiveDateTime) -> DateTime<Local> {
        // A gap is at most a few hours long; its end is on a whole minute.
        let candidates = (0..=24 * 60).map(|minutes| naive + Duration::minutes(minutes));
        let found = candidates.map(|t| Local.from_local_datetime(&t)).find_map(|result| match result {
            LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time),
            LocalResult::None => None,
        });
        found.unwrap()
    }

    fn noon() -> WallTime {
        let date = NaiveDate::from_ymd_opt(2026, 11, 29).unwrap();
        WallTime(first_instant(date.and_time(NaiveTime::MIN) + Duration::hours(12)).timestamp_millis())
    }

    #[test]
    fn a_clock_time_is_the_next_one() {
        let noon = noon();
        let calendar = Calendar::read(noon);
        let said = calendar.resolve(When::Date { year: 2026, month: 11, day: 29, clock: 12 * 3600 }, noon);
        assert_eq!(said, noon);
        let one = calendar.resolve(When::Clock(13 * 3600 + 5), noon);
        assert_eq!(one - noon, Span::seconds(3605));
        let eleven = calendar.resolve(When::Clock(11 * 3600), noon);
        assert_eq!(eleven - noon, Span::seconds(23 * 3600));
        assert_eq!(calendar.resolve(When::In(Span::seconds(5)), noon) - noon, Span::seconds(5));
        assert_eq!(calendar.year(noon), 2026);
    }

    #[test]
    fn the_calendar_is_the_place_s() {
        let now = noon();
        let calendar = Calendar::read(now);
        for hours in 0..30_000 {
            let at = now + Span::seconds(hours * 3 * 3600);
            let local = local(at);
            let date = local.date_naive();
            assert_eq!((calendar.date(at), i32::from(calendar.year(at))), (date, date.year()), "{local}");
            let minutes = (hours * 37 % 1440) as u32;
            let shown = first_instant(date.and_time(NaiveTime::MIN) + Duration::minutes(minutes.into()));
            assert_eq!(calendar.at(date, minutes * 60).0, shown.timestamp_millis(), "{date} {minutes}");
        }
    }
}
