//! The daemon is not the job: it is stopped, killed, replaced by a newer one,
//! and started again, and the jobs notice nothing. What ended meanwhile is
//! recorded once; what waits keeps its place; what was asked is done.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::books::{
    FOUR_CPUS, assert_at_most_once, assert_nothing_left, attempts, book, honest, until, wait_begun,
};
use crate::cluster::{ALICE, Cluster, ROOT, as_root, processes, signal, supervisor_of, wait_for};

/// How the daemon goes away and comes back.
#[derive(Debug, Clone, Copy)]
enum Away {
    Stopped,
    Killed,
    Upgraded,
}

fn leave(cluster: &mut Cluster, how: Away) {
    match how {
        Away::Stopped => cluster.stop(),
        Away::Killed | Away::Upgraded => cluster.kill(),
    }
    if let Away::Upgraded = how {
        // As a package manager does it: another file under the same name, while the old one is in use.
        for program in ["axd", "axrun"] {
            let installed = cluster.axd.with_file_name(program);
            let fresh = installed.with_extension("new");
            fs::copy(cluster.program(program), &fresh).unwrap();
            fs::rename(fresh, installed).unwrap();
        }
    }
}

/// A world that runs from programs of its own, which can be replaced.
fn installed() -> Cluster {
    let mut cluster = Cluster::stopped(FOUR_CPUS);
    let folder = cluster.root.join("bin");
    fs::create_dir(&folder).unwrap();
    for program in ["axd", "axrun"] {
        fs::copy(cluster.program(program), folder.join(program)).unwrap();
    }
    cluster.axd = folder.join("axd");
    cluster.start();
    cluster
}

const ALL_CPUS: &str = "--cpus-per-task=4";

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub(crate) fn touch(cluster: &Cluster, name: &str) {
    cluster.write(ALICE, name, "");
}

/// What the daemon of a machine that was just started finds: nothing that ran before.
pub(crate) fn power_cut(cluster: &mut Cluster) {
    cluster.kill();
    let run = cluster.root.join("run/ax").to_string_lossy().into_owned();
    let ours = |pid: &u32| crate::cluster::command_line(*pid).contains(&run);
    loop {
        // Supervisors, watchdog and jobs at once: a machine has no order in which it loses its power.
        let all: Vec<u32> = processes().filter(ours).chain(cluster.job_processes()).collect();
        all.iter().for_each(|pid| signal(*pid, "KILL"));
        if all.is_empty() {
            return crate::cluster::remove_groups(&cluster.root.join("run/ax"));
        }
    }
}

