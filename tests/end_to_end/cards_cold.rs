//! Cards of which a daemon that comes up does not get to know everything: they are named, and nobody has their numbers.

use crate::cards::{card, cards, numbers, wait_health, warnings};
use crate::cards_hang::THREE;
use crate::cluster::{ALICE, Cluster, wait_for};
use crate::fake_cards::{FakeCards, TWO};

const FAST: &str = "resources: {gpu_sample: 100ms, gpu_timeout: 1s, gpu_suspect_time: 1s}\n";

/// Calls about one card, before it is known, and the card that is to be missing then.
const ABOUT_ONE: [(&str, &str, &str); 10] = [
    ("nvmlDeviceGetHandleByIndex_v2", "GPU-aaaa", "#0"),
    ("nvmlDeviceGetUUID", "GPU-aaaa", "#0"),
    ("nvmlDeviceGetName", "GPU-aaaa", "GPU-aaaa"),
    ("nvmlDeviceGetPciInfo_v3", "GPU-aaaa", "GPU-aaaa"),
    ("nvmlDeviceGetMemoryInfo_v2", "GPU-aaaa", "GPU-aaaa"),
    ("nvmlDeviceGetMigMode", "GPU-aaaa", "GPU-aaaa"),
    ("nvmlDeviceGetMaxMigDeviceCount", "GPU-cccc", "GPU-cccc"),
    ("nvmlDeviceGetMigDeviceHandleByIndex", "GPU-cccc", "GPU-cccc"),
    ("nvmlDeviceGetGpuInstanceId", "MIG-2222", "GPU-cccc"),
    ("nvmlDeviceGetMemoryInfo_v2", "MIG-2222", "GPU-cccc"),
];

/// The daemon comes up while each of the calls does this.
fn each_call(does: &str, with: &str, told: &str) {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, THREE);
    cluster.configure(&format!("{}{FAST}", fake.config()));
    let all = [("GPU-aaaa", 0), ("GPU-bbbb", 1), ("MIG-1111", 3), ("MIG-2222", 4)];
    let counted = |cluster: &Cluster, missing: &str| {
        let is_there = |uuid: &str| match missing {
            "GPU-cccc" => uuid.starts_with("GPU-"),
            _ => uuid != "GPU-aaaa",
        };
        let there = all.iter().filter(|(uuid, _)| is_there(uuid));
        numbers(cluster) == there.map(|(uuid, number)| ((*uuid).to_owned(), *number)).collect::<Vec<_>>()
    };
    for (call, at, missing) in ABOUT_ONE {
        fake.set(&format!("{THREE}{does} {call} {with} {at}\n"));
        cluster.start();
        wait_for(&format!("the others while {call} {does}s at {at}"), || counted(&cluster, missing));
        let word = format!("card {missing} is not counted: ");
        let warned =
            || warnings(&cluster).contains(&word) && warnings(&cluster).contains(&told.replace("CALL", call));
        wait_for(&format!("{word} {call}"), warned);
        // And again, when it is tried again.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert!(counted(&cluster, missing) && warned(), "{:?} {}", cards(&cluster), warnings(&cluster));
        fake.set(THREE);
        wait_for(&format!("all after {call}"), || numbers(&cluster).len() == all.len());
        let there = numbers(&cluster);
        assert!(all.iter().all(|(uuid, number)| there.contains(&((*uuid).to_owned(), *number))), "{there:?}");
        wait_for("no word", || warnings(&cluster).is_empty());
        cluster.kill();
    }
}

#[test]
fn whatever_fails_when_a_daemon_comes_up_costs_its_card_alone_and_nobody_has_its_number_slow() {
    each_call("fail", "999", "call CALL");
}

#[test]
fn whatever_hangs_when_a_daemon_comes_up_costs_its_card_alone_and_nobody_has_its_number_slow() {
    each_call("hang", "", "CALL does not return");
}

#[test]
fn a_card_whose_driver_says_nothing_of_its_memory_is_given_to_one_job_at_a_time() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &format!("{THREE}fail nvmlDeviceGetMemoryInfo_v2 3 GPU-aaaa\n"));
    cluster.configure(&format!("{}{FAST}", fake.config()));
    cluster.start();
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    let seen = wait_health(&cluster, "GPU-aaaa", "healthy");
    assert_eq!((&seen["mem_mb"], &seen["index"]), (&0.into(), &0.into()));
    let whole = cluster.submit(ALICE, &["--gpus=2", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
    let over = cluster.wait_state(&whole, &["SUCCEEDED"]);
    assert_eq!(over["gpu_uuids"].as_array().unwrap().len(), 2, "{over}");
    let slices = ["--gpus=nvidia-a100:1", "--mem=1", "--cpus-per-task=1", "--ram=10M"];
    let slice = cluster.submit(ALICE, &slices, "#!/bin/sh\n");
    assert_eq!(cluster.wait_state(&slice, &["SUCCEEDED"])["gpu_uuids"], serde_json::json!(["GPU-bbbb"]));
}

/// Without `nvidia-persistenced` a driver wakes its cards anew for each process that asks.
#[test]
fn a_driver_that_needs_longer_than_a_look_each_time_is_waited_for_in_the_end() {
    for call in ["nvmlInit_v2", "nvmlDeviceGetHandleByIndex_v2"] {
        let mut cluster = Cluster::stopped("");
        let fake = FakeCards::new(&cluster, &format!("{TWO}slow {call} 2200\n"));
        let pace = "resources: {gpu_sample: 100ms, gpu_timeout: 1s}\n";
        cluster.configure(&format!("{}{pace}", fake.config()));
        cluster.start();
        wait_for(&format!("the cards, though {call} is slow"), || {
            numbers(&cluster).len() == 2 && warnings(&cluster).is_empty()
        });
    }
}
