//! What a job finds when it starts, and what it can do from within: to the files that it names,
//! to the folders that root cleans up after it, to its own limits and its supervisor.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::cluster::{
    ALICE, BOB, Cluster, ROOT, as_root, command_line, processes, signal, supervisor_of, wait_for,
};
use crate::stranger::{Deed, EACCES, asks_supervisor, tries};

/// Runs a script to its end; what it printed.
fn output_of(cluster: &Cluster, options: &[&str], script: &str) -> String {
    let id = cluster.submit(ALICE, options, script);
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}\n{}", cluster.log());
    let output = PathBuf::from(job["stdout"].as_str().unwrap());
    fs::read_to_string(output).unwrap()
}

/// Runs a job that can't start; the reason that people are told.
fn failure_of(cluster: &Cluster, options: &[&str]) -> String {
    let id = cluster.submit(ALICE, options, "#!/bin/sh\necho it ran >> ran\n");
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "FAILED", "{job:#}");
    assert_eq!(job["attempt"], 1, "a launch that failed is not tried again: {job:#}");
    assert_eq!(cluster.read(ALICE, "ran"), "", "the script ran");
    job["reason"].as_str().unwrap().to_owned()
}

fn status(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name, value.trim())).collect()
}

#[test]
fn a_job_starts_with_its_user_s_rights_and_nothing_of_root_s() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // Read by the shell itself, so that it is the job's own process that is looked at.
    let script = "#!/bin/sh\nwhile read -r line; do echo \"$line\"; done < /proc/$$/status\n";
    let text = output_of(&cluster, &[], script);
    let status = status(&text);
    for caps in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(status[caps], "0000000000000000", "{caps}");
    }
    assert_eq!((status["Uid"], status["Gid"]), ("1\t1\t1\t1", "1\t1\t1\t1"));
    assert_eq!(status["Groups"], "1", "just the user's groups");
    for mask in ["SigBlk", "SigIgn"] {
        assert_eq!(status[mask].trim_start_matches('0'), "", "{mask} {}", status[mask]);
    }
    assert_eq!(status["Umask"], "0022");
    assert_eq!(status["TracerPid"], "0");
    assert_eq!(status["NoNewPrivs"], "0", "a job may use sudo where its user may");
}

#[test]
fn a_job_has_three_descriptors_and_no_others() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // readlink has those that were handed down and opens none: the shell keeps its own to itself.
    let script =
        "#!/bin/sh\nn=0; while [ $n -lt 64 ]; do readlink /proc/self/fd/$n; n=$((n+1)); done\nexit 0\n";
    let text = output_of(&cluster, &[], script);
    let output = cluster.home(ALICE).join("ax-1.out");
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        ["/dev/null", output.to_str().unwrap(), output.to_str().unwrap()]
    );
}

#[test]
fn a_job_has_sane_limits_and_leads_a_session_of_its_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\ncat /proc/$$/oom_score_adj\nulimit -n; ulimit -c; ulimit -s\n\
                  read -r pid _ _ _ group session rest < /proc/$$/stat\n\
                  [ $pid = $group ] && [ $pid = $session ] && echo leads\n\
                  tty || true\n";
    let text = output_of(&cluster, &[], script);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(&lines[..3], ["0", "1024", "0"], "OOM score, files, core: {text}");
    assert!(lines[3] == "unlimited" || lines[3].parse::<u64>().is_ok_and(|kb| kb >= 1024), "{text}");
    assert_eq!(&lines[4..], ["leads", "not a tty"], "{text}");
}

#[test]
fn a_job_dies_with_its_supervisor() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--no-requeue"], "#!/bin/sh\nsetsid sleep 1000 &\nsleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    wait_for("its processes", || cluster.job_processes().len() >= 3);
    signal(supervisor_of(&cluster, &id).unwrap(), "KILL");
    cluster.wait_over(&id);
    wait_for("the end of all of it", || cluster.job_processes().is_empty());
}

#[test]
fn the_output_is_opened_as_the_user() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let precious = cluster.write(ROOT, "precious", "root's\n");
    let foreign = cluster.write(BOB, "foreign", "bob's\n");
    for (name, target) in [("to-root", &precious), ("to-bob", &foreign)] {
        symlink(target, cluster.home(ALICE).join(name)).unwrap();
        let reason = failure_of(&cluster, &[&format!("--output={name}")]);
        assert!(reason.contains("as user daemon: Permission denied"), "{reason}");
        assert!(reason.contains(name), "{reason}");
    }
    for option in [
        "--output=/etc/passwd",
        "--error=/etc/shadow",
        "--output=/dev/mem",
        "--input=/etc/shadow",
        "--output=/root/x",
    ] {
        let reason = failure_of(&cluster, &[option]);
        assert!(reason.contains("Permission denied") || reason.contains("No such"), "{option}: {reason}");
    }
    assert_eq!(fs::read_to_string(precious).unwrap(), "root's\n");
    assert_eq!(fs::read_to_string(foreign).unwrap(), "bob's\n");
}

