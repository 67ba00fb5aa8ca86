//! Ends processes that attempts left on cards after their end. A process is ended only if it is the very one that was
//! seen, and is in the group of an attempt that is over; all others are never touched. May block, so it runs on a
//! thread of its own.

use ax_core::gpu::leaving::Leftover;
use ax_sys::SysError;
use ax_sys::cgroup::Containment;
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::signals::Signal;

/// Ends it. Returns whether it was there and ours. `parents` are the places of attempts' groups, as records name
/// them.
pub(crate) fn end(parents: &[String], left: &Leftover) -> Result<bool, String> {
    end_if_ours(parents, left)
        .map_err(|error| format!("ending pid {} of {}: {error}", left.pid, left.attempt))
}

fn end_if_ours(parents: &[String], left: &Leftover) -> Result<bool, SysError> {
    let identity = ProcessIdentity { pid: left.pid, start_ticks: left.start_ticks };
    // Held by descriptor first: what is found out from here on is about this process, and the signal reaches no
    // other.
    let Some(process) = PidFd::open_checked(identity)? else { return Ok(false) };
    let groups: Vec<String> = parents.iter().map(|parent| format!("{parent}/{}", left.attempt)).collect();
    if groups.is_empty() || !Containment::from_record(&groups)?.pids()?.contains(&left.pid) {
        return Ok(false);
    }
    process.send_signal(Signal::KILL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_not_touched_whatever_is_said_of_them() {
        let mut stranger = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(stranger.id()).unwrap();
        let start_ticks = ProcessIdentity::read(pid).unwrap().unwrap().start_ticks;
        let attempt = "ax-2026-0007.3".parse().unwrap();
        let left = Leftover { pid, start_ticks, attempt, card: "GPU-a".to_owned() };
        let reused = Leftover { start_ticks: start_ticks + 1, ..left.clone() };
        let ended = [
            end(&[], &left),
            end(&["unified:/sys/fs/cgroup/nowhere".to_owned()], &left),
            end(&["unified:/sys/fs/cgroup/nowhere".to_owned()], &reused),
        ];
        let lives = stranger.try_wait().unwrap().is_none();
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert!(lives, "{ended:?}");
        assert!(ended.iter().all(|ended| !matches!(ended, Ok(true))), "{ended:?}");
    }
}
