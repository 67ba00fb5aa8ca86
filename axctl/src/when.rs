//! Times as people read them, in the caller's zone: absolute on the left, how long ago or ahead beside it. Also reads
//! the times that people type. For people only: JSON keeps RFC 3339.

use ax_core::time::{Span, WallTime};
use chrono::{
    DateTime, Datelike, FixedOffset, Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc,
};

use crate::failure::Failure;

/// The zone that times are shown in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// The caller's: `TZ`, then the system's.
    Local,
    /// So many seconds east of Greenwich.
    Fixed(i32),
}

impl Zone {
    fn at(self, time: WallTime) -> Option<DateTime<FixedOffset>> {
        let utc = DateTime::<Utc>::from_timestamp_millis(time.0)?;
        Some(match self {
            Zone::Local => utc.with_timezone(&Local).fixed_offset(),
            Zone::Fixed(seconds) => utc.with_timezone(&FixedOffset::east_opt(seconds)?),
        })
    }

    /// The instant of a local date and time; in a gap the first instant after it, of two the earlier.
    fn instant(self, local: NaiveDateTime) -> Option<WallTime> {
        let found = |at: NaiveDateTime| match self {
            Zone::Local => match Local.from_local_datetime(&at) {
                LocalResult::Single(time) => Some(time.timestamp_millis()),
                // The library tells them in the order of their offsets, and calls the end of a doubled hour doubled too.
                LocalResult::Ambiguous(one, other) => {
                    let both = [one.min(other), one.max(other)];
                    let shows = |time: &DateTime<Local>| {
                        Local.from_utc_datetime(&time.naive_utc()).naive_local() == at
                    };
                    both.into_iter().find(shows).map(|time| time.timestamp_millis())
                }
                LocalResult::None => None,
            },
            Zone::Fixed(seconds) => {
                let zone = FixedOffset::east_opt(seconds)?;
                zone.from_local_datetime(&at).earliest().map(|t| t.timestamp_millis())
            }
        };
        // No zone skips more than a day.
        let tries = (0..=24 * 60).map(|minutes| local + chrono::Duration::minutes(minutes));
        tries.into_iter().find_map(found).map(WallTime)
    }
}

/// The present and the zone: all that times need to be shown.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The present.
    pub now: WallTime,
    /// The zone.
    pub zone: Zone,
}

