//! What a user may put into a folder of theirs to make root do something for
//! them: read, move, remove, run what is others', block, or drown. After each,
//! the daemon lives, others are served promptly, nothing ran as somebody else.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::{ALICE, BOB, Cluster, ROOT, User, as_root, wait_for};
use crate::spool::{leaves, names_in, put_into};
use crate::spool_mounts::Mount;

/// Longest time that somebody's misdeeds may delay another's drop: far above what it takes, so that a
/// loaded machine passes, and far below what waiting for the misdeeds would take.
const PROMPT: Duration = Duration::from_secs(10);

/// Everything is as it should be: asked by a drop of somebody who has nothing to do with it.
pub(crate) fn is_sound(cluster: &mut Cluster, by: User) {
    let mark = format!("sound-{}", Instant::now().elapsed().as_nanos());
    let start = Instant::now();
    cluster.put(by, &format!("{mark}.sh"), leaves(cluster, by, &mark));
    assert_eq!(cluster.wait_file(by, &mark), format!("{}\n", by.name));
    let took = start.elapsed();
    assert!(took < PROMPT, "another's drop took {took:?}");
    fs::remove_file(cluster.home(by).join(&mark)).unwrap();
    assert!(!cluster.daemon_ended(), "{}", cluster.daemon_output());
    let checked = cluster.run(ROOT, "axd", &["--db-check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        cluster.log().lines().all(|line| line.starts_with("20")),
        "an event is a line: {}",
        cluster.log()
    );
    assert!(!cluster.daemon_output().contains("panicked"), "{}", cluster.daemon_output());
}

fn make_node(path: &Path, kind: &[&str]) {
    let made = Command::new("mknod").arg(path).args(kind).status().unwrap();
    assert!(made.success());
}

pub(crate) fn own(path: &Path, user: User) {
    std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid)).unwrap();
}

/// A script that must never run: it says so if it does.
fn forbidden(cluster: &Cluster, owner: User) -> std::path::PathBuf {
    let ran = cluster.root.join("RAN");
    fs::write(&ran, "").unwrap();
    fs::set_permissions(&ran, fs::Permissions::from_mode(0o666)).unwrap();
    cluster.write(
        owner,
        "precious.sh",
        format!("#!/bin/sh\n#AX -o /dev/null -D /\nid -un >> {}\n", ran.display()),
    )
}

fn nothing_ran(cluster: &Cluster) {
    assert_eq!(fs::read_to_string(cluster.root.join("RAN")).unwrap(), "");
}

#[test]
fn links_to_what_is_others_are_never_followed() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let precious = forbidden(&cluster, BOB);
    let before = fs::metadata(&precious).unwrap();
    let folder = cluster.own_folder(ALICE);
    for (name, target) in [
        ("link.sh", precious.as_path()),
        ("shadow.sh", Path::new("/etc/shadow")),
        ("gone", Path::new("/nowhere")),
    ] {
        let hidden = folder.join(".link");
        symlink(target, &hidden).unwrap();
        own(&hidden, ALICE);
        fs::rename(&hidden, folder.join(name)).unwrap();
        let why = cluster.wait_why(ALICE, name);
        assert!(why.contains("symbolic link"), "{why}");
    }
    // A second name of another's file, and one whose first name is gone by the time it is looked at.
    for (name, remove) in [("hard.sh", false), ("last.sh", true)] {
        let victim = cluster.write(BOB, "victim.sh", fs::read(&precious).unwrap());
        let hidden = folder.join(".hard");
        fs::hard_link(&victim, &hidden).unwrap();
        fs::rename(&hidden, folder.join(name)).unwrap();
        if remove {
            let _ = fs::remove_file(&victim);
        }
        let why = cluster.wait_why(ALICE, name);
        assert!(why.contains("belongs to user 2, and its folder to user 1"), "{why}");
        let refused = cluster.spool().join("refused/1").join(name);
        wait_for("the file", || refused.exists());
        assert_eq!(fs::metadata(&refused).unwrap().uid(), BOB.uid, "it is still whose it was");
        let _ = fs::remove_file(&victim);
    }
    // One's own with a second name could be written to by way of it.
    let mine = cluster.write(ALICE, "mine.sh", "true\n");
    fs::hard_link(&mine, folder.join("mine.sh")).unwrap();
    let second = cluster.spool().join("incoming/1/mine.sh");
    own(&second, ALICE);
    wait_for_rescan(&cluster, &folder);
    assert!(cluster.wait_why(ALICE, "mine.sh").contains("2 names"));
    let after = fs::metadata(&precious).unwrap();
    assert_eq!(
        (before.ino(), before.mode(), before.uid(), before.mtime()),
        (after.ino(), after.mode(), after.uid(), after.mtime())
    );
    nothing_ran(&cluster);
    is_sound(&mut cluster, BOB);
}

