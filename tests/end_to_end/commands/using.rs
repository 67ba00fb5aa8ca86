//! What jobs use and tell of themselves: `ax eff`, `ax checkpointed`, `ax keep`, on cards that are only declared.

use serde_json::Value;

use crate::asking::with_cards;
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};

fn story(cluster: &Cluster, id: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let job = cluster.job(id);
    let lines = job["decisions"].as_array().unwrap().clone();
    lines.iter().map(|line| (text(&line["actor"]), text(&line["what"]))).collect()
}

fn has_line(cluster: &Cluster, id: &str, actor: &str, start: &str) -> bool {
    story(cluster, id).iter().any(|(who, what)| who == actor && what.starts_with(start))
}

#[test]
fn what_was_used_is_set_against_what_was_held_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let busy = "#!/bin/sh\nend=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done\n";
    let ended = cluster.ends(ALICE, &["-G", "1", "--ram=512M", "--time=30"], busy);
    let running = cluster.submit(BOB, &["--ram=512M"], "#!/bin/sh\nexec sleep 1000\n");
    cluster.wait_state(&running, &["RUNNING"]);
    let id = ended["id"].as_str().unwrap();
    let both = cluster.json(ALICE, &["eff", "--json", id, &running]);
    let (first, second) = (&both[0], &both[1]);
    assert_eq!(
        (&first["id"], &first["ram_held_mb"], &first["time_limit_s"]),
        (&ended["id"], &512.into(), &1800.into())
    );
    assert!(first["cpu_time_s"].as_f64().unwrap() > 0.3, "{first:#}");
    assert!(first["cpus_used_mean"].as_f64().unwrap() > 0.1, "{first:#}");
    assert!(first["gpu_busy_percent"].is_null(), "nobody measured the card: {first:#}");
    // Of one that runs as well: its groups are asked now.
    assert_eq!((&second["state"], &second["gpus"]), (&"RUNNING".into(), &0.into()));
    assert!(
        second["cpu_time_s"].as_f64().is_some() && second["ram_peak_mb"].as_u64().is_some(),
        "{second:#}"
    );
    let ran = cluster.run(ALICE, "ax", &["eff", id, "ax-2026-9999", &running]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("GPU memory") && ran.err.contains("there is no job 'ax-2026-9999'"), "{ran:?}");
}

#[test]
fn of_private_jobs_others_learn_nothing_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("cluster:\n  private_jobs: true\n");
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\nexec sleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    assert_eq!(cluster.run(ALICE, "ax", &["eff", &id]).code, 0);
    let ran = cluster.run(BOB, "ax", &["eff", &id]);
    assert!(ran.code == 1 && ran.out.is_empty() && ran.err.contains("there is no job"), "{ran:?}");
    // The command asks for the job first; who goes past it is told no more.
    if !std::path::Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: needs python3");
        return;
    }
    let target = format!("/api/v1/jobs/{id}/usage");
    for (user, told) in [(ALICE, true), (BOB, false)] {
        let mut ask = cluster.command(user, "/usr/bin/python3");
        let output = ask.args(["-c", GET]).arg(cluster.socket()).arg(&target).output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout);
        assert_eq!(answer.contains(" 200 "), told, "{}: {answer}", user.name);
        assert!(told || answer.contains("there is no job"), "{answer}");
    }
}

/// Asks a daemon's socket for something, and prints what comes.
const GET: &str = r"import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(('GET %s HTTP/1.1\r\nHost: ax\r\nConnection: close\r\n\r\n' % sys.argv[2]).encode())
while True:
    part = s.recv(65536)
    if not part:
        break
    sys.stdout.write(part.decode())
";

#[test]
fn a_job_tells_of_its_checkpoints_and_nobody_else_does_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(1, 80, ""));
    let ax = cluster.program("ax");
    let script = format!("#!/bin/sh\n{ax} checkpointed > told 2>&1\necho $? >> told\nexec sleep 1000\n");
    let id = cluster.submit(ALICE, &["-G", "1"], &script);
    wait_for("the checkpoint", || cluster.read(ALICE, "told").ends_with("0\n"));
    assert!(
        has_line(&cluster, &id, ALICE.name, "told that its work so far is safe"),
        "{:?}",
        story(&cluster, &id)
    );
    let ran = cluster.run(BOB, "ax", &["checkpointed", &id]);
    assert_eq!(ran.code, 77, "{ran:?}");
    // An attempt that was given up does not speak for the one that runs.
    let mut late = cluster.command(ALICE, ax);
    late.arg("checkpointed").env("AX_JOB_ID", &id).env("AX_LEASE_EPOCH", "999999");
    let output = late.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let outside = cluster.run(ALICE, "ax", &["checkpointed"]);
    assert_eq!(outside.code, 2, "{outside:?}");
    let waits = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    assert_eq!(cluster.run(ALICE, "ax", &["checkpointed", &waits]).code, 1);
}

