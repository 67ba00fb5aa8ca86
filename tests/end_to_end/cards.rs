//! Cards: found, compared with what is declared, known again whatever their order; and a driver that hangs, loses cards
//! or is not there, which costs the cards that it concerns and nothing else.

use std::fs;

use serde_json::Value;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, processes, wait_for};
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
    fake.add("lost GPU-bbbb");
    let sick = wait_health(&cluster, "GPU-bbbb", "suspect");
    assert!(sick["why"].as_str().unwrap().contains("nvmlDeviceGetMemoryInfo_v2"), "{sick}");
    let job = cluster.submit(ALICE, &["--gpus=1"], "#!/bin/sh\ntrue\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    fake.set(TWO);
    wait_health(&cluster, "GPU-bbbb", "healthy");
}
