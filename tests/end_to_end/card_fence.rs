//! Which cards a job can open, tried with real device files: those that it was given and no others, whatever it says
//! of itself and whoever dies. No driver is behind the files, so one that may be opened says ENXIO, another EPERM.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, signal, supervisor_of, wait_for};
use crate::fake_cards::{FakeCards, TWO};

/// Name, major, minor. Card 0 is `nvidia1`, and there is a third card that the library does not show.
const FILES: [(&str, u32, u32); 12] = [
    ("cap12", 235, 12),
    ("cap13", 235, 13),
    ("cap21", 235, 21),
    ("cap22", 235, 22),
    ("nvidia0", 195, 0),
    ("nvidia1", 195, 1),
    ("nvidia2", 195, 2),
    ("nvidiactl", 195, 255),
    ("uvm", 511, 0),
    ("dri1", 226, 1),
    ("dri2", 226, 2),
    ("dri3", 226, 3),
];
const DEVICES: &str =
    "Character devices:\n  1 mem\n195 nvidia\n235 nvidia-caps\n511 nvidia-uvm\n\nBlock devices:\n  7 loop\n";
/// Card 0 is divided; its parts are known by the number of its file.
const PARTS: &str = "\
card GPU-aaaa name=NVIDIA_A100-SXM4-80GB minor=1 pci=00000000:3B:00.0 memory=81920 mig=on
mig MIG-1 parent=GPU-aaaa gi=1 ci=0 profile=1g.10gb slices=1 memory=9728
mig MIG-2 parent=GPU-aaaa gi=2 ci=0 profile=2g.20gb slices=2 memory=19456
card GPU-bbbb name=NVIDIA_A100-SXM4-80GB minor=0 pci=00000000:86:00.0 memory=81920
";
const MIG_MINORS: &str = "config 1\nmonitor 2\ngpu1/gi1/access 12\ngpu1/gi1/ci0/access 13\ngpu1/gi2/access 21\n\
    gpu1/gi2/ci0/access 22\ngpu0/gi1/access 147\n";

const EVERYTHING: &str = "cap12 cap13 cap21 cap22 dri1 dri2 dri3 nvidia0 nvidia1 nvidia2 nvidiactl uvm";

/// A world with two cards and files for them, and what the kernel says of devices in the hands of the test.
struct World {
    cluster: Cluster,
    dev: PathBuf,
    /// In the place of `/proc/devices`.
    devices: PathBuf,
}

impl World {
    fn new(resources: &str) -> World {
        World::of(TWO, resources, "")
    }

    /// With these cards, the daemon behind these words.
    fn of(cards: &str, resources: &str, words: &str) -> World {
        World::on(cards, resources, words, "")
    }

    /// With control groups of version 1 alone, as older systems have them.
    fn legacy(cards: &str, resources: &str) -> Option<World> {
        const UNIFIED: &str = "/sys/fs/cgroup/unified";
        if !std::path::Path::new("/sys/fs/cgroup/devices").exists() {
            eprintln!("skipped: needs control groups of version 1");
            return None;
        }
        let hybrid = std::path::Path::new(UNIFIED).exists();
        let away = if hybrid { format!("umount {UNIFIED} && ") } else { String::new() };
        Some(World::on(cards, resources, "", &away))
    }

