//! Scheduling by a real daemon with real processes: back-fill, urgency, fair shares. What is decided, and that it is so
//! in every case, is ax-core's to prove; here it happens.

use serde_json::{Value, json};

use crate::asking::with_cards;
use crate::cluster::{ALICE, BOB, Cluster, as_root};

fn instant(job: &Value, field: &str) -> String {
    job[field].as_str().unwrap_or_else(|| panic!("{field} of {job}")).to_owned()
}

/// Runs until the file `go` is there; so does whoever else waits for it.
const UNTIL_GO: &str = "#!/bin/sh\nuntil [ -e go ]; do sleep 0.02; done\n";

#[test]
fn a_job_for_two_cards_at_the_head_stops_no_job_for_one_and_does_not_starve() {
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let running = cluster.submit(ALICE, &["--gpus=1", "--time=1"], UNTIL_GO);
    cluster.wait_state(&running, &["RUNNING"]);
    let wide = cluster.submit(ALICE, &["--gpus=2", "--time=10"], "#!/bin/sh\n");
    // As long as the first may run: it would delay the wide one.
    let long = cluster.submit(ALICE, &["--gpus=1", "--time=60"], "#!/bin/sh\n");
    let short = cluster.submit(ALICE, &["--gpus=1", "--time=0:20"], "#!/bin/sh\n");
    cluster.wait_over(&short);
    assert_eq!(cluster.state(&wide), "READY");
    assert_eq!(cluster.state(&long), "READY");
    cluster.write(ALICE, "go", "");
    let (wide, long) = (cluster.wait_over(&wide), cluster.wait_over(&long));
    assert!(instant(&wide, "started_at") <= instant(&long, "started_at"), "{wide} {long}");
}

#[test]
fn what_needs_more_nodes_than_there_are_is_refused_or_waits_and_what_needs_one_runs() {
    let cluster =
        Cluster::with_config(&with_cards(2, 80, "  - {host: elsewhere, gpus: 2, mem_per_gpu: 80}\n"));
    let script = "#!/bin/sh\n";
    for (options, asked) in [
        (&["-N", "1"][..], Value::Null),
        (&["--nodes=1-1"], Value::Null),
        (&["--nodes=1-3", "--gpus-per-node=2"], json!({"min": 1, "max": 3})),
        (&["--nodes=1-3", "--gpus=2", "-n2"], Value::Null),
    ] {
        let job = cluster.wait_over(&cluster.submit(ALICE, options, script));
        let (nodes, state) = (job["nodes"].as_array().unwrap(), &job["state"]);
        assert_eq!((nodes.len(), state.as_str()), (1, Some("SUCCEEDED")), "{options:?}: {job}");
        assert_eq!(job["nodes_asked"], asked, "{options:?}");
    }
    cluster.write(ALICE, "wide.sh", script);
    for (options, why) in [
        (&["--nodes=3"][..], "it needs 3 nodes at once, and the cluster has 2"),
        (&["--nodes=2", "--gpus=3"], "3 GPUs do not divide among 2 nodes"),
    ] {
        let ran = cluster.run(ALICE, "axbatch", &[options, &["wide.sh"]].concat());
        assert!(ran.code != 0 && ran.err.contains(why), "{options:?}: {ran:?}");
    }
    // The other node is declared and may come.
    let waits = cluster.submit(ALICE, &["-N2", "--gpus=4", "--exclusive"], script);
    let job = cluster.wait_state(&waits, &["READY"]);
    let why = "needs 2 nodes at once, each with a whole node and 2 whole cards, and 1 here has that";
    assert!(job["reasons"].as_array().unwrap().iter().any(|reason| reason == why), "{job}");
    assert_eq!((&job["gpus"], &job["nodes_asked"]), (&json!(4), &json!({"min": 2, "max": 2})), "{job}");
    let after = cluster.wait_over(&cluster.submit(ALICE, &["--gpus=2"], script));
    assert_eq!(after["state"], "SUCCEEDED", "it stands in nobody's way: {after}");
    let ran = cluster.run(ALICE, "ax", &["cancel", &waits]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn an_urgent_job_takes_the_place_of_one_that_waits_again_and_ends() {
    let cluster = Cluster::with_config(&with_cards(1, 80, "policy:\n  preemption: true\n  kill_wait: 1\n"));
    let low = cluster.submit(ALICE, &["--gpus=1", "--priority=10", "--time=5"], UNTIL_GO);
    cluster.wait_state(&low, &["RUNNING"]);
    let near = cluster.submit(BOB, &["--gpus=1", "--priority=39", "--time=1"], "#!/bin/sh\n");
    let urgent = cluster.submit(BOB, &["--gpus=1", "--priority=80", "--time=1"], "#!/bin/sh\nsleep 0.2\n");
    let urgent = cluster.wait_over(&urgent);
    assert_eq!(urgent["state"], "SUCCEEDED", "{urgent}");
    cluster.write(ALICE, "go", "");
    let low_job = cluster.wait_over(&low);
    assert_eq!(low_job["state"], "SUCCEEDED", "{low_job}");
    let attempts = low_job["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{low_job}");
    assert_eq!(attempts[0]["state"], "PREEMPTED", "{low_job}");
    let story = cluster.run(ALICE, "ax", &["status", &low]).out;
    let urgent_id = urgent["id"].as_str().unwrap();
    assert!(story.contains(urgent_id), "who it made room for is said: {story}");
    cluster.wait_over(&near);
}

#[test]
fn nobody_is_ended_for_a_job_that_is_hardly_more_urgent() {
    let cluster = Cluster::with_config(&with_cards(1, 80, "policy:\n  preemption: true\n"));
    let running = cluster.submit(
        ALICE,
        &["--gpus=1", "--cpus-per-task=1", "--ram=100M", "--priority=50", "--time=5"],
        UNTIL_GO,
    );
    cluster.wait_state(&running, &["RUNNING"]);
    let more = cluster.submit(
        BOB,
        &["--gpus=1", "--cpus-per-task=1", "--ram=100M", "--priority=79", "--time=1"],
        "#!/bin/sh\n",
    );
    let other = cluster.submit(BOB, &["--time=1"], "#!/bin/sh\n");
    cluster.wait_over(&other);
    assert_eq!((cluster.state(&running), cluster.state(&more)), ("RUNNING".into(), "READY".into()));
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&running)["attempts"].as_array().unwrap().len(), 1);
    cluster.wait_over(&more);
}

