//! Jobs that keep books: each start of such a job writes down, by epoch, when
//! it began and ended, and holds a lock as long as any process of it lives, so
//! that two starts at once, or one epoch twice, can't stay unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use crate::cluster::{Cluster, ROOT, User, wait_for};

/// As many CPUs on every machine: jobs share what there is.
pub(crate) const FOUR_CPUS: &str = "resources: {cpus: 4}\n";

/// A script that keeps books around `body`. Written to by every start, read by nobody but the test.
pub(crate) fn honest(body: &str) -> String {
    format!(
        "#!/bin/sh\n\
         exec 9>>\"$HOME/lock.$AX_JOB_ID\"\n\
         flock -n 9 || {{ echo \"$AX_LEASE_EPOCH overlap\" >>\"$HOME/book.$AX_JOB_ID\"; exit 99; }}\n\
         echo \"$AX_LEASE_EPOCH begin $$\" >>\"$HOME/book.$AX_JOB_ID\"\n\
         {body}\n\
         echo \"$AX_LEASE_EPOCH end $$\" >>\"$HOME/book.$AX_JOB_ID\"\n"
    )
}

/// Waits for a file of the user's home without ending by itself.
pub(crate) fn until(name: &str) -> String {
    format!("while [ ! -e \"$HOME/{name}\" ]; do sleep 0.05; done")
}

/// What a job wrote down: its epochs in order, and how often each ended.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) begun: Vec<u64>,
    pub(crate) pids: Vec<u32>,
    pub(crate) ended: Vec<u64>,
    pub(crate) overlaps: usize,
}

/// Reads a job's book.
pub(crate) fn book(cluster: &Cluster, user: User, id: &str) -> Book {
    let mut book = Book::default();
    for line in cluster.read(user, &format!("book.{id}")).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let epoch = words[0].parse().unwrap();
        match words[1] {
            "begin" => {
                book.begun.push(epoch);
                book.pids.push(words[2].parse().unwrap());
            }
            "end" => book.ended.push(epoch),
            _ => book.overlaps += 1,
        }
    }
    book
}

/// Waits until a job's script runs for the `nth` time; its process.
pub(crate) fn wait_begun(cluster: &Cluster, user: User, id: &str, nth: usize) -> u32 {
    wait_for(&format!("start {nth} of {id}"), || book(cluster, user, id).begun.len() >= nth);
    book(cluster, user, id).pids[nth - 1]
}

/// Promises 1 and 2 about one job that is over: never two at once, no epoch twice, epochs only grow, and its
/// accounts name each start once.
pub(crate) fn assert_at_most_once(cluster: &Cluster, user: User, id: &str) {
    let book = book(cluster, user, id);
    let log =
        || cluster.log().lines().filter(|l| l.contains(id)).map(|l| format!("{l}\n")).collect::<String>();
    assert_eq!(book.overlaps, 0, "{id} ran twice at once: {book:?}\n{}", log());
    assert!(book.begun.is_sorted_by(|a, b| a < b), "{id}: epochs must grow: {book:?}\n{}", log());
    let job = cluster.job(id);
    let epochs: Vec<u64> = attempts(&job).iter().map(|a| a["epoch"].as_u64().unwrap()).collect();
    assert!(epochs.is_sorted_by(|a, b| a < b), "{id}: {job:#}");
    let known: BTreeSet<u64> = epochs.iter().copied().collect();
    let unknown: Vec<&u64> = book.begun.iter().filter(|epoch| !known.contains(epoch)).collect();
    assert!(unknown.is_empty(), "{id} ran under epochs that nobody wrote down: {unknown:?} {job:#}");
    for attempt in attempts(&job) {
        assert!(!attempt["ended_at"].is_null(), "{id}: an attempt has no end: {job:#}");
        let succeeded = attempt["state"] == "SUCCEEDED";
        let epoch = attempt["epoch"].as_u64().unwrap();
        let ends = book.ended.iter().filter(|e| **e == epoch).count();
        assert!(ends <= 1 && (!succeeded || ends == 1), "{id}: {book:?} {job:#}");
    }
}

/// A job's attempts.
pub(crate) fn attempts(job: &Value) -> &Vec<Value> {
    job["attempts"].as_array().unwrap()
}

/// Promises 3 and 6, in a world of four CPUs when all jobs are over: nothing runs, no trace is left on the node, all is given back, and
/// the database is sound.
pub(crate) fn assert_nothing_left(cluster: &Cluster) {
    wait_for("the end of all processes of jobs", || cluster.job_processes().is_empty());
    for folder in ["leases", "attempts", "jobs"] {
        let folder = cluster.root.join("run/ax").join(folder);
        let entries = || fs::read_dir(&folder).unwrap().flatten().map(|e| e.file_name()).collect::<Vec<_>>();
        let what = format!("{} to be empty, not {:?}", folder.display(), entries());
        wait_for(&what, || entries().is_empty());
    }
    wait_for("the groups of jobs to be gone", || groups(cluster).is_empty());
    let id = cluster.submit(ROOT, &["--cpus-per-task=4", "--time=5"], "#!/bin/sh\ntrue\n");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED", "all is given back: {}", cluster.log());
    let check = cluster.run(ROOT, "axd", &["--root", cluster.root.to_str().unwrap(), "--db-check"]);
    assert!(check.code == 0 && check.out.starts_with("good"), "{check:?}");
    assert_accounts_once(cluster);
}

/// Every job stands in the accounts once.
fn assert_accounts_once(cluster: &Cluster) {
    let acct = cluster.run(ROOT, "ax", &["acct", "--json"]);
    assert_eq!(acct.code, 0, "{acct:?}");
    let rows: Value = serde_json::from_str(&acct.out).unwrap();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows.as_array().unwrap() {
        *seen.entry(row["id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
}

/// Control groups of jobs of this world that are there.
fn groups(cluster: &Cluster) -> Vec<String> {
    let paths = ax_core::paths::Paths::under(&cluster.root);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|l| l.split(' ').nth(1));
    let tops = points.map(|point| std::path::Path::new(point).join(paths.cgroup_name()));
    tops.flat_map(|top| fs::read_dir(top).into_iter().flatten().flatten())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.path().to_string_lossy().into_owned())
        .collect()
}
