//! What a waiting job is told, word by word: each kind of condition in a cluster made for it, what the expected start
//! rests on, what to ask for instead; and what a started job's attempt keeps.

use ax_core::config::{Config, Queue, QueueState, Scheduler};
use ax_core::controller::{Controller, Decision, Event, Submission, Wish};
use ax_core::explain::{Basis, Explanation};
use ax_core::id::{AttemptName, JobId};
use ax_core::job::Actor;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::PreemptMode;
use ax_core::job::state::Outcome;
use ax_core::node::Inventory;
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};
use ax_core::units::gpu_size;

use crate::{at, config, ended, launched, node, ready, request, submission, submit};

fn told(controller: &Controller, ms: u64, job: JobId) -> Explanation {
    controller.explain(at(ms), job.number)
}

fn basis(controller: &Controller, ms: u64, job: JobId) -> String {
    told(controller, ms, job).basis.map_or(String::new(), |basis| basis.words())
}

fn advice(controller: &Controller, ms: u64, job: JobId) -> String {
    controller.advise(at(ms), job.number, &|_| false).map_or(String::new(), |advice| advice.text)
}

fn on_cards(count: u32, slice: Option<&str>) -> Request {
    let slice = slice.map(|size| gpu_size(size).unwrap());
    Request { cards: Some(CardRequest { count, kind: None, slice }), ..request(1) }
}

fn for_minutes(minutes: u64, request: Request) -> Request {
    Request { time_limit: Some(Span::seconds(60 * minutes)), ..request }
}

fn nodes(count: u64) -> impl Iterator<Item = Inventory> {
    (1..=count).map(|number| Inventory { name: format!("gpu-{number:02}").parse().unwrap(), ..node() })
}

/// A cluster of so many nodes.
fn cluster(config: Config, count: u64) -> Controller {
    let mut controller = Controller::new(config);
    nodes(count).for_each(|node| drop(controller.step(at(0), Event::NodeRegistered(node))));
    controller
}

fn started(controller: &mut Controller, ms: u64, key: u128, request: Request) -> (JobId, AttemptName) {
    let (id, out) = submit(controller, ms, submission(key, request));
    let attempt = launched(&out)[0];
    controller.step(at(ms), Event::AttemptStarted { attempt, at: at(ms).wall });
    (id, attempt)
}

fn waiting(controller: &mut Controller, ms: u64, key: u128, request: Request) -> JobId {
    let (id, out) = submit(controller, ms, submission(key, request));
    assert!(launched(&out).iter().all(|attempt| attempt.job != id));
    id
}

fn why_of(out: &[Decision]) -> String {
    let why = out.iter().find_map(|decision| match decision {
        Decision::Launch { why, .. } => Some(why.clone()),
        _ => None,
    });
    why.unwrap()
}

#[test]
fn what_a_job_waits_for_of_its_own_is_told_together() {
    let mut controller = ready(config());
    let begin = Some(at(90_000).wall);
    let held = Submission { hold: true, ..submission(1, Request { begin, ..request(1) }) };
    let (id, _) = submit(&mut controller, 0, held);
    let story = told(&controller, 0, id);
    assert_eq!(
        story.reasons,
        [
            format!("held by user1000; 'ax release {id}' lets it go"),
            "waits for its begin time, in 1m30s".into()
        ]
    );
    assert_eq!((story.expected_start, story.basis), (None, Some(Basis::Somebody)));
    assert_eq!(advice(&controller, 0, id), "", "who waits for something of their own gets no advice");
    let actor = Actor::Ax;
    controller.step(at(1), Event::Wished { job: id, actor, wish: Wish::Release, why: None });
    let story = told(&controller, 1, id);
    assert_eq!((story.expected_start, story.basis), (begin, Some(Basis::Itself)));
}

#[test]
fn a_full_queue_names_who_fills_it_and_a_stopped_one_says_so() {
    let mut controller = ready(config());
    let high = |key, request| Submission { queue: "high".parse().unwrap(), ..submission(key, request) };
    let (first, _) = submit(&mut controller, 0, high(1, for_minutes(10, request(1))));
    let (second, _) = submit(&mut controller, 0, high(2, for_minutes(5, request(1))));
    let (third, _) = submit(&mut controller, 0, high(3, request(1)));
    let story = told(&controller, 0, third);
    assert_eq!(story.reasons, [format!("queue high runs 2 of at most 2 jobs: {first} and {second}")]);
    assert_eq!(story.expected_start, Some(at(300_000).wall));
    assert_eq!(basis(&controller, 0, third), format!("{second} ends then and leaves its place in the queue"));
    let advised = controller.advise(at(0), third.number, &|_| true).unwrap();
    assert_eq!(advised.text, "with --queue default at once on gpu-01");
    assert_eq!(advised.option.as_deref(), Some("--queue default"));
    let barred = controller.advise(at(0), third.number, &|queue| queue.name.as_str() != "default").unwrap();
    assert_eq!((barred.option, barred.node), (None, None), "a queue that its owner may not use is no advice");
    let mut stopped = config();
    stopped.queues[1].state = QueueState::Stopped;
    controller.step(at(1), Event::ConfigLoaded(Box::new(stopped)));
    assert_eq!(told(&controller, 1, third).reasons[0], "queue high is stopped: it starts nothing");
    controller.step(at(2), Event::ConfigLoaded(Box::default()));
    assert_eq!(told(&controller, 2, third).reasons[0], "queue high is no longer configured");
}

