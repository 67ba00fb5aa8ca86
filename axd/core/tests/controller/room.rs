//! Room that is made or kept for a job, in its queue as well as on nodes, through reloads and restarts; and a begin
//! time through a clock that is set back.

use ax_core::config::{Config, QueueState};
use ax_core::controller::{Controller, Decision, Event, Snapshot, Submission, Wish};
use ax_core::id::{AttemptName, Uid};
use ax_core::job::Actor;
use ax_core::job::request::{CardRequest, Request, Times, resolve};
use ax_core::job::spec::{JobSpec, PreemptMode};
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::{BootTime, Now, Span, WallTime};

use crate::{at, config, ended, launched, ready, request, state, submission, submit};

fn preempting() -> Config {
    let mut config = config();
    config.policy.preemption = true;
    config
}

fn in_queue(key: u128, queue: &str, request: Request) -> Submission {
    Submission { queue: queue.parse().unwrap(), ..submission(key, request) }
}

fn with_cards(count: u32, priority: u8) -> Request {
    Request { priority, cards: Some(CardRequest { count, kind: None, slice: None }), ..request(1) }
}

fn over(attempt: AttemptName, outcome: Outcome) -> Event {
    Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end: ended(outcome, None) }
}

/// A job with all cards, which an urgent one of the queue `high` has asked to go.
fn evicting() -> (Controller, AttemptName) {
    let mut controller = ready(preempting());
    let (_, out) = submit(&mut controller, 1, submission(1, with_cards(4, 10)));
    let victim = launched(&out)[0];
    let (_, out) = submit(&mut controller, 2, in_queue(2, "high", with_cards(4, 90)));
    assert!(
        out.iter().any(|d| matches!(d, Decision::Terminate { attempt, .. } if *attempt == victim)),
        "{out:?}"
    );
    (controller, victim)
}

#[test]
fn who_waits_for_cards_does_not_find_its_queue_full_when_they_are_free() {
    let mut controller = ready(config());
    let (_, out) = submit(&mut controller, 1, submission(1, with_cards(4, 50)));
    let holder = launched(&out)[0];
    let (first, _) = submit(&mut controller, 2, in_queue(2, "high", with_cards(4, 50)));
    // They need no cards, and the queue may run two: one of them beside the first.
    let long = || Request { time_limit: Some(Span::seconds(9000)), ..request(1) };
    let starts = |controller: &mut Controller, key| {
        launched(&submit(controller, 3, in_queue(key, "high", long())).1).len()
    };
    assert_eq!([starts(&mut controller, 3), starts(&mut controller, 4)], [1, 0]);
    let out = controller.step(at(4), over(holder, Outcome::Succeeded));
    assert_eq!(launched(&out)[0].job, first);
}

#[test]
fn nobody_takes_the_place_in_the_queue_of_whom_room_is_made_for() {
    let (mut controller, victim) = evicting();
    for (key, starts) in [(3, 1), (4, 0)] {
        let (_, out) = submit(&mut controller, 3, in_queue(key, "high", request(1)));
        assert_eq!(launched(&out).len(), starts, "the queue may run 2");
    }
    let out = controller.step(at(4), over(victim, Outcome::Preempted));
    assert_eq!(launched(&out).len(), 1);
    assert_eq!(controller.active_in(&"high".parse().unwrap()), 2);
}

#[test]
fn room_that_is_made_is_not_used_by_a_queue_that_was_stopped_meanwhile() {
    let (mut controller, victim) = evicting();
    let mut stopped = preempting();
    stopped.queues[1].state = QueueState::Stopped;
    controller.step(at(3), Event::ConfigLoaded(Box::new(stopped)));
    let out = controller.step(at(4), over(victim, Outcome::Preempted));
    assert_eq!(launched(&out).iter().map(|a| a.job).collect::<Vec<_>>(), [victim.job]);
}

#[test]
fn a_restart_does_not_forget_for_whom_room_is_made() {
    let (mut controller, victim) = evicting();
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let mut restored = Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap());
    // Of a queue of the same rank, and it came before: it would be next.
    for controller in [&mut controller, &mut restored] {
        let urgent = controller.ready_jobs().next().unwrap().id;
        let (other, out) = submit(controller, 3, in_queue(3, "high", with_cards(1, 100)));
        assert_eq!(state(controller, other), JobState::Ready, "{out:?}");
        let out = controller.step(at(4), over(victim, Outcome::Preempted));
        assert_eq!(launched(&out).iter().map(|a| a.job).collect::<Vec<_>>(), [urgent]);
    }
    assert_eq!(restored.snapshot(), controller.snapshot());
}

