//! How jobs end: by their own exit, a signal, time, memory, a person, or
//! because they could not be started.

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};

/// Ignores every request to end.
const DEAF: &str = "#!/bin/sh\ntrap '' TERM\necho here\nwhile :; do sleep 0.05; done\n";

#[test]
fn the_exit_of_the_script_is_the_exit_of_the_job() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for (script, state, code, signal, reason) in [
        ("exit 0", "SUCCEEDED", 0.into(), None, "exit code 0"),
        ("exit 3", "FAILED", 3.into(), None, "exit code 3"),
        ("exit 255", "FAILED", 255.into(), None, "exit code 255"),
        ("kill -KILL $$", "FAILED", serde_json::Value::Null, Some(9), "signal 9 (KILL)"),
        ("kill -SEGV $$", "FAILED", serde_json::Value::Null, Some(11), "signal 11 (SEGV)"),
    ] {
        let job = cluster.ends(ALICE, &[], &format!("#!/bin/sh\n{script}\n"));
        assert_eq!((&job["state"], &job["exit_code"]), (&state.into(), &code), "{script}: {job:#}");
        assert_eq!(job["signal"].as_i64(), signal, "{script}: {job:#}");
        assert_eq!(job["reason"], reason, "{script}");
        assert_eq!(job["attempts"][0]["exit_code"], code, "{script}");
        assert_eq!(job["attempts"][0]["signal"].as_i64(), signal, "{script}");
    }
    cluster.nothing_left();
}

#[test]
fn a_time_limit_warns_then_asks_then_kills() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n#AX --time=0:02 --signal=B:USR1@1 --grace=1\n\
                  trap 'echo warned' USR1\ntrap 'echo asked' TERM\nwhile :; do sleep 0.05; done\n";
    let job = cluster.ends(ALICE, &["--output=out"], script);
    assert_eq!(job["state"], "TIMEOUT", "{job:#}");
    // Between them the shell says what became of its child.
    let said = cluster.read(ALICE, "out").replace("Terminated\n", "");
    assert_eq!(said, "warned\nasked\n");
    assert_eq!((&job["signal"], &job["time_limit_s"]), (&9.into(), &2.into()));
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.starts_with("over its time limit of 00:00:02"), "{reason}");
    let ran = job["attempts"][0].clone();
    assert_eq!(ran["state"], "TIMEOUT");
    cluster.nothing_left();
}

#[test]
fn a_script_that_ends_in_its_grace_is_over_its_limit_all_the_same() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\ntrap 'echo saved; exit 0' TERM\nwhile :; do sleep 0.05; done\n";
    let job = cluster.ends(ALICE, &["--time=0:01", "-o", "out", "--retry=3"], script);
    assert_eq!((&job["state"], &job["exit_code"]), (&"TIMEOUT".into(), &0.into()), "{job:#}");
    assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "a time limit is not retried");
    assert!(cluster.read(ALICE, "out").ends_with("saved\n"));
}

#[test]
fn a_job_over_its_memory_is_killed_for_it_and_the_peak_is_on_record() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job =
        cluster.ends(ALICE, &["--ram=50M"], "#!/bin/sh\ntail /dev/zero\necho \"tail ended: $?\"\nexit 9\n");
    assert_eq!((&job["state"], &job["exit_code"]), (&"OUT_OF_MEMORY".into(), &9.into()), "{job:#}");
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.contains("50 MB"), "the limit is named: {reason}");
    let peak = job["attempts"][0]["max_ram_mb"].as_u64().unwrap();
    assert!((40..=52).contains(&peak), "{peak}");
    // Coping with it is success.
    let job =
        cluster.ends(ALICE, &["--ram=50M", "-o", "coped"], "#!/bin/sh\ntail /dev/zero\necho coped\nexit 0\n");
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    assert!(cluster.read(ALICE, "coped").ends_with("coped\n"));
    let status = cluster.ok(ALICE, "ax", &["status", job["id"].as_str().unwrap()]);
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "the script succeeded, but a process of the job was killed for host memory: it used more than its 50 MB";
    assert!(status.contains(said), "and is not hidden: {status}");
}

#[test]
fn a_job_is_cancelled_in_whatever_state_it_is() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1}\n");
    let held = cluster.submit(ALICE, &["--hold"], DEAF);
    assert_eq!(cluster.state(&held), "PENDING");
    let running = cluster.submit(ALICE, &["--grace=1"], DEAF);
    cluster.wait_state(&running, &["RUNNING"]);
    let ready = cluster.submit(ALICE, &[], DEAF);
    assert_eq!(cluster.state(&ready), "READY");
    for waiting in [&held, &ready] {
        let said = cluster.ok(ALICE, "ax", &["cancel", waiting]);
        assert_eq!(said, format!("{waiting}: cancelled by daemon\n"));
        let job = cluster.wait_over(waiting);
        assert_eq!((&job["state"], &job["attempt"]), (&"CANCELLED".into(), &0.into()), "{job:#}");
        assert_eq!(job["reason"], "cancelled by daemon");
    }
    cluster.ok(ALICE, "ax", &["cancel", "--why=wrong data", &running]);
    cluster.wait_state(&running, &["COMPLETING"]);
    // Once more while it is ending: nothing bad, and the first word stays.
    cluster.ok(ALICE, "ax", &["cancel", &running]);
    let job = cluster.wait_over(&running);
    assert_eq!((&job["state"], &job["signal"]), (&"CANCELLED".into(), &9.into()), "it was deaf: {job:#}");
    assert!(job["reason"].as_str().unwrap().starts_with("cancelled by daemon: wrong data"), "{job:#}");
    let line = cluster.refused(1, ALICE, "ax", &["cancel", &running]);
    assert!(line.contains("CANCELLED"), "{line}");
    cluster.nothing_left();
}