#[test]
fn a_place_in_a_queue_that_is_kept_is_named_with_its_owner() {
    let mut controller = ready(config());
    let high = |key, request| Submission { queue: "high".parse().unwrap(), ..submission(key, request) };
    submit(&mut controller, 0, high(1, for_minutes(30, on_cards(3, None))));
    let (wide, _) = submit(&mut controller, 1, high(2, on_cards(4, None)));
    let (small, out) = submit(&mut controller, 2, high(3, for_minutes(5, on_cards(1, None))));
    assert!(launched(&out).is_empty());
    assert_eq!(
        told(&controller, 2, small).reasons,
        [
            format!("queue high runs 1 of at most 2 jobs, and keeps a place for {wide}"),
            format!("1 job before it, the first is {wide}"),
        ]
    );
    assert_eq!(
        controller.advise(at(2), small.number, &|_| true).unwrap().text,
        "with --queue default at once on gpu-01 card 3"
    );
    assert_eq!(advice(&controller, 2, small), "no single change of what it asks for would start it at once");
}

#[test]
fn nodes_that_lack_the_same_are_one_line() {
    let mut controller = cluster(config(), 12);
    for key in 0..12 {
        started(&mut controller, 0, key, for_minutes(9, request(if key == 6 { 5 } else { 7 })));
    }
    let id = waiting(&mut controller, 1, 99, request(4));
    let all = "gpu-01, gpu-02, gpu-03 and 9 more";
    assert_eq!(
        told(&controller, 1, id).reasons,
        [format!("needs 4 CPUs (at most 3 of 8 free) on each of 12 nodes: {all}")]
    );
    let misfit = waiting(&mut controller, 1, 100, request(9));
    assert_eq!(
        told(&controller, 1, misfit).reasons,
        [
            "no node here could hold it, even empty".to_owned(),
            format!("needs 9 CPUs, and each of 12 nodes: {all} has at most 8"),
        ]
    );
    assert_eq!(told(&controller, 1, misfit).expected_start, None);
    assert_eq!(advice(&controller, 1, misfit), "with --cpus-per-task 3 at once on gpu-07");
    assert_eq!(advice(&controller, 1, id), "with --cpus-per-task 3 at once on gpu-07");
}

#[test]
fn nodes_that_lack_different_things_stay_a_few_lines() {
    let mut controller = cluster(config(), 2);
    started(
        &mut controller,
        0,
        1,
        for_minutes(9, Request { only_nodes: vec!["gpu-01".parse().unwrap()], ..request(8) }),
    );
    let ram = Request { ram: Megabytes(63_000), only_nodes: vec!["gpu-02".parse().unwrap()], ..request(1) };
    started(&mut controller, 0, 2, for_minutes(9, ram));
    let wanted = Request { ram: Megabytes(2048), ..request(2) };
    let id = waiting(&mut controller, 0, 3, wanted.clone());
    assert_eq!(
        told(&controller, 0, id).reasons,
        ["needs 2 CPUs (0 of 8 free) on gpu-01", "needs 2 GB of RAM (1000 MB of 62.5 GB free) on gpu-02"]
    );
    let here = Request { only_nodes: vec!["gpu-01".parse().unwrap()], ..wanted };
    let id = waiting(&mut controller, 0, 4, here);
    assert_eq!(told(&controller, 0, id).reasons[1], "may not run on gpu-02, by its --nodelist or --exclude");
}

