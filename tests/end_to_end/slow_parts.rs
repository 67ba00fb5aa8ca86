//! A part of the machine that is slow, stuck or gone for a while holds up only what needs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::books::{
    FOUR_CPUS, assert_at_most_once, assert_nothing_left, attempts, honest, until, wait_begun,
};
use crate::cluster::{ALICE, BOB, Cluster, as_root, remove_groups, signal, supervisor_of, wait_for};

/// A disk of a test's own that can be made to hang.
struct Disk {
    image: PathBuf,
    point: PathBuf,
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    let ran = Command::new(program).args(arguments).output();
    ran.is_ok_and(|ran| ran.status.success())
}

impl Disk {
    /// Mounted there; `None`, and says so, where the machine can't.
    fn at(cluster: &Cluster, point: &str) -> Option<Disk> {
        let disk = Disk { image: cluster.root.join("disk"), point: cluster.root.join(point) };
        fs::create_dir_all(&disk.point).unwrap();
        fs::File::create(&disk.image).unwrap().set_len(16 << 20).unwrap();
        let made = run("mkfs.ext4", &[Path::new("-q"), &disk.image])
            && run("mount", &[Path::new("-o"), Path::new("loop"), &disk.image, &disk.point]);
        if !made {
            eprintln!("skipped: needs a loop device and ext4");
        }
        let _ = fs::remove_dir(disk.point.join("lost+found"));
        made.then_some(disk)
    }

    /// Whoever changes anything on it waits from now on.
    fn hang(&self) {
        assert!(run("fsfreeze", &[Path::new("-f"), &self.point]));
    }

    fn go_on(&self) {
        assert!(run("fsfreeze", &[Path::new("-u"), &self.point]));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("fsfreeze", &[Path::new("-u"), &self.point]);
        run("umount", &[Path::new("-l"), &self.point]);
    }
}

#[test]
fn while_a_launch_hangs_the_daemon_serves_everybody_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped(FOUR_CPUS);
    let Some(disk) = Disk::at(&cluster, "run/ax/jobs") else { return };
    cluster.start();
    let lives = cluster.submit(BOB, &[], &honest(&until("go")));
    wait_begun(&cluster, BOB, &lives, 1);
    disk.hang();
    let hangs = cluster.submit(ALICE, &[], &honest("exit 3"));
    let behind = cluster.submit(ALICE, &[], &honest("exit 0"));
    cluster.wait_state(&behind, &["STARTING"]);
    let ran = cluster.run(ALICE, "ax", &["cancel", &behind]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // News of others are heard, too.
    cluster.write(BOB, "go", "");
    cluster.wait_over(&lives);
    assert_eq!(cluster.state(&hangs), "STARTING");
    disk.go_on();
    assert_eq!(cluster.wait_over(&hangs)["exit_code"], 3);
    let behind = cluster.wait_over(&behind);
    assert_eq!((&behind["state"], attempts(&behind).len()), (&"CANCELLED".into(), 1), "{behind:#}");
    assert_at_most_once(&cluster, ALICE, &hangs);
    assert_nothing_left(&cluster);
    drop(disk);
}

#[test]
fn while_a_clean_up_hangs_others_ends_are_found_out_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped(FOUR_CPUS);
    let Some(disk) = Disk::at(&cluster, "run/ax/jobs") else { return };
    cluster.start();
    let over = cluster.submit(ALICE, &[], &honest(&until("go")));
    let lost = cluster.submit(BOB, &["--no-requeue"], &honest(&until("never")));
    wait_begun(&cluster, ALICE, &over, 1);
    wait_begun(&cluster, BOB, &lost, 1);
    disk.hang();
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&over)["state"], "SUCCEEDED");
    signal(supervisor_of(&cluster, &lost).unwrap(), "KILL");
    assert_eq!(cluster.wait_over(&lost)["state"], "NODE_FAIL");
    let names = fs::read_dir(cluster.root.join("run/ax/jobs")).unwrap().flatten().map(|e| e.file_name());
    assert!(names.into_iter().any(|name| name.to_string_lossy().starts_with(&over)), "it was not hanging");
    disk.go_on();
    assert_nothing_left(&cluster);
    drop(disk);
}

/// Something mounted in the folder of a job's script, which therefore can't be removed.
struct Mounted(PathBuf);

impl Mounted {
    fn in_script_folder_of(cluster: &Cluster, id: &str) -> Mounted {
        let jobs = fs::read_dir(cluster.root.join("run/ax/jobs")).unwrap().flatten().map(|e| e.path());
        let own = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(id));
        let point = jobs.into_iter().find(own).unwrap().join("mounted");
        fs::create_dir(&point).unwrap();
        assert!(run("mount", &[Path::new("-t"), Path::new("tmpfs"), Path::new("ax-test"), &point]));
        Mounted(point)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[&self.0]);
    }
}

#[test]
fn what_can_t_be_removed_is_tried_again_and_by_the_next_daemon_as_root() {
    if !as_root() {
        return;
    }
    for restart in [false, true] {
        let mut cluster = Cluster::with_config(FOUR_CPUS);
        let id = cluster.submit(ALICE, &[], &honest(&until("go")));
        wait_begun(&cluster, ALICE, &id, 1);
        let mounted = Mounted::in_script_folder_of(&cluster, &id);
        let folder = mounted.0.parent().unwrap().to_owned();
        cluster.write(ALICE, "go", "");
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
        wait_for("a failure", || cluster.log().contains("cleanup"));
        assert!(folder.is_dir(), "{}", cluster.log());
        if restart {
            cluster.kill();
        }
        drop(mounted);
        if restart {
            cluster.start();
        }
        wait_for("the folder to go", || !folder.exists());
        assert_nothing_left(&cluster);
    }
}

#[test]
fn groups_that_somebody_removed_are_made_again_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(FOUR_CPUS);
    let first = cluster.submit(ALICE, &[], &honest("exit 0"));
    cluster.wait_over(&first);
    assert_nothing_left(&cluster);
    for round in 1..=2 {
        remove_groups(&cluster.root.join("run/ax"));
        let id = cluster.submit(ALICE, &["--ram=64M"], &honest("cat /proc/self/cgroup >groups; exit 0"));
        let job = cluster.wait_over(&id);
        assert_eq!(job["state"], "SUCCEEDED", "round {round}: {job:#}");
        assert_eq!(attempts(&job).len(), 2, "round {round}: the groups were not gone: {job:#}");
        let groups = cluster.read(ALICE, "groups");
        assert!(groups.contains(&format!("/{id}.")), "round {round}: {groups}");
        assert_nothing_left(&cluster);
    }
}
