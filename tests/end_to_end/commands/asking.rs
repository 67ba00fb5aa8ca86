//! Commands that ask: queue, status, logs, why, acct, resource, node; their
//! tables and their documents.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use serde_json::Value;

use crate::asking::with_cards;
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, ran, wait_for};

const LONG: &str = "#!/bin/sh\necho up > up-$AX_JOB_NUMBER\nsleep 600\n";

/// What scripts of users rely on: a job has at least these.
const JOB: &str = "id number name user uid queue state reason reasons conditions priority submitted_at eligible_at started_at \
    ended_at expected_start expected_basis advice exit_code signal node nodes cpus ram_mb gpus gpu_uuids gpu_mem_mb time_limit_s attempt \
    attempts time_in_state decisions stdout stderr comment";
const ATTEMPT: &str = "number epoch node state started_at ended_at exit_code signal cpu_time_s max_ram_mb \
    max_gpu_mem_mb stdout";
const CARD: &str =
    "node index uuid name mem_mb free_mb reserved_mb used_mb p95_mb load jobs foreign limit health";
const NODE: &str = "name state reason cpus ram_mb gpus epoch last_heartbeat_at jobs";

fn has_all(value: &Value, names: &str) {
    for name in names.split_whitespace() {
        assert!(value.get(name).is_some(), "{name} is missing in {value:#}");
    }
}

#[test]
fn documents_hold_all_that_is_promised() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let ended = cluster.ends(ALICE, &["--comment=words"], "#!/bin/sh\nexit 3\n");
    let running = cluster.submit(ALICE, &["-G", "1"], LONG);
    let held = cluster.submit(ALICE, &["--hold"], LONG);
    cluster.wait_state(&running, &["RUNNING"]);
    let queue = cluster.json(ALICE, &["queue", "--json"]);
    assert_eq!(queue.as_array().unwrap().len(), 2);
    let acct = cluster.json(ALICE, &["acct", "--json"]);
    assert_eq!(acct.as_array().unwrap().len(), 1);
    let id = ended["id"].as_str().unwrap();
    let status = cluster.json(ALICE, &["status", "--json", id, &running, &held]);
    assert_eq!(status.as_array().unwrap().len(), 3);
    for job in [&queue, &acct, &status].into_iter().flat_map(|list| list.as_array().unwrap()) {
        has_all(job, JOB);
    }
    has_all(&acct[0]["attempts"][0], ATTEMPT);
    assert_eq!((&acct[0]["exit_code"], &acct[0]["comment"]), (&3.into(), &"words".into()), "{acct:#}");
    for state in ["READY", "STARTING", "RUNNING"] {
        assert!(acct[0]["time_in_state"][state].is_number(), "{state}: {acct:#}");
    }
    for time in ["submitted_at", "eligible_at", "started_at", "ended_at"] {
        let text = acct[0][time].as_str().unwrap();
        assert!(text.contains('T') && (text.ends_with('Z') || text.contains('+')), "{time}: {text}");
    }
    let cards = cluster.json(ALICE, &["resource", "--json"]);
    has_all(&cards[0], CARD);
    assert_eq!(cards[0]["jobs"], serde_json::json!([running]));
    let nodes = cluster.json(ALICE, &["node", "list", "--json"]);
    has_all(&nodes[0], NODE);
    let why = cluster.json(ALICE, &["why", "--json", &running]);
    assert!(why.as_array().unwrap().len() >= 3, "{why:#}");
    for line in why.as_array().unwrap() {
        has_all(line, "at actor what why");
    }
}

