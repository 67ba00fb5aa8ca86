//! Cards: found, compared with what is declared, known again whatever their order; and a driver that hangs, loses cards
//! or is not there, which costs the cards that it concerns and nothing else.

use std::fs;

use serde_json::Value;

use crate::cards_hang::{THREE, call_of};
use crate::cluster::{ALICE, Cluster, ROOT, as_root, processes, signal, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// Looked at often, and with little patience: what hangs is to be noticed soon, and what is well again is trusted soon.
const FAST: &str = "resources:\n  gpu_sample: 100ms\n  gpu_timeout: 1s\n  gpu_suspect_time: 1s\n";

/// A world with these cards, its daemon running; further lines of `resources`.
pub(crate) fn with_cards(script: &str, resources: &str) -> (Cluster, FakeCards) {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, script);
    cluster.configure(&format!("{}{FAST}{resources}", fake.config()));
    cluster.start();
    (cluster, fake)
}

/// All cards, as `ax resource --json` tells them.
pub(crate) fn cards(cluster: &Cluster) -> Vec<Value> {
    let ran = cluster.run(ROOT, "ax", &["resource", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// One card.
pub(crate) fn card(cluster: &Cluster, uuid: &str) -> Value {
    let all = cards(cluster);
    all.iter().find(|card| card["uuid"] == uuid).unwrap_or_else(|| panic!("no {uuid} in {all:#?}")).clone()
}

/// UUID and number of each card, in their order.
pub(crate) fn numbers(cluster: &Cluster) -> Vec<(String, u64)> {
    let of = |card: &Value| (card["uuid"].as_str().unwrap().to_owned(), card["index"].as_u64().unwrap());
    cards(cluster).iter().map(of).collect()
}

pub(crate) fn wait_health(cluster: &Cluster, uuid: &str, health: &str) -> Value {
    wait_for(&format!("{uuid} to be {health}"), || {
        cards(cluster).iter().any(|card| card["uuid"] == uuid && card["health"] == health)
    });
    card(cluster, uuid)
}

/// What is odd about the node.
pub(crate) fn warnings(cluster: &Cluster) -> String {
    let ran = cluster.run(ROOT, "ax", &["node", "list", "--json"]);
    let nodes: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    nodes[0]["reason"].as_str().unwrap_or_default().to_owned()
}

/// The processes of this world that ask the driver.
pub(crate) fn helpers(cluster: &Cluster) -> Vec<u32> {
    let parent = format!("PPid:\t{}\n", cluster.pid());
    let is_one = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains("Name:\taxd-nvml\n") && status.contains(&parent) && !status.contains("State:\tZ")
    };
    processes().filter(is_one).collect()
}

#[test]
fn cards_are_found_with_all_that_the_driver_says_of_them() {
    let (cluster, fake) = with_cards(TWO, "");
    assert_eq!(numbers(&cluster), [("GPU-aaaa".to_owned(), 0), ("GPU-bbbb".to_owned(), 1)]);
    let one = card(&cluster, "GPU-aaaa");
    assert_eq!(one["name"], "nvidia-a100-sxm4-80gb");
    assert_eq!(one["mem_mb"], 81_920 - 600, "what the driver keeps can't be given out");
    let hardware = &one["hardware"];
    assert_eq!(hardware["name"], "NVIDIA A100-SXM4-80GB");
    assert_eq!((hardware["pci"].as_str(), hardware["minor"].as_u64()), (Some("00000000:3B:00.0"), Some(1)));
    assert_eq!(hardware["links"], serde_json::json!([["GPU-bbbb", 4]]));
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "healthy");
    assert_eq!(
        card(&cluster, "GPU-aaaa")["limit"],
        "env",
        "frameworks are told, and what is seen is watched"
    );
    // What somebody has on a card is seen, and who it is.
    let own = std::process::id();
    fake.add(&format!("process {own} GPU-bbbb 21000"));
    wait_for("the memory to be seen", || card(&cluster, "GPU-bbbb")["used_mb"] == 21_000);
    let foreign = card(&cluster, "GPU-bbbb")["foreign"][0].as_str().unwrap().to_owned();
    assert!(foreign.contains(&format!("pid {own} ")) && foreign.contains("not a job"), "{foreign}");
    assert_eq!(card(&cluster, "GPU-aaaa")["used_mb"], 0);
}

/// So many cards of 40 GB are declared for this machine.
pub(crate) fn declared(gpus: u32) -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("  gpu_nodes:\n  - host: {}\n    gpus: {gpus}\n    mem_per_gpu: 40G\n", host.trim())
}

