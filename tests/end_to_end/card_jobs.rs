//! What a job gets of the cards and is told of them: which ones, by their links and their places; how much of each; for
//! every maker's programs and every framework, whatever its submitter has set.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::cards::with_cards;
use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, wait_for};
use crate::fake_cards::FakeCards;

/// Three cards of 80 GB of which the outer ones are linked, on two NUMA nodes.
const LINKED: &str = "\
card GPU-aaaa name=NVIDIA_A100 minor=0 pci=00000000:3B:00.0 memory=76293 reserved=0
card GPU-bbbb name=NVIDIA_A100 minor=1 pci=00000000:5E:00.0 memory=76293 reserved=0
card GPU-cccc name=NVIDIA_A100 minor=2 pci=00000000:86:00.0 memory=76293 reserved=0
link GPU-aaaa GPU-cccc 12
";
const MANY: &str = "  cpus: 16\n";
/// Says what it is told of cards, and runs until the file `go` is there.
const TELLS: &str = "#!/bin/sh\nenv >told-$AX_JOB_NUMBER.new; mv told-$AX_JOB_NUMBER.new told-$AX_JOB_NUMBER\n\
    grep Cpus_allowed_list /proc/self/status >cpus-$AX_JOB_NUMBER\nuntil [ -e go ]; do sleep 0.02; done\n";

/// What a job is told that runs until `go` is there.
fn told(cluster: &Cluster, options: &[&str]) -> BTreeMap<String, String> {
    let mut all = vec!["-c", "1", "--ram=20M"];
    all.extend(options);
    let job = cluster.submit(ALICE, &all, TELLS);
    heard(cluster, &job)
}

fn heard(cluster: &Cluster, job: &str) -> BTreeMap<String, String> {
    cluster.wait_state(job, &["RUNNING", "SUCCEEDED"]);
    let number = job.rsplit('-').next().unwrap().trim_start_matches('0').to_owned();
    let file = cluster.home(ALICE).join(format!("told-{number}"));
    wait_for("it to say what it is told", || file.exists());
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| line.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}

#[test]
fn cards_that_are_linked_are_given_together_and_slices_fill_one_before_the_next_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, _fake) = with_cards(LINKED, MANY);
    let two = told(&cluster, &["--gpus=2"]);
    assert_eq!(two["AX_GPU_UUIDS"], "GPU-aaaa,GPU-cccc", "not the first two");
    cluster.write(ALICE, "go", "");
    wait_for("it to be over", || {
        crate::cards::cards(&cluster).iter().all(|card| card["jobs"] == serde_json::json!([]))
    });
    fs::remove_file(cluster.home(ALICE).join("go")).unwrap();
    let slices =
        [20, 30, 25].map(|gb| told(&cluster, &["--gpus=1", &format!("--mem={gb}")])["AX_GPU_UUIDS"].clone());
    assert!(slices.iter().all(|card| *card == slices[0]), "whole cards stay whole: {slices:?}");
    let whole = told(&cluster, &["--gpus=2"])["AX_GPU_UUIDS"].clone();
    assert!(!whole.contains(&slices[0]), "{whole} and {slices:?}");
    // Nothing whole is left, and slices never go where whole-card jobs are.
    let waits = cluster.submit(BOB, &["--gpus=1", "-c", "1", "--ram=20M"], "#!/bin/sh\n");
    let large = cluster.submit(BOB, &["--gpus=1", "--mem=10", "-c", "1", "--ram=20M"], "#!/bin/sh\n");
    for job in [&waits, &large] {
        assert_eq!(cluster.job(job)["state"], "READY", "{:#}", cluster.job(job));
    }
    cluster.write(ALICE, "go", "");
    for job in [&waits, &large] {
        cluster.wait_state(job, &["SUCCEEDED"]);
    }
}

