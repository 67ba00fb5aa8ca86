//! The driver's limits on a job's group: set before anything of the job runs, taken away before the group goes. A shell
//! stands for the driver and writes down what it saw.

use std::path::PathBuf;

use ax_core::job::state::Outcome;
use ax_core::record::{CardLimits, Request};
use ax_core::time::Span;

use crate::world::{Job, World, eventually};

/// What the driver does when it is asked for a limit, and when it is to take it away.
fn limited<'a>(world: &'a World, script: &str, set: &str, clear: &str) -> Job<'a> {
    let log = world.root.join("driver.log");
    world.job(script).with(|assignment| {
        let group = group(&assignment.cgroup_parents, &assignment.attempt.to_string());
        let shell = |what: &str, then: &str| {
            let procs = group.join("cgroup.procs");
            let script = format!(
                "[ -e {procs} ] && n=$(wc -l < {procs}) || n=gone; echo {what} $n >> {}; {then}",
                log.display(),
                procs = procs.display()
            );
            ["/bin/sh", "-c", &script].map(str::to_owned).to_vec()
        };
        let patience = Span::seconds(2);
        assignment.card_limits =
            Some(CardLimits { set: shell("set", set), clear: shell("clear", clear), patience });
    })
}

/// The job's group in the hierarchy that holds its processes.
fn group(parents: &[String], attempt: &str) -> PathBuf {
    let line = parents.iter().find(|line| line.starts_with("unified:") || line.starts_with(':'));
    let line = line.or_else(|| parents.iter().find(|line| line.contains("freezer"))).unwrap();
    PathBuf::from(line.split_once(':').unwrap().1).join(attempt)
}

fn log(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.root.join("driver.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn limits_are_set_on_an_empty_group_and_taken_away_from_an_empty_one() {
    let Some(world) = World::new() else { return };
    let seen = world.root.join("driver.log");
    let script = format!("cat {} > seen; (sleep 1000 &) ; exit 0", seen.display());
    let result = limited(&world, &script, "", "").run();
    assert_eq!((result.outcome, result.limit_refused, result.groups_gone), (Outcome::Succeeded, false, true));
    assert_eq!(log(&world), ["set 0", "clear 0"]);
    let at_start = std::fs::read_to_string(world.home.join("seen")).unwrap();
    assert_eq!(at_start, "set 0\n", "the script began before it was limited");
}

#[test]
fn without_its_limit_nothing_of_a_job_runs_and_it_may_be_started_again() {
    let Some(world) = World::new() else { return };
    for (set, words) in [("echo no such card >&2; exit 1", "no such card"), ("sleep 1000", "did not end")] {
        let result = limited(&world, "echo ran > ran", set, "").run();
        assert_eq!((result.outcome, result.never_started), (Outcome::LaunchFailed, true), "{set}");
        assert!(result.limit_refused && result.started_at.is_none(), "{set}");
        let message = result.message.unwrap();
        assert!(message.contains("card limits") && message.contains(words), "{message}");
        assert!(!world.home.join("ran").exists(), "{set}");
    }
    assert_eq!(log(&world), ["set 0", "clear 0", "set 0", "clear 0"], "half of it may have been set");
}

#[test]
fn a_group_whose_limit_can_t_be_taken_away_stays_for_axd() {
    let Some(world) = World::new() else { return };
    let mut job = limited(&world, "exit 0", "", "exit 1").start();
    job.exit();
    let result = job.record().unwrap();
    assert_eq!((result.outcome, result.groups_gone), (Outcome::Succeeded, false));
    assert!(world.groups(job.job.name).is_some());
    let limits = job.started().unwrap().card_limits;
    assert_eq!(limits, job.job.assignment.card_limits, "whoever removes the group must know");
}

#[test]
fn an_end_that_is_asked_for_while_the_driver_takes_its_time_comes_before_the_script() {
    let Some(world) = World::new() else { return };
    let go = world.root.join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let mut job = limited(&world, "echo ran > ran; sleep 1000", &wait, "").start();
    eventually("the driver to be asked", || !log(&world).is_empty());
    let request = Request::Terminate {
        outcome: Outcome::Cancelled,
        message: "by li".to_owned(),
        at_once: true,
        warned: false,
    };
    let axd = job.axd.as_ref().unwrap();
    assert!(ax_sys::seqpacket::send(axd, &serde_json::to_vec(&request).unwrap()));
    std::fs::write(&go, "").unwrap();
    job.exit();
    assert_eq!(job.record().unwrap().outcome, Outcome::Cancelled);
    assert_eq!(log(&world), ["set 0", "clear 0"]);
}

/// Wherever a supervisor dies once limits may be on the group, its record says how they are taken away.
#[cfg(feature = "crash-points")]
#[test]
fn a_death_between_limit_and_release_is_readable_afterwards() {
    let Some(mut world) = World::new() else { return };
    for (point, calls) in [("cards limited", 1), ("cards released", 2)] {
        let _ = std::fs::remove_file(world.root.join("driver.log"));
        world.set_environment(vec![format!("AX_CRASH_POINT={point}")]);
        let mut job = limited(&world, "exit 0", "", "").start();
        assert_eq!(job.exit(), ax_sys::pidfd::Exit::Signal { number: 9, core: false }, "{point}");
        assert_eq!(log(&world).len(), calls, "{point}");
        assert_eq!(job.started().unwrap().card_limits, job.job.assignment.card_limits, "{point}");
        assert!(job.record().is_none() && world.groups(job.job.name).is_some(), "{point}");
    }
}
