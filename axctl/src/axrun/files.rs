//! The private files between the job and `axrun`: the job writes them; they are copied here as they grow, and removed
//! at the end. Each attempt has files of its own, with fixed names, so that the daemon need not be asked where they
//! are.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ax_core::api::ErrorClass;
use ax_core::id::SubmissionKey;

use crate::failure::Failure;
use crate::growing::Growing;
use crate::shown::plain;
use crate::world::World;

/// So many attempts may have left no file, as they never came to run, before one that has.
const LOOK_AHEAD: u32 = 2;

/// Where copied output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What copying found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// Something new.
    pub(super) came: bool,
    /// Less than there had been: something was lost, and the rest copied from the new start.
    pub(super) cut: bool,
}

/// One stream of the job: its files, and how far they are copied.
#[derive(Debug)]
pub(super) struct Followed {
    to: Stream,
    /// The path without its suffix, and the suffix.
    stem: PathBuf,
    suffix: &'static str,
    /// The attempt whose file is copied, from 1.
    attempt: u32,
    file: Option<Growing>,
    /// Whether the files stay at the end.
    pub(super) stays: bool,
}

impl Followed {
    /// A stream whose first file is made now, empty and closed to others, so that a folder that can't be
    /// written is an answer and no failed job. `made` false: the job runs as somebody else and makes it.
    pub(super) fn new(
        folder: &Path,
        key: SubmissionKey,
        to: Stream,
        made: bool,
    ) -> Result<Followed, Failure> {
        let suffix = if to == Stream::Out { "out" } else { "err" };
        let stem = folder.join(format!(".axrun-{key}"));
        let followed = Followed { to, stem, suffix, attempt: 1, file: None, stays: false };
        if made {
            let path = followed.path(1);
            let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            new.map_err(|error| cannot_make(&path, &error))?;
        }
        Ok(followed)
    }

    /// The file of an attempt, as the job's pattern makes it.
    pub(super) fn path(&self, attempt: u32) -> PathBuf {
        let restart = if attempt > 1 { format!(".r{}", attempt - 1) } else { String::new() };
        let mut path = self.stem.clone().into_os_string();
        path.push(format!("{restart}.{}", self.suffix));
        PathBuf::from(path)
    }

    /// The option that sends the job's stream here.
    ///
    /// # Errors
    /// When the folder's name is no text.
    pub(super) fn option(&self) -> Result<String, Failure> {
        let name = if self.to == Stream::Out { "output" } else { "error" };
        let path = self.path(1).into_os_string().into_string();
        let path = path.map_err(|_| {
            Failure::said(ErrorClass::Data, "the current folder has a name that is not UTF-8")
        })?;
        Ok(format!("--{name}={}", path.replace('%', "%%")))
    }

    /// The attempt that is being copied.
    pub(super) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Copies what is there now. Where there is a later attempt's file, the next copying is of that.
    pub(super) fn copy(&mut self, world: &mut World<'_>) -> Result<Copied, Failure> {
        // Looked for before the reading: what an attempt wrote is all there before the next one begins.
        let later = (1..=LOOK_AHEAD).map(|more| self.attempt + more).find(|n| self.path(*n).exists());
        let copied = self.drain(world)?;
        let Some(later) = later else { return Ok(copied) };
        (self.attempt, self.file) = (later, None);
        Ok(Copied { came: true, ..copied })
    }

    /// Copies all that is left of this attempt's file. If it is not the last, the next copying is of the next.
    pub(super) fn copy_rest(&mut self, last: u32, world: &mut World<'_>) -> Result<Copied, Failure> {
        let copied = self.drain(world)?;
        if self.attempt < last {
            (self.attempt, self.file) = (self.attempt + 1, None);
        }
        Ok(copied)
    }

    fn drain(&mut self, world: &mut World<'_>) -> Result<Copied, Failure> {
        let path = self.path(self.attempt);
        let file = match &mut self.file {
            Some(file) => file,
            empty => match Growing::open(&path) {
                Ok(file) => empty.insert(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Copied::default()),
                Err(error) => return Err(unreadable(&error)),
            },
        };
        let out: &mut dyn Write = if self.to == Stream::Out { world.out } else { world.err };
        Ok(Copied { cut: file.is_cut()?, came: file.copy(out)? })
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        for attempt in 1..=self.attempt + LOOK_AHEAD {
            // Most were never made; one that can't be removed is no reason to change the job's status.
            let _ = fs::remove_file(self.path(attempt));
        }
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> Failure {
    let class = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorClass::NoPermission,
        _ => ErrorClass::TryAgain,
    };
    let line = format!("cannot make {}: {}; see --output", path.display(), plain(error));
    Failure::said(class, line)
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::said(ErrorClass::NoInput, format!("cannot read the job's output: {}", plain(error)))
}