#[test]
fn tables_say_the_same_in_words() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1, ram: 100M}\n");
    let running = cluster.submit(ALICE, &["-J", "long"], LONG);
    cluster.wait_state(&running, &["RUNNING"]);
    let waiting = cluster.submit(BOB, &["-J", "next"], LONG);
    let queue = cluster.ok(ALICE, "ax", &["queue", "--long", "--noheader"]);
    let lines: Vec<&str> = queue.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with(&running) && lines[1].starts_with(&waiting), "{queue}");
    let ids = cluster.ok(ALICE, "ax", &["queue", "-u", "bin", "-o", "id,state", "--noheader"]);
    assert_eq!(ids.split_whitespace().collect::<Vec<_>>(), [waiting.as_str(), "READY"]);
    let status = cluster.ok(ALICE, "ax", &["status", &running]);
    for expected in
        ["RUNNING", "1 CPU", "daemon (uid 1)", "READY → STARTING", "first in queue default with priority 50"]
    {
        assert!(status.contains(expected), "{expected}: {status}");
    }
    assert_eq!(
        cluster.ok(ALICE, "ax", &["status", "--job-id", "1"]),
        cluster.ok(ALICE, "ax", &["status", "1"])
    );
    let why = cluster.ok(ALICE, "ax", &["why", &waiting]);
    assert!(why.starts_with(&format!("{waiting} is READY: needs 1 CPU (0 of 1 free)")), "{why}");
    cluster.ok(ALICE, "ax", &["cancel", &running]);
    cluster.wait_over(&running);
    let acct = cluster.ok(ALICE, "ax", &["acct"]);
    assert!(acct.contains("CANCELLED") && acct.contains("1 job (1 CANCELLED)"), "{acct}");
    let nodes = cluster.ok(ALICE, "ax", &["node", "list"]);
    assert!(nodes.contains("up") && nodes.contains("1/1"), "{nodes}");
}

#[test]
fn logs_follow_a_job_into_its_next_attempt_and_end_with_it() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\necho \"first words of $AX_ATTEMPT\"\nwhile [ ! -e go-$AX_ATTEMPT ]; do sleep 0.05; done\n\
                  echo \"last words of $AX_ATTEMPT\"\n[ $AX_ATTEMPT = 2 ]\n";
    let id = cluster.submit(ALICE, &["--retry=1", "--retry-delay=0"], script);
    let mut follower = cluster.command(ALICE, cluster.program("ax"));
    let mut follower = follower.args(["logs", "-f", &id]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for("the first attempt", || cluster.read(ALICE, "ax-1.out").contains("first"));
    cluster.write(ALICE, "go-1", "");
    wait_for("the second attempt", || cluster.read(ALICE, "ax-1.r1.out").contains("first"));
    cluster.write(ALICE, "go-2", "");
    let mut said = String::new();
    follower.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(follower.wait().unwrap().success());
    assert_eq!(said, "first words of 1\nlast words of 1\nfirst words of 2\nlast words of 2\n");
    assert_eq!(cluster.ok(ALICE, "ax", &["logs", &id]), "first words of 2\nlast words of 2\n");
    let line = cluster.refused(1, ALICE, "ax", &["logs", "--attempt=3", &id]);
    assert!(line.contains("has no attempt 3; the last is 2"), "{line}");
    let line = cluster.refused(66, BOB, "ax", &["logs", &id]);
    assert!(line.contains("Permission denied"), "others never read output: {line}");
    let output = cluster.home(ALICE).join("ax-1.r1.out");
    std::fs::remove_file(&output).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&output).status().unwrap().success());
    let line = cluster.refused(66, ROOT, "ax", &["logs", &id]);
    assert!(line.contains("it is a pipe"), "{line}");
    let held = cluster.submit(ALICE, &["--hold"], LONG);
    let line = cluster.refused(1, ALICE, "ax", &["logs", &held]);
    assert!(line.contains("has not started yet") && line.contains("held by daemon"), "{line}");
}

