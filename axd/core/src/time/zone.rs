//! A time zone as a table: how far local time is ahead of UTC, from when on. The caller, who knows the zone's rules,
//! fills it in; nothing is looked up here.

use serde::{Deserialize, Serialize};

use super::WallTime;

/// Milliseconds of a day without a change of clocks.
const DAY: i64 = 86_400_000;

/// See the module's words. Without any entry it is UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Zone {
    /// What is called nought.
    #[serde(skip_serializing_if = "is_epoch")]
    origin: WallTime,
    offsets: Vec<Offset>,
}

fn is_epoch(origin: &WallTime) -> bool {
    origin.0 == 0
}

/// From an instant on the clock is so much ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// From then on.
    pub from: WallTime,
    /// Seconds; negative west of Greenwich.
    pub seconds: i64,
}

impl Zone {
    /// The clock that these make, in order of time; before the first of them it is ahead as from then on.
    pub fn of(offsets: impl IntoIterator<Item = Offset>) -> Zone {
        Zone { origin: WallTime(0), offsets: offsets.into_iter().collect() }
    }

    /// The clock of somebody who calls that instant nought.
    #[must_use]
    pub fn since(&self, origin: WallTime) -> Zone {
        Zone { origin: WallTime(self.origin.0 + origin.0), offsets: self.offsets.clone() }
    }

    /// Whether two clocks show the same all the time from an instant to another, not counted from their origins: how far
    /// their tables go back and ahead is nobody's business.
    pub fn goes_like(&self, other: &Zone, from: WallTime, until: WallTime) -> bool {
        let changes = |zone: &Zone| -> Vec<Offset> {
            let within = zone.offsets.iter().filter(|offset| from < offset.from && offset.from <= until);
            within.copied().collect()
        };
        self.ahead(from) == other.ahead(from) && changes(self) == changes(other)
    }

    /// Milliseconds by which the clock is ahead at an instant.
    fn ahead(&self, at: WallTime) -> i64 {
        let later = self.offsets.partition_point(|offset| offset.from <= at);
        self.offsets.get(later.saturating_sub(1)).map_or(0, |offset| offset.seconds * 1000)
    }

    /// The day by the clock, counted from 1970-01-01.
    pub fn day(&self, at: WallTime) -> i64 {
        let at = WallTime(at.0.saturating_add(self.origin.0));
        at.0.saturating_add(self.ahead(at)).div_euclid(DAY)
    }

    /// The instant at which the clock shows so many minutes after midnight of a day. What it shows twice is the first
    /// time, what it leaves out the instant at which it goes on.
    pub fn instant(&self, day: i64, minutes: u16) -> WallTime {
        let shown = day * DAY + i64::from(minutes) * 60_000;
        let (before, after) = (WallTime(shown - 2 * DAY), WallTime(shown + 2 * DAY));
        let near = self.offsets.iter().filter(|offset| before < offset.from && offset.from < after);
        let mut ahead = vec![(WallTime(i64::MIN), self.ahead(before))];
        ahead.extend(near.map(|offset| (offset.from, offset.seconds * 1000)));
        for (at, (from, ahead_by)) in ahead.iter().enumerate() {
            let until = ahead.get(at + 1).map_or(i64::MAX, |(from, _)| from.0);
            // Between two entries the clock runs on from what it shows at the first: earlier it was left out.
            let instant = (shown - ahead_by).max(from.0);
            if instant < until {
                return WallTime(instant - self.origin.0);
            }
        }
        WallTime(shown - self.origin.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> WallTime {
        text.parse().unwrap()
    }

    /// Summer time from the end of March to the end of October of 2026.
    fn berlin() -> Zone {
        let change = |from, seconds| Offset { from: at(from), seconds };
        Zone::of([
            change("2025-10-26T01:00:00Z", 3600),
            change("2026-03-29T01:00:00Z", 7200),
            change("2026-10-25T01:00:00Z", 3600),
        ])
    }

    #[test]
    fn a_clock_is_ahead_as_its_table_says() {
        let (zone, day) = (berlin(), |text: &str| at(text).0.div_euclid(DAY));
        for (date, minutes, instant) in [
            ("2026-01-15T00:00:00Z", 22 * 60, "2026-01-15T22:00:00+01:00"),
            ("2026-07-15T00:00:00Z", 22 * 60, "2026-07-15T22:00:00+02:00"),
            // Left out: 02:00 to 03:00.
            ("2026-03-29T00:00:00Z", 119, "2026-03-29T01:59:00+01:00"),
            ("2026-03-29T00:00:00Z", 120, "2026-03-29T03:00:00+02:00"),
            ("2026-03-29T00:00:00Z", 150, "2026-03-29T03:00:00+02:00"),
            ("2026-03-29T00:00:00Z", 181, "2026-03-29T03:01:00+02:00"),
            // Shown twice: 02:00 to 03:00.
            ("2026-10-25T00:00:00Z", 119, "2026-10-25T01:59:00+02:00"),
            ("2026-10-25T00:00:00Z", 150, "2026-10-25T02:30:00+02:00"),
            ("2026-10-25T00:00:00Z", 181, "2026-10-25T03:01:00+01:00"),
        ] {
            assert_eq!(zone.instant(day(date), minutes), at(instant), "{date} {minutes}");
        }
        assert_eq!(zone.day(at("2026-01-15T23:30:00Z")), day("2026-01-16T00:00:00Z"));
        assert_eq!(Zone::default().instant(3, 60), WallTime(3 * DAY + 3_600_000));
    }

    #[test]
    fn tables_of_another_length_are_the_same_clock() {
        let change = |from, seconds| Offset { from: at(from), seconds };
        let (summer, winter) = (change("2026-03-29T01:00:00Z", 7200), change("2026-10-25T01:00:00Z", 3600));
        let (now, until) = (at("2026-05-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        for (other, same) in [
            (Zone::of([summer, winter, change("2027-03-28T01:00:00Z", 7200)]), true),
            (Zone::of([change("2026-04-01T00:00:00Z", 7200), winter]), true),
            (Zone::of([summer]), false),
            (Zone::of([change("2026-03-29T01:00:00Z", 3600), winter]), false),
            (Zone::of([summer, change("2026-10-26T01:00:00Z", 3600)]), false),
            (Zone::default(), false),
        ] {
            assert_eq!(berlin().goes_like(&other, now, until), same, "{other:?}");
        }
    }

    #[test]
    fn who_counts_from_another_instant_sees_the_same_clock() {
        let origin = at("2026-03-28T20:30:00Z");
        for zone in [berlin(), Zone::default()] {
            let theirs = zone.since(origin);
            for minutes in [0, 61, 90, 150, 23 * 60] {
                for days in 0..3 {
                    let day = zone.day(origin) + days;
                    let shifted = WallTime(zone.instant(day, minutes).0 - origin.0);
                    assert_eq!(theirs.instant(day, minutes), shifted, "{days} {minutes}");
                }
            }
        }
    }
}
