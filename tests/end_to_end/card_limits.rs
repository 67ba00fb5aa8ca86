//! The driver's limit on slices: tried out at the start, on the job's group before the job runs, off it before the group
//! goes, whoever has died meanwhile. The library that plays the driver writes down each call and knows only groups that
//! are there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{ALICE, Cluster, as_root, signal, supervisor_of, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// What the driver takes for no limit.
const NONE: &str = "0 18446744073709551615";

/// Twenty gigabytes of a card, as jobs ask for them, in bytes of whole megabytes.
const SLICE: u64 = 20_000_000_000 >> 20 << 20;

/// A daemon in whose world the unified tree is where the driver looks for it. `None`, with a word to whoever looks,
/// where that can't be had.
pub(crate) fn unified(script: &str, config: &str) -> Option<(Cluster, FakeCards)> {
    if !as_root() {
        return None;
    }
    let mut cluster = Cluster::stopped("");
    if Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() {
        let there = cluster.root.join("unified");
        std::fs::create_dir(&there).unwrap();
        let there = there.display();
        let mounts = format!(
            "mount --make-rprivate / && mount --bind /sys/fs/cgroup/unified {there} && umount -l -R /sys/fs/cgroup && \
             mount --move {there} /sys/fs/cgroup && exec \"$@\""
        );
        cluster.wrapper = ["unshare", "-m", "sh", "-c", &mounts, "sh"].map(str::to_owned).to_vec();
    } else if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        eprintln!("skipped: needs a unified tree of control groups");
        return None;
    }
    let fake = FakeCards::new(&cluster, script);
    cluster.configure(&format!("{}{config}", fake.config()));
    Some((cluster, fake))
}

/// The calls that set limits on groups of jobs: the card, soft, hard and the answer; and how often a group was tried.
fn calls(fake: &FakeCards) -> Vec<(String, String)> {
    let log = fake.log();
    let lines = log.lines().filter_map(|line| line.strip_prefix("set "));
    let of_jobs = lines.filter(|line| !line.contains("/limit-trial-"));
    of_jobs
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].to_owned(), words[2..].join(" "))
        })
        .collect()
}

fn set(card: &str) -> (String, String) {
    (card.to_owned(), format!("{SLICE} {SLICE} 0"))
}

fn cleared(card: &str) -> (String, String) {
    (card.to_owned(), format!("{NONE} 0"))
}

/// Limits that are there now, by what the driver keeps.
fn kept(fake: &FakeCards) -> String {
    let state = std::fs::read_to_string(fake.script().with_added_extension("state")).unwrap_or_default();
    state.lines().filter(|line| line.starts_with("limit ")).collect()
}

fn group_of(cluster: &Cluster, id: &str) -> Option<PathBuf> {
    let tops = crate::cluster::groups(&cluster.root.join("run/ax"));
    let entries = tops.iter().flat_map(|top| std::fs::read_dir(top).into_iter().flatten().flatten());
    entries.map(|entry| entry.path()).find(|path| path.file_name().unwrap().to_string_lossy().starts_with(id))
}

#[test]
fn slices_are_limited_before_they_run_and_freed_before_their_group_goes_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "") else { return };
    cluster.start();
    let state = fake.script().with_added_extension("state");
    let script = format!("#!/bin/sh\ncat {} > seen\necho $AX_GPU_ENFORCE > rung\n", state.display());
    let job = cluster.submit(ALICE, &["--gpus", "2", "--mem", "20G"], &script);
    cluster.wait_state(&job, &["SUCCEEDED"]);
    wait_for("its group to go", || group_of(&cluster, &job).is_none());
    let expected = [set("GPU-aaaa"), set("GPU-bbbb"), cleared("GPU-aaaa"), cleared("GPU-bbbb")];
    assert_eq!(calls(&fake), expected);
    assert_eq!(cluster.read(ALICE, "rung"), "driver\n");
    assert!(cluster.ok(ALICE, "ax", &["status", &job]).contains("held to its slices by: driver"));
    assert_eq!(crate::cards::card(&cluster, "GPU-aaaa")["limit"], "driver");
    let seen = cluster.read(ALICE, "seen");
    assert_eq!(seen.lines().filter(|line| line.contains(&job)).count(), 2, "{seen}");
    assert!(seen.contains(" /sys/fs/cgroup/ax-"), "by its whole path: {seen}");
    assert_eq!(kept(&fake), "");
    let whole = cluster.submit(ALICE, &["--gpus", "1"], "#!/bin/sh\n");
    let none = cluster.submit(ALICE, &[], "#!/bin/sh\n");
    for job in [whole, none] {
        cluster.wait_state(&job, &["SUCCEEDED"]);
    }
    assert_eq!(calls(&fake).len(), 4, "whole cards are not limited");
    assert!(
        !fake.log().contains("limit-trial-") || fake.log().matches("limit-trial-").count() == 4,
        "{}",
        fake.log()
    );
}

