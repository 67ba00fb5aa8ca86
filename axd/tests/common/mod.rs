//! What the tests of the configuration share.

use std::collections::BTreeSet;

/// The lines that answer a file named `c`; none when it holds without a word.
pub(crate) fn lines(file: &[u8]) -> Vec<String> {
    let findings = match axd::config::interpret(file) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    };
    findings.iter().map(|finding| finding.line("c")).collect()
}

/// Every file is refused with exactly its line, and no two with the same one.
#[allow(dead_code, reason = "not every test binary has such a table")]
pub(crate) fn each_has_its_line(table: &[(&str, &str)]) {
    let mut answers = BTreeSet::new();
    for (file, expected) in table {
        assert!(axd::config::interpret(file.as_bytes()).is_err(), "{file:?} is taken");
        assert_eq!(lines(file.as_bytes()), [*expected], "{file:?}");
        assert!(answers.insert(*expected), "twice: {expected}");
    }
}
