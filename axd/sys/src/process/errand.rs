//! Runs a program for one answer, until its end or a deadline, so that it can't delay the caller for ever.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::SysError;
use crate::pidfd::PidFd;

/// Most that is kept of its output.
const MOST_SAID: u64 = 64 << 10;

/// Why an errand was not done.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    /// It names no program.
    #[error("there is no program to run")]
    Nothing,
    /// It could not be started or followed.
    #[error(transparent)]
    System(#[from] SysError),
    /// It took too long and was killed. If it hangs in the kernel, it ends when the kernel lets it.
    #[error("{program} did not end within {} s", limit.as_secs_f32())]
    Late {
        /// The program.
        program: String,
        /// How long it had.
        limit: Duration,
        /// What it had printed by then.
        printed: String,
    },
    /// It exited with an error.
    #[error("{said}")]
    Refused {
        /// What it said of that on standard error, or how it ended.
        said: String,
        /// What it printed.
        printed: String,
    },
}

/// Runs a program, given by absolute path, with these words, an empty environment and no input, in a process group of
/// its own, and waits for at most `limit`. Returns what it prints.
///
/// # Errors
/// [`ErrandError`]: among them any exit but success.
pub fn errand(words: &[String], limit: Duration) -> Result<String, ErrandError> {
    let [program, rest @ ..] = words else { return Err(ErrandError::Nothing) };
    let failed = |doing| move |error: std::io::Error| SysError::new(doing, program, error);
    let mut command = Command::new(program);
    command.args(rest).env_clear().current_dir("/").process_group(0);
    #[cfg(feature = "crash-points")]
    command.envs(crate::crash::variables());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed("run"))?;
    let pid = i32::try_from(child.id()).unwrap_or_default();
    // It is not reaped yet, so the number is still its own.
    let process = PidFd::open(pid)?;
    let in_time = process.wait_ended(limit)?;
    if !in_time {
        // With everything that it started: it is not reaped yet, so the group is still its own.
        let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        // If the kill does not help, it becomes a zombie later, which the reaper of all children takes.
        let gone = process.wait_ended(Duration::from_millis(100))?;
        let printed = if gone { said_by(&mut child).0 } else { String::new() };
        let _ = child.try_wait();
        return Err(ErrandError::Late { program: program.clone(), limit, printed });
    }
    let (printed, said) = said_by(&mut child);
    let exit = child.wait().map_err(failed("wait for"))?;
    if exit.success() {
        return Ok(printed);
    }
    let said = said.trim();
    let said = if said.is_empty() { format!("{program}: {exit}") } else { said.to_owned() };
    Err(ErrandError::Refused { said, printed })
}

/// What an ended process left in its pipes. A process that it started may hold them open: that is not waited for.
fn said_by(child: &mut Child) -> (String, String) {
    let out = child.stdout.take().map(text).unwrap_or_default();
    let error = child.stderr.take().map(text).unwrap_or_default();
    (out, error)
}

fn text(pipe: impl Read + AsFd) -> String {
    let mut bytes = Vec::new();
    let nonblocking = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
    if nix::fcntl::fcntl(&pipe, nonblocking).is_err() {
        return String::new();
    }
    // What was read before an error is kept.
    let _ = pipe.take(MOST_SAID).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<String, ErrandError> {
        errand(&["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()], limit)
    }

    #[test]
    fn it_prints_or_says_why_not() {
        let long = Duration::from_secs(60);
        assert_eq!(shell("echo done; echo noise >&2", long).unwrap(), "done\n");
        let refused = shell("echo half; echo no card >&2; exit 3", long);
        assert!(
            matches!(refused, Err(ErrandError::Refused { said, printed }) if said == "no card" && printed == "half\n")
        );
        let silent = shell("exit 3", long).unwrap_err().to_string();
        assert!(silent.contains("exit status: 3"), "{silent}");
        assert!(matches!(errand(&[], long), Err(ErrandError::Nothing)));
        assert!(matches!(errand(&["/nowhere".to_owned()], long), Err(ErrandError::System(_))));
    }

    #[test]
    fn one_that_hangs_is_killed_and_what_it_printed_is_kept() {
        for script in ["echo first; exec sleep 600", "echo first; sleep 600; echo second"] {
            let late = shell(script, Duration::from_millis(300));
            assert!(
                matches!(late, Err(ErrandError::Late { printed, .. }) if printed == "first\n"),
                "{script}"
            );
        }
        let left = shell("echo first; setsid sleep 3 & exit 0", Duration::from_secs(60));
        assert_eq!(left.unwrap(), "first\n", "one that is left does not keep anybody");
    }
}
