//! What must hold for any bytes at all, one function a parser. The fuzzer and the normal tests
//! call the same ones.

use ax_core::api::{ActionRequest, SubmitRequest};
use ax_core::directive::{Diagnostic, Program, interpret, parse_args, parse_script};
use ax_core::record::{Assignment, AttemptResult, Report, Request, Started};
use axd::api::http::{BODY_MAX, HEAD_MAX, Parsed, parse};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A script: its directives, then their values.
pub(crate) fn directive(bytes: &[u8]) {
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    let read = parse_script("job.sh", bytes).and_then(|script| {
        assert!(script.warnings.len() <= 200, "{} warnings", script.warnings.len());
        script.warnings.iter().for_each(|warning| sound(warning, lines));
        interpret(&[script.source()])
    });
    match read {
        Err(diagnostic) => {
            sound(&diagnostic, lines);
            assert!([2, 65].contains(&diagnostic.exit_code()));
        }
        Ok(read) => read.notes.iter().for_each(|note| sound(note, lines)),
    }
}

/// A message for a person: one line, harmless, about a place that is there.
fn sound(diagnostic: &Diagnostic, lines: usize) {
    one_line(&diagnostic.to_string());
    if let Some(line) = diagnostic.line {
        assert!(line >= 1 && line as usize <= lines, "{diagnostic} of {lines} lines");
        assert!(diagnostic.column.is_none_or(|column| column >= 1), "{diagnostic}");
    }
}

fn one_line(text: &str) {
    assert!(!text.is_empty() && text.len() < 2000, "{} bytes: {text:.300}", text.len());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

/// A configuration file.
pub(crate) fn configuration(bytes: &[u8]) {
    let file = std::path::Path::new("config.yaml");
    let findings = match axd::config::interpret(bytes) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => {
            assert!(!findings.is_empty(), "refused without a reason");
            findings
        }
    };
    for line in axd::config::lines(file, &findings) {
        one_line(&line);
        assert!(line.starts_with("config.yaml"), "{line}");
    }
}

/// Bytes of a connection: HTTP, then what the body may be.
pub(crate) fn request(bytes: &[u8]) {
    match parse(bytes) {
        Parsed::NeedMore(_) => assert!(bytes.len() < HEAD_MAX + BODY_MAX),
        Parsed::Bad(refusal) => {
            one_line(&refusal.error.error);
            assert!((400..600).contains(&refusal.status));
        }
        Parsed::Request(request, framing) => {
            assert!(request.path.starts_with('/') && !request.path.chars().any(char::is_control));
            assert!(framing.used <= bytes.len() && request.body.len() <= BODY_MAX);
            // Nothing behind a request changes it.
            assert_eq!(parse(&bytes[..framing.used]), Parsed::Request(request.clone(), framing));
            body(&request.body);
        }
    }
    body(bytes);
}

fn body(bytes: &[u8]) {
    if let Ok(submission) = serde_json::from_slice::<SubmitRequest>(bytes) {
        for program in [Program::Axbatch, Program::AxSubmit, Program::Sbatch] {
            match parse_args(&submission.options, program).and_then(|line| interpret(&[line.source()])) {
                Ok(_) => {}
                Err(diagnostic) => sound(&diagnostic, usize::MAX),
            }
        }
    }
    same_again::<ActionRequest>(bytes);
}

/// Records and messages.
pub(crate) fn record(bytes: &[u8]) {
    same_again::<Assignment>(bytes);
    same_again::<Started>(bytes);
    same_again::<AttemptResult>(bytes);
    same_again::<Report>(bytes);
    same_again::<Request>(bytes);
    same_again::<SubmitRequest>(bytes);
}

/// What was read is written as something that reads alike.
fn same_again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(bytes) {
        let text = serde_json::to_vec(&value).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        let again: T = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        assert_eq!(value, again);
    }
}

/// As which records these bytes can be read; anything is a submission that is an object.
pub(crate) fn kinds_of_record(bytes: &[u8]) -> Vec<&'static str> {
    fn is<T: DeserializeOwned>(bytes: &[u8]) -> bool {
        serde_json::from_slice::<T>(bytes).is_ok()
    }
    let kinds = [
        ("assignment", is::<Assignment>(bytes)),
        ("started", is::<Started>(bytes)),
        ("result", is::<AttemptResult>(bytes)),
        ("report", is::<Report>(bytes)),
        ("request", is::<Request>(bytes)),
        ("submission", is::<SubmitRequest>(bytes)),
    ];
    kinds.into_iter().filter(|(_, read)| *read).map(|(kind, _)| kind).collect()
}
