//! What is seen on cards and what follows: slices and who waits for them, strangers, spikes, errors of cards, cards that
//! people drain and resume; with a driver that a text file plays.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::cards::{card, cards, declared, with_cards};
use crate::cluster::{ALICE, BOB, Cluster, ROOT, User, as_root, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// One card of 80 GB, to the byte as it is asked for.
const ONE: &str = "card GPU-aaaa name=NVIDIA_A100 minor=0 pci=00000000:3B:00.0 memory=76293 reserved=0 ecc=0 rows=0,0,0,0\n";

/// Cards are what is scarce, on small machines too.
const MANY: &str = "  cpus: 16\n";

/// Runs until the file `NAME` is there.
fn until(name: &str) -> String {
    format!("#!/bin/sh\nuntil [ -e {name} ]; do sleep 0.02; done\n")
}

/// A job that holds so much of a card, ends when the file `go` is there, and then fails or not.
fn holding(script: &Path, mb: u32, code: u8) -> String {
    let script = script.display();
    format!(
        "#!/bin/sh\necho \"process $$ GPU-aaaa {mb}\" >> {script}\nuntil [ -e go ]; do sleep 0.02; done\nexit {code}\n"
    )
}

fn ax(cluster: &Cluster, user: User, words: &[&str]) -> (i32, String) {
    let ran = cluster.run(user, "ax", words);
    (ran.code, ran.out + &ran.err)
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().split('.').next().unwrap().to_lowercase()
}

fn reasons(cluster: &Cluster, job: &str) -> Vec<String> {
    let all = cluster.job(job)["reasons"].as_array().cloned().unwrap_or_default();
    all.iter().map(|reason| reason.as_str().unwrap().to_owned()).collect()
}

fn wait_health(cluster: &Cluster, uuid: &str, health: &str) -> Value {
    wait_for(&format!("{uuid} to be {health}"), || card(cluster, uuid)["health"] == health);
    card(cluster, uuid)
}

#[test]
fn two_slices_share_a_card_and_the_third_waits_with_the_reason() {
    let (cluster, _fake) = with_cards(ONE, MANY);
    let slice = ["--gpus=1", "--mem=40", "--cpus-per-task=1", "--ram=50M"];
    let two = [0, 1].map(|_| cluster.submit(ALICE, &slice, &until("go")));
    two.iter().for_each(|job| drop(cluster.wait_state(job, &["RUNNING"])));
    let third = cluster.submit(ALICE, &slice, &until("go"));
    let needs = format!("needs 40 GB on 1 card (0 of 1 have so much free) on {}", host());
    assert_eq!(reasons(&cluster, &third)[0], needs);
    let shown = card(&cluster, "GPU-aaaa");
    assert_eq!((&shown["reserved_mb"], shown["jobs"].as_array().unwrap().len()), (&76_292.into(), 2));
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&third)["state"], "SUCCEEDED");
}

