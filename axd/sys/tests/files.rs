//! Paths below a kept directory, hostile files in it, and files that appear whole.

#![allow(clippy::unwrap_used, reason = "a test that can not go on should stop")]

mod common;

use ax_sys::atomic_file::{self, Options, Written};
use ax_sys::path::{Demand, Dir, FileType, HostileError, Meta, OFlag, Resolver, is_open_for_writing};
use ax_sys::statfs;
use common::{Scratch, skip_without_root};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// The kernel's way and the walk of old kernels must agree.
fn both(scratch: &Scratch) -> [Dir; 2] {
    [Resolver::Kernel, Resolver::Walk].map(|resolver| scratch.dir().with_resolver(resolver))
}

#[test]
fn nothing_outside_is_reached() {
    let scratch = Scratch::new();
    let top = scratch.path();
    std::fs::create_dir_all(top.join("a/b")).unwrap();
    std::fs::write(top.join("a/b/file"), "inside").unwrap();
    symlink("/etc", top.join("away")).unwrap();
    symlink("a", top.join("near")).unwrap();
    symlink("b/file", top.join("a/link")).unwrap();
    symlink("/proc/self/root", top.join("magic")).unwrap();
    for dir in both(&scratch) {
        assert_eq!(dir.read("a/b/file", 100).unwrap(), b"inside");
        assert_eq!(dir.open_dir("a").unwrap().read("b/file", 6).unwrap(), b"inside");
        assert!(dir.read("a/b/file", 5).is_err(), "longer than allowed");
        let errno = |path: &str| dir.open_file(path).unwrap_err().errno().unwrap();
        for (path, wanted) in [
            ("away/passwd", libc::ELOOP),
            ("near/b/file", libc::ELOOP),
            ("a/link", libc::ELOOP),
            ("away", libc::ELOOP),
            ("magic/etc/passwd", libc::ELOOP),
            ("../etc/passwd", libc::EXDEV),
            ("a/../../x", libc::EXDEV),
            ("a/../a/b/file", libc::EXDEV),
            ("/etc/passwd", libc::EXDEV),
            ("missing", libc::ENOENT),
            ("a/missing/file", libc::ENOENT),
            ("a/b/file/x", libc::ENOTDIR),
            ("", libc::ENOENT),
        ] {
            assert_eq!(errno(path), wanted, "{path}");
        }
        let flags = OFlag::O_PATH;
        assert!(dir.open_beneath("away", flags, 0).unwrap_err().is(libc::ELOOP));
        assert!(dir.create_file("away/x", 0o600).is_err());
        assert!(dir.create_dir("near/x", 0o700).unwrap_err().is(libc::ELOOP));
        assert!(dir.rename("near/b", &dir, "c").unwrap_err().is(libc::ELOOP));
        assert!(dir.unlink("../x").unwrap_err().is(libc::EXDEV));
        assert!(dir.stat("near/b").unwrap_err().is(libc::ELOOP));
        assert_eq!(dir.stat("near").unwrap().file_type, FileType::Link);
        let text = dir.open_file("away/passwd").unwrap_err().to_string();
        assert!(text.contains("away/passwd") && text.contains("cannot open"), "{text}");
    }
}

#[test]
fn directories_are_made_and_filled() {
    // A deleted directory takes no names.
    let gone = {
        let scratch = Scratch::new();
        both(&scratch)
    };
    assert!(gone.iter().all(|dir| dir.create_dir("x", 0o700).unwrap_err().is(libc::ENOENT)));
    let scratch = Scratch::new();
    for (index, dir) in both(&scratch).into_iter().enumerate() {
        let name = format!("n{index}");
        dir.create_dir(&name, 0o1777).unwrap();
        assert_eq!(dir.stat(&name).unwrap().mode, 0o1777, "whatever the umask");
        assert!(dir.create_dir(&name, 0o700).unwrap_err().is(libc::EEXIST));
        let deep = dir.create_dirs(format!("{name}/a/b/c"), 0o711).unwrap();
        dir.create_dirs(format!("{name}/a/b/c"), 0o711).unwrap();
        deep.create_file("f", 0o640).unwrap();
        assert!(deep.create_file("f", 0o640).unwrap_err().is(libc::EEXIST));
        dir.link(format!("{name}/a/b/c/f"), &dir, format!("{name}/g")).unwrap();
        assert!(dir.link(format!("{name}/g"), &deep, "f").unwrap_err().is(libc::EEXIST));
        assert!(dir.rename_new(format!("{name}/g"), &deep, "f").unwrap_err().is(libc::EEXIST));
        deep.rename("f", &dir, format!("{name}/h")).unwrap();
        assert_eq!(deep.list(10).unwrap().names.len(), 0);
        let meta = Meta::of(&dir.open_file(format!("{name}/h")).unwrap()).unwrap();
        assert_eq!((meta.links, meta.size, meta.mode), (2, 0, 0o640));
        dir.sync().unwrap();
        assert_eq!(dir.remove_tree(&name, 100).unwrap(), 6);
        assert_eq!(dir.remove_tree(&name, 100).unwrap(), 0);
    }
}

