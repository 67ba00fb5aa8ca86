//! Law 9: what a queue has had is exactly what it was charged, by its weight; nobody earns by being idle; and two queues
//! that always have jobs waiting get what their weights say.

use std::collections::{BTreeMap, BTreeSet};

use ax_core::config::{Config, Cost, Queue, Scheduler};
use ax_core::controller::{Decision, Event, Wish};
use ax_core::id::{Epoch, JobNumber, QueueName};
use ax_core::job::request::Request;
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::{Span, WallTime};
use proptest::prelude::*;

use crate::chance::{self, Frame, New};
use crate::ledger::{Ledger, planned, refused};
use crate::naive::{fits_somewhere, of_card};
use crate::world::{Seen, World};
use crate::{histories, history};

/// Virtual times are megabyte-milliseconds times this, by weight.
pub(crate) const SCALE: i128 = 2520 << 10;

/// What shares are measured by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    largest: u64,
    all: u64,
    cpus: u64,
}

impl Measured {
    pub(crate) fn of(ledger: &Ledger) -> Measured {
        let cards = || ledger.nodes.values().flat_map(|node| &node.cards).map(|card| card.mem.0);
        let cpus = ledger.nodes.values().map(|node| u64::from(node.cpus)).sum();
        Measured { largest: cards().max().unwrap_or(0), all: cards().sum(), cpus }
    }

    /// Megabytes of card, or as many for CPUs as there are for each.
    pub(crate) fn share(self, request: &Request) -> u128 {
        let share = match &request.cards {
            Some(wanted) => {
                u64::from(wanted.count) * wanted.slice.map_or(self.largest, |s| s.0.min(self.largest))
            }
            None if self.all == 0 => u64::from(request.cpus) * 1000,
            None => u64::from(request.cpus) * (self.all * 1000 / self.cpus) / 1000,
        };
        u128::from(share)
    }
}

/// All card memory for each of the jobs like it that empty cards hold when one after the other is put on them, always on
/// those with most room.
pub(crate) fn part(ledger: &Ledger, request: &Request) -> u128 {
    let measured = Measured::of(ledger);
    let count = request.cards.as_ref().map_or(0, |wanted| wanted.count as usize);
    let mut jobs = 0;
    for node in ledger.nodes.values().filter(|_| count > 0) {
        let of_card = |card| of_card(card, request, ledger.config.resources.gpu_reserve);
        let mut room: Vec<u64> =
            node.cards.iter().filter_map(of_card).map(|(charge, all)| all / charge).collect();
        loop {
            room.sort_unstable_by(|a, b| b.cmp(a));
            let Some(taken) = room.get_mut(..count).filter(|taken| taken.iter().all(|room| *room > 0)) else {
                break;
            };
            taken.iter_mut().for_each(|room| *room -= 1);
            jobs += 1;
        }
    }
    measured.all.checked_div(jobs).map_or_else(|| measured.share(request), u128::from)
}

pub(crate) fn price(cost: Cost, share: u128, length: Span) -> i128 {
    match cost {
        Cost::Count => 1_000_000,
        Cost::Area => share as i128 * i128::from(length.0),
    }
}

/// The books of all queues, kept from the log.
#[derive(Default)]
struct Books {
    times: BTreeMap<QueueName, i128>,
    /// How far each was behind others that waited when a job of it last started.
    behind: BTreeMap<QueueName, i128>,
    /// What each attempt was charged for: queue, share unless each start costs the same, length, weight.
    charged: BTreeMap<Epoch, (QueueName, Option<i128>, Span, i128)>,
    ready: BTreeMap<JobNumber, (QueueName, Request)>,
    /// Whose last attempt made room for others.
    evicted: BTreeSet<JobNumber>,
}

/// Whether a node could hold a request if it were empty.
fn fits(ledger: &Ledger, request: &Request) -> bool {
    let reserve = ledger.config.resources.gpu_reserve;
    fits_somewhere(ledger, request, reserve)
}

impl Books {
    fn waits(&self, ledger: &Ledger, queue: &QueueName) -> bool {
        self.ready.values().any(|(own, request)| own == queue && fits(ledger, request))
    }