#[test]
fn what_was_made_safe_in_each_attempt_that_was_ended_for_others_is_kept() {
    let mut controller = ready(preempting());
    let (job, out) = submit(&mut controller, 1, submission(1, with_cards(4, 10)));
    let mut victim = launched(&out)[0];
    for round in 1..=2_u32 {
        let begin = u64::from(round) * 100_000;
        controller.step(at(begin), Event::AttemptStarted { attempt: victim, at: at(begin).wall });
        controller.step(at(begin + 7000), Event::Checkpointed { attempt: victim, at: at(begin + 7000).wall });
        let urgent = in_queue(u128::from(round) + 1, "high", with_cards(4, 90));
        controller.step(at(begin + 9000), Event::Submitted(Box::new(urgent)));
        let out = controller.step(at(begin + 9500), over(victim, Outcome::Preempted));
        let urgent = launched(&out)[0];
        let out = controller.step(at(begin + 9600), over(urgent, Outcome::Succeeded));
        victim = launched(&out)[0];
    }
    assert_eq!(controller.job(job.number).unwrap().rare.saved, Span(14_000));
}

#[test]
fn a_begin_time_that_a_clock_set_back_brings_back_is_waited_for() {
    let mut controller = ready(config());
    let begin = at(1000).wall;
    let held = Submission { hold: true, ..submission(1, Request { begin: Some(begin), ..request(1) }) };
    let (id, _) = submit(&mut controller, 0, held);
    controller.step(at(1000), Event::Tick);
    let back = Now { boot: BootTime(2000), wall: at(500).wall };
    let root = Actor::User { uid: Uid(0), name: "root".into(), admin: true };
    controller.step(back, Event::Wished { job: id, actor: root, wish: Wish::Release, why: None });
    assert_eq!((state(&controller, id), controller.next_wake().wall), (JobState::Pending, Some(begin)));
}

#[test]
fn a_job_says_what_may_be_done_to_it() {
    for (mode, expected) in [
        (PreemptMode::Never, None),
        (PreemptMode::Cancel, Some(JobState::Cancelled)),
        (PreemptMode::Requeue, Some(JobState::Ready)),
    ] {
        let mut controller = ready(preempting());
        let (id, out) =
            submit(&mut controller, 1, submission(1, Request { preempt: mode, ..with_cards(4, 10) }));
        let victim = launched(&out)[0];
        let (_, out) = submit(&mut controller, 2, in_queue(2, "high", with_cards(4, 90)));
        let goes = out.iter().any(|d| matches!(d, Decision::Terminate { attempt, .. } if *attempt == victim));
        assert_eq!(goes, expected.is_some(), "{mode:?}");
        if let Some(expected) = expected {
            controller.step(at(3), over(victim, Outcome::Preempted));
            assert_eq!(state(&controller, id), expected, "{mode:?}");
        }
    }
}

#[test]
fn what_a_job_says_goes_before_what_its_queue_says() {
    let mut config = config();
    config.queues[0].preempt = PreemptMode::Never;
    let controller = ready(config);
    let nodes: Vec<_> = controller.nodes().collect();
    let resolved = |preempt| {
        let mut spec = JobSpec::default();
        spec.policy.preempt = preempt;
        let config = controller.config();
        resolve(&spec, Times::default(), config, &config.queues[0], &nodes).unwrap().preempt
    };
    assert_eq!(resolved(None), PreemptMode::Never);
    assert_eq!(resolved(Some(PreemptMode::Cancel)), PreemptMode::Cancel);
}

#[test]
fn once_making_room_has_cost_enough_nobody_goes_until_some_of_it_is_an_hour_old() {
    let mut controller = ready(preempting());
    // Four cards for a quarter of an hour: more than 5 % of what they can do in an hour.
    let (_, out) = submit(&mut controller, 0, submission(1, with_cards(4, 10)));
    let victim = launched(&out)[0];
    let quarter = 900_000;
    let (_, _) = submit(&mut controller, quarter, in_queue(2, "high", with_cards(4, 90)));
    controller.step(at(quarter + 1), over(victim, Outcome::Preempted));
    let urgent = controller.active_jobs().next().unwrap().attempt.as_ref().unwrap().name;
    let out = controller.step(at(quarter + 2), over(urgent, Outcome::Succeeded));
    let again = launched(&out)[0];
    let (third, out) = submit(&mut controller, quarter + 3, in_queue(3, "high", with_cards(4, 90)));
    assert!(!out.iter().any(|d| matches!(d, Decision::Terminate { .. })), "{out:?}");
    let reasons = controller.explain(at(quarter + 3), third.number).reasons;
    assert_eq!(
        reasons[0],
        "nobody is ended for it for another 59m20s: within an hour that has cost 25.0 % of all cards, at most 5 % \
         (policy.preempt_budget)",
        "what was lost is counted by the minute"
    );
    let wake = controller.next_wake().wall.unwrap();
    let later = u64::try_from(wake.0 - at(0).wall.0).unwrap();
    assert!((quarter + 59 * 60_000..=quarter + 3_600_000).contains(&later), "{later}");
    let text = serde_json::to_string(&controller.snapshot()).unwrap();
    let mut controller = Controller::restore(serde_json::from_str::<Snapshot>(&text).unwrap());
    let goes = |out: &[Decision]| {
        out.iter().any(|d| matches!(d, Decision::Terminate { attempt, .. } if *attempt == again))
    };
    assert!(!goes(&controller.step(at(later - 1), Event::Tick)), "also after a restart");
    assert!(goes(&controller.step(at(later), Event::Tick)));
}
