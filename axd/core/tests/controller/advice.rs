//! The advice is exact: in random clusters the change that is named is the cheapest of all that were tried one by one on
//! the whole controller, and if none is named none of them helps.

use std::cmp::Ordering;

use ax_core::advice::Remedy;
use ax_core::config::{Config, Cost, Packing, Queue, QueueOrder, QueueState, Scheduler};
use ax_core::controller::{Change, Controller, Decision, Event, Needs, Submission, Wish};
use ax_core::directive::{Program, interpret_changes, parse_args};
use ax_core::explain::{Condition, Hours};
use ax_core::id::JobNumber;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::{NodeCount, RamRequest, TimeLimit, Window};
use ax_core::job::state::{JobState, Outcome};
use ax_core::job::{Actor, Job};
use ax_core::node::{Allocation, Card, Inventory};
use ax_core::size::Megabytes;
use ax_core::time::{Now, Span, WallTime};
use ax_core::units::gpu_size;
use proptest::prelude::*;

use crate::{at, ended, launched, owner, request, submission};

/// Choices that shrink: a number for each, the first once they are used up.
struct Dice<'a>(std::slice::Iter<'a, u32>);

impl Dice<'_> {
    fn of(&mut self, sides: u64) -> u64 {
        self.0.next().map_or(0, |side| u64::from(*side) % sides)
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.of(of.len() as u64) as usize].clone()
    }
}

fn random_config(dice: &mut Dice<'_>) -> Config {
    let mut config = Config::default();
    config.policy.scheduler =
        dice.one(&[Scheduler::Fifo, Scheduler::FairShare, Scheduler::Fifo, Scheduler::FifoStrict]);
    config.policy.reservations = dice.one(&[8, 1, 0, 3]);
    config.policy.packing = dice.one(&[Packing::Best, Packing::First, Packing::Worst, Packing::Fgd]);
    config.policy.cost = dice.one(&[Cost::Area, Cost::Count]);
    config.policy.task_timeout = Some(Span::seconds(7200));
    config.policy.preemption = dice.of(3) == 1;
    config.resources.gpu_reserve = dice.one(&[0, 10]);
    for name in ["high", "other"] {
        let mut queue = Queue::named(name.parse().unwrap());
        queue.priority = dice.one(&[10, 1, 3]);
        queue.max_running = dice.one(&[None, Some(2), Some(5)]);
        queue.max_time = dice.one(&[None, None, Some(Span::seconds(600))]);
        queue.state =
            dice.one(&[QueueState::Open, QueueState::Open, QueueState::Stopped, QueueState::Closed]);
        queue.users = dice.one(&[vec![], vec![], vec!["nobody".to_owned()]]);
        config.queues.push(queue);
    }
    for queue in &mut config.queues {
        queue.order = dice.one(&[
            QueueOrder::Prio,
            QueueOrder::Fifo,
            QueueOrder::Saf,
            QueueOrder::Laf,
            QueueOrder::Lpf,
        ]);
    }
    config
}

fn random_node(dice: &mut Dice<'_>, number: u64) -> Inventory {
    let name = format!("gpu-0{number}");
    let kind = dice.one(&[None, Some("small".to_owned()), Some("big".to_owned())]);
    let mem = Megabytes(dice.one(&[2000, 1000, 3500]));
    let card = |index| Card::new(index, format!("{name}-{index}"), kind.clone(), mem);
    Inventory {
        name: name.parse().unwrap(),
        epoch: number,
        cpus: 2 + dice.of(7) as u32,
        ram: Megabytes(2048 + 1000 * dice.of(9)),
        cards: (0..dice.one(&[2, 0, 1, 3, 4])).map(card).collect(),
        features: dice.one(&[vec![], vec!["new".to_owned()], vec!["new".to_owned(), "nvlink".to_owned()]]),
        numa_cpus: vec![],
    }
}