    fn on(cards: &str, resources: &str, words: &str, mounts: &str) -> World {
        let mut cluster = Cluster::stopped("");
        let fake = FakeCards::new(&cluster, cards);
        cluster.configure(&format!("{}resources: {{cpus: 16, ram: 16G{resources}}}\n", fake.config()));
        let dev = cluster.root.join("dev");
        fs::create_dir(&dev).unwrap();
        for (name, major, minor) in FILES {
            let (major, minor) = (major.to_string(), minor.to_string());
            let mut mknod = Command::new("mknod");
            mknod.arg("-m666").arg(dev.join(name)).args(["c", &major, &minor]);
            assert!(mknod.status().unwrap().success());
        }
        let devices = cluster.root.join("proc-devices");
        fs::write(&devices, DEVICES).unwrap();
        // Card 0 has the displays 1, card 1 the displays 2; 3 is another maker's.
        let class = cluster.root.join("sys-class");
        for (name, numbers, pci, vendor) in [
            ("card1", "226:1\n", "0000:3b:00.0", "0x10de\n"),
            ("card2", "226:2\n", "0000:86:00.0", "0x10de\n"),
            ("card3", "226:3\n", "0000:04:00.0", "0x1002\n"),
        ] {
            let (entry, device) = (class.join("drm").join(name), class.join("devices").join(pci));
            fs::create_dir_all(&entry).unwrap();
            fs::create_dir_all(&device).unwrap();
            fs::write(entry.join("dev"), numbers).unwrap();
            fs::write(device.join("vendor"), vendor).unwrap();
            std::os::unix::fs::symlink(format!("../../devices/{pci}"), entry.join("device")).unwrap();
        }
        let parts = cluster.root.join("proc-driver/nvidia-caps");
        fs::create_dir_all(&parts).unwrap();
        fs::write(parts.join("mig-minors"), MIG_MINORS).unwrap();
        let script = format!(
            "{mounts}mount --bind {} /proc/driver && mount --bind {} /proc/devices && mount --bind {} /sys/class && exec {words} \"$0\" \"$@\"",
            parts.parent().unwrap().display(),
            devices.display(),
            class.display()
        );
        cluster.wrapper = ["unshare", "-m", "sh", "-c", &script].map(str::to_owned).to_vec();
        cluster.start();
        World { cluster, dev, devices }
    }

    /// A script that says what comes of opening each file, and what the job is told.
    fn script(&self) -> String {
        let dev = self.dev.display();
        format!(
            "#!/bin/sh\nlook() {{ for f in {dev}/*; do\n case \"$(cat $f 2>&1 </dev/null)\" in\n \
             *'not permitted'*) echo \"${{f##*/}} denied\" ;;\n *'No such device or address'*) echo \"${{f##*/}} opened\" ;;\n \
             *) echo \"${{f##*/}} odd\" ;;\n esac; done; }}\n\
             look; echo \"cuda $CUDA_VISIBLE_DEVICES\"; echo \"uuids $AX_GPU_UUIDS\"; echo \"containers $NVIDIA_VISIBLE_DEVICES\"\n"
        )
    }

    /// What a job with these options sees.
    fn seen(&self, options: &[&str]) -> BTreeMap<String, String> {
        let mut all = vec!["-c", "1", "--ram=10", "-o", "seen"];
        all.extend(options);
        let job = self.cluster.ends(ALICE, &all, &self.script());
        assert_eq!(job["state"], "SUCCEEDED", "{job:#}\n{}", self.cluster.log());
        parse(&self.cluster.read(ALICE, "seen"))
    }

