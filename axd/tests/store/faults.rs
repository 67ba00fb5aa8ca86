//! A full disk, a daemon killed while it writes: nothing acknowledged is lost.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use ax_core::controller::{Event, Wish};
use ax_core::job::Job;
use axd::store::events::{EventReader, Recorded};
use axd::store::{Ack, Store, check};

use crate::fixture::*;

/// A file system of a given size in memory; none without root.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(size: &str) -> Option<SmallDisk> {
        let path = std::env::temp_dir().join(format!("ax-disk-{}", ax_sys::random::name().unwrap()));
        std::fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&path);
        if mount.stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
            return Some(SmallDisk(path));
        }
        std::fs::remove_dir(&path).unwrap();
        println!("skipped: a small file system can be mounted by root only");
        None
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }

    /// Fills what is left, to the last page.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Acknowledgements come in order, each once, up to `last`.
fn all_in_order(acks: &[Ack], last: u64) {
    let committed: Vec<u64> = acks
        .iter()
        .filter_map(|a| match a {
            Ack::Committed(id) => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(committed, (1..=last).collect::<Vec<_>>());
}

#[test]
fn on_a_full_disk_nothing_is_lost_the_order_is_kept_and_it_goes_on() {
    let Some(disk) = SmallDisk::new("2m") else { return };
    let place = Place::below(&disk.0);
    let store = place.open();
    assert!(
        store.notices().iter().any(|n| n.contains("no reserve for a full disk")),
        "{:?}",
        store.notices()
    );
    let (writer, mut cluster) = (spawn(store), Cluster::new());
    cluster.submit(&writer, 0, submission(1, request(1)));
    let mut acks = cluster.settle(&writer);
    disk.fill();
    for key in 2..200 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    acks.extend(wait_for(&writer, |a| matches!(a, Ack::Failing { disk_full: true, .. })));
    std::thread::sleep(Duration::from_millis(700));
    acks.extend(writer.poll());
    assert_eq!(acks.iter().filter(|a| matches!(a, Ack::Failing { .. })).count(), 1, "said once");
    assert!(!acks.contains(&Ack::Committed(cluster.batches)));
    let Some(Ack::Failing { error, .. }) = acks.iter().find(|a| matches!(a, Ack::Failing { .. })) else {
        return;
    };
    println!("{error}");
    disk.resize("64m");
    acks.extend(cluster.settle(&writer));
    acks.extend(writer.poll());
    all_in_order(&acks, cluster.batches);
    assert_eq!(acks.iter().filter(|a| **a == Ack::Recovered).count(), 1);
    writer.close().unwrap();
    assert!(check::check(&place.paths).unwrap().is_good());
    let restored = place.open().restore(at(0).wall).unwrap();
    let jobs: Vec<Job> = cluster.controller.jobs().cloned().collect();
    assert_eq!(restored.jobs, jobs);
}

#[test]
fn the_reserve_lets_ends_be_written_on_a_full_disk() {
    let Some(disk) = SmallDisk::new("48m") else { return };
    let place = Place::below(&disk.0);
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    writer.record_snapshot(at(0), cluster.controller.snapshot());
    let mut attempts = Vec::new();
    for key in 1..=8 {
        attempts.extend(cluster.submit(&writer, key, submission(u128::from(key), request(1))).1);
    }
    let mut acks = cluster.settle(&writer);
    assert_eq!(std::fs::metadata(place.paths.reserve()).unwrap().len(), 16 << 20);
    let filler = disk.fill();
    // Notes fill the last pages of the log, then it must grow.
    for ms in 0..400 {
        let job = attempts[0].job;
        let actor = ax_core::job::Actor::Ax;
        cluster.step(&writer, at(100 + ms), Event::Wished { job, actor, wish: Wish::Signal(10), why: None });
        cluster.submit(&writer, 100 + ms, submission(1000 + u128::from(ms), request(99)));
    }
    for attempt in &attempts {
        cluster.run(&writer, 2000, *attempt, 0);
    }
    acks.extend(cluster.settle(&writer));
    assert!(acks.iter().any(|a| matches!(a, Ack::Failing { disk_full: true, .. })), "{acks:?}");
    assert!(!acks.contains(&Ack::Recovered), "not before there is a reserve again");
    assert!(!place.paths.reserve().exists());
    all_in_order(&acks, cluster.batches);
    std::fs::remove_file(filler).unwrap();
    acks.extend(wait_for(&writer, |a| *a == Ack::Recovered));
    assert!(place.paths.reserve().exists());
    cluster.step(&writer, at(20_000), Event::Tick);
    writer.close().unwrap();
    assert!(check::check(&place.paths).unwrap().is_good());
    let events = EventReader::open(&place.paths.events()).unwrap();
    let mut gaps = 0;
    let first = events.snapshot_before(at(0).wall).unwrap().unwrap();
    events
        .each_from(first, |entry| {
            gaps += usize::from(entry.recorded == Recorded::Gap);
            true
        })
        .unwrap();
    assert_eq!(gaps, 1, "what was left out is said");
}

#[test]
fn a_stop_while_commits_fail_says_what_was_not_saved() {
    let Some(disk) = SmallDisk::new("2m") else { return };
    let place = Place::below(&disk.0);
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    disk.fill();
    for key in 2..200 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    let error = writer.close().unwrap_err().to_string();
    assert!(error.contains("changes could not be written to"), "{error}");
}

const CHILD: &str = "AX_STORE_TEST_CHILD";

/// Writes for ever and says what is acknowledged. Only as a child of the next test.
#[test]
fn child_that_writes() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let store = Store::open(&ax_core::paths::Paths::under(folder.as_ref())).unwrap();
    let (writer, mut cluster) = (spawn(store), Cluster::new());
    let mut out = std::io::stdout();
    for key in 1.. {
        cluster.submit(&writer, key, submission(u128::from(key), request(99)));
        if key % 7 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
        for ack in writer.poll() {
            if let Ack::Committed(id) = ack {
                writeln!(out, "committed {id}").unwrap();
            }
        }
        out.flush().unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for round in 0..3 {
        let place = Place::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "faults::child_that_writes", "--nocapture", "--test-threads=1"])
            .env(CHILD, place.root.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let (begun, first) = std::sync::mpsc::channel();
        let reading = std::thread::spawn(move || {
            let numbers = BufReader::new(out).lines().map_while(Result::ok);
            let numbers =
                numbers.filter_map(|l| l.strip_prefix("committed ").and_then(|n| n.parse::<u32>().ok()));
            numbers.inspect(|_| begun.send(()).unwrap_or(())).last()
        });
        first.recv_timeout(Duration::from_secs(60)).expect("something is acknowledged");
        std::thread::sleep(Duration::from_millis(50 + 170 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reading.join().unwrap().expect("something was acknowledged");
        // The child's batch n submits the job with number n.
        let restored = place.open().restore(at(0).wall).unwrap();
        let jobs: Vec<u32> = restored.jobs.iter().map(|j| j.id.number.0).collect();
        println!("acknowledged {acknowledged}, there are {}", jobs.len());
        assert!(jobs.len() as u32 >= acknowledged);
        assert_eq!(jobs, (1..=jobs.len() as u32).collect::<Vec<_>>(), "no gaps: the order was kept");
        assert!(check::check(&place.paths).unwrap().is_good());
    }
}

#[test]
fn a_stranger_s_lock_delays_and_loses_nothing() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    let stranger = rusqlite::Connection::open(place.paths.database()).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    for key in 1..50 {
        cluster.submit(&writer, key, submission(u128::from(key), request(1)));
    }
    let mut acks = wait_for(&writer, |a| matches!(a, Ack::Failing { id: 1, disk_full: false, .. }));
    stranger.execute_batch("ROLLBACK").unwrap();
    acks.extend(cluster.settle(&writer));
    assert_eq!(acks.iter().filter(|a| **a == Ack::Recovered).count(), 1);
    all_in_order(&acks, cluster.batches);
    writer.close().unwrap();
    assert!(check::check(&place.paths).unwrap().is_good());
}
