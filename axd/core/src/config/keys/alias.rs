//! Other names of keys, and names of things that need no key here: what people bring from other schedulers is read,
//! or answered with a hint.

/// A name that is not a key's own.
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// Blocks in which it is understood; `""` is the file itself.
    pub blocks: &'static [&'static str],
    /// What it stands for.
    pub target: Target,
}

/// What an alias stands for.
pub enum Target {
    /// A key.
    Key {
        /// Its path.
        path: &'static str,
        /// Unit of a bare number, written behind it; empty: the key's own.
        unit: &'static str,
        /// The length is so many times what is written.
        times: u64,
    },
    /// Nothing: this is what replaces it.
    Answer(&'static str),
}

const fn to(path: &'static str, unit: &'static str) -> Target {
    Target::Key { path, unit, times: 1 }
}

const GLOBAL: &[&str] = &["", "cluster", "policy"];

/// All aliases.
pub static ALIASES: &[Alias] = &[
    Alias { name: "schedule_interval_ms", blocks: GLOBAL, target: to("policy.scheduling_interval", "ms") },
    Alias { name: "schedule_interval", blocks: GLOBAL, target: to("policy.scheduling_interval", "") },
    Alias { name: "heartbeat_interval_ms", blocks: GLOBAL, target: to("cluster.heartbeat_interval", "ms") },
    Alias { name: "heartbeat_timeout_ms", blocks: GLOBAL, target: to("cluster.heartbeat_timeout", "ms") },
    Alias { name: "max_retries", blocks: GLOBAL, target: to("policy.retry_count", "") },
    Alias { name: "max_retries", blocks: &["queues[]"], target: to("queues[].retry_count", "") },
    Alias { name: "lease_duration", blocks: GLOBAL, target: to("policy.lease_timeout", "s") },
    Alias {
        name: "priority_aging_interval_s",
        blocks: GLOBAL,
        // A waiting job gains a point each interval, and a hundred points are all there are.
        target: Target::Key { path: "policy.starvation_bound", unit: "s", times: 100 },
    },
    Alias {
        name: "prefetch_task_num",
        blocks: &["", "cluster", "policy", "queues[]", "resources.gpu_nodes[]"],
        target: Target::Answer(
            "jobs share a card by the memory that they ask for (--mem), and none is handed out before it can start",
        ),
    },
    Alias {
        name: "capabilities",
        blocks: &["", "cluster", "resources", "resources.gpu_nodes[]"],
        target: Target::Answer(
            "a node's cards are found by themselves; resources.gpu_nodes[].features adds names for --constraint",
        ),
    },
];

/// The alias of this name in this block.
pub(in crate::config) fn alias(block: &str, name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name == name && alias.blocks.contains(&block))
}