/// From now on the daemon, and what it starts, see another boot.
pub(crate) fn another_boot(cluster: &mut Cluster) {
    let boot = cluster.root.join("boot_id");
    fs::write(&boot, "12345678-9abc-4def-8123-456789abcdef\n").unwrap();
    let script = format!("mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"", boot.display());
    cluster.wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
}

#[test]
fn jobs_go_on_while_the_daemon_is_away_however_it_went() {
    if !as_root() {
        return;
    }
    for how in [Away::Stopped, Away::Killed, Away::Upgraded] {
        let mut cluster = installed();
        let going_on = format!("echo one; {}; echo two; {}; echo three; exit 3", until("go1"), until("go2"));
        let long = cluster.submit(ALICE, &["--output=long.out"], &honest(&going_on));
        let ending = format!("{}; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 4", until("go1"));
        let short = cluster.submit(ALICE, &[], &honest(&ending));
        let pid = wait_begun(&cluster, ALICE, &long, 1);
        wait_begun(&cluster, ALICE, &short, 1);
        let before = cluster.wait_state(&long, &["RUNNING"]);
        cluster.wait_state(&short, &["RUNNING"]);

        leave(&mut cluster, how);
        touch(&cluster, "go1");
        wait_for("the second line", || cluster.read(ALICE, "long.out").contains("two"));
        wait_for("the end of the short one", || supervisor_of(&cluster, &short).is_none());
        cluster.start();

        let after = cluster.job(&long);
        assert_eq!(after["state"], "RUNNING", "{how:?}: {after:#}");
        assert_eq!(after["started_at"], before["started_at"], "{how:?}: the same start");
        assert_eq!(attempts(&after).len(), 1, "{how:?}: {after:#}");
        assert!(is_alive(pid), "{how:?}: the same process");
        let ended = cluster.wait_over(&short);
        assert_eq!((&ended["state"], &ended["exit_code"]), (&"FAILED".into(), &4.into()), "{how:?}");
        assert!(ended["attempts"][0]["cpu_time_s"].as_f64().unwrap() > 0.0, "{ended:#}");

        touch(&cluster, "go2");
        let ended = cluster.wait_over(&long);
        assert_eq!((&ended["state"], &ended["exit_code"]), (&"FAILED".into(), &3.into()), "{how:?}");
        assert_eq!(cluster.read(ALICE, "long.out"), "one\ntwo\nthree\n", "{how:?}");
        for id in [&long, &short] {
            assert_at_most_once(&cluster, ALICE, id);
            assert_eq!(book(&cluster, ALICE, id).begun.len(), 1, "{how:?}");
        }
        assert_nothing_left(&cluster);
    }
}

#[test]
fn what_ended_in_between_is_recorded_once_over_many_restarts() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let ids: Vec<String> =
        (1..4).map(|n| cluster.submit(ALICE, &[], &honest(&format!("{}; exit {n}", until("go"))))).collect();
    for id in &ids {
        wait_begun(&cluster, ALICE, id, 1);
    }
    cluster.kill();
    touch(&cluster, "go");
    wait_for("their ends", || ids.iter().all(|id| supervisor_of(&cluster, id).is_none()));
    for _ in 0..4 {
        cluster.spawn();
        std::thread::sleep(std::time::Duration::from_millis(30));
        cluster.kill();
    }
    cluster.start();
    for (id, code) in ids.iter().zip(1..) {
        let job = cluster.wait_over(id);
        assert_eq!(job["exit_code"], code, "{job:#}");
        let ends = job["decisions"].as_array().unwrap().iter();
        let ends = ends.filter(|d| d["what"].as_str().unwrap().ends_with(job["state"].as_str().unwrap()));
        assert_eq!(ends.count(), 1, "{job:#}");
        assert_at_most_once(&cluster, ALICE, id);
    }
    assert_nothing_left(&cluster);
}

#[test]
fn waiting_jobs_keep_their_order() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let first = cluster.submit(ALICE, &[ALL_CPUS], &honest(&until("go")));
    wait_begun(&cluster, ALICE, &first, 1);
    let told = |name: &str| format!("#!/bin/sh\necho {name} >>\"$HOME/order\"\n");
    let mut ids = vec![first];
    for name in ["a", "b"] {
        ids.push(cluster.submit(ALICE, &[ALL_CPUS], &told(name)));
    }
    ids.push(cluster.submit(ALICE, &[ALL_CPUS, "--priority=90"], &told("first")));
    ids.push(cluster.submit(ALICE, &[ALL_CPUS, "--hold"], &told("held")));
    cluster.kill();
    cluster.start();
    ids.push(cluster.submit(ALICE, &[ALL_CPUS], &told("c")));
    let held = ids.remove(4);
    touch(&cluster, "go");
    for id in &ids {
        cluster.wait_over(id);
    }
    assert_eq!(cluster.read(ALICE, "order"), "first\na\nb\nc\n");
    assert_eq!(cluster.state(&held), "PENDING");
    cluster.stop();
    cluster.start();
    assert_eq!(cluster.run(ALICE, "ax", &["release", &held]).code, 0);
    cluster.wait_over(&held);
    assert_nothing_left(&cluster);
}

