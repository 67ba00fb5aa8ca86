//! Daily hours and deadlines: when a job may start, what it is told, what becomes of it when it is too late.

use ax_core::api::ErrorClass;
use ax_core::controller::{Change, Controller, Decision, Event, Snapshot, Submission, Wish};
use ax_core::explain::{Condition, Hours};
use ax_core::id::JobId;
use ax_core::job::Actor;
use ax_core::job::request::Request;
use ax_core::job::spec::Window;
use ax_core::job::state::{JobState, Outcome};
use ax_core::time::{BootTime, Now, Offset, Span, WallTime, Zone};

use crate::{config, ended, launched, node, request, state, submission};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// By the clock of a place two hours ahead of UTC, on some day.
fn clock(hours: u64, minutes: u64) -> Now {
    let midnight: WallTime = "2026-06-10T00:00:00+02:00".parse().unwrap();
    let since = Span(hours * HOUR + minutes * MINUTE);
    Now { boot: BootTime(since.0), wall: midnight + since }
}

fn cluster() -> Controller {
    let zone = Zone::of([Offset { from: WallTime(0), seconds: 7200 }]);
    let snapshot = Controller::new(config()).snapshot();
    let mut controller = Controller::restore(Snapshot { zone, ..snapshot });
    controller.step(clock(0, 0), Event::NodeRegistered(node()));
    controller
}

fn night(hours: u64) -> Request {
    let mut wanted = Request { time_limit: Some(Span(hours * HOUR)), ..request(8) };
    wanted.set_special(|special| special.window = Some(Window { from: 22 * 60, to: 8 * 60 }));
    wanted
}

fn by(deadline: WallTime, limit: Option<Span>) -> Request {
    let mut wanted = Request { time_limit: limit, ..request(8) };
    wanted.set_special(|special| special.deadline = Some(deadline));
    wanted
}

fn submit(controller: &mut Controller, now: Now, key: u128, request: Request) -> (JobId, Vec<Decision>) {
    let out = controller.step(now, Event::Submitted(Box::new(submission(key, request))));
    let accepted = out.iter().find_map(|decision| match decision {
        Decision::Accepted { job, .. } => Some(*job),
        _ => None,
    });
    (accepted.unwrap_or_else(|| panic!("{out:?}")), out)
}

fn words(controller: &Controller, now: Now, job: JobId) -> (Vec<String>, Option<WallTime>) {
    let told = controller.explain(now, job.number);
    (told.reasons, told.expected_start)
}

#[test]
fn a_job_waits_for_its_hours_and_is_woken_for_them() {
    let mut controller = cluster();
    let (job, out) = submit(&mut controller, clock(12, 0), 1, night(8));
    assert_eq!((launched(&out).len(), state(&controller, job)), (0, JobState::Pending));
    let (reasons, start) = words(&controller, clock(12, 0), job);
    assert_eq!(reasons, ["may start only between 22:00 and 08:00 (--window); next at 22:00, in 10h00m"]);
    assert_eq!(start, Some(clock(22, 0).wall));
    assert_eq!(controller.next_wake().wall, Some(clock(22, 0).wall));
    assert_eq!(launched(&controller.step(clock(21, 59), Event::Tick)), []);
    assert_eq!(launched(&controller.step(clock(22, 0), Event::Tick)).len(), 1);
    assert_eq!(controller.next_wake().wall, None);
}

