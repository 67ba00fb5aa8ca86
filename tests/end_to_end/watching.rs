//! What is seen on cards: kept over time, set against what jobs hold, and the reason to warn and end those whose cards do
//! nothing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cards::{card, with_cards};
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};
use crate::fake_cards::FakeCards;

/// One card, as busy as is said.
fn busy(load: u32) -> String {
    format!(
        "card GPU-aaaa name=NVIDIA_A100 minor=0 pci=00000000:3B:00.0 memory=81920 reserved=600 temp=51 power=61000 load={load}\n"
    )
}

/// Changes how busy the card is; what processes have stays.
fn work(fake: &FakeCards, load: u32) {
    let before = std::fs::read_to_string(fake.script()).unwrap();
    let rest: Vec<&str> = before.lines().filter(|line| line.starts_with("process")).collect();
    fake.set(&format!("{}{}\n", busy(load), rest.join("\n")));
}

/// A job that has memory on the card and runs until it is ended.
fn holds(fake: &FakeCards, mib: u32, more: &str) -> String {
    let script = fake.script().display();
    format!(
        "#!/bin/sh\necho \"process $$ GPU-aaaa {mib}\" >> {script}\n{more}\nwhile :; do sleep 0.1; done\n"
    )
}

fn noted(cluster: &Cluster, id: &str, start: &str) -> bool {
    let job = cluster.job(id);
    let lines = job["decisions"].as_array().unwrap();
    lines.iter().any(|line| line["what"].as_str().unwrap_or_default().starts_with(start))
}

fn history(cluster: &Cluster) -> Vec<f64> {
    let all = cluster.json(ALICE, &["resource", "--history", "2m", "--json"]);
    let points = all[0]["points"].as_array().unwrap();
    points.iter().filter_map(|point| point["used_mb"]["max"].as_f64()).collect()
}

