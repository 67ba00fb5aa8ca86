//! Queues whose slices are under MPS: the card's daemon is there before the first of them runs and until the last has
//! gone, whoever has died meanwhile, as their user, and for nobody else's. The control program is a script that writes
//! down what it is asked; its server writes itself into the table of the library that plays the driver's.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::cards::card;
use crate::cluster::{
    ALICE, BOB, Cluster, ROOT, as_root, command_line, mounts_below, processes, signal, supervisor_of,
    wait_for,
};
use crate::fake_cards::{FakeCards, TWO};

const QUEUES: &str = "queues:\n  - name: default\n  - name: shared\n    mps: true\n";

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    fake: FakeCards,
    pub(crate) folder: PathBuf,
}

/// What the control program does besides: a line of shell for each question.
pub(crate) const USUAL: &str = "quit) kill $(cat $CUDA_MPS_PIPE_DIRECTORY/server) ;;";

impl World {
    /// A running daemon, whose MPS control program does this when it is to start one.
    pub(crate) fn new(before: &str, questions: &str) -> Option<World> {
        World::with(&[], before, questions)
    }

    /// One whose axd is started by these words.
    pub(crate) fn with(wrapper: &[&str], before: &str, questions: &str) -> Option<World> {
        if !as_root() {
            return None;
        }
        let mut cluster = Cluster::stopped("");
        cluster.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        let fake = FakeCards::new(&cluster, TWO);
        Some(World::of((cluster, fake), before, questions))
    }

    fn of((mut cluster, fake): (Cluster, FakeCards), before: &str, questions: &str) -> World {
        let folder = cluster.root.join("mps");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("log"), "").unwrap();
        std::fs::set_permissions(folder.join("log"), PermissionsExt::from_mode(0o666)).unwrap();
        let (log, script) = (folder.join("log"), fake.script().display().to_string());
        let control = format!(
            "#!/bin/sh\npipe=$CUDA_MPS_PIPE_DIRECTORY\ncase \"$1\" in\n-d)\n\
             echo \"start $(id -u) $CUDA_VISIBLE_DEVICES\" >>{log}\n{before}\n\
             nvidia-cuda-mps-server </dev/null >/dev/null 2>&1 &\necho $! >$pipe/server; : >$pipe/control ;;\n\
             *)\nread question; echo \"$question $(id -u) $CUDA_VISIBLE_DEVICES\" >>{log}\ncase $question in\n{questions}\n\
             *) [ -e $pipe/control ] ;; esac ;; esac\n",
            log = log.display()
        );
        let server = format!(
            "#!/bin/sh\necho \"process $$ $CUDA_VISIBLE_DEVICES 300\" >>{script}\nexec sleep 98765\n"
        );
        for (name, text) in [("nvidia-cuda-mps-control", control), ("nvidia-cuda-mps-server", server)] {
            std::fs::write(folder.join(name), text).unwrap();
            std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        }
        cluster.configure(&format!(
            "{}  mps_control: {}/nvidia-cuda-mps-control\nresources:\n  gpu_sample: 50ms\n{QUEUES}",
            fake.config(),
            folder.display()
        ));
        cluster.start();
        World { cluster, fake, folder }
    }

    /// A job under MPS that runs until a file of this name is there, once it does.
    pub(crate) fn runs(&self, user: crate::cluster::User, until: &str) -> String {
        let script = format!(
            "#!/bin/sh\nenv | grep ^CUDA_ >{until}.env\nls -ldn $CUDA_MPS_PIPE_DIRECTORY >{until}.dir\n\
            touch $CUDA_MPS_PIPE_DIRECTORY/mine; while [ ! -e {until} ]; do sleep 0.05; done\n"
        );
        let job = self.submit(user, &script);
        self.cluster.wait_state(&job, &["RUNNING"]);
        job
    }

    pub(crate) fn submit(&self, user: crate::cluster::User, script: &str) -> String {
        self.cluster.submit(
            user,
            &["-q", "shared", "--no-requeue", "-c", "1", "--gpus", "1", "--mem", "20G"],
            script,
        )
    }

    pub(crate) fn ends(&self, job: &str, user: crate::cluster::User, until: &str) {
        self.cluster.write(user, until, "");
        self.cluster.wait_state(job, &["SUCCEEDED"]);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    pub(crate) fn starts(&self) -> Vec<String> {
        self.log().lines().filter_map(|line| line.strip_prefix("start ")).map(str::to_owned).collect()
    }

    /// The processes of the servers of this world, as `ps` shows them.
    fn servers(&self) -> Vec<u32> {
        let listed = std::fs::read_to_string(self.fake.script()).unwrap();
        let own =
            |pid: &u32| listed.contains(&format!("process {pid} ")) && command_line(*pid).contains("98765");
        processes().filter(own).collect()
    }

    pub(crate) fn seats(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.cluster.root.join("run/ax/mps")).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.path().is_dir());
        dirs.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    fn groups(&self) -> usize {
        let tops = crate::cluster::groups(&self.cluster.root.join("run/ax"));
        let entries = tops.iter().flat_map(|top| std::fs::read_dir(top).into_iter().flatten().flatten());
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("mps-")).count()
    }

    /// What the one daemon there is may use of the machine's memory.
    fn memory_limit(&self) -> String {
        let tops = crate::cluster::groups(&self.cluster.root.join("run/ax"));
        let files = ["memory.max", "memory.limit_in_bytes"].map(|file| format!("mps-GPU-aaaa/{file}"));
        let files =
            tops.iter().flat_map(|top| files.iter().map(move |file| std::path::Path::new(top).join(file)));
        files.filter_map(|file| std::fs::read_to_string(file).ok()).collect::<String>().trim().to_owned()
    }

    pub(crate) fn is_clean(&self) -> bool {
        let mounts = mounts_below(&self.cluster.root);
        self.servers().is_empty() && self.seats().is_empty() && self.groups() == 0 && mounts.is_empty()
    }
}