fn random_request(dice: &mut Dice<'_>) -> Request {
    let minutes = |dice: &mut Dice<'_>| Span::seconds(20 + 20 * dice.of(70));
    let many = 1 + dice.of(9) as u32;
    let mut wanted = request(dice.one(&[1, 1, many]));
    let much = 1500 + 500 * dice.of(20);
    wanted.ram = Megabytes(dice.one(&[60, 60, 1030, much]));
    wanted.time_limit = (dice.of(8) > 0).then(|| minutes(dice));
    wanted.estimate = (dice.of(4) == 1).then(|| minutes(dice));
    wanted.priority = dice.one(&[50, 10, 80, 95]);
    wanted.exclusive = dice.of(12) == 1;
    let nodes = dice.one(&[None, None, None, Some((2, 2)), Some((3, 3)), Some((2, 4))]);
    wanted.set_special(|special| special.nodes = nodes.map(|(min, max)| NodeCount { min, max }));
    // It is some minutes past eleven.
    if let Some((from, to)) =
        dice.one(&[None, None, None, Some((660, 680)), Some((1380, 690)), Some((690, 720))])
    {
        wanted.set_special(|special| special.window = Some(Window { from, to }));
        wanted.time_limit = wanted.time_limit.or(Some(Span::seconds(1800)));
    }
    if dice.of(6) == 1 {
        wanted.cpus *= 2;
        wanted.set_special(|special| special.tasks = Some(2));
    }
    let features = dice.one(&["", "", "new", "nvlink", "new&nvlink"]);
    wanted.set_special(|special| special.features = features.parse().ok());
    if dice.of(5) > 0 {
        wanted.cards = Some(CardRequest {
            count: dice.one(&[1, 1, 2, 3]),
            kind: dice.one(&[None, None, Some("small".to_owned()), Some("big".to_owned())]),
            slice: dice.one(&[None, Some(500), Some(900), Some(1300), Some(1950), Some(4000)]).map(Megabytes),
        });
    }
    wanted
}

/// A cluster in the middle of its work, and the time.
fn random_cluster(dice: &mut Dice<'_>) -> (Controller, Now) {
    let mut controller = Controller::new(random_config(dice));
    for number in 0..=dice.of(3) {
        controller.step(at(0), Event::NodeRegistered(random_node(dice, number)));
    }
    let mut ms = 1;
    let mut living = Vec::new();
    for key in 0..5 + dice.of(20) {
        ms += dice.one(&[1, 1, 1000, 60_000]);
        let queue = dice.one(&["default", "high", "other"]).parse().unwrap();
        let new = Submission {
            queue,
            groups: Vec::new(),
            owner: owner(1000 + dice.of(3) as u32),
            ..submission(u128::from(key), random_request(dice))
        };
        living.extend(launched(&controller.step(at(ms), Event::Submitted(Box::new(new)))));
        let which = dice.of(6) as usize;
        if let Some(attempt) = living.get(which).copied() {
            let event = match dice.of(3) {
                0 => Event::AttemptStarted { attempt, at: at(ms).wall },
                1 => Event::Tick,
                _ => {
                    living.remove(which);
                    let end = ended(Outcome::Succeeded, Some(0));
                    Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end }
                }
            };
            living.extend(launched(&controller.step(at(ms), event)));
        }
    }
    (controller, at(ms + 1))
}

/// What becomes of a job in the next pass.
fn given(mut controller: Controller, now: Now, number: JobNumber) -> Option<(Allocation, usize)> {
    controller.step(now, Event::Tick).into_iter().find_map(|decision| match decision {
        Decision::Launch { attempt, allocation, others, .. } if attempt.job.number == number => {
            Some((allocation, others.len()))
        }
        _ => None,
    })
}

/// The change that an option means on the command line of `ax update`.
fn followed(option: &str) -> (Wish, String) {
    let words: Vec<String> = option.split(' ').map(str::to_owned).collect();
    let line = parse_args(&words, Program::Axbatch).unwrap();
    let spec = interpret_changes(line.source()).unwrap();
    let asked = spec.resources;
    let needs = Needs {
        gpus: asked.gpus,
        gpus_per_node: asked.gpus_per_node,
        mem: asked.gpu_mem,
        ram: asked.ram.map(|ram| match ram {
            RamRequest::PerNode(ram) => ram,
            other => panic!("{other:?}"),
        }),
        cpus_per_task: asked.cpus_per_task,
        features: (option == "--constraint none").then_some(None),
        nodes: asked.nodes,
    };
    let time_limit = spec.timing.limit.map(|limit| match limit {
        TimeLimit::After(span) => Some(span),
        TimeLimit::Unlimited => None,
    });
    let queue = spec.queue.map(|name| name.parse().unwrap());
    (Wish::Update(Box::new(Change { time_limit, queue, needs, ..Change::default() })), option.to_owned())
}

/// A price as a fraction, and the rank among equals.
type Price = (u64, u64, u8);

fn cheaper(a: &Price, b: &Price) -> Ordering {
    let crossed = |x: &Price, y: &Price| u128::from(x.0) * u128::from(y.1);
    crossed(a, b).cmp(&crossed(b, a)).then(a.2.cmp(&b.2))
}

