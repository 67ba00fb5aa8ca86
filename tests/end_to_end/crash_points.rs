//! A crash at any instant is the same as a delay: at each named point the
//! process that comes there dies, as if it had lost its power, and afterwards
//! everything is as if it had only been slow. A point that is never reached
//! fails the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::books::{
    FOUR_CPUS, assert_at_most_once, assert_nothing_left, attempts, book, honest, until, wait_begun,
};
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};
use crate::keyed::{Asked, Keyed};
use crate::survival::{another_boot, power_cut};

/// Where the daemon dies, and whether the client has its answer then.
const OF_AXD: [(&str, bool); 9] = [
    ("request read", false),
    ("committed", false),
    ("answered", true),
    ("decision committed", true),
    ("directory", true),
    ("assignment", true),
    ("inbox", true),
    ("claimed", true),
    ("end committed", true),
];

/// Where a supervisor dies, and how the attempt ends.
const OF_AXRUN: [(&str, &str); 6] = [
    ("lease linked", "LAUNCH_FAILED"),
    ("cgroup", "LAUNCH_FAILED"),
    ("forked", "LEASE_LOST"),
    ("exit seen", "LEASE_LOST"),
    ("emptied", "LEASE_LOST"),
    ("result", "SUCCEEDED"),
];

/// Where its child dies, on the way to the script.
const OF_THE_CHILD: [&str; 2] = ["fence read", "exec"];

/// Whatever is started from now on dies at this point.
pub(crate) fn arm(cluster: &mut Cluster, point: &str) {
    let log = cluster.root.join("crashes");
    fs::write(&log, "").unwrap();
    // A child comes to its last points as the user.
    fs::set_permissions(&log, fs::Permissions::from_mode(0o666)).unwrap();
    cluster.set_environment("AX_CRASH_POINT", point);
    cluster.set_environment("AX_CRASH_LOG", &log);
}

pub(crate) fn disarm(cluster: &mut Cluster) {
    cluster.clear_environment("AX_CRASH_POINT");
    cluster.clear_environment("AX_CRASH_LOG");
}

/// Somebody has died there.
pub(crate) fn is_reached(cluster: &Cluster, point: &str) -> bool {
    let log = fs::read_to_string(cluster.root.join("crashes")).unwrap();
    assert!(log.lines().all(|line| line == point), "{log}");
    !log.is_empty()
}

/// A world with a job of somebody else, which must notice nothing of all that follows.
fn with_a_bystander() -> (Cluster, String) {
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let id = cluster.submit(BOB, &[], &honest(&format!("{}; exit 7", until("go"))));
    wait_begun(&cluster, BOB, &id, 1);
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.stop();
    (cluster, id)
}

fn assert_unharmed(cluster: &Cluster, bystander: &str) {
    assert_eq!(cluster.state(bystander), "RUNNING");
    cluster.write(BOB, "go", "");
    let job = cluster.wait_over(bystander);
    assert_eq!((&job["exit_code"], attempts(&job).len()), (&7.into(), 1), "{job:#}");
    assert_at_most_once(cluster, BOB, bystander);
}

/// One job came of it, whatever was repeated.
fn assert_one_job(cluster: &Cluster, user: &str) {
    let acct = cluster.run(ROOT, "ax", &["acct", "--json"]);
    let rows: Value = serde_json::from_str(&acct.out).unwrap();
    let theirs = rows.as_array().unwrap().iter().filter(|row| row["user"] == user);
    assert_eq!(theirs.count(), 1, "{rows:#}");
}

