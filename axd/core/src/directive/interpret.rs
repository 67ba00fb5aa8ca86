//! From what was typed to what it means: the options of all sources, in the order of their precedence, become one
//! `JobSpec`. Checks every value; an error names its place.

use std::collections::HashSet;

use super::check;
use super::diagnostic::{Diagnostic, Fault, Place};
use super::options::{Effect, OptionDef, ValueKind};
use super::{Dialect, RawOption, Source};
use crate::job::spec::JobSpec;

/// What an option's value does to a job.
pub(super) type Read = fn(&mut Draft, &Given<'_>) -> Result<(), Fault>;

/// What all sources together ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interpretation {
    /// The job.
    pub spec: JobSpec,
    /// How the command itself is to behave.
    pub conduct: Conduct,
    /// The dialect that `spec.queue` was written in: a queue that does not exist
    /// is an error in ax's, and a note in Slurm's.
    pub queue_dialect: Option<Dialect>,
    /// In whose dialect features were named.
    pub constraint_dialect: Option<Dialect>,
    /// Things that the user should know; none keeps the job from being submitted.
    pub notes: Vec<Diagnostic>,
}

/// How the submitting command is to behave: not part of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conduct {
    /// `--wait`.
    pub wait: bool,
    /// `--test-only`.
    pub test_only: bool,
    /// `--parsable`.
    pub parsable: bool,
    /// `--quiet`.
    pub quiet: bool,
    /// `--verbose`, how often.
    pub verbose: u8,
}

/// One option on its way into the job.
pub(super) struct Given<'a> {
    pub(super) option: &'a RawOption,
    pub(super) dialect: Dialect,
    /// Which source it is from: larger ones have precedence.
    pub(super) rank: usize,
    pub(super) file: Option<&'a str>,
}

impl Given<'_> {
    /// The value; nothing where none was given.
    pub(super) fn value(&self) -> &str {
        self.option.value.as_deref().unwrap_or_default()
    }

    pub(super) fn is_slurm(&self) -> bool {
        self.dialect == Dialect::Slurm
    }

    /// A fault of the value, with the option's name in front.
    fn value_error(&self, fault: Fault) -> Diagnostic {
        let message = format!("{}: {}", self.option.written, fault.message);
        let place = self.option.value_place.or(self.option.place);
        Diagnostic::new(self.file, place, Fault { message, ..fault })
    }
}

/// Where an option was given, for checks between options.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) name: &'static str,
    pub(super) written: String,
    pub(super) rank: usize,
    pub(super) dialect: Dialect,
    file: Option<String>,
    place: Option<Place>,
}

impl Seen {
    pub(super) fn error(&self, fault: Fault) -> Diagnostic {
        Diagnostic::new(self.file.as_deref(), self.place, fault)
    }
}

/// The job as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) out: Interpretation,
    /// The options given so far, the last of each name.
    seen: Vec<Seen>,
    /// Notes about the value that is being read.
    remarks: Vec<Fault>,
}

impl Draft {
    /// Where an option was last given.
    pub(super) fn seen(&self, name: &str) -> Option<&Seen> {
        self.seen.iter().find(|seen| seen.name == name)
    }

    /// Forgets options that the one being read takes the place of.
    pub(super) fn forget(&mut self, names: &[&str]) {
        self.seen.retain(|seen| !names.contains(&seen.name));
    }

    /// Tells the user something about the value that is being read.
    pub(super) fn remark(&mut self, fault: Fault) {
        self.remarks.push(fault);
    }

    /// Keeps an option that has no effect, to be shown with the job.
    pub(super) fn keep(&mut self, name: &str, value: &str, adds_up: bool) {
        let unused = &mut self.out.spec.unused;
        match unused.iter_mut().find(|(known, _)| known == name) {
            Some((_, kept)) if adds_up => *kept = format!("{kept},{value}"),
            Some((_, kept)) => *kept = value.to_owned(),
            None => unused.push((name.to_owned(), value.to_owned())),
        }
    }

