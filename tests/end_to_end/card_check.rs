//! `tests/gpu/check.sh`, which is for machines with a card, tried on one without: with stand-ins for what it finds there
//! (`tests/gpu/standin`). Whatever is there or lacks, each of its rows says what came of it, it ends in time, and nothing
//! of it is left.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cluster::{
    Cluster, Ran, as_root, command_line, groups, mounts_below, processes, signal, wait_for,
};
use crate::fake_cards::FakeCards;

const CARD: &str = "driver 580.1\ncard GPU-aaaa name=NVIDIA_H200 minor=7 pci=00000000:3B:00.0 memory=143771 \
    reserved=600 temp=34 power=61000 load=0 ecc=0 rows=0,0,0,0";

/// A card that is divided.
const PARTS: &str = "mig=on\nmig MIG-1 parent=GPU-aaaa gi=1 ci=0 profile=1g.18gb slices=1 memory=16384";

/// What can never be proved by the check, whatever is there.
const NEVER: [&str; 3] = ["MIG: ", "several cards in one job", "Xids and memory errors of the hardware"];

/// What a machine has.
struct Machine {
    tool: bool,
    torch: bool,
    mps: bool,
    /// What the driver does not say of processes: their `STANDIN_PIDS`.
    silence: &'static str,
    /// More of the card.
    card: &'static str,
    /// Mounts in its own name space.
    mounts: &'static str,
    settings: &'static str,
}

const WHOLE: Machine =
    Machine { tool: true, torch: true, mps: true, silence: "", card: "", mounts: "", settings: "" };

/// A machine with the check on it.
struct World {
    machine: Machine,
    cluster: Cluster,
    fake: FakeCards,
}

impl World {
    fn new(machine: Machine) -> World {
        let cluster = Cluster::stopped("");
        let fake = FakeCards::new(&cluster, &format!("{CARD} {}\n", machine.card));
        let settings = format!("resources:\n  gpu_sample: 100ms\n{}", machine.settings);
        std::fs::write(cluster.root.join("settings"), settings).unwrap();
        std::fs::write(cluster.root.join("devices"), "Character devices:\n195 nvidia\n").unwrap();
        std::fs::create_dir(cluster.root.join("dev")).unwrap();
        World { machine, cluster, fake }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cluster.root.join(name)
    }

    /// The check, with these words, in a mount name space where there is a card's device file.
    fn command(&self, words: &[&str]) -> Command {
        let (root, machine) = (self.cluster.root.display(), &self.machine);
        let mut mounts = format!(
            "mount --make-rprivate / && cp -a /dev/null /dev/zero /dev/random /dev/urandom /dev/full /dev/tty {root}/dev && \
             mknod -m666 {root}/dev/nvidia7 c 195 7 && mknod -m666 {root}/dev/nvidiactl c 195 255 && \
             ln -s /proc/self/fd {root}/dev/fd && mkdir {root}/dev/shm && \
             mount --bind {root}/devices /proc/devices && mount --bind {root}/dev /dev && "
        );
        write!(mounts, "{}exec \"$@\"", machine.mounts).unwrap();
        let mut path = String::from("/usr/sbin:/usr/bin:/sbin:/bin");
        for (there, folder) in [(machine.tool, "bin"), (machine.mps, "mps")] {
            if there {
                path = format!("{}:{path}", standin(folder).display());
            }
        }
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &mounts, "sh", "bash"]).args(words);
        command.env_clear().env("PATH", path).env("TMPDIR", &self.cluster.root).env("QUICK", "1");
        command.env("STANDIN_SCRIPT", self.fake.script()).env("NVML", &self.fake.library);
        command.env("SETTINGS", self.path("settings")).current_dir("/").stdin(Stdio::null());
        if machine.torch {
            command.env("PYTHONPATH", standin(""));
        }
        if !machine.silence.is_empty() {
            command.env("STANDIN_PIDS", machine.silence);
        }
        command
    }

    /// What it says, with the programs where they were built.
    fn checked(&self) -> Ran {
        self.run(&mut self.command(&[&check(), &programs()]))
    }

    fn run(&self, command: &mut Command) -> Ran {
        let mut hide = (!self.machine.silence.is_empty()).then(|| {
            Command::new(standin("hide")).env("STANDIN_SCRIPT", self.fake.script()).spawn().unwrap()
        });
        let ran = crate::cluster::ran(command.output().unwrap());
        if let Some(hide) = &mut hide {
            hide.kill().unwrap();
            hide.wait().unwrap();
        }
        self.nothing_is_left();
        ran
    }

    /// Nor in the groups, which all name spaces share.
    fn nothing_is_left(&self) {
        let root = self.cluster.root.display().to_string();
        let left: Vec<String> = std::fs::read_dir(&self.cluster.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("axg."))
            .collect();
        assert_eq!(left, Vec::<String>::new());
        let running =
            || processes().map(command_line).filter(|line| line.contains(&root)).collect::<Vec<_>>();
        wait_for("its processes to be gone", || running().is_empty());
        assert_eq!(mounts_below(&self.cluster.root), Vec::<String>::new());
    }
}

