//! What leaves the accounts when its time has come, and what users notice of it.

use rusqlite::Connection;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, wait_for};
use crate::keyed::Keyed;

/// As if the finished jobs had ended, and all had been submitted, so many days ago.
fn age(cluster: &Cluster, days: u32) {
    let database = Connection::open(cluster.root.join("var/lib/ax/ax.db")).unwrap();
    let by = i64::from(days) * 86_400_000;
    let earlier = |time: &str| format!("strftime('%Y-%m-%dT%H:%M:%fZ', {time}, '-{days} days')");
    let core = format!(
        "json_set(core, '$.submitted_at', {}, '$.ended_at', {})",
        earlier("core ->> '$.submitted_at'"),
        earlier("core ->> '$.ended_at'")
    );
    database
        .execute_batch(&format!(
            "UPDATE jobs SET core = {core}, ended_at = ended_at - {by} WHERE ended_at IS NOT NULL;
             UPDATE jobs SET submitted_at = submitted_at - {by};"
        ))
        .unwrap();
}

fn is_whole(cluster: &Cluster) {
    let check = cluster.run(ROOT, "axctl", &["db", "check"]);
    assert_eq!(check.code, 0, "{check:?}");
}

#[test]
fn finished_jobs_leave_the_accounts_after_accounting_keep_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let keyed = Keyed::new(&cluster, ALICE, 7, &["--ram=32M"], "#!/bin/sh\nexit 0\n");
    let first = keyed.insist();
    let waits = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\nexit 0\n");
    let last = cluster.submit(ALICE, &[], "#!/bin/sh\nexit 3\n");
    for job in [&first, &last] {
        cluster.wait_over(job);
    }
    cluster.stop();
    age(&cluster, 2);
    is_whole(&cluster);

    cluster.start();
    assert_eq!(cluster.state(&first), "SUCCEEDED", "nobody wants it to go");
    // As an administrator would: the file, and a reload.
    cluster.configure("accounting: {keep: 1d}\n");
    assert_eq!(cluster.run(ROOT, "ax", &["reload"]).code, 0);
    wait_for("the old jobs to go", || cluster.log().contains("pruned jobs=2"));
    for job in [&first, &last] {
        let asked = cluster.run(ALICE, "ax", &["status", job]);
        assert_eq!(asked.code, 1, "{asked:?}");
        let said = format!("there is no job '{job}'; the accounts keep finished jobs for 1-00:00:00");
        assert!(asked.err.contains(&said), "{asked:?}");
    }
    assert_eq!(cluster.run(ALICE, "ax", &["acct", "--noheader"]).out, "");
    assert_eq!(cluster.state(&waits), "PENDING");
    is_whole(&cluster);
    assert_eq!(keyed.insist(), first, "its key is remembered longer than the job");

    // The newest numbers were among those that went.
    cluster.stop();
    cluster.start();
    let next = cluster.submit(ALICE, &[], "#!/bin/sh\nexit 0\n");
    assert!(next.ends_with("-0004"), "{next}");
    assert_eq!(cluster.wait_over(&next)["state"], "SUCCEEDED");
    assert_eq!(cluster.run(ALICE, "ax", &["release", &waits]).code, 0);
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED", "its script is still there");
    is_whole(&cluster);
}
