//! Control groups for real, as root. On a hybrid machine the code for v1 alone and for the unified tree alone runs
//! too, each with its part of what is mounted.
#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::cgroup::{Containment, Controller, Hierarchy, JobGroup, Layout, Limits, Removal};
use ax_sys::pidfd::Exit;
use ax_sys::process::{ChildStart, Hands, fork_child};
use ax_sys::signals::Signal;
use ax_sys::socket::{Interest, Poller};
use common::site::{LONG, Site, each_group, exit, killed_by_9, shell, sites};
use common::{Scratch, run, skip_without_root, wait_for};
use std::time::Duration;

fn main() {
    if skip_without_root("groups") {
        return run(&[]);
    }
    run(&[
        ("detached_processes_are_killed", detached_processes_are_killed),
        ("stopped_processes_are_killed", stopped_processes_are_killed),
        ("frozen_tree_is_killed", frozen_tree_is_killed),
        ("fork_bomb_is_killed", fork_bomb_is_killed),
        ("stopped_processes_notice_term", stopped_processes_notice_term),
        ("freeze_is_a_fact", freeze_is_a_fact),
        ("emptiness_is_announced", emptiness_is_announced),
        ("removal_waits_for_processes", removal_waits_for_processes),
        ("groups_inside_are_killed_and_removed", groups_inside_are_killed_and_removed),
        ("stragglers_in_v1_are_killed", stragglers_in_v1_are_killed),
        ("out_of_memory_is_counted", out_of_memory_is_counted),
        ("limits_hold", limits_hold),
        ("limits_can_be_changed", limits_can_be_changed),
        ("cpu_time_is_counted", cpu_time_is_counted),
        ("what_is_missing_is_said", what_is_missing_is_said),
        ("record_brings_the_group_back", record_brings_the_group_back),
        ("records_of_other_things_are_refused", records_of_other_things_are_refused),
        ("list_finds_all", list_finds_all),
        ("names_are_taken_once", names_are_taken_once),
        ("bad_limit_leaves_nothing", bad_limit_leaves_nothing),
        ("joining_a_removed_group_is_reported", joining_a_removed_group_is_reported),
    ]);
}

fn detached_processes_are_killed() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "(setsid sh -c 'sleep 1000 & sleep 1001 & wait' &) ; sleep 1002");
        wait_for("five processes", || group.pids().unwrap().len() >= 4);
        assert!(group.kill_until_empty(LONG).unwrap());
        killed_by_9(child);
        assert_eq!(group.pids().unwrap(), []);
    });
}

fn stopped_processes_are_killed() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "sleep 1000 & kill -STOP $!; kill -STOP $$");
        wait_for("two processes", || group.pids().unwrap().len() == 2);
        group.kill_all().unwrap();
        assert!(group.kill_until_empty(LONG).unwrap());
        killed_by_9(child);
    });
}

fn frozen_tree_is_killed() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "for i in 1 2 3 4; do setsid sleep 1000 & done; wait");
        wait_for("five processes", || group.pids().unwrap().len() == 5);
        assert!(group.freeze(LONG).unwrap());
        assert!(group.kill_until_empty(LONG).unwrap());
        killed_by_9(child);
    });
}

fn fork_bomb_is_killed() {
    let limits = Limits { pids_max: Some(100), ..Limits::default() };
    each_group(&limits, |group| {
        // Where nothing limits it the bomb would be one.
        if group.missing().contains(&Controller::Pids) {
            return;
        }
        let child = shell(group, "bomb() { bomb & bomb & wait; while :; do :; done; }; bomb 2>/dev/null");
        wait_for("many processes", || group.pids().unwrap().len() > 50);
        wait_for("the limit", || group.stats().unwrap().forks_refused > Some(0));
        assert!(group.kill_until_empty(LONG).unwrap());
        let _ = exit(child);
    });
}

fn stopped_processes_notice_term() {
    each_group(&Limits::default(), |group| {
        let scratch = Scratch::new();
        let note = scratch.path().join("note");
        let script = format!("trap 'echo here > {}; exit 3' TERM; kill -STOP $$; exit 4", note.display());
        let child = shell(group, &script);
        let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        wait_for("a stopped process", || state(child.process.pid()).contains(") T "));
        group.terminate_all().unwrap();
        assert_eq!(exit(child), Exit::Code(3));
        assert_eq!(std::fs::read_to_string(note).unwrap(), "here\n");
    });
}

fn freeze_is_a_fact() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "while :; do :; done");
        wait_for("a process", || group.populated().unwrap());
        assert!(!group.frozen().unwrap());
        assert!(group.freeze(LONG).unwrap());
        assert!(group.frozen().unwrap());
        let ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.process.pid())).unwrap();
            stat.split(' ').nth(13).unwrap().to_owned()
        };
        let before = ticks();
        std::thread::sleep(Duration::from_millis(60));
        assert_eq!(ticks(), before, "a frozen process used time");
        assert!(group.thaw(LONG).unwrap());
        wait_for("time used", || ticks() != before);
        group.kill_all().unwrap();
        killed_by_9(child);
    });
}

