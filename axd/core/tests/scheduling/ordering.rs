//! Laws 6 and 7: the order is a strict total one, by a rule that time does not enter, and more priority never puts a
//! job back.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ax_core::config::{Config, QueueOrder, Scheduler};
use ax_core::controller::{Change, Controller, Decision, Event, Wish};
use ax_core::id::{JobNumber, QueueName, Uid};
use ax_core::job::{Actor, Job};
use ax_core::time::WallTime;
use proptest::prelude::*;

use crate::chance::{self, Frame, New};
use crate::ledger::{Ledger, planned, said};
use crate::naive::fits_somewhere;
use crate::sharing::{Measured, SCALE, part, price};
use crate::world::World;
use crate::{histories, history};

/// What a job is sorted by within its queue.
type Key = (u8, i64, WallTime, JobNumber);

fn key(job: &Job, ledger: &Ledger, measured: &Measured) -> Key {
    let config = &ledger.config;
    let request = &job.request;
    let since = request.begin.map_or(job.submitted_at, |begin| begin.max(job.submitted_at));
    let priority = i64::from(request.priority);
    let bound = config.policy.starvation_bound.map(|bound| bound.0 as i64);
    let aged = bound.map_or(-priority, |x| since.0 - (x / 100).max(1) * priority);
    let unplanned = config.policy.unplanned();
    let length = said(job).unwrap_or(unplanned);
    let order = config.queue(job.queue.as_str()).unwrap().order;
    let share = match order {
        QueueOrder::Lpf => part(ledger, request),
        _ => measured.share(request),
    };
    let area = share * u128::from(request.nodes().min) * u128::from(length.0);
    let area = i64::try_from(area).unwrap_or(i64::MAX);
    let (class, value) = match order {
        QueueOrder::Prio => (0, aged),
        QueueOrder::Fifo => (0, 0),
        QueueOrder::Saf => (0, bound.map_or(area, |x| since.0 + within(x, doublings(area)))),
        QueueOrder::Laf | QueueOrder::Lpf if request.priority >= config.policy.preempt_priority => (0, aged),
        QueueOrder::Laf | QueueOrder::Lpf => {
            (1, bound.map_or(-area, |x| since.0 + within(x, 63 * 1024 - doublings(area))))
        }
    };
    (class, value, since, job.id.number)
}

/// In 1024ths: the power of two below the area, and how far it is from there to the next.
fn doublings(area: i64) -> i64 {
    let (area, mut power) = (i128::from(area.max(1)), 0);
    while area >= 2 << power {
        power += 1;
    }
    power * 1024 + i64::try_from(area * 1024 / (1 << power) - 1024).unwrap()
}

/// That part of a bound: all sizes lie within one.
fn within(bound: i64, part: i64) -> i64 {
    i64::try_from(i128::from(bound) * i128::from(part) / (63 * 1024)).unwrap()
}

/// The ready jobs sorted anew: each queue by its keys, and the queues merged as the scheduler says.
fn sorted(ledger: &Ledger, controller: &Controller) -> Vec<JobNumber> {
    let (config, measured) = (&ledger.config, Measured::of(ledger));
    let mut queues: BTreeMap<QueueName, Vec<(Key, &Job)>> = BTreeMap::new();
    let reserve = config.resources.gpu_reserve;
    for job in controller.jobs().filter(|job| job.state == ax_core::job::state::JobState::Ready) {
        if fits_somewhere(ledger, &job.request, reserve) {
            queues.entry(job.queue.clone()).or_default().push((key(job, ledger, &measured), job));
        }
    }
    queues.values_mut().for_each(|jobs| jobs.sort_by_key(|(key, _)| Reverse(*key)));
    let fair = config.policy.scheduler == Scheduler::FairShare;
    let mut times: BTreeMap<QueueName, i128> =
        queues.keys().map(|name| (name.clone(), controller.virtual_times().of(name).0)).collect();
    let mut order = Vec::new();
    loop {
        let weight = |name: &QueueName| config.queue(name.as_str()).unwrap().priority;
        let heads = queues.iter().filter_map(|(name, jobs)| Some((name, jobs.last()?)));
        let next = match fair {
            true => heads.min_by_key(|(name, _)| (times[*name], Reverse(weight(name)), (*name).clone())),
            false => heads.min_by_key(|(name, (key, _))| (Reverse(weight(name)), *key)),
        };
        let Some(name) = next.map(|(name, _)| name.clone()) else { return order };
        let (_, job) = queues.get_mut(&name).unwrap().pop().unwrap();
        order.push(job.id.number);
        let share = measured.share(&job.request) * u128::from(job.request.nodes().min);
        let cost = price(config.policy.cost, share, planned(job, config));
        *times.get_mut(&name).unwrap() += cost * SCALE / i128::from(weight(&name));
    }
}

/// Pairs of one queue keep their order as long as nothing is changed about them.
#[derive(Default)]
struct Pairs(BTreeMap<QueueName, Vec<JobNumber>>);

