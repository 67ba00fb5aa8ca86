//! Many connections: of one user against another's, and against the daemon's descriptors.
//! Other users and low limits live in child processes: this program again, running one test.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::harness::{Client, Harness, directory, patient, wait_for};
use ax_sys::process::{Limit, Resource, limit, set_limit};
use axd::api::server::Limits;

const ROLE: &str = "AX_TEST_ROLE";
const PLACE: &str = "AX_TEST_PLACE";
const NOBODY: u32 = 65534;

/// Another process of this program that plays `role`; it ends when its input does.
fn child(role: &str, place: &Path, uid: Option<u32>) -> Child {
    // A copy where everybody may run it.
    let program = place.join(format!("program-{role}"));
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "users::role", "--nocapture"]).env(ROLE, role).env(PLACE, place);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    command.spawn().unwrap()
}

fn wait_for_line(child: &mut Child, wanted: &str) {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(wanted)), "never said: {wanted}");
}

fn finish(mut child: Child) {
    drop(child.stdin.take());
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
}

/// Not a test by itself: what child processes run.
#[test]
fn role() {
    let place = || PathBuf::from(env::var_os(PLACE).unwrap());
    match env::var(ROLE).as_deref() {
        Ok("flood") => flood(&place().join("axd.sock")),
        Ok("few") => serve_with_few_descriptors(place()),
        Ok("none") => serve_without_descriptors(place()),
        _ => {}
    }
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_end_of_input() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn flood(socket: &Path) {
    let files = limit(Resource::OpenFiles).unwrap();
    set_limit(Resource::OpenFiles, Limit { soft: files.hard, hard: files.hard }).unwrap();
    let mut held = std::collections::VecDeque::new();
    for _ in 0..10_000 {
        // Whoever runs short lets the oldest go.
        let mut stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(held.pop_front().is_some(), "{error}"),
            }
        };
        let _ = stream.write_all(b"GET /half HTTP/1.1\r\n");
        held.push_back(stream);
    }
    say("flooded");
    wait_for_end_of_input();
}

#[test]
fn ten_thousand_connections_of_one_user_do_not_disturb_another() {
    if ax_sys::credentials::own().0 != 0 {
        return;
    }
    // Root as an ordinary user here: the other one must not need privileges.
    let harness = Harness::start(Limits { privileged: Vec::new(), ..patient() });
    let mut attacker = child("flood", &harness.directory, Some(NOBODY));
    let end = Instant::now() + Duration::from_secs(2);
    let mut answers = 0;
    while Instant::now() < end || answers <= 10 {
        let asked = Instant::now();
        assert_eq!(harness.get("/echo").status, 200);
        assert!(asked.elapsed() < Duration::from_secs(5));
        answers += 1;
    }
    wait_for_line(&mut attacker, "flooded");
    assert_eq!(harness.get("/echo").status, 200);
    wait_for("only as many as allowed", || harness.counters.connections.load(SeqCst) <= 64);
    assert_eq!(harness.counters.accept_failures.load(SeqCst), 0);
    finish(attacker);
    wait_for("all closed", || harness.counters.connections.load(SeqCst) == 0);
}

#[test]
fn whoever_has_too_many_connections_is_told() {
    let limits = Limits { user_connections: 3, privileged: Vec::new(), ..patient() };
    let harness = Harness::start(limits);
    let mut clients: Vec<Client> = (0..3).map(|_| harness.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("GET /echo HTTP/1.1\r\n\r\n").status, 200);
    }
    let mut refused = harness.connect();
    let answer = refused.answer();
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("\"class\":\"try_again\""), "{answer:?}");
    assert_eq!(refused.try_answer().unwrap(), None);
    drop(clients.pop());
    wait_for("one closed", || harness.counters.connections.load(SeqCst) == 2);
    assert_eq!(harness.get("/echo").status, 200);
}

/// Lowers only what this process may have now: what is open stays.
fn few_descriptors() {
    let files = limit(Resource::OpenFiles).unwrap();
    set_limit(Resource::OpenFiles, Limit { soft: Some(64), hard: files.hard }).unwrap();
}

fn serve_with_few_descriptors(place: PathBuf) {
    few_descriptors();
    let harness = Harness::start_in(place, patient());
    say("serving");
    wait_for_end_of_input();
    assert_eq!(harness.counters.accept_failures.load(SeqCst), 0, "some descriptors always stay free");
    assert!(harness.counters.connections.load(SeqCst) < 48);
}

#[test]
fn a_flood_leaves_the_daemon_descriptors() {
    let place = directory();
    let mut server = child("few", &place, None);
    wait_for_line(&mut server, "serving");
    let socket = place.join("axd.sock");
    let mut flood: Vec<Client> = (0..300).map(|_| Client::connect(&socket)).collect();
    assert_eq!(flood[299].answer().status, 503);
    assert_eq!(flood[0].ask("GET /echo HTTP/1.1\r\n\r\n").status, 200);
    drop(flood);
    let answered = || {
        let mut client = Client::connect(&socket);
        let _ = client.push("GET /echo HTTP/1.1\r\n\r\n");
        client.answer().status == 200
    };
    wait_for("answered", answered);
    finish(server);
}

fn serve_without_descriptors(place: PathBuf) {
    few_descriptors();
    let harness = Harness::start_in(place, patient());
    let mut hoard: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // One is left, for the client.
    drop(hoard.pop());
    let mut client = harness.connect();
    let counters = &harness.counters;
    wait_for("accepting failed", || counters.accept_failures.load(SeqCst) > 0);
    let before = counters.turns.load(SeqCst);
    std::thread::sleep(Duration::from_millis(500));
    assert!(counters.turns.load(SeqCst) - before < 50, "it spins");
    drop(hoard);
    assert_eq!(client.ask("GET /echo HTTP/1.1\r\n\r\n").status, 200);
}

#[test]
fn a_want_of_descriptors_is_waited_out() {
    let place = directory();
    finish(child("none", &place, None));
}
