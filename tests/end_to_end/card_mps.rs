//! Queues whose slices are under MPS: the card's daemon is there before the first of them runs and until the last has
//! gone, whoever has died meanwhile, as their user, and for nobody else's. The control program is a script that writes
//! down what it is asked; its server writes itself into the table of the library that plays the driver's.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use crate::cards::card;
use crate::cluster::{
    ALICE, BOB, Cluster, ROOT, as_root, command_line, processes, signal, supervisor_of, wait_for,
};
use crate::fake_cards::{FakeCards, TWO};

const QUEUES: &str = "queues:\n  - name: default\n  - name: shared\n    mps: true\n";

struct World {
    cluster: Cluster,
    fake: FakeCards,
    folder: PathBuf,
}

/// What the control program does besides: a line of shell for each question.
const USUAL: &str = "quit) kill $(cat $CUDA_MPS_PIPE_DIRECTORY/server) ;;";

impl World {
    /// A running daemon, whose MPS control program does this when it is to start one.
    fn new(before: &str, questions: &str) -> Option<World> {
        if !as_root() {
            return None;
        }
        let mut cluster = Cluster::stopped("");
        let fake = FakeCards::new(&cluster, TWO);
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
        Some(World { cluster, fake, folder })
    }

    /// A job under MPS that runs until a file of this name is there, once it does.
    fn runs(&self, user: crate::cluster::User, until: &str) -> String {
        let script = format!(
            "#!/bin/sh\nenv | grep ^CUDA_ >{until}.env\nls -ldn $CUDA_MPS_PIPE_DIRECTORY >{until}.dir\n\
            touch $CUDA_MPS_PIPE_DIRECTORY/mine; while [ ! -e {until} ]; do sleep 0.05; done\n"
        );
        let job = self.submit(user, &script);
        self.cluster.wait_state(&job, &["RUNNING"]);
        job
    }

    fn submit(&self, user: crate::cluster::User, script: &str) -> String {
        self.cluster.submit(
            user,
            &["-q", "shared", "--no-requeue", "-c", "1", "--gpus", "1", "--mem", "20G"],
            script,
        )
    }

    fn ends(&self, job: &str, user: crate::cluster::User, until: &str) {
        self.cluster.write(user, until, "");
        self.cluster.wait_state(job, &["SUCCEEDED"]);
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    fn starts(&self) -> Vec<String> {
        self.log().lines().filter_map(|line| line.strip_prefix("start ")).map(str::to_owned).collect()
    }

    /// The processes of the servers of this world, as `ps` shows them.
    fn servers(&self) -> Vec<u32> {
        let listed = std::fs::read_to_string(self.fake.script()).unwrap();
        let own =
            |pid: &u32| listed.contains(&format!("process {pid} ")) && command_line(*pid).contains("98765");
        processes().filter(own).collect()
    }

    fn seats(&self) -> Vec<String> {
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

    fn is_clean(&self) -> bool {
        self.servers().is_empty() && self.seats().is_empty() && self.groups() == 0
    }
}

/// What is mounted below a folder does not outlive the test.
struct Mounts(PathBuf);

impl Mounts {
    fn add(&self, place: &std::path::Path) {
        let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place).status();
        assert!(mount.unwrap().success());
    }

    /// How many there were.
    fn clear(&self) -> usize {
        let all = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let places = all.lines().filter_map(|line| line.split(' ').nth(1));
        let ours = places.filter(|place| std::path::Path::new(place).starts_with(&self.0));
        ours.filter(|place| {
            std::process::Command::new("umount").arg(place).status().is_ok_and(|status| status.success())
        })
        .count()
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        self.clear();
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
    let Some(world) = World::new(fails, USUAL) else { return };
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

#[test]
fn nothing_that_a_user_says_or_leaves_there_moves_root_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let precious = cluster.root.join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "").unwrap();
    let script = format!(
        "#!/bin/sh\necho $CUDA_MPS_PIPE_DIRECTORY >pipe\ncd $CUDA_MPS_PIPE_DIRECTORY\n\
         ln -s {0} link; ln -s {0}/file server2; rm -f control; ln -s /nowhere control; mkdir -p a/b; mv ../log ../gone 2>/dev/null\n\
         ls .. >/dev/null 2>&1 && echo listed >>$OLDPWD/pipe\ntrue\n",
        precious.display()
    );
    let mut command = cluster.command(ALICE, cluster.program("axbatch"));
    command
        .env("CUDA_MPS_PIPE_DIRECTORY", "/tmp/theirs")
        .env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "GPU-aaaa=99G");
    let file = cluster.write(ALICE, "script", &script);
    let options = ["--parsable", "-q", "shared", "-c", "1", "--gpus", "1", "--mem", "20G"];
    let ran = crate::cluster::ran(command.args(options).arg(file).output().unwrap());
    cluster.wait_state(ran.out.trim(), &["SUCCEEDED"]);
    let pipe = format!("{}\n", cluster.root.join("run/ax/mps/GPU-aaaa/daemon/pipe").display());
    assert_eq!(cluster.read(ALICE, "pipe"), pipe, "ax's, and what is above can't be listed");
    wait_for("all to be gone", || world.is_clean());
    assert!(precious.join("file").exists(), "no link is followed");
}

