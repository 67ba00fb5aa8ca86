//! Memory of a card whose process has ended, or is nobody's by the driver's word: whoever has the card's file open may keep
//! it. The daemon, its jobs and whoever else is asked for here live in a `/dev` of their own, where that file is a plain one.

use std::process::{Child, Command, Stdio};

use crate::cards::card;
use crate::cluster::{ALICE, BOB, Cluster, as_root, wait_for};
use crate::fake_cards::FakeCards;

const ONE: &str =
    "card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 reserved=600\n";

/// A script that gives the program behind it a `/dev` of its own with the file of a card.
pub(crate) fn mounts(cluster: &Cluster) -> String {
    let dev = cluster.root.join("dev");
    std::fs::create_dir(&dev).unwrap();
    let dev = dev.display();
    format!(
        "mount --make-rprivate / && mount -t tmpfs none {dev} && chmod 755 {dev} && \
         cp -a /dev/null /dev/zero /dev/random /dev/urandom /dev/tty {dev}/ && ln -s /proc/self/fd {dev}/fd && \
         : >{dev}/nvidia1 && chmod 666 {dev}/nvidia1 && mount --move {dev} /dev && exec \"$@\""
    )
}

fn world(config: &str) -> Option<(Cluster, FakeCards)> {
    if !as_root() {
        return None;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, ONE);
    let mounts = mounts(&cluster);
    cluster.wrapper = ["unshare", "-m", "sh", "-c", &mounts, "sh"].map(str::to_owned).to_vec();
    cluster.configure(&format!("{}resources:\n  gpu_sample: 50ms\n{config}", fake.config()));
    cluster.start();
    Some((cluster, fake))
}

fn slice(cluster: &Cluster, user: crate::cluster::User, script: &str) -> String {
    cluster.submit(user, &["--gpus", "1", "--mem", "20G", "-c", "1", "--ram", "100M"], script)
}

/// A script whose child takes memory, is gone before anybody has looked, and left the card open with another.
fn leaves_a_child(fake: &FakeCards, until: &str) -> String {
    format!(
        "#!/bin/sh\nexec 9<>/dev/nvidia1\n/bin/true & p=$!\nwait\n\
         echo \"process $p GPU-aaaa 5000 compute stays\" >>{}\nwhile [ ! -e {until} ]; do sleep 0.05; done\n",
        fake.script().display()
    )
}

#[test]
fn what_a_dead_process_has_is_of_whoever_keeps_it_and_no_neighbour_waits_for_it_as_root() {
    let Some((cluster, fake)) = world("  gpu_clean_wait: 1h\n") else { return };
    let keeper = slice(&cluster, ALICE, &leaves_a_child(&fake, "done"));
    cluster.wait_state(&keeper, &["RUNNING"]);
    wait_for("it to be accounted for", || {
        let card = card(&cluster, "GPU-aaaa");
        card["used_mb"] == 5000 && card["unexplained_mb"] == 0 && card["foreign"] == serde_json::json!([])
    });
    let neighbour = slice(&cluster, BOB, "#!/bin/sh\nsleep 1\n");
    cluster.wait_state(&neighbour, &["SUCCEEDED"]);
    cluster.write(ALICE, "done", "");
    wait_for("it to wait for its card", || cluster.state(&keeper) == "COMPLETING");
    fake.set(ONE);
    cluster.wait_state(&keeper, &["SUCCEEDED"]);
}

/// A process with the card open, which is no job, in the world of the daemon.
fn stranger(cluster: &Cluster) -> Child {
    let mut command = Command::new("nsenter");
    command.args([
        "-m",
        "-t",
        &cluster.pid().to_string(),
        "sh",
        "-c",
        "exec 9<>/dev/nvidia1; exec sleep 1000",
    ]);
    command.stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn who_has_a_card_open_is_named_for_what_nobody_accounts_for_as_root() {
    let Some((cluster, fake)) = world("") else { return };
    let mut stranger = stranger(&cluster);
    fake.set(&ONE.replace("reserved=600", "reserved=600 extra=30000"));
    let barred = || card(&cluster, "GPU-aaaa")["unexplained_mb"].as_u64() >= Some(25_000);
    wait_for("the card to be barred", barred);
    let job = slice(&cluster, ALICE, "#!/bin/sh\n");
    let why =
        || cluster.run(ALICE, "ax", &["why", &job]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = format!("in use that no process accounts for (open by pid {} sleep", stranger.id());
    wait_for("its name", || why().contains(&named));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    fake.set(ONE);
    cluster.wait_state(&job, &["SUCCEEDED"]);
}
