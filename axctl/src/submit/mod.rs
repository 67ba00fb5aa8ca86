//! Submitting, the same for `axbatch` and `ax submit`: read, check here what can be checked,
//! send under a key of its own, and put it into the spool when no daemon answers.
//! No table and no command-line library in here: `axbatch` starts fast.

mod environment;
pub(crate) mod help;
mod request;
mod script;
mod send;
mod spool;
mod understand;
mod wait;

use std::ffi::OsString;
use std::path::Path;

use ax_core::directive::{Program, parse_args};

pub(crate) use understand::{request_words, said, utf8};

use crate::client::Client;
use crate::connect;
use crate::failure::Failure;
use crate::world::World;
use understand::Understood;

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
    send::submit(understood, &client, world)
}

fn print(world: &mut World<'_>, text: &str) -> Result<u8, Failure> {
    world.out.write_all(text.as_bytes())?;
    world.out.flush()?;
    Ok(0)
}
