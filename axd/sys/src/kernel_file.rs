//! Reads files that the kernel generates while they are read: `/proc`, control groups. They do not tell their size,
//! and nearly all are short.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads all of such a file.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut content = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(content),
            Ok(length) => content.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The same, as text.
pub(crate) fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(io::Error::other)
}
