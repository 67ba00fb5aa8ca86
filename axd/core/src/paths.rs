//! Where all files lie. Pure text: nothing here looks at a file system. A root puts everything under one folder;
//! without one, an ordinary user's daemon uses the XDG folders.

use std::path::{Path, PathBuf};

use crate::id::AttemptName;

/// The places of one daemon and its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Configuration file; may be absent.
    pub config: PathBuf,
    /// The spool.
    pub spool: PathBuf,
    /// Socket, leases, live attempts; gone at reboot.
    pub run: PathBuf,
    /// Database and what must outlive a reboot.
    pub state: PathBuf,
    /// Log file.
    pub log: PathBuf,
}

impl Paths {
    /// The system's daemon.
    pub fn system() -> Paths {
        Paths::under(Path::new("/"))
    }

    /// Everything under a folder, for tests and trials.
    pub fn under(root: &Path) -> Paths {
        Paths {
            config: root.join("etc/ax/config.yaml"),
            spool: root.join("var/spool/ax"),
            run: root.join("run/ax"),
            state: root.join("var/lib/ax"),
            log: root.join("var/log/ax-controller.log"),
        }
    }

    /// An ordinary user's own daemon: `$XDG_CONFIG_HOME`, `$XDG_STATE_HOME`, `$XDG_RUNTIME_DIR`.
    pub fn of_user(config_home: &Path, state_home: &Path, runtime: &Path) -> Paths {
        let state = state_home.join("ax");
        Paths {
            config: config_home.join("ax/config.yaml"),
            spool: state.join("spool"),
            run: runtime.join("ax"),
            log: state.join("controller.log"),
            state,
        }
    }

    /// The local socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join("axd.sock")
    }

    /// The database of jobs.
    pub fn database(&self) -> PathBuf {
        self.state.join("ax.db")
    }

    /// The ring of recorded events.
    pub fn events(&self) -> PathBuf {
        self.state.join("events.db")
    }

    /// What was seen of cards and jobs over time.
    pub fn samples(&self) -> PathBuf {
        self.state.join("samples.db")
    }

    /// 16 MiB held in reserve for a full disk.
    pub fn reserve(&self) -> PathBuf {
        self.state.join("reserve")
    }

    /// Where users drop submissions.
    pub fn incoming(&self) -> PathBuf {
        self.spool.join("incoming")
    }

    /// Drops that are being taken, each as `<key>.<uid>.<its name>`; root's alone.
    pub fn taken(&self) -> PathBuf {
        self.spool.join("taken")
    }

    /// What could not be taken, by user, each with a `.why`.
    pub fn refused(&self) -> PathBuf {
        self.spool.join("refused")
    }

    /// High-water marks of job number, epoch and term.
    pub fn high(&self) -> PathBuf {
        self.spool.join("high")
    }

    /// One attempt's folder in the spool; the user's part is `work` in it.
    pub fn epoch_dir(&self, attempt: AttemptName) -> PathBuf {
        let job = self.spool.join("jobs").join(attempt.bucket()).join(attempt.job.to_string());
        job.join(attempt.epoch.to_string())
    }

    /// The attempt's own folder for the user.
    pub fn work_dir(&self, attempt: AttemptName) -> PathBuf {
        self.epoch_dir(attempt).join("work")
    }

    /// Leases of attempts.
    pub fn leases(&self) -> PathBuf {
        self.run.join("leases")
    }

    /// What this node does, by attempt: `assignment`, `started`, `result`; root's.
    pub fn attempts(&self) -> PathBuf {
        self.run.join("attempts")
    }

    /// One attempt's folder in `attempts`.
    pub fn attempt_dir(&self, attempt: AttemptName) -> PathBuf {
        self.attempts().join(attempt.to_string())
    }

    /// The same, as long as it is not complete.
    pub fn half_made(&self, attempt: AttemptName) -> PathBuf {
        self.attempts().join(format!(".{attempt}"))
    }

    /// Script and control socket of an attempt, the user's.
    pub fn job_dir(&self, attempt: AttemptName) -> PathBuf {
        self.run.join("jobs").join(attempt.to_string())
    }

    /// The script as it runs.
    pub fn script(&self, attempt: AttemptName) -> PathBuf {
        self.job_dir(attempt).join("script")
    }

    /// The supervisor's control socket for the job's user, who owns its folder.
    pub fn control(&self, attempt: AttemptName) -> PathBuf {
        self.job_dir(attempt).join("ctl")
    }

    /// The MPS daemons of cards; root's, to be passed through.
    pub fn mps(&self) -> PathBuf {
        self.run.join("mps")
    }

    /// That of one card. Its UUID comes from a driver.
    pub fn mps_of(&self, card: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        self.mps().join(card.chars().map(plain).collect::<String>())
    }

    /// The guard's shared words (fence, last renewal).
    pub fn guard(&self) -> PathBuf {
        self.run.join("guard")
    }

    /// Name of this daemon's group of control groups: two daemons of a
    /// machine never meet. FNV-1a of the run folder's path, 8 hex digits.
    pub fn cgroup_name(&self) -> String {
        let bytes = self.run.as_os_str().as_encoded_bytes();
        let hash = bytes.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
        format!("ax-{hash:08x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_paths_are_those_of_the_contract() {
        let paths = Paths::system();
        let attempt: AttemptName = "ax-2026-0300.17".parse().unwrap();
        assert_eq!(paths.socket(), Path::new("/run/ax/axd.sock"));
        assert_eq!(paths.config, Path::new("/etc/ax/config.yaml"));
        assert_eq!(paths.work_dir(attempt), Path::new("/var/spool/ax/jobs/044/ax-2026-0300/17/work"));
        assert_eq!(paths.script(attempt), Path::new("/run/ax/jobs/ax-2026-0300.17/script"));
        assert_eq!(paths.log, Path::new("/var/log/ax-controller.log"));
        assert_ne!(paths.cgroup_name(), Paths::under(Path::new("/tmp/x")).cgroup_name());
    }
}