    /// What `ax why` says, in one line.
    fn told(&self, id: &str) -> String {
        let text = self.cluster.ok(ALICE, "ax", &["why", id]);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn node_reason(&self) -> String {
        self.cluster.json(ALICE, &["node", "list", "--json"])[0]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(line).collect()
}

#[track_caller]
fn opened(seen: &BTreeMap<String, String>, expected: &str) {
    let odd: Vec<_> = seen.iter().filter(|(_, what)| *what == "odd").collect();
    assert!(odd.is_empty(), "{odd:?}");
    let files = seen.iter().filter(|(_, what)| *what == "opened").map(|(name, _)| name.as_str());
    assert_eq!(files.collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn as_root_the_mps_daemon_of_a_card_opens_no_other() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    let (root, home) = (world.cluster.root.display(), world.cluster.home(ALICE));
    let look = world.cluster.write(ALICE, "look", world.script());
    let control = world.cluster.root.join("mps-control");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -d ] || exit 0\nsh {} >{}/looked\n: >$CUDA_MPS_PIPE_DIRECTORY/control\n\
         sleep 600 </dev/null >/dev/null 2>&1 &\n",
        look.display(),
        home.display()
    );
    fs::write(&control, script).unwrap();
    fs::set_permissions(&control, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.cluster.configure(&format!(
        "paths:\n  nvml: {root}/libnvidia-ml.so.1\n  mps_control: {root}/mps-control\nresources: {{cpus: 16, ram: 16G}}\n\
         queues:\n  - name: default\n    mps: true\n",
    ));
    world.cluster.ok(ROOT, "ax", &["reload"]);
    opened(&world.seen(&["-G", "1", "--mem=20"]), "dri1 dri3 nvidia1 nvidiactl uvm");
    opened(&parse(&world.cluster.read(ALICE, "looked")), "dri1 dri3 nvidia1 nvidiactl uvm");
    world.cluster.nothing_left();
}

#[test]
fn as_root_a_job_opens_the_cards_that_it_was_given_and_finds_them_numbered_from_zero() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    let none = world.seen(&[]);
    opened(&none, "dri3");
    assert_eq!((none["cuda"].as_str(), none["containers"].as_str()), ("", "void"));
    let both = world.seen(&["-G", "2"]);
    opened(&both, "dri1 dri2 dri3 nvidia0 nvidia1 nvidiactl uvm");
    assert_eq!((both["cuda"].as_str(), both["uuids"].as_str()), ("0,1", "GPU-aaaa,GPU-bbbb"));
    // The first card is held: the next job has the second, which is its number 0.
    let hold = world.cluster.submit(ALICE, &["-G", "1", "-c", "1", "--ram=10"], "#!/bin/sh\nsleep 600\n");
    world.cluster.wait_state(&hold, &["RUNNING"]);
    for options in [&["-G", "1"][..], &["-G", "1", "--mem=20"]] {
        let second = world.seen(options);
        opened(&second, "dri2 dri3 nvidia0 nvidiactl uvm");
        assert_eq!(
            (second["cuda"].as_str(), second["uuids"].as_str(), second["containers"].as_str()),
            ("0", "GPU-bbbb", "GPU-bbbb")
        );
    }
    assert!(world.told(&hold).contains("sees its cards as CUDA_VISIBLE_DEVICES=0; can open no others"));
    assert!(!world.node_reason().contains("can open"), "{}", world.node_reason());
    world.cluster.ok(ALICE, "ax", &["cancel", &hold]);
    world.cluster.wait_over(&hold);
    world.cluster.nothing_left();
}

#[test]
fn as_root_by_control_groups_of_version_1_alone_cards_and_parts_are_fenced_off_the_same() {
    if !as_root() {
        return;
    }
    let Some(world) = World::legacy(PARTS, "") else { return };
    masks(&world, "index", "require");
    // No program of the kernel's could do it: there is no unified tree.
    let look = "#!/bin/sh\nls /sys/fs/cgroup/unified 2>/dev/null | wc -l\n";
    world.cluster.ends(ALICE, &["-c", "1", "--ram=10", "-o", "unified"], look);
    assert_eq!(world.cluster.read(ALICE, "unified"), "0\n");
    world.cluster.nothing_left();
    drop(world);
    let world = World::legacy(TWO, "").unwrap();
    opened(&world.seen(&[]), "dri3");
    let one = world.seen(&["-G", "1"]);
    opened(&one, "dri1 dri3 nvidia1 nvidiactl uvm");
    assert_eq!((one["cuda"].as_str(), one["uuids"].as_str()), ("0", "GPU-aaaa"));
    fs::write(&world.devices, DEVICES.replace("511", "510")).unwrap();
    opened(&world.seen(&[]), "dri3 uvm");
}

/// Every kind of holding with every way to tell it: whole cards, slices, parts, slices of parts and both together, by number
/// and by UUID, with the fence and without.
#[test]
fn as_root_masks_and_fence_say_the_same_of_whole_cards_slices_and_parts() {
    if !as_root() {
        return;
    }
    let world = World::of(PARTS, "", "");
    let config = fs::read_to_string(world.cluster.root.join("etc/ax/config.yaml")).unwrap();
    for naming in ["index", "uuid"] {
        for fence in ["require", "off"] {
            let set = format!(", gpu_visible: {naming}, gpu_fence: {fence}}}");
            world.cluster.configure(&config.replace('}', &set));
            world.cluster.ok(ROOT, "ax", &["reload"]);
            masks(&world, naming, fence);
        }
    }
}

fn masks(world: &World, naming: &str, fence: &str) {
    const PART: &str = "cap12 cap13 dri1 dri3 nvidia1 nvidiactl uvm";
    const WHOLE: &str = "dri2 dri3 nvidia0 nvidiactl uvm";
    const ALL: &str = "cap12 cap13 cap21 cap22 dri1 dri2 dri3 nvidia0 nvidia1 nvidiactl uvm";
    for (options, uuids, files) in [
        (&[][..], "", "dri3"),
        (&["-G", "a100:1"], "GPU-bbbb", WHOLE),
        (&["-G", "a100:1", "--mem=20"], "GPU-bbbb", WHOLE),
        (&["-G", "mig-1g.10gb:1"], "MIG-1", PART),
        (&["-G", "mig-2g.20gb:1"], "MIG-2", "cap21 cap22 dri1 dri3 nvidia1 nvidiactl uvm"),
        (&["-G", "mig-1g.10gb:1", "--mem=5"], "MIG-1", PART),
        (&["-G", "3"], "GPU-bbbb,MIG-1,MIG-2", ALL),
        (&["-G", "3", "--mem=5"], "GPU-bbbb,MIG-1,MIG-2", ALL),
    ] {
        let seen = world.seen(options);
        opened(&seen, if fence == "require" { files } else { EVERYTHING });
        let what = format!("{options:?} by {naming} with the fence {fence}");
        let number = naming == "index" && fence == "require" && uuids == "GPU-bbbb";
        assert_eq!(seen["cuda"], if number { "0" } else { uuids }, "{what}");
        assert_eq!(seen["uuids"], uuids, "{what}");
        assert_eq!(seen["containers"], if uuids.is_empty() { "void" } else { uuids }, "{what}");
    }
}

#[test]
fn as_root_numbers_that_a_driver_was_given_are_read_at_each_start() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    opened(&world.seen(&[]), "dri3");
    // The driver was loaded anew and has another number: the old one is somebody else's.
    fs::write(&world.devices, DEVICES.replace("511", "510")).unwrap();
    opened(&world.seen(&[]), "dri3 uvm");
}

