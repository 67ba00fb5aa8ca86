//! The one table of all keys: how each is written, its default, and where its value goes. The parser, the manual
//! page, the sample file and the comparison of two configurations are all made from it.

mod alias;
mod kind;
mod manual;
mod sample;
mod slot;
mod table;

pub use alias::{ALIASES, Alias, Target};
pub use kind::{Form, Kind};
pub use manual::mdoc;
pub use sample::sample;
pub use slot::{Lens, Slot};
pub use table::KEYS;

pub(super) use alias::alias;
pub(super) use kind::found;

use super::{CardLimit, Config, GpuNode, Queue};

/// One key of the configuration.
pub struct Key {
    /// Its place in the file: `policy.retry_count`, `queues[].max_running`.
    pub path: &'static str,
    /// How its value is written, and where it goes.
    pub kind: Kind,
    /// What holds when it is not written.
    pub default: Fallback,
    /// Whether anything follows from it yet.
    pub effect: Effect,
    /// One sentence for people.
    pub doc: &'static str,
}

/// What holds when a key is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// This value, as it would be written.
    Value(&'static str),
    /// No value; the word says so in documents and may be written too.
    Absent(&'static str),
    /// Nothing: the key must be there.
    Required,
}

/// Whether anything follows from a key yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It holds.
    Now,
    /// It is read and checked, and answered with a warning.
    Later,
}

/// What is being read: the configuration, and the queue and node at hand.
pub struct Draft {
    /// The configuration so far.
    pub config: Config,
    /// The queue whose keys are being read.
    pub queue: Queue,
    /// The node whose keys are being read.
    pub node: GpuNode,
    /// The limit whose keys are being read.
    pub limit: CardLimit,
}

impl Draft {
    /// A draft of this configuration; no queue, node or limit is at hand.
    pub fn of(config: Config) -> Draft {
        Draft { config, queue: blank_queue(), node: blank_node(), limit: CardLimit::default() }
    }
}

/// A queue before its keys are read; its name is required.
pub(super) fn blank_queue() -> Queue {
    Queue::named(crate::id::QueueName::default_queue())
}

/// A node before its keys are read; its host is required.
pub(super) fn blank_node() -> GpuNode {
    let host = crate::id::HostName::localhost();
    GpuNode { host, gpus: 0, mem_per_gpu: None, kind: None, features: Vec::new() }
}

impl Key {
    /// The block that holds it: `policy`, `queues[]`.
    pub fn block(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(block, _)| block)
    }

    /// The word for "no value".
    pub fn absent_word(&self) -> &'static str {
        match self.default {
            Fallback::Absent(word) => word,
            Fallback::Value(_) | Fallback::Required => "none",
        }
    }

    /// Its name in the block.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }
}

/// The key at this path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Names that may stand in a block (`""` is the file itself), in the order of the table.
pub fn children(block: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for key in KEYS {
        let rest = match block {
            "" => Some(key.path),
            _ => key.path.strip_prefix(block).and_then(|rest| rest.strip_prefix('.')),
        };
        let name = rest.and_then(|rest| rest.split(['.', '[']).next());
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    names
}
