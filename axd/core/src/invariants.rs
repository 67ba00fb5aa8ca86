//! What must hold after every step. Tests call it; the daemon never does.

use std::collections::{BTreeMap, BTreeSet};

use crate::controller::Controller;
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::{Card, CardShare, CardUse, Node};
use crate::size::Megabytes;

/// Checks everything; the first thing that is wrong, in words.
pub fn check(controller: &Controller) -> Result<(), String> {
    let active: Vec<&Job> = controller.jobs().filter(|j| j.state.is_active()).collect();
    if !controller.active_jobs().eq(active.iter().copied()) {
        return Err("the jobs that hold something are not those that are listed as such".to_owned());
    }
    // The manual says of some states that no job gets there yet.
    if let Some(job) = controller.jobs().find(|job| job.state.is_to_come()) {
        return Err(format!("{} is {}, which nothing leads to", job.id, job.state));
    }
    attempts_are_single(controller, &active)?;
    gangs_are_whole(controller, &active)?;
    for node in controller.nodes() {
        node_gives_what_it_has(node)?;
        node_adds_up(node)?;
        node_holds_for_the_living(node, &active)?;
    }
    if !controller.all_nodes().index_agrees() {
        return Err("what is indexed of the nodes is not what they have".to_owned());
    }
    if !controller.found_places_hold() {
        return Err("where places were found before is not where they are now".to_owned());
    }
    queues_keep_their_limits(controller)?;
    room_is_made_for_who_waits(controller)?;
    the_order_is_the_ready_jobs(controller)
}

/// At most one: an active job has one living attempt, under an epoch of its own.
fn attempts_are_single(controller: &Controller, active: &[&Job]) -> Result<(), String> {
    let mut epochs = BTreeMap::new();
    for job in active {
        let Some(attempt) = &job.attempt else {
            return Err(format!("{} is active without an attempt", job.id));
        };
        if attempt.end.is_some() {
            return Err(format!("{} is active and its attempt has ended", job.id));
        }
        if attempt.name.job != job.id || attempt.name.epoch >= controller.next_epoch() {
            return Err(format!("{} holds the attempt {}", job.id, attempt.name));
        }
        if let Some(other) = epochs.insert(attempt.name.epoch, job.id) {
            return Err(format!("{other} and {} share epoch {}", job.id, attempt.name.epoch));
        }
    }
    let waiting = controller.jobs().filter(|j| j.state.is_waiting());
    for job in waiting {
        if job.attempt.as_ref().is_some_and(|a| a.end.is_none()) {
            return Err(format!("{} waits and has a living attempt", job.id));
        }
    }
    Ok(())
}

/// An attempt has as many nodes as its job asked for, each once and one as much as the other; those on which it is not
/// over hold just that for it.
fn gangs_are_whole(controller: &Controller, active: &[&Job]) -> Result<(), String> {
    for (job, attempt) in active.iter().filter_map(|job| Some((job, job.attempt.as_ref()?))) {
        let (nodes, width) = (job.request.nodes(), attempt.width());
        let names: BTreeSet<_> = attempt.parts().map(|part| &part.node).collect();
        if names.len() != width as usize || width < nodes.min || width > nodes.max {
            return Err(format!("{} wants {nodes} nodes and was started on {}", job.id, attempt.hosts()));
        }
        if attempt.open_parts().next().is_none() {
            return Err(format!("{} is over on all of its nodes and is {}", job.id, job.state));
        }
        let wanted = job.request.cards.as_ref().map_or(0, |cards| cards.count as usize);
        for part in attempt.parts() {
            if part.cards.len() != wanted || (part.cpus.len() as u32) < job.request.cpus {
                return Err(format!("{} has less than it asked for on {}", job.id, part.node));
            }
        }
        // Nodes that have not registered again hold nothing yet.
        let here =
            attempt.open_parts().filter_map(|part| Some((part, controller.all_nodes().get(&part.node)?)));
        for (part, node) in here {
            let held = node.held().get(&attempt.name.epoch.0).map(|holding| &holding.allocation);
            if held != Some(part) {
                return Err(format!("{} does not hold for {} what it was given", part.node, job.id));
            }
        }
    }
    Ok(())
}

