//! What may be submitted: scripts of every make, programs, scripts written for
//! Slurm; and by whom.

use std::fs;

use crate::cluster::{ALICE, Cluster, ROOT, User, as_root};

/// What a script printed, which must have succeeded.
fn prints(cluster: &Cluster, script: &[u8], arguments: &[&str]) -> String {
    cluster.write(ALICE, "s", script);
    let mut all = vec!["--parsable", "-o", "o", "s"];
    all.extend(arguments);
    let id = cluster.ok(ALICE, "axbatch", &all);
    let job = cluster.wait_over(id.trim());
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}\n{}", cluster.read(ALICE, "o"));
    cluster.read(ALICE, "o")
}

#[test]
fn scripts_of_every_make_run() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for (script, expected) in [
        (&b"#!/bin/bash\necho ${BASH_VERSION:0:0}bash\n"[..], "bash\n"),
        (b"#!/usr/bin/env -S sh -e\necho env\n", "env\n"),
        (b"#!/usr/bin/awk -f\nBEGIN { print \"awk\" }\n", "awk\n"),
        (b"echo no line at all", "no line at all\n"),
        (b"#!/bin/sh\r\n#AX --time=3\r\necho crlf\r\n", "crlf\n"),
        (b"\xef\xbb\xbf#!/bin/sh\n#AX --time=3\necho bom\n", "bom\n"),
        (b"#!/bin/sh\necho \xff\xfe | od -An -tx1\n", " ff fe 0a\n"),
        (b"#!/bin/sh\necho no newline", "no newline\n"),
    ] {
        assert_eq!(prints(&cluster, script, &[]), expected, "{}", String::from_utf8_lossy(script));
    }
    assert_eq!(
        prints(&cluster, b"#!/bin/sh\nprintf '<%s>' \"$@\"\n", &["a b", "", "--x", "$HOME"]),
        "<a b><><--x><$HOME>"
    );
}

#[test]
fn python_runs_where_there_is_one() {
    if !as_root() || !std::path::Path::new("/usr/bin/python3").exists() {
        return;
    }
    let cluster = Cluster::new();
    let script = b"#!/usr/bin/python3\n#AX --time=3 -J py\nimport sys\nprint('python', sys.argv[1:])\n";
    assert_eq!(prints(&cluster, script, &["x"]), "python ['x']\n");
}

#[test]
fn a_program_is_a_job_too_and_a_command_can_start_one() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.write(ALICE, "echo", fs::read("/bin/echo").unwrap());
    let id = cluster.ok(ALICE, "axbatch", &["--parsable", "-o", "p", "echo", "direct"]);
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "p"), "direct\n");
    let id = cluster.ok(ALICE, "axbatch", &["--parsable", "-o", "o", "--wrap=/bin/echo compiled"]);
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "o"), "compiled\n");
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job = cluster.ends(ALICE, &[], "#!/opt/none/python\nprint(1)\n");
    assert_eq!(job["state"], "FAILED");
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.contains("start interpreter '/opt/none/python' as user daemon: No such file"), "{reason}");
}

#[test]
fn a_script_for_slurm_runs_by_slurm_s_rules() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("resources: {cpus: 4, ram: 2000M}\n");
    let script = "#!/bin/bash\n#SBATCH --partition=gpu-a100\n#SBATCH --mem=100\n#SBATCH -t 00:01:30 # limit\n\
                  #SBATCH --cpus-per-task=2 --job-name=old\n#SBATCH --mail-type=END\necho \"$SLURM_JOB_ID $SLURM_CPUS_PER_TASK $SLURM_JOB_NAME\"\n";
    cluster.write(ALICE, "old.sh", script);
    let ran = cluster.run(ALICE, "axbatch", &["old.sh"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("gpu-a100") && ran.err.contains("default"),
        "the foreign partition is noted: {ran:?}"
    );
    let id = ran.out.trim().strip_prefix("Submitted batch job ").unwrap().to_owned();
    let job = cluster.wait_over(&id);
    assert_eq!(
        (&job["state"], &job["queue"], &job["ram_mb"]),
        (&"SUCCEEDED".into(), &"default".into(), &100.into()),
        "{job:#}"
    );
    assert_eq!((&job["cpus"], &job["time_limit_s"]), (&2.into(), &120.into()), "seconds round up to minutes");
    assert_eq!(cluster.read(ALICE, "slurm-1.out"), "1 2 old\n");
}

#[test]
fn scripts_that_do_not_parse_are_refused_by_their_place() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n\n# words\n#AX --gpu=1\necho\n");
    let line = cluster.refused(65, ALICE, "axbatch", &["job.sh"]);
    assert!(
        line.starts_with("axbatch: job.sh:4:5: unknown option '--gpu'; did you mean '--gpus'?"),
        "{line}"
    );
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n#AX --time=soon\n");
    let line = cluster.refused(65, ALICE, "axbatch", &["job.sh"]);
    assert!(line.starts_with("axbatch: job.sh:2:") && line.contains("'soon'"), "{line}");
    let line = cluster.refused(66, ALICE, "axbatch", &["gone.sh"]);
    assert!(line.contains("gone.sh: No such file or directory"), "{line}");
    cluster.write(ALICE, "empty.sh", "");
    let line = cluster.refused(65, ALICE, "axbatch", &["empty.sh"]);
    assert!(line.contains("empty"), "{line}");
    assert_eq!(
        cluster.json(ALICE, &["queue", "--json", "--all"]),
        serde_json::json!([]),
        "nothing was submitted"
    );
}

#[test]
fn root_s_jobs_are_root_s_and_nobody_else_s() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let job = cluster.ends(ROOT, &["-o", "o"], "#!/bin/sh\nid -u\n");
    assert_eq!((&job["user"], &job["uid"], cluster.read(ROOT, "o").trim()), (&"root".into(), &0.into(), "0"));
    cluster.write(ALICE, "j.sh", "#!/bin/sh\nid -un > who\n");
    let line = cluster.refused(77, ALICE, "axbatch", &["--uid=0", "j.sh"]);
    assert!(line.contains("only root submits for others"), "{line}");
    let home = cluster.home(ALICE);
    let id = cluster.ok(
        ROOT,
        "axbatch",
        &["--uid=daemon", "--parsable", "-D", home.to_str().unwrap(), "--wrap=id -un > who"],
    );
    let job = cluster.wait_over(id.trim());
    assert_eq!(
        (&job["user"], cluster.read(ALICE, "who").as_str()),
        (&"daemon".into(), "daemon\n"),
        "{job:#}"
    );
}

#[test]
fn a_number_without_an_account_is_refused() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let nobody = User { name: "daemon", uid: 54_321, gid: 54_321 };
    fs::set_permissions(cluster.home(ALICE), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    cluster.write(ALICE, "j.sh", "#!/bin/sh\n");
    let line = cluster.refused(77, nobody, "axbatch", &["j.sh"]);
    assert_eq!(line, "axbatch: there is no user with number 54321 on this machine");
}

#[test]
fn system_users_can_be_kept_out() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::with_config("policy: {min_uid: 1000}\n");
    cluster.write(ALICE, "j.sh", "#!/bin/sh\n");
    let line = cluster.refused(77, ALICE, "axbatch", &["j.sh"]);
    assert_eq!(line, "axbatch: user daemon has number 1; jobs are taken from 1000 on (policy.min_uid)");
}
