//! Cards: what they are, what is seen on them, and what follows from it. Pure: samples are handed in. What jobs hold
//! of cards is in `node`, and where a job goes is decided in `schedule::placement`.

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
pub mod xids;

pub use sample::{CardSeen, HolderSeen, Reported, Sample, Unseen};
pub use slices::{Grant, slices};

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::Uid;
use crate::node::Card;
use crate::size::Megabytes;
use crate::text::{escaped, listed};

/// A card's hardware, as far as the driver says; all unknown for cards that are only declared.
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
    /// The number of the card that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<u32>,
    /// Who holds jobs to their slice of it.
    #[serde(default)]
    pub limit: Rung,
    /// The users whose slices of it can't run under MPS, because their MPS daemon failed; `None` if no slice of it
    /// can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mps: Option<Vec<Uid>>,
}

impl Hardware {
    /// True if slices of a user run under MPS where their queue says so: MPS is available, and nothing stronger holds
    /// them.
    pub fn offers_mps(&self, user: Uid) -> bool {
        self.mps.as_ref().is_some_and(|without| !without.contains(&user)) && self.limit > Rung::Mps
    }
}

/// Names a MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// UUID of the card.
    pub parent: String,
    /// Number of the GPU instance.
    pub gpu_instance: u32,
    /// Number of the compute instance.
    pub compute_instance: u32,
}

/// How a job is held to its slice of a card, from the strongest way to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The driver: a limit on the job's control group.
    Driver,
    /// An MPS server.
    Mps,
    /// The frameworks' own settings, and a watch on what is seen.
    Env,
    /// A watch on what is seen: a job that uses more is ended.
    Watch,
    /// Nothing: the card can't be measured.
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
    /// It is fit.
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

/// What is known of a card beyond what jobs hold of it. The daemon reports it when it has changed enough to matter;
/// the controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CardState {
    /// Whether it is fit to be given out.
    pub health: Health,
    /// Why it is not, in words, with what the maker advises.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Memory held by foreign processes, the 95th percentile of the window.
    pub foreign: Megabytes,
    /// Memory in use that no process accounts for, the same percentile.
    pub unexplained: Megabytes,
    /// Who holds the foreign memory, in words, the largest first:
    /// `21 GB held by pid 4711 python of user li, not a job`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Processes that may hold the unexplained memory, in words: they have the card open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub openers: Vec<String>,
    /// Memory that is really free by the window, a conservative figure; `None` if it is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Megabytes>,
    /// How much of the memory that is given out is held by others than jobs. If a card has more memory than is given
    /// out, others count against the surplus first.
    #[serde(default)]
    pub taken: Megabytes,
    /// It is not healthy because of an error of its own: what failed on it meanwhile may not be the job's fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faulty: bool,
    /// The number of a drained card with a UUID, or of the card of which it is a part: it identifies the card if no driver
    /// tells the UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The former UUID of a card that was drained and is now only declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formerly: Option<String>,
    /// The UUID of the card of which what was drained is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
}

impl CardState {
    /// The part of the state that is not seen anew at each look.
    #[must_use]
    pub fn lasting(&self) -> CardState {
        CardState {
            health: self.health,
            why: self.why.clone(),
            faulty: self.faulty,
            number: self.number,
            formerly: self.formerly.clone(),
            part_of: self.part_of.clone(),
            ..CardState::default()
        }
    }

    /// Memory that neither jobs nor the driver account for: foreign and unexplained.
    pub fn outside(&self) -> Megabytes {
        self.foreign + self.unexplained
    }

    /// The unexplained memory in words: `31 GB in use that no process accounts for`, and which processes have the
    /// card open.
    pub fn unexplained_in_words(&self) -> String {
        let by = match self.openers.is_empty() {
            true => String::new(),
            false => format!(" (open by {})", listed(&self.openers)),
        };
        format!("{} in use that no process accounts for{by}", self.unexplained.of_card())
    }

    /// The outside memory in words: `21 GB held by pid 4711 python of user li, not a job`.
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

/// At most so many holders of a card are named.
const HOLDERS: usize = 3;

/// A card of a node, as a person names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardName {
    /// By its number there.
    Index(u32),
    /// By its UUID.
    Uuid(String),
}

impl CardName {
    /// Reads a number; any other text is a UUID.
    pub fn read(text: &str) -> CardName {
        text.parse().map_or_else(|_| CardName::Uuid(text.to_owned()), CardName::Index)
    }

    /// True if it names this card.
    pub fn is(&self, card: &Card) -> bool {
        match self {
            CardName::Index(index) => card.index == *index,
            CardName::Uuid(uuid) => card.uuid == *uuid,
        }
    }

    /// True if it names the card of which this is a part.
    pub fn is_divided_into(&self, card: &Card) -> bool {
        match self {
            CardName::Index(index) => card.hardware.whole == Some(*index),
            CardName::Uuid(uuid) => card.hardware.mig.as_ref().is_some_and(|mig| mig.parent == *uuid),
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
