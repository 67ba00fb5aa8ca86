//! Whatever a person or ax does to a job is told twice, with who and why: to whoever asks `ax why`, and in the log.

use serde_json::Value;

use crate::books::{FOUR_CPUS, honest, until, wait_begun};
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, signal, supervisor_of, wait_for};
use crate::survival::{another_boot, power_cut};

const WAITS: &str = "#!/bin/sh\nsleep 600\n";

/// Who is named, and words of what was done and why.
type Told<'a> = (&'a str, &'a str);

fn story(cluster: &Cluster, id: &str) -> Vec<Value> {
    serde_json::from_str(&cluster.ok(BOB, "ax", &["why", "--json", id])).unwrap()
}

/// These are in the job's story, in this order, and each is a line of the log.
#[track_caller]
fn assert_told(cluster: &Cluster, id: &str, expected: &[Told<'_>]) {
    let story = story(cluster, id);
    let log = cluster.log();
    let of_job: Vec<&str> = log.lines().filter(|line| line.contains(&format!("job={id} "))).collect();
    let (mut decisions, mut lines) = (story.iter(), of_job.iter());
    for (who, words) in expected {
        let told = decisions.find(|told| {
            let said = format!("{}: {}", told["what"].as_str().unwrap(), told["why"].as_str().unwrap());
            told["actor"] == *who && said.contains(words)
        });
        assert!(told.is_some(), "ax why, {who}: {words}: {story:#?}");
        let by = [format!(" by={who} "), format!(" by=\"{who}\" ")];
        let logged = lines.find(|line| by.iter().any(|by| line.contains(by)) && line.contains(words));
        assert!(logged.is_some(), "the log, {who}: {words}: {of_job:#?}");
    }
    // And as people read it.
    let text = cluster.ok(BOB, "ax", &["why", id]).split_whitespace().collect::<Vec<_>>().join(" ");
    for (who, words) in expected {
        assert!(text.contains(who) && text.contains(words), "{who}: {words}: {text}");
    }
}

#[test]
fn what_people_do_to_a_job_is_told_with_who_and_why() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(FOUR_CPUS);
    let id = cluster.submit(ALICE, &["--hold"], WAITS);
    cluster.ok(ALICE, "ax", &["release", &id, "--why", "the data is there"]);
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.ok(ALICE, "ax", &["cancel", "--signal", "URG", &id, "--why", "to see"]);
    cluster.ok(ROOT, "ax", &["cancel", &id, "--why", "it makes noise"]);
    cluster.wait_over(&id);
    assert_told(
        &cluster,
        &id,
        &[
            ("daemon", "submitted"),
            ("daemon", "the data is there"),
            ("ax", "RUNNING"),
            ("daemon", "to see"),
            ("root", "it makes noise"),
            ("ax", "CANCELLED"),
        ],
    );
    let id = cluster.submit(ALICE, &["--begin=now+1h"], WAITS);
    cluster.ok(ALICE, "ax", &["update", &id, "--priority=7"]);
    cluster.ok(ROOT, "ax", &["hold", &id, "--why", "for the audit"]);
    cluster.ok(ALICE, "ax", &["cancel", &id, "--why", "no more need"]);
    assert_told(
        &cluster,
        &id,
        &[
            ("daemon", "submitted"),
            ("daemon", "priority"),
            ("root", "for the audit"),
            ("daemon", "no more need"),
        ],
    );
}

#[test]
fn what_a_job_says_and_what_is_said_of_one_that_was_lost_is_told_with_who_and_why() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(FOUR_CPUS);
    let script = format!("#!/bin/sh\n{} checkpointed && touch safe\nsleep 600\n", cluster.program("ax"));
    let id = cluster.submit(ALICE, &["--idempotent=no"], &script);
    wait_for("its word", || cluster.home(ALICE).join("safe").exists());
    signal(supervisor_of(&cluster, &id).unwrap(), "KILL");
    assert_eq!(cluster.wait_over(&id)["state"], "FAILED_UNKNOWN_STATE");
    cluster.ok(ALICE, "ax", &["resolve", &id, "failed", "--why", "it wrote half"]);
    let told = [
        ("daemon", "submitted"),
        ("daemon", "told that its work so far is safe"),
        ("ax", "FAILED_UNKNOWN_STATE"),
        ("daemon", "it wrote half"),
    ];
    assert_told(&cluster, &id, &told);
}

