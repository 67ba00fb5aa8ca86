//! High-water marks of job number, epoch and term in the spool, so that no number is given twice, whatever becomes of
//! the database. A mark is written and synced before a number up to it is used; it covers a range, so that this is
//! rare.
//!
//! Each start writes a new token into both the file and the database. If both have the same token, the database is
//! the one from which numbers were last given.

use std::path::{Path, PathBuf};

use ax_core::id::{Epoch, JobNumber};
use ax_sys::atomic_file::{self, Options};
use ax_sys::path::Dir;
use serde::{Deserialize, Serialize};

use super::error::{Doing, Result, StoreError};

/// Numbers are reserved so many at a time.
const RANGE: u32 = 1000;
/// The format of the file.
const FORMAT: u32 = 1;

/// What the file says: all up to here may have been used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks {
    v: u32,
    /// Job number.
    pub(crate) number: JobNumber,
    /// Epoch.
    pub(crate) epoch: Epoch,
    /// Term, exact.
    pub(crate) term: u64,
    /// Token of the database that the numbers were given from.
    pub(crate) run: String,
}

impl Marks {
    /// Nothing was used yet.
    pub(crate) fn none() -> Marks {
        Marks { v: FORMAT, number: JobNumber(0), epoch: Epoch(0), term: 0, run: String::new() }
    }

    /// The first job number that was surely never used.
    pub(crate) fn after_number(&self) -> JobNumber {
        JobNumber(self.number.0.saturating_add(1))
    }

    /// The same numbers for a new start.
    pub(crate) fn of_start(self, term: u64, run: String) -> Marks {
        Marks { v: FORMAT, term, run, ..self }
    }
}

/// The marks of a spool.
#[derive(Debug)]
pub(crate) struct HighWater {
    file: PathBuf,
    marks: Marks,
}

impl HighWater {
    /// Reads the marks of a spool; `None` for a spool that was never used.
    pub(crate) fn read(file: &Path) -> Result<Option<Marks>> {
        let text = match std::fs::read(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.doing("read", file)?,
        };
        let marks: Marks = serde_json::from_slice(&text).doing("understand", file)?;
        if marks.v > FORMAT {
            let (path, found, known) = (file.to_owned(), i64::from(marks.v), i64::from(FORMAT));
            return Err(StoreError::Newer { path, found, known });
        }
        Ok(Some(marks))
    }

    /// Writes the marks that a start begins with.
    pub(crate) fn begin(file: &Path, marks: Marks) -> Result<HighWater> {
        let high = HighWater { file: file.to_owned(), marks };
        high.write(&high.marks)?;
        Ok(high)
    }

    /// Makes sure that these numbers may be used: on the disk before it returns.
    /// Says whether anything had to be written.
    pub(crate) fn ensure(&mut self, number: JobNumber, epoch: Epoch) -> Result<bool> {
        if number <= self.marks.number && epoch <= self.marks.epoch {
            return Ok(false);
        }
        let mut marks = self.marks.clone();
        if number > marks.number {
            marks.number = JobNumber(number.0.saturating_add(RANGE - 1)).min(JobNumber::MAX);
        }
        if epoch > marks.epoch {
            marks.epoch = Epoch(epoch.0.saturating_add(u64::from(RANGE) - 1));
        }
        self.write(&marks)?;
        self.marks = marks;
        Ok(true)
    }

    fn write(&self, marks: &Marks) -> Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let text = serde_json::to_vec(marks).doing("write", &self.file)?;
        atomic_file::write(&Dir::open(folder)?, &name, &text, &Options::durable())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_kit::TempDir;

    #[test]
    fn a_mark_is_written_before_its_numbers_are_used_and_seldom() {
        let dir = TempDir::new();
        let file = dir.path().join("high");
        assert_eq!(HighWater::read(&file).unwrap(), None);
        let mut high = HighWater::begin(&file, Marks::none().of_start(3, "run".into())).unwrap();
        let mut written = 0;
        for number in 1..=2001 {
            written += u32::from(high.ensure(JobNumber(number), Epoch(u64::from(number) * 2)).unwrap());
            let marks = HighWater::read(&file).unwrap().unwrap();
            assert!(marks.number.0 >= number && marks.epoch.0 >= u64::from(number) * 2);
            assert_eq!((marks.term, marks.run.as_str()), (3, "run"));
        }
        assert!(written <= 7, "{written}");
        high.ensure(JobNumber::MAX, Epoch(1)).unwrap();
        assert_eq!(HighWater::read(&file).unwrap().unwrap().number, JobNumber::MAX);
    }

    #[test]
    fn marks_that_can_t_be_understood_are_no_marks_to_go_by() {
        let dir = TempDir::new();
        let file = dir.path().join("high");
        for text in ["", "{}", "{\"v\":9,\"number\":1,\"epoch\":1,\"term\":1,\"run\":\"\"}"] {
            std::fs::write(&file, text).unwrap();
            let error = HighWater::read(&file).unwrap_err().to_string();
            assert!(error.contains("/high"), "{error}");
        }
    }
}
