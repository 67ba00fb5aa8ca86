//! Cards that do nothing: counted always, warned of and ended where that is wanted, unless somebody answers for them; and
//! slice jobs that begin anew from a checkpoint.

use ax_core::job::spec::PreemptMode;

use super::*;

const MINUTE: u64 = 60;
const HOUR: u64 = 3600;

/// `policy.idle` of half an hour, `policy.idle_end` of two.
fn strict() -> Config {
    let mut config = config();
    config.policy.idle = Some(Span::seconds(30 * MINUTE));
    config.policy.idle_end = Some(Span::seconds(2 * HOUR));
    config
}

fn with_card(slice: Option<u64>) -> Request {
    let cards = Some(CardRequest { count: 1, kind: None, slice: slice.map(Megabytes) });
    Request { cards, time_limit: None, ..request(1) }
}

fn running(config: Config, request: Request) -> (Controller, JobId, AttemptName) {
    let mut controller = ready(config);
    let (job, out) = submit(&mut controller, 1, submission(1, request));
    let attempt = launched(&out)[0];
    controller.step(at(1000), Event::AttemptStarted { attempt, at: at(1000).wall });
    (controller, job, attempt)
}

/// The cards have been idle for so many minutes by now, which is as many minutes after the start.
fn idle(controller: &mut Controller, attempt: AttemptName, minutes: u64) -> Vec<Decision> {
    idle_at(controller, attempt, minutes, minutes)
}

fn idle_at(controller: &mut Controller, attempt: AttemptName, now: u64, minutes: u64) -> Vec<Decision> {
    let lasted = Span::seconds(minutes * MINUTE);
    controller.step(at(1000 + now * 60_000), Event::CardsIdle { attempt, lasted })
}

fn noted(out: &[Decision]) -> Option<&str> {
    out.iter().find_map(|decision| match decision {
        Decision::Noted { what, .. } => Some(what.as_str()),
        _ => None,
    })
}

fn is_end(out: &[Decision]) -> bool {
    let end = |decision: &Decision| {
        matches!(decision, Decision::Terminate { outcome: Outcome::Cancelled, warned: true, message, .. }
            if message.starts_with("IDLE: its cards did nothing for "))
    };
    out.iter().any(end)
}

fn keep(
    controller: &mut Controller,
    job: JobId,
    who: u32,
    now: u64,
    span: u64,
    why: Option<&str>,
) -> Vec<Decision> {
    let actor = Actor::User { uid: Uid(who), name: Arc::from(format!("user{who}")), admin: false };
    let (wish, why) = (Wish::Keep(Span::seconds(span)), why.map(str::to_owned));
    controller.step(at(1000 + now * 60_000), Event::Wished { job, actor, wish, why })
}

#[test]
fn idle_cards_are_warned_of_once_and_then_ended() {
    let (mut controller, job, attempt) = running(strict(), with_card(None));
    assert_eq!(noted(&idle(&mut controller, attempt, 29)), None);
    let out = idle(&mut controller, attempt, 30);
    let said = noted(&out).unwrap();
    assert!(said.starts_with("warning: its cards have done nothing for 30m; it is ended after 2h"), "{said}");
    assert!(said.contains(&format!("'ax keep {job} --for 2h")), "{said}");
    for minutes in 31..120 {
        assert_eq!(noted(&idle(&mut controller, attempt, minutes)), None);
    }
    assert!(is_end(&idle(&mut controller, attempt, 120)));
    // Once it is under way it is not asked for again.
    assert!(!is_end(&idle(&mut controller, attempt, 121)));
    let end = AttemptEnd { message: Some("IDLE".into()), ..ended(Outcome::Cancelled, None) };
    controller.step(at(9_000_000), Event::AttemptEnded { attempt, at: at(9_000_000).wall, end });
    assert_eq!(state(&controller, job), JobState::Cancelled);
    invariants::check(&controller).unwrap();
}

#[test]
fn work_in_between_begins_everything_anew() {
    let (mut controller, _, attempt) = running(strict(), with_card(None));
    idle(&mut controller, attempt, 119);
    controller.step(at(120 * 60_000), Event::CardsBusy { attempt });
    assert_eq!(noted(&idle_at(&mut controller, attempt, 140, 20)), None);
    assert!(noted(&idle_at(&mut controller, attempt, 150, 30)).unwrap().starts_with("warning"));
    assert!(!is_end(&idle_at(&mut controller, attempt, 239, 119)));
    assert!(is_end(&idle_at(&mut controller, attempt, 240, 120)));
}

