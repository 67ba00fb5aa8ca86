//! The daemon stays up and modest whatever happens to its disk and its socket:
//! full disks, clients that hang or talk nonsense, many jobs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, wait_for};

/// A small file system for the daemon's state; gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where nothing may be mounted.
    fn at(path: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m,mode=700", "none"]).arg(path);
        let done = mount.status().is_ok_and(|status| status.success());
        if !done {
            eprintln!("skipped: needs to mount");
        }
        done.then(|| SmallDisk(path.to_owned()))
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.join("ballast")).unwrap();
        let block = vec![1; 4096];
        while file.write_all(&block).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_the_intake_and_loses_nothing() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("resources: {cpus: 8}\n");
    let Some(disk) = SmallDisk::at(&cluster.root.join("var/lib/ax")) else { return };
    cluster.start();
    let go = cluster.home(ALICE).join("go");
    let script =
        format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.05; done\necho done\nexit 3\n", go.display());
    let running: Vec<String> =
        (0..3).map(|_| cluster.submit(ALICE, &["--ram=50", "-c", "1"], &script)).collect();
    for id in &running {
        cluster.wait_state(id, &["RUNNING"]);
    }
    let held = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\nexit 0\n");
    disk.fill();
    cluster.write(ALICE, "j.sh", "#!/bin/sh\nexit 0\n");
    // What finds the disk full may still go into the reserve; from then on nothing is taken.
    let mut taken: Vec<String> = Vec::new();
    wait_for("a refusal", || {
        let ran = cluster.run(ALICE, "axbatch", &["--parsable", "--hold", "j.sh"]);
        assert!(matches!(ran.code, 0 | 75), "{ran:?}");
        taken.extend((ran.code == 0).then(|| ran.out.trim().to_owned()));
        ran.code == 75
    });
    let line = cluster.refused(75, ALICE, "axbatch", &["j.sh"]);
    assert!(
        line.contains("nothing is accepted for now, try again later: ") && line.contains("full"),
        "{line}"
    );
    for words in [&["cancel", &held][..], &["release", &held], &["update", &held, "--priority=1"]] {
        cluster.refused(75, ALICE, "ax", words);
    }
    // Questions are answered, and running jobs end by themselves.
    assert_eq!(cluster.state(&held), "PENDING");
    assert!(cluster.http("GET", "/api/v1/status", "").1["read_only"].is_string());
    // Lists are of what is written down, however long no more of it is.
    for (words, about) in [
        (&["queue", "--json"][..], &held),
        (&["queue", "--start"], &held),
        (&["why", &held], &held),
        (&["status", &running[0]], &running[0]),
    ] {
        let said = cluster.ok(ALICE, "ax", words);
        assert!(said.contains(about.as_str()), "ax {words:?}: {said}");
    }
    cluster.write(ALICE, "go", "");
    wait_for("their output", || (1..=3).all(|n| cluster.read(ALICE, &format!("ax-{n}.out")) == "done\n"));
    disk.free();
    for id in &running {
        let job = cluster.wait_over(id);
        assert_eq!((&job["state"], &job["exit_code"]), (&"FAILED".into(), &3.into()), "{job:#}");
        assert!(job["attempts"][0]["cpu_time_s"].is_number(), "{job:#}");
    }
    cluster.ok(ALICE, "ax", &["release", &held]);
    assert_eq!(cluster.wait_over(&held)["state"], "SUCCEEDED");
    for id in &taken {
        assert_eq!(cluster.state(id), "PENDING", "what was answered with an id is kept");
    }
    cluster.nothing_left();
    cluster.stop();
    cluster.ok(ROOT, "axctl", &["db", "check"]);
}

/// Numbers that look like chance and are the same each time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn nonsense_on_the_socket_ends_nothing() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let id = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let body = json!({"cmd": "true", "hold": true, "env": ["A=1"], "args": ["x"]}).to_string();
    let good =
        format!("POST /api/v1/jobs HTTP/1.1\r\nHost: ax\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for seed in 0..150 {
        cluster.throw(&noise(seed, 1 + 37 * (seed as usize % 50)));
        // A right request with some of its bytes changed, and one that stops in the middle.
        let mut spoilt = good.clone().into_bytes();
        for place in noise(seed, 4).chunks(2) {
            let at = usize::from(place[0]) * spoilt.len() / 256;
            spoilt[at] = place[1];
        }
        cluster.throw(&spoilt);
        cluster.throw(&good.as_bytes()[..good.len() * (seed as usize) / 150]);
    }
    for head in [
        "GET / HTTP/9.9\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /api/v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "GET /api/v1/jobs?state=%ff%00 HTTP/1.1\r\n\r\n",
        "GET /api/v1/jobs/..%2f..%2fetc HTTP/1.1\r\n\r\n",
    ] {
        cluster.throw(head.as_bytes());
    }
    assert_eq!(cluster.state(&id), "PENDING", "the same daemon answers");
    assert_eq!(cluster.daemon_output(), "");
}

#[test]
fn clients_that_hang_harm_nobody_else() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for _ in 0..50 {
        cluster.submit(ALICE, &["--hold", "--comment", &"x".repeat(4000)], "#!/bin/sh\n");
    }
    // Half a request; a question whose long answer nobody reads; a wait that nobody waits for.
    let mut hung = Vec::new();
    for number in 0..40 {
        let mut stream = cluster.connect();
        let text = [
            "GET /api/v1/jo",
            "GET /api/v1/jobs HTTP/1.1\r\nHost: ax\r\n\r\n",
            "GET /api/v1/jobs/1/wait HTTP/1.1\r\nHost: ax\r\n\r\n",
        ];
        stream.write_all(text[number % 3].as_bytes()).unwrap();
        hung.push(stream);
    }
    let job = cluster.ends(ALICE, &[], "#!/bin/sh\nexit 0\n");
    assert_eq!(job["state"], "SUCCEEDED");
    drop(hung);
    let job = cluster.ends(ALICE, &[], "#!/bin/sh\nexit 0\n");
    assert_eq!(job["state"], "SUCCEEDED");
}

#[test]
fn too_many_connections_of_one_user_leave_room_for_others() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut hung: Vec<_> = (0..64).map(|_| cluster.connect()).collect();
    hung.extend((0..20).map(|_| cluster.connect()));
    cluster.ok(ALICE, "ax", &["queue"]);
    hung.clear();
    wait_for("room", || cluster.run(ROOT, "ax", &["queue"]).code == 0);
}

/// Memory of the daemon that is really there, in kB.
fn resident(cluster: &Cluster) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", cluster.pid())).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[test]
fn jobs_that_are_over_take_no_memory() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let body = json!({"cmd": "x".repeat(2000), "hold": true}).to_string();
    let mut sizes = Vec::new();
    for _ in 0..3 {
        for _ in 0..400 {
            assert_eq!(cluster.http("POST", "/api/v1/jobs", &body).0, 201);
        }
        cluster.ok(ROOT, "ax", &["cancel", "--state=PENDING"]);
        assert_eq!(cluster.json(ROOT, &["queue", "--json"]), json!([]));
        sizes.push(resident(&cluster));
    }
    // The first round fills caches; 400 more jobs may not cost what 400 jobs hold.
    assert!(sizes[2] < sizes[0] + 8 * 1024, "{sizes:?} kB");
}
