//! What jobs hold: CPUs, memory, cards and slices of them; and that they see
//! no more than that.

use crate::asking::{host, with_cards};
use crate::cluster::{ALICE, Cluster, ROOT, as_root, wait_for};

const LONG: &str = "#!/bin/sh\necho up > up-$AX_JOB_NUMBER\nsleep 600\n";
const SHOW: &str = "#!/bin/sh\necho \"$CUDA_VISIBLE_DEVICES|$AX_GPUS|$AX_GPU_MEM_MB|$AX_GPU_MEM_FRACTION\"\n";

#[test]
fn two_jobs_of_one_cpu_have_one_each() {
    if !as_root() {
        return;
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        eprintln!("skipped: needs two CPUs");
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status > cpus-$AX_JOB_NUMBER\nsleep 600\n";
    let ids = [cluster.submit(ALICE, &["-c", "1"], script), cluster.submit(ALICE, &["-c", "1"], script)];
    let seen = |n: usize| cluster.read(ALICE, &format!("cpus-{n}"));
    wait_for("both", || !seen(1).is_empty() && !seen(2).is_empty());
    let list = |n: usize| seen(n).split_whitespace().last().unwrap().to_owned();
    assert_ne!(list(1), list(2));
    for n in [1, 2] {
        assert!(list(n).parse::<u32>().is_ok(), "a single CPU: {}", list(n));
    }
    for id in ids {
        cluster.ok(ALICE, "ax", &["cancel", &id]);
    }
}

#[test]
fn declared_cpus_make_places_and_memory_is_counted_too() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 16, ram: 1000M}\n");
    let ids: Vec<String> = (0..3).map(|_| cluster.submit(ALICE, &["-c", "4", "--ram=300"], LONG)).collect();
    for id in &ids {
        cluster.wait_state(id, &["RUNNING"]);
    }
    let one_more = cluster.submit(ALICE, &["-c", "8", "--ram=300"], LONG);
    let expected =
        format!("needs 8 CPUs (4 of 16 free) and 300 MB of RAM (100 MB of 1000 MB free) on {}", host());
    assert_eq!(cluster.reason(&one_more), expected);
    let node = cluster.json(ALICE, &["node", "list", "--json"]);
    assert_eq!((&node[0]["cpus"], &node[0]["ram_mb"]), (&16.into(), &1000.into()), "{node:#}");
    assert_eq!(node[0]["jobs"].as_array().unwrap().len(), 3);
    cluster.write(ALICE, "j.sh", LONG);
    let line = cluster.refused(1, ALICE, "axbatch", &["-c", "17", "j.sh"]);
    assert!(line.contains("17 CPUs") && line.contains("16"), "{line}");
    cluster.ok(ALICE, "ax", &["cancel", "--user=daemon"]);
    cluster.nothing_left();
}

#[test]
fn cards_are_numbered_and_a_job_without_cards_sees_none() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(4, 80, ""));
    let none = cluster.submit(ALICE, &["-o", "none"], SHOW);
    cluster.wait_over(&none);
    assert_eq!(cluster.read(ALICE, "none"), "|0||\n");
    let two = cluster.submit(ALICE, &["-G", "2", "-o", "two"], SHOW);
    let job = cluster.wait_over(&two);
    assert_eq!(cluster.read(ALICE, "two"), "0,1|2|76293|1.0000\n");
    assert_eq!((&job["gpus"], job["gpu_uuids"].as_array().unwrap().len()), (&2.into(), 2), "{job:#}");
}

#[test]
fn whole_cards_are_exclusive_and_slices_share() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let small = |options: &[&str]| {
        let mut all = vec!["-c", "1", "--ram=10"];
        all.extend(options);
        cluster.submit(ALICE, &all, LONG)
    };
    let first = small(&["-G", "1", "--mem=40"]);
    let second = small(&["-G", "1", "--mem=40"]);
    let card = |id: &str| cluster.wait_state(id, &["RUNNING"])["gpu_uuids"][0].as_str().unwrap().to_owned();
    assert_eq!(card(&first), card(&second), "two halves share a card");
    let whole = small(&["-G", "1"]);
    assert_ne!(card(&whole), card(&first));
    let third = small(&["-G", "1", "--mem=10"]);
    let reason = cluster.reason(&third);
    assert_eq!(reason, format!("needs 10 GB on 1 card (0 of 2 have so much free) on {}", host()));
    let cards = cluster.json(ALICE, &["resource", "--json"]);
    // Two times 40 GB and 80 GB differ by what is lost in counting whole megabytes.
    assert!(cards[0]["free_mb"].as_u64().unwrap() < 3 && cards[1]["free_mb"] == 0, "{cards:#}");
    assert_eq!(cards[0]["jobs"], serde_json::json!([first, second]));
    cluster.ok(ALICE, "ax", &["cancel", &first]);
    assert_eq!(card(&third), card(&second));
    cluster.ok(ALICE, "ax", &["cancel", "--user=daemon"]);
    cluster.nothing_left();
}

