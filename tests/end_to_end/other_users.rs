//! What one user can do to another's running job, and a job to the machinery that runs it:
//! nothing. One line a deed, each with the error number that the kernel, the supervisor or
//! the daemon answers it with.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cluster::{
    ALICE, BOB, Cluster, ROOT, User, as_root, command_line, environment_has, processes, supervisor_of,
    wait_for,
};
use crate::stranger::{Deed, EACCES, EPERM, asks_supervisor, tries};

const EEXIST: i32 = 17;
const SECRET: &str = "hunter2-in-the-environment";

/// Alice's job, running.
struct World {
    cluster: Cluster,
    id: String,
    /// `<id>.<epoch>`.
    attempt: String,
}

impl World {
    fn new() -> World {
        let cluster = Cluster::new();
        let script = "#!/bin/sh\n# hunter2-in-the-script\nsleep 1000 &\necho running\nwait\n";
        let options = [&format!("--env=PASSWORD={SECRET}"), "--cpus-per-task=1", "--ram=64"];
        let id = cluster.submit(ALICE, &options, script);
        cluster.wait_state(&id, &["RUNNING"]);
        let attempts = fs::read_dir(cluster.root.join("run/ax/attempts")).unwrap();
        let attempt = attempts.flatten().next().unwrap().file_name().into_string().unwrap();
        wait_for("its output", || cluster.read(ALICE, "ax-1.out").contains("running"));
        World { cluster, id, attempt }
    }

    fn run(&self, name: &str) -> PathBuf {
        self.cluster.root.join("run/ax").join(name)
    }

    fn job_folder(&self) -> PathBuf {
        self.run("jobs").join(&self.attempt)
    }

    fn attempt_folder(&self) -> PathBuf {
        self.run("attempts").join(&self.attempt)
    }

    fn started(&self) -> Value {
        serde_json::from_slice(&fs::read(self.attempt_folder().join("started")).unwrap()).unwrap()
    }

    fn work_folder(&self) -> PathBuf {
        let assignment = fs::read(self.attempt_folder().join("assignment")).unwrap();
        let assignment: Value = serde_json::from_slice(&assignment).unwrap();
        PathBuf::from(assignment["work_dir"].as_str().unwrap())
    }

    /// The script's shell.
    fn script(&self) -> u32 {
        let found = processes().find(|pid| environment_has(*pid, &format!("PASSWORD={SECRET}")));
        found.unwrap()
    }

    fn supervisor(&self) -> u32 {
        supervisor_of(&self.cluster, &self.id).unwrap()
    }

    fn watchdog(&self) -> u32 {
        let mark = format!("--watchdog {}", self.run("").display());
        processes().find(|pid| command_line(*pid).contains(mark.trim_end_matches('/'))).unwrap()
    }

    /// A drop of Alice's that waits: she has not given it its name yet.
    fn drop(&self) -> PathBuf {
        self.cluster.put(ALICE, ".late.sh", "#!/bin/sh\n")
    }

    /// One that was refused, and why.
    fn refused(&self) -> PathBuf {
        self.cluster.put(ALICE, "bad.sh", "#!/bin/sh\n#AX --gpu=1\n");
        self.cluster.wait_why(ALICE, "bad.sh");
        let refused = self.cluster.spool().join("refused").join(ALICE.uid.to_string()).join("bad.sh");
        wait_for("the file itself", || refused.exists());
        refused
    }

    /// The folders of the job's groups.
    fn groups(&self) -> Vec<PathBuf> {
        let started = self.started();
        let lines = started["cgroups"].as_array().unwrap();
        let words = lines.iter().flat_map(|line| line.as_str().unwrap().split([' ', '\t', '=', ':']));
        let folders: Vec<PathBuf> = words.filter(|word| word.starts_with('/')).map(PathBuf::from).collect();
        assert!(!folders.is_empty() || !has_groups(), "{started}");
        folders.into_iter().filter(|folder| folder.is_dir()).collect()
    }

