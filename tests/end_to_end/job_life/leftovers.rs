//! When a job ends, nothing of it is left running, whatever it did to stay.

use crate::cluster::{ALICE, Cluster, as_root, wait_for};

/// Runs a script, waits for its end, and sees that the machine is clean.
fn leaves_nothing(options: &[&str], script: &str, state: &str) {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job = cluster.ends(ALICE, options, script);
    assert_eq!(job["state"], state, "{job:#}");
    // What the script started is gone by the time that the job is over.
    assert_eq!(cluster.job_processes(), [0_u32; 0], "{job:#}");
    cluster.nothing_left();
}

#[test]
fn background_processes_end_with_the_script() {
    leaves_nothing(&[], "#!/bin/sh\nsleep 600 &\nsleep 600 &\nexit 0\n", "SUCCEEDED");
}

#[test]
fn daemons_end_with_the_script() {
    let script = "#!/bin/sh\n(setsid sh -c 'trap \"\" TERM HUP; setsid sleep 600 & sleep 600' >/dev/null 2>&1 &) &\nsleep 0.3\nexit 0\n";
    leaves_nothing(&[], script, "SUCCEEDED");
}

#[test]
fn stopped_processes_end_with_the_script() {
    let script = "#!/bin/sh\nsleep 600 &\nkill -STOP $!\n(trap '' TERM; kill -STOP $(sh -c 'echo $PPID'); sleep 600) &\nsleep 0.2\nexit 4\n";
    leaves_nothing(&[], script, "FAILED");
}

#[test]
fn a_fork_bomb_stays_below_its_limit_and_ends() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {max_processes: 60}\nresources: {cpus: 8}\n");
    let bomb = "#!/bin/bash\ntrap '' TERM\nbomb() { bomb | bomb & }\nbomb 2>/dev/null\nsleep 600\n";
    let id = cluster.submit(ALICE, &["--time=0:03", "--grace=1", "-o", "/dev/null"], bomb);
    cluster.wait_state(&id, &["RUNNING"]);
    let beside = cluster.ends(ALICE, &[], "#!/bin/sh\nexit 0\n");
    assert_eq!(beside["state"], "SUCCEEDED", "another job runs beside it");
    let most = std::cell::Cell::new(0);
    wait_for("the bomb to end", || {
        most.set(most.get().max(cluster.job_processes().len()));
        cluster.job(&id)["ended_at"].is_string()
    });
    assert!(most.get() <= 60, "{} processes", most.get());
    assert_eq!(cluster.state(&id), "TIMEOUT");
    cluster.nothing_left();
}

#[test]
fn a_cancelled_tree_that_is_deaf_and_stopped_goes_too() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\ntrap '' TERM INT HUP\nsetsid sh -c 'trap \"\" TERM; kill -STOP $$' &\nsleep 600 &\necho up > up\nwait\nwhile :; do sleep 1; done\n";
    let id = cluster.submit(ALICE, &["--grace=1"], script);
    wait_for("the tree", || cluster.read(ALICE, "up") == "up\n");
    cluster.ok(ALICE, "ax", &["cancel", &id]);
    assert_eq!(cluster.wait_over(&id)["state"], "CANCELLED");
    assert_eq!(cluster.job_processes(), [0_u32; 0]);
    cluster.nothing_left();
}
