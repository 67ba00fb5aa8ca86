//! How much of a cluster each packing gives away: the experiment of "Beware of Fragmentation" (USENIX ATC 2023).
//!
//!     cargo run --release -p ax-core --example packing PODS.csv NODES.csv [SEEDS]
//!
//! Pods are drawn from the list (shuffled, then again at random) until they ask for 130 % of all cards; each gets a
//! place at once or never, and nothing ends. Printed is the share of all cards that is given out when the pods ask for
//! 100 % and for 130 %. A thousandth of a card is a megabyte here; wishes for one of several types are left aside.

#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use ax_core::config::Packing;
use ax_core::id::{AttemptName, Epoch, HostName, JobId, JobNumber};
use ax_core::job::request::{CardRequest, Request};
use ax_core::node::{Card, EndTimes, Inventory, Node, Nodes};
use ax_core::schedule::fragmentation::Mix;
use ax_core::schedule::placement::{Place, Rules};
use ax_core::schedule::timeline::Timeline;
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};

const WHOLE: u64 = 1000;
const NEVER: EndTimes = EndTimes { until: WallTime(i64::MAX), likely: WallTime(i64::MAX) };

/// A stream of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most
    }
}

fn lines(path: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn node(fields: &[String]) -> Option<Inventory> {
    let number = |at: usize| fields[at].parse::<u64>().unwrap_or(0);
    let card = |index| Card::new(index, format!("{}-{index}", fields[0]), None, Megabytes(WHOLE));
    let cards: Vec<Card> = (0..number(3) as u32).map(card).collect();
    let (cpus, ram) = (number(1) as u32, Megabytes(number(2)));
    (!cards.is_empty()).then(|| Inventory {
        name: fields[0].parse().unwrap(),
        epoch: 1,
        cpus,
        ram,
        cards,
        features: Vec::new(),
        numa_cpus: vec![],
    })
}

fn pod(fields: &[String]) -> Request {
    let number = |at: usize| fields[at].parse::<u64>().unwrap_or(0);
    let (cards, milli) = (number(3) as u32, number(4));
    let slice = (cards == 1 && milli < WHOLE).then_some(Megabytes(milli));
    Request {
        cards: (cards > 0).then_some(CardRequest { count: cards, kind: None, slice }),
        ..Request::plain(number(1) as u32, Megabytes(number(2)))
    }
}

fn asked(pod: &Request) -> u64 {
    pod.cards.as_ref().map_or(0, |cards| u64::from(cards.count) * cards.slice.map_or(WHOLE, |slice| slice.0))
}

/// Any node and cards on which a pod fits.
fn anywhere(nodes: &Nodes, pod: &Request, numbers: &mut Numbers) -> Option<Place> {
    let timeline = Timeline::new(WallTime(1));
    let rules = Rules::new(Packing::First, 0, &Mix::default());
    let place = |name: &HostName| {
        let mut there = pod.clone();
        there.only_nodes = vec![name.clone()];
        rules.place(nodes, &timeline, &there, WallTime(1), Span(1))
    };
    let fitting: Vec<Place> = nodes.iter().filter_map(|node| place(&node.inventory.name)).collect();
    let place = (!fitting.is_empty()).then(|| fitting[numbers.below(fitting.len())].clone())?;
    let Some(wanted) = &pod.cards else { return Some(place) };
    let node = &nodes.as_slice()[place.node];
    let charge = wanted.slice.unwrap_or(Megabytes(WHOLE));
    let free =
        node.cards_used().iter().enumerate().filter(|(_, card)| card.charged + charge <= Megabytes(WHOLE));
    let mut free: Vec<usize> = free.map(|(at, _)| at).collect();
    let cards = (0..wanted.count).map(|_| (free.swap_remove(numbers.below(free.len())), charge)).collect();
    Some(Place { cards, ..place })
}

/// The shares in percent that are given out at 100 % and at 130 %.
fn run(inventories: &[Inventory], pods: &[Request], packing: Option<Packing>, seed: u64) -> (f64, f64) {
    let mut nodes: Nodes = inventories.iter().cloned().map(Node::new).collect();
    let mut numbers = Numbers(seed);
    let mut mix = Mix::default();
    pods.iter().filter_map(|pod| pod.cards.as_ref()).for_each(|wanted| mix.count(wanted));
    let mut order: Vec<usize> = (0..pods.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, numbers.below(at + 1));
    }
    let all: u64 = inventories.iter().map(|node| node.cards.len() as u64 * WHOLE).sum();
    let (mut asked_for, mut given, mut at_all) = (0, 0, None);
    for number in 0.. {
        let chosen = order.get(number).copied().unwrap_or_else(|| numbers.below(pods.len()));
        let pod = &pods[chosen];
        asked_for += asked(pod);
        if let Some(wanted) = &pod.cards {
            mix.count(wanted);
        }
        let place = match packing {
            Some(packing) => {
                let rules = Rules::new(packing, 0, &mix);
                rules.place(&nodes, &Timeline::new(WallTime(1)), pod, WallTime(1), Span(1))
            }
            None => anywhere(&nodes, pod, &mut numbers),
        };
        if let Some(place) = place {
            given += asked(pod);
            let cards: Vec<usize> = place.cards.iter().map(|(at, _)| *at).collect();
            let node = &nodes.as_slice()[place.node];
            let (name, allocation) = (node.inventory.name.clone(), node.allocation(pod, &cards, 0));
            let job = JobId { number: JobNumber(number as u32), year: 2026 };
            let attempt = AttemptName { job, epoch: Epoch(number as u64) };
            nodes.get_mut(&name).unwrap().hold(attempt, allocation, NEVER);
        }
        let share = 100.0 * given as f64 / all as f64;
        if asked_for >= all {
            at_all.get_or_insert(share);
        }
        if asked_for * 10 >= all * 13 {
            return (at_all.unwrap(), share);
        }
    }
    unreachable!("numbers do not end");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let nodes: Vec<Inventory> = lines(&words[1]).iter().filter_map(|fields| node(fields)).collect();
    let pods: Vec<Request> = lines(&words[0]).iter().map(|fields| pod(fields)).collect();
    let seeds = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    for (name, packing) in [
        ("random", None),
        ("best", Some(Packing::Best)),
        ("fgd", Some(Packing::Fgd)),
        ("worst", Some(Packing::Worst)),
    ] {
        for seed in 0..seeds {
            let (at_100, at_130) = run(&nodes, &pods, packing, 42 + seed);
            println!("{name:8} seed {} at 100 %: {at_100:.2}  at 130 %: {at_130:.2}", 42 + seed);
        }
    }
}
