//! The kinds of values: how each is written, checked and shown. A kind carries
//! the range and the slot of its key, and reads one node of the tree.

use super::{Draft, Lens};
use crate::config::tree::{Node, Place, Value};
use crate::size::Megabytes;
use crate::text::{nearest, quoted};
use crate::time::Span;
use crate::units;

/// How a value is written, what it may be, and where it goes.
pub enum Kind {
    /// A length of time; a bare number is seconds.
    Duration(Span, Span, Lens<Span>),
    /// The same, or `none`.
    DurationOrNone(Span, Span, Lens<Option<Span>>),
    /// Memory of a host: powers of 1024, a bare number is MB.
    HostSize(Megabytes, Megabytes, Lens<Megabytes>),
    /// Memory of a card: decimal, a bare number is GB.
    GpuSize(Megabytes, Megabytes, Lens<Megabytes>),
    /// A whole number.
    Count(u64, u64, Lens<u64>),
    /// A share in whole percent, `10` or `10%`.
    Percent(u64, u64, Lens<u64>),
    /// `true` or `false`.
    Bool(Lens<bool>),
    /// A text of a certain form.
    Word(&'static Form, Lens<String>),
    /// A list of such texts.
    List(&'static Form, Lens<Vec<String>>),
    /// One of a few words.
    Enum(&'static [&'static str], Lens<&'static str>),
    /// A block that only a later version reads; anything may be in it.
    Later,
}

/// What a text must look like.
pub struct Form {
    /// For example `a path from the root`.
    pub expected: &'static str,
    /// Whether it does.
    pub fits: fn(&str) -> bool,
    /// Whether capitals mean the same as small letters.
    pub lower: bool,
}

/// Why a value is refused: what follows `KEY: `, and a hint.
pub(in crate::config) struct Problem {
    /// Where, if not at the value itself but within it.
    pub(in crate::config) place: Option<Place>,
    pub(in crate::config) message: String,
    pub(in crate::config) hint: Option<String>,
}

impl Problem {
    fn new(message: String) -> Problem {
        Problem { place: None, message, hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

/// What stands at a node, for a message.
pub(in crate::config) fn found(node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Scalar { text, .. } => quoted(text),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a block".to_owned(),
    }
}

/// A round size in its largest unit, for ranges: `2TiB`.
fn binary(size: Megabytes) -> String {
    match size.0 {
        mb if mb > 0 && mb % (1 << 20) == 0 => format!("{}TiB", mb >> 20),
        mb if mb > 0 && mb % (1 << 10) == 0 => format!("{}GiB", mb >> 10),
        mb => format!("{mb}MiB"),
    }
}

impl Kind {
    /// What is expected, for messages and documents.
    pub fn expected(&self) -> String {
        match self {
            Kind::Duration(..) => "a length of time (a bare number is seconds; or 90s, 5m, 1h30m, 2d)".into(),
            Kind::DurationOrNone(..) => {
                "none or a length of time (a bare number is seconds; or 90s, 5m, 1h30m, 2d)".into()
            }
            Kind::HostSize(..) => "a size of memory (a bare number is MB; or 512M, 4G)".into(),
            Kind::GpuSize(..) => "a size of GPU memory (a bare number is GB; or 40G, 512M)".into(),
            Kind::Count(..) => "a whole number".into(),
            Kind::Percent(..) => "a share in whole percent".into(),
            Kind::Bool(_) => "true or false".into(),
            Kind::Word(form, _) => form.expected.into(),
            Kind::List(form, _) => format!("a list, each {}", form.expected),
            Kind::Enum(words, _) => match words {
                [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
                _ => words.concat(),
            },
            Kind::Later => "a block".into(),
        }
    }

    /// The range of its values, as they are written.
    pub fn range(&self) -> Option<(String, String)> {
        match self {
            Kind::Duration(min, max, _) | Kind::DurationOrNone(min, max, _) => {
                Some((units::format_duration(*min), units::format_duration(*max)))
            }
            Kind::HostSize(min, max, _) | Kind::GpuSize(min, max, _) => Some((binary(*min), binary(*max))),
            Kind::Count(min, max, _) => Some((min.to_string(), max.to_string())),
            Kind::Percent(min, max, _) => Some((format!("{min}%"), format!("{max}%"))),
            _ => None,
        }
    }

    /// Reads a node and puts its value into the draft.
    pub(in crate::config) fn put(&self, node: &Node, draft: &mut Draft) -> Result<(), Problem> {
        match self {
            Kind::Duration(min, max, slot) => {
                let value = units::duration(self.scalar(node)?).map_err(|_| self.wrong(node))?;
                slot(draft).set(self.within(node, value, *min, *max)?);
            }
            Kind::DurationOrNone(min, max, slot) => match self.scalar(node)? {
                "none" => slot(draft).set(None),
                text => {
                    let value = units::duration(text).map_err(|_| self.wrong(node))?;
                    slot(draft).set(Some(self.within(node, value, *min, *max)?));
                }
            },
            Kind::HostSize(min, max, slot) => {
                let value = units::host_size(self.scalar(node)?).map_err(|_| self.wrong(node))?;
                slot(draft).set(self.within(node, value, *min, *max)?);
            }
            Kind::GpuSize(min, max, slot) => {
                let value = units::gpu_size(self.scalar(node)?).map_err(|_| self.wrong(node))?;
                slot(draft).set(self.within(node, value, *min, *max)?);
            }
            Kind::Count(min, max, slot) | Kind::Percent(min, max, slot) => {
                slot(draft).set(self.within(node, self.count(node)?, *min, *max)?);
            }
            Kind::Bool(slot) => slot(draft).set(self.truth(node)?),
            Kind::Word(form, slot) => {
                slot(draft).set(self.scalar(node).and_then(|_| Kind::word(node, form))?)
            }
            Kind::List(form, slot) => slot(draft).set(self.list(node, form)?),
            Kind::Enum(words, slot) => slot(draft).set(self.one_of(node, words)?),
            Kind::Later => {}
        }
        Ok(())
    }

    /// The value in the draft as it would be written; `None` when there is none.
    pub fn show(&self, draft: &mut Draft) -> Option<String> {
        match self {
            Kind::Duration(.., slot) => slot(draft).get().map(units::format_duration),
            Kind::DurationOrNone(.., slot) => {
                slot(draft).get().map(|value| value.map_or("none".to_owned(), units::format_duration))
            }
            Kind::HostSize(.., slot) | Kind::GpuSize(.., slot) => slot(draft).get().map(units::format_size),
            Kind::Count(.., slot) => slot(draft).get().map(|count| count.to_string()),
            Kind::Percent(.., slot) => slot(draft).get().map(|share| format!("{share}%")),
            Kind::Bool(slot) => slot(draft).get().map(|truth| truth.to_string()),
            Kind::Word(_, slot) => slot(draft).get(),
            Kind::List(_, slot) => slot(draft).get().map(|list| format!("[{}]", list.join(", "))),
            Kind::Enum(_, slot) => slot(draft).get().map(str::to_owned),
            Kind::Later => None,
        }
    }

    fn wrong(&self, node: &Node) -> Problem {
        Problem::new(format!("{} is not {}", found(node), self.expected()))
    }

    /// The text of a node that must be a single value.
    fn scalar<'a>(&self, node: &'a Node) -> Result<&'a str, Problem> {
        match &node.value {
            Value::Scalar { text, .. } => Ok(text),
            Value::Null => Err(Problem::new(format!("there is no value; expected {}", self.expected()))
                .hint("remove the line to have the default")),
            _ => Err(self.wrong(node)),
        }
    }

    fn within<T: PartialOrd>(&self, node: &Node, value: T, min: T, max: T) -> Result<T, Problem> {
        if min <= value && value <= max {
            return Ok(value);
        }
        let (min, max) = self.range().unwrap_or_default();
        let problem = Problem::new(format!("{} is out of range: {min} to {max}", found(node)));
        Err(match self {
            Kind::GpuSize(..) => problem.hint("a bare number is GB"),
            Kind::HostSize(..) => problem.hint("a bare number is MB"),
            _ => problem,
        })
    }

    fn count(&self, node: &Node) -> Result<u64, Problem> {
        let mut text = self.scalar(node)?;
        if let Kind::Percent(..) = self {
            text = text.strip_suffix('%').unwrap_or(text);
        }
        // A leading zero would be octal elsewhere.
        let digits = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        match &node.value {
            _ if text.is_empty() => Err(self.wrong(node)),
            _ if !digits => Err(self.wrong(node)),
            Value::Scalar { quoted: true, .. } => Err(self.unquote(node, text)),
            // More digits than fit are more than any range.
            _ => Ok(text.parse().unwrap_or(u64::MAX)),
        }
    }

    fn unquote(&self, node: &Node, text: &str) -> Problem {
        let message = format!("{} in quotes is a text, not {}", found(node), self.expected());
        Problem::new(message).hint(format!("write {text} without quotes"))
    }

    fn truth(&self, node: &Node) -> Result<bool, Problem> {
        let text = self.scalar(node)?;
        let (truth, clear) = match text.to_ascii_lowercase().as_str() {
            "true" => (true, true),
            "false" => (false, true),
            "yes" | "on" | "y" | "1" => (true, false),
            "no" | "off" | "n" | "0" => (false, false),
            _ => return Err(self.wrong(node)),
        };
        match &node.value {
            Value::Scalar { quoted: true, .. } if clear => Err(self.unquote(node, text)),
            _ if clear => Ok(truth),
            _ => Err(self.wrong(node).hint(format!("write {truth}"))),
        }
    }

    fn word(node: &Node, form: &Form) -> Result<String, Problem> {
        match &node.value {
            Value::Scalar { text, .. } if (form.fits)(text) => {
                Ok(if form.lower { text.to_ascii_lowercase() } else { text.clone() })
            }
            _ => Err(Problem::new(format!("{} is not {}", found(node), form.expected))),
        }
    }

    fn list(&self, node: &Node, form: &Form) -> Result<Vec<String>, Problem> {
        match &node.value {
            Value::List(items) => items
                .iter()
                .map(|item| Kind::word(item, form).map_err(|p| Problem { place: Some(item.place), ..p }))
                .collect(),
            Value::Scalar { text, .. } => Err(self.wrong(node).hint(format!("write [{text}]"))),
            _ => Err(self.wrong(node)),
        }
    }

    fn one_of(&self, node: &Node, words: &[&'static str]) -> Result<&'static str, Problem> {
        let text = self.scalar(node)?;
        match words.iter().find(|word| **word == text) {
            Some(word) => Ok(word),
            None => Err(match nearest(text, words.iter().copied()) {
                Some(word) => self.wrong(node).hint(format!("did you mean '{word}'?")),
                None => self.wrong(node),
            }),
        }
    }
}
