//! What a child of the supervisor goes through between fork and exec, in a process with one thread.

#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::credentials;
use ax_sys::pidfd::{Exit, PidFd, ProcessIdentity};
use ax_sys::process::{self, Child, ChildError, ChildStart, Hands, Limit, Resource, Spawn, fork_child};
use ax_sys::shared_word::{Fence, FenceWriter};
use ax_sys::signals::{self, Signal, SignalWatch};
use common::{Scratch, run, skip_without_root, wait_for};
use std::convert::Infallible;
use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

fn main() {
    run(&[
        ("failed_steps_are_reported", failed_steps_are_reported),
        ("failed_exec_is_reported", failed_exec_is_reported),
        ("a_death_before_exec_is_told_from_one_after", a_death_before_exec_is_told_from_one_after),
        ("threads_forbid_forking", threads_forbid_forking),
        ("ends_are_told_apart", ends_are_told_apart),
        ("descriptors_are_placed_and_the_rest_closed", descriptors_are_placed),
        ("close_from_keeps_what_it_should", close_from_keeps_what_it_should),
        ("signals_are_reset", signals_are_reset),
        ("signals_are_read", signals_are_read),
        ("becoming_a_user_is_for_good", becoming_a_user_is_for_good),
        ("limits_are_inherited", limits_are_inherited),
        ("fence_is_seen_by_a_child", fence_is_seen_by_a_child),
        ("spawned_program_starts_clean", spawned_program_starts_clean),
        ("spawn_reports_a_missing_program", spawn_reports_a_missing_program),
        ("orphans_come_to_the_subreaper", orphans_come_to_the_subreaper),
        ("death_of_the_parent_is_noticed", death_of_the_parent_is_noticed),
        ("settings_of_oneself", settings_of_oneself),
    ]);
}

fn texts(parts: &[&str]) -> Vec<CString> {
    parts.iter().map(|part| CString::new(*part).unwrap()).collect()
}

fn failed(error: &ax_sys::SysError) -> ChildError {
    ChildError::new("test", error)
}

fn exec_shell(script: &str) -> Result<Infallible, ChildError> {
    let arguments = texts(&["sh", "-c", script]);
    Err(ChildError::new("exec", &process::exec(c"/bin/sh", &arguments, &texts(&["PATH=/usr/bin:/bin"]))))
}

fn exit(child: Child) -> Exit {
    assert!(!matches!(child.report.wait(LONG).unwrap().unwrap(), ChildStart::Failed(..)));
    assert!(child.process.wait_ended(LONG).unwrap());
    child.process.reap().unwrap().unwrap()
}

/// Runs code in a child that says with its exit code how it went.
fn in_child(test: impl FnOnce() -> bool) {
    let child = fork_child(None, |_| {
        let good = test();
        std::process::exit(if good { 0 } else { 1 })
    });
    assert_eq!(exit(child.unwrap()), Exit::Code(0));
}

fn failed_steps_are_reported() {
    let wanted = ChildError { step: "mount".into(), errno: 13, text: "no: \n ü".repeat(2000) };
    let child = fork_child(None, |_| Err(wanted.clone())).unwrap();
    let ChildStart::Failed(got, Hands::Ours) = child.report.wait(LONG).unwrap().unwrap() else {
        panic!("no error came")
    };
    assert_eq!((got.step.as_str(), got.errno), ("mount", 13));
    assert!(got.text.len() > 4000 && wanted.text.starts_with(&got.text[..3000]));
    assert!(child.process.wait_ended(LONG).unwrap());
    assert_eq!(child.process.reap().unwrap(), Some(Exit::Code(127)));
    assert!(child.process.reap().unwrap_err().is(libc::ECHILD));
}

fn failed_exec_is_reported() {
    let child = fork_child(None, |parent| {
        process::close_on_exec_from(3).map_err(|error| failed(&error))?;
        parent.exec_is_next();
        Err(ChildError::new("exec", &process::exec(c"/nowhere/at/all", &texts(&["x"]), &[])))
    });
    let ChildStart::Failed(error, Hands::Ours) = child.unwrap().report.wait(LONG).unwrap().unwrap() else {
        panic!("no error came")
    };
    assert_eq!((error.step.as_str(), error.errno), ("exec", libc::ENOENT));
    assert!(error.text.contains("/nowhere/at/all"), "{}", error.text);
    wait_for("the zombie", || process::reap_any().unwrap().is_some());
}

