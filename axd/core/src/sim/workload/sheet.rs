//! Texts of comma-separated fields with a head, and the values of fields; each value knows its place.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::BadWorkload;
use crate::directive::window;
use crate::job::spec::Window;
use crate::size::Megabytes;
use crate::text::{nearest, quoted};
use crate::time::Span;

/// The longest time that is believed: 300 years.
const MOST_SECONDS: f64 = 1e10;
/// The most memory that is believed, in megabytes.
const MOST_MEGABYTES: f64 = (1_u64 << 30) as f64;

/// A value, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) text: Cow<'a, str>,
    /// What it says, for messages.
    pub(super) what: &'a str,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Field<'_> {
    pub(super) fn wrong(&self, wanted: &str) -> BadWorkload {
        let message = format!("{}: {} is not {wanted}", self.what, quoted(&self.text));
        BadWorkload::at(self.line, self.column, message)
    }

    fn real(&self, most: f64, wanted: &str) -> Result<f64, BadWorkload> {
        let value: Option<f64> = self.text.trim().parse().ok();
        value.filter(|v| (0.0..=most).contains(v)).ok_or_else(|| self.wrong(wanted))
    }

    /// Seconds, to the millisecond.
    pub(super) fn seconds(&self) -> Result<Span, BadWorkload> {
        let seconds = self.real(MOST_SECONDS, "a number of seconds")?;
        Ok(span_of(seconds))
    }

    /// Whole megabytes.
    pub(super) fn megabytes(&self) -> Result<Megabytes, BadWorkload> {
        let megabytes = self.real(MOST_MEGABYTES, "a number of megabytes")?;
        Ok(Megabytes(megabytes.round() as u64))
    }

    /// A whole number of a range.
    pub(super) fn whole(&self, range: RangeInclusive<i64>) -> Result<i64, BadWorkload> {
        let value: Option<i64> = self.text.trim().parse().ok();
        value
            .filter(|v| range.contains(v))
            .ok_or_else(|| self.wrong(&format!("a whole number from {} to {}", range.start(), range.end())))
    }

    /// Daily hours.
    pub(super) fn hours(&self) -> Result<Window, BadWorkload> {
        window(self.text.trim()).ok_or_else(|| self.wrong("daily hours such as 22:00-08:00"))
    }

    /// Any name of ours.
    pub(super) fn name<T: std::str::FromStr<Err = crate::id::BadName>>(&self) -> Result<T, BadWorkload> {
        self.text.trim().parse().map_err(|error: crate::id::BadName| self.wrong(error.expected))
    }
}

/// Seconds that are known to be a believable number, to the millisecond.
pub(super) fn span_of(seconds: f64) -> Span {
    Span((seconds * 1000.0).round() as u64)
}

/// A text with a head.
pub(super) struct Sheet<'a> {
    columns: Vec<Cow<'a, str>>,
    head_line: usize,
    lines: Vec<(usize, &'a str)>,
}

/// One line of it.
pub(super) struct Row<'s> {
    sheet: &'s Sheet<'s>,
    line: usize,
    fields: Vec<(usize, Cow<'s, str>)>,
}

impl<'a> Sheet<'a> {
    /// Reads the head; lines that begin with `#` and empty ones are left out.
    pub(super) fn new(text: &'a str) -> Result<Sheet<'a>, BadWorkload> {
        let lines = (1..).zip(text.lines());
        let mut lines = lines.filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
        let Some((head_line, head)) = lines.next() else {
            return Err(BadWorkload::whole("there is nothing in it"));
        };
        let columns = split(head_line, head)?.into_iter().map(|(_, name)| trimmed(name)).collect();
        Ok(Sheet { columns, head_line, lines: lines.collect() })
    }

    /// Whether there is a column of that name.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// Says which columns must be there. Any other may.
    pub(super) fn expect(&self, needed: &[&str]) -> Result<(), BadWorkload> {
        self.check_columns(needed, |_| Ok(()))
    }

    /// Says which columns must, and which may, be there; any other is a mistake.
    pub(super) fn expect_only(&self, needed: &[&str], known: &[&str]) -> Result<(), BadWorkload> {
        self.check_columns(needed, |name| {
            if known.contains(&name) {
                return Ok(());
            }
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the columns are {}", known.join(", ")),
            };
            let message = format!("unknown column {}; {hint}", quoted(name));
            Err(BadWorkload::at(self.head_line, 1, message))
        })
    }

