//! The messages between the daemon and the process that asks the driver, each a JSON document.

use ax_core::gpu::{CardSeen, Hardware, HolderSeen};
use ax_core::size::Megabytes;
use serde::{Deserialize, Serialize};

/// What the daemon asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) look: Look,
    /// Cards that must not be touched, by UUID, or as `#` and the driver's number if the UUID is unknown.
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

/// An answer. Each look ends with [`Tell::Done`] or one of those after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tell {
    /// The driver's number of a card that has told its UUID, whatever else it tells.
    Named { number: u32, card: String },
    /// A card, or a part of one.
    Found(Box<Found>),
    /// The cards, by UUID, to which a card is linked, each with the number of lanes.
    Linked { uuid: String, links: Vec<(String, u32)> },
    /// What a card is doing.
    Seen(Box<CardSeen>),
    /// A card that could not be asked: its UUID, or `#` and the driver's number.
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

/// The longest message: a card with as many holders as are told one by one. A socket may take less.
pub(crate) const LONGEST_TOLD: usize = 256 << 10;

impl Tell {
    /// A message of about half the length: fewer holders one by one, and shorter texts. `None` if that is impossible.
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

/// Several holders as one, with their sum.
fn together(holders: &[HolderSeen]) -> HolderSeen {
    let used = holders.iter().filter_map(|holder| holder.used).map(|used| used.0).sum();
    HolderSeen { used: Some(Megabytes(used)), ..HolderSeen::default() }
}

/// Half of a text, with a word that says so.
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
    /// Memory that can be given out; 0 if it is unknown: then the card is given out whole only.
    pub(crate) mem: Megabytes,
    /// It is divided: its parts are given out, and the card itself is not.
    pub(crate) divided: bool,
    /// The sort of a part: `1g.10gb`.
    pub(crate) profile: Option<String>,
    pub(crate) hardware: Hardware,
}

impl Found {
    /// The order of cards and their parts: by place on the bus, as `nvidia-smi` numbers them, a card before its
    /// parts.
    pub(crate) fn place(&self) -> (Option<String>, Option<(u32, u32)>, String) {
        let part = self.hardware.mig.as_ref().map(|mig| (mig.gpu_instance, mig.compute_instance));
        (self.hardware.pci.clone(), part, self.uuid.clone())
    }
}
