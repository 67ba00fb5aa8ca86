//! The daemon: the shell around `ax-core`.
//!
//! It carries out what the core decides and tells the core what happened. It
//! may not hold or change any job's state, order or resource on its own.

pub mod api;
mod base64;
mod calendar;
pub mod config;
mod launch;
mod local;
mod log;
mod people;
mod settle;
mod submission;
mod worker;
pub mod store;

/// Runs the daemon with the arguments of this process.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
