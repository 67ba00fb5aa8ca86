//! Configurations that hold: the founding one, the sample, aliases, defaults,
//! and what is said of the file itself.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ax_core::config::{Config, Scheduler};
use ax_core::size::Megabytes;
use ax_core::time::Span;
use axd::config::{Loaded, interpret, lines, load, load_named};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn held(text: &str) -> Loaded {
    interpret(text.as_bytes()).unwrap_or_else(|findings| panic!("{:?}", lines(Path::new("c"), &findings)))
}

#[test]
fn the_founding_file_loads_as_it_is() {
    let path = repository("tests/fixtures/founding-config.yaml");
    let Loaded { config, warnings } = held(&fs::read_to_string(&path).unwrap());
    assert_eq!(config.cluster.name, "lab-cluster");
    assert_eq!(config.cluster.heartbeat_timeout, Span::seconds(60));
    let nodes = &config.resources.gpu_nodes;
    assert_eq!(nodes.len(), 2);
    assert_eq!((nodes[0].host.as_str(), nodes[0].gpus), ("gpu-01", 8));
    assert_eq!(nodes[0].mem_per_gpu, Some(Megabytes::from_bytes(80_000_000_000)));
    assert_eq!((nodes[1].host.as_str(), nodes[1].gpus), ("gpu-02", 4));
    assert_eq!(nodes[1].mem_per_gpu, Some(Megabytes::from_bytes(40_000_000_000)));
    let queues: Vec<_> = config.queues.iter().map(|q| (q.name.as_str(), q.max_running, q.priority)).collect();
    assert_eq!(queues, [("default", Some(4), 5), ("high", Some(2), 10)]);
    assert_eq!(config.default_queue.as_str(), "default");
    assert_eq!(config.policy.scheduler, Scheduler::FairShare);
    assert!(config.policy.preemption);
    assert_eq!(config.policy.task_timeout, Some(Span::seconds(86_400)));
    assert_eq!(config.policy.retry_count, 2);
    assert_eq!(lines(Path::new("c"), &warnings), [""; 0]);
}

#[test]
fn the_manual_page_shows_the_founding_file() {
    let file = fs::read_to_string(repository("tests/fixtures/founding-config.yaml")).unwrap();
    assert!(ax_core::config::keys::mdoc().contains(&file));
}

#[test]
fn the_sample_is_the_default_with_and_without_its_marks() {
    let sample = fs::read_to_string(repository("etc/config.yaml")).unwrap();
    let setting = |line: &str| {
        let rest = line.trim_start();
        rest.starts_with('#') && rest.len() > 1 && !rest.starts_with("# ")
    };
    let open: String = sample
        .lines()
        .map(|line| if setting(line) { line.replacen('#', "", 1) } else { line.to_owned() } + "\n")
        .collect();
    for text in [&sample, &open] {
        let loaded = held(text);
        assert_eq!(loaded.config, Config::default());
        assert_eq!(loaded.warnings, []);
    }
    assert!(open.contains("\n  heartbeat_interval: 15s\n"));
}

#[test]
fn nothing_is_the_default() {
    for text in ["", "\n", "# only a comment\n", "---\n", "~\n", "{}", "\u{feff}", "cluster:\npolicy:\n"] {
        assert_eq!(held(text).config, Config::default(), "{text:?}");
    }
    assert_eq!(load(Path::new("/nonexistent/config.yaml")).unwrap().config, Config::default());
    assert!(load_named(Path::new("/nonexistent/config.yaml")).is_err());
}

