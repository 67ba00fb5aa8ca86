//! The supervisor of one job and the guard's watchdog: the part of ax that runs as root on a user's behalf.
//!
//! One binary, a mode for each process: `--supervise` for one attempt of one job, `--starter` to start such by fork,
//! `--watchdog` for what no living supervisor looks after. Single-threaded, and without state beyond
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
use crate::watchdog::IfTaken;

const USAGE: &str = "usage: axrun --supervise ATTEMPT-FOLDER | --watchdog RUN-FOLDER [--stand-by]";

/// What this process is, out of its arguments.
#[derive(Debug, PartialEq, Eq)]
enum Mode<'a> {
    /// The supervisor of the attempt in this folder.
    Supervise(&'a Path),
    /// What starts supervisors for axd.
    Starter,
    /// The watchdog over this run folder.
    Watchdog(&'a Path, IfTaken),
    /// The users' command, with all of its words.
    Command(&'a [&'a OsStr]),
}

impl<'a> Mode<'a> {
    /// A mode of ours that is not used as it should be is nobody's command: nothing of it may reach users.
    fn parse(words: &'a [&'a OsStr]) -> Result<Mode<'a>, Failure> {
        let Some((mode, rest)) = words.split_first() else { return Ok(Mode::Command(words)) };
        match (mode.to_str(), rest) {
            (Some("--supervise"), [folder]) => Ok(Mode::Supervise(Path::new(folder))),
            // The word has no meaning: it is the room in which ps(1) is shown what runs.
            (Some("--starter"), [_room]) => Ok(Mode::Starter),
            (Some("--watchdog"), [folder]) => Ok(Mode::Watchdog(Path::new(folder), IfTaken::End)),
            (Some("--watchdog"), [folder, wait]) if *wait == "--stand-by" => {
                Ok(Mode::Watchdog(Path::new(folder), IfTaken::Wait))
            }
            (Some("--supervise" | "--starter" | "--watchdog"), _) => Err(Failure::Usage(USAGE.to_owned())),
            _ => Ok(Mode::Command(words)),
        }
    }
}

/// Runs the mode that the arguments of this process name; without one of ours, the users' command.
///
/// Exit codes: 0 the attempt's result is recorded (whatever it is), or the watchdog was told to end; 2 wrong usage; 10
/// the lease was made before and nothing was touched (for the watchdog: another one runs); 65 the assignment does not say
/// what it should; 66 it can't be read; 69 the program of the users' command is missing; 71 the system refused
/// something before anything was started.
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
    match Mode::parse(words)? {
        Mode::Supervise(folder) => supervise::run(folder),
        Mode::Starter => starter::run(),
        Mode::Watchdog(folder, if_taken) => watchdog::run(folder, if_taken),
        Mode::Command(words) => Err(hand_over::to_command(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        match Mode::parse(&words) {
            Ok(Mode::Command(all)) if all == words => "command".to_owned(),
            Ok(mode) => format!("{mode:?}"),
            Err(failure) => failure.exit_code().to_string(),
        }
    }

    #[test]
    fn a_mode_of_ours_with_wrong_words_is_never_a_command() {
        let more = ["/a", "--stand-by", "--supervise", "--starter", "--watchdog", "--", "true"];
        for mode in ["--supervise", "--starter", "--watchdog"] {
            assert_eq!(of(&[mode]), "2");
            for one in more {
                assert_ne!(of(&[mode, one]), "command");
                for other in more.into_iter().filter(|other| (mode, *other) != ("--watchdog", "--stand-by")) {
                    assert_eq!(of(&[mode, one, other]), "2", "{mode} {one} {other}");
                    assert_eq!(of(&[mode, one, other, "x"]), "2");
                }
                assert_eq!(of(&[mode, one, "--stand-by", "x"]), "2");
            }
        }
    }

    #[test]
    fn each_mode_and_the_users_command() {
        assert_eq!(of(&["--supervise", "/a"]), "Supervise(\"/a\")");
        assert_eq!(of(&["--starter", "room"]), "Starter");
        assert_eq!(of(&["--watchdog", "/a"]), "Watchdog(\"/a\", End)");
        assert_eq!(of(&["--watchdog", "/a", "--stand-by"]), "Watchdog(\"/a\", Wait)");
        for words in
            [&[][..], &["true"], &["--", "--supervise"], &["-n", "2", "true"], &["--supervisor", "/a"]]
        {
            assert_eq!(of(words), "command", "{words:?}");
        }
    }
}
