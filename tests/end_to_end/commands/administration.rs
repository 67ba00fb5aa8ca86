//! What administrators do: reload the configuration, check it and scripts,
//! look after the database; and what nobody else may.

use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, ran, signal, wait_for};

const LONG: &str = "#!/bin/sh\nsleep 600\n";

fn queues(more: &str) -> String {
    format!("resources: {{cpus: 16}}\nqueues:\n  - {{name: default}}\n{more}")
}

#[test]
fn a_reload_is_all_or_nothing() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&queues("  - {name: q, max_running: 1}\n"));
    let first = cluster.submit(ALICE, &["-q", "q"], LONG);
    let second = cluster.submit(ALICE, &["-q", "q"], LONG);
    cluster.wait_state(&first, &["RUNNING"]);
    assert_eq!(cluster.state(&second), "READY");
    // A mistake changes nothing, not even what is right in the same file.
    cluster.configure(&queues("  - {name: q, max_running: 2}\n  - {name: r, max_runing: 1}\n"));
    let line = cluster.refused(78, ROOT, "ax", &["reload"]);
    assert!(line.contains("config.yaml:5:") && line.contains("did you mean 'max_running'?"), "{line}");
    assert_eq!(cluster.reason(&second), format!("queue q runs 1 of at most 1 job: {first}"));
    // What jobs use can't be taken away.
    cluster.configure(&queues(""));
    let line = cluster.refused(78, ROOT, "ax", &["reload"]);
    assert!(line.contains("queue 'q'") && line.contains(&first) && line.contains(&second), "{line}");
    // A changed limit holds at once.
    cluster.configure(&queues("  - {name: q, max_running: 2}\n"));
    let said = cluster.ok(ROOT, "ax", &["reload"]);
    assert!(said.contains("queue 'q'") && said.contains("max_running"), "{said}");
    cluster.wait_state(&second, &["RUNNING"]);
    // Running jobs stay when it shrinks.
    cluster.configure(&queues("  - {name: q, max_running: 1}\n"));
    cluster.ok(ROOT, "ax", &["reload"]);
    assert_eq!((cluster.state(&first).as_str(), cluster.state(&second).as_str()), ("RUNNING", "RUNNING"));
    let third = cluster.submit(ALICE, &["-q", "q"], LONG);
    let both = format!("queue q runs 2 of at most 1 job: {first} and {second}");
    assert_eq!(cluster.reason(&third), both);
}

#[test]
fn a_signal_reloads_and_a_mistake_is_in_the_log() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&queues(""));
    cluster.configure(&queues("  - {name: new}\n"));
    signal(cluster.pid(), "HUP");
    wait_for("the new queue", || cluster.log().contains("queue 'new' is new"));
    cluster.submit(ALICE, &["-q", "new", "--hold"], LONG);
    cluster.configure("queues: 3\n");
    signal(cluster.pid(), "HUP");
    wait_for("the complaint", || cluster.log().contains("config.yaml:1:9"));
    cluster.submit(ALICE, &["-q", "new", "--hold"], LONG);
}

#[test]
fn only_administrators_reload() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("cluster: {admins: [bin]}\n");
    let line = cluster.refused(77, ALICE, "ax", &["reload"]);
    assert_eq!(line, "ax: only administrators reload the configuration; you are daemon");
    cluster.ok(BOB, "ax", &["reload"]);
    let id = cluster.submit(ALICE, &["--hold"], LONG);
    cluster.ok(BOB, "ax", &["cancel", &id]);
}

#[test]
fn a_daemon_with_a_bad_configuration_does_not_start() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("policy:\n  schedluer: fifo\n");
    cluster.spawn();
    wait_for("its end", || cluster.daemon_ended());
    let said = cluster.daemon_output();
    assert!(said.contains("config.yaml:2:3") && said.contains("did you mean 'scheduler'?"), "{said}");
}