    /// What a queue has had so far: what it was charged, without what its running jobs have not had of that yet. Not
    /// less than nothing, although the clock may go back to before a job began.
    fn had(&self, ledger: &Ledger, now: WallTime, queue: &QueueName) -> i128 {
        let left =
            |(epoch, (own, share, planned, weight)): (&Epoch, &(QueueName, Option<i128>, Span, i128))| {
                let ran = i128::from(now.0 - ledger.held[epoch].since.0);
                if own == queue {
                    share.unwrap_or(0) * SCALE / weight * (i128::from(planned.0) - ran)
                } else {
                    0
                }
            };
        let unspent: i128 = self.charged.iter().map(left).sum();
        (self.times.get(queue).copied().unwrap_or_default() - unspent.max(0)).max(0)
    }

    /// The least that another queue with waiting jobs has had.
    fn least(&self, ledger: &Ledger, now: WallTime, queue: &QueueName) -> Option<i128> {
        let names = ledger.config.queues.iter().map(|queue| &queue.name);
        let waiting = names.filter(|name| *name != queue && self.waits(ledger, name));
        waiting.map(|name| self.had(ledger, now, name)).min()
    }

    /// A queue that gets its first job is set to that, else to the most that any has had; while its jobs run it stays as
    /// far behind as it was.
    fn wake(&mut self, ledger: &Ledger, now: WallTime, queue: &QueueName) {
        let had = |name: &QueueName| self.had(ledger, now, name);
        let level = self.least(ledger, now, queue).or_else(|| self.times.keys().map(had).max());
        let runs = ledger.active(queue) > 0;
        let behind = self.behind.get(queue).filter(|_| runs).copied().unwrap_or(0);
        let raise = level.map_or(0, |level| level - behind - had(queue)).max(0);
        *self.times.entry(queue.clone()).or_default() += raise;
    }

    fn enter(
        &mut self,
        ledger: &Ledger,
        now: WallTime,
        queue: &QueueName,
        number: JobNumber,
        request: Request,
    ) {
        if fits(ledger, &request) && !self.waits(ledger, queue) {
            self.wake(ledger, now, queue);
        }
        self.ready.insert(number, (queue.clone(), request));
    }

    /// A job waits, again or for the first time. Whose place was taken had not stopped waiting.
    fn waits_now(&mut self, ledger: &Ledger, seen: &Seen<'_>, number: JobNumber) {
        let job = seen.controller.job(number).unwrap();
        if self.evicted.contains(&number) {
            self.ready.insert(number, (job.queue.clone(), Request::clone(&job.request)));
        } else {
            self.enter(ledger, seen.now.wall, &job.queue, number, Request::clone(&job.request));
        }
    }

    /// What happens before anything is decided: a job changes its queue, or a node comes that can hold jobs that none
    /// could.
    fn happened(&mut self, before: &Ledger, ledger: &Ledger, seen: &Seen<'_>) {
        for event in seen.events {
            match event {
                Event::Wished { job, wish: Wish::Update(change), .. } if !refused(seen) => {
                    let number = job.number;
                    let moves =
                        |(queue, _): &(QueueName, _)| change.queue.as_ref().is_some_and(|to| to != queue);
                    if self.ready.get(&number).is_some_and(moves) {
                        let (_, request) = self.ready.remove(&number).unwrap();
                        self.enter(ledger, seen.now.wall, change.queue.as_ref().unwrap(), number, request);
                    }
                }
                Event::ConfigLoaded(_) | Event::NodeRegistered(_) => {
                    let ready = std::mem::take(&mut self.ready);
                    let (lay, woken): (BTreeMap<_, _>, BTreeMap<_, _>) =
                        ready.into_iter().partition(|(_, (_, request))| fits(before, request));
                    self.ready = lay;
                    let mut woken: Vec<_> = woken.into_iter().collect();
                    woken.sort_by(|(_, (a, _)), (_, (b, _))| a.cmp(b));
                    for (number, (queue, request)) in woken {
                        self.enter(ledger, seen.now.wall, &queue, number, request);
                    }
                }
                _ => {}
            }
        }
    }