#[test]
fn where_the_driver_has_no_limits_nothing_is_set_and_the_log_says_why_as_root() {
    for (script, lacks, why) in [
        (TWO.to_owned(), true, "older than 615"),
        (format!("{TWO}absent nvmlDeviceSetMemoryLimits_v1\n"), false, "the driver says 13"),
        (format!("{TWO}fail nvmlDeviceSetMemoryLimits_v1 3\n"), false, "does not support"),
        (format!("{TWO}hang nvmlDeviceGetMemoryLimits_v1\n"), false, "does not answer"),
    ] {
        let Some((mut cluster, fake)) = unified(&script, "") else { return };
        let calls_of_it = ["nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"];
        let fake = if lacks { fake.without(&calls_of_it) } else { fake };
        cluster.start();
        let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], "#!/bin/sh\n");
        cluster.wait_state(&job, &["SUCCEEDED"]);
        assert_eq!(calls(&fake), [], "{why}");
        assert!(cluster.log().contains(why), "{why}: {}", cluster.log());
    }
}

#[test]
fn groups_of_two_versions_are_not_limited_by_the_driver_as_root() {
    if !as_root() || !Path::new("/sys/fs/cgroup/unified/cgroup.controllers").exists() {
        eprintln!("skipped: needs root and control groups of both versions");
        return;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, TWO);
    cluster.configure(&fake.config());
    cluster.start();
    let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], "#!/bin/sh\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    assert!(!fake.log().contains("set "), "{}", fake.log());
    assert!(cluster.log().contains("version 1"), "{}", cluster.log());
}

#[test]
fn a_card_that_can_t_be_limited_when_it_matters_costs_the_job_nothing_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "") else { return };
    cluster.start();
    fake.add("fail nvmlDeviceSetMemoryLimits_v1 999 GPU-aaaa");
    let script = "#!/bin/sh\necho ran >> ran\n";
    let job = cluster.submit(ALICE, &["--gpus", "2", "--mem", "20G"], script);
    let over = cluster.wait_state(&job, &["SUCCEEDED"]);
    assert_eq!(cluster.read(ALICE, "ran"), "ran\n");
    assert_eq!(
        over["attempts"].as_array().map(Vec::len).or(over["attempt"].as_u64().map(|n| n as usize)),
        Some(2)
    );
    assert!(cluster.log().contains("limit_fell"), "{}", cluster.log());
    let tried = calls(&fake).iter().filter(|(_, what)| what.starts_with(&SLICE.to_string())).count();
    assert_eq!(tried, 1, "the second attempt does without: {:?}", calls(&fake));
}

