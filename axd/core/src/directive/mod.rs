//! `#AX` and `#SBATCH` lines, command lines and `AXBATCH_…` variables: from
//! text to `RawOption`s (what was typed, where) to a `JobSpec` (what it means).
//!
//! One table, `OPTIONS`, says which options there are. Nothing here expands or
//! evaluates a text, or looks at a file, the clock or the environment.

mod check;
mod command;
mod diagnostic;
mod interpret;
pub mod options;
mod print;
mod read;
mod script;
pub mod signals;
mod syntax;
mod table;
mod table_slurm;
mod when;
mod words;

pub use command::{CommandLine, Program, parse_args, parse_environment};
pub use diagnostic::{Diagnostic, Place};
pub use interpret::{Conduct, Interpretation, interpret, interpret_changes};
pub use options::OptionDef;
pub use print::print;
pub use script::{MAX_SCRIPT, ScriptDirectives, is_program, parse_script};
pub use syntax::MAX_ELEMENTS;
pub(crate) use syntax::window;
pub use table::OPTIONS;
pub use words::quote;

/// Whose rules and units a text follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `#AX` lines, ax's own commands, `AXBATCH_…`: `--mem` is memory of a GPU.
    Ax,
    /// `#SBATCH` lines and commands with Slurm's names: `--mem` is host memory.
    Slurm,
}

/// One option as it was typed.
#[derive(Debug, Clone)]
pub struct RawOption {
    /// Which option it is.
    pub def: &'static OptionDef,
    /// The name as typed: `--gpu-mem`, `-t`, `AXBATCH_TIME`.
    pub written: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// Where the option stands; `None` on a command line.
    pub place: Option<Place>,
    /// Where its value stands.
    pub value_place: Option<Place>,
}

/// The options of one origin, to be interpreted together with others.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Whose rules they follow.
    pub dialect: Dialect,
    /// The script they stand in; `None` for a command line and the environment.
    pub file: Option<&'a str>,
    /// In the order in which they were typed.
    pub options: &'a [RawOption],
}
