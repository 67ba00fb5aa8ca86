//! `ax submit`: read by the parser of `axbatch`, from the same table of options. clap knows it for help and
//! completion only, and never reads its arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ax_core::directive::Program;
use ax_core::directive::options::{OptionDef, ValueKind};
use clap::{Arg, ArgAction, Command, ValueHint};

use crate::submit::help;

/// The name on the command line.
pub(crate) const NAME: &str = "submit";

/// `ax`'s arguments, if they are those of `ax submit`: a root in front, and the words behind.
pub(crate) fn words(arguments: &[OsString]) -> Option<(Option<PathBuf>, &[OsString])> {
    let (first, rest) = arguments.get(1..)?.split_first()?;
    if first == NAME {
        return Some((None, rest));
    }
    if let Some(root) = first.to_str().and_then(|first| first.strip_prefix("--root=")) {
        let (second, rest) = rest.split_first()?;
        return (second == NAME).then(|| (Some(root.into()), rest));
    }
    match rest {
        [root, second, rest @ ..] if first == "--root" && second == NAME => {
            Some((Some(Path::new(root).to_owned()), rest))
        }
        _ => None,
    }
}

/// The subcommand as clap's help and completion show it.
pub(crate) fn described() -> Command {
    let command = Command::new(NAME).about("Submit a command").disable_help_flag(true).display_order(0);
    let command = with_options(command, Program::AxSubmit);
    command.arg(
        Arg::new("COMMAND").num_args(0..).trailing_var_arg(true).value_hint(ValueHint::CommandWithArguments),
    )
}

/// `axbatch` as completion shows it.
pub(crate) fn axbatch() -> Command {
    let command =
        Command::new("axbatch").about("Submit a script").disable_help_flag(true).disable_version_flag(true);
    let command = with_options(command, Program::Axbatch);
    command
        .arg(Arg::new("SCRIPT").value_hint(ValueHint::FilePath))
        .arg(Arg::new("ARGUMENT").num_args(0..).value_hint(ValueHint::AnyPath))
}

/// `axrun` as completion shows it.
pub(crate) fn axrun() -> Command {
    let command = Command::new("axrun").about("Run a command as a job").disable_help_flag(true);
    let command = with_options(command.disable_version_flag(true), Program::Axrun);
    command.arg(
        Arg::new("COMMAND").num_args(0..).trailing_var_arg(true).value_hint(ValueHint::CommandWithArguments),
    )
}

fn with_options(command: Command, program: Program) -> Command {
    // `ax` itself has --root for all its subcommands.
    let ours = |def: &&OptionDef| program != Program::AxSubmit || def.name != "root";
    help::options(program).filter(ours).fold(command, |command, def| command.arg(argument(def)))
}

fn argument(def: &'static OptionDef) -> Arg {
    let arg = Arg::new(def.name).long(def.name).help(def.help).visible_aliases(def.aliases);
    let arg = match help::short(def) {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match def.value {
        ValueKind::Flag => arg.action(ArgAction::SetTrue),
        ValueKind::Value(name) | ValueKind::Text(name) => arg.value_name(name).value_hint(hint(name)),
        ValueKind::Optional(name) => arg.value_name(name).num_args(0..=1).require_equals(true),
    }
}

fn hint(placeholder: &str) -> ValueHint {
    match placeholder {
        "DIR" => ValueHint::DirPath,
        "PATTERN" => ValueHint::FilePath,
        "USER" => ValueHint::Username,
        "COMMAND" => ValueHint::CommandString,
        _ => ValueHint::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submit_is_told_from_the_others() {
        let arguments = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (text, root, count) in [
            ("ax submit --cmd x", None, 2),
            ("ax --root /r submit", Some("/r"), 0),
            ("ax --root=/r submit -- a b", Some("/r"), 3),
        ] {
            let all = arguments(text);
            let (found, rest) = words(&all).unwrap();
            assert_eq!((found.as_deref(), rest.len()), (root.map(Path::new), count), "{text}");
        }
        for text in ["ax", "ax queue submit", "ax --root submit", "ax --root /r queue"] {
            assert!(words(&arguments(text)).is_none(), "{text}");
        }
    }
}
