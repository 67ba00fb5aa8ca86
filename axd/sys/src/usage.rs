//! What the children of this process have used, in all.

use crate::error::{Doing, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// CPU time of all children that have been reaped, and of theirs, in microseconds.
///
/// # Errors
/// Never on supported kernels.
pub fn children_cpu_us() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).doing("ask for", "the usage of children")?;
    let sum = usage.user_time().num_microseconds().saturating_add(usage.system_time().num_microseconds());
    Ok(sum.unsigned_abs())
}
