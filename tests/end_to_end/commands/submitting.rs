//! `axbatch` and `ax submit`: what they print, their exit codes, their limits,
//! and that a request that comes twice makes one job.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, Ran, as_root, ran, signal};

const SHORT: &str = "#!/bin/sh\necho \"$# $*\"\n";

/// Runs a program with something on its standard input.
fn typed(cluster: &Cluster, program: &str, arguments: &[&str], input: &str) -> Ran {
    let mut command = cluster.command(ALICE, cluster.program(program));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

#[test]
fn axbatch_prints_what_scripts_rely_on() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.write(ALICE, "j.sh", SHORT);
    let out = cluster.ok(ALICE, "axbatch", &["j.sh"]);
    let id = out.strip_prefix("Submitted batch job ").and_then(|t| t.strip_suffix('\n')).unwrap();
    assert!(id.starts_with("ax-20") && id.ends_with("-0001"), "{id}");
    let parsable = cluster.ok(ALICE, "axbatch", &["--parsable", "j.sh"]);
    assert_eq!(parsable, format!("{}2\n", &id[..id.len() - 1]));
    assert_eq!(cluster.ok(ALICE, "axbatch", &["--quiet", "j.sh"]), "");
    let told =
        cluster.run(ALICE, "axbatch", &["--verbose", "-c", "1", "--ram=100", "--time=90", "j.sh", "a", "b"]);
    let expected = "queue default, priority 50, 1 CPU, 100 MB of RAM, no cards, time limit 01:30:00";
    assert!(told.code == 0 && told.err.contains(expected), "{told:?}");
    let document: Value = serde_json::from_str(&cluster.ok(ALICE, "axbatch", &["--json", "j.sh"])).unwrap();
    assert_eq!((&document["number"], &document["ticket"]), (&5.into(), &Value::Null), "{document:#}");
    for number in 1..=5 {
        cluster.wait_over(&number.to_string());
    }
    assert_eq!(cluster.read(ALICE, "ax-4.out"), "2 a b\n");
}

#[test]
fn waiting_ends_with_the_status_of_the_job() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for (command, code, said) in [
        ("exit 0", 0, ""),
        ("exit 7", 7, "is FAILED: exit code 7"),
        ("kill -KILL $$", 137, "is FAILED: signal 9 (KILL)"),
    ] {
        let ran = cluster.run(ALICE, "axbatch", &["--wait", &format!("--wrap={command}")]);
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.out.starts_with("Submitted batch job ") && ran.err.contains(said), "{ran:?}");
    }
    let ran = cluster.run(ALICE, "axbatch", &["--wait", "--chdir=/nonexistent", "--wrap=true"]);
    assert!(ran.code == 1 && ran.err.contains("'/nonexistent' as user daemon"), "{ran:?}");
    let ran = cluster.run(
        ALICE,
        "axbatch",
        &["--wait", "--time=0:01", "--wrap=trap 'exit 0' TERM; sleep 9 & wait"],
    );
    assert!(ran.code == 1 && ran.err.contains("is TIMEOUT: over its time limit of 00:00:01"), "{ran:?}");
}

#[test]
fn who_no_longer_waits_is_told_that_the_job_goes_on() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command.args(["--wait", "--wrap=sleep 600"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let id = line.split_whitespace().last().unwrap().to_owned();
    cluster.wait_state(&id, &["RUNNING"]);
    signal(child.id(), "INT");
    let ended = ran(child.wait_with_output().unwrap());
    let told = format!("axbatch: {id} goes on without being waited for; 'ax cancel {id}' ends it\n");
    assert_eq!((ended.code, ended.err), (130, told));
    assert_eq!(cluster.state(&id), "RUNNING");
}

#[test]
fn scripts_come_from_standard_input_and_commands_from_the_line() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n#AX -J typed -o typed\necho \"from stdin $1\"\n";
    for arguments in [&["--parsable"][..], &["--parsable", "-"], &["--parsable", "-", "word"]] {
        let ran = typed(&cluster, "axbatch", arguments, script);
        assert_eq!(ran.code, 0, "{ran:?}");
        let job = cluster.wait_over(ran.out.trim());
        assert_eq!((&job["state"], &job["name"]), (&"SUCCEEDED".into(), &"typed".into()), "{job:#}");
    }
    assert_eq!(cluster.read(ALICE, "typed"), "from stdin word\n");
    let id =
        cluster.ok(ALICE, "ax", &["submit", "--parsable", "-o", "cmd", "--cmd", "echo one; echo two | cat"]);
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "cmd"), "one\ntwo\n");
    let id = cluster.ok(
        ALICE,
        "ax",
        &["submit", "--parsable", "-o", "words", "--", "printf", "<%s>", "a b", "$HOME", "'"],
    );
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "words"), "<a b><$HOME><'>");
}

