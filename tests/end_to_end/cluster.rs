//! A daemon of a test's own: its root, its users, its commands. Everything that
//! it left behind is ended and removed when it is dropped.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Long enough for any machine; passing tests never wait for it.
pub(crate) const PATIENCE: Duration = match option_env!("AX_TEST_SHORT_PATIENCE") {
    // When something is broken on purpose, most tests notice by waiting in vain.
    Some(_) => Duration::from_secs(20),
    None => Duration::from_secs(60),
};

/// Accounts of Debian's that every machine has: submitters in the tests.
pub(crate) const ALICE: User = User { name: "daemon", uid: 1, gid: 1 };
/// Somebody else.
pub(crate) const BOB: User = User { name: "bin", uid: 2, gid: 2 };
/// The super-user.
pub(crate) const ROOT: User = User { name: "root", uid: 0, gid: 0 };

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: &'static str,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A daemon and its world.
pub(crate) struct Cluster {
    pub(crate) root: PathBuf,
    /// The daemon's program; its supervisor lies beside it.
    pub(crate) axd: PathBuf,
    /// Words before it: what it is started by.
    pub(crate) wrapper: Vec<String>,
    environment: Vec<(String, String)>,
    daemon: Option<Child>,
}

/// Whether the tests that need root can be had; says so if not.
pub(crate) fn as_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

impl Cluster {
    /// A world without configuration, its daemon running.
    pub(crate) fn new() -> Cluster {
        Cluster::with_config("")
    }

    /// A world with this configuration (empty: none), its daemon running.
    pub(crate) fn with_config(config: &str) -> Cluster {
        let mut cluster = Cluster::stopped(config);
        cluster.start();
        cluster
    }

    /// A world whose daemon was not started yet.
    pub(crate) fn stopped(config: &str) -> Cluster {
        let root = new_root();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let axd = PathBuf::from(env!("CARGO_BIN_EXE_axd"));
        let cluster = Cluster { root, axd, wrapper: Vec::new(), environment: Vec::new(), daemon: None };
        for user in [ALICE, BOB, ROOT] {
            let home = cluster.home(user);
            fs::create_dir_all(&home).unwrap();
            fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
            if as_root_quietly() {
                chown(&home, Some(user.uid), Some(user.gid)).unwrap();
            }
        }
        if !config.is_empty() {
            cluster.configure(config);
        }
        cluster
    }

