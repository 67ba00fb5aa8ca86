//! Submissions through the spool: whatever is put whole into one's own folder
//! becomes one job, whether the daemon runs, starts later or dies meanwhile.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ax_core::id::SubmissionKey;

use crate::cluster::{ALICE, BOB, Cluster, PATIENCE, ROOT, User, as_root, ran, wait_for};

impl Cluster {
    /// The spool.
    pub(crate) fn spool(&self) -> PathBuf {
        self.root.join("var/spool/ax")
    }

    /// A folder of a user's own in `incoming/`, by this name.
    pub(crate) fn folder(&self, user: User, name: &str) -> PathBuf {
        let folder = self.spool().join("incoming").join(name);
        if !folder.exists() {
            // Never root's under this name.
            let hidden = folder.with_file_name(format!(".{name}"));
            fs::DirBuilder::new().mode(0o700).create(&hidden).unwrap();
            chown(&hidden, Some(user.uid), Some(user.gid)).unwrap();
            fs::rename(hidden, &folder).unwrap();
        }
        folder
    }

    /// A user's usual folder.
    pub(crate) fn own_folder(&self, user: User) -> PathBuf {
        self.folder(user, &user.uid.to_string())
    }

    /// Puts a file whole into a user's usual folder.
    pub(crate) fn put(&self, user: User, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let folder = self.own_folder(user);
        put_into(&folder, user, name, content);
        folder.join(name)
    }

    /// What a user's `refused/` folder says of a file.
    pub(crate) fn why(&self, user: User, name: &str) -> String {
        let folder = self.spool().join("refused").join(user.uid.to_string());
        fs::read_to_string(folder.join(format!("{name}.why"))).unwrap_or_default()
    }

    /// Waits until a file was refused; why.
    pub(crate) fn wait_why(&self, user: User, name: &str) -> String {
        wait_for(&format!("{name} to be refused"), || !self.why(user, name).is_empty());
        self.why(user, name)
    }

    /// Waits for a user's file: what a job wrote.
    pub(crate) fn wait_file(&self, user: User, name: &str) -> String {
        let start = Instant::now();
        while self.read(user, name).is_empty() {
            let log = || self.log().lines().rev().take(30).collect::<Vec<_>>().join("\n");
            assert!(start.elapsed() < PATIENCE, "{name} of {} never came:\n{}", user.name, log());
            sleep(Duration::from_millis(5));
        }
        self.read(user, name)
    }

    /// All jobs, over or not, by name and user.
    pub(crate) fn jobs(&self) -> Vec<(String, String)> {
        let list = |command: &str| -> serde_json::Value {
            serde_json::from_str(&self.run(ROOT, "ax", &[command, "--json"]).out).unwrap()
        };
        // In this order: a job may end in between.
        let (living, finished) = (list("queue"), list("acct"));
        let all = finished.as_array().unwrap().iter().chain(living.as_array().unwrap());
        let text = |job: &serde_json::Value, field: &str| job[field].as_str().unwrap().to_owned();
        let mut jobs: Vec<_> =
            all.map(|job| (text(job, "id"), text(job, "name"), text(job, "user"))).collect();
        jobs.sort();
        jobs.dedup();
        jobs.into_iter().map(|(_, name, user)| (name, user)).collect()
    }
}

/// Puts a file whole into a folder.
pub(crate) fn put_into(folder: &Path, user: User, name: &str, content: impl AsRef<[u8]>) {
    let hidden = folder.join(format!(".{}", std::process::id()));
    fs::write(&hidden, content).unwrap();
    chown(&hidden, Some(user.uid), Some(user.gid)).unwrap();
    fs::rename(&hidden, folder.join(name)).unwrap();
}

