//! From the bytes of a configuration file to `ax_core::config::Config` or to findings. The core says what keys mean;
//! the caller opens the file. Used by the daemon and by the simulator.

mod yaml;

use std::path::Path;

use ax_core::config::tree::Place;
use ax_core::config::{self, Config, Finding};

/// No configuration is longer, in bytes.
pub const MAX_LEN: u64 = 1 << 20;

/// A configuration that holds.
#[derive(Debug)]
pub struct Loaded {
    /// Its meaning.
    pub config: Config,
    /// What its writer should know.
    pub warnings: Vec<Finding>,
}

/// Reads a configuration that is already in memory.
///
/// # Errors
/// Every finding, when one of them is an error.
pub fn interpret(bytes: &[u8]) -> Result<Loaded, Vec<Finding>> {
    let text = std::str::from_utf8(bytes).map_err(|error| vec![not_utf8(bytes, error.valid_up_to())])?;
    let tree = yaml::parse(text).map_err(|finding| vec![finding])?;
    let (config, warnings) = config::read(&tree)?;
    Ok(Loaded { config, warnings })
}

/// Where the value of a key stands, outside lists: `["cluster", "timezone"]`.
pub fn place_of(bytes: &[u8], keys: &[&str]) -> Option<Place> {
    let tree = yaml::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    tree.below(keys).map(|node| node.place)
}

/// The findings as lines, each with the file's name.
pub fn lines(path: &Path, findings: &[Finding]) -> Vec<String> {
    let file = path.display().to_string();
    findings.iter().map(|finding| finding.line(&file)).collect()
}

/// Where the text stops being UTF-8.
fn not_utf8(bytes: &[u8], at: usize) -> Finding {
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line = before.rsplit('\n').next().unwrap_or_default();
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let place =
        Place { line: number(before.matches('\n').count() + 1), column: number(line.chars().count() + 1) };
    Finding::error(Some(place), format!("the byte {:#04x} is not UTF-8", bytes[at]))
}
