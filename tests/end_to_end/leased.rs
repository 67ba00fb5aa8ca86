//! A file whose exec waits, as one on a server that does not answer: somebody holds a lease on it and does not hear that
//! it is wanted. The kernel takes it away after `/proc/sys/fs/lease-break-time` seconds, 45 usually.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const HOLDS: &str = "
import fcntl, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
time.sleep(600)
";

pub(crate) struct Leased {
    holder: Child,
    inode: String,
}

impl Leased {
    pub(crate) fn new(file: &Path) -> Leased {
        let inode = format!(":{} ", std::fs::metadata(file).unwrap().ino());
        let mut holder = Command::new("python3").args(["-c", HOLDS]).arg(file).spawn().unwrap();
        while !shows(&inode, "ACTIVE") {
            assert!(holder.try_wait().unwrap().is_none(), "no lease");
            std::thread::sleep(Duration::from_millis(10));
        }
        Leased { holder, inode }
    }

    /// Whether somebody has waited for it, and nobody has got it.
    pub(crate) fn is_wanted(&self) -> bool {
        shows(&self.inode, "BREAKING")
    }
}

fn shows(inode: &str, state: &str) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let mut leases = locks.lines().filter(|line| line.contains(" LEASE ") && line.contains(inode));
    leases.any(|line| line.contains(state))
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
