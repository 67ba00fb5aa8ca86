//! `axbatch --help`, made from the table of options, so that none is missing. The man pages say more.

use std::fmt::Write;

use ax_core::directive::options::{Effect, Known, OptionDef, Section, ValueKind};
use ax_core::directive::{OPTIONS, Program};

const SECTIONS: [(Section, &str); 6] = [
    (Section::Job, "Job"),
    (Section::Resources, "Resources"),
    (Section::Timing, "Time and order"),
    (Section::Policy, "Retries, loss, preemption"),
    (Section::Files, "Files and environment"),
    (Section::Command, "This command"),
];

/// Where an option's explanation begins.
const COLUMN: usize = 34;

/// The options that a program takes on its command line, in the order of the help.
pub(crate) fn options(program: Program) -> impl Iterator<Item = &'static OptionDef> {
    let later = |def: &OptionDef| matches!(def.effect, Effect::Later { .. });
    let others: &[&str] = match program {
        Program::AxSubmit => &["wrap"],
        // One command, waited for, whose output is all that is printed.
        Program::Axrun => &["wrap", "cmd", "array", "wait", "parsable", "json"],
        _ => &["cmd"],
    };
    let named = |def: &OptionDef| !others.contains(&def.name);
    OPTIONS.iter().filter(move |def| def.known != Known::Slurm && !later(def) && named(def))
}

/// The whole text.
pub(super) fn text(program: Program) -> String {
    let usage = match program {
        Program::AxSubmit => {
            "Usage: ax submit [options] --cmd 'COMMAND'\n       ax submit [options] -- COMMAND [ARGUMENT…]\n\n\
             Submits a command.\n"
        }
        Program::Axrun => {
            "Usage: axrun [options] COMMAND [ARGUMENT…]\n\n\
             Runs a command as a job, shows its output as it comes, exits with its status.\n"
        }
        _ => {
            "Usage: axbatch [options] [SCRIPT|-] [ARGUMENT…]\n       axbatch [options] --wrap 'COMMAND'\n\n\
             Submits a script; its #AX lines hold options too. Without a name, or with -, it\n\
             is read from standard input.\n"
        }
    };
    let mut text = usage.to_owned();
    for (section, title) in SECTIONS {
        // Writing to a String can't fail.
        let _ = writeln!(text, "\n{title}:");
        for def in options(program).filter(|def| def.section == section) {
            let _ = writeln!(text, "{}", line(def));
        }
    }
    text.push_str(match program {
        Program::Axrun => "\nSee axrun(1), and axbatch(1) for the options.\n",
        _ => "\nSee axbatch(1) for all of it, ax-script(5) for scripts.\n",
    });
    text
}

/// `  -q, --queue=NAME (--partition)    queue to wait in`.
fn line(def: &OptionDef) -> String {
    let mut names = short(def).map_or_else(|| "      ".to_owned(), |letter| format!("  -{letter}, "));
    let _ = write!(names, "--{}{}", def.name, value(def));
    for alias in def.aliases {
        let _ = write!(names, ", --{alias}");
    }
    match names.chars().count() < COLUMN {
        true => format!("{names:COLUMN$}{}", def.help),
        false => format!("{names}\n{:COLUMN$}{}", "", def.help),
    }
}

/// The short name in ax's dialect.
pub(crate) fn short(def: &OptionDef) -> Option<char> {
    let in_ax = def.shorts.iter().find(|(_, known)| *known != Known::Slurm);
    in_ax.map(|(letter, _)| *letter)
}

fn value(def: &OptionDef) -> String {
    match def.value {
        ValueKind::Flag => String::new(),
        ValueKind::Value(name) | ValueKind::Text(name) => format!("={name}"),
        ValueKind::Optional(name) => format!("[={name}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_and_names_every_option() {
        for program in [Program::Axbatch, Program::AxSubmit, Program::Axrun] {
            let text = text(program);
            for def in options(program) {
                assert!(text.contains(&format!("--{}", def.name)), "--{}", def.name);
            }
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
