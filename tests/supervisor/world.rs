//! A run folder of its own, real control groups and real supervisors in it. Everything a test leaves behind is killed
//! and removed when its world is dropped, whether it passed or not.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ax_core::id::{AttemptName, Gid, Uid};
use ax_core::job::spec::OpenMode;
use ax_core::record::{
    Assignment, AttemptResult, Ending, Files, Limits, Report, Request, Started, UserRecord,
};
use ax_core::time::Span;
use ax_sys::cgroup::{Base, Hierarchy, JobGroup, Place};
use ax_sys::lease::{self, Probe};
use ax_sys::path::Dir;
use ax_sys::pidfd::{Exit, PidFd};
use ax_sys::process::Spawn;
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::shared_word::FenceWriter;
use ax_sys::signals::Signal;

/// A user without an account.
pub(crate) const USER: u32 = 12_345;
pub(crate) const GROUP: u32 = 12_346;

/// Long enough for any machine; passing tests never wait for it.
pub(crate) const PATIENCE: Duration = match option_env!("AX_TEST_SHORT_PATIENCE") {
    // When something is broken on purpose, most tests notice by waiting in vain.
    Some(_) => Duration::from_secs(20),
    None => Duration::from_secs(60),
};

static NEXT: AtomicU32 = AtomicU32::new(1);

pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) run: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) fence: FenceWriter,
    hierarchy: Hierarchy,
    place: Place,
    parents: Vec<String>,
    extra_environment: Vec<String>,
}

impl World {
    /// `None`, with a word to whoever looks, where the tests can't be had: they need root and control groups.
    pub(crate) fn new() -> Option<World> {
        if ax_sys::credentials::own().0 != 0 {
            eprintln!("skipped: needs root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("axt-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(&name);
        let (run, home) = (root.join("run/ax"), root.join("home"));
        for (path, mode) in [
            (root.clone(), 0o755),
            (root.join("run"), 0o755),
            (run.clone(), 0o755),
            (run.join("leases"), 0o700),
            (run.join("attempts"), 0o700),
            (run.join("jobs"), 0o711),
            (home.clone(), 0o700),
        ] {
            std::fs::create_dir(&path).unwrap();
            set_mode(&path, mode);
        }
        chown(&home, Some(USER), Some(GROUP)).unwrap();
        let fence = FenceWriter::open(&Dir::open(&run).unwrap(), "guard").unwrap();
        let hierarchy = Hierarchy::detect().unwrap();
        let place = Place::new(Base::Root, name).unwrap();
        if !place.is_usable(&hierarchy) {
            eprintln!("skipped: no control groups");
            return None;
        }
        place.prepare(&hierarchy).unwrap();
        let parents = place.to_record(&hierarchy);
        Some(World { root, run, home, fence, hierarchy, place, parents, extra_environment: Vec::new() })
    }

    /// Variables of the supervisors that are started from now on.
    #[allow(dead_code, reason = "used with crash points only")]
    pub(crate) fn set_environment(&mut self, lines: Vec<String>) {
        self.extra_environment = lines;
    }

    /// A job that runs this script as [`USER`] and writes to `out` in its home.
    pub(crate) fn job(&self, script: &str) -> Job<'_> {
        self.job_of_bytes(script.as_bytes())
    }

    pub(crate) fn job_of_bytes(&self, script: &[u8]) -> Job<'_> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name: AttemptName = format!("ax-2026-{number:04}.{}", number + 100).parse().unwrap();
        let folder = self.run.join("attempts").join(name.to_string());
        std::fs::create_dir(&folder).unwrap();
        let job = self.run.join("jobs").join(name.to_string());
        std::fs::create_dir(&job).unwrap();
        std::fs::write(job.join("script"), script).unwrap();
        for (path, mode) in [(job.join("script"), 0o500), (job.clone(), 0o700)] {
            set_mode(&path, mode);
            chown(&path, Some(USER), Some(GROUP)).unwrap();
        }
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let assignment = Assignment {
            v: 1,
            attempt: name,
            node_epoch: 1,
            user: UserRecord {
                uid: Uid(USER),
                gid: Gid(GROUP),
                groups: vec![Gid(GROUP), Gid(20_000)],
                name: "li".to_owned(),
            },
            args: Vec::new(),
            cwd: text(self.home.clone()),
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            umask: 0o027,
            files: Files {
                input: None,
                output: text(self.home.join("out")),
                error: None,
                open_mode: OpenMode::Truncate,
            },
            limits: Limits { ram: None, cpuset: None, pids: None },
            devices: Vec::new(),
            ending: Ending { limit: None, warn: None, kill_wait: Span::seconds(60), longest_warning: None },
            work_dir: text(self.root.join(format!("spool/jobs/001/{}/{}/work", name.job, name.epoch))),
            spare: None,
            cgroup_parents: self.parents.clone(),
            station: Vec::new(),
            marker: ("AX_TEST_MARK".to_owned(), format!("{}-{name}", std::process::id())),
            card_limits: None,
        };
        Job { world: self, name, folder, assignment }
    }