    fn take(&mut self, given: &Given<'_>) -> Result<(), Diagnostic> {
        let def = given.option.def;
        match def.effect {
            Effect::Now | Effect::Kept => self.read(given)?,
            Effect::Later { matters } => {
                // The value is checked all the same: a wrong one is the better answer.
                Draft::default().read(given)?;
                if given.option.value.as_deref() == Some("") {
                    // Asks for nothing: a template whose variable was empty.
                    return Ok(());
                }
                if matters || !given.is_slurm() {
                    return Err(not_yet(given));
                }
                self.keep(def.name, given.value(), def.adds_up);
            }
        }
        self.forget(&[def.name]);
        self.seen.push(Seen {
            name: def.name,
            written: given.option.written.clone(),
            rank: given.rank,
            dialect: given.dialect,
            file: given.file.map(str::to_owned),
            place: given.option.place,
        });
        Ok(())
    }

    fn read(&mut self, given: &Given<'_>) -> Result<(), Diagnostic> {
        check_text(given.option.def, given.value()).map_err(|fault| given.value_error(fault))?;
        (given.option.def.read)(self, given).map_err(|fault| given.value_error(fault))?;
        for fault in std::mem::take(&mut self.remarks) {
            let note = given.value_error(fault);
            self.out.notes.push(note);
        }
        Ok(())
    }
}

/// No value may hold a NUL: it ends texts in the kernel's interfaces.
fn check_text(def: &OptionDef, value: &str) -> Result<(), Fault> {
    if def.value != ValueKind::Flag && value.contains('\0') {
        return Err(Fault::new("the value holds a NUL character"));
    }
    Ok(())
}

fn not_yet(given: &Given<'_>) -> Diagnostic {
    let fault = Fault::new(format!("'{}' is not supported yet", given.option.written));
    let fault = match given.option.def.name {
        "array" => fault.hint("submit a job for each value in a loop, with --env=NAME=VALUE"),
        "dependency" => fault.hint("submit what follows at the end of the script, or after 'axbatch --wait'"),
        _ => fault,
    };
    Diagnostic::new(given.file, given.option.place, fault)
}

/// The options of a source that count: of one given several times the last,
/// and none that a source of higher precedence gives, but for those that add up. The
/// others are not even read: `--nodes=1` on a command line is to save a script that
/// asks for 4, and a list of many hosts, given very often, is to cost no more than once.
fn standing<'a>(source: &Source<'a>, higher: &[Source<'_>]) -> Vec<&'a RawOption> {
    let mut given: HashSet<&str> =
        higher.iter().flat_map(|s| s.options).map(|option| option.def.name).collect();
    let from_last = source.options.iter().rev();
    let mut standing: Vec<&RawOption> =
        from_last.filter(|option| option.def.adds_up || given.insert(option.def.name)).collect();
    standing.reverse();
    standing
}

/// Makes one job of the options of all sources. The first source wins over
/// the next: command line, then environment, then script. Within a source the
/// last of an option wins, but for those whose values add up.
///
/// # Errors
/// The first value that means nothing and stands, option that ax does not support yet, or
/// contradiction between options, with its place.
pub fn interpret(sources: &[Source<'_>]) -> Result<Interpretation, Diagnostic> {
    let mut draft = read_all(sources)?;
    check::together(&mut draft)?;
    Ok(draft.out)
}

/// The same of options that are no whole job but change one: whether they go together is not said.
///
/// # Errors
/// The first value that means nothing and stands, or option that ax does not support yet, with its place.
pub fn interpret_changes(source: Source<'_>) -> Result<JobSpec, Diagnostic> {
    Ok(read_all(&[source])?.out.spec)
}

fn read_all(sources: &[Source<'_>]) -> Result<Draft, Diagnostic> {
    let mut draft = Draft::default();
    for (index, source) in sources.iter().enumerate().rev() {
        for option in standing(source, &sources[..index]) {
            let rank = sources.len() - index;
            let given = Given { option, dialect: source.dialect, rank, file: source.file };
            draft.take(&given)?;
        }
    }
    Ok(draft)
}
