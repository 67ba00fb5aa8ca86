//! Things that users do although nobody would: pipes and folders for output,
//! links to where they may not write, jobs that submit jobs, odd names.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::cluster::{ALICE, BOB, Cluster, ROOT, as_root, ran, wait_for};

const SAY: &str = "#!/bin/sh\necho said\n";

#[test]
fn a_pipe_that_nobody_opens_holds_a_job_no_longer_than_its_limit() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for (name, option) in [("out", "--output=out"), ("in", "--input=in")] {
        let pipe = cluster.home(ALICE).join(name);
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(&pipe).status().unwrap().success());
        let job = cluster.ends(ALICE, &[option, "--time=0:01", "--grace=0"], SAY);
        assert_eq!((&job["state"], &job["signal"]), (&"TIMEOUT".into(), &().into()), "{job:#}");
        assert_eq!(job["reason"], "over its time limit of 00:00:01, still opening its files");
        let id = cluster.submit(ALICE, &[option], SAY);
        let job = cluster.wait_state(&id, &["STARTING", "RUNNING"]);
        assert!(job["reason"].is_string(), "{job:#}");
        cluster.ok(ALICE, "ax", &["cancel", &id]);
        assert_eq!(cluster.wait_over(&id)["state"], "CANCELLED");
    }
    cluster.nothing_left();
}

#[test]
fn output_into_a_folder_or_over_a_link_is_refused_by_the_kernel_as_for_the_user() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let secret = cluster.write(ROOT, "secret", "untouched\n");
    fs::create_dir(cluster.home(ALICE).join("folder")).unwrap();
    symlink(&secret, cluster.home(ALICE).join("link")).unwrap();
    let job = cluster.ends(ALICE, &["-o", "folder"], SAY);
    assert!(job["reason"].as_str().unwrap().contains("folder' as user daemon: Is a directory"), "{job:#}");
    let job = cluster.ends(ALICE, &["-o", "link"], SAY);
    assert!(job["reason"].as_str().unwrap().contains("link' as user daemon: Permission denied"), "{job:#}");
    assert_eq!(cluster.read(ROOT, "secret"), "untouched\n");
}

#[test]
fn options_come_from_the_line_then_variables_then_the_script() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("queues: [{name: default, default_time: 7m}]\n");
    cluster.write(ALICE, "j.sh", "#!/bin/sh\n#AX --time=1 -J script --priority=1 --hold\n");
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command.env("AXBATCH_TIME", "2").env("AXBATCH_JOB_NAME", "variable").args([
        "--parsable",
        "-t",
        "3",
        "j.sh",
    ]);
    let id = ran(command.output().unwrap()).out;
    let job = cluster.job(id.trim());
    let shown = (&job["time_limit_s"], &job["name"], &job["priority"]);
    assert_eq!(shown, (&180.into(), &"variable".into(), &1.into()), "{job:#}");
    let id = cluster.submit(ALICE, &["--hold"], SAY);
    assert_eq!(cluster.job(&id)["time_limit_s"], 420, "the queue's");
    let queues = "queues: [{name: default, max_time: 3m}]\n";
    for (all, limit) in
        [("", 180), ("policy: {task_timeout: 60}\n", 60), ("policy: {task_timeout: 600}\n", 180)]
    {
        cluster.configure(&format!("{queues}{all}"));
        cluster.ok(ROOT, "ax", &["reload"]);
        let id = cluster.submit(ALICE, &["--hold"], SAY);
        assert_eq!(cluster.job(&id)["time_limit_s"], limit, "{all}");
    }
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command.env("AXBATCH_TIME", "soon").arg("j.sh");
    let ran = ran(command.output().unwrap());
    assert!(ran.code == 2 && ran.err.contains("AXBATCH_TIME"), "{ran:?}");
}

#[test]
fn jobs_submit_jobs() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4}\n");
    let inner = "#!/bin/sh\necho \"inner $AX_JOB_NUMBER $SLURM_JOB_ID\" > inner\n";
    cluster.write(ALICE, "inner.sh", inner);
    let script = format!("#!/bin/sh\n{} --parsable inner.sh > id\n", cluster.program("axbatch"));
    let outer = cluster.ends(ALICE, &[], &script);
    assert_eq!(outer["state"], "SUCCEEDED", "{outer:#} {}", cluster.read(ALICE, "ax-1.out"));
    let id = cluster.read(ALICE, "id");
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "inner"), "inner 2 2\n", "nothing speaks of the outer job");
}

