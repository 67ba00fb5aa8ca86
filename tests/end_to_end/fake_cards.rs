//! Cards for machines without any: a library that plays NVIDIA's, driven by a text file that a test writes and changes
//! while the daemon runs (tests/fake-nvml/README.md).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::cluster::Cluster;

/// Two cards of 80 GiB with four lanes between them.
pub(crate) const TWO: &str = "\
card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 reserved=600 temp=34 power=61000 load=0 ecc=0 rows=0,0,0,0
card GPU-bbbb name=NVIDIA_A100-SXM4-80GB minor=0 pci=00000000:86:00.0 memory=81920 reserved=600 temp=35 power=62000 load=0 ecc=0 rows=0,0,0,0
link GPU-aaaa GPU-bbbb 4
";

/// The library and its script, in the world of a daemon.
pub(crate) struct FakeCards {
    /// What `paths.nvml` is to be.
    pub(crate) library: PathBuf,
    script: PathBuf,
}

impl FakeCards {
    /// Puts a library with this script into the world.
    pub(crate) fn new(cluster: &Cluster, script: &str) -> FakeCards {
        let library = cluster.root.join("libnvidia-ml.so.1");
        symlink(built(), &library).unwrap();
        let fake = FakeCards { script: library.with_added_extension("txt"), library };
        fake.set(script);
        fs::set_permissions(&fake.script, fs::Permissions::from_mode(0o666)).unwrap();
        fake
    }

    /// The same library without these functions, as older drivers have it.
    pub(crate) fn without(self, functions: &[&str]) -> FakeCards {
        let mut bytes = fs::read(built()).unwrap();
        for function in functions {
            let name = [b"\0", function.as_bytes(), b"\0"].concat();
            let places: Vec<usize> =
                bytes.windows(name.len()).enumerate().filter(|(_, w)| *w == name).map(|(at, _)| at).collect();
            assert!(!places.is_empty(), "the library has no {function}");
            places.iter().for_each(|at| bytes[at + 1] = b'X');
        }
        fs::remove_file(&self.library).unwrap();
        fs::write(&self.library, bytes).unwrap();
        self
    }

    /// The line of the configuration that names the library.
    pub(crate) fn config(&self) -> String {
        format!("paths:\n  nvml: {}\n", self.library.display())
    }

    /// Replaces the script, whole.
    pub(crate) fn set(&self, script: &str) {
        let new = self.script.with_added_extension("new");
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).unwrap();
        fs::rename(new, &self.script).unwrap();
    }

    /// Adds lines to the script.
    pub(crate) fn add(&self, lines: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(&self.script).unwrap();
        file.write_all(format!("{lines}\n").as_bytes()).unwrap();
    }

    /// Where the script is: jobs may add lines about themselves.
    pub(crate) fn script(&self) -> &Path {
        &self.script
    }

    /// What the library has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.script.with_added_extension("log")).unwrap_or_default()
    }
}

/// The library as it was built with the tests.
fn built() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_axd")).parent().unwrap();
    let library = programs.join("deps/libfake_nvml.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}
