//! What users put into the spool without number, to fill root's log.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::cluster::{ALICE, BOB, Cluster, as_root, wait_for};
use crate::spool_attacks::{is_sound, own};

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

/// So is each drop that can't become a job.
#[test]
fn refused_drops_without_number_do_not_flood_the_log() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config("policy: {max_stored_per_user: 1M}\n");
    let name = |number: u32| format!("{number}-{}", "\u{1}".repeat(190));
    for number in 0..1500 {
        cluster.put(ALICE, &name(number), "#AX --nonsense\n");
    }
    is_sound(&mut cluster, BOB);
    let refused = cluster.spool().join("refused/1");
    let all = || fs::read_dir(&refused).unwrap().count();
    wait_for("all of them to be refused", || all() == 3000);
    let told = cluster.log().lines().filter(|line| line.contains("drop_refused")).count();
    assert!((100..1300).contains(&told), "{told}");
}
