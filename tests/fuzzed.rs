//! The bodies of the fuzz targets under the stable toolchain: random bytes, and samples of what
//! is right, damaged. AX_TEST_LONG=1 tries a hundred times as many.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "fuzz/bodies.rs"]
mod bodies;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// One change of a text.
#[derive(Debug, Clone)]
enum Damage {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    /// A part of it once more, elsewhere.
    Copy(Index, Index, Index),
    Cut(Index),
}

/// Bytes and words that mean something to one of the parsers.
const WORDS: &[&str] = &[
    "\n",
    "\r\n",
    "\0",
    "#AX ",
    "#SBATCH ",
    "--",
    "=",
    "\"",
    "'",
    "\\",
    "$",
    "%",
    "[1-9]",
    "99999999999999999999",
    "-1",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "&a",
    "*a",
    "- ",
    "? ",
    "!!str ",
    "null",
    "true",
    "\u{feff}",
    "\u{202e}",
    "\u{1b}",
    "é",
    "\\u0000",
    "1e999",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "HTTP/1.1",
    "\t",
];

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let word = prop::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec());
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), word).prop_map(|(at, word)| Damage::Insert(at, word)),
        (at(), at()).prop_map(|(from, to)| Damage::Remove(from, to)),
        (at(), at(), at()).prop_map(|(from, to, at)| Damage::Copy(from, to, at)),
        at().prop_map(Damage::Cut),
    ]
}

fn part(text: &[u8], one: Index, other: Index) -> std::ops::Range<usize> {
    let (one, other) = (one.index(text.len() + 1), other.index(text.len() + 1));
    one.min(other)..one.max(other)
}

fn damaged(mut text: Vec<u8>, damage: &Damage) -> Vec<u8> {
    let place = |at: &Index| at.index(text.len() + 1);
    match damage {
        Damage::Set(at, byte) => {
            let at = place(at);
            if let Some(old) = text.get_mut(at) {
                *old = *byte;
            }
        }
        Damage::Insert(at, word) => {
            let at = place(at);
            text.splice(at..at, word.iter().copied());
        }
        Damage::Remove(from, to) => drop(text.drain(part(&text, *from, *to))),
        Damage::Copy(from, to, at) => {
            let at = place(at);
            let copy = text[part(&text, *from, *to)].to_vec();
            text.splice(at..at, copy);
        }
        Damage::Cut(at) => text.truncate(place(at)),
    }
    text
}

fn samples(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/samples").join(target);
    let files = fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let all: Vec<_> = files.collect();
    assert!(!all.is_empty());
    all
}

/// Runs a body on its samples as they are, on damaged ones, and on random bytes.
fn run(target: &str, body: fn(&[u8])) {
    let samples = samples(target);
    samples.iter().for_each(|sample| body(sample));
    let long = std::env::var_os("AX_TEST_LONG").is_some();
    let config =
        Config { cases: if long { 100_000 } else { 1_000 }, failure_persistence: None, ..Config::default() };
    let changed = (prop::sample::select(samples), prop::collection::vec(damage(), 1..8))
        .prop_map(|(sample, changes)| changes.iter().fold(sample, damaged));
    let random = prop::collection::vec(any::<u8>(), 0..300);
    let bytes = prop_oneof![4 => changed, 1 => random];
    TestRunner::new(config)
        .run(&bytes, |bytes| {
            body(&bytes);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{target}: {error}"));
}

#[test]
fn scripts() {
    run("directive", bodies::directive);
}

#[test]
fn configurations() {
    run("configuration", bodies::configuration);
}

#[test]
fn requests() {
    run("request", bodies::request);
}

#[test]
fn records() {
    run("record", bodies::record);
}

/// Damaged samples test little unless the samples are right.
#[test]
fn the_samples_are_what_they_should_be() {
    use ax_core::directive::{interpret, parse_script};
    for sample in samples("directive") {
        let script = parse_script("job.sh", &sample).unwrap();
        assert!(!script.options.is_empty());
        interpret(&[script.source()]).unwrap();
    }
    for sample in samples("configuration") {
        assert!(axd::config::interpret(&sample).is_ok(), "{}", String::from_utf8_lossy(&sample));
    }
    for sample in samples("request") {
        let parsed = axd::api::http::parse(&sample);
        assert!(matches!(parsed, axd::api::http::Parsed::Request(..)), "{parsed:?}");
    }
    let understood = |sample: &[u8]| bodies::kinds_of_record(sample);
    let kinds: std::collections::BTreeSet<_> = samples("record").iter().flat_map(|s| understood(s)).collect();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["assignment", "report", "request", "result", "started", "submission"]
    );
}
