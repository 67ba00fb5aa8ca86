//! What administrators do to a daemon that runs: stop it, with its jobs or without; submit for others; look at what was
//! recorded.

use std::path::PathBuf;

use serde_json::Value;

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, groups};

const SLEEP: &str = "#!/bin/sh\nsleep 600\n";

#[test]
fn stop_leaves_the_jobs_running_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], SLEEP);
    cluster.wait_state(&id, &["RUNNING"]);
    let refused = cluster.run(ALICE, "axctl", &["stop"]);
    assert_eq!((refused.code, refused.err.lines().count()), (77, 1), "{refused:?}");
    let stopped = cluster.run(ROOT, "axctl", &["stop"]);
    assert_eq!((stopped.code, stopped.err.as_str()), (0, ""), "{stopped:?}");
    // It is down when the command returns.
    assert!(cluster.daemon_ended());
    cluster.wait_daemon_ended();
    assert!(!cluster.job_processes().is_empty());
    cluster.start();
    assert_eq!(cluster.state(&id), "RUNNING");
}

#[test]
fn stop_with_jobs_ends_what_runs_and_keeps_what_waits_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config("queues:\n  - name: default\n    max_running: 1\n");
    let runs = cluster.submit(ALICE, &[], SLEEP);
    let waits = cluster.submit(BOB, &[], "#!/bin/sh\ntrue\n");
    cluster.wait_state(&runs, &["RUNNING"]);
    let stopped = cluster.run(ROOT, "axctl", &["stop", "--jobs"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(stopped.err.contains("ending 1 running job;"), "{stopped:?}");
    assert!(cluster.daemon_ended());
    cluster.wait_daemon_ended();
    assert!(cluster.job_processes().is_empty());
    assert_eq!(groups(&cluster.root.join("run/ax")), Vec::<PathBuf>::new(), "nothing is left of them");
    cluster.start();
    let ended = cluster.wait_over(&runs);
    assert_eq!(ended["state"], "CANCELLED", "{ended:#}");
    // The one that waited was promised to run, and does.
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED");
}

#[test]
fn root_submits_for_a_user_who_was_never_seen_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let chdir = format!("--chdir={}", cluster.home(BOB).display());
    let id = cluster.submit(ROOT, &["--uid=bin", &chdir], "#!/bin/sh\nid -un\n");
    let job = cluster.wait_over(&id);
    assert_eq!((job["state"].as_str(), job["user"].as_str()), (Some("SUCCEEDED"), Some("bin")), "{job:#}");
    let unknown = cluster.run(ROOT, "axbatch", &["--uid=4000000", "--wrap=true"]);
    assert_eq!((unknown.code, unknown.err.lines().count()), (1, 1), "{unknown:?}");
    let refused = cluster.run(ALICE, "axbatch", &["--uid=2", "--wrap=true"]);
    assert_eq!(refused.code, 77, "{refused:?}");
}

#[test]
fn recorded_events_are_printed_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\ntrue\n");
    cluster.wait_over(&id);
    cluster.stop();
    let lines = cluster.run(ROOT, "axctl", &["db", "events"]);
    assert_eq!(lines.code, 0, "{lines:?}");
    for wanted in ["submitted", "attempt_started", "attempt_ended", id.as_str()] {
        assert!(lines.out.contains(wanted), "{wanted}: {}", lines.out);
    }
    let events = |words: &[&str]| -> Vec<Value> {
        let ran = cluster.run(ROOT, "axctl", &[&["db", "events", "--json"], words].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    };
    let all = events(&[]);
    assert!(all.iter().any(|event| event["kind"] == "snapshot"));
    assert!(all.iter().any(|event| event["event"].get("submitted").is_some()), "{all:?}");
    assert_eq!(events(&["--from", "today", "--to", "yesterday"]), Vec::<Value>::new());
    let later = all[all.len() - 1]["at"].as_str().unwrap();
    assert!(events(&["--from", later]).len() < all.len());
    let wrong = cluster.run(ROOT, "axctl", &["db", "events", "--from", "soon"]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (2, 1), "{wrong:?}");
}

#[test]
fn no_configuration_is_a_good_one() {
    let cluster = Cluster::stopped("");
    let root = cluster.root.to_str().unwrap();
    for (program, words) in [("axctl", &["check"][..]), ("axd", &["--check"])] {
        let ran = cluster.run(ROOT, program, words);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.starts_with("no configuration: defaults"), "{ran:?}");
    }
    let named = format!("{root}/nothing.yaml");
    let ran = cluster.run(ROOT, "axctl", &["check", &named]);
    assert_eq!((ran.code, ran.err.lines().count()), (66, 1), "{ran:?}");
}

#[test]
fn a_forecast_is_a_sentence_with_times_of_the_caller_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let ask = |words: &[&str]| {
        let mut command = cluster.command(ALICE, cluster.program("axbatch"));
        command.args(["--test-only", "--wrap=true"]).args(words).env("TZ", "XYZ-05:30");
        crate::cluster::ran(command.output().unwrap())
    };
    assert!(ask(&[]).out.starts_with("the job would start at once on "), "{:?}", ask(&[]));
    let later = ask(&["--begin=2099-01-01T00:00:00"]);
    assert!(later.out.starts_with("the job would start about "), "{later:?}");
    assert!(later.out.contains(" +05:30 (in "), "{later:?}");
    let json: Value = serde_json::from_str(&ask(&["--json"]).out).unwrap();
    assert_eq!(json["foretold"]["outcome"], "starts_at_once", "{json:#}");
}

#[test]
fn logs_say_what_is_missing_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let held = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\ntrue\n");
    let logs = cluster.run(ALICE, "ax", &["logs", &held]);
    assert_eq!((logs.code, logs.err.lines().count()), (1, 1), "{logs:?}");
    assert!(logs.err.contains("has not started yet"), "{logs:?}");
    let script = "#!/bin/sh\necho out; echo err >&2\n";
    let apart = cluster.submit(ALICE, &["-o", "o.txt", "-e", "e.txt"], script);
    let together = cluster.submit(ALICE, &[], script);
    cluster.wait_over(&apart);
    cluster.wait_over(&together);
    assert_eq!(cluster.run(ALICE, "ax", &["logs", &apart]).out, "out\n");
    assert_eq!(cluster.run(ALICE, "ax", &["logs", "--err", &apart]).out, "err\n");
    assert_eq!(cluster.run(ALICE, "ax", &["logs", "--err", "-f", &apart]).out, "err\n");
    let none = cluster.run(ALICE, "ax", &["logs", "--err", &together]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.err.contains("writes its errors into its output"), "{none:?}");
}