#[test]
fn who_holds_a_card_and_is_no_job_is_named_to_whoever_waits_for_it() {
    let (cluster, fake) = with_cards(ONE, MANY);
    let own = std::process::id();
    fake.add(&format!("process {own} GPU-aaaa 20028"));
    wait_for("the stranger to be seen", || card(&cluster, "GPU-aaaa")["foreign"][0].is_string());
    let job = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1"], "#!/bin/sh\n");
    let start = format!("{} card 0: 21 GB held by pid {own} ", host());
    wait_for("the holder's name", || reasons(&cluster, &job).iter().any(|r| r.contains(" of user root")));
    let told = reasons(&cluster, &job);
    assert!(told.iter().any(|r| r.starts_with(&start) && r.ends_with(", not a job")), "{told:?}");
    let (_, why) = ax(&cluster, ALICE, &["why", &job]);
    assert!(why.contains(&start), "{why}");
    let (_, resource) = ax(&cluster, ALICE, &["resource", "--long"]);
    assert!(resource.contains(&format!("21 GB held by pid {own} ")), "{resource}");
    let shown = || ax(&cluster, ALICE, &["resource"]).1;
    let held = format!("given to nobody: 21 GB held by pid {own} ");
    assert!(shown().contains(&held) && shown().contains("free: 0 whole cards\n"), "{}", shown());
    if as_root() {
        // Who they are is nobody's business where jobs are private, but an administrator's.
        let config = std::fs::read_to_string(cluster.root.join("etc/ax/config.yaml")).unwrap();
        cluster.configure(&format!("{config}cluster:\n  private_jobs: true\n"));
        cluster.ok(ROOT, "ax", &["reload"]);
        let private = shown();
        assert!(private.contains("given to nobody: 21 GB held by others\n"), "{private}");
        assert!(!private.contains(&own.to_string()), "{private}");
        assert!(ax(&cluster, ROOT, &["resource"]).1.contains(&held));
        cluster.configure(&config);
        cluster.ok(ROOT, "ax", &["reload"]);
    }
    // Nor is one free of which nobody knows whose memory is in use there.
    fake.set(&ONE.replace("reserved=0", "reserved=0 extra=20028"));
    wait_for("nobody's memory", || {
        let told = shown();
        told.contains("given to nobody: 21 GB in use that no process accounts for")
            && told.contains("free: 0 whole cards\n")
    });
    assert_eq!(cluster.state(&job), "READY");
    let (_, node) = ax(&cluster, ALICE, &["node", "show", &host()]);
    assert!(node.contains("0MB free, healthy; 21 GB in use that no process accounts for"), "{node}");
    // Who holds a little of a card keeps nobody from it.
    fake.set(ONE);
    fake.add(&format!("process {own} GPU-aaaa 100"));
    assert_eq!(cluster.wait_over(&job)["state"], "SUCCEEDED");
    wait_for("it to be free", || shown().contains("free: 1 whole card\n"));
    assert!(shown().contains(&format!("held by pid {own} ")), "{}", shown());
    assert_eq!(ax(&cluster, ROOT, &["node", "drain", &host(), "--why", "new disks"]).0, 0);
    let drained = format!("given to nobody: {} is drained by root: new disks", host());
    assert!(shown().contains(&drained) && shown().contains("free: 0 whole cards\n"), "{}", shown());
}

/// How often the memory of the card was asked for.
fn looks(fake: &FakeCards) -> usize {
    fake.log().lines().filter(|line| line.ends_with("nvmlDeviceGetMemoryInfo_v2 GPU-aaaa")).count()
}

#[test]
fn a_spike_does_not_bar_a_card() {
    let calm = format!("{ONE}trace\n");
    let (cluster, fake) = with_cards(&calm, MANY);
    let slice = ["--gpus=1", "--mem=40", "--cpus-per-task=1", "--ram=50M"];
    // As long as a job is on it, the card is looked at often.
    let running = cluster.submit(ALICE, &slice, &until("go"));
    for tried in 0.. {
        let before = looks(&fake);
        wait_for("a whole window", || looks(&fake) > before + 64);
        let before = looks(&fake);
        fake.add("process 1 GPU-aaaa 20028");
        wait_for("a look", || looks(&fake) > before);
        fake.set(&calm);
        if looks(&fake) < before + 3 {
            break;
        }
        assert!(tried < 10, "this machine is too slow to make a spike");
    }
    let before = looks(&fake);
    wait_for("what follows", || looks(&fake) > before + 4);
    let log = cluster.log();
    assert!(!log.contains("held by"), "{log}");
    let job = cluster.submit(ALICE, &slice, "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&job)["state"], "SUCCEEDED");
    // What lasts is no spike, and told.
    fake.set(&format!("{calm}process 1 GPU-aaaa 20028 compute stays\n"));
    wait_for("what lasts to be told", || cluster.log().contains("held by"));
    let barred = cluster.submit(ALICE, &slice, "#!/bin/sh\n");
    assert_eq!(cluster.state(&barred), "READY");
    cluster.write(ALICE, "go", "");
    cluster.wait_over(&running);
}

#[test]
fn what_jobs_use_is_measured_and_kept_in_their_accounts() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(ONE, MANY);
    let script = holding(fake.script(), 30_000, 0);
    let job = cluster.submit(ALICE, &["--gpus=1", "--mem=40", "--cpus-per-task=1"], &script);
    wait_for("the memory to be seen", || card(&cluster, "GPU-aaaa")["p95_mb"] == 30_000);
    let seen = card(&cluster, "GPU-aaaa");
    assert_eq!(seen["foreign"].as_array().unwrap().len(), 0, "it is a job's: {seen}");
    cluster.write(ALICE, "go", "");
    let over = cluster.wait_over(&job);
    assert_eq!(over["attempts"][0]["max_gpu_mem_mb"], 30_000, "{over}");
}