/// What lies in a folder.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_script_put_by_hand_runs_as_its_owner_at_home_with_a_plain_environment() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // A user's own shell, as the manual has it.
    let incoming = cluster.spool().join("incoming");
    assert_eq!(fs::metadata(&incoming).unwrap().mode() & 0o7777, 0o1733);
    let home = cluster.home(ALICE);
    let out = home.join("out");
    let script = format!("#!/bin/sh\n#AX -J byhand -o {}\nid -un; id -Gn; pwd; env\n", out.display());
    cluster.write(ALICE, "job.sh", script);
    let line = format!(
        "d={}/$(id -u); mkdir -m 700 -p $d && cp job.sh $d/.job.sh && mv $d/.job.sh $d/nightly.sh",
        incoming.display()
    );
    let put = ran(cluster.command(ALICE, "sh").args(["-c", &line]).env("SECRET", "x").output().unwrap());
    assert_eq!(put.code, 0, "{put:?}");
    wait_for("the job", || cluster.read(ALICE, "out").contains("PATH="));
    let job = cluster.wait_over("1");
    assert_eq!((job["state"].as_str(), job["name"].as_str()), (Some("SUCCEEDED"), Some("byhand")), "{job:#}");
    let out = cluster.read(ALICE, "out");
    let passwd_home = out.lines().nth(2).unwrap();
    assert!(out.starts_with("daemon\n") && !out.contains("SECRET"), "{out}");
    assert!(out.contains("LOGNAME=daemon\n") && out.contains("PATH=/usr/local/bin:/usr/bin:/bin\n"), "{out}");
    assert_ne!(passwd_home, home.to_str().unwrap(), "its folder is the account's home");
    let ticket = job["ticket"].as_str().unwrap();
    assert_eq!(cluster.job(ticket)["id"], job["id"]);
    wait_for("the drop to go", || names_in(&cluster.spool().join("taken")).is_empty());
    assert!(names_in(&incoming.join("1")).is_empty());
}

/// A script that leaves a file in the user's home of this world.
pub(crate) fn leaves(cluster: &Cluster, user: User, file: &str) -> String {
    let home = cluster.home(user);
    format!("#!/bin/sh\n#AX -t 5 -c 1 -D {0} -o /dev/null\nid -un > {0}/{file}\n", home.display())
}

#[test]
fn old_drops_are_taken_at_a_cold_start_and_hidden_ones_are_not() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.stop();
    cluster.put(ALICE, "first.sh", leaves(&cluster, ALICE, "first"));
    cluster.put(BOB, "second.sh", leaves(&cluster, BOB, "second"));
    let other = cluster.folder(ALICE, "1-0123456789abcdef");
    put_into(&other, ALICE, "third.sh", leaves(&cluster, ALICE, "third"));
    let hidden = cluster.put(ALICE, ".tmp.sh", leaves(&cluster, ALICE, "hidden"));
    cluster.start();
    assert_eq!(cluster.wait_file(ALICE, "first"), "daemon\n");
    assert_eq!(cluster.wait_file(BOB, "second"), "bin\n");
    assert_eq!(cluster.wait_file(ALICE, "third"), "daemon\n");
    assert!(hidden.exists() && cluster.read(ALICE, "hidden").is_empty());
    assert_eq!(cluster.jobs().len(), 3);
}

#[test]
fn a_ticket_of_a_stopped_daemon_becomes_a_job_that_it_names() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.stop();
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n#AX -o out-%j\necho \"$WORD $1\"; pwd\n");
    let submit = |arguments: &[&str]| {
        let mut command = cluster.command(ALICE, cluster.program("axbatch"));
        ran(command.args(arguments).env("WORD", "carried").output().unwrap())
    };
    let told = submit(&["job.sh", "argument"]);
    let ticket = told.out.split([' ', ';']).find(|word| word.starts_with("spool-")).unwrap().to_owned();
    let line = format!("Spooled batch job as {ticket}; it is submitted when axd starts\n");
    assert_eq!((told.code, told.out, told.err), (0, line, String::new()));
    let parsable = submit(&["--parsable", "job.sh"]).out.trim().to_owned();
    cluster.start();
    wait_for("the ticket", || cluster.run(ALICE, "ax", &["status", &ticket]).code == 0);
    let job = cluster.wait_over(&ticket);
    assert_eq!((job["state"].as_str(), job["ticket"].as_str()), (Some("SUCCEEDED"), Some(ticket.as_str())));
    let shown = cluster.run(ALICE, "ax", &["status", &ticket]);
    assert!(shown.out.contains(job["id"].as_str().unwrap()), "{shown:?}");
    let by_key = cluster.run(ALICE, "ax", &["status", ticket.trim_start_matches("spool-")]);
    assert_eq!(by_key.out, shown.out, "the key alone will do: {by_key:?}");
    let out = cluster.read(ALICE, &format!("out-{}", job["number"]));
    assert_eq!(out, format!("carried argument\n{}\n", cluster.home(ALICE).display()));
    wait_for("the other", || cluster.run(ALICE, "ax", &["status", &parsable]).code == 0);
    assert_eq!(cluster.wait_over(&parsable)["state"], "SUCCEEDED");
    let unknown = format!("spool-{}", SubmissionKey(1));
    let asked = cluster.run(ALICE, "ax", &["status", &unknown]);
    assert!(asked.code == 1 && asked.err.contains("was not taken yet"), "{asked:?}");
}

