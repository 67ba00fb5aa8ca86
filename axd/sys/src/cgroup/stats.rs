//! What a job has used. A figure is `None` if the kernel or a missing controller does not give it.

use super::files;
use super::group::JobGroup;
use super::hierarchy::Controller;
use crate::error::Result;

/// The figures of one job since its groups were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// CPU time of all processes, those that ended included, microseconds.
    pub cpu_usec: Option<u64>,
    /// Memory in use now, bytes, with the page cache it is charged for.
    pub memory_bytes: Option<u64>,
    /// The peak, bytes. `None` in v2 before Linux 5.19: keep the largest `memory_bytes` yourself.
    pub memory_peak_bytes: Option<u64>,
    /// Processes that the kernel killed because the job was out of memory.
    pub oom_kills: Option<u64>,
    /// Tasks now.
    pub tasks: Option<u64>,
    /// How often a fork was refused by the limit of tasks.
    pub forks_refused: Option<u64>,
}

impl JobGroup {
    /// Reads the figures.
    ///
    /// # Errors
    /// When a file is there and can't be read.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.used()?;
        if let Some(dir) = self.v1_dir(Controller::Memory) {
            stats.memory_bytes = files::read_number(&dir.join("memory.usage_in_bytes"))?;
        } else if let Some(dir) = &self.unified {
            stats.memory_bytes = files::read_number(&dir.join("memory.current"))?;
        }
        if let Some(dir) = self.v1_dir(Controller::Pids).or(self.unified.as_deref()) {
            stats.tasks = files::read_number(&dir.join("pids.current"))?;
            stats.forks_refused = files::read_key(&dir.join("pids.events"), "max")?;
        }
        Ok(stats)
    }

    /// Reads only the figures that accounts need: enough for a job that has ended.
    ///
    /// # Errors
    /// As [`JobGroup::stats`].
    pub fn used(&self) -> Result<Stats> {
        let mut stats = Stats { cpu_usec: self.cpu_usec()?, ..Stats::default() };
        if let Some(dir) = self.v1_dir(Controller::Memory) {
            stats.memory_peak_bytes = files::read_number(&dir.join("memory.max_usage_in_bytes"))?;
            stats.oom_kills = files::read_key(&dir.join("memory.oom_control"), "oom_kill")?;
        } else if let Some(dir) = &self.unified {
            stats.memory_peak_bytes = files::read_number(&dir.join("memory.peak"))?;
            stats.oom_kills = files::read_key(&dir.join("memory.events"), "oom_kill")?;
        }
        Ok(stats)
    }

    /// The unified tree counts CPU time without any controller; v1 counts in `cpuacct`, in nanoseconds.
    fn cpu_usec(&self) -> Result<Option<u64>> {
        if let Some(dir) = &self.unified {
            return files::read_key(&dir.join("cpu.stat"), "usage_usec");
        }
        let Some(dir) = self.v1_dir(Controller::Cpuacct) else { return Ok(None) };
        Ok(files::read_number(&dir.join("cpuacct.usage"))?.map(|nanoseconds| nanoseconds / 1000))
    }
}
