//! `axrun` outside a job: the command's output as it comes, its status, its end by a signal; and inside one, where
//! it is the command alone.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::cluster::{ALICE, Cluster, Ran, as_root, ran, signal, wait_for};

fn axrun(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = cluster.command(ALICE, cluster.program("axrun"));
    command.args(words);
    command
}

fn run(cluster: &Cluster, words: &[&str]) -> Ran {
    ran(axrun(cluster, words).output().unwrap())
}

fn piped(cluster: &Cluster, words: &[&str]) -> Child {
    axrun(cluster, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The files that `axrun` leaves in the user's folder.
fn left_behind(cluster: &Cluster) -> Vec<String> {
    let names = std::fs::read_dir(cluster.home(ALICE)).unwrap().map(|e| e.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with(".axrun")).collect()
}

/// The only job of the cluster, once it is there.
fn only_job(cluster: &Cluster) -> String {
    let list = || cluster.run(ALICE, "ax", &["queue", "--all", "--noheader", "-o", "id"]).out;
    wait_for("the job", || !list().trim().is_empty());
    list().trim().to_owned()
}

#[test]
fn the_status_is_the_command_s_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -USR1 $$", 138)] {
        let ended = run(&cluster, &["sh", "-c", script]);
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{script}: {ended:?}");
    }
    let missing = run(&cluster, &["no-such-command-here"]);
    assert_eq!(missing.code, 127, "{missing:?}");
    assert!(missing.err.contains("no-such-command-here"), "{missing:?}");
    assert_eq!(left_behind(&cluster), Vec::<String>::new());
}

#[test]
fn words_are_what_was_typed_and_streams_stay_apart_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let odd = ["$HOME", "a b", "it's", "", "*", "back\\slash", "new\nline", "#AX --time=1", "é", "-x"];
    let mut words = vec!["--", "printf", "<%s>"];
    words.extend(odd);
    let ended = run(&cluster, &words);
    let expected: String = odd.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!((ended.code, ended.out, ended.err.as_str()), (0, expected, ""));
    let ended = run(&cluster, &["-J", "apart", "sh", "-c", "echo out; echo err >&2; echo $AX_JOB_NAME"]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("out\napart\n", "err\n"));
    // Where both go to one place, they come in the order in which they were written.
    let line =
        format!("{} sh -c 'for i in 1 2 3; do echo o$i; echo e$i >&2; done' 2>&1", cluster.program("axrun"));
    let ended = ran(cluster.command(ALICE, "/bin/sh").args(["-c", &line]).output().unwrap());
    assert_eq!(ended.out, "o1\ne1\no2\ne2\no3\ne3\n");
    // The name of the job is that of the command.
    let ended = run(&cluster, &["/usr/bin/env", "sh", "-c", "echo $AX_JOB_NAME"]);
    assert_eq!(ended.out, "env\n");
}

#[test]
fn output_comes_while_the_command_runs_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut child =
        piped(&cluster, &["sh", "-c", "echo one; until [ -e go ]; do sleep 0.05; done; echo two"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    cluster.write(ALICE, "go", "");
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("two\n", Some(0)));
}

/// As `echo … > /dev/stderr` does it where that is a file.
#[test]
fn what_a_command_empties_itself_goes_on_anew_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "echo first words, many; while [ ! -e go ]; do sleep 0.05; done; echo last > /dev/stdout";
    let mut child = piped(&cluster, &["sh", "-c", script]);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    cluster.write(ALICE, "go", "");
    lines.read_to_string(&mut said).unwrap();
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!((ended.code, said.as_str()), (0, "first words, many\nlast\n"), "{ended:?}");
    assert_eq!(ended.err, "axrun: the output was cut short; following from its new start\n");
}

