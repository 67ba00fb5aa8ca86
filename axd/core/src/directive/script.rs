//! Finds the directive lines of a script and reads them. A script with
//! `#AX` lines is read by ax's rules; one with `#SBATCH` lines only by Slurm's:
//! see ax-script(5). The body is not looked at but for directives that stand too
//! late to count.

use super::command::Reader;
use super::diagnostic::{Diagnostic, Fault, Place};
use super::options::{self, sites};
use super::words::{Word, is_blank, split};
use super::{Dialect, RawOption, Source};
use crate::text::quoted;

/// The largest script, in bytes.
pub const MAX_SCRIPT: usize = 4 << 20;

/// The most that all directive lines of a script may have, in bytes: what
/// they cost to read is more than in proportion.
const MAX_DIRECTIVES: usize = 65_536;

/// Warnings beyond these say nothing new.
const MAX_WARNINGS: usize = 100;

/// What the directive lines of a script say.
#[derive(Debug, Clone)]
pub struct ScriptDirectives {
    /// The script's name, as messages give it.
    pub file: String,
    /// Whose rules it was read by; ax's where it has no directive at all.
    pub dialect: Dialect,
    /// The options, in order.
    pub options: Vec<RawOption>,
    /// What the user should know: lines that look like directives and are none.
    pub warnings: Vec<Diagnostic>,
    /// What follows `#!` on the first line, without blanks around it.
    pub interpreter: Option<String>,
    /// Whether lines end in CR LF.
    pub crlf: bool,
    /// Whether the text begins with a byte-order mark.
    pub bom: bool,
}

impl ScriptDirectives {
    /// The options, to be interpreted with those of other sources.
    pub fn source(&self) -> Source<'_> {
        Source { dialect: self.dialect, file: Some(&self.file), options: &self.options }
    }
}

/// Reads the directives of a script; `name` is what messages call it.
///
/// # Errors
/// A script that is empty, too large or not a text, words that do not end,
/// unknown options. Values are checked later, by `interpret`.
pub fn parse_script(name: &str, body: &[u8]) -> Result<ScriptDirectives, Diagnostic> {
    check_is_text(body).map_err(|(place, fault)| Diagnostic::new(Some(name), place, fault))?;
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut scan = Scan::new(name);
    // A program has no lines; what looks like a directive in it is a text of its own.
    let lines: &[u8] = if is_program(text) { b"" } else { text };
    for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
        scan.line(index, line);
    }
    let dialect = if scan.ax.is_empty() && !scan.sbatch.is_empty() { Dialect::Slurm } else { Dialect::Ax };
    scan.check_length()?;
    let options = match dialect {
        Dialect::Ax => scan.read_ax()?,
        Dialect::Slurm => scan.read_slurm()?,
    };
    scan.warnings.sort_by_key(|warning| (warning.line, warning.column));
    Ok(ScriptDirectives {
        file: name.to_owned(),
        dialect,
        options,
        warnings: scan.warnings,
        interpreter: scan.interpreter,
        crlf: scan.crlf,
        bom: text.len() != body.len(),
    })
}

/// Whether this is a program of Linux's own format, which runs without a shell.
pub fn is_program(body: &[u8]) -> bool {
    body.starts_with(b"\x7fELF")
}

/// A NUL, nothing but blanks, or line ends that are none make a file that no shell runs.
fn check_is_text(body: &[u8]) -> Result<(), (Option<Place>, Fault)> {
    if body.len() > MAX_SCRIPT {
        return Err((None, Fault::new(format!("{} bytes are more than {MAX_SCRIPT}", body.len()))));
    }
    let text = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    if text.iter().all(|byte| byte.is_ascii_whitespace()) {
        let but = match (body, text) {
            ([], _) => "",
            (_, []) => " but for a byte order mark",
            _ => " but for blanks",
        };
        return Err((None, Fault::new(format!("the script is empty{but}"))));
    }
    if is_program(text) {
        return Ok(());
    }
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        let before = &text[..at];
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
        let fault = Fault::new("a NUL byte")
            .hint("this is not a shell script; perhaps UTF-16, or a program, which --wrap starts");
        return Err((Some(Place { line: count(line), column: count(column) }), fault));
    }
    let lonely = text.contains(&b'\r') && !text.contains(&b'\n');
    if lonely && text[..text.len() - 1].contains(&b'\r') {
        return Err((None, Fault::new("lines end in CR alone").hint("save the script with Unix line ends")));
    }
    Ok(())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A directive line: its number, and the bytes behind the prefix.
struct Directive<'a> {
    line: u32,
    prefix: &'static str,
    rest: &'a [u8],
}

