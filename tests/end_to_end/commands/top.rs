//! `ax top` on a real pseudo-terminal, with a real daemon: what it shows, what its keys do, and that the terminal is as
//! it was however it ends.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::cards::{card, with_cards};
use crate::cluster::{ALICE, BOB, Cluster, PATIENCE, ROOT, User, as_root};
use crate::fake_cards::TWO;

/// A program on a terminal of 80 by 24.
struct Terminal {
    driver: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Terminal {
    fn new(cluster: &Cluster, user: User, words: &[&str]) -> Terminal {
        Terminal::of(cluster, user, "ax", words)
    }

    fn of(cluster: &Cluster, user: User, program: &str, words: &[&str]) -> Terminal {
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal.py");
        let mut command = cluster.command(user, "python3");
        command.arg(driver).args(["80", "24", cluster.program(program)]).args(words);
        command.env("TERM", "xterm").env("LANG", "C.UTF-8").env("NO_COLOR", "1");
        let mut driver = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (orders, answers) = (driver.stdin.take().unwrap(), driver.stdout.take().unwrap());
        Terminal { driver, orders, answers: BufReader::new(answers) }
    }

    fn order(&mut self, order: &Value) -> Value {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{order} was answered by {line:?}"))
    }

    /// Presses keys and waits until a text is there.
    fn press(&mut self, keys: &str, text: &str) -> Vec<String> {
        let answer = self.order(&json!({ "send": keys, "wait": text, "seconds": PATIENCE.as_secs() }));
        let lines: Vec<String> = serde_json::from_value(answer["screen"].clone()).unwrap();
        assert_eq!(answer["found"], true, "no {text:?} after {keys:?}:\n{}", lines.join("\n"));
        assert_eq!(answer["unknown"], json!([]));
        lines
    }

    /// Presses keys and waits until a text is gone.
    fn press_until_gone(&mut self, keys: &str, text: &str) {
        let answer = self.order(&json!({ "send": keys, "gone": text, "seconds": PATIENCE.as_secs() }));
        assert_eq!(answer["found"], true, "{text:?} is still there: {:#}", answer["screen"]);
    }

    /// Waits for the end, which leaves the terminal as it was.
    fn end(mut self, order: Value) -> i64 {
        let mut order = order;
        order["end"] = json!(PATIENCE.as_secs());
        let answer = self.order(&order);
        assert_eq!(answer["found"], true, "it did not end: {answer:#}");
        assert_eq!(answer["restored"], true, "{answer:#}");
        answer["code"].as_i64().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn can_be_had() -> bool {
    let python = std::path::Path::new("/usr/bin/python3").exists();
    if !python {
        eprintln!("skipped: needs python3");
    }
    python && as_root()
}

#[test]
fn top_shows_follows_filters_and_cancels_as_root() {
    if !can_be_had() {
        return;
    }
    // One card at work for Alice, one that an administrator has drained.
    let (cluster, fake) =
        with_cards(&TWO.replace("temp=34 power=61000 load=0", "temp=51 power=61000 load=40"), "  cpus: 4\n");
    let node = card(&cluster, "GPU-bbbb")["node"].as_str().unwrap().to_owned();
    cluster.ok(ROOT, "ax", &["node", "drain", &node, "--gpu", "1", "--why", "its fan is loud"]);
    let script = "#!/bin/sh\necho \"hello \x1b]0;evil\x07 there\"\nexec sleep 1000\n";
    let uses =
        format!("#!/bin/sh\necho \"process $$ GPU-aaaa 20000\" >> {}\n{script}", fake.script().display());
    let options = ["-G", "1", "-c", "1", "--ram=50M", "-J", "train-one"];
    let first = cluster.submit(ALICE, &options, &uses);
    let second = cluster.submit(BOB, &["-c", "1", "--ram=50M", "-J", "of-bob"], script);
    cluster.wait_state(&first, &["RUNNING"]);
    cluster.wait_state(&second, &["RUNNING"]);
    let mut terminal = Terminal::new(&cluster, ALICE, &["top"]);
    let lines = terminal.press("", "2 running, 0 waiting");
    assert_eq!(lines.len(), 24);
    assert!(lines[23].starts_with("q quit"), "{lines:#?}");
    terminal.press("", "21GB/85.3GB");
    let lines = terminal.press("", "40%");
    let words = |line: &String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let shown: Vec<String> = lines.iter().map(words).collect();
    assert!(shown[0].contains(" 2 cards, 0 free "), "{lines:#?}");
    let row = |start: &str| shown.iter().find(|line| line.starts_with(start)).unwrap();
    assert!(row(&format!("{node} 0 ")).ends_with("40% 51C healthy daemon"), "{lines:#?}");
    assert!(row(&format!("{node} 1 ")).ends_with("0% 35C drained -"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(&second) && line.contains("of-bob")), "{lines:#?}");

    // Sorted by id and turned round, Alice's is the second.
    terminal.press("sr", "by id, reversed");
    let lines = terminal.press("G", &format!(">{first}"));
    let at = |id: &str| lines.iter().position(|line| line.contains(id)).unwrap();
    assert!(at(&second) < at(&first), "{lines:#?}");

    terminal.press("/train\r", "only 'train'");
    terminal.press_until_gone("", &second);
    let lines = terminal.press("l", "hello");
    assert!(lines.iter().any(|line| line.contains(r"hello \x1b]0;evil\x07 there")), "{lines:#?}");
    terminal.press("q", "only 'train'");

    // Nothing is ended by a key alone, and nobody ends another's.
    terminal.press("c", &format!("cancel {first}? y/N"));
    terminal.press("n", "q quit");
    assert_eq!(cluster.state(&first), "RUNNING");
    terminal.press("\x1b", &second);
    terminal.press("g", &format!(">{second}"));
    terminal.press("c", &format!("cancel {second}? y/N"));
    terminal.press("y", "belongs to");
    assert_eq!(cluster.state(&second), "RUNNING");
    terminal.press("G", &format!(">{first}"));
    terminal.press("c", &format!("cancel {first}? y/N"));
    terminal.press("y", "cancelled by");
    cluster.wait_state(&first, &["CANCELLED"]);
    terminal.press_until_gone("j", &first);

    let lines =
        terminal.order(&json!({ "resize": [60, 12], "wait": "q quit", "seconds": PATIENCE.as_secs() }));
    let lines: Vec<String> = serde_json::from_value(lines["screen"].clone()).unwrap();
    assert!(lines.len() == 12 && lines[11].starts_with("q quit"), "{lines:#?}");
    assert_eq!(terminal.end(json!({ "send": "q" })), 0);
}

#[test]
fn top_gives_the_terminal_back_however_it_ends_as_root() {
    if !can_be_had() {
        return;
    }
    let mut cluster = Cluster::new();
    for (order, code) in [
        (json!({ "send": "q" }), 0),
        (json!({ "send": "\x03" }), 0),
        (json!({ "signal": "TERM" }), 143),
        (json!({ "signal": "HUP" }), 129),
        (json!({ "signal": "INT" }), 130),
    ] {
        let mut terminal = Terminal::new(&cluster, ALICE, &["top"]);
        terminal.press("", "0 running");
        assert_eq!(terminal.end(order.clone()), code, "{order}");
    }
    // Without a daemon it says so, and finds the next one.
    let mut terminal = Terminal::new(&cluster, ALICE, &["top"]);
    terminal.press("", "0 running");
    cluster.stop();
    terminal.press("", "ax top: ");
    cluster.start();
    terminal.press("", "0 running");
    assert_eq!(terminal.end(json!({ "send": "q" })), 0);
}

#[test]
fn top_needs_a_terminal_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let ran = cluster.run(ALICE, "ax", &["top"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("fills a terminal") && ran.out.is_empty(), "{ran:?}");
}

#[test]
fn a_daemon_that_is_started_on_a_terminal_says_where_it_serves() {
    if !can_be_had() {
        return;
    }
    let cluster = Cluster::stopped("");
    let root = cluster.root.to_str().unwrap();
    let mut terminal = Terminal::of(&cluster, ROOT, "axd", &["--root", root, "--no-cards"]);
    terminal.press("", "axd: serving at ");
    cluster.ok(ROOT, "axctl", &["stop"]);
    assert_eq!(terminal.end(json!({})), 0);
}