#[test]
fn one_daemon_of_the_user_s_is_there_from_the_first_slice_to_the_last_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let first = world.runs(ALICE, "a");
    let second = world.runs(ALICE, "b");
    assert_eq!(world.starts(), ["1 GPU-aaaa"], "one, as the user, with the card by UUID: {}", world.log());
    let (said, folder) = (cluster.read(ALICE, "b.env"), cluster.root.join("run/ax/mps/GPU-aaaa"));
    for line in [
        "CUDA_VISIBLE_DEVICES=GPU-aaaa".to_owned(),
        format!("CUDA_MPS_PIPE_DIRECTORY={}/daemon/pipe", folder.display()),
        format!("CUDA_MPS_LOG_DIRECTORY={}/daemon/log", folder.display()),
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=GPU-aaaa=19073M".to_owned(),
    ] {
        assert!(said.lines().any(|said| said == line), "{line}: {said}");
    }
    assert!(cluster.read(ALICE, "b.dir").starts_with("drwx------ "), "{}", cluster.read(ALICE, "b.dir"));
    assert_eq!(std::fs::metadata(folder.join("daemon/pipe")).unwrap().uid(), ALICE.uid);
    assert_eq!(std::fs::metadata(&folder).unwrap().uid(), 0);
    assert_eq!(card(cluster, "GPU-aaaa")["limit"], "mps");
    assert_eq!(card(cluster, "GPU-bbbb")["limit"], "env");
    assert!(
        cluster.job(&first).to_string().contains("held to its slices by: mps"),
        "{:#}",
        cluster.job(&first)
    );
    // Two slices, and a server that is for both.
    wait_for("the server to be seen", || card(cluster, "GPU-aaaa")["used_mb"] == 300);
    assert_eq!(card(cluster, "GPU-aaaa")["foreign"], serde_json::json!([]), "it is no stranger's");
    let of_it = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", world.servers()[0])).unwrap();
    assert_eq!(of_it("oom_score_adj"), "0\n", "no supervisor's protection");
    for (limit, soft) in [("Max core file size", "0"), ("Max open files", "1024")] {
        let limits = of_it("limits");
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap();
        assert_eq!(line.split_ascii_whitespace().next(), Some(soft), "{limit}");
    }
    assert_eq!(world.memory_limit(), (4u64 << 30).to_string());
    let server = world.servers();
    world.ends(&first, ALICE, "a");
    assert_eq!((world.servers(), server.len()), (server, 1), "the second has it still");
    wait_for("it to be the second's", || card(cluster, "GPU-aaaa")["held"][0]["used_mb"] == 300);
    world.ends(&second, ALICE, "b");
    assert!(world.is_clean(), "{:?} {:?}", world.servers(), world.seats());
    assert!(world.log().contains("quit 1 GPU-aaaa"), "it was asked: {}", world.log());
    let none = cluster.submit(ALICE, &["-c", "1", "--gpus", "1", "--mem", "20G"], "#!/bin/sh\nenv >plain\n");
    cluster.wait_state(&none, &["SUCCEEDED"]);
    assert!(!cluster.read(ALICE, "plain").contains("CUDA_MPS"), "another queue");
    assert_eq!(world.starts().len(), 1);
}

