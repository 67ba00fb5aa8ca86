//! What one person asks of very many jobs is done some at a time: others come in between, and the answer is one.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};

const MANY: usize = 1500;

fn filled() -> Cluster {
    let cluster = Cluster::new();
    let body = json!({"cmd": "true", "hold": true}).to_string();
    for _ in 0..MANY {
        assert_eq!(cluster.http("POST", "/api/v1/jobs", &body).0, 201);
    }
    cluster
}

/// Sends an action; the answer is read later.
fn ask(cluster: &Cluster, body: &Value) -> impl FnOnce() -> Value + use<> {
    let (mut stream, body) = (cluster.connect(), body.to_string());
    let length = body.len();
    let head = "POST /api/v1/jobs/action HTTP/1.1\r\nHost: ax\r\nConnection: close";
    stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
    move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(body).unwrap()
    }
}

fn held(cluster: &Cluster) -> usize {
    let jobs = cluster.json(ROOT, &["queue", "--json"]);
    let is_held = |job: &&Value| job["reasons"].to_string().contains("held by");
    jobs.as_array().unwrap().iter().filter(is_held).count()
}

#[test]
fn others_are_served_between_the_jobs_of_a_long_action() {
    if !as_root() {
        return;
    }
    let cluster = filled();
    let waiting = || cluster.http("GET", "/api/v1/status", "").1["waiting"].as_u64().unwrap();
    let answer = ask(&cluster, &json!({"action": "cancel", "select": {"state": ["PENDING"]}, "why": "test"}));
    let mut seen = BTreeSet::new();
    wait_for("the end", || {
        let left = waiting();
        seen.insert(left);
        left == 0
    });
    assert!(seen.iter().any(|left| (1..MANY as u64).contains(left)), "nobody came in between: {seen:?}");
    let answer = answer();
    let results = answer["results"].as_array().unwrap();
    let ids: BTreeSet<&str> = results.iter().map(|each| each["job"].as_str().unwrap()).collect();
    assert_eq!((results.len(), ids.len()), (MANY, MANY));
    assert!(results.iter().all(|each| each["done"] == "cancelled by root: test"), "{}", results[0]);
}

#[test]
fn a_long_action_is_done_before_the_next_of_the_same_user_and_before_the_daemon_stops() {
    if !as_root() {
        return;
    }
    let mut cluster = filled();
    let all = json!({"state": ["PENDING"]});
    let changed =
        ask(&cluster, &json!({"action": "update", "options": ["--begin=now+1hour"], "select": all}));
    // Of requests that come together nobody says which is first.
    let reasons = || cluster.json(ROOT, &["status", "1", "--json"])[0]["reasons"].clone();
    wait_for("the first change", || reasons().as_array().unwrap().len() == 2);
    let released = ask(&cluster, &json!({"action": "release", "select": all}));
    wait_for("the first release", || !reasons().to_string().contains("held by"));
    let held_again = ask(&cluster, &json!({"action": "hold", "select": all}));
    for answer in [changed(), released(), held_again()] {
        let results = answer["results"].as_array().unwrap();
        assert!(results.len() == MANY && results.iter().all(|each| each["done"].is_string()), "{answer}");
    }
    assert_eq!(held(&cluster), MANY);
    // One that was begun is not left half done.
    let names: Vec<String> = (1..=MANY).map(|number| number.to_string()).collect();
    let _unread = ask(&cluster, &json!({"action": "release", "jobs": names}));
    wait_for("the beginning", || held(&cluster) < MANY);
    cluster.stop();
    cluster.start();
    assert_eq!(held(&cluster), 0);
}

#[test]
fn many_questions_of_one_user_at_a_time_are_all_answered_and_others_not_kept_waiting() {
    if !as_root() {
        return;
    }
    let cluster = filled();
    let question = || {
        let mut command = cluster.command(ALICE, cluster.program("ax"));
        command.args(["queue", "--json"]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let asked: Vec<_> = (0..24).map(|_| question()).collect();
    let others = cluster.run(BOB, "ax", &["status", "1", "--json"]);
    assert_eq!(others.code, 0, "{}", others.err);
    for question in asked {
        let answer = question.wait_with_output().unwrap();
        let jobs: Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert!(answer.status.success() && jobs.as_array().unwrap().len() == MANY);
    }
}