#[test]
fn as_root_nothing_that_a_submitter_says_opens_or_shows_another_card() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    let options = [
        "-G",
        "1",
        "--env=CUDA_VISIBLE_DEVICES=0,1",
        "--env=NVIDIA_VISIBLE_DEVICES=all",
        "--env=AX_GPU_UUIDS=GPU-bbbb",
        "--export=ALL,CUDA_VISIBLE_DEVICES=GPU-bbbb",
    ];
    let seen = world.seen(&options);
    opened(&seen, "dri1 dri3 nvidia1 nvidiactl uvm");
    assert_eq!(
        (seen["cuda"].as_str(), seen["uuids"].as_str(), seen["containers"].as_str()),
        ("0", "GPU-aaaa", "GPU-aaaa")
    );
    // Who submits is told.
    world.cluster.write(ALICE, "j.sh", "#!/bin/sh\n");
    let ran = world.cluster.run(ALICE, "axbatch", &["--env=CUDA_VISIBLE_DEVICES=0,1", "j.sh"]);
    assert!(ran.code == 0 && ran.err.contains("CUDA_VISIBLE_DEVICES is set by ax"), "{ran:?}");
    // A script that lies to its own programs opens no more for that, detached or not.
    let dev = world.dev.display();
    let script = format!(
        "#!/bin/sh\nexport CUDA_VISIBLE_DEVICES=0,1\nsetsid sh -c 'cat {dev}/nvidia0 2>&1; cat {dev}/nvidia1 2>&1'\nexit 0\n"
    );
    world.cluster.ends(ALICE, &["-G", "1", "-c", "1", "-o", "lie"], &script);
    let text = world.cluster.read(ALICE, "lie");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with("not permitted") && lines[1].ends_with("No such device or address"),
        "{lines:?}"
    );
}