#[test]
fn a_job_that_would_not_be_over_in_its_hours_waits_for_the_next() {
    let mut controller = cluster();
    let (_, out) =
        submit(&mut controller, clock(21, 0), 1, Request { time_limit: Some(Span(4 * HOUR)), ..request(8) });
    let running = launched(&out)[0];
    let (job, _) = submit(&mut controller, clock(21, 1), 2, night(8));
    controller.step(clock(22, 0), Event::Tick);
    assert_eq!(state(&controller, job), JobState::Ready);
    // What it waits for ends at one o'clock by its limit: too late for this night, so its place is kept in the next.
    assert_eq!(words(&controller, clock(22, 0), job).1, Some(clock(46, 0).wall));
    assert_eq!(kept(&controller, clock(22, 0)), [(job, clock(46, 0).wall)]);
    assert_eq!(controller.next_wake().wall, Some(clock(24, 1).wall + Span(1)));
    let late = Now { wall: clock(24, 1).wall + Span(1), ..clock(24, 1) };
    let out = controller.step(late, Event::Tick);
    assert_eq!(state(&controller, job), JobState::Pending);
    let why = out.iter().find_map(|decision| match decision {
        Decision::Moved { why, .. } => Some(why.as_str()),
        _ => None,
    });
    assert_eq!(why, Some("it would not be over within its hours any more"));
    let end = Event::AttemptEnded {
        attempt: running,
        at: clock(25, 0).wall,
        end: ended(Outcome::Succeeded, Some(0)),
    };
    assert_eq!(launched(&controller.step(clock(25, 0), end)), []);
    let (reasons, start) = words(&controller, clock(25, 0), job);
    let told = "may start only between 22:00 and 08:00 (--window), and would not be over by 08:00: its time limit is \
                8h00m; next at 22:00, in 21h00m";
    assert_eq!((reasons, start), (vec![told.to_owned()], Some(clock(46, 0).wall)));
    let condition = &controller.explain(clock(25, 0), job.number).conditions[0];
    assert!(matches!(condition, Condition::Hours(Hours { open: true, .. })), "{condition:?}");
    // A shorter limit lets it start at once.
    let owner = Actor::User { uid: ax_core::id::Uid(1000), name: "user1000".into(), admin: false };
    let change = Change { time_limit: Some(Some(Span(2 * HOUR))), ..Change::default() };
    let wish = Event::Wished { job, actor: owner, wish: Wish::Update(Box::new(change)), why: None };
    assert_eq!(launched(&controller.step(clock(25, 30), wish)).len(), 1);
}

fn kept(controller: &Controller, now: Now) -> Vec<(JobId, WallTime)> {
    controller.kept_places(now).iter().map(|place| (place.job, place.from)).collect()
}

#[test]
fn whoever_had_no_place_in_its_hours_has_one_kept_in_the_next_also_while_they_are_over() {
    let mut controller = cluster();
    let lasting = |hours: u64| Request { cpus: 4, time_limit: Some(Span(hours * HOUR)), ..request(4) };
    submit(&mut controller, clock(21, 0), 1, lasting(4));
    let (wide, _) = submit(&mut controller, clock(21, 1), 2, night(8));
    let (other, _) = submit(&mut controller, clock(21, 2), 3, night(8));
    // Before they have come for the first time none is.
    assert_eq!(kept(&controller, clock(21, 3)), []);
    let (_, out) = submit(&mut controller, clock(21, 4), 4, lasting(4));
    assert_eq!(launched(&out).len(), 1);
    controller.step(clock(22, 0), Event::Tick);
    let both = [(wide, clock(46, 0).wall)];
    assert_eq!(kept(&controller, clock(22, 0))[..1], both);
    let ends = |controller: &mut Controller, now: Now| {
        let running: Vec<_> =
            controller.active_jobs().map(|job| job.attempt.as_ref().unwrap().name).collect();
        for attempt in running {
            let end = ended(Outcome::Succeeded, Some(0));
            controller.step(now, Event::AttemptEnded { attempt, at: now.wall, end });
        }
    };
    ends(&mut controller, clock(25, 0));
    assert_eq!([state(&controller, wide), state(&controller, other)], [JobState::Pending; 2]);
    let mut controller = Controller::restore(controller.snapshot());
    controller.step(clock(25, 0), Event::Tick);
    // One place at a time, of whoever came first.
    assert_eq!(kept(&controller, clock(25, 0)), both);
    // A day job that would be over by then starts, one that would not does not, however often one comes.
    let (_, out) = submit(&mut controller, clock(26, 0), 5, lasting(20));
    assert_eq!(launched(&out).len(), 1);
    for (key, now, hours) in [(6, 27, 20), (7, 40, 7)] {
        let (_, out) = submit(&mut controller, clock(now, 0), key, lasting(hours));
        assert!(launched(&out).is_empty(), "at {now} for {hours} hours");
    }
    ends(&mut controller, clock(45, 59));
    let out = controller.step(clock(46, 0), Event::Tick);
    assert_eq!(launched(&out).first().map(|attempt| attempt.job), Some(wide), "{out:?}");
}

