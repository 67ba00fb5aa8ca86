//! The core decides alone: what a real daemon recorded of a mixed load, fed to
//! a bare controller, gives the same decisions byte for byte, and what the
//! controller then holds is what the tables hold.

use std::collections::BTreeMap;

use ax_core::controller::{Controller, Event};
use ax_core::job::Job;
use ax_core::job::state::JobState;
use ax_core::paths::Paths;
use axd::store::Store;
use axd::store::events::{EventReader, Recorded};
use serde_json::{Value, json};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, User, as_root, signal, supervisor_of, wait_for};

/// Numbers that look like chance and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const CONFIG: &str = "resources: {cpus: 8, ram: 8000M}\npolicy: {max_queued_per_user: 60, retry_delay: 200ms}\nqueues:\n  - {name: default, max_running: 5}\n  - {name: high, priority: 9, max_running: 2}\n";

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

/// The jobs that a restart needs.
fn living(jobs: &[Job]) -> BTreeMap<u32, String> {
    let live = |j: &&Job| !j.state.is_final() || j.state == JobState::FailedUnknownState;
    jobs.iter().filter(live).map(|j| (j.id.number.0, serde_json::to_string(j).unwrap())).collect()
}

/// Replays all that was recorded. How many steps there were, and the controller at the end.
fn replay(events: &std::path::Path) -> (usize, Controller) {
    let reader = EventReader::open(events).unwrap();
    let (mut steps, mut controller): (usize, Option<Controller>) = (0, None);
    let first = reader.snapshot_before(ax_core::time::WallTime(0)).unwrap().unwrap();
    reader
        .each_from(first, |entry| {
            match entry.recorded {
                Recorded::Gap => panic!("events are missing at {}", entry.seq),
                // The first, and the one of a daemon that started anew.
                Recorded::Snapshot(snapshot) => {
                    if let Some(before) = &controller {
                        assert_eq!(
                            living(&before.snapshot().jobs),
                            living(&snapshot.jobs),
                            "at {}",
                            entry.seq
                        );
                    }
                    controller = Some(Controller::restore(*snapshot));
                }
                Recorded::Step(step) => {
                    steps += 1;
                    let decided = controller.as_mut().unwrap().step(entry.now, step.event.clone());
                    let text = |decisions| serde_json::to_string(decisions).unwrap();
                    assert_eq!(text(&decided), text(&step.decisions), "at {}: {:?}", entry.seq, step.event);
                    assert!(step.event != Event::Tick || !decided.is_empty(), "idle ticks are not recorded");
                }
            }
            true
        })
        .unwrap();
    (steps, controller.unwrap())
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
                // Attempts go on without it and are adopted. A clean stop: the last events of a killed daemon may be
                // missing from the ring, which is not flushed for each.
                cluster.stop();
                cluster.start();
            }
            _ => {}
        }
    }
    cluster.submit(ROOT, &["--hold"], "#!/bin/sh\n");
    cluster.ok(ROOT, "ax", &["cancel", "--state=RUNNING", "--user=daemon,bin"]);
    assert!(jobs > 60, "{jobs} jobs");
    cluster.stop();
    let paths = Paths::under(&cluster.root);
    let (steps, controller) = replay(&paths.events());
    assert!(steps >= 1000, "{steps} steps are too few to mean anything");
    let now = ax_core::time::WallTime(i64::MAX / 2);
    let restored = Store::open(&paths).unwrap().restore(now).unwrap();
    let snapshot = controller.snapshot();
    assert!(restored.broken.is_empty());
    assert_eq!(living(&snapshot.jobs), living(&restored.jobs));
    assert_eq!(snapshot.next_number, restored.next_number);
    // Epochs are taken in ranges: a start goes on behind the last one.
    assert!(restored.next_epoch >= snapshot.next_epoch);
}
