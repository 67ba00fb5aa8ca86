//! Megabytes of memory as a type. How people write sizes is in `units`.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Memory in units of 2^20 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Megabytes(pub u64);

impl Megabytes {
    /// Nothing.
    pub const ZERO: Megabytes = Megabytes(0);

    /// As many whole megabytes as these bytes hold.
    pub const fn from_bytes(bytes: u64) -> Megabytes {
        Megabytes(bytes >> 20)
    }

    /// Bytes, saturating.
    pub const fn bytes(self) -> u64 {
        self.0.saturating_mul(1 << 20)
    }

    /// The memory of cards for people, in powers of 1000 as they are sold and asked for: `80 GB`.
    pub fn of_card(self) -> String {
        let bytes = self.bytes() as f64;
        // What was asked for as 1 GB is a little less, in whole megabytes.
        if bytes + f64::from(1 << 20) <= 1e9 {
            // As is what was asked for as 500 MB.
            const TEN: u64 = 10_000_000;
            let rounded = self.bytes().div_ceil(TEN) * TEN;
            let asked = if Megabytes::from_bytes(rounded) == self { rounded as f64 } else { bytes };
            return format!("{:.0} MB", asked / 1e6);
        }
        let gigabytes = format!("{:.1}", bytes / 1e9);
        format!("{} GB", gigabytes.strip_suffix(".0").unwrap_or(&gigabytes))
    }

    /// What is left after taking `other`, never below nothing.
    pub const fn saturating_sub(self, other: Megabytes) -> Megabytes {
        Megabytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Megabytes {
    type Output = Megabytes;

    fn add(self, other: Megabytes) -> Megabytes {
        Megabytes(self.0.saturating_add(other.0))
    }
}

impl Sub for Megabytes {
    type Output = Megabytes;

    fn sub(self, other: Megabytes) -> Megabytes {
        self.saturating_sub(other)
    }
}

impl Sum for Megabytes {
    fn sum<I: Iterator<Item = Megabytes>>(all: I) -> Megabytes {
        all.fold(Megabytes::ZERO, Add::add)
    }
}

/// `512 MB` or, from a gigabyte on, `1.5 GB`: for people.
impl fmt::Display for Megabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            mb if mb < 1024 => write!(f, "{mb} MB"),
            mb if mb % 1024 == 0 => write!(f, "{} GB", mb / 1024),
            mb => write!(f, "{:.1} GB", mb as f64 / 1024.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_spoken_of_as_they_are_sold() {
        let said = |bytes: u64| Megabytes::from_bytes(bytes).of_card();
        assert_eq!((said(80_000_000_000).as_str(), said(10_000_000_000).as_str()), ("80 GB", "10 GB"));
        assert_eq!((said(1_500_000_000).as_str(), said(512_000_000).as_str()), ("1.5 GB", "512 MB"));
        assert_eq!((said(500_000_000).as_str(), said(511_000_000).as_str()), ("500 MB", "511 MB"));
        assert_eq!((said(1_000_000_000).as_str(), said(998_000_000).as_str()), ("1 GB", "997 MB"));
    }
}