#[test]
fn a_card_that_is_found_later_is_tried_and_who_began_before_is_watched_as_root() {
    let one: String = TWO.lines().take(1).map(|line| format!("{line}\n")).collect();
    let late = format!("{TWO}hang nvmlDeviceGetMemoryLimits_v1 GPU-bbbb\n");
    let Some((mut cluster, fake)) = unified(&one, "resources:\n  gpu_sample: 50ms\n") else { return };
    cluster.start();
    fake.set(&late);
    assert_eq!(cluster.run(crate::cluster::ROOT, "ax", &["reload"]).code, 0);
    wait_for("the card to be found", || crate::cards::cards(&cluster).len() == 2);
    let script =
        format!("#!/bin/sh\necho \"process $$ GPU-bbbb 29755\" >> {}\nsleep 1000\n", fake.script().display());
    let filler = cluster.submit(ALICE, &["--gpus", "1", "-c", "1", "--ram", "1G"], "#!/bin/sh\nsleep 1000\n");
    cluster.wait_state(&filler, &["RUNNING"]);
    let early = cluster.submit(
        ALICE,
        &["--gpus", "1", "--mem", "20G", "-c", "1", "--ram", "1G"],
        "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\nexec ./more\n",
    );
    cluster.write(ALICE, "more", script);
    std::fs::set_permissions(
        cluster.home(ALICE).join("more"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    cluster.wait_state(&early, &["RUNNING"]);
    fake.set(TWO);
    wait_for("it to be tried", || cluster.log().contains("cards_limited_by_driver card=GPU-bbbb"));
    assert_eq!(crate::cards::card(&cluster, "GPU-bbbb")["limit"], "driver");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&early)["state"], "OUT_OF_MEMORY", "nobody else holds it to its slice");
    cluster.run(crate::cluster::ROOT, "ax", &["cancel", &filler]);
    let both = cluster.submit(ALICE, &["--gpus", "2", "--mem", "20G"], "#!/bin/sh\n");
    cluster.wait_state(&both, &["SUCCEEDED"]);
    assert!(calls(&fake).contains(&set("GPU-bbbb")), "{:?}", calls(&fake));
}

#[test]
fn who_began_under_watch_is_watched_by_a_later_daemon_that_has_the_driver_for_it_as_root() {
    let refuses = format!("{TWO}fail nvmlDeviceSetMemoryLimits_v1 3\n");
    let Some((mut cluster, fake)) = unified(&refuses, "resources:\n  gpu_sample: 50ms\n") else { return };
    cluster.start();
    let uses = format!("process $$ GPU-aaaa 29755\" >> {}", fake.script().display());
    let script =
        format!("#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\necho \"{uses}\nexec sleep 1000\n");
    let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], &script);
    cluster.wait_state(&job, &["RUNNING"]);
    assert_eq!(crate::cards::card(&cluster, "GPU-aaaa")["limit"], "env");
    cluster.kill();
    fake.set(TWO);
    std::fs::set_permissions(fake.script(), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    cluster.start();
    wait_for("the driver to be relied on", || crate::cards::card(&cluster, "GPU-aaaa")["limit"] == "driver");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&job)["state"], "OUT_OF_MEMORY", "nobody else holds it to its slice");
}

/// One whose slices of two cards are limited on the first alone, as the second could not be when it began.
#[test]
fn who_is_limited_on_one_card_is_watched_on_the_other_by_a_later_daemon_as_root() {
    let refuses = format!("{TWO}fail nvmlDeviceSetMemoryLimits_v1 3 GPU-bbbb\n");
    let Some((mut cluster, fake)) = unified(&refuses, "resources:\n  gpu_sample: 50ms\n") else { return };
    cluster.start();
    let uses = |card: &str| format!("echo \"process $$ {card} 29755\" >> {}", fake.script().display());
    let script = format!(
        "#!/bin/sh\nwhile [ ! -e first ]; do sleep 0.05; done\n{}\nwhile [ ! -e go ]; do sleep 0.05; done\n{}\n\
         exec sleep 1000\n",
        uses("GPU-aaaa"),
        uses("GPU-bbbb")
    );
    let job = cluster.submit(ALICE, &["--gpus", "2", "--mem", "20G"], &script);
    cluster.wait_state(&job, &["RUNNING"]);
    assert_eq!(calls(&fake), [set("GPU-aaaa")]);
    cluster.kill();
    fake.set(TWO);
    cluster.start();
    wait_for("the driver to be relied on", || crate::cards::card(&cluster, "GPU-bbbb")["limit"] == "driver");
    cluster.write(ALICE, "first", "");
    wait_for("it to be seen", || crate::cards::card(&cluster, "GPU-aaaa")["used_mb"] == 29755);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(!cluster.log().contains("over_slice"), "the driver counts there: {}", cluster.log());
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&job)["state"], "OUT_OF_MEMORY", "nobody else holds it to its slice");
    assert!(cluster.log().contains(" card 1 for "), "{}", cluster.log());
}

