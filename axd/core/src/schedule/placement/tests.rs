//! What is found along the index is what looking at every node finds.

use proptest::prelude::*;

use super::*;
use crate::gpu::{CardState, Health};
use crate::id::{AttemptName, Epoch, JobId, JobNumber};
use crate::job::request::CardRequest;
use crate::job::spec::NodeCount;
use crate::node::{EndTimes, Inventory};
use crate::schedule::gang::Places;
use crate::schedule::timeline::Reservation;

const NOW: WallTime = WallTime(1_000_000);

/// Memory of a node's cards; whether the last of them is of another size.
type Shape = (u64, usize, bool);

/// Cards, slice, CPUs, whose it is under MPS.
type Wanted = (u32, Option<u64>, u32, Option<u32>);

/// Node, what of it, end relative to now.
type Held = (usize, Wanted, i64);

fn request((cards, slice, cpus, _): Wanted) -> Request {
    let wanted = CardRequest { count: cards, kind: None, slice: slice.map(Megabytes) };
    Request { cards: (cards > 0).then_some(wanted), ..Request::plain(cpus, Megabytes(u64::from(cpus))) }
}

fn asks(request: &Request, (cards, slice, _, user): Wanted) -> Asks<'_> {
    let mps = user.filter(|_| cards == 1 && slice.is_some()).map(crate::id::Uid);
    Asks { request, only: None, nodes: request.nodes(), mps, whole: None }
}

fn node((mem, cards, mixed): Shape, number: usize) -> Node {
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

fn wanted(cards: u32, cpus: std::ops::Range<u32>) -> impl Strategy<Value = Wanted> {
    (0..cards, proptest::option::of(1..=8_u64), cpus, prop_oneof![Just(None), Just(Some(1)), Just(Some(2))])
}

fn held() -> impl Strategy<Value = Held> {
    (0..6_usize, wanted(3, 0..4), -2..20_i64)
}

/// Gives something of a node out, if it fits.
fn hold(nodes: &mut Nodes, rules: &Rules, (at, what, end): Held, number: u64) {
    let at = at % nodes.as_slice().len();
    let mut request = request(what);
    request.only_nodes = vec![nodes.as_slice()[at].inventory.name.clone()];
    let asks = asks(&request, what);
    let Some(place) = rules.place(nodes, &Timeline::new(NOW), asks, NOW, Span(1)) else { return };
    let cards: Vec<usize> = place.cards.iter().map(|(at, _)| *at).collect();
    let allocation = nodes.as_slice()[at].allocation(asks, &cards, rules.reserve);
    let job = JobId { number: JobNumber(number as u32), year: 2026 };
    let attempt = AttemptName { job, epoch: Epoch(number) };
    let name = allocation.node.clone();
    let until = WallTime(NOW.0 + end * 500);
    nodes.get_mut(&name).unwrap().hold(attempt, allocation, EndTimes { until, likely: until });
}

fn give_back(nodes: &mut Nodes, number: u64) {
    let job = JobId { number: JobNumber(number as u32), year: 2026 };
    let holder = nodes.iter().find(|node| node.held().contains_key(&number));
    let name = holder.map(|node| node.inventory.name.clone());
    if let Some(node) = name.and_then(|name| nodes.get_mut(&name)) {
        node.release(AttemptName { job, epoch: Epoch(number) });
    }
}

/// Something is seen on a card.
fn see(nodes: &mut Nodes, (at, card, taken, barred): (usize, u32, u64, bool)) {
    let at = at % nodes.as_slice().len();
    let inventory = &nodes.as_slice()[at].inventory;
    let (name, uuid) = (inventory.name.clone(), format!("{at}-{card}"));
    let health = if barred { Health::Suspect } else { Health::Healthy };
    let state = CardState { health, taken: Megabytes(taken), ..CardState::default() };
    nodes.get_mut(&name).unwrap().know_cards([(uuid, state)], Megabytes(1000));
}

/// The best places of all nodes.
fn best(search: &Search<'_>, from: WallTime, most: u32) -> Option<Places> {
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
fn first(search: &Search<'_>) -> Option<(WallTime, Places)> {
    let changes =
        |(at, node)| search.timeline.changes(at, node, WallTime(i64::MAX)).into_iter().filter(|at| *at > NOW);
    let instants: std::collections::BTreeSet<WallTime> =
        search.nodes.iter().enumerate().flat_map(changes).collect();
    instants.into_iter().find_map(|at| Some((at, best(search, at, search.asks.nodes.min)?)))
}

fn keep(timeline: &mut Timeline, request: &Request, (from, places): &(WallTime, Places)) {
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_what_a_look_at_all_finds(
        shapes in proptest::collection::vec((prop_oneof![Just(8_u64), Just(6)], 0..4_usize, any::<bool>()), 1..6),
        rounds in proptest::collection::vec(proptest::collection::vec(held(), 1..8), 1..6),
        sights in proptest::collection::vec((0..6_usize, 0..3_u32, 0..9_u64, any::<bool>()), 0..6),
        all_asks in proptest::collection::vec(wanted(4, 1..8), 1..5),
        reserve in prop_oneof![Just(0_u32), Just(25)],
        length in 1..9000_u64,
        several in proptest::collection::vec((0..4_u32, 0..2_u32), 4),
        packing in prop_oneof![
            3 => Just(Packing::Best), 1 => Just(Packing::Worst), 1 => Just(Packing::First), 1 => Just(Packing::Fgd),
        ],
    ) {
        let mut mix = Mix::default();
        all_asks.iter().for_each(|wanted| mix.count(&request(*wanted)));
        let rules = Rules::new(packing, reserve, &mix);
        let mut nodes: Nodes = shapes.into_iter().zip(0..).map(|(shape, number)| node(shape, number)).collect();
        let mut number = 0;
        let mut sights = sights.into_iter();
        for round in rounds {
            give_back(&mut nodes, number / 2);
            sights.by_ref().take(2).for_each(|sight| see(&mut nodes, sight));
            for held in round {
                number += 1;
                hold(&mut nodes, &rules, held, number);
            }
            let mut timeline = Timeline::new(NOW);
            for (wanted, (min, more)) in all_asks.iter().copied().zip(several.iter().copied()) {
                let (mut request, length) = (request(wanted), Span(length));
                request.set_special(|special| {
                    special.nodes = (min > 0).then_some(NodeCount { min, max: min + more });
                });
                let asks = asks(&request, wanted);
                let all = Search {
                    rules: &rules, nodes: nodes.as_slice(), timeline: &timeline, asks, length, best: None,
                };
                let now = best(&all, NOW, asks.nodes.max);
                prop_assert_eq!(&rules.places(&nodes, &timeline, asks, NOW, length), &now);
                if now.is_some() {
                    continue;
                }
                let later = first(&all);
                prop_assert_eq!(&rules.earliest_places(&nodes, &timeline, asks, NOW, length), &later);
                if let Some(later) = later {
                    keep(&mut timeline, &request, &later);
                }
            }
            prop_assert!(nodes.index_agrees());
        }
    }
}
