//! What users put into the folders that they have of the MPS daemon of a card, which root looks at: links, folders without
//! end, whatever fills them, and file systems that answer never.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::card_mps::{USUAL, World};
use crate::cluster::{
    ALICE, BOB, command_line, mounts_below, processes, signal, supervisor_of, unmount_below, wait_for,
};
use crate::leased::Leased;
use crate::never::Never;

/// As in most containers.
const MAY_NOT_MOUNT: &[&str] = &["/usr/bin/setpriv", "--bounding-set=-sys_admin"];

fn mount(place: &Path) {
    let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(place).status();
    assert!(mount.unwrap().success());
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
    for wrapper in [&[][..], MAY_NOT_MOUNT] {
        whatever_a_user_puts_in_the_way(wrapper);
    }
}

fn whatever_a_user_puts_in_the_way(wrapper: &[&str]) {
    let Some(world) = World::with(wrapper, "", USUAL) else { return };
    let cluster = &world.cluster;
    let deep = "i=0; while [ $i -lt 1500 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; : >file";
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
    mount(&pipe);
    cluster.write(ALICE, "a", "");
    cluster.wait_state(&holds, &["SUCCEEDED"]);
    let seat = cluster.root.join("run/ax/mps/GPU-aaaa");
    wait_for("it to be set aside", || !seat.join("daemon").exists());
    let other = world.runs(BOB, "b");
    assert!(world.starts().contains(&"2 GPU-aaaa".to_owned()), "{:?}", world.starts());
    assert!(cluster.read(BOB, "b.env").contains("CUDA_MPS_PIPE_DIRECTORY"));
    if wrapper.is_empty() {
        assert!(!seat.join("remains").exists(), "it went with what it was in");
    } else {
        let remains: Vec<_> = std::fs::read_dir(seat.join("remains")).unwrap().flatten().collect();
        assert_eq!(
            (remains.len(), std::fs::metadata(seat.join("remains")).unwrap().mode() & 0o777),
            (1, 0o700)
        );
        assert_eq!(unmount_below(&cluster.root), 1, "it went with what was set aside");
    }
    world.ends(&other, BOB, "b");
    wait_for("all to be gone", || world.is_clean());
}

#[test]
fn a_sweep_that_fails_is_tried_again_as_root() {
    let Some(mut world) = World::new("", USUAL) else { return };
    world.cluster.kill();
    let mounted = world.cluster.root.join("run/ax/mps/GPU-aaaa/remains/1/pipe");
    std::fs::create_dir_all(&mounted).unwrap();
    mount(&mounted);
    world.cluster.start();
    wait_for("it to fail", || world.cluster.log().contains("remains/1/pipe"));
    assert_eq!(unmount_below(&world.cluster.root), 1);
    wait_for("all to be gone", || world.is_clean());
}

/// So much: 32 MiB and 4096 names, whatever the job may use.
#[test]
fn what_a_user_writes_there_is_bounded_and_goes_whoever_dies_as_root() {
    let Some(mut world) = World::new("", USUAL) else { return };
    let fills = "#!/bin/sh\ndd if=/dev/zero of=$CUDA_MPS_PIPE_DIRECTORY/big bs=1M count=100 2>said\n\
                 stat -c %s $CUDA_MPS_PIPE_DIRECTORY/big >size\nrm $CUDA_MPS_PIPE_DIRECTORY/big\n\
                 cd $CUDA_MPS_LOG_DIRECTORY\ni=0; while [ $i -lt 9000 ] && true >f$i; do i=$((i+1)); done 2>/dev/null\n\
                 cd; echo $i >count; while [ ! -e a ]; do sleep 0.05; done\n";
    let job = world.submit(ALICE, fills);
    wait_for("it to be full", || !world.cluster.read(ALICE, "count").is_empty());
    let number = |file| world.cluster.read(ALICE, file).trim().parse::<u64>().unwrap();
    let (size, count) = (number("size"), number("count"));
    assert!(size > 30 << 20 && size <= 32 << 20, "{size}: {}", world.cluster.read(ALICE, "said"));
    assert!(count > 4000 && count < 4096, "{count}");
    let home = world.cluster.root.join("run/ax/mps/GPU-aaaa/daemon");
    assert_eq!(mounts_below(&world.cluster.root), [home.display().to_string()]);
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(&home.display().to_string())).unwrap();
    for option in ["nosuid", "nodev", "noexec"] {
        assert!(line.contains(option), "{line}");
    }
    // A second one of the user's has the same, full as it is.
    let second = world.submit(ALICE, "#!/bin/sh\nls $CUDA_MPS_LOG_DIRECTORY | wc -l >second\n");
    world.cluster.wait_state(&second, &["SUCCEEDED"]);
    assert_eq!(number("second"), count);
    world.cluster.kill();
    signal(supervisor_of(&world.cluster, &job).unwrap(), "KILL");
    wait_for("the watchdog to end it", || world.cluster.job_processes().is_empty());
    world.cluster.start();
    wait_for("all to be gone", || world.is_clean());
}