#[test]
fn what_a_dead_supervisor_has_limited_is_freed_by_the_daemon_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "") else { return };
    cluster.start();
    for daemon_lives in [true, false] {
        let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], "#!/bin/sh\nsleep 1000\n");
        cluster.wait_state(&job, &["RUNNING"]);
        assert!(kept(&fake).contains(&job), "{}", kept(&fake));
        if !daemon_lives {
            cluster.kill();
        }
        signal(supervisor_of(&cluster, &job).unwrap(), "KILL");
        if !daemon_lives {
            wait_for("the watchdog to end it", || cluster.job_processes().is_empty());
            assert!(kept(&fake).contains(&job), "its group is there, and limited");
            cluster.start();
        }
        cluster.run(crate::cluster::ROOT, "ax", &["cancel", &job]);
        wait_for("its group to go", || group_of(&cluster, &job).is_none());
        assert_eq!(kept(&fake), "", "freed while the group was there");
        cluster.run(crate::cluster::ROOT, "ax", &["cancel", "--all"]);
    }
}

#[test]
fn a_group_that_can_t_be_freed_stays_until_it_can_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "") else { return };
    cluster.start();
    let script = "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.05; done\n";
    let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], script);
    cluster.wait_state(&job, &["RUNNING"]);
    fake.add("fail nvmlDeviceSetMemoryLimits_v1 999");
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    wait_for("the daemon to have tried", || cluster.log().contains("taking the limits of its cards away"));
    assert!(group_of(&cluster, &job).is_some());
    fake.set(TWO);
    wait_for("its group to go", || group_of(&cluster, &job).is_none());
    assert_eq!(kept(&fake), "");
}

/// Each of these calls has ten seconds, at the start of a job, too. One job for each of the two calls of that process.
#[test]
fn a_driver_that_hangs_as_limits_are_set_costs_an_attempt_and_nobody_else_slow_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "resources: {cpus: 4}\n") else { return };
    cluster.start();
    fake.add("hang nvmlDeviceSetMemoryLimits_v1 GPU-aaaa\nhang nvmlDeviceGetHandleByUUID GPU-bbbb");
    let slice = ["--gpus=1", "--mem=50G", "-c1", "--ram=50M", "--no-requeue"];
    let script = "#!/bin/sh\necho $AX_GPU_UUIDS $AX_ATTEMPT $AX_GPU_ENFORCE >> ran\n";
    let jobs = [0, 1].map(|_| cluster.submit(ALICE, &slice, script));
    let library = fake.library.display().to_string();
    let asked = |deed: &str| {
        let lines = crate::cluster::processes().map(crate::cluster::command_line);
        lines.filter(|line| line.contains(&format!("--nvml-limit {deed}")) && line.contains(&library)).count()
    };
    wait_for("the driver to be asked for both", || asked("set") == 2);
    let plain = cluster.submit(ALICE, &["-c1", "--ram=50M"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&plain)["state"], "SUCCEEDED");
    assert_eq!((asked("set"), cluster.read(ALICE, "ran").as_str()), (2, ""), "it waited for neither");
    wait_for("half of it to be taken away", || asked("clear") > 0);
    fake.set(TWO);
    for job in &jobs {
        assert_eq!(cluster.wait_over(job)["state"], "SUCCEEDED");
        let told = cluster.job(job).to_string();
        assert!(told.contains("did not end within") && told.contains("held to its slices by: env"), "{told}");
        wait_for("its group to go", || group_of(&cluster, job).is_none());
    }
    let ran = cluster.read(ALICE, "ran");
    let mut lines: Vec<&str> = ran.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["GPU-aaaa 2 env", "GPU-bbbb 2 env"]);
    assert_eq!(kept(&fake), "");
}