#[test]
fn a_time_limit_holds_while_the_daemon_is_down() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let id = cluster.submit(ALICE, &["--time=0:02"], &honest("sleep 1000"));
    // A slow machine may come to the limit before the kill: then this shows less, and is true all the same.
    wait_for("its supervisor", || supervisor_of(&cluster, &id).is_some() || cluster.state(&id) == "TIMEOUT");
    cluster.kill();
    wait_for("the end at its limit", || supervisor_of(&cluster, &id).is_none());
    cluster.start();
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "TIMEOUT", "{job:#}");
    assert_nothing_left(&cluster);
}

#[test]
fn an_adopted_job_is_cancelled_and_signalled_like_any_other() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let hears = honest(&format!("trap 'echo heard >>$HOME/heard' USR1; {}", until("never")));
    let id = cluster.submit(ALICE, &[], &hears);
    let pid = wait_begun(&cluster, ALICE, &id, 1);
    cluster.wait_state(&id, &["RUNNING"]);
    cluster.kill();
    cluster.start();
    // At once: it may not have been adopted yet, and the request must wait for that.
    assert_eq!(cluster.run(ALICE, "ax", &["cancel", "--signal=USR1", &id]).code, 0);
    wait_for("the signal", || cluster.read(ALICE, "heard") == "heard\n");
    cluster.kill();
    cluster.start();
    assert_eq!(cluster.run(ALICE, "ax", &["cancel", &id]).code, 0);
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "CANCELLED", "{job:#}");
    assert!(!is_alive(pid));
    assert_at_most_once(&cluster, ALICE, &id);
    assert_nothing_left(&cluster);
}

#[test]
fn after_a_reboot_what_ran_is_over_and_goes_on_as_it_allows() {
    if !as_root() {
        return;
    }
    // /run is usually new with every boot; where it is not, old traces mean nothing.
    for run_is_kept in [false, true] {
        let mut cluster = Cluster::with_config(FOUR_CPUS);
        let first_only = honest(&format!("[ $AX_ATTEMPT = 1 ] && {}; true", until("never")));
        let requeued = cluster.submit(ALICE, &[], &first_only);
        let alone = cluster.submit(ALICE, &["--no-requeue"], &honest(&until("never")));
        let unsure = cluster.submit(ALICE, &["--idempotent=no"], &honest(&until("never")));
        let waiting = cluster.submit(ALICE, &["--hold"], &honest("true"));
        let ids = [&requeued, &alone, &unsure];
        for id in &ids {
            wait_begun(&cluster, ALICE, id, 1);
        }
        for id in &ids {
            cluster.wait_state(id, &["RUNNING"]);
        }
        power_cut(&mut cluster);
        if !run_is_kept {
            fs::remove_dir_all(cluster.root.join("run/ax")).unwrap();
        }
        another_boot(&mut cluster);
        cluster.start();

        let job = cluster.wait_over(&requeued);
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
        assert_eq!(attempts(&job)[0]["state"], "NODE_FAIL", "{job:#}");
        assert_eq!(cluster.wait_over(&alone)["state"], "NODE_FAIL");
        assert_eq!(cluster.wait_over(&unsure)["state"], "FAILED_UNKNOWN_STATE");
        assert_eq!(cluster.run(ALICE, "ax", &["release", &waiting]).code, 0);
        assert_eq!(cluster.wait_over(&waiting)["state"], "SUCCEEDED");
        for id in [&requeued, &alone, &unsure, &waiting] {
            assert_at_most_once(&cluster, ALICE, id);
        }
        assert_nothing_left(&cluster);
    }
}

fn number(id: &str) -> u32 {
    id.rsplit_once('-').unwrap().1.parse().unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let ran = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(ran.success());
}