#[test]
fn a_place_that_is_kept_is_named_with_its_owner_card_and_time() {
    let mut controller = ready(config());
    let (runs, _) = started(&mut controller, 0, 1, for_minutes(30, on_cards(3, None)));
    let wide = waiting(&mut controller, 1, 2, on_cards(4, None));
    let long = waiting(&mut controller, 1, 3, for_minutes(45, on_cards(1, None)));
    let story = told(&controller, 1, long);
    assert_eq!(
        story.reasons,
        [
            format!(
                "fits on gpu-01 now, but takes 45m00s and would delay {wide}, which is to start in 29m59s on gpu-01 cards 0,1,2,3"
            ),
            format!("1 job before it, the first is {wide}"),
        ]
    );
    assert_eq!(basis(&controller, 1, wide), format!("{runs} ends on gpu-01 then, by its time limit"));
    assert_eq!(
        basis(&controller, 1, long),
        format!("{wide}, which goes before it, ends on gpu-01 then, by the plan")
    );
    assert_eq!(advice(&controller, 1, long), "with --time 00:29:00 at once on gpu-01 card 3");
    assert_eq!(advice(&controller, 1, wide), "with --gpus 1 at once on gpu-01 card 3");
}

#[test]
fn a_smaller_slice_is_advised_with_its_card() {
    let mut controller = ready(config());
    let (_, _) = started(&mut controller, 0, 1, for_minutes(30, on_cards(3, None)));
    let (_, _) = started(&mut controller, 0, 2, for_minutes(20, on_cards(1, Some("50"))));
    let id = waiting(&mut controller, 1, 3, on_cards(1, Some("40")));
    assert_eq!(
        told(&controller, 1, id).reasons,
        ["needs 40 GB on 1 card (0 of 4 have so much free) on gpu-01"]
    );
    // 80,000 MB less 47,683 MB are 33.88 GB.
    assert_eq!(advice(&controller, 1, id), "with --mem 33.8 at once on gpu-01 card 3");
}

#[test]
fn the_cheapest_change_is_not_the_one_that_looks_cheapest() {
    let mut controller = ready(config());
    started(&mut controller, 0, 1, for_minutes(30, request(4)));
    let wide = waiting(&mut controller, 1, 2, request(6));
    let id = waiting(&mut controller, 1, 3, for_minutes(100, request(4)));
    assert!(
        told(&controller, 1, id).reasons[0].contains(&format!("would delay {wide}, which is to start in "))
    );
    // 29 of 100 minutes would do as well, and are less of what was asked for than 2 of 4 CPUs.
    assert_eq!(advice(&controller, 1, id), "with --cpus-per-task 2 at once on gpu-01");
}

#[test]
fn another_type_of_card_is_advised() {
    let mut controller = cluster(config(), 1);
    let mut other = Inventory { name: "gpu-02".parse().unwrap(), ..node() };
    other.cards.iter_mut().for_each(|card| card.kind = Some("h200".to_owned()));
    controller.step(at(0), Event::NodeRegistered(other));
    let of = |kind: &str| {
        let mut wanted = on_cards(4, None);
        wanted.cards.iter_mut().for_each(|cards| cards.kind = Some(kind.to_owned()));
        wanted
    };
    started(&mut controller, 0, 1, for_minutes(30, of("a100")));
    let id = waiting(&mut controller, 1, 2, of("a100"));
    assert_eq!(advice(&controller, 1, id), "with --gpus 4 (of any type) at once on gpu-02 cards 0,1,2,3");
}

#[test]
fn if_no_single_change_helps_that_is_said() {
    let mut controller = ready(config());
    started(&mut controller, 0, 1, for_minutes(30, request(8)));
    let id = waiting(&mut controller, 1, 2, Request { ram: Megabytes(4096), ..request(3) });
    assert_eq!(advice(&controller, 1, id), "no single change of what it asks for would start it at once");
}

#[test]
fn a_start_that_nobody_can_foretell_says_because_of_whom() {
    let mut controller = ready(config());
    let endless = Request { time_limit: None, ..request(8) };
    let (runs, _) = started(&mut controller, 0, 1, endless);
    let next = waiting(&mut controller, 1, 2, request(8));
    let after = waiting(&mut controller, 1, 3, request(8));
    assert_eq!(basis(&controller, 1, next), format!("{runs} has neither --time nor --estimate"));
    assert_eq!(basis(&controller, 1, after), format!("{next} goes before it, and its start is not known"));
    assert_eq!(told(&controller, 1, after).expected_start, None);
}

#[test]
fn whether_an_end_is_by_estimate_or_overdue_is_said() {
    let mut controller = ready(config());
    let (runs, _) =
        started(&mut controller, 0, 1, Request { estimate: Some(Span::seconds(60)), ..request(8) });
    let next = waiting(&mut controller, 1, 2, request(8));
    assert_eq!(basis(&controller, 1, next), format!("{runs} ends on gpu-01 then, by its estimate"));
    assert_eq!(
        basis(&controller, 61_000, next),
        format!("{runs} on gpu-01 is past what was planned and may end at any moment")
    );
}

