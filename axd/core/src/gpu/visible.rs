//! The variables that tell a process which cards to use. Pure: they follow from the cards of a job, which of its
//! tasks asks, and whether the device fence hides the other cards.
//!
//! A job without cards gets the same variables, empty: if they were unset, programs would use all cards. Intel's
//! driver takes an empty one for all, too: there it names a card that does not exist.

use std::fmt;
use std::ops::Range;

use crate::config::Naming;
use crate::node::{Allocation, Card, CardShare};
use crate::size::Megabytes;

use super::{Hardware, Rung};

/// A card as a job holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldCard {
    /// Number on its node.
    pub index: u32,
    /// UUID, or a name made of node and number.
    pub uuid: String,
    /// Reserved memory; `None` means the whole card.
    pub slice: Option<Megabytes>,
    /// Memory of the whole card; 0 if unknown.
    pub mem: Megabytes,
    /// How jobs are held to their slices of it.
    pub limit: Rung,
    /// It is a part (MIG) of a card.
    pub is_part: bool,
}

impl HeldCard {
    /// The cards of an allocation with their present state, by number.
    pub fn all(allocation: &Allocation, cards: &[Card]) -> Vec<HeldCard> {
        let none = Hardware::default();
        let held = |share: &CardShare| {
            let card = cards.iter().find(|card| card.is_of(share, &allocation.node));
            let hardware = card.map_or(&none, |card| &card.hardware);
            HeldCard {
                index: card.map_or(share.index, |card| card.index),
                uuid: card.map_or(&share.uuid, |card| &card.uuid).clone(),
                slice: share.slice,
                mem: card.map_or(Megabytes::ZERO, |card| card.mem),
                limit: if share.mps.is_some() { Rung::Mps } else { hardware.limit },
                is_part: hardware.mig.is_some(),
            }
        };
        let mut all: Vec<HeldCard> = allocation.cards.iter().map(held).collect();
        all.sort_by_key(|card| card.index);
        all
    }

    /// What the job may use of it; `None` if the card's memory is unknown.
    fn granted(&self) -> Option<Megabytes> {
        self.slice.or(Some(self.mem)).filter(|mb| *mb > Megabytes::ZERO)
    }

    /// The same as a fraction of the card's memory.
    fn fraction(&self) -> Option<Fraction> {
        Fraction::of(self.granted()?, self.mem)
    }

    /// True if NVIDIA's driver gave it its name. The names of cards that are only declared begin with a host's.
    fn is_named_by_driver(&self) -> bool {
        self.uuid.starts_with("GPU-") || self.uuid.starts_with("MIG-")
    }
}

/// A fraction of a card's memory in ten-thousandths, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fraction(u64);

impl Fraction {
    pub(super) fn of(part: Megabytes, whole: Megabytes) -> Option<Fraction> {
        Some(Fraction(part.0.saturating_mul(10_000).checked_div(whole.0)?.min(10_000)))
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04}", self.0 / 10_000, self.0 % 10_000)
    }
}

/// The cards of a job, and how they are to be named.
#[derive(Debug, Clone, Copy)]
pub struct JobCards<'a> {
    /// All of them, by number.
    pub held: &'a [HeldCard],
    /// By number or by UUID.
    pub naming: Naming,
    /// True if the job can open no other cards, so that programs find its cards numbered from 0.
    pub fenced: bool,
    /// Where the MPS daemon of its card is, if its slice is under MPS.
    pub mps: Option<&'a str>,
}

/// One task of several on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskPlace {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are.
    pub tasks: u32,
    /// How many cards each task gets, if the job says so.
    pub cards_per_task: Option<u32>,
}

impl TaskPlace {
    /// Which of `cards` cards belong to this task: as many as the job says for each task, else an even share, where
    /// lower ranks come first. If there are fewer cards than tasks, neighbouring tasks share one.
    pub fn cards(&self, cards: usize) -> Range<usize> {
        let (rank, tasks) = (self.rank as usize, self.tasks.max(1) as usize);
        if let Some(each) = self.cards_per_task {
            let first = rank.saturating_mul(each as usize).min(cards);
            return first..first.saturating_add(each as usize).min(cards);
        }
        if cards < tasks {
            let own = (rank.min(tasks - 1) * cards / tasks).min(cards);
            return own..(own + 1).min(cards);
        }
        let share = |rank: usize| rank.min(tasks) * (cards / tasks) + rank.min(cards % tasks);
        share(rank)..share(rank + 1)
    }
}

/// Variables that say which cards a process may use; every job has all of them, and a submitter cannot override them.
const MASKS: [&str; 7] = [
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
];

/// Further variables of jobs under MPS.
const OF_MPS: [&str; 3] =
    ["CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"];

/// Intel's driver takes an empty list for all cards, and an unused number for none.
const NO_CARD_OF_INTEL: &str = "65535";

/// True if a variable says which cards a process may use, or how much of them.
pub fn is_mask(name: &str) -> bool {
    MASKS.contains(&name) || OF_MPS.contains(&name) || name == "AX_GPUS" || name.starts_with("AX_GPU_")
}

