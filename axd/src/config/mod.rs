//! The configuration file: from a path to `ax_core::config::Config` or to
//! findings. What keys mean is said in the core, not here.

mod check;
pub(crate) mod names;
mod yaml;

pub use check::{Loaded, MAX_LEN, check, interpret, lines, load, load_named};
