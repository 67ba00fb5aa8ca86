//! The configuration file: from a path to `ax_core::config::Config` or to
//! findings. What keys mean is said in the core, what YAML is in `ax-config`.

mod check;
pub(crate) mod names;

pub use ax_config::{Loaded, MAX_LEN, interpret, lines};
pub use check::{check, load, load_named};
