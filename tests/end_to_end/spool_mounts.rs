//! What a user mounts in the folders of the spool that are his: a file system of his own, which may answer never.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::cluster::{ALICE, BOB, Cluster, as_root, wait_for};
use crate::spool::{leaves, names_in, put_into};
use crate::spool_attacks::{is_sound, own};

/// Something mounted, away again at the end.
pub(crate) struct Mount(std::path::PathBuf);

impl Mount {
    pub(crate) fn new(arguments: &[&str], on: &Path) -> Option<Mount> {
        let done = Command::new("mount").args(arguments).arg(on).output().ok()?;
        done.status.success().then(|| Mount(on.to_owned()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn what_a_user_mounts_is_not_asked_anything() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.stop();
    let folder = cluster.own_folder(ALICE);
    let Some(mount) = Mount::new(&["-t", "tmpfs", "none"], &folder) else {
        eprintln!("skipped: nothing can be mounted here");
        return;
    };
    chown(&folder, Some(ALICE.uid), Some(ALICE.gid)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    put_into(&folder, ALICE, "inside.sh", leaves(&cluster, ALICE, "inside"));
    cluster.start();
    wait_for("the daemon's word", || cluster.log().contains("another file system is mounted there"));
    drop(mount);
    let busy = cluster.write(ALICE, "busy.sh", leaves(&cluster, ALICE, "busy"));
    fs::write(folder.join(".busy"), "").unwrap();
    own(&folder.join(".busy"), ALICE);
    let mount = Mount::new(&["--bind", busy.to_str().unwrap()], &folder.join(".busy")).unwrap();
    // A mounted name can't be renamed: it stays.
    assert!(fs::rename(folder.join(".busy"), folder.join("busy.sh")).is_err());
    drop(mount);
    assert!(cluster.read(ALICE, "inside").is_empty());
    is_sound(&mut cluster, BOB);
}

/// A file system that never answers, on a file.
struct Hung {
    server: std::process::Child,
    _mount: Mount,
}

impl Hung {
    fn new(on: &Path) -> Option<Hung> {
        let serve = "exec 9<>/dev/fuse && mount -i -t fuse \
                     -o fd=9,rootmode=100000,user_id=0,group_id=0,allow_other none \"$0\" && exec sleep 1000";
        let server =
            Command::new("sh").args(["-c", serve]).arg(on).stderr(std::process::Stdio::null()).spawn();
        let mut server = server.ok()?;
        let mounted = || {
            let all = fs::read_to_string("/proc/self/mounts").unwrap();
            all.lines().any(|line| line.split(' ').nth(1) == on.to_str())
        };
        while !mounted() {
            if server.try_wait().unwrap().is_some() {
                return None;
            }
            sleep(Duration::from_millis(10));
        }
        Some(Hung { server, _mount: Mount(on.to_owned()) })
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// In his folder of refused drops a user may mount on single names, too.
#[test]
fn what_hangs_under_a_name_of_a_refused_drop_hangs_nobody() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.put(ALICE, "bad.sh", "#AX --nonsense\n");
    cluster.wait_why(ALICE, "bad.sh");
    let refused = cluster.spool().join("refused/1");
    wait_for("the file", || refused.join("bad.sh").exists());
    let mut hung = Vec::new();
    for name in ["bad.sh", "bad.sh.why"] {
        match Hung::new(&refused.join(name)) {
            Some(mount) => hung.push(mount),
            None => return eprintln!("skipped: nothing can be mounted here"),
        }
    }
    // The same name once more; what was refused is also looked through at each start.
    cluster.put(ALICE, "bad.sh", "#AX --nonsense\n");
    is_sound(&mut cluster, BOB);
    cluster.stop();
    cluster.start();
    is_sound(&mut cluster, BOB);
    let names = names_in(&refused);
    assert!(names.iter().filter(|name| name.starts_with("bad.sh.")).count() >= 3, "{names:?}");
}
