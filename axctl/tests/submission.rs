//! Submitting: what is sent, what is checked before, what happens when the daemon is down,
//! breaks off, refuses, or is not to be trusted.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use ax_core::api::SubmitRequest;
use common::samples::{failed, running, succeeded};
use common::{Ended, PIPE, Reply, Root, ax, axbatch, error, ok, serve};

const SUBMIT: &str = "POST /api/v1/jobs";
const ANSWER: &str =
    r#"{"id":"ax-2026-0001","number":1,"understood":["queue default"],"warnings":["slow today"]}"#;
const SCRIPT: &str = "#!/bin/sh\n#AX --time=30\n#AX --job-name=hello\necho hello\n";

fn script(root: &Root, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = root.0.join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn request(body: &str) -> SubmitRequest {
    serde_json::from_str(body).unwrap()
}

fn ended(ended: &Ended, code: u8, out: &str, err: &str) {
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (code, out, err));
}

#[test]
fn a_script_is_sent_whole() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    let path = script(&root, "job.sh", SCRIPT);
    let vars = [("HOME", "/home/alice"), ("AXBATCH_QUEUE", "high")];
    let result = axbatch(&root, &["-c4", "--wait=no", &path], &vars, "");
    assert_eq!(result.code, 2, "a flag takes no value: {}", result.err);
    let result = axbatch(&root, &["-c4", "--export=ALL", &path, "--epochs", "3"], &vars, "");
    ended(&result, 0, "Submitted batch job ax-2026-0001\n", "axbatch: warning: slow today\n");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    let request = request(&seen[0].1);
    assert_eq!(request.program.as_deref(), Some("axbatch"));
    assert_eq!(request.options, ["--cpus-per-task=4", "--export=ALL"]);
    assert_eq!(request.option_variables, [("AXBATCH_QUEUE".to_owned(), "high".to_owned())]);
    assert_eq!(request.script.as_deref(), Some(SCRIPT));
    assert_eq!(request.script_name.as_deref(), Some("job.sh"));
    assert_eq!(request.args, ["--epochs", "3"]);
    assert_eq!(request.environment["HOME"], "/home/alice");
    assert_eq!(request.cwd, std::env::current_dir().unwrap().to_str().map(str::to_owned));
    assert!(request.umask.is_some() && request.key.is_some() && !request.test_only);
}

#[test]
fn words_behind_a_script_that_were_meant_for_ax_are_told() {
    let root = Root::new();
    serve(&root, &[(SUBMIT, ok(ANSWER))]);
    let path = script(&root, "job.sh", SCRIPT);
    let warned =
        |words: &[&str]| axbatch(&root, words, &[], "").err.replace("axbatch: warning: slow today\n", "");
    for words in [&["--priority=5"][..], &["x", "--priority", "5"]] {
        let told = warned(&[&[path.as_str()], words].concat());
        let word = words.iter().find(|word| word.starts_with("--")).unwrap();
        let expected =
            format!("'{word}' goes to job.sh; what is meant for the job stands before the script's name");
        assert_eq!(told, format!("axbatch: warning: {expected}\n"), "{words:?}");
    }
    // Given already, behind the end of options, with a value that means nothing to ax, or not about the job.
    for words in
        [&["--time=5"][..], &["--", "--priority=5"], &["--priority=high"], &["--quiet"], &["-c", "4"]]
    {
        assert_eq!(warned(&[&[path.as_str()], words].concat()), "", "{words:?}");
    }
    assert_eq!(warned(&["--priority=4", &path, "--priority=5"]), "");
    let command = axbatch(&root, &["python3-that-is-no-file", "train it.py"], &[], "");
    let hint = "; a command is submitted so: ax submit -- python3-that-is-no-file 'train it.py'\n";
    assert!(command.code == 66 && command.err.ends_with(hint), "{}", command.err);
    for mistyped in ["jbo.sh", "train.slurm"] {
        let told = axbatch(&root, &[mistyped, "fast"], &[], "");
        let expected = format!("axbatch: cannot read {mistyped}: No such file or directory\n");
        assert_eq!((told.code, told.err), (66, expected));
    }
}

#[test]
fn standard_input_and_wrapped_commands_are_jobs() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    for (words, input) in [(&["-"][..], SCRIPT), (&[], SCRIPT), (&["--wrap", "echo $HOME"], "")] {
        assert_eq!(axbatch(&root, words, &[], input).code, 0);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(request(&seen[0].1).script.as_deref(), Some(SCRIPT));
    assert_eq!(request(&seen[1].1).script_name, None);
    assert_eq!(request(&seen[2].1).cmd.as_deref(), Some("echo $HOME"));
    let keys: Vec<_> = seen.iter().map(|(_, body)| request(body).key).collect();
    assert!(keys[0] != keys[1] && keys[1] != keys[2]);
}

