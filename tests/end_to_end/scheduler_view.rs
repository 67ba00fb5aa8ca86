//! `axctl diag`: what a real daemon says of its scheduler is what has happened.

use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};

const CONFIG: &str =
    "resources: {cpus: 2, ram: 1000M}\nqueues:\n  - {name: default}\n  - {name: night, state: stopped}\n";

fn view(cluster: &Cluster) -> Value {
    let ran = cluster.run(ROOT, "axctl", &["diag", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

#[test]
fn the_scheduler_says_what_it_did() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(CONFIG);
    let submit = |options: &[&str], script: &str| {
        let all = [&["--ram=10M", "--output=/dev/null"], options].concat();
        cluster.submit(ALICE, &all, &format!("#!/bin/sh\n{script}\n"))
    };
    let first = submit(&["--time=1"], "sleep 2");
    wait_for("a start", || cluster.state(&first) == "RUNNING");
    // A place is kept for it; the short one that fits beside passes it.
    let wide = submit(&["--cpus-per-task=2", "--time=1"], "true");
    let short = submit(&["--time=0:30"], "sleep 1");
    submit(&["--hold"], "true");
    submit(&["--queue=night"], "true");
    let told = cluster.job(&wide)["expected_start"].clone();
    assert!(told.is_string(), "{told}");
    let found = view(&cluster);
    assert_eq!(found["queues"][0]["ready"], json!(1), "{found:#}");
    assert_eq!(found["queues"][0]["pending"], json!(1), "{found:#}");
    assert_eq!(found["queues"][1]["state"], json!("stopped"), "{found:#}");
    assert_eq!(found["queues"][1]["ready"], json!(1), "{found:#}");
    assert_eq!((&found["kept"][0]["job"], &found["kept"][0]["from"]), (&json!(wide), &told), "{found:#}");
    assert_eq!((&found["starts"], &found["backfilled"]), (&json!(2), &json!(1)), "{found:#}");
    assert_eq!(found["forecasts"]["open"], json!(1), "{found:#}");
    for id in [&first, &short, &wide] {
        cluster.wait_over(id);
    }
    let found = view(&cluster);
    assert_eq!((&found["starts"], &found["ends"]), (&json!(3), &json!(3)), "{found:#}");
    assert!(found["passes"].as_u64().unwrap() >= 8, "{found:#}");
    let times = &found["pass_times"];
    assert!(
        times["p50_us"].as_u64() <= times["p99_us"].as_u64() && times["of"] == found["passes"],
        "{found:#}"
    );
    // Told a minute, and started after two seconds: known for a month, whatever becomes of the daemon.
    let right =
        json!({"days": 31, "jobs": 1, "half_within_s": 64, "most_within_s": 64, "late": 0, "open": 0});
    assert_eq!(found["forecasts"], right);
    let text = cluster.run(ROOT, "axctl", &["diag"]);
    assert!(text.out.contains("3 starts, of them 1 past others (back-fill); 0 evictions"), "{}", text.out);
    assert!(text.out.contains("1 job, half within 1m04s, 9 of 10 within 1m04s; 0 later"), "{}", text.out);
    cluster.stop();
    cluster.start();
    assert_eq!(view(&cluster)["forecasts"], right);
    let refused = cluster.run(BOB, "axctl", &["diag"]);
    assert_eq!((refused.code, refused.err.lines().count()), (77, 1), "{refused:?}");
    assert!(refused.err.contains("only administrators see how the scheduler fares"), "{refused:?}");
}