/// Every single change in steps that people write, the cheapest first: by counting, not by the module's own arithmetic.
fn changes(controller: &Controller, job: &Job) -> Vec<(Price, Remedy)> {
    let request = &job.request;
    let config = controller.config();
    let mut all = Vec::new();
    for queue in config.queues.iter().filter(|queue| queue.name != job.queue) {
        let short = queue.max_time.is_none_or(|max| request.time_limit.is_some_and(|limit| limit <= max));
        if queue.state == QueueState::Open && queue.users.is_empty() && short {
            all.push(((0, 1, 0), Remedy::Queue(queue.name.clone())));
        }
    }
    let too_long = job.state == JobState::Pending;
    if request.estimate.is_none() || too_long {
        let now = request.time_limit.unwrap_or(config.policy.unplanned()).as_seconds();
        let step = if now > 60 { 60 } else { 1 };
        let shorter = (1..now).filter(|seconds| seconds % step == 0);
        for limit in shorter.filter(|limit| request.estimate <= Some(Span::seconds(*limit))) {
            all.push(((now - limit, now, 1), Remedy::Time(Span::seconds(limit))));
        }
    }
    if request.features().is_some() {
        all.push(((0, 1, 3), Remedy::AnyFeatures));
    }
    if let Some(wanted) = &request.cards {
        if wanted.kind.is_some() {
            for kind in [None, Some("big"), Some("small")].map(|kind| kind.map(str::to_owned)) {
                if kind != wanted.kind {
                    all.push(((0, 1, 2), Remedy::Kind(kind)));
                }
            }
        }
        let largest = controller
            .nodes()
            .filter(|node| request.features().is_none_or(|wanted| wanted.met_by(&node.inventory.features)))
            .flat_map(|node| &node.inventory.cards)
            .filter(|card| wanted.kind.is_none() || card.kind == wanted.kind)
            .map(|card| card.mem);
        let now = wanted.slice.or(largest.max()).unwrap_or(Megabytes(0)).0;
        for tenths in 1..100 {
            let mem = gpu_size(&format!("{}.{}", tenths / 10, tenths % 10)).unwrap();
            if mem.0 < now {
                all.push(((now - mem.0, now, 3), Remedy::Mem(mem)));
            }
        }
        let now = wanted.count;
        all.extend((1..now).map(|count| ((u64::from(now - count), u64::from(now), 6), Remedy::Gpus(count))));
    }
    let now = request.ram.0;
    let step = if now > 1024 { 1024 } else { 1 };
    all.extend(
        (1..now).filter(|mb| mb % step == 0).map(|mb| ((now - mb, now, 4), Remedy::Ram(Megabytes(mb)))),
    );
    let now = request.nodes().min;
    all.extend((1..now).map(|nodes| ((u64::from(now - nodes), u64::from(now), 7), Remedy::Nodes(nodes))));
    let now = request.cpus;
    let whole = (1..now).filter(|cpus| cpus % request.tasks() == 0);
    all.extend(whole.map(|cpus| ((u64::from(now - cpus), u64::from(now), 5), Remedy::Cpus(cpus))));
    all.sort_by(|a, b| cheaper(&a.0, &b.0));
    all
}