/// With a grace of its own choice a job would take itself out of every limit, and out of the hands of administrators.
#[test]
fn nobody_chooses_to_be_ended_next_month() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {kill_wait: 1s, max_grace: 1h}\n");
    let script = "#!/bin/sh\n#AX --grace=30d\n";
    cluster.write(ALICE, "deaf.sh", script);
    let line = cluster.refused(1, ALICE, "axbatch", &["deaf.sh"]);
    assert!(line.contains("--grace=30-00:00:00 is longer") && line.contains("policy.max_grace"), "{line}");
    // What was accepted under other rules is ended by those of now.
    let id = cluster.submit(ALICE, &["--hold", "--time=0:01", "--grace=1h"], DEAF);
    cluster.configure("policy: {kill_wait: 1s, max_grace: 2s}\n");
    cluster.ok(ROOT, "ax", &["reload"]);
    cluster.ok(ALICE, "ax", &["release", &id]);
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["signal"]), (&"TIMEOUT".into(), &9.into()), "{job:#}");
}

/// Whoever asks again has waited long enough; so has whoever kills what is ending.
#[test]
fn what_is_cancelled_again_has_no_more_grace() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {max_grace: 1d}\nresources: {cpus: 2}\n");
    for (by, again) in [(ROOT, vec!["cancel"]), (ALICE, vec!["cancel", "--signal=KILL"])] {
        let id = cluster.submit(ALICE, &["--grace=1d", "-o", "out"], DEAF);
        wait_for("the trap", || cluster.read(ALICE, "out").contains("here"));
        cluster.ok(by, "ax", &["cancel", &id]);
        cluster.wait_state(&id, &["COMPLETING"]);
        let said = cluster.ok(by, "ax", &[again.as_slice(), &[&id]].concat());
        let word = if again.len() > 1 { "signal 9 (KILL)" } else { "killed" };
        assert!(said.contains(&format!("{word} by {}", by.name)), "{said}");
        let job = cluster.wait_over(&id);
        assert_eq!((&job["state"], &job["signal"]), (&"CANCELLED".into(), &9.into()), "{job:#}");
        assert!(job["reason"].as_str().unwrap().starts_with("cancelled by"), "the first word stays: {job:#}");
        std::fs::remove_file(cluster.home(ALICE).join("out")).unwrap();
    }
    cluster.nothing_left();
}

#[test]
fn jobs_cancelled_while_they_start_never_stay() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 16}\n");
    let ids: Vec<String> = (0..12)
        .map(|_| {
            let id = cluster.submit(ALICE, &["--ram=10"], "#!/bin/sh\nsleep 600\n");
            cluster.ok(ALICE, "ax", &["cancel", &id]);
            id
        })
        .collect();
    for id in ids {
        assert_eq!(cluster.wait_over(&id)["state"], "CANCELLED");
    }
    cluster.nothing_left();
}

#[test]
fn others_may_not_cancel_but_root_may() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], DEAF);
    let line = cluster.refused(77, BOB, "ax", &["cancel", &id]);
    assert!(line.contains("belongs to daemon"), "{line}");
    cluster.ok(ROOT, "ax", &["cancel", &id]);
    assert_eq!(cluster.wait_over(&id)["reason"], "cancelled by root");
}

#[test]
fn what_cannot_be_started_says_which_path_and_why_and_is_not_retried() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let home = cluster.home(ALICE);
    let foreign = cluster.home(BOB).join("x/out");
    let (foreign, home) = (foreign.to_str().unwrap(), home.to_str().unwrap());
    let cases = [
        (
            vec!["--chdir=gone"],
            format!("enter folder '{home}/gone' as user daemon: No such file or directory"),
        ),
        (vec!["--input=gone"], format!("open input '{home}/gone' as user daemon: No such file or directory")),
        (vec!["--output", foreign], "as user daemon: Permission denied".to_owned()),
        (
            vec!["--output=/proc/x"],
            "open output '/proc/x' as user daemon: No such file or directory".to_owned(),
        ),
    ];
    for (mut options, expected) in cases {
        options.push("--retry=3");
        let job = cluster.ends(ALICE, &options, "#!/bin/sh\necho ran > ran\n");
        assert_eq!(job["state"], "FAILED", "{options:?}: {job:#}");
        let reason = job["reason"].as_str().unwrap();
        assert!(reason.contains(&expected), "{options:?}: {reason}");
        let attempts = job["attempts"].as_array().unwrap();
        assert_eq!((attempts.len(), &attempts[0]["state"]), (1, &"LAUNCH_FAILED".into()), "{job:#}");
        assert_eq!((&job["exit_code"], &job["started_at"]), (&().into(), &().into()), "{job:#}");
    }
    assert!(!cluster.home(ALICE).join("ran").exists());
    cluster.nothing_left();
}

#[test]
fn a_signal_reaches_a_running_job_and_no_other() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4}\n");
    let script = "#!/bin/sh\ntrap 'echo got it; exit 0' USR1\necho up\nwhile :; do sleep 0.05; done\n";
    let id = cluster.submit(ALICE, &["-o", "out"], script);
    wait_for("the trap", || cluster.read(ALICE, "out") == "up\n");
    // Starts are written down together, a moment later.
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.ok(ALICE, "ax", &["cancel", "--signal=USR1", &id]);
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    // The shell also says what became of its child.
    assert!(cluster.read(ALICE, "out").ends_with("got it\n"), "{}", cluster.read(ALICE, "out"));
    let held = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n:\n");
    let line = cluster.refused(1, ALICE, "ax", &["cancel", "--signal=USR1", &held]);
    assert!(line.contains("PENDING: a signal needs a running job"), "{line}");
}