/// The founding description's own figures: weights 10, 5 and 1 give 10, 5 and 1 of 16 starts, also when the daemon is
/// started again in the middle.
#[test]
fn queues_get_their_weights_worth_of_starts_and_a_restart_forgets_nothing() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - {name: high, priority: 10}\n  - {name: default, priority: 5}\n  - {name: dev, priority: 1}\n";
    let policy = "policy:\n  scheduler: fair_share\n  cost: count\n";
    let mut cluster = Cluster::with_config(&with_cards(1, 80, &format!("{queues}{policy}")));
    let first = cluster.submit(ALICE, &["--gpus=1", "--time=10", "--queue=high"], UNTIL_GO);
    cluster.wait_state(&first, &["RUNNING"]);
    let script = "#!/bin/sh\necho $AX_QUEUE >> ../../order\n";
    let order = cluster.root.join("order");
    let mut jobs = Vec::new();
    for _ in 0..18 {
        for queue in ["dev", "default", "high"] {
            let script = script.replace("../../order", order.to_str().unwrap());
            jobs.push(cluster.submit(
                ALICE,
                &["--gpus=1", "--time=10", &format!("--queue={queue}")],
                &script,
            ));
        }
    }
    std::fs::write(&order, "").unwrap();
    std::os::unix::fs::chown(&order, Some(ALICE.uid), Some(ALICE.gid)).unwrap();
    cluster.stop();
    cluster.start();
    cluster.write(ALICE, "go", "");
    for job in &jobs {
        cluster.wait_over(job);
    }
    let text = std::fs::read_to_string(&order).unwrap();
    // The job that ran first was high's.
    let starts: Vec<&str> = std::iter::once("high").chain(text.lines()).take(16).collect();
    let count = |queue: &str| starts.iter().filter(|each| **each == queue).count();
    assert_eq!((count("high"), count("default"), count("dev")), (10, 5, 1), "{starts:?}");
}

#[test]
fn what_two_runs_took_is_what_the_next_is_planned_with_also_after_a_restart() {
    let mut cluster = Cluster::with_config("");
    let once = "#!/bin/sh\nsleep 1.2\n";
    for name in ["train-1", "train-2"] {
        let id = cluster.submit(ALICE, &["--job-name", name, "--time=10"], once);
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    }
    let planned = |cluster: &Cluster, user, name: &str| {
        let id = cluster.submit(user, &["--job-name", name, "--time=10", "--hold"], once);
        cluster.job(&id)["learnt"]["length_s"].as_u64()
    };
    // Quick ones take long on a busy machine.
    assert!(planned(&cluster, ALICE, "train-3").is_some_and(|seconds| (1..600).contains(&seconds)));
    assert_eq!(planned(&cluster, ALICE, "test-3"), None, "another thing");
    assert_eq!(planned(&cluster, BOB, "train-3"), None, "another's");
    cluster.kill();
    cluster.start();
    let id = cluster.submit(ALICE, &["--job-name", "train-4", "--time=10"], UNTIL_GO);
    cluster.wait_state(&id, &["RUNNING"]);
    let shown = cluster.run(ALICE, "ax", &["status", &id]).out;
    assert!(shown.contains("learnt from its last 2 runs: "), "{shown}");
    // What ends it is its limit, not what was learnt.
    assert_eq!(cluster.job(&id)["time_limit_s"], 600);
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
}

