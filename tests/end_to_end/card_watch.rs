//! What is seen on cards has consequences: who uses more than their slice is ended and nobody else, an end is one only
//! when nothing is left on the card, and what is left in a group of ours is ended. A "program of CUDA" here is a script
//! that writes itself into the table of the library that plays the driver's.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, signal, supervisor_of, wait_for};
use crate::fake_cards::FakeCards;

const ONE: &str =
    "card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 reserved=600\n";

fn world(config: &str) -> Option<(Cluster, FakeCards)> {
    if !as_root() {
        return None;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, ONE);
    cluster.configure(&format!(
        "{}resources:\n  gpu_sample: 50ms\n  gpu_suspect_time: 1s\n{config}",
        fake.config()
    ));
    cluster.start();
    Some((cluster, fake))
}

/// A job that has so much of the card until a file of this name is there.
fn holding(fake: &FakeCards, mib: &str, until: &str) -> String {
    let script = fake.script().display();
    format!(
        "#!/bin/sh\necho \"process $$ GPU-aaaa {mib}\" >> {script}\nwhile [ ! -e {until} ]; do sleep 0.05; done\n"
    )
}

fn slice(cluster: &Cluster, script: &str) -> String {
    cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G"], script)
}

/// How often the card was looked at, by a call of each look.
fn looks(fake: &FakeCards) -> usize {
    fake.log().matches("nvmlDeviceGetComputeRunningProcesses_v3 GPU-aaaa").count()
}

fn wait_looks(fake: &FakeCards, more: usize) {
    let enough = looks(fake) + more;
    wait_for("looks at the card", || looks(fake) >= enough);
}

fn card(cluster: &Cluster) -> Value {
    crate::cards::card(cluster, "GPU-aaaa")
}

fn folder_of(cluster: &Cluster, id: &str) -> PathBuf {
    let entries = std::fs::read_dir(cluster.root.join("run/ax/attempts")).unwrap().flatten();
    entries.map(|e| e.path()).find(|p| p.file_name().unwrap().to_string_lossy().starts_with(id)).unwrap()
}

#[test]
fn who_uses_more_than_their_slice_is_ended_with_numbers_and_the_neighbour_is_not_as_root() {
    let Some((cluster, fake)) = world("") else { return };
    fake.add("trace");
    let neighbour = slice(&cluster, &holding(&fake, "18000", "done"));
    cluster.wait_state(&neighbour, &["RUNNING"]);
    let liar = slice(&cluster, &holding(&fake, "29755", "never"));
    let over = cluster.wait_over(&liar);
    assert_eq!(over["state"], "OUT_OF_MEMORY");
    let said = over.to_string();
    assert!(said.contains("used 31.2 GB of a 20 GB slice on ") && said.contains(" card 0 for "), "{over:#}");
    let log = cluster.log();
    let (warned, ended) =
        (log.find("over_slice ").or(log.find("over_slice\"")), log.find("over_slice_ended"));
    assert!(warned.is_some() && warned < ended, "{log}");
    assert_eq!(cluster.state(&neighbour), "RUNNING");
    // What is proposed to him for the next time is asked for as it is printed, and is enough.
    let told = cluster.ok(ALICE, "ax", &["eff", &liar]);
    let lines: Vec<&str> =
        told.lines().map(str::trim_start).filter(|line| line.starts_with("#AX ")).collect();
    assert!(lines.contains(&"#AX --gpus=1 --mem=40G"), "a quarter more than 31.2 GB: {told}");
    let script = holding(&fake, "29755", "done").replacen('\n', &format!("\n{}\n", lines.join("\n")), 1);
    let honest = cluster.submit(ALICE, &[], &script);
    wait_for("it to be seen beside the neighbour", || {
        let held = card(&cluster)["held"].clone();
        held.as_array().unwrap().iter().any(|one| one["job"] == honest && one["used_mb"] == 29_755)
    });
    wait_looks(&fake, 5);
    cluster.write(ALICE, "done", "");
    cluster.wait_state(&honest, &["SUCCEEDED"]);
    cluster.wait_state(&neighbour, &["SUCCEEDED"]);
    assert!(!cluster.log().lines().any(|l| l.contains("over_slice") && l.contains(&neighbour)), "{log}");
}