/// Each of these calls has ten seconds.
#[test]
fn a_driver_that_hangs_as_limits_are_taken_away_holds_up_nobody_else_slow_as_root() {
    let Some((mut cluster, fake)) = unified(TWO, "resources: {cpus: 4}\n") else { return };
    cluster.start();
    let sleeps = "#!/bin/sh\nsleep 1000\n";
    let slices: Vec<String> =
        (0..3).map(|_| cluster.submit(ALICE, &["--gpus=1", "--mem=20G", "--ram=50M"], sleeps)).collect();
    let plain = cluster.submit(ALICE, &["--ram=50M"], sleeps);
    for job in slices.iter().chain([&plain]) {
        cluster.wait_state(job, &["RUNNING"]);
    }
    fake.add("hang nvmlDeviceSetMemoryLimits_v1");
    let supervisors = slices.iter().chain([&plain]).map(|job| supervisor_of(&cluster, job).unwrap());
    supervisors.collect::<Vec<_>>().into_iter().for_each(|pid| signal(pid, "KILL"));
    // It may run again by the time somebody looks.
    let over = |id: &str| {
        let job = cluster.job(id);
        job["state"] != "RUNNING" || job["attempt"].as_u64() > Some(1)
    };
    wait_for("the plain job's end to be known", || over(&plain));
    let waits = slices.iter().filter(|job| !over(job)).count();
    assert!(waits > 0, "the driver is still asked for others: {}", cluster.log());
    let library = fake.library.display().to_string();
    let clears = || {
        let lines = crate::cluster::processes().map(crate::cluster::command_line);
        lines.filter(|line| line.contains("--nvml-limit clear") && line.contains(&library)).count()
    };
    assert!(clears() > 1, "for several at once");
    for job in &slices {
        wait_for("its end", || over(job));
    }
    fake.set(TWO);
    for job in &slices {
        cluster.ok(crate::cluster::ROOT, "ax", &["cancel", job]);
        wait_for("its group to go", || group_of(&cluster, job).is_none());
    }
    assert_eq!(kept(&fake), "");
}

/// The process itself, with one card after the other.
#[test]
fn each_card_is_tried_by_itself_and_what_was_tried_before_a_hang_is_known() {
    let cluster = Cluster::stopped("");
    let script = format!(
        "{TWO}card GPU-cccc memory=81920 mig=on\ncard GPU-dddd memory=81920\nfail nvmlDeviceSetMemoryLimits_v1 4 GPU-bbbb\n\
         lost GPU-dddd\n"
    );
    let fake = FakeCards::new(&cluster, &script);
    let group = cluster.root.join("group");
    std::fs::create_dir(&group).unwrap();
    let run = |deed: &str, cards: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axd"));
        command.args(["--nvml-limit", deed, "--library"]).arg(&fake.library).arg("--group").arg(&group);
        crate::cluster::ran(command.args(cards.iter().flat_map(|card| ["--card", card])).output().unwrap())
    };
    let ran = run("try", &["GPU-aaaa", "GPU-bbbb", "GPU-cccc", "GPU-dddd", "GPU-none"]);
    let said: Vec<&str> = ran.out.lines().collect();
    assert_eq!(said[0], "GPU-aaaa works");
    assert!(said[1].contains("only root may") && said[2].contains("MIG is on"), "{said:?}");
    assert!(
        said[3].starts_with("GPU-dddd ") && said[4].starts_with("GPU-none ") && said.len() == 5,
        "{said:?}"
    );
    assert_eq!(kept(&fake), "", "a trial leaves nothing");
    assert_eq!(run("set", &["GPU-aaaa=100"]).code, 0);
    assert!(kept(&fake).contains("104857600 104857600"), "{}", kept(&fake));
    let half = run("set", &["GPU-aaaa=200", "GPU-bbbb=200"]);
    assert!(half.code != 0 && half.err.contains("GPU-bbbb"), "{half:?}");
    let clear = run("clear", &["GPU-dddd", "GPU-none", "GPU-aaaa"]);
    assert_eq!((clear.code, kept(&fake).as_str()), (0, ""), "cards that are gone hold nothing: {clear:?}");
    assert!(run("set", &["GPU-aaaa=x"]).code == 2);
    std::fs::remove_file(fake.script()).unwrap();
    assert_eq!(run("clear", &["GPU-aaaa"]).code, 0, "a driver that is not loaded limits nothing");
    assert!(run("set", &["GPU-aaaa=100"]).code == 1);
}
