//! What of a job can be changed while it waits and while it runs, by whom, and what follows.

use std::sync::Arc;

use ax_core::api::ErrorClass;
use ax_core::config::{Config, Queue, Scheduler};
use ax_core::controller::{Change, Controller, Decision, Event, Needs, Wish};
use ax_core::id::{AttemptName, JobId, Uid};
use ax_core::invariants;
use ax_core::job::Actor;
use ax_core::job::request::{CardRequest, Request};
use ax_core::job::spec::{GpuCount, Window};
use ax_core::job::state::{JobState, Outcome};
use ax_core::size::Megabytes;
use ax_core::time::{Span, WallTime};

use crate::{at, config, ended, launched, ready, request, state, submission, submit};

const MINUTE: u64 = 60;

fn person(uid: u32, admin: bool) -> Actor {
    Actor::User { uid: Uid(uid), name: Arc::from(format!("user{uid}")), admin }
}

fn update(controller: &mut Controller, ms: u64, job: JobId, actor: Actor, change: Change) -> Vec<Decision> {
    let wish = Wish::Update(Box::new(change));
    let out = controller.step(at(ms), Event::Wished { job, actor, wish, why: None });
    invariants::check(controller).unwrap();
    out
}

fn needs(needs: Needs) -> Change {
    Change { needs, ..Change::default() }
}

fn limit(seconds: Option<u64>) -> Change {
    Change { time_limit: Some(seconds.map(Span::seconds)), ..Change::default() }
}

fn refusal(out: &[Decision]) -> Option<(ErrorClass, &str)> {
    out.iter().find_map(|decision| match decision {
        Decision::Refused { class, why } => Some((*class, why.as_str())),
        _ => None,
    })
}

fn noted(out: &[Decision]) -> &str {
    let note = out.iter().find_map(|decision| match decision {
        Decision::Noted { what, .. } => Some(what.as_str()),
        _ => None,
    });
    note.unwrap_or_else(|| panic!("{out:?}"))
}

fn cards(count: u32, slice: Option<u64>) -> Request {
    let kind = Some("a100".to_owned());
    Request { cards: Some(CardRequest { count, kind, slice: slice.map(Megabytes) }), ..request(1) }
}

/// A job that runs since ten milliseconds.
fn running(controller: &mut Controller, request: Request) -> (JobId, AttemptName) {
    let (job, out) = submit(controller, 1, submission(1, request));
    let attempt = launched(&out)[0];
    controller.step(at(10), Event::AttemptStarted { attempt, at: at(10).wall });
    (job, attempt)
}

#[test]
fn who_asks_for_less_while_waiting_keeps_their_place() {
    let mut controller = ready(config());
    running(&mut controller, Request { time_limit: Some(Span::seconds(600)), ..request(6) });
    let (first, _) = submit(&mut controller, 20, submission(2, request(8)));
    let (second, _) = submit(&mut controller, 30, submission(3, request(4)));
    let eligible = controller.job(first.number).unwrap().eligible_at;
    let out = update(
        &mut controller,
        40,
        first,
        person(1000, false),
        needs(Needs { cpus_per_task: Some(3), ram: Some(Megabytes(500)), ..Needs::default() }),
    );
    assert!(noted(&out).starts_with("RAM 1000 MB → 500 MB, CPUs 8 → 3, by user1000"), "{out:?}");
    assert_eq!(controller.job(first.number).unwrap().eligible_at, eligible);
    let order: Vec<_> = controller.ready_jobs().map(|job| job.id).collect();
    assert_eq!(order, [first, second]);
    let out = update(
        &mut controller,
        50,
        first,
        person(1000, false),
        needs(Needs { cpus_per_task: Some(2), ..Needs::default() }),
    );
    assert_eq!(launched(&out).len(), 1, "it fits now: {out:?}");
}

#[test]
fn what_is_asked_for_instead_is_checked_as_at_a_submission() {
    let mut limited = config();
    limited.queues[0].max_cards = Some(2);
    let mut controller = ready(limited);
    running(&mut controller, request(8));
    let (job, _) = submit(&mut controller, 20, submission(2, cards(1, Some(20_000))));
    let (plain, _) = submit(&mut controller, 30, submission(3, request(1)));
    let gpus = |count| Needs { gpus: Some(GpuCount { kind: None, count }), ..Needs::default() };
    for (of, wanted, why) in [
        (job, gpus(3), "it asks for 3 cards"),
        (
            job,
            Needs { mem: Some(Megabytes(90_000)), ..Needs::default() },
            "no node here could ever hold it then: it needs 94",
        ),
        (job, Needs { mem: Some(Megabytes(0)), ..Needs::default() }, "--mem=0 asks for no GPU memory at all"),
        (
            job,
            Needs { cpus_per_task: Some(9), ..Needs::default() },
            "no node here could ever hold it then: it needs 9 CPUs",
        ),
        (job, gpus(0), "0 cards can't be had of 1 node"),
        (plain, gpus(1), "it asks for no card"),
        (plain, Needs { mem: Some(Megabytes(10)), ..Needs::default() }, "it asks for no card"),
    ] {
        let before = controller.job(of.number).cloned();
        let out = update(&mut controller, 40, of, person(1000, true), needs(wanted.clone()));
        let said = refusal(&out).map(|(_, why)| why.to_owned()).unwrap_or_default();
        assert!(said.starts_with(why), "{wanted:?}: {out:?}");
        assert_eq!(controller.job(of.number).cloned(), before);
    }
    let out = update(&mut controller, 50, job, person(1000, false), needs(gpus(2)));
    assert!(noted(&out).starts_with("cards a100:1 with 21 GB each → 2 with 21 GB each, by"), "{out:?}");
    let now = controller.job(job.number).unwrap().request.cards.clone().unwrap();
    assert_eq!((now.count, now.kind, now.slice), (2, None, Some(Megabytes(20_000))));
    let out = update(&mut controller, 60, job, person(1001, false), needs(gpus(1)));
    assert_eq!(refusal(&out).unwrap().0, ErrorClass::NoPermission);
}