#[test]
fn what_nobody_named_is_known_by_its_command() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let submit = |words: &[&str]| {
        let all = [&["--parsable", "--time=10"], words].concat();
        cluster.ok(ALICE, "axbatch", &all).trim().to_owned()
    };
    for _ in 0..2 {
        let id = submit(&["--wrap", "exec true"]);
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    }
    let planned = |words: &[&str]| cluster.job(&submit(words))["learnt"]["length_s"].as_u64();
    assert!(planned(&["--hold", "--wrap", "exec true"]).is_some_and(|seconds| (1..600).contains(&seconds)));
    assert_eq!(planned(&["--hold", "--wrap", "exec sleep"]), None, "called wrap as well, and something else");
    assert_eq!(planned(&["--hold", "-J", "named", "--wrap", "exec true"]), None, "its name counts");
}

#[test]
fn a_job_says_itself_whether_it_makes_room() {
    let cluster = Cluster::with_config(&with_cards(2, 80, "policy:\n  preemption: true\n  kill_wait: 1\n"));
    let low = |mode: &str| {
        let id = cluster.submit(ALICE, &["--gpus=1", "--priority=10", "--time=5", mode], UNTIL_GO);
        cluster.wait_state(&id, &["RUNNING"]);
        id
    };
    let (stays, goes) = (low("--preempt=never"), low("--preempt=cancel"));
    let urgent = cluster.submit(BOB, &["--gpus=1", "--priority=80", "--time=1"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&urgent)["state"], "SUCCEEDED");
    assert_eq!(cluster.wait_over(&goes)["state"], "CANCELLED");
    assert_eq!(cluster.state(&stays), "RUNNING");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&stays)["state"], "SUCCEEDED");
}

/// With a host of this name that has these features.
fn with_features(features: &str) -> String {
    let host = crate::asking::host();
    format!(
        "resources:\n  cpus: 1\n  gpu_nodes:\n    - {{host: {host}, gpus: 0, features: [{features}]}}\n    - {{host: other, gpus: 0, features: [ib]}}\n"
    )
}

#[test]
fn a_job_runs_where_its_features_are_and_says_what_is_missing() {
    let cluster = Cluster::with_config(&with_features("nvlink, new"));
    let done = cluster.submit(ALICE, &["-C", "(ib|new)&nvlink"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&done)["state"], "SUCCEEDED");
    let script = cluster.write(ALICE, "wants.sh", "#!/bin/sh\n");
    for (features, told) in [
        ("ib", "it needs the features ib, missing on gpu-01".to_owned()),
        ("nvlnk", "--constraint: no node here has the feature 'nvlnk'; did you mean 'nvlink'?".to_owned()),
        ("new|", "-C: 'new|': a feature is missing at its end".to_owned()),
    ] {
        let told = told.replace("gpu-01", &crate::asking::host());
        let ran = cluster.run(ALICE, "axbatch", &["-C", features, script.to_str().unwrap()]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.err.replace('"', "'").contains(&told), "{told}: {ran:?}");
    }
    // A script for another cluster runs, and is told what was left out.
    let foreign = cluster.write(ALICE, "foreign.sh", "#!/bin/sh\n#SBATCH -C haswell*2\n");
    let ran = cluster.run(ALICE, "axbatch", &["--parsable", foreign.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("--constraint=haswell*2 is left out"), "{ran:?}");
    assert_eq!(cluster.wait_over(ran.out.trim())["state"], "SUCCEEDED");
    // What was there when it was submitted and is no longer keeps it waiting, with the reason.
    let running = cluster.submit(ALICE, &[], UNTIL_GO);
    cluster.wait_state(&running, &["RUNNING"]);
    let waiting = cluster.submit(ALICE, &["-C", "new"], "#!/bin/sh\n");
    cluster.configure(&with_features("nvlink"));
    cluster.ok(crate::cluster::ROOT, "ax", &["reload"]);
    let reasons = cluster.job(&waiting)["reasons"].to_string();
    assert!(reasons.contains("needs the features new, missing on"), "{reasons}");
    cluster.configure(&with_features("nvlink, new"));
    cluster.ok(crate::cluster::ROOT, "ax", &["reload"]);
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&waiting)["state"], "SUCCEEDED");
}
