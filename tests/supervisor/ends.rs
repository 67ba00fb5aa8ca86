//! How attempts end: by themselves, by limits, by request; and that nothing of them is left.

use ax_core::job::spec::WarnSignal;
use ax_core::job::state::Outcome;
use ax_core::record::{Report, Request};
use ax_core::size::Megabytes;
use ax_core::time::Span;
use ax_sys::signals::Signal;

use crate::leased::Leased;
use crate::world::{Mount, USER, World, eventually, is_alive, pid_in, set_mode};

fn cancel(at_once: bool) -> Request {
    Request::Terminate {
        outcome: Outcome::Cancelled,
        message: "cancelled by wang".to_owned(),
        at_once,
        warned: false,
    }
}

#[test]
fn a_limit_warns_asks_and_counts_as_timeout_even_for_exit_0() {
    let Some(world) = World::new() else { return };
    let script = "trap 'echo warned' USR1; trap 'echo term; exit 0' TERM; while :; do sleep 0.05; done";
    let warn = WarnSignal { batch_only: true, signal: 10, before: Span(700) };
    let result = world
        .job(script)
        .with(|a| {
            a.ending.limit = Some(Span(1400));
            a.ending.warn = Some(warn);
            a.files.error = Some("/dev/null".to_owned());
        })
        .run();
    assert_eq!(world.out(), "warned\nterm\n");
    assert_eq!((result.outcome, result.exit_code), (Outcome::Timeout, Some(0)));
    assert_eq!(result.message.as_deref(), Some("over its time limit of 00:00:01"));
    let lasted = result.ended_at - result.started_at.unwrap();
    assert!(lasted >= Span(1400), "{lasted:?}");
}

#[test]
fn an_end_with_a_warning_gives_the_time_that_was_asked_for_and_no_other() {
    let Some(world) = World::new() else { return };
    let script =
        "trap 'echo warned' USR1; trap 'echo term; exit 0' TERM; echo up > up; while :; do sleep 0.05; done";
    let warn = WarnSignal { batch_only: true, signal: 10, before: Span(1500) };
    let change = |a: &mut ax_core::record::Assignment| {
        a.ending.warn = Some(warn);
        a.files.error = Some("/dev/null".to_owned());
    };
    let mut job = world.job(script).with(change).start();
    job.begun();
    eventually("the traps", || world.home.join("up").exists());
    let asked = std::time::Instant::now();
    for message in ["IDLE", "asked again"] {
        let (outcome, message) = (Outcome::Cancelled, message.to_owned());
        assert_eq!(
            job.ask(&Request::Terminate { outcome, message, at_once: false, warned: true }),
            Report::Done
        );
    }
    let result = job.result();
    assert!(asked.elapsed() >= std::time::Duration::from_millis(1500), "{:?}", asked.elapsed());
    assert_eq!(world.out(), "warned\nterm\n");
    assert_eq!((result.outcome, result.message.as_deref()), (Outcome::Cancelled, Some("IDLE")));
}

#[test]
fn a_warning_puts_an_end_off_no_longer_than_is_allowed() {
    let Some(world) = World::new() else { return };
    let warn = WarnSignal { batch_only: true, signal: 10, before: Span::seconds(86_400) };
    let change = |a: &mut ax_core::record::Assignment| {
        (a.ending.warn, a.ending.longest_warning) = (Some(warn), Some(Span(500)));
    };
    let mut job = world.job("trap '' USR1; echo up > up; while :; do sleep 0.05; done").with(change).start();
    job.begun();
    eventually("the trap", || world.home.join("up").exists());
    let (outcome, message) = (Outcome::Cancelled, "IDLE".to_owned());
    let request = Request::Terminate { outcome, message, at_once: false, warned: true };
    assert_eq!(job.ask(&request), Report::Done);
    assert_eq!(job.result().outcome, Outcome::Cancelled);
}

#[test]
fn whoever_ignores_term_is_killed_after_the_grace() {
    let Some(world) = World::new() else { return };
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done'";
    let result = world
        .job(script)
        .with(|a| {
            a.ending.limit = Some(Span(300));
            a.ending.kill_wait = Span(300);
        })
        .run();
    assert_eq!((result.outcome, result.exit_code, result.signal), (Outcome::Timeout, None, Some(9)));
    assert!(result.ended_at - result.started_at.unwrap() >= Span(600));
    assert!(!is_alive(pid_in(&world.home.join("child"))));
}

