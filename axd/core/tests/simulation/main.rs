//! The simulator against the reference simulator, an independent program: the same attempts at the same times on the
//! same cards, and the same measures, wherever both follow the same rules.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batsim;
mod hours;
mod oracle;

use std::fs;
use std::path::{Path, PathBuf};

use ax_core::config::{Config, Packing, Scheduler};
use ax_core::job::state::Outcome;
use ax_core::sim::metrics::Figure;
use ax_core::sim::{Format, Metrics, Options, Run, Workload, simulate};
use ax_core::time::Span;
use proptest::prelude::*;
use serde_json::Value;

/// What the reference simulator said of a workload: `rules` are its own options.
struct Golden {
    workload: Workload,
    said: Value,
}

fn golden(name: &str) -> Golden {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulation/golden");
    let read = |end: &str| fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap();
    Golden {
        workload: Format::Csv.read(&read("csv"), None).unwrap(),
        said: serde_json::from_str(&read("json")).unwrap(),
    }
}

fn span(seconds: &Value) -> Span {
    Span((seconds.as_f64().unwrap() * 1000.0).round() as u64)
}

/// Its rules: strict, by priority without ageing.
fn config(said: &Value) -> Config {
    let mut config = Config::default();
    let policy = &mut config.policy;
    policy.retry_count = 3;
    policy.scheduler = Scheduler::FifoStrict;
    policy.starvation_bound = None;
    if said["rules"]["pack"] == "first" {
        policy.packing = Packing::First;
    }
    config
}

impl Golden {
    fn run(&self) -> Run {
        let nodes = self.said["nodes"].as_str().unwrap().split(',').map(|shape| shape.parse().unwrap());
        let (tick, load) = (span(&self.said["tick"]), span(&self.said["load_s"]));
        let options =
            Options { config: config(&self.said), nodes: nodes.collect(), history: Vec::new(), tick, load };
        simulate(&self.workload, &options).unwrap()
    }
}

/// id, node, cards, start, end and how, one a line.
fn attempts(golden: &Golden, run: &Run) -> (Vec<String>, Vec<String>) {
    let how = |outcome| match outcome {
        Outcome::Succeeded => "done",
        Outcome::OutOfMemory => "oom",
        Outcome::Preempted => "evict",
        other => other.word(),
    };
    let ours = run.stays.iter().map(|stay| {
        let mut cards = stay.cards.clone();
        cards.sort_unstable();
        let id = &golden.workload.tasks[stay.task].id;
        format!("{id} {} {cards:?} {} {} {}", stay.node, stay.from.0, stay.to.0, how(stay.how))
    });
    let theirs = golden.said["attempts"].as_array().unwrap().iter().map(|a| {
        let cards: Vec<u64> = a[2].as_array().unwrap().iter().map(|c| c.as_u64().unwrap()).collect();
        let how = a[5].as_str().unwrap();
        format!("{} {} {cards:?} {} {} {how}", a[0], a[1], span(&a[3]).0, span(&a[4]).0)
    });
    (ours.collect(), theirs.collect())
}

#[track_caller]
fn agrees(name: &str) {
    let golden = golden(name);
    let run = golden.run();
    let (ours, theirs) = attempts(&golden, &run);
    let differing = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differing, None, "{name}: an attempt, ours and theirs");
    assert_eq!(ours.len(), theirs.len(), "{name}");
    let horizon = Some(&golden.said["horizon"]).filter(|h| !h.is_null()).map(span);
    let named = Metrics::of(&golden.workload, &run, horizon).named();
    let theirs = golden.said["metrics"].as_object().unwrap();
    for (key, figure) in &named {
        let value = match figure {
            Figure::Count(count) => *count as f64,
            Figure::Real(value) => (value * 1e6).round() / 1e6,
        };
        let said = theirs.get(key).unwrap_or_else(|| panic!("{name}: they have no {key}")).as_f64().unwrap();
        assert!((value - said).abs() < 1.5e-6, "{name}: {key}: ours {value}, theirs {said}");
    }
    assert_eq!(named.len(), theirs.len(), "{name}: they measure more");
}

#[test]
fn slices_whole_cards_and_several_cards_of_one_node() {
    agrees("one_node");
}

#[test]
fn decisions_at_fixed_intervals() {
    agrees("tick");
}

#[test]
fn many_nodes_of_one_card() {
    agrees("many_nodes");
}

#[test]
fn the_same_workload_gives_the_same_run() {
    let golden = golden("one_node");
    assert_eq!(golden.run(), golden.run());
}

/// A text of each format, and what lies beside it.
const TEXTS: [(Format, &str, Option<&str>); 5] = [
    (
        Format::Csv,
        "id,arrive,runtime,estimate,gpus,mem,mem_true,priority,queue,user,ckpt,name\n\
         1,0,5.5,6,1,40,50,80,a,u,2,\"x,y\"\n2,0.25,3,2,2,0,0,10,b,v,0,\n",
        None,
    ),
    (Format::Swf, "; MaxProcs: 64\n 1 0 -1 10 8 -1 -1 8 30 -1 1 3 1 7 2 1 -1 -1\n", None),
    (
        Format::Batsim,
        r#"{"nb_res": 2, "jobs": [{"id": 0, "profile": "p", "res": 1, "subtime": 1.5, "walltime": 9}],
            "profiles": {"p": {"delay": 3}}}"#,
        None,
    ),
    (
        Format::Openb,
        "name,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time\na,1,460,LS,5,105,7\n",
        Some("sn,gpu\nx,2\n"),
    ),
    (
        Format::Azure,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n\
         2023-11-16 18:17:04.0319600,3180,8\n",
        None,
    ),
];

fn damage() -> impl Strategy<Value = Vec<(prop::sample::Index, String)>> {
    const PIECES: &[&str] =
        &["", ",", "-", "1e9", "999999999999", "nan", "\"", "\n", ";", "é", "0", "\u{0}", "{", " "];
    let piece = prop_oneof![
        prop::sample::select(PIECES).prop_map(str::to_owned),
        any::<char>().prop_map(String::from)
    ];
    prop::collection::vec((any::<prop::sample::Index>(), piece), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the text, a reader answers, and what it read can be run to an end.
    #[test]
    fn damaged_workloads_are_read_or_refused(which in 0..TEXTS.len(), damage in damage()) {
        let (format, text, beside) = TEXTS[which];
        let mut chars: Vec<char> = text.chars().collect();
        for (at, piece) in &damage {
            let at = at.index(chars.len());
            chars.splice(at..=at, piece.chars());
        }
        let text: String = chars.into_iter().collect();
        let _ = Format::of(&text);
        match format.read(&text, beside) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(workload) => {
                let mut options =
                    Options { config: config(&Value::Null), nodes: vec!["2x100".parse().unwrap()], ..Options::default() };
                options.load = Span(1500);
                ax_core::sim::run::add_missing_queues(&mut options.config, &workload);
                let run = simulate(&workload, &options).unwrap();
                let all = Metrics::of(&workload, &run, None).all;
                prop_assert_eq!(all.done + all.failed + all.rejected, workload.tasks.len() as u64);
            }
        }
        if damage.is_empty() {
            prop_assert_eq!(Format::of(&text), format);
            prop_assert!(format.read(&text, beside).is_ok());
        }
    }
}