impl Directive<'_> {
    /// The column of the first character behind the prefix.
    fn column(&self) -> u32 {
        count(self.prefix.len()) + 1
    }
}

struct Scan<'a> {
    name: &'a str,
    ax: Vec<Directive<'a>>,
    sbatch: Vec<Directive<'a>>,
    warnings: Vec<Diagnostic>,
    interpreter: Option<String>,
    crlf: bool,
    /// Whether a command was seen, after which directives do not count.
    begun: bool,
}

impl<'a> Scan<'a> {
    fn new(name: &'a str) -> Scan<'a> {
        let (ax, sbatch, warnings) = (Vec::new(), Vec::new(), Vec::new());
        Scan { name, ax, sbatch, warnings, interpreter: None, crlf: false, begun: false }
    }

    fn warn(&mut self, line: u32, column: u32, fault: Fault) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Diagnostic::new(Some(self.name), Some(Place { line, column }), fault));
        }
    }

    fn check_length(&self) -> Result<(), Diagnostic> {
        let length: usize = self.ax.iter().chain(&self.sbatch).map(|directive| directive.rest.len()).sum();
        if length <= MAX_DIRECTIVES {
            return Ok(());
        }
        let fault = Fault::new(format!("directives of {length} bytes are more than {MAX_DIRECTIVES}"));
        Err(Diagnostic::new(Some(self.name), None, fault))
    }

    /// Sorts a line to where it belongs.
    fn line(&mut self, index: usize, raw: &'a [u8]) {
        let text = raw.strip_suffix(b"\r").unwrap_or(raw);
        self.crlf |= text.len() != raw.len();
        let number = count(index + 1);
        if let Some(interpreter) = text.strip_prefix(b"#!").filter(|_| index == 0) {
            self.interpreter = Some(String::from_utf8_lossy(interpreter).trim().to_owned());
        } else if let Some((prefix, rest)) = directive(text) {
            self.directive(Directive { line: number, prefix, rest });
        } else if let Some((indent, seen, prefix)) = lookalike(text).filter(|_| !self.begun) {
            let fault =
                Fault::new(format!("'{seen}' is a comment")).hint(format!("write '{prefix}' at the start"));
            self.warn(number, indent + 1, fault);
        } else if !text.trim_ascii_start().is_empty() && !text.trim_ascii_start().starts_with(b"#") {
            self.begun = true;
        }
    }

    fn directive(&mut self, directive: Directive<'a>) {
        let Directive { line, prefix, .. } = directive;
        if self.begun {
            self.warn(line, 1, Fault::new(format!("{prefix} after the first command is ignored")));
            return;
        }
        match prefix {
            "#AX" => self.ax.push(directive),
            "#SBATCH" => self.sbatch.push(directive),
            "#SLURM" => {
                self.warn(line, 1, Fault::new("#SLURM is read as #SBATCH").hint("write '#SBATCH'"));
                self.sbatch.push(directive);
            }
            _ => self.warn(line, 1, Fault::new(format!("{prefix} lines are not read")).hint("write '#AX'")),
        }
    }

    /// Each `#AX` line is a command line of its own.
    fn read_ax(&mut self) -> Result<Vec<RawOption>, Diagnostic> {
        for index in 0..self.sbatch.len() {
            let fault = Fault::new("#SBATCH is ignored in a script with #AX lines");
            self.warn(self.sbatch[index].line, 1, fault);
        }
        let mut options = Vec::new();
        for directive in std::mem::take(&mut self.ax) {
            let words = self.words(&directive, Dialect::Ax)?;
            options.extend(self.options(&words, Dialect::Ax, sites::AX_LINE)?);
        }
        Ok(options)
    }

    /// All `#SBATCH` lines together are one command line.
    fn read_slurm(&mut self) -> Result<Vec<RawOption>, Diagnostic> {
        let mut words = Vec::new();
        for directive in std::mem::take(&mut self.sbatch) {
            words.extend(self.words(&directive, Dialect::Slurm)?);
        }
        if let Some(word) = words.iter().find(|word| word.text.starts_with(':')) {
            let fault = Fault::new(format!("{} separates parts of a job", quoted(&word.text)));
            return Err(self.error(word, fault.hint("jobs of several parts are not supported")));
        }
        self.options(&words, Dialect::Slurm, sites::SBATCH_LINE)
    }

    fn error(&self, word: &Word, fault: Fault) -> Diagnostic {
        Diagnostic::new(Some(self.name), word.place(), fault)
    }

    fn options(&self, words: &[Word], dialect: Dialect, site: u8) -> Result<Vec<RawOption>, Diagnostic> {
        let (options, rest) = Reader::new(words, dialect, site, Some(self.name)).read()?;
        match words.get(rest) {
            None => Ok(options),
            Some(word) => Err(self.error(word, stray(word, dialect))),
        }
    }

    /// Splits a line; warns of what a shell would expand and ax does not.
    fn words(&mut self, directive: &Directive<'_>, dialect: Dialect) -> Result<Vec<Word>, Diagnostic> {
        let rest = String::from_utf8_lossy(directive.rest);
        let words = split(&rest, directive.line, directive.column(), dialect)
            .map_err(|(place, fault)| Diagnostic::new(Some(self.name), Some(place), fault))?;
        let broken = std::str::from_utf8(directive.rest).is_err();
        for word in &words {
            let Some(place) = word.place() else { continue };
            if broken && word.text.contains('\u{fffd}') {
                self.broken_text(word, place, dialect)?;
            }
            if expects_expansion(&word.text) {
                let fault = Fault::new(format!("{} is taken as it stands", quoted(&word.text)));
                self.warn(place.line, place.column, fault.hint("variables are not expanded in a directive"));
            }
        }
        Ok(words)
    }

    /// Slurm takes any bytes; a text that is not what was typed is no name for ax.
    fn broken_text(&mut self, word: &Word, place: Place, dialect: Dialect) -> Result<(), Diagnostic> {
        let fault =
            Fault::new(format!("{} is not UTF-8", quoted(&word.text))).hint("save the script as UTF-8");
        match dialect {
            Dialect::Ax => Err(self.error(word, fault)),
            Dialect::Slurm => {
                self.warn(place.line, place.column, fault);
                Ok(())
            }
        }
    }
}

