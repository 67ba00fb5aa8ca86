//! What is to run: a script from a file or from standard input, or a command. Only reads it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ax_core::api::ErrorClass;
use ax_core::directive::{CommandLine, Program, quote};
use ax_sys::credentials;

use crate::failure::Failure;
use crate::shown::plain;
use crate::world::World;

/// Largest script.
const MAX_SCRIPT: usize = 4 << 20;
/// Largest sum of the words behind a script's name.
const MAX_ARGUMENTS: usize = 128 << 10;

/// What shall run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A script, its name as typed (none: standard input), and the words behind it.
    Script {
        /// As typed.
        name: Option<String>,
        /// All of it.
        content: Vec<u8>,
        /// For the script.
        args: Vec<String>,
    },
    /// A shell command.
    Command(String),
}

/// Finds out what shall run.
pub(super) fn read(program: Program, line: &CommandLine, world: &mut World<'_>) -> Result<Body, Failure> {
    let command = line.value("wrap").or_else(|| line.value("cmd"));
    match (command, &line.script) {
        // That not both are given, and that it is not empty, is checked with the options.
        (Some(command), _) => Ok(Body::Command(command.to_owned())),
        (None, Some(word)) if program == Program::AxSubmit => Ok(from_words("", word, &line.script_args)),
        // The shell that reads the script is gone then: signals and the exit status are the command's own.
        (None, Some(word)) if program == Program::Axrun => Ok(from_words("exec ", word, &line.script_args)),
        (None, None) if program == Program::Axrun => Err(Failure::usage(
            "nothing to run; write axrun [options] COMMAND…, or axbatch SCRIPT; see 'axrun --help'",
        )),
        (None, None) if program == Program::AxSubmit => Err(Failure::usage(
            "nothing to run; write ax submit --cmd 'COMMAND' or ax submit -- COMMAND…, or axbatch SCRIPT",
        )),
        (None, name) => from_script(name.as_deref(), &line.script_args, world),
    }
}

/// A command of these words, which no shell reads anew.
fn from_words(before: &str, word: &str, more: &[String]) -> Body {
    let quoted: Vec<String> =
        std::iter::once(word).chain(more.iter().map(String::as_str)).map(quote).collect();
    Body::Command(format!("{before}{}", quoted.join(" ")))
}

fn from_script(name: Option<&str>, args: &[String], world: &mut World<'_>) -> Result<Body, Failure> {
    let size: usize = args.iter().map(|word| word.len() + 1).sum();
    if size > MAX_ARGUMENTS {
        let line = format!("the script's arguments have {size} bytes, more than {MAX_ARGUMENTS}");
        return Err(Failure::said(ErrorClass::Data, line));
    }
    let content = match name {
        None | Some("-") => from_input(name.is_none(), world)?,
        Some(name) => from_file(name).map_err(|failure| may_be_command(failure, name, args))?,
    };
    let name = name.filter(|name| *name != "-").map(str::to_owned);
    if content.len() > MAX_SCRIPT {
        let name = name.as_deref().unwrap_or("standard input");
        let line = format!("{name}: the script has more than {MAX_SCRIPT} bytes");
        return Err(Failure::said(ErrorClass::Data, line));
    }
    Ok(Body::Script { name, content, args: args.to_vec() })
}

/// A bare word that is no file is a command more likely than a script, but for a file's name: `job.sh`, and not
/// `python3.12`.
fn may_be_command(failure: Failure, name: &str, args: &[String]) -> Failure {
    let ending = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
    let names_a_file = name.contains('/') || ending.contains(|letter: char| letter.is_ascii_alphabetic());
    if names_a_file || args.is_empty() || Path::new(name).exists() {
        return failure;
    }
    let words: Vec<String> =
        std::iter::once(name).chain(args.iter().map(String::as_str)).map(quote).collect();
    let hint = format!("{failure}; a command is submitted so: ax submit -- {}", words.join(" "));
    Failure::said(ErrorClass::NoInput, hint)
}

fn from_file(name: &str) -> Result<Vec<u8>, Failure> {
    let cannot = |why: &str| Failure::said(ErrorClass::NoInput, format!("cannot read {name}: {why}"));
    let file = File::open(Path::new(name)).map_err(|error| cannot(&why_closed(Path::new(name), &error)))?;
    let meta = file.metadata().map_err(|error| cannot(&plain(&error)))?;
    if meta.is_dir() {
        return Err(cannot("it is a folder"));
    }
    limited(&mut &file).map_err(|error| cannot(&plain(&error)))
}

/// Why a file can't be opened, where more can be said than the kernel does.
fn why_closed(path: &Path, error: &io::Error) -> String {
    let said = plain(error);
    let link = |target: PathBuf| format!("it is a link to {}, which is not there", target.display());
    let more = match error.kind() {
        io::ErrorKind::NotFound => std::fs::read_link(path).ok().map(link),
        io::ErrorKind::PermissionDenied => std::fs::metadata(path).ok().map(|meta| match meta.uid() {
            uid if uid == credentials::own().0 => format!("{said}; it is yours: chmod u+r"),
            uid => format!("{said}; it belongs to another user (uid {uid})"),
        }),
        _ => {
            let socket = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
            socket.then(|| "it is a socket".to_owned())
        }
    };
    more.unwrap_or(said)
}

fn from_input(unnamed: bool, world: &mut World<'_>) -> Result<Vec<u8>, Failure> {
    if unnamed && world.input_is_terminal {
        world.remark("axbatch", "reading the script from the terminal; Ctrl-D ends it");
    }
    limited(&mut world.input).map_err(|error| {
        Failure::said(ErrorClass::NoInput, format!("cannot read standard input: {}", plain(&error)))
    })
}

/// At most one byte more than a script may have: enough to see that it is too long.
fn limited(from: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(MAX_SCRIPT as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}
