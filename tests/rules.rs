//! The rules of the house, read off the sources: who may use whom, how pure the core is, where `unsafe` may
//! stand, how long files may be, and that every program has its page. Each rule says what breaks it and where.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Our crates, and which of ours each may use, in builds and in tests.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("ax-core", &[]),
    ("ax-sys", &[]),
    ("ax-config", &["ax-core"]),
    ("axd", &["ax-config", "ax-core", "ax-sys"]),
    ("axrun", &["ax-core", "ax-sys"]),
    ("axctl", &["ax-config", "ax-core", "ax-sys"]),
    ("fake-nvml", &[]),
    ("test-kit", &[]),
];

const PROGRAMS: [&str; 5] = ["axd", "axrun", "axctl", "ax", "axbatch"];

/// Where each crate's modules lie.
const SOURCES: [&str; 6] =
    ["axd/config/src", "axd/core/src", "axd/sys/src", "axd/src", "axrun/src", "axctl/src"];

/// Lines of a file at most.
const LONGEST: usize = 500;

/// What the core may not mention: it has no files, clocks, threads, environment or chance.
const IMPURE_STD: [&str; 5] = ["fs", "net", "thread", "process", "env"];
const IMPURE_WORDS: [&str; 6] = ["SystemTime", "Instant", "chrono", "rand", "libc", "nix"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path as shown: below the root.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// All files below a folder; nothing hidden, nothing built.
fn files(folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let skipped = name == "target" || name == "__pycache__" || name.starts_with('.');
            if path.is_dir() && !skipped {
                folders.push(path);
            } else if path.is_file() && !skipped && wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "rs")
}

fn is_script(path: &Path) -> bool {
    match path.extension() {
        Some(end) => end == "py" || end == "sh",
        None => fs::read(path).unwrap().starts_with(b"#!"),
    }
}

/// The code of a source, line by line, without line comments. Good enough for words that no string holds.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default()))
}

/// Whether a word stands in a line by itself, not as part of a longer name.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

#[track_caller]
fn none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

fn metadata() -> serde_json::Value {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let mut command = Command::new(cargo);
    command.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).current_dir(root());
    let output = command.output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn crates_use_only_those_below_them() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    for (krate, allowed) in MAY_USE {
        let package =
            packages.iter().find(|p| p["name"] == krate).unwrap_or_else(|| panic!("no crate {krate}"));
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let used = dependencies.filter(|d| d["kind"] != "dev" || d["name"] != "test-kit").map(name);
        let wrong: Vec<_> = used.filter(|d| ours.contains(d) && !allowed.contains(&d.as_str())).collect();
        none(&wrong, &format!("{krate} may use only {allowed:?} of ours"));
    }
    let known: BTreeSet<String> =
        MAY_USE.iter().map(|(k, _)| (*k).to_owned()).chain(["ax".to_owned()]).collect();
    assert_eq!(ours, known, "a new crate needs a line in MAY_USE");
}