/// The variables of a job's script: all its cards.
pub fn of_job(cards: JobCards<'_>) -> Vec<(&'static str, String)> {
    variables(cards, 0..cards.held.len())
}

/// The variables of a task: its part of the cards.
pub fn of_task(cards: JobCards<'_>, task: TaskPlace) -> Vec<(&'static str, String)> {
    let mut all = variables(cards, task.cards(cards.held.len()));
    let own = &cards.held[task.cards(cards.held.len())];
    if !own.is_empty() {
        all.push(("SLURM_STEP_GPUS", join(own.iter().map(|card| card.index))));
    }
    all
}

fn variables(cards: JobCards<'_>, own: Range<usize>) -> Vec<(&'static str, String)> {
    let held = &cards.held[own.clone()];
    let uuids = join(held.iter().map(|card| card.uuid.as_str()));
    let nvidia = held.iter().all(HeldCard::is_named_by_driver);
    let names = names(cards, own, nvidia);
    let mut all = vec![
        ("AX_GPUS", held.len().to_string()),
        ("AX_GPU_UUIDS", uuids.clone()),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", names.clone()),
        ("NVIDIA_VISIBLE_DEVICES", for_containers(held, nvidia, uuids)),
    ];
    all.extend(other_makers(held, nvidia, names));
    all.extend(memory(held));
    all.extend(cards.mps.into_iter().flat_map(|folder| under_mps(folder, held)));
    if !held.is_empty() {
        all.push(("SLURM_GPUS_ON_NODE", held.len().to_string()));
        all.push(("SLURM_JOB_GPUS", join(cards.held.iter().map(|card| card.index))));
    }
    all
}

/// The variables that an MPS daemon and its clients share, if its folder is there.
pub fn mps_folders(folder: &str) -> [(&'static str, String); 2] {
    [
        ("CUDA_MPS_PIPE_DIRECTORY", format!("{folder}/daemon/pipe")),
        ("CUDA_MPS_LOG_DIRECTORY", format!("{folder}/daemon/log")),
    ]
}

/// The limit names only the job's own card: if it named another, the server would ignore all limits.
fn under_mps(folder: &str, held: &[HeldCard]) -> Vec<(&'static str, String)> {
    let limit = |card: &HeldCard| Some(format!("{}={}M", card.uuid, card.slice?.0));
    let limits: Vec<String> = held.iter().filter_map(limit).collect();
    let limits = ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", limits.join(","));
    mps_folders(folder).into_iter().chain([limits]).collect()
}

/// The cards' names in a list. Numbers count the cards that the job can open, in the order of the bus. UUIDs are used
/// for parts of cards, which have no number, and under MPS, where a number would be the daemon's; one list can't hold
/// both kinds. A card with a name that only ax knows is named by number.
fn names(cards: JobCards<'_>, own: Range<usize>, nvidia: bool) -> String {
    let held = &cards.held[own.clone()];
    let parts = cards.held.iter().any(|card| card.is_part);
    let by_uuid = nvidia && (cards.naming == Naming::Uuid || parts || cards.mps.is_some());
    match (by_uuid, cards.fenced) {
        (true, _) => join(held.iter().map(|card| card.uuid.as_str())),
        (false, true) => join(own),
        (false, false) => join(held.iter().map(|card| card.index)),
    }
}

/// Names for what starts containers, which may be outside of the fence, where a relative number is another card's.
fn for_containers(held: &[HeldCard], nvidia: bool, uuids: String) -> String {
    match (held.is_empty(), nvidia) {
        (true, _) => "void".to_owned(),
        (false, true) => uuids,
        (false, false) => join(held.iter().map(|card| card.index)),
    }
}

/// The same for programs of AMD and Intel, empty beside cards of NVIDIA's. AMD's first variable hides cards from the
/// layer that reads the other two, so these count from 0.
fn other_makers(held: &[HeldCard], nvidia: bool, names: String) -> [(&'static str, String); 4] {
    let (all, left) = if nvidia { (String::new(), String::new()) } else { (names, join(0..held.len())) };
    let of_intel = if all.is_empty() { NO_CARD_OF_INTEL.to_owned() } else { all.clone() };
    [
        ("ROCR_VISIBLE_DEVICES", all),
        ("HIP_VISIBLE_DEVICES", left.clone()),
        ("GPU_DEVICE_ORDINAL", left),
        ("ZE_AFFINITY_MASK", of_intel),
    ]
}

/// The memory that the job may use on each card: if the cards differ, the least.
fn memory(held: &[HeldCard]) -> [(&'static str, String); 2] {
    let granted = held.iter().map(HeldCard::granted).min().flatten();
    let fraction = held.iter().map(HeldCard::fraction).min().flatten();
    [
        ("AX_GPU_MEM_MB", granted.map_or(String::new(), |mb| mb.0.to_string())),
        ("AX_GPU_MEM_FRACTION", fraction.map_or(String::new(), |part| part.to_string())),
    ]
}

fn join<T: ToString>(parts: impl Iterator<Item = T>) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