    /// Starts `axrun` with these words; descriptor 3 where given.
    pub(crate) fn axrun(&self, words: &[&Path], socket: Option<&OwnedFd>) -> PidFd {
        let program = env!("CARGO_BIN_EXE_axrun");
        let text = |word: &Path| CString::new(word.as_os_str().as_bytes()).unwrap();
        let environment = self.extra_environment.iter().map(|line| CString::new(line.as_str()).unwrap());
        let spawn = Spawn {
            program: CString::new(program).unwrap(),
            arguments: [text(Path::new("axrun"))]
                .into_iter()
                .chain(words.iter().map(|word| text(word)))
                .collect(),
            environment: [c"SECRET=of axd".to_owned()].into_iter().chain(environment).collect(),
            descriptors: socket.map(|socket| (socket.as_fd(), 3)).into_iter().collect(),
            directory: None,
            new_session: false,
        };
        spawn.start().unwrap()
    }

    pub(crate) fn watchdog(&self) -> Watchdog {
        Watchdog { process: self.axrun(&[Path::new("--watchdog"), &self.run], None) }
    }

    /// One that waits for its turn.
    pub(crate) fn watchdog_standing_by(&self) -> Watchdog {
        let words = [Path::new("--watchdog"), &self.run, Path::new("--stand-by")];
        Watchdog { process: self.axrun(&words, None) }
    }

    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(self.home.join("out")).unwrap_or_default()
    }

    /// The job's groups that are still there.
    pub(crate) fn groups(&self, name: AttemptName) -> Option<JobGroup> {
        JobGroup::find(&self.hierarchy, &self.place, &name.to_string())
    }

    pub(crate) fn lease(&self, name: AttemptName) -> Probe {
        lease::probe(&Dir::open(self.run.join("leases")).unwrap(), &name.to_string()).unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A supervisor that a failed test left goes with its job.
        for (_, group) in JobGroup::list(&self.hierarchy, &self.place).unwrap_or_default() {
            let _ = group.kill_until_empty(Duration::from_secs(10));
        }
        std::thread::sleep(Duration::from_millis(20));
        for (_, group) in JobGroup::list(&self.hierarchy, &self.place).unwrap_or_default() {
            let _ = group.remove();
        }
        self.place.clear(&self.hierarchy);
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// A job that has not started yet.
pub(crate) struct Job<'a> {
    pub(crate) world: &'a World,
    pub(crate) name: AttemptName,
    pub(crate) folder: PathBuf,
    pub(crate) assignment: Assignment,
}

impl<'a> Job<'a> {
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Assignment)) -> Job<'a> {
        change(&mut self.assignment);
        self
    }

    pub(crate) fn start(self) -> Running<'a> {
        std::fs::write(self.folder.join("assignment"), serde_json::to_vec(&self.assignment).unwrap())
            .unwrap();
        let (ours, theirs) = seqpacket_pair();
        let supervisor = self.world.axrun(&[Path::new("--supervise"), &self.folder], Some(&theirs));
        Running { supervisor, axd: Some(ours), exit: None, seen: Vec::new(), job: self }
    }

    /// Starts it and waits for its result.
    pub(crate) fn run(self) -> AttemptResult {
        self.start().result()
    }

    pub(crate) fn job_folder(&self) -> PathBuf {
        self.world.run.join("jobs").join(self.name.to_string())
    }
}

fn seqpacket_pair() -> (OwnedFd, OwnedFd) {
    ax_sys::socket::message_pair().unwrap()
}

