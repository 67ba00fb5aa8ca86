//! The command `axbatch`: submits a script. Uses `submit` and nothing else, so that it starts fast.

use std::ffi::OsString;

use ax_core::directive::Program;

use crate::failure::finish;
use crate::submit;
use crate::world::{World, with_process};

/// Runs the command with the arguments of this process.
pub fn main() -> u8 {
    with_process(|mut world| run(&std::env::args_os().skip(1).collect::<Vec<_>>(), &mut world))
}

/// Runs the command with these words, without the program's own name, and returns its exit code.
pub fn run(words: &[OsString], world: &mut World<'_>) -> u8 {
    let result = submit::run(Program::Axbatch, words, None, world);
    finish("axbatch", result, world.err)
}
