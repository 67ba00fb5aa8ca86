//! Nobody fills the disk that all jobs are on with what they submit.

use crate::cluster::{ALICE, BOB, Cluster, Ran, as_root, wait_for};

const LIMIT: &str = "policy: {max_stored_per_user: 1M}\n";

/// A script of this length that is like no other.
fn script(name: u32, length: usize) -> Vec<u8> {
    let mut script = format!("#!/bin/sh\nexit 0\n# {name} ").into_bytes();
    let mut state = u64::from(name) + 1;
    while script.len() < length {
        // Nothing that could be packed.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        script.extend((state >> 33).to_le_bytes().map(|byte| byte | 0x80));
    }
    script
}

fn try_submit(cluster: &Cluster, user: crate::cluster::User, name: u32, length: usize) -> Ran {
    let file = format!("big-{name}.sh");
    cluster.write(user, &file, script(name, length));
    cluster.run(user, "axbatch", &["--hold", "--parsable", "--export=NONE", &file])
}

#[test]
fn one_user_does_not_fill_the_disk_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(LIMIT);
    let mut jobs = Vec::new();
    for name in 0..3 {
        let ran = try_submit(&cluster, ALICE, name, 300_000);
        assert_eq!(ran.code, 0, "{ran:?}");
        jobs.push(ran.out.trim().to_owned());
    }
    for name in 10..30 {
        let ran = try_submit(&cluster, ALICE, name, 300_000);
        assert_eq!(ran.code, 75, "{ran:?}");
        assert!(
            ran.err.contains("at most 1048576 are stored for a user (policy.max_stored_per_user)"),
            "{ran:?}"
        );
        assert!(ran.err.starts_with(
            "axbatch: scripts, environments and options of your waiting and running jobs have 90"
        ));
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    }
    let forecast = cluster.run(ALICE, "axbatch", &["--test-only", "--export=NONE", "big-10.sh"]);
    assert!(format!("{forecast:?}").contains("policy.max_stored_per_user"), "{forecast:?}");
    // The same once more costs nothing; others are not concerned; what is too large alone never gets in.
    for _ in 0..10 {
        assert_eq!(try_submit(&cluster, ALICE, 1, 300_000).code, 0);
    }
    assert_eq!(try_submit(&cluster, BOB, 11, 300_000).code, 0);
    let large = try_submit(&cluster, BOB, 12, 1_100_000);
    assert_eq!(large.code, 65, "{large:?}");

    // Not by a restart, nor by the spool, where it waits in its place.
    cluster.stop();
    cluster.start();
    assert_eq!(try_submit(&cluster, ALICE, 10, 300_000).code, 75);
    cluster.put(ALICE, "dropped.sh", script(40, 300_000));
    wait_for("the drop to be told to wait", || cluster.log().contains("drops_wait uid=1"));
    assert!(cluster.why(ALICE, "dropped.sh").is_empty());

    assert_eq!(cluster.run(ALICE, "ax", &["cancel", &jobs[0]]).code, 0);
    wait_for("the drop to be taken", || cluster.log().contains("name=dropped.sh"));
    let database = std::fs::metadata(cluster.root.join("var/lib/ax/ax.db")).unwrap().len();
    assert!(database < 4 << 20, "{database} bytes");
}

/// How much the daemon has written, but for the room that it keeps.
fn written(cluster: &Cluster) -> u64 {
    let files =
        ["var/lib/ax/ax.db", "var/lib/ax/events.db", "var/lib/ax/events.db-wal", "var/log/ax-controller.log"];
    let length = |file: &&str| std::fs::metadata(cluster.root.join(file)).map_or(0, |meta| meta.len());
    files.iter().map(length).sum()
}

/// Whatever is done to a job is written into three files, all of them root's.
#[test]
fn nor_with_what_is_done_to_jobs() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(LIMIT);
    let id = cluster.submit(BOB, &["--hold", "--begin=now+30days"], "#!/bin/sh\n");
    let why = format!("--why={}", "\u{1}".repeat(4000));
    let act = |word: &str| cluster.run(BOB, "ax", &[word, &why, &id]);
    // What changes nothing is not written.
    let before = written(&cluster);
    for _ in 0..50 {
        assert_eq!(act("hold").out, format!("{id}: nothing changed\n"));
    }
    let more = written(&cluster) - before;
    assert!(more < 20_000, "{more} bytes");
    // What changes something has its share of the disk.
    let refused = (0..400).find_map(|n| Some(act(["release", "hold"][n % 2])).filter(|ran| ran.code != 0));
    let refused = refused.unwrap();
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(refused.err.contains("4 times policy.max_stored_per_user; try again in"), "{refused:?}");
    let all = written(&cluster);
    assert!(all < 12 << 20, "{all} bytes");
    // The story is told in part, the newest of it; others submit; and who can do nothing else can cancel.
    let status = cluster.run(BOB, "ax", &["status", "--json", &id]);
    assert!(
        status.out.len() < 2 << 20 && status.out.contains("released by bin"),
        "{} bytes",
        status.out.len()
    );
    cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let other = cluster.run(BOB, "axbatch", &["--hold", "job-1.sh"]);
    assert_eq!(cluster.run(BOB, "ax", &["cancel", &id]).code, 0, "{other:?}");
}

/// Jobs that are over are stored for as long as the accounts are kept.
#[test]
fn nor_with_jobs_that_come_and_go() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(LIMIT);
    let refused = (0..40).find_map(|name| {
        let ran = try_submit(&cluster, ALICE, name, 300_000);
        if ran.code == 0 {
            assert_eq!(cluster.run(ALICE, "ax", &["cancel", ran.out.trim()]).code, 0);
        }
        Some((name, ran)).filter(|(_, ran)| ran.code != 0)
    });
    let (jobs, ran) = refused.unwrap();
    assert_eq!(ran.code, 75, "{ran:?}");
    assert!((10..20).contains(&jobs), "{jobs}");
    assert!(ran.err.contains("were written down of late"), "{ran:?}");
    assert_eq!(try_submit(&cluster, BOB, 50, 300_000).code, 0);
}
