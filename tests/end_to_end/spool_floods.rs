//! More drops, folders and names of one user than anybody can use: others are served promptly, and root's log stays
//! short.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cluster::{ALICE, BOB, Cluster, as_root, wait_for};
use crate::spool::{names_in, put_into};
use crate::spool_attacks::{Mount, is_sound, own};

/// The spool on a file system in memory, where that can be had: removing many files takes long on some disks.
fn in_memory(cluster: &Cluster) -> Option<Mount> {
    let spool = cluster.root.join("var/spool");
    fs::create_dir_all(&spool).unwrap();
    Mount::new(&["-t", "tmpfs", "none"], &spool)
}

#[test]
fn a_flood_of_one_user_is_no_delay_for_another() {
    if !as_root() {
        return;
    }
    // Names of one file are made quickly, but a file can't have too many of them.
    const NAMES: usize = 50_000;
    let long = std::env::var_os("AX_TEST_LONG").is_some();
    let files = if long { 20 } else { 2 };
    let mut cluster = Cluster::stopped("policy:\n  max_queued_per_user: 20\n");
    let _mount = in_memory(&cluster);
    cluster.start();
    cluster.stop();
    let flooded = cluster.own_folder(BOB);
    for file in 0..files {
        let source = flooded.join(format!("{file}-0.sh"));
        fs::write(&source, "true\n").unwrap();
        own(&source, BOB);
        for name in 1..NAMES {
            fs::hard_link(&source, flooded.join(format!("{file}-{name}.sh"))).unwrap();
        }
    }
    cluster.start();
    wait_for("the flood to begin", || cluster.log().contains("drop_refused"));
    for _ in 0..5 {
        is_sound(&mut cluster, ALICE);
    }
    // And more than may be in the queue, in another folder.
    let held = cluster.folder(BOB, "2-held");
    for number in 0..30 {
        put_into(&held, BOB, &format!("{number}.sh"), "#AX --hold -o /dev/null\n");
    }
    wait_for("the limit", || cluster.log().contains("drops_wait"));
    is_sound(&mut cluster, ALICE);
    cluster.kill();
    let refused = names_in(&cluster.spool().join("refused/2"));
    let refused = refused.iter().filter(|name| !name.ends_with(".why") && !name.starts_with('.')).count();
    let taken = names_in(&cluster.spool().join("taken")).len();
    let left = names_in(&flooded).len() + names_in(&held).len() + refused + taken;
    assert!((files * NAMES + 10..=files * NAMES + 30).contains(&left), "{left} are left");
    assert!(taken <= 100, "{taken}");
}

#[test]
fn a_thousand_folders_of_one_user_are_no_delay_for_another() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    let _mount = in_memory(&cluster);
    cluster.start();
    for number in 0..1000 {
        let folder = cluster.folder(BOB, &format!("2-{number}"));
        put_into(&folder, BOB, "job.sh", "#AX --nonsense\n");
    }
    is_sound(&mut cluster, ALICE);
    let incoming = cluster.spool().join("incoming");
    wait_for("all of them", || (0..1000).all(|n| names_in(&incoming.join(format!("2-{n}"))).is_empty()));
    is_sound(&mut cluster, ALICE);
}

/// Each name that can't be taken from is a line in root's log, and names are anybody's to make.
#[test]
fn names_without_number_do_not_flood_the_log() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let incoming = cluster.spool().join("incoming");
    let name = |round: u32, number: u32| incoming.join(format!("{round}-{number}-{}", "\u{1}".repeat(100)));
    for number in 0..5000 {
        fs::create_dir(name(0, number)).unwrap();
        fs::set_permissions(name(0, number), fs::Permissions::from_mode(0o755)).unwrap();
        own(&name(0, number), ALICE);
    }
    is_sound(&mut cluster, BOB);
    for number in 0..5000 {
        fs::rename(name(0, number), name(1, number)).unwrap();
    }
    is_sound(&mut cluster, BOB);
    let log = cluster.log();
    let lines = log.lines().filter(|line| line.contains("spool_ignored")).count();
    assert!((1..70).contains(&lines) && log.len() < 100_000, "{lines} lines, {} bytes", log.len());
    assert!(log.contains("what else user 1 did is not told today"), "{log}");
}