#[test]
fn other_encodings_travel_unchanged() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    let path = script(&root, "latin1.sh", b"#!/bin/sh\necho \xe9\n");
    assert_eq!(axbatch(&root, &[&path], &[], "").code, 0);
    let request = request(&seen.lock().unwrap()[0].1);
    assert_eq!(request.script_base64.as_deref(), Some("IyEvYmluL3NoCmVjaG8g6Qo="));
    assert_eq!(request.script, None);
}

#[test]
fn only_what_is_exported_is_sent() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    let vars = [("A", "1"), ("SECRET", "x")];
    axbatch(&root, &["--export=NONE"], &vars, SCRIPT);
    axbatch(&root, &["--export=A"], &vars, SCRIPT);
    axbatch(&root, &[], &vars, "#!/bin/sh\n#AX --export=NONE\ntrue\n");
    let seen = seen.lock().unwrap();
    assert!(request(&seen[0].1).environment.is_empty());
    assert_eq!(request(&seen[1].1).environment.keys().collect::<Vec<_>>(), ["A"]);
    assert!(request(&seen[2].1).environment.is_empty());
}

#[test]
fn what_is_wrong_here_is_told_before_anybody_is_asked() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    let wrong = script(&root, "wrong.sh", "#!/bin/sh\n#AX --gpsu=1\n");
    let value = script(&root, "value.sh", "#!/bin/sh\n\n#AX -J x --time=soon\n");
    let huge = script(&root, "huge.sh", "#".repeat((4 << 20) + 1));
    let folder = root.0.to_str().unwrap().to_owned();
    for (words, code, expected) in [
        (vec!["--gpsu=1"], 2, "axbatch: unknown option '--gpsu'; did you mean '--gpus'?".to_owned()),
        (vec![&wrong], 65, format!("axbatch: {wrong}:2:5: unknown option '--gpsu'; did you mean '--gpus'?")),
        (vec![&value], 65, format!("axbatch: {value}:3:17: --time: ")),
        (vec![&huge], 65, format!("axbatch: {huge}: the script has more than 4194304 bytes")),
        (vec!["/nonexistent.sh"], 66, "axbatch: cannot read /nonexistent.sh: No such file".to_owned()),
        (vec![&folder], 66, format!("axbatch: cannot read {folder}: it is a folder")),
        (vec!["--wrap=true", "job.sh"], 2, "axbatch: '--wrap' and 'job.sh'".to_owned()),
    ] {
        let result = axbatch(&root, &words, &[], "");
        assert_eq!(result.code, code, "{}", result.err);
        assert!(result.err.starts_with(&expected), "{} is not {expected}", result.err);
        assert_eq!((result.err.lines().count(), result.out.as_str()), (1, ""));
    }
    let empty = axbatch(&root, &[], &[], "");
    ended(&empty, 65, "", "axbatch: standard input: the script is empty\n");
    assert!(seen.lock().unwrap().is_empty());
}

#[test]
fn output_is_what_was_asked_for() {
    let root = Root::new();
    let forecast = r#"{"forecast":"it would start now on gpu-01"}"#;
    serve(
        &root,
        &[(SUBMIT, Reply::Each(vec![ok(ANSWER), ok(ANSWER), ok(ANSWER), ok(ANSWER), ok(forecast)]))],
    );
    let warning = "axbatch: warning: slow today\n";
    ended(&axbatch(&root, &["--parsable"], &[], SCRIPT), 0, "ax-2026-0001\n", warning);
    ended(&axbatch(&root, &["--quiet"], &[], SCRIPT), 0, "", "");
    let verbose = axbatch(&root, &["-v"], &[], SCRIPT);
    ended(&verbose, 0, "Submitted batch job ax-2026-0001\n", &format!("queue default\n{warning}"));
    let json = axbatch(&root, &["--json"], &[], SCRIPT).out;
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((document["id"].as_str(), document["number"].as_u64()), (Some("ax-2026-0001"), Some(1)));
    let test = axbatch(&root, &["--test-only"], &[], SCRIPT);
    ended(&test, 0, "it would start now on gpu-01\n", "");
}

