//! What people see: golden files of every list and page, at two widths, on a terminal and in a pipe.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::samples::{
    array, cards, failed, history, list, nodes, running, story, succeeded, usage, waiting,
};
use common::{PIPE, Root, TERMINAL, WIDE_PIPE, WIDE_TERMINAL, ax, fits, golden, ok, serve};

const SCREENS: [(&str, axctl::world::Screen); 4] =
    [("pipe-80", PIPE), ("pipe-200", WIDE_PIPE), ("terminal-80", TERMINAL), ("terminal-200", WIDE_TERMINAL)];

fn daemon() -> Root {
    let root = Root::new();
    let finished = list(vec![succeeded(), failed()]);
    serve(
        &root,
        &[
            ("GET /api/v1/jobs", ok(list(vec![running(), waiting(), array()]))),
            ("GET /api/v1/jobs?finished=1&since=2026-11-28T23%3A00%3A00.000Z", ok(finished)),
            ("GET /api/v1/jobs/1?advice=1", ok(serde_json::to_string(&running()).unwrap())),
            ("GET /api/v1/jobs/2?advice=1", ok(serde_json::to_string(&waiting()).unwrap())),
            ("GET /api/v1/jobs/4?advice=1", ok(serde_json::to_string(&failed()).unwrap())),
            ("GET /api/v1/jobs?state=READY&state=PENDING&by_start=1", ok(list(vec![waiting(), array()]))),
            ("GET /api/v1/jobs/2/why", ok("[]".to_owned())),
            ("GET /api/v1/jobs/1/why", ok(serde_json::to_string(&story()).unwrap())),
            ("GET /api/v1/nodes", ok(nodes())),
            ("GET /api/v1/cards", ok(cards())),
            ("GET /api/v1/cards/history?span_s=3600&points=44", ok(history(44))),
            ("GET /api/v1/cards/history?span_s=604800&points=120", ok(history(120))),
            ("GET /api/v1/jobs/1", ok(serde_json::to_string(&running()).unwrap())),
            ("GET /api/v1/jobs/1/usage", ok(usage(&running(), 21))),
            ("GET /api/v1/jobs/12345", ok(serde_json::to_string(&succeeded()).unwrap())),
            ("GET /api/v1/jobs/12345/usage", ok(usage(&succeeded(), 17))),
        ],
    );
    root
}

fn check(name: &str, words: &[&str]) {
    let root = daemon();
    for (kind, screen) in SCREENS {
        let ended = ax(&root, words, screen);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{name}");
        fits(&ended.out, screen.width);
        golden(&format!("{name}.{kind}"), &ended.out);
    }
}

#[test]
fn queue() {
    check("queue", &["queue"]);
}

#[test]
fn acct() {
    check("acct", &["acct"]);
}

#[test]
fn status() {
    check("status", &["status", "1", "--job-id", "2", "4"]);
}

#[test]
fn why() {
    check("why", &["why", "1"]);
}

#[test]
fn why_it_waits() {
    check("why-waiting", &["why", "2"]);
}

#[test]
fn queue_start() {
    check("queue-start", &["queue", "--start"]);
}

#[test]
fn node_list() {
    check("node-list", &["node", "list"]);
}

#[test]
fn resource() {
    check("resource", &["resource"]);
}

#[test]
fn resource_over_time() {
    let root = daemon();
    for (kind, screen, span) in [("terminal-80", TERMINAL, "1h"), ("terminal-200", WIDE_TERMINAL, "7d")] {
        for (strokes, locale) in [("", "C.UTF-8"), ("-plain", "C")] {
            let ended = common::ax_with(&root, &["resource", "--history", span], screen, &[("LANG", locale)]);
            assert_eq!((ended.code, ended.err.as_str()), (0, ""));
            fits(&ended.out, screen.width);
            golden(&format!("resource-history{strokes}.{kind}"), &ended.out);
        }
    }
    let ended = ax(&root, &["resource", "--history", "soon"], PIPE);
    assert_eq!(ended.code, 2, "{}", ended.err);
}

#[test]
fn eff() {
    check("eff", &["eff", "1", "12345"]);
}

#[test]
fn long_lists_cut_nothing() {
    let root = daemon();
    for (name, words) in [("queue-long", ["queue", "--long"]), ("acct-long", ["acct", "--wide"])] {
        let ended = ax(&root, &words, PIPE);
        assert!(!ended.out.contains('…'), "{}", ended.out);
        golden(name, &ended.out);
    }
}

#[test]
fn columns_are_chosen_and_heads_left_out() {
    let root = daemon();
    let ended = ax(&root, &["queue", "--noheader", "-o", "number,state"], PIPE);
    assert_eq!(ended.out, "1  RUNNING\n2  READY\n3  PENDING\n");
    let ended = ax(&root, &["queue", "-o", "id,gpu"], PIPE);
    assert_eq!(ended.code, 2);
    assert!(ended.err.starts_with("ax: no column 'gpu'; did you mean 'gpus'?"), "{}", ended.err);
    assert_eq!(ended.err.lines().count(), 1);
}

#[test]
fn ids_are_whole_in_a_pipe_however_narrow() {
    let root = daemon();
    let narrow = axctl::world::Screen { width: 40, ..PIPE };
    let ended = ax(&root, &["queue"], narrow);
    for id in ["ax-2026-0001 ", "ax-2026-0002 ", "ax-2026-0003_["] {
        assert!(ended.out.contains(id), "{}", ended.out);
    }
}

#[test]
fn json_documents_have_every_field_of_the_contract() {
    const JOB: &str = "id number name user uid queue state reason reasons conditions priority submitted_at eligible_at \
        started_at ended_at expected_start expected_basis advice exit_code signal node nodes cpus ram_mb gpus gpu_uuids gpu_mem_mb \
        time_limit_s attempt attempts time_in_state decisions stdout stderr comment";
    const ATTEMPT: &str = "number epoch node state started_at ended_at exit_code signal cpu_time_s max_ram_mb \
        max_gpu_mem_mb stdout";
    const CARD: &str =
        "node index uuid name mem_mb free_mb reserved_mb used_mb p95_mb load jobs foreign limit health";
    const EFF: &str = "id state elapsed_s gpu_busy_percent gpu_mem_held_mb gpu_mem_peak_mb cpus cpus_used_mean \
        ram_held_mb ram_peak_mb time_limit_s gpu_idle_s proposal remarks";
    const NODE: &str = "name state reason cpus ram_mb gpus epoch last_heartbeat_at jobs";
    let root = daemon();
    for (words, fields) in [
        (&["queue", "--json"][..], JOB),
        (&["acct", "--json"], JOB),
        (&["status", "1", "2", "--json"], JOB),
        (&["resource", "--json"], CARD),
        (&["eff", "1", "12345", "--json"], EFF),
        (&["node", "list", "--json"], NODE),
    ] {
        let ended = ax(&root, words, TERMINAL);
        assert!(!ended.out.contains('\x1b'), "{words:?}");
        let document: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        let list = document.as_array().unwrap();
        assert!(list.len() > 1, "{words:?}");
        for object in list {
            has_all(object, fields);
            for attempt in object["attempts"].as_array().into_iter().flatten() {
                has_all(attempt, ATTEMPT);
            }
        }
    }
    let document: serde_json::Value =
        serde_json::from_str(&ax(&root, &["why", "1", "--json"], PIPE).out).unwrap();
    has_all(&document[0], "at actor what why");
}

fn has_all(object: &serde_json::Value, fields: &str) {
    for field in fields.split_whitespace() {
        assert!(object.get(field).is_some(), "no {field} in {object}");
    }
}