fn a_death_before_exec_is_told_from_one_after() {
    let start = |says: &str, script: &str| {
        let child = fork_child(None, |parent| {
            if says.contains('u') {
                parent.user_is_next();
            }
            if says.contains('x') {
                parent.exec_is_next();
                return exec_shell(script);
            }
            let _ = process::signal_child(std::process::id().cast_signed(), Signal::KILL);
            unreachable!("it was killed")
        });
        let Child { process, report } = child.unwrap();
        let start = report.wait(LONG).unwrap().unwrap();
        assert!(process.wait_ended(LONG).unwrap());
        assert_eq!(process.reap().unwrap(), Some(Exit::Signal { number: 9, core: false }));
        start
    };
    assert_eq!(start("", ""), ChildStart::Died(Hands::Ours));
    assert_eq!(start("u", ""), ChildStart::Died(Hands::TheUsers));
    assert_eq!(start("ux", "kill -KILL $$"), ChildStart::Executed);
    // One that has not come to exec is not waited for.
    let child = fork_child(None, |_| {
        loop {
            std::thread::sleep(LONG);
        }
    });
    let Child { process, report } = child.unwrap();
    assert_eq!(report.wait(Duration::from_millis(50)).unwrap(), None);
    process.send_signal(Signal::KILL).unwrap();
    assert!(process.wait_ended(LONG).unwrap());
    process.reap().unwrap();
}

fn threads_forbid_forking() {
    assert_eq!(process::thread_count().unwrap(), 1);
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || receiver.recv());
    assert!(fork_child(None, |_| exec_shell("exit 0")).unwrap_err().to_string().contains("2 threads"));
    drop(sender);
    assert!(thread.join().unwrap().is_err());
    wait_for("one thread", || process::thread_count().unwrap() == 1);
}

fn ends_are_told_apart() {
    let end = |script: &str| exit(fork_child(None, |_| exec_shell(script)).unwrap());
    assert_eq!(end("exit 77"), Exit::Code(77));
    assert_eq!(end("kill -TERM $$"), Exit::Signal { number: 15, core: false });
    let realtime = fork_child(None, |_| exec_shell("exec sleep 1000")).unwrap();
    let signal: Signal = "RTMIN+5".parse().unwrap();
    assert!(realtime.process.send_signal(signal).unwrap());
    assert_eq!(exit(realtime), Exit::Signal { number: signal.number(), core: false });
}

fn descriptors_are_placed() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let scratch = Scratch::new();
    let file = scratch.dir().create_file("f", 0o600).unwrap();
    let child = fork_child(None, |_| {
        // Crossed over: each source has the other's target.
        process::place(&[(theirs.as_fd(), 5), (file.as_fd(), 6)]).map_err(|error| failed(&error))?;
        // SAFETY: both numbers were just filled.
        let (five, six) =
            unsafe { (std::os::fd::BorrowedFd::borrow_raw(5), std::os::fd::BorrowedFd::borrow_raw(6)) };
        process::place(&[(five, 6), (six, 5), (theirs.as_fd(), 1)]).map_err(|error| failed(&error))?;
        process::close_on_exec_from(7).map_err(|error| failed(&error))?;
        exec_shell("echo into >&5; echo back >&6; cd /proc/self/fd; echo *")
    });
    drop(theirs);
    assert_eq!(exit(child.unwrap()), Exit::Code(0));
    let mut text = String::new();
    ours.read_to_string(&mut text).unwrap();
    let (first, list) = text.split_once('\n').unwrap();
    assert_eq!(first, "back");
    // The shell may hold a descriptor of its own for the listing, but nothing of ours.
    assert!(list.starts_with("0 1 2 ") && list.contains("5 6"), "{list}");
    assert_eq!(scratch.dir().read("f", 100).unwrap(), b"into\n");
}

fn close_from_keeps_what_it_should() {
    in_child(|| {
        let open = |fd: i32| std::path::Path::new(&format!("/proc/self/fd/{fd}")).exists();
        let null = std::fs::File::open("/dev/null").unwrap();
        process::place(&[20, 21, 22, 30].map(|target| (null.as_fd(), target))).unwrap();
        process::close_from(19, &[21, 30, 3]).unwrap();
        let result = [20, 21, 22, 30].map(open);
        result == [false, true, false, true] && open(null.as_raw_fd())
    });
}