fn post(cluster: &Cluster, body: &str) -> String {
    let mut socket = UnixStream::connect(cluster.socket()).unwrap();
    let head = format!("POST /api/v1/jobs HTTP/1.1\r\nHost: ax\r\nContent-Length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn one_key_is_one_job_by_socket_and_by_spool() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let key = SubmissionKey::new(1_800_000_000_000, [3; 10]);
    let body = format!("{{\"key\":\"{key}\",\"cmd\":\"true\",\"job_name\":\"once\"}}");
    assert!(post(&cluster, &body).starts_with("HTTP/1.1 201"));
    let name = format!("{key}.axjob");
    cluster.put(ROOT, &name, &body);
    wait_for("the drop to go", || cluster.log().contains(&format!("ticket={}", key.ticket())));
    assert!(post(&cluster, &body).starts_with("HTTP/1.1 200"));
    // The same key of somebody else is another submission.
    cluster.put(ALICE, &name, &body);
    wait_for("the second job", || cluster.jobs().len() == 2);
    assert!(cluster.jobs().contains(&("once".to_owned(), "daemon".to_owned())));
}

#[test]
fn what_can_t_be_a_job_is_refused_with_the_words_of_axbatch() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n#AX --gpu-count=4\ntrue\n";
    cluster.write(ALICE, "bad.sh", script);
    let told = cluster.run(ALICE, "axbatch", &["bad.sh"]);
    cluster.put(ALICE, "bad.sh", script);
    let why = cluster.wait_why(ALICE, "bad.sh");
    assert_eq!(format!("axbatch: {why}"), told.err, "{told:?}");
    let refused = cluster.spool().join("refused/1");
    let meta = fs::metadata(&refused).unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (ALICE.uid, 0o700));
    assert_eq!(fs::metadata(refused.join("bad.sh.why")).unwrap().uid(), ALICE.uid);
    wait_for("the file", || refused.join("bad.sh").exists());
    assert_eq!(fs::read_to_string(refused.join("bad.sh")).unwrap(), script);
    // A second of that name is kept beside it.
    cluster.put(ALICE, "bad.sh", script);
    wait_for("the second", || names_in(&refused).len() == 4);
    let key = SubmissionKey(99);
    for (name, content, words) in [
        (
            format!("{key}.axjob"),
            format!("{{\"cmd\":\"true\",\"key\":\"{}\"}}", SubmissionKey(98)),
            "the key in the file",
        ),
        (format!("{key}.axjob"), "{\"cmd\":".to_owned(), "no submission"),
        ("some.axjob".to_owned(), "{\"cmd\":\"true\"}".to_owned(), "named by its key"),
        ("queue.sh".to_owned(), "#AX -q nowhere\ntrue\n".to_owned(), "nowhere"),
        ("test.sh".to_owned(), "#AX --test-only\ntrue\n".to_owned(), "--test-only"),
        ("big.sh".to_owned(), "x".repeat((4 << 20) + 1), "4194305 bytes"),
    ] {
        let _ = fs::remove_dir_all(&refused);
        cluster.put(BOB, &name, content);
        let why = cluster.wait_why(BOB, &name);
        assert!(why.contains(words) && why.trim_end().lines().count() == 1, "{name}: {why}");
        let folder = cluster.spool().join("refused/2");
        wait_for("the file", || folder.join(&name).exists());
        fs::remove_dir_all(folder).unwrap();
    }
    let ticket = key.ticket();
    let asked = cluster.run(BOB, "ax", &["status", &ticket]);
    assert!(asked.err.contains("was refused") && asked.err.contains("no submission"), "{asked:?}");
    let other = cluster.run(ALICE, "ax", &["status", &ticket]);
    assert!(!other.err.contains("no submission"), "{other:?}");
    assert!(cluster.jobs().is_empty());
}

