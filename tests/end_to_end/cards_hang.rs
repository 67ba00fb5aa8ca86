//! A driver that hangs, in each of the calls that are made of it in turn: it costs the cards that it concerns, until it
//! goes on, and nothing else.

use std::collections::BTreeSet;

use crate::cards::{card, helpers, wait_health, warnings, with_cards};
use crate::cluster::{ALICE, Cluster, as_root, signal, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// Three cards: two with links, and one that is divided.
pub(crate) const THREE: &str = "\
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
        "nvmlInit_v2" | "nvmlSystemGetDriverVersion" | "nvmlDeviceGetCount_v2" | "nvmlEventSetCreate" => {
            ("", &GIVEN)
        }
        "nvmlDeviceGetMaxMigDeviceCount" | "nvmlDeviceGetMigDeviceHandleByIndex" => {
            ("GPU-cccc", &["MIG-1111", "MIG-2222"])
        }
        "nvmlDeviceGetGpuInstanceId" | "nvmlDeviceGetComputeInstanceId" => {
            ("MIG-2222", &["MIG-1111", "MIG-2222"])
        }
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

/// What the process that asks the driver has written down: the call that it is in, if in any.
pub(crate) fn call_of(pid: u32) -> String {
    let mark = std::fs::read(format!("/proc/{pid}/fd/4")).unwrap_or_default();
    mark.split(|byte| *byte == 0)
        .next()
        .map(|call| String::from_utf8_lossy(call).into_owned())
        .unwrap_or_default()
}

/// A world whose cards have more time.
fn slowly(script: &str) -> (Cluster, FakeCards) {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, script);
    cluster.configure(&format!("{}resources: {{gpu_sample: 100ms, gpu_timeout: 3s}}\n", fake.config()));
    cluster.start();
    (cluster, fake)
}

/// Longer than a look may take in the two tests below, and less than makes it too long without a call that hangs.
fn past_the_time_of_a_look() {
    std::thread::sleep(std::time::Duration::from_secs(4));
}

fn nobody_is_blamed(cluster: &Cluster, fake: &FakeCards) {
    fake.add(&format!("process {} GPU-bbbb 300", std::process::id()));
    wait_for("another look", || card(cluster, "GPU-bbbb")["used_mb"] == 300);
    let log = cluster.log();
    assert!(!log.contains("suspect="), "{log}");
}

#[test]
fn a_look_that_was_ready_before_the_daemon_came_to_it_is_not_late() {
    let (cluster, fake) = slowly(TWO);
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    let helper = helpers(&cluster)[0];
    fake.add("hang nvmlDeviceGetUtilizationRates GPU-aaaa");
    wait_for("the call", || call_of(helper) == "nvmlDeviceGetUtilizationRates");
    signal(cluster.pid(), "STOP");
    fake.set(TWO);
    past_the_time_of_a_look();
    signal(cluster.pid(), "CONT");
    nobody_is_blamed(&cluster, &fake);
}

#[test]
fn a_look_that_takes_long_for_another_reason_is_nobody_s_fault() {
    let (cluster, fake) = slowly(TWO);
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    let helper = helpers(&cluster)[0];
    wait_for("it to be in no call", || {
        signal(helper, "STOP");
        let free = call_of(helper).is_empty();
        if !free {
            signal(helper, "CONT");
        }
        free
    });
    past_the_time_of_a_look();
    signal(helper, "CONT");
    nobody_is_blamed(&cluster, &fake);
    assert_eq!(helpers(&cluster), [helper], "it goes on");
}

#[test]
fn a_card_that_hangs_is_given_to_nobody_and_keeps_its_job_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    let waits = |go: &str| {
        let go = cluster.home(ALICE).join(go);
        format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.05; done\n", go.display())
    };
    let given = |job: &serde_json::Value| job["gpu_uuids"][0].as_str().unwrap().to_owned();
    let first = cluster.submit(ALICE, &["--gpus=1"], &waits("first"));
    let uuid = given(&cluster.wait_state(&first, &["RUNNING"]));
    let other = if uuid == "GPU-aaaa" { "GPU-bbbb" } else { "GPU-aaaa" };
    // The free one hangs: whoever comes next waits for it, and is told.
    fake.set(&format!("{TWO}hang nvmlDeviceGetUtilizationRates {other}\n"));
    wait_health(&cluster, other, "suspect");
    let second = cluster.submit(ALICE, &["--gpus=1"], &waits("second"));
    wait_for("the reason", || {
        let why = cluster.run(ALICE, "ax", &["why", &second]);
        why.out.contains("nvmlDeviceGetUtilizationRates does not return")
    });
    assert_eq!(cluster.state(&second), "READY");
    fake.set(TWO);
    assert_eq!(given(&cluster.wait_state(&second, &["RUNNING"])), other);
    // The one with a job hangs: the job goes on, and ends as it would.
    fake.set(&format!("{TWO}hang nvmlDeviceGetUtilizationRates {other}\n"));
    wait_health(&cluster, other, "suspect");
    assert_eq!(cluster.state(&second), "RUNNING");
    fake.set(TWO);
    cluster.write(ALICE, "second", "");
    cluster.write(ALICE, "first", "");
    cluster.wait_state(&second, &["SUCCEEDED"]);
    cluster.wait_state(&first, &["SUCCEEDED"]);
}

