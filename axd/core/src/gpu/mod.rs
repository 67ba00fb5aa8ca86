//! Cards: what they are, what is seen on them, and what follows from it. Pure: samples are handed in. What jobs hold of
//! cards is `node`'s, where a job goes is `schedule::placement`'s.

pub mod fence;
pub mod frameworks;
pub mod health;
pub mod holders;
pub mod idle;
pub mod leaving;
pub mod ledger;
pub mod model;
mod sample;
pub mod seen;
mod slices;
pub mod thin;
pub mod visible;
pub mod watch;

pub use sample::{CardSeen, HolderSeen, Reported, Sample, Unseen};
pub use slices::{Grant, slices};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Uid;
use crate::node::Card;
use crate::size::Megabytes;
use crate::text::{escaped, listed};

/// How a card is built in, as far as the driver says; all of it unknown for cards that are only declared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// Product name as the driver gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Place on the bus, `00000000:3B:00.0`; numbers of cards follow its order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Its device file is `/dev/nvidiaMINOR`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Its NUMA node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// UUIDs of the cards to which it has a direct link (NVLink), and how many lanes of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(String, u32)>,
    /// It is a part (MIG) of a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<Mig>,
    /// Who holds jobs to their slice of it.
    #[serde(default)]
    pub limit: Rung,
    /// Slices of it can be under MPS, but for those of these users, for whom it could not be had; absent: none can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps: Option<Vec<Uid>>,
}

impl Hardware {
    /// Whether slices of a user go under MPS where their queue says so: it can be had, and nothing stronger holds them.
    pub fn offers_mps(&self, user: Uid) -> bool {
        self.mps.as_ref().is_some_and(|without| !without.contains(&user)) && self.limit > Rung::Mps
    }
}

/// Which part of which card a MIG instance is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// UUID of the card.
    pub parent: String,
    /// Number of the GPU instance.
    pub gpu_instance: u32,
    /// Number of the compute instance.
    pub compute_instance: u32,
}

/// Who holds a job to its slice of a card, from the strongest to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The driver: a limit on the job's control group.
    Driver,
    /// An MPS server.
    Mps,
    /// The frameworks' own settings, and what is seen is watched.
    Env,
    /// What is seen is watched: who uses more is ended.
    Watch,
    /// Nobody: nothing can be seen.
    #[default]
    None,
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rung::Driver => "driver",
            Rung::Mps => "mps",
            Rung::Env => "env",
            Rung::Watch => "watch",
            Rung::None => "none",
        })
    }
}

/// Whether a card is fit to be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It is.
    #[default]
    Healthy,
    /// It did something odd or does not answer: nothing new is started on it until that has passed.
    Suspect,
    /// It needs a person: nothing is started on it until `ax node resume NODE --gpu N`.
    Drained,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Health::Healthy => "healthy",
            Health::Suspect => "suspect",
            Health::Drained => "drained",
        })
    }
}

/// What is known of a card beyond what jobs hold of it. The shell tells it when it has changed enough to matter; the
/// controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CardState {
    /// Whether it is fit to be given out.
    pub health: Health,
    /// Why it is not, in words, with what the maker advises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Memory held by processes that are no job's, the 95th percentile of the window.
    pub foreign: Megabytes,
    /// Memory in use that no process accounts for, the same percentile.
    pub unexplained: Megabytes,
    /// Who holds the foreign memory, in words, the largest first:
    /// `21 GB held by pid 4711 python of user li, not a job`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Who may hold what no process accounts for, in words: they have the card open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub openers: Vec<String>,
    /// Memory that really is free by the window, conservative; absent where nobody measures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Megabytes>,
    /// What others than jobs hold of the memory that is given out: of a card that has more than that, they hold the
    /// surplus first.
    #[serde(default)]
    pub taken: Megabytes,
    /// Its health is lost for an error of the card itself: what failed on it meanwhile may not be the job's fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faulty: bool,
    /// Of a drained card with a UUID: its number, by which it is known where no driver tells that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Of one that is only declared and was drained when it had a UUID: that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<String>,
}

impl CardState {
    /// What of it is not seen anew at each look.
    #[must_use]
    pub fn lasting(&self) -> CardState {
        CardState {
            health: self.health,
            why: self.why.clone(),
            faulty: self.faulty,
            number: self.number,
            formerly: self.formerly.clone(),
            ..CardState::default()
        }
    }

    /// Memory that neither jobs nor the driver account for.
    pub fn outside(&self) -> Megabytes {
        self.foreign + self.unexplained
    }

    /// What nobody accounts for: `31 GB in use that no process accounts for`, and who has the card open.
    pub fn unexplained_in_words(&self) -> String {
        let by = match self.openers.is_empty() {
            true => String::new(),
            false => format!(" (open by {})", listed(&self.openers)),
        };
        format!("{} in use that no process accounts for{by}", self.unexplained.of_card())
    }

    /// Who has that memory: `21 GB held by pid 4711 python of user li, not a job`.
    pub fn outside_in_words(&self) -> String {
        let mut parts: Vec<String> = self.holders.iter().take(HOLDERS).cloned().collect();
        if self.holders.len() > HOLDERS {
            parts.push(format!("{} more", self.holders.len() - HOLDERS));
        }
        if self.unexplained > Megabytes::ZERO {
            parts.push(self.unexplained_in_words());
        }
        match parts.is_empty() {
            true => format!("{} are not free", self.taken.of_card()),
            false => listed(&parts),
        }
    }
}

/// So many holders of a card are named.
const HOLDERS: usize = 3;

/// A card of a node as people name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardName {
    /// By its number there.
    Index(u32),
    /// By its UUID.
    Uuid(String),
}

impl CardName {
    /// As it is written: a number, or anything else is a UUID.
    pub fn read(text: &str) -> CardName {
        text.parse().map_or_else(|_| CardName::Uuid(text.to_owned()), CardName::Index)
    }

    /// Whether it names this card.
    pub fn is(&self, card: &Card) -> bool {
        match self {
            CardName::Index(index) => card.index == *index,
            CardName::Uuid(uuid) => card.uuid == *uuid,
        }
    }
}

impl fmt::Display for CardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CardName::Index(index) => index.fmt(f),
            CardName::Uuid(uuid) => f.write_str(&escaped(uuid)),
        }
    }
}
