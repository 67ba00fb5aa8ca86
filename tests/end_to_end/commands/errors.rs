//! What goes wrong between people and the daemon: one clear line and the code
//! that stands in the contract.

use crate::cluster::{ALICE, Cluster, ROOT, as_root, ran, wait_for};

const LONG: &str = "#!/bin/sh\nsleep 600\n";

#[test]
fn unknown_jobs_and_queues_are_named() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("queues:\n  - {name: default}\n  - {name: high}\n");
    for command in ["status", "cancel", "hold", "release", "why", "logs"] {
        assert_eq!(
            cluster.refused(1, ALICE, "ax", &[command, "17"]),
            "ax: there is no job '17'",
            "{command}"
        );
        assert_eq!(
            cluster.refused(1, ALICE, "ax", &[command, "ax-2020-0017"]),
            "ax: there is no job 'ax-2020-0017'"
        );
        let line = cluster.refused(1, ALICE, "ax", &[command, "job"]);
        assert_eq!(line, "ax: 'job' is no job: ids look like ax-2026-0001, or 1", "{command}");
        // What could change the question is no name either.
        for name in ["", "/", "../status"] {
            let line = cluster.refused(1, ALICE, "ax", &[command, name]);
            assert_eq!(
                line,
                format!("ax: '{name}' is no job: ids look like ax-2026-0001, or 1"),
                "{command}"
            );
        }
        for element in ["17_3", "ax-2026-0017_[1-5,9]"] {
            let line = cluster.refused(1, ALICE, "ax", &[command, element]);
            let said = format!("ax: '{element}' is an element of an array, and arrays are not supported yet");
            assert_eq!(line, said, "{command}");
        }
        let line = cluster.refused(1, ALICE, "ax", &[command, "17.0"]);
        assert_eq!(line, "ax: '17.0' is a step of a job, and steps are not supported yet", "{command}");
    }
    for name in ["", "../jobs", "nope"] {
        let line = cluster.refused(1, ALICE, "ax", &["node", "show", name]);
        assert_eq!(line, format!("ax: there is no node '{name}'; 'ax node list' shows them"));
    }
    // The number alone is not enough: the year is part of the id.
    let id = cluster.submit(ALICE, &["--hold"], LONG);
    cluster.refused(1, ALICE, "ax", &["status", &id.replace("ax-2", "ax-1")]);
    cluster.write(ALICE, "j.sh", LONG);
    let line = cluster.refused(1, ALICE, "axbatch", &["-q", "hihg", "j.sh"]);
    assert_eq!(line, "axbatch: there is no queue 'hihg'; did you mean 'high'?");
    let line = cluster.refused(1, ALICE, "axbatch", &["-q", "weekend", "j.sh"]);
    assert_eq!(line, "axbatch: there is no queue 'weekend'; there are: default, high");
}

#[test]
fn of_what_is_over_it_is_said_where_its_end_is_told_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\ntrue\n");
    cluster.wait_over(&id);
    // At first the controller still knows how it ended, later only the accounts do.
    let said = format!("ax: {id} is over; 'ax status {id}' says what came of it\n");
    wait_for("it to leave memory", || cluster.run(ALICE, "ax", &["cancel", &id]).err == said);
    for words in [&["hold", &id][..], &["release", &id], &["update", &id, "--priority=3"]] {
        assert_eq!(cluster.refused(1, ALICE, "ax", words), said.trim_end());
    }
}

#[test]
fn wrong_usage_is_2_with_a_hint() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.submit(ALICE, &["--hold"], LONG);
    for (program, words, expected) in [
        ("ax", &["qeue"][..], "queue"),
        ("ax", &["queue", "--sttae=R"], "--state"),
        ("ax", &["queue", "-t", "RUNING"], "did you mean 'RUNNING'?"),
        ("ax", &["status"], "JOB"),
        ("ax", &["update", "1", "--output=x"], "can be changed"),
        ("ax", &["cancel", "--signal=NOPE", "1"], "NOPE"),
        ("axbatch", &["--tiem=3", "x.sh"], "did you mean '--time'?"),
        ("axbatch", &["--time=never", "--wrap=true"], "'never'"),
        ("axbatch", &["--mem=10", "--wrap=true"], "--ram"),
        ("axctl", &["chekc"], "check"),
    ] {
        let line = cluster.refused(2, ALICE, program, words);
        assert!(line.starts_with(&format!("{program}: ")) && line.contains(expected), "{words:?}: {line}");
    }
}