/// A hint for a folder, where what was done gives none.
fn wait_for_rescan(cluster: &Cluster, folder: &Path) {
    put_into(folder, ALICE, "hint.sh", "#AX --nonsense\n");
    cluster.wait_why(ALICE, "hint.sh");
}

#[test]
fn pipes_devices_sockets_and_folders_are_never_opened() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let folder = cluster.own_folder(ALICE);
    make_node(&folder.join(".pipe"), &["p"]);
    make_node(&folder.join(".null"), &["c", "1", "3"]);
    // The watchdog's device reboots the machine if it is opened and closed: this one has no driver.
    make_node(&folder.join(".dog"), &["c", "240", "77"]);
    let _socket = std::os::unix::net::UnixListener::bind(folder.join(".socket")).unwrap();
    for name in ["pipe", "null", "dog", "socket"] {
        let hidden = folder.join(format!(".{name}"));
        own(&hidden, ALICE);
        fs::rename(hidden, folder.join(name)).unwrap();
        let why = cluster.wait_why(ALICE, name);
        assert!(why.contains("no regular file"), "{why}");
    }
    let mut deep = folder.join("deep");
    for _ in 0..100 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::copy(forbidden(&cluster, ALICE), deep.join("job.sh")).unwrap();
    wait_for_rescan(&cluster, &folder);
    assert!(deep.join("job.sh").exists() && names_in(&folder) == ["deep"]);
    nothing_ran(&cluster);
    is_sound(&mut cluster, BOB);
}

#[test]
fn a_folder_is_its_owner_s_whatever_it_is_called_and_whatever_is_in_it() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.stop();
    // The number of alice, made by bob before her.
    let squatted = cluster.folder(BOB, "1");
    put_into(&squatted, BOB, "as-alice.sh", leaves(&cluster, BOB, "by-bob"));
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n#AX -o out\nid -un\n");
    assert_eq!(cluster.run(ALICE, "axbatch", &["job.sh"]).code, 0);
    let incoming = cluster.spool().join("incoming");
    assert!(names_in(&incoming).iter().any(|name| name.starts_with("1-")), "{:?}", names_in(&incoming));
    // Others' scripts in one's own folder, a script of root's above all.
    for owner in [BOB, ROOT] {
        let precious = forbidden(&cluster, owner);
        let folder = cluster.folder(ALICE, "alice");
        fs::rename(precious, folder.join(format!("{}.sh", owner.name))).unwrap();
    }
    // Not in a folder at all.
    let loose =
        cluster.write(ALICE, "loose.sh", fs::read(cluster.spool().join("incoming/alice/bin.sh")).unwrap());
    fs::rename(loose, incoming.join("loose.sh")).unwrap();
    cluster.start();
    assert_eq!(cluster.wait_file(BOB, "by-bob"), "bin\n");
    assert_eq!(cluster.wait_file(ALICE, "out"), "daemon\n");
    for owner in [BOB, ROOT] {
        let why = cluster.wait_why(ALICE, &format!("{}.sh", owner.name));
        assert!(why.contains(&format!("belongs to user {}", owner.uid)), "{why}");
    }
    // A crash between taking and looking: the name in `taken` still says whose folder it was.
    cluster.kill();
    let taken = cluster.spool().join("taken").join(format!("{:026}.1.precious.sh", 7));
    fs::rename(cluster.spool().join("refused/1/bin.sh"), &taken).unwrap();
    cluster.start();
    wait_for("the refusal", || !taken.exists());
    assert!(incoming.join("loose.sh").exists());
    nothing_ran(&cluster);
    let mut jobs = cluster.jobs();
    jobs.sort();
    assert_eq!(jobs, [("as-alice.sh".into(), "bin".into()), ("job.sh".into(), "daemon".into())]);
    is_sound(&mut cluster, BOB);
}