#[test]
fn a_job_that_uses_more_than_its_slice_is_counted_with_what_it_uses() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(ONE, MANY);
    let script = holding(fake.script(), 50_000, 0);
    let liar = cluster.submit(ALICE, &["--gpus=1", "--mem=20", "--cpus-per-task=1", "--ram=50M"], &script);
    wait_for("it to be counted", || card(&cluster, "GPU-aaaa")["reserved_mb"] == 50_000);
    let other =
        cluster.submit(ALICE, &["--gpus=1", "--mem=40", "--cpus-per-task=1", "--ram=50M"], "#!/bin/sh\n");
    assert!(
        reasons(&cluster, &other)[0].contains("0 of 1 have so much free"),
        "{:?}",
        reasons(&cluster, &other)
    );
    cluster.write(ALICE, "go", "");
    cluster.wait_over(&liar);
    assert_eq!(cluster.wait_over(&other)["state"], "SUCCEEDED");
}

#[test]
fn errors_of_programs_are_noted_and_errors_of_the_card_take_it_by_their_class() {
    let (cluster, fake) = with_cards(TWO, MANY);
    let whole = ["--gpus=2", "--cpus-per-task=1"];
    let job = cluster.submit(ALICE, &whole, &until("go"));
    cluster.wait_state(&job, &["RUNNING"]);
    fake.add("xid GPU-aaaa 31");
    let noted = |text: &str| ax(&cluster, ALICE, &["status", &job]).1.contains(text);
    wait_for("the note", || noted("Xid 31"));
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "healthy");
    // One that may have got over it, and did.
    fake.add("xid GPU-aaaa 119");
    let sick = wait_health(&cluster, "GPU-aaaa", "suspect");
    assert!(sick["why"].as_str().unwrap().contains("NVIDIA advises"), "{sick}");
    assert!(noted("Xid 119"), "the job there has it in its record");
    wait_health(&cluster, "GPU-aaaa", "healthy");
    // One that needs a person.
    fake.add("xid GPU-aaaa 79");
    let sick = wait_health(&cluster, "GPU-aaaa", "drained");
    assert!(sick["why"].as_str().unwrap().starts_with("Xid 79: the card has fallen off the bus"), "{sick}");
    assert_eq!(card(&cluster, "GPU-bbbb")["health"], "healthy", "the card, not the node");
    assert_eq!(cluster.state(&job), "RUNNING", "nobody is ended for it");
    cluster.write(ALICE, "go", "");
    cluster.wait_over(&job);
    let both = cluster.submit(ALICE, &whole, "#!/bin/sh\n");
    let told = reasons(&cluster, &both);
    assert!(told.iter().any(|reason| reason.contains("card 0 is drained: Xid 79")), "{told:?}");
    let one = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&one)["gpu_uuids"], serde_json::json!(["GPU-bbbb"]));
}

#[test]
fn what_fails_on_a_card_that_failed_is_started_again() {
    let (cluster, fake) = with_cards(TWO, MANY);
    let script =
        "#!/bin/sh\n[ $AX_RESTART_COUNT = 0 ] || exit 0\nuntil [ -e go ]; do sleep 0.02; done\nexit 7\n";
    let job = cluster.submit(ALICE, &["--gpus=1", "--cpus-per-task=1"], script);
    let running = cluster.wait_state(&job, &["RUNNING"]);
    let first = running["gpu_uuids"][0].as_str().unwrap().to_owned();
    fake.add(&format!("xid {first} 48"));
    wait_health(&cluster, &first, "drained");
    cluster.write(ALICE, "go", "");
    let over = cluster.wait_over(&job);
    assert_eq!(over["state"], "SUCCEEDED", "{over}");
    assert_eq!(over["attempts"][0]["state"], "NODE_FAIL", "{over}");
    assert_ne!(over["gpu_uuids"][0], first.as_str());
}