#[test]
fn a_test_submits_nothing_and_says_what_would_be() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1, ram: 100M}\n");
    cluster.write(ALICE, "j.sh", SHORT);
    let said = cluster.ok(ALICE, "axbatch", &["--test-only", "j.sh"]);
    assert_eq!(said, format!("the job would start at once on {}\n", crate::asking::host()));
    let running = cluster.submit(ALICE, &["--time=10"], "#!/bin/sh\nsleep 600\n");
    cluster.wait_state(&running, &["RUNNING"]);
    let said = cluster.ok(ALICE, "axbatch", &["--test-only", "j.sh"]);
    assert!(said.starts_with("the job would start about 20"), "{said}");
    assert!(said.contains("): needs 1 CPU (0 of 1 free)"), "{said}");
    assert_eq!(cluster.json(ALICE, &["queue", "--json"]).as_array().unwrap().len(), 1);
    cluster.refused(1, ALICE, "axbatch", &["--test-only", "-c", "2", "j.sh"]);
}

#[test]
fn a_request_that_comes_twice_makes_one_job() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let key = "01JXXXXXXXXXXXXXXXXXXXXXX1";
    let body = json!({"key": key, "cmd": "exit 0", "job_name": "once"}).to_string();
    let (status, first) = cluster.http("POST", "/api/v1/jobs", &body);
    assert_eq!(status, 201, "{first:#}");
    let (status, second) = cluster.http("POST", "/api/v1/jobs", &body);
    assert_eq!((status, &second["id"]), (200, &first["id"]), "{second:#}");
    // Long after its end, and by a daemon that starts anew, it is still the same.
    cluster.wait_over(first["id"].as_str().unwrap());
    cluster.stop();
    cluster.start();
    let (status, third) = cluster.http("POST", "/api/v1/jobs", &body);
    assert_eq!((status, &third["id"]), (200, &first["id"]), "{third:#}");
    // Keys are each user's own.
    let job = cluster.ends(ALICE, &[], SHORT);
    assert_eq!(job["number"], 2);
    let job = cluster.json(ROOT, &["status", "--json", &format!("spool-{key}")]);
    assert_eq!(job[0]["id"], first["id"]);
}

#[test]
fn other_languages_name_options_in_the_document() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let body = json!({"cmd": "echo $X > out", "job_name": "named", "time": 3, "hold": true, "env": ["X=1"], "priority": "60"});
    let (status, answer) = cluster.http("POST", "/api/v1/jobs", &body.to_string());
    assert_eq!(status, 201, "{answer:#}");
    let job = cluster.job("1");
    let shown = (&job["name"], &job["time_limit_s"], &job["priority"], &job["state"]);
    assert_eq!(shown, (&"named".into(), &180.into(), &60.into(), &"PENDING".into()), "{job:#}");
    for (body, expected) in [
        (json!({"cmd": "true", "gpu": 1}), "unknown option '--gpu'; did you mean '--gpus'?"),
        (
            json!({"cmd": "true", "script": "#!/bin/sh"}),
            "only one of script, script_base64, cmd may be given",
        ),
        (json!({}), "there is no script"),
        (json!({"cmd": "true", "queue": "hihg"}), "there is no queue 'hihg'"),
        (json!([1]), "the request's body is no submission"),
    ] {
        let (status, answer) = cluster.http("POST", "/api/v1/jobs", &body.to_string());
        assert!((400..500).contains(&status), "{body}: {status} {answer}");
        assert!(answer["error"].as_str().unwrap().contains(expected), "{body}: {answer}");
    }
}

