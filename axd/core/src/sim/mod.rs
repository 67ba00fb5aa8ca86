//! Simulation: a workload is driven through the controller over a virtual clock, and measured.
//!
//! `workload` reads files of many origins, `run` plays what machines and jobs would do and hands the controller the
//! events that the daemon would, `metrics` says how it went. The controller is the one that the daemon runs.

pub mod metrics;
pub mod run;
mod service;
pub mod workload;

pub use metrics::Metrics;
pub use run::{Options, Run, Stuck, simulate};
pub use workload::{BadWorkload, Format, NodeShape, Task, Workload};