#[test]
fn the_smaller_of_declared_and_found_counts() {
    let (cluster, _fake) = with_cards(TWO, &declared(4));
    assert_eq!(cards(&cluster).len(), 2);
    assert_eq!(cards(&cluster)[0]["mem_mb"], 38_146, "less is declared than found");
    assert!(warnings(&cluster).contains("4 cards declared, 2 found; 2 counted"), "{}", warnings(&cluster));
    gives_out(&cluster, &["GPU-aaaa", "GPU-bbbb"]);
    drop(cluster);
    let (cluster, _fake) = with_cards(TWO, &declared(1));
    assert_eq!(numbers(&cluster), [("GPU-aaaa".to_owned(), 0)]);
    assert!(warnings(&cluster).contains("1 card declared, 2 found; 1 counted"), "{}", warnings(&cluster));
    gives_out(&cluster, &["GPU-aaaa"]);
}

/// The node works, with these cards and no more.
fn gives_out(cluster: &Cluster, uuids: &[&str]) {
    let options = |cards: usize| [format!("--gpus={cards}"), "-c1".to_owned(), "--ram=10M".to_owned()];
    let all = options(uuids.len());
    let job = cluster.submit(ALICE, &all.each_ref().map(String::as_str), "#!/bin/sh\n");
    let over = cluster.wait_over(&job);
    assert_eq!((&over["state"], &over["gpu_uuids"]), (&"SUCCEEDED".into(), &serde_json::json!(uuids)));
    let more = options(uuids.len() + 1);
    let words: Vec<&str> =
        ["submit"].into_iter().chain(more.iter().map(String::as_str)).chain(["true"]).collect();
    let refused = cluster.run(ALICE, "ax", &words);
    assert!(refused.code != 0 && refused.err.contains("cards, and "), "{refused:?}");
}

#[test]
fn without_a_library_declared_cards_count_and_nothing_asks_for_others() {
    let mut cluster = Cluster::stopped("");
    let library = cluster.root.join("nowhere.so");
    cluster.configure(&format!("paths:\n  nvml: {}\n{FAST}{}", library.display(), declared(2)));
    cluster.start();
    let all = cards(&cluster);
    assert_eq!((all.len(), &all[0]["health"], &all[0]["used_mb"]), (2, &"healthy".into(), &Value::Null));
    assert_eq!(helpers(&cluster), [0; 0]);
}

#[test]
fn without_settings_of_frameworks_what_is_seen_is_watched() {
    let (cluster, _fake) = with_cards(TWO, "  gpu_mem_hints: none\n");
    assert_eq!(card(&cluster, "GPU-aaaa")["limit"], "watch");
}

