//! The control sockets: who may ask for what, and peers that mean harm.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use ax_core::job::state::Outcome;
use ax_core::record::{Assignment, Report, Request};
use ax_core::time::Span;
use ax_sys::path::Dir;
use ax_sys::seqpacket::{self, Incoming};

use crate::world::{Mount, Running, USER, World, answer, eventually, set_mode};

const SLEEPER: &str = "while [ ! -e go ]; do sleep 0.02; done; echo done";

fn started<'a>(world: &'a World, script: &str) -> Running<'a> {
    let mut job = world.job(script).start();
    job.begun();
    job
}

fn finish(job: Running<'_>) {
    std::fs::write(job.job.world.home.join("go"), "").unwrap();
    assert_eq!(job.result().outcome, Outcome::Succeeded);
}

/// Sends one message as another user and prints the answer.
fn ask_as(uid: u32, socket: &Path, message: &str) -> String {
    let program = "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.settimeout(30)\n\
        s.connect(sys.argv[1])\ntry:\n s.send(sys.argv[2].encode())\nexcept BrokenPipeError:\n pass\nprint(s.recv(65536).decode())";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(socket).arg(message).uid(uid).gid(uid).current_dir("/");
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_jobs_user_may_signal_and_nothing_else() {
    let Some(world) = World::new() else { return };
    let job = started(&world, "trap 'echo got it' USR1; while [ ! -e go ]; do sleep 0.02; done");
    let socket = job.job.job_folder().join("ctl");
    for request in [
        r#"{"request":"terminate","outcome":"CANCELLED","message":"","at_once":true}"#,
        r#"{"request":"limit","limit":null}"#,
        r#"{"request":"freeze","frozen":true}"#,
        r#"{"request":"follow"}"#,
    ] {
        assert!(ask_as(USER, &socket, request).contains("only root may"), "{request}");
    }
    let signal = r#"{"request":"signal","signal":10,"batch_only":true}"#;
    assert_eq!(ask_as(USER, &socket, signal).trim(), r#"{"report":"done"}"#);
    eventually("the signal", || world.out() == "got it\n");
    let nonsense = r#"{"request":"signal","signal":0,"batch_only":true}"#;
    assert!(ask_as(USER, &socket, nonsense).contains("there is no signal 0"));
    finish(job);
}

/// Asks for the same signal on four connections for so many seconds; prints how often that was done.
const ASKS_WITHOUT_END: &str = r#"
import select, socket, sys, time
peers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(4)]
end, done = time.time() + float(sys.argv[2]), 0
for peer in peers:
    peer.connect(sys.argv[1])
    peer.send(b'{"request":"signal","signal":18,"batch_only":false}')
while time.time() < end:
    for peer in select.select(peers, [], [], 0.1)[0]:
        done += b'done' in peer.recv(4096)
        peer.send(b'{"request":"signal","signal":18,"batch_only":false}')
print(done)
"#;

#[test]
fn its_user_s_requests_cost_a_small_part_of_a_cpu_and_root_is_heard() {
    let Some(world) = World::new() else { return };
    let many =
        "for i in $(seq 200); do sleep 1000 & done; echo ready; while [ ! -e go ]; do sleep 0.02; done";
    let job = started(&world, many);
    eventually("its processes", || world.out() == "ready\n");
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", job.supervisor.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        // In hundredths of a second.
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (begin, before) = (std::time::Instant::now(), used());
    let mut asks = Command::new("python3");
    asks.args(["-c", ASKS_WITHOUT_END]).arg(job.job.job_folder().join("ctl")).arg("3").uid(USER).gid(USER);
    let asks = asks.current_dir("/").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let signal = Request::Signal { signal: 18, batch_only: true };
    (0..20).for_each(|_| assert_eq!(job.ask(&signal), Report::Done));
    let asked = asks.wait_with_output().unwrap();
    let done: u64 = String::from_utf8_lossy(&asked.stdout).trim().parse().unwrap();
    let (took, used) = (begin.elapsed().as_millis() as u64 / 10, used() - before);
    assert!(done > 0 && used * 5 < took, "{used} of {took} hundredths of a second, {done} signals");
    finish(job);
}

#[test]
fn other_users_are_refused_even_where_the_folder_lets_them_in() {
    let Some(world) = World::new() else { return };
    let job = started(&world, SLEEPER);
    let (socket, signal) =
        (job.job.job_folder().join("ctl"), r#"{"request":"signal","signal":9,"batch_only":true}"#);
    assert!(ask_as(54_321, &socket, signal).contains("PermissionError"));
    set_mode(&job.job.job_folder(), 0o711);
    // The refusal may be overtaken by the end of the connection.
    let answer = ask_as(54_321, &socket, signal);
    assert!(answer.contains("another user's") || answer.contains("ConnectionResetError"), "{answer}");
    let roots = job.job.folder.join("ctl");
    assert!(ask_as(USER, &roots, signal).contains("PermissionError"), "root's socket is root's");
    finish(job);
}

#[test]
fn nonsense_costs_its_sender_the_connection_and_nobody_else_anything() {
    let Some(world) = World::new() else { return };
    let job = started(&world, SLEEPER);
    let folder = Dir::open(&job.job.folder).unwrap();
    for garbage in [&b"{"[..], b"\xff\xfe\x00", b"[]", b"{\"request\":\"nonsense\"}", &[b'x'; 100_000]] {
        let socket = seqpacket::connect(&folder, "ctl").unwrap();
        assert!(seqpacket::send(&socket, garbage));
        assert!(matches!(answer(&socket), Report::Refused { .. }));
        eventually("the end", || seqpacket::receive(&socket, &mut [0; 64]) == Incoming::Closed);
    }
    finish(job);
}

#[test]
fn a_crowd_of_silent_connections_leaves_room_for_root() {
    let Some(world) = World::new() else { return };
    let job = started(&world, SLEEPER);
    let program = "import socket,sys,time\nkept=[]\nfor i in range(60):\n s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\n \
        s.connect(sys.argv[1]); kept.append(s)\nprint('full',flush=True)\ntime.sleep(60)";
    let mut command = Command::new("python3");
    command.args(["-c", program]).arg(job.job.job_folder().join("ctl")).uid(USER).gid(USER).current_dir("/");
    let mut crowd = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(crowd.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"full\n");
    for _ in 0..20 {
        assert_eq!(job.ask(&Request::Freeze { frozen: false }), Report::Done);
    }
    crowd.kill().unwrap();
    crowd.wait().unwrap();
    finish(job);
}

#[test]
fn a_follower_hears_where_it_stands_and_what_comes() {
    let Some(world) = World::new() else { return };
    let job = started(&world, SLEEPER);
    assert_eq!(job.ask(&Request::Freeze { frozen: true }), Report::Done);
    let socket = seqpacket::connect(&Dir::open(&job.job.folder).unwrap(), "ctl").unwrap();
    assert!(seqpacket::send(&socket, &serde_json::to_vec(&Request::Follow).unwrap()));
    assert_eq!(answer(&socket), Report::Done);
    assert_eq!(answer(&socket), Report::Started(job.started().unwrap()).without_overdue());
    assert!(matches!(answer(&socket), Report::Frozen { frozen: true, .. }));
    assert_eq!(job.ask(&Request::Freeze { frozen: false }), Report::Done);
    assert!(matches!(answer(&socket), Report::Frozen { frozen: false, .. }));
    finish(job);
    eventually("the result", || matches!(answer(&socket), Report::Result(_)));
}

#[test]
fn a_follower_that_does_not_read_is_dropped() {
    let Some(world) = World::new() else { return };
    let job = started(&world, SLEEPER);
    // Far more reports than fit its buffer; the supervisor must not wait for it.
    for _ in 0..600 {
        assert_eq!(job.ask(&Request::Freeze { frozen: true }), Report::Done);
        assert_eq!(job.ask(&Request::Freeze { frozen: false }), Report::Done);
    }
    std::fs::write(world.home.join("go"), "").unwrap();
    let mut job = job;
    job.axd = job.axd.take().filter(|_| false);
    assert_eq!(job.result().outcome, Outcome::Succeeded);
}

#[test]
fn a_socket_that_the_user_replaced_is_the_users_loss() {
    let Some(world) = World::new() else { return };
    let job = world.job(SLEEPER);
    std::os::unix::fs::symlink("/etc/shadow", job.job_folder().join("ctl")).unwrap();
    let mut job = job.start();
    job.begun();
    assert_eq!(job.ask(&Request::Freeze { frozen: false }), Report::Done);
    finish(job);
}

trait WithoutOverdue {
    fn without_overdue(self) -> Report;
}

impl WithoutOverdue for Report {
    fn without_overdue(self) -> Report {
        match self {
            Report::Started(mut started) => {
                started.overdue_boot = None;
                Report::Started(started)
            }
            other => other,
        }
    }
}

#[test]
fn where_the_watchdog_can_not_be_told_only_a_shorter_limit_counts() {
    let Some(world) = World::new() else { return };
    let attempts = world.run.join("attempts");
    let mount = Mount::new(&attempts, "size=128k,mode=700");
    let hour = |assignment: &mut Assignment| assignment.ending.limit = Some(Span::seconds(3600));
    let mut job = world.job("exec sleep 1000").with(hour).start();
    job.begun();
    let overdue = |job: &Running<'_>| job.started().unwrap().overdue_boot;
    let before = overdue(&job);
    assert!(std::fs::write(attempts.join("filler"), vec![1; 1 << 20]).is_err(), "it should be full");
    let limit = |seconds| Request::Limit { limit: Some(Span::seconds(seconds)) };
    assert!(matches!(job.ask(&limit(7200)), Report::Refused { .. }));
    assert!(matches!(job.ask(&Request::Limit { limit: None }), Report::Refused { .. }));
    assert_eq!(overdue(&job), before);
    assert_eq!(job.ask(&limit(0)), Report::Done);
    std::fs::remove_file(attempts.join("filler")).unwrap();
    assert_eq!(job.result().outcome, Outcome::Timeout);
    drop(mount);
}
