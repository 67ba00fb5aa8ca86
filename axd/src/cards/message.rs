//! What the daemon and the process that asks the driver say to each other, a message a JSON document.

use ax_core::gpu::{CardSeen, Hardware, HolderSeen};
use ax_core::size::Megabytes;
use serde::{Deserialize, Serialize};

/// What the daemon asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) look: Look,
    /// Cards that are not to be touched, by UUID, or as `#` and the driver's number where its UUID can't be had.
    pub(crate) except: Vec<String>,
}

/// What to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Look {
    /// Which cards there are.
    Inventory,
    /// What those that were found are doing.
    Sample,
}

/// What is told, and for each look at the end [`Tell::Done`] or one of those after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tell {
    /// The driver's number of a card that says who it is, whatever else it says.
    Named { number: u32, card: String },
    /// A card, or a part of one.
    Found(Box<Found>),
    /// To which other cards, by UUID, one is linked by how many lanes.
    Linked { uuid: String, links: Vec<(String, u32)> },
    /// What one is doing.
    Seen(Box<CardSeen>),
    /// One that could not be asked: its UUID, or `#` and the driver's number.
    Unseen { card: String, why: String },
    /// An error was reported of a card, and of which part if in one: before any other call that may hang.
    Xid { card: String, gpu_instance: Option<u32>, xid: u32 },
    /// The errors of a card are not reported.
    Deaf { card: String, why: String },
    /// That was all.
    Done,
    /// There is no library.
    Absent(String),
    /// The library does not work.
    Failed(String),
}

/// The longest that is told at once: a card with as many holders as are told one by one. A socket may take less.
pub(crate) const LONGEST_TOLD: usize = 256 << 10;

impl Tell {
    /// About half as long: fewer holders one by one and the others together, words that are cut. `None`: it can't be.
    pub(crate) fn shorter(&self) -> Option<Tell> {
        match self {
            Tell::Seen(seen) => {
                let (alone, rest) = seen.listed().split_at(seen.listed().len() / 2);
                (rest.len() > 1).then(|| {
                    let holders = Some(alone.iter().cloned().chain([together(rest)]).collect());
                    Tell::Seen(Box::new(CardSeen { holders, ..(**seen).clone() }))
                })
            }
            Tell::Unseen { card, why } => Some(Tell::Unseen { card: card.clone(), why: cut(why)? }),
            Tell::Deaf { card, why } => Some(Tell::Deaf { card: card.clone(), why: cut(why)? }),
            Tell::Absent(why) => Some(Tell::Absent(cut(why)?)),
            Tell::Failed(why) => Some(Tell::Failed(cut(why)?)),
            Tell::Linked { uuid, links } => {
                let half = links.len() / 2;
                (half > 0).then(|| Tell::Linked { uuid: uuid.clone(), links: links[..half].to_vec() })
            }
            Tell::Named { .. } | Tell::Found(_) | Tell::Xid { .. } | Tell::Done => None,
        }
    }
}

/// Holders of whom only the sum is told.
fn together(holders: &[HolderSeen]) -> HolderSeen {
    let used = holders.iter().filter_map(|holder| holder.used).map(|used| used.0).sum();
    HolderSeen { used: Some(Megabytes(used)), ..HolderSeen::default() }
}

/// Half of a text, with a word that it is not all.
fn cut(text: &str) -> Option<String> {
    const CUT: &str = " … (cut)";
    let text = text.strip_suffix(CUT).unwrap_or(text);
    let half = text.chars().count() / 2;
    (half > 0).then(|| text.chars().take(half).chain(CUT.chars()).collect())
}

/// A card, or a part of one, as the driver finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// The driver's number of the card; of a part, that of its card.
    pub(crate) number: u32,
    pub(crate) uuid: String,
    /// Memory that can be given out; 0: nobody knows, and it is given out whole only.
    pub(crate) mem: Megabytes,
    /// It is divided: its parts are given out, not it.
    pub(crate) divided: bool,
    /// Of a part, its sort: `1g.10gb`.
    pub(crate) profile: Option<String>,
    pub(crate) hardware: Hardware,
}

impl Found {
    /// What cards and their parts are sorted by: the place on the bus, as `nvidia-smi` numbers them; a card before its parts.
    pub(crate) fn place(&self) -> (Option<String>, Option<(u32, u32)>, String) {
        let part = self.hardware.mig.as_ref().map(|mig| (mig.gpu_instance, mig.compute_instance));
        (self.hardware.pci.clone(), part, self.uuid.clone())
    }
}
