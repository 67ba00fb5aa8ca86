//! Wrong directives, values, words, variables and configurations as people meet them: the whole tables of the
//! parsers' own tests through axbatch, axctl, a reload and the daemon's start. Each is answered with its line and exit
//! code, and leaves the database as it was.

use std::collections::BTreeSet;
use std::fs;

use crate::cluster::{ALICE, Cluster, ROOT, Ran, as_root, ran};
use crate::hostile_requests::Watch;

#[path = "../../axd/tests/wrong/mod.rs"]
mod configurations;
#[path = "../../axd/core/tests/wrong/mod.rs"]
mod words;

/// A daemon with a job that waits, and its database as it is then.
struct World {
    cluster: Cluster,
    watch: Watch,
    before: (i64, i64),
    job: String,
}

impl World {
    fn new(config: &str) -> World {
        let cluster = Cluster::with_config(config);
        // All that the daemon writes at its start is written before this is answered.
        let job = cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
        let watch = Watch::new(&cluster);
        World { before: watch.seen(), cluster, watch, job }
    }

    /// The exit code and all that is said; nothing has come of it.
    fn answered(&self, ran: &Ran, code: i32, err: &str, what: &str) {
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, "", err), "{what:?}");
        assert_eq!(self.watch.seen(), self.before, "{what:?} left a trace");
    }
}

#[test]
fn each_wrong_directive_and_value_is_answered_by_axbatch_and_leaves_no_trace() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    for (script, line) in words::DIRECTIVES.iter().chain(words::VALUES) {
        world.cluster.write(ALICE, "job.sh", script);
        let ran = world.cluster.run(ALICE, "axbatch", &["job.sh"]);
        world.answered(&ran, 65, &format!("axbatch: {line}\n"), script);
    }
}

#[test]
fn each_wrong_word_and_variable_is_answered_by_axbatch_and_leaves_no_trace() {
    if !as_root() {
        return;
    }
    let world = World::new("");
    world.cluster.write(ALICE, "job.sh", "#!/bin/sh\n");
    for (typed, line) in words::COMMAND_LINES {
        let ran = world.cluster.run(ALICE, "axbatch", &typed.split('~').collect::<Vec<_>>());
        world.answered(&ran, 2, &format!("axbatch: {line}\n"), typed);
    }
    for (variable, line) in words::VARIABLES {
        let (name, value) = variable.split_once('=').unwrap();
        let mut command = world.cluster.command(ALICE, world.cluster.program("axbatch"));
        let ran = ran(command.env(name, value).arg("job.sh").output().unwrap());
        world.answered(&ran, 2, &format!("axbatch: {line}\n"), variable);
    }
}

#[test]
fn each_wrong_configuration_is_answered_by_the_check_a_reload_and_the_start_and_leaves_no_trace() {
    if !as_root() {
        return;
    }
    let world = World::new("policy:\n  retry_count: 1\n");
    let stopped = Cluster::stopped("");
    let file = |cluster: &Cluster| cluster.root.join("etc/ax/config.yaml").display().to_string();
    let mut lines = BTreeSet::new();
    for (text, line) in configurations::SYNTAX.iter().chain(configurations::VALUES) {
        assert!(lines.insert(line), "a second one with the line {line:?}");
        let said = |cluster: &Cluster| format!("{}{}\n", file(cluster), line.strip_prefix('c').unwrap());
        world.cluster.configure(text);
        let check = world.cluster.run(ROOT, "axctl", &["check"]);
        // As compilers do: an editor finds the place.
        world.answered(&check, 78, &said(&world.cluster), text);
        let reload = world.cluster.run(ROOT, "ax", &["reload"]);
        world.answered(&reload, 78, &format!("ax: {}", said(&world.cluster)), text);
        stopped.configure(text);
        let start = stopped.run(ROOT, "axd", &[]);
        world.answered(&start, 78, &format!("axd: {}", said(&stopped)), text);
        assert!(!stopped.root.join("var/lib/ax").exists(), "nothing is made before the configuration holds");
    }
    assert_eq!(world.cluster.state(&world.job), "PENDING");
    let config = world.cluster.root.join("etc/ax/config.yaml");
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    let reload = world.cluster.run(ROOT, "ax", &["reload"]);
    world.answered(
        &reload,
        78,
        &format!("ax: {}: it is not a regular file\n", file(&world.cluster)),
        "a folder",
    );
    assert_eq!(world.cluster.run(ALICE, "ax", &["reload"]).code, 77);
}