#[test]
fn what_is_seen_on_a_card_is_kept_and_told_as_root() {
    if !as_root() {
        return;
    }
    let (mut cluster, fake) = with_cards(&busy(40), "");
    wait_for("the card", || !cluster.json(ALICE, &["resource", "--json"]).as_array().unwrap().is_empty());
    let options = ["-G", "1", "--mem=30G", "-c", "1", "--ram=64M"];
    let slice = cluster.submit(ALICE, &options, &holds(&fake, 20_000, ""));
    wait_for("its memory to be seen", || card(&cluster, "GPU-aaaa")["held"][0]["used_mb"] == 20_000);
    let seen = card(&cluster, "GPU-aaaa");
    assert_eq!(
        (&seen["load"], &seen["temperature"], &seen["used_mb"]),
        (&json!(40), &json!(51), &json!(20_000))
    );
    assert_eq!((&seen["held"][0]["job"], &seen["held"][0]["mem_mb"]), (&json!(slice), &json!(28_610)));
    assert_eq!((&seen["unused_mb"], &seen["fragmentation"]), (&json!(8_610), &json!(10)));
    assert!(seen["warning"].is_null());
    wait_for("the percentile", || card(&cluster, "GPU-aaaa")["p95_mb"] == 20_000);
    // A line a card: owner, slice, reserved, used, percentile, load, temperature, rung, health.
    let table = cluster.ok(
        ALICE,
        "ax",
        &["resource", "-o", "index,owner,slices,reserved,used,p95,load,temp,limit,health"],
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let shown: Vec<_> = table.lines().map(words).collect();
    assert_eq!(shown[0].join(" "), "GPU OWNER SLICES RESERVED USED P95 LOAD TEMP LIMIT HEALTH");
    assert_eq!(shown[1].join(" "), "0 daemon 30GB 30GB 21GB 21GB 40% 51C env healthy", "{table}");
    let all = cluster.ok(ALICE, "ax", &["resource", "--long"]);
    assert!(
        all.contains(" UNEXPLAINED ") && all.contains(&format!("{slice} daemon 30GB (21GB used)")),
        "{all}"
    );
    // Slices that hold much more than they use are said.
    let vast = cluster.submit(BOB, &["-G", "1", "--mem=50G", "-c", "1", "--ram=64M"], &holds(&fake, 100, ""));
    wait_for("the warning", || card(&cluster, "GPU-aaaa")["warning"].is_string());
    let warning = card(&cluster, "GPU-aaaa")["warning"].as_str().unwrap().to_owned();
    assert!(warning.contains("bound and not used (resources.gpu_fragmentation_warning is 30%)"), "{warning}");
    cluster.run(BOB, "ax", &["cancel", &vast]);
    cluster.wait_over(&vast);

    wait_for("the history", || history(&cluster).iter().any(|used| *used >= 20_000.0));
    let charts = cluster.ok(ALICE, "ax", &["resource", "--history", "2m"]);
    assert!(charts.contains("GPU 0 ") && charts.contains(": the last 2m"), "{charts}");
    for (label, figures) in [("memory ", "most 21"), ("load ", "now 40%, mean 40%")] {
        let line = charts.lines().find(|line| line.trim_start().starts_with(label)).unwrap();
        assert!(line.contains(figures), "{charts}");
    }
    let usage = cluster.json(ALICE, &["eff", "--json", &slice]);
    assert_eq!(
        (&usage[0]["gpu_mem_held_mb"], &usage[0]["gpu_mem_peak_mb"]),
        (&json!(28_610), &json!(20_000))
    );
    assert_eq!(usage[0]["gpu_busy_percent"]["max"], 40.0, "{usage:#}");
    assert!(usage[0]["ram_peak_mb"].as_u64().is_some(), "{usage:#}");

    // What was kept outlives the daemon, and the peak goes into the accounts.
    cluster.stop();
    cluster.start();
    assert!(history(&cluster).iter().any(|used| *used >= 20_000.0));
    wait_for("the card to be seen again", || card(&cluster, "GPU-aaaa")["used_mb"] == 20_000);
    cluster.run(ALICE, "ax", &["cancel", &slice]);
    let ended = cluster.wait_over(&slice);
    assert_eq!(ended["attempts"][0]["max_gpu_mem_mb"], 20_000, "{ended:#}");
    let usage = cluster.json(ALICE, &["eff", "--json", &slice]);
    assert_eq!(usage[0]["gpu_mem_peak_mb"], 20_000, "{usage:#}");
    assert!(usage[0]["cpus"] == 1 && usage[0]["cpu_time_s"].as_f64() > Some(0.0), "{usage:#}");

    // A broken database of samples costs the past and nothing else.
    cluster.stop();
    let state = cluster.root.join("var/lib/ax");
    let _ = std::fs::remove_file(state.join("samples.db-wal"));
    std::fs::write(state.join("samples.db"), [7; 65_536]).unwrap();
    cluster.start();
    assert!(history(&cluster).iter().all(|used| *used < 20_000.0));
    let next = cluster.submit(ALICE, &options, &holds(&fake, 5_000, ""));
    wait_for("a new history", || history(&cluster).iter().any(|used| *used >= 5_000.0));
    cluster.run(ALICE, "ax", &["cancel", &next]);
    cluster.wait_over(&next);
}

/// `policy.idle` in seconds, so that a test can wait for it.
fn strict() -> (Cluster, FakeCards) {
    let (cluster, fake) = with_cards(&busy(0), "policy:\n  idle: 2s\n  idle_end: 5s\n");
    wait_for("the card", || !cluster.json(ROOT, &["resource", "--json"]).as_array().unwrap().is_empty());
    (cluster, fake)
}

#[test]
fn a_job_whose_cards_do_nothing_is_warned_and_ended_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = strict();
    let more = "trap 'echo usr1 >> heard' USR1; trap 'echo term >> heard; exit 0' TERM";
    let began = Instant::now();
    let id = cluster.submit(ALICE, &["-G", "1", "--signal=B:USR1@1"], &holds(&fake, 500, more));
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "CANCELLED", "{job:#}");
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.starts_with("IDLE: its cards did nothing for "), "{reason}");
    assert!(noted(&cluster, &id, "warning: its cards have done nothing for 2s"), "{job:#}");
    assert!(cluster.log().contains("warning: its cards have done nothing for 2s"));
    assert_eq!(cluster.read(ALICE, "heard"), "usr1\nterm\n");
    assert!(job["attempts"][0]["idle_s"].as_u64().unwrap() >= 4, "{job:#}");
    let acct = cluster.json(ALICE, &["acct", "--json"]);
    assert!(acct[0]["attempts"][0]["idle_s"].as_u64().unwrap() >= 4, "{acct:#}");
    assert!(cluster.ok(ALICE, "ax", &["acct"]).contains("(idle"));
}

