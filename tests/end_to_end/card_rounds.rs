//! Jobs that end badly, one after the other, each in another way: when one is over, its card is clean or it is said who
//! holds it.

use std::fmt::Write;

use serde_json::Value;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, signal, supervisor_of, wait_for};
use crate::fake_cards::FakeCards;

const ONE: &str =
    "card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 reserved=600\n";

/// How a job ends, and what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It fails, and its children hold memory on.
    Fails,
    /// It is killed by a signal.
    Dies,
    /// It is cancelled and does not listen.
    Cancelled,
    /// Its supervisor is killed.
    SupervisorKilled,
    /// The daemon is killed, then its supervisor, and a daemon comes back.
    BothKilled,
    /// What it held is free only a while after it is over.
    SlowDriver,
    /// What it held is never free.
    NeverFree,
}

const WAYS: [Way; 7] = [
    Way::Fails,
    Way::Dies,
    Way::Cancelled,
    Way::SupervisorKilled,
    Way::BothKilled,
    Way::SlowDriver,
    Way::NeverFree,
];

fn rounds() -> u32 {
    if std::env::var_os("AX_TEST_LONG").is_some() { 1000 } else { 100 }
}

/// A program that holds memory, with children that do not listen and a session of their own.
fn script(fake: &FakeCards, way: Way) -> String {
    let table = fake.script().display();
    let stays = if matches!(way, Way::SlowDriver | Way::NeverFree) { " compute stays" } else { "" };
    let mut text = "#!/bin/bash\ntrap '' TERM HUP\n".to_owned();
    for mib in [3000, 5000] {
        let _ = writeln!(text, "setsid sleep 1000 &\necho \"process $! GPU-aaaa {mib}\" >> {table}");
    }
    let _ = writeln!(text, "echo \"process $$ GPU-aaaa 7000{stays}\" >> {table}\ntouch up");
    text.push_str(match way {
        Way::Dies => "while [ ! -e go ]; do sleep 0.02; done\nkill -9 $$\n",
        Way::Cancelled | Way::SupervisorKilled | Way::BothKilled => "while true; do sleep 0.1; done\n",
        _ => "while [ ! -e go ]; do sleep 0.02; done\nexit 7\n",
    });
    text
}

/// Memory on the card, and what is said of it.
fn card(cluster: &Cluster) -> (u64, Value) {
    let card = crate::cards::card(cluster, "GPU-aaaa");
    (card["used_mb"].as_u64().unwrap_or(u64::MAX), card)
}

fn end_badly(cluster: &mut Cluster, fake: &FakeCards, way: Way, job: &str) {
    match way {
        Way::Fails | Way::Dies | Way::NeverFree => drop(cluster.write(ALICE, "go", "")),
        Way::Cancelled => assert_eq!(cluster.run(ALICE, "ax", &["cancel", job]).code, 0),
        Way::SupervisorKilled => signal(supervisor_of(cluster, job).unwrap(), "KILL"),
        Way::BothKilled => {
            cluster.kill();
            signal(supervisor_of(cluster, job).unwrap(), "KILL");
            cluster.start();
        }
        Way::SlowDriver => {
            cluster.write(ALICE, "go", "");
            cluster.wait_state(job, &["COMPLETING"]);
            let (used, seen) = card(cluster);
            assert!(used > 0, "the driver says otherwise: {seen:#}");
            fake.set(ONE);
        }
    }
}

#[test]
fn after_each_of_many_bad_ends_the_card_is_clean_or_its_holder_is_named_slow_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, ONE);
    let resources = "resources:\n  gpu_sample: 50ms\n  gpu_suspect_time: 1s\n";
    let policy = "policy:\n  kill_wait: 100ms\n";
    let config = |wait: &str| format!("{}{resources}  gpu_clean_wait: {wait}\n{policy}", fake.config());
    cluster.configure(&config("1h"));
    cluster.start();
    for round in 0..rounds() {
        // Neighbours in the list follow each other in every order, sooner or later.
        let way = WAYS[(round * (1 + round / 7 % 6)) as usize % WAYS.len()];
        cluster.configure(&config(if way == Way::NeverFree { "200ms" } else { "1h" }));
        assert_eq!(cluster.run(ROOT, "ax", &["reload"]).code, 0);
        for flag in ["go", "up"] {
            let _ = std::fs::remove_file(cluster.home(ALICE).join(flag));
        }
        let options = ["--gpus", "1", "--mem", "20G", "--no-requeue"];
        let job = cluster.submit(ALICE, &options, &script(&fake, way));
        wait_for("the job to hold memory", || cluster.home(ALICE).join("up").exists());
        if matches!(way, Way::NeverFree | Way::SlowDriver) {
            wait_for("a look at it", || card(&cluster).0 >= 15_000);
        }
        end_badly(&mut cluster, &fake, way, &job);
        cluster.wait_over(&job);
        let (used, seen) = card(&cluster);
        if way == Way::NeverFree {
            let why = seen["why"].as_str().unwrap_or_default();
            assert!(
                seen["health"] == "suspect" && why.contains(&job) && why.contains("pid "),
                "{round}: {seen:#}"
            );
        } else {
            assert_eq!(used, 0, "{round}, {way:?}: {seen:#}");
        }
        assert_eq!(cluster.job_processes(), [0_u32; 0], "{round}, {way:?}");
        fake.set(ONE);
        wait_for("the card to be fit", || crate::cards::card(&cluster, "GPU-aaaa")["health"] == "healthy");
    }
}
