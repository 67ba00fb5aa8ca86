//! A file that a job writes, read as it grows. If it became shorter, the job or a person has emptied it; then reading
//! begins at its new start, as `tail` does.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use ax_core::api::ErrorClass;

use crate::failure::Failure;
use crate::shown::plain;

/// Said when [`Growing::is_cut`] was true.
pub(crate) const CUT: &str = "the output was cut short; following from its new start";

/// The file and how far it has been read.
#[derive(Debug)]
pub(crate) struct Growing {
    file: File,
    at: u64,
}

impl Growing {
    /// The file from its start.
    ///
    /// # Errors
    /// When it can't be opened, or is a pipe: that would be waited for, and read away from whom it is for.
    pub(crate) fn open(path: &Path) -> io::Result<Growing> {
        if fs::metadata(path)?.file_type().is_fifo() {
            return Err(io::Error::other("it is a pipe"));
        }
        Ok(Growing { file: File::open(path)?, at: 0 })
    }

    /// Whether it has less now than was read of it: then it is read from its start again. What was cut off and
    /// written anew up to here between two looks can't be told from what grew.
    ///
    /// # Errors
    /// When it can't be asked.
    pub(crate) fn is_cut(&mut self) -> Result<bool, Failure> {
        let now = self.file.metadata().map_err(|error| unreadable(&error))?;
        // Devices and pipes have no length.
        if !now.is_file() || now.len() >= self.at {
            return Ok(false);
        }
        self.at = self.file.seek(SeekFrom::Start(0)).map_err(|error| unreadable(&error))?;
        Ok(true)
    }

    /// Copies to the end of what is there now; whether anything came.
    ///
    /// # Errors
    /// When it can't be read, or `out` not be written.
    pub(crate) fn copy(&mut self, out: &mut dyn Write) -> Result<bool, Failure> {
        let before = self.at;
        let mut buffer = [0; 64 << 10];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    out.write_all(&buffer[..count])?;
                    self.at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
        let came = self.at > before;
        if came {
            out.flush()?;
        }
        Ok(came)
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::said(ErrorClass::NoInput, format!("cannot read the job's output: {}", plain(error)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_grew_is_read_once_and_what_was_cut_from_its_start() {
        let folder = test_kit::TempDir::new();
        let path = folder.join("output");
        let mut read = Vec::new();
        fs::write(&path, "one two").unwrap();
        let mut growing = Growing::open(&path).unwrap();
        assert!(growing.copy(&mut read).unwrap() && !growing.copy(&mut read).unwrap());
        fs::write(&path, "one two three").unwrap();
        assert!(!growing.is_cut().unwrap() && growing.copy(&mut read).unwrap());
        assert_eq!(String::from_utf8_lossy(&read), "one two three");
        // The same file, which has as much as was read: nothing tells it from one that did not change.
        fs::write(&path, "ONE TWO THREE").unwrap();
        assert!(!growing.is_cut().unwrap() && !growing.copy(&mut read).unwrap());
        fs::write(&path, "four").unwrap();
        assert!(growing.is_cut().unwrap() && !growing.is_cut().unwrap() && growing.copy(&mut read).unwrap());
        assert_eq!(String::from_utf8_lossy(&read), "one two threefour");
        fs::write(&path, "").unwrap();
        assert!(growing.is_cut().unwrap() && !growing.copy(&mut read).unwrap() && !growing.is_cut().unwrap());
    }

    #[test]
    fn what_has_no_length_is_never_cut() {
        let (reader, mut writer) = io::pipe().unwrap();
        let pipe = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(Growing::open(Path::new(&pipe)).unwrap_err().to_string(), "it is a pipe");
        let mut growing = Growing { file: File::open(&pipe).unwrap(), at: 0 };
        writer.write_all(b"word").unwrap();
        drop(writer);
        let mut read = Vec::new();
        assert!(growing.copy(&mut read).unwrap() && !growing.is_cut().unwrap());
        assert_eq!(read, b"word");
    }
}