#[test]
fn a_drained_card_stays_so_through_a_crash_until_an_administrator_resumes_it() {
    let (mut cluster, fake) = with_cards(TWO, MANY);
    let host = host();
    let drain = ["node", "drain", &host, "--gpu", "0", "--why", "its fan is loud"];
    if as_root() {
        let (code, told) = ax(&cluster, ALICE, &drain);
        assert_eq!(code, 77, "{told}");
    }
    let (code, told) = ax(&cluster, ROOT, &drain);
    assert_eq!((code, told), (0, format!("{host} card 0 is drained: by root: its fan is loud\n")));
    let resume = ["node", "resume", &host, "--gpu", "GPU-aaaa"];
    cluster.kill();
    cluster.start();
    assert_eq!(card(&cluster, "GPU-aaaa")["health"], "drained");
    let job = cluster.submit(ALICE, &["--gpus=2", "--cpus-per-task=1"], "#!/bin/sh\n");
    let told = reasons(&cluster, &job);
    let why = format!("{host} card 0 is drained: by root: its fan is loud");
    assert!(told.contains(&why), "{told:?}");
    let (_, shown) = ax(&cluster, ALICE, &["node", "show", &host]);
    assert!(shown.contains(&why) && shown.contains("drained: by root"), "{shown}");
    // Not as long as something is wrong with it. It is looked at then, however clean it was a moment ago.
    for trouble in ["lost GPU-aaaa\n", "hang nvmlDeviceGetTemperature GPU-aaaa\n"] {
        let traced = format!("{TWO}trace\n");
        fake.set(&traced);
        wait_for("it to answer", || card(&cluster, "GPU-aaaa")["used_mb"].is_u64());
        let before = looks(&fake);
        wait_for("a look", || looks(&fake) > before);
        fake.set(&format!("{traced}{trouble}"));
        let (code, told) = ax(&cluster, ROOT, &resume);
        let why = format!("{host} card 0 is not clean: ");
        assert!(code == 1 && told.contains(&why), "{trouble}{told}");
    }
    fake.set(TWO);
    wait_for("it to be resumed", || ax(&cluster, ROOT, &resume).0 == 0);
    assert_eq!(cluster.wait_over(&job)["state"], "SUCCEEDED");
    let (code, told) = ax(&cluster, ROOT, &["node", "drain", "nowhere", "--why", "x"]);
    assert!(code == 1 && told.contains("there is no node nowhere"), "{told}");
}

/// A framework that gets no more of the card ends by itself, with a code of its own.
#[test]
fn a_card_that_had_less_than_a_slice_for_who_failed_far_below_it_is_suspect() {
    for odd in [true, false] {
        let (cluster, fake) = with_cards(ONE, MANY);
        let job = cluster.submit(
            ALICE,
            &["--gpus=1", "--mem=40", "--cpus-per-task=1", "--ram=50M"],
            &holding(fake.script(), 3000, 1),
        );
        wait_for("it to be seen", || card(&cluster, "GPU-aaaa")["held"][0]["used_mb"] == 3000);
        // Nobody's, or a stranger's.
        let now = std::fs::read_to_string(fake.script()).unwrap();
        match odd {
            true => fake.set(&now.replace("reserved=0", "reserved=0 extra=60000")),
            false => fake.add(&format!("process {} GPU-aaaa 60000", std::process::id())),
        }
        wait_for("the others to be seen", || {
            let seen = card(&cluster, "GPU-aaaa");
            seen["unexplained_mb"].as_u64() >= Some(59_000) || seen["foreign"] != serde_json::json!([])
        });
        cluster.write(ALICE, "go", "");
        cluster.wait_state(&job, &["FAILED"]);
        let now = card(&cluster, "GPU-aaaa");
        assert_eq!(now["health"], if odd { "suspect" } else { "healthy" }, "{now:#}");
        if odd {
            let why = now["why"].as_str().unwrap();
            let failed =
                format!("{job} failed there having used 3.1 GB of its 40 GB, of which the card had ");
            assert!(why.contains(&failed) && why.contains("in use that no process accounts for"), "{why}");
        }
    }
}

