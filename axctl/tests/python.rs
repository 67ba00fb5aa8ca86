//! The Python package beside the commands: its own tests, where there is a Python to run them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::process::Command;

#[test]
fn the_python_helper_keeps_frameworks_to_slices() {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/python");
    let mut python = Command::new("python3");
    python.args(["-B", "-m", "unittest", "discover", "-s", "tests"]).current_dir(package);
    let output = match python.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no python3");
            return;
        }
        other => other.unwrap(),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\nOK"), "they were run");
}