/// Room that is made for a job is for what it asked for: with other wishes it gets no less than it asks for.
#[test]
fn an_urgent_job_that_asks_for_more_does_not_get_the_place_that_was_made_for_less() {
    let mut preempting = config();
    preempting.policy.preemption = true;
    let mut controller = ready(preempting);
    let (_, victim) = running(&mut controller, cards(4, None));
    let urgent = Request { priority: 95, ..cards(1, None) };
    let (urgent, out) = submit(&mut controller, 60_000, submission(2, urgent));
    assert!(out.iter().any(|decision| matches!(decision, Decision::Terminate { .. })), "{out:?}");
    let two = Needs { gpus: Some(GpuCount { kind: None, count: 2 }), ..Needs::default() };
    update(&mut controller, 60_001, urgent, person(1000, false), needs(two));
    let end = ended(Outcome::Preempted, None);
    let out =
        controller.step(at(60_002), Event::AttemptEnded { attempt: victim, at: WallTime(i64::MAX), end });
    let given = out.iter().find_map(|decision| match decision {
        Decision::Launch { attempt, allocation, .. } if attempt.job == urgent => Some(allocation.cards.len()),
        _ => None,
    });
    assert_eq!(given, Some(2), "{out:?}");
}

#[test]
fn a_running_job_s_limit_is_made_shorter_by_its_owner_and_longer_by_administrators() {
    let mut bounded = config();
    bounded.queues[0].max_time = Some(Span::seconds(20 * MINUTE));
    let mut controller = ready(bounded);
    let (job, attempt) =
        running(&mut controller, Request { time_limit: Some(Span::seconds(600)), ..request(8) });
    let (waits, _) = submit(&mut controller, 20, submission(2, request(8)));
    let starts = |controller: &Controller| controller.explain(at(100), waits.number).expected_start;
    let from_start = |seconds| Some(at(10).wall + Span::seconds(seconds));
    assert_eq!(starts(&controller), from_start(600));
    let (owner, admin, root) = (person(1000, false), person(7, true), person(0, true));
    for (who, change, class, why) in [
        (&owner, limit(Some(601)), ErrorClass::NoPermission, "administrators also longer"),
        (&owner, limit(None), ErrorClass::NoPermission, "administrators also longer"),
        (&person(1001, false), limit(Some(60)), ErrorClass::NoPermission, "belongs to user1000"),
        (&admin, limit(Some(20 * MINUTE + 1)), ErrorClass::Refused, "takes no job longer than 00:20:00"),
        (&admin, limit(None), ErrorClass::Refused, "takes no job longer than 00:20:00"),
        (
            &root,
            Change { priority: Some(3), ..limit(Some(60)) },
            ErrorClass::Refused,
            "only --time can be changed",
        ),
        (
            &root,
            needs(Needs { cpus_per_task: Some(1), ..Needs::default() }),
            ErrorClass::Refused,
            "only --time",
        ),
    ] {
        let out = update(&mut controller, 100, job, who.clone(), change.clone());
        let (of, said) = refusal(&out).unwrap_or_else(|| panic!("{change:?}: {out:?}"));
        assert!(of == class && said.contains(why), "{change:?}: {said}");
        assert_eq!(out.len(), 1);
    }
    for (who, seconds) in [(&owner, 300), (&admin, 20 * MINUTE), (&root, 60 * MINUTE), (&owner, 60)] {
        let out = update(&mut controller, 100, job, who.clone(), limit(Some(seconds)));
        let limit = Some(Span::seconds(seconds));
        assert!(noted(&out).starts_with("time limit "), "{out:?}");
        assert!(out.contains(&Decision::Limit { attempt, limit }), "{out:?}");
        assert_eq!(starts(&controller), from_start(seconds), "what others wait for follows");
        assert_eq!(controller.running_limit(job.number), limit);
    }
    let out = update(&mut controller, 200, job, root, limit(None));
    assert!(out.contains(&Decision::Limit { attempt, limit: None }), "{out:?}");
    assert_eq!(update(&mut controller, 200, job, person(0, true), limit(None)), [], "nothing is different");
    // Its next attempt has the same limit, and begins with it.
    let end = ended(Outcome::NodeFail, None);
    let out = controller.step(at(300), Event::AttemptEnded { attempt, at: WallTime(i64::MAX), end });
    assert_eq!(launched(&out).len(), 1);
    let again = controller.job(job.number).unwrap();
    assert_eq!(again.request.time_limit, None);
}