    /// Every file of its groups that somebody might write.
    fn group_files(&self) -> Vec<PathBuf> {
        let files = self.groups().into_iter().flat_map(|folder| {
            let above = folder.parent().map(Path::to_owned);
            let names =
                |folder: &Path| fs::read_dir(folder).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>();
            let own = names(&folder);
            own.into_iter().chain(above.map(|above| above.join("cgroup.procs")))
        });
        files.filter(|file| file.is_file()).collect()
    }

    /// A command of ours about the job: exit code, and the line must name the owner.
    fn command(&self, user: User, words: &[&str]) -> (i32, String) {
        let ran = self.cluster.run(user, "ax", words);
        (ran.code, format!("{}{}", ran.out, ran.err))
    }
}

fn has_groups() -> bool {
    fs::read_to_string("/proc/self/mounts").unwrap().contains(" cgroup")
}

/// One deed, one line: who, what, and how it fails.
macro_rules! fails {
    ($($name:ident: $user:ident, $errno:expr, |$world:ident| $deed:expr;)*) => { $(
        #[test]
        fn $name() {
            if !as_root() {
                return;
            }
            let $world = World::new();
            assert_eq!(tries(&$world.cluster, $user, $deed), $errno);
        }
    )* };
}

fails! {
    bob_does_not_read_the_script: BOB, EACCES, |w| Deed::Read(&w.job_folder().join("script"));
    bob_does_not_replace_the_script: BOB, EACCES, |w| Deed::Write(&w.job_folder().join("script"));
    bob_does_not_list_the_job_folder: BOB, EACCES, |w| Deed::List(&w.job_folder());
    bob_does_not_list_the_jobs: BOB, EACCES, |w| Deed::List(&w.run("jobs"));
    bob_makes_nothing_among_the_jobs: BOB, EACCES, |w| Deed::Make(&w.run("jobs").join("ax-2026-0002.9"));
    bob_does_not_list_the_attempts: BOB, EACCES, |w| Deed::List(&w.run("attempts"));
    bob_does_not_read_the_assignment: BOB, EACCES, |w| Deed::Read(&w.attempt_folder().join("assignment"));
    bob_does_not_read_the_start: BOB, EACCES, |w| Deed::Read(&w.attempt_folder().join("started"));
    bob_does_not_read_the_result: BOB, EACCES, |w| Deed::Read(&w.attempt_folder().join("result"));
    bob_forges_no_result: BOB, EACCES, |w| Deed::Make(&w.attempt_folder().join("result"));
    bob_does_not_list_the_leases: BOB, EACCES, |w| Deed::List(&w.run("leases"));
    bob_does_not_open_the_lease: BOB, EACCES, |w| Deed::Read(&w.run("leases").join(&w.attempt));
    bob_removes_no_lease: BOB, EACCES, |w| Deed::Remove(&w.run("leases").join(&w.attempt));
    bob_makes_nothing_in_the_run_folder: BOB, EACCES, |w| Deed::Make(&w.run("guard.new"));
    bob_does_not_replace_the_socket: BOB, EACCES, |w| Deed::Remove(&w.run("axd.sock"));
    bob_does_not_raise_the_fence: BOB, EACCES, |w| Deed::Write(&w.run("guard"));
    bob_does_not_take_the_watchdog_s_lock: BOB, EACCES, |w| Deed::Write(&w.run("watchdog.lock"));
    bob_does_not_list_the_work_folder: BOB, EACCES, |w| Deed::List(&w.work_folder());
    bob_makes_nothing_in_the_work_folder: BOB, EACCES, |w| Deed::Make(&w.work_folder().join("x"));
    bob_makes_nothing_beside_it: BOB, EACCES, |w| Deed::Make(&w.work_folder().with_file_name("result"));
    bob_does_not_read_the_database: BOB, EACCES, |w| Deed::Read(&w.cluster.root.join("var/lib/ax/ax.db"));
    bob_does_not_read_the_database_s_log: BOB, EACCES, |w| Deed::Read(&w.cluster.root.join("var/lib/ax/ax.db-wal"));
    bob_does_not_list_the_state: BOB, EACCES, |w| Deed::List(&w.cluster.root.join("var/lib/ax"));
    bob_does_not_read_the_log: BOB, EACCES, |w| Deed::Read(&w.cluster.root.join("var/log/ax-controller.log"));
    bob_does_not_write_the_log: BOB, EACCES, |w| Deed::Write(&w.cluster.root.join("var/log/ax-controller.log"));
    bob_does_not_list_what_comes_in: BOB, EACCES, |w| Deed::List(&w.cluster.root.join("var/spool/ax/incoming"));
    bob_does_not_list_what_is_taken: BOB, EACCES, |w| Deed::List(&w.cluster.root.join("var/spool/ax/taken"));
    bob_does_not_list_alice_s_drops: BOB, EACCES, |w| Deed::List(w.drop().parent().unwrap());
    bob_does_not_read_a_drop: BOB, EACCES, |w| Deed::Read(&w.drop());
    bob_does_not_write_a_drop: BOB, EACCES, |w| Deed::Write(&w.drop());
    bob_removes_no_drop: BOB, EACCES, |w| Deed::Remove(&w.drop());
    bob_renames_no_drop: BOB, EACCES, |w| Deed::Rename(&w.drop());
    bob_puts_no_drop_among_alice_s: BOB, EACCES, |w| Deed::Make(&w.drop().with_file_name("bob.sh"));
    bob_links_no_drop_among_alice_s: BOB, EACCES, |w| Deed::Link(&w.drop().with_file_name("bob.sh"));
    bob_does_not_rename_alice_s_folder: BOB, EPERM, |w| Deed::Rename(w.drop().parent().unwrap());
    bob_does_not_list_what_alice_was_refused: BOB, EACCES, |w| Deed::List(w.refused().parent().unwrap());
    bob_does_not_read_what_was_refused: BOB, EACCES, |w| Deed::Read(&w.refused());
    bob_does_not_read_why_it_was_refused: BOB, EACCES, |w| Deed::Read(&w.refused().with_file_name("bad.sh.why"));
    bob_does_not_write_what_was_refused: BOB, EACCES, |w| Deed::Write(&w.refused());
    bob_does_not_remove_what_was_refused: BOB, EACCES, |w| Deed::Remove(&w.refused());
    bob_does_not_rename_what_was_refused: BOB, EACCES, |w| Deed::Rename(&w.refused());
    bob_puts_nothing_among_what_was_refused: BOB, EACCES, |w| Deed::Make(&w.refused().with_file_name("bob.why"));
    bob_does_not_rename_alice_s_folder_of_refused_ones: BOB, EACCES, |w| Deed::Rename(w.refused().parent().unwrap());
    bob_does_not_read_the_environment: BOB, EACCES, |w| Deed::Read(Path::new(&format!("/proc/{}/environ", w.script())));
    bob_does_not_read_its_memory: BOB, EACCES, |w| Deed::Trace(w.script());
    bob_does_not_look_at_its_files: BOB, EACCES, |w| Deed::List(Path::new(&format!("/proc/{}/fd", w.script())));
    bob_does_not_signal_the_script: BOB, EPERM, |w| Deed::Signal(w.script());
    bob_does_not_signal_the_supervisor: BOB, EPERM, |w| Deed::Signal(w.supervisor());
    bob_does_not_signal_the_watchdog: BOB, EPERM, |w| Deed::Signal(w.watchdog());
    bob_does_not_signal_the_daemon: BOB, EPERM, |w| Deed::Signal(w.cluster.pid());
    bob_does_not_connect_to_root_s_socket: BOB, EACCES, |w| Deed::Connect(&w.attempt_folder());
    bob_does_not_connect_to_alice_s_socket: BOB, EACCES, |w| Deed::Connect(&w.job_folder());
    alice_does_not_connect_to_root_s_socket: ALICE, EACCES, |w| Deed::Connect(&w.attempt_folder());
    alice_does_not_signal_her_supervisor: ALICE, EPERM, |w| Deed::Signal(w.supervisor());
    alice_does_not_signal_the_watchdog: ALICE, EPERM, |w| Deed::Signal(w.watchdog());
    alice_does_not_signal_the_daemon: ALICE, EPERM, |w| Deed::Signal(w.cluster.pid());
    alice_does_not_read_the_memory_of_her_supervisor: ALICE, EACCES, |w| Deed::Trace(w.supervisor());
    alice_does_not_read_the_memory_of_the_daemon: ALICE, EACCES, |w| Deed::Trace(w.cluster.pid());
    alice_does_not_look_at_her_supervisor_s_files: ALICE, EACCES, |w| Deed::List(Path::new(&format!("/proc/{}/fd", w.supervisor())));
    alice_does_not_read_her_assignment: ALICE, EACCES, |w| Deed::Read(&w.attempt_folder().join("assignment"));
    alice_forges_no_result: ALICE, EACCES, |w| Deed::Make(&w.attempt_folder().join("result"));
    alice_does_not_hold_her_lease: ALICE, EACCES, |w| Deed::Read(&w.run("leases").join(&w.attempt));
    alice_does_not_replace_her_job_folder: ALICE, EACCES, |w| Deed::Make(&w.run("jobs").join("other"));
    alice_puts_no_link_beside_her_work_folder: ALICE, EACCES, |w| Deed::Link(&w.work_folder().with_file_name("new"));
    alice_puts_no_link_in_place_of_her_work_folder: ALICE, EEXIST, |w| Deed::Link(&w.work_folder());
    alice_uses_her_own_drop: ALICE, 0, |w| Deed::Rename(&w.drop());
    alice_uses_what_she_was_refused: ALICE, 0, |w| Deed::Remove(&w.refused());
    alice_uses_her_own_script: ALICE, 0, |w| Deed::Read(&w.job_folder().join("script"));
    alice_uses_her_own_work_folder: ALICE, 0, |w| Deed::Make(&w.work_folder().join("x"));
    alice_signals_her_own_script: ALICE, 0, |w| Deed::Signal(w.script());
}

