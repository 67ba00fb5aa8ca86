//! Points in time as people write them: `16:00`, `now+2h`, `tomorrow`, `2026-12-24T18:00`. They refer to the
//! cluster's clock, which is not read here.

use crate::id::BadName;
use crate::job::spec::When;
use crate::time::{Span, WallTime};
use crate::units::{duration, format_duration};

const EXPECTED: &str = "a time: 16:00, now+2h, tomorrow, 'tomorrow 16:00' or 2030-12-24T18:00";

const HOUR: u32 = 3600;

/// Names of clock times, as Slurm has them.
const NAMED: [(&str, u32); 5] = [
    ("midnight", 0),
    ("elevenses", 11 * HOUR),
    ("noon", 12 * HOUR),
    ("fika", 15 * HOUR),
    ("teatime", 16 * HOUR),
];

/// Reads a point in time: `now`, `now+90` (seconds), `now+1hour`, a clock time
/// (`16:00`, `4pm`, `noon`), `today` or `tomorrow` with or without one, a date (`2030-12-24`,
/// `12/24/30`, `122430`) with or without one, a time with its zone
/// (`2030-12-24T18:00:00Z`) or `uts` with seconds since 1970. Capitals do not matter.
///
/// # Errors
/// When it is none of these. A date needs its year: without, it would depend on the clock.
pub(super) fn parse(text: &str) -> Result<When, BadName> {
    let words = text.to_ascii_lowercase();
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    read(&words).ok_or_else(|| BadName { text: text.to_owned(), expected: EXPECTED })
}

fn read(words: &[&str]) -> Option<When> {
    match words {
        [] => None,
        [one] => single(one),
        [day, clock @ ..] if is_day(day) => join(day, &clock.concat()),
        [clock @ .., day] if is_day(day) => join(day, &clock.concat()),
        clock => self::clock(&clock.concat()).map(When::Clock),
    }
}

fn single(word: &str) -> Option<When> {
    if let Some(rest) = word.strip_prefix("now") {
        return after_now(rest);
    }
    if let Some(seconds) = word.strip_prefix("uts") {
        let seconds: u32 = seconds.parse().ok()?;
        return Some(When::At(WallTime(i64::from(seconds) * 1000)));
    }
    if let Ok(at) = word.to_ascii_uppercase().parse() {
        return Some(When::At(at));
    }
    if let Some((day, clock)) = word.split_once('t').filter(|(day, _)| is_date(day)) {
        return join(day, clock);
    }
    if is_day(word) { join(word, "midnight") } else { clock(word).map(When::Clock) }
}

/// `` , `+90`, `+1hour`; what lies in the past is now.
fn after_now(rest: &str) -> Option<When> {
    match rest.split_at_checked(1) {
        None => Some(When::In(Span::ZERO)),
        Some(("+", length)) => duration(length).ok().map(When::In),
        Some(("-", length)) => duration(length).ok().map(|_| When::In(Span::ZERO)),
        Some(_) => None,
    }
}

fn is_day(word: &str) -> bool {
    matches!(word, "today" | "tomorrow") || is_date(word)
}

fn is_date(word: &str) -> bool {
    date(word).is_some()
}

/// A day and a clock time.
fn join(day: &str, clock: &str) -> Option<When> {
    let clock = self::clock(clock)?;
    match day {
        "today" => Some(When::Day { days: 0, clock }),
        "tomorrow" => Some(When::Day { days: 1, clock }),
        _ => {
            let (year, month, day) = date(day)?;
            Some(When::Date { year, month, day, clock })
        }
    }
}

/// `2030-12-24`, `12/24/30`, `12.24.30`, `122430`.
fn date(word: &str) -> Option<(u16, u8, u8)> {
    let by_dash = parts(word, '-');
    let by_mark = parts(word, '/').or_else(|| parts(word, '.'));
    let (year, month, day) = match (by_dash.as_deref(), by_mark.as_deref()) {
        (Some(&[year, month, day]), _) | (_, Some(&[month, day, year])) => (year, month, day),
        (Some(&[digits]), _) if digits.len() == 6 => (&digits[4..], &digits[..2], &digits[2..4]),
        _ => return None,
    };
    let full_year: i64 = match year.len() {
        4 => year.parse().ok()?,
        2 => 2000 + year.parse::<i64>().ok()?,
        _ => return None,
    };
    let (month, day): (i64, i64) = (month.parse().ok()?, day.parse().ok()?);
    // A date exists if the calendar gives it back.
    let back = WallTime::from_utc((full_year, month, day), (0, 0, 0), 0).to_string();
    let exists =
        (1..=12).contains(&month) && back.starts_with(&format!("{full_year:04}-{month:02}-{day:02}T"));
    exists.then_some((full_year as u16, month as u8, day as u8))
}

