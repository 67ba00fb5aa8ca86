//! The files of one attempt: where they lie, the assignment that is read and the two records that are written. Only
//! root (or the user whose daemon this is) may write in these folders; they contain nothing of the job's.

use std::path::{Path, PathBuf};

use ax_core::id::AttemptName;
use ax_core::record::{Assignment, AttemptResult, FORMAT, Started};
use ax_sys::atomic_file::{self, Options};
use ax_sys::path::{Dir, Meta};

use crate::failure::Failure;

/// More than environment, arguments and files of any submission that axd accepts, escaped.
const ASSIGNMENT_MAX: u64 = 16 << 20;

/// The folders of one attempt, open.
pub(crate) struct Place {
    /// `<run>/attempts/<attempt>`.
    pub(crate) attempt: Dir,
    /// `<run>/leases`.
    pub(crate) leases: Dir,
    /// `<run>`.
    pub(crate) run: Dir,
    /// The attempt's name, from its folder's.
    pub(crate) name: AttemptName,
}

impl Place {
    /// Opens the folders around `<run>/attempts/<attempt>`.
    pub(crate) fn open(folder: &Path) -> Result<Place, Failure> {
        let last = folder.file_name().and_then(|name| name.to_str());
        let name = last.and_then(|name| name.parse().ok());
        let run = folder.parent().and_then(Path::parent).filter(|_| folder.is_absolute());
        let (Some(name), Some(run)) = (name, run) else {
            return Err(Failure::Usage(format!(
                "'{}' is no absolute path of an attempt's folder",
                folder.display()
            )));
        };
        let attempt = Dir::open(folder).map_err(Failure::input)?;
        let run = Dir::open(run).map_err(Failure::input)?;
        let leases = run.open_dir("leases").map_err(Failure::input)?;
        Ok(Place { attempt, leases, run, name })
    }

    /// The assignment, checked as far as its supervisor must be able to rely on it.
    pub(crate) fn read_assignment(&self) -> Result<Assignment, Failure> {
        let bytes = self.attempt.read("assignment", ASSIGNMENT_MAX).map_err(Failure::input)?;
        let path = self.attempt.show("assignment");
        let bad = |text: String| Failure::BadRecord { path: path.clone(), text };
        let assignment: Assignment =
            serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        if assignment.v > FORMAT {
            return Err(bad(format!("format {} is newer than this program's {FORMAT}", assignment.v)));
        }
        if assignment.attempt != self.name {
            return Err(bad(format!("it is of {}", assignment.attempt)));
        }
        Ok(assignment)
    }

    /// The folder of script and user's socket: `<run>/jobs/<attempt>`.
    pub(crate) fn job_folder(&self) -> PathBuf {
        self.run.show("jobs").join(self.name.to_string())
    }

    /// Writes `started`, in place of an earlier one. A reboot ends the attempt, so nothing is flushed.
    pub(crate) fn write_started(&self, started: &Started) -> Result<(), Failure> {
        let bytes = json(started)?;
        atomic_file::write(&self.attempt, "started", &bytes, &Options::default()).map_err(Failure::system)?;
        Ok(())
    }

    /// Whether the attempt's folder was removed, so that no record can reach anybody.
    pub(crate) fn is_gone(&self) -> bool {
        Meta::of(&self.attempt).is_ok_and(|meta| meta.links == 0)
    }

    /// Writes `result`; the first record of an attempt stays.
    pub(crate) fn write_result(&self, result: &AttemptResult) -> Result<(), Failure> {
        let options = Options { keep_first: true, ..Options::default() };
        atomic_file::write(&self.attempt, "result", &json(result)?, &options).map_err(Failure::system)?;
        Ok(())
    }
}

fn json(record: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(record)
        .map_err(|error| Failure::Internal(format!("a record has no JSON form: {error}")))
}
