//! Whose numbers of processes we see.

use std::os::unix::fs::MetadataExt;

/// The inode of the first of all namespaces of process numbers: `PID_NS_INIT_INO` of `linux/nsfs.h`, before that
/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`, the same since Linux 3.8.
const FIRST: u64 = 0xEFFF_FFFC;

/// False in a container with process numbers of its own: what others say of processes by the machine's numbers may be
/// said of another process here.
pub fn has_the_machines_numbers() -> bool {
    std::fs::metadata("/proc/self/ns/pid").map_or(true, |own| own.ino() == FIRST)
}
