//! A full disk: nothing is accepted (exit 75), running jobs notice nothing, and
//! when there is room again everything that happened is recorded.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::books::{FOUR_CPUS, assert_at_most_once, assert_nothing_left, honest, until, wait_begun};
use crate::cluster::{ALICE, BOB, Cluster, as_root, supervisor_of, wait_for};
use crate::keyed::{Asked, Keyed};
use crate::spool::names_in;

/// A small file system of its own in place of a folder.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn mount(path: PathBuf, options: &str) -> Disk {
        fs::create_dir_all(&path).unwrap();
        let mut mount = Command::new("mount");
        let ran = mount.args(["-t", "tmpfs", "-o", options, "ax-test"]).arg(&path).status().unwrap();
        assert!(ran.success());
        Disk { path }
    }

    /// Takes all the room that there is.
    fn fill(&self) {
        let mut ballast =
            OpenOptions::new().append(true).create(true).open(self.path.join("ballast")).unwrap();
        for size in [1 << 20, 4096, 1] {
            while ballast.write_all(&vec![1; size]).is_ok() {}
        }
    }

    /// Gives it back.
    fn clear(&self) {
        fs::remove_file(self.path.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// A world whose one folder is a disk of its own.
fn world(folder: &str, options: &str) -> (Cluster, Disk) {
    let mut cluster = Cluster::stopped(FOUR_CPUS);
    let disk = Disk::mount(cluster.root.join(folder), options);
    cluster.start();
    (cluster, disk)
}

/// A job that runs until told to end with this exit code.
fn runs(cluster: &Cluster, file: &str, code: u8) -> String {
    let id = cluster.submit(ALICE, &[], &honest(&format!("{}; exit {code}", until(file))));
    wait_begun(cluster, ALICE, &id, 1);
    cluster.wait_state(&id, &["RUNNING"]);
    id
}

fn tell(cluster: &Cluster, file: &str) {
    cluster.write(ALICE, file, "");
}

fn axbatch(cluster: &Cluster, script: &Path) -> crate::cluster::Ran {
    cluster.run(ALICE, "axbatch", &["--parsable", script.to_str().unwrap()])
}

#[test]
fn the_state_directory_is_full() {
    if !as_root() {
        return;
    }
    let (mut cluster, disk) = world("var/lib/ax", "size=48m,mode=700");
    let (one, two) = (runs(&cluster, "go1", 5), runs(&cluster, "go2", 6));
    let script = cluster.write(ALICE, "late.sh", honest("true"));
    disk.fill();
    // The reserve is given up for what was under way; then there is no room at all.
    wait_for("the first refusal", || {
        disk.fill();
        let ran = axbatch(&cluster, &script);
        assert!([0, 75].contains(&ran.code), "{ran:?}");
        ran.code == 75
    });
    disk.fill();
    let ran = axbatch(&cluster, &script);
    assert!(ran.code == 75 && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.err.contains("try again later"), "{ran:?}");
    tell(&cluster, "go1");
    wait_for("the end of the one", || supervisor_of(&cluster, &one).is_none());
    assert!(supervisor_of(&cluster, &two).is_some(), "the other goes on");
    assert!(!cluster.daemon_ended());

    // Killed in the midst of it: it may not come up before there is room, but says why.
    cluster.kill();
    disk.fill();
    let before = cluster.daemon_output().len();
    cluster.spawn();
    wait_for("a start or its end", || cluster.answers() || cluster.daemon_ended());
    if cluster.daemon_ended() {
        let said = cluster.daemon_output()[before..].to_owned();
        assert!(said.lines().count() == 1 && said.contains("full"), "{said}");
        cluster.wait_daemon_ended();
    } else {
        cluster.kill();
    }
    // What was not written down is found again.
    disk.clear();
    cluster.start();
    assert_eq!(cluster.wait_over(&one)["exit_code"], 5);
    tell(&cluster, "go2");
    assert_eq!(cluster.wait_over(&two)["exit_code"], 6);
    for id in [&one, &two] {
        assert_at_most_once(&cluster, ALICE, id);
    }
    let ran = axbatch(&cluster, &script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(cluster.wait_over(ran.out.trim())["state"], "SUCCEEDED");
    wait_for_the_end_of_all(&cluster);
    // Whatever ran, when there was no room to write it down too, is in the accounts.
    for name in names_in(&cluster.home(ALICE)) {
        if let Some(id) = name.strip_prefix("book.") {
            assert_at_most_once(&cluster, ALICE, id);
        }
    }
    assert_nothing_left(&cluster);
}

#[test]
fn room_that_returns_is_used_without_a_restart() {
    if !as_root() {
        return;
    }
    let (cluster, disk) = world("var/lib/ax", "size=48m,mode=700");
    let one = runs(&cluster, "go1", 5);
    let keyed: Vec<Keyed> = (0..50).map(|n| Keyed::new(&cluster, ALICE, n, &[], &honest("true"))).collect();
    wait_for("the first refusal", || {
        disk.fill();
        keyed.iter().any(|keyed| matches!(keyed.ask(), Asked::Refused(503, why) if why.contains("later")))
    });
    disk.fill();
    tell(&cluster, "go1");
    wait_for("the end of the one", || supervisor_of(&cluster, &one).is_none());
    disk.clear();
    assert_eq!(cluster.wait_over(&one)["exit_code"], 5);
    // Whatever became of the first question, the second gives the same job, once.
    let ids: Vec<String> = keyed.iter().map(Keyed::insist).collect();
    for id in &ids {
        assert_eq!(cluster.wait_over(id)["state"], "SUCCEEDED");
        assert_at_most_once(&cluster, ALICE, id);
    }
    assert_nothing_left(&cluster);
}

#[test]
fn the_spool_is_full() {
    if !as_root() {
        return;
    }
    let (mut cluster, disk) = world("var/spool/ax", "size=4m,mode=755");
    let (one, two) = (runs(&cluster, "go1", 5), runs(&cluster, "go2", 6));
    let script = cluster.write(ALICE, "late.sh", honest("true"));
    disk.fill();
    tell(&cluster, "go1");
    assert_eq!(cluster.wait_over(&one)["exit_code"], 5);
    cluster.kill();
    let ran = axbatch(&cluster, &script);
    assert!(ran.code == 75 && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.err.contains("no room in the spool") && ran.err.contains("try again later"), "{ran:?}");
    tell(&cluster, "go2");
    wait_for("the end of the other", || supervisor_of(&cluster, &two).is_none());
    // A start needs new marks there: it says so, and works once it can.
    cluster.spawn();
    cluster.wait_daemon_ended();
    let said = cluster.daemon_output();
    assert!(said.lines().count() == 1 && said.contains("No space left"), "{said}");
    disk.clear();
    cluster.start();
    assert_eq!(cluster.wait_over(&two)["exit_code"], 6);
    for id in [&one, &two] {
        assert_at_most_once(&cluster, ALICE, id);
    }
    assert_nothing_left(&cluster);
}

#[test]
fn the_run_directory_is_full() {
    if !as_root() {
        return;
    }
    let (mut cluster, disk) = world("run/ax", "size=4m,mode=755");
    let (one, two) = (runs(&cluster, "go1", 5), runs(&cluster, "go2", 6));
    disk.fill();
    // Its record can't be written, but told.
    tell(&cluster, "go1");
    assert_eq!(cluster.wait_over(&one)["exit_code"], 5);
    wait_for("the end of its supervisor", || supervisor_of(&cluster, &one).is_none());
    wait_for("its traces to go", || !cluster.root.join(format!("run/ax/leases/{one}.1")).exists());
    disk.fill();
    // What is accepted now waits: it is not the job's fault.
    let waits = cluster.submit(ALICE, &[], &honest("true"));
    wait_for("a vain start", || cluster.log().contains("not_started"));
    assert!(["READY", "PENDING", "STARTING"].contains(&cluster.state(&waits).as_str()));
    // Nobody is there to be told: the supervisor waits with it.
    cluster.kill();
    tell(&cluster, "go2");
    cluster.start();
    assert_eq!(cluster.wait_over(&two)["exit_code"], 6);
    disk.clear();
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED");
    for id in [&one, &two, &waits] {
        assert_at_most_once(&cluster, ALICE, id);
    }
    assert_nothing_left(&cluster);
}

#[test]
fn a_node_that_can_start_nothing_rests_and_says_why() {
    if !as_root() {
        return;
    }
    let (cluster, disk) = world("run/ax", "size=4m,mode=755");
    let node = || {
        let nodes = cluster.ok(ALICE, "ax", &["node", "list", "--json"]);
        serde_json::from_str::<Value>(&nodes).unwrap()[0].clone()
    };
    disk.fill();
    let submit = |user, count| (0..count).map(|_| cluster.submit(user, &[], &honest("true"))).collect();
    let ids: Vec<String> = submit(ALICE, 9);
    let reason = || node()["reason"].as_str().unwrap_or_default().to_owned();
    wait_for("one user's jobs to be held back", || reason().contains("for one user, the last"));
    assert_eq!(node()["state"], "up", "nobody alone says that it is not");
    let others: Vec<String> = submit(BOB, 3);
    wait_for("the node to rest", || node()["state"] == "failing");
    let reason = reason();
    assert!(reason.contains("starts came to nothing") && reason.contains("No space left"), "{reason}");
    wait_for("a job to be told", || {
        let told = cluster.ok(ALICE, "ax", &["why", &ids[8]]);
        told.split_whitespace().collect::<Vec<_>>().join(" ").contains("starts came to nothing")
    });
    // A look at each of twelve jobs in each of ten seconds would be more than a hundred.
    std::thread::sleep(Duration::from_secs(10));
    let starts = cluster.log().matches("not_started").count();
    assert!(starts < 30, "{starts}");
    disk.clear();
    for (user, id) in ids.iter().map(|id| (ALICE, id)).chain(others.iter().map(|id| (BOB, id))) {
        assert_eq!(cluster.wait_over(id)["state"], "SUCCEEDED");
        assert_at_most_once(&cluster, user, id);
    }
    assert_eq!(node()["state"], "up");
    assert_nothing_left(&cluster);
}

/// Jobs that the tests have no id of, too.
fn wait_for_the_end_of_all(cluster: &Cluster) {
    wait_for("the end of all jobs", || {
        cluster.run(ALICE, "ax", &["queue", "--noheader"]).out.trim().is_empty()
    });
}
