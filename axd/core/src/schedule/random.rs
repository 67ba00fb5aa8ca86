//! Random nodes, what they hold and what is asked of them; and what a look at every node finds.

use proptest::prelude::*;

use super::gang::Places;
use super::placement::{Place, Rules, Score, Search};
use super::timeline::{Reservation, Timeline};
use crate::gpu::{CardState, Health};
use crate::id::{AttemptName, Epoch, JobId, JobNumber, Uid};
use crate::job::bounds::Asks;
use crate::job::request::{CardRequest, Request};
use crate::node::{Card, EndTimes, Inventory, Node, Nodes};
use crate::size::Megabytes;
use crate::time::{Span, WallTime};

pub(crate) const NOW: WallTime = WallTime(1_000_000);

/// Memory of a node's cards; whether the last of them is of another size.
pub(crate) type Shape = (u64, usize, bool);

/// Cards, slice, CPUs, whose it is under MPS.
pub(crate) type Wanted = (u32, Option<u64>, u32, Option<u32>);

/// Node, what of it, end relative to now.
pub(crate) type Held = (usize, Wanted, i64);

pub(crate) fn request((cards, slice, cpus, _): Wanted) -> Request {
    let wanted = CardRequest { count: cards, kind: None, slice: slice.map(Megabytes) };
    Request { cards: (cards > 0).then_some(wanted), ..Request::plain(cpus, Megabytes(u64::from(cpus))) }
}

pub(crate) fn asks(request: &Request, (cards, slice, _, user): Wanted) -> Asks<'_> {
    let mps = user.filter(|_| cards == 1 && slice.is_some()).map(Uid);
    Asks { request, only: None, nodes: request.nodes(), mps, whole: None }
}

pub(crate) fn node((mem, cards, mixed): Shape, number: usize) -> Node {
    let card = |index: usize| {
        let mem = if mixed && index + 1 == cards { mem / 2 } else { mem };
        let mut card = Card::new(index as u32, format!("{number}-{index}"), None, Megabytes(mem));
        card.hardware.mps = (!(number + index).is_multiple_of(3)).then(Vec::new);
        card
    };
    let name = format!("node-{number}").parse().unwrap();
    let cards = (0..cards).map(card).collect();
    Node::new(Inventory {
        name,
        epoch: 1,
        cpus: 12,
        ram: Megabytes(12),
        cards,
        features: vec![],
        numa_cpus: vec![],
    })
}

pub(crate) fn wanted(cards: u32, cpus: std::ops::Range<u32>) -> impl Strategy<Value = Wanted> {
    (0..cards, proptest::option::of(1..=8_u64), cpus, prop_oneof![Just(None), Just(Some(1)), Just(Some(2))])
}

pub(crate) fn held() -> impl Strategy<Value = Held> {
    (0..6_usize, wanted(3, 0..4), -2..20_i64)
}

/// Gives something of a node out, if it fits.
pub(crate) fn hold(nodes: &mut Nodes, rules: &Rules, (at, what, end): Held, number: u64) {
    let at = at % nodes.as_slice().len();
    let mut request = request(what);
    request.only_nodes = vec![nodes.as_slice()[at].inventory.name.clone()];
    let asks = asks(&request, what);
    let Some(place) = rules.place(nodes, &Timeline::new(NOW), asks, NOW, Span(1)) else { return };
    let cards: Vec<usize> = place.cards.iter().map(|(at, _)| *at).collect();
    let allocation = nodes.as_slice()[at].allocation(asks, &cards, rules.reserve());
    let job = JobId { number: JobNumber(number as u32), year: 2026 };
    let attempt = AttemptName { job, epoch: Epoch(number) };
    let name = allocation.node.clone();
    let until = WallTime(NOW.0 + end * 500);
    nodes.get_mut(&name).unwrap().hold(attempt, allocation, EndTimes { until, likely: until });
}

pub(crate) fn give_back(nodes: &mut Nodes, number: u64) {
    let job = JobId { number: JobNumber(number as u32), year: 2026 };
    let holder = nodes.iter().find(|node| node.held().contains_key(&number));
    let name = holder.map(|node| node.inventory.name.clone());
    if let Some(node) = name.and_then(|name| nodes.get_mut(&name)) {
        node.release(AttemptName { job, epoch: Epoch(number) });
    }
}

/// What was given out is held for longer or shorter.
pub(crate) fn expect(nodes: &mut Nodes, number: u64, end: i64) {
    let job = JobId { number: JobNumber(number as u32), year: 2026 };
    let holder = nodes.iter().find(|node| node.held().contains_key(&number));
    let name = holder.map(|node| node.inventory.name.clone());
    let until = WallTime(NOW.0 + end * 500);
    if let Some(node) = name.and_then(|name| nodes.get_mut(&name)) {
        node.expect_end(AttemptName { job, epoch: Epoch(number) }, EndTimes { until, likely: until });
    }
}

/// Something is seen on a card.
pub(crate) fn see(nodes: &mut Nodes, (at, card, taken, barred): (usize, u32, u64, bool)) {
    let at = at % nodes.as_slice().len();
    let inventory = &nodes.as_slice()[at].inventory;
    let (name, uuid) = (inventory.name.clone(), format!("{at}-{card}"));
    let health = if barred { Health::Suspect } else { Health::Healthy };
    let state = CardState { health, taken: Megabytes(taken), ..CardState::default() };
    nodes.get_mut(&name).unwrap().know_cards([(uuid, state)], Megabytes(1000));
}

/// The best places of all nodes.
pub(crate) fn best(search: &Search<'_>, from: WallTime, most: u32) -> Option<Places> {
    let nodes = 0..search.nodes.len();
    let mut found: Vec<(Score, Place)> = nodes.filter_map(|node| search.place_on(node, from)).collect();
    if found.len() < search.asks.nodes.min as usize {
        return None;
    }
    found.sort_unstable_by_key(|(score, _)| *score);
    found.truncate(most as usize);
    Places::of(found.into_iter().map(|(_, place)| place).collect())
}

/// The same at the first instant at which there are any, of all at which anything begins or ends.
pub(crate) fn first(search: &Search<'_>) -> Option<(WallTime, Places)> {
    let changes = |(at, node)| {
        search
            .timeline
            .changes(at, node, WallTime(i64::MAX))
            .into_iter()
            .filter(|at| *at > search.timeline.now())
    };
    let instants: std::collections::BTreeSet<WallTime> =
        search.nodes.iter().enumerate().flat_map(changes).collect();
    instants.into_iter().find_map(|at| Some((at, best(search, at, search.asks.nodes.min)?)))
}

pub(crate) fn keep(timeline: &mut Timeline, request: &Request, (from, places): &(WallTime, Places)) {
    for place in places.iter() {
        timeline.reserve(Reservation {
            job: JobNumber(1),
            node: place.node,
            from: *from,
            until: *from + Span(5000),
            cards: place.cards.clone(),
            company: place.company,
            cpus: request.cpus,
            ram: request.ram,
            firm: false,
        });
    }
}
