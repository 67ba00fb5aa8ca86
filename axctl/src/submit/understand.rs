//! Finds out what a submission means before the daemon is asked: the arguments, the `AXBATCH_…` variables and the
//! script's directives, read by the table of options that axd reads, too.

use std::ffi::OsString;

use ax_core::api::ErrorClass;
use ax_core::directive::options::Section;
use ax_core::directive::{
    self, CommandLine, Conduct, Diagnostic, Program, RawOption, interpret, parse_environment, parse_script,
};
use ax_core::job::spec::JobSpec;

use super::request::last_part;
use super::script::Body;
use crate::failure::Failure;
use crate::world::{Variables, World};

/// A submission that would be sent.
pub(crate) struct Understood {
    pub(crate) program: Program,
    pub(crate) line: CommandLine,
    pub(super) body: Body,
    /// `AXBATCH_…` variables, to be sent along.
    pub(super) variables: Vec<(String, String)>,
    pub(crate) spec: JobSpec,
    pub(crate) conduct: Conduct,
    /// Warnings for the person, and the same as axd words them, with the script's last name only.
    pub(super) notes: Vec<String>,
    told: Vec<String>,
}

impl Understood {
    /// Reads all sources together.
    pub(super) fn new(
        program: Program,
        line: CommandLine,
        body: Body,
        world: &World<'_>,
    ) -> Result<Understood, Failure> {
        let variables = option_variables(&world.vars);
        let given = parse_environment(variables.iter().map(|(name, value)| (name, value))).map_err(said)?;
        let script = match &body {
            Body::Script { name, content, .. } => {
                let name = name.as_deref().unwrap_or("standard input");
                Some(parse_script(name, content).map_err(said)?)
            }
            Body::Command(_) => None,
        };
        let environment = directive::Source { dialect: directive::Dialect::Ax, file: None, options: &given };
        let mut sources = vec![line.source(), environment];
        sources.extend(script.as_ref().map(directive::ScriptDirectives::source));
        let meaning = interpret(&sources).map_err(said)?;
        let stray = behind_script(program, &line, script.as_ref(), &body);
        let mut notes: Vec<Diagnostic> = script.map(|script| script.warnings).unwrap_or_default();
        notes.extend(meaning.notes);
        let name = match &body {
            Body::Script { name: Some(name), .. } => last_part(name),
            // What axd calls a script that has no name.
            _ => "script".to_owned(),
        };
        let short = |mut note: Diagnostic| {
            note.file = note.file.map(|_| name.clone());
            note.to_string()
        };
        Ok(Understood {
            program,
            line,
            body,
            variables,
            spec: meaning.spec,
            conduct: meaning.conduct,
            told: notes.iter().cloned().map(short).collect(),
            notes: notes.iter().map(Diagnostic::to_string).chain(stray).collect(),
        })
    }

    /// Whether a warning of axd's is among those that were found here.
    pub(crate) fn tells(&self, warning: &str) -> bool {
        self.told.iter().any(|told| told == warning)
    }
}

/// The first word behind a script that is an option of ours and was given nowhere else: most likely it was meant for us.
fn behind_script(
    program: Program,
    line: &CommandLine,
    script: Option<&directive::ScriptDirectives>,
    body: &Body,
) -> Option<String> {
    let Body::Script { args, name: Some(name), .. } = body else { return None };
    let before_end = args.iter().position(|word| word == "--").unwrap_or(args.len());
    let args = args.get(..before_end)?;
    let stray = (0..args.len()).find(|at| {
        // With its value in the word, or as the next one. Whether the value means something says the reader of options.
        let found =
            (at + 1..=args.len().min(at + 2)).find_map(|end| option_of_ours(program, args.get(*at..end)?));
        let given = |name: &str| {
            line.has(name)
                || script.is_some_and(|script| script.options.iter().any(|given| given.def.name == name))
        };
        found.is_some_and(|name| !given(name))
    })?;
    let (word, name) = (args.get(stray)?, last_part(name));
    Some(format!("'{word}' goes to {name}; what is meant for the job stands before the script's name"))
}

/// The name of the option of jobs that these words are, all of them, in its long form.
fn option_of_ours(program: Program, words: &[String]) -> Option<&'static str> {
    let read = directive::parse_args(words, program).ok()?;
    let [option] = read.options.as_slice() else { return None };
    let written = words.first()?.strip_prefix("--")?.split('=').next()?;
    let is_whole = read.script.is_none() && written == option.def.name;
    let is_ours = option.def.section != Section::Command && interpret(&[read.source()]).is_ok();
    (is_whole && is_ours).then_some(option.def.name)
}

/// A diagnostic as the failure of the command.
pub(crate) fn said(diagnostic: Diagnostic) -> Failure {
    let class = if diagnostic.exit_code() == 65 { ErrorClass::Data } else { ErrorClass::Usage };
    Failure::said(class, diagnostic.to_string())
}

/// Words as text.
///
/// # Errors
/// Usage, with the word, where one is not UTF-8.
pub(crate) fn utf8(words: &[OsString]) -> Result<Vec<String>, Failure> {
    let text = |word: &OsString| {
        let wrong = || Failure::usage(format!("the argument '{}' is not UTF-8", word.to_string_lossy()));
        word.to_str().map(str::to_owned).ok_or_else(wrong)
    };
    words.iter().map(text).collect()
}

/// The options that describe the job, as words. How the command itself behaves stays here.
pub(crate) fn request_words(options: &[RawOption]) -> Vec<String> {
    let of_job = options.iter().filter(|option| option.def.section != Section::Command);
    let word = |option: &RawOption| match &option.value {
        Some(value) => format!("--{}={value}", option.def.name),
        None => format!("--{}", option.def.name),
    };
    of_job.map(word).collect()
}

fn option_variables(vars: &Variables) -> Vec<(String, String)> {
    let texts = vars.0.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let ours = texts.filter(|(name, _)| name.starts_with("AXBATCH_"));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
