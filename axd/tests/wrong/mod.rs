//! Configurations that are wrong, and the line that answers each, for a file named `c`: read here, and by the real
//! programs in `tests/end_to_end/bad_words.rs`.

mod syntax;
mod values;

/// No YAML, or more of it than a configuration may hold.
pub(crate) const SYNTAX: &[(&str, &str)] = syntax::WRONG;
/// YAML, and still wrong.
pub(crate) const VALUES: &[(&str, &str)] = values::WRONG;
