//! Manual pages, `--help` and completions, against the programs as they are built. The pages of `ax`, `axbatch` and `axctl`
//! are held against their parsers in `axctl/tests/generated.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ax_core::api::{ErrorClass, INTERRUPTED, OUTPUT_FAILED};

#[path = "../axctl/tests/page/mod.rs"]
mod page;

/// What clap adds itself, and the table of directives does not have.
const BUILT_IN: [&str; 4] = ["help", "h", "version", "V"];

fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn page_of(name: &str) -> BTreeSet<String> {
    page::named(&fs::read_to_string(tree("man").join(name)).unwrap())
}

fn prints(program: &str, word: &str) -> String {
    let output = Command::new(program).arg(word).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() || !output.stderr.is_empty(), "{output:?}");
    String::from_utf8(if output.status.success() { output.stdout } else { output.stderr }).unwrap()
}

/// The options in a text, wherever a word begins with a hyphen, without hyphens and values.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split([' ', ',', '|']).map(|word| word.trim_matches(['[', ']', '(', ')', '\'', '\n']));
    let names = words.filter_map(|word| word.strip_prefix("--").or_else(|| word.strip_prefix('-')));
    let name = |word: &str| word.split(['=', '[']).next().unwrap().to_owned();
    names.map(name).filter(|name| !name.is_empty()).collect()
}

/// Of `--help` the lines that begin with options: what explains them may name others.
fn listed(help: &str) -> BTreeSet<String> {
    let rows = help.lines().filter(|line| line.starts_with("  ") && line.trim_start().starts_with('-'));
    // Columns are two blanks apart.
    rows.flat_map(|row| options(row.trim_start().split("  ").next().unwrap())).collect()
}

fn differences(a: &BTreeSet<String>, b: &BTreeSet<String>) -> Vec<String> {
    a.symmetric_difference(b).cloned().collect()
}

#[test]
fn the_page_of_the_daemon_names_every_option_and_no_other() {
    let listed = listed(&prints(env!("CARGO_BIN_EXE_axd"), "--help"));
    assert!(listed.len() > 10, "{listed:?}");
    let wrong = differences(&listed, &page_of("axd.8"));
    assert!(wrong.is_empty(), "in man/axd.8 or in axd --help, not in both: {wrong:?}");
}

/// Its users' options are those of axbatch(1), and the page sends there; the supervisor's are its own.
#[test]
fn the_page_of_axrun_names_its_own_options_and_none_that_are_not_there() {
    let axrun = env!("CARGO_BIN_EXE_axrun");
    let modes = options(&prints(axrun, "--supervise"));
    assert_eq!(modes, ["stand-by", "supervise", "watchdog"].map(str::to_owned).into());
    let named = page_of("axrun.1");
    let missing: Vec<_> = modes.difference(&named).collect();
    assert!(missing.is_empty(), "man/axrun.1 does not name {missing:?}");
    let known: BTreeSet<String> = listed(&prints(axrun, "--help")).into_iter().chain(modes).collect();
    let unknown: Vec<_> = named.difference(&known).filter(|name| !name.is_empty()).collect();
    assert!(unknown.is_empty(), "man/axrun.1 names {unknown:?}, which axrun does not have");
}

#[test]
fn help_lists_every_option_of_the_parser_and_no_other() {
    for (name, program) in
        [("axbatch", env!("CARGO_BIN_EXE_axbatch")), ("axrun", env!("CARGO_BIN_EXE_axrun"))]
    {
        let parsed: BTreeSet<String> = axctl::generated::options(name).into_iter().collect();
        let listed = listed(&prints(program, "--help"));
        let wrong: Vec<_> = differences(&parsed, &listed);
        let wrong: Vec<_> = wrong.iter().filter(|name| !BUILT_IN.contains(&name.as_str())).collect();
        assert!(wrong.is_empty(), "{name}: in its parser or in its --help, not in both: {wrong:?}");
    }
}

/// Whoever writes a script looks in one of the two.
#[test]
fn the_tables_of_exit_codes_have_each_that_a_command_ends_with() {
    let classes = [
        ErrorClass::Refused,
        ErrorClass::Usage,
        ErrorClass::Data,
        ErrorClass::NoInput,
        ErrorClass::Unavailable,
        ErrorClass::TryAgain,
        ErrorClass::NoPermission,
        ErrorClass::Config,
    ];
    let known: BTreeSet<u8> =
        classes.map(ErrorClass::exit_code).into_iter().chain([0, OUTPUT_FAILED, INTERRUPTED]).collect();
    let numbers =
        |text: &str| text.split(", ").filter_map(|word| word.parse::<u8>().ok()).collect::<Vec<_>>();
    let readme = fs::read_to_string(tree("README.md")).unwrap();
    let table = readme.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    assert_eq!(rows.flat_map(numbers).collect::<BTreeSet<u8>>(), known, "in README.md");
    let page = fs::read_to_string(tree("man/ax.1")).unwrap();
    let list = page.split(".Sh EXIT STATUS").nth(1).unwrap().split("\n.Sh ").next().unwrap();
    let items = list.lines().filter_map(|line| line.strip_prefix(".It "));
    assert_eq!(items.flat_map(numbers).collect::<BTreeSet<u8>>(), known, "in man/ax.1");
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let files: Vec<PathBuf> =
        fs::read_dir(tree("etc/completions")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for (shell, is_its) in [
        ("bash", (|name: &str| name.ends_with(".bash")) as fn(&str) -> bool),
        ("zsh", |name| name.starts_with('_')),
        ("fish", |name| name.ends_with(".fish")),
    ] {
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let of_shell: Vec<_> = files.iter().filter(|path| is_its(&name(path))).collect();
        assert_eq!(of_shell.len(), 4, "{shell}: {of_shell:?}");
        for file in of_shell {
            let checked = Command::new(shell).arg("-n").arg(file).output();
            let Ok(output) = checked else {
                eprintln!("skipped: there is no {shell}");
                break;
            };
            assert!(output.status.success() && output.stderr.is_empty(), "{file:?}: {output:?}");
        }
    }
}

#[test]
fn the_readme_says_how_completions_are_installed() {
    let readme = fs::read_to_string(tree("README.md")).unwrap();
    for part in ["etc/completions/$name.bash", "etc/completions/_$name", "etc/completions/$name.fish"] {
        assert!(readme.contains(part), "{part}");
    }
}
