//! What a card counts and reports of itself, class by class: whether it is given out, and who gives it back when.

use serde_json::Value;

use crate::cards::{card, cards, wait_health};
use crate::cluster::{ALICE, Cluster, ROOT, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// What each of five cards counts of itself, and counts when something has happened.
const COUNTS: [(&str, &str, &str, &str, &str); 5] = [
    (
        "GPU-ecc",
        "ecc=7",
        "ecc=9",
        "suspect",
        "2 memory errors that can't be corrected; NVIDIA advises: reset the card",
    ),
    ("GPU-row", "rows=0,0,0,0", "rows=0,1,1,0", "drained", "memory waits to be taken out of use"),
    ("GPU-full", "rows=3,2,0,0", "rows=3,2,0,1", "drained", "memory waits to be taken out of use"),
    ("GPU-page", "pages_pending=0", "pages_pending=1", "drained", "memory waits to be taken out of use"),
    ("GPU-way", "recovery=0", "recovery=1", "drained", "the driver recommends: reset"),
];

/// The five cards as these fields of theirs are.
fn counting(fields: impl Fn(usize) -> String) -> String {
    let line = |at: usize| {
        format!(
            "card {} name=NVIDIA_A100 minor={at} pci=00000000:{at}B:00.0 memory=81920 {}\n",
            COUNTS[at].0,
            fields(at)
        )
    };
    (0..COUNTS.len()).map(line).collect()
}

fn resumed(cluster: &Cluster, uuid: &str) -> (i32, String) {
    let name = &card(cluster, uuid)["node"];
    let ran = cluster.run(ROOT, "ax", &["node", "resume", name.as_str().unwrap(), "--gpu", uuid]);
    (ran.code, ran.out + &ran.err)
}

#[test]
fn what_a_card_counts_of_itself_takes_it_until_it_is_mended_and_given_back() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &counting(|at| COUNTS[at].1.to_owned()));
    // What is suspect stays so for minutes.
    cluster.configure(&format!("{}resources:\n  gpu_sample: 50ms\n", fake.config()));
    cluster.start();
    let all = |health: &str| COUNTS.iter().all(|(uuid, ..)| card(&cluster, uuid)["health"] == health);
    let mut script = counting(|at| COUNTS[at].1.to_owned());
    wait_for("a look", || card(&cluster, "GPU-ecc")["used_mb"].is_u64());
    assert!(all("healthy"), "what there was when the daemon came is no news");
    fake.set(&counting(|at| COUNTS[at].2.to_owned()));
    for (uuid, _, _, health, why) in COUNTS {
        let seen: Value = wait_health(&cluster, uuid, health);
        assert!(seen["why"].as_str().unwrap().contains(why), "{seen:#}");
    }
    // The same again, before it is trusted again.
    let mut errors = 9;
    wait_for("more errors to drain it", || {
        errors += 1;
        script = counting(|at| if at == 0 { format!("ecc={errors}") } else { COUNTS[at].2.to_owned() });
        fake.set(&script);
        card(&cluster, "GPU-ecc")["health"] == "drained"
    });
    let job = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
    // What can't be counted back is known; what lasts is not given back.
    for (uuid, _, _, _, why) in &COUNTS[1..] {
        let (code, told) = resumed(&cluster, uuid);
        let words: String = why.split(' ').take(3).collect::<Vec<_>>().join(" ");
        assert!(code == 1 && told.contains("is not clean: ") && told.contains(&words), "{uuid}: {told}");
    }
    assert_eq!(cluster.state(&job), "READY");
    wait_for("the count to stay", || resumed(&cluster, "GPU-ecc").0 == 0);
    assert_eq!(cluster.wait_over(&job)["gpu_uuids"], serde_json::json!(["GPU-ecc"]));
    fake.set(&counting(|at| if at == 0 { format!("ecc={errors}") } else { COUNTS[at].1.to_owned() }));
    for (uuid, ..) in &COUNTS[1..] {
        let (code, told) = resumed(&cluster, uuid);
        assert_eq!(code, 0, "{uuid}: {told}");
    }
    assert!(all("healthy"));
    by_their_classes(&cluster, &fake);
}

