//! A configuration as a tree of texts, each with its place. A reader of some format makes it for `read`. Says nothing
//! about what the texts mean.

use std::fmt;

/// Where something stands, counted from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Where the value begins.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// A key and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Where the key begins.
    pub place: Place,
    /// The key as written.
    pub text: String,
}

impl Node {
    /// The value below these keys; of a key that stands twice the last.
    pub fn below(&self, keys: &[&str]) -> Option<&Node> {
        let Some((first, rest)) = keys.split_first() else { return Some(self) };
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().rev().find(|(name, _)| name.text == *first)?.1.below(rest)
    }
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing was written.
    Null,
    /// A text.
    Scalar {
        /// As written, without quotes.
        text: String,
        /// Whether it stood in quotes: such a text is neither number nor truth value.
        quoted: bool,
    },
    /// Values in their order.
    List(Vec<Node>),
    /// Keys and values in their order; a key may stand twice.
    Map(Vec<(Name, Node)>),
}
