//! How much of a cluster each packing gives away: the experiment of "Beware of Fragmentation" (USENIX ATC 2023).
//!
//!     cargo run --release -p ax-core --example packing PODS.csv NODES.csv [SEEDS]
//!
//! Pods are drawn from the list (shuffled, then again at random) until they ask for 130 % of all cards; each gets a
//! place at once or never, and nothing ends. Printed is the share of all cards that is given out when the pods ask for
//! 100 % and for 130 %. A thousandth of a card is a megabyte here, one of a CPU a CPU; the list has no wishes for types.
//! Two of the rules are not ax's, but published beside FGD: any node, and the best fit of all resources.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "an example fails by panicking")]

use ax_core::config::Packing;
use ax_core::id::{AttemptName, Epoch, JobId, JobNumber};
use ax_core::job::request::{CardRequest, Request};
use ax_core::node::{Card, CardUse, Company, EndTimes, Inventory, Node, Nodes};
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

/// How a place is chosen.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// Any node and cards.
    Random,
    /// As published: the least CPUs, memory and cards left in sum, each as a part of the largest node's; there the
    /// tightest cards.
    BestFit,
    /// One of ax's own.
    Ours(Packing),
}

fn lines(text: &str) -> Vec<Vec<String>> {
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// A node of the list, if it has cards.
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

/// What a pod of the list asks for.
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

/// The lists.
pub struct Lists {
    nodes: Vec<Inventory>,
    pods: Vec<Request>,
}

impl Lists {
    /// Reads them.
    pub fn read(pods: &str, nodes: &str) -> Lists {
        Lists {
            nodes: lines(nodes).iter().filter_map(|fields| node(fields)).collect(),
            pods: lines(pods).iter().map(|fields| pod(fields)).collect(),
        }
    }

    /// The same with every so many of the nodes.
    pub fn every(mut self, step: usize) -> Lists {
        self.nodes = self.nodes.into_iter().step_by(step).collect();
        self
    }

    /// Pods in the order of a seed: all of them once, then any.
    pub fn arrivals(&self, seed: u64) -> impl Iterator<Item = usize> + use<> {
        let (mut numbers, all) = (Numbers(seed), self.pods.len());
        let mut order: Vec<usize> = (0..all).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, numbers.below(at + 1));
        }
        order.into_iter().chain(std::iter::repeat_with(move || numbers.below(all)))
    }
}

fn charge(pod: &Request) -> Megabytes {
    pod.cards.as_ref().and_then(|wanted| wanted.slice).unwrap_or(Megabytes(WHOLE))
}

/// The cards of a node that have room, by position, if they are enough and all else is there.
fn fitting(node: &Node, pod: &Request) -> Option<Vec<usize>> {
    let room = |card: &usize| node.cards_used()[*card].charged + charge(pod) <= Megabytes(WHOLE);
    let cards: Vec<usize> = (0..node.inventory.cards.len()).filter(room).collect();
    let count = pod.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
    (pod.cpus <= node.free_cpus() && pod.ram <= node.free_ram() && count <= cards.len()).then_some(cards)
}

/// What is left of a node in sum.
fn left(node: &Node, pod: &Request) -> f64 {
    let of = |free: u64, asked: u64, all: f64| (free - asked) as f64 / all;
    let free_card = |used: &CardUse| WHOLE - used.charged.0;
    let cards = node.cards_used().iter().map(free_card).sum();
    of(node.free_cpus().into(), pod.cpus.into(), 128_000.0)
        + of(node.free_ram().0, pod.ram.0, 786_432.0)
        + of(cards, asked(pod), 8.0 * WHOLE as f64)
}

/// A place by one of the rules that are not ax's.
fn elsewhere(nodes: &Nodes, pod: &Request, by_fit: bool, numbers: &mut Numbers) -> Option<Place> {
    let all = nodes.iter().enumerate();
    let there: Vec<(usize, Vec<usize>)> =
        all.filter_map(|(at, node)| Some((at, fitting(node, pod)?))).collect();
    let node_at = |(at, _): &&(usize, Vec<usize>)| &nodes.as_slice()[*at];
    let (node, cards) = match by_fit {
        true => there.iter().min_by(|a, b| left(node_at(a), pod).total_cmp(&left(node_at(b), pod)))?,
        false if there.is_empty() => return None,
        false => &there[numbers.below(there.len())],
    };
    let mut cards = cards.clone();
    let used = nodes.as_slice()[*node].cards_used();
    cards.sort_by_key(|card| std::cmp::Reverse(used[*card].charged));
    let count = pod.cards.as_ref().map_or(0, |wanted| wanted.count);
    let mut take = || cards.remove(if by_fit { 0 } else { numbers.below(cards.len()) });
    let cards = (0..count).map(|_| (take(), charge(pod))).collect();
    Some(Place { node: *node, cards, company: Company::default() })
}

/// The shares in percent that are given out when these arrivals ask for 100 % and for 130 %.
pub fn run(lists: &Lists, rule: Rule, arrivals: impl Iterator<Item = usize>, seed: u64) -> (f64, f64) {
    let mut nodes: Nodes = lists.nodes.iter().cloned().map(Node::new).collect();
    let mut numbers = Numbers(seed);
    let mut mix = Mix::default();
    lists.pods.iter().for_each(|pod| mix.count(pod));
    let all: u64 = lists.nodes.iter().map(|node| node.cards.len() as u64 * WHOLE).sum();
    let (mut asked_for, mut given, mut at_all) = (0, 0, None);
    for (number, chosen) in arrivals.enumerate() {
        let pod = &lists.pods[chosen];
        asked_for += asked(pod);
        mix.count(pod);
        let place = match rule {
            Rule::Ours(packing) => {
                let rules = Rules::new(packing, 0, &mix);
                rules.place(&nodes, &Timeline::new(WallTime(1)), pod, WallTime(1), Span(1))
            }
            Rule::Random | Rule::BestFit => {
                elsewhere(&nodes, pod, matches!(rule, Rule::BestFit), &mut numbers)
            }
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
    panic!("the arrivals ask for less than 130 %");
}

/// What is compared, the worst first.
pub const RULES: [(&str, Rule); 6] = [
    ("worst", Rule::Ours(Packing::Worst)),
    ("random", Rule::Random),
    ("best fit, published", Rule::BestFit),
    ("best", Rule::Ours(Packing::Best)),
    ("first", Rule::Ours(Packing::First)),
    ("fgd", Rule::Ours(Packing::Fgd)),
];

#[allow(dead_code, reason = "a test uses the rest of this file")]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let read = |at: usize| std::fs::read_to_string(&words[at]).unwrap();
    let lists = Lists::read(&read(0), &read(1));
    let seeds = words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    for (name, rule) in RULES {
        for seed in 42..42 + seeds {
            let (at_100, at_130) = run(&lists, rule, lists.arrivals(seed), seed);
            println!("{name:20} seed {seed} at 100 %: {at_100:.2}  at 130 %: {at_130:.2}");
        }
    }
}
