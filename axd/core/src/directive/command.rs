//! From words to options: the one reader for command lines and for the words of directive lines, and for `AXBATCH_…`
//! variables as a third source.

use super::diagnostic::{Diagnostic, Fault};
use super::options::{self, OptionDef, ValueKind, sites};
use super::words::Word;
use super::{Dialect, RawOption, Source};
use crate::text::{nearest, quoted};

/// What begins the variables that are options.
const VARIABLE_PREFIX: &str = "AXBATCH_";

/// Whose command line it is: the name decides the dialect, never the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// `axbatch`.
    Axbatch,
    /// `ax submit`.
    AxSubmit,
    /// `axrun`.
    Axrun,
    /// ax under the name `sbatch`.
    Sbatch,
}

impl Program {
    /// Whose rules its command line follows.
    pub fn dialect(self) -> Dialect {
        if self == Program::Sbatch { Dialect::Slurm } else { Dialect::Ax }
    }
}

/// A command line, taken apart.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// Whose rules it follows.
    pub dialect: Dialect,
    /// The options before the script.
    pub options: Vec<RawOption>,
    /// The script (`-` for standard input), or the command of `ax submit` and `axrun`.
    pub script: Option<String>,
    /// What follows the script, options or not: the script's own.
    pub script_args: Vec<String>,
}

impl CommandLine {
    /// The options, to be interpreted with those of other sources.
    pub fn source(&self) -> Source<'_> {
        Source { dialect: self.dialect, file: None, options: &self.options }
    }

    /// Whether an option was given, by its long name.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.def.name == name)
    }

    /// The last value of an option, by its long name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let given = self.options.iter().rev().find(|option| option.def.name == name);
        given.and_then(|option| option.value.as_deref())
    }
}

/// Takes a command line apart, without the program's own name. What follows
/// the first word that is no option, or `--`, belongs to the script.
///
/// # Errors
/// An unknown option, one without its value or with one too many, one of another program.
pub fn parse_args<S: AsRef<str>>(args: &[S], program: Program) -> Result<CommandLine, Diagnostic> {
    let words: Vec<Word> = args.iter().map(|arg| Word::of_command_line(arg.as_ref())).collect();
    let dialect = program.dialect();
    let (options, rest) = Reader::new(&words, dialect, sites::COMMAND_LINE, None).read()?;
    let mut operands = words[rest..].iter().map(|word| word.text.clone());
    let line = CommandLine { dialect, options, script: operands.next(), script_args: operands.collect() };
    fits(&line, program).map_err(|fault| Diagnostic::new(None, None, fault))?;
    Ok(line)
}

/// Whether the command line is one for this program.
fn fits(line: &CommandLine, program: Program) -> Result<(), Fault> {
    let scripts = matches!(program, Program::Axbatch | Program::Sbatch);
    if line.has("cmd") && program != Program::AxSubmit {
        let hint = if scripts { "write '--wrap=COMMAND'" } else { "write the command behind the options" };
        return Err(Fault::new("'--cmd' is an option of 'ax submit'").hint(hint));
    }
    if line.has("wrap") && !scripts {
        return Err(Fault::new("'--wrap' is an option of 'axbatch'").hint("write the command behind '--'"));
    }
    let command = ["wrap", "cmd"].into_iter().find(|name| line.has(name));
    match (command, &line.script) {
        (Some(name), Some(script)) => {
            Err(Fault::new(format!("'--{name}' and {} are two things to run", quoted(script))))
        }
        (Some(name), None) if line.value(name).is_some_and(|value| value.trim().is_empty()) => {
            Err(Fault::new(format!("'--{name}' is empty")))
        }
        _ => Ok(()),
    }
}