#[test]
fn a_slice_job_begins_anew_from_its_checkpoint_as_root() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - name: default\n    restart_slices_every: 1s\n";
    let cluster = Cluster::with_config(&with_cards(1, 80, queues));
    let ax = cluster.program("ax");
    let script = format!(
        "#!/bin/sh\necho $AX_ATTEMPT >> attempts\n[ $AX_ATTEMPT = 3 ] && exit 0\nsleep 1.2\n{ax} checkpointed\nexec sleep 1000\n"
    );
    let id = cluster.submit(ALICE, &["-G", "1", "--mem=8G"], &script);
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["attempt"]), (&"SUCCEEDED".into(), &3.into()), "{job:#}");
    assert_eq!(cluster.read(ALICE, "attempts"), "1\n2\n3\n");
    assert_eq!(job["attempts"][0]["state"], "PREEMPTED", "{job:#}");
    assert!(has_line(&cluster, &id, "ax", "starts anew from its checkpoint"), "{:?}", story(&cluster, &id));
    // Whole cards are left alone.
    let script = format!("#!/bin/sh\nsleep 1.2\n{ax} checkpointed\n[ $AX_ATTEMPT = 1 ]\n");
    let whole = cluster.submit(ALICE, &["-G", "1"], &script);
    assert_eq!(cluster.wait_over(&whole)["attempt"], 1);
}

#[test]
fn an_answer_for_idle_cards_is_recorded_with_its_reason_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(1, 80, ""));
    let id = cluster.submit(ALICE, &["-G", "1", "-c", "1", "--ram=64M"], "#!/bin/sh\nexec sleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    let keep =
        |user, span: &str, why: &str| cluster.run(user, "ax", &["keep", &id, "--for", span, "--why", why]);
    assert_eq!(keep(BOB, "2h", "mine").code, 77);
    assert_eq!(keep(ALICE, "8d", "long").code, 1);
    assert_eq!(keep(ALICE, "soon", "when").code, 2);
    assert_eq!(cluster.run(ALICE, "ax", &["keep", &id, "--for", "2h"]).code, 2);
    let ran = keep(ALICE, "2h", "data \x1b[2J arrives");
    assert_eq!((ran.code, ran.out.contains('\x1b')), (0, false), "{ran:?}");
    assert!(
        has_line(&cluster, &id, ALICE.name, "idle cards kept for 2h by daemon: data"),
        "{:?}",
        story(&cluster, &id)
    );
    assert!(cluster.job(&id)["kept_until"].is_string());
    assert_eq!(keep(ROOT, "1h", "by an administrator").code, 0);
    let without = cluster.submit(ALICE, &["-c", "1", "--ram=64M"], "#!/bin/sh\nexec sleep 1000\n");
    cluster.wait_state(&without, &["RUNNING"]);
    let ran = cluster.run(ALICE, "ax", &["keep", &without, "--for", "1h", "--why", "a"]);
    assert!(ran.code == 1 && ran.err.contains("holds no cards"), "{ran:?}");
}

#[test]
fn wild_questions_about_use_are_answered_with_a_line_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let id = cluster.submit(ALICE, &["-G", "1", "-c", "1", "--ram=64M"], "#!/bin/sh\nexec sleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    for query in
        ["span_s=0", "span_s=-1", "span_s=18446744073709551616", "points=401", "points=0", "points=x"]
    {
        let (status, answer) = cluster.http("GET", &format!("/api/v1/cards/history?{query}"), "");
        assert_eq!((status, &answer["class"]), (400, &"usage".into()), "{query}: {answer}");
    }
    for span in [1_u64, 3600, 366 * 86_400] {
        let (status, answer) =
            cluster.http("GET", &format!("/api/v1/cards/history?span_s={span}&points=400"), "");
        let points = answer[0]["points"].as_array().unwrap().len();
        assert!(status == 200 && (1..=402).contains(&points), "{span}: {points} points");
    }
    for job in ["nonsense", "ax-2026-9999", "4294967295"] {
        let (status, answer) = cluster.http("GET", &format!("/api/v1/jobs/{job}/usage"), "");
        assert_eq!((status, &answer["class"]), (409, &"refused".into()), "{job}: {answer}");
    }
    let most = u64::MAX;
    for (action, class) in [
        (format!("{{\"action\":\"keep\",\"seconds\":{most},\"jobs\":[\"{id}\"],\"why\":\"a\"}}"), "refused"),
        (format!("{{\"action\":\"keep\",\"seconds\":60,\"jobs\":[\"{id}\"]}}"), "refused"),
        (format!("{{\"action\":\"checkpointed\",\"epoch\":{most},\"jobs\":[\"{id}\"]}}"), "refused"),
    ] {
        let (status, answer) = cluster.http("POST", "/api/v1/jobs/action", &action);
        assert_eq!(
            (status, &answer["results"][0]["error"]["class"]),
            (200, &class.into()),
            "{action}: {answer}"
        );
    }
    for action in
        ["{\"action\":\"keep\",\"seconds\":-1,\"jobs\":[\"1\"]}", "{\"action\":\"keep\",\"jobs\":[\"1\"]}"]
    {
        let (status, answer) = cluster.http("POST", "/api/v1/jobs/action", action);
        assert_eq!((status, &answer["class"]), (400, &"usage".into()), "{action}: {answer}");
    }
    // However often a job tells of checkpoints, its story does not grow with it.
    for _ in 0..50 {
        assert_eq!(cluster.run(ALICE, "ax", &["checkpointed", &id]).code, 0);
    }
    let told = story(&cluster, &id).into_iter().filter(|(_, what)| what.starts_with("told that")).count();
    assert_eq!(told, 1);
}
