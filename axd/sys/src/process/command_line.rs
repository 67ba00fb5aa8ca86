//! The command line that ps(1) shows for this process. The kernel reads it out of the memory in which the process
//! found its arguments; a copy that does something else than its original writes there what it does.

use crate::error::{Doing, Result, SysError};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// Where the arguments of this process lie.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    start: u64,
    length: usize,
}

impl CommandLine {
    /// That of this process. There is room for what it was started with, and no more.
    ///
    /// # Errors
    /// When `/proc` does not say.
    pub fn own() -> Result<CommandLine> {
        const STAT: &str = "/proc/self/stat";
        let text = std::fs::read_to_string(STAT).doing("read", STAT)?;
        // From the last parenthesis on: the name before it may hold anything. The first field there is the third.
        let fields = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        let numbers: Vec<u64> = fields.skip(45).take(2).filter_map(|field| field.parse().ok()).collect();
        match numbers.as_slice() {
            [start, end] if start < end => {
                Ok(CommandLine { start: *start, length: usize::try_from(end - start).unwrap_or(0) })
            }
            _ => Err(SysError::found("read", STAT, "it does not say where the arguments lie")),
        }
    }

    /// Shows these words, as far as there is room.
    ///
    /// # Errors
    /// When this process may not write to its own memory through `/proc`.
    pub fn show(&self, words: &[&OsStr]) -> Result<()> {
        const MEMORY: &str = "/proc/self/mem";
        let mut text: Vec<u8> =
            words.iter().flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect();
        // The last byte stays: if it is not zero the kernel looks further.
        text.resize(self.length.saturating_sub(1), 0);
        let memory = OpenOptions::new().write(true).open(MEMORY).doing("open", MEMORY)?;
        memory.write_all_at(&text, self.start).doing("write", MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_seen() {
        let own = CommandLine::own().unwrap();
        own.show(&[OsStr::new("ax"), OsStr::new("x")]).unwrap();
        let seen = std::fs::read("/proc/self/cmdline").unwrap();
        assert!(seen.starts_with(b"ax\0x\0"), "{seen:?}");
    }
}
