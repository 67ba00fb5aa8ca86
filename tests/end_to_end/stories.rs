//! A stream of urgent jobs on a busy machine: each starts at once, an old job of low priority starts when it has waited for
//! the promised bound, and `ax why` tells both stories right.

use chrono::{DateTime, Duration, Utc};
use serde_json::Value;

use crate::cluster::{ALICE, BOB, Cluster, wait_for};

/// Seconds.
const BOUND: i64 = 4;

fn time(job: &Value, field: &str) -> DateTime<Utc> {
    job[field].as_str().unwrap_or_else(|| panic!("{field} of {job}")).parse().unwrap()
}

fn why(cluster: &Cluster, job: &str) -> String {
    cluster.run(BOB, "ax", &["why", job]).out.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn urgent_jobs_start_at_once_and_an_old_one_within_the_bound_and_both_are_told_why() {
    let config = format!(
        "resources: {{cpus: 2, ram: 1000M}}\npolicy: {{preemption: true, kill_wait: 1, starvation_bound: {BOUND}}}\n"
    );
    let cluster = Cluster::with_config(&config);
    let whole = ["--cpus-per-task=2", "--ram=100M", "--output=/dev/null", "--time=1"];
    let submit = |user, more: &[&str], script: &str| cluster.submit(user, &[&whole, more].concat(), script);
    let busy = submit(ALICE, &["--priority=10", "--preempt=cancel"], "#!/bin/sh\nsleep 1000\n");
    cluster.wait_state(&busy, &["RUNNING"]);
    // The machine is full until somebody makes room.
    let urgent = submit(BOB, &["--priority=90"], "#!/bin/sh\nsleep 0.3\n");
    assert_eq!(cluster.wait_over(&urgent)["state"], "SUCCEEDED");
    assert_eq!(cluster.wait_over(&busy)["state"], "CANCELLED");
    let told = why(&cluster, &urgent);
    assert!(
        told.contains("in queue default with priority 90; 1 job was ended to make room for it"),
        "{told}"
    );
    // From now on some urgent jobs always wait.
    let old = submit(ALICE, &["--priority=0", "--preempt=never", "--hold"], "#!/bin/sh\n");
    let next = || submit(BOB, &["--priority=90", "--preempt=never"], "#!/bin/sh\nsleep 0.3\n");
    let mut stream: Vec<String> = (0..3).map(|_| next()).collect();
    cluster.ok(ALICE, "ax", &["release", &old]);
    let waiting = why(&cluster, &old);
    assert!(
        waiting.contains("before it, the first is") && waiting.contains("expected to start"),
        "{waiting}"
    );
    wait_for("the old job", || {
        let waits =
            stream.iter().filter(|id| ["READY", "PENDING"].contains(&cluster.state(id).as_str())).count();
        stream.extend((waits..2).map(|_| next()));
        cluster.job(&old)["started_at"].is_string()
    });
    let old_job = cluster.wait_over(&old);
    assert_eq!(old_job["state"], "SUCCEEDED", "{old_job}");
    let came = time(&old_job, "submitted_at");
    let (started, due) = (time(&old_job, "started_at"), came + Duration::seconds(BOUND));
    let stream: Vec<Value> = stream.iter().map(|id| cluster.wait_over(id)).collect();
    // Who came after it and is more urgent passes it, until it has waited for the bound; then nobody does.
    let passed = |job: &&Value| time(job, "submitted_at") > came && time(job, "started_at") < started;
    assert!(stream.iter().filter(passed).count() > 2, "{stream:?}");
    for job in stream.iter().filter(passed) {
        assert!(time(job, "submitted_at") < due, "{job} came after {due} and passed {old_job}");
    }
    let told = why(&cluster, &old);
    assert!(told.contains("with priority 0, having come "), "{told}");
    assert!(told.contains("no less than policy.starvation_bound (4s)"), "{told}");
}

/// The rescan is far away: whatever happens does so because something else happened. The machine is full each time, and
/// more wait before whom each urgent job comes.
#[test]
fn each_urgent_job_of_a_stream_starts_before_anything_else_and_waits_for_nothing_but_the_room_made_for_it() {
    const INTERVAL: i64 = 3600;
    let cluster = Cluster::with_config(&format!(
        "resources: {{cpus: 2, ram: 1000M}}\n\
         policy: {{preemption: true, kill_wait: 30, scheduling_interval: {INTERVAL}s, starvation_bound: 12h, \
         max_preemptions: 100}}\n"
    ));
    let whole = ["--cpus-per-task=2", "--ram=100M", "--output=/dev/null", "--time=10"];
    let submit = |user, more: &[&str], script: &str| cluster.submit(user, &[&whole, more].concat(), script);
    let low: Vec<String> = (0..4)
        .map(|_| submit(ALICE, &["--priority=10", "--preempt=requeue"], "#!/bin/sh\nexec sleep 1000\n"))
        .collect();
    let mut urgent = Vec::new();
    for _ in 0..10 {
        // Busy again.
        wait_for("a job of low priority", || low.iter().any(|id| cluster.state(id) == "RUNNING"));
        let id = submit(BOB, &["--priority=90", "--preempt=never"], "#!/bin/sh\n");
        let job = cluster.wait_over(&id);
        assert_eq!(job["state"], "SUCCEEDED", "{job}");
        urgent.push(job);
    }
    let attempts: Vec<Value> = low
        .iter()
        .flat_map(|id| cluster.job(id)["attempts"].as_array().unwrap().clone())
        .filter(|attempt| attempt["started_at"].is_string())
        .collect();
    for job in &urgent {
        let (came, started) = (time(job, "submitted_at"), time(job, "started_at"));
        let passed = attempts.iter().find(|other| (came..started).contains(&time(other, "started_at")));
        assert!(passed.is_none(), "{passed:?} was started before {job}");
        assert!(started - came < Duration::seconds(INTERVAL / 10), "{job}");
        let told = why(&cluster, job["id"].as_str().unwrap());
        assert!(told.contains("1 job was ended to make room for it"), "{told}");
    }
    let ended = attempts.iter().filter(|attempt| attempt["ended_at"].is_string()).count();
    assert_eq!(ended, urgent.len(), "one for each");
    for id in &low {
        cluster.ok(ALICE, "ax", &["cancel", id]);
    }
}