#[test]
fn children_keep_their_grace_when_the_shell_dies_of_term() {
    let Some(world) = World::new() else { return };
    let script = "sh -c 'trap \"sleep 0.5; echo saved > checkpoint; exit\" TERM; echo > ready; while :; do sleep 0.05; done'\n";
    let mut job = world.job(script).start();
    job.begun();
    eventually("the child", || world.home.join("ready").exists());
    assert_eq!(job.ask(&cancel(false)), Report::Done);
    let result = job.result();
    assert_eq!((result.outcome, result.signal), (Outcome::Cancelled, Some(15)));
    assert_eq!(result.message.as_deref(), Some("cancelled by wang"));
    assert_eq!(std::fs::read_to_string(world.home.join("checkpoint")).unwrap(), "saved\n");
}

#[test]
fn at_once_means_without_grace() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("trap 'echo asked' TERM; while :; do sleep 0.05; done").start();
    job.begun();
    assert_eq!(job.ask(&cancel(true)), Report::Done);
    let result = job.result();
    assert_eq!((result.outcome, result.signal), (Outcome::Cancelled, Some(9)));
    assert_eq!(world.out(), "");
}

#[test]
fn stopped_children_hear_that_they_are_to_end() {
    let Some(world) = World::new() else { return };
    let script = "sh -c 'trap \"echo asked; exit\" TERM; echo $$ > child; while :; do sleep 0.05; done' &\n\
        while [ ! -s child ]; do sleep 0.02; done; kill -STOP $!; echo > stopped; wait";
    let mut job = world.job(script).with(|a| a.files.error = Some("/dev/null".to_owned())).start();
    job.begun();
    eventually("the stop", || world.home.join("stopped").exists());
    // The grace is a minute: only CONT lets it end before.
    let asked = std::time::Instant::now();
    assert_eq!(job.ask(&cancel(false)), Report::Done);
    assert_eq!(job.result().outcome, Outcome::Cancelled);
    assert_eq!(world.out(), "asked\n");
    assert!(asked.elapsed() < std::time::Duration::from_secs(50));
}

#[test]
fn what_leaves_the_tree_and_its_session_goes_with_the_script() {
    let Some(world) = World::new() else { return };
    let script = "setsid sh -c 'setsid sh -c \"trap \\\"\\\" HUP TERM; echo \\$\\$ > far; exec sleep 1000\" &' &\n\
        nohup sleep 1000 & echo $! > near; while [ ! -s far ]; do sleep 0.02; done; exit 0";
    let result = world.job(script).run();
    assert_eq!((result.outcome, result.exit_code), (Outcome::Succeeded, Some(0)));
    for file in ["far", "near"] {
        assert!(!is_alive(pid_in(&world.home.join(file))), "{file}");
    }
}

#[test]
fn a_fork_bomb_ends() {
    let Some(world) = World::new() else { return };
    let script = "bomb() { bomb | bomb & }; trap '' TERM; bomb; while :; do :; done";
    let result = world
        .job(script)
        .with(|a| {
            a.limits.pids = Some(150);
            a.files.error = Some("/dev/null".to_owned());
            a.ending.limit = Some(Span(700));
            a.ending.kill_wait = Span(200);
        })
        .run();
    assert_eq!(result.outcome, Outcome::Timeout);
}

#[test]
fn too_much_memory_is_its_own_outcome() {
    let Some(world) = World::new() else { return };
    let hog = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo survived";
    let result = world.job(hog).with(|a| a.limits.ram = Some(Megabytes(48))).run();
    assert_eq!(result.outcome, Outcome::OutOfMemory, "{result:?}");
    assert!(result.message.unwrap().contains("memory"));
    assert!(result.max_ram.unwrap() >= Megabytes(40), "{:?}", result.max_ram);
    assert_eq!(world.out(), "");
    // A script that copes with a lost child has succeeded; one that fails for another reason has failed.
    let copes = "sh -c 'x=$(head -c 200000000 /dev/zero | tr \"\\0\" x)'; exit 0";
    let result = world.job(copes).with(|a| a.limits.ram = Some(Megabytes(48))).run();
    assert_eq!(result.outcome, Outcome::Succeeded);
    let result = world.job("kill -KILL $$").with(|a| a.limits.ram = Some(Megabytes(48))).run();
    assert_eq!(result.outcome, Outcome::Failed);
}

