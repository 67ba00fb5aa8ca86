//! Lengths of time as people write them. A bare number is minutes for `--time` and seconds everywhere else; all other
//! forms mean the same in both.

use crate::id::BadName;
use crate::job::spec::TimeLimit;
use crate::time::Span;

use super::digits;

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;
const DAY: u64 = 86_400;

/// The longest length: as many minutes as Slurm can count (2^32).
const MAX_SECONDS: u64 = (1 << 32) * MINUTE;

const LIMIT: &str = "a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'";
const SLURM_LIMIT: &str = "a time limit: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S or UNLIMITED";
const LENGTH: &str = "a length of time: seconds, 2s, 5m, 1h30m or H:M:S";

/// Units with the names that are read, from the longest to the shortest.
const UNITS: [(&[&str], u64); 6] = [
    (&["w", "week", "weeks"], 7 * DAY * 1000),
    (&["d", "day", "days"], DAY * 1000),
    (&["h", "hr", "hour", "hours"], HOUR * 1000),
    (&["m", "min", "minute", "minutes"], MINUTE * 1000),
    (&["s", "sec", "second", "seconds"], 1000),
    (&["ms"], 1),
];

/// Reads `--time` as ax means it: `90` is minutes, then `M:S`, `H:M:S`, `D-H`,
/// `D-H:M`, `D-H:M:S`, `8h`, `1d12h`, `unlimited` or `infinite`.
///
/// # Errors
/// When the text is none of these, is nothing at all (`0`) or is longer than 2^32 minutes.
pub fn time_limit(text: &str) -> Result<TimeLimit, BadName> {
    if is_endless(text) {
        return Ok(TimeLimit::Unlimited);
    }
    let span = clock(text, MINUTE).or_else(|| with_units(text)).filter(|span| span.0 > 0);
    span.map(TimeLimit::After).ok_or_else(|| bad(text, LIMIT))
}

/// Reads `--time` exactly as Slurm does: no units, seconds round up to whole
/// minutes, and `0`, `-1`, `INFINITE` and `UNLIMITED` are no limit.
///
/// # Errors
/// When Slurm would call the text invalid.
pub fn slurm_time_limit(text: &str) -> Result<TimeLimit, BadName> {
    if is_endless(text) || text == "-1" {
        return Ok(TimeLimit::Unlimited);
    }
    match clock(text, MINUTE) {
        Some(Span::ZERO) => Ok(TimeLimit::Unlimited),
        Some(span) => Ok(TimeLimit::After(Span::seconds(span.as_seconds().div_ceil(MINUTE) * MINUTE))),
        None => Err(bad(text, SLURM_LIMIT)),
    }
}

/// Reads any other length of time: `90` is seconds, then the forms of `--time`
/// but for `unlimited`. The finest unit is `ms`.
///
/// # Errors
/// When the text is none of these or longer than 2^32 minutes.
pub fn duration(text: &str) -> Result<Span, BadName> {
    clock(text, 1).or_else(|| with_units(text)).ok_or_else(|| bad(text, LENGTH))
}

fn bad(text: &str, expected: &'static str) -> BadName {
    BadName { text: text.to_owned(), expected }
}

fn is_endless(text: &str) -> bool {
    text.eq_ignore_ascii_case("unlimited") || text.eq_ignore_ascii_case("infinite")
}

/// The forms of digits, colons and one hyphen. `bare` is the unit, in
/// seconds, of a number that stands alone.
fn clock(text: &str, bare: u64) -> Option<Span> {
    let seconds = match text.split_once('-') {
        // `1-` is a day, as Slurm has it.
        Some((days, "")) => digits(days)?.checked_mul(DAY)?,
        Some((days, rest)) => {
            digits(days)?.checked_mul(DAY)?.checked_add(fields(rest, &[HOUR, MINUTE, 1])?)?
        }
        None => match text.split(':').count() {
            1 => fields(text, &[bare])?,
            2 => fields(text, &[MINUTE, 1])?,
            _ => fields(text, &[HOUR, MINUTE, 1])?,
        },
    };
    (seconds <= MAX_SECONDS).then(|| Span::seconds(seconds))
}

/// Numbers between colons, each times its weight; fewer numbers than weights are fine.
fn fields(text: &str, weights: &[u64]) -> Option<u64> {
    let numbers: Vec<&str> = text.split(':').collect();
    if numbers.len() > weights.len() {
        return None;
    }
    let mut total = 0u64;
    for (number, weight) in numbers.iter().zip(weights) {
        total = total.checked_add(digits(number)?.checked_mul(*weight)?)?;
    }
    Some(total)
}

/// `1d12h`, `90s`, `500ms`: each unit at most once, from long to short.
fn with_units(text: &str) -> Option<Span> {
    let lower = text.to_ascii_lowercase();
    let (mut rest, mut total, mut next_unit) = (lower.as_str(), 0u64, 0);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (name, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let unit = (next_unit..UNITS.len()).find(|&unit| UNITS[unit].0.contains(&name))?;
        total = total.checked_add(digits(number)?.checked_mul(UNITS[unit].1)?)?;
        (rest, next_unit) = (after, unit + 1);
    }
    (!text.is_empty() && total <= MAX_SECONDS * 1000).then_some(Span(total))
}

/// Writes a length so that both dialects' readers of lengths, and ax's
/// `--time`, read the same again: `1d12h`, `1m30s`, `500ms`, `0s`.
pub fn format_duration(span: Span) -> String {
    let mut text = String::new();
    let mut rest = span.0;
    for (names, unit) in UNITS.iter().skip(1) {
        if rest >= *unit {
            text.push_str(&format!("{}{}", rest / unit, names[0]));
            rest %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Writes a time limit so that ax's `--time` reads the same again.
pub fn format_time_limit(limit: TimeLimit) -> String {
    match limit {
        TimeLimit::After(span) => format_duration(span),
        TimeLimit::Unlimited => "unlimited".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        match time_limit(text) {
            Ok(TimeLimit::After(span)) => Some(span.as_seconds()),
            Ok(TimeLimit::Unlimited) => Some(u64::MAX),
            Err(_) => None,
        }
    }

    #[test]
    fn time_limits_of_ax() {
        for (text, expected) in [
            ("90", 5400),
            ("30:15", 1815),
            ("1:30:15", 5415),
            ("1-2", 93_600),
            ("1-", 86_400),
            ("1-2:3", 93_780),
            ("1-2:3:4", 93_784),
            ("8h", 28_800),
            ("30m", 1800),
            ("90s", 90),
            ("2d", 172_800),
            ("1d12h", 129_600),
            ("1W", 604_800),
            ("2hours", 7200),
            ("unlimited", u64::MAX),
            ("4294967296", MAX_SECONDS),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for text in ["", "0", "0s", "-1", "-", "1h30", "12h1d", "1h1h", "h", "1.5h", "1:2:3:4", "1-2-3", "+5"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
        for text in ["4294967297", "99999999999999999999", "18446744073709551615-23", " 5", "٣"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn other_lengths_are_seconds() {
        for (text, ms) in
            [("90", 90_000), ("0", 0), ("2s", 2000), ("500ms", 500), ("1h30m", 5_400_000), ("0:1:0", 60_000)]
        {
            assert_eq!(duration(text), Ok(Span(ms)), "{text}");
        }
        assert!(duration("unlimited").is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        for ms in [0, 1, 999, 60_000, 86_400_000, 90_061_001, MAX_SECONDS * 1000] {
            assert_eq!(duration(&format_duration(Span(ms))), Ok(Span(ms)));
        }
        assert_eq!(format_duration(Span(129_600_000)), "1d12h");
    }
}
