//! The interpreter of configuration trees: never panics, agrees with the table
//! of keys, and judges reloads.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use ax_core::config::keys::{self, Fallback, Kind};
use ax_core::config::tree::{Name, Node, Place, Value};
use ax_core::config::{Config, Queue, QueueState, Severity, compare, read};
use ax_core::id::{JobId, JobNumber, QueueName};
use proptest::prelude::*;

const HERE: Place = Place { line: 1, column: 1 };

fn node(value: Value) -> Node {
    Node { place: HERE, value }
}

fn text(text: &str) -> Node {
    let value = match text {
        "[]" => Value::List(Vec::new()),
        _ => Value::Scalar { text: text.to_owned(), quoted: false },
    };
    node(value)
}

fn map(entries: Vec<(&str, Node)>) -> Node {
    let name = |text: &str| Name { place: HERE, text: text.to_owned() };
    node(Value::Map(entries.into_iter().map(|(key, value)| (name(key), value)).collect()))
}

/// A tree in which this key alone has this value, and its item what it needs.
fn tree(path: &str, value: Node) -> Node {
    let mut parts: Vec<&str> = path.split('.').collect();
    let name = parts.pop().unwrap();
    let mut entries = vec![(name, value)];
    match parts.last() {
        Some(&"queues[]") => entries.push(("name", text("default"))),
        Some(&"limits[]") => entries.push((if name == "user" { "group" } else { "user" }, text("a"))),
        Some(&"gpu_nodes[]") => entries.extend([("host", text("a")), ("gpus", text("1"))]),
        _ => {}
    }
    parts.iter().rev().fold(map(entries), |inner, part| match part.strip_suffix("[]") {
        Some(list) => map(vec![(list, node(Value::List(vec![inner])))]),
        None => map(vec![(part, inner)]),
    })
}

#[test]
fn each_default_of_the_table_is_the_default() {
    for key in keys::KEYS {
        let (Fallback::Value(default) | Fallback::Absent(default)) = key.default else { continue };
        if matches!(key.kind, Kind::Later) {
            continue;
        }
        let (config, mut warnings) = read(&tree(key.path, text(default))).unwrap();
        // A limit with one key alone, by its default, has none.
        warnings.retain(|warning| warning.message != "limits[0] limits nothing");
        assert_eq!(warnings, [], "{}", key.path);
        let nodes = config.resources.gpu_nodes.clone();
        let mut plain = Config::default();
        plain.resources.gpu_nodes = nodes;
        plain.limits = config.limits.clone();
        assert_eq!(config, plain, "{}", key.path);
        assert!(config.limits.iter().all(|limit| limit.cards.is_empty() && limit.max_cards.is_none()));
        assert!(config.resources.gpu_nodes.iter().all(|n| n.mem_per_gpu.is_none() && n.features.is_empty()));
    }
}

#[test]
fn each_key_refuses_what_it_is_not() {
    for key in keys::KEYS.iter().filter(|key| !matches!(key.kind, Kind::Later)) {
        let findings = read(&tree(key.path, map(vec![("a", text("b"))]))).unwrap_err();
        let about = format!("{}: a block is not ", key.path);
        assert!(findings.iter().any(|f| f.message.starts_with(&about)), "{}: {findings:?}", key.path);
    }
}

#[test]
fn each_alias_leads_to_a_key() {
    for alias in keys::ALIASES {
        if let keys::Target::Key { path, .. } = alias.target {
            assert!(keys::find(path).is_some(), "{path}");
        }
    }
}

/// A word that is often a key or a value, and sometimes anything.
fn word() -> impl Strategy<Value = String> {
    let names: Vec<String> = keys::KEYS
        .iter()
        .flat_map(|key| key.path.split('.').map(|part| part.trim_end_matches("[]").to_owned()))
        .chain(keys::ALIASES.iter().map(|alias| alias.name.to_owned()))
        .collect();
    let values =
        ["1", "0", "true", "none", "default", "fifo", "5m", "40G", "a", "18446744073709551615", "é", ""];
    prop_oneof![
        6 => prop::sample::select(names),
        3 => prop::sample::select(values.map(str::to_owned).to_vec()),
        1 => any::<String>(),
    ]
}