#[test]
fn a_job_on_several_nodes_keeps_all_of_them_in_its_next_hours() {
    let mut controller = cluster();
    let mut second = node();
    second.name = "gpu-02".parse().unwrap();
    second.cards.iter_mut().for_each(|card| card.uuid = format!("other-{}", card.index));
    controller.step(clock(0, 0), Event::NodeRegistered(second));
    submit(&mut controller, clock(21, 0), 1, Request { time_limit: Some(Span(4 * HOUR)), ..request(8) });
    let mut wanted = night(8);
    wanted.set_special(|special| special.nodes = Some(ax_core::job::spec::NodeCount { min: 2, max: 2 }));
    let (job, _) = submit(&mut controller, clock(21, 1), 2, wanted);
    controller.step(clock(22, 0), Event::Tick);
    assert_eq!(words(&controller, clock(22, 0), job).1, Some(clock(46, 0).wall));
    assert_eq!(kept(&controller, clock(22, 0)), [(job, clock(46, 0).wall); 2]);
}

#[test]
fn an_end_in_time_starts_it_and_its_hours_end_it() {
    let mut controller = cluster();
    let (job, _) = submit(&mut controller, clock(12, 0), 1, night(10));
    // The daemon was a little late: what is missing is taken off the end.
    let late = Now { wall: clock(22, 0).wall + Span(1500), ..clock(22, 0) };
    assert_eq!(launched(&controller.step(late, Event::Tick)).len(), 1);
    let started = controller.job(job.number).unwrap();
    assert_eq!(controller.limit_from(started, late.wall), Some(Span(10 * HOUR - 1500)));
}

#[test]
fn a_restart_and_a_clock_that_is_set_back_change_nothing_about_hours() {
    let mut controller = cluster();
    let (job, _) = submit(&mut controller, clock(12, 0), 1, Request { cpus: 9, ..night(8) });
    let mut controller = Controller::restore(controller.snapshot());
    controller.step(clock(13, 0), Event::Tick);
    assert_eq!(
        (state(&controller, job), controller.next_wake().wall),
        (JobState::Pending, Some(clock(22, 0).wall))
    );
    controller.step(clock(22, 5), Event::Tick);
    assert_eq!(state(&controller, job), JobState::Ready);
    let set_back = Now { wall: clock(21, 0).wall, ..clock(22, 6) };
    controller.step(set_back, Event::Tick);
    assert_eq!(
        (state(&controller, job), controller.next_wake().wall),
        (JobState::Pending, Some(clock(22, 0).wall))
    );
}

#[test]
fn who_can_t_be_over_by_the_deadline_is_given_up_whatever_it_waits_for() {
    let mut controller = cluster();
    submit(&mut controller, clock(9, 0), 1, Request { time_limit: Some(Span(9 * HOUR)), ..request(8) });
    let limit = Some(Span(2 * HOUR));
    let (waits, _) = submit(&mut controller, clock(9, 0), 2, by(clock(12, 0).wall, limit));
    let held = Submission { hold: true, ..submission(3, by(clock(12, 0).wall, limit)) };
    controller.step(clock(9, 0), Event::Submitted(Box::new(held)));
    assert_eq!(words(&controller, clock(9, 0), waits).1, None, "it is not expected to start");
    // Not a moment is forgiven.
    let wake = clock(10, 0).wall + Span(1);
    assert_eq!(controller.next_wake().wall, Some(wake));
    controller.step(clock(10, 0), Event::Tick);
    assert_eq!(state(&controller, waits), JobState::Ready);
    let out = controller.step(Now { wall: wake, ..clock(10, 0) }, Event::Tick);
    let ends = out.iter().filter_map(|decision| match decision {
        Decision::Moved { to: JobState::Deadline, why, .. } => Some(why.as_str()),
        _ => None,
    });
    let told = "it can't be over by its deadline any more: that is in 1h59m, and it takes 2h00m";
    assert_eq!(ends.collect::<Vec<_>>(), [told; 2]);
    assert_eq!(controller.next_wake().wall, None);
}

