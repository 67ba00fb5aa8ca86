//! What a reload changes, and what it must not change: a queue that jobs use can't be removed. Pure: the caller says
//! which jobs use which queue.

use super::keys::{self, Draft, KEYS};
use super::{CardLimit, Config, GpuNode, Queue};
use crate::id::{JobId, QueueName};

/// Jobs that a refusal names one by one; the others are counted.
const NAMED: usize = 20;

/// What changes from `old` to `new`, in words, for the log. `in_use` holds every
/// unfinished job with its queue.
///
/// # Errors
/// Why the new configuration can't be taken, one line for each reason.
pub fn compare(
    old: &Config,
    new: &Config,
    in_use: &[(JobId, QueueName)],
) -> Result<Vec<String>, Vec<String>> {
    let refusals: Vec<String> = lost_queues(new, in_use)
        .iter()
        .map(|queue| {
            let jobs: Vec<JobId> =
                in_use.iter().filter(|(_, name)| name == *queue).map(|(job, _)| *job).collect();
            refusal(queue, &jobs)
        })
        .collect();
    if refusals.is_empty() { Ok(changes(old, new)) } else { Err(refusals) }
}

fn lost_queues<'a>(new: &Config, in_use: &'a [(JobId, QueueName)]) -> Vec<&'a QueueName> {
    let lost = in_use.iter().map(|(_, name)| name).filter(|name| new.queue(name.as_str()).is_none());
    let mut lost: Vec<&QueueName> = lost.collect();
    lost.sort();
    lost.dedup();
    lost
}

fn refusal(queue: &QueueName, jobs: &[JobId]) -> String {
    let named: Vec<String> = jobs.iter().take(NAMED).map(JobId::to_string).collect();
    let more = match jobs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "queue '{queue}' can't be removed or renamed: it is used by {}{more}; \
         keep it with 'state: closed' until they have ended",
        named.join(", ")
    )
}

fn changes(old: &Config, new: &Config) -> Vec<String> {
    let (mut before, mut after) = (Draft::of(old.clone()), Draft::of(new.clone()));
    let mut lines = of_block("", &mut before, &mut after);
    for queue in &new.queues {
        let Some(was) = old.queue(queue.name.as_str()) else {
            lines.push(format!("queue '{}' is new", queue.name));
            continue;
        };
        (before.queue, after.queue) = (Queue::clone(was), queue.clone());
        lines.extend(
            of_block("queues[]", &mut before, &mut after)
                .iter()
                .map(|l| format!("queue '{}' {l}", queue.name)),
        );
    }
    let gone = old.queues.iter().filter(|queue| new.queue(queue.name.as_str()).is_none());
    lines.extend(gone.map(|queue| format!("queue '{}' is gone", queue.name)));
    lines.extend(of_nodes(old, new, &mut before, &mut after));
    lines.extend(of_limits(old, new, &mut before, &mut after));
    lines
}

fn of_limits(old: &Config, new: &Config, before: &mut Draft, after: &mut Draft) -> Vec<String> {
    let who = |limit: &CardLimit| match (&limit.user, &limit.group) {
        (Some(user), _) => format!("user '{user}'"),
        (None, group) => format!("group '{}'", group.as_deref().unwrap_or_default()),
    };
    let mut lines = Vec::new();
    for limit in &new.limits {
        let Some(was) = old.limits.iter().find(|other| who(other) == who(limit)) else {
            lines.push(format!("the limit of {} is new", who(limit)));
            continue;
        };
        (before.limit, after.limit) = (was.clone(), limit.clone());
        let changed = of_block("limits[]", before, after);
        lines.extend(changed.iter().map(|line| format!("the limit of {}: {line}", who(limit))));
    }
    let gone = old.limits.iter().filter(|was| !new.limits.iter().any(|limit| who(limit) == who(was)));
    lines.extend(gone.map(|limit| format!("the limit of {} is gone", who(limit))));
    lines
}

fn of_nodes(old: &Config, new: &Config, before: &mut Draft, after: &mut Draft) -> Vec<String> {
    let find = |nodes: &[GpuNode], node: &GpuNode| nodes.iter().find(|n| n.host == node.host).cloned();
    let mut lines = Vec::new();
    for node in &new.resources.gpu_nodes {
        let Some(was) = find(&old.resources.gpu_nodes, node) else {
            lines.push(format!("node '{}' is new", node.host));
            continue;
        };
        (before.node, after.node) = (was, node.clone());
        lines.extend(
            of_block("resources.gpu_nodes[]", before, after)
                .iter()
                .map(|l| format!("node '{}' {l}", node.host)),
        );
    }
    let gone = old.resources.gpu_nodes.iter().filter(|node| find(&new.resources.gpu_nodes, node).is_none());
    lines.extend(gone.map(|node| format!("node '{}' is gone", node.host)));
    lines
}

/// Changed keys of one item of a list, or with `""` of everything outside lists.
fn of_block(list: &str, before: &mut Draft, after: &mut Draft) -> Vec<String> {
    let here =
        |key: &&keys::Key| if list.is_empty() { !key.path.contains("[]") } else { key.block() == list };
    let mut lines = Vec::new();
    for key in KEYS.iter().filter(here) {
        let (was, is) = (key.kind.show(before), key.kind.show(after));
        if was != is {
            let word = |value: Option<String>| value.unwrap_or_else(|| key.absent_word().to_owned());
            let name = if list.is_empty() { key.path } else { key.name() };
            let later = key.path.starts_with("paths.") || key.path == "cluster.timezone";
            let when = if later { " at the next start of the daemon" } else { "" };
            lines.push(format!("{name}: {} becomes {}{when}", word(was), word(is)));
        }
    }
    lines
}
