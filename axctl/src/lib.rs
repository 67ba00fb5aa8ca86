//! The commands that people type: `ax`, `axbatch`, `axctl`, `axrun`.
//!
//! They talk to the daemon's local socket with the types of `ax_core::api`
//! and never link the daemon. `axbatch` starts fast: it reaches only `submit` and what
//! that needs, no table and no command-line library.

pub mod ax;
pub mod axbatch;
pub mod axctl;
mod axrun;
mod chart;
pub mod client;
mod cmd;
pub mod connect;
mod diag;
pub mod failure;
mod fields;
pub mod generated;
mod growing;
pub mod http;
mod session;
mod shown;
mod simulate;
mod stop;
mod style;
mod submit;
mod table;
mod top;
pub mod when;
pub mod world;

pub use ax_sys::lean_main;