impl Clock {
    /// A text with the instants in it that are written as the daemon does, `2026-11-30T10:57:46.470Z`, in the zone.
    pub fn localized(&self, text: &str) -> String {
        let words = text.split(' ').map(|word| {
            let (bare, mark) = match word.strip_suffix([',', ';', ':']) {
                Some(bare) => (bare, &word[bare.len()..]),
                None => (word, ""),
            };
            let is_one = bare.len() == "2026-11-30T10:57:46.470Z".len() && bare.ends_with('Z');
            match bare.parse() {
                Ok(at) if is_one => format!("{}{mark}", self.absolute(at)),
                _ => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// For tables: `15:32:14` today, `Nov 28 15:32` this year, `2025-11-28 15:32` otherwise.
    pub fn short(&self, time: WallTime) -> String {
        let (Some(then), Some(now)) = (self.zone.at(time), self.zone.at(self.now)) else {
            return time.to_string();
        };
        let pattern = if then.date_naive() == now.date_naive() {
            "%H:%M:%S"
        } else if then.year() == now.year() {
            "%b %d %H:%M"
        } else {
            "%Y-%m-%d %H:%M"
        };
        then.format(pattern).to_string()
    }

    /// Whole: `2026-11-29 15:32:14 +01:00`.
    pub fn absolute(&self, time: WallTime) -> String {
        let shown = self.zone.at(time).map(|then| then.format("%Y-%m-%d %H:%M:%S %:z").to_string());
        shown.unwrap_or_else(|| time.to_string())
    }

    /// Whole, with `(2h05m ago)` or `(in 12s)`.
    pub fn both(&self, time: WallTime) -> String {
        format!("{} ({})", self.absolute(time), self.relative(time))
    }

    /// `2h05m ago`, `just now`, `now`, `in 12s`. What is past is never `now`: it reads as if it were going on.
    pub fn relative(&self, time: WallTime) -> String {
        if time.0.abs_diff(self.now.0) < 1000 {
            if time < self.now { "just now" } else { "now" }.to_owned()
        } else if time > self.now {
            format!("in {}", length(time - self.now))
        } else {
            format!("{} ago", length(self.now - time))
        }
    }

    /// A time that a person typed, as [`Clock::parse`] reads it.
    ///
    /// # Errors
    /// Usage, with examples.
    pub fn read(&self, text: &str) -> Result<WallTime, Failure> {
        let unknown = || {
            Failure::usage(format!(
                "'{text}' is not a time such as today, 7d (ago), 14:30, 2026-11-29 or 2026-11-29T14:30"
            ))
        };
        self.parse(text).ok_or_else(unknown)
    }

    /// A time that a person typed: `today`, `yesterday`, `now`, `7d` (ago), `14:30`, `2026-11-29`,
    /// `2026-11-29T14:30[:00]` in the zone, or RFC 3339.
    pub fn parse(&self, text: &str) -> Option<WallTime> {
        let today = self.zone.at(self.now)?.date_naive();
        let midnight = |date: NaiveDate| self.zone.instant(date.and_time(NaiveTime::MIN));
        match text {
            "now" => return Some(self.now),
            "today" => return midnight(today),
            "yesterday" => return midnight(today.pred_opt()?),
            _ => {}
        }
        if let Some(span) = parse_length(text) {
            return Some(WallTime(self.now.0.saturating_sub_unsigned(span.0)));
        }
        if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            return midnight(date);
        }
        for pattern in ["%H:%M", "%H:%M:%S"] {
            if let Ok(time) = NaiveTime::parse_from_str(text, pattern) {
                return self.zone.instant(today.and_time(time));
            }
        }
        for pattern in ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"] {
            if let Ok(time) = NaiveDateTime::parse_from_str(text, pattern) {
                return self.zone.instant(time);
            }
        }
        text.parse().ok()
    }
}

/// A length in at most two units: `12s`, `5m30s`, `2h05m`, `3d04h`.
pub fn length(span: Span) -> String {
    span.in_words()
}

/// `90s`, `5m`, `2h`, `7d`, `2w`.
fn parse_length(text: &str) -> Option<Span> {
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse::<u64>().ok()?.checked_mul(unit)).flatten().map(Span::seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-29 16:32:14 +01:00.
    const CLOCK: Clock = Clock { now: WallTime(1_795_966_334_000), zone: Zone::Fixed(3600) };

    #[test]
    fn times_are_shown_in_the_zone() {
        assert_eq!(CLOCK.absolute(CLOCK.now), "2026-11-29 16:32:14 +01:00");
        assert_eq!(CLOCK.short(CLOCK.now), "16:32:14");
        assert_eq!(CLOCK.short(WallTime(CLOCK.now.0 - 86_400_000)), "Nov 28 16:32");
        assert_eq!(CLOCK.short(WallTime(0)), "1970-01-01 01:00");
        assert_eq!(CLOCK.both(WallTime(CLOCK.now.0 + 12_000)), "2026-11-29 16:32:26 +01:00 (in 12s)");
        for (ago, text) in [(7_500_000, "2h05m ago"), (2000, "2s ago"), (500, "just now"), (0, "now")] {
            assert_eq!(CLOCK.relative(WallTime(CLOCK.now.0 - ago)), text);
        }
    }

    #[test]
    fn instants_in_texts_are_shown_in_the_zone() {
        let text = "begins at 2026-11-29T15:32:14.470Z, priority 1 → 2, by li: Z, 2026Z";
        let shown = "begins at 2026-11-29 16:32:14 +01:00, priority 1 → 2, by li: Z, 2026Z";
        assert_eq!(CLOCK.localized(text), shown);
    }

    #[test]
    fn lengths_have_two_units() {
        let texts = [(12, "12s"), (330, "5m30s"), (7500, "2h05m"), (273_600, "3d04h")];
        for (seconds, text) in texts {
            assert_eq!(length(Span::seconds(seconds)), text);
        }
    }

    #[test]
    fn typed_times_are_read_in_the_zone() {
        for (text, utc) in [
            ("today", "2026-11-28T23:00:00Z"),
            ("yesterday", "2026-11-27T23:00:00Z"),
            ("2026-11-01", "2026-10-31T23:00:00Z"),
            ("14:30", "2026-11-29T13:30:00Z"),
            ("2026-11-01T14:30", "2026-11-01T13:30:00Z"),
            ("2026-11-01 14:30:05", "2026-11-01T13:30:05Z"),
            ("2026-11-01T14:30:00Z", "2026-11-01T14:30:00Z"),
            ("7d", "2026-11-22T15:32:14Z"),
        ] {
            assert_eq!(CLOCK.parse(text), Some(utc.parse().unwrap()), "{text}");
        }
        for text in ["", "d", "-1d", "soon", "2026-13-01", "99999999999999999999d"] {
            assert_eq!(CLOCK.parse(text), None, "{text}");
        }
    }
}