#[test]
fn a_card_that_hangs_is_suspect_and_the_others_are_not() {
    let (cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    fake.add("hang nvmlDeviceGetTemperature GPU-aaaa");
    let sick = wait_health(&cluster, "GPU-aaaa", "suspect");
    assert_eq!(sick["why"], "nvmlDeviceGetTemperature does not return");
    assert_eq!(card(&cluster, "GPU-bbbb")["health"], "healthy");
    fake.set(TWO);
    wait_health(&cluster, "GPU-aaaa", "healthy");
}

#[test]
fn jobs_run_as_root_while_a_card_is_lost_and_it_comes_back() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    fake.add("lost GPU-bbbb");
    let sick = wait_health(&cluster, "GPU-bbbb", "suspect");
    assert!(sick["why"].as_str().unwrap().contains("nvmlDeviceGetMemoryInfo_v2"), "{sick}");
    let job = cluster.submit(ALICE, &["--gpus=1"], "#!/bin/sh\ntrue\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    fake.set(TWO);
    wait_health(&cluster, "GPU-bbbb", "healthy");
}

#[test]
fn parts_of_a_card_are_cards_of_their_own() {
    let (cluster, _fake) = with_cards(THREE, "");
    let part = card(&cluster, "MIG-1111");
    assert_eq!((&part["name"], &part["mem_mb"]), (&"mig-1g.10gb".into(), &9_728.into()));
    let mig = serde_json::json!({"parent": "GPU-cccc", "gpu_instance": 1, "compute_instance": 0});
    assert_eq!(part["hardware"]["mig"], mig);
    assert_eq!(part["hardware"]["minor"], 2, "its device file is that of the card");
    let expected = [("GPU-aaaa", 0), ("GPU-bbbb", 1), ("MIG-1111", 3), ("MIG-2222", 4)];
    assert_eq!(numbers(&cluster), expected.map(|(uuid, number)| (uuid.to_owned(), number)));
    let job = cluster.submit(ROOT, &["--gpus=mig-3g.40gb:1"], "#!/bin/sh\ntrue\n");
    assert_eq!(cluster.wait_over(&job)["gpu_uuids"], serde_json::json!(["MIG-2222"]));
}

/// Lines about cards in another order, which is that of the library's numbers.
fn turned(script: &str) -> String {
    let lines: Vec<&str> = script.lines().rev().collect();
    lines.join("\n") + "\n"
}

/// A job that holds a whole card until this file is there; its id and the card.
fn holding(cluster: &Cluster, go: &str) -> (String, String) {
    let go = cluster.home(ALICE).join(go);
    let script = format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.05; done\n", go.display());
    let job = cluster.submit(ALICE, &["--gpus=1"], &script);
    let uuid = cluster.wait_state(&job, &["RUNNING"])["gpu_uuids"][0].as_str().unwrap().to_owned();
    (job, uuid)
}

fn held(cluster: &Cluster, uuid: &str) -> bool {
    card(cluster, uuid)["reserved_mb"] != 0
}

#[test]
fn cards_are_numbered_by_their_places_on_the_bus_and_jobs_keep_theirs_as_root() {
    if !as_root() {
        return;
    }
    let (mut cluster, fake) = with_cards(TWO, "");
    let (job, uuid) = holding(&cluster, "go");
    let other = if uuid == "GPU-aaaa" { "GPU-bbbb" } else { "GPU-aaaa" };
    let before = numbers(&cluster);
    cluster.kill();
    fake.set(&turned(TWO));
    cluster.start();
    assert_eq!(numbers(&cluster), before, "as nvidia-smi does, whatever the library's numbers are");
    assert!(held(&cluster, &uuid) && !held(&cluster, other));
    // They were put into other slots.
    cluster.kill();
    let places = TWO.replace(":3B:", ":xx:").replace(":86:", ":3B:").replace(":xx:", ":86:");
    fake.set(&places);
    cluster.start();
    assert_eq!(numbers(&cluster), [("GPU-bbbb".to_owned(), 0), ("GPU-aaaa".to_owned(), 1)]);
    assert!(held(&cluster, &uuid) && !held(&cluster, other), "{:#?}", cards(&cluster));
    assert_eq!(card(&cluster, &uuid)["jobs"], serde_json::json!([job]));
    let next = cluster.submit(ALICE, &["--gpus=1"], "#!/bin/sh\ntrue\n");
    assert_eq!(cluster.wait_over(&next)["gpu_uuids"], serde_json::json!([other]));
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    wait_for("the card to be free", || !held(&cluster, &uuid));
}

#[test]
fn a_card_that_vanishes_is_suspect_and_is_itself_when_it_comes_back_as_root() {
    if !as_root() {
        return;
    }
    let (mut cluster, fake) = with_cards(TWO, "");
    let (job, uuid) = holding(&cluster, "go");
    let gone: String = TWO
        .lines()
        .filter(|line| !line.contains(&format!("card {uuid}")))
        .fold(String::new(), |all, line| all + line + "\n");
    fake.set(&gone.replace("link", "#"));
    let sick = wait_health(&cluster, &uuid, "suspect");
    assert_eq!(sick["jobs"], serde_json::json!([job]), "what is on it is still known");
    wait_for("the driver to be asked again", || {
        card(&cluster, &uuid)["why"] == "the driver does not find it any more"
    });
    fake.set(TWO);
    wait_health(&cluster, &uuid, "healthy");
    // The same while the daemon is away.
    cluster.kill();
    fake.set(&gone.replace("link", "#"));
    cluster.start();
    assert!(!numbers(&cluster).iter().any(|(found, _)| *found == uuid));
    fake.set(TWO);
    signal(cluster.pid(), "HUP");
    wait_for("the card to be back", || numbers(&cluster).iter().any(|(found, _)| *found == uuid));
    assert!(held(&cluster, &uuid));
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&job, &["SUCCEEDED"]);
}

