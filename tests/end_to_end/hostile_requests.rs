//! Bad requests on the socket, each answered with its own line and class, and none of them
//! leaves a trace in the database. Submissions are in a file of their own.

use std::collections::BTreeSet;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::cluster::{ALICE, Cluster, as_root};
use crate::hostile_submissions::submissions;
use crate::stranger::sends;

/// A request, and what has to come back: status, class, and a part of the line.
pub(crate) struct Case {
    bytes: Vec<u8>,
    status: u16,
    class: &'static str,
    line: &'static str,
}

pub(crate) fn raw(bytes: impl AsRef<[u8]>, status: u16, class: &'static str, line: &'static str) -> Case {
    Case { bytes: bytes.as_ref().to_vec(), status, class, line }
}

pub(crate) fn with_body(method: &str, path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: ax\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn post(
    path: &str,
    body: impl AsRef<[u8]>,
    status: u16,
    class: &'static str,
    line: &'static str,
) -> Case {
    raw(with_body("POST", path, body), status, class, line)
}

pub(crate) fn act(body: &Value, status: u16, class: &'static str, line: &'static str) -> Case {
    post("/api/v1/jobs/action", body.to_string(), status, class, line)
}

pub(crate) fn get(path: &str, status: u16, class: &'static str, line: &'static str) -> Case {
    raw(with_body("GET", path, ""), status, class, line)
}

/// What is no HTTP, or no route.
fn strays() -> Vec<Case> {
    let long = "x".repeat(20_000);
    vec![
        raw("\x16\x03\x01\x02TLS\r\n\r\n", 400, "usage", "not an HTTP request: invalid token"),
        raw("GET /api/v1/jobs HTTP/9.9\r\n\r\n", 505, "usage", "only HTTP/1.1 and HTTP/1.0 are spoken"),
        raw("PROPFIND /api/v1/jobs HTTP/1.1\r\n\r\n", 501, "usage", "the method is not known"),
        raw(
            "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            400,
            "usage",
            "Content-Length is not a number",
        ),
        raw(
            "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 8388609\r\n\r\n",
            413,
            "data",
            "the body is too long: at most 8388608 bytes",
        ),
        raw(
            "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            400,
            "usage",
            "more than one Content-Length",
        ),
        raw(
            "POST /api/v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            411,
            "usage",
            "chunked bodies are not taken: send Content-Length",
        ),
        raw(
            format!("GET /{long} HTTP/1.1\r\n\r\n"),
            431,
            "usage",
            "the head is too long: at most 16384 bytes",
        ),
        raw(
            "GET http://elsewhere/ HTTP/1.1\r\n\r\n",
            400,
            "usage",
            "the target must be a path that begins with '/'",
        ),
        raw("GET /api/%zz HTTP/1.1\r\n\r\n", 400, "usage", "'%' without two hexadecimal digits"),
        raw("GET /api/v1%2Fjobs HTTP/1.1\r\n\r\n", 400, "usage", "the path holds an encoded '/'"),
        raw("GET /api/v1/jobs/%0a HTTP/1.1\r\n\r\n", 400, "usage", "the path holds a control character"),
        raw("GET /api/v1/jobs/%ff HTTP/1.1\r\n\r\n", 400, "usage", "the target is not UTF-8"),
        raw("GET /api/v1/jobs?user=%00 HTTP/1.1\r\n\r\n", 400, "usage", "the query holds a NUL"),
        get("/", 404, "usage", "there is no \"/\" here for this method"),
        get("/api/v2/jobs", 404, "usage", "there is no \"/api/v2/jobs\" here for this method"),
        get("/api/v1/secrets", 404, "usage", "there is no \"/api/v1/secrets\" here for this method"),
        raw(
            with_body("DELETE", "/api/v1/jobs/1", ""),
            404,
            "usage",
            "there is no \"/api/v1/jobs/1\" here for this method",
        ),
        raw(
            with_body("PUT", "/api/v1/reload", ""),
            404,
            "usage",
            "there is no \"/api/v1/reload\" here for this method",
        ),
        post(
            "/api/v1/reload",
            "",
            403,
            "no_permission",
            "only administrators reload the configuration; you are daemon",
        ),
        get("/api/v1/jobs/0", 409, "refused", "there is no job '0'"),
        get("/api/v1/jobs/..", 409, "refused", "'..' is no job: ids look like ax-2026-0001, or 1"),
        get("/api/v1/jobs/-1", 409, "refused", "'-1' is no job: ids look like ax-2026-0001, or 1"),
        get(
            "/api/v1/jobs/4294967296",
            409,
            "refused",
            "'4294967296' is no job: ids look like ax-2026-0001, or 1",
        ),
        get("/api/v1/jobs/ax-2025-0001", 409, "refused", "there is no job 'ax-2025-0001'"),
        get(
            "/api/v1/jobs/ax-2026-0001_7",
            409,
            "refused",
            "'ax-2026-0001_7' is an element of an array, and arrays are not supported yet",
        ),
        get(
            "/api/v1/jobs/spool-01ARZ3NDEKTSV4RRFFQ69G5FAV",
            409,
            "refused",
            "spool-01ARZ3NDEKTSV4RRFFQ69G5FAV was not taken yet, or was refused; see refused/1 in the spool and ax-spool(5)",
        ),
        get("/api/v1/jobs/77/wait?timeout_s=0", 409, "refused", "there is no job '77'"),
        get("/api/v1/jobs?state=SLEEPING", 400, "usage", "query 'state': 'SLEEPING' is no value for it"),
        get("/api/v1/jobs?limit=-1", 400, "usage", "query 'limit': '-1' is no value for it"),
        get("/api/v1/jobs?since=yesterday", 400, "usage", "query 'since': 'yesterday' is no value for it"),
        get(
            "/api/v1/jobs?until=99999999999999999999",
            400,
            "usage",
            "query 'until': '99999999999999999999' is no value for it",
        ),
        get("/api/v1/jobs?sql=%27%3B%20DROP%20TABLE%20jobs", 400, "usage", "there is no query 'sql' here"),
    ]
}

/// What is no action.
fn actions() -> Vec<Case> {
    let many = |count: usize| vec!["1"; count];
    vec![
        act(
            &json!({}),
            400,
            "usage",
            "the request's body is no action: field 'action' is missing, at line 1 column 2",
        ),
        act(
            &json!({"action": "destroy", "jobs": ["1"]}),
            400,
            "usage",
            "the request's body is no action: 'destroy' is unknown, expected one of 'cancel', 'hold', 'release', '",
        ),
        act(
            &json!({"action": ["hold"], "jobs": ["1"]}),
            400,
            "usage",
            "the request's body is no action: expected a text, not a list, at line 1 column 32",
        ),
        act(
            &json!({"action": "hold", "jobs": "1"}),
            400,
            "usage",
            "the request's body is no action: expected a list, not the text '1', at line 1 column 27",
        ),
        act(
            &json!({"action": "hold", "jobs": [1]}),
            400,
            "usage",
            "the request's body is no action: expected a text, not the number 1, at line 1 column 26",
        ),
        act(&json!({"action": "hold", "jobs": []}), 400, "usage", "no job is named"),
        // What is no condition leaves nothing out.
        act(
            &json!({"action": "cancel", "select": {"by_start": true, "all": true, "finished": true, "limit": 1}}),
            400,
            "usage",
            "a selection needs at least one condition",
        ),
        act(
            &json!({"action": "hold", "select": {"state": ["SLEEPING"]}}),
            400,
            "usage",
            "the request's body is no action: 'SLEEPING' is not a job state, at line 1 column 47",
        ),
        act(
            &json!({"action": "hold", "select": {"user": "daemon"}}),
            400,
            "usage",
            "the request's body is no action: expected a list, not the text 'daemon', at line 1 column 42",
        ),
        act(
            &json!({"action": "cancel", "jobs": many(100_001)}),
            400,
            "usage",
            "100001 jobs are too many at once, at most 100000",
        ),
        act(
            &json!({"action": "cancel", "jobs": ["1"], "why": "w".repeat(5000)}),
            400,
            "usage",
            "the reason has 5000 bytes, at most 4096 are taken",
        ),
        act(&json!({"action": "cancel", "jobs": ["1"], "signal": 0}), 400, "usage", "there is no signal 0"),
        act(&json!({"action": "cancel", "jobs": ["1"], "signal": 65}), 400, "usage", "there is no signal 65"),
        act(
            &json!({"action": "cancel", "jobs": ["1"], "signal": 256}),
            400,
            "usage",
            "the request's body is no action: expected a whole number from 0 to 255, not the number 256, at line 1 column 45",
        ),
        act(
            &json!({"action": "cancel", "jobs": ["1"], "signal": "KILL"}),
            400,
            "usage",
            "the request's body is no action: expected a whole number from 0 to 255, not the text 'KILL', at line 1 column 48",
        ),
        act(
            &json!({"action": "resolve", "jobs": ["1"], "answer": "maybe"}),
            400,
            "usage",
            "the request's body is no action: 'maybe' is unknown, expected one of 'succeeded', 'failed', 'rerun', at",
        ),
        act(
            &json!({"action": "resolve", "jobs": ["1"]}),
            400,
            "usage",
            "the request's body is no action: field 'answer' is missing, at line 1 column 33",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"]}),
            400,
            "usage",
            "the request's body is no action: field 'options' is missing, at line 1 column 32",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"], "options": ["--output=/etc/passwd"]}),
            400,
            "usage",
            "of a waiting job only --priority",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"], "options": ["--priority=200"]}),
            400,
            "usage",
            "--priority: '200' is not a number from 0 to 100",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"], "options": [format!("--job-name={}", "n".repeat(300))]}),
            400,
            "usage",
            "--job-name: 300 bytes are more than 255",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"], "options": ["--queue=.."]}),
            400,
            "usage",
            "--queue: '..' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
        ),
        act(
            &json!({"action": "update", "jobs": ["1"], "options": vec!["--priority=1"; 20_000]}),
            400,
            "usage",
            "the options have 260000 bytes, at most 131072 are taken",
        ),
        act(
            &json!({"action": "suspend", "jobs": ["1"]}),
            409,
            "refused",
            "suspend and resume are not supported yet",
        ),
    ]
}

#[test]
fn each_wrong_request_has_an_answer_of_its_own_and_leaves_no_trace() {
    if as_root() {
        check([strays(), actions(), submissions()].into_iter().flatten());
    }
}

/// The database as another process sees it: the number changes with every commit.
pub(crate) struct Watch(Connection);

impl Watch {
    pub(crate) fn new(cluster: &Cluster) -> Watch {
        let path = cluster.root.join("var/lib/ax/ax.db");
        Watch(Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap())
    }

    pub(crate) fn seen(&self) -> (i64, i64) {
        let number = |sql: &str| self.0.query_row(sql, [], |row| row.get(0)).unwrap();
        (number("SELECT count(*) FROM jobs"), number("PRAGMA data_version"))
    }
}

pub(crate) fn answer_of(text: &str) -> (u16, Value) {
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    (status.unwrap_or(0), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn check(cases: impl Iterator<Item = Case>) {
    let cluster = Cluster::new();
    let waiting = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    assert!(waiting.ends_with("-0001"), "{waiting}");
    let watch = Watch::new(&cluster);
    let before = watch.seen();
    let mut lines = BTreeSet::new();
    for case in cases {
        let start: String = String::from_utf8_lossy(&case.bytes).chars().take(300).collect();
        let text = sends(&cluster, ALICE, &case.bytes);
        let (status, answer) = answer_of(&text);
        let line = answer["error"].as_str().unwrap_or_else(|| panic!("{start:?}: {text:.400}")).to_owned();
        assert_eq!((status, &answer["class"]), (case.status, &json!(case.class)), "{start:?}: {line}");
        assert!(line.contains(case.line), "{start:?}: {line}");
        assert!(line.len() < 400 && !line.chars().any(char::is_control), "{start:?}: {line:?}");
        assert_eq!(watch.seen(), before, "{start:?} left a trace: {line}");
        assert!(lines.insert(line.clone()), "a second one with the line {line:?}");
    }
}