#[test]
fn warnings_of_the_script_are_told_once() {
    let root = Root::new();
    let answer = r#"{"id":"ax-2026-0001","number":1,"warnings":["job.sh:3:1: #AX after the first command is ignored"]}"#;
    serve(&root, &[(SUBMIT, ok(answer))]);
    let path = script(&root, "job.sh", "#!/bin/sh\ntrue\n#AX -c2\n");
    let result = axbatch(&root, &[&path], &[], "");
    assert_eq!(result.err, format!("axbatch: warning: {path}:3:1: #AX after the first command is ignored\n"));
    let answer = answer.replace("job.sh", "script");
    let root = Root::new();
    serve(&root, &[(SUBMIT, ok(answer))]);
    let result = axbatch(&root, &[], &[], "#!/bin/sh\ntrue\n#AX -c2\n");
    assert_eq!(result.err, "axbatch: warning: standard input:3:1: #AX after the first command is ignored\n");
}

#[test]
fn a_refusal_has_its_exit_code_and_is_not_spooled() {
    let root = Root::new().with_spool();
    let replies = vec![
        error(503, "try_again", "the queue is full: 100000 jobs"),
        error(403, "no_permission", "root alone may use --uid"),
        error(409, "refused", "no queue 'x'"),
    ];
    serve(&root, &[(SUBMIT, Reply::Each(replies))]);
    ended(&axbatch(&root, &[], &[], SCRIPT), 75, "", "axbatch: the queue is full: 100000 jobs\n");
    assert_eq!(axbatch(&root, &["--uid=0"], &[], SCRIPT).code, 77);
    assert_eq!(axbatch(&root, &["-qx"], &[], SCRIPT).code, 1);
    assert!(root.spooled().is_empty());
}

#[test]
fn without_a_daemon_the_spool_takes_it() {
    let root = Root::new().with_spool();
    let result = axbatch(&root, &["-c2", "--wait=x"], &[], SCRIPT);
    assert_eq!(result.code, 2);
    let result = axbatch(&root, &["-c2"], &[("A", "1")], SCRIPT);
    assert_eq!((result.code, result.err.as_str()), (0, ""));
    let files = root.spooled();
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let key = file.file_stem().unwrap().to_str().unwrap();
    assert_eq!(result.out, format!("Spooled batch job as spool-{key}; it is submitted when axd starts\n"));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    let request = request(&fs::read_to_string(file).unwrap());
    assert_eq!(request.key.unwrap().to_string(), key);
    assert_eq!(
        (request.options, request.environment["A"].as_str()),
        (vec!["--cpus-per-task=2".to_owned()], "1")
    );
    let verbose = axbatch(&root, &["-v", "-Q", "-c2"], &[], SCRIPT);
    ended(&verbose, 0, "", "--job-name=hello\n--cpus-per-task=2\n--time=30m\n");
    let parsable = axbatch(&root, &["--parsable"], &[], SCRIPT).out;
    assert!(parsable.starts_with("spool-") && parsable.len() == 33, "{parsable}");
}

#[test]
fn what_cannot_be_spooled_is_unavailable() {
    let result = axbatch(&Root::new(), &[], &[], SCRIPT);
    assert_eq!(result.code, 69);
    assert!(result.err.starts_with("axbatch: no daemon, and the spool cannot be used: "), "{}", result.err);
    let root = Root::new().with_spool();
    let test = axbatch(&root, &["--test-only"], &[], SCRIPT);
    assert_eq!(test.code, 69);
    assert!(test.err.contains("no daemon answers at"), "{}", test.err);
    assert!(root.spooled().is_empty());
}

#[test]
fn a_broken_conversation_is_repeated_once_under_the_same_key() {
    let root = Root::new().with_spool();
    let seen = serve(&root, &[(SUBMIT, Reply::Each(vec![Reply::Break, ok(ANSWER), Reply::Break]))]);
    assert_eq!(axbatch(&root, &["--quiet"], &[], SCRIPT).code, 0);
    assert!(root.spooled().is_empty());
    let result = axbatch(&root, &[], &[], SCRIPT);
    assert!(result.out.starts_with("Spooled batch job as spool-"), "{}", result.out);
    let seen = seen.lock().unwrap();
    let keys: Vec<String> = seen.iter().map(|(_, body)| request(body).key.unwrap().to_string()).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys[0] == keys[1] && keys[2] == keys[3] && keys[1] != keys[2]);
    assert!(root.spooled()[0].ends_with(format!("{}.axjob", keys[3])));
}