fn standin(what: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/standin").join(what)
}

fn check() -> String {
    format!("{}/tests/gpu/check.sh", env!("CARGO_MANIFEST_DIR"))
}

fn programs() -> String {
    Path::new(env!("CARGO_BIN_EXE_axd")).parent().unwrap().display().to_string()
}

/// Its rows: what came of each, and which.
fn rows(ran: &Ran) -> Vec<(&str, &str)> {
    let kinds = ["ok", "FAILED", "not provable   here:"];
    ran.out
        .lines()
        .filter_map(|line| kinds.iter().find_map(|kind| Some((*kind, line.strip_prefix(kind)?.trim_start()))))
        .collect()
}

/// The rows that ended so, but for those that always end as not provable.
fn ended<'r>(ran: &'r Ran, how: &str) -> Vec<&'r str> {
    let all = rows(ran).into_iter().filter(|(kind, _)| kind.starts_with(how)).map(|(_, row)| row);
    all.filter(|row| !NEVER.iter().any(|never| row.starts_with(never))).collect()
}

/// Row by row as many as there are, and the last line counts them.
#[track_caller]
fn all_rows(ran: &Ran) {
    let of = |how| rows(ran).iter().filter(|(kind, _)| kind.starts_with(how)).count();
    let (ok, failed, not) = (of("ok"), of("FAILED"), of("not"));
    assert!(
        ran.out.contains(&format!("\n{ok} proved, {failed} failed, {not} not provable here; ")),
        "{ran:?}"
    );
    let tries = std::fs::read_to_string(standin("../rows.sh")).unwrap();
    let tries = tries.lines().filter(|line| line.starts_with("try ")).count();
    assert!(ok + failed + not >= 1 + tries + 2, "{ok} + {failed} + {not} of {tries}: {ran:?}");
    assert_eq!(ran.code, i32::from(failed > 0), "{ran:?}");
}

#[test]
fn all_rows_are_proved_on_a_machine_that_has_everything_slow_as_root() {
    if !as_root() {
        return;
    }
    let world = World::new(WHOLE);
    // As it is carried: into a folder with nothing else.
    let carried = world.path("carried");
    let packed = Command::new(check()).arg("--pack").arg(&carried).arg(programs()).output().unwrap();
    assert!(packed.status.success(), "{packed:?}");
    let ran = world.run(&mut world.command(&[carried.join("check.sh").to_str().unwrap()]));
    all_rows(&ran);
    let not = ended(&ran, "not");
    assert!(ended(&ran, "FAILED").is_empty() && not.len() == 1, "{ran:?}");
    assert!(not[0].contains("limit on a control group") && not[0].contains("version 1"), "{not:?}");
}