#[test]
fn files_are_checked_without_a_daemon() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("");
    cluster.write(ALICE, "j.sh", "#!/bin/sh\n#AX --gpus=2 --mem=40 --time=90\ntrue\n");
    let said = cluster.ok(ALICE, "axctl", &["check", "j.sh"]);
    assert!(said.contains("--gpus=2") && said.ends_with("j.sh: a script that axbatch accepts\n"), "{said}");
    cluster.write(ALICE, "bad.sh", "#!/bin/sh\n#AX --tmie=3\n");
    let line = cluster.refused(65, ALICE, "axctl", &["check", "bad.sh"]);
    assert!(line.contains("bad.sh:2:5: unknown option '--tmie'; did you mean '--time'?"), "{line}");
    cluster.write(ALICE, "c.yaml", "queues:\n  - {name: a, max_running: 2}\n");
    let said = cluster.ok(ALICE, "axctl", &["check", "c.yaml"]);
    assert_eq!(said, "c.yaml: a configuration that axd accepts\n");
    let more = "resources: {cpus: 65536, ram: 100T, gpu_nodes: [{host: not-this-one, gpus: 1}]}\nlimits: [{user: root}]\n";
    cluster.write(ALICE, "m.yaml", more);
    let ran = cluster.run(ALICE, "axctl", &["check", "m.yaml"]);
    assert!(ran.code == 0 && ran.err.lines().count() == 4, "{ran:?}");
    for text in [
        "declares 65536 CPUs",
        "resources.ram declares 102400 GB",
        "is none of them",
        "m.yaml:2:17: warning: limits[0] limits nothing",
    ] {
        assert!(ran.err.contains(text), "{text}: {ran:?}");
    }
    cluster.write(ALICE, "c.yaml", "queues:\n  - {name: a, max_running: many}\n");
    let line = cluster.refused(78, ALICE, "axctl", &["check", "c.yaml"]);
    assert!(line.contains("c.yaml:2:"), "{line}");
    // What is not there is no bad configuration.
    for absent in ["absent.yaml", "absent.sh"] {
        let line = cluster.refused(66, ALICE, "axctl", &["check", absent]);
        assert!(line.contains(absent) && line.contains("No such file"), "{line}");
    }
    std::fs::create_dir(cluster.home(ALICE).join("dir.yaml")).unwrap();
    let line = cluster.refused(78, ALICE, "axctl", &["check", "dir.yaml"]);
    assert!(line.contains("it is not a regular file"), "{line}");
}

#[test]
fn a_time_zone_that_is_not_there_is_refused_with_its_place() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("");
    cluster.configure("cluster:\n  timezone: Europe/Berlln\n");
    for words in [&["check"][..], &["reload"]] {
        let program = if words == ["reload"] { "ax" } else { "axctl" };
        let ran = cluster.run(ROOT, program, words);
        assert!(
            ran.code == 78 && ran.err.contains(":2:13: cluster.timezone: this machine has no time zone"),
            "{ran:?}"
        );
    }
    cluster.configure("cluster:\n  timezone: Europe/Berlin\n");
    let said = cluster.ok(ROOT, "ax", &["reload"]);
    assert!(
        said.contains("timezone: system becomes Europe/Berlin at the next start of the daemon"),
        "{said}"
    );
}

#[test]
fn checks_come_as_documents() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("cluster: {admins: [nobody-of-that-name]}\n");
    cluster.write(ALICE, "good.sh", "#!/bin/sh\n#AX --gpus=2 --time=90\ntrue\n#AX --hold\n");
    cluster.write(ALICE, "bad.sh", "#!/bin/sh\n#AX --tmie=3\n");
    cluster.write(ALICE, "bad.yaml", "queues:\n  - {name: a, max_running: many}\n");
    let document = |user, code: u8, words: &[&str]| -> Value {
        let ran = cluster.run(user, "axctl", &[words, &["--json"]].concat());
        assert_eq!((ran.code, ran.err.as_str()), (i32::from(code), ""), "{ran:?}");
        serde_json::from_str(&ran.out).unwrap()
    };
    let good = document(ALICE, 0, &["check", "good.sh"]);
    assert_eq!((&good["kind"], &good["good"], &good["errors"]), (&json!("script"), &json!(true), &json!([])));
    assert!(good["options"].as_array().unwrap().contains(&json!("--gpus=2")), "{good}");
    assert!(good["warnings"][0].as_str().unwrap().starts_with("good.sh:4:"), "{good}");
    for (file, code, place) in [("bad.sh", 65, "bad.sh:2:5: unknown option"), ("bad.yaml", 78, "bad.yaml:2:")]
    {
        let bad = document(ALICE, code, &["check", file]);
        assert_eq!((&bad["file"], &bad["good"]), (&json!(file), &json!(false)));
        assert!(bad["errors"][0].as_str().unwrap().starts_with(place), "{bad}");
    }
    let own = document(ROOT, 0, &["check"]);
    assert_eq!((&own["kind"], &own["exists"]), (&json!("configuration"), &json!(true)));
    assert!(own["warnings"][0].as_str().unwrap().contains("nobody-of-that-name"), "{own}");
}

#[test]
fn an_answer_that_cannot_be_written_is_a_line_and_74_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for words in [&["check"][..], &["db", "check"], &["db", "events"], &["diag"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = cluster.command(ROOT, cluster.program("axctl"));
        let ran = ran(command.args(words).stdout(full).output().unwrap());
        assert_eq!((ran.code, ran.err.lines().count()), (74, 1), "{words:?}: {ran:?}");
        assert!(ran.err.starts_with("axctl: cannot write the output: No space"), "{words:?}: {ran:?}");
    }
}