#[test]
fn lists_are_limited() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    for number in 0..10 {
        dir.create_file(number.to_string(), 0o600).unwrap();
    }
    let all = dir.list(10).unwrap();
    assert_eq!((all.names.len(), all.truncated), (10, false));
    let some = dir.list(9).unwrap();
    assert_eq!((some.names.len(), some.truncated), (9, true));
}

#[test]
fn trees_are_removed_without_leaving_them() {
    let (scratch, outside) = (Scratch::new(), Scratch::new());
    std::fs::write(outside.path().join("kept"), "x").unwrap();
    let dir = scratch.dir();
    dir.create_dirs("tree/a/b", 0o700).unwrap();
    symlink(outside.path(), scratch.path().join("tree/a/link")).unwrap();
    symlink(outside.path(), scratch.path().join("direct")).unwrap();
    for number in 0..20 {
        dir.create_file(format!("tree/a/b/{number}"), 0o000).unwrap();
    }
    assert!(dir.remove_tree("tree", 5).unwrap_err().to_string().contains("more than 5"));
    assert!(dir.stat("tree").is_ok());
    // What was removed at the first try stays removed.
    assert_eq!(dir.remove_tree("tree", 100).unwrap(), 24 - 5);
    assert_eq!(dir.remove_tree("direct", 100).unwrap(), 1);
    assert!(outside.path().join("kept").exists());
    assert!(dir.remove_tree("../x", 1).unwrap_err().is(libc::EXDEV));
}

/// Deeper than there may be open files, and than a path may be long.
#[test]
fn bottomless_trees_are_removed_as_others() {
    let scratch = Scratch::new();
    let mut here = scratch.dir();
    for _ in 0..3000 {
        here.create_file("beside", 0o600).unwrap();
        here.create_dir("d", 0o700).unwrap();
        here = here.open_dir("d").unwrap();
    }
    let error = scratch.dir().remove_tree("d", 100).unwrap_err();
    assert!(error.to_string().contains("more than 100"), "what is moved counts, too: {error}");
    assert!(scratch.dir().remove_tree("d", 10_000).unwrap() > 5000);
    assert!(scratch.dir().stat("d").is_err());
}

/// It may be a user's own, and answer never.
#[test]
fn what_is_mounted_in_a_tree_is_left_alone_as_root() {
    let scratch = Scratch::new();
    scratch.dir().create_dirs("tree/mounted", 0o700).unwrap();
    let mounted = scratch.path().join("tree/mounted");
    let command = |program: &str, words: &[&str]| {
        std::process::Command::new(program).args(words).arg(&mounted).status().unwrap().success()
    };
    if ax_sys::credentials::own().0 != 0 || !command("mount", &["-t", "tmpfs", "none"]) {
        return;
    }
    std::fs::write(mounted.join("kept"), "").unwrap();
    let removed = scratch.dir().remove_tree("tree", 100);
    let kept = mounted.join("kept").exists();
    assert!(command("umount", &[]));
    assert!(removed.is_err() && kept, "{removed:?}");
}

