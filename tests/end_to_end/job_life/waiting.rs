//! Waiting jobs: what keeps them, in which order they go, how they are changed,
//! and that `ax` says why, with numbers.

use ax_core::time::WallTime;
use serde_json::Value;

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};

const LONG: &str = "#!/bin/sh\nsleep 600\n";
const SHORT: &str = "#!/bin/sh\nexit 0\n";

fn time(text: &Value) -> i64 {
    text.as_str().unwrap_or_else(|| panic!("{text} is no time")).parse::<WallTime>().unwrap().0
}

#[test]
fn a_begin_time_is_kept() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--begin=now+2"], SHORT);
    let job = cluster.job(&id);
    assert_eq!(job["state"], "PENDING");
    assert!(job["reason"].as_str().unwrap().starts_with("waits for its begin time, in "), "{job:#}");
    let begin = time(&job["expected_start"]);
    assert!((1900..=2100).contains(&(begin - time(&job["submitted_at"]))), "{job:#}");
    let job = cluster.wait_over(&id);
    assert!(time(&job["started_at"]) >= begin, "{job:#}");
    assert!(time(&job["eligible_at"]) >= begin, "{job:#}");
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], SHORT);
    assert_eq!(cluster.reason(&id), format!("held by daemon; 'ax release {id}' lets it go"));
    cluster.refused(77, BOB, "ax", &["release", &id]);
    assert_eq!(cluster.ok(ALICE, "ax", &["release", &id]), format!("{id}: released by daemon\n"));
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    let line = cluster.refused(1, ALICE, "ax", &["release", &id]);
    assert!(line.contains(&format!("{id} is over: SUCCEEDED")), "{line}");
}

#[test]
fn a_job_held_by_an_administrator_is_released_by_one() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1}\n");
    let blocker = cluster.submit(ALICE, &[], LONG);
    let id = cluster.submit(ALICE, &[], SHORT);
    cluster.ok(ROOT, "ax", &["hold", &id]);
    assert_eq!(cluster.state(&id), "PENDING");
    assert!(cluster.reason(&id).starts_with("held by root"), "{}", cluster.reason(&id));
    let line = cluster.refused(77, ALICE, "ax", &["release", &id]);
    assert!(line.contains("held by root, an administrator"), "{line}");
    cluster.ok(ROOT, "ax", &["release", &id]);
    cluster.ok(ALICE, "ax", &["cancel", &blocker]);
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
}

#[test]
fn waiting_jobs_go_by_rank_priority_and_number() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - {name: low, priority: 1}\n  - {name: high, priority: 10}\n";
    let cluster =
        Cluster::with_config(&format!("resources: {{cpus: 1}}\npolicy: {{default_queue: low}}\n{queues}"));
    let blocker = cluster.submit(ALICE, &[], LONG);
    let say = |what: &str| format!("#!/bin/sh\necho {what} >> {}/order\n", cluster.root.display());
    std::fs::write(cluster.root.join("order"), "").unwrap();
    std::os::unix::fs::chown(cluster.root.join("order"), Some(ALICE.uid), None).unwrap();
    let third = cluster.submit(ALICE, &[], &say("c"));
    let fourth = cluster.submit(ALICE, &[], &say("d"));
    let second = cluster.submit(ALICE, &["--priority=80"], &say("b"));
    let first = cluster.submit(ALICE, &["-q", "high"], &say("a"));
    let last = cluster.submit(ALICE, &["--priority=90"], &say("e"));
    cluster.ok(ALICE, "ax", &["update", &last, "--priority=10"]);
    let waiting = cluster.json(ALICE, &["queue", "--json", "--state=READY"]);
    let order: Vec<&str> = waiting.as_array().unwrap().iter().map(|j| j["id"].as_str().unwrap()).collect();
    assert_eq!(order, [&first, &second, &third, &fourth, &last]);
    let reasons = waiting[2]["reasons"].as_array().unwrap();
    assert!(reasons[0].as_str().unwrap().starts_with("needs 1 CPU (0 of 1 free) and "), "{reasons:?}");
    assert_eq!(reasons[1], format!("2 jobs before it, the first is {first}"));
    cluster.ok(ALICE, "ax", &["cancel", &blocker]);
    cluster.wait_over(&last);
    assert_eq!(std::fs::read_to_string(cluster.root.join("order")).unwrap(), "a\nb\nc\nd\ne\n");
}

