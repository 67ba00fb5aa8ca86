//! The core decides alone: what a real daemon recorded of a mixed load, fed to
//! a bare controller, gives the same decisions byte for byte, and what the
//! controller then holds is what the tables hold.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ax_core::controller::{Controller, Event, Snapshot};
use ax_core::paths::Paths;
use ax_core::replay::{Found, Replay, what_differs};
use ax_core::time::{BootTime, Now, WallTime};
use ax_sys::clock;
use axd::store::Store;
use axd::store::events::{Entry, EventReader, Recorded};
use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, User, as_root, ran, signal, supervisor_of, wait_for};

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const CONFIG: &str = "resources: {cpus: 8, ram: 8000M}\npolicy: {scheduler: fair_share, max_queued_per_user: 60, retry_delay: 200ms}\nqueues:\n  - {name: default, max_running: 5}\n  - {name: high, priority: 9, max_running: 2}\n";

/// A job of some kind or other.
fn any_job(dice: &mut Dice, cluster: &Cluster, user: User) -> Value {
    let mut job = json!({"uid": user.uid, "cwd": cluster.home(user), "output": "/dev/null", "ram": "50M"});
    let (name, value) = match dice.roll(10) {
        0 => ("hold", json!(true)),
        1 => ("begin", json!("now+1")),
        2 => ("chdir", json!("/nonexistent")),
        3 => ("cpus_per_task", json!(1 + dice.roll(10))),
        4 => ("time", json!("0:01")),
        5 => ("exclusive", json!(dice.roll(4) == 0)),
        _ => ("comment", json!("plain")),
    };
    job[name] = value;
    job["cmd"] = match dice.roll(6) {
        0 => json!("exit 3"),
        1 => json!("sleep 0.1"),
        2 => json!("kill -TERM $$"),
        3 => json!("sleep 30"),
        _ => json!("exit 0"),
    };
    if dice.roll(3) == 0 {
        job["retry"] = json!(1);
    }
    if dice.roll(3) == 0 {
        job["queue"] = json!("high");
    }
    if dice.roll(4) == 0 {
        job["priority"] = json!(dice.roll(101));
    }
    job
}

/// One thing that some user does.
fn do_something(dice: &mut Dice, cluster: &Cluster, jobs: &mut u64) {
    let action = |body: Value| cluster.http("POST", "/api/v1/jobs/action", &body.to_string());
    let some = vec![(1 + dice.roll((*jobs).max(1))).to_string()];
    match dice.roll(12) {
        0 => drop(action(json!({"action": "hold", "jobs": some}))),
        1 | 2 => drop(action(json!({"action": "release", "jobs": some}))),
        3 | 4 => drop(action(json!({"action": "cancel", "jobs": some, "why": "chance"}))),
        5 => drop(action(json!({"action": "cancel", "signal": 15, "jobs": some}))),
        6 => drop(action(
            json!({"action": "update", "jobs": some, "options": [format!("--priority={}", dice.roll(101))]}),
        )),
        7 => {
            let (_, job) = cluster.http("GET", &format!("/api/v1/jobs/{}", some[0]), "");
            let supervisor = job["id"].as_str().and_then(|id| supervisor_of(cluster, id));
            if let Some(pid) = supervisor {
                signal(pid, "KILL");
            }
        }
        _ => {
            let user = [ALICE, BOB, ROOT][dice.roll(3) as usize];
            let body = any_job(dice, cluster, user).to_string();
            // The first request for a user comes again while the name service is asked.
            let looked_up =
                |answer: &Value| answer["error"].as_str().is_some_and(|e| e.contains("looked up"));
            let mut answer = cluster.http("POST", "/api/v1/jobs", &body).1;
            wait_for("the name service", || {
                let again = looked_up(&answer);
                if again {
                    answer = cluster.http("POST", "/api/v1/jobs", &body).1;
                }
                !again
            });
            *jobs = answer["number"].as_u64().unwrap_or(*jobs);
        }
    }
}