#[test]
fn the_core_depends_on_nothing_impure() {
    let metadata = metadata();
    let core = metadata["packages"].as_array().unwrap().iter().find(|p| p["name"] == "ax-core").unwrap();
    let normal = core["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
    let pure = ["serde", "serde_json", "thiserror"];
    let wrong: Vec<_> = normal.map(|d| d["name"].as_str().unwrap()).filter(|d| !pure.contains(d)).collect();
    assert!(wrong.is_empty(), "ax-core may depend on {pure:?} only, not on {wrong:?}");
}

#[test]
fn the_core_mentions_no_files_clocks_threads_environment_or_chance() {
    let mut found = Vec::new();
    for path in files(&root().join("axd/core/src"), &is_rust) {
        let text = read(&path);
        for (at, line) in code(&text) {
            let group =
                line.split("std::{").nth(1).and_then(|rest| rest.split('}').next()).unwrap_or_default();
            let module = |m: &&&str| line.contains(&format!("std::{m}")) || has_word(group, m);
            let std = IMPURE_STD.iter().filter(module).map(|m| format!("std::{m}"));
            let words = IMPURE_WORDS.iter().filter(|w| has_word(line, w)).map(|w| (*w).to_owned());
            found.extend(std.chain(words).map(|what| format!("{}:{at}: {what}", shown(&path))));
        }
    }
    none(&found, "ax-core is pure; hand in what it has to know");
}

#[test]
fn programs_hold_no_code_of_their_own() {
    for program in PROGRAMS {
        let home = if program == "axd" || program == "axrun" { program } else { "axctl" };
        let path = root().join(home).join("bin").join(format!("{program}.rs"));
        let lines = read(&path).lines().count();
        assert!(lines <= 20, "{}: {lines} lines; a program's own file has at most 20", shown(&path));
    }
}

#[test]
fn no_file_is_longer_than_a_reader_s_patience() {
    let mut found = Vec::new();
    for path in files(&root(), &|path| is_rust(path) || is_script(path)) {
        let lines = read(&path).lines().count();
        if lines > LONGEST {
            found.push(format!("{}: {lines} lines", shown(&path)));
        }
    }
    none(&found, "at most 500 lines a file; split it");
}

/// A folder with more modules has a list of its own in the map; of a smaller one its parent's line tells.
const UNLISTED: usize = 7;
const MAP_WIDTH: usize = 120;

/// The modules right in a folder: its files, and its folders of sources.
fn modules(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let sources = entries.filter(|path| is_rust(path) || !files(path, &is_rust).is_empty());
    let names = sources.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    names.filter(|name| !["lib", "mod", "tests", "testing"].contains(&name.as_str())).collect()
}

/// The lists of modules in the map, by folder: the names before the colon in each line below the folder's heading.
fn mapped(map: &str) -> BTreeMap<String, Vec<String>> {
    let (mut lists, mut folder) = (BTreeMap::<String, Vec<String>>::new(), None);
    for line in map.lines() {
        if line.starts_with('#') {
            folder = line.strip_prefix("#### `").and_then(|rest| rest.strip_suffix('`'));
        } else if let (Some(folder), Some((names, what))) =
            (folder, line.strip_prefix("- ").and_then(|rest| rest.split_once(": ")))
        {
            assert!(!what.is_empty(), "ARCHITECTURE.md says what it is for: {line}");
            let names = names.split(", ").map(|name| name.trim_matches('`').to_owned());
            lists.entry(folder.to_owned()).or_default().extend(names);
        }
    }
    lists
}

/// The folder of each module's list counts: a module of the same name elsewhere does not stand for it.
#[test]
fn the_map_lists_every_module_of_a_folder_once_and_no_other() {
    let map = read(&root().join("ARCHITECTURE.md"));
    let lists = mapped(&map);
    let mut found = Vec::new();
    for source in SOURCES {
        let below = files(&root().join(source), &is_rust);
        let folders: BTreeSet<&Path> = below.iter().map(|path| path.parent().unwrap()).collect();
        for folder in folders {
            let (place, there) = (shown(folder), modules(folder));
            let Some(listed) = lists.get(&place) else {
                if place == source || there.len() > UNLISTED {
                    found.push(format!("{place} has {} modules and no list", there.len()));
                }
                continue;
            };
            let once: BTreeSet<String> = listed.iter().cloned().collect();
            found.extend(there.symmetric_difference(&once).map(|name| format!("{place}: {name}")));
            if once.len() != listed.len() {
                found.push(format!("{place}: a module stands there twice"));
            }
        }
    }
    let gone = lists.keys().filter(|folder| !root().join(folder).is_dir());
    found.extend(gone.map(|folder| format!("{folder} is gone")));
    none(&found, "ARCHITECTURE.md lists these modules by folder, with what each is for");
    let long = map.lines().enumerate().filter(|(_, line)| line.chars().count() > MAP_WIDTH);
    let long: Vec<String> = long.map(|(at, line)| format!("{}: {line}", at + 1)).collect();
    none(&long, "at most 120 characters a line in ARCHITECTURE.md");
}

#[test]
fn unsafe_code_stands_in_ax_sys_alone() {
    let word = concat!("un", "safe");
    let mut found = Vec::new();
    for path in files(&root(), &is_rust) {
        let place = shown(&path);
        if ["axd/sys/", "tests/rules.rs", "tests/fuzz/", "tests/fake-nvml/"]
            .iter()
            .any(|p| place.starts_with(p))
        {
            continue;
        }
        let text = read(&path);
        found.extend(
            code(&text).filter(|(_, line)| has_word(line, word)).map(|(at, _)| format!("{place}:{at}")),
        );
    }
    none(&found, "what needs it belongs into axd/sys, behind a safe function");
}

/// A test that dies at a point sees that it was reached; a point in no such test proves nothing.
#[test]
fn every_crash_point_stands_in_a_test() {
    let tests: String = files(&root().join("tests"), &|path| is_rust(path) && !path.ends_with("rules.rs"))
        .iter()
        .map(|path| read(path))
        .collect();
    let (mut found, mut points) = (Vec::new(), 0);
    for path in SOURCES.iter().flat_map(|folder| files(&root().join(folder), &is_rust)) {
        let text = read(&path);
        // Behind the call's bracket there may be a line's end.
        for call in text.split("crash_point!(").skip(1).filter(|call| !call.starts_with('$')) {
            let Some(name) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            points += 1;
            if !tests.contains(&format!("\"{name}\"")) {
                found.push(format!("{}: '{name}'", shown(&path)));
            }
        }
    }
    assert!(points > 20, "they are looked for in the wrong way: {points}");
    none(&found, "name it in a test that fails if it is never reached");
}

#[test]
fn every_exception_from_a_lint_has_a_reason() {
    let mut found = Vec::new();
    for path in files(&root(), &is_rust) {
        let text = read(&path);
        for open in ["#[allow(", "#![allow(", "#[expect(", "#![expect(", "cfg_attr(test, allow("] {
            for (at, _) in text.match_indices(open) {
                let line_start = text[..at].rfind('\n').map_or(0, |n| n + 1);
                let in_text = text[line_start..at].contains("//") || text[line_start..at].contains('"');
                let attribute = text[at..].split(")]").next().unwrap_or_default();
                if !in_text && !attribute.contains("reason") {
                    let line = text[..at].lines().count().max(1);
                    found.push(format!("{}:{line}: {}", shown(&path), attribute.trim()));
                }
            }
        }
    }
    none(&found, "write #[allow(lint, reason = \"…\")]");
}

#[test]
fn every_module_says_what_it_is_for() {
    let mut found = Vec::new();
    for folder in SOURCES {
        for path in files(&root().join(folder), &is_rust) {
            let text = read(&path);
            let lines = text.lines().take_while(|line| line.starts_with("//!")).count();
            if !(1..=8).contains(&lines) {
                found.push(format!("{}: opens with {lines} lines of `//!`, not 1 to 8", shown(&path)));
            }
        }
    }
    none(&found, "a module opens by saying what it is for");
}

#[test]
fn the_map_names_every_crate_and_the_readme_every_program() {
    let (map, readme) = (read(&root().join("ARCHITECTURE.md")), read(&root().join("README.md")));
    for (krate, _) in MAY_USE {
        assert!(map.contains(&format!("`{krate}`")), "ARCHITECTURE.md does not mention the crate `{krate}`");
    }
    for program in PROGRAMS {
        assert!(
            readme.contains(&format!("`{program}`")),
            "README.md does not mention the program `{program}`"
        );
    }
}

#[test]
fn every_program_has_a_page() {
    let pages = files(&root().join("man"), &|_| true);
    for program in PROGRAMS {
        let section = if matches!(program, "axd" | "axctl") { 8 } else { 1 };
        let name = format!("{program}.{section}");
        let page = pages.iter().find(|page| page.ends_with(&name));
        let page = page.unwrap_or_else(|| panic!("no page man/{name} for the program {program}"));
        assert!(read(page).contains(&format!(".Nm {program}")), "{name} is about something else");
    }
}

#[test]
fn what_is_left_to_do_names_its_issue_and_no_path_of_one_machine_is_written_down() {
    let text_ends = ["rs", "md", "toml", "sh", "py", "yaml", "yml", "service", "slice", "conf"];
    let is_text = |path: &Path| {
        let end = path.extension().map(|end| end.to_string_lossy().into_owned());
        end.is_none_or(|end| text_ends.contains(&end.as_str()) || end.parse::<u8>().is_ok())
    };
    let mut found = Vec::new();
    for path in files(&root(), &is_text).iter().filter(|path| !path.ends_with("tests/rules.rs")) {
        let Ok(text) = fs::read_to_string(path) else { continue };
        for (at, line) in text.lines().enumerate() {
            let place = || format!("{}:{}: {}", shown(path), at + 1, line.trim());
            let open = ["TODO", "FIXME", "XXX"].iter().any(|word| has_word(line, word));
            let mktemp = line.contains("XXXX");
            if open && !line.contains("(#") && !mktemp {
                found.push(place());
            }
            let absolute =
                |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._->}*]/".contains(c));
            if line.match_indices(concat!("/wo", "rk/")).any(|(at, _)| absolute(at)) {
                found.push(place());
            }
        }
    }
    none(&found, "write TODO(#123), and no path of one machine");
}

