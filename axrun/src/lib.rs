//! The supervisor of one job and the guard's watchdog: the part of ax that runs as root on a user's behalf.
//!
//! One binary, a mode for each process: `--supervise` for one attempt of one job, `--watchdog` for what no living
//! supervisor looks after. Single-threaded, without unsafe code and without state beyond the files of an attempt.
//! It decides nothing about queues or retries: it does what the assignment says and records what happened.

mod failure;
mod supervise;
mod watchdog;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use crate::failure::Failure;

const HELP: &str = "Supervise one attempt of a job, or watch over all attempts of this machine.\n\
    The daemon starts it; there is nothing here for people yet.";
const USAGE: &str = "usage: axrun --supervise ATTEMPT-FOLDER | --watchdog RUN-FOLDER";

/// Runs the mode that the arguments of this process name.
///
/// Exit codes: 0 the attempt's result is recorded (whatever it is), or the watchdog was told to end; 2 wrong usage; 10
/// the lease was made before and nothing was touched (for the watchdog: another one runs); 65 the assignment does not say
/// what it should; 66 it can't be read; 71 the system refused something before anything was started.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::LeaseTaken(_)) {
                eprintln!("axrun: {failure}");
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Steps inside a job (`axrun command…`) will be a third mode, with a module of its own beside these two.
fn dispatch(words: &[&OsStr]) -> Result<(), Failure> {
    match words {
        [mode, folder] if *mode == "--supervise" => supervise::run(Path::new(folder)),
        [mode, folder] if *mode == "--watchdog" => watchdog::run(Path::new(folder)),
        [word] if *word == "--version" || *word == "-V" => {
            println!("axrun {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        [word] if *word == "--help" || *word == "-h" => {
            println!("{HELP}\n\n{USAGE}");
            Ok(())
        }
        _ => Err(Failure::Usage(USAGE.to_owned())),
    }
}
