//! Files that are made from tables are what the tables make of them, and the manual pages that
//! are written by hand name every option and no other.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use page::named;

fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

#[test]
fn made_files_are_up_to_date() {
    for (path, text) in axctl::generated::files() {
        common::blessed(&tree(path), &text);
    }
}

#[test]
fn pages_name_every_option_and_no_other() {
    for (program, page) in [("ax", "man/ax.1"), ("axbatch", "man/axbatch.1"), ("axctl", "man/axctl.8")] {
        let has: BTreeSet<String> = axctl::generated::options(program).into_iter().collect();
        // clap adds these two itself, when it parses.
        let builtin = ["help", "h", "version", "V"].map(str::to_owned);
        let has: BTreeSet<String> = has.into_iter().chain(builtin).collect();
        let named = named(&fs::read_to_string(tree(page)).unwrap());
        let missing: Vec<_> = has.difference(&named).collect();
        let unknown: Vec<_> = named.difference(&has).collect();
        assert!(
            missing.is_empty() && unknown.is_empty(),
            "{page}: not named {missing:?}, not there {unknown:?}"
        );
    }
}

#[test]
fn pages_are_clean() {
    let pages =
        ["ax.1", "axbatch.1", "axctl.8", "axrun.1", "axd.8", "ax-script.5", "ax-scheduling.7", "ax-states.7"];
    for page in pages {
        let path = tree("man").join(page);
        let Ok(lint) = Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&path).output()
        else {
            eprintln!("skipped: no mandoc");
            return;
        };
        assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    }
}

/// What a job finds is set in the core; a variable that is added there is explained here.
#[test]
fn the_page_of_scripts_names_every_variable_of_ours() {
    let source = fs::read_to_string(tree("axd/core/src/environment.rs")).unwrap();
    let page = fs::read_to_string(tree("man/ax-script.5")).unwrap();
    let quoted = source.split('"').skip(1).step_by(2);
    let names: BTreeSet<&str> = quoted
        .filter(|text| text.len() > 6 && (text.starts_with("AX_") || text.starts_with("SLURM")))
        .collect();
    assert!(names.len() > 30, "they are looked for in the wrong way: {names:?}");
    let words: BTreeSet<&str> = page.split_whitespace().collect();
    let places = ["AX_ROOT", "AX_SOCKET"];
    let missing: Vec<_> =
        names.iter().filter(|name| !words.contains(*name) && !places.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