#[test]
fn submissions_have_limits_and_say_them() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut large = SHORT.as_bytes().to_vec();
    large.resize((4 << 20) + 1, b'#');
    cluster.write(ALICE, "large.sh", &large);
    let line = cluster.refused(65, ALICE, "axbatch", &["large.sh"]);
    assert!(line.contains("4194304"), "{line}");
    large.pop();
    cluster.write(ALICE, "fits.sh", &large);
    cluster.ok(ALICE, "axbatch", &["--hold", "fits.sh"]);
    cluster.write(ALICE, "j.sh", SHORT);
    let word = "x".repeat(100 << 10);
    let line = cluster.refused(65, ALICE, "axbatch", &["j.sh", &word, &word]);
    assert!(line.contains("131072"), "{line}");
    let name = "n".repeat(256);
    let ran = cluster.run(ALICE, "axbatch", &["-J", &name, "j.sh"]);
    assert!(matches!(ran.code, 1 | 2 | 65) && ran.err.contains("255"), "{ran:?}");
    let comment = "c".repeat(4097);
    let ran = cluster.run(ALICE, "axbatch", &["--comment", &comment, "j.sh"]);
    assert!(matches!(ran.code, 1 | 2 | 65) && ran.err.contains("4096"), "{ran:?}");
    // Of an environment over 1 MiB nothing is cut: it is refused, with the way out.
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    for number in 0..11 {
        command.env(format!("LARGE_{number}"), "x".repeat(100 << 10));
    }
    let ran = crate::cluster::ran(command.arg("j.sh").output().unwrap());
    assert!(ran.code == 65 && ran.err.contains("1048576") && ran.err.contains("--export"), "{ran:?}");
}

/// What nobody means is refused or warned of, not kept silently.
#[test]
fn what_has_no_effect_is_said() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1}\n");
    let host = crate::asking::host();
    cluster.write(ALICE, "j.sh", SHORT);
    cluster.write(ALICE, "slurm.sh", "#!/bin/sh\n#SBATCH --mail-type=END\n");
    let some = format!("--nodelist={host},foo");
    for (words, told) in [
        (&[&some, "j.sh"][..], "--nodelist: there is no host 'foo' here"),
        (
            &["--estimate=2h", "--time=1h", "j.sh"],
            "--estimate=02:00:00 is longer than the time limit of 01:00:00",
        ),
        (&["slurm.sh"], "--mail-type is kept, and no mail is sent"),
        (&["--env=AX_JOB_ID=5", "j.sh"], "AX_JOB_ID is set by ax"),
    ] {
        let ran = cluster.run(ALICE, "axbatch", words);
        assert!(ran.code == 0 && ran.err.contains(told), "{words:?}: {ran:?}");
    }
    for (words, told) in [
        (&["--nodelist=foo", "j.sh"][..], "--nodelist: there is no host 'foo' here"),
        (&["--begin=now+1000000days", "j.sh"], "is more than a hundred years away"),
    ] {
        let ran = cluster.run(ALICE, "axbatch", words);
        assert!(ran.code == 1 && ran.err.contains(told), "{words:?}: {ran:?}");
    }
}

#[test]
fn lists_are_of_named_jobs_or_of_one_s_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4}\n");
    let own = cluster.submit(ALICE, &["-c1", "-J", "a,b"], SHORT);
    let other = cluster.submit(ALICE, &["-c1"], SHORT);
    let theirs = cluster.submit(BOB, &["-c1"], SHORT);
    for job in [&own, &other, &theirs] {
        cluster.wait_over(job);
    }
    let ids = |words: &[&str]| -> Vec<String> {
        let listed = cluster.json(ALICE, words);
        let mut ids: Vec<String> =
            listed.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&["acct", "--json", &own]), std::slice::from_ref(&own));
    assert_eq!(ids(&["acct", "--json", "-j", &format!("{own},{theirs}")]), [own.clone(), theirs.clone()]);
    assert_eq!(ids(&["acct", "--json", "--me"]), [own.clone(), other.clone()]);
    assert_eq!(ids(&["acct", "--json", "--name=a,b"]), std::slice::from_ref(&own));
    assert_eq!(ids(&["queue", "--json", &other]), std::slice::from_ref(&other), "it has ended just now");
    let ran = cluster.run(ALICE, "ax", &["queue", "4711"]);
    assert!(ran.code == 0 && ran.err.contains("'4711' is not among them"), "{ran:?}");
    assert_eq!(cluster.run(ALICE, "ax", &["acct", "no-job"]).code, 2);
}
