//! The words of `--test-only`: the daemon's forecast, with times in the caller's zone. `axbatch` starts fast, so it
//! uses the C library instead of the tables of zones that lists use.

use ax_core::api::{Forecast, SubmitAnswer};
use ax_core::time::{Span, WallTime};

/// The sentence; an older daemon's own where it sends no more.
pub(super) fn sentence(answer: &SubmitAnswer, now: WallTime) -> Option<String> {
    match &answer.foretold {
        None | Some(Forecast::Unknown) => answer.forecast.clone(),
        Some(forecast) => Some(forecast.sentence(|at| {
            let offset = ax_sys::clock::zone_offset_s(at.0).unwrap_or(0);
            format!("{} ({})", absolute(*at, offset), ahead(*at, now))
        })),
    }
}

/// `2026-11-29 16:32:14 +01:00`, so many seconds east of Greenwich.
fn absolute(at: WallTime, offset: i64) -> String {
    let local = WallTime(at.0.saturating_add(offset.saturating_mul(1000))).to_string();
    let clock = local.get(..19).unwrap_or(&local).replace('T', " ");
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    format!("{clock} {sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn ahead(at: WallTime, now: WallTime) -> String {
    match at - now {
        Span(0) => "now".to_owned(),
        span => format!("in {}", span.in_words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_zone() {
        let at = WallTime(1_795_966_334_000);
        assert_eq!(absolute(at, 3600), "2026-11-29 16:32:14 +01:00");
        assert_eq!(absolute(at, -12_600), "2026-11-29 12:02:14 -03:30");
        assert_eq!(ahead(at, WallTime(at.0 - 90_000)), "in 1m30s");
        assert_eq!(ahead(at, at), "now");
    }
}
