//! Every kind of file that somebody may hand to axbatch: taken and run, or refused with its exit
//! code and line, and then without a trace in the database.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use crate::cluster::{ALICE, Cluster, Ran, as_root};
use crate::hostile_requests::Watch;

/// What has to come of it.
enum Fate {
    /// The job succeeds and prints this.
    Runs(&'static str),
    /// It is taken, and its end has this reason.
    Fails(&'static str),
    /// It is refused: exit code and a part of the line.
    Refused(i32, &'static str),
}
use Fate::{Fails, Refused, Runs};

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
    // All that the daemon writes at its start is written before this is answered.
    cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let watch = Watch::new(&cluster);
    let before = watch.seen();
    let ran = cluster.run(ALICE, "axbatch", &["--parsable", "--output=out", "job.sh"]);
    match fate {
        Refused(code, line) => refused(&ran, *code, line, before == watch.seen()),
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

fn refused(ran: &Ran, code: i32, line: &str, untouched: bool) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
    assert!(ran.err.starts_with("axbatch: ") && ran.err.lines().count() == 1, "{ran:?}");
    assert!(ran.err.contains(line), "{ran:?}");
    assert!(untouched, "it left a trace: {ran:?}");
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
    a_missing_file: Refused(66, "cannot read job.sh: No such file or directory"), |_c| {};
    a_folder: Refused(66, "cannot read job.sh: it is a folder"), |c| fs::create_dir(path(c)).unwrap();
    an_unreadable_file: Refused(66, "cannot read job.sh: Permission denied"), |c| {
        write(c, "#!/bin/sh\n");
        fs::set_permissions(path(c), fs::Permissions::from_mode(0o200)).unwrap();
    };
    somebody_else_s_closed_file: Refused(66, "cannot read job.sh: Permission denied"), |c| {
        write(c, "#!/bin/sh\n");
        chown(path(c), Some(2), Some(2)).unwrap();
        fs::set_permissions(path(c), fs::Permissions::from_mode(0o600)).unwrap();
    };
    a_link_to_nothing: Refused(66, "No such file"), |c| symlink("nowhere", path(c)).unwrap();
    a_link_in_a_circle: Refused(66, "Too many levels of symbolic links"), |c| symlink("job.sh", path(c)).unwrap();
    a_socket: Refused(66, "No such device or address"), |c| {
        drop(std::os::unix::net::UnixListener::bind(path(c)).unwrap());
    };
    a_device_without_end: Refused(65, "more than 4194304 bytes"), |c| symlink("/dev/zero", path(c)).unwrap();
    a_device_that_is_empty: Refused(65, "empty"), |c| symlink("/dev/null", path(c)).unwrap();
    a_terminal_that_is_none: Refused(66, "No such device or address"), |c| symlink("/dev/tty", path(c)).unwrap();
    an_empty_file: Refused(65, "empty"), |c| write(c, "");
    only_a_mark: Refused(65, "empty"), |c| write(c, "\u{feff}");
    only_blanks: Refused(65, "empty"), |c| write(c, " \n\t\r\n\n");
    random_bytes: Refused(65, "NUL"), |c| write(c, [0x7f, 0x00, 0xff, 0x13, 0x00]);
    a_nul_inside: Refused(65, "job.sh:2:6: a NUL byte"), |c| write(c, "#!/bin/sh\necho \0hello\n");
    utf_16: Refused(65, "UTF-16"), |c| write(c, utf16("#!/bin/sh\necho hello\n"));
    an_archive: Refused(65, "NUL byte"), |c| write(c, b"PK\x03\x04\x14\x00\x00\x00\x08\x00");
    five_mebibytes: Refused(65, "more than 4194304 bytes"), |c| write(c, "#!/bin/sh\n# padding padding\n".repeat(200_000));
    a_hundred_thousand_directives: Refused(65, "directives"), |c| write(c, "#AX --time=1\n".repeat(100_000));
    one_line_of_four_mebibytes: Refused(65, "job.sh"), |c| write(c, format!("#AX --comment={}", "x".repeat((4 << 20) - 20)));
    an_open_quote: Refused(65, "job.sh:2:"), |c| write(c, "#!/bin/sh\n#AX --comment='never closed\n");
    a_wrong_option: Refused(65, "job.sh:3:5: unknown option '--gpu'; did you mean '--gpus'?"), |c| write(c, "#!/bin/sh\n#AX --time=5\n#AX --gpu=1\n");
    an_option_that_is_not_utf_8: Refused(65, "job.sh:2:"), |c| write(c, b"#!/bin/sh\n#AX --comment=\xff\xfe\n");
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
