//! What must hold of every schedule, whatever happens: each law is tried on random histories of a small cluster,
//! with checkers that know the log of events and decisions and none of the code that decides. Law 16 is the reference
//! simulator's: `tests/simulation`. Each law has one number, by which tests/mutants finds its tests.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod chance;
mod conserving;
mod evicting;
mod gangs;
mod growing;
mod holding;
mod hours;
mod learning;
mod ledger;
mod limits;
mod naive;
mod ordering;
mod reserve;
mod same;
mod sharing;
mod spending;
mod starving;
mod world;

use proptest::prelude::*;

/// How many histories a law is tried on, of the two thousand that it is due: many more in the long form of the tests.
fn histories() -> ProptestConfig {
    let cases = if std::env::var_os("AX_TEST_LONG").is_some() { 100_000 } else { 2_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// A configuration and what happens under it, as numbers that `chance` makes sense of.
fn history(longest: usize) -> impl Strategy<Value = (u64, Vec<(u8, u64)>)> {
    (any::<u64>(), proptest::collection::vec((0..100_u8, any::<u64>()), 1..longest))
}
