//! From the assignment to the first instruction: what a script finds, and what keeps it from running.

use ax_core::job::spec::OpenMode;
use ax_core::job::state::Outcome;
use ax_core::record::Report;
use ax_sys::lease::Probe;
use ax_sys::pidfd::Exit;

use crate::world::{Mount, USER, World, eventually, set_mode};

#[test]
fn exit_codes_and_signals_are_recorded() {
    let Some(world) = World::new() else { return };
    for (script, outcome, code, signal) in [
        ("exit 0", Outcome::Succeeded, Some(0), None),
        ("exit 3", Outcome::Failed, Some(3), None),
        ("exit 255", Outcome::Failed, Some(255), None),
        ("kill -KILL $$", Outcome::Failed, None, Some(9)),
        ("kill -TERM $$", Outcome::Failed, None, Some(15)),
        ("kill -40 $$", Outcome::Failed, None, Some(40)),
    ] {
        let result = world.job(script).run();
        assert_eq!((result.outcome, result.exit_code, result.signal), (outcome, code, signal), "{script}");
        assert!(result.started_at.is_some() && result.message.is_none(), "{script}");
    }
}

#[test]
fn a_script_finds_what_its_assignment_says_and_nothing_of_ours() {
    let Some(world) = World::new() else { return };
    let script = "#!/bin/bash\nid -u; id -g; id -G; umask; pwd; env | sort; ulimit -Sc; ulimit -Sn\n\
        cat /proc/self/oom_score_adj; grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'\n\
        ls /proc/self/fd | tr '\\n' ' '; echo; echo \"$0|$1|$2|$#\"; [ $$ = $(ps -o sid= -p $$) ] && echo own session\n";
    let job = world.job(script).with(|a| {
        a.args = vec!["two words".to_owned(), "*".to_owned()];
        a.environment.push(("EMPTY".to_owned(), String::new()));
        a.environment.push(("LINES_".to_owned(), "a\nb".to_owned()));
    });
    let (marker, path) = (job.assignment.marker.1.clone(), job.job_folder().join("script"));
    let result = job.run();
    assert_eq!(result.outcome, Outcome::Succeeded);
    let home = world.home.display().to_string();
    let expected = format!(
        "12345\n12346\n12346 20000\n0027\n{home}\nAX_TEST_MARK={marker}\nEMPTY=\nLINES_=a\nb\nPATH=/usr/bin:/bin\n\
         PWD={home}\nSHLVL=0\n_=/usr/bin/env\n0\n1024\n0\nSigBlk:0000000000000000\nSigIgn:0000000000000000\n\
         0 1 2 3 \n{}|two words|*|2\nown session\n",
        path.display()
    );
    // SHLVL, PWD and _ are bash's own; sort(1) sees the second line of LINES_ as one of its own.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let out = world.out().replace("SHLVL=1", "SHLVL=0");
    assert_eq!(sorted(&out), sorted(&expected));
}

#[test]
fn scripts_of_every_form_run() {
    let Some(world) = World::new() else { return };
    let elf = std::fs::read("/bin/true").unwrap();
    for (script, what) in [
        (&b""[..], "empty"),
        (b"exit 0", "no line end"),
        (b"# nothing\n", "a comment"),
        (b"#!/bin/sh -e\nexit 0\n", "an option"),
        (b"#!/usr/bin/env bash\n[[ a == a ]]\n", "env"),
        (b"#! \t/bin/sh\r\nexit 0\n", "CR and blanks"),
        (b"#!\nexit 0\n", "a lone #!"),
        (b"echo '\xff\xfe'\n", "other bytes"),
        (&elf, "a program"),
    ] {
        assert_eq!(world.job_of_bytes(script).run().outcome, Outcome::Succeeded, "{what}");
    }
}

#[test]
fn scripts_and_programs_run_where_nothing_may_be_executed() {
    let Some(world) = World::new() else { return };
    let _mount = Mount::new(&world.run.join("jobs"), "noexec,mode=711");
    assert_eq!(world.job("#!/bin/sh\nexit 4\n").run().exit_code, Some(4));
    let elf = std::fs::read("/bin/echo").unwrap();
    let result = world.job_of_bytes(&elf).with(|a| a.args = vec!["from memory".to_owned()]).run();
    assert_eq!(result.outcome, Outcome::Succeeded, "{result:?}");
    assert_eq!(world.out(), "from memory\n");
}

