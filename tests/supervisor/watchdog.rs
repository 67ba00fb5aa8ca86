//! The guard's watchdog: what it kills, what it leaves alone, and what it costs when there is nothing to do.

use std::time::Duration;

use ax_core::job::state::Outcome;
use ax_core::time::BootTime;
use ax_sys::lease::Probe;
use ax_sys::pidfd::Exit;
use ax_sys::signals::Signal;

use crate::world::{PATIENCE, World, eventually, is_alive, pid_in};

#[test]
fn a_dead_supervisors_job_is_killed() {
    let Some(world) = World::new() else { return };
    let watchdog = world.watchdog();
    let script = "trap '' TERM HUP; setsid sh -c 'echo $$ > far; exec sleep 1000' & echo $$ > near; wait";
    let mut job = world.job(script).start();
    job.begun();
    let pids = [pid_in(&world.home.join("far")), pid_in(&world.home.join("near"))];
    std::thread::sleep(Duration::from_millis(1500));
    assert!(pids.into_iter().all(is_alive), "a living supervisor's job is left alone");
    job.supervisor.send_signal(Signal::KILL).unwrap();
    assert_eq!(job.exit(), Exit::Signal { number: 9, core: false });
    eventually("the end of the tree", || !pids.into_iter().any(is_alive));
    assert_eq!(world.lease(job.job.name), Probe::Free, "the lease stays for axd to settle");
    assert!(job.record().is_none());
    assert!(is_alive(watchdog.process.pid()));
}

#[test]
fn the_script_itself_ends_with_its_supervisor_even_without_a_watchdog() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("trap '' TERM HUP; echo $$ > pid; while :; do sleep 0.05; done").start();
    job.begun();
    let pid = pid_in(&world.home.join("pid"));
    job.supervisor.send_signal(Signal::KILL).unwrap();
    job.exit();
    eventually("the end of the script", || !is_alive(pid));
}

#[test]
fn a_kill_after_a_raised_fence_is_a_lost_lease() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("trap '' TERM; while :; do sleep 0.05; done").start();
    job.begun();
    // Where several machines share a spool it will be done so: the fence first.
    world.fence.raise_fence(2);
    world.groups(job.job.name).unwrap().kill_all().unwrap();
    let result = job.result();
    assert_eq!((result.outcome, result.signal), (Outcome::LeaseLost, Some(9)));
}

#[test]
fn a_frozen_orphan_is_killed_too() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("echo $$ > pid; exec sleep 1000").start();
    job.begun();
    let pid = pid_in(&world.home.join("pid"));
    let request = ax_core::record::Request::Freeze { frozen: true };
    assert_eq!(job.ask(&request), ax_core::record::Report::Done);
    job.supervisor.send_signal(Signal::KILL).unwrap();
    job.exit();
    // Started afterwards: it must find what is there already.
    let _watchdog = world.watchdog();
    eventually("the end of the orphan", || !is_alive(pid));
}

#[test]
fn what_is_past_its_time_is_killed_though_its_supervisor_lives() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("exec sleep 1000").start();
    job.begun();
    let mut started = job.started().unwrap();
    assert_eq!(started.overdue_boot, None);
    started.overdue_boot = Some(BootTime(1));
    std::fs::write(job.job.folder.join("started"), serde_json::to_vec(&started).unwrap()).unwrap();
    let _watchdog = world.watchdog();
    let result = job.result();
    assert_eq!((result.outcome, result.signal), (Outcome::Failed, Some(9)));
}

#[test]
fn there_is_one_and_it_makes_the_guards_word() {
    let Some(world) = World::new() else { return };
    std::fs::remove_file(world.run.join("guard")).unwrap();
    let first = world.watchdog();
    eventually("the guard's word", || world.run.join("guard").exists());
    let second = world.watchdog();
    assert!(second.process.wait_ended(PATIENCE).unwrap());
    assert_eq!(second.process.reap().unwrap(), Some(Exit::Code(10)));
    if may_protect_from_oom() {
        let oom = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", first.process.pid())).unwrap();
        assert_eq!(oom.trim(), "-1000");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", first.process.pid())).unwrap();
    assert!(status.lines().any(|line| line.starts_with("VmLck:") && !line.contains(" 0 kB")), "{status}");
    first.process.send_signal(Signal::TERM).unwrap();
    assert!(first.process.wait_ended(PATIENCE).unwrap());
    assert_eq!(first.process.reap().unwrap(), Some(Exit::Code(0)));
}

#[test]
fn one_that_stands_by_takes_the_place_of_one_that_ended() {
    let Some(world) = World::new() else { return };
    let holder = || std::fs::read_to_string(world.run.join("watchdog.lock")).unwrap_or_default();
    let is =
        |watchdog: &crate::world::Watchdog| holder().starts_with(&format!("{}:", watchdog.process.pid()));
    let first = world.watchdog();
    eventually("the first", || is(&first));
    let second = world.watchdog_standing_by();
    assert!(!second.process.wait_ended(Duration::from_millis(300)).unwrap() && is(&first));
    first.process.send_signal(Signal::KILL).unwrap();
    eventually("the second", || is(&second));
    let told_while_it_waits = world.watchdog_standing_by();
    told_while_it_waits.process.send_signal(Signal::TERM).unwrap();
    assert!(told_while_it_waits.process.wait_ended(PATIENCE).unwrap() && is(&second));
}

/// Containers may lack CAP_SYS_RESOURCE.
fn may_protect_from_oom() -> bool {
    let allowed = std::fs::write("/proc/self/oom_score_adj", "-1").is_ok();
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    allowed
}

#[test]
fn with_nothing_to_watch_it_never_wakes() {
    let Some(world) = World::new() else { return };
    // A settled attempt whose lease is still there is nothing to watch either.
    world.job("exit 0").run();
    let watchdog = world.watchdog();
    let switches = || {
        let path = format!("/proc/{}/status", watchdog.process.pid());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    eventually("quiet", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(2500));
        switches() == before
    });
    // And it wakes for the next one.
    let mut job = world.job("echo $$ > pid; exec sleep 1000").start();
    job.begun();
    let pid = pid_in(&world.home.join("pid"));
    job.supervisor.send_signal(Signal::KILL).unwrap();
    job.exit();
    eventually("the end of the orphan", || !is_alive(pid));
}

#[test]
fn nobody_outlives_a_run_folder_that_was_taken_away() {
    let Some(world) = World::new() else { return };
    let watchdog = world.watchdog();
    let mut job = world.job("while [ ! -e go ]; do sleep 0.02; done").start();
    job.begun();
    std::fs::remove_dir_all(&world.run).unwrap();
    assert!(watchdog.process.wait_ended(PATIENCE).unwrap());
    assert_eq!(watchdog.process.reap().unwrap(), Some(Exit::Code(0)));
    std::fs::write(world.home.join("go"), "").unwrap();
    assert_eq!(job.exit(), Exit::Code(0));
}

#[test]
fn an_idle_watchdog_notices_that_too() {
    let Some(world) = World::new() else { return };
    let watchdog = world.watchdog();
    eventually("its start", || world.run.join("watchdog.lock").exists());
    assert!(!watchdog.process.wait_ended(Duration::from_millis(300)).unwrap());
    std::fs::remove_dir_all(&world.run).unwrap();
    assert!(watchdog.process.wait_ended(PATIENCE).unwrap());
    assert_eq!(watchdog.process.reap().unwrap(), Some(Exit::Code(0)));
}
