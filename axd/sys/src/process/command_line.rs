//! The command line that ps(1) shows for this process. The kernel reads it from the memory in which the process found
//! its arguments; a forked process with another task writes its own there.

use crate::error::{Doing, Result, SysError};
use std::ffi::OsStr;

/// Where the arguments of this process lie.
#[derive(Debug, Clone, Copy)]
pub struct CommandLine {
    start: u64,
    length: usize,
}

impl CommandLine {
    /// The command line of this process. There is room for what it was started with, and no more.
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

    /// Shows these words, as far as there is room. Only for a process that no longer needs its own arguments, and has
    /// one thread.
    pub fn show(&self, words: &[&OsStr]) {
        let mut text: Vec<u8> =
            words.iter().flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect();
        // The last byte stays: if it is not zero the kernel looks further.
        text.resize(self.length.saturating_sub(1), 0);
        let Ok(start) = usize::try_from(self.start) else { return };
        let place = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: the kernel says that the arguments of this process lie there, so many bytes, in its stack: they are
        // there and may be written for as long as it lives. Nothing of Rust's refers to them: the standard library
        // copies them for those who ask, and nobody asks any more.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), place, text.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_seen() {
        let own = CommandLine::own().unwrap();
        own.show(&[OsStr::new("ax"), OsStr::new("x")]);
        let seen = std::fs::read("/proc/self/cmdline").unwrap();
        assert!(seen.starts_with(b"ax\0x\0"), "{seen:?}");
    }
}
