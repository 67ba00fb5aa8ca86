//! The supervisor of one job and the guard's watchdog: the part of ax that runs as root on a user's behalf.
//!
//! One binary, a mode for each process: `--supervise` for one attempt of one job, `--starter` to start such by fork,
//! `--watchdog` for what no living supervisor looks after. Single-threaded, without unsafe code and without state beyond
//! the files of an attempt.
//! It decides nothing about queues or retries: it does what the assignment says and records what happened.
//! Whoever types `axrun COMMAND` means a command of users, which is in another program: see `hand_over`.

mod failure;
mod hand_over;
mod starter;
mod supervise;
mod watchdog;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use crate::failure::Failure;

const USAGE: &str = "usage: axrun --supervise ATTEMPT-FOLDER | --watchdog RUN-FOLDER [--stand-by]";

/// Runs the mode that the arguments of this process name; without one of ours, the users' command.
///
/// Exit codes: 0 the attempt's result is recorded (whatever it is), or the watchdog was told to end; 2 wrong usage; 10
/// the lease was made before and nothing was touched (for the watchdog: another one runs); 65 the assignment does not say
/// what it should; 66 it can't be read; 69 the program of the users' command is missing; 71 the system refused something before anything was started.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    ExitCode::from(exit_code(dispatch(&words)))
}

/// Says what went wrong, and as what code.
fn exit_code(done: Result<(), Failure>) -> u8 {
    let Err(failure) = done else { return 0 };
    if !matches!(failure, Failure::LeaseTaken(_)) {
        eprintln!("axrun: {failure}");
    }
    failure.exit_code()
}

fn dispatch(words: &[&OsStr]) -> Result<(), Failure> {
    match words {
        [mode, folder] if *mode == "--supervise" => supervise::run(Path::new(folder)),
        [mode, _room] if *mode == "--starter" => starter::run(),
        [mode, folder] if *mode == "--watchdog" => watchdog::run(Path::new(folder), watchdog::IfTaken::End),
        [mode, folder, wait] if *mode == "--watchdog" && *wait == "--stand-by" => {
            watchdog::run(Path::new(folder), watchdog::IfTaken::Wait)
        }
        [mode, ..] if *mode == "--supervise" || *mode == "--watchdog" => {
            Err(Failure::Usage(USAGE.to_owned()))
        }
        words => Err(hand_over::to_command(words)),
    }
}