fn signals_are_reset() {
    let child = fork_child(None, |_| {
        signals::ignore(Signal::TERM).map_err(|error| failed(&error))?;
        signals::ignore("RTMIN+1".parse().unwrap()).map_err(|error| failed(&error))?;
        let _watch = SignalWatch::new(&[Signal::USR1, Signal::CHLD]).map_err(|error| failed(&error))?;
        signals::reset_all().map_err(|error| failed(&error))?;
        exec_shell("grep -cE '^Sig(Blk|Ign):\t0{16}$' /proc/self/status | grep -qx 2")
    });
    assert_eq!(exit(child.unwrap()), Exit::Code(0));
}

fn signals_are_read() {
    in_child(|| {
        let watch = SignalWatch::new(&[Signal::USR1, Signal::TERM]).unwrap();
        assert_eq!(watch.next().unwrap(), None);
        let own = nix::unistd::getpid().as_raw();
        process::signal_child(own, Signal::USR1).unwrap();
        watch.next().unwrap() == Some(Signal::USR1) && watch.next().unwrap().is_none()
    });
}

fn becoming_a_user_is_for_good() {
    if skip_without_root("becoming_a_user_is_for_good") {
        return;
    }
    let child = fork_child(None, |_| {
        credentials::become_user(65_534, 65_533, &[7, 65_533], || {}).map_err(|error| failed(&error))?;
        exec_shell(
            "grep -q '^Uid:\t65534\t65534\t65534\t65534$' /proc/self/status && \
            grep -q '^Gid:\t65533\t65533\t65533\t65533$' /proc/self/status && \
            grep -q '^Groups:\t7 65533 $' /proc/self/status",
        )
    });
    assert_eq!(exit(child.unwrap()), Exit::Code(0));
    in_child(|| {
        credentials::become_user(65_534, 65_534, &[], || {}).unwrap();
        credentials::become_user(0, 0, &[], || {}).is_err() && std::fs::read("/etc/shadow").is_err()
    });
}

fn limits_are_inherited() {
    let child = fork_child(None, |_| {
        let none = Limit { soft: Some(0), hard: Some(0) };
        process::set_limit(Resource::Core, none).map_err(|error| failed(&error))?;
        let files = Limit { soft: Some(64), hard: Some(128) };
        process::set_limit(Resource::OpenFiles, files).map_err(|error| failed(&error))?;
        assert_eq!(process::limit(Resource::OpenFiles).unwrap(), files);
        exec_shell("test $(ulimit -c) = 0 && test $(ulimit -Sn) = 64 && test $(ulimit -Hn) = 128")
    });
    assert_eq!(exit(child.unwrap()), Exit::Code(0));
}

fn fence_is_seen_by_a_child() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    assert!(Fence::open(&dir, "fence").unwrap_err().is(libc::ENOENT));
    let writer = FenceWriter::open(&dir, "fence").unwrap();
    let reader = Fence::open(&dir, "fence").unwrap();
    assert_eq!(reader.lowest_node_epoch(), 0);
    assert_eq!(writer.raise_fence(7), 7);
    assert_eq!(writer.raise_fence(5), 7, "a fence never goes down");
    assert_eq!(reader.lowest_node_epoch(), 7);
    // Raised after the fork: a child on its way to exec still sees it.
    let (mut ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let child = fork_child(None, |_| {
        let mut byte = [0];
        theirs.read_exact(&mut byte).unwrap();
        std::process::exit(i32::try_from(reader.lowest_node_epoch()).unwrap())
    });
    writer.raise_fence(9);
    ours.write_all(&[1]).unwrap();
    assert_eq!(exit(child.unwrap()), Exit::Code(9));
    // Another opening keeps what is there; something else is refused.
    assert_eq!(FenceWriter::open(&dir, "fence").unwrap().fence().lowest_node_epoch(), 9);
    std::fs::write(scratch.path().join("short"), "x").unwrap();
    assert!(Fence::open(&dir, "short").is_err());
    std::fs::write(scratch.path().join("other"), vec![b'x'; 8192]).unwrap();
    assert!(Fence::open(&dir, "other").is_err());
    assert!(FenceWriter::open(&dir, "other").is_err());
}

