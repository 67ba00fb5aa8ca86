//! A supervisor that dies at any of its named points leaves nothing that a watchdog and a settling axd can't read.

use ax_core::job::state::Outcome;
use ax_sys::lease::Probe;
use ax_sys::pidfd::Exit;

use crate::world::{World, eventually, set_mode};

/// Points of the supervisor, and what must hold after a death there: whether the record of the start and the result
/// are written.
const POINTS: [(&str, bool, bool); 6] = [
    ("lease linked", false, false),
    ("cgroup", false, false),
    ("forked", true, false),
    ("exit seen", true, false),
    ("emptied", true, false),
    ("result", true, true),
];

fn die_at(world: &mut World, point: &str) -> std::path::PathBuf {
    let log = world.root.join("crashes");
    // The child has become the user by the time it reaches its last point.
    std::fs::write(&log, "").unwrap();
    set_mode(&log, 0o666);
    world.set_environment(vec![format!("AX_CRASH_POINT={point}"), format!("AX_CRASH_LOG={}", log.display())]);
    log
}

#[test]
fn death_at_any_point_of_the_supervisor_is_readable_afterwards() {
    let Some(mut world) = World::new() else { return };
    for (point, started, result) in POINTS {
        let log = die_at(&mut world, point);
        let mut job = world.job("(sleep 1000 &) ; exit 0").start();
        assert_eq!(job.exit(), Exit::Signal { number: 9, core: false }, "{point}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), format!("{point}\n"));
        std::fs::remove_file(&log).unwrap();
        // The child lets its copy of the descriptor go at once, but is another process.
        eventually("a free lease", || world.lease(job.job.name) == Probe::Free);
        assert_eq!((job.started().is_some(), job.record().is_some()), (started, result), "{point}");
        let _watchdog = world.watchdog();
        let name = job.job.name;
        eventually("an empty group", || world.groups(name).is_none_or(|group| !group.populated().unwrap()));
    }
}

#[test]
fn a_child_that_dies_before_it_is_its_user_s_never_started() {
    let Some(mut world) = World::new() else { return };
    for (point, never_started) in [("fence read", true), ("exec", false)] {
        let log = die_at(&mut world, point);
        let job = world.job("echo ran").start();
        let result = job.result();
        assert_eq!((result.outcome, result.never_started), (Outcome::LaunchFailed, never_started), "{point}");
        assert_eq!((result.exit_code, result.signal, result.started_at), (None, None, None), "{point}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), format!("{point}\n"));
        std::fs::remove_file(&log).unwrap();
        assert_eq!(world.out(), "", "{point}");
    }
}