#[test]
fn work_and_an_answer_keep_a_job_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = strict();
    work(&fake, 5);
    let id = cluster.submit(ALICE, &["-G", "1"], &holds(&fake, 500, ""));
    cluster.wait_state(&id, &["RUNNING"]);
    sleep(Duration::from_secs(7));
    assert!(
        cluster.state(&id) == "RUNNING" && !noted(&cluster, &id, "warning"),
        "it works: {:#}",
        cluster.job(&id)
    );

    work(&fake, 0);
    wait_for("the warning", || noted(&cluster, &id, "warning"));
    let kept = cluster.run(ALICE, "ax", &["keep", &id, "--for", "1h", "--why", "the data come at noon"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    sleep(Duration::from_secs(8));
    assert_eq!(cluster.state(&id), "RUNNING", "it was answered for");
    assert!(noted(&cluster, &id, "idle cards kept for 1h by daemon: the data come at noon"));
    let usage = cluster.json(ALICE, &["eff", "--json", &id]);
    assert!(usage[0]["gpu_idle_s"].as_u64().unwrap() >= 8, "kept or not, it is counted: {usage:#}");
}

/// On two cards: as long as the job's memory on either of them changes, it is not idle, though no kernel runs.
#[test]
fn memory_that_changes_on_one_of_its_cards_keeps_a_job_as_root() {
    if !as_root() {
        return;
    }
    let two = format!(
        "{}{}",
        busy(0),
        busy(0).replace("GPU-aaaa", "GPU-bbbb").replace("3B", "5E").replace("minor=0", "minor=1")
    );
    let (cluster, fake) = with_cards(&two, "policy:\n  idle: 2s\n  idle_end: 1h\n");
    let id =
        cluster.submit(ALICE, &["-G", "2"], "#!/bin/sh\necho $$ >pid.new; mv pid.new pid; exec sleep 1000\n");
    wait_for("its number", || !cluster.read(ALICE, "pid").is_empty());
    let pid = cluster.read(ALICE, "pid").trim().to_owned();
    let holds =
        |mib: u32| fake.set(&format!("{two}process {pid} GPU-aaaa 500\nprocess {pid} GPU-bbbb {mib}\n"));
    let end = Instant::now() + Duration::from_secs(7);
    let mut mib = 500;
    while Instant::now() < end {
        mib += 1;
        holds(mib);
        sleep(Duration::from_millis(200));
    }
    assert!(!noted(&cluster, &id, "warning"), "{:#}", cluster.job(&id));
    wait_for("the warning", || noted(&cluster, &id, "warning: its cards have done nothing for 2s"));
    assert_eq!(cluster.state(&id), "RUNNING");
}

#[test]
fn cards_that_nobody_measures_are_never_idle_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = strict();
    fake.add("absent nvmlDeviceGetUtilizationRates");
    wait_for("the load to be unknown", || card(&cluster, "GPU-aaaa")["load"].is_null());
    let id = cluster.submit(ALICE, &["-G", "1"], &holds(&fake, 500, ""));
    cluster.wait_state(&id, &["RUNNING"]);
    sleep(Duration::from_secs(8));
    let job: Value = cluster.job(&id);
    assert!(job["state"] == "RUNNING" && !noted(&cluster, &id, "warning"), "{job:#}");
    assert!(job["attempts"][0]["idle_s"].is_null(), "{job:#}");
}