#[test]
fn by_default_idle_time_is_counted_and_nothing_else() {
    let (mut controller, job, attempt) = running(config(), with_card(None));
    for minutes in 1..=300 {
        let out = idle(&mut controller, attempt, minutes);
        assert!(noted(&out).is_none() && !is_end(&out), "{out:?}");
        let counted = out.iter().any(|d| matches!(d, Decision::Counted { .. }));
        assert_eq!(counted, minutes % 10 == 0, "after {minutes} minutes");
    }
    controller.step(at(301 * 60_000), Event::CardsBusy { attempt });
    idle_at(&mut controller, attempt, 310, 5);
    let total = controller.job(job.number).unwrap().attempt.as_ref().unwrap().idle.total();
    assert_eq!(total, Span::seconds(305 * MINUTE));
    let now = at(311 * 60_000);
    let end = ended(Outcome::Succeeded, Some(0));
    let out = controller.step(now, Event::AttemptEnded { attempt, at: now.wall, end });
    assert!(out.contains(&Decision::Counted { attempt, idle: total }), "{out:?}");
}

#[test]
fn without_a_second_limit_it_is_only_warned() {
    let mut config = strict();
    config.policy.idle_end = None;
    let (mut controller, _, attempt) = running(config, with_card(None));
    assert_eq!(
        noted(&idle(&mut controller, attempt, 30)),
        Some("warning: its cards have done nothing for 30m")
    );
    assert!(!is_end(&idle(&mut controller, attempt, 100_000)));
}

#[test]
fn an_answer_keeps_idle_cards_and_afterwards_there_is_all_the_time_again() {
    let (mut controller, job, attempt) = running(strict(), with_card(None));
    idle(&mut controller, attempt, 30);
    let out = keep(&mut controller, job, 1000, 100, 2 * HOUR, Some("the data arrives at noon"));
    let said = "idle cards kept for 2h by user1000: the data arrives at noon";
    assert_eq!(noted(&out), Some(said));
    // Kept until minute 220: warned 30 minutes after that, ended two hours after.
    for minutes in [120, 200, 220, 249] {
        let out = idle(&mut controller, attempt, minutes);
        assert!(noted(&out).is_none() && !is_end(&out), "after {minutes} minutes: {out:?}");
    }
    assert!(noted(&idle(&mut controller, attempt, 250)).unwrap().starts_with("warning"));
    assert!(!is_end(&idle(&mut controller, attempt, 339)));
    assert!(is_end(&idle(&mut controller, attempt, 340)));
}

#[test]
fn only_the_owner_and_administrators_answer_and_they_say_why() {
    let (mut controller, job, _) = running(strict(), with_card(None));
    let refused = |out: Vec<Decision>| match out.as_slice() {
        [Decision::Refused { class, why }] => (*class, why.clone()),
        other => panic!("{other:?}"),
    };
    let (class, why) = refused(keep(&mut controller, job, 1001, 5, HOUR, Some("mine")));
    assert_eq!(class, ErrorClass::NoPermission, "{why}");
    for (span, why) in [(HOUR, None), (HOUR, Some(" ")), (0, Some("a")), (8 * 86_400, Some("a"))] {
        assert_eq!(refused(keep(&mut controller, job, 1000, 5, span, why)).0, ErrorClass::Refused);
    }
    let (mut controller, job, _) = running(strict(), request(1));
    let (_, why) = refused(keep(&mut controller, job, 1000, 5, HOUR, Some("a")));
    assert!(why.contains("it holds no cards"), "{why}");
}

#[test]
fn a_limit_that_is_shortened_still_leaves_time_after_the_warning() {
    let mut config = strict();
    config.policy.idle_end = None;
    let (mut controller, _, attempt) = running(config, with_card(None));
    idle(&mut controller, attempt, 500);
    controller.step(at(1000 + 500 * 60_000), Event::ConfigLoaded(Box::new(strict())));
    assert!(!is_end(&idle(&mut controller, attempt, 589)));
    assert!(is_end(&idle(&mut controller, attempt, 590)));
}

