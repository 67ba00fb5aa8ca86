//! What the store costs. Printed, not asserted: machines differ.

use std::time::{Duration, Instant};

use ax_core::controller::Event;

use crate::fixture::*;

/// CPU time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own: u64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let all = threads.filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok());
    let all: u64 = all.filter_map(|s| s.split(' ').next()?.parse::<u64>().ok()).sum();
    Duration::from_nanos(all.max(own))
}

/// `cargo test -p axd --release --test store -- --ignored --nocapture cost`
#[test]
#[ignore = "measures; run it in a release build"]
fn of_the_whole_life_of_a_job() {
    for group in [1_u64, 10, 100] {
        let place = Place::new();
        let (writer, mut cluster) = (place.writer(), Cluster::new());
        let (wall, before) = (Instant::now(), cpu());
        let mut core = Duration::ZERO;
        for key in 0..5000 {
            let since = cpu_of_this_thread();
            let (_, attempt) = cluster.submit(&writer, key * 10_000, submission(u128::from(key), request(1)));
            cluster.run(&writer, key * 10_000 + 10, attempt.unwrap(), 0);
            core += cpu_of_this_thread() - since;
            if key % group == group - 1 {
                cluster.settle(&writer);
            }
        }
        cluster.settle(&writer);
        let (wall, used) = (wall.elapsed(), cpu() - before);
        println!(
            "{group:3} jobs at once: {:.0} µs of CPU a job (of it {:.0} in the caller), {:.0} µs of wall",
            used.as_secs_f64() * 1e6 / 5000.0,
            core.as_secs_f64() * 1e6 / 5000.0,
            wall.as_secs_f64() * 1e6 / 5000.0
        );
        writer.close().unwrap();
        let size = std::fs::metadata(place.paths.database()).unwrap().len();
        println!("    {} bytes of database a job", size / 5000);
    }
}

fn cpu_of_this_thread() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
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
    let event = Event::Tick;
    drop((store, event));
}
