//! Submitting, the same for `axbatch`, `ax submit` and `axrun`: reads, checks what can be checked here, sends under a
//! key, and puts the submission into the spool if no daemon answers. Uses no table and no command-line library:
//! `axbatch` starts fast.

mod environment;
mod forecast;
pub(crate) mod help;
pub(crate) mod request;
mod script;
pub(crate) mod send;
mod spool;
mod understand;
pub(crate) mod wait;

use std::ffi::OsString;
use std::path::Path;

use ax_core::directive::{Program, parse_args};

pub(crate) use understand::{Understood, request_words, said, utf8};

use crate::client::Client;
use crate::connect;
use crate::failure::Failure;
use crate::world::World;

/// What a command line comes to.
pub(crate) enum Wish {
    /// Help or the version, which was printed.
    Told,
    /// A submission, and the daemon that it is for.
    Submission(Box<Understood>, Client),
}

/// Reads the words behind the program's name and submits what they ask for.
///
/// # Errors
/// Wrong usage, a script that does not parse, no daemon and no spool, or the daemon's refusal.
pub(crate) fn run(
    program: Program,
    words: &[OsString],
    root: Option<&Path>,
    world: &mut World<'_>,
) -> Result<u8, Failure> {
    match read(program, words, root, world)? {
        Wish::Told => Ok(0),
        Wish::Submission(understood, client) => send::submit(&understood, &client, world),
    }
}

/// Reads the words behind the program's name.
///
/// # Errors
/// Wrong usage, or a script that does not parse.
pub(crate) fn read(
    program: Program,
    words: &[OsString],
    root: Option<&Path>,
    world: &mut World<'_>,
) -> Result<Wish, Failure> {
    let words = utf8(words)?;
    let line = parse_args(&words, program).map_err(said)?;
    if line.has("help") {
        return print(world, &help::text(program));
    }
    if line.has("version") {
        let name = request::speaker(program);
        return print(world, &format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
    let body = script::read(program, &line, world)?;
    let understood = Understood::new(program, line, body, world)?;
    let root = understood.line.value("root").map(Path::new).or(root).map(Path::to_owned);
    let client = Client::new(connect::find(root.as_deref(), &world.vars));
    Ok(Wish::Submission(Box::new(understood), client))
}

fn print(world: &mut World<'_>, text: &str) -> Result<Wish, Failure> {
    world.out.write_all(text.as_bytes())?;
    world.out.flush()?;
    Ok(Wish::Told)
}
