//! Where a value goes: a place in the draft that can be set and read back. The type of a slot is that of the key's
//! kind, so a row of the table whose kind and field disagree does not compile.

use super::Draft;
use crate::config::{
    Cost, FenceMode, LearnMemory, LeaseMode, Naming, Packing, QueueOrder, QueueState, Scheduler,
};
use crate::id::{HostName, QueueName};
use crate::job::spec::{MemHints, PreemptMode};

/// A place for a value of this type.
pub trait Slot<T> {
    /// Puts the value there.
    fn set(&mut self, value: T);
    /// The value that is there, if any.
    fn get(&self) -> Option<T>;
}

/// Finds a slot in the draft.
pub type Lens<T> = fn(&mut Draft) -> &mut dyn Slot<T>;

impl<T: Clone> Slot<T> for T {
    fn set(&mut self, value: T) {
        *self = value;
    }

    fn get(&self) -> Option<T> {
        Some(self.clone())
    }
}

impl<T: Clone> Slot<T> for Option<T> {
    fn set(&mut self, value: T) {
        *self = Some(value);
    }

    fn get(&self) -> Option<T> {
        self.clone()
    }
}

// The table's ranges keep counts within 32 bits wherever the field has no more.
impl Slot<u64> for u32 {
    fn set(&mut self, value: u64) {
        *self = u32::try_from(value).unwrap_or(u32::MAX);
    }

    fn get(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Slot<u64> for u8 {
    fn set(&mut self, value: u64) {
        *self = u8::try_from(value).unwrap_or(u8::MAX);
    }

    fn get(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl Slot<u64> for Option<u32> {
    fn set(&mut self, value: u64) {
        *self = Some(u32::try_from(value).unwrap_or(u32::MAX));
    }

    fn get(&self) -> Option<u64> {
        self.map(u64::from)
    }
}

/// Names: the form of the key has checked them, so what is no name changes nothing.
macro_rules! name_slot {
    ($type:ty) => {
        impl Slot<String> for $type {
            fn set(&mut self, value: String) {
                if let Ok(name) = value.parse() {
                    *self = name;
                }
            }

            fn get(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    };
}
name_slot!(QueueName);
name_slot!(HostName);

impl Slot<Vec<String>> for Vec<HostName> {
    fn set(&mut self, value: Vec<String>) {
        *self = value.iter().filter_map(|name| name.parse().ok()).collect();
    }

    fn get(&self) -> Option<Vec<String>> {
        Some(self.iter().map(HostName::to_string).collect())
    }
}

/// A type of few values, each with its word.
macro_rules! word_slot {
    ($type:ident, $words:ident, $($word:literal => $value:ident),+) => {
        pub(super) const $words: &[&str] = &[$($word),+];

        impl Slot<&'static str> for $type {
            fn set(&mut self, value: &'static str) {
                match value {
                    $($word => *self = $type::$value,)+
                    _ => {}
                }
            }

            fn get(&self) -> Option<&'static str> {
                Some(match self {
                    $($type::$value => $word,)+
                })
            }
        }
    };
}
word_slot!(QueueState, STATES, "open" => Open, "stopped" => Stopped, "closed" => Closed);
word_slot!(QueueOrder, ORDERS, "prio" => Prio, "fifo" => Fifo, "laf" => Laf, "saf" => Saf, "lpf" => Lpf);
word_slot!(LeaseMode, LEASES, "fixed" => Fixed, "estimate" => Estimate);
word_slot!(Scheduler, SCHEDULERS, "fifo" => Fifo, "fifo_strict" => FifoStrict, "fair_share" => FairShare);
word_slot!(Cost, COSTS, "area" => Area, "count" => Count);
word_slot!(LearnMemory, LEARNING, "off" => Off, "raise" => Raise, "fit" => Fit);
word_slot!(Packing, PACKINGS, "best" => Best, "first" => First, "worst" => Worst, "fgd" => Fgd);
word_slot!(Naming, NAMINGS, "index" => Index, "uuid" => Uuid);
word_slot!(FenceMode, FENCES, "auto" => Auto, "require" => Require, "off" => Off);
word_slot!(MemHints, HINTS, "usual" => Usual, "torch" => Torch, "none" => None);
word_slot!(PreemptMode, PREEMPTS,
    "requeue" => Requeue, "suspend" => Suspend, "cancel" => Cancel, "never" => Never);

impl QueueState {
    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        self.get().unwrap_or_default()
    }
}

impl Scheduler {
    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        self.get().unwrap_or_default()
    }
}