    fn decided(&mut self, ledger: &Ledger, seen: &Seen<'_>, decision: &Decision) {
        let policy = &ledger.config.policy;
        match decision {
            Decision::Moved { job, to: JobState::Ready, .. } => self.waits_now(ledger, seen, job.number),
            Decision::Moved { job, from: Some(JobState::Ready), .. } => drop(self.ready.remove(&job.number)),
            Decision::Launch { attempt, others, .. } => {
                let job = seen.controller.job(attempt.job.number).unwrap();
                let share = Measured::of(ledger).share(&job.request) * (1 + others.len() as u128);
                let weight = i128::from(ledger.config.queue(job.queue.as_str()).unwrap().priority);
                let length = planned(job, &ledger.config);
                let had = self.had(ledger, seen.now.wall, &job.queue);
                let least = self.least(ledger, seen.now.wall, &job.queue);
                self.behind.insert(job.queue.clone(), least.map_or(0, |least| (least - had).max(0)));
                *self.times.entry(job.queue.clone()).or_default() +=
                    price(policy.cost, share, length) * SCALE / weight;
                let share = (policy.cost == Cost::Area).then_some(share as i128);
                self.charged.insert(attempt.epoch, (job.queue.clone(), share, length, weight));
            }
            Decision::Closed { attempt, at, end } => {
                let (queue, share, length, weight) = self.charged.remove(&attempt.epoch).unwrap();
                let since = ledger.held[&attempt.epoch].since;
                let never = end.message.as_deref().is_some_and(|text| text.starts_with("never started"));
                let ran = if never { Span(0) } else { *at - since };
                let more = share.unwrap_or(0) * (i128::from(ran.0) - i128::from(length.0));
                *self.times.entry(queue).or_default() += more * SCALE / weight;
                match end.outcome {
                    Outcome::Preempted => self.evicted.insert(attempt.job.number),
                    _ => self.evicted.remove(&attempt.job.number),
                };
            }
            _ => {}
        }
    }
}

/// Two queues with these weights.
fn two_queues(weights: [u32; 2], cost: Cost) -> Config {
    let mut config = Config::default();
    config.policy.scheduler = Scheduler::FairShare;
    config.policy.cost = cost;
    config.queues.push(Queue::named("night".parse().unwrap()));
    for (queue, weight) in config.queues.iter_mut().zip(weights) {
        queue.priority = weight;
    }
    config
}

/// A job of a queue on so many cards that takes and says that it takes so many seconds, and begins then at the earliest.
fn job(key: usize, queue: &Queue, cards: u32, takes: u64, says: u64, begin: WallTime) -> New {
    let mut request = chance::plain(1, 1000, 50, says);
    request.cards = Some(ax_core::job::request::CardRequest { count: cards, kind: None, slice: None });
    request.begin = Some(begin);
    let submission = chance::of(key as u128, 1000, queue.name.clone(), request, false);
    New { submission, takes: takes * 1000 }
}

/// Two queues with these weights and jobs of one shape that never run out: what each has had, by weight.
fn service(
    weights: [u32; 2],
    cost: Cost,
    lengths: &[(u8, u8)],
    cards: u32,
    check: &mut dyn FnMut([i128; 2], i128),
) {
    let frame = Frame { honest: true, calm: true, ..Frame::default() };
    let config = two_queues(weights, cost);
    let mut world = World::new(config.clone(), frame);
    world.step(vec![Event::NodeRegistered(chance::node(1, 0))], &mut |_| {});
    // All come before anything may start, so that each queue always has a job waiting.
    for (key, (queue, seconds)) in lengths.iter().flat_map(|(a, b)| [(0, a), (1, b)]).enumerate() {
        let (takes, begin) = (u64::from(*seconds) + 1, world.now().wall + Span::seconds(1));
        world.submit(job(key, &config.queues[queue], cards, takes, takes, begin), &mut |_| {});
    }
    let longest = lengths.iter().flat_map(|(a, b)| [*a, *b]).max().map_or(1, |most| u64::from(most) + 1);
    let most = price(cost, u128::from(cards) * 48_000, Span::seconds(longest));
    let mut had = [0; 2];
    let mut left = [lengths.len(); 2];
    world.pass(500_000, &mut |seen| {
        for decision in seen.out {
            let Decision::Launch { attempt, .. } = decision else { continue };
            let job = seen.controller.job(attempt.job.number).unwrap();
            let queue = usize::from(job.queue.as_str() == "night");
            had[queue] += price(cost, u128::from(cards) * 48_000, planned(job, &Config::default()));
            left[queue] -= 1;
            if left.iter().all(|left| *left > 0) {
                check(had, most);
            }
        }
    });
}