#[test]
fn without_a_daemon_questions_fail_with_69_and_how_to_go_on() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("");
    for words in [&["queue"][..], &["status", "1"], &["cancel", "1"], &["reload"], &["node", "list"]] {
        let line = cluster.refused(69, ALICE, "ax", words);
        assert!(line.contains("no daemon answers at") && line.contains("axd.sock"), "{line}");
    }
}

#[test]
fn a_socket_can_be_named_alone() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], LONG);
    let mut command = cluster.command(ALICE, cluster.program("ax"));
    command.env_remove("AX_ROOT").env("AX_SOCKET", cluster.socket()).args([
        "queue",
        "-o",
        "id",
        "--noheader",
    ]);
    assert_eq!(ran(command.output().unwrap()).out.trim(), id);
    let mut command = cluster.command(ALICE, cluster.program("ax"));
    command.env_remove("AX_ROOT").args([
        "--root",
        cluster.root.to_str().unwrap(),
        "queue",
        "-o",
        "id",
        "--noheader",
    ]);
    assert_eq!(ran(command.output().unwrap()).out.trim(), id);
}

#[test]
fn control_characters_reach_no_terminal() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold", "-J", "a\x1b[31mred", "--comment=b\nc"], LONG);
    for words in [&["queue", "--long"][..], &["status", &id], &["why", &id]] {
        let out = cluster.ok(ALICE, "ax", words);
        assert!(!out.contains('\x1b'), "{out:?}");
    }
    let log = cluster.log();
    assert!(!log.contains('\x1b'));
    let job = cluster.job(&id);
    assert_eq!((&job["name"], &job["comment"]), (&"a\x1b[31mred".into(), &"b\nc".into()), "kept as they are");
}

#[test]
fn help_and_versions_are_there() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("");
    for program in ["ax", "axbatch", "axctl", "axd", "axrun"] {
        assert!(cluster.ok(ALICE, program, &["--version"]).contains(env!("CARGO_PKG_VERSION")), "{program}");
        assert!(cluster.ok(ALICE, program, &["--help"]).lines().count() > 3, "{program}");
    }
    for command in
        "queue status logs cancel hold release update why acct resource node reload resolve submit".split(' ')
    {
        assert!(cluster.ok(ALICE, "ax", &[command, "--help"]).contains(command), "{command}");
    }
}

#[test]
fn programs_of_administrators_answer_in_one_line_too_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for name in ["doctor", "reserve", "token", "node"] {
        let line = cluster.refused(1, ROOT, "axctl", &[name, "x"]);
        assert_eq!(line, format!("axctl: 'axctl {name}' is not supported yet"));
    }
    assert_eq!(cluster.refused(1, ROOT, "axd", &["http"]), "axd: 'axd http' is not supported yet");
    let line = cluster.refused(2, ROOT, "axd", &["--form", "x"]);
    let said =
        "axd: unexpected argument '--form' found; a similar argument exists: '--from'; see 'axd --help'";
    assert_eq!(line, said);
    let mut axd = cluster.command(ROOT, cluster.program("axd"));
    let config = cluster.write(ROOT, "c.yaml", "cluster: {name: x}\n");
    let checked = ran(axd.args(["--check", "--config"]).arg(config).env("AX_ROOT", "").output().unwrap());
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "an empty variable means nothing");
    let line = cluster.refused(2, ROOT, "axd", &["--root"]);
    assert_eq!(line, "axd: a value is required for '--root <DIR>' but none was supplied; see 'axd --help'");
    // What does not belong together is never a second daemon.
    for (words, said) in [
        (
            &["--nvml-limit", "set", "--group", "/a", "--group", "/b"][..],
            "--nvml-limit needs one --group DIR",
        ),
        (&["--mps", "start", "--root", "/a"], "--root cannot be used with --mps"),
        (&["--db-check", "--no-cards"], "--no-cards cannot be used with --db-check"),
    ] {
        assert_eq!(cluster.refused(2, ROOT, "axd", words), format!("axd: {said}; see 'axd --help'"));
    }
    // They are the daemon's own business, and yet the person called axctl.
    for words in [&["db", "check"][..], &["db", "backup", "copy.db"]] {
        let line = cluster.refused(77, ALICE, "axctl", words);
        let file = cluster.root.join("var/lib/ax/ax.db").display().to_string();
        assert_eq!(line, format!("axctl: {file}: permission denied; only the user that axd runs as may"));
    }
    let empty = Cluster::stopped("");
    let line = empty.refused(1, ROOT, "axctl", &["db", "events"]);
    assert!(line.starts_with("axctl: ") && line.ends_with("is not there; axd makes it when it starts first"));
}