#[test]
fn as_root_the_fence_outlives_the_daemon_and_the_supervisor() {
    if !as_root() {
        return;
    }
    let mut world = World::new("");
    let script = format!(
        "{}while [ ! -e end ]; do look >new; mv new now; if [ -e again ]; then rm -f again; look >new; mv new then; fi; \
         sleep 0.1; done\n",
        world.script()
    );
    let id = world.cluster.submit(ALICE, &["-G", "1", "-c", "1", "--idempotent=no"], &script);
    let look = |world: &World, name: &str| parse(&world.cluster.read(ALICE, name));
    wait_for("the first look", || !world.cluster.read(ALICE, "now").is_empty());
    let expected = "dri1 dri3 nvidia1 nvidiactl uvm";
    opened(&look(&world, "now"), expected);
    world.cluster.kill();
    world.cluster.write(ALICE, "again", "");
    wait_for("a look without the daemon", || !world.cluster.read(ALICE, "then").is_empty());
    opened(&look(&world, "then"), expected);
    fs::remove_file(world.cluster.home(ALICE).join("then")).unwrap();
    world.cluster.start();
    world.cluster.write(ALICE, "again", "");
    wait_for("a look with the next daemon", || !world.cluster.read(ALICE, "then").is_empty());
    opened(&look(&world, "then"), expected);
    world.cluster.write(ALICE, "end", "");
    assert_eq!(world.cluster.wait_over(&id)["state"], "SUCCEEDED");
    // A process that outlives its supervisor for a moment opens no more in that moment.
    let dev = world.dev.display();
    let orphan =
        format!("#!/bin/sh\nsetsid sh -c 'while :; do cat {dev}/nvidia0 2>>tried; done' &\nsleep 600\n");
    let id = world.cluster.submit(ALICE, &["-c", "1", "--idempotent=no", "--no-requeue"], &orphan);
    wait_for("tries", || world.cluster.read(ALICE, "tried").lines().count() > 5);
    signal(supervisor_of(&world.cluster, &id).unwrap(), "KILL");
    world.cluster.wait_over(&id);
    let tried = world.cluster.read(ALICE, "tried");
    assert!(tried.lines().all(|line| line.ends_with("not permitted")), "{tried}");
}

#[test]
fn as_root_without_the_fence_numbers_are_the_node_s() {
    if !as_root() {
        return;
    }
    let world = World::new(", gpu_fence: off");
    opened(&world.seen(&[]), EVERYTHING);
    let hold = world.cluster.submit(ALICE, &["-G", "1", "-c", "1", "--ram=10"], "#!/bin/sh\nsleep 600\n");
    world.cluster.wait_state(&hold, &["RUNNING"]);
    assert_eq!(world.seen(&["-G", "1"])["cuda"], "1");
    assert!(world.told(&hold).contains("can open others, too: resources.gpu_fence is off"));
    assert!(!world.node_reason().contains("can open"), "it was asked for: {}", world.node_reason());
    // A change of the configuration holds for what starts from then on.
    let config = fs::read_to_string(world.cluster.root.join("etc/ax/config.yaml")).unwrap();
    world.cluster.configure(&config.replace("gpu_fence: off", "gpu_visible: uuid"));
    world.cluster.ok(ROOT, "ax", &["reload"]);
    let seen = world.seen(&["-G", "1"]);
    opened(&seen, "dri2 dri3 nvidia0 nvidiactl uvm");
    assert_eq!(seen["cuda"], "GPU-bbbb");
}

