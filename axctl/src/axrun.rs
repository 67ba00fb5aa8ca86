//! The command `axrun COMMAND`: runs a command as a job whose output, signals and exit status are those of this
//! process. The program of that name is the supervisor; without one of its own modes it executes `ax`, which sees by
//! which name it was called. Outside a job it submits, follows and waits; inside one it only executes the command, as
//! there are no steps yet.

mod files;
mod outside;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use ax_core::api::ErrorClass;

use crate::failure::{Failure, finish};
use crate::shown::{plain, shown};
use crate::world::{World, with_process};

/// Whether these arguments of a process are meant for `axrun`: the name decides.
pub(crate) fn is_meant(arguments: &[OsString]) -> bool {
    let name = arguments.first().and_then(|first| Path::new(first).file_name());
    name.is_some_and(|name| name == "axrun")
}

/// Runs the command with these arguments, the program's name first.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let together = is_one_place(io::stdout().as_fd(), io::stderr().as_fd());
    with_process(|mut world| ExitCode::from(run(arguments.get(1..).unwrap_or(&[]), together, &mut world)))
}

/// Runs the command with these words. `together`: standard output and standard error are one place, in which
/// the order of what is written to them shows.
fn run(words: &[OsString], together: bool, world: &mut World<'_>) -> u8 {
    let result = match world.vars.get("AX_JOB_ID") {
        Some(_) if !asks_for_help(words) => inside(words, world),
        _ => outside::run(words, together, world),
    };
    match result {
        // As the command itself would have ended.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 128 + 13,
        other => finish("axrun", other, world.err),
    }
}

fn asks_for_help(words: &[OsString]) -> bool {
    words.first().is_some_and(|word| ["-h", "--help", "-V", "--version"].iter().any(|asks| word == asks))
}

/// One task without options needs no step: the command takes this process's place.
fn inside(words: &[OsString], world: &mut World<'_>) -> Result<u8, Failure> {
    let command = match words {
        [dashes, command @ ..] if dashes == "--" => command,
        [word, ..] if !word.to_string_lossy().starts_with('-') => words,
        [] => words,
        _ => return Err(no_steps()),
    };
    let tasks = world.vars.get("AX_NTASKS").and_then(|text| text.to_str()?.parse::<u32>().ok());
    if tasks.is_some_and(|tasks| tasks > 1) {
        return Err(no_steps());
    }
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("nothing to run; write axrun COMMAND…"));
    };
    let error = Command::new(program).args(arguments).exec();
    let name = program.to_string_lossy();
    world.remark("axrun", &format!("cannot run {}: {}", shown(&name), plain(&error)));
    // As a shell would have it.
    Ok(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

fn no_steps() -> Failure {
    Failure::said(
        ErrorClass::Refused,
        "steps inside a job are not supported yet: write the command alone, without options",
    )
}

/// Whether two descriptors are one terminal, pipe or file.
fn is_one_place(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let place = |fd: BorrowedFd<'_>| {
        let meta = std::fs::File::from(fd.try_clone_to_owned().ok()?).metadata().ok()?;
        Some((meta.dev(), meta.ino(), meta.rdev()))
    };
    place(one).is_some_and(|found| Some(found) == place(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        let meant = |name: &str| is_meant(&[OsString::from(name)]);
        assert!(meant("axrun") && meant("/usr/bin/axrun"));
        assert!(!meant("ax") && !meant("/axrun/ax") && !is_meant(&[]));
    }

    #[test]
    fn a_pipe_is_one_place() {
        let (reader, writer) = io::pipe().unwrap();
        let (_other, stranger) = io::pipe().unwrap();
        assert!(is_one_place(writer.as_fd(), writer.try_clone().unwrap().as_fd()));
        assert!(!is_one_place(writer.as_fd(), stranger.as_fd()));
        drop(reader);
    }
}