/// Reads the `AXBATCH_…` variables among those given: `AXBATCH_JOB_NAME` is
/// `--job-name`. A flag is given by nothing, `1`, `yes` or `true`, and not given by `0`,
/// `no` or `false`. They follow ax's rules whatever the program.
///
/// # Errors
/// A variable that is no option, or a flag with another value.
pub fn parse_environment<N: AsRef<str>, V: AsRef<str>>(
    variables: impl IntoIterator<Item = (N, V)>,
) -> Result<Vec<RawOption>, Diagnostic> {
    let mut options = Vec::new();
    for (variable, value) in variables {
        if let Some(name) = variable.as_ref().strip_prefix(VARIABLE_PREFIX) {
            let read = variable_option(variable.as_ref(), name, value.as_ref());
            let option = read.map_err(|fault| {
                let message = format!("{}: {}", variable.as_ref(), fault.message);
                Diagnostic::new(None, None, Fault { message, ..fault })
            })?;
            options.extend(option);
        }
    }
    Ok(options)
}

fn variable_option(variable: &str, name: &str, value: &str) -> Result<Option<RawOption>, Fault> {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let Some(def) = options::exact(&name, Dialect::Ax) else {
        let known = options::names(Dialect::Ax);
        let near = nearest(&name, known).map(|near| near.to_ascii_uppercase().replace('-', "_"));
        let near = near.map(|near| format!("{VARIABLE_PREFIX}{near}"));
        return Err(Fault::new("no option has this variable").did_you_mean(near.as_deref()));
    };
    if def.sites & sites::ENVIRONMENT == 0 {
        return Err(Fault::new(format!("'--{name}' belongs on the command line")));
    }
    let value = match def.value {
        ValueKind::Flag | ValueKind::Optional(_) if is_yes(value) => None,
        ValueKind::Flag | ValueKind::Optional(_) if is_no(value) => return Ok(None),
        ValueKind::Flag => {
            return Err(Fault::new(format!("{} is neither yes nor no", quoted(value))));
        }
        _ => Some(value.to_owned()),
    };
    Ok(Some(RawOption { def, written: variable.to_owned(), value, place: None, value_place: None }))
}

fn is_yes(value: &str) -> bool {
    ["", "1", "yes", "true"].iter().any(|yes| yes.eq_ignore_ascii_case(value))
}

fn is_no(value: &str) -> bool {
    ["0", "no", "false"].iter().any(|no| no.eq_ignore_ascii_case(value))
}

