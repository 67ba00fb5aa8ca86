//! Workloads: what arrives when, how long it really runs and what it really uses. Reads what others publish.
//!
//! A reader turns a text into tasks in the order of its file; a further origin is a further [`Format`].

mod ax_csv;
mod azure;
mod batsim;
mod openb;
mod recorded;
mod sheet;
mod swf;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::config::Config;
use crate::config::tree::Place;
use crate::id::QueueName;
use crate::job::request::Request;
use crate::job::spec::Window;
use crate::node::Inventory;
use crate::size::Megabytes;
use crate::text::quoted;
use crate::time::{Span, WallTime, Zone};

/// What tasks are called that have no name: nobody says of two of them that they are the same thing.
const NO_NAME: &str = "";

/// What happens to a cluster, and the cluster if the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Workload {
    /// In the order of the file.
    pub tasks: Vec<Task>,
    /// The nodes that the file names; empty: it names none.
    pub nodes: Vec<NodeShape>,
    /// Where the jobs come from, if the file says more of that than the shapes of nodes.
    pub origin: Option<Box<Origin>>,
}

/// The beginning of every simulation, for people: 2026-01-01.
pub(crate) const BEGINNING: WallTime = WallTime(1_767_225_600_000);

/// Where jobs come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The machines, of which `nodes` are the shapes.
    pub machines: Vec<Inventory>,
    /// What the daemon last went by whose jobs these were.
    pub config: Option<Config>,
    /// The clock that it went by, as it goes in the simulation.
    pub zone: Zone,
    /// Jobs that never ran, so that nobody knows how long they would have: they are left out.
    pub never_ran: usize,
}

/// One job as it really is; the controller sees only what its owner says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name in the file; among tasks of one time the smaller goes first.
    pub id: Arc<str>,
    /// When it is submitted, from the beginning of the simulation.
    pub arrive: Span,
    /// How long it really runs.
    pub runtime: Span,
    /// How long its owner says that it will.
    pub estimate: Span,
    /// Cards on each of its nodes.
    pub cards: u32,
    /// Nodes, all at one instant.
    pub nodes: u32,
    /// What it asks for of each card; absent: whole cards.
    pub mem: Option<Megabytes>,
    /// What it really uses of each card.
    pub mem_true: Megabytes,
    /// 0 to 100.
    pub priority: u8,
    /// Queue.
    pub queue: QueueName,
    /// Whose it is.
    pub user: Arc<str>,
    /// What it is called: its owner's jobs of one name do the same thing. Empty: it has no name.
    pub name: Arc<str>,
    /// How often it saves its work, so that an eviction costs only what came after; absent: never.
    pub checkpoint: Option<Span>,
    /// When it may run.
    pub hours: Hours,
    /// All that it asks for, on the machines of its origin; absent: a CPU, a megabyte and the cards.
    pub asked: Option<Box<Request>>,
}

/// When a task may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hours {
    /// Only within these daily hours, and no longer than its owner says.
    pub window: Option<Window>,
    /// To be over by then, from the beginning of the simulation.
    pub deadline: Option<Span>,
}

/// A node: so many cards of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShape {
    /// Cards.
    pub cards: u32,
    /// Memory of each.
    pub mem: Megabytes,
}

/// `2x24000`: cards, and the megabytes of each.
impl fmt::Display for NodeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.cards, self.mem.0)
    }
}

impl FromStr for NodeShape {
    type Err = BadWorkload;

    fn from_str(text: &str) -> Result<Self, BadWorkload> {
        let shape = text.split_once('x').and_then(|(cards, mem)| {
            let (cards, mem) = (cards.parse().ok()?, mem.parse().ok()?);
            ((1..=1024).contains(&cards) && (1..=1 << 30).contains(&mem)).then_some((cards, mem))
        });
        let Some((cards, mem)) = shape else {
            return Err(BadWorkload::whole(format!(
                "{} is no node: write its cards and the MB of each, such as 2x24000",
                quoted(text)
            )));
        };
        Ok(NodeShape { cards, mem: Megabytes(mem) })
    }
}

/// Why a text is no workload.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{message}", place.map_or(String::new(), |place| format!("{place}: ")))]
pub struct BadWorkload {
    /// Where; absent when it is about the whole.
    pub place: Option<Place>,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl BadWorkload {
    fn whole(message: impl Into<String>) -> BadWorkload {
        BadWorkload { place: None, message: message.into() }
    }

    fn at(line: usize, column: usize, message: impl Into<String>) -> BadWorkload {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let place = Place { line: number(line), column: number(column) };
        BadWorkload { place: Some(place), message: message.into() }
    }
}

/// Where a workload comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// ax's own: a head and a line for each task.
    Csv,
    /// The Standard Workload Format. Processors play the part of a card's memory: one node with one card of as
    /// many megabytes as there are processors.
    Swf,
    /// Batsim's JSON with profiles of a fixed length: one node of as many whole cards as there are resources.
    Batsim,
    /// Alibaba's list of pods of 2023, with its list of nodes beside it: a card is 1,000 milli.
    Openb,
    /// Azure's requests to a language model: arrivals of short tasks.
    Azure,
    /// What a daemon has recorded, as `axctl db events --json` prints it: its jobs and its machines.
    Recorded,
}

