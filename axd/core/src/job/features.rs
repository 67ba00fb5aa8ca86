//! What `--constraint` asks of a node: features, joined by `&` and `|`, with parentheses where both are used.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::quoted;

/// Parentheses may be at most so deep.
const DEEPEST: usize = 16;

/// Features that a node must have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Features {
    /// This one.
    One(Box<str>),
    /// All of these.
    All(Vec<Features>),
    /// Any of these.
    Any(Vec<Features>),
}

/// Why a text names no features.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadFeatures(String);

impl Features {
    /// True if a node with these features will do.
    pub fn met_by(&self, has: &[String]) -> bool {
        match self {
            Features::One(name) => has.iter().any(|feature| **feature == **name),
            Features::All(parts) => parts.iter().all(|part| part.met_by(has)),
            Features::Any(parts) => parts.iter().any(|part| part.met_by(has)),
        }
    }

    /// All names in it.
    pub fn names(&self) -> BTreeSet<&str> {
        match self {
            Features::One(name) => BTreeSet::from([&**name]),
            Features::All(parts) | Features::Any(parts) => parts.iter().flat_map(Features::names).collect(),
        }
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, joint) = match self {
            Features::One(name) => return f.write_str(name),
            Features::All(parts) => (parts, "&"),
            Features::Any(parts) => (parts, "|"),
        };
        for (at, part) in parts.iter().enumerate() {
            let before = if at > 0 { joint } else { "" };
            match part {
                Features::One(name) => write!(f, "{before}{name}")?,
                other => write!(f, "{before}({other})")?,
            }
        }
        Ok(())
    }
}

impl From<Features> for String {
    fn from(features: Features) -> String {
        features.to_string()
    }
}

impl TryFrom<String> for Features {
    type Error = BadFeatures;

    fn try_from(text: String) -> Result<Features, BadFeatures> {
        text.parse()
    }
}

impl FromStr for Features {
    type Err = BadFeatures;

    fn from_str(text: &str) -> Result<Features, BadFeatures> {
        let mut reader = Reader { text, rest: text, depth: 0 };
        let features = reader.group()?;
        if reader.rest.is_empty() { Ok(features) } else { Err(reader.unexpected()) }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn bad(&self, what: &str) -> BadFeatures {
        BadFeatures(format!("{}: {what}", quoted(self.text)))
    }

    fn unexpected(&self) -> BadFeatures {
        match self.rest.chars().next() {
            None => self.bad("a feature is missing at its end"),
            Some('*') => {
                self.bad("counts of nodes are for jobs on several nodes, which are not supported yet")
            }
            Some(c) => self.bad(&format!("{} is not expected there", quoted(&c.to_string()))),
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Reads `a&b&c` or `a|b|c`; a comma means "and", as in Slurm.
    fn group(&mut self) -> Result<Features, BadFeatures> {
        let mut parts = vec![self.part()?];
        let mut joint = None;
        loop {
            self.skip_blanks();
            let next = match self.rest.chars().next() {
                Some('&' | ',') => '&',
                Some('|') => '|',
                _ => break,
            };
            if joint.is_some_and(|known| known != next) {
                return Err(self.bad("& and | together need parentheses, such as (a&b)|c"));
            }
            joint = Some(next);
            // The operator is one byte.
            self.rest = &self.rest[1..];
            parts.push(self.part()?);
        }
        Ok(match joint {
            None => parts.swap_remove(0),
            Some('|') => Features::Any(parts),
            Some(_) => Features::All(parts),
        })
    }

    /// Reads a name, or a group in parentheses. Slurm's brackets ask that all nodes of a job have the same one of
    /// several features, which holds on a single node.
    fn part(&mut self) -> Result<Features, BadFeatures> {
        self.skip_blanks();
        for (open, close) in [('(', ')'), ('[', ']')] {
            let Some(inner) = self.rest.strip_prefix(open) else { continue };
            self.depth += 1;
            if self.depth > DEEPEST {
                return Err(self.bad("there are too many parentheses within each other"));
            }
            self.rest = inner;
            let group = self.group()?;
            self.skip_blanks();
            let Some(rest) = self.rest.strip_prefix(close) else { return Err(self.unexpected()) };
            (self.rest, self.depth) = (rest, self.depth - 1);
            return Ok(group);
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
        let length = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        if length == 0 {
            return Err(self.unexpected());
        }
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(Features::One(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_what_is_asked_for_or_not() {
        let has = ["nvlink", "big", "a.b:1"].map(str::to_owned);
        for (text, met) in [
            ("nvlink", true),
            ("ib", false),
            ("nvlink&big", true),
            ("nvlink,big", true),
            ("nvlink & ib", false),
            ("ib|a.b:1", true),
            ("ib|small", false),
            ("(nvlink|ib)&(big|small)", true),
            ("(nvlink&ib)|big", true),
            ("[ib|nvlink]", true),
            ("((big))", true),
        ] {
            let features: Features = text.parse().unwrap();
            assert_eq!(features.met_by(&has), met, "{text}");
            assert_eq!(features.to_string().parse(), Ok(features.clone()), "{features}");
        }
        let features: Features = "(x|y)&z".parse().unwrap();
        assert_eq!(features.names().into_iter().collect::<Vec<_>>(), ["x", "y", "z"]);
    }

    #[test]
    fn mistakes_are_told() {
        let deep = format!("{}a", "(".repeat(1000));
        for (text, told) in [
            ("", "\"\": a feature is missing at its end"),
            ("a&", "\"a&\": a feature is missing at its end"),
            ("a|&b", "\"a|&b\": \"&\" is not expected there"),
            ("(a", "\"(a\": a feature is missing at its end"),
            ("(a]", "\"(a]\": \"]\" is not expected there"),
            ("a)", "\"a)\": \")\" is not expected there"),
            ("a b", "\"a b\": \"b\" is not expected there"),
            ("a&b|c", "\"a&b|c\": & and | together need parentheses, such as (a&b)|c"),
            ("a*2", "\"a*2\": counts of nodes are for jobs on several nodes, which are not supported yet"),
        ] {
            let error = text.parse::<Features>().unwrap_err().to_string();
            assert_eq!(error.replace('\'', "\""), told);
        }
        assert!(deep.parse::<Features>().unwrap_err().to_string().contains("too many parentheses"));
    }
}