#[test]
fn cpu_time_of_the_whole_tree_is_counted() {
    let Some(world) = World::new() else { return };
    let result = world.job("sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; exit 0").run();
    assert!(result.cpu_us.unwrap() > 20_000, "{:?}", result.cpu_us);
    assert!(result.max_ram.is_some());
}

#[test]
fn frozen_time_does_not_count_and_thaws_for_an_end() {
    let Some(world) = World::new() else { return };
    let script = "i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.05; done; trap 'exit 5' TERM\n\
        [ -e stay ] && while :; do sleep 0.05; done; exit 0";
    let mut job = world.job(script).with(|a| a.ending.limit = Some(Span::seconds(4))).start();
    job.begun();
    eventually("the first lines", || world.out().lines().count() > 2);
    assert_eq!(job.ask(&Request::Freeze { frozen: true }), Report::Done);
    job.wait_report("Frozen", |report| matches!(report, Report::Frozen { frozen: true, .. }));
    let frozen = world.out();
    assert_eq!(job.started().unwrap().overdue_boot, None, "the watchdog must leave it alone");
    std::thread::sleep(std::time::Duration::from_millis(4500));
    assert_eq!(world.out(), frozen);
    assert_eq!(job.ask(&Request::Freeze { frozen: false }), Report::Done);
    assert!(job.started().unwrap().overdue_boot.is_some());
    assert_eq!(job.result().outcome, Outcome::Succeeded);

    std::fs::write(world.home.join("stay"), "").unwrap();
    let mut job = world.job(script).start();
    job.begun();
    eventually("all lines", || world.out().lines().count() == 20);
    assert_eq!(job.ask(&Request::Freeze { frozen: true }), Report::Done);
    assert_eq!(job.ask(&cancel(false)), Report::Done);
    assert_eq!(job.result().outcome, Outcome::Cancelled);
}

#[test]
fn a_notice_spares_the_shell_that_does_not_know_it() {
    let Some(world) = World::new() else { return };
    let script =
        "sh -c 'trap \"echo told; exit 0\" USR1; echo > ready; while :; do sleep 0.05; done'; echo after";
    let mut job = world.job(script).start();
    job.begun();
    eventually("the child", || world.home.join("ready").exists());
    assert_eq!(job.ask(&Request::Signal { signal: 10, batch_only: false }), Report::Done);
    let result = job.result();
    assert!(world.out().ends_with("after\n"), "{}", world.out());
    assert_eq!(result.outcome, Outcome::Succeeded, "the shell died of a signal that was not for it");
}

#[test]
fn a_signal_for_the_script_alone_reaches_it_alone() {
    let Some(world) = World::new() else { return };
    let script = "trap 'echo script; exit 6' USR2\n\
        sh -c 'trap \"echo child\" USR2; echo > ready; while :; do sleep 0.05; done' & wait";
    let mut job = world.job(script).start();
    job.begun();
    eventually("the child", || world.home.join("ready").exists());
    assert_eq!(job.ask(&Request::Signal { signal: 12, batch_only: true }), Report::Done);
    let result = job.result();
    assert_eq!((result.exit_code, world.out().as_str()), (Some(6), "script\n"));
}

#[test]
fn a_supervisor_that_is_told_to_end_takes_its_job_along() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("echo $$ > pid; exec sleep 1000").start();
    let pid = pid_in(&world.home.join("pid"));
    job.begun();
    for harmless in ["HUP", "INT", "QUIT", "USR1", "PIPE", "ALRM", "TSTP"] {
        job.supervisor.send_signal(harmless.parse().unwrap()).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(is_alive(pid));
    job.supervisor.send_signal(Signal::TERM).unwrap();
    assert_eq!(job.result().outcome, Outcome::NodeFail);
    assert!(!is_alive(pid));
}