/// Who asks for no RAM is charged a share of the node's, by CPUs or by cards, whichever is more. Together those may be more
/// than there is, while a card and CPUs are free.
#[test]
fn who_lacks_but_the_ram_that_was_not_asked_for_is_told_what_to_ask_for() {
    let (cluster, _fake) = with_cards(TWO, "  cpus: 4\n  ram: 8GiB\n");
    let many_cpus = cluster.submit(ROOT, &["--gpus=1", "--mem=20G", "--cpus-per-task=3"], &until("go"));
    cluster.wait_state(&many_cpus, &["RUNNING"]);
    let card_s = cluster.submit(ROOT, &["--gpus=1", "--cpus-per-task=1"], &until("go"));
    let told = reasons(&cluster, &card_s);
    assert_eq!(told, [format!("needs 4 GB of RAM (2 GB of 8 GB free) on {}", host())]);
    let (_, why) = ax(&cluster, ROOT, &["why", &card_s]);
    let wanted = format!("with --ram 2G at once on {} card 1", host());
    assert!(why.contains(&wanted), "{why}");
    let with_it = cluster.submit(ROOT, &["--gpus=1", "--cpus-per-task=1", "--ram=2G"], &until("go"));
    cluster.wait_state(&with_it, &["RUNNING"]);
    cluster.write(ROOT, "go", "");
    for job in [many_cpus, card_s, with_it] {
        cluster.wait_state(&job, &["SUCCEEDED"]);
    }
}

/// Drained by its UUID, seen as declared only, and found again.
#[test]
fn a_drained_card_stays_so_where_no_driver_tells_its_uuid() {
    let (mut cluster, fake) = with_cards(TWO, &declared(2));
    let host = host();
    let (code, told) =
        ax(&cluster, ROOT, &["node", "drain", &host, "--gpu", "1", "--why", "its fan is loud"]);
    assert_eq!(code, 0, "{told}");
    let with = std::fs::read_to_string(cluster.root.join("etc/ax/config.yaml")).unwrap();
    let without = with.replace(&fake.library.display().to_string(), "/nowhere.so");
    let health =
        |cluster: &Cluster| cards(cluster).iter().map(|card| card["health"].clone()).collect::<Vec<_>>();
    for (config, names) in [
        (&without, [format!("{host}-0"), format!("{host}-1")]),
        (&with, ["GPU-aaaa", "GPU-bbbb"].map(str::to_owned)),
    ] {
        cluster.kill();
        cluster.configure(config);
        cluster.start();
        let all = cards(&cluster);
        assert_eq!(all.iter().map(|card| card["uuid"].as_str().unwrap()).collect::<Vec<_>>(), names);
        assert_eq!(health(&cluster), ["healthy", "drained"], "{all:?}");
        let (_, why) = ax(&cluster, ROOT, &["node", "show", &host]);
        assert!(why.contains("by root: its fan is loud"), "{why}");
    }
    cluster.kill();
    cluster.configure(&without);
    cluster.start();
    let (code, told) = ax(&cluster, ROOT, &["node", "resume", &host, "--gpu", "1"]);
    assert_eq!(code, 0, "{told}");
    cluster.kill();
    cluster.configure(&with);
    cluster.start();
    assert_eq!(health(&cluster), ["healthy", "healthy"]);
}

