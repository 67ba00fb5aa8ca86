//! What ax asks of Linux and of NVML: a thin layer without policy.
//!
//! This is the only crate of the project that contains `unsafe` code. Each module covers one
//! capability; each error says what was being done and to which path, process or card.
//! Nothing here decides anything about jobs: callers say what should happen and when.

pub mod atomic_file;
pub mod card_limit;
pub mod cgroup;
pub mod clock;
pub mod crash;
pub mod credentials;
pub mod dir_watch;
mod error;
mod kernel_file;
mod keyring;
pub mod lease;
pub mod memory_file;
pub mod mount;
pub mod nvml;
pub mod path;
pub mod pidfd;
pub mod process;
pub mod program;
pub mod random;
pub mod sched;
pub mod seqpacket;
pub mod shared_word;
pub mod signals;
pub mod socket;
pub mod statfs;
pub mod terminal;
pub mod usage;
pub mod users;

pub use error::{Result, SysError};
