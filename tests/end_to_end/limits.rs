//! Limits on what one user, or a queue, holds at once, with real processes: who waits for one is told which and who is in
//! the way, is advised what would fit under it, and starts when somebody ends.

use crate::cluster::{ALICE, BOB, Cluster, ROOT};

const UNTIL_GO: &str = "#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\n";

fn configured(policy: &str, queue: &str) -> String {
    format!(
        "resources: {{cpus: 4, ram: 1000M}}\npolicy: {{{policy}}}\nqueues:\n  - {{name: default{queue}}}\n"
    )
}

#[test]
fn a_user_runs_no_more_jobs_than_they_may_and_the_next_starts_when_one_ends() {
    let mut cluster = Cluster::with_config(&configured("max_running_per_user: 1", ""));
    let words = ["--cpus-per-task=1", "--ram=10M", "--time=5"];
    let first = cluster.submit(ALICE, &words, UNTIL_GO);
    cluster.wait_state(&first, &["RUNNING"]);
    let second = cluster.submit(ALICE, &words, "#!/bin/sh\n");
    let other = cluster.submit(BOB, &words, "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&other)["state"], "SUCCEEDED", "others have their own limit");
    for _ in 0..2 {
        let job = cluster.job(&second);
        let told = "daemon runs 1 of at most 1 job (policy.max_running_per_user): ax-";
        assert!(job["reason"].as_str().unwrap().starts_with(told), "{job}");
        assert!(job["expected_basis"].as_str().unwrap().contains("its owner may start another"), "{job}");
        cluster.kill();
        cluster.start();
        cluster.wait_state(&first, &["RUNNING"]);
    }
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&second)["state"], "SUCCEEDED");
}

#[test]
fn a_limit_on_cpus_is_told_with_who_is_in_the_way_and_a_reload_changes_it() {
    let cluster = Cluster::with_config(&configured("max_cpus_per_user: 3", ", max_cpus: 4"));
    let words = |cpus: &'static str| [cpus, "--ram=10M", "--time=5"];
    let first = cluster.submit(ALICE, &words("--cpus-per-task=2"), UNTIL_GO);
    cluster.wait_state(&first, &["RUNNING"]);
    let waits = cluster.submit(ALICE, &words("--cpus-per-task=2"), "#!/bin/sh\n");
    let why = cluster.run(ALICE, "ax", &["why", &waits]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = format!(
        "user daemon holds 2 of at most 3 CPUs (policy.max_cpus_per_user): {first}, and it asks for 2 CPUs"
    );
    assert!(why.contains(&told) && why.contains("advice: with --cpus-per-task 1 at once"), "{told}: {why}");
    // It starts when the first ends: five minutes after that began, as both were told.
    let next = cluster.submit(ALICE, &words("--cpus-per-task=2"), "#!/bin/sh\n");
    let (of_first, told) = (cluster.job(&first), cluster.job(&waits));
    assert_eq!(
        told["expected_basis"],
        format!("{first} ends then, which counts in the same limit"),
        "{told}"
    );
    let of_next = cluster.job(&next);
    let at = |job: &serde_json::Value, key: &str| {
        let at: chrono::DateTime<chrono::Utc> = job[key].as_str().unwrap().parse().unwrap();
        at.timestamp_millis()
    };
    assert_eq!(at(&told, "expected_start"), at(&of_first, "started_at") + 300_000, "{told} {of_first}");
    assert_eq!(at(&of_next, "expected_start"), at(&told, "expected_start") + 300_000, "{of_next}");
    let why = cluster.run(ALICE, "ax", &["why", &waits]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("which counts in the same limit"), "{why}");
    cluster.ok(ALICE, "ax", &["cancel", &next]);
    let script = cluster.write(ALICE, "wide.sh", "#!/bin/sh\n");
    let ran = cluster.run(ALICE, "axbatch", &["--cpus-per-task=4", "--ram=10M", script.to_str().unwrap()]);
    assert!(
        ran.code == 1 && ran.err.contains("may hold at most 3 CPUs at once (policy.max_cpus_per_user)"),
        "{ran:?}"
    );
    cluster.configure(&configured("max_cpus_per_user: 4", ", max_cpus: 3"));
    cluster.ok(ROOT, "ax", &["reload"]);
    let job = cluster.job(&waits);
    assert!(
        job["reason"].as_str().unwrap().contains("holds 2 of at most 3 CPUs (queues[].max_cpus)"),
        "{job}"
    );
    cluster.configure(&configured("max_cpus_per_user: 4", ""));
    cluster.ok(ROOT, "ax", &["reload"]);
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED");
    cluster.write(ALICE, "go", "");
    cluster.wait_over(&first);
}
