//! `axctl stop`: ends the daemon, and its jobs if asked to. Returns when its process is gone, so that what follows in a
//! script (an upgrade, a shutdown) finds nothing of it.

use std::time::Duration;

use ax_core::api::{DaemonView, ErrorClass, StopAnswer, StopRequest};
use ax_core::text::count;
use ax_sys::pidfd::PidFd;

use crate::client::Client;
use crate::failure::Failure;
use crate::world::World;

/// A daemon that ends no jobs has only to close its database.
const WITHOUT_JOBS: Duration = Duration::from_secs(60);
/// One look of a wait that has no end of its own: jobs have their grace periods.
const WITH_JOBS: Duration = Duration::from_secs(3600);

/// Asks, and waits until the daemon is down.
pub(crate) fn run(client: &Client, jobs: bool, world: &mut World<'_>) -> Result<u8, Failure> {
    // Held before it is asked to go: afterwards its number may be another's.
    let daemon: DaemonView = client.get("/api/v1/status")?;
    let process = i32::try_from(daemon.pid).ok().map(PidFd::open).transpose().map_err(system)?;
    let answer: StopAnswer = client.post("/api/v1/stop", &StopRequest { jobs })?;
    let process = process.filter(|_| answer.pid == daemon.pid).ok_or_else(another)?;
    if jobs {
        let running = count(answer.ending.len() as u64, "running job");
        world.remark("axctl", &format!("ending {running}; what waits stays in the queue"));
    }
    let ended = match jobs {
        true => loop {
            if process.wait_ended(WITH_JOBS).map_err(system)? {
                break true;
            }
        },
        false => process.wait_ended(WITHOUT_JOBS).map_err(system)?,
    };
    if !ended {
        let seconds = WITHOUT_JOBS.as_secs();
        let line = format!("axd (process {}) was told to stop {seconds} s ago and still runs", answer.pid);
        return Err(Failure::said(ErrorClass::TryAgain, line));
    }
    Ok(0)
}

fn system(error: ax_sys::SysError) -> Failure {
    Failure::said(ErrorClass::Unavailable, error.to_string())
}

fn another() -> Failure {
    let line = "another daemon answered in between: it was told to stop, and may be stopping still";
    Failure::said(ErrorClass::TryAgain, line)
}
