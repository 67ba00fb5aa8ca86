//! Who has to go so that an urgent job can start: the victims whose loss is
//! least, and none that could be spared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::bounds::Asks;
use crate::node::{AttemptKey, Company, Node};
use crate::size::Megabytes;

use super::placement::Place;
use super::timeline::Reservation;

/// What ending one attempt would lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Work since its last checkpoint: cards' worth × milliseconds, in millionths.
    pub work: u128,
    /// Those that were started last go first.
    pub started: Reverse<i64>,
    /// Number of the job.
    pub job: u64,
}

/// Victims on one node, and the place that they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The attempts to end.
    pub victims: Vec<AttemptKey>,
    /// What is lost in all.
    pub loss: u128,
    /// Where the job goes.
    pub place: Place,
}

/// The cheapest way to make room for a request on a node, of those attempts that may go.
pub fn make_room<'a>(
    position: usize,
    node: &Node,
    kept: &[&Reservation],
    asks: impl Into<Asks<'a>>,
    reserve: u32,
    candidates: &BTreeMap<AttemptKey, Loss>,
) -> Option<Eviction> {
    let asks = asks.into();
    let room = |gone: &BTreeSet<AttemptKey>| room_without(position, node, kept, asks, reserve, gone);
    let all: BTreeSet<AttemptKey> = candidates.keys().copied().collect();
    room(&all)?;
    let mut by_loss: Vec<(Loss, AttemptKey)> = candidates.iter().map(|(key, loss)| (*loss, *key)).collect();
    by_loss.sort_unstable();
    let mut gone = BTreeSet::new();
    for (_, key) in &by_loss {
        if room(&gone).is_some() {
            break;
        }
        gone.insert(*key);
    }
    // The dearest first: whoever is not needed stays.
    for (_, key) in by_loss.iter().rev() {
        if gone.remove(key) && room(&gone).is_none() {
            gone.insert(*key);
        }
    }
    let loss = gone.iter().filter_map(|key| candidates.get(key)).map(|loss| loss.work).sum();
    Some(Eviction { place: room(&gone)?, victims: gone.into_iter().collect(), loss })
}

/// Where a request fits on a node once these attempts are gone; the fullest cards first.
fn room_without(
    position: usize,
    node: &Node,
    kept: &[&Reservation],
    asks: Asks<'_>,
    reserve: u32,
    gone: &BTreeSet<AttemptKey>,
) -> Option<Place> {
    let (has, request) = (&node.inventory, asks.request);
    if node.drained().is_some() {
        return None;
    }
    let leaving = || node.held().iter().filter(|(key, _)| gone.contains(key)).map(|(_, holding)| holding);
    let cpus: usize = leaving().map(|holding| holding.allocation.cpus.len()).sum();
    let cpus = node.cpus_used() + kept.iter().map(|r| r.cpus).sum::<u32>() - u32::try_from(cpus).ok()?;
    let ram: Megabytes = leaving().map(|holding| holding.allocation.ram).sum();
    let ram = node.ram_used() + kept.iter().map(|r| r.ram).sum() - ram;
    if cpus + has.cpus_for(request) > has.cpus || ram + has.ram_for(request) > has.ram {
        return None;
    }
    let Some(wanted) = &request.cards else {
        return Some(Place { node: position, cards: Vec::new(), company: Company::default() });
    };
    let mut fitting = Vec::new();
    for (at, card) in has.cards.iter().enumerate().filter(|(_, card)| asks.may_have(node, card)) {
        let used = node.cards_used()[at];
        let mut beside = used;
        let freed = leaving().flat_map(|holding| &holding.charges).filter(|(on, _)| *on == at);
        freed.for_each(|(_, charge)| beside.leave(*charge));
        for reservation in kept {
            let on_it = reservation.cards.iter().filter(|(on, _)| *on == at);
            on_it.for_each(|(_, charge)| beside.join(*charge, reservation.company));
        }
        if let Some(fit) = node.withheld()[at].fit(card, beside, asks, reserve) {
            fitting.push((Reverse(used.charged), at, fit));
        }
    }
    fitting.sort_unstable_by_key(|(used, at, _)| (*used, *at));
    fitting.truncate(wanted.count as usize);
    let enough = fitting.len() == wanted.count as usize;
    enough.then(|| Place {
        node: position,
        company: fitting.first().map_or(Company::default(), |(_, _, fit)| fit.company),
        cards: fitting.into_iter().map(|(_, at, fit)| (at, fit.charge)).collect(),
    })
}
