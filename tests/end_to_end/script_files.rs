//! Every kind of file that somebody may hand to axbatch: taken and run, or refused with its exit
//! code and line, and then without a trace in the database.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use crate::cluster::{ALICE, Cluster, as_root};
use crate::hostile_requests::Watch;

/// What has to come of it.
enum Fate {
    /// The job succeeds and prints this.
    Runs(&'static str),
    /// It is taken, and its end has this reason.
    Fails(&'static str),
}
use Fate::{Fails, Runs};

/// What is refused: what it is, the word that names it, the exit code, and the whole line.
type Refused = (&'static str, fn(&Cluster), &'static str, i32, &'static str);

const REFUSED: &[Refused] = &[
    ("a missing file", |_| {}, "job.sh", 66, "cannot read job.sh: No such file or directory"),
    ("a folder", |c| fs::create_dir(path(c)).unwrap(), "job.sh", 66, "cannot read job.sh: it is a folder"),
    (
        "a file as a folder",
        |c| write(c, "#!/bin/sh\n"),
        "job.sh/job.sh",
        66,
        "cannot read job.sh/job.sh: Not a directory",
    ),
    (
        "an unreadable file",
        |c| {
            write(c, "#!/bin/sh\n");
            fs::set_permissions(path(c), fs::Permissions::from_mode(0o200)).unwrap();
        },
        "job.sh",
        66,
        "cannot read job.sh: Permission denied; it is yours: chmod u+r",
    ),
    (
        "somebody else's closed file",
        |c| {
            write(c, "#!/bin/sh\n");
            chown(path(c), Some(2), Some(2)).unwrap();
            fs::set_permissions(path(c), fs::Permissions::from_mode(0o600)).unwrap();
        },
        "job.sh",
        66,
        "cannot read job.sh: Permission denied; it belongs to another user (uid 2)",
    ),
    (
        "a file in a closed folder",
        |c| {
            fs::create_dir(path(c)).unwrap();
            fs::set_permissions(path(c), fs::Permissions::from_mode(0o700)).unwrap();
        },
        "job.sh/inside",
        66,
        "cannot read job.sh/inside: Permission denied",
    ),
    (
        "a link to nothing",
        |c| symlink("nowhere", path(c)).unwrap(),
        "job.sh",
        66,
        "cannot read job.sh: it is a link to nowhere, which is not there",
    ),
    (
        "a link in a circle",
        |c| symlink("job.sh", path(c)).unwrap(),
        "job.sh",
        66,
        "cannot read job.sh: Too many levels of symbolic links",
    ),
    (
        "a socket",
        |c| drop(std::os::unix::net::UnixListener::bind(path(c)).unwrap()),
        "job.sh",
        66,
        "cannot read job.sh: it is a socket",
    ),
    ("a file that fails", |_| {}, "/proc/self/mem", 66, "cannot read /proc/self/mem: Input/output error"),
    ("a device without end", |_| {}, "/dev/zero", 65, "/dev/zero: the script has more than 4194304 bytes"),
    ("a device that is empty", |_| {}, "/dev/null", 65, "/dev/null: the script is empty"),
    ("an empty file", |c| write(c, ""), "job.sh", 65, "job.sh: the script is empty"),
    (
        "only a mark",
        |c| write(c, "\u{feff}"),
        "job.sh",
        65,
        "job.sh: the script is empty but for a byte order mark",
    ),
    ("only blanks", |c| write(c, " \n\t\r\n\n"), "job.sh", 65, "job.sh: the script is empty but for blanks"),
    (
        "random bytes",
        |c| write(c, [0x7f, 0x00, 0xff, 0x13, 0x00]),
        "job.sh",
        65,
        "job.sh:1:2: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    (
        "a NUL inside",
        |c| write(c, "#!/bin/sh\necho \0hello\n"),
        "job.sh",
        65,
        "job.sh:2:6: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    (
        "UTF-16",
        |c| write(c, utf16("#!/bin/sh\necho hello\n")),
        "job.sh",
        65,
        "job.sh:1:4: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    (
        "an archive",
        |c| write(c, b"PK\x03\x04\x14\x00\x00\x00\x08\x00"),
        "job.sh",
        65,
        "job.sh:1:6: a NUL byte; this is not a shell script; perhaps UTF-16, or a program, which --wrap starts",
    ),
    (
        "five mebibytes",
        |c| write(c, "#!/bin/sh\n# padding padding\n".repeat(200_000)),
        "job.sh",
        65,
        "job.sh: the script has more than 4194304 bytes",
    ),
    (
        "a hundred thousand directives",
        |c| write(c, "#AX --time=1\n".repeat(100_000)),
        "job.sh",
        65,
        "job.sh: directives of 900000 bytes are more than 65536",
    ),
    (
        "one line of four mebibytes",
        |c| write(c, format!("#AX --comment={}", "x".repeat((4 << 20) - 20))),
        "job.sh",
        65,
        "job.sh: directives of 4194295 bytes are more than 65536",
    ),
    (
        "an open quote",
        |c| write(c, "#!/bin/sh\n#AX --comment='never closed\n"),
        "job.sh",
        65,
        "job.sh:2:15: the quote ' is not closed on its line",
    ),
    (
        "a wrong option",
        |c| write(c, "#!/bin/sh\n#AX --time=5\n#AX --gpu=1\n"),
        "job.sh",
        65,
        "job.sh:3:5: unknown option '--gpu'; did you mean '--gpus'?",
    ),
    (
        "an option that is not UTF-8",
        |c| write(c, b"#!/bin/sh\n#AX --comment=\xff\xfe\n"),
        "job.sh",
        65,
        "job.sh:2:5: '--comment=\u{fffd}\u{fffd}' is not UTF-8; save the script as UTF-8",
    ),
];

fn path(cluster: &Cluster) -> PathBuf {
    cluster.home(ALICE).join("job.sh")
}

fn write(cluster: &Cluster, content: impl AsRef<[u8]>) {
    cluster.write(ALICE, "job.sh", content);
}

fn utf16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// Makes `job.sh` in Alice's home by `make`, submits it, and sees what becomes of it.
fn check(make: impl FnOnce(&Cluster), fate: &Fate) {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    make(&cluster);
    let ran = cluster.run(ALICE, "axbatch", &["--parsable", "--output=out", "job.sh"]);
    match fate {
        Runs(output) => {
            let job = cluster.wait_over(ran.out.trim());
            assert_eq!((ran.code, &job["state"]), (0, &"SUCCEEDED".into()), "{ran:?} {job:#}");
            assert_eq!(cluster.read(ALICE, "out"), *output);
        }
        Fails(reason) => {
            assert_eq!(ran.code, 0, "{ran:?}");
            let job = cluster.wait_over(ran.out.trim());
            assert_eq!(job["state"], "FAILED", "{job:#}");
            assert!(job["reason"].as_str().unwrap().contains(reason), "{job:#}");
        }
    }
}

#[test]
fn each_kind_of_file_that_is_no_script_has_an_answer_of_its_own_and_leaves_no_trace() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    // All that the daemon writes at its start is written before this is answered.
    cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let watch = Watch::new(&cluster);
    let before = watch.seen();
    let mut lines = BTreeSet::new();
    for (what, make, word, code, line) in REFUSED {
        let _ = fs::remove_dir_all(path(&cluster)).or_else(|_| fs::remove_file(path(&cluster)));
        make(&cluster);
        let ran = cluster.run(ALICE, "axbatch", &[word]);
        let expected = format!("axbatch: {line}\n");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (*code, "", expected.as_str()), "{what}");
        assert_eq!(watch.seen(), before, "{what} left a trace");
        assert!(lines.insert(line), "a second one with the line {line:?}");
    }
}

macro_rules! files {
    ($($name:ident: $fate:expr, |$cluster:ident| $make:expr;)*) => { $(
        #[test]
        fn $name() {
            check(|$cluster| $make, &$fate);
        }
    )* };
}

files! {
    an_endless_interpreter: Fails("its first line is longer than 4096 bytes"), |c| write(c, format!("#!/bin/{}\necho\n", "x".repeat(5000)));

    a_script: Runs("hello\n"), |c| write(c, "#!/bin/sh\necho hello\n");
    no_newline_at_the_end: Runs("hello\n"), |c| write(c, "#!/bin/sh\necho hello");
    no_interpreter: Runs("hello\n"), |c| write(c, "echo hello\n");
    a_mark_first: Runs("hello\n"), |c| write(c, "\u{feff}#!/bin/sh\necho hello\n");
    other_line_ends: Runs("hello\n"), |c| write(c, "#!/bin/sh\r\n#AX --time=5\r\necho hello\r\n");
    latin_1: Runs("7\n"), |c| write(c, b"#!/bin/sh\n# na\xefve caf\xe9\nprintf '\xe9\xe8\xfc\xe4\xf6\xdf\\n' | wc -c\n");
    a_link: Runs("hello\n"), |c| {
        c.write(ALICE, "real.sh", "#!/bin/sh\necho hello\n");
        symlink("real.sh", path(c)).unwrap();
    };
    not_executable: Runs("hello\n"), |c| {
        write(c, "#!/bin/sh\necho hello\n");
        fs::set_permissions(path(c), fs::Permissions::from_mode(0o400)).unwrap();
    };
    a_name_twice: Runs("hello\n"), |c| {
        write(c, "#!/bin/sh\necho hello\n");
        fs::hard_link(path(c), c.home(ALICE).join("again")).unwrap();
    };
    a_very_long_command: Runs("1000000\n"), |c| write(c, format!("#!/bin/sh\nprintf '{}' | wc -c\n", "x".repeat(1_000_000)));
    another_interpreter: Runs("hello\n"), |c| write(c, "#!/usr/bin/env sh\necho hello\n");
    the_script_as_data: Runs("#!/bin/cat\nhello\n"), |c| write(c, "#!/bin/cat\nhello\n");

    an_interpreter_that_is_not_there: Fails("/bin/nothing-of-that-name"), |c| write(c, "#!/bin/nothing-of-that-name\necho\n");
    an_interpreter_that_is_a_folder: Fails("Permission denied"), |c| write(c, "#!/etc\necho\n");
    an_interpreter_that_is_no_program: Fails("/etc/passwd"), |c| write(c, "#!/etc/passwd\necho\n");
    a_syntax_error: Fails("exit code 2"), |c| write(c, "#!/bin/sh\nif true; then\n");
}

#[test]
fn a_program_runs_as_it_is() {
    let Ok(program) = fs::read("/bin/true") else { return };
    check(|c| write(c, &program), &Runs(""));
}

#[test]
fn a_pipe_is_read_as_it_comes() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let words = [
        "-c",
        "mkfifo pipe; (echo '#!/bin/sh'; sleep 0.1; echo echo hello) > pipe & exec \"$0\" --parsable --output=out pipe",
    ];
    let submitted =
        cluster.command(ALICE, "/bin/sh").args(words).arg(cluster.program("axbatch")).output().unwrap();
    let id = String::from_utf8(submitted.stdout).unwrap();
    assert_eq!(cluster.wait_over(id.trim())["state"], "SUCCEEDED");
    assert_eq!(cluster.read(ALICE, "out"), "hello\n");
}
