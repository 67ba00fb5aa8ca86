//! ax-script(5): the fixed part by hand, the options from the table that the parser reads.

use std::fmt::Write;

use ax_core::directive::OPTIONS;
use ax_core::directive::options::{Effect, Known, OptionDef, Section, ValueKind, sites};

use crate::submit::help;

const HEAD: &str = include_str!("script_head.mdoc");
const TAIL: &str = include_str!("script_tail.mdoc");

const SECTIONS: [(Section, &str); 5] = [
    (Section::Job, "Job"),
    (Section::Resources, "Resources"),
    (Section::Timing, "Time and order"),
    (Section::Policy, "Retries, loss and preemption"),
    (Section::Files, "Files and environment"),
];

/// The whole page.
pub(super) fn text() -> String {
    let mut text = HEAD.to_owned();
    for (section, title) in SECTIONS {
        // Writing to a String can't fail.
        let _ = writeln!(text, ".Ss {title}\n.Bl -tag -width Ds");
        for def in in_ax_lines().filter(|def| def.section == section) {
            entry(&mut text, def);
        }
        text.push_str(".El\n");
    }
    slurm(&mut text);
    text.push_str(TAIL);
    text
}

fn in_ax_lines() -> impl Iterator<Item = &'static OptionDef> {
    let ours = |def: &&OptionDef| def.known != Known::Slurm && def.sites & sites::AX_LINE != 0;
    OPTIONS.iter().filter(ours)
}

/// `.It Fl t Ar LIMIT , Fl \-time Ns = Ns Ar LIMIT`, then what it does.
fn entry(text: &mut String, def: &OptionDef) {
    let mut names = Vec::new();
    if let Some(letter) = help::short(def) {
        names.push(format!("Fl {letter}{}", value(def, " ")));
    }
    for name in std::iter::once(&def.name).chain(def.aliases) {
        names.push(format!("Fl \\-{name}{}", value(def, " Ns = Ns ")));
    }
    let _ = writeln!(text, ".It {}", names.join(" , "));
    let _ = writeln!(text, "{}", sentence(def.help));
    if !def.doc.is_empty() {
        let _ = writeln!(text, "{}", prose(def.doc));
    }
    match def.effect {
        Effect::Later { .. } => text.push_str("Not supported yet.\n"),
        Effect::Kept => text.push_str("Kept and shown; has no effect yet.\n"),
        Effect::Now => {}
    }
}

fn value(def: &OptionDef, gap: &str) -> String {
    match def.value {
        ValueKind::Flag => String::new(),
        ValueKind::Value(name) | ValueKind::Text(name) => format!("{gap}Ar {}", argument(name)),
        ValueKind::Optional(name) => {
            format!("{} Oo Ns = Ns Ar {} Oc", if gap == " " { "" } else { " Ns" }, argument(name))
        }
    }
}

/// A placeholder as one argument of a macro line.
fn argument(name: &str) -> String {
    format!("\"{}\"", quote(name).replace('"', "\\(dq"))
}

/// What help says, as a sentence.
fn sentence(help: &str) -> String {
    let mut chars = help.chars();
    let first = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    // A help text may begin with a keyword of the option, which stays as it is.
    let capital = if help.starts_with("requeue,") { help.to_owned() } else { first + chars.as_str() };
    prose(&format!("{}.", capital.trim_end_matches('.')))
}

/// A text as lines of a page: each sentence on a line of its own, nothing taken for a macro.
fn prose(text: &str) -> String {
    let lines = quote(text).replace(". ", ".\n");
    let safe = lines.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    safe.collect::<Vec<_>>().join("\n")
}

/// Characters that mean something else to a formatter.
fn quote(text: &str) -> String {
    text.replace('\\', "\\e").replace('…', "...").replace('-', "\\-").replace('\'', "\\(aq")
}

/// Slurm's options that `#SBATCH` scripts may have besides: one list, without effect.
fn slurm(text: &mut String) {
    let mut read = Vec::new();
    let mut kept = Vec::new();
    for def in OPTIONS.iter().filter(|def| def.known == Known::Slurm) {
        let list = if def.effect == Effect::Now { &mut read } else { &mut kept };
        list.push(format!(".Fl \\-{}", def.name));
    }
    text.push_str(".Ss In #SBATCH lines only\nRead with Slurm's meaning:\n");
    text.push_str(&listed(&read));
    text.push_str("Accepted, kept and shown, without effect:\n");
    text.push_str(&listed(&kept));
}

/// Names with commas between and a full stop behind the last.
fn listed(names: &[String]) -> String {
    let last = names.len().saturating_sub(1);
    let line =
        |(index, name): (usize, &String)| format!("{name} {}\n", if index == last { "." } else { "," });
    names.iter().enumerate().map(line).collect()
}