impl Pairs {
    fn see(&mut self, controller: &Controller, same_rules: bool) {
        let mut now: BTreeMap<QueueName, Vec<JobNumber>> = BTreeMap::new();
        for job in controller.ready_jobs().filter(|job| !controller.is_misfit(job.id.number)) {
            now.entry(job.queue.clone()).or_default().push(job.id.number);
        }
        for (queue, jobs) in &now {
            let before = self.0.get(queue).filter(|_| same_rules).map_or(&[][..], Vec::as_slice);
            let stayed = |number: &&JobNumber| jobs.contains(number);
            let was: Vec<_> = before.iter().filter(stayed).collect();
            let is: Vec<_> = jobs.iter().filter(|number| before.contains(number)).collect();
            assert_eq!(was, is, "the order of queue {queue} has changed by itself");
        }
        self.0 = now;
    }
}

fn raised(job: &Job, priority: u8) -> Event {
    let actor = Actor::User { uid: Uid(0), name: Arc::from("root"), admin: true };
    let change = Change { priority: Some(priority), ..Change::default() };
    Event::Wished { job: job.id, actor, wish: Wish::Update(Box::new(change)), why: None }
}

/// Who goes before a job.
fn before(controller: &Controller, number: JobNumber) -> BTreeSet<JobNumber> {
    controller.ready_jobs().map(|job| job.id.number).take_while(|each| *each != number).collect()
}

/// When each job of one shape starts, of which the one is submitted with so much priority.
fn starts(config: &Config, jobs: &[(u16, u8, u8)], one: usize, priority: u8) -> BTreeMap<u128, u64> {
    let frame = Frame { honest: true, calm: true, ..Frame::default() };
    let mut world = World::new(config.clone(), frame);
    let mut began = BTreeMap::new();
    let check: crate::world::Checker<'_> = &mut |seen| {
        for decision in seen.out {
            if let Decision::Launch { attempt, .. } = decision {
                began.insert(seen.controller.job(attempt.job.number).unwrap().key.0, seen.now.boot.0);
            }
        }
    };
    world.step(vec![Event::NodeRegistered(chance::node(0, 0))], check);
    for (at, (wait, length, own)) in jobs.iter().enumerate() {
        world.pass(u64::from(*wait) * 100, check);
        let (seconds, priority) = (u64::from(*length % 9) + 1, if at == one { priority } else { *own });
        let request = chance::plain(2, 1000, priority, seconds);
        let submission = chance::of(at as u128, 1000, QueueName::default_queue(), request, false);
        world.submit(New { submission, takes: seconds * 1000 }, check);
    }
    world.pass(300_000, check);
    assert_eq!(began.len(), jobs.len());
    began
}

proptest! {
    #![proptest_config(histories())]

    #[test]
    fn law_6_more_priority_never_puts_a_job_back(history in history(40), to in 50..=100_u8) {
        let mut world = World::play(history.0, Frame::default(), history.1, &mut |_| {});
        world.step(vec![Event::Tick], &mut |_| {});
        let (now, controller) = (world.now(), world.controller);
        for job in controller.ready_jobs().filter(|job| job.request.priority < to).take(5) {
            let mut raising = controller.clone();
            let out = raising.step(now, raised(job, to));
            // Nothing else may have happened, such as a begin time that a clock set back has brought back.
            if out.iter().all(|decision| matches!(decision, Decision::Noted { .. })) {
                let (was, is) = (before(&controller, job.id.number), before(&raising, job.id.number));
                assert!(is.is_subset(&was), "before {} were {was:?}, with more priority {is:?}", job.id);
            }
        }
    }

    #[test]
    fn law_6_more_priority_never_makes_a_start_later(
        jobs in proptest::collection::vec((0..20_u16, any::<u8>(), 0..90_u8), 1..14),
        (one, more) in (any::<prop::sample::Index>(), 1..90_u8),
        strict in any::<bool>(),
    ) {
        let mut config = Config::default();
        config.policy.scheduler = if strict { Scheduler::FifoStrict } else { Scheduler::Fifo };
        config.policy.reservations = 1;
        config.policy.starvation_bound = Some(ax_core::time::Span::seconds(100));
        let one = one.index(jobs.len());
        let own = jobs[one].2;
        let was = starts(&config, &jobs, one, own)[&(one as u128)];
        let is = starts(&config, &jobs, one, own.saturating_add(more).min(100))[&(one as u128)];
        prop_assert!(is <= was, "started at {was}, with more priority at {is}");
    }

    #[test]
    fn law_7_the_order_is_by_a_rule_without_time(history in history(40)) {
        let (mut ledger, mut pairs) = (Ledger::default(), Pairs::default());
        World::play(history.0, Frame::default(), history.1, &mut |seen| {
            ledger.follow(seen, &mut |_, _| {});
            // Who has had less goes first there, and that changes.
            let policy = &seen.controller.config().policy;
            if policy.scheduler == Scheduler::FairShare && policy.user_share > 0 {
                pairs = Pairs::default();
                return;
            }
            let all = seen.controller.ready_jobs().filter(|job| !seen.controller.is_misfit(job.id.number));
            let order: Vec<JobNumber> = all.map(|job| job.id.number).collect();
            assert_eq!(order, sorted(&ledger, seen.controller));
            let rules = |event: &Event| match event {
                Event::ConfigLoaded(_) | Event::NodeRegistered(_) => true,
                Event::Wished { wish, .. } => matches!(wish, Wish::Update(_)),
                _ => false,
            };
            pairs.see(seen.controller, !seen.events.iter().any(rules));
        });
    }
}