#[test]
fn options_send_streams_elsewhere_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let ended = run(&cluster, &["-o", "o-%j.txt", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""));
    assert_eq!(cluster.read(ALICE, "o-1.txt"), "out\nerr\n");
    let ended = run(&cluster, &["-e", "e.txt", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("out\n", ""));
    assert_eq!(cluster.read(ALICE, "e.txt"), "err\n");
    for (words, code) in
        [(&["--array=1-3", "true"][..], 2), (&["--nosuch", "true"], 2), (&[], 2), (&["--help"], 0)]
    {
        let ended = run(&cluster, words);
        assert_eq!(ended.code, code, "{ended:?}");
        assert_eq!(ended.err.lines().count(), usize::from(code != 0), "{ended:?}");
    }
}

#[test]
fn an_interrupt_ends_the_job_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut child = piped(&cluster, &["sh", "-c", "echo here; sleep 600"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let job = cluster.wait_over(&only_job(&cluster));
    assert_eq!(job["state"], "CANCELLED", "{job:#}");
    assert!(job["reason"].as_str().unwrap().contains("axrun was sent SIGINT"), "{job:#}");
    assert_eq!(left_behind(&cluster), Vec::<String>::new());
}

#[test]
fn a_second_interrupt_leaves_the_job_alone_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let mut child = piped(&cluster, &["sh", "-c", "echo here; sleep 600"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    cluster.kill();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    signal(child.id(), "INT");
    // Signals of a kind that wait together are one: the first has to be heard.
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    assert!(line.starts_with("axrun: ending ax-"), "{line}");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // No daemon could be told: the job lives, and what it writes is still there.
    assert_eq!(left_behind(&cluster).len(), 2);
    cluster.start();
    assert_eq!(cluster.state(&only_job(&cluster)), "RUNNING");
}

#[test]
fn a_reader_that_leaves_ends_the_job_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let line = format!("{} yes | head -n 1; true", cluster.program("axrun"));
    let ended = ran(cluster.command(ALICE, "/bin/sh").args(["-c", &line]).output().unwrap());
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("y\n", ""));
    let job = cluster.wait_over(&only_job(&cluster));
    assert_eq!(job["state"], "CANCELLED", "{job:#}");
}

#[test]
fn a_closed_input_is_an_empty_one_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    for closing in ["<&-", "</dev/null"] {
        let line = format!("exec {} sh -c 'cat; echo done' {closing}", cluster.program("axrun"));
        let ended = ran(cluster.command(ALICE, "/bin/sh").args(["-c", &line]).output().unwrap());
        assert_eq!((ended.code, ended.out.as_str()), (0, "done\n"), "{ended:?}");
    }
}

#[test]
fn fifty_megabytes_come_whole_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let ended = run(&cluster, &["seq", "1", "6900000"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.len() > 50_000_000, "{}", ended.out.len());
    let mut lines = 0;
    for (at, line) in ended.out.lines().enumerate() {
        assert_eq!(line.parse(), Ok(at + 1));
        lines += 1;
    }
    assert_eq!(lines, 6_900_000);
}

#[test]
fn a_daemon_that_is_restarted_is_not_noticed_as_root() {
    if !as_root() {
        return;
    }
    let mut cluster = Cluster::new();
    let child =
        piped(&cluster, &["sh", "-c", "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 5"]);
    let home = cluster.home(ALICE);
    wait_for("its file", || {
        let files = std::fs::read_dir(&home).unwrap().map(|e| e.unwrap().path());
        files.into_iter().any(|path| std::fs::read(path).is_ok_and(|text| text == b"one\n"))
    });
    cluster.kill();
    cluster.write(ALICE, "go", "");
    sleep(Duration::from_millis(300));
    cluster.start();
    let ended = ran(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (5, "one\ntwo\n", ""));
}

