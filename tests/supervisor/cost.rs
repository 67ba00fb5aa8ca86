//! What a supervised script costs beside a bare one. Says numbers, asserts nothing about them: run by hand, with
//! `cargo test --release --test supervisor -- --ignored --nocapture cost`.

use std::time::{Duration, Instant};

use ax_core::job::state::Outcome;

use crate::world::World;

const JOBS: u32 = 300;

#[test]
#[ignore = "measures; run by hand"]
fn cost() {
    let Some(world) = World::new() else { return };
    let script = world.root.join("bare");
    std::fs::write(&script, "exit 0").unwrap();
    for _ in 0..3 {
        let (begin, used) = (Instant::now(), cpu());
        for _ in 0..JOBS {
            assert!(std::process::Command::new("/bin/sh").arg(&script).status().unwrap().success());
        }
        let bare = (begin.elapsed() / JOBS, (cpu() - used) / u64::from(JOBS));
        let used = cpu();
        let mut supervised = Duration::ZERO;
        for _ in 0..JOBS {
            let job = world.job("exit 0").with(|a| {
                a.files.output = "/dev/null".to_owned();
                a.limits.ram = Some(ax_core::size::Megabytes(256));
                a.limits.pids = Some(100);
                a.limits.cpuset = Some("0".to_owned());
            });
            let begin = Instant::now();
            let mut running = job.start();
            running.exit();
            supervised += begin.elapsed();
            assert_eq!(running.record().unwrap().outcome, Outcome::Succeeded);
        }
        let cpu = (cpu() - used) / u64::from(JOBS);
        println!(
            "bare: wall {:?}, CPU {} us; supervised: wall {:?}, CPU {cpu} us",
            bare.0,
            bare.1,
            supervised / JOBS
        );
    }
}

/// CPU time of everything that was started and has ended, microseconds. Other load moves it by a third, not tenfold.
fn cpu() -> u64 {
    ax_sys::usage::children_cpu_us().unwrap()
}
