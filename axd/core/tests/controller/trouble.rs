//! A node that can start nothing is given a rest, and a job by way of trial now and then.

use ax_core::controller::{Controller, Decision, Event, Submission, Troubles, Wish};
use ax_core::id::{AttemptName, Uid};
use ax_core::job::{Actor, Owner};
use proptest::prelude::*;

use super::{at, config, launched, owner, ready, request, submission, submit};

/// Whose the jobs are where nothing else is said.
const OWNER: Uid = Uid(1000);

fn never(attempt: AttemptName) -> Event {
    Event::NeverStarted { attempt, why: "groups: no room".to_owned() }
}

/// Whatever is started is not; how many starts there were until nothing more is.
fn all_in_vain(controller: &mut Controller, ms: u64, out: Vec<Decision>) -> usize {
    let (mut open, mut starts) = (launched(&out), 0);
    while let Some(attempt) = open.pop() {
        starts += 1;
        assert!(starts < 1000, "without end");
        open.extend(launched(&controller.step(at(ms), never(attempt))));
    }
    starts
}

/// Wakes it when it wants to be woken, until it starts something.
fn next_start(controller: &mut Controller) -> (u64, Vec<Decision>) {
    loop {
        let wake = controller.next_wake().boot.unwrap();
        assert!(launched(&controller.step(at(wake.0 - 1), Event::Tick)).is_empty());
        let out = controller.step(at(wake.0), Event::Tick);
        if !launched(&out).is_empty() {
            return (wake.0, out);
        }
    }
}

fn with_jobs(count: u128) -> (Controller, Vec<Decision>) {
    let mut controller = ready(config());
    let mut out = Vec::new();
    for key in 0..count {
        out.extend(submit(&mut controller, 0, submission(key, request(8))).1);
    }
    (controller, out)
}

#[test]
fn after_three_jobs_in_vain_nothing_is_started_but_trials() {
    let (mut controller, out) = with_jobs(50);
    let starts = all_in_vain(&mut controller, 10, out);
    assert!((3..10).contains(&starts), "{starts}");
    let node = controller.nodes().next().unwrap().inventory.name.clone();
    let sentence = controller.trouble(&node, OWNER).unwrap().sentence(at(10).boot);
    let said = format!("the last {starts} starts came to nothing, one job is tried in 2 s: groups: no room");
    assert_eq!(sentence, said);
    let waiting = controller.ready_jobs().next().unwrap().id;
    let reasons = controller.explain(at(10), waiting.number).reasons;
    assert_eq!(reasons, [format!("gpu-01 can start nothing: {said}")]);
    // Neither time nor other news starts anything before; then it is one each time, ever more rarely.
    let (mut ms, mut pauses) = (10, Vec::new());
    for _ in 0..8 {
        let (at, out) = next_start(&mut controller);
        assert_eq!(launched(&out).len(), 1, "{out:?}");
        pauses.push(at - ms);
        ms = at;
        assert_eq!(all_in_vain(&mut controller, ms, out), 1);
    }
    assert_eq!(pauses, [2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000, 64_000]);
}

#[test]
fn a_script_that_runs_ends_the_rest() {
    let (mut controller, out) = with_jobs(20);
    all_in_vain(&mut controller, 10, out);
    let (ms, out) = next_start(&mut controller);
    let attempt = launched(&out)[0];
    let node = controller.nodes().next().unwrap().inventory.name.clone();
    assert!(controller.trouble(&node, OWNER).is_some());
    controller.step(at(ms + 5), Event::AttemptStarted { attempt, at: at(ms).wall });
    assert!(controller.trouble(&node, OWNER).is_none());
}

#[test]
fn a_new_configuration_is_tried_at_once() {
    let (mut controller, out) = with_jobs(20);
    all_in_vain(&mut controller, 10, out);
    assert!(launched(&controller.step(at(20), Event::Tick)).is_empty());
    let out = controller.step(at(30), Event::ConfigLoaded(Box::new(config())));
    assert_eq!(launched(&out).len(), 1);
}

#[test]
fn one_job_alone_is_no_sign_and_neither_is_what_an_earlier_daemon_left() {
    let (mut controller, out) = with_jobs(1);
    let mut out = out;
    for ms in (0..100_000).step_by(10_000) {
        if let Some(attempt) = launched(&out).first() {
            out = controller.step(at(ms), never(*attempt));
        }
        if launched(&out).is_empty() {
            out = controller.step(at(ms + 9000), Event::Tick);
        }
    }
    let node = controller.nodes().next().unwrap().inventory.name.clone();
    assert_eq!(controller.trouble(&node, OWNER).unwrap().rests_until(), None);

    let mut controller = ready(config());
    let out: Vec<Decision> =
        (0..8).flat_map(|key| submit(&mut controller, 0, submission(key, request(1))).1).collect();
    let mut snapshot = controller.snapshot();
    snapshot.troubles = Troubles::since(snapshot.next_epoch);
    let mut controller = Controller::restore(snapshot);
    for attempt in launched(&out) {
        controller.step(at(10), never(attempt));
    }
    assert!(controller.trouble(&node, OWNER).is_none());
}

