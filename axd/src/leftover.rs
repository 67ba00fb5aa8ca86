//! Ends processes that attempts left on cards after their end. A process is ended only if it is the very one that was
//! seen, and is in the group of an attempt that is over; all others are never touched. May block, so it runs on a
//! thread of its own.

use ax_core::gpu::leaving::Leftover;
use ax_core::id::AttemptName;
use ax_sys::SysError;
use ax_sys::cgroup::Containment;
use ax_sys::pidfd::{PidFd, ProcessIdentity};
use ax_sys::signals::Signal;
use thiserror::Error;

/// Ends it. Returns whether it was there and ours. `parents` are the places of attempts' groups, as records name
/// them.
pub(crate) fn end(parents: &[String], left: &Leftover) -> Result<bool, LeftoverError> {
    let (pid, attempt) = (left.pid, left.attempt);
    end_if_ours(parents, left).map_err(|source| LeftoverError { pid, attempt, source })
}

/// Why such a process is not known to be ended.
#[derive(Debug, Error)]
#[error("ending pid {pid} of {attempt}: {source}")]
pub(crate) struct LeftoverError {
    pid: i32,
    attempt: AttemptName,
    source: SysError,
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
    use ax_sys::cgroup::{Base, Hierarchy, JobGroup, Limits, Place};

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

    /// In the very group, but begun at another time: the number was given again.
    #[test]
    fn who_has_the_number_of_a_left_over_is_not_it_as_root() {
        let hierarchy = Hierarchy::detect().unwrap();
        let name = format!("ax-test-{}", ax_sys::random::name().unwrap());
        let place = Place::new(Base::Root, name).unwrap();
        if ax_sys::credentials::own().0 != 0 || !place.is_usable(&hierarchy) {
            eprintln!("skipped: needs root and control groups");
            return;
        }
        place.prepare(&hierarchy).unwrap();
        let attempt: AttemptName = "ax-2026-0007.3".parse().unwrap();
        let group = JobGroup::create(&hierarchy, &place, &attempt.to_string(), &Limits::default()).unwrap();
        let record = group.to_record();
        let parents: Vec<String> =
            record.iter().map(|line| line.strip_suffix(&format!("/{attempt}")).unwrap().to_owned()).collect();
        let mut process = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        for line in &record {
            let (_, folder) = line.split_once(':').unwrap();
            std::fs::write(format!("{folder}/cgroup.procs"), process.id().to_string()).unwrap();
        }
        let pid = i32::try_from(process.id()).unwrap();
        let start_ticks = ProcessIdentity::read(pid).unwrap().unwrap().start_ticks;
        let left = Leftover { pid, start_ticks, attempt, card: "GPU-a".to_owned() };
        let reused = end(&parents, &Leftover { start_ticks: start_ticks + 1, ..left.clone() });
        let lives = process.try_wait().unwrap().is_none();
        let itself = end(&parents, &left);
        process.kill().unwrap();
        process.wait().unwrap();
        let gone = group.kill_until_empty(std::time::Duration::from_secs(10));
        let removed = group.remove();
        place.clear(&hierarchy);
        assert!(lives, "{gone:?} {removed:?}");
        assert_eq!((reused.unwrap(), itself.unwrap()), (false, true), "{gone:?} {removed:?}");
    }
}