#[test]
fn nothing_can_be_changed_of_what_starts_or_is_ending() {
    let mut controller = ready(config());
    let (job, out) = submit(&mut controller, 1, submission(1, request(8)));
    let attempt = launched(&out)[0];
    let out = update(&mut controller, 2, job, person(0, true), limit(Some(60 * MINUTE)));
    assert_eq!(refusal(&out).unwrap().0, ErrorClass::TryAgain);
    controller.step(at(10), Event::AttemptStarted { attempt, at: at(10).wall });
    let cancel = Event::Wished { job, actor: person(0, true), wish: Wish::Cancel, why: None };
    controller.step(at(20), cancel);
    let out = update(&mut controller, 30, job, person(0, true), limit(Some(60 * MINUTE)));
    assert!(refusal(&out).unwrap().1.ends_with("is being ended"), "{out:?}");
    controller.step(at(40), Event::AttemptEnding { attempt });
    let out = update(&mut controller, 50, job, person(0, true), limit(Some(60 * MINUTE)));
    assert!(refusal(&out).unwrap().1.contains("is COMPLETING"), "{out:?}");
    assert_eq!(state(&controller, job), JobState::Completing);
}

/// It was started because it would be over in time.
#[test]
fn nobody_extends_a_job_beyond_its_deadline_or_hours() {
    let deadline = at(0).wall + Span::seconds(30 * MINUTE);
    let mut by_deadline = Request { time_limit: Some(Span::seconds(600)), ..request(1) };
    by_deadline.set_special(|special| special.deadline = Some(deadline));
    // It is some minutes past eleven.
    let mut within = Request { time_limit: Some(Span::seconds(600)), ..request(1) };
    within.set_special(|special| special.window = Some(Window { from: 660, to: 720 }));
    for wanted in [by_deadline, within] {
        let mut controller = ready(config());
        let (job, attempt) = running(&mut controller, wanted);
        let out = update(&mut controller, 100, job, person(0, true), limit(Some(60 * MINUTE)));
        assert!(refusal(&out).unwrap().1.contains("has to be over by its --deadline"), "{out:?}");
        let out = update(&mut controller, 100, job, person(0, true), limit(None));
        assert!(refusal(&out).is_some(), "{out:?}");
        let out = update(&mut controller, 100, job, person(0, true), limit(Some(20 * MINUTE)));
        assert!(
            out.contains(&Decision::Limit { attempt, limit: Some(Span::seconds(20 * MINUTE)) }),
            "{out:?}"
        );
    }
}

/// Whose limit was none had to be over by then, too, and a limit that is given to it later doesn't lift that.
#[test]
fn a_limit_that_a_job_did_not_have_lifts_neither_its_deadline_nor_its_hours() {
    let over_by = at(0).wall + Span::seconds(30 * MINUTE);
    let mut unlimited = Request { time_limit: None, ..request(1) };
    unlimited.set_special(|special| special.deadline = Some(over_by));
    let mut controller = ready(config());
    let (job, attempt) = running(&mut controller, unlimited);
    let left = over_by - at(1).wall;
    assert_eq!(controller.running_limit(job.number), Some(left));
    for (who, seconds, becomes) in [
        (person(1000, false), 60 * MINUTE, left),
        (person(1000, false), 20 * MINUTE, Span::seconds(20 * MINUTE)),
    ] {
        let out = update(&mut controller, 100, job, who, limit(Some(seconds)));
        assert!(out.contains(&Decision::Limit { attempt, limit: Some(becomes) }), "{out:?}");
    }
    let out = update(&mut controller, 100, job, person(0, true), limit(Some(60 * MINUTE)));
    assert!(refusal(&out).unwrap().1.contains("has to be over by its --deadline"), "{out:?}");
}

/// What its queue is charged follows: in the end it has paid for what it ran, neither less nor twice.
#[test]
fn a_queue_pays_for_what_a_job_ran_whatever_its_limit_was() {
    let shared = || {
        let mut shared = Config::default();
        shared.policy.scheduler = Scheduler::FairShare;
        shared.queues.push(Queue::named("other".parse().unwrap()));
        ready(shared)
    };
    let paid = |changes: &[u64]| {
        let mut controller = shared();
        let (job, attempt) =
            running(&mut controller, Request { time_limit: Some(Span::seconds(600)), ..request(8) });
        for seconds in changes {
            update(&mut controller, 100, job, person(0, true), limit(Some(*seconds)));
        }
        let end = ended(Outcome::Succeeded, Some(0));
        controller.step(at(200_000), Event::AttemptEnded { attempt, at: at(200_000).wall, end });
        controller.virtual_times().clone()
    };
    assert_eq!(paid(&[]), paid(&[300, 3600, 250]));
}
