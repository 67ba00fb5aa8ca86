//! From YAML text to a tree of texts with places. The only module that knows the YAML library: neither its types nor
//! its words leave this module. Limits on depth, size and aliases keep a hostile file from exploding.

use ax_core::config::Finding;
use ax_core::config::tree::{Name, Node, Place, Value};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{DefaultMessageFormatter, Error, Location, MessageFormatter, Options, Spanned};

/// Reads one document. An empty one is a node without value.
///
/// # Errors
/// The first thing that is not YAML, or a limit that the text exceeds.
pub(super) fn parse(text: &str) -> Result<Node, Finding> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match serde_saphyr::from_str_with_options::<Option<Spanned<Raw>>>(text, options()) {
        Ok(Some(raw)) => Ok(node(raw, text)),
        Ok(None) => Ok(Node { place: Place { line: 1, column: 1 }, value: Value::Null }),
        Err(error) => Err(finding(&error)),
    }
}

/// The library's words for what people do most, and ours: what is wrong, and what to write.
const WORDS: &[(&str, &str, &str)] = &[
    ("tabs disallowed", "a tab can't indent", "use blanks"),
    ("tab cannot be used as indentation", "a tab can't indent", "use blanks"),
    ("unclosed quote", "the quote that begins here has no end", "end it on the same line"),
    ("unclosed bracket", "the bracket that opens here is never closed", "close it on the same line"),
    (
        "while parsing a flow",
        "a bracket that was opened before this is not closed, or a comma is missing",
        "close it on the same line",
    ),
    ("misplaced bracket", "a bracket closes that was not opened", "put the text in quotes"),
    (
        "mapping values are not allowed",
        "a ':' is not allowed here",
        "indent the keys of a block alike, and put a text with ': ' in quotes",
    ),
    ("unexpected character: `\\u{", "there is a control character here", "remove it"),
    ("recursion limit exceeded", "the file is nested too deeply", "no block is deeper than four levels"),
    ("unexpected character", "a value can't begin with this character", "put the text in quotes"),
    (
        "did not find expected '-'",
        "an entry of a list must begin here",
        "begin each with '- ' in the same column",
    ),
    ("simple key expected", "this is neither a key nor a value", "write 'key: value'"),
    ("invalid trailing content", "there is more text after the closing quote", "put all of it in quotes"),
    ("did not find expected key", "a key must begin here", "indent the keys of a block alike"),
    (
        "unknown escape character",
        "there is an unknown escape in the text",
        "write '\\\\' for '\\', or use single quotes",
    ),
];

/// A library's error as a finding. The library may change its words: what is
/// not known here is passed on as it is.
fn finding(error: &Error) -> Finding {
    let mut inner = error;
    while let Error::AliasError { error, .. } | Error::WithSnippet { error, .. } = inner {
        inner = error;
    }
    let place = error.location().map(place).filter(|place| place.line > 0);
    let told = |message: &str| Finding::error(place, message.to_owned());
    match inner {
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. } | Error::MultipleDocuments { .. } => {
            told("a second YAML document begins here").hint("a configuration is one document")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            told("the file is nested too deeply").hint("no block is deeper than four levels")
        }
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            told("the file holds too much").hint("write fewer entries, anchors and aliases")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => told("the alias stands for what it stands in"),
        Error::UnknownAnchor { .. } => {
            told("the alias stands for nothing").hint("put a text with '*' in quotes")
        }
        Error::UnsupportedTag { .. } => {
            told("tags are not read").hint("leave out the word that begins with '!'")
        }
        Error::InvalidScalar { .. } => told("the value is not what its tag says").hint("leave out the tag"),
        Error::Unexpected { .. } => told("a key must be a single word"),
        _ => {
            let message = DefaultMessageFormatter.format_message(inner);
            match WORDS.iter().find(|(theirs, _, _)| message.contains(theirs)) {
                Some((_, ours, hint)) => told(ours).hint(*hint),
                None => told(&message),
            }
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 16,
            flow_nesting_limit: 16,
            max_nodes: 100_000,
            max_events: 250_000,
            max_aliases: 100,
            max_anchors: 100,
            max_documents: 1,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 1 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
        },
        // Keys that stand twice are told by the interpreter, all of them and in its words.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        // What is a text and what a number is for the table of keys to say.
        null_as_string: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// What serde tells of a node.
enum Raw {
    Null,
    /// A text that the library took as one.
    Text(String),
    /// A plain number or truth value; its text is in the source.
    Plain(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Plain(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Plain(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Plain(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Plain(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(name) = entries.next_key()? {
            map.push((name, entries.next_value()?));
        }
        Ok(Raw::Map(map))
    }
}

fn place(location: Location) -> Place {
    let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Place { line: number(location.line()), column: number(location.column()) }
}

fn node(raw: Spanned<Raw>, text: &str) -> Node {
    let source = source(raw.defined, text);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => {
            let quoted = source.is_some_and(|s| s.starts_with(['"', '\'']));
            Value::Scalar { text, quoted }
        }
        Raw::Plain(read) => Value::Scalar { text: source.map_or(read, str::to_owned), quoted: false },
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, text)).collect()),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(name, value)| {
                    (Name { place: place(name.referenced), text: name.value }, node(value, text))
                })
                .collect(),
        ),
    };
    Node { place: place(raw.referenced), value }
}

/// The text of a value as it stands in the file.
fn source(location: Location, text: &str) -> Option<&str> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?)
}
