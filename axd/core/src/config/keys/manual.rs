//! The manual page ax.conf(5), made from the table, so that it can't disagree
//! with the parser. mdoc(7); each sentence stands on a line of its own.

use super::{ALIASES, Effect, Fallback, KEYS, Key, Kind, Target};

/// The file of the founding description; it is loaded as it is.
const FOUNDING: &str = "\
cluster:
  name: lab-cluster
  heartbeat_timeout: 60
resources:
  gpu_nodes:
    - host: gpu-01
      gpus: 8
      mem_per_gpu: 80
    - host: gpu-02
      gpus: 4
      mem_per_gpu: 40
queues:
  - name: default
    max_running: 4
    priority: 5
  - name: high
    max_running: 2
    priority: 10
policy:
  scheduler: fair_share
  preemption: true
  task_timeout: 86400
  retry_count: 2
";

const HEAD: &str = r#".\" Made from the table of keys; regenerate with AX_BLESS=1 cargo test -p ax-core.
.Dd November 29, 2026
.Dt AX.CONF 5
.Os
.Sh NAME
.Nm ax.conf
.Nd configuration of the batch system ax
.Sh SYNOPSIS
.Pa /etc/ax/config.yaml
.Sh DESCRIPTION
The file is YAML and may be absent: every key has a default, and one machine needs none of them.
.Xr axd 8
reads it when it starts and when it is told to by
.Ql ax reload
or SIGHUP: all of it or, on an error, none of it.
An unknown key, a wrong type, a value out of range or a contradiction is refused with line, column and what would be right;
all findings are told at once.
.Ql axctl check
does the same without a daemon.
.Pp
The file should belong to root and be writable by nobody else.
It is at most 1 MiB long, in UTF-8, and one YAML document.
A key may stand once in a block; merge keys are not read.
A block without keys has the defaults.
Where a default is a word in parentheses, there is no value; the word may be written to say so.
.Pp
A DURATION is a bare number of seconds, or a number with a unit such as
.Ql 500ms , 90s , 5m , 1h30m
or
.Ql 2d ,
or H:M:S.
A SIZE of host memory is a bare number of MB, or a number with K, M, G or T, powers of 1024.
A GPU SIZE is a bare number of GB, or a number with such a unit, powers of 1000.
A number or
.Ql true
stands without quotes.
"#;

const TAIL: &str = r#".Sh FILES
.Bl -tag -width Ds
.It Pa /etc/ax/config.yaml
The configuration of the system's daemon.
.It Pa $XDG_CONFIG_HOME/ax/config.yaml
That of a daemon that a user runs without root.
.El
.Sh EXIT STATUS
.Xr axd 8
and
.Ql axctl check
exit with 78 when the configuration is refused.
.Sh EXAMPLES
Two machines with twelve cards and two queues:
.Bd -literal -offset indent
"#;

const END: &str = r#".Ed
.Sh SEE ALSO
.Xr ax 1 ,
.Xr ax-gpu 7 ,
.Xr ax-scheduling 7 ,
.Xr axctl 8 ,
.Xr axd 8
"#;

/// What is said of each block before its keys.
const BLOCKS: &[(&str, &str)] = &[
    ("cluster", "The cluster and its people."),
    ("resources", "What machines have, where it is not what is found."),
    (
        "resources.gpu_nodes[]",
        "A list of machines with cards. Machines that are not listed join with what is found; two entries for one machine are refused.",
    ),
    (
        "queues[]",
        "A list of queues. Without it there is one, named default; a list without queues is refused, and so is a name that stands twice. A queue that unfinished jobs use can't be removed or renamed: it is given the state closed and runs out.",
    ),
    (
        "limits[]",
        "A list of limits on what people may have of the cards. All that concern a job hold, with those of its queue.",
    ),
    ("policy", "How jobs are chosen, limited and ended."),
    ("accounting", "What is kept of finished jobs."),
    ("paths", "Where files lie. A change holds from the next start of the daemon."),
    ("", "Blocks that are accepted with a warning and not yet read."),
];

/// The whole page.
pub fn mdoc() -> String {
    let mut page = HEAD.to_owned();
    for (block, about) in BLOCKS {
        let title = if block.is_empty() { "Other blocks" } else { block };
        page.push_str(&format!(".Ss {title}\n"));
        sentences(&mut page, about);
        page.push_str(".Bl -tag -width Ds\n");
        for key in KEYS.iter().filter(|key| key.block() == *block) {
            item(&mut page, key);
        }
        page.push_str(".El\n");
    }
    aliases(&mut page);
    page.push_str(TAIL);
    page.push_str(FOUNDING);
    page.push_str(END);
    page
}

fn item(page: &mut String, key: &Key) {
    page.push_str(&format!(".It Ic {}\n", key.name()));
    sentences(page, key.doc);
    if matches!(key.kind, Kind::Later) {
        return;
    }
    let range = key.kind.range().map_or(String::new(), |(min, max)| format!(", {min} to {max}"));
    let default = match key.default {
        Fallback::Value(value) => format!("Default: {value}."),
        Fallback::Absent(word) => format!("Default: ({word})."),
        Fallback::Required => "It must be there.".to_owned(),
    };
    page.push_str(&format!("Value: {}{range}.\n{default}\n", unit(&key.kind)));
    if key.effect == Effect::Later {
        page.push_str("Other values are read and checked, but have no effect yet.\n");
    }
}

/// How a value is written, in the words of the page.
fn unit(kind: &Kind) -> String {
    match kind {
        Kind::Duration(..) => "a DURATION".to_owned(),
        Kind::DurationOrNone(..) => "a DURATION or none".to_owned(),
        Kind::HostSize(..) => "a SIZE".to_owned(),
        Kind::GpuSize(..) => "a GPU SIZE".to_owned(),
        _ => kind.expected(),
    }
}

fn aliases(page: &mut String) {
    page.push_str(".Ss Other names\n");
    page.push_str("Names of other descriptions are read with a warning that says as what, or answered.\n");
    page.push_str(".Bl -tag -width Ds\n");
    for alias in ALIASES {
        let blocks: Vec<&str> = alias
            .blocks
            .iter()
            .map(|block| if block.is_empty() { "the file itself" } else { block })
            .collect();
        page.push_str(&format!(".It Ic {} No in {}\n", alias.name, blocks.join(", ")));
        match alias.target {
            Target::Key { path, unit, times } => {
                let unit = if unit.is_empty() { String::new() } else { format!("; a bare number is {unit}") };
                let times = if times == 1 { String::new() } else { format!(", {times} times as long") };
                page.push_str(&format!("Read as {path}{times}{unit}.\n"));
            }
            Target::Answer(answer) => page.push_str(&format!("Not needed: {answer}.\n")),
        }
    }
    page.push_str(".El\n");
}

/// Text with each sentence on a line, as mdoc(7) has it.
fn sentences(page: &mut String, text: &str) {
    page.push_str(&text.replace(". ", ".\n"));
    page.push('\n');
}