#[test]
fn a_trial_that_nobody_can_be_is_not_waited_for_again_and_again() {
    let mut controller = ready(config());
    let running = launched(&submit(&mut controller, 0, submission(1, request(4))).1)[0];
    controller.step(at(1), Event::AttemptStarted { attempt: running, at: at(1).wall });
    let mut jobs = Vec::new();
    for key in 2..5 {
        let (job, out) = submit(&mut controller, 5, submission(key, request(4)));
        jobs.push(job);
        all_in_vain(&mut controller, 10, out);
    }
    for job in jobs {
        let (actor, wish) = (Actor::Ax, Wish::Cancel);
        controller.step(at(20), Event::Wished { job, actor, wish, why: None });
    }
    submit(&mut controller, 30, submission(9, request(8)));
    let wake = controller.next_wake().boot.unwrap();
    assert!(launched(&controller.step(at(wake.0), Event::Tick)).is_empty());
    assert!(controller.next_wake().boot.is_none_or(|next| next > wake), "{:?}", controller.next_wake());
}

fn by(owner: Owner, key: u128, cpus: u32) -> Submission {
    Submission { owner, ..submission(key, request(cpus)) }
}

#[test]
fn each_user_s_jobs_speak_for_themselves() {
    let (mut controller, out) = with_jobs(20);
    all_in_vain(&mut controller, 10, out);
    let node = controller.nodes().next().unwrap().inventory.name.clone();
    assert_eq!(controller.rests(&node).count(), 1);
    // Somebody else's are tried at once, and those of the first not between them.
    let mut out = Vec::new();
    for key in 100..110 {
        out.extend(submit(&mut controller, 20, by(owner(1001), key, 8)).1);
    }
    assert_eq!(launched(&out).len(), 1);
    assert!((3..10).contains(&all_in_vain(&mut controller, 20, out)));
    assert_eq!(controller.rests(&node).count(), 2);
    // Each has trials of its own, whoever is more urgent.
    let whose = |controller: &Controller, out: &[Decision]| {
        controller.job(launched(out)[0].job.number).unwrap().owner.uid
    };
    let mut tried = Vec::new();
    for _ in 0..4 {
        let (ms, out) = next_start(&mut controller);
        tried.push(whose(&controller, &out));
        all_in_vain(&mut controller, ms, out);
    }
    assert_eq!(tried, [Uid(1000), Uid(1001)].repeat(2));
}

/// What one user does, whose starts all come to nothing.
#[derive(Debug, Clone)]
enum Does {
    Submits { cpus: u32, priority: u8 },
    Fails { which: usize },
    Waits { ms: u64 },
}

fn deeds() -> impl Strategy<Value = Vec<Does>> {
    let deed = prop_oneof![
        3 => (1..9_u32, 0..100_u8).prop_map(|(cpus, priority)| Does::Submits { cpus, priority }),
        4 => any::<usize>().prop_map(|which| Does::Fails { which }),
        1 => (0..100_000_u64).prop_map(|ms| Does::Waits { ms }),
    ];
    proptest::collection::vec(deed, 0..60)
}

proptest! {
    /// Whatever of one user's comes to nothing: there is room, so another's job starts at once.
    #[test]
    fn nobody_alone_keeps_a_node_from_others(deeds in deeds()) {
        let mut controller = ready(config());
        let (mut ms, mut key, mut open) = (1, 0, Vec::new());
        for deed in deeds {
            let out = match deed {
                Does::Submits { cpus, priority } => {
                    key += 1;
                    let mut submission = by(owner(1000), key, cpus);
                    submission.request.priority = priority;
                    submit(&mut controller, ms, submission).1
                }
                Does::Fails { which } if !open.is_empty() => {
                    controller.step(at(ms), never(open.swap_remove(which % open.len())))
                }
                Does::Fails { .. } => continue,
                Does::Waits { ms: more } => {
                    ms += more;
                    controller.step(at(ms), Event::Tick)
                }
            };
            open.extend(launched(&out));
        }
        // All that runs of the first fails, until nothing of it is tried for now.
        let mut starts = 0;
        while let Some(attempt) = open.pop() {
            starts += 1;
            prop_assert!(starts < 1000, "without end");
            open.extend(launched(&controller.step(at(ms), never(attempt))));
        }
        let (other, out) = submit(&mut controller, ms, by(owner(1001), 1 << 64, 8));
        prop_assert_eq!(launched(&out).iter().map(|attempt| attempt.job).collect::<Vec<_>>(), [other]);
    }
}
