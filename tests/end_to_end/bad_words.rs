//! Wrong directives, values and configurations as people meet them: through axbatch, axctl and
//! the daemon's start. The tables of all of them are in the parsers' own tests; here a sample of
//! each kind shows place, line and exit code, and that nothing was submitted.

use std::fs;

use crate::cluster::{ALICE, Cluster, ROOT, as_root, ran};
use crate::hostile_requests::Watch;

/// Directive lines behind `#!/bin/sh`, and what is said of them.
const DIRECTIVES: &[(&str, &str)] = &[
    ("#AX --gpu=2", "job.sh:2:5: unknown option '--gpu'; did you mean '--gpus'?"),
    ("#AX --time=5 --quue=high", "job.sh:2:14: unknown option '--quue'; did you mean '--queue'?"),
    ("#AX --job-name='a", "job.sh:2:16: the quote ' is not closed on its line"),
    (
        "#AX --time=5\n#AX --mem=x",
        "job.sh:3:11: --mem: 'x' is not a size of GPU memory: 40 (GB), 40G, 1.5G or 512M",
    ),
    ("#AX -c0", "job.sh:2:7: -c: '0' is not a number from 1 to 1000000"),
    (
        "#AX --time=1:2:3:4:5",
        "job.sh:2:12: --time: '1:2:3:4:5' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    ("#AX --priority=101", "job.sh:2:16: --priority: '101' is not a number from 0 to 100"),
    ("#AX --hold=yes", "job.sh:2:5: '--hold' takes no value"),
    ("#AX --wait", "job.sh:2:5: '--wait' belongs on the command line"),
    ("#AX --=x", "job.sh:2:5: unknown option '--'"),
    ("#AX --\u{1b}[31m=x", "job.sh:2:5: unknown option '--\\x1b[31m'"),
    (
        "#SBATCH --array=0-3",
        "job.sh:2:9: '--array' is not supported yet; submit a job for each value in a loop, with --env=NAME=VALUE",
    ),
];

/// Words of axbatch, and what is said of them.
const WORDS: &[(&[&str], &str)] = &[
    (&["--gpu=1", "job.sh"], "axbatch: unknown option '--gpu'; did you mean '--gpus'?"),
    (
        &["--time=soon", "job.sh"],
        "axbatch: --time: 'soon' is not a time limit: minutes, H:M:S, D-H:M:S, 8h or 'unlimited'",
    ),
    (&["--ram=-1", "job.sh"], "axbatch: --ram: '-1' is not a size of memory: 2048 (MB), 4G, 1.5G or 512M"),
    (&["--job-name"], "axbatch: '--job-name' needs a value; write '--job-name=NAME'"),
    (&["--retry=1001", "job.sh"], "axbatch: --retry: '1001' is not a number from 0 to 1000"),
    (&["--wrap=true", "job.sh"], "axbatch:"),
];

/// Configurations, and what is said of them.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("clutser:\n  name: x\n", "1:1: unknown key 'clutser'; did you mean 'cluster'?"),
    ("policy:\n  retry_count: two\n", "2:16: policy.retry_count: 'two' is not a whole number"),
    ("policy:\n  retry_count: [2\n", "config.yaml:"),
    ("\u{0}", "config.yaml:"),
    ("queues:\n  - priority: 5\n", "config.yaml:2:"),
    ("- a\n- b\n", "config.yaml:1:1:"),
];

#[test]
fn a_bad_directive_is_named_by_its_place_and_nothing_is_submitted() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    let watch = Watch::new(&cluster);
    let before = watch.seen();
    for (lines, said) in DIRECTIVES {
        cluster.write(ALICE, "job.sh", format!("#!/bin/sh\n{lines}\necho ran\n"));
        let ran = cluster.run(ALICE, "axbatch", &["job.sh"]);
        let expected = format!("axbatch: {said}\n");
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (65, "", expected.as_str()), "{lines:?}");
        assert_eq!(watch.seen(), before, "{lines:?} left a trace");
    }
}

#[test]
fn a_bad_word_is_wrong_usage_and_nothing_is_submitted() {
    if !as_root() {
        return;
    }
    let cluster = Cluster::new();
    cluster.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    cluster.write(ALICE, "job.sh", "#!/bin/sh\n");
    let watch = Watch::new(&cluster);
    let before = watch.seen();
    for (words, said) in WORDS {
        let ran = cluster.run(ALICE, "axbatch", words);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{words:?}: {ran:?}");
        assert!(ran.err.starts_with(said) && ran.err.lines().count() == 1, "{words:?}: {ran:?}");
        assert_eq!(watch.seen(), before, "{words:?} left a trace");
    }
}

#[test]
fn a_bad_configuration_is_refused_at_the_start_by_the_check_and_by_a_reload() {
    if !as_root() {
        return;
    }
    let running = Cluster::with_config("policy:\n  retry_count: 1\n");
    let id = running.submit(ALICE, &["--hold"], "#!/bin/sh\n");
    for (text, said) in CONFIGURATIONS {
        let mut stopped = Cluster::stopped(text);
        stopped.spawn();
        stopped.wait_daemon_ended();
        let start = stopped.daemon_output();
        assert!(start.starts_with("axd: ") && start.contains(said), "{text:?}: {start}");
        assert!(!stopped.root.join("var/lib/ax").exists(), "nothing is made before the configuration holds");
        let check = ran(stopped.command(ROOT, stopped.program("axd")).arg("--check").output().unwrap());
        assert_eq!(check.code, 78, "{check:?}");
        assert!(format!("{}{}", check.out, check.err).contains(said), "{text:?}: {check:?}");
        running.configure(text);
        let reload = running.run(ROOT, "ax", &["reload"]);
        assert_eq!(reload.code, 78, "{reload:?}");
        assert!(reload.err.contains(said), "{text:?}: {reload:?}");
    }
    assert_eq!(running.state(&id), "PENDING");
    let config = running.root.join("etc/ax/config.yaml");
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    let reload = running.run(ROOT, "ax", &["reload"]);
    assert_eq!(reload.code, 78, "{reload:?}");
    assert_eq!(running.run(ALICE, "ax", &["reload"]).code, 77);
}
