//! Why a command did not do what it was asked to: the exit code and one line.
//! Every error of this crate ends here. Other codes than these are those of a job or command that one waited for, and
//! those of who was interrupted.

use std::io::{self, Write};

use ax_core::api::{ApiError, ErrorClass, OUTPUT_FAILED};
use thiserror::Error;

use crate::connect::ConnectError;
use crate::http::WireError;
use crate::shown::{plain, shown};

/// A command that failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// No daemon, or one that must not be trusted.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The conversation broke.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The daemon's own answer.
    #[error("{}", .0.error)]
    Answer(ApiError),
    /// Found here.
    #[error("{line}")]
    Said {
        /// Hence the exit code.
        class: ErrorClass,
        /// For the person, with its hint.
        line: String,
    },
    /// Standard output or standard error can't be written.
    #[error("cannot write the output: {}", plain(.0))]
    Output(#[from] io::Error),
}

impl Failure {
    /// A failure found here.
    pub fn said(class: ErrorClass, line: impl Into<String>) -> Failure {
        Failure::Said { class, line: line.into() }
    }

    /// Wrong usage.
    pub fn usage(line: impl Into<String>) -> Failure {
        Failure::said(ErrorClass::Usage, line)
    }

    /// For standard error, in one piece: others may write to the same terminal. A line; of a configuration one for each of its
    /// findings.
    fn told(&self, program: &str) -> String {
        let text = self.to_string();
        let line = |line: &str| format!("{program}: {}\n", shown(line));
        match self {
            Failure::Answer(ApiError { class: ErrorClass::Config, .. }) => text.lines().map(line).collect(),
            _ => line(&text),
        }
    }

    /// Whether a daemon that is down or being restarted is behind it, so that asking later can help.
    pub fn is_passing(&self) -> bool {
        match self {
            Failure::Connect(error) => error.class() == ErrorClass::Unavailable,
            Failure::Wire(error) => error.is_passing(),
            _ => false,
        }
    }

    /// The exit code that scripts rely on. A reader that has gone away (`ax queue | head`) is no error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Connect(error) => error.class().exit_code(),
            Failure::Wire(_) => ErrorClass::Unavailable.exit_code(),
            Failure::Answer(error) => error.class.exit_code(),
            Failure::Said { class, .. } => class.exit_code(),
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Failure::Output(_) => OUTPUT_FAILED,
        }
    }
}

/// Turns the end of a command into its exit code, with one line on standard error when it failed.
pub fn finish(program: &str, result: Result<u8, Failure>, err: &mut dyn Write) -> u8 {
    let failure = match result {
        Ok(code) => return code,
        Err(failure) => failure,
    };
    let code = failure.exit_code();
    if code != 0 {
        // Nobody is left to be told if this fails too.
        let _ = err.write_all(failure.told(program).as_bytes());
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_configuration_have_a_line_each_and_nothing_else_has_two() {
        let told = |class| Failure::Answer(ApiError { class, error: "a\nb\u{1b}".to_owned() }).told("ax");
        assert_eq!(told(ErrorClass::Config), "ax: a\nax: b\\x1b\n");
        assert_eq!(told(ErrorClass::Refused).lines().count(), 1);
    }

    #[test]
    fn a_failure_is_one_line_and_a_code() {
        let mut err = Vec::new();
        let failure = Failure::usage("no such\nthing \x1b[31m");
        assert_eq!(finish("ax", Err(failure), &mut err), 2);
        assert_eq!(String::from_utf8(err).unwrap(), "ax: no such\\nthing \\x1b[31m\n");
    }

    #[test]
    fn a_reader_that_left_is_success() {
        let mut err = Vec::new();
        let gone = Failure::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(finish("ax", Err(gone), &mut err), 0);
        assert!(err.is_empty());
    }
}