#[test]
fn logs_of_what_could_not_be_launched_say_why() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], "#!/opt/none/python\n");
    cluster.wait_over(&id);
    for words in [&["logs", &id][..], &["logs", "-f", &id]] {
        let ran = cluster.run(ALICE, "ax", words);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.lines().count()), (0, "", 1), "{ran:?}");
        let why = "was not launched in attempt 1: ";
        assert!(ran.err.contains(why) && ran.err.contains("/opt/none/python"), "{ran:?}");
    }
    let id = cluster.submit(ALICE, &["--output=/proc/none.out"], "#!/bin/sh\n");
    cluster.wait_over(&id);
    let line = cluster.refused(1, ALICE, "ax", &["logs", &id]);
    assert!(
        line.contains("was not launched in attempt 1: ") && line.ends_with("so there is no output"),
        "{line}"
    );
    assert_eq!(cluster.run(ALICE, "ax", &["logs", "-f", &id]).code, 0);
}

#[test]
fn logs_go_on_where_a_file_that_was_cut_begins_anew() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\necho first words, a long line of them\n\
                  while [ ! -e go ]; do sleep 0.05; done\necho last words\n";
    let id = cluster.submit(ALICE, &[], script);
    let mut follower = cluster.command(ALICE, cluster.program("ax"));
    let follower = follower.args(["logs", "-f", &id]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    let mut said = BufReader::new(follower.stdout.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    assert_eq!(first, "first words, a long line of them\n");
    cluster.write(ALICE, "ax-1.out", "");
    cluster.write(ALICE, "go", "");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    let ended = ran(follower.wait_with_output().unwrap());
    assert_eq!((ended.code, rest.as_str()), (0, "last words\n"), "{ended:?}");
    assert_eq!(ended.err, "ax: the output was cut short; following from its new start\n");
}

#[test]
fn selections_cancel_what_fits_and_only_one_s_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("queues:\n  - {name: default}\n  - {name: other}\n");
    let submit = |user, options: &[&str]| {
        let mut all = vec!["--hold"];
        all.extend(options);
        cluster.submit(user, &all, LONG)
    };
    let (named, queued, plain) =
        (submit(ALICE, &["-J", "a"]), submit(ALICE, &["-q", "other"]), submit(ALICE, &["-J", "c"]));
    let foreign = submit(BOB, &["-J", "a"]);
    assert_eq!(cluster.ok(ALICE, "ax", &["cancel", "--name=a"]), format!("{named}: cancelled by daemon\n"));
    assert_eq!(
        cluster.ok(ALICE, "ax", &["cancel", "--queue=other"]),
        format!("{queued}: cancelled by daemon\n")
    );
    assert_eq!(cluster.state(&foreign), "PENDING");
    let line = cluster.refused(77, ALICE, "ax", &["cancel", "--user=daemon,bin"]);
    assert!(line.contains("only administrators choose jobs of others: 'bin' is not you, daemon"), "{line}");
    let ran = cluster.run(ALICE, "ax", &["cancel", "--name=none"]);
    assert!(ran.code == 0 && ran.err.contains("no job fits"), "{ran:?}");
    let line = cluster.refused(2, ALICE, "ax", &["cancel"]);
    assert!(line.contains("nothing to cancel"), "{line}");
    cluster.ok(ROOT, "ax", &["cancel", "--state=PENDING"]);
    for id in [&foreign, &plain] {
        assert_eq!(cluster.state(id), "CANCELLED");
    }
    // One of several that fails decides the exit code, the others are done.
    let last = submit(ALICE, &[]);
    let ran = cluster.run(ALICE, "ax", &["cancel", "99", &last]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "ax: there is no job '99'\n"));
    assert_eq!(ran.out, format!("{last}: cancelled by daemon\n"));
}

