//! What somebody types who has just unpacked ax: the demonstration, as root and as an ordinary user, and a daemon of
//! one's own without root, in the folders of the XDG rules. Nothing of either is left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::books::FOUR_CPUS;
use crate::cluster::{
    ALICE, Cluster, ROOT, Ran, User, as_root, command_line, environment_has, groups, processes, ran, signal,
    wait_for,
};

/// Jobs of the demonstration, and how each ends; the one without an end depends on who holds memory.
const JOBS: [(&str, Option<&str>); 6] = [
    ("hello", Some("SUCCEEDED")),
    ("primes", Some("SUCCEEDED")),
    ("flaky", Some("SUCCEEDED")),
    ("memory", None),
    ("children", Some("SUCCEEDED")),
    ("checkpoint", Some("SUCCEEDED")),
];

/// A folder for temporary files of everybody.
fn temporary(cluster: &Cluster) -> PathBuf {
    let folder = cluster.root.join("tmp");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

/// Processes that were started with this folder for temporary files, or name something in it.
fn of_folder(folder: &Path) -> Vec<String> {
    let (mark, path) = (format!("TMPDIR={}", folder.display()), format!("{}/", folder.display()));
    let mine = |pid: &u32| environment_has(*pid, &mark) || command_line(*pid).contains(&path);
    processes().filter(mine).map(command_line).collect()
}

/// What it says is missing.
fn missing(out: &str) -> Vec<&str> {
    out.lines().filter_map(|line| line.strip_prefix("Missing here: ")).collect()
}

/// Runs it and checks the account of each job; its output.
fn shows_six_jobs(cluster: &Cluster, user: User, program: &Path) -> String {
    let folder = temporary(cluster);
    let mut command = cluster.command(user, program);
    command.env_remove("AX_ROOT").env("TMPDIR", &folder);
    if program.ends_with("demo") {
        command.env("CARGO_TARGET_DIR", as_built(cluster));
    } else {
        command.arg("demo");
    }
    let shown = ran(command.output().unwrap());
    assert_eq!(shown.code, 0, "{}\n{}", shown.out, shown.err);
    let (_, accounts) = shown.out.split_once("$ ax acct\n").unwrap_or_else(|| panic!("{}", shown.out));
    for (name, state) in JOBS {
        let row = accounts.lines().find(|line| line.split_whitespace().any(|word| word == name));
        let row = row.unwrap_or_else(|| panic!("no account of {name}: {accounts}"));
        let ends = ["SUCCEEDED", "FAILED", "OUT_OF_MEMORY"].into_iter();
        let ended: Vec<_> = ends.filter(|end| row.contains(end)).collect();
        assert!(ended.len() == 1 && state.is_none_or(|state| ended == [state]), "{row}");
    }
    for said in
        ["Hello from job ax-", "17984 primes below 200000", "the server answered", "done after 3 steps"]
    {
        assert!(shown.out.contains(said), "{said}: {}", shown.out);
    }
    assert!(shown.out.contains("everything of it removed"), "{}", shown.out);
    let left: Vec<_> = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, [] as [PathBuf; 0], "{}", shown.out);
    wait_for(&format!("the end of {:?}", of_folder(&folder)), || of_folder(&folder).is_empty());
    let (_, rest) = shown.out.split_once("everything of it in ").unwrap();
    let root = rest.lines().next().unwrap().trim_end_matches(':');
    assert!(Path::new(root).starts_with(&folder), "{root}");
    assert_eq!(groups(&Path::new(root).join("run/ax")), [] as [PathBuf; 0]);
    shown.out
}

/// A folder in which `./demo` finds the programs of this test, newer than the sources.
fn as_built(cluster: &Cluster) -> PathBuf {
    let target = cluster.root.join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    for program in ["axd", "axrun", "axctl", "ax", "axbatch"] {
        std::os::unix::fs::symlink(cluster.program(program), target.join("release").join(program)).unwrap();
    }
    target
}

#[test]
fn the_demonstration_shows_everything_to_root_and_leaves_nothing_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("");
    let out = shows_six_jobs(&cluster, ROOT, &Path::new(env!("CARGO_MANIFEST_DIR")).join("demo"));
    assert!(out.contains("Jobs are submitted, and run, as nobody."), "{out}");
    assert!(out.contains("I am nobody, in "), "{out}");
    assert!(!missing(&out).contains(&"root. Jobs run as you alone."), "{out}");
    // Where groups can be made, all of it is there.
    if missing(&out).is_empty() {
        let (_, accounts) = out.split_once("$ ax acct\n").unwrap();
        assert!(
            accounts.lines().any(|line| line.contains("memory") && line.contains("OUT_OF_MEMORY")),
            "{out}"
        );
        assert!(!out.contains("nobody stopped me"), "{out}");
    }
}

#[test]
fn the_demonstration_shows_an_ordinary_user_what_is_possible_and_says_what_is_missing() {
    let cluster = Cluster::stopped("");
    if !as_root() {
        // Whoever runs the tests is one.
        return;
    }
    let out = shows_six_jobs(&cluster, ALICE, Path::new(cluster.program("ax")));
    assert!(out.contains("I am daemon, in "), "{out}");
    let missing = missing(&out);
    assert!(missing.contains(&"root. Jobs run as you alone."), "{missing:?}");
    let groups = missing.iter().find(|line| line.contains("no control group may be made here"));
    assert!(groups.is_some(), "it says what can't be held to: {missing:?}");
}

/// A daemon of Alice's own, without a root folder: as she starts it in her session.
struct Own {
    cluster: Cluster,
    daemon: Option<Child>,
}

