//! Figures over time, thinned out by second, minute and hour. Each stretch keeps the least, the mean and the most of
//! what was seen in it, so that thinning loses no peak.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::time::WallTime;

/// A figure during a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The least.
    pub min: f64,
    /// The mean of all that was seen.
    pub mean: f64,
    /// The most.
    pub max: f64,
    /// How often it was seen.
    pub count: u32,
}

impl Figure {
    /// A figure that was seen once.
    pub fn once(value: f64) -> Figure {
        Figure { min: value, mean: value, max: value, count: 1 }
    }

    /// Two stretches together.
    pub fn and(self, other: Figure) -> Figure {
        let (one, two) = (f64::from(self.count), f64::from(other.count));
        Figure {
            min: self.min.min(other.min),
            mean: if one + two > 0.0 { (self.mean * one + other.mean * two) / (one + two) } else { 0.0 },
            max: self.max.max(other.max),
            count: self.count.saturating_add(other.count),
        }
    }
}

/// How finely figures are kept, the finest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// As they were taken.
    Second,
    /// By the minute.
    Minute,
    /// By the hour.
    Hour,
}

impl Grain {
    /// All grains, the finest first.
    pub const ALL: [Grain; 3] = [Grain::Second, Grain::Minute, Grain::Hour];

    /// Its length, seconds.
    pub const fn seconds(self) -> u32 {
        match self {
            Grain::Second => 1,
            Grain::Minute => 60,
            Grain::Hour => 3600,
        }
    }

    /// How long figures of this grain are kept, seconds: an hour, two days, a year.
    pub const fn kept_seconds(self) -> u32 {
        match self {
            Grain::Second => 3600,
            Grain::Minute => 2 * 86_400,
            Grain::Hour => 366 * 86_400,
        }
    }

    /// The finest grain that is still kept for all of the last `seconds` seconds.
    pub fn reaching(seconds: u64) -> Grain {
        let reaches = |grain: &Grain| u64::from(grain.kept_seconds()) >= seconds;
        Grain::ALL.into_iter().find(reaches).unwrap_or(Grain::Hour)
    }
}

/// The beginning of the stretch of `seconds` seconds in which an instant lies.
pub fn beginning(at: WallTime, seconds: u32) -> WallTime {
    let width = i64::from(seconds.max(1)) * 1000;
    WallTime(at.0.div_euclid(width).saturating_mul(width))
}

/// Merges figures that lie in the same stretch of `seconds` seconds.
pub fn thin(
    figures: impl IntoIterator<Item = (WallTime, Figure)>,
    seconds: u32,
) -> BTreeMap<WallTime, Figure> {
    let mut thinned: BTreeMap<WallTime, Figure> = BTreeMap::new();
    for (at, figure) in figures {
        let entry = thinned.entry(beginning(at, seconds));
        entry.and_modify(|known| *known = known.and(figure)).or_insert(figure);
    }
    thinned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> WallTime {
        WallTime(seconds * 1000)
    }

    #[test]
    fn a_minute_keeps_its_peak_and_its_mean() {
        let seen = (0..90).map(|second| (at(second), Figure::once(if second == 7 { 100.0 } else { 10.0 })));
        let minutes = thin(seen, 60);
        assert_eq!(
            minutes[&at(0)],
            Figure { min: 10.0, mean: (59.0 * 10.0 + 100.0) / 60.0, max: 100.0, count: 60 }
        );
        assert_eq!(minutes[&at(60)], Figure { min: 10.0, mean: 10.0, max: 10.0, count: 30 });
        assert_eq!(minutes.len(), 2);
    }

    #[test]
    fn hours_of_minutes_are_hours_of_seconds() {
        let value = |second: i64| f64::from(u32::try_from(second * 7919 % 101).unwrap());
        let seconds: Vec<_> = (0..7200).map(|second| (at(second), Figure::once(value(second)))).collect();
        let direct = thin(seconds.iter().copied(), 3600);
        let by_minutes = thin(thin(seconds, 60), 3600);
        for (at, hour) in direct {
            let other = by_minutes[&at];
            assert_eq!((hour.min, hour.max, hour.count), (other.min, other.max, other.count));
            assert!((hour.mean - other.mean).abs() < 1e-9, "{hour:?} {other:?}");
        }
    }

    #[test]
    fn times_before_the_epoch_fall_into_the_stretch_below() {
        assert_eq!(beginning(at(-1), 60), at(-60));
        assert_eq!(beginning(at(61), 60), at(60));
    }

    #[test]
    fn the_finest_grain_that_reaches_so_far() {
        let seconds = [(60, Grain::Second), (3601, Grain::Minute), (3 * 86_400, Grain::Hour)];
        for (span, grain) in seconds {
            assert_eq!(Grain::reaching(span), grain);
        }
        assert_eq!(Grain::reaching(u64::MAX), Grain::Hour);
    }
}