fn any_tree() -> impl Strategy<Value = Node> {
    let place = (any::<u32>(), any::<u32>()).prop_map(|(line, column)| Place { line, column });
    let scalar = (word(), any::<bool>()).prop_map(|(text, quoted)| Value::Scalar { text, quoted });
    let leaf = prop_oneof![1 => Just(Value::Null), 5 => scalar];
    let leaf = (place.clone(), leaf).prop_map(|(place, value)| Node { place, value });
    leaf.prop_recursive(5, 80, 8, move |inner| {
        let name = (place.clone(), word()).prop_map(|(place, text)| Name { place, text });
        let value = prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::vec((name, inner), 0..8).prop_map(Value::Map),
        ];
        (place.clone(), value).prop_map(|(place, value)| Node { place, value })
    })
}

proptest! {
    #[test]
    fn no_tree_panics_and_what_holds_is_whole(tree in any_tree()) {
        match read(&tree) {
            Ok((config, warnings)) => {
                prop_assert!(config.queue(config.default_queue.as_str()).is_some());
                prop_assert!(warnings.iter().all(|finding| finding.severity == Severity::Warning));
                prop_assert_eq!(compare(&config, &config, &[]), Ok(Vec::new()));
            }
            Err(findings) => {
                prop_assert!(findings.iter().any(|finding| finding.severity == Severity::Error));
                prop_assert!(findings.iter().all(|f| !f.line("c").contains(['\n', '\x1b'])));
            }
        }
    }
}

fn with_queues(names: &[&str]) -> Config {
    let queues: Vec<Queue> = names.iter().map(|name| Queue::named(name.parse().unwrap())).collect();
    Config { default_queue: queues[0].name.clone(), queues, ..Config::default() }
}

fn jobs(queue: &str, numbers: std::ops::RangeInclusive<u32>) -> Vec<(JobId, QueueName)> {
    let job = |number| JobId { number: JobNumber(number), year: 2026 };
    numbers.map(|number| (job(number), queue.parse().unwrap())).collect()
}

#[test]
fn a_queue_in_use_stays() {
    let (old, new) = (with_queues(&["default", "high", "dev"]), with_queues(&["default", "urgent"]));
    let refusals = compare(&old, &new, &[jobs("high", 1..=2), jobs("default", 3..=3)].concat()).unwrap_err();
    assert_eq!(
        refusals,
        ["queue 'high' can't be removed or renamed: it is used by ax-2026-0001, ax-2026-0002; \
          keep it with 'state: closed' until they have ended"]
    );
    let many = compare(&old, &new, &jobs("dev", 1..=25)).unwrap_err();
    assert!(many[0].contains("ax-2026-0020 and 5 more;"), "{many:?}");
    let changes = compare(&old, &new, &jobs("default", 1..=1)).unwrap();
    assert_eq!(changes, ["queue 'urgent' is new", "queue 'high' is gone", "queue 'dev' is gone"]);
}

#[test]
fn changes_are_told_in_words() {
    let (old, mut new) = (with_queues(&["a", "b"]), with_queues(&["a", "b"]));
    new.policy.retry_count = 2;
    new.paths.spool = Some("/shared/ax".to_owned());
    new.default_queue = "b".parse().unwrap();
    new.queues[1].state = QueueState::Closed;
    new.queues[1].max_running = Some(4);
    assert_eq!(
        compare(&old, &new, &jobs("b", 1..=1)).unwrap(),
        [
            "policy.default_queue: a becomes b",
            "policy.retry_count: 0 becomes 2",
            "paths.spool: standard becomes /shared/ax at the next start of the daemon",
            "queue 'b' max_running: none becomes 4",
            "queue 'b' state: open becomes closed",
        ]
    );
}