#[test]
fn without_a_daemon_nothing_is_promised_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::stopped("");
    let ended = run(&cluster, &["true"]);
    assert_eq!((ended.code, ended.err.lines().count()), (69, 1), "{ended:?}");
    assert!(ended.err.starts_with("axrun: no daemon answers"), "{ended:?}");
    assert_eq!(left_behind(&cluster), Vec::<String>::new());
    // Where neither the folder nor the home can be written, that is told before anything is asked.
    let mut command = axrun(&cluster, &["true"]);
    let ended = ran(command.current_dir("/").env("HOME", "/").output().unwrap());
    assert_eq!((ended.code, ended.err.lines().count()), (77, 1), "{ended:?}");
}

#[test]
fn a_retried_command_shows_each_attempt_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let words =
        ["--retry=1", "--retry-delay=1", "sh", "-c", "echo attempt $AX_ATTEMPT; exit $((2 - $AX_ATTEMPT))"];
    let ended = run(&cluster, &words);
    assert_eq!((ended.code, ended.out.as_str()), (0, "attempt 1\nattempt 2\n"), "{ended:?}");
    assert_eq!(left_behind(&cluster), Vec::<String>::new());
}

#[test]
fn each_later_attempt_is_announced_before_its_output_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let script = "echo attempt $AX_ATTEMPT; exit 1";
    let words = ["--retry=2", "--retry-delay=1", "--quiet", "sh", "-c", script];
    let ended = run(&cluster, &words);
    assert_eq!((ended.code, ended.err.as_str()), (1, ""), "{ended:?}");
    // All in one place, so that their order shows.
    let all = std::fs::File::create(cluster.home(ALICE).join("all.txt")).unwrap();
    let mut command = axrun(&cluster, &["--retry=2", "--retry-delay=1", "sh", "-c", script]);
    command.stdout(all.try_clone().unwrap()).stderr(all);
    assert_eq!(command.status().unwrap().code(), Some(1));
    let seen = cluster.read(ALICE, "all.txt");
    let lines: Vec<&str> = seen.lines().filter(|line| !line.contains(" waits")).collect();
    let later = |n: u32| format!("axrun: the job was started again; the output of attempt {n} follows");
    assert_eq!(lines, ["attempt 1", &later(2), "attempt 2", &later(3), "attempt 3"], "{seen}");
}

#[test]
fn in_a_folder_that_cannot_be_written_it_works_too_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let mut command = axrun(&cluster, &["pwd"]);
    let ended = ran(command.current_dir("/").output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (0, "/\n"), "{ended:?}");
    assert_eq!(left_behind(&cluster), Vec::<String>::new());
    let mut command = axrun(&cluster, &["pwd"]);
    let ended = ran(command.current_dir("/").env_remove("HOME").output().unwrap());
    assert!(ended.code == 77 && ended.err.contains("see --output"), "{ended:?}");
}

#[test]
fn inside_a_job_it_is_the_command_as_root() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    let axrun = cluster.program("axrun");
    let script = format!(
        "#!/bin/sh\n{axrun} echo plain\n{axrun} -- sh -c 'exit 3'\necho $?\n{axrun} -n 2 true 2>&1\necho $?\n\
         {axrun} no-such-command 2>/dev/null\necho $?\n"
    );
    let id = cluster.submit(ALICE, &["-o", "inside.txt"], &script);
    let job = cluster.wait_over(&id);
    assert_eq!(job["state"], "SUCCEEDED", "{job:#}");
    let expected = "plain\n3\naxrun: steps inside a job are not supported yet: write the command alone, without \
                    options\n1\n127\n";
    assert_eq!(cluster.read(ALICE, "inside.txt"), expected);
}

#[test]
fn a_supervisor_without_its_folder_is_wrong_usage() {
    for words in [&["--supervise"][..], &["--watchdog", "a", "b"], &["--starter"], &["--starter", "a", "b"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_axrun")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
    }
    // Under another name than its own it finds its way all the same.
    let output = Command::new(env!("CARGO_BIN_EXE_axrun")).arg0("other").arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("axrun {}\n", env!("CARGO_PKG_VERSION")));
}