#[test]
fn launch_failures_name_step_path_and_reason() {
    let Some(world) = World::new() else { return };
    let closed = world.root.join("closed");
    std::fs::create_dir(&closed).unwrap();
    set_mode(&closed, 0o755);
    let home = world.home.display().to_string();
    let refused = closed.join("x.out").to_str().unwrap().to_owned();
    let failure_of = |whose: &str, script: &str, change: &dyn Fn(&mut ax_core::record::Assignment)| {
        let result = world.job(script).with(change).run();
        assert_eq!(result.outcome, Outcome::LaunchFailed, "{result:?}");
        assert_eq!(result.never_started, whose == "the machine's", "{result:?}");
        assert_eq!((result.exit_code, result.signal, result.started_at), (None, None, None));
        result.message.unwrap()
    };
    let failure = |script: &str, change: &dyn Fn(&mut ax_core::record::Assignment)| {
        failure_of("the job's", script, change)
    };
    let message = failure("", &|a| a.files.output.clone_from(&refused));
    assert_eq!(message, format!("open output '{refused}' as user li: Permission denied"));
    assert!(!closed.join("x.out").exists());
    let deep = closed.join("a/b/x.out").to_str().unwrap().to_owned();
    let message = failure("", &|a| a.files.error = Some(deep.clone()));
    assert!(message.starts_with("make folder '") && message.ends_with("Permission denied"), "{message}");
    let message = failure("", &|a| a.files.input = Some(format!("{home}/none")));
    assert_eq!(message, format!("open input '{home}/none' as user li: No such file or directory"));
    let message = failure("", &|a| a.cwd = format!("{home}/gone"));
    assert_eq!(message, format!("enter folder '{home}/gone' as user li: No such file or directory"));
    let message = failure("#!/no/such/shell -x\n", &|_| {});
    assert_eq!(message, "start interpreter '/no/such/shell' as user li: No such file or directory");
    let message = failure("#!/etc/passwd\n", &|_| {});
    assert_eq!(message, "start interpreter '/etc/passwd' as user li: Permission denied");
    let message = failure("", &|a| a.args = vec!["a\0b".to_owned()]);
    assert!(message.contains("NUL"), "{message}");
    let message = failure_of("the machine's", "", &|a| {
        a.cgroup_parents = vec!["unified:/sys/fs/cgroup/unified/none/x".to_owned()];
    });
    assert!(message.starts_with("groups: cannot make group"), "{message}");
}

#[test]
fn a_fenced_node_starts_nothing() {
    let Some(world) = World::new() else { return };
    world.fence.raise_fence(7);
    let fenced = world.job("echo ran").with(|a| a.node_epoch = 6).run();
    assert!(matches!(fenced.outcome, Outcome::LaunchFailed | Outcome::LeaseLost), "{fenced:?}");
    assert_eq!(world.out(), "");
    assert_eq!(world.job("echo ran").with(|a| a.node_epoch = 7).run().outcome, Outcome::Succeeded);
    assert_eq!(world.out(), "ran\n");
}

#[test]
fn files_are_begun_anew_or_gone_on_with_and_folders_made_as_the_user() {
    use std::os::unix::fs::MetadataExt;
    let Some(world) = World::new() else { return };
    let out = world.home.join("new/er/out");
    let set = |mode| {
        let path = out.to_str().unwrap().to_owned();
        move |a: &mut ax_core::record::Assignment| {
            a.files.output = path;
            a.files.open_mode = mode;
        }
    };
    world.job("echo one").with(set(OpenMode::Append)).run();
    world.job("echo two; echo err >&2").with(set(OpenMode::Append)).run();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "one\ntwo\nerr\n");
    world.job("echo three").with(set(OpenMode::Truncate)).run();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "three\n");
    let meta = std::fs::metadata(out.parent().unwrap()).unwrap();
    assert_eq!((meta.uid(), meta.mode() & 0o777), (USER, 0o750));
    let apart = world.job("cat; echo err >&2").with(|a| {
        a.files.error = Some(format!("{}/err", a.cwd));
        a.files.input = Some(out.to_str().unwrap().to_owned());
    });
    apart.run();
    assert_eq!(world.out(), "three\n");
    assert_eq!(std::fs::read_to_string(world.home.join("err")).unwrap(), "err\n");
}

