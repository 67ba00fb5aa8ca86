//! What tells the daemon of things may fail to: it looks by itself now and then, and finds them. A helper takes the
//! descriptor that would tell out of the set of those that the daemon waits for, so that no news of it comes any more.

use std::process::Command;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, wait_for};

/// Words: the process, what the descriptor is called in `/proc`, and its number in the daemon's set, if that says which.
const DEAFEN: &str = r#"
import ctypes, fcntl, os, select, sys
pid, name, data = int(sys.argv[1]), sys.argv[2], sys.argv[3]
call = ctypes.CDLL(None, use_errno=True).syscall
process = os.pidfd_open(pid)
def get(fd):
    own = call(438, process, fd, 0)  # pidfd_getfd
    if own < 0:
        sys.exit(ctypes.get_errno())
    return fcntl.fcntl(own, fcntl.F_DUPFD, 500)
def link(fd):
    return os.readlink(f"/proc/{pid}/fd/{fd}")
found = 0
for fd in os.listdir(f"/proc/{pid}/fd"):
    if link(fd) != "anon_inode:[eventpoll]":
        continue
    for line in open(f"/proc/{pid}/fdinfo/{fd}").read().splitlines():
        words = line.replace(":", " ").split()
        if words[0] != "tfd" or link(words[1]) != name or data not in ("", words[5]):
            continue
        # The kernel knows an entry by the file and by its number.
        os.dup2(get(int(words[1])), int(words[1]))
        select.epoll.fromfd(get(int(fd))).unregister(int(words[1]))
        found += 1
print(found)
"#;

const ENOSYS: i32 = 38;

/// Whether it could be done; says so if the kernel is too old for it.
fn deafen(cluster: &Cluster, name: &str, data: &str) -> bool {
    let pid = cluster.pid().to_string();
    let ran = Command::new("python3").args(["-c", DEAFEN, &pid, name, data]).output().unwrap();
    if ran.status.code() == Some(ENOSYS) {
        eprintln!("skipped: needs pidfd_getfd");
        return false;
    }
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "1", "{ran:?}");
    true
}

/// The loop's waker; see `axd/src/engine/tokens.rs`.
const WAKER: (&str, &str) = ("anon_inode:[eventfd]", "200000000000000");

/// All that other threads have for the loop comes through it: what the disk has, what was looked up, launched, settled.
#[test]
fn a_loop_that_nobody_wakes_goes_on_by_looking_now_and_then_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {scheduling_interval: 100ms}\n");
    let before = cluster.submit(ALICE, &[], "#!/bin/sh\n");
    cluster.wait_over(&before);
    if !deafen(&cluster, WAKER.0, WAKER.1) {
        return;
    }
    // Not waited for without end, or nothing would tidy up after this test.
    cluster.write(ALICE, "job.sh", "#!/bin/sh\necho seen\nexit 3\n");
    let mut asks = cluster.command(ALICE, cluster.program("axbatch"));
    let mut asks = asks.args(["-o", "out", "job.sh"]).spawn().unwrap();
    wait_for("the answer", || asks.try_wait().unwrap().is_some());
    assert_eq!(cluster.wait_over("2")["exit_code"], 3);
    assert_eq!(cluster.read(ALICE, "out"), "seen\n");
    let long = cluster.submit(ALICE, &[], "#!/bin/sh\nsleep 600\n");
    cluster.wait_state(&long, &["RUNNING"]);
    assert_eq!(cluster.run(ROOT, "ax", &["cancel", &long]).code, 0);
    assert_eq!(cluster.wait_over(&long)["state"], "CANCELLED");
}

/// It takes up to half a minute.
#[test]
fn slow_a_drop_of_which_nobody_tells_is_found_by_looking_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.put(ALICE, "first.sh", crate::spool::leaves(&cluster, ALICE, "first"));
    cluster.wait_file(ALICE, "first");
    if !deafen(&cluster, "anon_inode:inotify", "") {
        return;
    }
    cluster.put(ALICE, "second.sh", crate::spool::leaves(&cluster, ALICE, "second"));
    wait_for("the drop to be found", || !cluster.read(ALICE, "second").is_empty());
}
