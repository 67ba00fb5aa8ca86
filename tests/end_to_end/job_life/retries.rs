//! What follows an attempt that failed or was lost: retries with their own
//! output, no retries where none are wanted, questions where nobody can know.

use crate::cluster::{ALICE, Cluster, as_root, signal, supervisor_of, wait_for};

#[test]
fn a_failed_job_is_retried_after_a_growing_pause_into_files_of_its_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script =
        "#!/bin/sh\necho \"attempt $AX_ATTEMPT restart $AX_RESTART_COUNT epoch $AX_LEASE_EPOCH\"\nexit 3\n";
    let options = ["--retry=2", "--retry-delay=1s", "--retry-on=3", "-o", "log.txt"];
    let id = cluster.submit(ALICE, &options, script);
    let waiting = cluster.wait_state(&id, &["PENDING"]);
    let reason = waiting["reason"].as_str().unwrap();
    assert!(reason.starts_with("retry 1 of 2 in 1s "), "{reason}");
    assert!(waiting["expected_start"].is_string(), "{waiting:#}");
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"FAILED".into(), &3.into()), "{job:#}");
    let (first, second, third) = (
        cluster.read(ALICE, "log.txt"),
        cluster.read(ALICE, "log.r1.txt"),
        cluster.read(ALICE, "log.r2.txt"),
    );
    assert!(first.starts_with("attempt 1 restart 0 epoch "), "{first:?}");
    assert!(second.starts_with("attempt 2 restart 1 epoch "), "{second:?}");
    assert!(third.starts_with("attempt 3 restart 2 epoch "), "{third:?}");
    let attempts = job["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3);
    let epochs: Vec<u64> = attempts.iter().map(|a| a["epoch"].as_u64().unwrap()).collect();
    assert!(epochs.is_sorted() && epochs[0] < epochs[2], "the fencing token grows: {epochs:?}");
    let pause = |before: usize, after: usize| {
        let time =
            |text: &serde_json::Value| text.as_str().unwrap().parse::<ax_core::time::WallTime>().unwrap().0;
        time(&attempts[after]["started_at"]) - time(&attempts[before]["ended_at"])
    };
    assert!(pause(0, 1) >= 950 && pause(1, 2) >= 1950, "{} {}", pause(0, 1), pause(1, 2));
    assert!(job["stdout"].as_str().unwrap().ends_with("/log.r2.txt"));
    let all = cluster.ok(ALICE, "ax", &["logs", "--attempt=2", &id]);
    assert_eq!(all, second);
    cluster.nothing_left();
}

#[test]
fn only_the_named_codes_are_retried() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job =
        cluster.ends(ALICE, &["--retry=2", "--retry-delay=0", "--retry-on=75,3-5"], "#!/bin/sh\nexit 2\n");
    assert_eq!((&job["state"], &job["attempt"]), (&"FAILED".into(), &1.into()), "{job:#}");
    let script = "#!/bin/sh\n[ \"$AX_ATTEMPT\" = 2 ] || exit 4\n";
    let job = cluster.ends(ALICE, &["--retry=2", "--retry-delay=0", "--retry-on=75,3-5"], script);
    assert_eq!((&job["state"], &job["attempt"]), (&"SUCCEEDED".into(), &2.into()), "{job:#}");
}

/// Ends a job's supervisor with force as soon as its script runs.
fn lose_supervisor(cluster: &Cluster, id: &str, mark: &str) {
    wait_for("the script", || !cluster.read(ALICE, mark).is_empty());
    cluster.wait_state(id, &["RUNNING"]);
    signal(supervisor_of(cluster, id).unwrap(), "KILL");
}