#[test]
fn names_with_slashes_lead_nowhere() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job = cluster.ends(ALICE, &["-J", "../../up/and away", "-o", "%x.log"], SAY);
    assert_eq!((&job["state"], &job["name"]), (&"SUCCEEDED".into(), &"../../up/and away".into()), "{job:#}");
    let path = job["stdout"].as_str().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "said\n");
    assert_eq!(std::path::Path::new(path).parent(), Some(cluster.home(ALICE).as_path()), "{path}");
}

#[test]
fn a_begin_in_the_past_is_now() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    assert_eq!(cluster.ends(ALICE, &["--begin=2020-01-01T00:00"], SAY)["state"], "SUCCEEDED");
}

#[test]
fn a_folder_that_only_others_may_enter_is_no_place_to_run() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let foreign = cluster.home(BOB);
    let job = cluster.ends(ALICE, &["-D", foreign.to_str().unwrap()], SAY);
    assert!(job["reason"].as_str().unwrap().contains("as user daemon: Permission denied"), "{job:#}");
}

#[test]
fn groups_limits_and_masks_of_the_daemon_are_not_the_job_s() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\nid -u; id -g; id -G; cat /proc/self/oom_score_adj; ulimit -c; ls /proc/self/fd | wc -l\n\
                  grep -E 'CapEff|SigIgn|SigBlk|NoNewPrivs' /proc/self/status; cat /proc/self/sessionid >/dev/null; ps -o sid= -p $$ | tr -d ' '; echo $$\n";
    let job = cluster.ends(ALICE, &["-o", "out"], script);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    let output = cluster.read(ALICE, "out");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..5], ["1", "1", "1", "0", "0"], "{output}");
    assert_eq!(lines[5], "4", "standard files and the folder that ls reads: {output}");
    for (name, mask) in [("SigBlk", 0_u64), ("SigIgn", 0), ("CapEff", 0)] {
        let line = lines.iter().find_map(|l| l.strip_prefix(&format!("{name}:"))).unwrap();
        assert_eq!(u64::from_str_radix(line.trim(), 16).unwrap(), mask, "{name}: {output}");
    }
    assert_eq!(lines[lines.len() - 2], lines[lines.len() - 1], "a session of its own: {output}");
}

#[test]
fn memory_and_retries_go_together() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\n[ $AX_ATTEMPT = 2 ] || tail /dev/zero\n";
    let job = cluster.ends(ALICE, &["--ram=30M", "--retry=1", "--retry-delay=0"], script);
    assert_eq!((&job["state"], &job["attempt"]), (&"SUCCEEDED".into(), &2.into()), "{job:#}");
    assert_eq!(job["attempts"][0]["state"], "OUT_OF_MEMORY");
}

#[test]
fn a_job_is_seen_from_its_submission_to_its_account() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], SAY);
    let in_queue = |all: &[&str]| {
        let mut words = vec!["queue", "--json"];
        words.extend(all);
        cluster.json(BOB, &words).as_array().unwrap().iter().any(|job| job["id"] == id.as_str())
    };
    assert!(in_queue(&[]));
    cluster.ok(ALICE, "ax", &["release", &id]);
    cluster.wait_over(&id);
    assert!(!in_queue(&[]) && in_queue(&["--all"]), "for five minutes it is among all");
    wait_for("the account", || cluster.json(BOB, &["acct", "--json"])[0]["id"] == id.as_str());
    let job = cluster.job(&id);
    let states: f64 = job["time_in_state"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
    let time = |name: &str| {
        job[name].as_str().unwrap().parse::<ax_core::time::WallTime>().unwrap().0 as f64 / 1000.0
    };
    let whole = time("ended_at") - time("submitted_at");
    assert!((states - whole).abs() < 0.01, "the states' times add up: {states} of {whole}");
}
