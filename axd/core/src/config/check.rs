//! Finds contradictions between keys, each reported at the place where it was written. The range of a single key is
//! in the table.

use super::finding::{Finding, Findings};
use super::read::Places;
use super::{CardLimit, Config, Queue, QueueState};
use crate::gpu::idle::LONGEST_PAUSE;
use crate::job::spec::PreemptMode;
use crate::text::{count, nearest, quoted};
use crate::time::Span;
use crate::units::format_duration;

/// Checks a configuration whose keys were all read.
pub(super) fn whole(config: &Config, places: &Places, findings: &mut Findings) {
    heartbeats(config, places, findings);
    default_queue(config, places, findings);
    idle_cards(config, places, findings);
    for (index, queue) in config.queues.iter().enumerate() {
        named_cards(config, &queue.cards, &format!("queues[{index}].cards"), places, findings);
        times(index, queue, places, findings);
        suspending(index, queue, places, findings);
    }
    for (index, limit) in config.limits.iter().enumerate() {
        named_cards(config, &limit.cards, &format!("limits[{index}].cards"), places, findings);
        limits_something(index, limit, places, findings);
    }
}

/// Most likely the limit itself was forgotten.
fn limits_something(index: usize, limit: &CardLimit, places: &Places, findings: &mut Findings) {
    let CardLimit { user: _, group: _, cards, max_cards, max_cpus, max_ram, max_running } = limit;
    let none = max_cards.or(*max_cpus).or(*max_running).is_none() && max_ram.is_none() && cards.is_empty();
    // One whose value was refused is no forgotten one.
    if none && !findings.refuse() {
        let place = ["user", "group"].iter().find_map(|key| places.get(&format!("limits[{index}].{key}")));
        let message = format!("limits[{index}] limits nothing");
        findings.add(
            Finding::warning(place, message).hint("write cards, max_cards, max_cpus, max_ram or max_running"),
        );
    }
}

fn heartbeats(config: &Config, places: &Places, findings: &mut Findings) {
    let (interval, timeout) = (config.cluster.heartbeat_interval, config.cluster.heartbeat_timeout);
    let least = Span(interval.0.saturating_mul(3));
    if timeout >= least {
        return;
    }
    let place = places.get("cluster.heartbeat_timeout").or(places.get("cluster.heartbeat_interval"));
    let message = format!(
        "cluster.heartbeat_timeout: {} is shorter than three times the heartbeat_interval of {}",
        format_duration(timeout),
        format_duration(interval)
    );
    findings.add(Finding::error(place, message).hint(format!("write at least {}", format_duration(least))));
}

fn default_queue(config: &Config, places: &Places, findings: &mut Findings) {
    let name = config.default_queue.as_str();
    let place = places.get("policy.default_queue");
    match config.queue(name) {
        // No queue holds at all: that was said.
        None if config.queues.is_empty() => {}
        None => {
            let names: Vec<&str> = config.queues.iter().map(|queue| queue.name.as_str()).collect();
            let hint = match nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the queues are {}", names.join(", ")),
            };
            let message = format!("policy.default_queue: no queue is named {}", quoted(name));
            findings.add(Finding::error(place, message).hint(hint));
        }
        Some(queue) if queue.state == QueueState::Closed => {
            let index = config.queues.iter().position(|other| other.name == queue.name).unwrap_or(0);
            let place = places.get(&format!("queues[{index}].state")).or(place);
            let message = format!("the default queue {} is closed: jobs must name another one", quoted(name));
            findings.add(Finding::warning(place, message));
        }
        Some(_) => {}
    }
}

fn idle_cards(config: &Config, places: &Places, findings: &mut Findings) {
    let sample = config.resources.gpu_sample;
    if config.policy.idle.is_some() && sample > Span(LONGEST_PAUSE.0 / 2) {
        let message = format!(
            "resources.gpu_sample: cards that are looked at every {} are never seen to be idle, and policy.idle is set: {} is \
             often enough",
            format_duration(sample),
            format_duration(Span(LONGEST_PAUSE.0 / 2))
        );
        findings.add(Finding::error(places.get("resources.gpu_sample"), message));
    }
    let Some(end) = config.policy.idle_end else { return };
    let message = match config.policy.idle {
        Some(warn) if warn < end => return,
        Some(warn) => format!(
            "policy.idle_end: {} is not longer than policy.idle of {}, after which a job is warned",
            format_duration(end),
            format_duration(warn)
        ),
        None => {
            "policy.idle_end: nobody is ended without a warning: policy.idle says after what time".to_owned()
        }
    };
    findings.add(Finding::error(places.get("policy.idle_end"), message));
}

/// Of a node whose cards are declared it is known how many there are.
fn named_cards(config: &Config, names: &[String], key: &str, places: &Places, findings: &mut Findings) {
    for (host, index) in names.iter().filter_map(|name| name.rsplit_once(':')) {
        let node = config.resources.gpu_nodes.iter().find(|node| node.host.as_str() == host);
        let beyond = |gpus: &u32| index.parse::<u32>().is_ok_and(|index| index >= *gpus);
        if let Some(gpus) = node.map(|node| node.gpus).filter(beyond) {
            let message = format!("{key}: {host} has no card {index}: {} declared", count(gpus, "card"));
            findings.add(Finding::warning(places.get(key), message));
        }
    }
}

/// Nothing freezes a job yet.
fn suspending(index: usize, queue: &Queue, places: &Places, findings: &mut Findings) {
    if queue.preempt == PreemptMode::Suspend {
        let key = format!("queues[{index}].preempt");
        let message = format!("{key}: suspend has no effect yet: its jobs are never ended for others");
        findings.add(Finding::warning(places.get(&key), message));
    }
}

fn times(index: usize, queue: &Queue, places: &Places, findings: &mut Findings) {
    let (Some(usual), Some(most)) = (queue.default_time, queue.max_time) else { return };
    if usual > most {
        let message = format!(
            "queue '{}': default_time {} is longer than max_time {}",
            queue.name,
            format_duration(usual),
            format_duration(most)
        );
        findings.add(Finding::error(places.get(&format!("queues[{index}].default_time")), message));
    }
}