fn emptiness_is_announced() {
    each_group(&Limits::default(), |group| {
        let Some(events) = group.events().unwrap() else {
            assert!(group.unified_path().is_none());
            return;
        };
        let mut poller = Poller::new().unwrap();
        poller.add(&events, 7, Interest::PRIORITY).unwrap();
        let child = shell(group, "read line < /dev/null; exec sleep 1000");
        wait_for("a process", || events.populated().unwrap());
        let mut found = Vec::new();
        poller.wait(&mut found, Some(Duration::ZERO)).unwrap();
        assert!(events.populated().unwrap());
        child.process.send_signal(Signal::KILL).unwrap();
        let end = std::time::Instant::now() + LONG;
        while events.populated().unwrap() {
            assert!(std::time::Instant::now() < end);
            poller.wait(&mut found, Some(LONG)).unwrap();
            assert!(found.iter().all(|event| event.token == 7 && event.priority));
            assert!(!found.is_empty(), "no event came");
        }
        killed_by_9(child);
    });
}

fn removal_waits_for_processes() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "exec sleep 1000");
        wait_for("a process", || group.populated().unwrap());
        assert_eq!(group.remove().unwrap(), Removal::NotYet);
        child.process.send_signal(Signal::KILL).unwrap();
        killed_by_9(child);
        wait_for("removal", || group.remove().unwrap() == Removal::Done);
        assert_eq!(group.remove().unwrap(), Removal::Done);
        assert!(!group.populated().unwrap());
        assert!(group.events().unwrap().is_none());
        group.kill_all().unwrap();
        assert!(group.kill_until_empty(LONG).unwrap());
    });
}

fn groups_inside_are_killed_and_removed() {
    each_group(&Limits::default(), |group| {
        let record = group.to_record();
        let dirs: Vec<&str> = record.iter().map(|line| line.split_once(':').unwrap().1).collect();
        let moves: Vec<String> =
            dirs.iter().map(|dir| format!("mkdir -p {dir}/a/b; echo 0 > {dir}/a/b/cgroup.procs;")).collect();
        let child = shell(group, &format!("{} sleep 1000 & sleep 1001", moves.join(" ")));
        let inside = std::path::Path::new(dirs[0]).join("a/b/cgroup.procs");
        let count = || std::fs::read_to_string(&inside).unwrap_or_default().lines().count();
        wait_for("processes inside", || count() >= 2);
        assert!(group.kill_until_empty(LONG).unwrap());
        killed_by_9(child);
    });
}

fn stragglers_in_v1_are_killed() {
    for site in sites() {
        let group = site.group(&Limits::default());
        let (Some(unified), true) = (group.unified_path(), group.to_record().len() > 1) else { continue };
        let parent = unified.parent().unwrap().to_owned();
        // Somebody moves a process out of the unified group: it still keeps the v1 group busy.
        let child = shell(&group, &format!("echo 0 > {}/cgroup.procs; exec sleep 1000", parent.display()));
        wait_for("an escape", || !group.populated().unwrap());
        assert_eq!(group.remove().unwrap(), Removal::NotYet);
        group.kill_all().unwrap();
        killed_by_9(child);
    }
}

fn out_of_memory_is_counted() {
    let limits = Limits { memory_max: Some(32 << 20), swap_max: Some(0), ..Limits::default() };
    each_group(&limits, |group| {
        if group.missing().contains(&Controller::Memory) {
            return;
        }
        let child = shell(group, "exec dd if=/dev/zero of=/dev/null bs=300000000 count=1");
        killed_by_9(child);
        let stats = group.stats().unwrap();
        assert_eq!(stats.oom_kills, Some(1));
        let peak = stats.memory_peak_bytes.unwrap();
        assert!(peak > 20 << 20 && peak <= 32 << 20, "{peak}");
    });
}

fn limits_hold() {
    let limits =
        Limits { cpus: Some("0".into()), pids_max: Some(3), cpu_weight: Some(50), ..Limits::default() };
    each_group(&limits, |group| {
        let here = |controller| !group.missing().contains(&controller);
        if here(Controller::Cpuset) {
            assert_eq!(
                exit(shell(group, "exec grep -q '^Cpus_allowed_list:\t0$' /proc/self/status")),
                Exit::Code(0)
            );
        }
        if here(Controller::Pids) {
            let child = shell(group, "sleep 1000 & sleep 1000 & sleep 1000 & sleep 1000 & wait");
            wait_for("a refusal", || group.stats().unwrap().forks_refused > Some(0));
            assert!(group.stats().unwrap().tasks <= Some(3));
            group.kill_all().unwrap();
            let _ = exit(child);
        }
    });
}