#[test]
fn nobody_is_more_urgent_than_their_queue_lets_them() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - {name: default, max_priority: 40}\n  - {name: any}\n";
    let cluster = Cluster::with_config(queues);
    let script = cluster.write(ALICE, "j.sh", SHORT);
    let ask = |words: &[&str]| {
        let all = [&["--hold", "--parsable"], words, &[script.to_str().unwrap()]].concat();
        cluster.run(ALICE, "axbatch", &all)
    };
    let usual = ask(&[]).out.trim().to_owned();
    assert_eq!(cluster.job(&usual)["priority"], 40, "the usual 50 is too much here");
    let refused = ask(&["--priority=41"]);
    assert!(
        refused.code == 1 && refused.err.contains("over the limit of queue 'default', which is 40"),
        "{refused:?}"
    );
    let urgent = ask(&["--priority=90", "-q", "any"]).out.trim().to_owned();
    for (job, words) in [(&usual, "--priority=41"), (&urgent, "--queue=default")] {
        let line = cluster.refused(1, ALICE, "ax", &["update", job, words]);
        assert!(line.contains("queue 'default' takes no job of a priority above 40"), "{line}");
    }
    cluster.ok(ROOT, "ax", &["update", &usual, "--priority=95"]);
    cluster.ok(ALICE, "ax", &["update", &usual, "--job-name=other"]);
    assert_eq!(cluster.job(&usual)["priority"], 95, "an administrator may");
}

#[test]
fn a_waiting_job_can_be_changed() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - {name: default}\n  - {name: short, max_time: 10m}\n";
    let cluster = Cluster::with_config(&format!("resources: {{cpus: 1}}\n{queues}"));
    let blocker = cluster.submit(ALICE, &[], LONG);
    cluster.wait_state(&blocker, &["RUNNING"]);
    let id = cluster.submit(ALICE, &["--time=20"], SHORT);
    let said = cluster.ok(ALICE, "ax", &["update", &id, "--priority=7", "--time=5", "--job-name=other"]);
    assert!(said.contains("priority 50 → 7") && said.contains("time limit 00:20:00 → 00:05:00"), "{said}");
    cluster.ok(ALICE, "ax", &["update", &id, "--queue=short"]);
    let job = cluster.job(&id);
    let (limit, queue) = (&job["time_limit_s"], &job["queue"]);
    assert_eq!(
        (&job["priority"], limit, queue, &job["name"]),
        (&7.into(), &300.into(), &"short".into(), &"other".into())
    );
    let line = cluster.refused(1, ALICE, "ax", &["update", &id, "--time=11"]);
    assert!(line.contains("short") && line.contains("00:10:00"), "{line}");
    let line = cluster.refused(1, ALICE, "ax", &["update", &id, "--queue=shrot"]);
    assert!(line.contains("there is no queue 'shrot'; did you mean 'short'?"), "{line}");
    let line = cluster.refused(1, ALICE, "ax", &["update", &blocker, "--priority=7"]);
    assert!(line.contains("is RUNNING: of a running job only --time can be changed"), "{line}");
    cluster.refused(77, BOB, "ax", &["update", &id, "--priority=7"]);
    cluster.ok(ALICE, "ax", &["update", &id, "--begin=now+1hour"]);
    assert_eq!(cluster.state(&id), "PENDING");
    cluster.ok(ALICE, "ax", &["update", &id, "--begin=now"]);
    assert_eq!(cluster.state(&id), "READY");
}

#[test]
fn a_queue_runs_no_more_than_it_may() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(
        "resources: {cpus: 16}\nqueues:\n  - {name: default, max_running: 2}\n  - {name: other}\n",
    );
    let ids: Vec<String> = (0..3).map(|_| cluster.submit(ALICE, &[], LONG)).collect();
    for id in &ids[..2] {
        cluster.wait_state(id, &["RUNNING"]);
    }
    assert_eq!(cluster.state(&ids[2]), "READY");
    let full = format!("queue default runs 2 of at most 2 jobs: {} and {}", ids[0], ids[1]);
    assert_eq!(cluster.reason(&ids[2]), full);
    assert_eq!(cluster.ends(ALICE, &["-q", "other"], SHORT)["state"], "SUCCEEDED", "others pass");
    cluster.ok(ALICE, "ax", &["cancel", &ids[0]]);
    cluster.wait_state(&ids[2], &["RUNNING"]);
}

#[test]
fn a_stopped_queue_keeps_and_a_closed_queue_refuses() {
    if !as_root() {
        return;
    }
    let config = |state: &str| format!("queues:\n  - {{name: default}}\n  - {{name: q, state: {state}}}\n");
    let cluster = Cluster::with_config(&config("stopped"));
    let id = cluster.submit(ALICE, &["-q", "q"], SHORT);
    assert_eq!(cluster.reason(&id), "queue q is stopped: it starts nothing");
    cluster.configure(&config("closed"));
    cluster.ok(ROOT, "ax", &["reload"]);
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED", "it runs out");
    cluster.write(ALICE, "j.sh", SHORT);
    let line = cluster.refused(1, ALICE, "axbatch", &["-q", "q", "j.sh"]);
    assert_eq!(line, "axbatch: queue 'q' is closed: it accepts no new jobs");
}