#[test]
fn what_is_exchanged_while_it_is_looked_at_gains_nothing() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let precious = forbidden(&cluster, BOB);
    let home = cluster.home(BOB);
    let folder = cluster.own_folder(ALICE);
    let away = cluster.spool().join("incoming/away");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The folder for a link to bob's home, in a loop.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&folder, &away).unwrap();
                symlink(&home, &folder).unwrap();
                own(&folder, ALICE);
                fs::remove_file(&folder).unwrap();
                fs::rename(&away, &folder).unwrap();
            }
        });
        // A file for a link, a pipe, another's file, a folder.
        scope.spawn(|| {
            let inner = cluster.folder(ALICE, "inner");
            let name = inner.join("job.sh");
            let tool = |which: u32| match which % 4 {
                0 => symlink(&precious, &name).is_ok(),
                1 => fs::hard_link(&precious, &name).is_ok(),
                2 => fs::create_dir(&name).is_ok(),
                _ => fs::write(&name, "#AX --nonsense\n").is_ok(),
            };
            let mut which = 0;
            while !stop.load(Ordering::Relaxed) {
                tool(which);
                let _ = fs::rename(&name, inner.join("x"));
                let _ = fs::rename(inner.join("x"), &name);
                let _ = fs::remove_file(&name).or_else(|_| fs::remove_dir(&name));
                which += 1;
            }
        });
        for number in 0..200 {
            let hidden = away.join(".h");
            let put = fs::write(&hidden, "#AX --nonsense\n")
                .and_then(|()| fs::rename(&hidden, away.join(format!("{number}.sh"))));
            drop(put);
            sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(names_in(&home), ["precious.sh"]);
    nothing_ran(&cluster);
    assert!(cluster.jobs().is_empty());
    is_sound(&mut cluster, BOB);
}

#[test]
fn what_is_written_after_the_taking_does_not_count() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let folder = cluster.own_folder(ALICE);
    let hidden = folder.join(".job.sh");
    fs::write(&hidden, leaves(&cluster, ALICE, "first").replace("-c 1", "-c 1 --hold")).unwrap();
    own(&hidden, ALICE);
    // Open for reading, it can be opened for writing by its descriptor wherever it lies now.
    let kept_open = fs::File::open(&hidden).unwrap();
    fs::rename(&hidden, folder.join("job.sh")).unwrap();
    wait_for("the job", || cluster.jobs().len() == 1);
    let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&kept_open));
    fs::write(again, "#!/bin/sh\nexit 1\n").unwrap();
    assert_eq!(cluster.run(ALICE, "ax", &["release", "1"]).code, 0);
    assert_eq!(cluster.wait_over("1")["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "first"), "daemon\n");
    // Opened for writing over and over while it is taken: the daemon's lease is broken all the time.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = folder.join(".other");
            while !stop.load(Ordering::Relaxed) {
                put_into(&folder, ALICE, "other.sh", "#AX --nonsense\n");
                let Ok(read) = fs::File::open(folder.join("other.sh")) else { continue };
                let again = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
                for _ in 0..100 {
                    drop(fs::OpenOptions::new().append(true).open(&again));
                }
                let _ = fs::remove_file(&file);
            }
        });
        sleep(Duration::from_secs(2));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(cluster.jobs().len(), 1);
    is_sound(&mut cluster, BOB);
}

#[test]
fn what_is_still_being_written_is_not_taken() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let folder = cluster.own_folder(ALICE);
    let slow = folder.join("slow.sh");
    let mut file = fs::File::create(&slow).unwrap();
    own(&slow, ALICE);
    let (first, rest) = ("#!/bin/sh\n", leaves(&cluster, ALICE, "whole"));
    file.write_all(first.as_bytes()).unwrap();
    // Looked at again and again meanwhile.
    for number in 0..20 {
        cluster.put(ALICE, &format!("{number}.sh"), "#AX --nonsense\n");
        cluster.wait_why(ALICE, &format!("{number}.sh"));
    }
    assert!(cluster.jobs().is_empty());
    file.write_all(rest.as_bytes()).unwrap();
    drop(file);
    assert_eq!(cluster.wait_file(ALICE, "whole"), "daemon\n");
    assert_eq!(cluster.jobs().len(), 1);
    is_sound(&mut cluster, BOB);
}

