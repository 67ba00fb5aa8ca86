//! The daemon: the shell around `ax-core`.
//!
//! It carries out what the core decides and tells the core what happened. It
//! may not hold or change any job's state, order or resource on its own.

pub mod api;
mod base64;
mod calendar;
mod card_limit;
mod cards;
mod command;
pub mod config;
mod containment;
mod engine;
mod fence;
pub mod forecasts;
mod launch;
mod launcher;
mod leftover;
mod local;
mod log;
mod mode;
mod mps;
mod people;
mod ready;
mod recorded;
mod samples;
mod settle;
mod signals;
mod spool;
mod starter;
pub mod store;
mod submission;
mod views;
mod worker;

pub use command::main;
