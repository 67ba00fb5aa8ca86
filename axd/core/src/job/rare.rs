//! Fields that few jobs use. A job that uses none of them, such as most waiting jobs, has no memory allocated for
//! them.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use crate::time::{BootTime, Span, WallTime};

use super::Claim;

/// Fields that few of the waiting jobs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rare {
    /// Groups of its owner for which there was a limit when it was submitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Box<str>>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<WallTime>,
    /// The person who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Box<str>>,
    /// The end of its pause after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_until: Option<BootTime>,
    /// Attempts that counted as retries.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries_used: u32,
    /// How often it was ended to make room for others.
    #[serde(skip_serializing_if = "is_zero")]
    pub evictions: u32,
    /// Work of earlier attempts that was kept.
    #[serde(skip_serializing_if = "is_nothing")]
    pub saved: Span,
    /// The room that others are making for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Box<Claim>>,
    /// Its owner or an administrator answers for its idle cards until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<WallTime>,
    /// Why it is in its state: the reason of an end, a requeue or a wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<Box<str>>,
}

impl Rare {
    /// All fields at their defaults.
    const NONE: Rare = Rare {
        groups: Vec::new(),
        ended_at: None,
        hold: None,
        backoff_until: None,
        retries_used: 0,
        evictions: 0,
        saved: Span(0),
        claim: None,
        kept_until: None,
        note: None,
    };
}

impl Default for Rare {
    fn default() -> Self {
        Rare::NONE
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_nothing(span: &Span) -> bool {
    *span == Span::ZERO
}

/// The rare fields of a job, allocated only if one of them is not at its default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rarely(Option<Box<Rare>>);

impl Rarely {
    /// Applies `change`; frees the allocation if all fields are at their defaults again.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Rare) -> T) -> T {
        let mut rare = self.0.take().unwrap_or_default();
        let told = change(&mut rare);
        self.0 = Some(rare).filter(|rare| **rare != Rare::NONE);
        told
    }
}

impl From<Rare> for Rarely {
    fn from(rare: Rare) -> Self {
        Rarely((rare != Rare::NONE).then(|| Box::new(rare)))
    }
}

impl Deref for Rarely {
    type Target = Rare;

    fn deref(&self) -> &Rare {
        static NONE: Rare = Rare::NONE;
        self.0.as_deref().unwrap_or(&NONE)
    }
}

impl Serialize for Rarely {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Rare::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Rarely {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Rare::deserialize(from).map(Rarely::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_takes_no_room() {
        let mut rare = Rarely::default();
        rare.change(|rare| rare.saved = Span(1));
        assert!(rare.saved == Span(1) && rare.0.is_some());
        rare.change(|rare| rare.saved = Span(0));
        assert!(rare.0.is_none() && rare == Rarely::default() && *rare == Rare::NONE);
    }
}