#[test]
fn the_daemon_dies_at_each_of_its_points() {
    if !as_root() {
        return;
    }
    for (seed, (point, answered)) in OF_AXD.into_iter().enumerate() {
        let (mut cluster, bystander) = with_a_bystander();
        arm(&mut cluster, point);
        cluster.start();
        let keyed = Keyed::new(&cluster, ALICE, seed as u64, &[], &honest("sleep 0.1"));
        let mut told = None;
        // The first answer may be that the user is being looked up.
        wait_for(&format!("a death at '{point}'"), || {
            if let Asked::Accepted(id) = keyed.ask() {
                told = Some(id);
            }
            cluster.daemon_ended()
        });
        assert!(is_reached(&cluster, point), "'{point}' was never reached: {}", cluster.daemon_output());
        assert_eq!(told.is_some(), answered, "'{point}'");
        cluster.wait_daemon_ended();
        disarm(&mut cluster);
        cluster.start();

        let id = keyed.insist();
        assert!(told.is_none_or(|told| told == id), "'{point}': one key, one job");
        let job = cluster.wait_over(&id);
        assert_eq!(job["state"], "SUCCEEDED", "'{point}': {job:#}");
        assert_eq!(book(&cluster, ALICE, &id).begun.len(), 1, "'{point}': {job:#}");
        assert_at_most_once(&cluster, ALICE, &id);
        assert_one_job(&cluster, ALICE.name);
        assert_unharmed(&cluster, &bystander);
        assert_nothing_left(&cluster);
    }
}

/// Where the daemon dies on the way of a submission through the spool.
const OF_THE_SPOOL: [&str; 3] = ["drop renamed", "drop committed", "drop unlinked"];

#[test]
fn the_daemon_dies_while_it_takes_what_lies_in_the_spool() {
    if !as_root() {
        return;
    }
    for point in OF_THE_SPOOL {
        let (mut cluster, bystander) = with_a_bystander();
        cluster.write(ALICE, "late.sh", honest("sleep 0.1"));
        let ran = cluster.run(ALICE, "axbatch", &["--parsable", "late.sh"]);
        assert!(ran.code == 0 && ran.out.starts_with("spool-"), "{ran:?}");
        arm(&mut cluster, point);
        cluster.spawn();
        cluster.wait_daemon_ended();
        assert!(is_reached(&cluster, point), "'{point}' was never reached: {}", cluster.daemon_output());
        disarm(&mut cluster);
        cluster.start();
        let id = || {
            let acct = cluster.run(ALICE, "ax", &["acct", "--json"]);
            assert_eq!(acct.code, 0, "{acct:?}");
            let rows: Value = serde_json::from_str(&acct.out).unwrap();
            let theirs = rows.as_array().unwrap().iter().find(|row| row["user"] == ALICE.name);
            theirs.map(|row| row["id"].as_str().unwrap().to_owned())
        };
        wait_for(&format!("the spooled job after '{point}'"), || id().is_some());
        let id = id().unwrap();
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED", "'{point}'");
        assert_one_job(&cluster, ALICE.name);
        assert_at_most_once(&cluster, ALICE, &id);
        assert_unharmed(&cluster, &bystander);
        assert_nothing_left(&cluster);
    }
}

#[test]
fn a_supervisor_dies_at_each_of_its_points() {
    if !as_root() {
        return;
    }
    for (point, outcome) in OF_AXRUN {
        let (mut cluster, bystander) = with_a_bystander();
        arm(&mut cluster, point);
        cluster.start();
        let id = cluster.submit(ALICE, &[], &honest("sleep 0.1"));
        wait_for(&format!("a death at '{point}'"), || is_reached(&cluster, point));
        // The daemon as well, at whatever it was doing about it.
        cluster.kill();
        disarm(&mut cluster);
        cluster.start();

        let job = cluster.wait_over(&id);
        assert_eq!(job["state"], "SUCCEEDED", "'{point}': {job:#}");
        assert_eq!(attempts(&job)[0]["state"], outcome, "'{point}': {job:#}");
        assert_at_most_once(&cluster, ALICE, &id);
        assert_one_job(&cluster, ALICE.name);
        assert_unharmed(&cluster, &bystander);
        assert_nothing_left(&cluster);
    }
}

