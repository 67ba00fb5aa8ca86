//! What an option is, and how its name is found. The options themselves are in `table`, which parsers, help, man page
//! and completions all read.

use super::Dialect;
use super::diagnostic::Fault;
use super::interpret::Read;
use super::table::OPTIONS;
use crate::text::{nearest, quoted};

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionDef {
    /// The long name, without its hyphens.
    pub name: &'static str,
    /// Other long names.
    pub aliases: &'static [&'static str],
    /// Short names: `('q', Known::Ax)` is `-q` in ax's dialect only.
    pub shorts: &'static [(char, Known)],
    /// Whether it takes a value.
    pub value: ValueKind,
    /// Where help shows it.
    pub section: Section,
    /// What it does, in a line.
    pub help: &'static str,
    /// More for ax-script(5), or nothing.
    pub doc: &'static str,
    /// What ax does with it.
    pub effect: Effect,
    /// Whose option it is.
    pub known: Known,
    /// Where it may be written: a sum of the constants of [`sites`].
    pub sites: u8,
    /// Whether the values of a repeated option add up, instead of the last one winning.
    pub adds_up: bool,
    /// What the value means.
    pub(super) read: Read,
}

/// Whether an option takes a value. The text is the placeholder in help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// No value.
    Flag,
    /// A value of some form, such as a number: never begins with `=`.
    Value(&'static str),
    /// Any text, which may begin with `=`.
    Text(&'static str),
    /// A value behind `=`, or none.
    Optional(&'static str),
}

/// Groups of options in help and man page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Name, queue, account.
    Job,
    /// Cards, CPUs, memory, nodes.
    Resources,
    /// When, and for how long.
    Timing,
    /// Retries, loss, preemption.
    Policy,
    /// Files, folder, environment, mail.
    Files,
    /// How the command itself behaves.
    Command,
    /// Slurm's options that ax has no use for.
    Slurm,
}

/// What ax does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It has its effect.
    Now,
    /// It is kept in the job, and shown.
    Kept,
    /// ax does not do this yet: an error, but in Slurm's dialect only where it
    /// `matters`, that is, changes where or how often code runs. Otherwise it is kept there.
    Later {
        /// Whether running the job without it would be wrong.
        matters: bool,
    },
}

/// Whose an option or a short name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The same in both dialects.
    Both,
    /// ax's, and not in Slurm's dialect, where its name means something else.
    Ax,
    /// ax's, and understood in Slurm's dialect too, where nothing else has its name.
    Extra,
    /// Slurm's.
    Slurm,
}

impl Known {
    fn to(self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Ax => self != Known::Slurm,
            Dialect::Slurm => self != Known::Ax,
        }
    }
}

/// Names that Slurm does not have for options that it does have.
const OURS: [&str; 6] = ["queue", "ram", "ram-per-cpu", "ram-per-gpu", "gpu-mem", "workdir"];

/// Where an option may be written.
pub mod sites {
    /// On a command line.
    pub const COMMAND_LINE: u8 = 1;
    /// In an `AXBATCH_…` variable.
    pub const ENVIRONMENT: u8 = 2;
    /// In an `#AX` line.
    pub const AX_LINE: u8 = 4;
    /// In an `#SBATCH` line.
    pub const SBATCH_LINE: u8 = 8;
    /// Everywhere.
    pub const ANY: u8 = 15;
    /// Everywhere but in `#AX` lines: how a command behaves is said to the
    /// command, but Slurm's scripts have such options too.
    pub const NOT_AX_LINE: u8 = 11;
}

impl OptionDef {
    const fn new(name: &'static str, value: ValueKind, read: Read) -> OptionDef {
        OptionDef {
            name,
            aliases: &[],
            shorts: &[],
            value,
            section: Section::Job,
            help: "",
            doc: "",
            effect: Effect::Now,
            known: Known::Both,
            sites: sites::ANY,
            adds_up: false,
            read,
        }
    }

