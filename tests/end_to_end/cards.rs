//! Cards: found, compared with what is declared, known again whatever their order; and a driver that hangs, loses cards
//! or is not there, which costs the cards that it concerns and nothing else.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, processes, signal, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// Looked at often, and with little patience: what hangs is to be noticed soon.
const FAST: &str = "resources:\n  gpu_sample: 100ms\n  gpu_timeout: 1s\n";

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
fn numbers(cluster: &Cluster) -> Vec<(String, u64)> {
    let of = |card: &Value| (card["uuid"].as_str().unwrap().to_owned(), card["index"].as_u64().unwrap());
    cards(cluster).iter().map(of).collect()
}

fn wait_health(cluster: &Cluster, uuid: &str, health: &str) -> Value {
    wait_for(&format!("{uuid} to be {health}"), || {
        cards(cluster).iter().any(|card| card["uuid"] == uuid && card["health"] == health)
    });
    card(cluster, uuid)
}

/// What is odd about the node.
fn warnings(cluster: &Cluster) -> String {
    let ran = cluster.run(ROOT, "ax", &["node", "list", "--json"]);
    let nodes: Value = serde_json::from_str(&ran.out).unwrap_or_default();
    nodes[0]["reason"].as_str().unwrap_or_default().to_owned()
}

/// The processes of this world that ask the driver.
fn helpers(cluster: &Cluster) -> Vec<u32> {
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
    assert_eq!(one["name"], "nvidia a100-sxm4-80gb");
    assert_eq!(one["mem_mb"], 81_920 - 600, "what the driver keeps can't be given out");
    let hardware = &one["hardware"];
    assert_eq!(hardware["name"], "NVIDIA A100-SXM4-80GB");
    assert_eq!((hardware["pci"].as_str(), hardware["minor"].as_u64()), (Some("00000000:3B:00.0"), Some(1)));
    assert_eq!(hardware["links"], serde_json::json!([["GPU-bbbb", 4]]));
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "healthy");
    // What somebody has on a card is seen, and who it is.
    let own = std::process::id();
    fake.add(&format!("process {own} GPU-bbbb 21000"));
    wait_for("the memory to be seen", || card(&cluster, "GPU-bbbb")["used_mb"] == 21_000);
    let foreign = card(&cluster, "GPU-bbbb")["foreign"][0].as_str().unwrap().to_owned();
    assert!(foreign.contains(&format!("pid {own} ")) && foreign.contains("not a job"), "{foreign}");
    assert_eq!(card(&cluster, "GPU-aaaa")["used_mb"], 0);
}

#[test]
fn the_smaller_of_declared_and_found_counts() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    let declared =
        |gpus: u32| format!("  gpu_nodes:\n  - host: {host}\n    gpus: {gpus}\n    mem_per_gpu: 40G\n");
    let (cluster, _fake) = with_cards(TWO, &declared(4));
    assert_eq!(cards(&cluster).len(), 2);
    assert_eq!(cards(&cluster)[0]["mem_mb"], 38_146, "less is declared than found");
    assert!(warnings(&cluster).contains("4 cards declared, 2 found; 2 counted"), "{}", warnings(&cluster));
    drop(cluster);
    let (cluster, _fake) = with_cards(TWO, &declared(1));
    assert_eq!(numbers(&cluster), [("GPU-aaaa".to_owned(), 0)]);
    assert!(warnings(&cluster).contains("1 cards declared, 2 found; 1 counted"), "{}", warnings(&cluster));
}

