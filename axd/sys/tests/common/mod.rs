//! What several test programs share: a scratch directory, waiting for a fact, a runner with one thread.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub(crate) mod site;

use ax_sys::path::Dir;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use test_kit::TempDir;
pub(crate) use test_kit::wait_for;

/// Whether a descriptor of this process is closed by exec.
pub(crate) fn is_close_on_exec(fd: &impl AsFd) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap() & libc::O_CLOEXEC != 0
}

/// A directory that is removed at the end of the test.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch(TempDir::new())
    }

    pub(crate) fn below(parent: &Path) -> Scratch {
        Scratch(TempDir::below(parent))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn dir(&self) -> Dir {
        Dir::open(self.path()).unwrap()
    }
}

pub(crate) fn is_root() -> bool {
    ax_sys::credentials::own().0 == 0
}

/// Says so and returns true when the test can't run.
pub(crate) fn skip_without_root(name: &str) -> bool {
    if !is_root() {
        eprintln!("{name}: skipped, needs root");
    }
    !is_root()
}

/// A test runner in one thread. Understands a filter, `--exact` and `--list`.
pub(crate) fn run(cases: &[(&str, fn())]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if has("--list") {
        for (name, _) in cases.iter().filter(|_| !has("--ignored")) {
            println!("{name}: test");
        }
        return;
    }
    let wanted = |name: &str| {
        let fits = |filter: &&String| if has("--exact") { *filter == name } else { name.contains(*filter) };
        filters.is_empty() || filters.iter().any(fits)
    };
    let mut failed = Vec::new();
    for (name, case) in cases.iter().filter(|(name, _)| wanted(name)) {
        let ok = std::panic::catch_unwind(case).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        if !ok {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}
