//! Files that are no YAML, or more of it than a configuration may hold. The texts
//! are partly those of the YAML library: a new version of it is seen here first.

mod common;
#[allow(dead_code, reason = "each test binary has a table of its own")]
mod wrong;

use std::time::{Duration, Instant};

#[test]
fn each_fault_has_an_answer_of_its_own() {
    common::each_has_its_line(wrong::SYNTAX);
}

#[test]
fn hostile_files_are_answered_quickly() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let uses = vec![format!("*a{}", i - 1); 9].join(", ");
        bomb.push_str(&format!("a{i}: &a{i} [{uses}]\n"));
    }
    let stairs: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let started = Instant::now();
    for (file, expected) in [
        (bomb, "the file holds too much"),
        ("[".repeat(100_000), "the file is nested too deeply"),
        ("- ".repeat(100_000), "the file is nested too deeply"),
        (stairs, "the file is nested too deeply"),
        ("- 1\n".repeat(200_000), "the file holds too much"),
        ((0..40_000).map(|i| format!("key{i}: 1\n")).collect(), "and 39950 more findings"),
        (format!("{}: 1\n", "k".repeat(900)), "unknown key 'kkk"),
        (format!("a: [&a x{}]\n", ", *a".repeat(1000)), "the file holds too much"),
    ] {
        let lines = common::lines(file.as_bytes());
        assert!(lines.iter().any(|line| line.contains(expected)), "{expected}: {lines:?}");
        assert!(lines.len() <= 51 && lines.iter().all(|line| line.len() < 400), "{expected}");
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn what_is_not_utf_8_has_a_place() {
    assert_eq!(common::lines(b"cluster:\n  name: \xc3\xbc\xff\n"), ["c:2:10: the byte 0xff is not UTF-8"]);
}