#[test]
fn numbers_never_go_back_when_an_older_database_is_put_back() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let (state, copy) = (cluster.root.join("var/lib/ax"), cluster.root.join("copy"));
    // In the copy: one runs, one waits. Afterwards the one ends, the other starts, and a third comes and runs.
    let ended = cluster.submit(ALICE, &[ALL_CPUS], &honest(&until("go")));
    wait_begun(&cluster, ALICE, &ended, 1);
    cluster.wait_state(&ended, &["RUNNING"]);
    let waited = cluster.submit(ALICE, &["--cpus-per-task=1"], &honest(&until("go2")));
    cluster.stop();
    copy_folder(&state, &copy);
    cluster.start();
    touch(&cluster, "go");
    cluster.wait_over(&ended);
    let running = wait_begun(&cluster, ALICE, &waited, 1);
    let unknown = cluster.submit(ALICE, &[], &honest("echo $$ >$HOME/unknown; sleep 1000"));
    wait_for("the unknown one", || !cluster.read(ALICE, "unknown").is_empty());
    let stranger: u32 = cluster.read(ALICE, "unknown").trim().parse().unwrap();
    let used = book(&cluster, ALICE, &waited).begun[0].max(book(&cluster, ALICE, &unknown).begun[0]);
    cluster.stop();
    copy_folder(&copy, &state);

    cluster.start();
    // Nobody knows the one, and the other may start again.
    wait_for("the end of what the database does not know", || !is_alive(stranger) && !is_alive(running));
    touch(&cluster, "go2");
    for id in [&ended, &waited] {
        cluster.wait_over(id);
    }
    // The one that had ended ran again or is lost, but never twice at once, never under an epoch of before.
    for id in [&ended, &waited] {
        let book = book(&cluster, ALICE, id);
        assert_eq!(book.overlaps, 0, "{book:?}");
        assert!(book.begun.is_sorted_by(|a, b| a < b), "{book:?}");
        assert!(book.begun[1..].iter().all(|epoch| *epoch > used), "{book:?}");
    }
    let next = cluster.submit(ALICE, &[], &honest("true"));
    assert!(number(&next) > number(&unknown), "{next} after {unknown}");
    cluster.wait_over(&next);
    assert_nothing_left(&cluster);
}

#[test]
fn groups_of_which_nobody_has_a_record_go_with_all_that_is_in_them() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let job = cluster.submit(ALICE, &[], "#!/bin/sh\ntrue\n");
    cluster.wait_over(&job);
    cluster.nothing_left();
    cluster.kill();
    let mut left = Command::new("sleep").arg("600").spawn().unwrap();
    for top in crate::cluster::groups(&cluster.root.join("run/ax")) {
        let group = top.join("ax-2026-0777.5");
        fs::create_dir(&group).unwrap();
        // Where CPUs have to be given first, it stays outside.
        let _ = fs::write(group.join("cgroup.procs"), left.id().to_string());
    }
    cluster.start();
    cluster.nothing_left();
    left.wait().unwrap();
    assert!(cluster.log().contains("ax-2026-0777.5"), "{}", cluster.log());
}

#[test]
fn an_empty_database_beside_a_used_spool_is_refused_until_adopted() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(FOUR_CPUS);
    let last = cluster.submit(ALICE, &[], &honest("true"));
    cluster.wait_over(&last);
    cluster.stop();
    fs::remove_dir_all(cluster.root.join("var/lib/ax")).unwrap();
    let before = cluster.daemon_output();
    cluster.spawn();
    cluster.wait_daemon_ended();
    let said = cluster.daemon_output()[before.len()..].to_owned();
    assert!(said.lines().count() == 1 && said.contains("adopt") && said.contains("is empty"), "{said}");
    let root = cluster.root.to_string_lossy().into_owned();
    let adopted = cluster.run(ROOT, "axd", &["--root", &root, "--db-adopt", "--json"]);
    assert_eq!(adopted.code, 0, "{adopted:?}");
    assert!(adopted.out.contains("\"next_number\": "), "{adopted:?}");
    cluster.start();
    let next = cluster.submit(ALICE, &[], &honest("true"));
    assert!(number(&next) > number(&last), "{next} after {last}");
    assert_eq!(cluster.wait_over(&next)["state"], "SUCCEEDED");
    assert_nothing_left(&cluster);
}