#[test]
fn waiting_ends_with_the_job_s_own_status() {
    let root = Root::new();
    let job = |job| ok(serde_json::to_string(&job).unwrap());
    let killed = ax_core::api::JobView { signal: Some(9), exit_code: None, ..failed() };
    let late = ax_core::api::JobView { signal: None, exit_code: None, ..failed() };
    let trapped = ax_core::api::JobView { exit_code: Some(0), ..failed() };
    let wait = "GET /api/v1/jobs/ax-2026-0001/wait?timeout_s=60";
    let replies =
        [job(running()), Reply::Break, job(succeeded()), job(failed()), job(killed), job(late), job(trapped)];
    serve(&root, &[(SUBMIT, ok(ANSWER)), (wait, Reply::Each(replies.to_vec()))]);
    let codes: Vec<u8> = (0..5).map(|_| axbatch(&root, &["--wait", "-Q"], &[], SCRIPT).code).collect();
    assert_eq!(codes, [0, 3, 137, 1, 1]);
}

#[test]
fn waiting_for_a_spooled_job_ends_with_its_refusal() {
    let root = Root::new().with_spool();
    let file = |root: &Root| root.spooled()[0].clone();
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| axbatch(&root, &["--wait"], &[], SCRIPT));
        while root.spooled().iter().all(|path| path.extension().is_none_or(|e| e != "axjob")) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let spooled = file(&root);
        let uid = fs::metadata(&spooled).unwrap().uid();
        let refused = root.0.join(format!("var/spool/ax/refused/{uid}"));
        fs::create_dir_all(&refused).unwrap();
        let name = spooled.file_name().unwrap().to_str().unwrap().to_owned();
        fs::write(refused.join(format!("{name}.why")), "no queue 'x'\n").unwrap();
        fs::remove_file(spooled).unwrap();
        serve(&root, &[]);
        waiting.join().unwrap()
    });
    assert_eq!(waiting.code, 1);
    assert_eq!(waiting.err, "axbatch: no queue 'x'\n");
}

#[test]
fn a_stranger_s_daemon_and_spool_are_refused() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can make a stranger's socket");
        return;
    }
    let root = Root::new().with_spool();
    fs::set_permissions(&root.0, fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(root.incoming(), Some(12345), None).unwrap();
    let result = axbatch(&root, &[], &[], SCRIPT);
    assert_eq!(result.code, 69);
    assert!(result.err.contains("belongs to uid 12345, neither root nor you"), "{}", result.err);
    std::os::unix::fs::chown(root.0.join("run/ax"), Some(12345), None).unwrap();
    let listen = "import socket,os,sys,time\nos.setuid(12345)\ns=socket.socket(socket.AF_UNIX)\n\
                  s.bind(sys.argv[1])\ns.listen(5)\nprint('ready',flush=True)\ntime.sleep(30)\n";
    let child = std::process::Command::new("python3")
        .args(["-c", listen, root.socket().to_str().unwrap()])
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("skipped: no python3 to be the stranger");
        return;
    };
    let mut ready = [0; 5];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let result = axbatch(&root, &[], &[], SCRIPT);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(result.code, 77);
    assert!(result.err.contains("is served by uid 12345, neither root nor you"), "{}", result.err);
    assert!(root.spooled().is_empty());
}

#[test]
fn ax_submit_takes_a_command_in_two_forms() {
    let root = Root::new();
    let seen = serve(&root, &[(SUBMIT, ok(ANSWER))]);
    for words in [
        &["submit", "--queue", "high", "--gpus", "4", "--mem", "80", "--cmd", "python train.py"][..],
        &["submit", "-c2", "--", "python", "a file.py", "--lr=1"],
    ] {
        let result = ax(&root, words, PIPE);
        assert_eq!(result.out, "Submitted batch job ax-2026-0001\n", "{}", result.err);
    }
    let seen = seen.lock().unwrap();
    let first = request(&seen[0].1);
    assert_eq!(first.cmd.as_deref(), Some("python train.py"));
    assert_eq!(first.options, ["--queue=high", "--gpus=4", "--mem=80"]);
    assert_eq!(request(&seen[1].1).cmd.as_deref(), Some("python 'a file.py' --lr=1"));
    let nothing = ax(&root, &["submit", "-c2"], PIPE);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.starts_with("ax: nothing to run; "), "{}", nothing.err);
}

#[test]
fn help_and_version_ask_nobody() {
    let root = Root::new();
    for words in [&["--help"][..], &["-h"], &["--version"], &["-V"]] {
        let result = axbatch(&root, words, &[], "");
        assert_eq!((result.code, result.err.as_str()), (0, ""));
        assert!(!result.out.is_empty());
    }
    let help = ax(&root, &["submit", "--help"], PIPE).out;
    assert!(help.contains("--cmd=COMMAND") && help.contains("--gpus"), "{help}");
}