/// A supervisor and this test as its axd.
pub(crate) struct Running<'a> {
    pub(crate) job: Job<'a>,
    pub(crate) supervisor: PidFd,
    pub(crate) axd: Option<OwnedFd>,
    pub(crate) seen: Vec<Report>,
    exit: Option<Exit>,
}

impl Running<'_> {
    /// The supervisor's exit, once.
    pub(crate) fn exit(&mut self) -> Exit {
        assert!(self.supervisor.wait_ended(PATIENCE).unwrap(), "the supervisor does not end");
        let exit = self.supervisor.reap().unwrap().unwrap();
        self.exit = Some(exit);
        exit
    }

    /// Waits for the end of the attempt: a record, no group left, the lease free.
    pub(crate) fn result(mut self) -> AttemptResult {
        assert_eq!(self.exit(), Exit::Code(0));
        let result = self.record().expect("no result was written");
        assert!(self.job.world.groups(self.job.name).is_none(), "groups are left");
        assert_eq!(self.job.world.lease(self.job.name), Probe::Free);
        if self.axd.is_some() {
            self.read_reports();
            assert_eq!(
                self.seen.last(),
                Some(&Report::Result(result.clone())),
                "the last report is the result"
            );
        }
        result
    }

    pub(crate) fn record(&self) -> Option<AttemptResult> {
        std::fs::read(self.job.folder.join("result"))
            .ok()
            .map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    pub(crate) fn started(&self) -> Option<Started> {
        std::fs::read(self.job.folder.join("started"))
            .ok()
            .map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    /// Waits until the script was executed.
    pub(crate) fn begun(&mut self) {
        self.wait_report("Started", |report| matches!(report, Report::Started(_)));
    }

    pub(crate) fn wait_report(&mut self, what: &str, wanted: impl Fn(&Report) -> bool) {
        eventually(what, || {
            self.read_reports();
            self.seen.iter().any(&wanted)
        });
    }

    pub(crate) fn read_reports(&mut self) {
        let Some(axd) = &self.axd else { return };
        let mut buffer = vec![0; 1 << 20];
        while let Incoming::Message(length) = seqpacket::receive(axd, &mut buffer) {
            self.seen.push(serde_json::from_slice(&buffer[..length]).unwrap());
        }
    }

    /// Asks as root, on a connection of its own.
    pub(crate) fn ask(&self, request: &Request) -> Report {
        let socket = seqpacket::connect(&Dir::open(&self.job.folder).unwrap(), "ctl").unwrap();
        assert!(seqpacket::send(&socket, &serde_json::to_vec(request).unwrap()));
        answer(&socket)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.exit.is_none() {
            let _ = self.supervisor.send_signal(Signal::KILL);
            let _ = self.supervisor.wait_ended(PATIENCE);
            let _ = self.supervisor.reap();
        }
    }
}

/// The next message on a connection.
pub(crate) fn answer(socket: &OwnedFd) -> Report {
    let mut buffer = vec![0; 1 << 20];
    let mut got = None;
    eventually("an answer", || {
        if let Incoming::Message(length) = seqpacket::receive(socket, &mut buffer) {
            got = Some(serde_json::from_slice(&buffer[..length]).unwrap());
        }
        got.is_some()
    });
    got.unwrap()
}

/// A watchdog that ends with the test.
pub(crate) struct Watchdog {
    pub(crate) process: PidFd,
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.process.send_signal(Signal::KILL);
        let _ = self.process.wait_ended(PATIENCE);
        let _ = self.process.reap();
    }
}

/// Waits for a fact, and fails loudly if it does not come.
pub(crate) fn eventually(what: &str, fact: impl FnMut() -> bool) {
    test_kit::wait_at_most(PATIENCE, what, fact);
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether a process runs: it is there and no zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

/// A number that a script has written to a file in its home.
pub(crate) fn pid_in(path: &Path) -> i32 {
    let mut pid = None;
    eventually("a pid file", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

/// A small file system in memory over a folder, until it is dropped.
pub(crate) struct Mount(PathBuf);

impl Mount {
    pub(crate) fn new(over: &Path, options: &str) -> Mount {
        let mut mount = std::process::Command::new("mount");
        let status = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(over).status().unwrap();
        assert!(status.success());
        Mount(over.to_owned())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
