//! The commands as processes: what only a process can show. No daemon runs here; a listener
//! with canned answers stands in for it where one is needed.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use test_kit::TempDir;

const AX: &str = env!("CARGO_BIN_EXE_ax");
const AXBATCH: &str = env!("CARGO_BIN_EXE_axbatch");
const AXCTL: &str = env!("CARGO_BIN_EXE_axctl");
const SCRIPT: &str = "#!/bin/sh\n#AX --time=5\ntrue\n";

/// A root of its own, gone at the end.
struct Root(TempDir);

impl Root {
    fn new() -> Root {
        let path = TempDir::new();
        fs::create_dir_all(path.join("run/ax")).unwrap();
        fs::create_dir_all(path.join("var/spool/ax/incoming")).unwrap();
        fs::set_permissions(path.join("var/spool/ax/incoming"), fs::Permissions::from_mode(0o1733)).unwrap();
        Root(path)
    }

    fn incoming(&self) -> PathBuf {
        self.0.join("var/spool/ax/incoming")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("AX_ROOT", self.0.path()).env("TZ", "UTC").stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn run(command: &mut Command, input: &str) -> Output {
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Texts that only the command-line library, the tables, the clock's zones and the full screen bring along.
const HEAVY: [&str; 4] =
    ["For more information, try", "NODE/REASON", "unsupported TZif version", "\x1b[?1049h"];

#[test]
fn axbatch_carries_no_table_and_no_command_line_library() {
    let has = |program: &str, text: &str| {
        fs::read(program).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
    };
    for text in HEAVY {
        assert!(has(AX, text), "'{text}' is not in ax: the test looks for the wrong text");
        assert!(!has(AXBATCH, text), "'{text}' is in axbatch");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let root = Root::new();
    for (program, words) in
        [(AX, vec!["completions", "bash"]), (AXBATCH, vec!["--help"]), (AX, vec!["--help"])]
    {
        let mut child = root.command(program).args(words).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    }
}

/// It has no start of the standard library's, which sees to both.
#[test]
fn what_axbatch_opens_is_never_taken_for_its_output_and_no_reader_kills_it() {
    let root = Root::new();
    let pipe = root.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let words = format!("exec {AXBATCH} {} <&- >&- 2>&-", pipe.display());
    let mut waits = root.command("/bin/sh").args(["-c", &words]).spawn().unwrap();
    let of = |what: &str| PathBuf::from(format!("/proc/{}/{what}", waits.id()));
    let ignores = || {
        let status = fs::read_to_string(of("status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t").map(str::to_owned));
        mask.map_or(0, |mask| u64::from_str_radix(&mask, 16).unwrap())
    };
    let standard = || [0, 1, 2].map(|number| fs::read_link(of(&format!("fd/{number}"))).unwrap_or_default());
    let pipe_is_ignored = 1 << (13 - 1);
    let good =
        || standard().iter().all(|at| at == Path::new("/dev/null")) && ignores() & pipe_is_ignored != 0;
    // It waits for a writer of its script for ever.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !good() && std::time::Instant::now() < end {
        thread::sleep(std::time::Duration::from_millis(5));
    }
    let (standard, ignored) = (standard(), ignores());
    waits.kill().unwrap();
    waits.wait().unwrap();
    assert!(standard.iter().all(|at| at == Path::new("/dev/null")), "{standard:?}");
    assert_ne!(ignored & pipe_is_ignored, 0, "{ignored:x}");
}

#[test]
fn a_full_disk_is_an_error() {
    let root = Root::new();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = root.command(AX).args(["completions", "bash"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(text(&output.stderr).starts_with("ax: cannot write the output: No space left"));
}

#[test]
fn exit_codes_are_those_of_the_contract() {
    let root = Root::new();
    let wrong = root.0.join("wrong.sh");
    fs::write(&wrong, "#AX --nosuch\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    for (program, words, code) in [
        (AXBATCH, vec!["--nosuch"], 2),
        (AXBATCH, vec![wrong], 65),
        (AXBATCH, vec!["/nonexistent"], 66),
        (AX, vec!["queue"], 69),
        (AX, vec!["nosuch"], 2),
        (AX, vec!["--version"], 0),
        (AXCTL, vec!["nosuch"], 2),
        (AXCTL, vec!["check", wrong], 65),
        (AXCTL, vec!["check", "/nonexistent.sh"], 66),
    ] {
        let output = run(root.command(program).args(&words), "");
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr).lines().count(), usize::from(code != 0), "{words:?}");
    }
}

#[test]
fn the_spool_is_closed_whatever_the_mask() {
    let root = Root::new();
    for mask in ["000", "077", "277"] {
        let line = format!("umask {mask}; exec {AXBATCH} --parsable");
        let output = run(root.command("/bin/sh").args(["-c", &line]), SCRIPT);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let ticket = text(&output.stdout);
        let key = ticket.trim().strip_prefix("spool-").unwrap();
        let folder = only_folder(&root.incoming());
        let file = folder.join(format!("{key}.axjob"));
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600), "mask {mask}");
        let request = fs::read_to_string(&file).unwrap();
        let umask = u32::from_str_radix(mask, 8).unwrap();
        assert!(request.contains(&format!("\"umask\":{umask}")), "{request}");
    }
}

fn only_folder(incoming: &Path) -> PathBuf {
    let mut folders = fs::read_dir(incoming).unwrap().map(|entry| entry.unwrap().path());
    let folder = folders.next().unwrap();
    assert!(folders.next().is_none());
    folder
}

/// The spool of a real installation: root's, where others make names and cannot look; and somebody has the name.
#[test]
fn an_ordinary_user_finds_a_place_beside_a_squatter() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: takes two users");
        return;
    }
    let root = Root::new();
    let squatted = root.incoming().join("12345");
    fs::create_dir(&squatted).unwrap();
    std::os::unix::fs::chown(&squatted, Some(23456), Some(23456)).unwrap();
    // The test's build folder may be closed to others.
    let program = root.0.join("axbatch");
    fs::copy(AXBATCH, &program).unwrap();
    let mut command = root.command(program.to_str().unwrap());
    let output = run(command.uid(12345).gid(12345).current_dir("/"), SCRIPT);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("Spooled batch job as spool-"));
    let folders: Vec<PathBuf> = fs::read_dir(root.incoming()).unwrap().map(|e| e.unwrap().path()).collect();
    let own = folders.iter().find(|path| **path != squatted).unwrap();
    let meta = fs::symlink_metadata(own).unwrap();
    assert!(own.file_name().unwrap().to_str().unwrap().starts_with("12345-"));
    assert_eq!((meta.uid(), meta.mode() & 0o777), (12345, 0o700));
    assert_eq!(fs::read_dir(own).unwrap().count(), 1);
    assert_eq!(fs::read_dir(&squatted).unwrap().count(), 0);
}

