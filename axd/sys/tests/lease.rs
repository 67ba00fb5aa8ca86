//! Leases are made once, are seen locked from the first moment, and asking about them disturbs nobody.

#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::lease::{Lease, LeaseError, Probe, probe, seal, try_lock, unlock};
use common::{Scratch, wait_for};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// A tmpfs and a disk make nameless files in different ways.
fn places() -> Vec<Scratch> {
    let mut all = vec![Scratch::new()];
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        all.push(Scratch::below(&memory));
    }
    all
}

#[test]
fn life_of_a_lease() {
    for scratch in places() {
        let dir = scratch.dir();
        assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Absent);
        let lease = Lease::create(&dir, "7.1", b"record\n").unwrap();
        assert!(common::is_close_on_exec(&lease));
        assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Held);
        assert!(matches!(Lease::create(&dir, "7.1", b""), Err(LeaseError::AlreadyExists(_))));
        assert!(
            matches!(seal(&dir, "7.1", b""), Err(LeaseError::AlreadyExists(path)) if path.ends_with("7.1"))
        );
        drop(lease);
        assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Free);
        assert!(matches!(Lease::create(&dir, "7.1", b""), Err(LeaseError::AlreadyExists(_))));
        assert_eq!(dir.read("7.1", 100).unwrap(), b"record\n");
        assert_eq!(dir.list(10).unwrap().names, ["7.1"], "nothing else is left");
    }
}

#[test]
fn a_seal_keeps_the_late_out() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    seal(&dir, "8.2", b"sealed").unwrap();
    assert_eq!(probe(&dir, "8.2").unwrap(), Probe::Free);
    assert!(matches!(Lease::create(&dir, "8.2", b""), Err(LeaseError::AlreadyExists(_))));
    assert!(matches!(seal(&dir, "8.2", b""), Err(LeaseError::AlreadyExists(_))));
}

#[test]
fn a_copy_of_the_descriptor_keeps_it() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let lease = Lease::create(&dir, "7.1", b"").unwrap();
    let copy = lease.as_fd().try_clone_to_owned().unwrap();
    drop(lease);
    assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Held);
    drop(copy);
    assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Free);
}

#[test]
fn of_fifty_racing_threads_one_gets_it() {
    let scratch = Scratch::new();
    for round in 0..20 {
        let (barrier, won) = (Barrier::new(50), AtomicUsize::new(0));
        let name = format!("{round}.1");
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    let dir = scratch.dir();
                    barrier.wait();
                    match Lease::create(&dir, &name, b"me") {
                        Ok(lease) => {
                            won.fetch_add(1, Ordering::SeqCst);
                            assert_eq!(probe(&dir, &name).unwrap(), Probe::Held);
                            drop(lease);
                        }
                        Err(LeaseError::AlreadyExists(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::SeqCst), 1);
    }
}

/// Run by the test below in processes of its own.
#[test]
#[ignore = "a helper of the next test"]
fn racer() {
    let Ok(place) = std::env::var("AX_TEST_RACE") else { return };
    let dir = ax_sys::path::Dir::open(&place).unwrap();
    wait_for("the start", || dir.stat("go").is_ok());
    match Lease::create(&dir, "7.1", std::process::id().to_string().as_bytes()) {
        Ok(_lease) => {
            ax_sys::atomic_file::write(&dir, "winner", b"", &Default::default()).unwrap();
            wait_for("the end", || dir.stat("stop").is_ok());
        }
        Err(LeaseError::AlreadyExists(_)) => std::process::exit(75),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn of_fifty_racing_processes_one_gets_it() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["racer", "--exact", "--ignored", "--nocapture"]);
        command.env("AX_TEST_RACE", scratch.path()).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut racers: Vec<_> = (0..50).map(|_| start()).collect();
    dir.create_file("go", 0o600).unwrap();
    let mut lost = 0;
    wait_for("49 losers", || {
        racers.retain_mut(|racer| match racer.try_wait().unwrap() {
            Some(status) => {
                assert_eq!(status.code(), Some(75));
                lost += 1;
                false
            }
            None => true,
        });
        lost == 49 && dir.stat("winner").is_ok()
    });
    assert_eq!(racers.len(), 1);
    assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Held);
    assert_eq!(dir.read("7.1", 100).unwrap(), racers[0].id().to_string().as_bytes());
    // Its death lets go, without its help.
    racers[0].kill().unwrap();
    racers[0].wait().unwrap();
    assert_eq!(probe(&dir, "7.1").unwrap(), Probe::Free);
}

#[test]
fn probers_are_in_nobodys_way() {
    let scratch = Scratch::new();
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let dir = scratch.dir();
                while !over.load(Ordering::SeqCst) {
                    for number in 0..200 {
                        probe(&dir, &format!("{number}.1")).unwrap();
                        // Sealed before all began: probers must not look like holders to each other.
                        assert_ne!(probe(&dir, "sealed").unwrap(), Probe::Held);
                    }
                }
            });
        }
        let dir = scratch.dir();
        seal(&dir, "sealed", b"").unwrap();
        let made: Vec<Lease> =
            (0..200).map(|number| Lease::create(&dir, &format!("{number}.1"), b"x").unwrap()).collect();
        for number in 0..200 {
            assert_eq!(probe(&dir, &format!("{number}.1")).unwrap(), Probe::Held);
        }
        over.store(true, Ordering::SeqCst);
        drop(made);
    });
}

#[test]
fn links_are_no_leases() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    std::os::unix::fs::symlink("/etc/passwd", scratch.path().join("7.1")).unwrap();
    assert!(probe(&dir, "7.1").unwrap_err().is(libc::ELOOP));
    assert!(matches!(Lease::create(&dir, "7.1", b""), Err(LeaseError::AlreadyExists(_))));
}

#[test]
fn long_lived_files_are_locked_by_one() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let (first, second) = (dir.create_file("lease", 0o600).unwrap(), dir.open_file("lease").unwrap());
    assert!(try_lock(&first, "lease").unwrap());
    assert!(!try_lock(&second, "lease").unwrap());
    assert_eq!(probe(&dir, "lease").unwrap(), Probe::Held);
    unlock(&first, "lease").unwrap();
    assert!(try_lock(&second, "lease").unwrap());
}