/// It needs folders that an earlier job of the same user left alone, which not each can tell.
#[test]
fn a_supervisor_dies_between_the_folders_of_another_job_and_its_own() {
    if !as_root() {
        return;
    }
    let point = "spare moved";
    let (mut cluster, bystander) = with_a_bystander();
    arm(&mut cluster, point);
    cluster.start();
    let mut ids = Vec::new();
    wait_for(&format!("a death at '{point}'"), || {
        ids.push(cluster.submit(ALICE, &[], &honest("[ -z \"$(ls -A $AX_SPOOL_JOB_DIR)\" ]")));
        // One after the other, but the last, which is tried without end.
        wait_for("an end", || {
            is_reached(&cluster, point) || cluster.state(&ids[ids.len() - 1]) == "SUCCEEDED"
        });
        is_reached(&cluster, point)
    });
    cluster.kill();
    disarm(&mut cluster);
    cluster.start();
    for id in &ids {
        let job = cluster.wait_over(id);
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        assert_eq!(book(&cluster, ALICE, id).begun.len(), 1, "{job:#}");
        assert_at_most_once(&cluster, ALICE, id);
    }
    let last = cluster.wait_over(&ids[ids.len() - 1]);
    assert_eq!(attempts(&last)[0]["state"], "LAUNCH_FAILED", "{last:#}");
    assert_unharmed(&cluster, &bystander);
    assert_nothing_left(&cluster);
}

#[test]
fn a_child_that_dies_before_it_is_the_script_is_started_again_unless_it_is_its_user_s() {
    if !as_root() {
        return;
    }
    for point in OF_THE_CHILD {
        let (mut cluster, bystander) = with_a_bystander();
        arm(&mut cluster, point);
        cluster.start();
        let id = cluster.submit(ALICE, &[], &honest("true"));
        wait_for(&format!("a death at '{point}'"), || is_reached(&cluster, point));
        assert!(book(&cluster, ALICE, &id).begun.is_empty(), "'{point}': it never ran");
        cluster.kill();
        disarm(&mut cluster);
        cluster.start();
        let job = cluster.wait_over(&id);
        // Who could have killed it himself has failed.
        let again = point != "exec";
        let end = if again { "SUCCEEDED" } else { "FAILED" };
        assert_eq!(job["state"], end, "'{point}': {job:#}");
        assert_eq!(attempts(&job)[0]["state"], "LAUNCH_FAILED", "'{point}': {job:#}");
        assert_eq!(book(&cluster, ALICE, &id).begun.len(), usize::from(again), "'{point}': {job:#}");
        assert_at_most_once(&cluster, ALICE, &id);
        assert_unharmed(&cluster, &bystander);
        assert_nothing_left(&cluster);
    }
}

#[test]
fn a_cancel_that_was_accepted_is_carried_out_after_a_crash() {
    if !as_root() {
        return;
    }
    let (mut cluster, bystander) = with_a_bystander();
    arm(&mut cluster, "end asked");
    cluster.start();
    let id = cluster.submit(ALICE, &[], &honest(&until("never")));
    wait_begun(&cluster, ALICE, &id, 1);
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.run(ALICE, "ax", &["cancel", &id]);
    cluster.wait_daemon_ended();
    assert!(is_reached(&cluster, "end asked"));
    disarm(&mut cluster);
    cluster.start();
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "CANCELLED", "{job:#}");
    assert_at_most_once(&cluster, ALICE, &id);
    assert_unharmed(&cluster, &bystander);
    assert_nothing_left(&cluster);
}

/// The new boot's id and the ends that it means become durable together, or the second start after a reboot would
/// take the machine for the one that the jobs ran on.
#[test]
fn a_crash_right_after_a_reboot_loses_no_end() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let alone = cluster.submit(ALICE, &["--no-requeue"], &honest(&until("never")));
    let again = honest(&format!("[ $AX_ATTEMPT = 1 ] && {}; true", until("never")));
    let again = cluster.submit(ALICE, &[], &again);
    for id in [&alone, &again] {
        wait_begun(&cluster, ALICE, id, 1);
        cluster.wait_state(id, &["RUNNING"]);
    }
    power_cut(&mut cluster);
    fs::remove_dir_all(cluster.root.join("run/ax")).unwrap();
    another_boot(&mut cluster);
    arm(&mut cluster, "durable");
    cluster.spawn();
    cluster.wait_daemon_ended();
    assert!(is_reached(&cluster, "durable"), "{}", cluster.daemon_output());
    disarm(&mut cluster);
    cluster.start();
    assert_eq!(cluster.wait_over(&alone)["state"], "NODE_FAIL");
    let job = cluster.wait_over(&again);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    assert_eq!(attempts(&job)[0]["state"], "NODE_FAIL", "{job:#}");
    for id in [&alone, &again] {
        assert_at_most_once(&cluster, ALICE, id);
    }
    assert_nothing_left(&cluster);
}