#[test]
fn an_estimate_says_how_late_it_may_start_and_the_deadline_ends_it() {
    let mut controller = cluster();
    let wanted = Request { estimate: Some(Span(HOUR)), ..by(clock(12, 0).wall, Some(Span(24 * HOUR))) };
    let (job, out) = submit(&mut controller, clock(10, 30), 1, Request { retries: 3, ..wanted.clone() });
    let attempt = launched(&out)[0];
    let started = controller.job(job.number).unwrap();
    assert_eq!(controller.limit_from(started, clock(10, 30).wall), Some(Span(90 * MINUTE)));
    controller.step(clock(10, 30), Event::AttemptStarted { attempt, at: clock(10, 30).wall });
    // The next waits, and fails: its retry would come too late.
    let (next, _) = submit(&mut controller, clock(10, 31), 2, Request { retries: 3, ..wanted });
    let end = Event::AttemptEnded { attempt, at: clock(12, 0).wall, end: ended(Outcome::Timeout, None) };
    controller.step(clock(12, 0), end);
    assert_eq!([state(&controller, job), state(&controller, next)], [JobState::Deadline; 2]);
    let note = controller.job(job.number).unwrap().rare.note.clone().unwrap();
    assert_eq!(
        &*note, "was not over by its deadline, for which it had 01:30:00",
        "its time limit was another"
    );
    // Over its own limit it is over for that.
    let (job, out) = submit(&mut controller, clock(13, 0), 3, by(clock(18, 0).wall, Some(Span(HOUR))));
    let end = Event::AttemptEnded {
        attempt: launched(&out)[0],
        at: clock(14, 0).wall,
        end: ended(Outcome::Timeout, None),
    };
    controller.step(clock(14, 0), end);
    assert_eq!(state(&controller, job), JobState::Timeout);
}

