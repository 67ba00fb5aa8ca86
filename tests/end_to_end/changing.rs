//! `ax update`: an advice is followed in place, and the time limit of a running job is changed, whatever becomes of the
//! daemon meanwhile.

use crate::books::{assert_nothing_left, honest, until};
#[cfg(feature = "crash-points")]
use crate::cluster::wait_for;
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root};
#[cfg(feature = "crash-points")]
use crate::crash_points::{arm, disarm, is_reached};
use crate::survival::touch;

/// Needs a moment of its grace.
const TRAPS: &str = "#!/bin/sh\ntrap 'sleep 0.3; echo saved > saved; exit 0' TERM\n\
                     while :; do sleep 0.1; done\n";

/// Runs until it is ended.
const LONG: &str = "#!/bin/sh\nexec sleep 1000\n";

#[test]
fn an_advice_is_followed_in_place() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4}\n");
    let blocker = cluster.submit(ALICE, &["-c", "2", "-t", "10"], LONG);
    cluster.wait_state(&blocker, &["RUNNING"]);
    let script = "#!/bin/sh\necho $SLURM_CPUS_PER_TASK $AX_CPUS > cpus\n";
    let first = cluster.submit(ALICE, &["-c", "4", "-t", "60", "--ram=100M"], script);
    // One that was submitted later, and would be in the way of one that is submitted anew.
    let later = cluster.submit(BOB, &["-c", "3", "-t", "60", "--ram=100M"], "#!/bin/sh\n");
    let why = cluster.run(ALICE, "ax", &["why", &first]).out;
    assert!(why.contains("advice: with --cpus-per-task 2 at once"), "{why}");
    for (words, told) in [
        (&["--gpus=1"][..], "it asks for no card"),
        (&["--mem=10"], "it asks for no card"),
        (&["--cpus-per-task=5"], "no node here could ever hold it then: it needs 5 CPUs, and"),
        (&["--constraint=fast"], "--constraint: no node here has the feature 'fast'"),
        (&["--ram=all"], "--ram is changed to a size"),
        (&["--output=x"], "of a waiting job only --priority"),
    ] {
        let ran = cluster.run(ALICE, "ax", &[&["update", &first][..], words].concat());
        assert!(ran.code != 0 && ran.err.contains(told), "{words:?}: {ran:?}");
    }
    let said = cluster.ok(ALICE, "ax", &["update", &first, "--cpus-per-task", "2"]);
    assert!(said.contains("CPUs 4 → 2, by daemon") || said.contains("CPUs 4 → 2, by "), "{said}");
    let job = cluster.wait_over(&first);
    assert_eq!((&job["state"], &job["cpus"]), (&"SUCCEEDED".into(), &2.into()), "{job:#}");
    assert_eq!(cluster.read(ALICE, "cpus"), "2 2\n", "the job is told of what it has");
    assert_eq!(cluster.state(&later), "READY");
    cluster.ok(ALICE, "ax", &["cancel", &blocker]);
    cluster.wait_over(&later);
}

#[test]
fn slow_the_time_of_a_running_job_is_changed_by_those_who_may() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {kill_wait: 3}\nresources: {cpus: 4}\n");
    let extended = cluster.submit(ALICE, &["-c", "1", "-t", "0:15"], &honest(&until("go")));
    let shortened = cluster.submit(ALICE, &["-c", "1", "-t", "10"], LONG);
    let unlimited = cluster.submit(ALICE, &["-c", "1", "-t", "0:15"], &honest(&until("go")));
    let old = cluster.submit(ALICE, &["-c", "1", "-t", "10"], TRAPS);
    for job in [&extended, &shortened, &unlimited, &old] {
        cluster.wait_state(job, &["RUNNING"]);
    }
    let line = cluster.refused(77, ALICE, "ax", &["update", &extended, "--time=1h"]);
    assert!(line.contains("its owner may make its time limit shorter, administrators also longer"), "{line}");
    cluster.refused(77, BOB, "ax", &["update", &shortened, "--time=0:01"]);
    let said = cluster.ok(ROOT, "ax", &["update", "--why=the data came late", &extended, "--time=1h"]);
    assert!(said.contains("time limit 00:00:15 → 01:00:00, by root: the data came late"), "{said}");
    cluster.ok(ROOT, "ax", &["update", &unlimited, "--time=unlimited"]);
    cluster.ok(ALICE, "ax", &["update", &shortened, "--time=0:01"]);
    let job = cluster.wait_over(&shortened);
    assert_eq!((&job["state"], &job["time_limit_s"]), (&"TIMEOUT".into(), &1.into()), "{job:#}");
    // Longer than they once might have run.
    std::thread::sleep(std::time::Duration::from_secs(16));
    let shown = cluster.ok(ALICE, "ax", &["status", &extended]);
    assert!(shown.contains("RUNNING") && shown.contains("time limit 00:00:15 → 01:00:00"), "{shown}");
    assert_eq!(cluster.state(&unlimited), "RUNNING");
    // By more than the watchdog's patience beyond its new limit: it is not killed at once all the same.
    cluster.ok(ALICE, "ax", &["update", &old, "--time=0:01"]);
    assert_eq!(cluster.wait_over(&old)["state"], "TIMEOUT");
    assert_eq!(cluster.read(ALICE, "saved"), "saved\n", "it had its grace");
    touch(&cluster, "go");
    for job in [&extended, &unlimited] {
        assert_eq!(cluster.wait_over(job)["state"], "SUCCEEDED");
    }
    assert_nothing_left(&cluster);
}

/// What was answered is durable, and reaches the supervisor even if the daemon dies before it has told it.
#[cfg(feature = "crash-points")]
#[test]
fn slow_a_limit_that_was_changed_counts_after_a_crash() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("policy: {kill_wait: 1}\nresources: {cpus: 4}\n");
    arm(&mut cluster, "limit committed");
    cluster.start();
    let id = cluster.submit(ALICE, &["-t", "0:15"], &honest(&until("go")));
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.run(ROOT, "ax", &["update", &id, "--time=1h"]);
    cluster.wait_daemon_ended();
    assert!(is_reached(&cluster, "limit committed"));
    disarm(&mut cluster);
    cluster.start();
    let began = std::time::Instant::now();
    wait_for("the limit that it had once", || began.elapsed().as_secs() >= 16);
    let job = cluster.job(&id);
    assert_eq!((&job["state"], &job["time_limit_s"]), (&"RUNNING".into(), &3600.into()), "{job:#}");
    // Neither does a daemon that comes later give it another one.
    cluster.kill();
    cluster.start();
    touch(&cluster, "go");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    assert_nothing_left(&cluster);
}
