//! The supervisor and the watchdog for real: the binary `axrun`, real control groups, real users.
//! They need root; without it each says "skipped". No test measures speed: waits are for facts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can not go on should stop")]

mod control;
mod cost;
#[cfg(feature = "crash-points")]
mod crash;
mod ends;
mod launch;
#[path = "../end_to_end/leased.rs"]
mod leased;
mod limits;
#[path = "../end_to_end/never.rs"]
mod never;
mod ordinary_user;
mod watchdog;
mod work_folder;
mod world;