#[test]
fn where_axd_may_not_mount_there_is_mps_and_it_is_said_that_nothing_bounds_it_as_root() {
    let Some(world) = World::with(MAY_NOT_MOUNT, "", USUAL) else { return };
    let job = world.runs(ALICE, "a");
    assert!(world.cluster.read(ALICE, "a.env").contains("CUDA_MPS_PIPE_DIRECTORY"));
    assert!(mounts_below(&world.cluster.root).is_empty());
    let log = world.cluster.log();
    assert!(log.contains("axd may not mount here"), "{log}");
    world.ends(&job, ALICE, "a");
    wait_for("all to be gone", || world.is_clean());
    let usual = World::new("", USUAL).unwrap();
    assert!(!usual.cluster.log().contains("may not mount"), "{}", usual.cluster.log());
}

/// Where the daemon should open its door: a file system in place of the folder, one in place of the door, a link, a pipe
/// that nobody reads. The first three are nobody's trouble but their owner's; the last is a door.
#[test]
fn whoever_lets_root_look_at_what_never_answers_holds_nobody_up_as_root() {
    if !Never::is_possible() {
        return;
    }
    for (what, prepare, place, rung) in [
        ("a folder", "true", Some(""), "env"),
        ("a door", "mkdir $pipe/control", Some("control"), "env"),
        ("a link", "ln -s /proc/1/root/nowhere $pipe/control", None, "env"),
        ("a pipe", "mkfifo $pipe/control", None, "mps"),
    ] {
        let waits = format!(
            "here=${{0%/*}}; if [ $(id -u) = 2 ]; then {prepare}; echo prepared >>$here/log\n\
             while [ ! -e $here/go ]; do sleep 0.05; done; exit; fi"
        );
        let Some(world) = World::new(&waits, USUAL) else { return };
        let job = world.submit(BOB, "#!/bin/sh\necho $AX_GPU_ENFORCE >seen\n");
        wait_for("the control program to have its turn", || world.log().contains("prepared"));
        let pipe = world.cluster.root.join("run/ax/mps/GPU-aaaa/daemon/pipe");
        let _never = place.map(|place| Never::at(&pipe.join(place)));
        std::fs::write(world.folder.join("go"), "").unwrap();
        world.cluster.wait_state(&job, &["SUCCEEDED"]);
        assert_eq!(world.cluster.read(BOB, "seen"), format!("{rung}\n"), "{what}: {}", world.cluster.log());
        let other = world.runs(ALICE, "a");
        assert!(world.starts().contains(&"1 GPU-aaaa".to_owned()), "{what}: {:?}", world.starts());
        world.ends(&other, ALICE, "a");
        wait_for("all to be gone", || world.is_clean());
    }
}

/// The child that becomes the control program is its user's before it does: who keeps it there keeps the card from nobody.
#[test]
fn who_is_kept_on_the_way_to_the_control_program_has_no_lock_and_goes_with_its_parent_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let lease = Leased::new(&world.folder.join("nvidia-cuda-mps-control"));
    let job = world.submit(ALICE, "#!/bin/sh\ntrue\n");
    wait_for("its exec to wait", || lease.is_wanted());
    let own = cluster.root.display().to_string();
    let starts = |pid: &u32| {
        let line = command_line(*pid);
        line.contains("--mps start") && line.contains(&own)
    };
    // Both go by that name until the child has executed.
    let parent =
        processes().find(|pid| starts(pid) && processes().any(|other| parent_of(other) == Some(*pid)));
    signal(parent.unwrap(), "KILL");
    wait_for("it to be gone, and what it held", || !processes().any(|pid| starts(&pid)) && world.is_clean());
    assert!(lease.is_wanted(), "only as the kernel took the lease away");
    drop(lease);
    // Where there was no daemon for her she does without.
    cluster.wait_state(&job, &["SUCCEEDED"]);
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Mounted in a job's folders by a user who goes on answering nothing: it goes with the folders, at once, and nobody hangs.
#[test]
fn ten_file_systems_that_never_answer_leave_no_process_of_root_s_as_root() {
    if !Never::is_possible() {
        return;
    }
    let Some(world) = World::new("", USUAL) else { return };
    let pipe = world.cluster.root.join("run/ax/mps/GPU-aaaa/daemon/pipe/never");
    let mut all = Vec::new();
    for round in 0..10 {
        let until = format!("go{round}");
        let job = world.runs(BOB, &until);
        std::fs::create_dir(&pipe).unwrap();
        all.push(Never::at(&pipe));
        world.ends(&job, BOB, &until);
        assert!(mounts_below(&world.cluster.root).is_empty(), "{round}");
    }
    let own = world.cluster.root.display().to_string();
    let of_root = |pid: &u32| {
        let line = command_line(*pid);
        line.contains("--unmount") && line.contains(&own)
    };
    assert_eq!(processes().find(of_root), None);
    assert_eq!(world.starts(), vec!["2 GPU-aaaa"; 10], "each time as if nothing had been");
    wait_for("all to be gone", || world.is_clean());
}