impl Own {
    fn new() -> Own {
        let cluster = Cluster::stopped("");
        let mut own = Own { cluster, daemon: None };
        // Jobs run side by side, whatever the machine has.
        let line = format!(
            "mkdir -m 700 \"$XDG_RUNTIME_DIR\" && mkdir -p .config/ax && echo '{}' >.config/ax/config.yaml",
            FOUR_CPUS.trim()
        );
        let made = own.run("sh", &["-c", &line]);
        assert_eq!(made.code, 0, "{made:?}");
        own.start();
        own
    }

    fn command(&self, program: &str) -> Command {
        let path = match program {
            "sh" => "/bin/sh",
            ours => self.cluster.program(ours),
        };
        let mut command = self.cluster.command(ALICE, path);
        command.env_remove("AX_ROOT").env("XDG_RUNTIME_DIR", self.cluster.home(ALICE).join("runtime"));
        command
    }

    fn run(&self, program: &str, words: &[&str]) -> Ran {
        ran(self.command(program).args(words).output().unwrap())
    }

    fn start(&mut self) {
        let out = fs::File::create(self.cluster.root.join("axd.out")).unwrap();
        let mut command = self.command("axd");
        command.stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        self.daemon = Some(command.spawn().unwrap());
        wait_for("the daemon to answer", || self.run("ax", &["queue"]).code == 0 || self.has_ended());
        assert!(!self.has_ended(), "{}", self.cluster.daemon_output());
    }

    fn has_ended(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|daemon| daemon.try_wait().unwrap().is_some())
    }

    fn end(&mut self, by: &str) {
        let mut daemon = self.daemon.take().unwrap();
        signal(daemon.id(), by);
        daemon.wait().unwrap();
    }

    fn submit(&self, script: &str) -> String {
        self.cluster.write(ALICE, "job.sh", script);
        let ran = self.run("axbatch", &["--parsable", "--time=5", "job.sh"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    fn job(&self, id: &str) -> Value {
        let ran = self.run("ax", &["status", "--json", id]);
        serde_json::from_str::<Value>(&ran.out).map_or(Value::Null, |list| list[0].clone())
    }

    fn wait_state(&self, id: &str, state: &str) -> Value {
        wait_for(&format!("{id} to be {state}: {}", self.job(id)), || self.job(id)["state"] == state);
        self.job(id)
    }

    /// Processes of its jobs that live: their environment is Alice's, with her home in this world.
    fn living(&self, id: &str) -> usize {
        let (home, job) = (format!("HOME={}", self.cluster.home(ALICE).display()), format!("AX_JOB_ID={id}"));
        processes().filter(|pid| environment_has(*pid, &home) && environment_has(*pid, &job)).count()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn a_daemon_of_one_s_own_in_the_folders_of_xdg_runs_keeps_and_ends_jobs() {
    if Path::new("/run/ax/axd.sock").exists() {
        eprintln!("skipped: the system's daemon would be asked");
        return;
    }
    let mut own = Own::new();
    let state = own.cluster.home(ALICE).join(".local/state/ax");
    assert!(state.join("ax.db").exists() && state.join("controller.log").exists(), "{}", state.display());
    for private in [&state, &own.cluster.home(ALICE).join("runtime/ax")] {
        assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o022, 0, "{}", private.display());
    }
    let first =
        own.submit("#!/bin/sh\n#AX -o first.out\nid -u; setsid sleep 600 >/dev/null 2>&1 &\nexit 3\n");
    let ended = own.wait_state(&first, "FAILED");
    assert_eq!(ended["exit_code"], 3, "{ended:#}");
    let uid =
        fs::metadata(own.cluster.home(ALICE)).map(|meta| std::os::unix::fs::MetadataExt::uid(&meta)).unwrap();
    assert_eq!(own.cluster.read(ALICE, "first.out"), format!("{uid}\n"));
    assert_eq!(own.living(&first), 0, "nothing of it is left");

    // Stopped, killed: what runs goes on, and what is submitted meanwhile comes after.
    let long = own.submit("#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\n");
    let doomed = own.submit("#!/bin/sh\nsleep 600\n");
    for id in [&long, &doomed] {
        own.wait_state(id, "RUNNING");
        assert!(own.living(id) > 0);
    }
    own.end("TERM");
    own.start();
    own.end("KILL");
    let ticket = own.submit("#!/bin/sh\n#AX -o late.out\necho late\n");
    assert!(ticket.starts_with("spool-"), "{ticket}");
    own.start();
    own.wait_state(&ticket, "SUCCEEDED");
    assert_eq!(own.cluster.read(ALICE, "late.out"), "late\n");
    let cancelled = own.run("ax", &["cancel", &doomed]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    own.wait_state(&doomed, "CANCELLED");
    assert_eq!(own.living(&doomed), 0);
    own.cluster.write(ALICE, "go", "");
    let long = own.wait_state(&long, "SUCCEEDED");
    assert_eq!(long["attempts"].as_array().unwrap().len(), 1, "{long:#}");

    let last = own.submit("#!/bin/sh\nsleep 600\n");
    own.wait_state(&last, "RUNNING");
    let stopped = own.run("axctl", &["stop", "--jobs"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    wait_for("the daemon to be gone", || own.has_ended());
    own.daemon = None;
    assert_eq!(own.living(&last), 0);
    let home = format!("{}/", own.cluster.home(ALICE).display());
    let of_home = || processes().map(command_line).filter(|line| line.contains(&home)).collect::<Vec<_>>();
    wait_for("all but the watchdog to end", || of_home().iter().all(|line| line.contains("--watchdog")));
    // Its folder may go then, and it goes with it.
    fs::remove_dir_all(own.cluster.home(ALICE).join("runtime")).unwrap();
    wait_for(&format!("the end of {:?}", of_home()), || of_home().is_empty());
}