/// Replays all that was recorded, as it is and going over to a copy every few steps, as a replay that begins at a
/// snapshot there would: how it went, and the controllers at the end.
fn replay(events: &Path) -> (Replay, Vec<Controller>) {
    let reader = EventReader::open(events).unwrap();
    let first = reader.snapshot_before(WallTime(0)).unwrap().unwrap();
    let (mut straight, mut copied) = (Replay::default(), Replay::default());
    reader
        .each_from(first, |entry| {
            assert!(entry.recorded != Recorded::Gap, "events are missing at {}", entry.seq);
            if let Recorded::Step(step) = &entry.recorded {
                assert!(
                    step.event != Event::Tick || !step.decisions.is_empty(),
                    "idle ticks are not recorded"
                );
            }
            for replay in [&mut straight, &mut copied] {
                let difference = replay.take(entry.clone());
                assert!(difference.is_none(), "{difference:?}");
            }
            if let Some(now) = copied.controller().filter(|_| entry.seq % 7 == 0) {
                let text = serde_json::to_string(&now.snapshot()).unwrap();
                let copy = Recorded::Snapshot(serde_json::from_str(&text).unwrap());
                let difference = copied.take(Entry { recorded: copy, ..entry });
                assert!(difference.is_none(), "{difference:?}");
            }
            true
        })
        .unwrap();
    assert_eq!((straight.steps, straight.decisions), (copied.steps, copied.decisions));
    let controllers = [&straight, &copied].map(|replay| replay.controller().unwrap().clone()).to_vec();
    (straight, controllers)
}

/// Waits until all that was decided is in the record, which is written when nothing comes.
fn wait_recorded(cluster: &Cluster) {
    let events = Paths::under(&cluster.root).events();
    let last = || {
        let mut last = 0;
        let each = |entry: Entry| {
            last = entry.seq;
            true
        };
        EventReader::open(&events).unwrap().each_from(0, each).unwrap();
        last
    };
    wait_for("a pause", || {
        let before = last();
        sleep(Duration::from_millis(700));
        before == last()
    });
}

/// Lets nothing happen by itself any more: a daemon that is killed has recorded all but what has just happened. Two jobs
/// run on.
fn calm_down(cluster: &Cluster, numbers: &[String]) {
    let hold = json!({"action": "hold", "jobs": numbers});
    cluster.http("POST", "/api/v1/jobs/action", &hold.to_string());
    cluster.ok(ROOT, "ax", &["cancel", "--state=RUNNING,STARTING", "--user=daemon,bin,root"]);
    wait_for("an end of all that runs", || !runs(cluster));
    for user in [ALICE, BOB] {
        let id = cluster.submit(user, &["--output=/dev/null", "--ram=50M"], "#!/bin/sh\nsleep 300\n");
        wait_for("a start", || cluster.state(&id) == "RUNNING");
    }
    wait_recorded(cluster);
}

fn runs(cluster: &Cluster) -> bool {
    let (_, list) = cluster.http("GET", "/api/v1/jobs", "");
    let jobs = list["jobs"].as_array().or(list.as_array()).unwrap_or_else(|| panic!("{list}"));
    jobs.iter().any(|job| matches!(job["state"].as_str(), Some("RUNNING" | "STARTING" | "COMPLETING")))
}