#[test]
fn a_drop_for_which_there_is_no_room_waits_in_its_place() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy:\n  max_queued_per_user: 1\n");
    let held = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\ntrue\n");
    let key = SubmissionKey(5);
    let drop = cluster.put(ALICE, &format!("{key}.axjob"), "{\"cmd\":\"true\",\"output\":\"/dev/null\"}");
    wait_for("the daemon's word", || cluster.log().contains("drops_wait"));
    wait_for("the drop back in its place", || drop.exists());
    let asked = cluster.run(ALICE, "ax", &["status", &key.ticket()]);
    assert!(asked.code == 1 && asked.err.contains("waits in the spool: 1 of your jobs"), "{asked:?}");
    // Others are not concerned.
    cluster.put(BOB, "other.sh", leaves(&cluster, BOB, "other"));
    cluster.wait_file(BOB, "other");
    assert!(!cluster.spool().join("refused/1").exists());
    assert_eq!(cluster.run(ALICE, "ax", &["cancel", &held]).code, 0);
    wait_for("the job", || cluster.run(ALICE, "ax", &["status", &key.ticket()]).code == 0);
    assert_eq!(cluster.wait_over(&key.ticket())["state"], "SUCCEEDED");
    wait_for("the drop to go", || !drop.exists() && names_in(&cluster.spool().join("taken")).is_empty());
}

#[test]
fn a_folder_that_others_can_enter_is_taken_from_once_it_is_closed() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // Open before it has its name: a daemon that had found it closed might still take what comes right after.
    let hidden = cluster.folder(ALICE, ".open");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o770)).unwrap();
    put_into(&hidden, ALICE, "job.sh", leaves(&cluster, ALICE, "done"));
    let folder = hidden.with_file_name(ALICE.uid.to_string());
    fs::rename(hidden, &folder).unwrap();
    wait_for("the daemon's word", || cluster.log().contains("spool_ignored"));
    assert!(folder.join("job.sh").exists());
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    cluster.wait_file(ALICE, "done");
}

#[test]
fn folders_and_the_spool_itself_may_come_and_go() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let folder = cluster.own_folder(ALICE);
    cluster.put(ALICE, "a.sh", leaves(&cluster, ALICE, "a"));
    cluster.wait_file(ALICE, "a");
    // Moved: the new name is the same folder. Another one of the old name is another.
    fs::rename(&folder, cluster.spool().join("incoming/mine")).unwrap();
    put_into(&cluster.spool().join("incoming/mine"), ALICE, "b.sh", leaves(&cluster, ALICE, "b"));
    cluster.wait_file(ALICE, "b");
    cluster.put(ALICE, "c.sh", leaves(&cluster, ALICE, "c"));
    cluster.wait_file(ALICE, "c");
    fs::remove_dir(cluster.spool().join("incoming/mine")).unwrap();
    fs::remove_dir(&folder).unwrap();
    cluster.put(ALICE, "d.sh", leaves(&cluster, ALICE, "d"));
    cluster.wait_file(ALICE, "d");
}

#[cfg(feature = "crash-points")]
#[test]
fn a_drop_is_one_job_wherever_the_daemon_dies() {
    if !as_root() {
        return;
    }
    for point in ["drop renamed", "drop committed", "drop unlinked"] {
        let mut cluster = Cluster::new();
        cluster.stop();
        let log = cluster.root.join("crashes");
        cluster.set_environment("AX_CRASH_POINT", point);
        cluster.set_environment("AX_CRASH_LOG", &log);
        cluster.put(
            ALICE,
            "job.sh",
            format!("{}echo x >> {}/count\n", leaves(&cluster, ALICE, "done"), cluster.home(ALICE).display()),
        );
        cluster.spawn();
        cluster.wait_daemon_ended();
        assert_eq!(fs::read_to_string(&log).unwrap(), format!("{point}\n"));
        cluster.clear_environment("AX_CRASH_POINT");
        cluster.start();
        cluster.wait_file(ALICE, "count");
        wait_for("the drop to go", || names_in(&cluster.spool().join("taken")).is_empty());
        cluster.wait_over("1");
        assert_eq!(cluster.jobs(), [("job.sh".to_owned(), "daemon".to_owned())], "{point}");
        assert_eq!(cluster.read(ALICE, "count"), "x\n", "{point}");
    }
}

#[test]
fn refused_ones_do_not_pile_up_without_end_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    let refused = cluster.spool().join("refused/1");
    fs::create_dir_all(&refused).unwrap();
    for number in 0..4100 {
        fs::write(refused.join(format!("{number}.why")), "no\n").unwrap();
    }
    cluster.start();
    wait_for("the oldest to go", || names_in(&refused).len() == 4000);
}
