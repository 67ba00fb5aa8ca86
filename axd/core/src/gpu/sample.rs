//! What one look at the cards of a node sees. The process that asks the driver sends it to the daemon.

use serde::{Deserialize, Serialize};

use crate::id::{AttemptName, Uid};
use crate::size::Megabytes;

/// One look at all cards of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Cards that could be asked.
    pub cards: Vec<CardSeen>,
    /// Cards that could not be asked, or are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
    /// Errors that were reported since the last one, also of cards that are in neither list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<Reported>,
}

/// An error of a card (Xid), as the driver reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// Of which card, or part of one.
    pub uuid: String,
    /// NVIDIA's number.
    pub xid: u32,
}

/// A card that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unseen {
    /// Which.
    pub uuid: String,
    /// Why, in words.
    pub why: String,
}

/// A card at one moment. `None` where the driver does not say, never zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CardSeen {
    /// Which.
    pub uuid: String,
    /// Memory in use, without what the driver reserves for itself.
    pub used: Megabytes,
    /// Memory free.
    pub free: Megabytes,
    /// Processes with memory on it, each once; absent where the driver does not list them, so that nobody knows who holds
    /// what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<HolderSeen>>,
    /// Processes that have it open and are none of those; looked for only where memory is in question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub openers: Vec<HolderSeen>,
    /// Share of the last second in which a kernel ran, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u32>,
    /// Degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
    /// Milliwatts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<u32>,
    /// Uncorrected memory errors since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
    /// Pages or rows wait to be taken out of use at the next reset, or could not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retirement_pending: Option<bool>,
    /// What its maker recommends to repair it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<String>,
}

impl CardSeen {
    /// Those processes that are known.
    pub fn listed(&self) -> &[HolderSeen] {
        self.holders.as_deref().unwrap_or_default()
    }

    /// As `listed`.
    pub fn listed_mut(&mut self) -> &mut [HolderSeen] {
        self.holders.as_deref_mut().unwrap_or_default()
    }
}

/// A process with memory on a card. By default one that is hidden, of which nothing is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HolderSeen {
    /// Its number on the host; 0 if it is hidden from us.
    pub pid: i32,
    /// Its start in clock ticks since boot, which makes the number unique. `None` if the process was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// Memory that it holds; `None` where the driver does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Megabytes>,
    /// Its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// Its command's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The container that it is in, by its control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The attempt in whose control group it is, running or over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptName>,
    /// The process has ended; this attempt alone has processes that keep its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<AttemptName>,
    /// It belongs to the card's MPS daemon: its memory belongs to the attempts under MPS there. If there is only one,
    /// `attempt` names it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mps: bool,
}