fn limits_can_be_changed() {
    let of = |mib: u64| Limits { memory_max: Some(mib << 20), swap_max: Some(0), ..Limits::default() };
    each_group(&of(64), |group| {
        let record = group.to_record();
        let Some(memory) = record.iter().find_map(|line| line.strip_prefix("memory:")) else { return };
        for mib in [128, 32, 256] {
            group.set_limits(&of(mib)).unwrap();
            let now = std::fs::read_to_string(format!("{memory}/memory.limit_in_bytes")).unwrap();
            assert_eq!(now.trim().parse::<u64>().unwrap(), mib << 20);
        }
    });
}

fn cpu_time_is_counted() {
    each_group(&Limits::default(), |group| {
        let child = shell(group, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
        assert_eq!(exit(child), Exit::Code(0));
        assert!(group.stats().unwrap().cpu_usec.unwrap() > 0);
    });
}

fn what_is_missing_is_said() {
    let found = Hierarchy::detect().unwrap();
    if found.layout() != Layout::Hybrid {
        return println!("what_is_missing_is_said: skipped, needs a hybrid machine");
    }
    let site = Site::new(Hierarchy::new(found.unified().cloned(), Vec::new()));
    let limits = Limits { memory_max: Some(1 << 30), cpus: Some("0".into()), ..Limits::default() };
    let group = site.group(&limits);
    // Controllers are in one tree only, here in v1.
    assert_eq!(group.missing(), [Controller::Memory, Controller::Cpuset]);
    let whole = Site::new(found);
    assert_eq!(whole.group(&limits).missing(), []);
}

fn record_brings_the_group_back() {
    each_group(&Limits { pids_max: Some(50), ..Limits::default() }, |group| {
        let child = shell(group, "exec sleep 1000");
        let again = Containment::from_record(&group.to_record()).unwrap();
        wait_for("a process", || again.populated().unwrap());
        assert_eq!(again.pids().unwrap(), [child.process.pid()]);
        assert_eq!(again.to_record(), group.to_record());
        assert!(again.kill_until_empty(LONG).unwrap());
        killed_by_9(child);
    });
}

fn records_of_other_things_are_refused() {
    let found = Hierarchy::detect().unwrap();
    let mut lines = vec!["unified:/tmp".to_owned(), "unified:relative".into(), "memory:/a/../b".into()];
    lines.extend(["x".into(), "wheels:/sys/fs/cgroup/memory/x".into()]);
    lines.extend(found.unified().map(|mount| format!("unified:{}", mount.point.display())));
    lines.extend(found.v1().iter().map(|mount| format!("memory:{}", mount.point.display())));
    for line in lines {
        assert!(JobGroup::from_record(&[&line]).is_err(), "{line} was taken");
    }
    assert!(JobGroup::from_record(&Vec::<String>::new()).is_err());
    assert!(Containment::from_record(&["tree:1"]).is_err());
}

fn list_finds_all() {
    for site in sites() {
        assert!(JobGroup::list(&site.hierarchy, &site.place).unwrap().is_empty());
        for name in ["7.1", "8.1", "8.2"] {
            JobGroup::create(&site.hierarchy, &site.place, name, &Limits::default()).unwrap();
        }
        let found = JobGroup::list(&site.hierarchy, &site.place).unwrap();
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["7.1", "8.1", "8.2"]);
        assert!(JobGroup::find(&site.hierarchy, &site.place, "9.1").is_none());
    }
}

fn names_are_taken_once() {
    for site in sites() {
        let make = |name| JobGroup::create(&site.hierarchy, &site.place, name, &Limits::default());
        make("7.1").unwrap();
        assert!(make("7.1").unwrap_err().is(libc::EEXIST));
        for bad in ["", "..", "a/b", ".x", "memory.max", "cgroup.procs"] {
            assert!(make(bad).is_err(), "{bad:?} was taken");
        }
    }
}

fn bad_limit_leaves_nothing() {
    for site in sites().into_iter().filter(|site| !site.hierarchy.v1().is_empty()) {
        let limits = Limits { cpus: Some("60000".into()), ..Limits::default() };
        assert!(JobGroup::create(&site.hierarchy, &site.place, "7.1", &limits).is_err());
        assert!(JobGroup::find(&site.hierarchy, &site.place, "7.1").is_none());
    }
}

fn joining_a_removed_group_is_reported() {
    for site in sites() {
        let group = site.group(&Limits::default());
        let handle = group.join_handle().unwrap();
        assert_eq!(group.remove().unwrap(), Removal::Done);
        match fork_child(Some(&handle), |_| unreachable!("joined a group that is gone")) {
            Ok(child) => {
                let start = child.report.wait(LONG).unwrap().unwrap();
                assert!(
                    matches!(&start, ChildStart::Failed(error, Hands::Ours) if error.step == "cgroup"),
                    "{start:?}"
                );
                assert!(child.process.wait_ended(LONG).unwrap());
                assert_eq!(child.process.reap().unwrap(), Some(Exit::Code(127)));
            }
            Err(error) => assert!(error.is(libc::ENODEV) || error.is(libc::ENOENT), "{error}"),
        }
    }
}