#[test]
fn who_is_not_there_is_named_by_check_and_at_the_start() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("cluster: {admins: [daemon, dameon, '@wheeel']}\n");
    let ran = cluster.run(ROOT, "axctl", &["check"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.err.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(
        lines[0].ends_with("warning: cluster.admins: there is no user 'dameon' on this machine"),
        "{ran:?}"
    );
    assert!(
        lines[1].ends_with("warning: cluster.admins: there is no group 'wheeel' on this machine"),
        "{ran:?}"
    );
    cluster.start();
    wait_for("the warning", || cluster.log().contains("there is no group 'wheeel' on this machine"));
    cluster.configure("cluster: {admins: [deamon]}\n");
    cluster.ok(ROOT, "ax", &["reload"]);
    wait_for("the other", || cluster.log().contains("there is no user 'deamon' on this machine"));
}

#[test]
fn a_job_that_can_t_be_read_is_named_wherever_it_is_missed() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let lost = cluster.submit(ALICE, &["--hold"], LONG);
    let over = cluster.submit(ALICE, &[], "#!/bin/sh\nexit 0\n");
    cluster.wait_over(&over);
    cluster.stop();
    let database = rusqlite::Connection::open(cluster.root.join("var/lib/ax/ax.db")).unwrap();
    database.execute("UPDATE jobs SET core = '{}'", []).unwrap();
    drop(database);
    cluster.start();
    let queue = cluster.run(ALICE, "ax", &["queue"]);
    assert_eq!(queue.code, 0, "{queue:?}");
    let said = format!(
        "warning: 1 job can't be read, and nothing is done about it: {lost}; 'axctl db check' says why"
    );
    assert!(queue.err.contains(&said), "{queue:?}");
    let acct = cluster.run(ALICE, "ax", &["acct"]);
    assert!(acct.err.contains("warning: 1 finished job can't be read, left out here"), "{acct:?}");
    for job in [&lost, &over] {
        let line = cluster.refused(1, ALICE, "ax", &["status", job]);
        assert!(line.contains("its record does not parse"), "{line}");
    }
    let check = cluster.run(ROOT, "axctl", &["db", "check", "--json"]);
    let said: Value = serde_json::from_str(&check.out).unwrap();
    assert_eq!((check.code, &said["good"]), (1, &json!(false)), "{check:?}");
    let check = cluster.run(ROOT, "axctl", &["db", "check"]);
    assert!(
        check.code == 1 && check.err.contains("job 1 was set aside") && check.err.contains("job 2: "),
        "{check:?}"
    );
}

#[test]
fn the_database_is_copied_and_checked_while_jobs_run() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], LONG);
    cluster.wait_state(&id, &["RUNNING"]);
    let said = cluster.ok(ROOT, "axctl", &["db", "check"]);
    assert_eq!(said, "good: 1 job, 1 attempt, 2 scripts and environments\n");
    let said: Value = serde_json::from_str(&cluster.ok(ROOT, "axctl", &["db", "check", "--json"])).unwrap();
    let whole = json!({"good": true, "jobs": 1, "attempts": 1, "blobs": 2, "problems": [], "more": 0});
    assert_eq!(said, whole);
    let copy = cluster.root.join("copy.db");
    let said = cluster.ok(ROOT, "axctl", &["db", "backup", copy.to_str().unwrap(), "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let bytes = std::fs::metadata(&copy).unwrap().len();
    assert!(bytes > 10_000);
    assert_eq!(said, json!({"file": copy.to_str().unwrap(), "bytes": bytes}));
    let line = cluster.refused(1, ROOT, "axctl", &["db", "backup", copy.to_str().unwrap()]);
    assert!(line.contains("copy.db"), "an older copy is not overwritten: {line}");
    let stranger = cluster.run(ALICE, "axctl", &["db", "check"]);
    assert_ne!(stranger.code, 0);
    // The copy is whole: a daemon goes on from it.
    cluster.stop();
    let state = cluster.root.join("var/lib/ax");
    for old in ["ax.db", "ax.db-wal", "ax.db-shm"] {
        let _ = std::fs::remove_file(state.join(old));
    }
    std::fs::copy(&copy, state.join("ax.db")).unwrap();
    cluster.start();
    cluster.wait_state(&id, &["RUNNING"]);
}

#[test]
fn the_founding_sample_runs_and_shows_who_has_never_come_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(
        "cluster:\n  name: lab-cluster\n  heartbeat_timeout: 60\nresources:\n  gpu_nodes:\n    - host: gpu-01\n      \
         gpus: 8\n      mem_per_gpu: 80\n    - host: gpu-02\n      gpus: 4\n      mem_per_gpu: 40\nqueues:\n  - name: \
         default\n    max_running: 4\n    priority: 5\n  - name: high\n    max_running: 2\n    priority: 10\npolicy:\n  \
         scheduler: fair_share\n  preemption: true\n  task_timeout: 86400\n  retry_count: 2\n",
    );
    let list = cluster.ok(ALICE, "ax", &["node", "list", "--wide"]);
    assert_eq!(list.lines().filter(|line| line.contains("never registered")).count(), 2, "{list}");
    let shown = cluster.ok(ALICE, "ax", &["node", "show", "gpu-01"]);
    assert!(shown.contains("never registered") && shown.contains("it is declared"), "{shown}");
    let job = cluster.job(&cluster.submit(ALICE, &["--hold", "-q", "high"], LONG));
    assert_eq!((&job["time_limit_s"], &job["retries"]), (&86_400.into(), &2.into()), "{job}");
}
