//! Shorthands of the tests: ask something, insist on how it is answered, and
//! look whether anything of the jobs is left on the machine.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cluster::{Cluster, User, wait_for};

impl Cluster {
    /// Runs one of our programs; it must succeed. What it printed.
    pub(crate) fn ok(&self, user: User, program: &str, arguments: &[&str]) -> String {
        let ran = self.run(user, program, arguments);
        assert_eq!(ran.code, 0, "{program} {arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs one of our programs; it must fail with this code and one line. The line.
    pub(crate) fn refused(&self, code: i32, user: User, program: &str, arguments: &[&str]) -> String {
        let ran = self.run(user, program, arguments);
        assert_eq!(ran.code, code, "{program} {arguments:?}: {ran:?}");
        assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1), "{program} {arguments:?}: {ran:?}");
        ran.err.trim_end().to_owned()
    }

    /// The document that `ax` prints.
    pub(crate) fn json(&self, user: User, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(user, "ax", arguments)).unwrap()
    }

    /// Submits a script and waits until the job is over.
    pub(crate) fn ends(&self, user: User, options: &[&str], script: &str) -> Value {
        let id = self.submit(user, options, script);
        self.wait_over(&id)
    }

    /// What stands in the way of a job.
    pub(crate) fn reason(&self, id: &str) -> String {
        self.job(id)["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until nothing of any job is left: no process, no group, no record, no lease.
    pub(crate) fn nothing_left(&self) {
        wait_for("the last process of the jobs to go", || self.job_processes().is_empty());
        wait_for("the groups of the jobs to go", || self.job_groups().is_empty());
        for folder in ["attempts", "jobs", "leases"] {
            let path = self.root.join("run/ax").join(folder);
            wait_for(folder, || fs::read_dir(&path).unwrap().next().is_none());
        }
    }

    /// The control groups of living attempts.
    pub(crate) fn job_groups(&self) -> Vec<PathBuf> {
        let run = self.root.join("run/ax");
        let name = ax_core::paths::Paths { run, ..ax_core::paths::Paths::system() }.cgroup_name();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let points = mounts.lines().filter(|l| l.contains(" cgroup")).filter_map(|l| l.split(' ').nth(1));
        let tops = points.map(|point| Path::new(point).join(&name));
        tops.flat_map(|top| fs::read_dir(top).into_iter().flatten().flatten())
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    }
}

/// This machine's name, as configurations name it.
pub(crate) fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().split('.').next().unwrap().to_lowercase()
}

/// A configuration with declared cards on this machine.
pub(crate) fn with_cards(gpus: u32, mem: u32, more: &str) -> String {
    let host = host();
    format!(
        "resources:\n  cpus: 16\n  ram: 16G\n  gpu_nodes:\n  - {{host: {host}, gpus: {gpus}, mem_per_gpu: {mem}, type: h200}}\n{more}"
    )
}