#[test]
fn private_jobs_are_seen_by_their_owner_and_administrators() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("cluster: {private_jobs: true, admins: [bin]}\n");
    let mine = cluster.submit(ROOT, &["--hold"], LONG);
    let his = cluster.submit(ALICE, &["--hold"], LONG);
    let seen = |user| cluster.ok(user, "ax", &["queue", "-o", "id", "--noheader"]).split_whitespace().count();
    assert_eq!((seen(ALICE), seen(BOB), seen(ROOT)), (1, 2, 2));
    for command in ["status", "why", "logs", "cancel", "hold"] {
        let line = cluster.refused(1, ALICE, "ax", &[command, &mine]);
        assert_eq!(line, format!("ax: there is no job '{mine}'"), "{command}");
    }
    assert_eq!(cluster.ok(ALICE, "ax", &["queue", "-u", "root", "--noheader"]), "");
    let node = cluster.json(ALICE, &["node", "list", "--json"]);
    assert_eq!(node[0]["jobs"], serde_json::json!([]));
    cluster.ok(BOB, "ax", &["cancel", &his]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for _ in 0..20 {
        cluster.submit(ALICE, &["--hold", "--comment=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"], LONG);
    }
    for what in ["queue", "queue --json", "completions bash"] {
        let line = format!("{} {what} | true; echo ${{PIPESTATUS[0]}}", cluster.program("ax"));
        let ran = ran(cluster.command(ALICE, "bash").args(["-c", &line]).output().unwrap());
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("0\n", ""), "{what}");
    }
}

#[test]
fn completions_are_there_for_every_shell() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for shell in ["bash", "zsh", "fish"] {
        for program in ["ax", "axbatch", "axctl"] {
            assert!(cluster.ok(ALICE, "ax", &["completions", shell, program]).contains(program));
        }
    }
}

#[test]
fn a_filter_that_can_fit_nothing_is_said_so() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], LONG);
    for command in ["queue", "acct"] {
        let asked = cluster.run(ALICE, "ax", &[command, "--user", "dameon", "--queue", "defualt", "--json"]);
        assert_eq!((asked.code, asked.out.trim()), (0, "[]"), "{asked:?}");
        let said = "ax: warning: there is no user 'dameon' on this machine\n\
                    ax: warning: there is no queue 'defualt'; did you mean 'default'?\n";
        assert_eq!(asked.err, said);
    }
    let asked = cluster.run(
        ALICE,
        "ax",
        &["queue", "--user=daemon,bin", "--queue=default", "-o", "id", "--noheader"],
    );
    assert_eq!((asked.out.trim(), asked.err.as_str()), (id.as_str(), ""), "{asked:?}");
    // Of jobs no more than of names: nothing is done to nothing.
    for command in ["hold", "release", "cancel"] {
        let line = cluster.refused(2, ALICE, "ax", &[command]);
        assert!(line.contains("JOB"), "{line}");
    }
}

#[test]
fn the_status_has_all_that_was_asked_for_but_no_values_of_variables_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let options = ["--hold", "--lease-timeout=20", "--retry-delay=3", "--signal=B:USR1@90", "--grace=7"];
    let more = ["--env=TOKEN=secret", "--export=ALL,KEY=secret", "--chdir=/tmp", "-J", "a name"];
    let id = cluster.submit(ALICE, &[&options[..], &more].concat(), "#!/bin/sh\ntrue\n#AX -t 5\n");
    let job = cluster.job(&id);
    let said: Vec<&str> = job["options"].as_array().unwrap().iter().map(|o| o.as_str().unwrap()).collect();
    let expected =
        ["--hold", "--retry-delay=3s", "--lease-timeout=20s", "--signal=B:USR1@1m30s", "--grace=7s"];
    assert_eq!(said, [&expected[..], &["--export=...", "--env=TOKEN=..."]].concat());
    assert_eq!(job["folder"], "/tmp");
    let text = cluster.ok(BOB, "ax", &["status", &id]);
    assert!(
        !text.contains("secret") && !cluster.ok(BOB, "ax", &["status", "--json", &id]).contains("secret")
    );
    assert!(text.contains("options     --hold --retry-delay=3s --lease-timeout=20s"), "{text}");
    assert!(
        text.contains(":3:1: #AX after the first command is ignored"),
        "what was warned of is kept: {text}"
    );
}