#[test]
fn a_launch_that_hangs_can_be_cancelled() {
    let Some(world) = World::new() else { return };
    // Opening a pipe that nobody reads waits, like a file on a dead server.
    let pipe = world.home.join("pipe");
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap();
    assert!(made.success());
    let job = world.job("echo ran").with(|a| a.files.output = pipe.to_str().unwrap().to_owned()).start();
    eventually("the socket", || job.job.folder.join("ctl").exists());
    eventually("the child", || {
        job.job.world.groups(job.job.name).is_some_and(|group| group.populated().unwrap())
    });
    assert_eq!(
        job.ask(&Request::Signal { signal: 10, batch_only: false }),
        refused("it has not started yet")
    );
    assert_eq!(job.ask(&cancel(false)), Report::Done);
    let result = job.result();
    assert_eq!((result.outcome, result.started_at), (Outcome::Cancelled, None));
}

/// exec itself waits, as for an interpreter on a dead server: a lease on it is held, which is not given back.
#[test]
fn an_exec_that_hangs_can_be_cancelled_and_has_its_limit() {
    let Some(world) = World::new() else { return };
    let interpreter = world.home.join("interpreter");
    std::fs::copy("/bin/sh", &interpreter).unwrap();
    set_mode(&interpreter, 0o755);
    for limit in [None, Some(Span(300))] {
        let lease = Leased::new(&interpreter);
        let script = format!("#!{}\necho ran\n", interpreter.display());
        let job = world.job(&script).with(|a| a.ending.limit = limit).start();
        eventually("exec to wait", || lease.is_wanted());
        if limit.is_none() {
            let signal = job.ask(&Request::Signal { signal: 10, batch_only: false });
            assert_eq!(signal, refused("it has not started yet"));
            assert_eq!(job.ask(&cancel(false)), Report::Done);
        }
        let result = job.result();
        let expected = if limit.is_none() { Outcome::Cancelled } else { Outcome::Timeout };
        assert_eq!((result.outcome, result.started_at), (expected, None), "{result:?}");
        assert!(lease.is_wanted(), "it was not waited for until the kernel takes the lease away");
        assert_eq!(world.out(), "");
    }
}

/// The child is its user's by the time it opens the user's files: who kills it there has not hurt the machine.
#[test]
fn whom_its_user_kills_on_its_way_to_exec_is_the_job_s_own_failure() {
    let Some(world) = World::new() else { return };
    let pipe = world.home.join("pipe");
    let made = std::process::Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap();
    assert!(made.success());
    let job = world.job("echo ran").with(|a| a.files.input = Some(pipe.to_str().unwrap().to_owned())).start();
    let child = || {
        let group = job.job.world.groups(job.job.name)?;
        let pid = group.pids().unwrap().into_iter().next()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.contains(&format!("Uid:\t{0}\t{0}", USER)).then_some(pid)
    };
    eventually("the child", || child().is_some());
    let mut kill = std::process::Command::new("kill");
    std::os::unix::process::CommandExt::uid(&mut kill, USER);
    assert!(kill.args(["-KILL", &child().unwrap().to_string()]).status().unwrap().success());
    let result = job.result();
    assert_eq!((result.outcome, result.never_started), (Outcome::LaunchFailed, false));
    assert_eq!(result.message.as_deref(), Some("it was killed before its script began"));
}

fn refused(error: &str) -> Report {
    Report::Refused { error: error.to_owned() }
}

#[test]
fn a_result_that_can_not_be_written_is_kept_told_and_tried_again() {
    let Some(world) = World::new() else { return };
    let attempts = world.run.join("attempts");
    let mount = Mount::new(&attempts, "size=128k,mode=700");
    let mut job = world.job("while [ ! -e go ]; do sleep 0.02; done; exit 7").start();
    job.begun();
    let filler = attempts.join("filler");
    assert!(std::fs::write(&filler, vec![1; 1 << 20]).is_err(), "the file system should be full");
    std::fs::write(world.home.join("go"), "").unwrap();
    job.wait_report("the result on the socket", |report| matches!(report, Report::Result(_)));
    assert!(!job.supervisor.wait_ended(std::time::Duration::from_millis(300)).unwrap());
    assert_eq!((job.record(), world.lease(job.job.name)), (None, ax_sys::lease::Probe::Held));
    std::fs::remove_file(&filler).unwrap();
    let result = job.result();
    assert_eq!((result.outcome, result.exit_code), (Outcome::Failed, Some(7)));
    drop(mount);
}
