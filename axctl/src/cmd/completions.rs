//! `ax completions`: the static completion files that packages install, made from the same
//! descriptions as the help.

use clap::CommandFactory;
use clap_complete::Shell;

use super::submit;
use crate::ax;
use crate::axctl;
use crate::failure::Failure;
use crate::session::Session;

/// Print the completion file of a shell
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: ForShell,
    /// For this program
    #[arg(value_name = "PROGRAM", default_value = "ax")]
    program: Of,
}

/// The shells that have files.
#[derive(clap::ValueEnum, Clone, Copy)]
pub(crate) enum ForShell {
    /// bash-completion
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// The programs that have files.
#[derive(clap::ValueEnum, Clone, Copy)]
pub(crate) enum Of {
    /// ax
    Ax,
    /// axbatch
    Axbatch,
    /// axctl
    Axctl,
    /// axrun
    Axrun,
}

impl Arguments {
    /// Prints the file.
    pub(crate) fn run(&self, session: &mut Session<'_, '_>) -> Result<u8, Failure> {
        session.print(&file(self.shell, self.program))?;
        Ok(0)
    }
}

/// The file's content.
pub(crate) fn file(shell: ForShell, program: Of) -> String {
    let (mut command, name) = match program {
        Of::Ax => (ax::command(), "ax"),
        Of::Axbatch => (submit::axbatch(), "axbatch"),
        Of::Axctl => (axctl::Arguments::command(), "axctl"),
        Of::Axrun => (submit::axrun(), "axrun"),
    };
    let shell = match shell {
        ForShell::Bash => Shell::Bash,
        ForShell::Zsh => Shell::Zsh,
        ForShell::Fish => Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
