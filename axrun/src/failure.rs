//! What can keep a supervisor or watchdog from starting, and the exit code for each. Once the lease is taken there
//! are no such failures any more: everything becomes a result.

use std::path::PathBuf;

use ax_sys::SysError;

/// Why this process ends without having supervised anything.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Wrong arguments.
    #[error("{0}")]
    Usage(String),
    /// Another supervisor made the lease before, or axd sealed it. Nothing was touched.
    #[error("lease {0} was made before")]
    LeaseTaken(PathBuf),
    /// A record that does not say what it should.
    #[error("{}: {text}", path.display())]
    BadRecord {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
    /// The program that holds the users' command can't be run.
    #[error("cannot run {}: {source}; is ax installed as a whole?", program.display())]
    NoCommand {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that has to be there can't be read.
    #[error("{0}")]
    Input(SysError),
    /// The system refused something.
    #[error("{0}")]
    System(SysError),
    /// A contradiction in this program.
    #[error("{0}")]
    Internal(String),
}

impl Failure {
    /// For `map_err`: a file that can't be read.
    pub(crate) fn input(error: SysError) -> Failure {
        Failure::Input(error)
    }

    /// For `map_err`: anything else that the system refused.
    pub(crate) fn system(error: SysError) -> Failure {
        Failure::System(error)
    }

    /// The exit code, as documented at [`crate::main`].
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::LeaseTaken(_) => 10,
            Failure::BadRecord { .. } => 65,
            Failure::Input(_) => 66,
            Failure::NoCommand { .. } => 69,
            Failure::System(_) | Failure::Internal(_) => 71,
        }
    }
}
