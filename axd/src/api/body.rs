//! Reads JSON documents of clients, and says in words of JSON what is wrong with one.
//!
//! The library's messages name Rust's types, which the author of a document need not know. Its wording may change: a
//! message that is not known here is passed on as it is.

use ax_core::text::quoted;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Reads a document.
///
/// # Errors
/// What is wrong with it and where, to stand behind a colon.
pub(crate) fn parse<T: DeserializeOwned>(document: &[u8]) -> Result<T, String> {
    serde_json::from_slice(document).map_err(|error| in_words(&error))
}

fn in_words(error: &serde_json::Error) -> String {
    if (error.classify(), error.line(), error.column()) == (Category::Eof, 1, 0) {
        return "it is empty, expected a JSON object".to_owned();
    }
    let place = format!("line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let what = text.strip_suffix(&format!(" at {place}")).unwrap_or(&text);
    let what = match error.classify() {
        Category::Data => of_data(what),
        Category::Eof => "it ends too early".to_owned(),
        Category::Syntax if what == "recursion limit exceeded" => "it is nested too deeply".to_owned(),
        // Where no value begins.
        Category::Syntax if what.starts_with("expected ") => "it is no JSON".to_owned(),
        Category::Syntax | Category::Io => format!("it is no JSON ({what})"),
    };
    format!("{what}, at {place}")
}

/// The message for a document that is JSON, but has not the expected form.
fn of_data(what: &str) -> String {
    let mismatch = what.strip_prefix("invalid type: ").or_else(|| what.strip_prefix("invalid value: "));
    if let Some((found, wanted)) = mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("expected {}, not {}", expected(wanted), thing(found));
    }
    let of_field = |says: &str| Some(what.strip_prefix(says)?.trim_matches('`'));
    if let Some(name) = of_field("missing field ") {
        return format!("field '{name}' is missing");
    }
    if let Some(name) = of_field("duplicate field ") {
        return format!("field '{name}' is there twice");
    }
    match what.strip_prefix("unknown variant `").and_then(|rest| rest.rsplit_once("`, expected ")) {
        Some((name, others)) => {
            let others = others.trim_start_matches("one of ").replace('`', "'");
            format!("{} is unknown, expected one of {others}", quoted(name))
        }
        None => what.to_owned(),
    }
}

/// What should be there.
fn expected(wanted: &str) -> String {
    let whole = |least: &str, most: u64| format!("a whole number from {least} to {most}");
    match wanted {
        "u8" => whole("0", u8::MAX.into()),
        "u16" => whole("0", u16::MAX.into()),
        "u32" => whole("0", u32::MAX.into()),
        "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" | "variant identifier" | "string or map" => "a text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a JSON object".to_owned(),
        "a boolean" => "true or false".to_owned(),
        _ if wanted.starts_with("struct ") || wanted.contains("enum ") => "a JSON object".to_owned(),
        _ if wanted.starts_with("a tuple of ") => wanted.replace("tuple", "list"),
        _ => wanted.to_owned(),
    }
}

/// What was found instead.
fn thing(found: &str) -> String {
    let within = |kind: &str, quote: char| found.strip_prefix(kind)?.strip_suffix(quote);
    if let Some(text) = within("string \"", '"') {
        return format!("the text {}", quoted(text));
    }
    if let Some(value) = within("boolean `", '`') {
        return value.to_owned();
    }
    match within("integer `", '`').or_else(|| within("floating point `", '`')) {
        Some(number) => format!("the number {number}"),
        None => match found {
            "sequence" => "a list",
            "map" => "an object",
            "unit value" | "Option value" => "null",
            other => other,
        }
        .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ax_core::api::{ActionRequest, SubmitRequest};

    use super::*;

    fn wrong<T: DeserializeOwned>(document: &str) -> String {
        parse::<T>(document.as_bytes()).map(drop).unwrap_err()
    }

    #[test]
    fn what_is_wrong_is_said_in_words_of_json() {
        for (document, said) in [
            ("", "it is empty, expected a JSON object"),
            ("[]", "expected a JSON object, not a list, at line 1 column 0"),
            ("null", "expected a JSON object, not null, at line 1 column 4"),
            ("7", "expected a JSON object, not the number 7, at line 1 column 1"),
            ("{\"cmd\":", "it ends too early, at line 1 column 7"),
            ("cmd", "it is no JSON, at line 1 column 1"),
            ("{\"cmd\":true}", "expected a text, not true, at line 1 column 11"),
            ("{\"args\":\"one\"}", "expected a list, not the text 'one', at line 1 column 13"),
            (
                "{\"umask\":-1}",
                "expected a whole number from 0 to 4294967295, not the number -1, at line 1 column 11",
            ),
            ("{\"cmd\":\"a\",\"cmd\":\"b\"}", "field 'cmd' is there twice, at line 1 column 16"),
            (
                "{\"x\":[[1]]}",
                "the value of an option is true, false, a whole number, a text or a list of texts, at line 1 column 11",
            ),
        ] {
            assert_eq!(wrong::<SubmitRequest>(document), said, "{document}");
        }
        for (document, said) in [
            ("{}", "field 'action' is missing, at line 1 column 2"),
            ("{\"action\":[]}", "expected a text, not a list, at line 1 column 13"),
            (
                "{\"action\":\"`, expected \"}",
                "'`, expected ' is unknown, expected one of 'cancel', 'hold', 'release', 'update', 'resolve', 'keep'",
            ),
        ] {
            let why = wrong::<ActionRequest>(document);
            assert!(why.starts_with(said), "{document}: {why}");
        }
    }

    /// None of the messages contains a name of Rust's.
    #[test]
    fn nobody_has_to_know_rust() {
        let fields =
            ["cmd", "key", "args", "options", "environment", "umask", "uid", "test_only", "gpus", "script"];
        let values =
            ["null", "true", "1", "-1", "1.5", "1e99", "\"x\"", "[]", "[1]", "{}", "{\"a\":[]}", "[[[]]]"];
        let rust =
            ["struct", "enum", "variant", "sequence", "u8", "u32", "i64", "Option", "unit", "ident", "`"];
        let documents =
            fields.iter().flat_map(|field| values.map(|value| format!("{{\"{field}\":{value}}}")));
        for document in documents.chain(values.map(str::to_owned)) {
            let Err(said) = parse::<SubmitRequest>(document.as_bytes()) else { continue };
            assert!(!rust.iter().any(|word| said.contains(word)), "{document}: {said}");
        }
    }

    #[test]
    fn a_long_text_is_not_repeated() {
        let document = format!("{{\"args\":\"{}\"}}", "x".repeat(100_000));
        assert!(wrong::<SubmitRequest>(&document).len() < 200);
    }
}