    pub(super) const fn flag(name: &'static str, read: Read) -> OptionDef {
        OptionDef::new(name, ValueKind::Flag, read)
    }

    pub(super) const fn value(name: &'static str, placeholder: &'static str, read: Read) -> OptionDef {
        OptionDef::new(name, ValueKind::Value(placeholder), read)
    }

    pub(super) const fn text(name: &'static str, placeholder: &'static str, read: Read) -> OptionDef {
        OptionDef::new(name, ValueKind::Text(placeholder), read)
    }

    pub(super) const fn optional(name: &'static str, placeholder: &'static str, read: Read) -> OptionDef {
        OptionDef::new(name, ValueKind::Optional(placeholder), read)
    }

    pub(super) const fn aliases(mut self, aliases: &'static [&'static str]) -> OptionDef {
        self.aliases = aliases;
        self
    }

    pub(super) const fn shorts(mut self, shorts: &'static [(char, Known)]) -> OptionDef {
        self.shorts = shorts;
        self
    }

    pub(super) const fn says(mut self, section: Section, help: &'static str) -> OptionDef {
        self.section = section;
        self.help = help;
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> OptionDef {
        self.doc = doc;
        self
    }

    pub(super) const fn effect(mut self, effect: Effect) -> OptionDef {
        self.effect = effect;
        self
    }

    pub(super) const fn known(mut self, known: Known) -> OptionDef {
        self.known = known;
        self
    }

    pub(super) const fn at(mut self, sites: u8) -> OptionDef {
        self.sites = sites;
        self
    }

    pub(super) const fn adds_up(mut self) -> OptionDef {
        self.adds_up = true;
        self
    }

    /// `--time=LIMIT`, `--exclusive[=user|mcs]`.
    pub(super) fn example(&self) -> String {
        match self.value {
            ValueKind::Flag => format!("--{}", self.name),
            ValueKind::Value(placeholder) | ValueKind::Text(placeholder) => {
                format!("--{}={placeholder}", self.name)
            }
            ValueKind::Optional(placeholder) => format!("--{}[={placeholder}]", self.name),
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Joins parts of the table into one array at compile time.
pub(super) const fn join<const N: usize>(parts: &[&[OptionDef]]) -> [OptionDef; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut filled) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[filled] = parts[part][at];
            filled += 1;
            at += 1;
        }
        part += 1;
    }
    all
}

/// The option with exactly this long name or alias.
pub fn exact(name: &str, dialect: Dialect) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|def| def.known.to(dialect) && def.names().any(|known| known == name))
}

/// The option with a short name.
pub fn short(letter: char, dialect: Dialect) -> Option<&'static OptionDef> {
    let has = |def: &OptionDef| def.shorts.iter().any(|(known, to)| *known == letter && to.to(dialect));
    OPTIONS.iter().find(|def| def.known.to(dialect) && has(def))
}

/// The option with a long name, an alias, or an abbreviation that fits one option only.
pub(super) fn long(name: &str, dialect: Dialect) -> Result<&'static OptionDef, Fault> {
    if let Some(def) = exact(name, dialect) {
        return Ok(def);
    }
    let mut fitting = abbreviated(name, dialect);
    if dialect == Dialect::Slurm && fitting.iter().any(is_slurms) {
        // What is unique to a real Slurm stays so, whatever names ax adds.
        fitting.retain(is_slurms);
    }
    match fitting.as_slice() {
        [(_, def)] => Ok(def),
        [] => Err(unknown(name, dialect)),
        many => Err(ambiguous(name, many, dialect)),
    }
}

/// A name and its option.
type Named = (&'static str, &'static OptionDef);

fn is_slurms((name, def): &Named) -> bool {
    matches!(def.known, Known::Both | Known::Slurm) && !OURS.contains(name)
}