/// Whether the author thought of a shell: `$VAR`, `${VAR}`, `$(…)`. Values of
/// `--env` are expanded at the start of the job, and mean it.
fn expects_expansion(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '{' | '(');
    let dollar = text.split('$').skip(1).any(|after| after.starts_with(begins));
    (dollar || text.contains('`')) && !text.starts_with("--env=")
}

/// A word in a directive that is no option.
fn stray(word: &Word, dialect: Dialect) -> Fault {
    if dialect == Dialect::Slurm && matches!(word.text.as_str(), "hetjob" | "packjob") {
        return Fault::new(format!("'{}': jobs of several parts are not supported", word.text));
    }
    let fault = Fault::new(format!("{} is not an option", quoted(&word.text)));
    if word.text.starts_with(['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}']) {
        return fault.hint("its hyphens are other characters; type them again");
    }
    let name = word.text.split('=').next().unwrap_or_default();
    match options::exact(name, dialect) {
        Some(_) => fault.did_you_mean(Some(&format!("--{}", word.text))),
        None => fault.hint("put a value with blanks in quotes, and a comment behind '#'"),
    }
}

/// Prefixes of directive lines. `#PBS` and `#BSUB` are of other systems.
const PREFIXES: [&str; 5] = ["#AX", "#SBATCH", "#SLURM", "#PBS", "#BSUB"];

/// The prefix that a line begins with, and what follows. An option may be
/// glued to the prefix; any other character behind `#AX` makes a word of its
/// own, such as `#AXIS`, and a comment. Behind `#SBATCH` Slurm takes all.
fn directive(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let prefix = PREFIXES.into_iter().find(|prefix| line.starts_with(prefix.as_bytes()))?;
    let rest = &line[prefix.len()..];
    let ends = rest.first().is_none_or(|byte| *byte == b'-' || is_blank(char::from(*byte)));
    (ends || matches!(prefix, "#SBATCH" | "#SLURM")).then_some((prefix, rest))
}

/// A comment that was meant as a directive: `# SBATCH -n 4`, indented or in
/// other case. Gives the indent, what it begins with, and the right prefix.
fn lookalike(line: &[u8]) -> Option<(u32, String, &'static str)> {
    let text = line.trim_ascii_start();
    let word = text.strip_prefix(b"#")?.trim_ascii_start();
    let end = word.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(word.len());
    let is = |prefix: &&str| word[..end].eq_ignore_ascii_case(&prefix.as_bytes()[1..]);
    let prefix = ["#AX", "#SBATCH"].into_iter().find(is)?;
    // Only with an option behind it: a sentence may begin with such a word.
    let option = word[end..].trim_ascii_start().starts_with(b"-");
    let seen = String::from_utf8_lossy(&line[..line.len() - word.len() + end]).into_owned();
    option.then(|| (count(line.len() - text.len()), seen, prefix))
}
