//! `axrun [options] command…`, as users type it: executes the program `ax` in this process, which runs the command.
//!
//! The command needs the options, HTTP, JSON and the clients' view of jobs. None of that belongs into a process that
//! runs as root once for each job, or into its start: a larger program maps and relocates more before its first line.
//! So the two share a name and no code; the price is one exec, in a command for which a person waits.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::Failure;

/// Becomes the users' command. Returns only if it can't.
pub(crate) fn to_command(words: &[&OsStr]) -> Failure {
    // The one of the same installation; only where there is none, that of the search path.
    let here = std::env::current_exe().ok().map(|own| own.with_file_name("ax"));
    let program = here.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("ax"));
    // Its name says which command is meant, as for all programs that share one file.
    let source = Command::new(&program).arg0("axrun").args(words).exec();
    Failure::NoCommand { program, source }
}