#[test]
fn without_a_library_declared_cards_count_and_nothing_asks_for_others() {
    let mut cluster = Cluster::stopped("");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let library = cluster.root.join("nowhere.so");
    cluster.configure(&format!(
        "paths:\n  nvml: {}\n{FAST}  gpu_nodes:\n  - host: {}\n    gpus: 2\n    mem_per_gpu: 40G\n",
        library.display(),
        host.trim()
    ));
    cluster.start();
    let all = cards(&cluster);
    assert_eq!((all.len(), &all[0]["health"], &all[0]["used_mb"]), (2, &"healthy".into(), &Value::Null));
    assert_eq!(helpers(&cluster), [0; 0]);
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

/// Three cards: two with links, and one that is divided.
const THREE: &str = "\
card GPU-aaaa name=NVIDIA_A100 minor=0 pci=00000000:3B:00.0 memory=81920 reserved=600 temp=34 power=61000 load=0 ecc=0 pages_pending=0 rows=0,0,0,0 recovery=0
card GPU-bbbb name=NVIDIA_A100 minor=1 pci=00000000:86:00.0 memory=81920 reserved=600 temp=35 power=62000 load=0 ecc=0 pages_pending=0 rows=0,0,0,0 recovery=0
card GPU-cccc name=NVIDIA_A100 minor=2 pci=00000000:AF:00.0 memory=81920 reserved=600 temp=36 power=63000 load=0 ecc=0
mig MIG-1111 parent=GPU-cccc gi=1 ci=0 profile=1g.10gb memory=9728 temp=36
mig MIG-2222 parent=GPU-cccc gi=2 ci=0 profile=3g.40gb memory=40192 temp=36
link GPU-aaaa GPU-bbbb 4
";

/// Cards that are given out of these.
const GIVEN: [&str; 4] = ["GPU-aaaa", "GPU-bbbb", "MIG-1111", "MIG-2222"];

/// At which card a call is to hang, and which are suspect then.
fn victim(call: &str) -> (&'static str, &'static [&'static str]) {
    match call {
        "nvmlInit_v2"
        | "nvmlSystemGetDriverVersion"
        | "nvmlDeviceGetCount_v2"
        | "nvmlEventSetCreate"
        | "nvmlEventSetWait_v2" => ("", &GIVEN),
        "nvmlDeviceGetMaxMigDeviceCount" | "nvmlDeviceGetMigDeviceHandleByIndex" => {
            ("GPU-cccc", &["MIG-1111", "MIG-2222"])
        }
        "nvmlDeviceGetGpuInstanceId" | "nvmlDeviceGetComputeInstanceId" => ("MIG-2222", &["MIG-2222"]),
        _ => ("GPU-aaaa", &["GPU-aaaa"]),
    }
}

/// Every call of a part of the list hangs in turn.
fn each_hangs(calls: &[&str]) {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(THREE, "");
    let healthy = |uuid: &str| card(&cluster, uuid)["health"] == "healthy";
    wait_for("a sample", || card(&cluster, "MIG-2222")["temperature"] == 36);
    for call in calls {
        let (at, suspect) = victim(call);
        fake.set(&format!("{THREE}hang {call} {at}\n"));
        // Some are called only when cards are looked for.
        signal(cluster.pid(), "HUP");
        for uuid in suspect {
            let sick = wait_health(&cluster, uuid, "suspect");
            // This one is called by the one before it.
            let named = if *call == "nvmlSystemGetDriverVersion" { "nvmlInit_v2" } else { call };
            assert_eq!(sick["why"], format!("{named} does not return"), "{uuid}");
        }
        for uuid in GIVEN.iter().filter(|uuid| !suspect.contains(uuid)) {
            assert!(healthy(uuid), "{call} hangs at {at}, and {uuid} is taken for sick: {}", cluster.log());
        }
        let job = cluster.submit(ALICE, &[], "#!/bin/sh\ntrue\n");
        cluster.wait_state(&job, &["SUCCEEDED"]);
        fake.set(THREE);
        for uuid in GIVEN {
            wait_for(&format!("{uuid} after {call} to be well"), || healthy(uuid));
        }
    }
    let log = cluster.log();
    let suspected = log.lines().filter(|line| line.contains("card=GPU-bbbb") && line.contains("suspect="));
    assert_eq!(suspected.count(), 0, "no call hung at it: {log}");
}

#[test]
fn a_hang_in_each_call_costs_its_card_alone_slow_as_root_1() {
    each_hangs(&ax_sys::nvml::CALLS[..10]);
}

#[test]
fn a_hang_in_each_call_costs_its_card_alone_slow_as_root_2() {
    each_hangs(&ax_sys::nvml::CALLS[10..20]);
}

#[test]
fn a_hang_in_each_call_costs_its_card_alone_slow_as_root_3() {
    each_hangs(&ax_sys::nvml::CALLS[20..]);
}

#[test]
fn every_call_that_is_made_is_in_the_list() {
    let (cluster, fake) = with_cards(&format!("trace\n{THREE}"), "");
    wait_for("a sample", || card(&cluster, "MIG-2222")["temperature"] == 36);
    let made: BTreeSet<String> =
        fake.log().lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    let listed: BTreeSet<String> = ax_sys::nvml::CALLS.iter().map(|call| (*call).to_owned()).collect();
    assert_eq!(made, listed, "a hang of one that is not listed is not tried");
}
