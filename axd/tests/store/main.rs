//! The store from outside: what was acknowledged is there, whatever happens.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "the modules of one test program")]

mod cost;
mod faults;
mod fixture;
mod profiles;
mod prune;
mod random_events;
mod round_trip;
mod start;
