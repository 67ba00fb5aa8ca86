//! A daemon made of canned answers, and the commands run against it within this process.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "helpers of tests; each test file uses its part"
)]

pub mod samples;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use ax_core::time::WallTime;
use axctl::when::Zone;
use axctl::world::{Screen, Variables, World};
use test_kit::TempDir;

/// 2026-11-29 16:32:14 +01:00.
pub const NOW: WallTime = WallTime(1_795_966_334_000);

/// A folder of a test, gone at its end.
pub struct Root(pub TempDir);

impl Root {
    pub fn new() -> Root {
        let folder = TempDir::new();
        fs::create_dir_all(folder.join("run/ax")).unwrap();
        Root(folder)
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join("run/ax/axd.sock")
    }

    pub fn with_spool(self) -> Root {
        fs::create_dir_all(self.incoming()).unwrap();
        self
    }

    pub fn incoming(&self) -> PathBuf {
        self.0.join("var/spool/ax/incoming")
    }

    /// The files in the spool, whoever's folder they are in.
    pub fn spooled(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.incoming()).unwrap().map(|entry| entry.unwrap().path());
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect()
    }
}

/// What a fake daemon does with a request.
#[derive(Clone)]
pub enum Reply {
    /// Answers with a status and a document.
    Json(u16, String),
    /// Closes the connection without a word.
    Break,
    /// These one after the other, the last again and again.
    Each(Vec<Reply>),
}

pub fn ok(body: impl Into<String>) -> Reply {
    Reply::Json(200, body.into())
}

pub fn error(status: u16, class: &str, text: &str) -> Reply {
    Reply::Json(status, serde_json::json!({ "class": class, "error": text }).to_string())
}

/// A request as it came: method and target, and its body.
pub type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// Listens at the root's socket for as long as the process lives.
pub fn serve(root: &Root, replies: &[(&str, Reply)]) -> Seen {
    let listener = UnixListener::bind(root.socket()).unwrap();
    let seen = Seen::default();
    let record = Arc::clone(&seen);
    let replies: BTreeMap<String, Reply> =
        replies.iter().map(|(target, reply)| ((*target).to_owned(), reply.clone())).collect();
    thread::spawn(move || {
        let mut counts = BTreeMap::new();
        for stream in listener.incoming() {
            answer(&mut stream.unwrap(), &replies, &mut counts, &record);
        }
    });
    seen
}

fn answer(
    stream: &mut UnixStream,
    replies: &BTreeMap<String, Reply>,
    counts: &mut BTreeMap<String, usize>,
    seen: &Seen,
) {
    let Some((target, body)) = read_request(stream) else { return };
    seen.lock().unwrap().push((target.clone(), body));
    let count = counts.entry(target.clone()).or_default();
    let reply = match replies.get(&target) {
        Some(Reply::Each(list)) => list[(*count).min(list.len() - 1)].clone(),
        Some(reply) => reply.clone(),
        None => error(409, "refused", &format!("no answer to {target}")),
    };
    *count += 1;
    if let Reply::Json(status, body) = reply {
        let head =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
    }
}

fn read_request(stream: &mut UnixStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 65536];
    loop {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            let target = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
            return Some((target.to_owned(), body.to_owned()));
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: u8,
    pub out: String,
    pub err: String,
}

/// The screens that golden files are made for.
pub const PIPE: Screen = Screen { terminal: false, colour: false, width: 80 };
pub const WIDE_PIPE: Screen = Screen { terminal: false, colour: false, width: 200 };
pub const TERMINAL: Screen = Screen { terminal: true, colour: true, width: 80 };
pub const WIDE_TERMINAL: Screen = Screen { terminal: true, colour: true, width: 200 };

fn in_world(
    root: &Root,
    vars: &[(&str, &str)],
    input: &[u8],
    run: impl FnOnce(&mut World<'_>) -> u8,
) -> Ended {
    let root = ("AX_ROOT", root.0.to_str().unwrap());
    let vars = vars.iter().chain([&root]).map(|(k, v)| (OsString::from(k), OsString::from(v)));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&mut World {
        vars: Variables(vars.collect()),
        input: &mut { input },
        input_is_terminal: false,
        out: &mut out,
        err: &mut err,
        now: NOW,
    });
    Ended { code, out: String::from_utf8_lossy(&out).into(), err: String::from_utf8_lossy(&err).into() }
}

/// Runs `ax`.
pub fn ax(root: &Root, words: &[&str], screen: Screen) -> Ended {
    let arguments = std::iter::once("ax").chain(words.iter().copied()).map(OsString::from).collect();
    in_world(root, &[], b"", |world| axctl::ax::run(arguments, world, screen, Zone::Fixed(3600)))
}

/// Runs `ax` with these variables.
pub fn ax_with(root: &Root, words: &[&str], screen: Screen, vars: &[(&str, &str)]) -> Ended {
    let arguments = std::iter::once("ax").chain(words.iter().copied()).map(OsString::from).collect();
    in_world(root, vars, b"", |world| axctl::ax::run(arguments, world, screen, Zone::Fixed(3600)))
}

/// Runs `axctl`.
pub fn axctl(root: &Root, words: &[&str]) -> Ended {
    let arguments = std::iter::once("axctl").chain(words.iter().copied()).map(OsString::from).collect();
    in_world(root, &[], b"", |world| axctl::axctl::run(arguments, world))
}

/// Runs `axbatch`.
pub fn axbatch(root: &Root, words: &[&str], vars: &[(&str, &str)], input: &str) -> Ended {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    in_world(root, vars, input.as_bytes(), |world| axctl::axbatch::run(&words, world))
}

/// Compares with `tests/golden/NAME`, or writes it when `AX_BLESS=1`.
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    blessed(&path, text);
}

/// Compares a file of the source tree with what it should hold, or writes it when `AX_BLESS=1`.
pub fn blessed(path: &Path, text: &str) {
    if std::env::var_os("AX_BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        return;
    }
    let old = fs::read_to_string(path).unwrap_or_default();
    assert!(
        old == text,
        "{} differs; run with AX_BLESS=1 and look at the difference:\n{text}",
        path.display()
    );
}

/// Whether no line is wider than so many columns; colours have no width.
pub fn fits(text: &str, width: usize) {
    for line in text.lines() {
        let mut plain = String::new();
        let mut in_colour = false;
        for c in line.chars() {
            match c {
                '\x1b' => in_colour = true,
                'm' if in_colour => in_colour = false,
                c if !in_colour => plain.push(c),
                _ => {}
            }
        }
        let columns = unicode_width::UnicodeWidthStr::width(plain.as_str());
        assert!(columns <= width, "{columns} columns: {plain}");
    }
}