#[test]
fn the_expected_start_is_the_end_of_what_is_in_the_way() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 1}\n");
    let running = cluster.submit(ALICE, &["--time=10"], LONG);
    cluster.wait_state(&running, &["RUNNING"]);
    let next = cluster.submit(ALICE, &["--time=20"], LONG);
    let after = cluster.submit(ALICE, &[], LONG);
    let never = cluster.submit(ALICE, &[], LONG);
    let start = time(&cluster.job(&running)["started_at"]);
    assert_eq!(time(&cluster.job(&next)["expected_start"]), start + 600_000);
    assert_eq!(time(&cluster.job(&after)["expected_start"]), start + 1_800_000);
    assert!(
        cluster.job(&never)["expected_start"].is_null(),
        "behind a job without a limit nothing can be said"
    );
    let shown = cluster.ok(ALICE, "ax", &["queue", "--long"]);
    assert!(shown.contains("needs 1 CPU (0 of 1 free)"), "{shown}");
}

#[test]
fn a_full_queue_says_try_again_later() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {max_queued_per_user: 2}\n");
    for user in [ALICE, ALICE, BOB, ROOT, ROOT, ROOT] {
        cluster.submit(user, &["--hold"], SHORT);
    }
    cluster.write(ALICE, "j.sh", SHORT);
    let line = cluster.refused(75, ALICE, "axbatch", &["j.sh"]);
    assert_eq!(line, "axbatch: 2 of your jobs wait already, at most 2 may (policy.max_queued_per_user)");
    cluster.ok(ALICE, "ax", &["cancel", "1"]);
    wait_for("room", || cluster.run(ALICE, "axbatch", &["j.sh"]).code == 0);
}

#[test]
fn a_queue_at_its_limit_is_in_the_forecast() {
    if !as_root() {
        return;
    }
    let queues = "queues:\n  - {name: default}\n  - {name: one, priority: 9, max_running: 1}\n  - {name: off, state: stopped}\n";
    let cluster = Cluster::with_config(&format!("resources: {{cpus: 4, ram: 4000M}}\n{queues}"));
    let submit = |options: &[&str]| {
        let mut all = vec!["--ram=100"];
        all.extend(options);
        cluster.submit(ALICE, &all, LONG)
    };
    let running = submit(&["-q", "one", "--time=10"]);
    cluster.wait_state(&running, &["RUNNING"]);
    let second = submit(&["-q", "one", "--time=20"]);
    let third = submit(&["-q", "one"]);
    let fourth = submit(&["-q", "one"]);
    let stopped = submit(&["-q", "off"]);
    let big = submit(&["-c", "4", "--time=5"]);
    let start = time(&cluster.job(&running)["started_at"]);
    let expected = |id: &str| cluster.job(id)["expected_start"].clone();
    assert_eq!(time(&expected(&second)), start + 600_000);
    assert_eq!(time(&expected(&third)), start + 1_800_000);
    assert!(expected(&fourth).is_null() && expected(&stopped).is_null());
    // When the queue may start another, that goes before it; and the third of them has no limit.
    assert!(expected(&big).is_null());
    let small = submit(&["-c", "3", "--time=5"]);
    cluster.wait_state(&small, &["RUNNING"]);
}

#[test]
fn what_would_start_a_job_at_once_is_told_and_true() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4, ram: 4000M}\n");
    let running = cluster.submit(ALICE, &["-c", "3", "--ram=100", "--time=10"], LONG);
    cluster.wait_state(&running, &["RUNNING"]);
    let waiting = cluster.submit(ALICE, &["-c", "2", "--ram=100", "--time=5"], LONG);
    let (host, basis) = (cluster.job(&running)["node"].clone(), format!("{running} ends on "));
    let host = host.as_str().unwrap();
    let unwrapped = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = unwrapped(cluster.ok(ALICE, "ax", &["why", &waiting]));
    let advice = format!("advice: with --cpus-per-task 1 at once on {host}");
    assert!(told.contains(&basis) && told.contains(&advice), "{told}");
    let status = cluster.json(ALICE, &["status", "--json", &waiting]);
    assert_eq!(status[0]["advice"]["option"], "--cpus-per-task 1");
    assert_eq!(status[0]["conditions"][0]["kind"], "lacks", "{status:#}");
    assert!(status[0]["expected_basis"].as_str().unwrap().ends_with("by its time limit"), "{status:#}");
    let listed = cluster.json(ALICE, &["queue", "--json", "--start"]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&waiting], "running jobs have started already");
    cluster.write(ALICE, "j.sh", SHORT);
    let said = cluster.ok(ALICE, "axbatch", &["--test-only", "-c", "2", "--ram=100", "j.sh"]);
    assert!(said.contains(&basis) && said.contains("; with --cpus-per-task 1 at once"), "{said}");
    let ended = cluster.ends(ALICE, &["-c", "1", "--ram=100"], SHORT);
    assert_eq!(ended["state"], "SUCCEEDED", "as it was told");
    let story = unwrapped(cluster.ok(ALICE, "ax", &["why", ended["id"].as_str().unwrap()]));
    assert!(story.contains(&format!("passed {waiting}, which waits for 2")), "{story}");
}
