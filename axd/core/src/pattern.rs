//! Patterns of output files: `%j`, `%x` and so on, with zero padding (`%4j`). A pattern is checked once, at
//! submission; expansion cannot fail. Only texts: no file is looked at.

use std::fmt;

use thiserror::Error;

use crate::id::{JobId, JobNumber};

/// The letters that may follow `%`, with what they become.
pub const SPECIFIERS: &[(char, &str)] = &[
    ('j', "number of the job, of the element in an array"),
    ('J', "whole id of the job"),
    ('A', "number of the array, of the job where there is none"),
    ('a', "index of the array's element"),
    ('b', "the same, modulo 10"),
    ('x', "name of the job"),
    ('u', "user"),
    ('N', "node"),
    ('n', "rank of the node in the job"),
    ('t', "rank of the task"),
    ('s', "step"),
    ('r', "how often the job was started again, from 0"),
    ('%', "a percent sign"),
];

/// Zero padding is no wider than this, as in Slurm.
const MAX_WIDTH: usize = 10;

/// What Slurm gives for `%a` where there is no array.
const NO_ELEMENT: u32 = u32::MAX - 1;

/// A `%` with something behind it that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{specifier}' is not known in a pattern of file names")]
pub struct BadPattern {
    /// What was found, from the `%` on.
    pub specifier: String,
}

/// A checked pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field { letter: char, width: usize },
}

/// What stands in for the letters.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// `%J`, and `%j` by its number.
    pub id: JobId,
    /// `%A` and `%a`: number of the array and index of the element.
    pub array: Option<(JobNumber, u32)>,
    /// `%x`.
    pub name: &'a str,
    /// `%u`.
    pub user: &'a str,
    /// `%N`.
    pub node: &'a str,
    /// `%n`.
    pub node_rank: u32,
    /// `%t`.
    pub task: u32,
    /// `%s`: `batch` or the number of the step.
    pub step: &'a str,
    /// `%r`, from 0.
    pub restarts: u32,
}

impl Pattern {
    /// Checks a pattern.
    ///
    /// # Errors
    /// At the first `%` that is not followed by one of [`SPECIFIERS`], with digits between them at most.
    pub fn new(text: &str) -> Result<Pattern, BadPattern> {
        let (pattern, unknown) = Pattern::tolerant(text);
        match unknown {
            Some(specifier) => Err(BadPattern { specifier }),
            None => Ok(pattern),
        }
    }

    /// Reads a pattern as Slurm does, where an unknown letter stands for
    /// itself; the first such is told.
    pub fn tolerant(text: &str) -> (Pattern, Option<String>) {
        let (mut parts, mut unknown, mut rest) = (Vec::new(), None, text);
        while let Some((before, after)) = rest.split_once('%') {
            push_text(&mut parts, before);
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let letter = after[digits..].chars().next();
            let end = digits + letter.map_or(0, char::len_utf8);
            match letter.filter(|letter| SPECIFIERS.iter().any(|(known, _)| known == letter)) {
                Some('%') => push_text(&mut parts, "%"),
                Some(letter) => parts.push(Part::Field { letter, width: width(&after[..digits]) }),
                None => {
                    let found = format!("%{}", &after[..end]);
                    push_text(&mut parts, &found);
                    unknown.get_or_insert(found);
                }
            }
            rest = &after[end..];
        }
        push_text(&mut parts, rest);
        (Pattern { parts }, unknown)
    }

    /// The pattern with another letter in the place of one: `%J` is `%j` for Slurm's scripts.
    #[must_use]
    pub fn with_letter(mut self, old: char, new: char) -> Pattern {
        for part in &mut self.parts {
            if let Part::Field { letter, .. } = part
                && *letter == old
            {
                *letter = new;
            }
        }
        self
    }

    /// Whether the file differs from one attempt to the next by itself (`%r`).
    pub fn names_the_restart(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Field { letter: 'r', .. }))
    }

    /// The pattern for an attempt: from the second on (`restarts` above 0), one
    /// without `%r` gets `.r1`, `.r2` … before the suffix of its last part,
    /// so that each attempt has a file of its own. A suffix is a dot, not
    /// the first character of the name, and the fixed text that ends the pattern.
    #[must_use]
    pub fn for_attempt(mut self, restarts: u32) -> Pattern {
        if restarts == 0 || self.names_the_restart() {
            return self;
        }
        let mark = format!(".r{restarts}");
        let alone = self.parts.len() == 1;
        match self.parts.last_mut() {
            Some(Part::Text(text)) => {
                let name = text.rfind('/').map(|at| at + 1);
                // A dot that begins the name is no suffix; after a field it does not begin it.
                let first = name.map_or(usize::from(alone), |name| name + 1);
                let dot = text.rfind('.').filter(|dot| *dot >= first);
                text.insert_str(dot.unwrap_or(text.len()), &mark);
            }
            _ => push_text(&mut self.parts, &mark),
        }
        self
    }

    /// The name of the file. A `/` or a control character in a value becomes
    /// `_`, so that a job's name cannot choose another folder.
    pub fn expand(&self, values: &Values<'_>) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Field { letter, width } => out.push_str(&field(*letter, *width, values)),
            }
        }
        out
    }
}

