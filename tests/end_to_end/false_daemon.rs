//! A daemon that is none, or not well: what the commands do when somebody else, or nonsense,
//! answers at the socket. One clear line, the documented exit code; and a submission goes to the
//! spool only where no daemon has answered it.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use crate::cluster::{ALICE, BOB, Cluster, Ran, as_root, ran, wait_for};
use crate::stranger::{hangs_on, pretends};

/// An answer, and what is said of it.
const ANSWERS: &[(&[u8], &str)] = &[
    (b"", "the connection to axd broke"),
    (b"HTTP/1.1 201 Crea", "the connection to axd broke"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":", "the connection to axd broke"),
    (b"\x00\xff\x13garbage\r\n\r\n", "does not speak ax's protocol"),
    (b"SSH-2.0-OpenSSH_9.9\r\n", "does not speak ax's protocol"),
    (b"HTTP/1.1 201 Created\r\n\r\n{}", "an answer without its length"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: 99999999999\r\n\r\n", "is larger than any answer may be"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: 18446744073709551616\r\n\r\n", "an answer without its length"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: -1\r\n\r\n", "an answer without its length"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n\xff\xfe\xfd\xfc", "does not speak ax's protocol"),
    (b"HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\n{\"id\":7}", "does not speak ax's protocol"),
    (b"HTTP/1.1 500 Oops\r\nContent-Length: 6\r\n\r\n<html>", "status 500 without an explanation"),
    (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "does not speak ax's protocol"),
];

/// Answers each connection with these bytes, `times` over.
fn serve(socket: &Path, answer: &'static [u8], times: usize) {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket).unwrap();
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream: UnixStream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 65536]);
                for _ in 0..times {
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// A world whose daemon was there once, so that there is a spool.
fn world() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.stop();
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n");
    cluster
}

/// `axbatch job.sh` against a socket alone: there is no spool then.
fn submits_to(cluster: &Cluster, socket: &Path) -> Ran {
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command.env_remove("AX_ROOT").env("AX_SOCKET", socket).arg("job.sh");
    ran(command.output().unwrap())
}

fn one_line(ran: &Ran, code: i32, text: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
    assert!(ran.err.lines().count() == 1 && ran.err.contains(text), "{text}: {ran:?}");
    assert!(ran.err.len() < 400 && !ran.err.trim_end().chars().any(char::is_control), "{ran:?}");
}

#[test]
fn what_is_no_answer_is_said_in_one_line() {
    if !as_root() {
        return;
    }
    let cluster = world();
    for (number, (answer, said)) in ANSWERS.iter().enumerate() {
        let socket = cluster.root.join(format!("false-{number}"));
        serve(&socket, answer, 1);
        one_line(&submits_to(&cluster, &socket), 69, said);
    }
}

#[test]
fn answers_without_end_are_left() {
    if !as_root() {
        return;
    }
    let cluster = world();
    for (name, answer) in
        [("zeros", &[0; 65536][..]), ("lines", b"HTTP/1.1 200 OK\r\nA: b\r\n"), ("head", &[b'x'; 65536])]
    {
        let socket = cluster.root.join(name);
        serve(&socket, answer, usize::MAX);
        one_line(&submits_to(&cluster, &socket), 69, "does not speak ax's protocol");
    }
}

#[test]
fn where_nobody_answered_the_spool_takes_it_and_a_refusal_stays_one() {
    if !as_root() {
        return;
    }
    let cluster = world();
    serve(&cluster.socket(), b"nonsense\r\n\r\n", 1);
    let spooled = cluster.run(ALICE, "axbatch", &["job.sh"]);
    assert!(spooled.code == 0 && spooled.out.starts_with("Spooled batch job as spool-"), "{spooled:?}");
    let refusal = b"HTTP/1.1 503 x\r\nContent-Length: 66\r\n\r\n{\"class\":\"try_again\",\"error\":\"full\\u001b[31m\\nax: all is well\"   }";
    serve(&cluster.socket(), refusal, 1);
    one_line(&cluster.run(ALICE, "axbatch", &["job.sh"]), 75, "full\\x1b[31m\\nax: all is well");
    one_line(&cluster.run(ALICE, "ax", &["queue"]), 75, "full\\x1b[31m");
}

#[test]
fn a_stranger_s_socket_is_told_nothing() {
    if !as_root() {
        return;
    }
    let cluster = world();
    let socket = cluster.home(BOB).join("axd.sock");
    std::fs::set_permissions(cluster.home(BOB), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut stranger = pretends(&cluster, BOB, &socket);
    let told = std::fs::metadata(cluster.home(BOB).join("told")).map_or(0, |meta| meta.len());
    one_line(&submits_to(&cluster, &socket), 77, "is served by uid 2, neither root nor you: not trusted");
    for program in [&["queue"][..], &["cancel", "1"], &["status", "1"]] {
        let mut command = cluster.command(ALICE, cluster.program("ax"));
        command.env_remove("AX_ROOT").env("AX_SOCKET", &socket).args(program);
        one_line(&ran(command.output().unwrap()), 77, "not trusted");
    }
    // Where the stranger has taken the place of the real one, the spool is no way around it.
    let _ = std::fs::remove_file(cluster.socket());
    std::os::unix::fs::symlink(&socket, cluster.socket()).unwrap();
    one_line(&cluster.run(ALICE, "axbatch", &["job.sh"]), 77, "not trusted");
    let after = std::fs::metadata(cluster.home(BOB).join("told")).map_or(0, |meta| meta.len());
    assert_eq!(after, told, "something was told to the stranger");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn ten_thousand_connections_of_one_user_do_not_keep_another_from_submitting() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut crowd = hangs_on(&cluster, BOB, 10_000);
    for _ in 0..10 {
        let id = cluster.submit(ALICE, &[], "#!/bin/sh\n");
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    }
    // All of them were made: the crowd says so when it has, and holds what it has left.
    let mut said = String::new();
    let mut output = crowd.stdout.take().unwrap();
    wait_for("the crowd", || {
        let mut chunk = [0; 256];
        let count = output.read(&mut chunk).unwrap();
        said.push_str(&String::from_utf8_lossy(&chunk[..count]));
        said.matches("@@").count() >= 2
    });
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", cluster.pid())).unwrap().count();
    assert!(descriptors < 300, "{descriptors} descriptors are open in the daemon");
    drop(crowd.stdin.take());
    crowd.wait().unwrap();
    assert!(!cluster.log().contains("accept"), "{}", cluster.log());
}
