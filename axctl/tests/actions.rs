//! Commands that change jobs, follow logs, reload and complete: requests, lines and exit codes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;
use std::thread;
use std::time::Duration;

use ax_core::api::JobView;
use ax_core::job::state::JobState;
use common::samples::{list, running, waiting};
use common::{PIPE, Reply, Root, ax, error, ok, serve};
use serde_json::{Value, json};

const ACTION: &str = "POST /api/v1/jobs/action";

fn document(job: JobView) -> String {
    serde_json::to_string(&job).unwrap()
}

#[test]
fn actions_are_asked_for_in_the_daemon_s_words() {
    let root = Root::new();
    let seen =
        serve(&root, &[(ACTION, ok(r#"{"results":[{"job":"1","id":"ax-2026-0001","done":"done"}]}"#))]);
    let cases: [(&[&str], Value); 11] = [
        (&["hold", "1"], json!({"action": "hold", "jobs": ["1"]})),
        (&["release", "1", "2"], json!({"action": "release", "jobs": ["1", "2"]})),
        (&["suspend", "1"], json!({"action": "suspend", "jobs": ["1"]})),
        (&["resume", "1", "--why", "quiet"], json!({"action": "resume", "jobs": ["1"], "why": "quiet"})),
        (&["resolve", "1", "rerun"], json!({"action": "resolve", "answer": "rerun", "jobs": ["1"]})),
        (&["cancel", "ax-2026-0001_[1-5,9]"], json!({"action": "cancel", "jobs": ["ax-2026-0001_[1-5,9]"]})),
        (&["cancel", "--job-id", "1"], json!({"action": "cancel", "jobs": ["1"]})),
        (&["cancel", "-s", "USR1", "1"], json!({"action": "cancel", "signal": 10, "jobs": ["1"]})),
        (
            &["update", "1", "2", "--priority=80", "--time=2h"],
            json!({"action": "update", "options": ["--priority=80", "--time=2h"], "jobs": ["1", "2"]}),
        ),
        (
            &["update", "--why", "late", "1", "--priority", "80"],
            json!({"action": "update", "options": ["--priority=80"], "jobs": ["1"], "why": "late"}),
        ),
        (
            &["release", "spool-01KB7XRA6V0000000000000000"],
            json!({
                "action": "release", "jobs": ["spool-01KB7XRA6V0000000000000000"],
            }),
        ),
    ];
    for (words, _) in &cases {
        let ended = ax(&root, words, PIPE);
        assert_eq!(
            (ended.code, ended.out.as_str(), ended.err.as_str()),
            (0, "ax-2026-0001: done\n", ""),
            "{words:?}"
        );
    }
    for ((_, expected), (_, body)) in cases.iter().zip(seen.lock().unwrap().iter()) {
        assert_eq!(&serde_json::from_str::<Value>(body).unwrap(), expected);
    }
}

#[test]
fn selections_cancel_what_fits_but_never_everything() {
    let root = Root::new();
    let seen = serve(&root, &[(ACTION, ok(r#"{"results":[]}"#))]);
    let ended = ax(&root, &["cancel", "--user", "alice", "--state", "PD", "-q", "high", "-n", "x,y"], PIPE);
    assert_eq!((ended.code, ended.err.as_str()), (0, "ax: no job fits\n"));
    let body: Value = serde_json::from_str(&seen.lock().unwrap()[0].1).unwrap();
    let select = &body["select"];
    assert_eq!(select["user"], json!(["alice"]));
    assert_eq!(select["state"], json!(["PENDING", "READY"]));
    assert_eq!(select["name"], json!(["x", "y", "x,y"]));
    for words in [
        &["cancel"][..],
        &["cancel", "--signal", "TERM"],
        &["cancel", "1", "-u", "alice"],
        &["cancel", "1", "-s", "NO"],
    ] {
        let ended = ax(&root, words, PIPE);
        assert_eq!((ended.code, ended.err.lines().count()), (2, 1), "{words:?}: {}", ended.err);
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn errors_of_single_jobs_are_told_and_counted() {
    let root = Root::new();
    let results = json!({"results": [
        {"job": "1", "id": "ax-2026-0001", "done": "cancelled"},
        {"job": "9", "error": {"class": "no_permission", "error": "ax-2026-0009 is bob's"}},
    ]});
    serve(&root, &[(ACTION, ok(results.to_string()))]);
    let ended = ax(&root, &["cancel", "1", "9"], PIPE);
    assert_eq!(ended.code, 77);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("ax-2026-0001: cancelled\n", "ax: ax-2026-0009 is bob's\n")
    );
    let ended = ax(&root, &["cancel", "1", "9", "--json"], PIPE);
    assert_eq!(serde_json::from_str::<Value>(&ended.out).unwrap().as_array().unwrap().len(), 2);
}

#[test]
fn updates_are_checked_by_the_table_of_options() {
    let root = Root::new();
    for (words, text) in [
        (&["update", "1", "--priorty=80"][..], "ax: unknown option '--priorty'; did you mean '--priority'?"),
        (&["update", "1", "--wait"], "ax: '--wait' is not a property of a job"),
        (&["update", "1"], "ax: write jobs and what shall change"),
        (&["update", "--priority=80"], "ax: write jobs and what shall change"),
    ] {
        let ended = ax(&root, words, PIPE);
        assert_eq!(ended.code, 2);
        assert!(ended.err.starts_with(text), "{}", ended.err);
    }
}

#[test]
fn unknown_jobs_do_not_hide_known_ones() {
    let root = Root::new();
    let unknown = error(409, "refused", "there is no job 9");
    serve(
        &root,
        &[("GET /api/v1/jobs/1?advice=1", ok(document(running()))), ("GET /api/v1/jobs/9?advice=1", unknown)],
    );
    let ended = ax(&root, &["status", "9", "1"], PIPE);
    assert_eq!((ended.code, ended.err.as_str()), (1, "ax: there is no job 9\n"));
    assert!(ended.out.starts_with("ax-2026-0001  RUNNING\n"));
}

#[test]
fn no_daemon_is_69_and_one_line() {
    let root = Root::new();
    for words in
        [&["queue"][..], &["status", "1"], &["logs", "1"], &["cancel", "1"], &["resource"], &["reload"]]
    {
        let ended = ax(&root, words, PIPE);
        assert_eq!((ended.code, ended.out.as_str(), ended.err.lines().count()), (69, "", 1), "{words:?}");
        assert!(ended.err.contains("no daemon answers at"), "{}", ended.err);
    }
}

#[test]
fn wrong_usage_is_2_and_one_line() {
    let root = Root::new();
    for words in [
        &[][..],
        &["qeue"],
        &["queue", "--usr", "x"],
        &["queue", "-t", "RUNING"],
        &["status"],
        &["logs", "1", "--attempt", "0"],
        &["resolve", "1", "maybe"],
        &["acct", "--since", "soon"],
    ] {
        let ended = ax(&root, words, PIPE);
        assert_eq!(
            (ended.code, ended.out.as_str(), ended.err.lines().count()),
            (2, "", 1),
            "{words:?}: {}",
            ended.err
        );
    }
    let near = ax(&root, &["queue", "--usr", "x"], PIPE).err;
    assert!(near.contains("--user"), "{near}");
}

#[test]
fn logs_are_the_file_s_bytes() {
    let root = Root::new();
    let (first, second) = (root.0.join("1.out"), root.0.join("1.r1.out"));
    fs::write(&first, "lost\n").unwrap();
    fs::write(&second, "\x1b[1mbold\x1b[0m\r\n").unwrap();
    let mut job = running();
    job.attempts[0].stdout = first.to_str().map(str::to_owned);
    job.attempts[1].stdout = second.to_str().map(str::to_owned);
    let finished = list(vec![]);
    serve(
        &root,
        &[
            ("GET /api/v1/jobs/1", ok(document(job))),
            ("GET /api/v1/jobs/2", ok(document(waiting()))),
            ("GET /api/v1/jobs/3", ok(document(running()))),
            ("GET /api/v1/jobs", ok(finished)),
        ],
    );
    assert_eq!(ax(&root, &["logs", "1"], PIPE).out, "\x1b[1mbold\x1b[0m\r\n");
    assert_eq!(ax(&root, &["logs", "1", "--attempt", "1"], PIPE).out, "lost\n");
    for (words, code, text) in [
        (&["logs", "1", "--attempt", "3"][..], 1, "ax: ax-2026-0001 has no attempt 3; the last is 2\n"),
        (&["logs", "2"], 1, "ax: ax-2026-0002 has not started yet, so there is no output: needs 8"),
        (&["logs", "3"], 66, "ax: cannot open /home/alice/ax-1.r1.out: No such file"),
    ] {
        let ended = ax(&root, words, PIPE);
        assert_eq!(ended.code, code);
        assert!(ended.err.starts_with(text), "{}", ended.err);
    }
}

#[test]
fn following_goes_on_into_the_next_attempt_and_ends_drained() {
    let root = Root::new();
    let (first, second) = (root.0.join("1.out"), root.0.join("1.r1.out"));
    let living = |number: usize, state| {
        let mut job = running();
        job.attempts[0].stdout = first.to_str().map(str::to_owned);
        job.attempts[1].stdout = second.to_str().map(str::to_owned);
        job.attempts.truncate(number);
        (job.attempt, job.state) = (number as u32, state);
        if number == 1 {
            job.attempts[0].ended_at = None;
        }
        ok(document(job))
    };
    fs::write(&first, "one ").unwrap();
    let replies = vec![
        living(1, JobState::Running),
        Reply::Break,
        living(2, JobState::Running),
        living(2, JobState::Running),
        living(2, JobState::Succeeded),
    ];
    serve(&root, &[("GET /api/v1/jobs/1", Reply::Each(replies))]);
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            fs::write(&first, "one two ").unwrap();
            thread::sleep(Duration::from_millis(2500));
            fs::write(&second, "three").unwrap();
        });
        ax(&root, &["logs", "-f", "1"], PIPE)
    });
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "one two three", ""));
}

#[test]
fn a_reload_shows_changes_and_warnings() {
    let root = Root::new();
    let changed = json!({"changes": ["queue high: max_running 2 → 4"], "warnings": ["gpu-02 is not listed"]});
    let wrong = error(
        422,
        "config",
        "/etc/ax/config.yaml:3:5: unknown key 'max_runing'; did you mean 'max_running'?",
    );
    let replies = vec![ok(changed.to_string()), ok("{}"), wrong];
    serve(&root, &[("POST /api/v1/reload", Reply::Each(replies))]);
    let ended = ax(&root, &["reload"], PIPE);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("queue high: max_running 2 → 4\n", "ax: warning: gpu-02 is not listed\n")
    );
    assert_eq!(ax(&root, &["reload"], PIPE).out, "nothing changed\n");
    let ended = ax(&root, &["reload"], PIPE);
    assert_eq!((ended.code, ended.out.as_str()), (78, ""));
}

#[test]
fn filters_reach_the_daemon() {
    let root = Root::new();
    let seen = serve(&root, &[]);
    ax(&root, &["queue", "-u", "alice,bob", "-q", "high", "-t", "R", "--all", "--limit", "3"], PIPE);
    ax(&root, &["acct", "--since", "2026-11-01", "--until", "today"], PIPE);
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[0].0,
        "GET /api/v1/jobs?user=alice&user=bob&queue=high&state=RUNNING&state=UNACKNOWLEDGED&all=1&limit=3"
    );
    assert_eq!(
        seen[1].0,
        "GET /api/v1/jobs?finished=1&since=2026-10-31T23%3A00%3A00.000Z&until=2026-11-28T23%3A00%3A00.000Z"
    );
}

#[test]
fn nodes_and_cards_are_drained_and_resumed_in_the_daemon_s_words() {
    let root = Root::new();
    let done = r#"{"done":"gpu-01 card 3 is drained: by root: \u001b[2J"}"#;
    let seen = serve(&root, &[("POST /api/v1/nodes/action", ok(done))]);
    let cases: [(&[&str], Value); 3] = [
        (
            &["node", "drain", "gpu-01", "--gpu", "3", "--why", "hot"],
            json!({"action": "drain", "why": "hot", "node": "gpu-01", "card": "3"}),
        ),
        (
            &["node", "drain", "gpu-01", "--why", "hot"],
            json!({"action": "drain", "why": "hot", "node": "gpu-01"}),
        ),
        (
            &["node", "resume", "gpu-01", "--gpu=GPU-1"],
            json!({"action": "resume", "node": "gpu-01", "card": "GPU-1"}),
        ),
    ];
    for (words, _) in &cases {
        let ended = ax(&root, words, PIPE);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (0, "gpu-01 card 3 is drained: by root: \\x1b[2J\n"),
            "{words:?}"
        );
    }
    for ((_, expected), (_, body)) in cases.iter().zip(seen.lock().unwrap().iter()) {
        assert_eq!(&serde_json::from_str::<Value>(body).unwrap(), expected);
    }
    let ended = ax(&root, &["node", "drain", "gpu-01"], PIPE);
    assert!(ended.code == 2 && ended.err.contains("--why"), "a reason is needed: {ended:?}");
}

#[test]
fn what_comes_later_is_told_from_what_was_mistyped() {
    let root = Root::new();
    for name in ["requeue", "alloc", "attach", "exec", "notify", "rerun", "diff", "export", "report", "cron"]
    {
        let ended = ax(&root, &[name, "1"], PIPE);
        assert_eq!((ended.code, ended.err), (1, format!("ax: 'ax {name}' is not supported yet\n")));
    }
    let ended = ax(&root, &["queeu"], PIPE);
    assert!(ended.code == 2 && ended.err.contains("a similar subcommand exists: 'queue'"), "{ended:?}");
    let ended = ax(&root, &[], PIPE);
    let said = "ax: 'ax' needs to be told what to do, such as 'ax queue'; see 'ax --help'\n";
    assert_eq!((ended.code, ended.err.as_str()), (2, said));
}
