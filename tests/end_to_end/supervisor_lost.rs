//! ax's own processes die: supervisors, with the daemon there or not, and the
//! watchdog. What they looked after is ended before anything of it starts again,
//! and no number of a process is ever taken for the process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::books::{
    FOUR_CPUS, assert_at_most_once, assert_nothing_left, attempts, book, honest, until, wait_begun,
};
use crate::cluster::{ALICE, Cluster, as_root, command_line, processes, signal, supervisor_of, wait_for};
use crate::survival::{is_alive, touch};

/// Kills a job's supervisor and waits until nothing of the job is left.
fn kill_supervisor(cluster: &Cluster, id: &str, job: &[u32]) {
    signal(supervisor_of(cluster, id).unwrap(), "KILL");
    wait_for("the end of the job's processes", || !job.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_supervisor_that_is_killed_takes_its_job_with_it_and_the_job_goes_on_as_it_allows() {
    if !as_root() {
        return;
    }
    for daemon_is_down in [false, true] {
        let mut cluster = Cluster::with_config(FOUR_CPUS);
        // A child in a session of its own, deaf: only the group holds it.
        let far = "trap '' TERM HUP; setsid sh -c 'echo $$ >>$HOME/far; exec sleep 1000' & ";
        let script = |body: &str| honest(&format!("{far} {body}"));
        let again = script(&format!("[ $AX_ATTEMPT = 1 ] && {}; kill $!", until("never")));
        let requeued = cluster.submit(ALICE, &[], &again);
        let alone = cluster.submit(ALICE, &["--no-requeue"], &script(&until("never")));
        let unsure = cluster.submit(ALICE, &["--idempotent=no"], &script(&until("never")));
        let ids = [&requeued, &alone, &unsure];
        let mut pids: Vec<u32> = ids.iter().map(|id| wait_begun(&cluster, ALICE, id, 1)).collect();
        wait_for("the children", || cluster.read(ALICE, "far").lines().count() == 3);
        pids.extend(cluster.read(ALICE, "far").lines().map(|l| l.parse::<u32>().unwrap()));
        for id in &ids {
            cluster.wait_state(id, &["RUNNING"]);
        }
        if daemon_is_down {
            cluster.kill();
        }
        ids.iter().for_each(|id| kill_supervisor(&cluster, id, &[]));
        wait_for("the end of the jobs' processes", || !pids.iter().any(|pid| is_alive(*pid)));
        if daemon_is_down {
            cluster.start();
        }
        let job = cluster.wait_over(&requeued);
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        assert_eq!(attempts(&job).len(), 2, "{job:#}");
        assert_eq!(attempts(&job)[0]["state"], "LEASE_LOST", "{job:#}");
        assert_eq!(cluster.wait_over(&alone)["state"], "NODE_FAIL");
        assert_eq!(cluster.wait_over(&unsure)["state"], "FAILED_UNKNOWN_STATE");
        ids.iter().for_each(|id| assert_at_most_once(&cluster, ALICE, id));
        assert_nothing_left(&cluster);
    }
}

/// The watchdogs of this world.
fn watchdogs(cluster: &Cluster) -> Vec<u32> {
    let words = format!("--watchdog {}", cluster.root.join("run/ax").display());
    processes().filter(|pid| is_alive(*pid) && command_line(*pid).contains(&words)).collect()
}

#[test]
fn there_is_one_watchdog_always() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    wait_for("a watchdog", || watchdogs(&cluster).len() == 1);
    let first = watchdogs(&cluster)[0];
    signal(first, "KILL");
    wait_for("another one", || matches!(watchdogs(&cluster)[..], [pid] if pid != first));
    let second = watchdogs(&cluster)[0];
    for _ in 0..3 {
        cluster.kill();
        cluster.start();
        // The one that it starts finds the place taken and goes.
        let id = cluster.submit(ALICE, &[], "#!/bin/sh\ntrue\n");
        cluster.wait_over(&id);
        wait_for("the one that was there", || watchdogs(&cluster) == [second]);
    }
    // It says who it is, and so is watched though it is nobody's child: its end is seen.
    let lock = fs::read_to_string(cluster.root.join("run/ax/watchdog.lock")).unwrap();
    assert!(lock.starts_with(&format!("{second}:")), "{lock}");
    signal(second, "KILL");
    wait_for("another one", || matches!(watchdogs(&cluster)[..], [pid] if pid != second));
}

/// A process that has nothing to do with any job.
struct Innocent(Child);

impl Innocent {
    fn new() -> Innocent {
        Innocent(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn start_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Innocent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names another process in a record of a start.
fn blame(record: &Path, pid: u32, start_ticks: u64) {
    let mut started: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    started["supervisor"] = serde_json::json!({ "pid": pid, "start_ticks": start_ticks });
    fs::write(record, serde_json::to_vec(&started).unwrap()).unwrap();
}

#[test]
fn a_number_of_a_process_alone_is_never_believed() {
    if !as_root() {
        return;
    }
    let mut innocent = Innocent::new();
    let (pid, ticks) = (innocent.0.id(), innocent.start_ticks());
    // The number was given to another process since; and a record that lies altogether.
    for (dead, ticks) in [(false, ticks - 1), (false, ticks), (true, ticks - 1), (true, ticks)] {
        let mut cluster = Cluster::with_config(FOUR_CPUS);
        let id = cluster.submit(ALICE, &["--no-requeue"], &honest(&until("go")));
        let own = wait_begun(&cluster, ALICE, &id, 1);
        cluster.wait_state(&id, &["RUNNING"]);
        cluster.kill();
        let epoch = book(&cluster, ALICE, &id).begun[0];
        blame(&cluster.root.join(format!("run/ax/attempts/{id}.{epoch}/started")), pid, ticks);
        if dead {
            kill_supervisor(&cluster, &id, &[own]);
        }
        cluster.start();
        let expected = if dead { "NODE_FAIL" } else { "CANCELLED" };
        if !dead {
            // Its lease says whom to ask.
            assert_eq!(cluster.run(ALICE, "ax", &["cancel", &id]).code, 0);
        }
        let job = cluster.wait_over(&id);
        assert_eq!(job["state"], expected, "{job:#}");
        assert!(innocent.is_alive(), "a stranger was killed");
        assert_at_most_once(&cluster, ALICE, &id);
        assert_nothing_left(&cluster);
    }
}

/// The watchdog is stopped, so that the daemon is alone: it must have ended the tree before the job starts again,
/// which the job's lock and the deaf child's show.
#[test]
fn a_dead_supervisor_s_tree_is_ended_before_the_job_starts_again() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    wait_for("a watchdog", || watchdogs(&cluster).len() == 1);
    let watchdog = watchdogs(&cluster)[0];
    let far = "trap '' TERM HUP; setsid sh -c 'echo $$ >>$HOME/far; exec sleep 1000' &";
    let id = cluster.submit(ALICE, &[], &honest(&format!("{far} {}", until("go"))));
    for round in 1..=3 {
        wait_begun(&cluster, ALICE, &id, round);
        wait_for("the child", || cluster.read(ALICE, "far").lines().count() == round);
        signal(watchdog, "STOP");
        if round == 2 {
            cluster.kill();
        }
        signal(supervisor_of(&cluster, &id).unwrap(), "KILL");
        if round == 2 {
            cluster.start();
        }
    }
    wait_begun(&cluster, ALICE, &id, 4);
    let children = cluster.read(ALICE, "far");
    let dead = children.lines().take(3).filter(|pid| !is_alive(pid.parse().unwrap())).count();
    assert_eq!(dead, 3, "{children}");
    signal(watchdog, "CONT");
    touch(&cluster, "go");
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], attempts(&job).len()), (&"SUCCEEDED".into(), 4), "{job:#}");
    assert_at_most_once(&cluster, ALICE, &id);
    assert_nothing_left(&cluster);
}
