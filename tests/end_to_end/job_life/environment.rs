//! The environment of a job: the submitter's as `--export` says, ax's own, and
//! `--env`.

use std::collections::BTreeMap;

use crate::cluster::{ALICE, Cluster, as_root, ran};

/// The environment that a job sees when it is submitted with these options.
fn seen(cluster: &Cluster, options: &[&str]) -> BTreeMap<String, String> {
    cluster.write(ALICE, "env.sh", "#!/bin/sh\nenv -0\n");
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command.env("MINE", "from the submitter").env("OTHER", "two\nlines").env("SLURM_JOB_ID", "99");
    command
        .env("AX_JOB_ID", "ax-2020-0099")
        .env("CUDA_VISIBLE_DEVICES", "0,1,2,3")
        .env("LD_PRELOAD", "/evil.so");
    let submitted =
        ran(command.args(["--parsable", "-o", "o"]).args(options).arg("env.sh").output().unwrap());
    assert_eq!(submitted.code, 0, "{submitted:?}");
    let job = cluster.wait_over(submitted.out.trim());
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    let text = cluster.read(ALICE, "o");
    let pairs = text.split('\0').filter_map(|line| line.split_once('='));
    pairs.map(|(n, v)| (n.rsplit('\n').next().unwrap().to_owned(), v.to_owned())).collect()
}

fn get<'a>(all: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    all.get(name).map(String::as_str)
}

#[test]
fn the_submitter_s_environment_comes_along_as_asked() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let all = seen(&cluster, &[]);
    assert_eq!((get(&all, "MINE"), get(&all, "OTHER")), (Some("from the submitter"), Some("two\nlines")));
    let none = seen(&cluster, &["--export=NONE"]);
    assert_eq!((get(&none, "MINE"), get(&none, "USER")), (None, Some("daemon")));
    assert!(get(&none, "PATH").is_some_and(|p| p.contains("/usr/bin")));
    let some = seen(&cluster, &["--export=MINE,NEW=1,GONE"]);
    assert_eq!((get(&some, "MINE"), get(&some, "NEW")), (Some("from the submitter"), Some("1")));
    assert_eq!((get(&some, "OTHER"), get(&some, "GONE")), (None, None));
    let more = seen(&cluster, &["--export=ALL,NEW=\"a,b\",MINE=mine"]);
    assert_eq!(
        (get(&more, "MINE"), get(&more, "NEW"), get(&more, "OTHER")),
        (Some("mine"), Some("a,b"), Some("two\nlines"))
    );
}

#[test]
fn ax_s_variables_speak_of_this_job_whatever_was_set_before() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let all = seen(&cluster, &["-c", "1", "--time=3", "-J", "named"]);
    let id = get(&all, "AX_JOB_ID").unwrap();
    assert!(id.ends_with("-0001"), "{id}");
    for (name, value) in [
        ("JOB_ID", id),
        ("AX_JOB_NUMBER", "1"),
        ("AX_JOB_NAME", "named"),
        ("AX_QUEUE", "default"),
        ("AX_USER", "daemon"),
        ("AX_ATTEMPT", "1"),
        ("AX_RESTART_COUNT", "0"),
        ("AX_NTASKS", "1"),
        ("AX_CPUS", "1"),
        ("AX_GPUS", "0"),
        ("AX_TIME_LIMIT_S", "180"),
        ("SLURM_JOB_ID", "1"),
        ("SLURM_JOB_PARTITION", "default"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("CUDA_VISIBLE_DEVICES", ""),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
    ] {
        assert_eq!(get(&all, name), Some(value), "{name}");
    }
    let home = cluster.home(ALICE);
    assert_eq!(get(&all, "AX_SUBMIT_DIR"), home.to_str());
    for name in
        "AX_LEASE_EPOCH AX_NODE AX_NODELIST AX_GPU_UUIDS AX_GPU_MEM_MB AX_GPU_MEM_FRACTION AX_SPOOL_JOB_DIR"
            .split(' ')
    {
        assert!(all.contains_key(name), "{name}");
    }
}

#[test]
fn env_expands_the_job_s_variables_and_nothing_is_a_shell() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let options = [
        "--env=OUT=/data/$JOB_ID/${AX_ATTEMPT}",
        "--env=RAW=$(id) `id` $$x ${NOPE}.",
        "--env=MINE=$MINE too",
        "--env=AX_LEASE_EPOCH=1000000",
        "--env=AX_JOB_ID=5",
        "--export=ALL,SLURM_JOB_ID=5",
    ];
    let all = seen(&cluster, &options);
    let id = get(&all, "AX_JOB_ID").unwrap();
    assert_eq!(get(&all, "OUT"), Some(format!("/data/{id}/1").as_str()));
    assert_eq!(get(&all, "RAW"), Some("$(id) `id` $x ."));
    assert_eq!(get(&all, "MINE"), Some("from the submitter too"));
    // A store may refuse what comes under a smaller epoch, and a job speaks to ax under its id: neither can be chosen.
    assert_ne!(get(&all, "AX_LEASE_EPOCH"), Some("1000000"));
    assert!(id.starts_with("ax-"), "{id}");
    assert_eq!(get(&all, "SLURM_JOB_ID"), get(&all, "AX_JOB_NUMBER"));
    cluster.write(ALICE, "epoch.sh", "#!/bin/sh\n");
    let ran = cluster.run(ALICE, "axbatch", &["--env=AX_LEASE_EPOCH=1000000", "epoch.sh"]);
    assert!(ran.code == 0 && ran.err.contains("AX_LEASE_EPOCH is set by ax"), "{ran:?}");
}
