//! What an ordinary user can mount on a folder of his own to hold up whoever looks there.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A file system of a user's that takes every question and answers none: who asks it can't even be killed.
pub(crate) struct Never(Child);

const NEVER: &str = "
import ctypes, os, struct, sys
fd = os.open('/dev/fuse', os.O_RDWR)
words = b'fd=%d,rootmode=40000,user_id=2,group_id=2,allow_other' % fd
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b'never', sys.argv[1].encode(), b'fuse', 6, words) != 0:
    sys.exit('mount: ' + os.strerror(ctypes.get_errno()))
unique = struct.unpack('<IIQ', os.read(fd, 1 << 17)[:16])[2]
os.write(fd, struct.pack('<IiQ', 80, 0, unique) + struct.pack('<IIIIHHIIHHI28x', 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0))
while True:
    os.read(fd, 1 << 17)
";

impl Never {
    /// Whether there can be one here; says so.
    pub(crate) fn is_possible() -> bool {
        let possible = Path::new("/dev/fuse").exists() && Path::new("/usr/bin/python3").exists();
        if !possible {
            eprintln!("skipped: needs FUSE and python3");
        }
        possible
    }

    /// Mounted there.
    pub(crate) fn at(place: &Path) -> Never {
        let mut python = Command::new("/usr/bin/python3");
        let never = Never(python.args(["-c", NEVER]).arg(place).stdin(Stdio::null()).spawn().unwrap());
        let line = format!("never {} ", place.display().to_string().trim_end_matches('/'));
        for _ in 0..6000 {
            if std::fs::read_to_string("/proc/self/mounts").unwrap().contains(&line) {
                return never;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("waited in vain for a file system on {}", place.display());
    }
}

impl Drop for Never {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