    fn check_columns(
        &self,
        needed: &[&str],
        allow: impl Fn(&str) -> Result<(), BadWorkload>,
    ) -> Result<(), BadWorkload> {
        if let Some(missing) = needed.iter().find(|name| !self.has(name)) {
            let message = format!("the head has no column '{missing}'; it needs {}", needed.join(", "));
            return Err(BadWorkload::at(self.head_line, 1, message));
        }
        for (at, name) in self.columns.iter().enumerate() {
            allow(name.as_ref())?;
            if self.columns[..at].contains(name) {
                let message = format!("column {} stands twice in the head", quoted(name));
                return Err(BadWorkload::at(self.head_line, 1, message));
            }
        }
        Ok(())
    }

    /// The lines below the head.
    pub(super) fn rows<'s>(&'s self) -> impl Iterator<Item = Result<Row<'s>, BadWorkload>> + 's {
        self.lines.iter().map(move |&(line, text)| {
            let fields = split(line, text)?;
            if fields.len() != self.columns.len() {
                let (has, of) = (fields.len(), self.columns.len());
                let message = format!("the line has {has} fields, and the head {of}");
                return Err(BadWorkload::at(line, 1, message));
            }
            Ok(Row { sheet: self, line, fields })
        })
    }
}

impl<'s> Row<'s> {
    /// Its line in the text.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The field of a column, unless it is empty or there is no such column.
    pub(super) fn get(&self, column: &'static str) -> Option<Field<'s>> {
        let at = self.sheet.columns.iter().position(|name| name == column)?;
        let (start, text) = self.fields.get(at)?;
        let field = Field { text: text.clone(), what: column, line: self.line, column: *start };
        (!field.text.trim().is_empty()).then_some(field)
    }

    /// The field of a column that must not be empty.
    pub(super) fn need(&self, column: &'static str) -> Result<Field<'s>, BadWorkload> {
        self.get(column).ok_or_else(|| BadWorkload::at(self.line, 1, format!("the line has no '{column}'")))
    }
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}

/// The fields of a line with the columns, in characters, at which they begin. A field in double quotes may hold
/// commas; a quote in it is written twice.
fn split(line: usize, text: &str) -> Result<Vec<(usize, Cow<'_, str>)>, BadWorkload> {
    let mut fields = Vec::new();
    let (mut rest, mut column) = (text, 1);
    loop {
        let (field, length) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (Cow::Borrowed(&rest[..end]), end)
            }
            Some(inner) => {
                let (field, length) = in_quotes(inner).ok_or_else(|| {
                    BadWorkload::at(line, column, "the quote that begins here has no end before a comma")
                })?;
                (Cow::Owned(field), length + 1)
            }
        };
        fields.push((column, field));
        column += rest[..length].chars().count() + 1;
        match rest[length..].strip_prefix(',') {
            Some(after) => rest = after,
            None => return Ok(fields),
        }
    }
}

/// What a quoted field holds, and its length with the closing quote; a comma or the end must follow it.
fn in_quotes(text: &str) -> Option<(String, usize)> {
    let mut field = String::new();
    let mut at = 0;
    loop {
        let end = at + text.get(at..)?.find('"')?;
        field.push_str(&text[at..end]);
        match text[end + 1..].bytes().next() {
            Some(b'"') => field.push('"'),
            None | Some(b',') => return Some((field, end + 1)),
            Some(_) => return None,
        }
        at = end + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_in_quotes_may_hold_commas_and_quotes() {
        let fields = split(1, "a,\"b,\"\"c\",é,\"\",").unwrap();
        let fields: Vec<(usize, &str)> = fields.iter().map(|(at, text)| (*at, text.as_ref())).collect();
        assert_eq!(fields, [(1, "a"), (3, "b,\"c"), (11, "é"), (13, ""), (16, "")]);
        assert_eq!(split(3, "a,\"b").unwrap_err().to_string().split(": ").next(), Some("3:3"));
        assert!(split(1, "\"a\"b").is_err());
    }
}
