//! The two clocks of ax and the identity of this boot.
//! Deadlines use the boot clock, which goes on while the machine sleeps; records for people use the wall
//! clock. Nothing here sleeps or waits.

use crate::error::{Doing, Result};
use crate::kernel_file;
use std::sync::OnceLock;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Milliseconds since boot, suspended time included. Never goes back.
pub fn boot_ms() -> u64 {
    read_ms(libc::CLOCK_BOOTTIME).unsigned_abs()
}

/// Milliseconds since 1970 in UTC. May jump either way.
pub fn wall_ms() -> i64 {
    read_ms(libc::CLOCK_REALTIME)
}

/// True if files that change from now on get a later time stamp than this one, in seconds and nanoseconds since 1970.
/// File systems of this machine take it from a clock that moves every few milliseconds.
pub fn stamps_are_past(seconds: i64, nanoseconds: i64) -> bool {
    let now = read(libc::CLOCK_REALTIME_COARSE);
    // A stamp without fractions comes from a file system that has none, or once in ten million times.
    nanoseconds != 0 && (now.tv_sec, now.tv_nsec) > (seconds, nanoseconds)
}

/// The kernel's random name of this boot, as text in lower case with dashes.
///
/// # Errors
/// Only where `/proc` is not mounted.
pub fn boot_id() -> Result<String> {
    // A process does not outlive its boot, nor do those that it forks.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let text = kernel_file::read_text(BOOT_ID).doing("read", BOOT_ID)?;
    Ok(KNOWN.get_or_init(|| text.trim().to_owned()).clone())
}

fn read_ms(clock: libc::clockid_t) -> i64 {
    let now = read(clock);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer. The call can't fail for these three clocks, which every
    // kernel since 2.6.39 has, so its return value says nothing.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}

/// How many seconds the caller's zone (`TZ`, else the system's) is east of Greenwich at a time, by the C library.
/// For programs that shall not carry tables of zones of their own. `None` where the time has no date there.
pub fn zone_offset_s(wall_ms: i64) -> Option<i64> {
    let seconds: libc::time_t = wall_ms.div_euclid(1000);
    // SAFETY: all zeroes, the null pointer of the zone's name included, is a valid value of this structure.
    let mut date: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for the call, which writes to the second alone. It reads the environment, as all of
    // the standard library's callers of libc may; no program of ours changes its own.
    let found = unsafe { libc::localtime_r(&seconds, &mut date) };
    (!found.is_null()).then_some(date.tm_gmtoff)
}