/// In how many random clusters somebody waits whose advice is compared: ten thousand in the long form of the tests. One
/// where nobody waits, or where there is nothing to advise, is drawn anew and does not count.
fn cases() -> u32 {
    if std::env::var_os("AX_TEST_LONG").is_some() { 10_000 } else { 1000 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        max_global_rejects: 4 * cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_advice_is_the_cheapest_change_that_starts_the_job(choices in proptest::collection::vec(any::<u32>(), 40..600)) {
        let mut dice = Dice(choices.iter());
        let (controller, now) = random_cluster(&mut dice);
        let waiting: Vec<&Job> = controller.jobs().filter(|job| job.state.is_waiting()).collect();
        let Some(job) = waiting.get(choices[0] as usize % waiting.len().max(1)) else {
            return Err(TestCaseError::reject("nobody waits"));
        };
        let number = job.id.number;
        let advice = controller.advise(now, number, &|queue| queue.users.is_empty());
        let Some(advice) = advice else {
            let told = controller.explain(now, number).conditions;
            if job.state == JobState::Pending {
                let hours = |each: &Condition| matches!(each, Condition::Hours(Hours { open: true, .. }));
                prop_assert!(told.len() > 1 || !told.iter().any(hours), "{told:?}");
                return Err(TestCaseError::reject("waits for what no change of its own helps"));
            }
            let has_a_place = matches!(told[..], [Condition::StartsNow])
                || told.iter().any(|condition| matches!(condition, Condition::MakingRoom(_)));
            prop_assert!(has_a_place, "{told:?}");
            return Err(TestCaseError::reject("starts anyway"));
        };
        let helps = |remedy: &Remedy| given(controller.clone().as_if(now, number, remedy)?, now, number);
        let best = changes(&controller, job).into_iter().find_map(|(_, remedy)| Some((helps(&remedy)?, remedy)));
        let said = advice.remedy.as_ref().map(|remedy| (helps(remedy), remedy.clone()));
        prop_assert_eq!(said.clone(), best.map(|(given, remedy)| (Some(given), remedy)), "{:?}", job);
        if let Some((Some((given, others)), _)) = said {
            prop_assert_eq!(advice.node, Some(given.node));
            // Of several nodes each has cards of its own.
            let cards = if others > 0 { Vec::new() } else { given.cards };
            prop_assert_eq!(advice.cards, cards.iter().map(|card| card.index).collect::<Vec<_>>());
            // Whoever follows it keeps their place: with the option as it is written the job starts in that very pass.
            let (wish, option) = followed(advice.option.as_deref().unwrap_or_default());
            let actor = Actor::User { uid: job.owner.uid, name: job.owner.name.clone(), admin: false };
            let event = Event::Wished { job: job.id, actor, wish, why: None };
            let out = controller.clone().step(now, event);
            let starts = out.iter().any(|it| matches!(it, Decision::Launch { attempt, .. } if attempt.job.number == number));
            prop_assert!(starts, "{option}: {out:?} {job:?}");
        }
    }
}

#[test]
fn who_starts_anyway_is_not_told_to_give_up_most_of_it() {
    let slice = |mb: u64| Request {
        cards: Some(CardRequest { count: 1, kind: None, slice: Some(Megabytes(mb)) }),
        ..request(1)
    };
    for (asked, drastic) in [(40_000, true), (15_000, false)] {
        let mut controller = crate::ready(Config::default());
        for number in 1..=4 {
            crate::submit(&mut controller, 1, submission(number, slice(70_000)));
        }
        let (id, out) = crate::submit(&mut controller, 2, submission(5, slice(asked)));
        assert!(!out.iter().any(|decision| matches!(decision, Decision::Launch { .. })), "{out:?}");
        let advice = controller.advise(at(3), id.number, &|_| true).unwrap();
        assert_eq!(advice.option.as_deref(), Some("--mem 10.4"), "it helps, whatever it costs");
        let told = advice.clone().to_one_who_starts();
        assert_eq!(told.option.is_none(), drastic);
        assert_eq!(told == advice, !drastic);
        let room = "at once there is room for --mem 10.4 at most, on gpu-01 card ";
        assert_eq!(told.text.starts_with(room), drastic, "{}", told.text);
    }
}

/// A queue in which nobody waits has earned nothing meanwhile: whoever comes there comes as late as those who wait.
#[test]
fn an_empty_queue_is_no_way_around_who_waits() {
    let mut config = Config::default();
    config.policy.scheduler = Scheduler::FairShare;
    config.policy.cost = Cost::Count;
    config.queues[0].priority = 10;
    config.queues.push(Queue { priority: 1, ..Queue::named("idle".parse().unwrap()) });
    let mut controller = crate::ready(config);
    let cpus = controller.nodes().next().unwrap().inventory.cpus;
    let long = |cpus| Request { time_limit: Some(Span::seconds(6000)), ..request(cpus) };
    // One CPU is left. Who waits first wants all of them, and whoever takes that one holds it up.
    crate::submit(&mut controller, 1, submission(1, request(cpus - 1)));
    crate::submit(&mut controller, 2, submission(2, request(cpus)));
    let (id, _) = crate::submit(&mut controller, 3, submission(3, long(1)));
    let advice = controller.advise(at(4), id.number, &|_| true).unwrap();
    let wish = Wish::Update(Box::new(Change { queue: Some("idle".parse().unwrap()), ..Change::default() }));
    let actor = Actor::User { uid: owner(1000).uid, name: owner(1000).name, admin: false };
    let out = controller.clone().step(at(4), Event::Wished { job: id, actor, wish, why: None });
    assert_eq!(launched(&out), [], "{out:?}");
    assert!(!matches!(advice.remedy, Some(Remedy::Queue(_))), "{advice:?}");
}
