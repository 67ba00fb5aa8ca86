//! Resource limits of this process, which its children inherit.

use crate::error::{Doing, Result};
use nix::sys::resource::{RLIM_INFINITY, Resource as Raw, getrlimit, setrlimit};

/// The limits that ax sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Size of a core dump, bytes.
    Core,
    /// Memory that may be locked, bytes.
    LockedMemory,
    /// One more than the highest descriptor.
    OpenFiles,
    /// Processes of the user.
    Processes,
    /// Stack of the first thread, bytes.
    Stack,
    /// Address space, bytes.
    AddressSpace,
    /// Size of a file, bytes.
    FileSize,
    /// CPU time, seconds.
    Cpu,
}

/// A soft and a hard limit; `None` is "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The limit that holds now.
    pub soft: Option<u64>,
    /// How far a process may raise it itself.
    pub hard: Option<u64>,
}

/// Reads a limit.
///
/// # Errors
/// Never on supported kernels.
pub fn limit(resource: Resource) -> Result<Limit> {
    let (soft, hard) = getrlimit(raw(resource)).doing("read the limit of", format_args!("{resource:?}"))?;
    let finite = |value| (value != RLIM_INFINITY).then_some(value);
    Ok(Limit { soft: finite(soft), hard: finite(hard) })
}

/// Sets a limit. Raising a hard limit needs root.
///
/// # Errors
/// EPERM, and EINVAL for a soft limit above the hard one.
pub fn set_limit(resource: Resource, limit: Limit) -> Result<()> {
    let number = |value: Option<u64>| value.unwrap_or(RLIM_INFINITY);
    setrlimit(raw(resource), number(limit.soft), number(limit.hard))
        .doing("set the limit of", format_args!("{resource:?}"))
}

/// Sets the limits with which a user's program begins, as in a session of systemd: descriptors that select(2) can
/// take, to be raised as far as the machine allows; no core dumps unless it asks for them; the usual OOM score, so
/// that our protection is not inherited. Everything else stays as it is.
///
/// # Errors
/// Only without `/proc`.
pub fn begin_as_a_session() -> Result<()> {
    let lower = |resource, most: u64| {
        let now = limit(resource)?;
        let soft = Some(now.soft.map_or(most, |soft| soft.min(most)));
        set_limit(resource, Limit { soft, hard: now.hard })
    };
    lower(Resource::Core, 0)?;
    lower(Resource::OpenFiles, 1024)?;
    super::set_oom_score_adj(0)
}

fn raw(resource: Resource) -> Raw {
    match resource {
        Resource::Core => Raw::RLIMIT_CORE,
        Resource::LockedMemory => Raw::RLIMIT_MEMLOCK,
        Resource::OpenFiles => Raw::RLIMIT_NOFILE,
        Resource::Processes => Raw::RLIMIT_NPROC,
        Resource::Stack => Raw::RLIMIT_STACK,
        Resource::AddressSpace => Raw::RLIMIT_AS,
        Resource::FileSize => Raw::RLIMIT_FSIZE,
        Resource::Cpu => Raw::RLIMIT_CPU,
    }
}