/// Numbers that the driver reports, those of each class first on cards that are healthy.
fn by_their_classes(cluster: &Cluster, fake: &FakeCards) {
    let report = |numbers: [u32; 5]| {
        let each = COUNTS.iter().zip(numbers);
        fake.add(
            &each.map(|((uuid, ..), number)| format!("xid {uuid} {number}")).collect::<Vec<_>>().join("\n"),
        );
    };
    let are = |numbers: [u32; 5], health: &str| {
        for ((uuid, ..), number) in COUNTS.iter().zip(numbers) {
            let seen = wait_health(cluster, uuid, health);
            assert!(seen["why"].as_str().unwrap().starts_with(&format!("Xid {number}: ")), "{seen:#}");
        }
    };
    let job =
        cluster.submit(ALICE, &["--gpus=5", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\nexec sleep 600\n");
    cluster.wait_state(&job, &["RUNNING"]);
    for numbers in [[63, 92, 101, 109, 121], [137, 141, 147, 148, 154]] {
        report(numbers);
        let noted = |number: &u32| {
            cluster.run(ALICE, "ax", &["status", &job]).out.contains(&format!("Xid {number}: "))
        };
        wait_for("the notes", || numbers.iter().all(noted));
        assert!(COUNTS.iter().all(|(uuid, ..)| card(cluster, uuid)["health"] == "healthy"), "{numbers:?}");
    }
    cluster.run(ALICE, "ax", &["cancel", &job]);
    cluster.wait_over(&job);
    for numbers in [[46, 62, 64, 74, 95], [110, 136, 140, 143, 150], [151, 156, 158, 48, 54]] {
        report(numbers);
        are(numbers, "drained");
        for (uuid, ..) in &COUNTS {
            wait_for("the report to be over", || resumed(cluster, uuid).0 == 0);
        }
    }
    // Last, as these stay so for minutes.
    report([119, 144, 145, 149, 155]);
    are([119, 144, 145, 149, 155], "suspect");
}

/// The first of two cards, divided or not.
fn two(divided: bool) -> String {
    let whole = TWO.replacen("reserved=600", "mig=on reserved=600", usize::from(divided));
    let parts = "mig MIG-1 parent=GPU-aaaa gi=1 ci=0 profile=3g.40gb slices=3 memory=40192\n\
                 mig MIG-2 parent=GPU-aaaa gi=2 ci=0 profile=3g.40gb slices=3 memory=40192\n";
    whole + if divided { parts } else { "" }
}

/// Cards of this health, by UUID, and how many are free by the last line of the list.
fn of_health(cluster: &Cluster, health: &str) -> Vec<String> {
    let all = cards(cluster);
    let these = all.iter().filter(|card| card["health"] == health);
    these.map(|card| card["uuid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_part_was_drained_for_its_card_is_and_all_that_is_told_agrees() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, &two(true));
    let host = ax_sys::sched::host_name().unwrap();
    let with = format!(
        "{}resources:\n  cpus: 16\n  ram: 8GiB\n  gpu_sample: 50ms\n  gpu_nodes:\n    - host: {host}\n      gpus: 2\n",
        fake.config()
    );
    cluster.configure(&with);
    cluster.start();
    let (resume, told) = (["node", "resume", &host, "--gpu"], |cluster: &Cluster| {
        let nodes: Value =
            serde_json::from_str(&cluster.run(ROOT, "ax", &["node", "list", "--json"]).out).unwrap();
        let list = cluster.run(ROOT, "ax", &["resource"]).out;
        (
            nodes[0]["gpus"].as_u64().unwrap(),
            cards(cluster).len() as u64,
            list.lines().last().unwrap().to_owned(),
        )
    });
    // Two declared cards, of which one is divided, are three.
    assert_eq!(told(&cluster), (3, 3, "free: 3 whole cards".to_owned()));
    let drained = cluster.run(ROOT, "ax", &["node", "drain", &host, "--gpu", "MIG-1", "--why", "odd"]);
    assert_eq!((drained.code, drained.out), (0, format!("{host} card 2 is drained: by root: odd\n")));
    assert_eq!(
        (of_health(&cluster, "drained"), told(&cluster)),
        (vec!["MIG-1".to_owned()], (3, 3, "free: 2 whole cards".to_owned()))
    );
    let three = cluster.submit(ALICE, &["--gpus=3", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
    assert!(cluster.run(ALICE, "ax", &["why", &three]).out.contains("is drained: by root: odd"));
    let other =
        cluster.submit(ALICE, &["--gpus=mig-3g.40gb:1", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&other)["gpu_uuids"], serde_json::json!(["MIG-2"]));
    // Where no driver tells of parts, their card is the declared one.
    let without = with.replace(&fake.library.display().to_string(), "/nowhere.so");
    for (config, script, cards, free) in [
        (&without, two(true), vec![format!("{host}-0")], 1),
        (&with, two(true), vec!["MIG-1".to_owned()], 2),
        (&with, two(false), vec!["GPU-aaaa".to_owned()], 1),
        (&with, two(true), vec!["MIG-1".to_owned(), "MIG-2".to_owned()], 1),
    ] {
        // What is known under another name is written down with whatever is promised after it.
        cluster.submit(ALICE, &["--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
        cluster.kill();
        fake.set(&script);
        cluster.configure(config);
        cluster.start();
        assert_eq!(of_health(&cluster, "drained"), cards);
        let all = cards.len() as u64 + free;
        let cards = format!("free: {free} whole card{}", if free == 1 { "" } else { "s" });
        assert_eq!(told(&cluster), (all, all, cards));
    }
    for part in ["MIG-1", "MIG-2"] {
        let back = cluster.run(ROOT, "ax", &[&resume[..], &[part]].concat());
        assert_eq!(back.code, 0, "{back:?}");
    }
    cluster.wait_state(&three, &["SUCCEEDED"]);
}

/// A check of itself that does not end: the answer comes all the same, and the card stays as it was, also when the driver
/// answers later.
#[test]
fn a_card_whose_check_of_itself_hangs_is_not_given_back_slow() {
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, TWO);
    cluster.configure(&format!("{}resources:\n  gpu_sample: 50ms\n  gpu_timeout: 10m\n", fake.config()));
    cluster.start();
    let host = ax_sys::sched::host_name().unwrap();
    let drained = cluster.run(ROOT, "ax", &["node", "drain", &host, "--gpu", "0", "--why", "odd"]);
    assert_eq!(drained.code, 0, "{drained:?}");
    fake.set(&format!("{TWO}hang nvmlDeviceGetTemperature GPU-aaaa\n"));
    let asked = std::time::Instant::now();
    let (code, told) = resumed(&cluster, "GPU-aaaa");
    assert!(asked.elapsed() >= std::time::Duration::from_secs(30), "{told}");
    assert!(
        code == 75 && told.contains(&format!("no look at GPU-aaaa of {host} was over in 30 s")),
        "{code}: {told}"
    );
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "drained");
    // Others are answered meanwhile, and have the other card.
    let job = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1", "--ram=10M"], "#!/bin/sh\n");
    wait_for("it to begin", || cluster.state(&job) != "READY");
    fake.set(TWO);
    assert_eq!(cluster.wait_over(&job)["gpu_uuids"], serde_json::json!(["GPU-bbbb"]));
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "drained", "who has been refused is not obeyed later");
    wait_for("it to be resumed", || resumed(&cluster, "GPU-aaaa").0 == 0);
}
