//! The real programs together: a private daemon under a root of its own, real
//! users, groups, files and jobs. One module a promise or capability.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "each test uses what it needs of it")]
mod cluster;
mod first_job;
mod spool;
mod spool_attacks;
mod spool_cron;