/// One command of another user's, refused with 77 and the owner's name.
macro_rules! refused {
    ($($name:ident: $words:expr;)*) => { $(
        #[test]
        fn $name() {
            if !as_root() {
                return;
            }
            let w = World::new();
            let words: Vec<&str> = $words.iter().map(|word: &&str| if *word == "JOB" { w.id.as_str() } else { *word }).collect();
            let (code, text) = w.command(BOB, &words);
            assert_eq!(code, 77, "{text}");
            assert!(text.contains("belongs to daemon"), "{text}");
            assert_eq!(w.cluster.state(&w.id), "RUNNING");
        }
    )* };
}

refused! {
    bob_does_not_cancel: ["cancel", "JOB"];
    bob_sends_no_signal: ["cancel", "--signal", "KILL", "JOB"];
    bob_does_not_hold: ["hold", "JOB"];
    bob_does_not_release: ["release", "JOB"];
    bob_does_not_update: ["update", "JOB", "--priority=0"];
    bob_does_not_resolve: ["resolve", "JOB", "failed"];
}

#[test]
fn bob_s_selection_means_his_own_jobs() {
    if !as_root() {
        return;
    }
    let w = World::new();
    let (code, text) = w.command(BOB, &["cancel", "--user", "daemon"]);
    assert!(code == 77 && text.contains("only administrators choose jobs of others"), "{text}");
    let (code, text) = w.command(BOB, &["cancel", "--state", "RUNNING"]);
    assert!(code == 0 && text.contains("no job fits"), "{text}");
    assert_eq!(w.cluster.state(&w.id), "RUNNING", "{text}");
}