#[test]
fn hostile_files_are_not_taken() {
    let scratch = Scratch::new();
    let top = scratch.path();
    let own = ax_sys::credentials::own().0;
    let demand = Demand { owner: Some(own), max_size: 10 };
    std::fs::write(top.join("good"), "0123456789").unwrap();
    std::fs::write(top.join("large"), "0123456789X").unwrap();
    std::fs::write(top.join("twice"), "x").unwrap();
    std::fs::hard_link(top.join("twice"), top.join("again")).unwrap();
    std::fs::create_dir(top.join("dir")).unwrap();
    symlink("good", top.join("link")).unwrap();
    nix::unistd::mkfifo(&top.join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(top.join("socket")).unwrap();
    for dir in both(&scratch) {
        let (mut file, meta) = dir.open_checked("good", demand).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), meta.size), ("0123456789", 10));
        let refused = |name: &str| dir.open_checked(name, demand).unwrap_err();
        assert!(matches!(refused("large"), HostileError::TooLarge { size: 11, max: 10, .. }));
        assert!(matches!(refused("twice"), HostileError::ManyLinks { links: 2, .. }));
        for name in ["dir", "pipe", "socket"] {
            assert!(matches!(refused(name), HostileError::NotRegular(_)), "{name}");
        }
        assert!(matches!(refused("link"), HostileError::System(error) if error.is(libc::ELOOP)));
        assert!(matches!(refused("none"), HostileError::System(error) if error.is(libc::ENOENT)));
        let others = Demand { owner: Some(own + 1), max_size: 10 };
        let error = dir.open_checked("good", others).unwrap_err();
        assert!(matches!(error, HostileError::WrongOwner { .. }), "{error}");
    }
}

#[test]
fn renames_during_the_walk_do_not_lead_out() {
    let scratch = Scratch::new();
    let top = scratch.path().to_owned();
    std::fs::create_dir_all(top.join("real")).unwrap();
    std::fs::write(top.join("real/passwd"), "mine").unwrap();
    symlink("/etc", top.join("evil")).unwrap();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::sync::atomic::Ordering;
            let dir = Dir::open(&top).unwrap();
            while !over.load(Ordering::SeqCst) {
                for name in ["real", "evil"] {
                    dir.rename(name, &dir, "now").unwrap();
                    dir.rename("now", &dir, name).unwrap();
                }
            }
        });
        for dir in both(&scratch) {
            for _ in 0..2000 {
                if let Ok(content) = dir.read("now/passwd", 1 << 20) {
                    assert_eq!(content, b"mine");
                }
            }
        }
        over.store(true, std::sync::atomic::Ordering::SeqCst);
    });
}

#[test]
fn owner_is_changed_without_following() {
    if skip_without_root("owner_is_changed_without_following") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.path().join("file"), "").unwrap();
    symlink("file", scratch.path().join("link")).unwrap();
    let dir = scratch.dir();
    dir.chown("link", 1234, 1235).unwrap();
    assert_eq!((dir.stat("link").unwrap().uid, dir.stat("file").unwrap().uid), (1234, 0));
}

#[test]
fn files_are_placed_whole() {
    let scratch = Scratch::new();
    let dir = scratch.dir();
    let write = |content: &[u8], options: &Options| atomic_file::write(&dir, "state", content, options);
    assert_eq!(write(b"one", &Options::default()).unwrap(), Written::Placed);
    assert_eq!(dir.stat("state").unwrap().mode, 0o600);
    let open = dir.open_file("state").unwrap();
    let durable = Options { mode: 0o644, ..Options::durable() };
    assert_eq!(write(b"two", &durable).unwrap(), Written::Placed);
    assert_eq!(dir.stat("state").unwrap().mode, 0o644);
    let mut old = String::new();
    (&open).read_to_string(&mut old).unwrap();
    assert_eq!(old, "one", "a reader keeps what it opened");
    let first = Options { keep_first: true, ..Options::durable() };
    assert_eq!(write(b"three", &first).unwrap(), Written::WasThere);
    assert_eq!(dir.read("state", 100).unwrap(), b"two");
    dir.unlink("state").unwrap();
    assert_eq!(write(b"four", &first).unwrap(), Written::Placed);
    assert_eq!(dir.stat("state").unwrap().links, 1);
    assert_eq!(dir.list(10).unwrap().names, ["state"], "no temporary file is left");
    let long = "x".repeat(255);
    atomic_file::write(&dir, &long, b"", &Options::default()).unwrap();
    assert!(atomic_file::write(&dir, &format!("{long}x"), b"", &Options::default()).is_err());
    assert_eq!(dir.list(10).unwrap().names.len(), 2);
}

