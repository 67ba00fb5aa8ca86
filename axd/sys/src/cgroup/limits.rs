//! What a job may use, written to its groups in the words of v1 and v2.

use super::files;
use super::hierarchy::Controller;
use super::place::{CPUSET, fill_cpuset};
use crate::error::Result;
use std::path::Path;

/// A share of CPU time that is never exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds of CPU time, of all CPUs together, in each period.
    pub quota_us: u64,
    /// Length of a period in microseconds, 1,000 to 1,000,000.
    pub period_us: u64,
}

/// The limits of one job; `None` is "no limit", and no group is made for a controller that is not needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes.
    pub memory_max: Option<u64>,
    /// Swap in bytes, on top of the memory. In v1 only together with `memory_max`.
    pub swap_max: Option<u64>,
    /// Tasks (threads included).
    pub pids_max: Option<u64>,
    /// CPUs in the kernel's list form, `0-3,7`.
    pub cpus: Option<String>,
    /// Weight of CPU time against siblings, 1 to 10,000; 100 is usual.
    pub cpu_weight: Option<u64>,
    /// Upper bound of CPU time.
    pub cpu_quota: Option<CpuQuota>,
    /// On a machine with v1 only: make a group for [`super::device_filter`]. Elsewhere none is needed.
    pub devices: bool,
}

impl Limits {
    /// True if the job needs a group of this controller.
    pub(super) fn want(&self, controller: Controller, legacy: bool) -> bool {
        match controller {
            // Always: it counts the peak, and the processes killed for memory.
            Controller::Memory => true,
            Controller::Cpuset => self.cpus.is_some(),
            Controller::Pids => self.pids_max.is_some(),
            Controller::Cpu => self.cpu_weight.is_some() || self.cpu_quota.is_some(),
            // The unified tree freezes, and counts CPU time, by itself.
            Controller::Cpuacct | Controller::Freezer => legacy,
            Controller::Devices => legacy && self.devices,
        }
    }

    /// Writes the limits of one controller to a v2 group.
    pub(super) fn write_unified(&self, controller: Controller, group: &Path) -> Result<()> {
        let put = |file: &str, value: Option<String>| match value {
            Some(value) => files::write(&group.join(file), &value),
            None => Ok(()),
        };
        match controller {
            Controller::Memory => {
                put("memory.max", self.memory_max.map(|bytes| bytes.to_string()))?;
                // Absent if the kernel does not account swap: then there is nothing to limit.
                if files::read(&group.join("memory.swap.max"))?.is_some() {
                    put("memory.swap.max", self.swap_max.map(|bytes| bytes.to_string()))?;
                }
                Ok(())
            }
            Controller::Cpuset => put("cpuset.cpus", self.cpus.clone()),
            Controller::Pids => put("pids.max", self.pids_max.map(|count| count.to_string())),
            Controller::Cpu => {
                put("cpu.weight", self.cpu_weight.map(|weight| weight.clamp(1, 10_000).to_string()))?;
                put("cpu.max", self.cpu_quota.map(|quota| format!("{} {}", quota.quota_us, quota.period_us)))
            }
            Controller::Cpuacct | Controller::Freezer | Controller::Devices => Ok(()),
        }
    }

    /// Writes the limits of one controller to a v1 group.
    pub(super) fn write_v1(&self, controller: Controller, group: &Path) -> Result<()> {
        match controller {
            Controller::Memory => self.write_v1_memory(group),
            Controller::Cpuset => {
                let [mems, _] = CPUSET;
                match &self.cpus {
                    Some(cpus) => {
                        files::write(&group.join("cpuset.cpus"), cpus)?;
                        fill_cpuset(group, &[mems])
                    }
                    None => fill_cpuset(group, &CPUSET),
                }
            }
            Controller::Pids => match self.pids_max {
                Some(count) => files::write(&group.join("pids.max"), &count.to_string()),
                None => Ok(()),
            },
            Controller::Cpu => self.write_v1_cpu(group),
            Controller::Cpuacct | Controller::Freezer | Controller::Devices => Ok(()),
        }
    }

    fn write_v1_memory(&self, group: &Path) -> Result<()> {
        let Some(memory) = self.memory_max else { return Ok(()) };
        let file = group.join("memory.limit_in_bytes");
        let both = group.join("memory.memsw.limit_in_bytes");
        // In v1 the second limit covers memory and swap together; it is absent if swap is not accounted.
        let sum = self.swap_max.map(|swap| memory.saturating_add(swap).min(i64::MAX as u64));
        let sum = if both.exists() { sum } else { None };
        let first = files::write(&file, &memory.to_string());
        if let Some(sum) = sum {
            files::write(&both, &sum.to_string())?;
        }
        // Memory may never exceed the sum: to raise the limits, the sum must be written first.
        if first.is_err() && sum.is_some() { files::write(&file, &memory.to_string()) } else { first }
    }

    fn write_v1_cpu(&self, group: &Path) -> Result<()> {
        if let Some(weight) = self.cpu_weight {
            // 100 is 1024 there.
            let shares = (weight.clamp(1, 10_000) * 1024 / 100).max(2);
            files::write(&group.join("cpu.shares"), &shares.to_string())?;
        }
        if let Some(quota) = self.cpu_quota {
            files::write(&group.join("cpu.cfs_period_us"), &quota.period_us.to_string())?;
            files::write(&group.join("cpu.cfs_quota_us"), &quota.quota_us.to_string())?;
        }
        Ok(())
    }
}