#[test]
fn bob_does_not_read_the_output() {
    if !as_root() {
        return;
    }
    let w = World::new();
    let (code, text) = w.command(BOB, &["logs", &w.id]);
    assert_eq!(code, 66, "{text}");
    assert!(text.contains("Permission denied") && !text.contains("running"), "{text}");
}

#[test]
fn nothing_shown_holds_script_or_environment() {
    if !as_root() {
        return;
    }
    let w = World::new();
    for user in [BOB, ALICE, ROOT] {
        for words in
            [&["status", &w.id][..], &["status", "--json", &w.id], &["queue", "--json"], &["why", &w.id]]
        {
            let (code, text) = w.command(user, words);
            assert_eq!(code, 0, "{text}");
            assert!(!text.contains("hunter2"), "{words:?}: {text}");
        }
    }
    assert!(!w.cluster.log().contains("hunter2"), "{}", w.cluster.log());
}

#[test]
fn private_jobs_are_not_there_for_others() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("cluster:\n  private_jobs: true\n");
    let id = cluster.submit(ALICE, &["--hold", "--job-name=quiet"], "#!/bin/sh\n");
    let number = id.rsplit('-').next().unwrap().trim_start_matches('0');
    for words in [&["status", &id][..], &["status", number], &["why", &id], &["logs", &id], &["cancel", &id]]
    {
        let ran = cluster.run(BOB, "ax", words);
        assert_eq!(ran.code, 1, "{words:?}: {ran:?}");
        assert!(ran.err.contains("there is no job") && !ran.err.contains("daemon"), "{words:?}: {ran:?}");
    }
    for words in
        [&["queue"][..], &["queue", "--json", "--user", "daemon"], &["acct"], &["queue", "--name", "quiet"]]
    {
        let ran = cluster.run(BOB, "ax", words);
        assert!(!ran.out.contains(&id) && !ran.out.contains("quiet"), "{words:?}: {ran:?}");
    }
    assert_eq!(cluster.run(ALICE, "ax", &["status", &id]).code, 0);
}