/// The pattern as text, from which `new` makes the same one.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(&text.replace('%', "%%"))?,
                Part::Field { letter, width: 0 } => write!(f, "%{letter}")?,
                Part::Field { letter, width } => write!(f, "%{width}{letter}")?,
            }
        }
        Ok(())
    }
}

/// Adds fixed text; neighbouring texts become one.
fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(before)) => before.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

fn width(digits: &str) -> usize {
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(MAX_WIDTH).min(MAX_WIDTH) }
}

fn field(letter: char, width: usize, values: &Values<'_>) -> String {
    let number = |n: u32| format!("{n:0width$}");
    let name = |text: &str| text.replace(|c: char| c == '/' || c.is_control(), "_");
    let element = values.array.map_or(NO_ELEMENT, |(_, index)| index);
    match letter {
        'j' => number(values.id.number.0),
        'J' => whole_id(values),
        'A' => number(values.array.map_or(values.id.number, |(array, _)| array).0),
        'a' => number(element),
        'b' => number(element % 10),
        'x' => name(values.name),
        'u' => name(values.user),
        'N' => name(values.node),
        'n' => number(values.node_rank),
        't' => number(values.task),
        's' => values.step.parse().map_or_else(|_| name(values.step), number),
        'r' => number(values.restarts),
        // `Pattern::tolerant` lets no other letter in.
        other => format!("%{other}"),
    }
}

/// `ax-2026-0001`, in an array `ax-2026-0001_7`.
fn whole_id(values: &Values<'_>) -> String {
    match values.array {
        Some((number, element)) => format!("{}_{element}", JobId { number, ..values.id }),
        None => values.id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'static> = Values {
        id: JobId { number: JobNumber(42), year: 2026 },
        array: Some((JobNumber(40), 17)),
        name: "../train",
        user: "ada",
        node: "gpu-01",
        node_rank: 0,
        task: 3,
        step: "batch",
        restarts: 2,
    };

    #[test]
    fn fields_expand() {
        for (pattern, file) in [
            ("ax-%j.out", "ax-42.out"),
            ("%6j", "000042"),
            ("%A_%4a/%b", "40_0017/7"),
            ("%J", "ax-2026-0040_17"),
            ("%x.%u.%N", ".._train.ada.gpu-01"),
            ("%n%t%s%r%%", "03batch2%"),
            ("%99j", "0000000042"),
            ("%0j%99999999999999999999t", "420000000003"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().expand(&VALUES), file, "{pattern}");
        }
        let alone = Values { array: None, ..VALUES };
        assert_eq!(Pattern::new("%A_%a %J").unwrap().expand(&alone), "42_4294967294 ax-2026-0042");
    }

    #[test]
    fn unknown_letters_are_told() {
        for (pattern, found) in [("a%z", "%z"), ("%", "%"), ("%4", "%4"), ("%j%é", "%é"), ("% j", "% ")] {
            assert_eq!(Pattern::new(pattern), Err(BadPattern { specifier: found.to_owned() }), "{pattern}");
        }
        let (pattern, unknown) = Pattern::tolerant("%z-%J");
        assert_eq!(unknown.as_deref(), Some("%z"));
        assert_eq!(pattern.with_letter('J', 'j').to_string(), "%%z-%j");
    }

    #[test]
    fn every_attempt_has_its_file() {
        for (pattern, second) in [
            ("ax-%j.out", "ax-%j.r1.out"),
            ("logs.d/%x", "logs.d/%x.r1"),
            ("logs.d/run", "logs.d/run.r1"),
            ("a.tar.gz", "a.tar.r1.gz"),
            ("run.%j", "run.%j.r1"),
            (".hidden", ".hidden.r1"),
            ("d/.hidden", "d/.hidden.r1"),
            ("%x.log", "%x.r1.log"),
            ("%j-%r.out", "%j-%r.out"),
            ("", ".r1"),
        ] {
            let given = Pattern::new(pattern).unwrap();
            assert_eq!(given.clone().for_attempt(1).to_string(), second, "{pattern}");
            assert_eq!(given.for_attempt(0).to_string(), pattern);
        }
    }
}