/// Columns that only one format has.
const COLUMNS: [(&str, Format); 2] = [("gpu_milli", Format::Openb), ("GeneratedTokens", Format::Azure)];

impl Format {
    /// The format of a text.
    pub fn of(text: &str) -> Format {
        let first = text.lines().map(str::trim_start).find(|l| !l.is_empty()).unwrap_or_default();
        let known = COLUMNS.iter().find(|(column, _)| first.split(',').any(|name| name == *column));
        match first.bytes().next() {
            Some(b';') => Format::Swf,
            Some(b'{') => Format::Batsim,
            Some(b'[') => Format::Recorded,
            _ if known.is_none() && looks_like_swf(first) => Format::Swf,
            _ => known.map_or(Format::Csv, |(_, format)| *format),
        }
    }

    /// The file that has to lie beside one of this format.
    pub fn companion(self) -> Option<&'static str> {
        (self == Format::Openb).then_some("openb_node_list_gpu_node.csv")
    }

    /// Reads a text of this format, and that of its companion.
    ///
    /// # Errors
    /// The first thing that is wrong, and where.
    pub fn read(self, text: &str, companion: Option<&str>) -> Result<Workload, BadWorkload> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Format::Csv => ax_csv::read(text),
            Format::Swf => swf::read(text),
            Format::Batsim => batsim::read(text),
            Format::Openb => openb::read(text, companion),
            Format::Azure => azure::read(text),
            Format::Recorded => recorded::read(text),
        }
    }
}

/// Numbers with blanks between them and nothing else.
fn looks_like_swf(line: &str) -> bool {
    line.split_whitespace().count() >= swf::LEAST_FIELDS
        && line.split_whitespace().all(|w| w.parse::<f64>().is_ok())
}

/// Names that many tasks share, kept once.
#[derive(Default)]
struct Texts(BTreeSet<Arc<str>>);

impl Texts {
    fn get(&mut self, text: &str) -> Arc<str> {
        match self.0.get(text) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = text.into();
                self.0.insert(Arc::clone(&new));
                new
            }
        }
    }
}

impl Workload {
    /// The machines of its origin, if it is to run on the nodes that it names.
    pub(super) fn machines(&self, nodes: &[NodeShape]) -> Option<&[Inventory]> {
        self.origin.as_deref().filter(|_| self.nodes == nodes).map(|origin| origin.machines.as_slice())
    }

    /// Keeps the first tasks only.
    pub fn keep(&mut self, first: usize) {
        self.tasks.truncate(first);
    }

    /// The tasks' numbers by time, then by id: the order in which they are submitted.
    pub fn in_order(&self) -> Vec<usize> {
        let ranks = self.ranks();
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        order.sort_by_key(|&at| (self.tasks[at].arrive, ranks[at]));
        order
    }

    /// The place of each task among all by its id: as numbers if all ids are, else as texts; then by line.
    pub fn ranks(&self) -> Vec<u32> {
        let numbers: Option<Vec<u64>> = self.tasks.iter().map(|t| t.id.parse().ok()).collect();
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        match &numbers {
            Some(numbers) => order.sort_by_key(|&at| numbers[at]),
            None => order.sort_by(|&a, &b| self.tasks[a].id.cmp(&self.tasks[b].id)),
        }
        let mut ranks = vec![0; order.len()];
        for (rank, at) in (0..).zip(order) {
            ranks[at] = rank;
        }
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_told_by_the_text() {
        for (text, format) in [
            ("id,arrive,runtime\n", Format::Csv),
            ("# ours\nid,arrive\n", Format::Csv),
            ("; MaxProcs: 4\n", Format::Swf),
            ("\n 1 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n", Format::Swf),
            ("{\"jobs\": []}", Format::Batsim),
            ("[\n]\n", Format::Recorded),
            ("name,num_gpu,gpu_milli\n", Format::Openb),
            ("TIMESTAMP,ContextTokens,GeneratedTokens\n", Format::Azure),
            ("", Format::Csv),
        ] {
            assert_eq!(Format::of(text), format, "{text:?}");
        }
    }

    #[test]
    fn nodes_are_written_as_cards_and_megabytes() {
        let shape: NodeShape = "2x24000".parse().unwrap();
        assert_eq!((shape.cards, shape.mem, shape.to_string().as_str()), (2, Megabytes(24_000), "2x24000"));
        for text in ["", "2", "x", "0x1", "2x0", "2x1.5", "-1x4", "2x24000x1"] {
            assert!(text.parse::<NodeShape>().is_err(), "{text}");
        }
    }

    #[test]
    fn tasks_go_by_time_and_ids_that_are_numbers_by_number() {
        let order = |text: &str| {
            let workload = Format::Csv.read(text, None).unwrap();
            let ids = workload.in_order().into_iter().map(|at| workload.tasks[at].id.to_string());
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order("id,arrive,runtime\n10,5,1\n9,5,1\n11,0,1\n"), "11 9 10");
        assert_eq!(order("id,arrive,runtime\n10,5,1\n9,5,1\nb,5,1\n"), "10 9 b");
    }
}