/// Card 0 is near CPU 1, and card 1 near CPU 0.
#[test]
fn the_cpus_of_a_job_are_near_its_cards_as_root() {
    if !as_root() || std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: needs root and two CPUs");
        return;
    }
    let mut cluster = Cluster::stopped("");
    let fake = FakeCards::new(&cluster, LINKED);
    let (nodes, bus) = (cluster.root.join("node"), cluster.root.join("bus"));
    for (node, cpus) in [("node0", "0\n"), ("node1", "1\n")] {
        fs::create_dir_all(nodes.join(node)).unwrap();
        fs::write(nodes.join(node).join("cpulist"), cpus).unwrap();
    }
    for (pci, node) in [("0000:3b:00.0", "1\n"), ("0000:5e:00.0", "0\n"), ("0000:86:00.0", "1\n")] {
        fs::create_dir_all(bus.join(pci)).unwrap();
        fs::write(bus.join(pci).join("numa_node"), node).unwrap();
    }
    let script = format!(
        "mount --bind {} /sys/devices/system/node && mount --bind {} /sys/bus/pci/devices && exec \"$@\"",
        nodes.display(),
        bus.display()
    );
    cluster.wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    cluster.configure(&fake.config());
    cluster.start();
    let mut near = Vec::new();
    for number in 1..=2 {
        let uuid = told(&cluster, &["--gpus=1"])["AX_GPU_UUIDS"].clone();
        let file = cluster.home(ALICE).join(format!("cpus-{number}"));
        wait_for("its CPUs", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
        let cpus = fs::read_to_string(file).unwrap().split_whitespace().last().unwrap().to_owned();
        near.push((uuid, cpus));
    }
    for (uuid, cpus) in &near {
        assert_eq!(cpus, if uuid == "GPU-bbbb" { "0" } else { "1" }, "{near:?}");
    }
    assert!(near.iter().any(|(uuid, _)| uuid == "GPU-bbbb"), "the second is where a CPU is near: {near:?}");
    cluster.write(ALICE, "go", "");
    // Nothing links them any more: who wants two has those of one NUMA node.
    fake.set(
        &LINKED
            .lines()
            .filter(|line| !line.starts_with("link"))
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    );
    cluster.ok(ROOT, "ax", &["reload"]);
    let cards = || crate::cards::cards(&cluster);
    wait_for("all to be free and unlinked", || {
        cards()
            .iter()
            .all(|card| card["jobs"] == serde_json::json!([]) && card["hardware"].get("links").is_none())
    });
    let numa: Vec<_> = cards().iter().map(|card| card["hardware"]["numa"].as_u64()).collect();
    assert_eq!(numa, [Some(1), Some(0), Some(1)]);
    let two = cluster.submit(ALICE, &["-c", "1", "--ram=20M", "--gpus=2"], TELLS);
    assert_eq!(cluster.wait_over(&two)["gpu_uuids"], serde_json::json!(["GPU-aaaa", "GPU-cccc"]));
}

#[test]
fn a_reserve_of_each_shared_card_is_kept_back_and_none_of_whole_ones_as_root() {
    if !as_root() {
        return;
    }
    let one = LINKED.lines().next().unwrap();
    for (reserve, both) in [("0%", true), ("20%", false)] {
        let (cluster, _fake) = with_cards(&format!("{one}\n"), &format!("{MANY}  gpu_reserve: {reserve}\n"));
        let slice = ["--gpus=1", "--mem=40"];
        told(&cluster, &slice);
        let second = cluster.submit(ALICE, &["--gpus=1", "--mem=40", "-c", "1", "--ram=20M"], TELLS);
        assert_eq!(cluster.job(&second)["state"] != "READY", both, "{reserve}: {:#}", cluster.job(&second));
        cluster.write(ALICE, "go", "");
        cluster.wait_state(&second, &["SUCCEEDED"]);
        let whole = told(&cluster, &["--gpus=1"]);
        assert_eq!(
            (whole["AX_GPU_MEM_MB"].as_str(), whole["AX_GPU_MEM_FRACTION"].as_str()),
            ("76293", "1.0000")
        );
    }
}

