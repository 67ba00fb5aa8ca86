//! Real groups for tests: where they go, and what runs in them.

use super::wait_for;
use ax_sys::cgroup::{Base, Hierarchy, JobGroup, Layout, Limits, Place, Removal};
use ax_sys::pidfd::Exit;
use ax_sys::process::{Child, ChildError, ChildStart, fork_child};
use std::ffi::CString;
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A place of its own with everything in it gone afterwards.
pub(crate) struct Site {
    pub(crate) hierarchy: Hierarchy,
    pub(crate) place: Place,
}

impl Site {
    pub(crate) fn new(hierarchy: Hierarchy) -> Site {
        let name = format!("ax-test-{}", ax_sys::random::name().unwrap());
        let place = Place::new(Base::Root, name).unwrap();
        assert!(place.is_usable(&hierarchy));
        place.prepare(&hierarchy).unwrap();
        place.prepare(&hierarchy).unwrap();
        Site { hierarchy, place }
    }

    pub(crate) fn group(&self, limits: &Limits) -> JobGroup {
        let name = format!("job.{}", ax_sys::random::name().unwrap());
        JobGroup::create(&self.hierarchy, &self.place, &name, limits).unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for (_, group) in JobGroup::list(&self.hierarchy, &self.place).unwrap() {
            let _ = group.kill_until_empty(LONG);
            wait_for("removal", || group.remove().unwrap() == Removal::Done);
        }
        self.place.clear(&self.hierarchy);
    }
}

/// What this machine has, and where it is hybrid both halves of it alone.
pub(crate) fn sites() -> Vec<Site> {
    let found = Hierarchy::detect().unwrap();
    let mut all = Vec::new();
    if found.layout() == Layout::Hybrid {
        all.push(Hierarchy::new(found.unified().cloned(), Vec::new()));
        all.push(Hierarchy::new(None, found.v1().to_vec()));
    }
    if found.layout() != Layout::None {
        all.push(found);
    }
    all.into_iter().map(Site::new).collect()
}

pub(crate) fn texts(parts: &[&str]) -> Vec<CString> {
    parts.iter().map(|part| CString::new(*part).unwrap()).collect()
}

/// The groups of every site, with the kernel's kill file and without.
pub(crate) fn each_group(limits: &Limits, test: impl Fn(&JobGroup)) {
    for site in sites() {
        for kill_file in [true, false] {
            let group = site.group(limits);
            let group = if kill_file { group } else { group.without_kill_file() };
            test(&group);
            assert!(group.kill_until_empty(LONG).unwrap());
            wait_for("removal", || group.remove().unwrap() == Removal::Done);
        }
    }
}

pub(crate) fn shell(group: &JobGroup, script: &str) -> Child {
    let handle = group.join_handle().unwrap();
    let child = fork_child(Some(&handle), |_| {
        ax_sys::signals::reset_all().map_err(|error| ChildError::new("signals", &error))?;
        let arguments = texts(&["sh", "-c", script]);
        let error = ax_sys::process::exec(c"/bin/sh", &arguments, &texts(&["PATH=/usr/bin:/bin"]));
        Err(ChildError::new("exec", &error))
    });
    child.unwrap()
}

pub(crate) fn exit(child: Child) -> Exit {
    assert!(child.process.wait_ended(LONG).unwrap(), "child did not end");
    assert!(!matches!(child.report.wait(LONG).unwrap().unwrap(), ChildStart::Failed(..)));
    child.process.reap().unwrap().unwrap()
}

pub(crate) fn killed_by_9(child: Child) {
    assert_eq!(exit(child), Exit::Signal { number: 9, core: false });
}
