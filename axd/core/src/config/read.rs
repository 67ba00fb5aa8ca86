//! From a tree of texts to a configuration: walks the tree along the table of keys, collects every finding with its
//! place, and checks the whole only when all of it was read. Pure; never panics, whatever the tree.

use std::collections::BTreeMap;

use super::check;
use super::finding::{Finding, Findings};
use super::keys::{self, Alias, Draft, Effect, Fallback, KEYS, Key, Kind, Target};
use super::tree::{Name, Node, Place, Value};
use super::{CardLimit, Config, GpuNode, Queue};
use crate::text::{nearest, quoted};

/// Reads a configuration. An empty file has the defaults.
///
/// # Errors
/// All findings, warnings too, when one of them is an error.
pub fn read(tree: &Node) -> Result<(Config, Vec<Finding>), Vec<Finding>> {
    let mut reader = Reader {
        draft: Draft::of(Config::default()),
        findings: Findings::default(),
        places: Places::default(),
        item: 0,
    };
    reader.block("", tree);
    reader.choose_default_queue();
    check::whole(&reader.draft.config, &reader.places, &mut reader.findings);
    let warnings = reader.findings.settle()?;
    Ok((reader.draft.config, warnings))
}

/// Where the values of keys stand, by path with the number of the item: `queues[2].name`.
/// Items are numbered as they are kept, so they agree with the lists of the configuration.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<String, Place>);

impl Places {
    /// Where the key's value stands, if it was written and holds.
    pub(super) fn get(&self, path: &str) -> Option<Place> {
        self.0.get(path).copied()
    }
}

struct Reader {
    draft: Draft,
    findings: Findings,
    places: Places,
    /// Number that the item at hand will have in its list.
    item: usize,
}

/// What was written in a block: paths, and the names that stood for them.
type Written<'a> = BTreeMap<String, &'a Name>;

/// What a name in a block stands for.
enum Meaning {
    Key(&'static Key, Option<&'static Alias>),
    Block(String),
    List(String),
    Answer(&'static str),
    Nothing,
}

fn meaning(block: &str, name: &str) -> Meaning {
    let path = if block.is_empty() { name.to_owned() } else { format!("{block}.{name}") };
    // A dot or bracket in a name could otherwise reach into another block.
    if name.contains(['.', '[', ']']) {
        return Meaning::Nothing;
    }
    if let Some(key) = keys::find(&path) {
        return Meaning::Key(key, None);
    }
    let mut longer = KEYS.iter().filter_map(|key| key.path.strip_prefix(&path));
    match longer.find(|rest| rest.starts_with(['.', '['])) {
        Some(rest) if rest.starts_with('.') => return Meaning::Block(path),
        Some(_) => return Meaning::List(format!("{path}[]")),
        None => {}
    }
    match keys::alias(block, name) {
        Some(alias) => match alias.target {
            Target::Key { path, .. } => {
                keys::find(path).map_or(Meaning::Nothing, |k| Meaning::Key(k, Some(alias)))
            }
            Target::Answer(answer) => Meaning::Answer(answer),
        },
        None => Meaning::Nothing,
    }
}

impl Reader {
    /// Reads the keys of a block; answers which of the table's keys were written.
    fn block(&mut self, block: &str, node: &Node) -> Vec<&'static str> {
        let mut written = Written::new();
        match &node.value {
            Value::Map(entries) => {
                for (name, value) in entries {
                    self.entry(block, name, value, &mut written);
                }
            }
            // A block of which every key is commented out.
            Value::Null => {}
            _ => {
                let what = if block.is_empty() { String::new() } else { format!("{block}: ") };
                let message = format!("{what}{} is not a block of keys", keys::found(node));
                let hint =
                    format!("write 'key: value'; the keys here are {}", keys::children(block).join(", "));
                self.findings.add(Finding::error(Some(node.place), message).hint(hint));
            }
        }
        KEYS.iter().map(|key| key.path).filter(|path| written.contains_key(*path)).collect()
    }

