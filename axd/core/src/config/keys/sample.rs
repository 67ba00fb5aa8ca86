//! The sample file etc/config.yaml, made from the table: every key at its
//! default, commented out with `#` and no blank, explained after `# `.

use super::{Effect, Fallback, KEYS, Key, Kind};

const HEAD: &str = "\
# Configuration of ax, /etc/ax/config.yaml; see ax.conf(5).
#
# Every key stands here at its default. To change one, remove its '#' and write
# another value; 'axctl check' says what is wrong, 'ax reload' makes it hold.
";

const NODES: &str = "
  # Machines with cards; those that are not listed join with what is found.
  # An entry needs host and gpus:
  #
  #   gpu_nodes:
  #     - host: gpu-01
  #       gpus: 8
  #       mem_per_gpu: 80
  #
  #gpu_nodes: []
";

const QUEUES: &str = "
# Queues, each an entry that begins with its name.
queues:
  - name: default
";

const LIMITS: &str = "
# Limits on what people may have of the cards, each for a user or a group:
#
#   limits:
#     - user: li
#       cards: [gpu-01:0, gpu-01:1]
#     - group: students
#       max_cards: 4
#
#limits: []
";

/// The whole file.
pub fn sample() -> String {
    let mut file = HEAD.to_owned();
    for block in ["cluster", "resources"] {
        file.push_str(&format!("\n{block}:\n"));
        keys(&mut file, block, "  ");
    }
    file.push_str(NODES);
    file.push_str(QUEUES);
    keys(&mut file, "queues[]", "    ");
    file.push_str(LIMITS);
    for block in ["policy", "accounting", "paths"] {
        file.push_str(&format!("\n{block}:\n"));
        keys(&mut file, block, "  ");
    }
    let others: Vec<&str> =
        KEYS.iter().filter(|key| matches!(key.kind, Kind::Later)).map(|key| key.path).collect();
    file.push_str(&format!("\n# Accepted, but without effect yet: {}.\n", others.join(", ")));
    file
}

fn keys(file: &mut String, block: &str, indent: &str) {
    for key in KEYS.iter().filter(|key| key.block() == block) {
        if let Some(value) = written(key) {
            let later = if key.effect == Effect::Later { " Other values have no effect yet." } else { "" };
            file.push_str(&format!("{indent}# {}{later}\n{indent}#{}: {value}\n", key.doc, key.name()));
        }
    }
}

/// What would be written for the default.
fn written(key: &Key) -> Option<&'static str> {
    match key.default {
        Fallback::Value(text) | Fallback::Absent(text) => Some(text),
        Fallback::Required => None,
    }
}