/// Without a library of NVIDIA's: all but the measuring, and what nobody measures nobody holds anybody to.
#[test]
fn cards_that_are_only_declared_are_given_out_explained_limited_drained_and_resumed() {
    if !as_root() {
        return;
    }
    let host = host();
    let limits = format!("limits:\n  - user: daemon\n    cards: ['{host}:1', '{host}:2']\n");
    let cluster = Cluster::with_config(&with_cards(3, 80, &format!("  gpu_mem_hints: none\n{limits}")));
    let slice = ["-G", "1", "--mem=40", "-c", "1", "--ram=10"];
    // The maker of declared cards is not known: programs of each are told their numbers.
    let rung = "#!/bin/sh\necho \"$CUDA_VISIBLE_DEVICES $ROCR_VISIBLE_DEVICES $HIP_VISIBLE_DEVICES $GPU_DEVICE_ORDINAL \
                $ZE_AFFINITY_MASK\" >masks\necho \"$AX_GPU_ENFORCE\" > rung-$AX_JOB_NUMBER\nsleep 600\n";
    let first = cluster.submit(ALICE, &slice, rung);
    cluster.wait_state(&first, &["RUNNING"]);
    wait_for("its rung", || cluster.read(ALICE, "rung-1") == "none\n");
    assert_eq!(cluster.read(ALICE, "masks"), "1 1 0 0 1\n");
    let told = cluster.ok(ALICE, "ax", &["status", &first]);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("held to its slices by: none"), "{told}");
    let table = cluster.ok(ALICE, "ax", &["resource", "-o", "index,reserved,used,p95,load,limit,health"]);
    let rows: Vec<String> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows[1..],
        ["0 0MB - - - none healthy", "1 40GB - - - none healthy", "2 0MB - - - none healthy"]
    );
    cluster.ok(ROOT, "ax", &["node", "drain", &host, "--gpu", "2", "--why", "its fan is loud"]);
    let two = cluster.submit(ALICE, &["-G", "2", "-c", "1", "--ram=10"], "#!/bin/sh\n");
    let why = cluster.ok(ALICE, "ax", &["why", &two]);
    for words in ["needs 2 cards", "user daemon may use only", "card 2 is drained: by root: its fan is loud"]
    {
        assert!(why.contains(words), "no '{words}' in {why}");
    }
    cluster.ok(ALICE, "ax", &["cancel", &first]);
    assert_eq!(cluster.state(&two), "READY");
    cluster.ok(ROOT, "ax", &["node", "resume", &host, "--gpu", "2"]);
    let job = cluster.wait_state(&two, &["SUCCEEDED"]);
    assert_eq!(job["gpu_uuids"], serde_json::json!([format!("{host}-1"), format!("{host}-2")]));
    let usage = cluster.json(ALICE, &["eff", "--json", &first]);
    assert!(usage[0]["gpu_mem_peak_mb"].is_null() && usage[0]["ram_peak_mb"].is_u64(), "{usage:#}");
}

#[test]
fn cards_are_asked_for_by_type_and_refused_with_numbers() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config(&with_cards(2, 80, ""));
    let job = cluster.ends(ALICE, &["--gpus=h200:1", "-o", "typed"], SHOW);
    assert_eq!(
        (&job["state"], cluster.read(ALICE, "typed").as_str()),
        (&"SUCCEEDED".into(), "0|1|76293|1.0000\n")
    );
    cluster.write(ALICE, "j.sh", SHOW);
    for (options, expected) in [
        (vec!["--gpus=a100:1"], "no card here is of type 'a100'; there are: h200"),
        (vec!["--gpus=3"], "it needs 3 cards, and "),
        (vec!["--gpus=1", "--mem=81"], "it needs 81 GB on 1 card, and 0 of the 2 of "),
        (vec!["--mem=10"], "--ram"),
    ] {
        let mut all = options.clone();
        all.push("j.sh");
        let ran = cluster.run(ALICE, "axbatch", &all);
        assert!(matches!(ran.code, 1 | 2) && ran.err.contains(expected), "{options:?}: {ran:?}");
    }
}

#[test]
fn cards_are_refused_where_there_are_none() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    if !cluster.json(ROOT, &["resource", "--json"]).as_array().unwrap().is_empty() {
        return;
    }
    cluster.write(ALICE, "j.sh", SHOW);
    let line = cluster.refused(1, ALICE, "axbatch", &["-G", "1", "j.sh"]);
    assert_eq!(
        line,
        "axbatch: no node here has cards; leave --gpus out, or declare them under resources.gpu_nodes"
    );
}

#[test]
fn a_whole_node_is_a_whole_node() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4, ram: 1000M}\n");
    let first = cluster.submit(ALICE, &["-c", "1", "--ram=10"], LONG);
    cluster.wait_state(&first, &["RUNNING"]);
    let whole = cluster.submit(ALICE, &["--exclusive"], LONG);
    assert_eq!(cluster.reason(&whole), format!("needs the whole node (used by 1 job) on {}", host()));
    cluster.ok(ALICE, "ax", &["cancel", &first]);
    let job = cluster.wait_state(&whole, &["RUNNING"]);
    assert_eq!((&job["cpus"], &job["ram_mb"]), (&4.into(), &1000.into()), "what it holds is shown");
}