    fn entry<'a>(&mut self, block: &str, name: &'a Name, value: &Node, written: &mut Written<'a>) {
        let meaning = meaning(block, &name.text);
        let path = match &meaning {
            Meaning::Key(key, _) => key.path.to_owned(),
            Meaning::Block(path) | Meaning::List(path) => path.clone(),
            Meaning::Answer(_) | Meaning::Nothing => format!("{block}.{}", name.text),
        };
        if let Some(first) = written.get(&path) {
            let other =
                if first.text == name.text { String::new() } else { format!(" as {}", quoted(&first.text)) };
            let message =
                format!("{} is given twice: here and at {}{other}", quoted(&name.text), first.place);
            return self.error(name.place, message);
        }
        written.insert(path, name);
        match meaning {
            Meaning::Key(key, alias) => self.key(key, alias, name, value),
            Meaning::Block(path) => {
                self.block(&path, value);
            }
            Meaning::List(path) => self.list(&path, value),
            Meaning::Answer(answer) => {
                let message = format!("{} is not needed: {answer}", quoted(&name.text));
                self.findings.add(Finding::warning(Some(name.place), message));
            }
            Meaning::Nothing => self.unknown(block, name),
        }
    }

    fn key(&mut self, key: &'static Key, alias: Option<&Alias>, name: &Name, value: &Node) {
        if let Some(first) = self.places.get(&self.numbered(key.path)) {
            let message = format!("{} is given twice: here and, in another block, at {first}", key.path);
            return self.error(name.place, message);
        }
        let translated = alias.map(|alias| in_own_unit(&alias.target, value));
        let before = key.kind.show(&mut self.draft);
        if !stands_for_absent(key, value) {
            if let Err(problem) = key.kind.put(translated.as_ref().unwrap_or(value), &mut self.draft) {
                let place = problem.place.unwrap_or(value.place);
                let message = format!("{}: {}", key.path, problem.message);
                let finding = Finding { hint: problem.hint, ..Finding::error(Some(place), message) };
                return self.findings.add(finding);
            }
            self.places.0.insert(self.numbered(key.path), value.place);
        }
        let after = key.kind.show(&mut self.draft);
        if alias.is_some() {
            let meant = after.clone().map_or(String::new(), |after| format!(": {after}"));
            let message = format!("{} is read as {}{meant}", quoted(&name.text), key.path);
            self.findings.add(Finding::warning(Some(name.place), message));
        }
        let opaque = matches!(key.kind, Kind::Later) && value.value != Value::Null;
        if key.effect == Effect::Later && (opaque || before != after) {
            let what = after.map_or(String::new(), |after| format!(": {after}"));
            let message = format!("{}{what} has no effect yet", key.path);
            self.findings.add(Finding::warning(Some(name.place), message));
        }
    }

    fn list(&mut self, path: &str, node: &Node) {
        let name = path.trim_end_matches("[]");
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            // A list of which every entry is commented out.
            Value::Null => &[],
            _ => {
                let message = format!("{name}: {} is not a list", keys::found(node));
                let finding = Finding::error(Some(node.place), message);
                return self.findings.add(finding.hint("begin each entry with '- '"));
            }
        };
        if path == "queues[]" {
            self.draft.config.queues.clear();
            if items.is_empty() {
                let finding = Finding::error(Some(node.place), "queues: there is no queue in the list");
                self.findings.add(finding.hint("remove the line to have one queue named 'default'"));
            }
        }
        for item in items {
            self.item(path, item);
        }
    }

    fn item(&mut self, path: &str, node: &Node) {
        self.draft.queue = keys::blank_queue();
        self.draft.node = keys::blank_node();
        self.draft.limit = CardLimit::default();
        self.item = match path {
            "queues[]" => self.draft.config.queues.len(),
            "limits[]" => self.draft.config.limits.len(),
            _ => self.nodes().len(),
        };
        // An item that was not kept had the same number.
        for key in KEYS.iter().filter(|key| key.block() == path) {
            self.places.0.remove(&self.numbered(key.path));
        }
        let written = self.block(path, node);
        if matches!(node.value, Value::Map(_) | Value::Null) {
            let of_item = KEYS.iter().filter(|key| key.block() == path && key.default == Fallback::Required);
            for key in of_item.filter(|key| !written.contains(&key.path)) {
                self.error(node.place, format!("an entry of {path} has no '{}'", key.name()));
            }
        }
        match path {
            "limits[]" => self.keep_limit(node.place),
            _ => self.keep(path),
        }
    }

    /// Keeps the limit at hand if it says whom it concerns.
    fn keep_limit(&mut self, place: Place) {
        let limit = self.draft.limit.clone();
        if limit.user.is_some() == limit.group.is_some() {
            return self.error(place, "an entry of limits[] names either a user or a group".to_owned());
        }
        let same = |other: &CardLimit| (&other.user, &other.group) == (&limit.user, &limit.group);
        if self.draft.config.limits.iter().any(same) {
            let who = limit.user.or(limit.group).unwrap_or_default();
            return self.error(place, format!("the limit of {} is listed twice", quoted(&who)));
        }
        self.draft.config.limits.push(limit);
    }

    /// Keeps the item at hand if it has a name of its own.
    fn keep(&mut self, path: &str) {
        if path == "queues[]" {
            let queue: &Queue = &self.draft.queue;
            let twin = self.draft.config.queues.iter().position(|q| q.name == queue.name);
            let Some(place) = self.places.get(&self.numbered("queues[].name")) else { return };
            match twin {
                Some(twin) => {
                    self.twin(place, format!("queue '{}'", queue.name), &format!("queues[{twin}].name"))
                }
                None => self.draft.config.queues.push(queue.clone()),
            }
        } else {
            let node: &GpuNode = &self.draft.node;
            let twin = self.nodes().iter().position(|n| n.host == node.host);
            let Some(place) = self.places.get(&self.numbered("resources.gpu_nodes[].host")) else { return };
            match twin {
                Some(twin) => {
                    let what = format!("node '{}'", node.host);
                    self.twin(place, what, &format!("resources.gpu_nodes[{twin}].host"));
                }
                None => self.draft.config.resources.gpu_nodes.push(node.clone()),
            }
        }
    }

    fn twin(&mut self, place: Place, what: String, first: &str) {
        let first = self.places.get(first).map_or(String::new(), |first| format!("; first at {first}"));
        self.error(place, format!("{what} is listed twice{first}"));
    }

    fn nodes(&self) -> &[GpuNode] {
        &self.draft.config.resources.gpu_nodes
    }

    fn unknown(&mut self, block: &str, name: &Name) {
        let wrong = name.text.as_str();
        if self.findings.are_enough() {
            return self.error(name.place, String::new());
        }
        let names = keys::children(block);
        let message = format!("unknown key {}{}", quoted(wrong), in_block(block));
        let homes: Vec<String> = KEYS
            .iter()
            .filter(|key| key.name() == wrong && key.block() != block)
            .map(
                |key| if key.block().is_empty() { "the file itself".to_owned() } else { quoted(key.block()) },
            )
            .collect();
        let hint = match nearest(wrong, names.iter().copied()) {
            Some(right) => format!("did you mean '{right}'?"),
            None if !homes.is_empty() => format!("it belongs in {}", homes.join(" or ")),
            None if keys::find(wrong).is_some() => "write blocks within each other, not with dots".to_owned(),
            None if wrong == "<<" => "merge keys are not read; write the keys out".to_owned(),
            None => format!("the keys here are {}", names.join(", ")),
        };
        self.findings.add(Finding::error(Some(name.place), message).hint(hint));
    }

    /// `policy.default_queue` if it is written, else the queue named `default`, else the first.
    fn choose_default_queue(&mut self) {
        let config = &mut self.draft.config;
        if self.places.get("policy.default_queue").is_none()
            && config.queue(config.default_queue.as_str()).is_none()
            && let Some(first) = config.queues.first()
        {
            config.default_queue = first.name.clone();
        }
    }

    fn error(&mut self, place: Place, message: String) {
        self.findings.add(Finding::error(Some(place), message));
    }

    fn numbered(&self, path: &str) -> String {
        path.replace("[]", &format!("[{}]", self.item))
    }
}

fn in_block(block: &str) -> String {
    if block.is_empty() { String::new() } else { format!(" in '{block}'") }
}

/// Whether the word that stands for "no value" is written.
fn stands_for_absent(key: &Key, node: &Node) -> bool {
    match (key.default, &node.value) {
        (Fallback::Absent(word), Value::Scalar { text, .. }) => text == word,
        _ => false,
    }
}

/// The value of an alias as its key would be written: a bare number gets the
/// alias's unit, and a length is multiplied.
fn in_own_unit(target: &Target, node: &Node) -> Node {
    let (Target::Key { unit, times, .. }, Value::Scalar { text, quoted }) = (target, &node.value) else {
        return node.clone();
    };
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let text = match text.parse::<u64>().ok().and_then(|number| number.checked_mul(*times)) {
        Some(number) if digits => format!("{number}{unit}"),
        _ => text.clone(),
    };
    Node { place: node.place, value: Value::Scalar { text, quoted: *quoted } }
}
