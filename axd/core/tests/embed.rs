//! The example of ax-core as a library, compiled and run.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/embed.rs"]
#[allow(dead_code, reason = "its main is what is run")]
mod example;

/// As README and ARCHITECTURE say.
const LINES: usize = 60;

#[test]
fn the_example_is_as_short_as_the_pages_say() {
    let lines = include_str!("../examples/embed.rs").lines().count();
    assert!(lines <= LINES, "{lines} lines");
    let pages = [include_str!("../../../README.md"), include_str!("../../../ARCHITECTURE.md")];
    for page in pages {
        assert!(page.lines().any(|line| line.contains("examples/embed.rs") && line.contains(&format!("in {LINES} lines"))));
    }
}

#[test]
fn the_example_that_embeds_the_core_runs() {
    example::main().unwrap();
}
