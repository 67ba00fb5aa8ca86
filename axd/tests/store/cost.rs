//! What the store costs. Printed, not asserted: machines differ.

use std::path::Path;
use std::time::{Duration, Instant};

use axd::store::{Options, Writer};

use crate::fixture::*;

/// CPU time of all threads that live now.
fn cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.map(|t| schedstat(&t.path().join("schedstat"))).sum()
}

fn cpu_of_this_thread() -> Duration {
    schedstat(Path::new("/proc/thread-self/schedstat"))
}

/// The first figure: nanoseconds on a CPU.
fn schedstat(path: &Path) -> Duration {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// `cargo test -p axd --release --test store -- --ignored --nocapture cost`
#[test]
#[ignore = "measures; run it in a release build"]
fn of_the_whole_life_of_a_job() {
    for (group, events) in [(1, false), (1, true), (10, false), (100, false), (100, true)] {
        measure_lives(group, events);
    }
}

fn measure_lives(group: u64, events: bool) {
    const JOBS: u64 = 3000;
    let place = Place::new();
    let writer = Writer::spawn(place.open(), Options { events }, Box::new(|| {})).unwrap();
    let mut cluster = Cluster::new();
    let (wall, before, mut caller) = (Instant::now(), cpu(), Duration::ZERO);
    for key in 0..JOBS {
        let since = cpu_of_this_thread();
        let (_, attempt) = cluster.submit(&writer, key * 10_000, submission(u128::from(key), request(1)));
        cluster.run(&writer, key * 10_000 + 10, attempt.unwrap(), 0);
        caller += cpu_of_this_thread() - since;
        if key % group == group - 1 {
            cluster.settle(&writer);
        }
    }
    let (wall, all) = (wall.elapsed(), cpu() - before);
    let us = |time: Duration| time.as_secs_f64() * 1e6 / JOBS as f64;
    println!(
        "{group:3} jobs at once, events {events:5}: {:4.0} µs of CPU a job, {:3.0} of it in the caller; {:5.0} µs of wall",
        us(all),
        us(caller),
        us(wall)
    );
    writer.close().unwrap();
    let size = |path| std::fs::metadata(path).map_or(0, |m| m.len()) / JOBS;
    println!("    bytes a job: {} and {}", size(place.paths.database()), size(place.paths.events()));
}

#[test]
#[ignore = "measures; run it in a release build"]
fn of_a_restart_with_ten_thousand_waiting_jobs() {
    let place = Place::new();
    let (writer, mut cluster) = (place.writer(), Cluster::new());
    for key in 0..10_000 {
        cluster.submit(&writer, key, submission(u128::from(key), request(99)));
    }
    cluster.settle(&writer);
    writer.close().unwrap();
    let start = Instant::now();
    let mut store = place.open();
    let opened = start.elapsed();
    let jobs = store.restore(at(0).wall).unwrap().jobs.len();
    println!("open {opened:?}, restore of {jobs} jobs {:?}", start.elapsed() - opened);
}