#[test]
fn what_comes_too_late_is_refused_and_so_is_a_change_that_makes_it_too_late() {
    let mut controller = cluster();
    let mut refused = |now, request: Request| {
        let out = controller.step(now, Event::Submitted(Box::new(submission(9, request))));
        match &out[..] {
            [Decision::Refused { class: ErrorClass::Refused, why }] => why.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(clock(12, 0), by(clock(11, 0).wall, None)), "its deadline has passed");
    assert_eq!(
        refused(clock(12, 0), by(clock(13, 0).wall, Some(Span(2 * HOUR)))),
        "it can't be over by its deadline any more: that is in 1h00m, and it takes 2h00m"
    );
    let begins = Request { begin: Some(clock(14, 0).wall), ..by(clock(13, 0).wall, None) };
    assert_eq!(
        refused(clock(12, 0), begins),
        "it can't be over by its deadline any more: that is in 1h00m, it begins in 2h00m at the earliest"
    );
    let mut never = night(8);
    never.set_special(|special| special.deadline = Some(clock(21, 0).wall));
    assert_eq!(
        refused(clock(12, 0), never),
        "it can't be over by its deadline any more: that is in 9h00m, and it takes 8h00m, within 22:00-08:00 alone"
    );
    let (job, _) = submit(&mut controller, clock(12, 0), 1, night(8));
    let owner = Actor::User { uid: ax_core::id::Uid(1000), name: "user1000".into(), admin: false };
    for (change, told) in [
        (
            Change { time_limit: Some(Some(Span(11 * HOUR))), ..Change::default() },
            "does not fit into --window=22:00-08:00",
        ),
        (Change { time_limit: Some(None), ..Change::default() }, "needs a time limit"),
        (
            Change { deadline: Some(Some(clock(23, 0).wall)), ..Change::default() },
            "can't be over by its deadline",
        ),
    ] {
        let wish = Wish::Update(Box::new(change));
        let out = controller.step(clock(12, 1), Event::Wished { job, actor: owner.clone(), wish, why: None });
        assert!(matches!(&out[..], [Decision::Refused { why, .. }] if why.contains(told)), "{out:?}");
    }
    // What it was given can be taken away; who asks for what is there already changes nothing.
    let mut update = |change: Change| {
        // As it is written down and read again.
        let change: Change = serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap();
        let wish = Wish::Update(Box::new(change));
        let out = controller.step(clock(12, 2), Event::Wished { job, actor: owner.clone(), wish, why: None });
        out.into_iter().find_map(|decision| match decision {
            Decision::Noted { what, .. } => Some(what),
            _ => None,
        })
    };
    let deadline = Some(Some(clock(60, 0).wall));
    let set = Change { deadline, begin: Some(Some(clock(20, 0).wall)), ..Change::default() };
    assert!(update(set.clone()).unwrap().starts_with("begins at "));
    assert_eq!(update(set), None);
    let away = Change { begin: Some(None), window: Some(None), deadline: Some(None), ..Change::default() };
    assert_eq!(
        update(away.clone()).as_deref(),
        Some("begins at any time, runs at any hour, no deadline, by user1000")
    );
    assert_eq!(update(away), None);
    assert_eq!(state(&controller, job), JobState::Starting);
}

#[test]
fn who_is_too_long_for_the_rest_of_its_hours_is_told_how_long_it_may_be() {
    let mut controller = cluster();
    let (job, out) = submit(&mut controller, clock(27, 0), 1, night(8));
    assert_eq!((launched(&out).len(), state(&controller, job)), (0, JobState::Pending));
    // At three, five hours before they are over, and a minute may be late.
    let advice = controller.advise(clock(27, 0), job.number, &|_| true).unwrap();
    assert_eq!(advice.text, "with --time 05:01:00 at once on gpu-01");
    let remedy = advice.remedy.unwrap();
    let mut changed = controller.clone().as_if(clock(27, 0), job.number, &remedy).unwrap();
    assert_eq!(launched(&changed.step(clock(27, 0), Event::Tick)).len(), 1);
    // One that is expected to take longer is not told to take less.
    let (long, _) =
        submit(&mut controller, clock(27, 0), 2, Request { estimate: Some(Span(6 * HOUR)), ..night(8) });
    let advice = controller.advise(clock(27, 0), long.number, &|_| true).unwrap();
    assert_eq!(advice.text, "no shorter --time would start it at once");
    // Before its hours nothing starts it.
    let (early, _) = submit(&mut controller, clock(36, 0), 3, night(2));
    assert_eq!(controller.advise(clock(36, 0), early.number, &|_| true), None);
}

#[test]
fn a_clock_that_goes_otherwise_opens_and_closes_hours() {
    let mut controller = cluster();
    let (waits, _) = submit(&mut controller, clock(20, 0), 1, night(2));
    let (ready, _) = submit(&mut controller, clock(23, 0), 2, night(2));
    assert_eq!(state(&controller, waits), JobState::Starting);
    assert_eq!(state(&controller, ready), JobState::Ready, "the first holds all CPUs");
    // Seven hours behind it is four in the afternoon there.
    let zone = Zone::of([Offset { from: WallTime(0), seconds: -5 * 3600 }]);
    controller.step(clock(23, 0), Event::ZoneRead(Box::new(zone.clone())));
    assert_eq!(state(&controller, ready), JobState::Pending);
    assert_eq!(words(&controller, clock(23, 0), ready).1, Some(clock(29, 0).wall));
    assert_eq!(controller.next_wake().wall, Some(clock(29, 0).wall));
    controller.step(
        clock(24, 0),
        Event::ZoneRead(Box::new(Zone::of([Offset { from: WallTime(0), seconds: 7200 }]))),
    );
    assert_eq!(state(&controller, ready), JobState::Ready);
    // It is in what is restored.
    controller.step(clock(24, 0), Event::ZoneRead(Box::new(zone.clone())));
    assert_eq!(Controller::restore(controller.snapshot()).zone(), &zone);
}