/// Unset means all to most of them: who has no card is told so.
#[test]
fn a_job_without_cards_is_told_so_in_the_words_of_every_maker_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, _fake) = with_cards(LINKED, MANY);
    cluster.write(ALICE, "go", "");
    let none = told(&cluster, &[]);
    for name in
        "CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL AX_GPU_UUIDS \
        AX_GPU_MEM_MB AX_GPU_MEM_FRACTION AX_GPU_ENFORCE"
            .split_ascii_whitespace()
    {
        assert_eq!(none.get(name).map(String::as_str), Some(""), "{name}");
    }
    assert_eq!(
        (none["NVIDIA_VISIBLE_DEVICES"].as_str(), none["ZE_AFFINITY_MASK"].as_str()),
        ("void", "65535")
    );
    assert_eq!((none["AX_GPUS"].as_str(), none["CUDA_DEVICE_ORDER"].as_str()), ("0", "PCI_BUS_ID"));
    let slice = told(&cluster, &["--gpus=2", "--mem=40"]);
    for name in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"] {
        assert_eq!(slice[name], "", "cards of NVIDIA's are no other's: {name}");
    }
    assert_eq!((slice["AX_GPU_MEM_MB"].as_str(), slice["AX_GPU_MEM_FRACTION"].as_str()), ("38146", "0.4999"));
}

#[test]
fn frameworks_are_told_of_a_slice_and_what_a_submitter_has_set_stays_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, _fake) = with_cards(LINKED, MANY);
    cluster.write(ALICE, "go", "");
    let submit = |set: &[(&str, &str)], more: &[&str]| {
        let file = cluster.write(ALICE, "script", TELLS);
        let mut command = cluster.command(ALICE, cluster.program("axbatch"));
        command.envs(set.iter().copied()).args(["--parsable", "-c1", "--ram=20M", "--gpus=1", "--mem=40"]);
        let ran = crate::cluster::ran(command.args(more).arg(file).output().unwrap());
        heard(&cluster, ran.out.trim())
    };
    let plain = submit(&[], &[]);
    assert_eq!((plain["AX_GPU_ENFORCE"].as_str(), plain["AX_GPU_POOL_MB"].as_str()), ("env", "37634"));
    let status = |set: &[&str]| {
        let slice = ["--gpus=1", "--mem=10", "-c1", "--ram=20M"];
        let job = cluster.submit(ALICE, &[&slice, set].concat(), TELLS);
        (heard(&cluster, &job)["AX_GPU_ENFORCE"].clone(), cluster.ok(ALICE, "ax", &["status", &job]))
    };
    for (set, rung) in [(&[][..], "env"), (&["--gpu-mem-hints=none"], "watch")] {
        let (told, shown) = status(set);
        assert!(told == rung && shown.contains(&format!("held to its slices by: {rung}")), "{told}: {shown}");
    }
    assert_eq!(
        plain["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True",
        "no key that an older one refuses"
    );
    assert_eq!(plain["CUPY_GPU_MEMORY_LIMIT"], (37_634_u64 << 20).to_string());
    assert_eq!(plain["XLA_CLIENT_MEM_FRACTION"], plain["XLA_PYTHON_CLIENT_MEM_FRACTION"]);
    assert_eq!(plain["TF_FORCE_GPU_ALLOW_GROWTH"], "true");
    let own = [
        ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64,expandable_segments:False"),
        ("CUPY_GPU_MEMORY_LIMIT", "10%"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION", ".11"),
        ("TF_FORCE_GPU_ALLOW_GROWTH", "false"),
    ];
    let kept = submit(&own, &[]);
    for (name, value) in own {
        assert_eq!(kept[name], value, "{name}");
    }
    assert!(!kept.contains_key("XLA_CLIENT_MEM_FRACTION"), "{kept:?}");
    let hinted = submit(&own[..1], &["--gpu-mem-hints=torch"]);
    let (before, share) = hinted["PYTORCH_CUDA_ALLOC_CONF"].rsplit_once(":").unwrap();
    assert_eq!(before, format!("{},per_process_memory_fraction", own[0].1));
    assert!(share.parse::<f64>().is_ok_and(|share| (0.48..0.5).contains(&share)), "{share}");
    let without = submit(&[], &["--gpu-mem-hints=none"]);
    assert!(
        !without.contains_key("PYTORCH_CUDA_ALLOC_CONF") && !without.contains_key("CUPY_GPU_MEMORY_LIMIT")
    );
}

/// `ax.limits`, by its own tests.
#[test]
fn the_helper_for_python_does_what_it_says() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("axctl/python/tests/test_limits.py");
    let ran = crate::cluster::ran(Command::new("python3").arg(tests).output().unwrap());
    assert!(ran.code == 0 && ran.err.contains("\nRan ") && ran.err.ends_with("\nOK\n"), "{ran:?}");
}

