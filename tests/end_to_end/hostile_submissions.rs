//! Submissions that are none, or ask for what nobody may have: each with its own line and
//! class, and without a trace. Then what is taken although it looks odd, and stays harmless.

use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root};
use crate::hostile_requests::{Case, answer_of, post, with_body};
use crate::stranger::sends;

fn submit(body: &Value, status: u16, class: &'static str, line: &'static str) -> Case {
    post("/api/v1/jobs", body.to_string(), status, class, line)
}

/// What is no submission.
pub(crate) fn submissions() -> Vec<Case> {
    let deep = format!("{{\"cmd\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let jobs = "/api/v1/jobs";
    vec![
        post(
            jobs,
            "",
            400,
            "usage",
            "the request's body is no submission: it is empty, expected a JSON object",
        ),
        post(
            jobs,
            "not json",
            400,
            "usage",
            "the request's body is no submission: it is no JSON, at line 1 column 2",
        ),
        post(
            jobs,
            "[]",
            400,
            "usage",
            "the request's body is no submission: expected a JSON object, not a list, at line 1 column 0",
        ),
        post(
            jobs,
            "{\"cmd\":\"true\"",
            400,
            "usage",
            "the request's body is no submission: it ends too early, at line 1 column 13",
        ),
        post(
            jobs,
            b"{\"cmd\":\"\xff\"}",
            400,
            "usage",
            "the request's body is no submission: it is no JSON (invalid unicode code point), at line 1 column 9",
        ),
        post(
            jobs,
            deep,
            400,
            "usage",
            "the request's body is no submission: expected a text, not a list, at line 1 column 7",
        ),
        post(
            jobs,
            "{\"cmd\":\"a\",\"cmd\":\"b\"}",
            400,
            "usage",
            "the request's body is no submission: field 'cmd' is there twice, at line 1 column 16",
        ),
        submit(
            &json!({"cmd": 7}),
            400,
            "usage",
            "the request's body is no submission: expected a text, not the number 7, at line 1 column 8",
        ),
        submit(
            &json!({"cmd": "true", "args": "one"}),
            400,
            "usage",
            "the request's body is no submission: expected a list, not the text 'one', at line 1 column 13",
        ),
        submit(
            &json!({"cmd": "true", "umask": -1}),
            400,
            "usage",
            "the request's body is no submission: expected a whole number from 0 to 4294967295, not the number -1, at line 1 column 24",
        ),
        submit(
            &json!({"cmd": "true", "uid": 1.5}),
            400,
            "usage",
            "the request's body is no submission: expected a whole number from 0 to 4294967295, not the number 1.5, at line 1 column 23",
        ),
        submit(
            &json!({"cmd": "true", "key": "short"}),
            400,
            "usage",
            "the request's body is no submission: 'short' is not a submission key (a ULID of 26 characters), at line",
        ),
        submit(
            &json!({"cmd": "true", "environment": {"A": 1}}),
            400,
            "usage",
            "the request's body is no submission: expected a text, not the number 1, at line 1 column 34",
        ),
        submit(
            &json!({"cmd": "true", "options": ["--gpus", 4]}),
            400,
            "usage",
            "the request's body is no submission: expected a text, not the number 4, at line 1 column 35",
        ),
        submit(&json!({}), 400, "data", "there is no script: one of script, script_base64, cmd is needed"),
        submit(
            &json!({"cmd": "a", "script": "b"}),
            400,
            "data",
            "only one of script, script_base64, cmd may be given",
        ),
        submit(&json!({"script_base64": "!!!"}), 400, "data", "field 'script_base64' is not base 64"),
        submit(
            &json!({"script": "#!/bin/sh\n#AX --gpu=1\n", "script_name": "job.sh"}),
            400,
            "data",
            "job.sh:2:5: unknown option '--gpu'; did you mean '--gpus'?",
        ),
        submit(
            &json!({"script": "a\u{0}b", "script_name": "nul.sh"}),
            400,
            "data",
            "nul.sh:1:2: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
        ),
        submit(
            &json!({"script": "x".repeat((4 << 20) + 1), "script_name": "big.sh"}),
            400,
            "data",
            "'big.sh': the script has 4194305 bytes, at most 4194304 are taken",
        ),
        submit(
            &json!({"cmd": "true", "args": ["x".repeat(200_000)]}),
            400,
            "data",
            "'wrap': the arguments has 200001 bytes, at most 131072 are taken",
        ),
        submit(
            &json!({"cmd": "true", "environment": {"A": "x".repeat(2 << 20)}}),
            400,
            "data",
            "'wrap': the environment has 2097155 bytes, at most 1048576 are taken",
        ),
        submit(
            &json!({"cmd": "true", "options": vec!["--hold"; 50_000]}),
            400,
            "data",
            "'wrap': the options has 350000 bytes, at most 131072 are taken",
        ),
        submit(
            &json!({"cmd": "true", "cwd": "/x".repeat(5000)}),
            400,
            "data",
            "'wrap': the folder's path has 10000 bytes, at most 4095 are taken",
        ),
        submit(
            &json!({"cmd": "true", "cwd": "relative"}),
            400,
            "data",
            "the folder 'relative' is no absolute path",
        ),
        submit(
            &json!({"cmd": "true", "script_name": "n".repeat(5000)}),
            400,
            "data",
            "'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…': the script's name has 5000 bytes, a",
        ),
        submit(
            &json!({"cmd": "true", "args": ["a\u{0}b"]}),
            400,
            "data",
            "arguments, environment and folder can't hold a NUL character",
        ),
        submit(
            &json!({"cmd": "true", "uid": 0}),
            403,
            "no_permission",
            "only root submits for others; you are daemon",
        ),
        submit(
            &json!({"cmd": "true", "program": "bash"}),
            400,
            "usage",
            "field 'program': 'bash' is none of axbatch, ax submit, axrun, sbatch",
        ),
        submit(
            &json!({"cmd": "true", "options": ["job.sh"]}),
            400,
            "usage",
            "field 'options': 'job.sh' is no option",
        ),
        submit(
            &json!({"cmd": "true", "options": ["--job-name"]}),
            400,
            "usage",
            "'--job-name' needs a value; write '--job-name=NAME'",
        ),
        submit(
            &json!({"cmd": "true", "options": ["--job-name="]}),
            400,
            "usage",
            "--job-name: the value is empty",
        ),
        submit(
            &json!({"cmd": "true", "options": ["--job-name=a\u{0}b"]}),
            400,
            "usage",
            "--job-name: the value holds a NUL character",
        ),
        submit(
            &json!({"cmd": "true", "options": [format!("--comment={}", "c".repeat(5000))]}),
            400,
            "usage",
            "--comment: 5000 bytes are more than 4096",
        ),
        submit(&json!({"cmd": "true", "colour": "red"}), 400, "usage", "unknown option '--colour'"),
        submit(&json!({"cmd": "true", "a b": true}), 400, "usage", "unknown option '--a b'"),
        submit(
            &json!({"cmd": "true", "priority": -5}),
            400,
            "usage",
            "--priority: '-5' is not a number from 0 to 100",
        ),
        submit(
            &json!({"cmd": "true", "gpus": i64::MAX}),
            400,
            "usage",
            "--gpus: '9223372036854775807' is not a number of GPUs; write N or TYPE:N",
        ),
        submit(
            &json!({"cmd": "true", "time": "1e9"}),
            400,
            "usage",
            "--time: '1e9' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
        ),
        submit(
            &json!({"cmd": "true", "mem": [["x"]]}),
            400,
            "usage",
            "the request's body is no submission: the value of an option is true, false, a whole number, a text or a list of texts, at line",
        ),
        submit(
            &json!({"cmd": "true", "ram": "99999999999T"}),
            400,
            "usage",
            "--ram: '99999999999T' is not a size of memory: 2048 (MB), 4G, 1.5G or 512M",
        ),
        submit(
            &json!({"cmd": "true", "queue": "nope"}),
            409,
            "refused",
            "there is no queue 'nope'; there are: default",
        ),
        submit(
            &json!({"cmd": "true", "cpus_per_task": 900_000}),
            409,
            "refused",
            "no node here could ever hold this job: it needs 900000 CPUs, and ",
        ),
        submit(
            &json!({"cmd": "true", "nodelist": "elsewhere"}),
            409,
            "refused",
            "--nodelist: there is no host 'elsewhere' here",
        ),
        submit(
            &json!({"cmd": "true", "gpus": 1}),
            409,
            "refused",
            "no node here has cards; leave --gpus out, or declare them under resources.gpu_nodes",
        ),
        submit(
            &json!({"cmd": "true", "priority": 1.5}),
            400,
            "usage",
            "the request's body is no submission: the value of an option is true, false, a whole number, a text or a list of texts, at line",
        ),
        submit(
            &json!({"cmd": "true", "hold": null}),
            400,
            "usage",
            "the request's body is no submission: the value of an option is true, false, a whole number, a text or a list of texts, at line",
        ),
        post(
            jobs,
            format!("{{\"x\":{}1{}}}", "[".repeat(5000), "]".repeat(5000)),
            400,
            "usage",
            "the request's body is no submission: it is nested too deeply, at line 1 column 132",
        ),
        submit(
            &json!({"cmd": "true", "queue": "../../etc"}),
            400,
            "usage",
            "--queue: '../../etc' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
        ),
        submit(
            &json!({"cmd": "true", "queue": "nope\u{1b}[31m"}),
            400,
            "usage",
            "--queue: 'nope\\x1b[31m' is not a queue's name (1 to 64 letters, digits, '.', '_', '-')",
        ),
        submit(
            &json!({"cmd": "true", "output": "%q"}),
            400,
            "usage",
            "--output: '%q' is not known in a pattern of file names; the known ones are %j %J %A %a %b %x %u %N %",
        ),
        submit(
            &json!({"cmd": "true", "option_variables": [["AXBATCH_TIME", "soon"]]}),
            400,
            "usage",
            "AXBATCH_TIME: 'soon' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
        ),
    ]
}

fn submits(cluster: &Cluster, user: crate::cluster::User, body: &Value) -> Value {
    let (status, answer) =
        answer_of(&sends(cluster, user, &with_body("POST", "/api/v1/jobs", body.to_string())));
    assert!(status == 200 || status == 201, "{body}: {answer}");
    answer
}

#[test]
fn a_key_of_somebody_else_is_another_job_and_one_s_own_the_same() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let body = json!({"cmd": "true", "hold": true, "key": "01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    let first = submits(&cluster, ALICE, &body);
    assert_eq!(submits(&cluster, ALICE, &body)["id"], first["id"]);
    let other = json!({"cmd": "false", "key": "01ARZ3NDEKTSV4RRFFQ69G5FAV"});
    assert_eq!(
        submits(&cluster, ALICE, &other)["id"],
        first["id"],
        "the key decides, not what comes with it"
    );
    let stranger = submits(&cluster, BOB, &body);
    assert_ne!(stranger["id"], first["id"]);
    assert_eq!(cluster.job(stranger["id"].as_str().unwrap())["user"], "bin");
}

#[test]
fn control_characters_of_names_comments_and_paths_are_never_shown_raw() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let evil = "a\u{1b}]0;owned\u{7}\r\nfake line\u{202e}\u{9b}31m";
    let body = json!({
        "cmd": "exit 3", "job_name": evil, "comment": evil, "output": format!("{evil}.out"),
        "cwd": cluster.home(ALICE), "env": format!("X={evil}"), "hold": true,
    });
    let id = submits(&cluster, ALICE, &body)["id"].as_str().unwrap().to_owned();
    let why = format!("because {evil}");
    let shows = |words: &[&str]| {
        let ran = cluster.run(ROOT, "ax", words);
        assert!(
            ran.out.contains("\\x1b]0;owned") || ran.out.contains("\\u001b]0;owned"),
            "{words:?}: {}",
            ran.out
        );
        harmless(&ran.out, words);
        harmless(&ran.err, words);
    };
    shows(&["queue", "-o", "id,name"]);
    shows(&["status", &id]);
    shows(&["status", "--json", &id]);
    cluster.run(ALICE, "ax", &["release", &id]);
    cluster.wait_over(&id);
    let second = submits(&cluster, ALICE, &body)["id"].as_str().unwrap().to_owned();
    let ran = cluster.run(ALICE, "ax", &["cancel", &second, "--why", &why]);
    assert_eq!(ran.code, 0, "{ran:?}");
    shows(&["status", &second]);
    shows(&["why", &second]);
    shows(&["acct", "-o", "id,name"]);
    assert!(cluster.log().contains("because a\\u{1b}"), "{}", cluster.log());
    harmless(&cluster.log(), &["the log"]);
    let logs = cluster.run(ROOT, "ax", &["logs", &second]);
    harmless(&logs.err, &["logs"]);
}

/// Nothing that a terminal would act on, and no line that somebody's text began.
fn harmless(text: &str, of: &[&str]) {
    let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || ('\u{200b}'..='\u{202f}').contains(c));
    assert_eq!(bad, None, "{of:?}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("fake line")), "{of:?}: {text:?}");
}
