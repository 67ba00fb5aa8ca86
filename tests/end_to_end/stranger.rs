//! One deed of another user: this test program itself, started as that user, does one thing and
//! prints what the kernel said. So nothing depends on which tools a machine has.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use ax_sys::path::Dir;
use ax_sys::pidfd::PidFd;
use ax_sys::seqpacket::{self, Incoming};
use ax_sys::signals::Signal;

use crate::cluster::{Cluster, User};

/// Numbers of errors, as Linux has them everywhere.
pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const EACCES: i32 = 13;

const MARK: &str = "@@";

/// What somebody does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed<'a> {
    /// Reads a file, or as much of it as there is.
    Read(&'a Path),
    /// Opens a file for writing and writes `1`.
    Write(&'a Path),
    /// Lists a folder.
    List(&'a Path),
    /// Makes a file.
    Make(&'a Path),
    /// Removes a file.
    Remove(&'a Path),
    /// Gives a file or folder another name beside its own.
    Rename(&'a Path),
    /// Puts a link of this name to `/etc/passwd`.
    Link(&'a Path),
    /// Sends SIGURG to a process: harmless where it works, and without the session's privilege of SIGCONT.
    Signal(u32),
    /// Reads the memory of a process, for which the kernel asks as for ptrace.
    Trace(u32),
    /// Connects to the message socket `ctl` in this folder.
    Connect(&'a Path),
}

impl Deed<'_> {
    fn words(self) -> (&'static str, String) {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        match self {
            Deed::Read(path) => ("read", text(path)),
            Deed::Write(path) => ("write", text(path)),
            Deed::List(path) => ("list", text(path)),
            Deed::Make(path) => ("make", text(path)),
            Deed::Remove(path) => ("remove", text(path)),
            Deed::Rename(path) => ("rename", text(path)),
            Deed::Link(path) => ("link", text(path)),
            Deed::Signal(pid) => ("signal", pid.to_string()),
            Deed::Trace(pid) => ("trace", pid.to_string()),
            Deed::Connect(path) => ("connect", text(path)),
        }
    }
}

/// Does it as this user: the error number, 0 if it worked.
pub(crate) fn tries(cluster: &Cluster, user: User, deed: Deed<'_>) -> i32 {
    let (what, whom) = deed.words();
    run(cluster, user, &[what, &whom], b"").trim().parse().unwrap()
}

/// Sends a request to the control socket in a folder; the answer, or `closed`, or the error number.
pub(crate) fn asks_supervisor(cluster: &Cluster, user: User, folder: &Path, request: &[u8]) -> String {
    run(cluster, user, &["ask", folder.to_str().unwrap()], request)
}

/// Sends bytes to the daemon's socket and reads the answer to its end.
pub(crate) fn sends(cluster: &Cluster, user: User, bytes: &[u8]) -> String {
    run(cluster, user, &["http", cluster.socket().to_str().unwrap()], bytes)
}

/// Listens at a path and answers everybody as a daemon would, until the process is killed.
pub(crate) fn pretends(cluster: &Cluster, user: User, socket: &Path) -> std::process::Child {
    let mut command = command(cluster, user, &["pretend", socket.to_str().unwrap()]);
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    crate::cluster::wait_for("the false daemon", || UnixStream::connect(socket).is_ok());
    child
}

/// Makes so many connections to the daemon, sends half a request on each, prints a line, and keeps
/// the last of them until its standard input ends.
pub(crate) fn hangs_on(cluster: &Cluster, user: User, connections: u32) -> std::process::Child {
    let mut command = command(cluster, user, &["hang", cluster.socket().to_str().unwrap()]);
    command.env("AX_DEED_COUNT", connections.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

fn command(cluster: &Cluster, user: User, words: &[&str]) -> std::process::Command {
    let mut command = cluster.command(user, std::env::current_exe().unwrap());
    command.args(["--exact", "stranger::deed", "--ignored", "--nocapture"]).env("AX_DEED", words.join("\n"));
    command
}

fn run(cluster: &Cluster, user: User, words: &[&str], input: &[u8]) -> String {
    let mut command = command(cluster, user, words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Whoever does not read it all has said why.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, answer) = text.split_once(MARK).unwrap_or_else(|| panic!("no answer to {words:?}: {text}"));
    answer.split(MARK).next().unwrap().to_owned()
}

/// The other side: what this program does when it was started for one deed.
#[test]
#[ignore = "a helper process of other tests"]
fn deed() {
    let Ok(words) = std::env::var("AX_DEED") else { return };
    let (what, whom) = words.split_once('\n').unwrap();
    let path = Path::new(whom);
    let answer = match what {
        "ask" => asked(path),
        "http" => http(path),
        "hang" => hang(path),
        "pretend" => pretend(path),
        _ => number(attempt(what, path)).to_string(),
    };
    println!("{MARK}{answer}{MARK}");
}

fn number(result: std::io::Result<()>) -> i32 {
    result.map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0)
}

fn attempt(what: &str, path: &Path) -> std::io::Result<()> {
    let of_system = |error: ax_sys::SysError| std::io::Error::from_raw_os_error(error.errno().unwrap_or(-1));
    let pid = || path.to_str().unwrap().parse::<i32>().unwrap();
    match what {
        "read" => fs::File::open(path)?.read(&mut [0; 64]).map(drop),
        "write" => fs::OpenOptions::new().write(true).open(path)?.write_all(b"1"),
        "list" => fs::read_dir(path).map(drop),
        "make" => fs::OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        "remove" => fs::remove_file(path),
        "rename" => fs::rename(path, path.with_extension("renamed")),
        "link" => std::os::unix::fs::symlink("/etc/passwd", path),
        "signal" => PidFd::open(pid())
            .and_then(|process| process.send_signal("URG".parse::<Signal>().unwrap()))
            .map(drop)
            .map_err(of_system),
        "trace" => fs::File::open(format!("/proc/{}/mem", path.display())).map(drop),
        "connect" => {
            Dir::open(path).and_then(|dir| seqpacket::connect(&dir, "ctl")).map(drop).map_err(of_system)
        }
        other => panic!("{other}"),
    }
}

fn asked(folder: &Path) -> String {
    let mut request = Vec::new();
    std::io::stdin().read_to_end(&mut request).unwrap();
    let socket = match Dir::open(folder).and_then(|dir| seqpacket::connect(&dir, "ctl")) {
        Ok(socket) => socket,
        Err(error) => return format!("errno {}", error.errno().unwrap_or(-1)),
    };
    seqpacket::send(&socket, &request);
    let mut buffer = vec![0; 64 << 10];
    // An allowed request is not answered at all: a later refusal shows that it was taken.
    for _ in 0..200 {
        match seqpacket::receive(&socket, &mut buffer) {
            Incoming::Message(length) => return String::from_utf8_lossy(&buffer[..length]).into_owned(),
            Incoming::Closed => return "closed".to_owned(),
            Incoming::TooLong => return "too long".to_owned(),
            Incoming::Nothing => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    "silence".to_owned()
}

fn http(socket: &Path) -> String {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    // The daemon may refuse by the head alone and close.
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn pretend(socket: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    fs::set_permissions(socket, fs::Permissions::from_mode(0o777)).unwrap();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        let read = stream.read(&mut [0; 65536]).unwrap_or(0);
        // What was told to the stranger is what must not have been.
        fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open("told")
            .unwrap()
            .write_all(&[b'x'; 65536][..read])
            .unwrap();
        let body = r#"{"id":"ax-2026-0666","number":666}"#;
        let _ = write!(stream, "HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
    String::new()
}

fn hang(socket: &Path) -> String {
    let count: u32 = std::env::var("AX_DEED_COUNT").unwrap().parse().unwrap();
    let mut open = Vec::new();
    for _ in 0..count {
        // A refused one was read to its end by the daemon's side: it counts as made.
        let Ok(mut stream) = UnixStream::connect(socket) else { continue };
        let _ = stream.write_all(b"POST /api/v1/jobs HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n{");
        open.push(stream);
        // Not more than this process may have open.
        if open.len() > 500 {
            open.drain(..250);
        }
    }
    println!("{MARK}{}{MARK}", open.len());
    let _ = std::io::stdin().read(&mut [0]);
    String::new()
}