/// Reads options from words until one that is no option.
pub(super) struct Reader<'a> {
    words: &'a [Word],
    next: usize,
    dialect: Dialect,
    site: u8,
    file: Option<&'a str>,
    options: Vec<RawOption>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(words: &'a [Word], dialect: Dialect, site: u8, file: Option<&'a str>) -> Reader<'a> {
        Reader { words, next: 0, dialect, site, file, options: Vec::new() }
    }

    /// The options, and the index of the first word that is none of them.
    pub(super) fn read(mut self) -> Result<(Vec<RawOption>, usize), Diagnostic> {
        while let Some(word) = self.words.get(self.next) {
            match word.text.strip_prefix('-') {
                None | Some("") => break,
                Some("-") => {
                    self.next += 1;
                    break;
                }
                Some(rest) => match rest.strip_prefix('-') {
                    Some(long) => self.long(word, long)?,
                    None => self.shorts(word, rest)?,
                },
            }
        }
        Ok((self.options, self.next))
    }

    fn fault(&self, word: &Word, fault: Fault) -> Diagnostic {
        Diagnostic::new(self.file, word.place(), fault)
    }

    /// `--name`, `--name=value`, `--name value`.
    fn long(&mut self, word: &'a Word, text: &str) -> Result<(), Diagnostic> {
        self.next += 1;
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let def = options::long(name, self.dialect).map_err(|fault| self.fault(word, fault))?;
        let written = format!("--{name}");
        let at = value.map(|value| word.text.len() - value.len());
        match (def.value, at) {
            (ValueKind::Flag, Some(_)) => {
                Err(self.fault(word, Fault::new(format!("{} takes no value", quoted(&written)))))
            }
            (ValueKind::Flag | ValueKind::Optional(_), None) => self.add(def, written, word, None),
            (_, Some(at)) => self.add(def, written, word, Some((word, at))),
            (_, None) => self.add_with_next(def, written, word),
        }
    }

    /// `-n4`, `-n 4`, `-Hn4`, and kindly `-n=4`.
    fn shorts(&mut self, word: &'a Word, letters: &str) -> Result<(), Diagnostic> {
        self.next += 1;
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if letter == '=' && letters.len() > rest.len() + 1 {
                let fault = Fault::new(format!("'{}' takes no value", self.last_written()));
                return Err(self.fault(word, fault));
            }
            let def = options::short(letter, self.dialect)
                .ok_or_else(|| self.fault(word, unknown_short(letter, letters, self.dialect)))?;
            let written = format!("-{letter}");
            match def.value {
                ValueKind::Flag => self.add(def, written, word, None)?,
                ValueKind::Optional(_) if rest.is_empty() => self.add(def, written, word, None)?,
                _ if rest.is_empty() => return self.add_with_next(def, written, word),
                kind => {
                    let value = self.after_letter(kind, rest);
                    return self.add(def, written, word, Some((word, word.text.len() - value.len())));
                }
            }
        }
        Ok(())
    }

    /// The name of the option that was read last.
    fn last_written(&self) -> &str {
        self.options.last().map_or("", |option| &option.written)
    }

    /// In Slurm `-J=x` names a job `=x`, and means that here too; `-n=4` means
    /// nothing there, and 4 here.
    fn after_letter<'t>(&self, kind: ValueKind, rest: &'t str) -> &'t str {
        let literal = self.dialect == Dialect::Slurm && matches!(kind, ValueKind::Text(_));
        if literal { rest } else { rest.strip_prefix('=').unwrap_or(rest) }
    }

    /// The value is the next word.
    fn add_with_next(
        &mut self,
        def: &'static OptionDef,
        written: String,
        word: &'a Word,
    ) -> Result<(), Diagnostic> {
        match self.words.get(self.next).filter(|next| !self.is_forgotten_value(next)) {
            Some(value) => {
                self.next += 1;
                self.add(def, written, word, Some((value, 0)))
            }
            None => {
                let fault = Fault::new(format!("{} needs a value", quoted(&written)));
                Err(self.fault(word, fault.hint(format!("write '{}'", def.example()))))
            }
        }
    }

    /// In ax's dialect a value that is an option was forgotten; Slurm takes anything.
    fn is_forgotten_value(&self, next: &Word) -> bool {
        let name = next.text.strip_prefix("--").map(|text| text.split('=').next().unwrap_or(text));
        self.dialect == Dialect::Ax && name.is_some_and(|name| options::exact(name, Dialect::Ax).is_some())
    }

    fn add(
        &mut self,
        def: &'static OptionDef,
        written: String,
        word: &Word,
        value: Option<(&Word, usize)>,
    ) -> Result<(), Diagnostic> {
        if def.sites & self.site == 0 {
            let fault = Fault::new(format!("{} belongs on the command line", quoted(&written)));
            return Err(self.fault(word, fault));
        }
        self.options.push(RawOption {
            def,
            written,
            place: word.place(),
            value_place: value.and_then(|(word, at)| if at == 0 { word.place() } else { word.place_at(at) }),
            value: value.and_then(|(word, at)| word.text.get(at..).map(str::to_owned)),
        });
        Ok(())
    }
}

/// `-gpus=2` lacks a hyphen; `-Z` is nothing.
fn unknown_short(letter: char, letters: &str, dialect: Dialect) -> Fault {
    let fault = Fault::new(format!("unknown option '-{letter}'"));
    let name = letters.split('=').next().unwrap_or(letters);
    match options::exact(name, dialect).filter(|_| name.len() > 1) {
        Some(_) => fault.did_you_mean(Some(&format!("--{name}"))),
        None => fault,
    }
}