/// Never more than there is: CPUs, memory, each card.
fn node_gives_what_it_has(node: &Node) -> Result<(), String> {
    let has = &node.inventory;
    let mut cpus: Vec<u32> = node.held().values().flat_map(|h| h.allocation.cpus.iter().copied()).collect();
    let given = cpus.len();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.len() != given || cpus.last().is_some_and(|c| *c >= has.cpus) {
        return Err(format!("{} gave a CPU twice, or one that it has not", has.name));
    }
    let ram: Megabytes = node.held().values().map(|h| h.allocation.ram).sum();
    if ram > has.ram {
        return Err(format!("{} gave {ram} of {} of memory", has.name, has.ram));
    }
    for card in &has.cards {
        let shares: Vec<_> = node
            .held()
            .values()
            .flat_map(|h| &h.allocation.cards)
            .filter(|s| card.is_of(s, &has.name))
            .collect();
        let whole = shares.iter().any(|s| s.slice.is_none());
        let given: Megabytes = shares.iter().map(|s| s.slice.unwrap_or(card.mem)).sum();
        if shares.iter().any(|share| share.mps != shares[0].mps) {
            return Err(format!("{} gave card {} to slices that don't go together", has.name, card.index));
        }
        if (whole && shares.len() > 1) || given > card.mem || given > node.card_reserved(card) {
            return Err(format!("{} gave more of card {} than it has", has.name, card.index));
        }
    }
    Ok(())
}

/// The sums that a node keeps are those of what it has given out.
fn node_adds_up(node: &Node) -> Result<(), String> {
    let held = || node.held().values();
    let cpus: usize = held().map(|h| h.allocation.cpus.len()).sum();
    let ram: Megabytes = held().map(|h| h.allocation.ram).sum();
    let charges = |at: usize| held().flat_map(|h| &h.charges).filter(move |(on, _)| *on == at);
    let company = |card: &Card| {
        let shares = held().flat_map(|h| &h.allocation.cards);
        let first =
            shares.filter(|share| card.is_of(share, &node.inventory.name)).map(CardShare::company).next();
        first.unwrap_or_default()
    };
    let cards: Vec<CardUse> = (0..node.inventory.cards.len())
        .map(|at| CardUse {
            charged: charges(at).map(|(_, charge)| *charge).sum(),
            holders: u32::try_from(charges(at).count()).unwrap_or(u32::MAX),
            company: company(&node.inventory.cards[at]),
        })
        .collect();
    let same = node.cpus_used() as usize == cpus
        && node.ram_used() == ram
        && node.cards_used() == cards
        && node.future_agrees();
    if same { Ok(()) } else { Err(format!("{} counts otherwise than it holds", node.inventory.name)) }
}

/// Room is made for jobs that are ready, and by attempts that were asked to go and not for two jobs at once.
fn room_is_made_for_who_waits(controller: &Controller) -> Result<(), String> {
    let mut victims = BTreeSet::new();
    for (job, claim) in controller.jobs().filter_map(|job| Some((job, job.rare.claim.as_ref()?))) {
        if job.state != JobState::Ready {
            return Err(format!("{} is {} and room is made for it", job.id, job.state));
        }
        if let Some(victim) = claim.victims.iter().find(|victim| !victims.insert(**victim)) {
            return Err(format!("the attempt of epoch {victim} makes room for two jobs"));
        }
    }
    Ok(())
}

/// A node holds for exactly the active jobs placed on it.
fn node_holds_for_the_living(node: &Node, active: &[&Job]) -> Result<(), String> {
    let name = &node.inventory.name;
    let here = |job: &&&Job| job.attempt.as_ref().is_some_and(|a| a.open_part_on(name).is_some());
    let living: Vec<u64> =
        active.iter().filter(here).filter_map(|j| Some(j.attempt.as_ref()?.name.epoch.0)).collect();
    let mut living = living;
    living.sort_unstable();
    let held: Vec<u64> = node.held().keys().copied().collect();
    if living == held {
        Ok(())
    } else {
        Err(format!("{} holds for {held:?}, alive are {living:?}", node.inventory.name))
    }
}

fn queues_keep_their_limits(controller: &Controller) -> Result<(), String> {
    for queue in &controller.config().queues {
        let active = controller.jobs().filter(|j| j.state.is_active() && j.queue == queue.name).count();
        if active != controller.active_in(&queue.name) as usize {
            return Err(format!(
                "queue {} counts {} active, there are {active}",
                queue.name,
                controller.active_in(&queue.name)
            ));
        }
    }
    Ok(())
}

/// The order holds the ready jobs, each once, and no other; none of them is held or in its back-off.
fn the_order_is_the_ready_jobs(controller: &Controller) -> Result<(), String> {
    let mut ready = controller.jobs().filter(|j| j.state == JobState::Ready);
    if let Some(job) = ready.find(|j| j.rare.hold.is_some() || j.rare.backoff_until.is_some()) {
        return Err(format!("{} is ready and is held, or waits for its back-off", job.id));
    }
    let queues = &controller.config().queues;
    let known =
        |job: &&Job| queues.iter().any(|q| q.name == job.queue) || controller.is_misfit(job.id.number);
    let mut ready: Vec<_> =
        controller.jobs().filter(|j| j.state == JobState::Ready).filter(known).map(|j| j.id).collect();
    let mut ordered: Vec<_> = controller.ready_jobs().map(|j| j.id).collect();
    ready.sort_unstable();
    ordered.sort_unstable();
    if ready == ordered { Ok(()) } else { Err(format!("ready are {ready:?}, in order {ordered:?}")) }
}
