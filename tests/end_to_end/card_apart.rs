//! A daemon in a container with process numbers of its own: a driver that speaks of processes there may mean others, and
//! nobody is ended for what another has.

use crate::card_keepers::mounts;
use crate::cards::{card, warnings};
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};
use crate::fake_cards::FakeCards;

const ONE: &str = "card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 reserved=600\ntrace\n";

/// What is said of it everywhere.
const WORDS: &str = "process numbers here are not the machine's (a container)";

fn world() -> Option<(Cluster, FakeCards)> {
    if !as_root() {
        return None;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, ONE);
    let script = mounts(&cluster);
    let words = ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", &script, "sh"];
    cluster.wrapper = words.map(str::to_owned).to_vec();
    cluster.configure(&format!(
        "{}resources:\n  gpu_sample: 50ms\n  gpu_over_samples: 2\n  gpu_clean_wait: 1h\n",
        fake.config()
    ));
    cluster.start();
    Some((cluster, fake))
}

/// A job on a slice that has the card open, and says its number.
fn slice(cluster: &Cluster, user: crate::cluster::User, until: &str) -> (String, String) {
    let script = format!(
        "#!/bin/sh\nexec 9<>/dev/nvidia1\necho $$ >pid.new; mv pid.new pid\nwhile [ ! -e closes ]; do sleep 0.05; done\n\
         exec 9>&-\n: >closed\nwhile [ ! -e {until} ]; do sleep 0.05; done\n"
    );
    let job = cluster.submit(user, &["--gpus", "1", "--mem", "20G", "-c", "1", "--ram", "50M"], &script);
    wait_for("its number", || !cluster.read(user, "pid").is_empty());
    (job, cluster.read(user, "pid").trim().to_owned())
}

fn looks(fake: &FakeCards) -> usize {
    fake.log().matches("nvmlDeviceGetComputeRunningProcesses_v3 GPU-aaaa").count()
}

#[test]
fn whoever_has_the_number_of_another_is_not_ended_for_its_memory_as_root() {
    let Some((cluster, fake)) = world() else { return };
    let (liar, _) = slice(&cluster, ALICE, "go");
    let (other, number) = slice(&cluster, BOB, "go");
    // The machine's number of the liar's process is the other's here.
    fake.set(&format!("{ONE}process {number} GPU-aaaa 50000 compute stays\n"));
    let used = |job: &str| {
        let card = card(&cluster, "GPU-aaaa");
        let held = card["held"].as_array().unwrap().iter().find(|held| held["job"] == job).cloned();
        held.map(|held| held["used_mb"].clone()).unwrap_or_default()
    };
    wait_for("it to be believed, as nothing speaks against it", || used(&other) == 50_000);
    let enough = looks(&fake) + 20;
    wait_for("looks", || looks(&fake) >= enough);
    assert_eq!((cluster.state(&liar), cluster.state(&other)), ("RUNNING".into(), "RUNNING".into()));
    assert!(!cluster.log().contains("over_slice"), "{}", cluster.log());
    // And that is said.
    let told = card(&cluster, "GPU-aaaa");
    assert!(told["limit"] == "env" && told["warning"].as_str().unwrap().contains(WORDS), "{told:#}");
    assert!(warnings(&cluster).contains(WORDS) && cluster.log().contains(WORDS), "{}", cluster.log());
    assert!(
        cluster
            .ok(ROOT, "ax", &["resource"])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains(WORDS)
    );
    // Who has not opened the card has nothing of it.
    for user in [ALICE, BOB] {
        cluster.write(user, "closes", "");
        wait_for("the card to be closed", || cluster.home(user).join("closed").exists());
    }
    wait_for("it not to be believed", || used(&other).is_null());
    // Nor where not all is accounted for, or nobody has anything.
    for listed in ["", "process 1 GPU-aaaa 0 compute stays\n"] {
        fake.set(&format!("{}{listed}", ONE.replace("reserved=600", "reserved=600 extra=30000")));
        wait_for("the memory", || card(&cluster, "GPU-aaaa")["used_mb"] == 30_000);
        let told = card(&cluster, "GPU-aaaa");
        assert_eq!(
            (&told["unexplained_mb"], &told["foreign"]),
            (&0.into(), &serde_json::json!([])),
            "{told:#}"
        );
    }
    // The end of the last one waits for the memory, whose it may be.
    cluster.write(ALICE, "go", "");
    cluster.wait_state(&liar, &["SUCCEEDED"]);
    cluster.write(BOB, "go", "");
    cluster.wait_state(&other, &["COMPLETING"]);
    fake.set(ONE);
    cluster.wait_state(&other, &["SUCCEEDED"]);
}