/// The options that have a name that begins so, each once, with that name;
/// one that Slurm has too comes before one that is ax's.
fn abbreviated(prefix: &str, dialect: Dialect) -> Vec<Named> {
    let known = OPTIONS.iter().filter(|def| def.known.to(dialect));
    let named = |def: &'static OptionDef| {
        let fitting = || def.names().filter(|name| name.starts_with(prefix)).map(|name| (name, def));
        fitting().find(is_slurms).or_else(|| fitting().next())
    };
    if prefix.is_empty() { Vec::new() } else { known.filter_map(named).collect() }
}

/// All long names and aliases of a dialect.
pub fn names(dialect: Dialect) -> impl Iterator<Item = &'static str> {
    OPTIONS.iter().filter(move |def| def.known.to(dialect)).flat_map(OptionDef::names)
}

fn unknown(name: &str, dialect: Dialect) -> Fault {
    let written = quoted(&format!("--{name}"));
    if dialect == Dialect::Ax
        && let Some(def) = exact(name, Dialect::Slurm)
    {
        let fault = Fault::new(format!("{written} is an option of Slurm that ax does not have"));
        return if def.doc.is_empty() { fault } else { fault.hint(def.doc) };
    }
    let near = nearest(name, names(dialect)).map(|near| format!("--{near}"));
    Fault::new(format!("unknown option {written}")).did_you_mean(near.as_deref())
}

/// An abbreviation of several: if it is one letter short of a name, that was meant.
fn ambiguous(name: &str, many: &[Named], dialect: Dialect) -> Fault {
    let one_more = many.iter().filter(|(full, _)| full.len() == name.len() + 1).count() == 1;
    if one_more {
        return unknown(name, dialect);
    }
    let names: Vec<String> = many.iter().take(6).map(|(full, _)| format!("'--{full}'")).collect();
    let written = quoted(&format!("--{name}"));
    Fault::new(format!("{written} could be {}", names.join(" or "))).hint("write the whole name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_one_thing() {
        for dialect in [Dialect::Ax, Dialect::Slurm] {
            let mut names: Vec<&str> = names(dialect).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count);
            let letters = OPTIONS.iter().filter(|def| def.known.to(dialect)).flat_map(|def| def.shorts);
            let mut letters: Vec<char> =
                letters.filter(|(_, known)| known.to(dialect)).map(|(letter, _)| *letter).collect();
            letters.sort_unstable();
            let count = letters.len();
            letters.dedup();
            assert_eq!(letters.len(), count);
        }
    }

    #[test]
    fn an_example_shows_name_and_value() {
        let example = |name| exact(name, Dialect::Ax).map(OptionDef::example).unwrap_or_default();
        assert_eq!(example("queue"), "--queue=NAME");
        assert_eq!(example("hold"), "--hold");
        assert_eq!(example("exclusive"), "--exclusive[=user|mcs]");
    }

    #[test]
    fn every_option_has_help() {
        for def in OPTIONS {
            let length = def.help.chars().count();
            assert!((4..=60).contains(&length), "--{}: help of {length} characters", def.name);
            assert!(def.known != Known::Slurm || def.section == Section::Slurm, "--{}", def.name);
        }
    }

    #[test]
    fn abbreviations_are_slurms_where_slurm_has_them() {
        for (name, dialect, full) in [
            ("out", Dialect::Slurm, Some("output")),
            ("cpus", Dialect::Slurm, None),
            ("pre", Dialect::Slurm, Some("prefer")),
            ("qu", Dialect::Slurm, Some("quiet")),
            ("par", Dialect::Slurm, None),
            ("part", Dialect::Slurm, Some("queue")),
            ("que", Dialect::Slurm, Some("queue")),
            ("retry-d", Dialect::Slurm, Some("retry-delay")),
            ("task", Dialect::Slurm, None),
            ("tasks-per", Dialect::Slurm, Some("ntasks-per-node")),
            ("cpus", Dialect::Ax, Some("cpus-per-task")),
            ("out", Dialect::Ax, Some("output")),
            ("gpu", Dialect::Ax, None),
            ("", Dialect::Ax, None),
        ] {
            assert_eq!(long(name, dialect).ok().map(|def| def.name), full, "{name}");
        }
    }
}
