//! Each job is a session of its user's own, however the daemon was started: what one keeps in its keyring no other job
//! reads or destroys, and the kernel's audit takes the user for who acts.

use std::process::Command;

use crate::cluster::{ALICE, BOB, Cluster, User, as_root, wait_for};

/// keyctl(2) and add_key(2) for whoever has no keyutils: `call(number, …)` returns what they return, or minus the error.
const KEYS: &str = r#"
import ctypes, os, platform, sys, time
libc = ctypes.CDLL(None, use_errno=True)
KEYCTL, ADD = {'x86_64': (250, 248), 'aarch64': (219, 217)}[platform.machine()]
SESSION, USER = -3, -4
def call(number, *arguments):
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    got = libc.syscall(ctypes.c_long(number), *words)
    return got if got >= 0 else -ctypes.get_errno()
own = lambda: call(KEYCTL, 0, SESSION, 0)
join = lambda: call(KEYCTL, 1, 0)
revoke = lambda: call(KEYCTL, 3, SESSION)
link = lambda: call(KEYCTL, 8, SESSION, USER)
search = lambda: call(KEYCTL, 10, SESSION, b'user', b'password', 0)
add = lambda: call(ADD, b'user', b'password', b'hunter2', 7, SESSION)
def secret():
    held = ctypes.create_string_buffer(64)
    got = call(KEYCTL, 11, search(), held, 64)
    return held.value.decode() if got >= 0 else got
"#;

/// As systemd starts a service, and as somebody who logged in would.
const LOGGED_IN: &str = "
join()
try:
    open('/proc/self/loginuid', 'w').write('77')
except OSError:
    pass
os.execv(sys.argv[1], sys.argv[1:])
";

/// As containers do: the filter answers keyctl(2) with EPERM, all of it or as much as makes a keyring.
const FILTERED: &str = "
import struct
allow = 0x7fff0000
which = [] if os.environ['REFUSED'] == 'all' else [(0x20, 0, 0, 16), (0x15, 0, 1, 1)]
code = [(0x20, 0, 0, 0), (0x15, 0, 1 + len(which), KEYCTL), *which, (0x06, 0, 0, 0x50001), (0x06, 0, 0, allow)]
held = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *one) for one in code))
program = ctypes.create_string_buffer(struct.pack('HL', len(code), ctypes.addressof(held)))
assert libc.prctl(22, 2, program) == 0
os.execv(sys.argv[1], sys.argv[1:])
";

/// What alice's job does: it says so, keeps a password while others run, and says what became of it.
const KEEPS: &str = "
print(own(), add() > 0, open('/proc/self/loginuid').read(), flush=True)
while not os.path.exists('go'):
    time.sleep(0.02)
print(secret(), flush=True)
";

/// What bob's does. EACCES is 13, ENOKEY 126.
const TRIES: &str = "
print(own(), search(), link(), revoke(), open('/proc/self/loginuid').read(), flush=True)
";

struct World(Cluster);

impl World {
    /// `None` where the kernel has no keyrings, or a container has none.
    fn new() -> Option<World> {
        World::started_by(LOGGED_IN, "")
    }

    fn started_by(wrapper: &str, refused: &str) -> Option<World> {
        let mut cluster = Cluster::stopped("");
        let mut joins = Command::new("/usr/bin/python3");
        joins.args(["-c", &format!("{KEYS}exit(join() < 0)")]);
        if !as_root() || !joins.status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: no session keyrings here");
            return None;
        }
        cluster.wrapper = ["/usr/bin/python3", "-c", &format!("{KEYS}{wrapper}")].map(str::to_owned).into();
        cluster.set_environment("REFUSED", refused);
        cluster.start();
        Some(World(cluster))
    }

    fn submit(&self, user: User, what: &str) -> String {
        let script = format!("#!/usr/bin/python3\n{KEYS}{what}");
        self.0.submit(user, &["--output=out", "--cpus-per-task=1"], &script)
    }

    /// What a job of theirs printed at once.
    fn said(&self, user: User, lines: usize) -> Vec<String> {
        wait_for("a job to say something", || self.0.read(user, "out").lines().count() >= lines);
        self.0.read(user, "out").split_whitespace().map(str::to_owned).collect()
    }
}

#[test]
fn a_session_keyring_is_one_job_s_own_as_root() {
    let Some(world) = World::new() else { return };
    let keeps = world.submit(ALICE, KEEPS);
    let hers = world.said(ALICE, 1);
    assert_eq!(hers[1], "True", "{hers:?}");
    for _ in 0..2 {
        let job = world.submit(BOB, TRIES);
        world.0.wait_state(&job, &["SUCCEEDED"]);
        let his = world.said(BOB, 1);
        assert_ne!(his[0], hers[0], "one keyring for both");
        assert_eq!(his[1..4], ["-126", "-13", "0"], "nothing found, kept or left of it, and it is his own");
    }
    world.0.write(ALICE, "go", "");
    world.0.wait_state(&keeps, &["SUCCEEDED"]);
    assert_eq!(world.said(ALICE, 2).last().map(String::as_str), Some("hunter2"));
}

/// No keyring is none that is shared. Whoever may use them and not make one would be given another's.
#[test]
fn where_keyrings_are_refused_jobs_run_without_and_share_none_as_root() {
    for (refused, end) in [("all", "SUCCEEDED"), ("new ones", "FAILED")] {
        let Some(world) = World::started_by(FILTERED, refused) else { return };
        let job = world.submit(ALICE, "print(own())");
        let job = world.0.wait_state(&job, &["SUCCEEDED", "FAILED"]);
        assert_eq!(job["state"], end, "{job:#}");
        match refused {
            "all" => assert_eq!(world.said(ALICE, 1), ["-1"]),
            _ => assert!(job.to_string().contains("cannot make a session keyring"), "{job:#}"),
        }
    }
}

#[test]
fn it_is_the_user_who_acts_whoever_started_the_daemon_as_root() {
    let Some(world) = World::new() else { return };
    let daemon = std::fs::read_to_string(format!("/proc/{}/loginuid", world.0.pid()));
    if !daemon.is_ok_and(|uid| uid == "77") {
        eprintln!("skipped: nobody can say who has logged in");
        return;
    }
    let job = world.submit(BOB, TRIES);
    world.0.wait_state(&job, &["SUCCEEDED"]);
    assert_eq!(world.said(BOB, 1).last().map(String::as_str), Some("2"));
}