/// In a container, as its group says.
#[test]
fn who_holds_a_card_in_a_container_is_named_with_it_as_root() {
    let tops = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    let top = tops.into_iter().find(|top| top.join("cgroup.controllers").exists());
    let Some(top) = top.filter(|_| as_root()) else {
        eprintln!("skipped: needs root and a unified tree of control groups");
        return;
    };
    let (cluster, fake) = with_cards(LINKED, MANY);
    let id = format!("{:012x}{}", std::process::id(), "ab".repeat(26));
    let group = top.join(format!("docker-{id}.scope"));
    fs::create_dir(&group).unwrap();
    let python = cluster.root.join("python9");
    symlink("/bin/sleep", &python).unwrap();
    let mut child = Command::new(&python).arg("600").spawn().unwrap();
    fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
    fake.add(&format!("process {} GPU-bbbb 9000", child.id()));
    let named = format!("held by pid {} python9 of user root in container docker:{}", child.id(), &id[..12]);
    let foreign = || crate::cards::card(&cluster, "GPU-bbbb")["foreign"].to_string();
    let mut seen = String::new();
    let start = std::time::Instant::now();
    while !seen.contains(&named) && start.elapsed() < crate::cluster::PATIENCE {
        seen = foreign();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the group to go", || fs::remove_dir(&group).is_ok());
    assert!(seen.contains(&named), "{seen} without {named}");
}

/// Where there is no fence, or by a file that somebody outside has opened for it.
#[test]
fn a_job_on_a_card_that_it_was_not_given_is_named_and_the_card_given_to_nobody_as_root() {
    if !as_root() {
        return;
    }
    let (cluster, fake) = with_cards(LINKED, MANY);
    // On the first card that it was not given.
    let script = format!(
        "#!/bin/sh\ncase $AX_GPU_UUIDS in GPU-aaaa) card=GPU-bbbb ;; *) card=GPU-aaaa ;; esac\n\
         echo \"process $$ $card 9000\" >>{}\necho $card >card\nuntil [ -e go ]; do sleep 0.02; done\n",
        fake.script().display()
    );
    // One without cards, and one with a slice of another card.
    for options in [&[][..], &["--gpus=1", "--mem=70"]] {
        let all = [&["-c", "1", "--ram=20M"], options].concat();
        let sly = cluster.submit(ALICE, &all, &script);
        cluster.wait_state(&sly, &["RUNNING"]);
        wait_for("its card", || cluster.read(ALICE, "card").ends_with('\n'));
        let uuid = cluster.read(ALICE, "card").trim().to_owned();
        let foreign = || crate::cards::card(&cluster, &uuid)["foreign"].as_array().unwrap().clone();
        wait_for("it to be seen", || !foreign().is_empty());
        let words = foreign()[0].as_str().unwrap().to_owned();
        assert!(
            words.contains(&format!(" of user daemon in {sly}, which was not given the card")),
            "{words}"
        );
        let next = cluster.submit(
            BOB,
            &["--gpus=2", "-c", "1", "--ram=20M"],
            "#!/bin/sh\necho $AX_GPU_UUIDS >cards\n",
        );
        match options {
            [] => {
                cluster.wait_state(&next, &["SUCCEEDED"]);
                assert!(!cluster.read(BOB, "cards").contains(&uuid), "{}", cluster.read(BOB, "cards"));
            }
            _ => assert_eq!(cluster.job(&next)["state"], "READY"),
        }
        assert_eq!(cluster.job(&sly)["state"], "RUNNING", "it is not ended for it");
        cluster.write(ALICE, "go", "");
        cluster.wait_over(&sly);
        cluster.wait_state(&next, &["SUCCEEDED"]);
        wait_for("it to be gone", || foreign().is_empty());
        for file in ["go", "card"] {
            fs::remove_file(cluster.home(ALICE).join(file)).unwrap();
        }
    }
}
