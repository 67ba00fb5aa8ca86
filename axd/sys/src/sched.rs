//! What this machine has: CPUs, memory, a name.

use std::collections::BTreeMap;

use crate::error::{Doing, Result, SysError, check};

const NUMA: &str = "/sys/devices/system/node";

/// The CPUs that this process may use, in rising order.
///
/// # Errors
/// Never on supported kernels.
pub fn allowed_cpus() -> Result<Vec<u32>> {
    let own = nix::unistd::Pid::from_raw(0);
    let set = nix::sched::sched_getaffinity(own).doing("read", "the CPUs of this process")?;
    let numbers = (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false));
    Ok(numbers.filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// The NUMA node of each CPU, as far as the kernel says; empty on a machine without such nodes.
pub fn numa_nodes() -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    let folders = std::fs::read_dir(NUMA).into_iter().flatten().flatten();
    for folder in folders {
        let name = folder.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse::<u32>().ok());
        let cpus = std::fs::read_to_string(folder.path().join("cpulist")).ok();
        let (Some(number), Some(cpus)) = (number, cpus.as_deref().and_then(parse_cpu_list)) else { continue };
        nodes.extend(cpus.into_iter().map(|cpu| (cpu, number)));
    }
    nodes
}

/// Memory of the machine in bytes, as the kernel manages it.
///
/// # Errors
/// Never on supported kernels.
pub fn memory_bytes() -> Result<u64> {
    // SAFETY: all zeroes is a valid sysinfo.
    let mut info: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a valid place for the answer.
    check(unsafe { libc::sysinfo(&mut info) }).doing("ask for", "the memory of this machine")?;
    Ok(info.totalram.saturating_mul(u64::from(info.mem_unit)))
}

/// The name of this machine: short, without its domain, in lower case.
///
/// # Errors
/// When it is not text.
pub fn host_name() -> Result<String> {
    let full = nix::unistd::gethostname().doing("ask for", "the host name")?;
    let text = full.to_str().ok_or_else(|| SysError::found("use", "the host name", "it is not text"))?;
    Ok(text.split('.').next().unwrap_or_default().to_ascii_lowercase())
}

/// Reads the kernel's list form (`0-3,7`), in rising order without doubles; `None` if it is malformed.
pub fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    /// No machine has more; a list must not make us allocate without end.
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Writes the kernel's list form: `[0, 1, 2, 7]` is `0-2,7`. The CPUs must be in rising order.
pub fn format_cpu_list(cpus: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in cpus.chunk_by(|before, after| before.checked_add(1) == Some(*after)) {
        match run {
            [single] => parts.push(single.to_string()),
            [first, .., last] => parts.push(format!("{first}-{last}")),
            [] => {}
        }
    }
    parts.join(",")
}
