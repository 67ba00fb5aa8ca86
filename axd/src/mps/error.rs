//! What keeps a card's MPS daemon from being started, stopped or looked after. It reaches users in the story of a job,
//! and the daemon's log.

use std::ffi::NulError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ax_core::id::{AttemptName, JobId};
use ax_sys::SysError;
use ax_sys::process::ErrandError;
use thiserror::Error;

use crate::worker::TOO_MANY;

pub(super) type Result<T> = std::result::Result<T, MpsError>;

/// Why something about a daemon was not done.
#[derive(Debug, Error)]
pub(crate) enum MpsError {
    /// The command line's order can't be read.
    #[error("--order: {0}")]
    Order(serde_json::Error),
    /// The system refused a call.
    #[error(transparent)]
    System(#[from] SysError),
    /// A file or folder of the daemon can't be handled.
    #[error("{doing} {}: {source}", path.display())]
    File {
        /// As in `making`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The name of a socket would be too long.
    #[error("{}: the name of a socket has {bytes} bytes, and at most {most} will do", name.display())]
    LongName {
        /// That name.
        name: PathBuf,
        /// Its length.
        bytes: usize,
        /// The most that a socket's name may have.
        most: usize,
    },
    /// The attempt was over before its turn came.
    #[error("{0} has ended")]
    AttemptEnded(AttemptName),
    /// The card has a daemon that serves another user.
    #[error("the MPS daemon of {card} is another user's, for {job}")]
    OtherUser {
        /// The card.
        card: String,
        /// A job of that user.
        job: JobId,
    },
    /// What its user mounted for an earlier one is still in the way.
    #[error("what its user mounted in the folders of an earlier MPS daemon can't be unmounted yet")]
    Unmounting,
    /// There is none to ask.
    #[error("there is no MPS daemon")]
    NoDaemon,
    /// It was started, and ran no more when it was looked for.
    #[error("the MPS daemon ended at once")]
    EndedAtOnce,
    /// It was started, and its clients still can't find it.
    #[error("the MPS daemon has not opened {}", .0.display())]
    NotOpened(PathBuf),
    /// It does not die.
    #[error("{group} can't be ended: {pids:?}")]
    GoesOn {
        /// Its group.
        group: String,
        /// What is still there.
        pids: Vec<i32>,
    },
    /// A folder of the user can't be unmounted.
    #[error(transparent)]
    Unmount(ErrandError),
    /// The control program failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Nothing was tried.
    #[error("{}", TOO_MANY)]
    TooManyWait,
}

impl MpsError {
    /// For `map_err`.
    pub(super) fn file(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> MpsError {
        move |source| MpsError::File { doing, path: path.to_owned(), source }
    }
}

/// Why the control program did not do what it was asked for.
#[derive(Debug, Error)]
pub(crate) enum ControlError {
    /// The system refused a call on its behalf.
    #[error("{program}: {source}")]
    System {
        /// The program.
        program: String,
        /// Why.
        source: SysError,
    },
    /// A word for it has a zero byte.
    #[error(transparent)]
    ZeroByte(#[from] NulError),
    /// It can't be executed.
    #[error("{program}: {why}")]
    NotExecuted {
        /// The program.
        program: String,
        /// Why not.
        why: String,
    },
    /// Its process was gone before it was executed.
    #[error("{program} was not started")]
    NotStarted {
        /// The program.
        program: String,
    },
    /// It took too long and was killed.
    #[error("{program} did not end within {} s", limit.as_secs())]
    Late {
        /// The program.
        program: String,
        /// How long it had.
        limit: Duration,
    },
    /// It says no.
    #[error("{program} {words}: {said}")]
    Refused {
        /// The program.
        program: String,
        /// Its arguments.
        words: String,
        /// What it said, or how it ended.
        said: String,
    },
}