#[test]
fn of_many_first_records_one_stays() {
    let scratch = Scratch::new();
    let placed = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (scratch, placed) = (&scratch, &placed);
            scope.spawn(move || {
                let options = Options { keep_first: true, ..Options::default() };
                let content = number.to_string();
                let done =
                    atomic_file::write(&scratch.dir(), "result", content.as_bytes(), &options).unwrap();
                if done == Written::Placed {
                    placed.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(placed.into_inner(), 1);
}

#[test]
fn ownership_comes_with_the_file() {
    if skip_without_root("ownership_comes_with_the_file") {
        return;
    }
    let scratch = Scratch::new();
    let options = Options { owner: Some((1234, 1235)), mode: 0o4755, ..Options::default() };
    atomic_file::write(&scratch.dir(), "f", b"x", &options).unwrap();
    let meta = scratch.dir().stat("f").unwrap();
    assert_eq!((meta.uid, meta.gid, meta.mode), (1234, 1235, 0o4755));
}

#[test]
fn names_come_one_by_one_with_what_they_are() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        std::fs::write(scratch.path().join(name), "").unwrap();
    }
    std::fs::create_dir(scratch.path().join("d")).unwrap();
    symlink("a", scratch.path().join("e")).unwrap();
    let mut names: Vec<_> = scratch.dir().names().unwrap().map(Result::unwrap).collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    let words: Vec<_> = names.iter().map(|entry| entry.name.to_str().unwrap()).collect();
    assert_eq!(words, ["a", "b", "c", "d", "e"]);
    // A file system may not say; if it does, it is right.
    let told = |at: usize, what| names[at].file_type.is_none_or(|found| found == what);
    assert!(told(0, FileType::Regular) && told(3, FileType::Directory) && told(4, FileType::Link));
}

#[test]
fn a_file_that_somebody_writes_to_is_known_by_it() {
    let scratch = Scratch::new();
    let path = scratch.path().join("f");
    let writer = std::fs::File::create(&path).unwrap();
    let reader = scratch.dir().open_file("f").unwrap();
    if statfs::of(scratch.path()).unwrap().kind != statfs::Kind::Local {
        return;
    }
    assert!(is_open_for_writing(&reader));
    drop(writer);
    assert!(!is_open_for_writing(&reader));
    // Nothing is left of the question: others open it as before.
    drop(std::fs::OpenOptions::new().append(true).open(&path).unwrap());
}

#[test]
fn a_directory_is_not_left_for_another_mount() {
    let dir = Dir::open("/").unwrap();
    assert!(dir.open_dir_unmounted("proc").unwrap_err().is(libc::EXDEV));
    assert!(dir.look_unmounted("proc").unwrap_err().is(libc::EXDEV));
    assert!(dir.stat_unmounted("proc").unwrap_err().is(libc::EXDEV));
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path().join("d")).unwrap();
    symlink("d", scratch.path().join("l")).unwrap();
    assert!(scratch.dir().look_unmounted("d").unwrap().is_dir());
    assert!(scratch.dir().look_unmounted("l").unwrap_err().is(libc::ELOOP));
    assert_eq!(scratch.dir().stat_unmounted("l").unwrap().file_type, FileType::Link);
    assert!(scratch.dir().open_dir_unmounted("d").unwrap().list(1).unwrap().names.is_empty());
    assert!(scratch.dir().open_dir_unmounted("l").is_err());
    assert!(scratch.dir().open_dir_unmounted("../x").is_err());
}

#[test]
fn file_systems_are_told_apart() {
    let scratch = Scratch::new();
    let here = statfs::of(scratch.path()).unwrap();
    assert!(here.total_bytes >= here.available_bytes && here.available_bytes > 0);
    if Path::new("/dev/shm").is_dir() {
        assert_eq!(statfs::of(Path::new("/dev/shm")).unwrap().kind, statfs::Kind::Memory);
    }
    assert!(statfs::of(Path::new("/nowhere")).unwrap_err().is(libc::ENOENT));
}

#[test]
fn sockets_are_listened_on_with_their_mode() {
    let scratch = Scratch::new();
    let path = scratch.path().join("ctl");
    let first = ax_sys::socket::listen(&path, 0o622).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o622);
    assert!(ax_sys::socket::accept(&first).unwrap().is_none());
    // A second start takes the name over.
    let second = ax_sys::socket::listen(&path, 0o600).unwrap();
    let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert!(ax_sys::socket::accept(&first).unwrap().is_none());
    let stream = ax_sys::socket::accept(&second).unwrap().unwrap();
    let peer = ax_sys::credentials::peer(&stream).unwrap();
    assert_eq!((peer.uid, peer.gid), ax_sys::credentials::own());
    assert_eq!(peer.pid, std::process::id().cast_signed());
    std::fs::write(scratch.path().join("plain"), "precious").unwrap();
    assert!(ax_sys::socket::listen(&scratch.path().join("plain"), 0o600).is_err());
    assert_eq!(scratch.dir().list(10).unwrap().names.len(), 2);
}
