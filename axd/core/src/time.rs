//! Time, handed in by the caller: a boot clock that counts suspend, for durations and leases, and wall-clock time for
//! people. Nothing here reads a clock.

mod zone;

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{BadName, text_serde};

pub use zone::{Offset, Zone};

/// A length of time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A length of whole seconds.
    pub const fn seconds(seconds: u64) -> Span {
        Span(seconds.saturating_mul(1000))
    }

    /// Whole seconds, rounded down.
    pub const fn as_seconds(self) -> u64 {
        self.0 / 1000
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Span {
    /// In sentences, in at most two units: `12s`, `5m30s`, `2h05m`, `3d04h`.
    pub fn in_words(self) -> String {
        let seconds = self.as_seconds();
        match seconds {
            0..60 => format!("{seconds}s"),
            60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
            3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
            _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
        }
    }
}

/// Slurm's way of writing lengths: `2-03:04:05`, `03:04:05`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.as_seconds();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        if days > 0 {
            write!(f, "{days}-")?;
        }
        write!(f, "{hours:02}:{minutes:02}:{:02}", seconds % 60)
    }
}

/// An instant of the boot clock: milliseconds since the machine started, suspend counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(pub u64);

impl Add<Span> for BootTime {
    type Output = BootTime;

    fn add(self, span: Span) -> BootTime {
        BootTime(self.0.saturating_add(span.0))
    }
}

impl Sub for BootTime {
    type Output = Span;

    fn sub(self, earlier: BootTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

/// An instant for people: milliseconds since 1970, UTC. Never used for safety.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(pub i64);

impl Add<Span> for WallTime {
    type Output = WallTime;

    fn add(self, span: Span) -> WallTime {
        WallTime(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub for WallTime {
    type Output = Span;

    fn sub(self, earlier: WallTime) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The time at which something happens to the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Now {
    /// For durations, back-off, ageing and leases.
    pub boot: BootTime,
    /// For accounts and begin times.
    pub wall: WallTime,
}

/// Days since 1970-01-01 of a date of the Gregorian calendar
/// (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since 1970-01-01 (same source, civil_from_days).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// RFC 3339 in UTC with milliseconds: `2026-11-29T15:32:14.123Z`.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
    }
}

impl WallTime {
    /// The instant of a UTC date and time of day.
    pub fn from_utc(date: (i64, i64, i64), time: (i64, i64, i64), ms: i64) -> WallTime {
        let days = days_from_civil(date.0, date.1, date.2);
        WallTime(((days * 24 + time.0) * 60 + time.1) * 60_000 + time.2 * 1000 + ms)
    }
}

impl FromStr for WallTime {
    type Err = BadName;

    /// Reads RFC 3339 with any offset.
    fn from_str(text: &str) -> Result<Self, BadName> {
        parse_rfc3339(text)
            .ok_or_else(|| BadName { text: text.to_owned(), expected: "a time such as 2026-11-29T15:32:14Z" })
    }
}

fn parse_rfc3339(text: &str) -> Option<WallTime> {
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok()).flatten()
    };
    let mark = |at: usize, chars: &str| text.get(at..=at).is_some_and(|c| chars.contains(c));
    if !(mark(4, "-") && mark(7, "-") && mark(10, "Tt ") && mark(13, ":") && mark(16, ":")) {
        return None;
    }
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let valid =
        (1..=12).contains(&month) && civil_from_days(days_from_civil(year, month, day)) == (year, month, day);
    if !valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let rest = text.get(19..)?;
    let fraction =
        rest.strip_prefix('.').map_or("", |r| &r[..r.find(|c: char| !c.is_ascii_digit()).unwrap_or(r.len())]);
    let ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let zone = &rest[if fraction.is_empty() { 0 } else { fraction.len() + 1 }..];
    let offset_minutes = match zone {
        "Z" | "z" => 0,
        _ => {
            let sign = match zone.as_bytes().first()? {
                b'+' => 1,
                b'-' => -1,
                _ => return None,
            };
            let (hours, minutes) = zone[1..].split_once(':')?;
            let field = |text: &str| text.parse::<u8>().ok().filter(|_| text.len() == 2);
            sign * (i64::from(field(hours)?) * 60 + i64::from(field(minutes)?))
        }
    };
    let local = WallTime::from_utc((year, month, day), (hour, minute, second), ms);
    Some(WallTime(local.0 - offset_minutes * 60_000))
}
text_serde!(WallTime);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_is_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_966_334_123, "2026-11-29T15:32:14.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(WallTime(ms).to_string(), text);
            assert_eq!(text.parse::<WallTime>().unwrap(), WallTime(ms));
        }
        assert_eq!("2026-11-29T16:32:14+01:00".parse::<WallTime>().unwrap(), WallTime(1_795_966_334_000));
        for text in [
            "2026-02-30T00:00:00Z",
            "2026-11-29",
            "2026-11-29T15:32:14",
            "2026-11-29T25:00:00Z",
            "é",
            "2026-11-29T15:32:14+9223372036854775807:00",
        ] {
            assert!(text.parse::<WallTime>().is_err(), "{text}");
        }
    }

    #[test]
    fn spans_read_like_slurm() {
        assert_eq!(Span::seconds(93_784).to_string(), "1-02:03:04");
        assert_eq!(Span(59_999).to_string(), "00:00:59");
        assert_eq!(Span(59_999).in_words(), "59s");
        assert_eq!(Span::seconds(1787).in_words(), "29m47s");
        assert_eq!(Span::seconds(7500).in_words(), "2h05m");
        assert_eq!(Span::seconds(93_784).in_words(), "1d02h");
    }
}