/// Folders deeper than files may be open, and a file system of their own.
#[test]
fn whatever_a_user_puts_in_the_way_others_have_the_card_under_mps_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let deep = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit 1; : >file; i=$((i+1)); done";
    let script = format!(
        "#!/bin/sh\nset -e\ncd $CUDA_MPS_PIPE_DIRECTORY\n({deep})\nmkdir ../log/own; rmdir ../log/own\n\
         cd $CUDA_MPS_LOG_DIRECTORY\n({deep})\ncd\necho done >done\n"
    );
    let job = world.submit(ALICE, &script);
    cluster.wait_state(&job, &["SUCCEEDED"]);
    assert_eq!(cluster.read(ALICE, "done"), "done\n");
    wait_for("all to be gone", || world.is_clean());
    // And one with something in it that can't be removed.
    let holds = world.runs(ALICE, "a");
    let pipe = cluster.root.join("run/ax/mps/GPU-aaaa/daemon/pipe");
    let mounts = Mounts(cluster.root.clone());
    mounts.add(&pipe);
    cluster.write(ALICE, "a", "");
    cluster.wait_state(&holds, &["SUCCEEDED"]);
    let seat = cluster.root.join("run/ax/mps/GPU-aaaa");
    wait_for("it to be set aside", || !seat.join("daemon").exists());
    let other = world.runs(BOB, "b");
    assert!(world.starts().contains(&"2 GPU-aaaa".to_owned()), "{:?}", world.starts());
    assert!(cluster.read(BOB, "b.env").contains("CUDA_MPS_PIPE_DIRECTORY"));
    let remains: Vec<_> = std::fs::read_dir(seat.join("remains")).unwrap().flatten().collect();
    assert_eq!((remains.len(), std::fs::metadata(seat.join("remains")).unwrap().mode() & 0o777), (1, 0o700));
    assert_eq!(mounts.clear(), 1, "it went with what was set aside");
    world.ends(&other, BOB, "b");
    wait_for("all to be gone", || world.is_clean());
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

#[test]
fn a_sweep_that_fails_is_tried_again_as_root() {
    let Some(mut world) = World::new("", USUAL) else { return };
    world.cluster.kill();
    let mounted = world.cluster.root.join("run/ax/mps/GPU-aaaa/remains/1/pipe");
    std::fs::create_dir_all(&mounted).unwrap();
    let mounts = Mounts(world.cluster.root.clone());
    mounts.add(&mounted);
    world.cluster.start();
    wait_for("it to fail", || world.cluster.log().contains("remains/1/pipe"));
    assert_eq!(mounts.clear(), 1);
    wait_for("all to be gone", || world.is_clean());
}