/// Root that may load no programs into the kernel.
const POWERLESS: &str = "setpriv --bounding-set=-bpf,-sys_admin,-net_admin,-perfmon";

#[test]
fn as_root_a_fence_that_can_t_be_had_is_said_or_keeps_jobs_waiting() {
    if !as_root() {
        return;
    }
    let world = World::of(TWO, "", POWERLESS);
    opened(&world.seen(&[]), EVERYTHING);
    let hold = world.cluster.submit(ALICE, &["-G", "1", "-c", "1", "--ram=10"], "#!/bin/sh\nsleep 600\n");
    world.cluster.wait_state(&hold, &["RUNNING"]);
    assert_eq!(world.seen(&["-G", "1"])["cuda"], "1", "the node's number");
    let reason = world.node_reason();
    assert!(
        reason.contains("jobs can open cards that they were not given: cannot load a device filter"),
        "{reason}"
    );
    assert_eq!(world.cluster.log().matches("jobs can open cards that they were not given").count(), 1);
    wait_for("its story", || world.told(&hold).contains("can open others, too: cannot load a device filter"));
    drop(world);
    let world = World::of(TWO, ", gpu_fence: require", POWERLESS);
    let id = world.cluster.submit(ALICE, &["-c", "1"], "#!/bin/sh\ntouch ran\n");
    wait_for("the reason", || world.cluster.reason(&id).contains("resources.gpu_fence requires it"));
    assert!(!world.cluster.home(ALICE).join("ran").exists());
    world.cluster.ok(ALICE, "ax", &["cancel", &id]);
}

#[test]
fn as_root_a_fence_that_can_t_be_had_for_a_moment_is_tried_again() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    // Somebody is in the way of the trial: in a group of that name.
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    for top in crate::cluster::groups(&world.cluster.root.join("run/ax")) {
        let group = top.join("fence-trial");
        fs::create_dir(&group).unwrap();
        for set in ["cpus", "mems"] {
            let (from, to) = (top.join(format!("cpuset.{set}")), group.join(format!("cpuset.{set}")));
            let _ = fs::read(from).and_then(|all| fs::write(to, all));
        }
        fs::write(group.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
    }
    opened(&world.seen(&["-G", "1"]), EVERYTHING);
    assert!(world.node_reason().contains("can open cards that they were not given"));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    wait_for("a job with a fence", || world.seen(&["-G", "1"])["nvidia0"] == "denied");
    wait_for("the word to go", || !world.node_reason().contains("can open cards"));
}

#[test]
fn as_root_where_there_are_no_cards_nobody_looks_for_devices() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    // Whoever tried a fence here would fail, and say so.
    cluster.wrapper = POWERLESS.split(' ').map(str::to_owned).collect();
    cluster.start();
    let id = cluster.submit(ALICE, &["-c", "1"], "#!/bin/sh\nuntil [ -e go ]; do sleep 0.1; done\n");
    cluster.wait_state(&id, &["RUNNING"]);
    let attempts = cluster.root.join("run/ax/attempts");
    let folder = fs::read_dir(attempts).unwrap().next().unwrap().unwrap().path();
    let assignment = fs::read_to_string(folder.join("assignment")).unwrap();
    assert!(!assignment.contains("\"devices\""), "{assignment}");
    cluster.write(ALICE, "go", "");
    assert_eq!(cluster.wait_over(&id)["state"], "SUCCEEDED");
    assert!(!cluster.log().contains("device"), "{}", cluster.log());
}