#[test]
fn the_work_folder_is_the_users_alone() {
    use std::os::unix::fs::MetadataExt;
    let Some(world) = World::new() else { return };
    let job = world.job("touch \"$1/made\"").with(|a| a.args = vec![a.work_dir.clone()]);
    let work = std::path::PathBuf::from(&job.assignment.work_dir);
    assert_eq!(job.run().outcome, Outcome::Succeeded);
    let (meta, above) =
        (std::fs::metadata(&work).unwrap(), std::fs::metadata(work.parent().unwrap()).unwrap());
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (USER, 0o700));
    assert_eq!((above.uid(), above.mode() & 0o7777), (0, 0o711));
    assert!(work.join("made").exists());
}

#[test]
fn a_lease_that_was_made_before_is_left_alone() {
    let Some(world) = World::new() else { return };
    let mut first = world.job("sleep 1000").start();
    first.begun();
    let list = |path: &std::path::Path| {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (list(&first.job.folder), list(&world.run.join("leases")), first.started());
    let words = [std::path::Path::new("--supervise"), &first.job.folder];
    let second = world.axrun(&words, None);
    assert!(second.wait_ended(crate::world::PATIENCE).unwrap());
    assert_eq!(second.reap().unwrap(), Some(Exit::Code(10)));
    assert_eq!((list(&first.job.folder), list(&world.run.join("leases")), first.started()), before);
    assert_eq!(world.lease(first.job.name), Probe::Held);
    assert!(first.record().is_none());
}

#[test]
fn wrong_arguments_and_assignments_have_exit_codes_and_touch_nothing() {
    let Some(world) = World::new() else { return };
    let code = |words: &[&str]| {
        let words: Vec<&std::path::Path> = words.iter().map(std::path::Path::new).collect();
        let process = world.axrun(&words, None);
        assert!(process.wait_ended(crate::world::PATIENCE).unwrap());
        process.reap().unwrap().unwrap()
    };
    assert_eq!(code(&[]), Exit::Code(2));
    assert_eq!(code(&["--nonsense"]), Exit::Code(2));
    assert_eq!(code(&["--supervise", "relative"]), Exit::Code(2));
    let job = world.job("");
    let folder = job.folder.to_str().unwrap();
    assert_eq!(code(&["--supervise", folder]), Exit::Code(66), "no assignment");
    std::fs::write(job.folder.join("assignment"), "{}").unwrap();
    assert_eq!(code(&["--supervise", folder]), Exit::Code(65));
    let mut other = job.assignment.clone();
    other.v = 99;
    std::fs::write(job.folder.join("assignment"), serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(code(&["--supervise", folder]), Exit::Code(65), "a newer format");
    let (mut other, stranger) = (job.assignment.clone(), world.job(""));
    other.attempt = stranger.name;
    std::fs::write(job.folder.join("assignment"), serde_json::to_vec(&other).unwrap()).unwrap();
    assert_eq!(code(&["--supervise", folder]), Exit::Code(65), "another attempt's");
    assert_eq!(world.lease(job.name), Probe::Absent);
}

#[test]
fn axd_may_go_away_at_any_time() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("while [ ! -e go ]; do sleep 0.02; done; echo done").start();
    job.begun();
    job.axd = None;
    std::fs::write(world.home.join("go"), "").unwrap();
    assert_eq!(job.result().outcome, Outcome::Succeeded);
    assert_eq!(world.out(), "done\n");
}

#[test]
fn what_is_over_at_once_is_told_once() {
    let Some(world) = World::new() else { return };
    // How fast this machine is nobody knows: one of many is fast enough.
    let told_once = (0..50).any(|_| {
        let mut job = world.job("exit 4").start();
        job.wait_report("a result", |report| matches!(report, Report::Result(_)));
        eventually("the end", || job.supervisor.wait_ended(std::time::Duration::ZERO).unwrap());
        let [Report::Result(result)] = job.seen.as_slice() else { return false };
        result.exit_code == Some(4) && result.started_at.is_some()
    });
    assert!(told_once);
}

#[test]
fn reports_come_in_order() {
    let Some(world) = World::new() else { return };
    let mut job = world.job("sleep 0.5; exit 4").start();
    job.wait_report("a result", |report| matches!(report, Report::Result(_)));
    let kinds: Vec<bool> = job.seen.iter().map(|report| matches!(report, Report::Started(_))).collect();
    assert!(kinds[0] && !kinds[1..].contains(&true), "{:?}", job.seen);
    eventually("the end", || job.supervisor.wait_ended(std::time::Duration::ZERO).unwrap());
}