#[test]
fn a_drained_node_starts_nothing_and_ends_nobody() {
    let (mut cluster, _fake) = with_cards(ONE, MANY);
    let host = host();
    let running = cluster.submit(ALICE, &["--cpus-per-task=1", "--ram=50M"], &until("go"));
    cluster.wait_state(&running, &["RUNNING"]);
    assert_eq!(ax(&cluster, ROOT, &["node", "drain", &host, "--why", "new disks"]).0, 0);
    cluster.kill();
    cluster.start();
    let waiting = cluster.submit(ALICE, &["--cpus-per-task=1", "--ram=50M"], "#!/bin/sh\n");
    let state = || {
        let nodes: Value = serde_json::from_str(&ax(&cluster, ROOT, &["node", "list", "--json"]).1).unwrap();
        nodes[0]["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(), "draining");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&running)["state"], "SUCCEEDED");
    wait_for("nothing to be left", || state() == "drained");
    assert_eq!(reasons(&cluster, &waiting)[0], format!("{host} is drained by root: new disks"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(cluster.state(&waiting), "READY");
    assert_eq!(ax(&cluster, ROOT, &["node", "resume", &host]).0, 0);
    assert_eq!(cluster.wait_over(&waiting)["state"], "SUCCEEDED");
}

#[test]
fn an_error_of_a_card_reaches_its_parts_and_one_of_a_part_stays_there() {
    const PARTS: &str = "\
card GPU-aaaa name=NVIDIA_A100 minor=0 pci=00000000:3B:00.0 memory=81920 mig=on
mig MIG-1 parent=GPU-aaaa gi=1 ci=0 profile=1g.10gb slices=1 memory=9728
mig MIG-2 parent=GPU-aaaa gi=2 ci=0 profile=2g.20gb slices=2 memory=19456
";
    let (cluster, fake) = with_cards(PARTS, MANY);
    fake.add("xid GPU-aaaa 94 gi=1");
    wait_health(&cluster, "MIG-1", "suspect");
    assert_eq!(card(&cluster, "MIG-2")["health"], "healthy", "contained in the other");
    fake.add("xid GPU-aaaa 79");
    for part in ["MIG-1", "MIG-2"] {
        let sick = wait_health(&cluster, part, "drained");
        assert!(sick["why"].as_str().unwrap().starts_with("Xid 79"), "{sick}");
    }
}

#[test]
fn a_person_has_only_these_two_cards_and_a_queue_only_so_many() {
    let four: String = (0..4)
        .map(|n| {
            format!(
                "card GPU-{n} name=NVIDIA_A100 minor={n} pci=00000000:{n}B:00.0 memory=81920 reserved=0\n"
            )
        })
        .collect();
    let limits = "limits:\n  - user: daemon\n    cards: [GPU-1, GPU-3]\n  - group: bin\n    cards: [GPU-0, GPU-2]\n    max_cards: 1\nqueues:\n  - name: default\n  - name: few\n    max_cards: 1\n";
    let (cluster, _fake) = with_cards(&four, &format!("{MANY}{limits}"));
    let options = ["--gpus=1", "--cpus-per-task=1", "--ram=10M"];
    let held = |job: &str| cluster.wait_state(job, &["RUNNING"])["gpu_uuids"][0].as_str().unwrap().to_owned();
    let own = [0, 1].map(|_| cluster.submit(ALICE, &options, &until("go")));
    assert_eq!(own.each_ref().map(|job| held(job)), ["GPU-1", "GPU-3"]);
    let third = cluster.submit(ALICE, &options, &until("go"));
    let told = reasons(&cluster, &third);
    assert!(
        told.iter().any(|why| why.contains("user daemon may use only") && why.contains("cards 1,3")),
        "{told:?}"
    );
    let (code, said) = ax(&cluster, ALICE, &["submit", "--gpus=3", "true"]);
    assert!(code != 0 && said.contains("the cards that user daemon may use could never hold it"), "{said}");
    // The others are everybody else's; of queue `few` one at a time.
    let few = [&["-q", "few"][..], &options].concat();
    let other = cluster.submit(ROOT, &few, "#!/bin/sh\nsleep 1000\n");
    assert_eq!(held(&other), "GPU-0");
    let waits = cluster.submit(ROOT, &few, "#!/bin/sh\ntrue\n");
    let told = reasons(&cluster, &waits);
    assert!(told.iter().any(|why| why.contains("queue few")), "{told:?}");
    let free = cluster.submit(ROOT, &options, "#!/bin/sh\ntrue\n");
    assert_eq!(cluster.wait_state(&free, &["SUCCEEDED"])["gpu_uuids"], serde_json::json!(["GPU-2"]));
    cluster.run(ROOT, "ax", &["cancel", &other]);
    cluster.wait_state(&waits, &["SUCCEEDED"]);
    cluster.write(ALICE, "go", "");
    for job in own.iter().chain([&third]) {
        cluster.wait_state(job, &["SUCCEEDED"]);
    }
    // A group, whatever other groups its people are in: of its cards, and one at a time.
    let one = cluster.submit(BOB, &options, &until("go"));
    let two = cluster.submit(BOB, &options, "#!/bin/sh\ntrue\n");
    assert_eq!(held(&one), "GPU-0");
    let told = reasons(&cluster, &two);
    assert!(told.iter().any(|why| why.contains("group bin")), "{told:?}");
    let (code, said) = ax(&cluster, BOB, &["submit", "--gpus=3", "true"]);
    assert!(code != 0 && said.contains("group bin"), "{said}");
    cluster.write(BOB, "go", "");
    assert_eq!(cluster.wait_state(&two, &["SUCCEEDED"])["gpu_uuids"], serde_json::json!(["GPU-0"]));
}