#[test]
fn variables_that_are_not_text_are_left_out_with_a_warning() {
    use std::os::unix::ffi::OsStrExt;
    let root = Root::new();
    let mut command = root.command(AXBATCH);
    command.env("ODD", std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    let output = run(&mut command, SCRIPT);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("the job does not get these variables: ODD"));
}

#[test]
fn a_daemon_is_asked_over_its_socket() {
    let root = Root::new();
    let listener = UnixListener::bind(root.0.join("run/ax/axd.sock")).unwrap();
    let daemon = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = Vec::new();
        while !text(&seen).ends_with('}') {
            let mut chunk = [0; 65536];
            let count = stream.read(&mut chunk).unwrap();
            seen.extend_from_slice(&chunk[..count]);
        }
        let body = r#"{"id":"ax-2026-0001","number":1}"#;
        write!(stream, "HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        text(&seen)
    });
    let output = run(root.command(AXBATCH).arg("-").arg("an argument"), SCRIPT);
    assert_eq!(text(&output.stdout), "Submitted batch job ax-2026-0001\n");
    let seen = daemon.join().unwrap();
    assert!(seen.starts_with("POST /api/v1/jobs HTTP/1.1\r\nHost: ax\r\n"), "{seen}");
    assert!(seen.contains(r#""args":["an argument"]"#), "{seen}");
}

#[test]
fn a_workload_is_simulated_without_a_daemon() {
    let root = Root::new();
    let file = root.0.join("w.csv");
    fs::write(&file, "id,arrive,runtime,gpus,mem,queue,priority\n1,0,60,1,0,dev,10\n2,5,30,1,0,high,90\n")
        .unwrap();
    let mut command = root.command(AXCTL);
    command.arg("simulate").arg(&file).args(["--nodes", "1x24000", "--profile", "throughput", "--json"]);
    let output = run(&mut command, "");
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document["done"].as_u64(), document["queues"]["high"]["jobs"].as_u64()), (Some(2), Some(1)));
}
