//! What outlives a process that has loaded the library: limits that are set, in a file beside the script; and the log.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A limit on a group: soft and hard, bytes.
pub(crate) type Limit = (u64, u64);

/// The state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// By card and group.
    pub(crate) limits: BTreeMap<(String, String), Limit>,
}

/// `script` with this after its name.
fn beside(script: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(script);
    name.push(end);
    name.into()
}

/// Looks at the state, or changes it, while nobody else does.
pub(crate) fn with<R>(script: &Path, change: impl FnOnce(&mut State) -> R) -> io::Result<R> {
    let path = beside(script, ".state");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let before = State::read(&text);
    let mut state = before.clone();
    let result = change(&mut state);
    if state != before {
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(state.show().as_bytes())?;
    }
    Ok(result)
}

/// Adds a line to the log.
pub(crate) fn log(script: &Path, line: &str) {
    let file = OpenOptions::new().append(true).create(true).open(beside(script, ".log"));
    // A log that can't be written is missed by the test that reads it.
    let _ = file.and_then(|mut file: File| file.write_all(format!("{line}\n").as_bytes()));
}

impl State {
    fn read(text: &str) -> State {
        let mut state = State::default();
        for line in text.lines() {
            if let ["limit", card, group, soft, hard] = line.split(' ').collect::<Vec<_>>().as_slice() {
                let limit = (soft.parse().unwrap_or(0), hard.parse().unwrap_or(u64::MAX));
                state.limits.insert(((*card).to_owned(), (*group).to_owned()), limit);
            }
        }
        state
    }

    fn show(&self) -> String {
        self.limits
            .iter()
            .map(|((card, group), (soft, hard))| format!("limit {card} {group} {soft} {hard}\n"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_what_it_was() {
        let mut state = State::default();
        state.limits.insert(("GPU-a".to_owned(), "/g".to_owned()), (1, u64::MAX));
        assert_eq!(State::read(&state.show()), state);
    }
}
