//! The nightly job of the founding text: a line of a crontab, in the bare
//! environment that cron gives, with the daemon running or not.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::cluster::{ALICE, Cluster, as_root, ran, wait_for};

const SCRIPT: &str = "#!/bin/sh\n#AX -o nightly.out --open-mode=append\necho \"$(id -un) $PATH\"\n";

/// The line as it stands in the manual, for this world.
fn line(cluster: &Cluster) -> String {
    let axbatch = cluster.program("axbatch");
    let home = cluster.home(ALICE);
    // The account's home is not the one of this world.
    format!("{axbatch} --root {0} --quiet -D {1} {1}/nightly.sh", cluster.root.display(), home.display())
}

/// Runs a line as Debian's cron does: the user's shell, its four variables, the home.
fn as_cron(cluster: &Cluster, line: &str) {
    let mut command = cluster.command(ALICE, "/bin/sh");
    command.env_clear().env("HOME", cluster.home(ALICE)).env("PATH", "/usr/bin:/bin");
    command.env("SHELL", "/bin/sh").env("LOGNAME", ALICE.name).args(["-c", line]);
    let ran = ran(command.output().unwrap());
    assert_eq!((ran.code, ran.out, ran.err), (0, String::new(), String::new()), "cron mails what is printed");
}

#[test]
fn a_crontab_s_line_submits_whether_the_daemon_runs_or_not() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.write(ALICE, "nightly.sh", SCRIPT);
    let line = line(&cluster);
    as_cron(&cluster, &line);
    cluster.wait_over("1");
    cluster.stop();
    as_cron(&cluster, &line);
    as_cron(&cluster, &line);
    cluster.start();
    wait_for("all three", || cluster.read(ALICE, "nightly.out").lines().count() == 3);
    assert!(cluster.read(ALICE, "nightly.out").lines().all(|line| line == "daemon /usr/bin:/bin"));
    assert_eq!(cluster.jobs().len(), 3);
}

/// A table in `/etc/cron.d`, away again at the end.
struct Table(&'static str);

impl Drop for Table {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

/// Debian's daemon, ended at the end.
struct Cron(Child);

impl Cron {
    fn start() -> Cron {
        let mut command = Command::new("/usr/sbin/cron");
        command.arg("-f").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Cron(command.spawn().unwrap())
    }
}

impl Drop for Cron {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// It looks at its tables once a minute.
fn within_minutes(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..150 {
        if done() {
            return;
        }
        sleep(Duration::from_secs(1));
    }
    panic!("cron never ran the line: {what}");
}

#[test]
fn debian_s_cron_submits_with_the_daemon_down_and_up() {
    if !as_root() || std::env::var_os("AX_TEST_LONG").is_none() {
        eprintln!("skipped: needs root and AX_TEST_LONG=1, takes some minutes");
        return;
    }
    if !std::path::Path::new("/usr/sbin/cron").exists() {
        eprintln!("skipped: there is no cron");
        return;
    }
    let mut cluster = Cluster::new();
    cluster.write(ALICE, "nightly.sh", SCRIPT);
    cluster.stop();
    let table = Table("/etc/cron.d/ax-end-to-end");
    fs::write(table.0, format!("* * * * * {} {}\n", ALICE.name, line(&cluster))).unwrap();
    let cron = Cron::start();
    let incoming = cluster.spool().join("incoming/1");
    let spooled = || crate::spool::names_in(&incoming).len();
    within_minutes("the daemon is down", || spooled() > 0);
    cluster.start();
    cluster.wait_file(ALICE, "nightly.out");
    assert_eq!(cluster.wait_over("1")["state"], "SUCCEEDED");
    let drops = || cluster.log().lines().filter(|line| line.contains(" drop ")).count();
    let (before, jobs) = (drops(), cluster.jobs().len());
    within_minutes("the daemon is up", || cluster.jobs().len() > jobs);
    drop((cron, table));
    assert_eq!(drops(), before, "by the socket: {}", cluster.log());
    let runs = cluster.jobs().len();
    wait_for("all of them", || cluster.read(ALICE, "nightly.out").lines().count() == runs);
    assert!(cluster.read(ALICE, "nightly.out").lines().all(|line| line == "daemon /usr/bin:/bin"));
}
