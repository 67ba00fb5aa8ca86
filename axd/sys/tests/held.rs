//! Device filters for real, as root; and what holds a job together for users without groups.
#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::cgroup::device_filter::{DeviceFilter, DeviceRule};
use ax_sys::cgroup::{Containment, Limits, ProcessTree, Removal};
use ax_sys::pidfd::{Exit, ProcessIdentity};
use ax_sys::process::{Child, ChildError, fork_child};
use ax_sys::signals::Signal;
use common::site::{LONG, exit, killed_by_9, shell, sites, texts};
use common::{run, skip_without_root, wait_for};
use std::time::Duration;

fn main() {
    run(&[
        ("devices_are_denied", devices_are_denied),
        ("first_rule_decides", first_rule_decides),
        ("filter_on_a_parent_holds_below", filter_on_a_parent_holds_below),
        ("process_tree_is_killed", process_tree_is_killed),
        ("marked_processes_are_found", marked_processes_are_found),
    ]);
}

const NULL: (u32, Option<u32>) = (1, Some(3));
const ZERO: (u32, Option<u32>) = (1, Some(5));

fn devices_are_denied() {
    if skip_without_root("devices_are_denied") {
        return;
    }
    for site in sites() {
        let group = site.group(&Limits { devices: true, ..Limits::default() });
        let rules = [DeviceRule::deny(ZERO.0, ZERO.1), DeviceRule::deny(195, None)];
        let filter = DeviceFilter::load(&site.hierarchy, &rules).unwrap();
        assert_eq!(exit(shell(&group, "head -c 1 /dev/zero > /dev/null")), Exit::Code(0));
        filter.attach(&group).unwrap();
        drop(filter);
        assert_eq!(
            exit(shell(&group, "head -c 1 /dev/null && ! head -c 1 /dev/zero 2>/dev/null")),
            Exit::Code(0)
        );
    }
}

fn first_rule_decides() {
    if skip_without_root("first_rule_decides") {
        return;
    }
    for site in sites().into_iter().filter(|site| site.hierarchy.unified().is_some()) {
        let group = site.group(&Limits::default());
        let rules = [DeviceRule::allow(NULL.0, NULL.1), DeviceRule::deny(1, None)];
        DeviceFilter::load(&site.hierarchy, &rules).unwrap().attach(&group).unwrap();
        let script = "cat < /dev/null && ! cat < /dev/full 2>/dev/null && ! head -c 1 /dev/zero 2>/dev/null";
        assert_eq!(exit(shell(&group, script)), Exit::Code(0));
    }
}

fn filter_on_a_parent_holds_below() {
    if skip_without_root("filter_on_a_parent_holds_below") {
        return;
    }
    for site in sites().into_iter().filter(|site| site.hierarchy.unified().is_some()) {
        let group = site.group(&Limits::default());
        let filter = DeviceFilter::load(&site.hierarchy, &[DeviceRule::deny(ZERO.0, ZERO.1)]).unwrap();
        filter.attach_path(group.unified_path().unwrap().parent().unwrap()).unwrap();
        DeviceFilter::load(&site.hierarchy, &[DeviceRule::allow(ZERO.0, ZERO.1)])
            .unwrap()
            .attach(&group)
            .unwrap();
        assert_eq!(exit(shell(&group, "! head -c 1 /dev/zero 2>/dev/null")), Exit::Code(0));
        // The same program serves another group.
        let other = site.group(&Limits::default());
        filter.attach(&other).unwrap();
        assert_eq!(exit(shell(&other, "! head -c 1 /dev/zero 2>/dev/null")), Exit::Code(0));
    }
}

fn marked_shell(mark: &str, script: &str) -> Child {
    let child = fork_child(None, |_| {
        let environment = texts(&["PATH=/usr/bin:/bin", mark, "AX_LEASE_EPOCH=17"]);
        let error = ax_sys::process::exec(c"/bin/sh", &texts(&["sh", "-c", script]), &environment);
        Err(ChildError::new("exec", &error))
    });
    child.unwrap()
}

/// Without groups, as an ordinary user has it: a tree with detached, stopped and forking members.
fn process_tree_is_killed() {
    ax_sys::process::set_child_subreaper(true).unwrap();
    let tree = ProcessTree::new(Some(ProcessIdentity::own().unwrap()), Some(0), Vec::new());
    let held = Containment::Tree(tree);
    assert!(!held.populated().unwrap());
    let script = "(setsid env -i sleep 1000 &); sleep 1001 & kill -STOP $!; \
        while :; do sleep 0.001 & wait $!; done";
    let child = marked_shell("X=1", script);
    wait_for("processes", || held.pids().unwrap().len() >= 3);
    assert!(held.freeze(LONG).unwrap());
    let again = Containment::from_record(&held.to_record()).unwrap();
    assert_eq!(again, held);
    assert!(again.kill_until_empty(LONG).unwrap());
    assert_eq!(again.remove().unwrap(), Removal::Done);
    assert_eq!(child.process.reap().unwrap(), Some(Exit::Signal { number: 9, core: false }));
    while ax_sys::process::reap_any().unwrap().is_some() {}
    ax_sys::process::set_child_subreaper(false).unwrap();
}

fn marked_processes_are_found() {
    let mark = format!("AX_ROOT_TAG={}", ax_sys::random::name().unwrap());
    let other = format!("{mark}x");
    let child = marked_shell(&mark, "setsid sleep 1000 & env -i sleep 1001 & wait");
    let stranger = marked_shell(&other, "exec sleep 1000");
    let marks = vec![mark, "AX_LEASE_EPOCH=17".to_owned()];
    let own = Some(ax_sys::credentials::own().0);
    let tree = ProcessTree::new(None, own, marks.clone());
    wait_for("three processes", || tree.pids().unwrap().len() == 3);
    assert_eq!(ProcessTree::new(None, None, marks.clone()).pids().unwrap().len(), 3);
    // Others' environments are not read, nor anybody's while there is a supervisor.
    assert_eq!(ProcessTree::new(None, Some(65_000), marks.clone()).pids().unwrap(), [0; 0]);
    let living = ProcessIdentity::read(stranger.process.pid()).unwrap();
    assert_eq!(ProcessTree::new(living, own, marks).pids().unwrap(), [0; 0]);
    let held = Containment::Tree(tree);
    assert_eq!(Containment::from_record(&held.to_record()).unwrap(), held);
    assert!(held.kill_until_empty(LONG).unwrap());
    assert_eq!(exit(child), Exit::Signal { number: 9, core: false });
    assert!(!stranger.process.wait_ended(Duration::ZERO).unwrap(), "a stranger was killed");
    stranger.process.send_signal(Signal::KILL).unwrap();
    killed_by_9(stranger);
}