#[test]
fn who_ran_out_of_a_slice_has_half_as_much_again_when_it_is_tried_again_as_root() {
    let Some((cluster, fake)) = world("") else { return };
    let script = format!(
        "#!/bin/sh\necho $AX_GPU_MEM_MB >> granted\necho \"process $$ GPU-aaaa 24000\" >> {}\n\
         [ $AX_RESTART_COUNT = 0 ] || {{ sleep 1; exit 0; }}\nsleep 1000\n",
        fake.script().display()
    );
    let options = ["--gpus", "1", "--mem", "20G", "--retry", "1", "--retry-delay", "1s"];
    let over = cluster.wait_over(&cluster.submit(ALICE, &options, &script));
    assert_eq!(
        (&over["state"], &over["attempts"][0]["state"]),
        (&"SUCCEEDED".into(), &"OUT_OF_MEMORY".into())
    );
    assert_eq!(cluster.read(ALICE, "granted"), "19073\n28609\n", "{over:#}");
    assert_eq!(card(&cluster)["health"], "healthy", "it did use its slice up");
}

#[test]
fn several_processes_count_together_and_a_whole_card_is_its_job_s_as_root() {
    let Some((cluster, fake)) = world("") else { return };
    let script = fake.script().display();
    let two = format!(
        "#!/bin/sh\nsleep 1000 &\necho \"process $! GPU-aaaa 12000\" >> {script}\nsleep 1000 &\n\
         echo \"process $! GPU-aaaa 12000\" >> {script}\nwait\n"
    );
    let over = cluster.wait_over(&slice(&cluster, &two));
    assert_eq!(over["state"], "OUT_OF_MEMORY", "{over:#}");
    fake.add("trace");
    let whole = cluster.submit(ALICE, &["--gpus", "1"], &holding(&fake, "81000", "done"));
    cluster.wait_state(&whole, &["RUNNING"]);
    wait_looks(&fake, 6);
    cluster.write(ALICE, "done", "");
    cluster.wait_state(&whole, &["SUCCEEDED"]);
}

#[test]
fn a_spike_is_warned_of_and_what_the_driver_does_not_say_is_held_against_nobody_as_root() {
    let Some((cluster, fake)) = world("  gpu_over_samples: 1000\n") else { return };
    let script = fake.script().display();
    let spike = format!(
        "#!/bin/sh\nwhile [ ! -e begin ]; do sleep 0.05; done\nsleep 1000 &\nspike=$!\necho \"process $spike GPU-aaaa 40000\" >> {script}\n\
         while [ ! -e seen ]; do sleep 0.05; done\nkill $spike\nwait\nwhile [ ! -e done ]; do sleep 0.05; done\n"
    );
    let spike = slice(&cluster, &spike);
    // Nothing is written into the record of who is not known to run yet.
    cluster.wait_state(&spike, &["RUNNING"]);
    cluster.write(ALICE, "begin", "");
    wait_for("the warning", || cluster.log().contains("over_slice"));
    let record = || cluster.run(ALICE, "ax", &["status", &spike]).out;
    wait_for("it in the job's record", || record().contains("of a 20 GB slice"));
    cluster.write(ALICE, "seen", "");
    wait_for("the spike to be over", || card(&cluster)["used_mb"] == 0);
    cluster.configure(&format!("{}resources:\n  gpu_sample: 50ms\n", fake.config()));
    assert_eq!(cluster.run(ROOT, "ax", &["reload"]).code, 0);
    let silent = slice(&cluster, &holding(&fake, "-", "done"));
    cluster.wait_state(&silent, &["RUNNING"]);
    fake.add("trace");
    wait_looks(&fake, 6);
    cluster.write(ALICE, "done", "");
    for job in [spike, silent] {
        cluster.wait_state(&job, &["SUCCEEDED"]);
    }
}