/// The parts between separators, if all are short numbers.
fn parts(word: &str, separator: char) -> Option<Vec<&str>> {
    let parts: Vec<&str> = word.split(separator).collect();
    let number = |part: &&str| (1..=6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    parts.iter().all(number).then_some(parts)
}

/// Seconds after midnight: `16:00`, `16:00:30`, `4pm`, `4:30pm`, `noon`.
fn clock(text: &str) -> Option<u32> {
    if let Some((_, seconds)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Some(*seconds);
    }
    let (numbers, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(numbers), _) => (numbers, Some(0)),
        (_, Some(numbers)) => (numbers, Some(12)),
        _ => (text, None),
    };
    let fields = numbers.split(':').map(|field| {
        let plain = (1..=2).contains(&field.len()) && field.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| field.parse::<u32>().ok()).flatten()
    });
    let fields = fields.collect::<Option<Vec<u32>>>()?;
    let (hour, minute, second) = match fields[..] {
        [hour] if half.is_some() => (hour, 0, 0),
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let hour = match half {
        Some(add) if (1..=12).contains(&hour) => hour % 12 + add,
        Some(_) => return None,
        None => hour,
    };
    (hour < 24 && minute < 60 && second < 60).then_some(hour * HOUR + minute * 60 + second)
}

/// Writes a point in time so that it is read the same again.
pub(super) fn format(when: &When) -> String {
    let clock = |s: u32| format!("{:02}:{:02}:{:02}", s / HOUR, s / 60 % 60, s % 60);
    match *when {
        When::In(span) => format!("now+{}", format_duration(span)),
        When::Clock(seconds) => clock(seconds),
        When::Day { days: 0, clock: seconds } => format!("today {}", clock(seconds)),
        When::Day { clock: seconds, .. } => format!("tomorrow {}", clock(seconds)),
        When::Date { year, month, day, clock: seconds } => {
            format!("{year:04}-{month:02}-{day:02}T{}", clock(seconds))
        }
        When::At(at) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time() {
        let date = |clock| When::Date { year: 2030, month: 12, day: 24, clock };
        for (text, when) in [
            ("now", When::In(Span::ZERO)),
            ("now+90", When::In(Span::seconds(90))),
            ("now+1hour", When::In(Span::seconds(3600))),
            ("NOW+2h", When::In(Span::seconds(7200))),
            ("now-5", When::In(Span::ZERO)),
            ("16:00", When::Clock(16 * HOUR)),
            ("4:30pm", When::Clock(16 * HOUR + 1800)),
            ("12 am", When::Clock(0)),
            ("noon", When::Clock(12 * HOUR)),
            ("tomorrow", When::Day { days: 1, clock: 0 }),
            ("16:00 tomorrow", When::Day { days: 1, clock: 16 * HOUR }),
            ("today 4 pm", When::Day { days: 0, clock: 16 * HOUR }),
            ("2030-12-24", date(0)),
            ("2030-12-24T18:00", date(18 * HOUR)),
            ("12/24/30 18:00:05", date(18 * HOUR + 5)),
            ("122430", date(0)),
            ("2030-12-24T18:00:00Z", When::At(WallTime(1_924_365_600_000))),
            ("uts10", When::At(WallTime(10_000))),
        ] {
            assert_eq!(parse(text), Ok(when), "{text}");
            assert_eq!(parse(&format(&when)), Ok(when), "{text}");
        }
        for text in [
            "",
            "x",
            "24:00",
            "16",
            "13pm",
            "0am",
            "2030-02-30",
            "12/24",
            "now+",
            "now+x",
            "now*2",
            "tomorrow x",
            "uts",
            "uts-1",
            "1:2:3:4",
            "2030-12-24T",
            "noon noon",
            "é",
            "99999-1-1",
            "-",
            "16:00 é",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
