#![no_main]
#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target uses one of the bodies")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::directive(bytes));