#[test]
fn errors_that_were_reported_before_a_call_hung_are_not_lost() {
    // A card falls off the bus, and then the calls hang: at another card before it or after it, or at itself.
    for (fallen, hangs) in [("GPU-bbbb", "GPU-aaaa"), ("GPU-aaaa", "GPU-bbbb"), ("GPU-aaaa", "GPU-aaaa")] {
        let (cluster, fake) = with_cards(TWO, "");
        wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
        fake.add(&format!("xid {fallen} 79\nhang nvmlDeviceGetTemperature {hangs}"));
        let sick = wait_health(&cluster, fallen, "drained");
        assert!(sick["why"].as_str().unwrap().starts_with("Xid 79"), "{sick}");
        if hangs != fallen {
            wait_health(&cluster, hangs, "suspect");
        }
        fake.set(TWO);
        if hangs != fallen {
            wait_health(&cluster, hangs, "healthy");
        }
        // As long as a card is looked at again, and longer than one is suspect.
        let before = helpers(&cluster);
        signal(cluster.pid(), "HUP");
        wait_for("another look", || helpers(&cluster) != before);
        std::thread::sleep(std::time::Duration::from_secs(2));
        assert_eq!(card(&cluster, fallen)["health"], "drained");
    }
}

#[test]
fn a_card_that_is_lost_makes_nobody_deaf_for_the_others() {
    let (cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-bbbb")["temperature"] == 35);
    fake.add("xid GPU-aaaa 79\nlost GPU-aaaa");
    wait_health(&cluster, "GPU-aaaa", "drained");
    fake.add("xid GPU-bbbb 48");
    let sick = wait_health(&cluster, "GPU-bbbb", "drained");
    assert!(sick["why"].as_str().unwrap().starts_with("Xid 48"), "{sick}");
}

#[test]
fn whose_errors_are_not_reported_is_said() {
    for (fails, with) in [("nvmlDeviceRegisterEvents", 3), ("nvmlEventSetWait_v2", 15)] {
        let mut cluster = Cluster::stopped("");
        let fake = FakeCards::new(&cluster, &format!("{TWO}fail {fails} {with} GPU-bbbb\n"));
        cluster.configure(&format!("{}resources: {{gpu_sample: 100ms, gpu_timeout: 1s}}\n", fake.config()));
        cluster.start();
        let told = |card_s: &str| card(&cluster, card_s)["warning"].as_str().unwrap_or_default().to_owned();
        wait_for("a word", || told("GPU-bbbb").contains(fails));
        assert!(told("GPU-bbbb").starts_with("its errors (Xid) are not reported: "), "{}", told("GPU-bbbb"));
        assert_eq!(
            (told("GPU-aaaa").as_str(), &card(&cluster, "GPU-bbbb")["health"]),
            ("", &"healthy".into())
        );
        wait_for("a word of the node", || {
            warnings(&cluster).contains("errors (Xid) of GPU-bbbb are not reported")
        });
        assert!(!warnings(&cluster).contains("GPU-aaaa"));
        fake.add("xid GPU-aaaa 79");
        wait_health(&cluster, "GPU-aaaa", "drained");
        fake.set(TWO);
        signal(cluster.pid(), "HUP");
        wait_for("no word", || told("GPU-bbbb").is_empty() && warnings(&cluster).is_empty());
    }
}

/// A process that a kill does not reach, as one whose driver never comes back: the freezer of control groups version 1
/// keeps it in the same state (D) until it is thawed.
struct Frozen(std::path::PathBuf);

impl Frozen {
    fn new(name: &str, pid: u32) -> Option<Frozen> {
        let top = std::path::Path::new("/sys/fs/cgroup/freezer");
        if !top.join("cgroup.procs").exists() {
            eprintln!("skipped: needs the freezer of control groups version 1");
            return None;
        }
        let this = Frozen(top.join(format!("ax-test-{}-{name}", std::process::id())));
        std::fs::create_dir(&this.0).unwrap();
        std::fs::write(this.0.join("cgroup.procs"), pid.to_string()).unwrap();
        this.set("FROZEN");
        Some(this)
    }

    fn set(&self, state: &str) {
        std::fs::write(self.0.join("freezer.state"), state).unwrap();
        let is = || std::fs::read_to_string(self.0.join("freezer.state")).unwrap().trim() == state;
        wait_for("the freezer", is);
    }

    fn thaw(&self) {
        self.set("THAWED");
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while std::fs::remove_dir(&self.0).is_err() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_helper_that_can_t_be_killed_holds_nobody_up_as_root() {
    if !as_root() {
        return;
    }
    let (mut cluster, fake) = with_cards(TWO, "");
    wait_for("a sample", || card(&cluster, "GPU-aaaa")["temperature"] == 34);
    let stuck = helpers(&cluster)[0];
    let Some(frozen) = Frozen::new("helper", stuck) else { return };
    wait_health(&cluster, "GPU-aaaa", "suspect");
    let job = cluster.submit(ALICE, &["-c", "1"], "#!/bin/sh\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    let waits = cluster.submit(ALICE, &["-c", "1", "--gpus", "1"], "#!/bin/sh\n");
    assert_eq!(cluster.state(&waits), "READY");
    // There are not ever more of them.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(helpers(&cluster).len() <= 2, "{:?}", helpers(&cluster));
    assert!(helpers(&cluster).contains(&stuck), "it can't have gone");
    // Nor does a daemon that is started again wait for it.
    cluster.kill();
    cluster.start();
    cluster.wait_state(&waits, &["SUCCEEDED"]);
    frozen.thaw();
    wait_for("it to go", || !std::path::Path::new(&format!("/proc/{stuck}")).exists());
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "healthy");
    drop(fake);
}