    /// Writes the configuration; a running daemon learns of it by a reload.
    pub(crate) fn configure(&self, config: &str) {
        let file = self.root.join("etc/ax/config.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, config).unwrap();
    }

    /// A variable of the daemons that are started from now on.
    pub(crate) fn set_environment(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.environment.retain(|(n, _)| n != name);
        self.environment.push((name.to_owned(), value.as_ref().to_string_lossy().into_owned()));
    }

    /// Takes it away again.
    pub(crate) fn clear_environment(&mut self, name: &str) {
        self.environment.retain(|(n, _)| n != name);
    }

    /// Starts the daemon and waits until it answers.
    pub(crate) fn start(&mut self) {
        self.spawn();
        wait_for("the daemon to answer", || self.answers() || self.daemon_ended());
        assert!(!self.daemon_ended(), "the daemon ended: {}", self.daemon_output());
    }

    /// Starts the daemon and does not wait: it may be about to die.
    pub(crate) fn spawn(&mut self) {
        assert!(self.daemon.is_none(), "it runs already");
        let output =
            fs::OpenOptions::new().append(true).create(true).open(self.root.join("axd.out")).unwrap();
        let mut words = self.wrapper.iter().map(PathBuf::from).chain([self.axd.clone()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--root").arg(&self.root).current_dir("/").stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        self.daemon = Some(command.spawn().unwrap());
    }

    /// Whether somebody listens at the socket.
    pub(crate) fn answers(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
    }

    /// Whether the daemon has ended by itself.
    pub(crate) fn daemon_ended(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    /// Waits until the daemon has ended by itself.
    pub(crate) fn wait_daemon_ended(&mut self) {
        wait_for("the daemon to end", || self.daemon_ended());
        self.daemon = None;
    }

    /// What the daemon printed.
    pub(crate) fn daemon_output(&self) -> String {
        fs::read_to_string(self.root.join("axd.out")).unwrap_or_default()
    }

    /// The daemon's log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.root.join("var/log/ax-controller.log")).unwrap_or_default()
    }

    /// The daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// SIGKILL: as if it had never been.
    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// SIGTERM, and waits for its end.
    pub(crate) fn stop(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        signal(daemon.id(), "TERM");
        assert!(daemon.wait().unwrap().success(), "{}", self.daemon_output());
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.join("run/ax/axd.sock")
    }

    /// A user's home in this world.
    pub(crate) fn home(&self, user: User) -> PathBuf {
        self.root.join("home").join(user.name)
    }

    /// Writes a file into a user's home, as theirs.
    pub(crate) fn write(&self, user: User, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home(user).join(name);
        fs::write(&path, content).unwrap();
        if as_root_quietly() {
            chown(&path, Some(user.uid), Some(user.gid)).unwrap();
        }
        path
    }

    /// Reads a file of a user's home; empty if it is not there.
    pub(crate) fn read(&self, user: User, name: &str) -> String {
        let bytes = fs::read(self.home(user).join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A command of this world, as a user, in their home.
    pub(crate) fn command(&self, user: User, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let home = self.home(user);
        command.env_clear().env("AX_ROOT", &self.root).env("HOME", &home).env("PATH", "/usr/bin:/bin");
        command.env("USER", user.name).current_dir(home).stdin(Stdio::null());
        if as_root_quietly() {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Runs one of our programs as a user.
    pub(crate) fn run(&self, user: User, program: &str, arguments: &[&str]) -> Ran {
        ran(self.command(user, self.program(program)).args(arguments).output().unwrap())
    }

    /// The path of one of our programs.
    pub(crate) fn program(&self, name: &str) -> &'static str {
        match name {
            "ax" => env!("CARGO_BIN_EXE_ax"),
            "axbatch" => env!("CARGO_BIN_EXE_axbatch"),
            "axctl" => env!("CARGO_BIN_EXE_axctl"),
            "axrun" => env!("CARGO_BIN_EXE_axrun"),
            "axd" => env!("CARGO_BIN_EXE_axd"),
            other => panic!("{other} is none of our programs"),
        }
    }

    /// Submits a script with options; its id.
    pub(crate) fn submit(&self, user: User, options: &[&str], script: &str) -> String {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("job-{number}.sh");
        self.write(user, &name, script);
        let mut arguments = vec!["--parsable"];
        arguments.extend(options);
        arguments.push(&name);
        let ran = self.run(user, "axbatch", &arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    /// All that is known of a job.
    pub(crate) fn job(&self, id: &str) -> Value {
        let ran = self.run(ROOT, "ax", &["status", "--json", id]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let list: Value = serde_json::from_str(&ran.out).unwrap();
        list[0].clone()
    }

    /// A job's state.
    pub(crate) fn state(&self, id: &str) -> String {
        self.job(id)["state"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is in one of these states; all that is known of it then.
    pub(crate) fn wait_state(&self, id: &str, states: &[&str]) -> Value {
        let start = Instant::now();
        loop {
            let job = self.job(id);
            if states.contains(&job["state"].as_str().unwrap()) {
                return job;
            }
            assert!(start.elapsed() < PATIENCE, "{id} never came to {states:?}: {job:#}\n{}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a job is over, whatever its end.
    pub(crate) fn wait_over(&self, id: &str) -> Value {
        let ends = [
            "SUCCEEDED",
            "FAILED",
            "TIMEOUT",
            "OUT_OF_MEMORY",
            "CANCELLED",
            "NODE_FAIL",
            "DEADLINE",
            "FAILED_UNKNOWN_STATE",
            "FAILED_NEEDS_ATTENTION",
        ];
        self.wait_state(id, &ends)
    }

    /// Processes of jobs that are alive, by anything in their environment that names this world.
    pub(crate) fn job_processes(&self) -> Vec<u32> {
        let mark = format!("AX_ROOT={}", self.root.display());
        processes()
            .filter(|pid| environment_has(*pid, &mark) && environment_has(*pid, "AX_JOB_ID="))
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let root = self.root.to_string_lossy().into_owned();
        // Supervisors and the watchdog of this world, then what they held.
        let names_it =
            |line: String| line.contains(&format!("{root}/")) || line.contains(&format!("{root} "));
        for pid in processes().filter(|pid| names_it(command_line(*pid))) {
            signal(pid, "KILL");
        }
        for pid in processes().filter(|pid| environment_has(*pid, &format!("AX_ROOT={root}"))) {
            signal(pid, "KILL");
        }
        remove_groups(&self.root.join("run/ax"));
        unmount_below(&self.root);
        for _ in 0..50 {
            if fs::remove_dir_all(&self.root).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

/// Where something is mounted at or below a folder, those first that were mounted last.
pub(crate) fn mounts_below(folder: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let places = all.lines().rev().filter_map(|line| line.split(' ').nth(1));
    places.filter(|place| Path::new(place).starts_with(folder)).map(str::to_owned).collect()
}

/// How many there were. What is mounted does not outlive a test, nor is it asked anything.
pub(crate) fn unmount_below(folder: &Path) -> usize {
    let places = mounts_below(folder);
    places.iter().filter(|place| ax_sys::mount::detach(Path::new(place)).is_ok()).count()
}

fn as_root_quietly() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

/// A new folder. Process numbers come round again: one that an earlier, killed test left may bear the same name.
fn new_root() -> PathBuf {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("ax-e2e-{}-{number}", std::process::id()));
        match fs::create_dir(&root) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            other => {
                other.unwrap();
                return root;
            }
        }
    }
}

/// Removes the control groups of a daemon that is gone.
pub(crate) fn remove_groups(run: &Path) {
    // All of them each time: who is in one of version 1 may be killed by the unified one, which comes last.
    for _ in 0..500 {
        let tops = groups(run);
        for top in &tops {
            let children = fs::read_dir(top).into_iter().flatten().flatten().filter(|e| e.path().is_dir());
            for child in children {
                let _ = fs::write(child.path().join("cgroup.kill"), "1");
                let _ = fs::remove_dir(child.path());
            }
            let _ = fs::remove_dir(top);
        }
        if tops.is_empty() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

/// The groups of a run folder's daemon that are there, one a hierarchy.
pub(crate) fn groups(run: &Path) -> Vec<PathBuf> {
    let paths = ax_core::paths::Paths { run: run.to_owned(), ..ax_core::paths::Paths::system() };
    let name = paths.cgroup_name();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points =
        mounts.lines().filter(|line| line.contains(" cgroup")).filter_map(|line| line.split(' ').nth(1));
    points.map(|point| Path::new(point).join(&name)).filter(|top| top.exists()).collect()
}

/// Waits for something that must come.
pub(crate) fn wait_for(what: &str, done: impl FnMut() -> bool) {
    test_kit::wait_at_most(PATIENCE, what, done);
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal by its short name.
pub(crate) fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// All processes of the machine.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// A process's words.
pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Whether a process has this `NAME=value` (or `NAME=`, any value) in its environment.
pub(crate) fn environment_has(pid: u32, line: &str) -> bool {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let any_value = line.ends_with('=');
    bytes
        .split(|b| *b == 0)
        .any(|l| if any_value { l.starts_with(line.as_bytes()) } else { l == line.as_bytes() })
}

/// The process id of an attempt's supervisor, by its command line.
pub(crate) fn supervisor_of(cluster: &Cluster, id: &str) -> Option<u32> {
    let folder = format!("{}/run/ax/attempts/{id}.", cluster.root.display());
    processes().find(|pid| command_line(*pid).contains(&folder))
}