#[test]
fn a_daemon_whose_driver_hangs_comes_up_and_counts_what_it_can() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &format!("{TWO}hang nvmlDeviceGetHandleByIndex_v2 GPU-aaaa\n"));
    cluster.configure(&format!("{}{FAST}", fake.config()));
    cluster.start();
    wait_for("the other card", || numbers(&cluster) == [("GPU-bbbb".to_owned(), 1)]);
    assert!(warnings(&cluster).contains("card #0 is not counted: nvmlDeviceGetHandleByIndex_v2"));
    fake.set(TWO);
    wait_for("the card", || numbers(&cluster).len() == 2);
    assert_eq!(card(&cluster, "GPU-aaaa")["index"], 0);
    wait_for("no warning", || warnings(&cluster).is_empty());
    cluster.kill();
    fake.set(&format!("{TWO}hang nvmlInit_v2\n"));
    cluster.start();
    wait_for("the reason", || warnings(&cluster).contains("nvmlInit_v2 does not return"));
    fake.set(TWO);
    wait_for("the cards", || numbers(&cluster).len() == 2 && warnings(&cluster).is_empty());
}

#[test]
fn the_process_that_asks_is_there_as_long_as_the_daemon_and_comes_again() {
    let (mut cluster, fake) = with_cards(TWO, "");
    let mut first = 0;
    wait_for("the process", || {
        first = helpers(&cluster).first().copied().unwrap_or(0);
        first > 0
    });
    signal(first, "KILL");
    wait_for("another one", || helpers(&cluster).iter().any(|pid| *pid != first));
    fake.add(&format!("process {} GPU-aaaa 300", std::process::id()));
    wait_for("it to look", || card(&cluster, "GPU-aaaa")["used_mb"] == 300);
    assert_eq!(helpers(&cluster).len(), 1, "one at a time");
    // Even one that hangs does not outlive the daemon.
    fake.add("hang nvmlEventSetWait_v2");
    wait_health(&cluster, "GPU-aaaa", "suspect");
    // One that has come back would read that the daemon is gone.
    let hangs = |pid: &u32| call_of(*pid) == "nvmlEventSetWait_v2";
    wait_for("another try that hangs", || helpers(&cluster).iter().any(hangs));
    let all = helpers(&cluster);
    cluster.kill();
    let lives =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "axd-nvml\n");
    wait_for("them to end", || !all.iter().any(lives));
}

#[test]
fn a_library_that_crashes_costs_its_card_alone() {
    let (cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    fake.add("crash nvmlDeviceGetPowerUsage GPU-aaaa");
    let sick = wait_health(&cluster, "GPU-aaaa", "suspect");
    assert_eq!(sick["why"], "nvmlDeviceGetPowerUsage ends the process that calls it");
    assert_eq!(card(&cluster, "GPU-bbbb")["health"], "healthy");
    fake.set(&format!("{TWO}crash nvmlInit_v2\n"));
    wait_health(&cluster, "GPU-bbbb", "suspect");
    fake.set(TWO);
    wait_health(&cluster, "GPU-aaaa", "healthy");
    wait_health(&cluster, "GPU-bbbb", "healthy");
}

#[test]
fn what_a_process_calls_itself_is_shown_and_does_nothing() {
    let (cluster, fake) = with_cards(TWO, "");
    let name = "printf '\\033[31m\\nroot' > /proc/$$/comm; sleep 60; true";
    let mut child = cluster.command(ALICE, "/bin/sh").args(["-c", name]).spawn().unwrap();
    fake.add(&format!("process {} GPU-aaaa 700", child.id()));
    let mut shown = String::new();
    wait_for("its name", || {
        shown = card(&cluster, "GPU-aaaa")["foreign"][0].as_str().unwrap_or_default().to_owned();
        shown.contains("[31m")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(shown.contains("\\x1b[31m\\nroot of user"), "{shown}");
    wait_for("its end to be seen", || card(&cluster, "GPU-aaaa")["used_mb"] == 0);
}

#[test]
fn an_older_driver_says_less_and_its_cards_are_used_all_the_same() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, TWO).without(&[
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetPowerUsage",
        "nvmlEventSetCreate",
        "nvmlShutdown",
    ]);
    cluster.configure(&format!("{}{FAST}", fake.config()));
    cluster.start();
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    let one = card(&cluster, "GPU-aaaa");
    assert_eq!((&one["health"], &one["power_mw"]), (&"healthy".into(), &Value::Null));
    assert_eq!(one["hardware"]["links"], Value::Null);
}

#[test]
fn declared_cards_are_suspect_while_their_driver_does_not_say_anything() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &format!("{TWO}hang nvmlDeviceGetCount_v2\n"));
    cluster.configure(&format!("{}{FAST}{}", fake.config(), declared(2)));
    cluster.start();
    wait_for("the reason", || {
        let all = cards(&cluster);
        let suspect = |card: &Value| {
            card["health"] == "suspect" && card["why"] == "nvmlDeviceGetCount_v2 does not return"
        };
        all.len() == 2 && all.iter().all(suspect)
    });
    fake.set(TWO);
    wait_health(&cluster, "GPU-aaaa", "healthy");
    assert_eq!(card(&cluster, "GPU-aaaa")["mem_mb"], 38_146);
}