#[test]
fn an_end_is_one_when_the_card_is_clean_also_for_a_later_daemon_as_root() {
    let Some((mut cluster, fake)) = world("  gpu_clean_wait: 1h\n") else { return };
    fake.add("trace");
    for restarts in [false, true] {
        let job = slice(&cluster, &holding(&fake, "18000 compute stays", "done"));
        cluster.wait_state(&job, &["RUNNING"]);
        wait_looks(&fake, 2);
        cluster.write(ALICE, "done", "");
        wait_for("its result", || folder_of(&cluster, &job).join("result").exists());
        if restarts {
            cluster.kill();
            cluster.start();
        }
        wait_looks(&fake, 5);
        assert_eq!(cluster.state(&job), "COMPLETING");
        fake.set(&format!("{ONE}trace\n"));
        cluster.wait_state(&job, &["SUCCEEDED"]);
        std::fs::remove_file(cluster.home(ALICE).join("done")).unwrap();
    }
    let none = cluster.submit(ALICE, &[], "#!/bin/sh\n");
    cluster.wait_state(&none, &["SUCCEEDED"]);
}

#[test]
fn a_supervisor_that_is_killed_leaves_no_end_before_the_card_is_clean_as_root() {
    let Some((cluster, fake)) = world("  gpu_clean_wait: 1h\n") else { return };
    fake.add("trace");
    let script = holding(&fake, "18000 compute stays", "never");
    let job = cluster.submit(ALICE, &["--gpus", "1", "--mem", "20G", "--no-requeue"], &script);
    cluster.wait_state(&job, &["RUNNING"]);
    wait_looks(&fake, 2);
    signal(supervisor_of(&cluster, &job).unwrap(), "KILL");
    cluster.wait_state(&job, &["COMPLETING"]);
    wait_looks(&fake, 5);
    assert_eq!(cluster.state(&job), "COMPLETING");
    fake.set(ONE);
    cluster.wait_over(&job);
}

#[test]
fn who_is_listed_for_ever_makes_the_card_suspect_and_not_the_job_wait_as_root() {
    let Some((cluster, fake)) = world("  gpu_clean_wait: 300ms\n") else { return };
    let job = slice(&cluster, &holding(&fake, "18000 compute stays", "done"));
    cluster.wait_state(&job, &["RUNNING"]);
    wait_for("a look", || card(&cluster)["used_mb"].as_u64() >= Some(18_000));
    cluster.write(ALICE, "done", "");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    wait_for("the card to be suspect", || card(&cluster)["health"] == "suspect");
    let why = card(&cluster)["why"].to_string();
    assert!(why.contains(&job) && why.contains("pid ") && why.contains("18.9 GB"), "{why}");
    assert!(cluster.log().contains("card_not_clean"), "{}", cluster.log());
    let waits = slice(&cluster, "#!/bin/sh\n");
    let told = cluster.run(ALICE, "ax", &["why", &waits]);
    assert!(told.out.contains(&job), "the card is given to nobody, and it is said why: {told:?}");
    assert_eq!(cluster.state(&waits), "READY");
    fake.set(ONE);
    wait_for("the card to be fit", || card(&cluster)["health"] == "healthy");
    cluster.wait_state(&waits, &["SUCCEEDED"]);
}

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn left_overs_in_groups_of_ours_are_ended_and_strangers_never_as_root() {
    let Some((cluster, fake)) = world("") else { return };
    fake.add("trace");
    let job = slice(&cluster, "#!/bin/sh\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    let living = cluster.submit(BOB, &["--gpus", "1", "--mem", "20G"], &holding(&fake, "1000", "never"));
    cluster.wait_state(&living, &["RUNNING"]);
    let (mut left, mut stranger) = (Sleeper::new(), Sleeper::new());
    let tops = crate::cluster::groups(&cluster.root.join("run/ax"));
    // In the unified tree, or else where jobs are frozen: there a job is held.
    let top = tops.iter().find(|top| top.join("cgroup.events").exists());
    let top = top.or_else(|| tops.iter().find(|top| top.to_string_lossy().contains("freezer"))).unwrap();
    let group = top.join(format!("{job}.1"));
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cgroup.procs"), left.0.id().to_string()).unwrap();
    fake.add(&format!("process {} GPU-aaaa 500\nprocess {} GPU-aaaa 700", left.0.id(), stranger.0.id()));
    wait_for("the left-over to be ended", || left.0.try_wait().unwrap().is_some());
    wait_looks(&fake, 5);
    let lives = stranger.0.try_wait().unwrap().is_none();
    assert!(lives && cluster.state(&living) == "RUNNING");
    assert!(cluster.log().contains("left_over"), "{}", cluster.log());
    let _ = std::fs::remove_dir(group);
}