/// Whether a file has a test of this name; in rows.sh, a row that is tried.
fn has_test(text: &str, name: &str) -> bool {
    let tries = |line: &str| line.starts_with("try ") && line.ends_with(&format!(" {name}"));
    let mut lines = text.lines().map(str::trim);
    let mut of_a_test = false;
    lines.any(|line| {
        let is_it = of_a_test && line.starts_with(&format!("fn {name}("));
        of_a_test = line == "#[test]" || (of_a_test && line.starts_with("#["));
        is_it || tries(line)
    })
}

/// What proves each sentence about cards: `file.rs::test`, a row of check.sh, a patch that must be noticed.
#[test]
fn what_is_said_to_prove_a_promise_about_cards_exists() {
    let table = read(&root().join("tests/gpu/PROOFS.md"));
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let mut found = Vec::new();
    for row in rows.skip(1) {
        let proofs: Vec<&str> = row.rsplit('|').nth(1).unwrap_or("").split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() {
            found.push(format!("nothing proves: {row}"));
        }
        let missing = proofs.into_iter().filter(|proof| {
            let (file, name) = proof.split_once("::").unwrap_or((proof, ""));
            let text = fs::read_to_string(root().join(file)).unwrap_or_default();
            text.is_empty()
                || if name.is_empty() {
                    is_rust(Path::new(file)) && !text.contains("#[test]")
                } else {
                    !has_test(&text, name)
                }
        });
        found.extend(missing.map(|proof| format!("there is no {proof}")));
    }
    none(&found, "tests/gpu/PROOFS.md names tests that exist");
}

