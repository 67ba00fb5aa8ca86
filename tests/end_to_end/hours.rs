//! Daily hours and deadlines on a real daemon. When exactly a job may start is ax-core's to prove; here it is asked by the
//! clock of the cluster, woken in time, and ended in time.

use chrono::{DateTime, FixedOffset, Timelike, Utc};
use serde_json::Value;

use crate::cluster::{ALICE, Cluster, ROOT};

/// A place whose clock is not that of any machine that runs this.
const ZONE: &str = "cluster: {timezone: Pacific/Kiritimati}\n";

/// Its clock.
fn there() -> DateTime<FixedOffset> {
    Utc::now().with_timezone(&FixedOffset::east_opt(14 * 3600).unwrap())
}

/// Hours that begin and end so many hours from now.
fn window(from: i64, to: i64) -> String {
    let clock = |hours| {
        let at = there() + chrono::Duration::hours(hours);
        format!("{:02}:{:02}", at.hour(), at.minute())
    };
    format!("{}-{}", clock(from), clock(to))
}

fn reasons(job: &Value) -> String {
    job["reasons"].to_string()
}

#[test]
fn a_job_waits_for_its_hours_by_the_clock_of_the_cluster_also_after_a_restart() {
    let mut cluster = Cluster::with_config(ZONE);
    let (closed, open) = (window(2, 5), window(-2, 5));
    let runs = cluster.submit(ALICE, &[&format!("--window={open}"), "--time=10"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&runs)["state"], "SUCCEEDED");
    let waits = cluster.submit(ALICE, &[&format!("--window={closed}"), "--time=10"], "#!/bin/sh\n");
    let (from, to) = closed.split_once('-').unwrap();
    for _ in 0..2 {
        let job = cluster.job(&waits);
        assert_eq!((&job["state"], &job["window"]), (&"PENDING".into(), &closed.as_str().into()), "{job}");
        let told = format!("may start only between {from} and {to} (--window); next at {from}, in ");
        assert!(reasons(&job).contains(&told), "{told}: {job}");
        let expected: DateTime<Utc> = job["expected_start"].as_str().unwrap().parse().unwrap();
        let expected = expected.with_timezone(&there().timezone());
        assert_eq!(format!("{:02}:{:02}", expected.hour(), expected.minute()), from, "{job}");
        cluster.kill();
        cluster.start();
    }
    let shown = cluster.run(ALICE, "ax", &["status", &waits]).out;
    assert!(shown.contains(&format!("only between {from} and {to} (--window)")), "{shown}");
    let why = cluster.run(ALICE, "ax", &["why", &waits]).out;
    assert!(why.contains("may start only between") && why.contains("expected to start"), "{why}");
    cluster.ok(ALICE, "ax", &["update", &format!("--window={open}"), &waits]);
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED");
    let later = cluster.submit(ALICE, &["--begin=now+1h", "--deadline=now+9h", "--time=10"], "#!/bin/sh\n");
    let said = cluster.ok(ALICE, "ax", &["update", &later, "--begin=none", "--deadline=none"]);
    assert_eq!(said, format!("{later}: begins at any time, no deadline, by daemon\n"));
    assert_eq!(cluster.wait_over(&later)["state"], "SUCCEEDED");
    // What can't be over in time is said at once.
    let script = cluster.write(ALICE, "long.sh", "#!/bin/sh\n");
    for (limit, told) in
        [("--time=unlimited", "needs a time limit"), ("--time=4h", "does not fit into --window")]
    {
        let words = [&format!("--window={closed}"), limit, script.to_str().unwrap()];
        let ran = cluster.run(ALICE, "axbatch", &words);
        assert!(ran.code == 1 && ran.err.contains(told), "{ran:?}");
    }
}