fn spawn(script: &str) -> Spawn<'static> {
    Spawn {
        program: c"/bin/sh".into(),
        arguments: texts(&["sh", "-c", script]),
        environment: texts(&["PATH=/usr/bin:/bin", "A=b"]),
        descriptors: Vec::new(),
        directory: Some(c"/usr".into()),
        new_session: true,
    }
}

/// glibc leaves its own two signals, 32 and 33, ignored in what it spawns.
fn spawned_program_starts_clean() {
    in_child(|| {
        signals::ignore(Signal::TERM).unwrap();
        let _watch = SignalWatch::new(&[Signal::USR1]).unwrap();
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let script = "echo $(pwd) $A >&4; grep -cE '^SigBlk:\t0{16}$|^SigIgn:\t(0{16}|0{7}180000000)$' /proc/self/status >&3; \
            readlink /proc/self/fd/0 >&3; test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo leads >&3; \
            kill -KILL $$";
        let mut wanted = spawn(script);
        wanted.descriptors = vec![(theirs.as_fd(), 3), (theirs.as_fd(), 4)];
        let process = wanted.start().unwrap();
        drop(theirs);
        let mut text = String::new();
        ours.read_to_string(&mut text).unwrap();
        assert_eq!(text, "/usr b\n2\n/dev/null\nleads\n");
        assert!(process.wait_ended(LONG).unwrap());
        process.reap().unwrap() == Some(Exit::Signal { number: 9, core: false })
    });
}

fn spawn_reports_a_missing_program() {
    let missing = Spawn { program: c"/nowhere/axrun".into(), ..spawn("") };
    let error = missing.start().unwrap_err();
    assert!(error.is(libc::ENOENT) && error.to_string().contains("/nowhere/axrun"), "{error}");
}

fn orphans_come_to_the_subreaper() {
    process::set_child_subreaper(true).unwrap();
    let child = fork_child(None, |_| exec_shell("(sleep 0.05; exit 5) & exit 6")).unwrap();
    assert!(child.process.wait_ended(LONG).unwrap());
    assert_eq!(exit(child), Exit::Code(6));
    let mut orphan = None;
    wait_for("the orphan", || {
        orphan = process::reap_any().unwrap();
        orphan.is_some()
    });
    assert_eq!(orphan.unwrap().1, Exit::Code(5));
    assert_eq!(process::reap_any().unwrap(), None);
    process::set_child_subreaper(false).unwrap();
}

fn death_of_the_parent_is_noticed() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let parent = fork_child(None, |_| {
        let child = fork_child(None, |_| {
            process::set_parent_death_signal(Signal::KILL).map_err(|error| failed(&error))?;
            process::place(&[(theirs.as_fd(), 1)]).map_err(|error| failed(&error))?;
            exec_shell("echo $$; exec sleep 1000")
        });
        let _kept = child.unwrap();
        std::thread::sleep(LONG);
        std::process::exit(0)
    });
    let parent = parent.unwrap();
    let mut text = [0; 16];
    let length = ours.read(&mut text).unwrap();
    let pid: i32 = std::str::from_utf8(&text[..length]).unwrap().trim().parse().unwrap();
    let identity = ProcessIdentity::read(pid).unwrap().unwrap();
    parent.process.send_signal(Signal::KILL).unwrap();
    wait_for("the grandchild's end", || match PidFd::open_checked(identity).unwrap() {
        Some(process) => process.wait_ended(Duration::ZERO).unwrap(),
        None => true,
    });
    let _ = parent.process.wait_ended(LONG);
    let _ = parent.process.reap();
}

fn settings_of_oneself() {
    in_child(|| {
        process::set_name("ax-test").unwrap();
        process::set_oom_score_adj(500).unwrap();
        process::change_dir(std::path::Path::new("/usr")).unwrap();
        process::new_session().unwrap();
        std::fs::read_to_string("/proc/self/comm").unwrap() == "ax-test\n"
            && std::fs::read_to_string("/proc/self/oom_score_adj").unwrap() == "500\n"
            && std::env::current_dir().unwrap() == std::path::Path::new("/usr")
    });
}
