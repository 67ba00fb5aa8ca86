//! A daemon of an ordinary user: no root, no control groups; jobs are held by descent and by their mark.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use ax_core::job::state::Outcome;
use ax_core::record::{Assignment, AttemptResult};
use ax_core::time::Span;

use crate::world::{Job, USER, World, eventually, is_alive, pid_in, set_mode};

/// Gives the run folder to the user and starts the supervisor as that user.
fn start(job: &Job<'_>, change: impl FnOnce(&mut Assignment)) -> Child {
    let mut assignment = job.assignment.clone();
    assignment.cgroup_parents = Vec::new();
    assignment.work_dir = job.world.home.join("work").join(job.name.to_string()).to_str().unwrap().to_owned();
    change(&mut assignment);
    std::fs::write(job.folder.join("assignment"), serde_json::to_vec(&assignment).unwrap()).unwrap();
    let given = Command::new("chown").args(["-R", "12345:12346"]).arg(&job.world.run).status().unwrap();
    assert!(given.success());
    axrun(job.world, &["--supervise", job.folder.to_str().unwrap()])
}

fn axrun(world: &World, words: &[&str]) -> Child {
    let program = world.root.join("axrun");
    if !program.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_axrun"), &program).unwrap();
        set_mode(&program, 0o755);
        chown(&program, Some(0), Some(0)).unwrap();
    }
    Command::new(program).args(words).uid(USER).gid(12_346).env_clear().spawn().unwrap()
}

fn result(job: &Job<'_>, mut supervisor: Child) -> AttemptResult {
    assert!(supervisor.wait().unwrap().success());
    serde_json::from_slice(&std::fs::read(job.folder.join("result")).unwrap()).unwrap()
}

#[test]
fn jobs_run_and_leave_nothing_behind() {
    let Some(world) = World::new() else { return };
    let script = "setsid sh -c 'echo $$ > far; exec sleep 1000' & while [ ! -s far ]; do sleep 0.02; done; id -u; exit 3";
    let job = world.job(script);
    let supervisor = start(&job, |_| {});
    let result = result(&job, supervisor);
    assert_eq!((result.outcome, result.exit_code), (Outcome::Failed, Some(3)));
    assert!(result.cpu_us.is_some());
    assert_eq!(world.out(), "12345\n");
    assert!(!is_alive(pid_in(&world.home.join("far"))));
}

#[test]
fn limits_of_time_hold() {
    let Some(world) = World::new() else { return };
    let job = world.job("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done");
    let supervisor = start(&job, |a| {
        a.ending.limit = Some(Span(300));
        a.ending.kill_wait = Span(200);
    });
    let result = result(&job, supervisor);
    assert_eq!((result.outcome, result.signal), (Outcome::Timeout, Some(9)));
    assert!(!is_alive(pid_in(&world.home.join("pid"))));
}

#[test]
fn another_users_job_is_refused() {
    let Some(world) = World::new() else { return };
    let job = world.job("echo ran");
    let supervisor = start(&job, |a| a.user.uid = ax_core::id::Uid(54_321));
    let result = result(&job, supervisor);
    assert_eq!(result.outcome, Outcome::LaunchFailed, "{result:?}");
    assert_eq!(world.out(), "");
}

#[test]
fn the_watchdog_finds_orphans_by_their_mark() {
    let Some(world) = World::new() else { return };
    let job = world.job("trap '' TERM; setsid sh -c 'echo $$ > far; exec sleep 1000' & echo $$ > near; wait");
    let mut supervisor = start(&job, |_| {});
    let pids = [pid_in(&world.home.join("far")), pid_in(&world.home.join("near"))];
    let mut watchdog = axrun(&world, &["--watchdog", world.run.to_str().unwrap()]);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually("the end of the orphans", || !pids.into_iter().any(is_alive));
    watchdog.kill().unwrap();
    watchdog.wait().unwrap();
}
