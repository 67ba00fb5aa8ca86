//! Names of things: job numbers and ids, epochs, attempts, submission keys,
//! users, queues, hosts. Each is a type of its own with one text form.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A text that is not the name it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not {expected}")]
pub struct BadName {
    /// What was given.
    pub text: String,
    /// What would have been right, for example `a job id such as ax-2026-0001`.
    pub expected: &'static str,
}

fn bad<T>(text: &str, expected: &'static str) -> Result<T, BadName> {
    Err(BadName { text: text.to_owned(), expected })
}

/// Serialises a type by its `Display` and `FromStr`, so that text forms on the
/// wire, in records and on screen are one.
macro_rules! text_serde {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use text_serde;

/// The number of a job: grows without end, never restarts, below 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobNumber(pub u32);

impl JobNumber {
    /// The largest number: Slurm's clients parse a signed 32-bit integer.
    pub const MAX: JobNumber = JobNumber(i32::MAX as u32);

    /// The next number, or `None` at the end of the range.
    pub fn next(self) -> Option<JobNumber> {
        (self < Self::MAX).then(|| JobNumber(self.0 + 1))
    }
}

impl fmt::Display for JobNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The whole id of a job, `ax-2026-0001`: the year of its submission and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// The number comes first, so that ids sort by it.
    pub number: JobNumber,
    /// Year of the submission, in the cluster's time zone.
    pub year: u16,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ax-{}-{:04}", self.year, self.number.0)
    }
}

impl FromStr for JobId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        const EXPECTED: &str = "a job id such as ax-2026-0001";
        let parts = text.strip_prefix("ax-").and_then(|rest| rest.split_once('-'));
        let Some((year, number)) = parts else { return bad(text, EXPECTED) };
        match (decimal(year), decimal(number)) {
            (Some(year), Some(number)) if year <= u32::from(u16::MAX) && number <= JobNumber::MAX.0 => {
                Ok(JobId { number: JobNumber(number), year: year as u16 })
            }
            _ => bad(text, EXPECTED),
        }
    }
}
text_serde!(JobId);

/// Digits only: no sign, no blanks.
fn decimal(text: &str) -> Option<u32> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A fencing token. Every attempt of every job gets a larger one than any before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The next epoch.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One attempt, `ax-2026-0001.17`: the name of everything that it touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptName {
    /// The job.
    pub job: JobId,
    /// The attempt's epoch.
    pub epoch: Epoch,
}

impl AttemptName {
    /// The folder of the job's number in `jobs/`: three digits, number mod 256.
    pub fn bucket(&self) -> String {
        format!("{:03}", self.job.number.0 % 256)
    }
}

impl fmt::Display for AttemptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.epoch)
    }
}

impl FromStr for AttemptName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        const EXPECTED: &str = "an attempt such as ax-2026-0001.17";
        let Some((job, epoch)) = text.split_once('.') else { return bad(text, EXPECTED) };
        let digits = !epoch.is_empty() && epoch.bytes().all(|b| b.is_ascii_digit());
        match (job.parse(), epoch.parse()) {
            (Ok(job), Ok(epoch)) if digits => Ok(AttemptName { job, epoch: Epoch(epoch) }),
            _ => bad(text, EXPECTED),
        }
    }
}
text_serde!(AttemptName);

/// A submission's own key, a ULID: 48 bits of time and 80 of chance, 26
/// characters of Crockford's base 32. A repeated request carries the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubmissionKey(pub u128);

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl SubmissionKey {
    /// Builds a key from a wall-clock time in milliseconds and 10 random bytes.
    pub fn new(wall_ms: u64, chance: [u8; 10]) -> SubmissionKey {
        let mut low = [0u8; 16];
        low[6..].copy_from_slice(&chance);
        SubmissionKey((u128::from(wall_ms & 0xffff_ffff_ffff) << 80) | u128::from_be_bytes(low))
    }

    /// What a person sees of a spooled submission: `spool-01J…`.
    pub fn ticket(&self) -> String {
        format!("spool-{self}")
    }

    /// Reads a ticket, or the key alone.
    pub fn of_ticket(text: &str) -> Option<SubmissionKey> {
        text.strip_prefix("spool-").unwrap_or(text).parse().ok()
    }
}

