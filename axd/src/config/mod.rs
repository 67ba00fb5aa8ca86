//! The configuration file: from a path to `ax_core::config::Config` or to findings. The core says what keys mean,
//! `ax-config` knows YAML.

mod check;
pub(crate) mod names;

pub use ax_config::{Loaded, MAX_LEN, interpret, lines};
pub use check::{check, load, load_named};