#[test]
fn sizes_and_names_are_limited_and_harmless() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let folder = cluster.own_folder(ALICE);
    let sparse = fs::File::create(folder.join(".sparse")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    own(&folder.join(".sparse"), ALICE);
    fs::rename(folder.join(".sparse"), folder.join("sparse.sh")).unwrap();
    assert!(cluster.wait_why(ALICE, "sparse.sh").contains("2147483648 bytes"));
    let status = fs::read_to_string(format!("/proc/{}/status", cluster.pid())).unwrap();
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.unwrap() < 300_000, "it was read: {peak:?} kB");
    let long = [b'n'; 255];
    let mut wild = vec![0xff; 250];
    wild.extend(b"\n\x1b]0;");
    let names: [&[u8]; 6] = [
        b"new\nline 2026-01-01T00:00:00Z info faked",
        b"\x1b[2J\x07",
        &[0xff, 0xfe],
        &long,
        &wild,
        b"-rf *;$(id)",
    ];
    for (number, name) in names.iter().enumerate() {
        let good = format!("good-{number}");
        for content in [leaves(&cluster, ALICE, &good), "#AX --nonsense\n".to_owned()] {
            let hidden = folder.join(".name");
            fs::write(&hidden, content).unwrap();
            own(&hidden, ALICE);
            fs::rename(&hidden, folder.join(OsStr::from_bytes(name))).unwrap();
            wait_for("its taking", || names_in(&folder).is_empty());
        }
        assert_eq!(cluster.wait_file(ALICE, &good), "daemon\n");
    }
    let refused = cluster.spool().join("refused/1");
    wait_for("all refusals", || names_in(&refused).len() == 2 * (names.len() + 1));
    for name in names_in(&refused) {
        assert!(!name.chars().any(char::is_control), "{name:?}");
    }
    assert_eq!(cluster.jobs().len(), names.len());
    is_sound(&mut cluster, BOB);
}

/// The spool on a file system in memory, where that can be had: removing many files takes long on some disks.
fn in_memory(cluster: &Cluster) -> Option<Mount> {
    let spool = cluster.root.join("var/spool");
    fs::create_dir_all(&spool).unwrap();
    Mount::new(&["-t", "tmpfs", "none"], &spool)
}

#[test]
fn a_flood_of_one_user_is_no_delay_for_another() {
    if !as_root() {
        return;
    }
    // Names of one file are made quickly, but a file can't have too many of them.
    const NAMES: usize = 50_000;
    let long = std::env::var_os("AX_TEST_LONG").is_some();
    let files = if long { 20 } else { 2 };
    let mut cluster = Cluster::stopped("policy:\n  max_queued_per_user: 20\n");
    let _mount = in_memory(&cluster);
    cluster.start();
    cluster.stop();
    let flooded = cluster.own_folder(BOB);
    for file in 0..files {
        let source = flooded.join(format!("{file}-0.sh"));
        fs::write(&source, "true\n").unwrap();
        own(&source, BOB);
        for name in 1..NAMES {
            fs::hard_link(&source, flooded.join(format!("{file}-{name}.sh"))).unwrap();
        }
    }
    cluster.start();
    wait_for("the flood to begin", || cluster.log().contains("drop_refused"));
    for _ in 0..5 {
        is_sound(&mut cluster, ALICE);
    }
    // And more than may be in the queue, in another folder.
    let held = cluster.folder(BOB, "2-held");
    for number in 0..30 {
        put_into(&held, BOB, &format!("{number}.sh"), "#AX --hold -o /dev/null\n");
    }
    wait_for("the limit", || cluster.log().contains("drops_wait"));
    is_sound(&mut cluster, ALICE);
    cluster.kill();
    let refused = names_in(&cluster.spool().join("refused/2"));
    let refused = refused.iter().filter(|name| !name.ends_with(".why") && !name.starts_with('.')).count();
    let taken = names_in(&cluster.spool().join("taken")).len();
    let left = names_in(&flooded).len() + names_in(&held).len() + refused + taken;
    assert!((files * NAMES + 10..=files * NAMES + 30).contains(&left), "{left} are left");
    assert!(taken <= 100, "{taken}");
}

#[test]
fn a_thousand_folders_of_one_user_are_no_delay_for_another() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::stopped("");
    let _mount = in_memory(&cluster);
    cluster.start();
    for number in 0..1000 {
        let folder = cluster.folder(BOB, &format!("2-{number}"));
        put_into(&folder, BOB, "job.sh", "#AX --nonsense\n");
    }
    is_sound(&mut cluster, ALICE);
    let incoming = cluster.spool().join("incoming");
    wait_for("all of them", || (0..1000).all(|n| names_in(&incoming.join(format!("2-{n}"))).is_empty()));
    is_sound(&mut cluster, ALICE);
}