#[test]
fn the_output_may_be_a_device_or_a_link_of_the_user_s_own() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let target = cluster.write(ALICE, "target", "old\n");
    symlink(&target, cluster.home(ALICE).join("link")).unwrap();
    let id = cluster.submit(ALICE, &["--output=link"], "#!/bin/sh\necho new\n");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    assert_eq!(fs::read_to_string(&target).unwrap(), "new\n");
    let id = cluster.submit(ALICE, &["--output=/dev/null"], "#!/bin/sh\necho gone\n");
    let job = cluster.wait_over(&id);
    assert_eq!((&job["state"], &job["stdout"]), (&"SUCCEEDED".into(), &"/dev/null".into()), "{job:#}");
    let id = cluster.submit(ALICE, &["--output=/dev/full"], "#!/bin/sh\necho lost || exit 7\n");
    assert_eq!(cluster.wait_over(&id)["exit_code"], 7);
}

#[test]
fn folders_that_the_user_may_not_enter_are_not_entered() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let closed = cluster.home(BOB);
    let link = cluster.home(ALICE).join("shortcut");
    symlink(&closed, &link).unwrap();
    for folder in [closed.to_str().unwrap(), link.to_str().unwrap(), "/root", "/proc/1/cwd"] {
        let reason = failure_of(&cluster, &[&format!("--chdir={folder}")]);
        assert!(reason.contains("as user daemon: Permission denied"), "{folder}: {reason}");
    }
    let reason = failure_of(&cluster, &["--chdir=/nowhere"]);
    assert!(reason.contains("No such file"), "{reason}");
}

#[test]
fn a_job_does_not_lift_its_limits_or_leave_its_groups() {
    if !as_root() || !fs::read_to_string("/proc/self/mounts").unwrap().contains(" cgroup") {
        return;
    }
    let cluster = Cluster::new();
    let script = "#!/bin/sh\nbefore=$(cat /proc/self/cgroup)\n\
        grep ' cgroup' /proc/mounts | while read -r _ mount _; do\n\
          for file in \"$mount\"/cgroup.procs \"$mount\"/tasks \"$mount\"/release_agent; do\n\
            [ -e \"$file\" ] && echo $$ 2>/dev/null > \"$file\" && echo \"escaped by $file\"\n\
          done\n\
          find \"$mount\" -path \"*$AX_JOB_ID.*\" -writable 2>/dev/null | sed 's/^/writable /'\n\
        done\n\
        [ \"$before\" = \"$(cat /proc/self/cgroup)\" ] && echo the same\nexit 0\n";
    let text = output_of(&cluster, &["--ram=64"], script);
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("Permission denied") && !line.contains("cannot create"))
        .collect();
    assert_eq!(kept, ["the same"], "{text}");
}

#[test]
fn what_a_job_leaves_in_its_folders_leads_root_nowhere() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let precious = cluster.root.join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("kept"), "kept").unwrap();
    chown(precious.join("kept"), Some(0), Some(0)).unwrap();
    // Replaces script and socket by links, and goes on swapping a folder and a link while root cleans up.
    let precious_path = precious.display();
    let script = format!(
        "#!/bin/sh\ncd \"$(dirname $0)\" || exit 9\nrm -f script ctl\n\
         ln -s {precious_path} script; ln -s {precious_path}/kept ctl\n\
         ln -s {precious_path} \"$AX_SPOOL_JOB_DIR/link\"\n\
         mkdir many; pwd > ~/folder; i=0\n\
         while [ $i -lt 200 ]; do true > many/$i; i=$((i+1)); done\necho done\n"
    );
    let swapper = format!(
        "while [ ! -e stop ]; do read -r d < folder || continue; cd $d 2>/dev/null || continue; \
         mv many was; ln -s {precious_path} many; rm -f many; mv was many; cd ~; done"
    );
    let mut swapping =
        cluster.command(ALICE, "/bin/sh").args(["-c", &swapper]).stderr(Stdio::null()).spawn().unwrap();
    for _ in 0..5 {
        let id = cluster.submit(ALICE, &[], &script);
        assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    }
    cluster.write(ALICE, "stop", "");
    swapping.wait().unwrap();
    assert_eq!(fs::read_to_string(precious.join("kept")).unwrap(), "kept");
    let id = cluster.submit(ALICE, &[], &script);
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    let folder = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains(&id);
    let jobs = cluster.root.join("run/ax/jobs");
    wait_for("the folder to go", || !fs::read_dir(&jobs).unwrap().flatten().any(folder));
    assert_eq!(fs::read_to_string(precious.join("kept")).unwrap(), "kept");
}