#[test]
fn who_is_being_ended_for_an_urgent_job_is_named() {
    let mut config = config();
    config.policy.preemption = true;
    let mut controller = ready(config);
    let (victim, attempt) = started(&mut controller, 0, 1, Request { priority: 10, ..request(8) });
    let wanted = submission(2, Request { priority: 95, ..request(4) });
    let (urgent, out) = submit(&mut controller, 1, wanted);
    let noted = out.iter().find_map(|decision| match decision {
        Decision::Noted { job, what, .. } if *job == urgent => Some(what.as_str()),
        _ => None,
    });
    assert_eq!(noted, Some(format!("ends {victim} on gpu-01 to make room for it").as_str()));
    let other = waiting(&mut controller, 1, 3, request(8));
    let story = told(&controller, 2, urgent);
    assert_eq!(story.reasons, [format!("{victim} is being ended for it; then it starts on gpu-01")]);
    assert_eq!(story.basis, Some(Basis::MakingRoom { foretold: false }));
    // Who only asks what would be ends nobody.
    let tried = story.clone().of_a_try(at(2).wall);
    assert_eq!(tried.reasons, [format!("{victim} would be ended for it; then it would start on gpu-01")]);
    assert_eq!(
        tried.basis.unwrap().words(),
        "at the latest: those that would be ended for it are killed by then"
    );
    assert_eq!(story.expected_start, Some(at(2).wall + controller.config().policy.kill_wait));
    assert_eq!(advice(&controller, 2, urgent), "");
    assert_eq!(told(&controller, 2, other).reasons[1], format!("1 job before it, the first is {urgent}"));
    let end = ended(Outcome::Preempted, None);
    let out = controller.step(at(3), Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
    assert_eq!(
        why_of(&out),
        "in queue default with priority 95; 1 job was ended to make room for it; gpu-01 gives it 4 CPUs and 1000 MB"
    );
}

#[test]
fn why_nobody_is_ended_for_an_urgent_job_is_told() {
    let mut config = config();
    config.policy.preemption = true;
    config.policy.max_preemptions = 0;
    let mut controller = ready(config);
    let quarter = |priority| Request { priority, ..request(2) };
    let never = Request { preempt: PreemptMode::Never, ..quarter(0) };
    for (key, wanted) in (1..).zip([quarter(90), never, Request { requeue: false, ..quarter(0) }, quarter(0)])
    {
        started(&mut controller, 0, key, wanted);
    }
    let urgent = waiting(&mut controller, 1, 8, Request { priority: 100, ..request(8) });
    let nobody = "nobody is ended for it: of 4 jobs there 1 is too urgent (policy.preempt_gap), 1 may not be ended \
                  (--preempt), 1 may not be started again (--no-requeue) and 1 has been ended for others too often \
                  (policy.max_preemptions)";
    assert_eq!(told(&controller, 2, urgent).reasons, ["needs 8 CPUs (0 of 8 free) on gpu-01", nobody]);
    // Where one may go and that is not enough, and for whom nobody is ended anyway.
    let mut config = controller.config().clone();
    config.policy.max_preemptions = 1;
    controller.step(at(3), Event::ConfigLoaded(Box::new(config)));
    let reasons = told(&controller, 4, urgent).reasons;
    assert!(reasons[1].ends_with("(--no-requeue) and the others would not be enough"), "{reasons:?}");
    let usual = waiting(&mut controller, 5, 9, request(8));
    let reasons = told(&controller, 5, usual).reasons;
    assert!(reasons.iter().all(|reason| !reason.contains("nobody is ended")), "{reasons:?}");
}

#[test]
fn memory_that_is_missing_by_little_is_told_to_the_megabyte() {
    let mut controller = Controller::new(config());
    let ram = Megabytes(24_064);
    controller.step(at(0), Event::NodeRegistered(Inventory { ram, ..node() }));
    started(&mut controller, 0, 1, Request { ram: Megabytes(10), ..request(1) });
    let all = waiting(&mut controller, 1, 2, Request { ram, ..request(1) });
    assert_eq!(
        told(&controller, 2, all).reasons,
        ["needs 24064 MB of RAM (24054 MB of 24064 MB free) on gpu-01"]
    );
}

#[test]
fn an_urgent_job_takes_a_place_that_was_kept_and_says_so() {
    let mut config = config();
    config.policy.preemption = true;
    let mut controller = ready(config);
    started(&mut controller, 0, 1, for_minutes(30, on_cards(3, None)));
    waiting(&mut controller, 1, 2, on_cards(4, None));
    let lasting = for_minutes(45, Request { priority: 80, ..on_cards(1, None) });
    // Before it is the wide job, which was there first: waiting counts for more than its priority.
    let urgent = waiting(&mut controller, 8_000_000, 3, lasting);
    assert_eq!(
        told(&controller, 8_000_000, urgent).reasons[0],
        "nothing is in its way: it starts when it is next looked at"
    );
    let out = controller.step(at(8_000_001), Event::Tick);
    assert!(why_of(&out).starts_with("in queue default with priority 80, more urgent than those"), "{out:?}");
}

#[test]
fn under_strict_order_nobody_passes_and_that_is_said() {
    let mut config = config();
    config.policy.scheduler = Scheduler::FifoStrict;
    let mut controller = ready(config);
    started(&mut controller, 0, 1, for_minutes(30, request(4)));
    let first = waiting(&mut controller, 1, 2, request(8));
    let second = waiting(&mut controller, 1, 3, request(1));
    assert_eq!(
        told(&controller, 1, second).reasons,
        [format!("1 job before it, the first is {first}, and nobody passes (policy.scheduler)")]
    );
    assert_eq!(advice(&controller, 1, second), "no single change of what it asks for would start it at once");
}

#[test]
fn without_nodes_that_is_the_reason() {
    let mut controller = Controller::new(config());
    let id = waiting(&mut controller, 0, 1, request(1));
    assert_eq!(told(&controller, 0, id).reasons, ["no node has registered yet"]);
}

#[test]
fn a_started_job_keeps_why_it_and_whom_it_passed() {
    let mut controller = ready(config());
    let (_, out) = submit(&mut controller, 0, submission(1, for_minutes(30, on_cards(3, None))));
    assert_eq!(
        why_of(&out),
        "first in queue default with priority 50; gpu-01 gives it 1 CPU and 1000 MB, cards 0,1,2, the tightest fit"
    );
    let wide = waiting(&mut controller, 1, 2, on_cards(2, None));
    waiting(&mut controller, 1, 3, on_cards(2, None));
    let cpus = waiting(&mut controller, 1, 4, request(8));
    let (_, out) = submit(&mut controller, 2, submission(5, for_minutes(10, on_cards(1, Some("10")))));
    assert_eq!(
        why_of(&out),
        format!(
            "in queue default with priority 50, and delays nobody before it; gpu-01 gives it 1 CPU and 1000 MB, \
             card 3, the tightest fit; passed 2 jobs that wait for 2 whole cards, the first is {wide}; {cpus}, which \
             waits for 8 CPUs and 1000 MB"
        )
    );
}

#[test]
fn whose_turn_it_was_is_said_where_queues_take_turns() {
    let mut config = config();
    config.policy.scheduler = Scheduler::FairShare;
    config.queues.push(Queue::named("low".parse().unwrap()));
    let mut controller = ready(config);
    let (_, out) = submit(&mut controller, 0, submission(1, request(8)));
    assert!(why_of(&out).starts_with("first in queue default with priority 50; gpu-01"), "{}", why_of(&out));
    let attempt = launched(&out)[0];
    controller.step(at(1), Event::AttemptStarted { attempt, at: at(1).wall });
    submit(&mut controller, 2, submission(2, request(8)));
    let low = Submission { queue: "low".parse().unwrap(), ..submission(3, request(8)) };
    submit(&mut controller, 2, low);
    let end = ended(Outcome::Succeeded, Some(0));
    let why = why_of(&controller.step(at(3), Event::AttemptEnded { attempt, at: at(3).wall, end }));
    let told = "; of the queues with jobs that wait its queue has had the least for its weight of 1; gpu-01";
    assert!(why.contains(told), "{why}");
}

#[test]
fn what_is_told_survives_the_wire() {
    let mut controller = ready(config());
    started(&mut controller, 0, 1, for_minutes(30, on_cards(3, None)));
    let wide = waiting(&mut controller, 1, 2, on_cards(4, None));
    let long = waiting(&mut controller, 1, 3, for_minutes(45, on_cards(1, None)));
    for job in [wide, long] {
        let conditions = told(&controller, 1, job).conditions;
        let text = serde_json::to_string(&conditions).unwrap();
        assert_eq!(
            serde_json::from_str::<Vec<ax_core::explain::Condition>>(&text).unwrap(),
            conditions,
            "{text}"
        );
    }
    let newer = r#"[{"kind":"eclipse","of":"the moon"}]"#;
    let read: Vec<ax_core::explain::Condition> = serde_json::from_str(newer).unwrap();
    assert_eq!(read, [ax_core::explain::Condition::Unknown]);
}