#[test]
fn what_lacks_costs_the_rows_that_need_it_and_fails_none_slow_as_root() {
    if !as_root() {
        return;
    }
    let no_groups = "umount -l -R /sys/fs/cgroup && mount -t tmpfs -o ro none /sys/fs/cgroup && ";
    let machines = [
        ("no PyTorch", Machine { torch: false, ..WHOLE }, 7, "has no PyTorch that sees a card"),
        ("no tool", Machine { tool: false, mps: false, ..WHOLE }, 1, "no nvidia-smi"),
        ("no pids", Machine { silence: "hidden", mps: false, ..WHOLE }, 10, "which process has memory"),
        (
            "no sizes",
            Machine { silence: "bare", mps: false, ..WHOLE },
            10,
            "which process has memory, or how much",
        ),
        ("parts", Machine { card: PARTS, ..WHOLE }, 1, "the card is divided (MIG)"),
        ("no groups", Machine { mounts: no_groups, ..WHOLE }, 10, "no control groups"),
    ];
    std::thread::scope(|scope| {
        for (what, machine, proved, why) in machines {
            scope.spawn(move || {
                let ran = World::new(machine).checked();
                all_rows(&ran);
                assert_eq!(ended(&ran, "FAILED"), Vec::<&str>::new(), "{what}: {ran:?}");
                assert_eq!(ended(&ran, "ok").len(), proved, "{what}: {ran:?}");
                assert!(ended(&ran, "not").iter().any(|row| row.contains(why)), "{what}: {ran:?}");
            });
        }
    });
}

#[test]
fn a_promise_that_does_not_hold_is_a_row_that_failed_and_the_others_are_tried_slow_as_root() {
    if !as_root() {
        return;
    }
    let ran = World::new(Machine { settings: "  gpu_foreign_bound: 100G\n", ..WHOLE }).checked();
    all_rows(&ran);
    let failed = ended(&ran, "FAILED");
    assert!(failed.len() == 1 && failed[0].contains("held by a stranger"), "{ran:?}");
    assert!(ran.out.contains("started beside a stranger") && ran.err.contains("the daemon's log"), "{ran:?}");
}

#[test]
fn a_driver_that_hangs_costs_rows_and_no_more_than_the_time_that_there_is_slow_as_root() {
    if !as_root() {
        return;
    }
    let world = World::new(WHOLE);
    let mut command = world.command(&[&check(), &programs()]);
    let began = Instant::now();
    let child = started(command.env("LIMIT", "25"));
    wait_for("the daemon to start", || !groups_of(&world).is_empty());
    std::fs::write(world.path("hang"), "").unwrap();
    let ran = crate::cluster::ran(child.wait_with_output().unwrap());
    all_rows(&ran);
    assert!(rows(&ran).iter().any(|(_, row)| row.contains("no time left")), "{ran:?}");
    // With its own limit, 360, it is over before eight minutes are.
    assert!(began.elapsed() < Duration::from_secs(25 + 480 - 360), "{:?}", began.elapsed());
    world.nothing_is_left();
}

/// As on a machine with an older library of C, where the loader says so.
#[test]
fn programs_that_do_not_run_there_are_no_row_that_failed_as_root() {
    if !as_root() {
        return;
    }
    let world = World::new(WHOLE);
    let carried = world.path("carried");
    std::fs::create_dir(&carried).unwrap();
    for program in ["axd", "axrun", "axctl", "ax", "axbatch"] {
        let file = carried.join(program);
        std::fs::write(&file, "#!/bin/sh\necho 'version `GLIBC_2.34` not found' >&2; exit 1\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let ran = world.run(&mut world.command(&[&check(), carried.to_str().unwrap()]));
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("axd does not run on this machine: version `GLIBC_2.34` not found"), "{ran:?}");
}

#[test]
fn whoever_ends_it_leaves_nothing_behind_slow_as_root() {
    if !as_root() {
        return;
    }
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let world = World::new(WHOLE);
        let child = started(&mut world.command(&[&check(), &programs()]));
        // In the middle of a row with jobs on the card.
        let script = world.fake.script().to_owned();
        let takes =
            || std::fs::read_to_string(&script).unwrap_or_default().matches("\nprocess ").count() >= 3;
        wait_for("processes on the card", takes);
        assert!(!groups_of(&world).is_empty());
        signal(child.id(), name);
        let ran = crate::cluster::ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("interrupted") && ran.out.contains(" proved, "), "{ran:?}");
        assert_eq!(groups_of(&world), Vec::<PathBuf>::new());
        world.nothing_is_left();
    }
}

fn started(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The control groups of the check's own daemon.
fn groups_of(world: &World) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(&world.cluster.root).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| groups(&path.join("r/run/ax"))).collect()
}
