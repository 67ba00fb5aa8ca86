//! Law 8: whoever waits starts within the bound, however many keep coming that are more urgent, or of the size that the
//! order of the queue prefers.

use ax_core::config::{Config, Queue, QueueOrder, Scheduler};
use ax_core::controller::{Decision, Event};
use ax_core::id::QueueName;
use ax_core::job::request::{CardRequest, Request};
use ax_core::size::Megabytes;
use ax_core::time::Span;
use proptest::prelude::*;

use crate::chance::{self, Frame, New};
use crate::histories;
use crate::world::World;

/// The bound of the policy, in seconds.
const BOUND: u64 = 8;
/// No job takes longer, in seconds.
const LONGEST: u64 = 4;
/// The stream begins so much sooner than the job comes that has to wait, in seconds.
const SOONER: u64 = 3;
/// The stream lasts so long: all that may go before that job is over sooner, even if no two run at once.
const LASTS: usize = (SOONER + BOUND + 2 * LONGEST * (SOONER + BOUND + 1) + 3 * LONGEST) as usize;

/// Who waits or keeps coming: how urgent, how large, for how many seconds.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    priority: u8,
    cpus: u32,
    cards: u32,
    /// Of each card a part, else all of it.
    slice: Option<u64>,
    seconds: u64,
}

impl Wanted {
    fn request(self) -> Request {
        let slice = self.slice.map(Megabytes);
        let mut request = chance::plain(self.cpus, 100, self.priority, self.seconds);
        request.cards = (self.cards > 0).then_some(CardRequest { count: self.cards, kind: None, slice });
        request
    }
}

/// Submits a stream of two jobs a second, more than there is room for, and one job early on; says how many milliseconds
/// that job waited, and how much work there was that may go before it because it came no later than `within` seconds
/// after it.
fn wait(
    config: &Config,
    patient: Wanted,
    stream: &[Wanted],
    to: Option<&QueueName>,
    within: u64,
) -> (Option<u64>, u64) {
    let frame = Frame { honest: true, calm: true, ..Frame::default() };
    let mut world = World::new(config.clone(), frame);
    let (mut keys, mut started, mut number) = (0, None, None);
    world.step(vec![Event::NodeRegistered(chance::node(0, 0))], &mut |_| {});
    let mut submit = |world: &mut World, wanted: Wanted, queue: QueueName| {
        keys += 1;
        let submission = chance::of(keys, 1000, queue, wanted.request(), false);
        world.submit(New { submission, takes: wanted.seconds * 1000 }, &mut |_| {});
    };
    let stream_to = to.cloned().unwrap_or_else(QueueName::default_queue);
    let mut before = 0;
    for (at, wanted) in stream.iter().enumerate() {
        if at as u64 == SOONER {
            number = Some(world.controller.next_number());
            submit(&mut world, patient, QueueName::default_queue());
        }
        if at as u64 <= SOONER + within {
            before += 2 * wanted.seconds * 1000;
        }
        for _ in 0..2 {
            submit(&mut world, *wanted, stream_to.clone());
        }
        let launched = |d: &Decision| matches!(d, Decision::Launch { attempt, .. } if Some(attempt.job.number) == number);
        // The first of its attempts counts, which may have begun in the step of a submission.
        let attempts = |world: &World| number.and_then(|number| Some(world.controller.job(number)?.attempts));
        if attempts(&world).is_some_and(|attempts| attempts > 0) {
            started = Some(world.now().boot.0);
        }
        world.pass(1000, &mut |seen| {
            if seen.out.iter().any(launched) {
                started = started.or(Some(seen.now.boot.0));
            }
        });
        if started.is_some() {
            break;
        }
    }
    (started.map(|at| at - SOONER * 1000), before)
}

/// Parts of a card of the node, or all of it.
fn slices() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(proptest::sample::select(vec![6000_u64, 12_000, 20_000]))
}

/// Jobs of so little priority, of which two or three never run at once.
fn streams(priority: u8) -> impl Strategy<Value = Vec<Wanted>> {
    let one = (2..=3_u32, 0..=2_u32, slices(), LONGEST - 1..=LONGEST);
    let one =
        one.prop_map(move |(cpus, cards, slice, seconds)| Wanted { priority, cpus, cards, slice, seconds });
    proptest::collection::vec(one, LASTS)
}

fn patients() -> impl Strategy<Value = Wanted> {
    (0..40_u8, 1..=4_u32, 0..=2_u32, slices(), 1..=LONGEST)
        .prop_map(|(priority, cpus, cards, slice, seconds)| Wanted { priority, cpus, cards, slice, seconds })
}

/// The order of a queue, and how urgent a stream it puts before a job that waits: where the order is by what is hard to
/// place, what is urgent goes first without end, as the page says.
fn orders() -> impl Strategy<Value = (QueueOrder, u8)> {
    let all = vec![
        (QueueOrder::Prio, 100),
        (QueueOrder::Fifo, 100),
        (QueueOrder::Saf, 100),
        (QueueOrder::Laf, 60),
        (QueueOrder::Lpf, 60),
    ];
    proptest::sample::select(all)
}

fn contests() -> impl Strategy<Value = (QueueOrder, Wanted, Vec<Wanted>)> {
    let of = |(order, priority)| (Just(order), patients(), streams(priority));
    orders().prop_flat_map(of)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 50, ..histories() })]

    #[test]
    fn law_8_an_old_job_starts_though_more_urgent_ones_keep_coming((order, patient, stream) in contests()) {
        let mut config = Config::default();
        config.policy.starvation_bound = Some(Span::seconds(BOUND));
        assert!(config.policy.preempt_priority > 60, "what comes under laf is urgent");
        config.queues[0].order = order;
        // Whoever comes later than that goes after it.
        let within = match order {
            QueueOrder::Prio => (u64::from(100 - patient.priority) * BOUND).div_ceil(100),
            QueueOrder::Fifo => 0,
            QueueOrder::Saf | QueueOrder::Laf | QueueOrder::Lpf => BOUND,
        };
        let (started, before) = wait(&config, patient, &stream, None, within);
        let bound = before + (within + 3 * LONGEST) * 1000;
        prop_assert!(started.is_some_and(|at| at <= bound), "starts after {started:?}, the bound is {bound}");
    }

    #[test]
    fn law_8_a_light_queue_starts_a_job_beside_a_heavy_one(patient in patients(), stream in streams(100), weight in 1..=10_u32) {
        let mut config = Config::default();
        config.policy.scheduler = Scheduler::FairShare;
        let mut heavy = Queue::named("night".parse().unwrap());
        (heavy.priority, heavy.order) = (weight, QueueOrder::Fifo);
        config.queues.push(heavy.clone());
        // It has had nothing, and its queue no more than the other: it is next, or next but one.
        let (started, _) = wait(&config, patient, &stream, Some(&heavy.name), 0);
        let bound = 3 * LONGEST * 1000;
        prop_assert!(started.is_some_and(|at| at <= bound), "starts after {started:?}, the bound is {bound}");
    }
}