/// Should one hang all the same, its user has no new folders until it has ended: there is one of them for each card at most.
#[test]
fn whose_folders_can_t_be_unmounted_has_no_new_ones_and_others_have_as_root() {
    let Some(world) = World::new("", USUAL) else { return };
    let cluster = &world.cluster;
    let first = world.runs(ALICE, "a");
    world.ends(&first, ALICE, "a");
    let busy = cluster.root.join("run/ax/mps/unmounting-1.lock");
    let lock = std::fs::File::create(&busy).unwrap();
    // What unmounts says so as long as it takes.
    lock.lock().unwrap();
    let empty = cluster.root.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let unmounting = || {
        let mut axd = Command::new(cluster.program("axd"));
        axd.arg("--unmount").arg(&empty).arg("--busy").arg(&busy).spawn().unwrap()
    };
    assert!(unmounting().wait().unwrap().success(), "it does not wait for ever");
    let mut axd = unmounting();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(axd.try_wait().unwrap(), None, "it waits for the lock");
    lock.unlock().unwrap();
    assert!(axd.wait().unwrap().success());
    // As if it hung.
    lock.lock_shared().unwrap();
    let job = world.submit(ALICE, "#!/bin/sh\necho $AX_GPU_ENFORCE >seen\n");
    cluster.wait_state(&job, &["SUCCEEDED"]);
    assert_eq!(cluster.read(ALICE, "seen"), "env\n");
    let told = cluster.job(&job).to_string();
    assert!(told.contains("an earlier MPS daemon can't be unmounted yet"), "{told}");
    assert_eq!(world.starts(), ["1 GPU-aaaa"]);
    let other = world.runs(BOB, "b");
    assert_eq!(world.starts(), ["1 GPU-aaaa", "2 GPU-aaaa"]);
    world.ends(&other, BOB, "b");
    drop(lock);
    cluster.run(crate::cluster::ROOT, "ax", &["reload"]);
    let again = world.runs(ALICE, "c");
    assert_eq!(world.starts().last().unwrap(), "1 GPU-aaaa");
    world.ends(&again, ALICE, "c");
    wait_for("all to be gone", || world.is_clean());
}

/// A user's own processes may kill the daemon that runs as that user, before it answers and after: that is the user's trouble.
#[test]
fn whoever_kills_their_own_mps_daemons_holds_up_nobody_else_as_root() {
    let kills = "here=${0%/*}; [ $(id -u) != 1 ] || [ -e $here/spare ] || kill -9 $$";
    let Some(world) = World::new(kills, USUAL) else { return };
    let cluster = &world.cluster;
    // More than make a node rest that can start nothing, on both cards.
    let jobs: Vec<String> =
        (0..8).map(|n| world.submit(ALICE, &format!("#!/bin/sh\necho $AX_GPU_ENFORCE >rung{n}\n"))).collect();
    let bob = world.runs(BOB, "b");
    assert!(cluster.read(BOB, "b.env").contains("CUDA_MPS_PIPE_DIRECTORY"), "{}", cluster.log());
    let plain = cluster.submit(BOB, &["-c", "1", "--gpus", "1", "--mem", "10G"], "#!/bin/sh\ntrue\n");
    cluster.wait_state(&plain, &["SUCCEEDED"]);
    for (n, job) in jobs.iter().enumerate() {
        cluster.wait_state(job, &["SUCCEEDED"]);
        assert_eq!(cluster.read(ALICE, &format!("rung{n}")), "env\n", "{job}");
    }
    let log = cluster.log();
    assert!(log.contains("limit_fell") && log.contains("it was ended by signal 9"), "{log}");
    let nodes = cluster.run(crate::cluster::ROOT, "ax", &["node", "list", "--json"]).out;
    assert!(nodes.contains("\"state\":\"up\"") || nodes.contains("\"state\": \"up\""), "{nodes}");
    assert!(!nodes.contains("could not start"), "{nodes}");
    let vain = world.starts().iter().filter(|start| start.starts_with("1 ")).count();
    assert!(vain <= 4, "it is not tried for each job: {:?}", world.starts());
    world.ends(&bob, BOB, "b");
    // One that runs: its jobs go on, and the next user has the card.
    std::fs::write(world.folder.join("spare"), "").unwrap();
    cluster.run(crate::cluster::ROOT, "ax", &["reload"]);
    let killer = world.submit(
        ALICE,
        "#!/bin/sh\nkill -9 $(cat $CUDA_MPS_PIPE_DIRECTORY/server) && rm $CUDA_MPS_PIPE_DIRECTORY/control\n         echo $AX_GPU_ENFORCE >killed; while [ ! -e over ]; do sleep 0.05; done\n",
    );
    wait_for("her daemon to be dead", || cluster.home(ALICE).join("killed").exists());
    assert_eq!(cluster.read(ALICE, "killed"), "mps\n");
    let second = world.submit(ALICE, "#!/bin/sh\ntrue\n");
    cluster.wait_state(&second, &["SUCCEEDED"]);
    assert_eq!(cluster.state(&killer), "RUNNING");
    world.ends(&killer, ALICE, "over");
    let next = world.runs(BOB, "n");
    assert_eq!(world.starts().last().unwrap(), "2 GPU-aaaa");
    world.ends(&next, BOB, "n");
    wait_for("all to be gone", || world.is_clean());
}
