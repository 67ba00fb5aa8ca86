//! Who has to go so that an urgent job can start: the victims whose loss is
//! least, and none that could be spared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::job::bounds::Asks;
use crate::node::{AttemptKey, Company, Node};
use crate::size::Megabytes;

use super::gang::Places;
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

/// Victims, and the places that they leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The attempts to end.
    pub victims: Vec<AttemptKey>,
    /// What is lost in all.
    pub loss: u128,
    /// Where the job goes.
    pub places: Places,
}

/// A node as victims are looked for on it.
#[derive(Debug, Clone)]
pub struct Battlefield<'a> {
    /// Its position.
    pub position: usize,
    /// The node.
    pub node: &'a Node,
    /// The places on it that others are leaving for somebody.
    pub kept: Vec<&'a Reservation>,
    /// Who may go.
    pub candidates: BTreeMap<AttemptKey, Loss>,
}

/// The cheapest way to make room for a request: on the node, or the several nodes, where least is lost. Of several each
/// is chosen by itself, so that a victim that is on two of them itself may count twice in the choice; it is ended once,
/// and whoever is not needed beside it stays.
pub fn make_room<'a>(
    nodes: impl Iterator<Item = Battlefield<'a>>,
    asks: impl Into<Asks<'a>>,
    reserve: u32,
) -> Option<Eviction> {
    let asks = asks.into();
    let mut options: Vec<(Eviction, Battlefield<'a>)> =
        nodes.filter_map(|field| Some((room_on(&field, asks, reserve)?, field))).collect();
    options.sort_by_key(|(eviction, _)| (eviction.loss, eviction.victims.len(), eviction.places.first.node));
    options.truncate(asks.nodes.min as usize);
    match options.len() {
        found if found < asks.nodes.min as usize => None,
        1 => options.pop().map(|(eviction, _)| eviction),
        _ => together(&options, asks, reserve),
    }
}

/// The victims on several nodes as one: each goes once, and none that is not needed.
fn together(options: &[(Eviction, Battlefield<'_>)], asks: Asks<'_>, reserve: u32) -> Option<Eviction> {
    let mut gone: BTreeSet<AttemptKey> = options.iter().flat_map(|(e, _)| e.victims.clone()).collect();
    let losses: BTreeMap<AttemptKey, Loss> =
        options.iter().flat_map(|(_, field)| &field.candidates).map(|(key, loss)| (*key, *loss)).collect();
    let room = |gone: &BTreeSet<AttemptKey>| -> Option<Vec<Place>> {
        options.iter().map(|(_, field)| room_without(field, asks, reserve, gone)).collect()
    };
    let mut by_loss: Vec<(Loss, AttemptKey)> =
        gone.iter().filter_map(|key| Some((*losses.get(key)?, *key))).collect();
    by_loss.sort_unstable();
    spare(&by_loss, &mut gone, |gone| room(gone).is_some());
    let loss = gone.iter().filter_map(|key| losses.get(key)).map(|loss| loss.work).sum();
    Some(Eviction { places: Places::of(room(&gone)?)?, victims: gone.into_iter().collect(), loss })
}

/// The dearest first: whoever is not needed stays.
fn spare(
    by_loss: &[(Loss, AttemptKey)],
    gone: &mut BTreeSet<AttemptKey>,
    enough: impl Fn(&BTreeSet<AttemptKey>) -> bool,
) {
    for (_, key) in by_loss.iter().rev() {
        if gone.remove(key) && !enough(gone) {
            gone.insert(*key);
        }
    }
}

/// The cheapest way to make room for a request on one node, of those attempts that may go.
fn room_on(field: &Battlefield<'_>, asks: Asks<'_>, reserve: u32) -> Option<Eviction> {
    let candidates = &field.candidates;
    let room = |gone: &BTreeSet<AttemptKey>| room_without(field, asks, reserve, gone);
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
    spare(&by_loss, &mut gone, |gone| room(gone).is_some());
    let loss = gone.iter().filter_map(|key| candidates.get(key)).map(|loss| loss.work).sum();
    Some(Eviction { places: room(&gone)?.into(), victims: gone.into_iter().collect(), loss })
}

/// Where a request fits on a node once these attempts are gone; the fullest cards first.
fn room_without(
    field: &Battlefield<'_>,
    asks: Asks<'_>,
    reserve: u32,
    gone: &BTreeSet<AttemptKey>,
) -> Option<Place> {
    let Battlefield { position, node, kept, .. } = field;
    let (position, node) = (*position, *node);
    let (has, request) = (&node.inventory, asks.request);
    if node.drained().is_some() || !asks.may_fill(node) {
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