#[test]
fn what_can_not_be_over_by_its_deadline_ends_by_itself_and_what_runs_is_ended() {
    let cluster = Cluster::with_config("policy: {kill_wait: 1}\nresources: {cpus: 2}\n");
    // Nothing else happens that would wake the daemon.
    let held = cluster.submit(ALICE, &["--hold", "--deadline=now+3", "--time=0:02"], "#!/bin/sh\n");
    let slurm = "#!/bin/sh\n#SBATCH --deadline=now+2seconds\nsleep 1000\n";
    let runs = cluster.submit(ALICE, &[], slurm);
    let (held, runs) = (cluster.wait_over(&held), cluster.wait_over(&runs));
    assert_eq!(held["state"], "DEADLINE", "{held}");
    assert!(held["reason"].as_str().unwrap().contains("can't be over by its deadline any more"), "{held}");
    assert_eq!(runs["state"], "DEADLINE", "{runs}");
    assert_eq!(runs["attempts"][0]["state"], "TIMEOUT", "{runs}");
    assert!(runs["reason"].as_str().unwrap().contains("was not over by its deadline"), "{runs}");
    let ended: DateTime<Utc> = runs["ended_at"].as_str().unwrap().parse().unwrap();
    let deadline: DateTime<Utc> = runs["deadline"].as_str().unwrap().parse().unwrap();
    assert!(ended >= deadline - chrono::Duration::milliseconds(100), "{runs}");
    let script = cluster.write(ALICE, "late.sh", "#!/bin/sh\n");
    let late = ["--deadline=now+60", "--time=10", script.to_str().unwrap()];
    let ran = cluster.run(ALICE, "axbatch", &late);
    assert!(ran.code == 1 && ran.err.contains("can't be over by its deadline"), "{ran:?}");
    let ran = cluster.run(ROOT, "axbatch", &["--test-only", late[0], late[1], late[2]]);
    assert!(ran.out.contains("would be refused: it can't be over by its deadline"), "{ran:?}");
}

#[test]
fn of_a_time_that_comes_twice_the_first_is_meant_and_of_none_the_next() {
    let cluster = Cluster::with_config("cluster: {timezone: Europe/Berlin}\n");
    for (written, meant) in [
        ("2027-03-28T02:30", "2027-03-28T01:00:00.000Z"),
        ("2027-10-31T02:30", "2027-10-31T00:30:00.000Z"),
        ("2027-10-31T03:00", "2027-10-31T02:00:00.000Z"),
        ("2047-10-27T02:30", "2047-10-27T00:30:00.000Z"),
    ] {
        let id = cluster.submit(ALICE, &[&format!("--begin={written}")], "#!/bin/sh\n");
        let job = cluster.job(&id);
        assert_eq!(job["conditions"][0]["at"], meant, "{written}: {job}");
    }
}

/// The file by which its clock goes is another one: whoever reloads the configuration need not start the daemon anew.
#[test]
fn rules_of_the_clock_that_have_changed_are_learnt() {
    let mut cluster = Cluster::stopped("");
    let file = cluster.root.join("zone");
    let place = |name: &str| std::fs::copy(format!("/usr/share/zoneinfo/{name}"), &file).unwrap();
    place("Etc/UTC");
    cluster.set_environment("TZ", &file);
    cluster.start();
    // Open by the clock of the other place, and not by UTC.
    let open_there = format!("--window={}", window(-3, 3));
    let waits = cluster.submit(ALICE, &[&open_there, "--time=10"], "#!/bin/sh\n");
    assert_eq!(cluster.job(&waits)["state"], "PENDING");
    cluster.ok(ROOT, "ax", &["reload"]);
    place("Pacific/Kiritimati");
    cluster.ok(ROOT, "ax", &["reload"]);
    assert_eq!(cluster.wait_over(&waits)["state"], "SUCCEEDED");
    let said = cluster.log().matches("the clock goes by other rules").count();
    assert_eq!(said, 1, "the same rules, read again, are no news");
    // What is meant by a time of day is, too.
    let begin = format!("--begin={}", window(1, 2).split_once('-').unwrap().0);
    let later = cluster.submit(ALICE, &[&begin], "#!/bin/sh\n");
    let job = cluster.job(&later);
    let begins: DateTime<Utc> = job["expected_start"].as_str().unwrap().parse().unwrap();
    let hour = begins - Utc::now();
    assert!(hour < chrono::Duration::hours(1) && hour > chrono::Duration::minutes(55), "{job}");
}