impl fmt::Display for SubmissionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for position in (0..26).rev() {
            let digit = (self.0 >> (5 * position)) & 31;
            write!(f, "{}", char::from(CROCKFORD[digit as usize]))?;
        }
        Ok(())
    }
}

impl FromStr for SubmissionKey {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        const EXPECTED: &str = "a submission key (a ULID of 26 characters)";
        // The first character carries three bits only.
        if text.len() != 26 || !matches!(text.as_bytes()[0], b'0'..=b'7') {
            return bad(text, EXPECTED);
        }
        let mut value = 0u128;
        for byte in text.bytes() {
            match CROCKFORD.iter().position(|&c| c == byte.to_ascii_uppercase()) {
                Some(digit) => value = (value << 5) | digit as u128,
                None => return bad(text, EXPECTED),
            }
        }
        Ok(SubmissionKey(value))
    }
}
text_serde!(SubmissionKey);

/// A user's number, as the kernel says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub u32);

impl Uid {
    /// The super-user.
    pub const ROOT: Uid = Uid(0);
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A group's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Gid(pub u32);

/// A queue's name: 1 to 64 letters, digits, `.`, `_` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// A host's name as ax compares it: short, lower case, without domain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

impl QueueName {
    /// The queue that is there when the configuration names none.
    pub fn default_queue() -> QueueName {
        QueueName("default".into())
    }
}

impl HostName {
    /// The name of a machine that has none.
    pub fn localhost() -> HostName {
        HostName("localhost".into())
    }
}

fn is_word(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=64).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with(['-', '.'])
}

impl FromStr for QueueName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if is_word(text) {
            Ok(QueueName(text.into()))
        } else {
            bad(text, "a queue's name (1 to 64 letters, digits, '.', '_', '-')")
        }
    }
}

impl FromStr for HostName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let short = text.split('.').next().unwrap_or_default().to_ascii_lowercase();
        if is_word(&short) { Ok(HostName(short.into())) } else { bad(text, "a host's name") }
    }
}

macro_rules! text_name {
    ($type:ty) => {
        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        text_serde!($type);
    };
}
text_name!(QueueName);
text_name!(HostName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_one_text_form() {
        for text in ["ax-2026-0001", "ax-2026-12345", "ax-2027-2147483647"] {
            assert_eq!(text.parse::<JobId>().unwrap().to_string(), text);
        }
        for text in ["", "ax-2026", "ax--1", "ax-2026-+1", "ax-2026-2147483648", "ay-2026-1", "ax-99999-1"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
        let name: AttemptName = "ax-2026-0300.17".parse().unwrap();
        assert_eq!((name.bucket().as_str(), name.to_string().as_str()), ("044", "ax-2026-0300.17"));
        assert!("ax-2026-0300.+17".parse::<AttemptName>().is_err());
    }

    #[test]
    fn keys_round_trip_and_sort_by_time() {
        let early = SubmissionKey::new(1_700_000_000_000, [0xff; 10]);
        let late = SubmissionKey::new(1_700_000_000_001, [0; 10]);
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(late.to_string().parse::<SubmissionKey>().unwrap(), late);
        assert_eq!(late.to_string().len(), 26);
        assert!("8ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse::<SubmissionKey>().is_err());
    }

    #[test]
    fn hosts_are_short_and_lower_case() {
        assert_eq!("GPU-01.example.org".parse::<HostName>().unwrap().as_str(), "gpu-01");
        assert!("..".parse::<HostName>().is_err());
        assert!("a/b".parse::<QueueName>().is_err());
    }
}