#[test]
fn even_with_the_door_open_the_supervisor_hears_its_user_alone() {
    if !as_root() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let w = World::new();
    fs::set_permissions(w.job_folder(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(w.job_folder().join("ctl"), fs::Permissions::from_mode(0o777)).unwrap();
    for request in requests() {
        let answer = asks_supervisor(&w.cluster, BOB, &w.job_folder(), request.to_string().as_bytes());
        assert!(answer.contains("another user's") || answer == "closed", "{request}: {answer}");
    }
    assert_eq!(w.cluster.state(&w.id), "RUNNING");
}

fn requests() -> Vec<Value> {
    vec![
        json!({"request": "follow"}),
        json!({"request": "terminate", "outcome": "SUCCEEDED", "message": "done", "at_once": true}),
        json!({"request": "freeze", "frozen": true}),
        json!({"request": "signal", "signal": 9, "batch_only": false}),
    ]
}

#[test]
fn alice_may_signal_and_no_more() {
    if !as_root() {
        return;
    }
    let w = World::new();
    let ask = |request: &str| asks_supervisor(&w.cluster, ALICE, &w.job_folder(), request.as_bytes());
    for request in &requests()[..3] {
        let answer = ask(&request.to_string());
        assert!(answer.contains("only root may ask for this"), "{request}: {answer}");
    }
    for nonsense in ["", "{}", "{\"request\":\"signal\",\"signal\":-1}", "\u{0}\u{1}", &"x".repeat(70_000)] {
        let answer = ask(nonsense);
        assert!(answer.contains("refused") || answer == "closed", "{nonsense:.20?}: {answer}");
    }
    assert_eq!(w.cluster.state(&w.id), "RUNNING");
    ask(&requests()[3].to_string());
    assert_eq!(w.cluster.wait_over(&w.id)["signal"], 9);
}

#[test]
fn neither_bob_nor_alice_changes_the_job_s_groups() {
    if !as_root() || !has_groups() {
        return;
    }
    let w = World::new();
    let files = w.group_files();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        for user in [BOB, ALICE] {
            assert_eq!(tries(&w.cluster, user, Deed::Write(&file)), EACCES, "{} {file:?}", user.name);
        }
    }
    for folder in w.groups() {
        // A group of one's own below the job's would be one without its watch.
        assert_eq!(tries(&w.cluster, ALICE, Deed::Make(&folder.join("mine"))), EACCES, "{folder:?}");
    }
}
