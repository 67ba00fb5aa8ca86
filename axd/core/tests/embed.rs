//! The example of ax-core as a library, compiled and run.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../examples/embed.rs"]
#[allow(dead_code, reason = "its main is what is run")]
mod example;

#[test]
fn the_example_that_embeds_the_core_runs() {
    example::main().unwrap();
}
