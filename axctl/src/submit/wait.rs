//! `--wait`: waits until the job has ended, whatever happens to the daemon meanwhile, then returns the job's own exit
//! status.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use ax_core::api::{ErrorClass, JobView};
use ax_core::job::state::JobState;
use ax_sys::signals::{Signal, SignalWatch};

use super::spool::Spooled;
use crate::client::Client;
use crate::failure::Failure;

/// One question to the daemon, and the pause before the next when there was no answer.
const QUESTION_S: u64 = 60;
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked whether somebody pressed Ctrl-C.
const LOOK: Duration = Duration::from_millis(200);
/// How often a job may be unknown between its taking from the spool and its number.
const UNKNOWN_TRIES: u32 = 30;

/// Waits for a job, or for a spooled one from the time on that axd takes it.
///
/// # Errors
/// When the daemon no longer knows the job, or could not take it.
pub(crate) fn until_end(client: &Client, job: &str, spooled: Option<&Spooled>) -> Result<JobView, Failure> {
    let mut unknown = 0;
    loop {
        match client.wait(job, QUESTION_S) {
            Ok(view) if view.state.is_final() => return Ok(view),
            Ok(_) => unknown = 0,
            Err(Failure::Answer(error)) => match (error.class, spooled) {
                (ErrorClass::TryAgain | ErrorClass::Unavailable, _) => thread::sleep(PAUSE),
                (ErrorClass::Refused, Some(spooled)) => {
                    unknown += 1;
                    still_coming(spooled, unknown).ok_or(Failure::Answer(error))??;
                    thread::sleep(PAUSE);
                }
                _ => return Err(Failure::Answer(error)),
            },
            // The job needs no daemon to go on, so neither does the waiting.
            Err(failure) if failure.is_passing() => thread::sleep(PAUSE),
            Err(other) => return Err(other),
        }
    }
}

/// Ctrl-C, from now on for whoever looks. Before threads are there: they inherit what is blocked.
///
/// # Errors
/// When there are no descriptors left.
pub(crate) fn interrupts() -> Result<SignalWatch, Failure> {
    SignalWatch::new(&[Signal::INT]).map_err(system)
}

fn system(error: ax_sys::SysError) -> Failure {
    Failure::said(ErrorClass::Unavailable, error.to_string())
}

/// The same as [`until_end`]; `None` when the person does not want to wait any longer.
///
/// # Errors
/// The same, and when there is no thread to ask on.
pub(crate) fn or_interrupted(
    client: &Client,
    job: &str,
    spooled: Option<&Spooled>,
    signals: &SignalWatch,
) -> Result<Option<JobView>, Failure> {
    let (sender, receiver) = channel();
    let (client, job, spooled) = (client.clone(), job.to_owned(), spooled.cloned());
    let ask = move || drop(sender.send(until_end(&client, &job, spooled.as_ref())));
    thread::Builder::new()
        .spawn(ask)
        .map_err(|error| Failure::said(ErrorClass::TryAgain, format!("cannot start a thread: {error}")))?;
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(ended) => return ended.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::said(ErrorClass::Unavailable, "the waiting broke off"));
            }
        }
        if signals.next().map_err(system)?.is_some() {
            return Ok(None);
        }
    }
}

/// Whether an unknown ticket may still become known: `None` if not, an error if it was refused.
fn still_coming(spooled: &Spooled, unknown: u32) -> Option<Result<(), Failure>> {
    if spooled.file.exists() {
        return Some(Ok(()));
    }
    if let Some(why) = spooled.refusal() {
        return Some(Err(Failure::said(ErrorClass::Refused, why)));
    }
    (unknown < UNKNOWN_TRIES).then_some(Ok(()))
}

/// The exit status of a job as a shell would have it: its code, 128 and its signal, or 1.
pub(crate) fn status(job: &JobView) -> u8 {
    match (job.state, job.exit_code, job.signal) {
        (JobState::Succeeded, ..) => 0,
        (_, _, Some(signal)) => signal.saturating_add(128),
        // A script may end with 0 when it is told to, and has failed all the same.
        (_, None | Some(0), None) => 1,
        (_, Some(code), None) => code,
    }
}