#[test]
fn late_news_of_an_attempt_changes_nothing() {
    let (mut controller, job, attempt) = running(strict(), with_card(None));
    let end = ended(Outcome::NodeFail, None);
    let out = controller.step(at(5000), Event::AttemptEnded { attempt, at: at(5000).wall, end });
    let next = launched(&out)[0];
    controller.step(at(6000), Event::AttemptStarted { attempt: next, at: at(6000).wall });
    assert!(idle(&mut controller, attempt, 600).is_empty());
    assert!(controller.job(job.number).unwrap().attempt.as_ref().unwrap().idle.is_none());
}

// ---- slice jobs that begin anew ----

fn restarting(request: Request) -> (Controller, JobId, AttemptName) {
    let mut config = config();
    config.queues[0].restart_slices_every = Some(Span::seconds(HOUR));
    running(config, request)
}

fn tells(controller: &mut Controller, job: JobId, minutes: u64, epoch: Option<u64>) -> Vec<Decision> {
    let actor = Actor::User { uid: Uid(1000), name: Arc::from("user1000"), admin: false };
    let now = at(1000 + minutes * 60_000);
    controller.step(now, Event::Wished { job, actor, wish: Wish::Checkpointed(epoch), why: None })
}

fn restarts(out: &[Decision]) -> bool {
    out.iter().any(|d| matches!(d, Decision::Terminate { outcome: Outcome::Preempted, .. }))
}

#[test]
fn an_old_slice_job_begins_anew_at_its_next_checkpoint_and_that_is_no_eviction() {
    let (mut controller, job, attempt) = restarting(with_card(Some(8000)));
    assert!(!restarts(&tells(&mut controller, job, 59, None)));
    // Without a checkpoint it is left alone however long it runs.
    assert!(!restarts(&controller.step(at(90 * 60_000), Event::Tick)));
    let out = tells(&mut controller, job, 100, Some(attempt.epoch.0));
    assert!(restarts(&out), "{out:?}");
    let now = at(101 * 60_000);
    let out = controller
        .step(now, Event::AttemptEnded { attempt, at: now.wall, end: ended(Outcome::Preempted, None) });
    assert_eq!(launched(&out).len(), 1, "{out:?}");
    assert_eq!(controller.job(job.number).unwrap().rare.evictions, 0);
    // Anew: its hour has just begun.
    let attempt = launched(&out)[0];
    controller.step(now, Event::AttemptStarted { attempt, at: now.wall });
    assert!(!restarts(&tells(&mut controller, job, 150, None)));
    invariants::check(&controller).unwrap();
}

#[test]
fn whole_cards_and_jobs_that_may_not_be_requeued_are_left_alone() {
    let never = Request { requeue: false, ..with_card(Some(8000)) };
    let unwilling = Request { preempt: PreemptMode::Never, ..with_card(Some(8000)) };
    for request in [with_card(None), never, unwilling] {
        let (mut controller, job, _) = restarting(request);
        let out = tells(&mut controller, job, 100, None);
        assert!(!restarts(&out) && noted(&out).is_some(), "{out:?}");
    }
    let (mut controller, job, _) = running(config(), with_card(Some(8000)));
    assert!(!restarts(&tells(&mut controller, job, 1000, None)));
}

#[test]
fn a_checkpoint_may_be_told_before_the_start_is_heard_of() {
    let mut controller = ready(config());
    let (job, out) = submit(&mut controller, 1, submission(1, with_card(None)));
    let epoch = launched(&out)[0].epoch.0;
    assert_eq!(state(&controller, job), JobState::Starting);
    assert!(noted(&tells(&mut controller, job, 0, Some(epoch))).is_some());
    let (waits, _) = submit(&mut controller, 2, Submission { hold: true, ..submission(2, request(1)) });
    assert!(matches!(&tells(&mut controller, waits, 0, None)[..], [Decision::Refused { .. }]));
}

#[test]
fn a_checkpoint_of_another_attempt_is_refused() {
    let (mut controller, job, attempt) = restarting(with_card(Some(8000)));
    let out = tells(&mut controller, job, 100, Some(attempt.epoch.0 + 1));
    assert!(matches!(&out[..], [Decision::Refused { .. }]), "{out:?}");
}