#[test]
fn what_ax_does_to_a_job_is_told_with_why() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(
        "resources: {cpus: 2}\npolicy: {preemption: true, kill_wait: 1, starvation_bound: 1h}\n",
    );
    let again = "#!/bin/sh\n[ $AX_ATTEMPT = 1 ] && exit 7; exit 0\n";
    let retried = cluster.submit(ALICE, &["--retry=1", "--retry-on=7", "--retry-delay=1s"], again);
    cluster.wait_over(&retried);
    assert_told(
        &cluster,
        &retried,
        &[("ax", "STARTING"), ("ax", "RUNNING"), ("ax", "exit code 7"), ("ax", "SUCCEEDED")],
    );
    let late = cluster.submit(ALICE, &["--time=0:0:1"], WAITS);
    assert_eq!(cluster.wait_over(&late)["state"], "TIMEOUT");
    assert_told(&cluster, &late, &[("ax", "RUNNING"), ("ax", "TIMEOUT")]);
    let failed = cluster.submit(ALICE, &[], "#!/bin/sh\nexit 3\n");
    cluster.wait_over(&failed);
    assert_told(&cluster, &failed, &[("ax", "exit code 3")]);

    let lost =
        cluster.submit(ALICE, &[], &honest(&format!("[ $AX_ATTEMPT = 1 ] && {}; true", until("never"))));
    wait_begun(&cluster, ALICE, &lost, 1);
    cluster.wait_state(&lost, &["RUNNING"]);
    signal(supervisor_of(&cluster, &lost).unwrap(), "KILL");
    assert_eq!(cluster.wait_over(&lost)["state"], "SUCCEEDED");
    assert_told(&cluster, &lost, &[("ax", "RUNNING"), ("ax", "supervisor"), ("ax", "SUCCEEDED")]);

    let evicted = cluster.submit(ALICE, &["-c", "2", "--priority=10", "--preempt=requeue"], WAITS);
    cluster.wait_state(&evicted, &["RUNNING"]);
    let urgent = cluster.submit(BOB, &["-c", "2", "--priority=90"], "#!/bin/sh\n");
    cluster.wait_over(&urgent);
    assert_told(&cluster, &evicted, &[("ax", "RUNNING"), ("ax", &format!("makes room for {urgent}"))]);
    assert_told(&cluster, &urgent, &[("ax", "to make room for it")]);

    cluster.wait_state(&evicted, &["RUNNING"]);
    power_cut(&mut cluster);
    std::fs::remove_dir_all(cluster.root.join("run/ax")).unwrap();
    another_boot(&mut cluster);
    cluster.start();
    cluster.wait_state(&evicted, &["RUNNING"]);
    assert_told(&cluster, &evicted, &[("ax", "the machine was restarted"), ("ax", "RUNNING")]);
}

#[test]
fn what_is_done_to_a_node_and_the_daemon_is_told_with_who_and_why() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let nodes: Value = serde_json::from_str(&cluster.ok(ROOT, "ax", &["node", "list", "--json"])).unwrap();
    let node = nodes[0]["name"].as_str().unwrap().to_owned();
    cluster.ok(ROOT, "ax", &["node", "drain", &node, "--why", "a new disk"]);
    let waits = cluster.submit(ALICE, &[], "#!/bin/sh\n");
    let why = cluster.ok(BOB, "ax", &["why", &waits]);
    assert!(why.contains("a new disk") && why.contains("root"), "{why}");
    cluster.ok(ROOT, "ax", &["node", "resume", &node]);
    cluster.wait_over(&waits);
    cluster.ok(ROOT, "ax", &["reload"]);
    cluster.configure("policy: {retry_count: 5}\n");
    cluster.ok(ROOT, "ax", &["reload"]);
    cluster.ok(ROOT, "axctl", &["stop"]);
    cluster.wait_daemon_ended();
    let log = cluster.log();
    for words in [
        vec![" node ", &format!("node={node}"), "by=root", "a new disk"],
        vec![" node ", &format!("node={node}"), "by=root", "given out again"],
        vec![" reload ", "by=root", "retry_count"],
        vec![" stop ", "by=root"],
    ] {
        let told = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(told, "{words:?}: {log}");
    }
}
