//! What the tests of several crates share: a folder that goes with its test, and waiting for what must come. Knows
//! nothing of ax.

use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// How long a loaded machine may take for what must come.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A new folder, removed with all that is in it when the test is over.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Where the system has temporary files.
    #[expect(clippy::new_without_default, reason = "it makes something on the disk")]
    pub fn new() -> TempDir {
        TempDir::below(&env::temp_dir())
    }

    /// In another folder.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn below(parent: &Path) -> TempDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let path = parent.join(format!("ax-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            match fs::create_dir(&path) {
                Ok(()) => return TempDir(path),
                // Process numbers come round again: a test that was killed may have left one of that name.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => panic!("making {}: {error}", path.display()),
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Deref for TempDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TempDir {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is so.
///
/// # Panics
/// If it does not come to be so, naming it.
pub fn wait_for(what: &str, fact: impl FnMut() -> bool) {
    wait_at_most(PATIENCE, what, fact);
}

/// The same with another patience.
///
/// # Panics
/// If it does not come to be so, naming it.
pub fn wait_at_most(patience: Duration, what: &str, mut fact: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !fact() {
        assert!(Instant::now() < end, "waited in vain for: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
