//! Drivers that do not say who is on a card, or not all of it: nothing is made up.

use serde_json::Value;

use crate::cards::{card, wait_health, with_cards};
use crate::cluster::{ALICE, as_root, wait_for};
use crate::fake_cards::TWO;

/// The driver does not list processes that compute.
const UNLISTED: &str = "fail nvmlDeviceGetComputeRunningProcesses_v3 3\n";

#[test]
fn where_processes_are_not_listed_memory_is_the_jobs_and_an_end_waits_for_it_to_be_free_as_root() {
    if !as_root() {
        return;
    }
    let script = format!("{TWO}{UNLISTED}");
    let (cluster, fake) = with_cards(&script, "  gpu_mem_hints: none\n");
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    let told = card(&cluster, "GPU-aaaa");
    assert_eq!((&told["limit"], &told["health"]), (&"none".into(), &"healthy".into()), "{told}");
    assert!(told["warning"].as_str().unwrap().starts_with("its driver does not list processes"), "{told}");
    let line = "for uuid in $(echo $AX_GPU_UUIDS | tr , ' '); do echo \"process 1 $uuid 20000 stays\" >> SCRIPT; done";
    let script_of_job = format!("#!/bin/sh\n{line}\nuntil [ -e go ]; do sleep 0.02; done\n")
        .replace("SCRIPT", &fake.script().display().to_string());
    let job = cluster.submit(ALICE, &["--gpus=2", "--cpus-per-task=1"], &script_of_job);
    wait_for("its memory", || card(&cluster, "GPU-bbbb")["used_mb"] == 20_000);
    // Longer than a spike is overlooked.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let seen = card(&cluster, "GPU-aaaa");
    assert_eq!((&seen["unexplained_mb"], &seen["foreign"]), (&0.into(), &Value::Array(Vec::new())), "{seen}");
    assert_eq!(seen["held"][0]["used_mb"], 20_000, "{seen}");
    // What it had is in use when its processes have gone.
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&job, &["COMPLETING"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(cluster.state(&job), "COMPLETING");
    fake.set(&script);
    cluster.wait_state(&job, &["SUCCEEDED"]);
    wait_health(&cluster, "GPU-aaaa", "healthy");
}

#[test]
fn a_list_of_no_importance_that_fails_takes_no_card() {
    for list in ["nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"] {
        for status in [3, 4, 999] {
            let (cluster, fake) = with_cards(&format!("{TWO}fail {list} {status}\n"), "");
            fake.add(&format!("process {} GPU-aaaa 700", std::process::id()));
            wait_for("the other list", || card(&cluster, "GPU-aaaa")["foreign"][0].is_string());
            assert_eq!(card(&cluster, "GPU-aaaa")["health"], "healthy", "{list} {status}");
        }
    }
}

#[test]
fn each_hidden_process_counts_and_a_lane_that_says_nothing_hides_no_other() {
    let lanes =
        "switch GPU-aaaa 4\nswitch GPU-bbbb 4\nfail nvmlDeviceGetNvLinkRemotePciInfo_v2 999 GPU-aaaa\n";
    let hidden = "process 0 GPU-aaaa 700 stays\n".repeat(2);
    let (cluster, _fake) = with_cards(&format!("{TWO}{lanes}{hidden}"), "");
    assert_eq!(card(&cluster, "GPU-aaaa")["hardware"]["links"], serde_json::json!([["GPU-bbbb", 4]]));
    wait_for("them", || card(&cluster, "GPU-aaaa")["foreign"][0].is_string());
    let told = card(&cluster, "GPU-aaaa");
    assert!(
        told["foreign"][0].as_str().unwrap().starts_with("1.5 GB held by processes that are hidden"),
        "{told}"
    );
}

/// As in a container: the process is listed, and its memory is not found.
#[test]
fn who_is_said_to_have_nothing_while_much_is_in_use_may_have_it_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(TWO, "");
    let script = fake.script().display();
    let job = format!(
        "#!/bin/sh\necho \"process $$ $AX_GPU_UUIDS 0\" >> {script}\nuntil [ -e go ]; do sleep 0.02; done\n"
    );
    let job = cluster.submit(ALICE, &["--gpus=1", "--mem=20", "--cpus-per-task=1"], &job);
    let uuid = cluster.wait_state(&job, &["RUNNING"])["gpu_uuids"][0].as_str().unwrap().to_owned();
    wait_for("it to be listed", || std::fs::read_to_string(fake.script()).unwrap().contains("process"));
    let listed = std::fs::read_to_string(fake.script()).unwrap();
    fake.set(&listed.replace(&format!("card {uuid} "), &format!("card {uuid} extra=30000 ")));
    wait_for("its memory", || card(&cluster, &uuid)["used_mb"] == 30_000);
    wait_for("it to be counted", || card(&cluster, &uuid)["reserved_mb"] == 30_000);
    let seen = card(&cluster, &uuid);
    assert_eq!((&seen["unexplained_mb"], &seen["foreign"]), (&0.into(), &Value::Array(Vec::new())), "{seen}");
    cluster.write(ALICE, "go", "");
    cluster.wait_over(&job);
}