#[test]
fn a_driver_that_is_not_loaded_is_said_and_is_used_once_it_is() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &format!("{TWO}fail nvmlInit_v2 9\n"));
    cluster.configure(&format!("{}{FAST}", fake.config()));
    cluster.start();
    assert_eq!(cards(&cluster), [0; 0].map(Value::from));
    assert!(warnings(&cluster).contains("NVML does not start"), "{}", warnings(&cluster));
    fake.set(TWO);
    wait_for("the cards", || numbers(&cluster).len() == 2);
    wait_for("no warning", || warnings(&cluster).is_empty());
}

/// Adds itself to the script, as if it had memory on a card, and waits.
fn computing(fake: &FakeCards, uuid: &str) -> String {
    let line = format!("process $$ {uuid} 5000");
    format!(
        "#!/bin/sh\necho \"{line}\" >> {}\nwhile [ ! -e go ]; do sleep 0.05; done\n",
        fake.script().display()
    )
}

#[test]
fn cards_with_jobs_are_looked_at_more_often_and_jobs_are_no_strangers_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, TWO);
    // Without jobs the next look would be after longer than any test waits.
    cluster.configure(&format!("{}resources:\n  gpu_sample: 8s\n", fake.config()));
    cluster.start();
    wait_for("the first look", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    let script = computing(&fake, "GPU-aaaa");
    let job = cluster.submit(ALICE, &["--gpus=2"], &script);
    cluster.wait_state(&job, &["RUNNING"]);
    wait_for("a look", || card(&cluster, "GPU-aaaa")["used_mb"] == 5000);
    assert_eq!(card(&cluster, "GPU-aaaa")["foreign"], serde_json::json!([]));
    // And again.
    fake.add(&format!("process {} GPU-bbbb 700", std::process::id()));
    wait_for("another look", || card(&cluster, "GPU-bbbb")["used_mb"] == 700);
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&job, &["SUCCEEDED"]);
}

#[test]
fn a_card_whose_memory_nobody_says_is_given_to_one_job_at_a_time() {
    let cluster = Cluster::with_config(&format!(
        "resources:\n  cpus: 4\n  gpu_nodes:\n    - {{host: {}, gpus: 1}}\n",
        crate::asking::host()
    ));
    let until_go = "#!/bin/sh\necho \"[$AX_GPU_MEM_MB]\"\nwhile ! [ -e go ]; do sleep 0.05; done\n";
    let first =
        cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1", "--ram=100", "--output=first"], until_go);
    cluster.wait_state(&first, &["RUNNING"]);
    let second = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1", "--ram=100"], "#!/bin/sh\n");
    let third = cluster.submit(ALICE, &["--cpus-per-task=1", "--ram=100"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&third)["state"], "SUCCEEDED");
    assert_eq!(cluster.state(&second), "READY");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&second)["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "first").trim(), "[]");
}

#[test]
fn cards_that_others_are_on_are_looked_at_often_without_any_job() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, TWO);
    // The next look at cards that nobody is on would be after longer than any test waits.
    cluster.configure(&format!("{}resources:\n  gpu_sample: 8s\n", fake.config()));
    fake.add(&format!("process {} GPU-bbbb 700", std::process::id()));
    cluster.start();
    wait_for("the first look", || card(&cluster, "GPU-bbbb")["used_mb"] == 700);
    fake.add(&format!("process {} GPU-aaaa 900", std::process::id()));
    wait_for("another look", || card(&cluster, "GPU-aaaa")["used_mb"] == 900);
}

#[test]
fn nobody_but_the_daemon_is_answered_by_the_process_that_asks() {
    let cluster = Cluster::stopped("");
    for user in [ROOT, ALICE] {
        let ran = cluster.run(user, "axd", &["--nvml", "--library", "/etc/passwd"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains("is for the daemon"), "{ran:?}");
    }
}