#[test]
fn a_job_that_lost_its_supervisor_starts_again_by_itself() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\necho $$ > pid-$AX_ATTEMPT\n[ $AX_ATTEMPT = 2 ] || sleep 600\n";
    let id = cluster.submit(ALICE, &[], script);
    lose_supervisor(&cluster, &id, "pid-1");
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"SUCCEEDED".into(), &2.into()), "{job:#}");
    assert_eq!(job["attempts"][0]["state"], "LEASE_LOST");
    cluster.nothing_left();
}

#[test]
fn a_job_that_may_not_be_requeued_is_over_with_its_node() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--no-requeue", "--retry=2"], "#!/bin/sh\necho up > up\nsleep 600\n");
    let status = cluster.ok(ALICE, "ax", &["status", &id]);
    assert!(status.contains("not started again if lost, tried again up to 2 times if it fails"), "{status}");
    lose_supervisor(&cluster, &id, "up");
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"NODE_FAIL".into(), &1.into()), "{job:#}");
    assert!(job["reason"].as_str().unwrap().contains("its supervisor died"), "{job:#}");
    cluster.nothing_left();
}

#[test]
fn a_job_that_is_not_idempotent_asks_a_person_and_does_what_they_say() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4}\n");
    for (answer, state, attempts) in
        [("succeeded", "SUCCEEDED", 1), ("failed", "FAILED", 1), ("rerun", "SUCCEEDED", 2)]
    {
        let script = format!("#!/bin/sh\necho up > {answer}-$AX_ATTEMPT\n[ $AX_ATTEMPT = 2 ] || sleep 600\n");
        let id = cluster.submit(ALICE, &["--idempotent=no"], &script);
        lose_supervisor(&cluster, &id, &format!("{answer}-1"));
        let job = cluster.wait_state(&id, &["FAILED_UNKNOWN_STATE"]);
        let reason = job["reason"].as_str().unwrap();
        assert!(reason.contains("ax resolve"), "it says what to do: {reason}");
        for all in [&[][..], &["--all"]] {
            let queue = cluster.ok(ALICE, "ax", &[&["queue", "--noheader", "-o", "id"], all].concat());
            assert_eq!(queue.lines().filter(|line| line.trim() == id).count(), 1, "not forgotten: {queue}");
        }
        let ended = job["ended_at"].clone();
        let line = cluster.refused(77, crate::cluster::BOB, "ax", &["resolve", &id, answer]);
        assert!(line.contains("belongs to daemon"), "{line}");
        cluster.ok(ALICE, "ax", &["resolve", &id, answer]);
        let job = cluster.wait_state(&id, &["SUCCEEDED", "FAILED"]);
        assert_eq!((&job["state"], &job["attempt"]), (&state.into(), &attempts.into()), "{job:#}");
        // The time until somebody answered is no running time.
        assert_eq!(job["ended_at"] == ended, answer != "rerun", "{job:#}");
        let line = cluster.refused(1, ALICE, "ax", &["resolve", &id, "failed"]);
        assert!(line.contains(&id) && line.contains(state), "{line}");
    }
    cluster.nothing_left();
}

#[test]
fn a_question_outlives_the_daemon() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config("queues: [{name: default}, {name: q}]\n");
    let id = cluster.submit(ALICE, &["--idempotent=no", "-q", "q"], "#!/bin/sh\necho up > up\nsleep 600\n");
    lose_supervisor(&cluster, &id, "up");
    cluster.wait_state(&id, &["FAILED_UNKNOWN_STATE"]);
    // It may be told to run again, so its queue stays.
    cluster.configure("queues: [{name: default}]\n");
    let line = cluster.refused(78, crate::cluster::ROOT, "ax", &["reload"]);
    assert!(line.contains(&id), "{line}");
    cluster.configure("queues: [{name: default}, {name: q}]\n");
    cluster.stop();
    cluster.start();
    assert_eq!(cluster.state(&id), "FAILED_UNKNOWN_STATE");
    cluster.ok(ALICE, "ax", &["resolve", &id, "succeeded"]);
    assert_eq!(cluster.state(&id), "SUCCEEDED");
}