#[test]
fn a_job_that_floods_its_socket_is_cancelled_like_any_other() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\nsleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    let attempt =
        fs::read_dir(cluster.root.join("run/ax/attempts")).unwrap().flatten().next().unwrap().file_name();
    let folder = cluster.root.join("run/ax/jobs").join(attempt);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    asks_supervisor(&cluster, ALICE, &folder, &b"flood".repeat(20_000));
                }
            });
        }
        assert_eq!(cluster.run(ALICE, "ax", &["cancel", &id]).code, 0);
        assert_eq!(cluster.wait_over(&id)["state"], "CANCELLED");
    });
}

#[test]
fn a_cancelled_job_is_told_as_long_a_reason_as_is_taken() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &[], "#!/bin/sh\nsleep 1000\n");
    cluster.wait_state(&id, &["RUNNING"]);
    let why = "\u{1}".repeat(4096);
    assert_eq!(cluster.run(ALICE, "ax", &["cancel", &id, "--why", &why]).code, 0);
    assert_eq!(cluster.wait_over(&id)["state"], "CANCELLED");
}

#[test]
fn a_fifo_as_output_holds_up_nobody_but_its_job() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    assert!(cluster.command(ALICE, "mkfifo").arg("pipe").status().unwrap().success());
    let stuck = cluster.submit(ALICE, &["--output=pipe"], "#!/bin/sh\necho never\n");
    let id = cluster.submit(ALICE, &["--cpus-per-task=1"], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    assert_eq!(cluster.run(ALICE, "ax", &["cancel", &stuck]).code, 0);
    assert_eq!(cluster.wait_over(&stuck)["state"], "CANCELLED");
}

/// The child that opens a job's files is its user's already. Until that counted as the job's own end, three of these
/// kept the node from everybody, and urgent ones had each trial.
#[test]
fn who_kills_his_own_jobs_on_their_way_to_exec_keeps_the_node_from_nobody() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    assert!(cluster.command(ALICE, "mkfifo").arg("pipe").status().unwrap().success());
    let child = |id: &str| {
        let folder = format!("{}/run/ax/attempts/{id}.", cluster.root.display());
        let hers = |pid: &u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == ALICE.uid);
        processes().find(|pid| hers(pid) && command_line(*pid).contains(&folder))
    };
    for _ in 0..4 {
        let id = cluster.submit(ALICE, &["--input=pipe", "--priority=100"], "#!/bin/sh\n");
        wait_for("its child", || child(&id).is_some());
        let pid = child(&id).unwrap().to_string();
        assert!(cluster.command(ALICE, "kill").args(["-KILL", &pid]).status().unwrap().success());
        let job = cluster.wait_over(&id);
        assert_eq!((&job["state"], &job["attempt"]), (&"FAILED".into(), &1.into()), "{job:#}");
        assert!(job["reason"].as_str().unwrap().contains("it was killed before its script began"), "{job:#}");
    }
    let nodes = cluster.run(ROOT, "ax", &["node", "list", "--json"]);
    let nodes: serde_json::Value = serde_json::from_str(&nodes.out).unwrap();
    assert_eq!(nodes[0]["state"], "up", "{nodes:#}");
    let id = cluster.submit(BOB, &[], "#!/bin/sh\n");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
}

#[test]
fn environments_that_feed_on_themselves_fail_alone() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let options: Vec<String> = (0..12)
        .map(|n| {
            format!(
                "--env=V{}={}",
                n + 1,
                if n == 0 { "x".repeat(1000) } else { format!("$V{n}").repeat(100) }
            )
        })
        .collect();
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    let reason = failure_of(&cluster, &words);
    assert!(reason.contains("the environment has more than"), "{reason}");
    let left: Vec<_> = fs::read_dir(cluster.root.join("run/ax/attempts")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(output_of(&cluster, &[], "#!/bin/sh\necho fine\n"), "fine\n");
}

#[test]
fn the_spool_folder_of_a_job_is_its_user_s_and_closed() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let text = output_of(&cluster, &[], "#!/bin/sh\necho $AX_SPOOL_JOB_DIR\n");
    let folder = Path::new(text.trim());
    let mode = fs::metadata(folder).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o700);
    assert_eq!(tries(&cluster, ALICE, Deed::List(folder)), 0);
    assert_eq!(tries(&cluster, ALICE, Deed::Link(&folder.with_file_name("x"))), EACCES);
}
