//! What ax decides.
//!
//! Pure: no file, clock, thread, environment or random source. Time is handed
//! in; the daemon, the simulator and the tests drive the same code.
#![forbid(unsafe_code)]

pub mod advice;
pub mod api;
pub mod config;
pub mod controller;
pub mod directive;
pub mod environment;
pub mod explain;
pub mod gpu;
pub mod hostlist;
pub mod id;
pub mod invariants;
pub mod job;
pub mod node;
pub mod paths;
pub mod pattern;
pub mod record;
pub mod replay;
pub mod schedule;
pub mod sim;
pub mod size;
pub mod text;
pub mod time;
pub mod units;