#[test]
fn a_card_under_mps_is_one_user_s_and_who_waits_hears_whose_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let alice = world.runs(ALICE, "a");
    let bob = world.runs(BOB, "b");
    assert_eq!(world.starts(), ["1 GPU-aaaa", "2 GPU-bbbb"]);
    assert!(cluster.ok(ALICE, "ax", &["status", &alice]).contains("held to its slices by: mps"));
    assert_eq!(card(cluster, "GPU-aaaa")["limit"], "mps");
    let third = world.submit(ROOT, "#!/bin/sh\n");
    let plain = cluster.submit(ALICE, &["-c", "1", "--gpus", "1", "--mem", "20G"], "#!/bin/sh\n");
    for job in [&third, &plain] {
        let why = cluster.run(ROOT, "ax", &["why", job]).out;
        assert!(why.contains("card 0 is under MPS for user daemon"), "{why}");
        assert!(why.contains("card 1 is under MPS for user bin"), "{why}");
    }
    world.ends(&bob, BOB, "b");
    cluster.wait_state(&third, &["SUCCEEDED"]);
    cluster.wait_state(&plain, &["SUCCEEDED"]);
    world.ends(&alice, ALICE, "a");
    wait_for("all daemons to be gone", || world.is_clean());
}

#[test]
fn whoever_dies_no_daemon_of_an_ended_job_is_left_and_none_that_is_used_is_ended_as_root() {
    let Some(mut world) = World::new("", USUAL) else { return };
    let first = world.runs(ALICE, "a");
    let second = world.runs(ALICE, "b");
    let server = world.servers();
    signal(supervisor_of(&world.cluster, &first).unwrap(), "KILL");
    world.cluster.wait_over(&first);
    assert_eq!(world.servers(), server, "the second uses it");
    world.cluster.kill();
    world.cluster.start();
    world.cluster.wait_state(&second, &["RUNNING"]);
    assert_eq!(world.servers(), server, "also over a restart of the daemon");
    world.cluster.kill();
    signal(supervisor_of(&world.cluster, &second).unwrap(), "KILL");
    wait_for("the watchdog to end it", || world.cluster.job_processes().is_empty());
    assert_eq!(world.servers(), server, "nobody is there who could end it");
    // Nor does anybody know of the attempt any more.
    let records = world.cluster.root.join("run/ax/attempts");
    std::fs::remove_dir_all(&records).unwrap();
    std::fs::create_dir(&records).unwrap();
    world.cluster.start();
    wait_for("the daemon to be gone", || world.is_clean());
    world.cluster.wait_over(&second);
}

