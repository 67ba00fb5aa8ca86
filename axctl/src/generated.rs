//! Files of the source tree that are made from tables of the code, so that they cannot differ
//! from it: completions, ax-script(5), ax-states(7). Tests hold them equal.

mod script_page;
mod states_page;

use clap::CommandFactory;

use crate::cmd::completions::{ForShell, Of, file};
use crate::cmd::submit;
use crate::submit::help;

/// All made files: their place in the source tree, and what they hold.
pub fn files() -> Vec<(&'static str, String)> {
    vec![
        ("etc/completions/ax.bash", file(ForShell::Bash, Of::Ax)),
        ("etc/completions/_ax", file(ForShell::Zsh, Of::Ax)),
        ("etc/completions/ax.fish", file(ForShell::Fish, Of::Ax)),
        ("etc/completions/axbatch.bash", file(ForShell::Bash, Of::Axbatch)),
        ("etc/completions/_axbatch", file(ForShell::Zsh, Of::Axbatch)),
        ("etc/completions/axbatch.fish", file(ForShell::Fish, Of::Axbatch)),
        ("etc/completions/axctl.bash", file(ForShell::Bash, Of::Axctl)),
        ("etc/completions/_axctl", file(ForShell::Zsh, Of::Axctl)),
        ("etc/completions/axctl.fish", file(ForShell::Fish, Of::Axctl)),
        ("etc/completions/axrun.bash", file(ForShell::Bash, Of::Axrun)),
        ("etc/completions/_axrun", file(ForShell::Zsh, Of::Axrun)),
        ("etc/completions/axrun.fish", file(ForShell::Fish, Of::Axrun)),
        ("man/ax-script.5", script_page::text()),
        ("man/ax-states.7", states_page::text()),
    ]
}

/// The options of a program as its manual page must name them, without hyphens; one letter is a short one.
/// `ax`'s are all of its subcommands'.
pub fn options(program: &str) -> Vec<String> {
    let mut names = match program {
        "axbatch" => of_table(ax_core::directive::Program::Axbatch),
        "axrun" => of_table(ax_core::directive::Program::Axrun),
        "axctl" => of_clap(&crate::axctl::Arguments::command()),
        _ => of_clap(&crate::ax::command()),
    };
    names.sort();
    names.dedup();
    names
}

fn of_table(program: ax_core::directive::Program) -> Vec<String> {
    let names = |def: &'static ax_core::directive::OptionDef| {
        let long = std::iter::once(def.name).chain(def.aliases.iter().copied()).map(str::to_owned);
        long.chain(help::short(def).map(String::from))
    };
    help::options(program).flat_map(names).collect()
}

fn of_clap(command: &clap::Command) -> Vec<String> {
    // The options of `ax submit` are those of axbatch(1), where they are explained.
    if command.get_name() == submit::NAME {
        return Vec::new();
    }
    let mut names = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
        names.extend(arg.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
        names.extend(arg.get_short_and_visible_aliases().into_iter().flatten().map(String::from));
    }
    names.extend(command.get_subcommands().flat_map(of_clap));
    names
}