#[test]
fn other_names_are_read_or_answered() {
    let text = "schedule_interval_ms: 500
heartbeat_interval_ms: 3000
max_retries: 3
priority_aging_interval_s: 60
lease_duration: 120
prefetch_task_num: 1
policy:
  retry_delay: 2s
resources:
  gpu_nodes:
    - {host: a, gpus: 1, capabilities: [fp8]}
queues:
  - {name: a, max_retries: 1}
";
    let Loaded { config, warnings } = held(text);
    assert_eq!(config.policy.scheduling_interval, Span(500));
    assert_eq!(config.cluster.heartbeat_interval, Span(3000));
    assert_eq!(config.policy.retry_count, 3);
    assert_eq!(config.policy.starvation_bound, Some(Span::seconds(6000)));
    assert_eq!(config.policy.lease_timeout, Span::seconds(120));
    assert_eq!(config.queues[0].retry_count, Some(1));
    assert_eq!(config.default_queue.as_str(), "a");
    let said = lines(Path::new("c"), &warnings);
    assert_eq!(
        said[0],
        "c:1:1: warning: 'schedule_interval_ms' is read as policy.scheduling_interval: 500ms"
    );
    assert!(said[5].starts_with("c:6:1: warning: 'prefetch_task_num' is not needed: "), "{said:#?}");
    assert!(said[6].starts_with("c:11:26: warning: 'capabilities' is not needed: "), "{said:#?}");
}

#[test]
fn a_key_and_its_other_name_are_given_once() {
    assert_eq!(
        common::lines(b"max_retries: 1\npolicy:\n  retry_count: 2\n"),
        [
            "c:1:1: warning: 'max_retries' is read as policy.retry_count: 1",
            "c:3:3: policy.retry_count is given twice: here and, in another block, at 1:14",
        ]
    );
}

#[test]
fn all_findings_are_told_in_the_order_of_the_file() {
    let text =
        "policy:\n  kill_wait: x\nclutser: 1\nqueues:\n  - name: a\n    colour: red\n  - name: a\nhttp: {}\n";
    assert_eq!(
        common::lines(text.as_bytes()),
        [
            "c:2:14: policy.kill_wait: 'x' is not a length of time (a bare number is seconds; or 90s, 5m, 1h30m, 2d)",
            "c:3:1: unknown key 'clutser'; did you mean 'cluster'?",
            "c:6:5: unknown key 'colour' in 'queues[]'; the keys here are name, priority, max_running, max_running_per_user, state, \
             default_time, max_time, max_priority, retry_count, default_cpus_per_gpu, default_ram, idempotent, users, groups, \
             preempt, order, lease, restart_slices_every, cards, max_cards, max_cpus, max_ram, max_cards_per_user, max_cpus_per_user, max_ram_per_user, mps",
            "c:7:11: queue 'a' is listed twice; first at 5:11",
            "c:8:1: warning: http has no effect yet",
        ]
    );
}

#[test]
fn values_are_texts_until_their_key_is_known() {
    let config = held(
        "cluster: {name: 0123, admins: [1e3, yes, '@wheel']}
queues:
- {name: 1.50, default_time: 1:30:00, max_time: \"2d\", default_ram: &ram 4G}
- {name: true, default_ram: *ram, max_running: none}
",
    )
    .config;
    assert_eq!(config.cluster.name, "0123");
    assert_eq!(config.cluster.admins, ["1e3", "yes", "@wheel"]);
    let names: Vec<_> = config.queues.iter().map(|q| q.name.as_str()).collect();
    assert_eq!(names, ["1.50", "true"]);
    assert_eq!(config.queues[0].default_time, Some(Span::seconds(5400)));
    assert_eq!(config.queues[1].default_ram, Some(Megabytes(4096)));
}

#[test]
fn the_file_itself_is_looked_at() {
    let dir = test_kit::TempDir::new();
    let path = dir.join("config.yaml");
    fs::write(&path, "cluster:\n  name: x\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let warnings = load(&path).unwrap().warnings;
    let said = lines(Path::new("c"), &warnings);
    assert_eq!(said, ["c: warning: others than its owner may write it (mode 0666); chmod go-w"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(load(&path).unwrap().warnings, []);
    if std::os::unix::fs::MetadataExt::uid(&fs::metadata(&path).unwrap()) == 0 {
        // It names what root runs: whoever may write it would be root.
        std::os::unix::fs::chown(&path, Some(1), None).unwrap();
        let refused = lines(Path::new("c"), &load(&path).unwrap_err());
        assert_eq!(refused, ["c: its owner is user 1, who so decides what the daemon does; give it to root"]);
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
    assert_eq!(lines(Path::new("c"), &load(&path).unwrap_err()), ["c: it is longer than 1024 KiB"]);
    assert_eq!(lines(Path::new("c"), &load(&dir).unwrap_err()), ["c: it is not a regular file"]);
}