/// The same where all say that they take so many times as long as they do, one runs at a time, and the jobs of the second
/// queue come later, all together: what each has really had since then.
fn service_since(
    weights: [u32; 2],
    lengths: &[(u8, u8)],
    (says, comes): (u64, u64),
    check: &mut dyn FnMut([i128; 2], i128),
) {
    let frame = Frame { honest: true, calm: true, ..Frame::default() };
    let config = two_queues(weights, Cost::Area);
    let mut world = World::new(config.clone(), frame);
    world.step(vec![Event::NodeRegistered(chance::node(1, 0))], &mut |_| {});
    let now = world.now().wall;
    let since = [now + Span::seconds(1), now + Span::seconds(comes)];
    for (key, (queue, seconds)) in lengths.iter().flat_map(|(a, b)| [(0, a), (1, b)]).enumerate() {
        let takes = u64::from(*seconds) + 1;
        world.submit(job(key, &config.queues[queue], 2, takes, takes * says, since[queue]), &mut |_| {});
    }
    let longest = lengths.iter().flat_map(|(a, b)| [*a, *b]).max().map_or(1, |most| i128::from(most) + 1);
    let (mut had, mut left) = ([0; 2], [lengths.len(); 2]);
    let mut runs = BTreeMap::new();
    world.pass(500_000, &mut |seen| {
        for decision in seen.out {
            match decision {
                Decision::Launch { attempt, .. } => {
                    let job = seen.controller.job(attempt.job.number).unwrap();
                    let queue = usize::from(job.queue.as_str() == "night");
                    left[queue] -= 1;
                    runs.insert(attempt.epoch, (queue, seen.now.wall));
                }
                Decision::Closed { attempt, at, .. } => {
                    let (queue, began) = runs[&attempt.epoch];
                    had[queue] += i128::from((*at - began.max(since[1])).0);
                    if seen.now.wall > since[1] && left.iter().all(|left| *left > 0) {
                        check(had, longest * 1000);
                    }
                }
                _ => {}
            }
        }
    });
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_9_times_are_what_was_charged_by_weight(history in history(40)) {
        let frame = Frame { scheduler: Some(Scheduler::FairShare), ..Frame::default() };
        let (mut ledger, mut books) = (Ledger::default(), Books::default());
        World::play(history.0, frame, history.1, &mut |seen| {
            let before = ledger.clone();
            ledger.take_events(seen);
            books.happened(&before, &ledger, seen);
            ledger.take_decisions(seen, &mut |ledger, decision| books.decided(ledger, seen, decision));
            for queue in &ledger.config.queues {
                let (is, due) = (seen.controller.virtual_times().of(&queue.name).0, books.times.get(&queue.name));
                assert_eq!(is, due.copied().unwrap_or_default(), "queue {}", queue.name);
            }
        });
    }

    #[test]
    fn law_9_two_queues_that_always_wait_get_what_their_weights_say(
        (a, b) in (1..=10_u32, 1..=10_u32),
        lengths in proptest::collection::vec((0..20_u8, 0..20_u8), 2..16),
        (count, cards) in (any::<bool>(), 1..3_u32),
    ) {
        let cost = if count { Cost::Count } else { Cost::Area };
        service([a, b], cost, &lengths, cards, &mut |had, most| {
            let (a, b) = (i128::from(a), i128::from(b));
            // |had/a - had/b| <= most/a + most/b, without fractions.
            assert!((had[0] * b - had[1] * a).abs() <= most * (a + b), "{had:?} of weights {a} and {b}, {most} the most");
        });
    }

    #[test]
    fn law_9_a_queue_that_comes_later_gets_its_weight_however_long_others_say_they_take(
        (a, b) in (1..=10_u32, 1..=10_u32),
        lengths in proptest::collection::vec((0..20_u8, 0..20_u8), 2..16),
        when in (1..2000_u64, 1..60_u64),
    ) {
        service_since([a, b], &lengths, when, &mut |had, most| {
            let (a, b) = (i128::from(a), i128::from(b));
            assert!((had[0] * b - had[1] * a).abs() <= most * (a + b), "{had:?} of weights {a} and {b}, {most} the most");
        });
    }
}