/// What ax does with a library that plays the driver's it does with the driver's.
#[test]
fn no_code_of_ax_knows_that_a_driver_is_played() {
    let mut found = Vec::new();
    for path in SOURCES.iter().flat_map(|folder| files(&root().join(folder), &is_rust)) {
        let text = read(&path);
        // What tests need is below that.
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (line, code) in code(text) {
            if ["fake", "stand-in", "stand_in"].iter().any(|word| code.to_lowercase().contains(word)) {
                found.push(format!("{}:{line}: {}", shown(&path), code.trim()));
            }
        }
    }
    none(&found, "no code of ax knows that the library is played");
}

/// The digits that follow a word, and what comes behind them.
fn number_behind<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (_, behind) = text.split_once(word)?;
    let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    (digits > 0).then(|| behind.split_at(digits))
}

/// A patch names the tests of the law that it breaks: by a number that no other law has, nor begins with.
#[test]
fn each_law_of_the_schedule_has_a_number_of_its_own() {
    let mut laws: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut found = Vec::new();
    for path in files(&root().join("axd/core/tests/scheduling"), &is_rust) {
        for (number, _) in read(&path).lines().filter_map(|line| number_behind(line, "fn law_")) {
            let first = laws.entry(number.to_owned()).or_insert_with(|| path.clone());
            if *first != path {
                found.push(format!("law {number} is in {} and in {}", shown(first), shown(&path)));
            }
        }
    }
    assert!(laws.len() > 15, "{laws:?}");
    let is_patch = |path: &Path| path.extension().is_some_and(|end| end == "patch");
    for path in files(&root().join("tests/mutants"), &is_patch) {
        let text = read(&path);
        let test = text.lines().find(|line| line.starts_with("Test:")).unwrap_or_default();
        let Some((number, behind)) = number_behind(test, "test(law_") else { continue };
        if !laws.contains_key(number) || !behind.starts_with('_') {
            found.push(format!("{}: {test}", shown(&path)));
        }
    }
    none(
        &found,
        "a law has one number, in one file; name its test as far as the underscore behind the number",
    );
}

/// With slices a reset ends neighbours who did nothing: ax names and ends the holder instead.
#[test]
fn no_code_resets_a_card_and_the_page_says_why() {
    let mut found = Vec::new();
    for path in SOURCES.iter().flat_map(|folder| files(&root().join(folder), &is_rust)) {
        for (line, code) in code(&read(&path)) {
            let lower = code.to_lowercase();
            // By NVIDIA's tool, its library, or the kernel's file of the device.
            if ["gpu-reset", "gpureset", "devicereset", "device_reset"]
                .iter()
                .any(|word| lower.contains(word))
            {
                found.push(format!("{}:{line}: {}", shown(&path), code.trim()));
            }
        }
    }
    none(&found, "the driver is never reset");
    let page = read(&root().join("man/ax-gpu.7"));
    assert!(
        page.contains("The driver is never reset by ax.\nA reset ends every program on the card"),
        "ax-gpu(7)"
    );
}

/// Whoever has the sources has all that they speak of.
#[test]
fn sources_name_no_paper_that_is_not_there() {
    let is_page = |path: &Path| path.extension().is_some_and(|end| end == "md");
    let pages = files(&root(), &is_page);
    let there = |name: &str| pages.iter().any(|page| page.ends_with(name.trim_start_matches("../")));
    let in_name = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let mut found = Vec::new();
    for path in files(&root(), &is_rust) {
        for (at, line) in read(&path).lines().enumerate() {
            let words = line.split(|c: char| !in_name(c)).filter(|word| word.len() > 3);
            let papers = words.filter(|word| word.ends_with(".md") && !there(word));
            found.extend(papers.map(|paper| format!("{}:{}: {paper}", shown(&path), at + 1)));
        }
    }
    none(&found, "pages of this repository, man pages or the rule itself");
}
