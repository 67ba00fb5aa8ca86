//! The commands that people type: `ax`, `axbatch`, `axctl`.
//!
//! They talk to the daemon's local socket with the types of `ax_core::api`
//! and never link the daemon.

pub mod ax;
pub mod axbatch;
pub mod axctl;
