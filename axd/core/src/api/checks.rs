//! What the checks of `axctl`, and those that `axd` does for it, print with `--json`.

use serde::Serialize;

/// What kind of file was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A script.
    Script,
    /// A configuration.
    Configuration,
}

/// `axctl check`: a file, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileCheck {
    /// Its name, as typed.
    pub file: String,
    /// What it is.
    pub kind: FileKind,
    /// Whether it is there; without a configuration the defaults hold.
    pub exists: bool,
    /// Whether it would be accepted.
    pub good: bool,
    /// Of a script: the options that were understood.
    pub options: Vec<String>,
    /// What is wrong with it, one line each with its place.
    pub errors: Vec<String>,
    /// What may be wrong.
    pub warnings: Vec<String>,
}

/// `axctl db check`: what was looked at, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DatabaseCheck {
    /// Whether nothing is.
    pub good: bool,
    /// Jobs looked at.
    pub jobs: u64,
    /// Attempts looked at.
    pub attempts: u64,
    /// Scripts and environments looked at.
    pub blobs: u64,
    /// What is wrong, one line each: the first hundred.
    pub problems: Vec<String>,
    /// How many more there are.
    pub more: u64,
}

/// `axctl db backup`: the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupMade {
    /// Its name, as typed.
    pub file: String,
    /// Its size.
    pub bytes: u64,
}

/// `axctl db adopt`: where the numbers go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Adopted {
    /// The number of the next job.
    pub next_number: u32,
}