/// As an administrator would: print, and have it decided again.
fn replay_by_command(cluster: &Cluster, steps: u64) {
    let printed = cluster.run(ROOT, "axctl", &["db", "events", "--json"]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let file = cluster.write(ROOT, "events.json", &printed.out);
    let again = cluster.run(ROOT, "axctl", &["simulate", "--replay", file.to_str().unwrap(), "--json"]);
    assert_eq!(again.code, 0, "{again:?}");
    let told: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((told["steps"].as_u64(), told["differences"].as_u64()), (Some(steps), Some(0)), "{told}");
    let mut piped = cluster.command(ROOT, cluster.program("axctl"));
    piped.args(["simulate", "--replay", "-", "--json"]).stdin(File::open(&file).unwrap());
    let piped = ran(piped.output().unwrap());
    assert_eq!((piped.code, piped.out), (0, again.out.clone()), "{}", piped.err);
    let words = cluster.run(ROOT, "axctl", &["simulate", "--replay", file.to_str().unwrap()]);
    assert!(words.out.ends_with("all is decided again as it was\n"), "{words:?}");
    // One decision that was another.
    let mut events: Vec<Value> = serde_json::from_str(&printed.out).unwrap();
    let starts = |event: &Value| event.pointer("/decisions/0/moved/to") == Some(&json!("READY"));
    let at = events.iter().rposition(starts).unwrap();
    events[at]["decisions"][0]["moved"]["to"] = json!("PENDING");
    let forged = cluster.write(ROOT, "forged.json", serde_json::to_vec(&events).unwrap());
    let found = cluster.run(ROOT, "axctl", &["simulate", "--replay", forged.to_str().unwrap()]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.out.contains(&format!("event {}: ", events[at]["seq"])), "{found:?}");
}

#[test]
fn recorded_events_give_the_same_decisions_again() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config(CONFIG);
    let mut dice = Dice(20_261_129);
    let mut jobs = 0;
    for round in 0..1200 {
        do_something(&mut dice, &cluster, &mut jobs);
        match round {
            300 => {
                cluster.configure(&CONFIG.replace("max_running: 5", "max_running: 7"));
                cluster.ok(ROOT, "ax", &["reload"]);
            }
            600 => {
                // Attempts go on without it and are adopted.
                cluster.stop();
                cluster.start();
            }
            900 => {
                let numbers: Vec<String> = (1..=jobs).map(|number| number.to_string()).collect();
                calm_down(&cluster, &numbers);
                cluster.kill();
                cluster.start();
                cluster.http(
                    "POST",
                    "/api/v1/jobs/action",
                    &json!({"action": "release", "jobs": numbers}).to_string(),
                );
            }
            _ => {}
        }
    }
    cluster.submit(ROOT, &["--hold"], "#!/bin/sh\n");
    cluster.ok(ROOT, "ax", &["cancel", "--state=RUNNING", "--user=daemon,bin"]);
    assert!(jobs > 60, "{jobs} jobs");
    cluster.stop();
    let paths = Paths::under(&cluster.root);
    let (replay, controllers) = replay(&paths.events());
    assert!(replay.steps >= 1000, "{} steps are too few to mean anything", replay.steps);
    // What the two later daemons found in the tables is what the steps before led to.
    assert_eq!((replay.snapshots, replay.confirmed), (3, 2));
    replay_by_command(&cluster, replay.steps);
    let restored = Store::open(&paths).unwrap().restore(WallTime(i64::MAX / 2)).unwrap();
    assert!(restored.broken.is_empty());
    let now = Now { boot: BootTime(clock::boot_ms()), wall: WallTime(clock::wall_ms()) };
    for controller in controllers {
        let led_to = controller.snapshot();
        // Epochs are taken in ranges: a start goes on behind the last one.
        assert!(restored.next_epoch >= led_to.next_epoch);
        let found = Snapshot {
            jobs: restored.jobs.iter().cloned().map(Arc::new).collect(),
            next_number: restored.next_number,
            times: restored.shares.0.clone(),
            usages: restored.shares.1.clone(),
            mix: restored.mix.clone(),
            history: restored.history.clone(),
            losses: restored.losses.clone(),
            known: restored.known.clone(),
            ..led_to.clone()
        };
        assert_eq!(what_differs(&led_to, &found, now, Found::AtStart), None);
    }
}

#[test]
fn what_was_recorded_is_a_workload() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::with_config("resources: {cpus: 2, ram: 1000M}\n");
    let words = ["--cpus-per-task=2", "--ram=100M", "--queue=default", "--output=/dev/null"];
    let ids: Vec<String> = (0..4).map(|_| cluster.submit(ALICE, &words, "#!/bin/sh\nsleep 0.5\n")).collect();
    let held = cluster.submit(BOB, &["--hold"], "#!/bin/sh\n");
    for id in &ids {
        cluster.wait_over(id);
    }
    cluster.ok(ROOT, "ax", &["cancel", &held]);
    cluster.stop();
    let printed = cluster.run(ROOT, "axctl", &["db", "events", "--json"]);
    let file = cluster.write(ROOT, "events.json", &printed.out);
    let measured = |options: &[&str]| {
        let ran =
            cluster.run(ROOT, "axctl", &[&["simulate", file.to_str().unwrap(), "--json"], options].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(
            ran.err.lines().next(),
            Some("axctl: 1 job left out that never ran: nobody knows for how long they would")
        );
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    for (options, longest) in [(&[][..], 1.2), (&["--profile", "fair"], 1.2), (&["--nodes", "1x1000"], 0.0)] {
        let found = measured(options);
        assert_eq!((&found["done"], &found["users"]["daemon"]["jobs"]), (&json!(4), &json!(4)), "{found}");
        // Each takes the whole machine; on others only cards are scarce, and these jobs have none.
        let wait = found["wait_max"].as_f64().unwrap();
        assert!(wait >= longest && (longest > 0.0 || wait == 0.0), "{options:?}: {found}");
    }
}