#[test]
fn where_no_daemon_can_be_started_the_job_does_without_and_others_do_not_as_root() {
    let fails = "[ $(id -u) != 1 ] || { echo 'no such device' >&2; exit 1; }";
    let Some(mut world) = World::new(fails, USUAL) else { return };
    let cluster = &world.cluster;
    let job = world
        .submit(ALICE, "#!/bin/sh\nenv | grep ^AX_GPU_ENFORCE= >seen; env | grep CUDA_MPS >>seen; true\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    assert_eq!(cluster.read(ALICE, "seen"), "AX_GPU_ENFORCE=env\n");
    let log = cluster.log();
    assert!(log.contains("limit_fell") && log.contains("no such device"), "{log}");
    assert!(cluster.job(&job).to_string().contains("no such device"), "{:#}", cluster.job(&job));
    let other = world.runs(BOB, "b");
    assert!(cluster.read(BOB, "b.env").contains("CUDA_MPS_PIPE_DIRECTORY"));
    world.ends(&other, BOB, "b");
    wait_for("all to be gone", || world.is_clean());
    cluster.run(ROOT, "ax", &["reload"]);
    let again = world.submit(ALICE, "#!/bin/sh\n");
    cluster.wait_state(&again, &["SUCCEEDED"]);
    let tries = world.starts().iter().filter(|line| line.starts_with("1 ")).count();
    assert!(tries > 1, "tried again after a reload: {:?}", world.starts());
    // Nor where the names of its sockets would be too long, and nothing is begun there.
    world.cluster.stop();
    world.fake.set(
        &TWO.replace("GPU-aaaa", &format!("GPU-{}", "a".repeat(75)))
            .replace("GPU-bbbb", &format!("GPU-{}", "b".repeat(75))),
    );
    world.cluster.start();
    let tried = world.starts().len();
    let far = world.submit(BOB, "#!/bin/sh\ntrue\n");
    world.cluster.wait_state(&far, &["SUCCEEDED"]);
    let told = world.cluster.job(&far).to_string();
    assert!(told.contains("the name of a socket has") && world.starts().len() == tried, "{told}");
}

#[test]
fn a_daemon_that_ignores_its_end_is_killed_and_one_that_hangs_is_no_neighbour_s_trouble_as_root() {
    let Some(world) = World::new("[ $(id -u) != 2 ] || sleep 1000", "quit) sleep 1000 ;;") else { return };
    let job = world.runs(ALICE, "a");
    world.ends(&job, ALICE, "a");
    assert!(world.is_clean(), "{:?} {:?}", world.servers(), world.seats());
    let hangs = world.submit(BOB, "#!/bin/sh\n");
    let beside = world.submit(ALICE, "#!/bin/sh\n");
    world.cluster.wait_state(&beside, &["SUCCEEDED"]);
    world.cluster.wait_state(&hangs, &["SUCCEEDED"]);
    assert!(world.cluster.log().contains("did not end within"), "{}", world.cluster.log());
    wait_for("all to be gone", || world.is_clean());
}

/// The job that it was for does without, nothing of it stays, and the next daemon of the card is as if it had never been.
#[cfg(feature = "crash-points")]
#[test]
fn whoever_starts_a_daemon_dies_at_each_of_its_points_as_root() {
    use crate::crash_points::{arm, disarm, is_reached};
    for (point, starts) in [("mps entered", 0), ("mps started", 1)] {
        let Some(mut world) = World::new("", USUAL) else { return };
        world.cluster.stop();
        arm(&mut world.cluster, point);
        world.cluster.start();
        let without = "#!/bin/sh\nenv | grep -e ^AX_GPU_ENFORCE= -e CUDA_MPS >seen\n";
        let job = world.submit(ALICE, without);
        world.cluster.wait_state(&job, &["SUCCEEDED"]);
        assert!(is_reached(&world.cluster, point), "'{point}' was never reached: {}", world.cluster.log());
        assert_eq!(world.cluster.read(ALICE, "seen"), "AX_GPU_ENFORCE=env\n", "'{point}'");
        assert_eq!(world.starts().len(), starts, "'{point}': {}", world.log());
        wait_for(&format!("nothing to be left after '{point}'"), || world.is_clean());
        world.cluster.stop();
        disarm(&mut world.cluster);
        world.cluster.start();
        let next = world.runs(BOB, "b");
        assert!(world.cluster.read(BOB, "b.env").contains("CUDA_MPS_PIPE_DIRECTORY"), "'{point}'");
        world.ends(&next, BOB, "b");
        wait_for("all to be gone", || world.is_clean());
    }
}

/// As supervisors leave it that die before their attempt has its turn.
#[test]
fn who_died_on_the_way_to_a_card_keeps_it_from_nobody_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let seat = cluster.root.join("run/ax/mps/GPU-aaaa");
    std::fs::create_dir_all(seat.join("users")).unwrap();
    std::fs::write(seat.join("users/ax-2026-9999.77"), "").unwrap();
    std::fs::write(seat.join("owner"), BOB.uid.to_string()).unwrap();
    let job = world.runs(ALICE, "a");
    assert!(cluster.read(ALICE, "a.env").contains("CUDA_MPS_PIPE_DIRECTORY"), "{}", cluster.log());
    assert_eq!(world.starts(), ["1 GPU-aaaa"]);
    // And one whose turn comes when its supervisor is dead.
    let records = cluster.root.join("run/ax/attempts");
    let attempt = std::fs::read_dir(&records).unwrap().flatten().next().unwrap();
    let record = std::fs::read(attempt.path().join("assignment")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    let words = record["card_limits"]["set"].as_array().unwrap().iter();
    let attempt = attempt.file_name().into_string().unwrap();
    let words: Vec<String> =
        words.map(|word| word.as_str().unwrap().replace(&attempt, "ax-2026-9999.78")).collect();
    world.ends(&job, ALICE, "a");
    let late = std::process::Command::new(&words[0]).args(&words[1..]).output().unwrap();
    assert!(!late.status.success());
    assert!(String::from_utf8_lossy(&late.stderr).contains("ax-2026-9999.78 has ended"), "{late:?}");
    assert!(world.is_clean(), "{:?} {:?}", world.servers(), world.seats());
    assert_eq!(world.starts().len(), 1);
}

/// The driver would limit its card, for a daemon that came after it began: it is under MPS and watched as before.
#[test]
fn who_is_under_mps_is_watched_by_a_later_daemon_that_has_the_driver_for_its_card_as_root() {
    let refuses = format!("{TWO}fail nvmlDeviceSetMemoryLimits_v1 3\n");
    let Some(there) = crate::card_limits::unified(&refuses, "") else { return };
    let mut world = World::of(there, "", USUAL);
    let script = format!(
        "#!/bin/sh\necho $AX_GPU_ENFORCE >rung; while [ ! -e go ]; do sleep 0.05; done\n\
         echo \"process $$ GPU-aaaa 29755\" >> {}\nexec sleep 1000\n",
        world.fake.script().display()
    );
    let job = world.submit(ALICE, &script);
    world.cluster.wait_state(&job, &["RUNNING"]);
    wait_for("it to begin", || world.cluster.home(ALICE).join("rung").exists());
    assert_eq!(world.cluster.read(ALICE, "rung"), "mps\n");
    world.cluster.kill();
    world.fake.set(TWO);
    world.cluster.start();
    wait_for("the driver to be relied on", || card(&world.cluster, "GPU-bbbb")["limit"] == "driver");
    assert_eq!(card(&world.cluster, "GPU-aaaa")["limit"], "mps");
    world.cluster.write(ALICE, "go", "");
    assert_eq!(world.cluster.wait_over(&job)["state"], "OUT_OF_MEMORY", "nobody else holds it to its slice");
    wait_for("all to be gone", || world.is_clean());
}
