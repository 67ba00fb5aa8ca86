//! The local socket under attack: whatever one client does, the others get their answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod bytes;
mod file;
mod harness;
mod patience;
mod users;
