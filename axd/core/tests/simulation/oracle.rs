//! The reference simulator's answers to random workloads (tests/fixtures/scheduling), attempt by attempt, wherever its
//! rules and ours are the same.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use ax_core::config::{Config, Cost, LearnMemory, Packing, Queue, QueueOrder, Scheduler};
use ax_core::job::state::Outcome;
use ax_core::sim::{Format, Options, simulate};
use ax_core::time::Span;
use serde_json::Value;

use crate::span;

/// A fixture, packed or not.
pub(crate) fn unpacked(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/scheduling").join(file);
    let unpacked = Command::new("gzip").arg("-dcf").arg(&path).output().unwrap();
    assert!(unpacked.status.success(), "{path:?}");
    String::from_utf8(unpacked.stdout).unwrap()
}

/// The lines of a packed fixture.
fn lines(file: &str) -> Vec<Value> {
    unpacked(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether, in its run, a job that ran out of memory came to ask for more than a card that it had not had the whole of:
/// ours goes no further than to that card.
fn leaps_a_card(case: &Value) -> bool {
    let leaps = |job: &Value| {
        let end = |entry: &&Value| entry[1] == "oom" && entry[2] == job[0];
        let (mut mem, wanted) = (job[5].as_f64().unwrap(), job[4].as_u64());
        let cards: Vec<f64> = case["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|node| node[0].as_u64() >= wanted)
            .filter_map(|node| node[1].as_f64())
            .collect();
        case["log"].as_array().unwrap().iter().filter(end).any(|_| {
            let before = mem;
            mem *= 1.5;
            cards.iter().any(|card| before < *card && *card < mem && cards.iter().any(|larger| larger > card))
        })
    };
    case["config"]["learn"] == true && case["jobs"].as_array().unwrap().iter().any(leaps)
}

/// Where its rules are not ours: without observation it forgets what it saw; learning, it lets every job that ran out
/// of memory grow, ours only one that was seen to use up what it asked for, and not past the next card.
fn has_our_rules(case: &Value) -> bool {
    let config = &case["config"];
    let loads = config["load_s"].as_f64().unwrap() > 0.0;
    let job = |job: &Value| {
        let (mem, used) = (job[5].as_u64().unwrap(), job[6].as_u64().unwrap());
        mem == 0 || used * 10 >= mem * 9
    };
    let all_use_it_up = case["jobs"].as_array().unwrap().iter().all(job);
    let strict_shares = config["order"] == "wfq" && config["depth"] == -1;
    // It has no ageing in the orders by size.
    let ages_by_size =
        config["aging"].as_f64() > Some(0.0) && (config["order"] == "laf" || config["order"] == "saf");
    // There a job that has a place kept finds its queue full when the place is free.
    let keeps_places = config["depth"].as_i64() > Some(0);
    let limits = keeps_places && !config["max_running"].as_object().unwrap().is_empty();
    config["pack"] != "fgd"
        && !limits
        && !ages_by_size
        && !strict_shares
        && (!loads || config["observe"] == true)
        && (!loads || config["learn"] == false || (all_use_it_up && !leaps_a_card(case)))
}

fn config(said: &Value) -> Config {
    let order = said["order"].as_str().unwrap();
    let mut config = Config { queues: Vec::new(), ..Config::default() };
    for name in ["alpha", "beta", "gamma"] {
        let mut queue = Queue::named(name.parse().unwrap());
        queue.priority = said["weights"][name].as_f64().map_or(1, |weight| weight as u32);
        queue.max_running = said["max_running"][name].as_u64().map(|most| u32::try_from(most).unwrap());
        queue.order = match order {
            "fifo" => QueueOrder::Fifo,
            "saf" => QueueOrder::Saf,
            "laf" => QueueOrder::Laf,
            _ => QueueOrder::Prio,
        };
        config.queues.push(queue);
    }
    config.resources.gpu_reserve = (said["reserve"].as_f64().unwrap() * 100.0).round() as u32;
    let depth = said["depth"].as_i64().unwrap();
    let aging = said["aging"].as_f64().unwrap();
    let policy = &mut config.policy;
    policy.scheduler = match (order, depth) {
        ("wfq", _) => Scheduler::FairShare,
        (_, -1) => Scheduler::FifoStrict,
        _ => Scheduler::Fifo,
    };
    policy.reservations = u32::try_from(depth.max(0)).unwrap();
    policy.starvation_bound = (aging > 0.0).then_some(Span((aging * 100_000.0) as u64));
    policy.user_share = 0;
    policy.cost = if said["cost"] == "count" { Cost::Count } else { Cost::Area };
    policy.packing = match said["pack"].as_str().unwrap() {
        "first" => Packing::First,
        "worst" => Packing::Worst,
        _ => Packing::Best,
    };
    policy.preemption = said["preempt"] == true;
    policy.grow_memory = said["learn"] == true;
    // What it learns is from one attempt of a job to the next, not from other jobs; evictions cost what they may.
    (policy.learn_length, policy.learn_memory, policy.preempt_budget) = (false, LearnMemory::Off, 100);
    let number = |name: &str| u32::try_from(said[name].as_u64().unwrap()).unwrap();
    policy.preempt_priority = u8::try_from(number("preempt_min")).unwrap();
    policy.preempt_gap = u8::try_from(number("preempt_gap")).unwrap();
    policy.max_preemptions = number("max_preempt");
    policy.retry_count = number("max_retries");
    config
}

fn workload(case: &Value) -> ax_core::sim::Workload {
    let mut csv = "id,arrive,runtime,estimate,gpus,mem,mem_true,priority,queue,user,ckpt,name\n".to_owned();
    for job in case["jobs"].as_array().unwrap() {
        let fields: Vec<String> =
            job.as_array().unwrap().iter().map(|f| f.as_str().map_or(f.to_string(), str::to_owned)).collect();
        // Each is a thing of its own.
        writeln!(csv, "{},task{}x", fields.join(","), fields[0]).unwrap();
    }
    Format::Csv.read(&csv, None).unwrap()
}

/// start, end, job, node, cards and how it ended, one a line, in order.
fn ours(case: &Value) -> Vec<String> {
    let workload = workload(case);
    let nodes = case["nodes"].as_array().unwrap().iter();
    let nodes = nodes.map(|node| format!("{}x{}", node[0], node[1]).parse().unwrap()).collect();
    let said = &case["config"];
    let (tick, load) = (span(&said["tick"]), span(&said["load_s"]));
    let mut options = Options { config: config(said), nodes, history: Vec::new(), tick, load };
    if case["known"].is_array() {
        options.history = (0..3).flat_map(|_| workload.tasks.clone()).collect();
        let policy = &mut options.config.policy;
        (policy.learn_length, policy.learnt_ends, policy.learn_memory) = (true, true, LearnMemory::Fit);
    }
    let run = simulate(&workload, &options).unwrap();
    let line = |stay: &ax_core::sim::run::Stay| {
        let mut cards = stay.cards.clone();
        cards.sort_unstable();
        let how = match stay.how {
            Outcome::Succeeded => "done",
            Outcome::OutOfMemory => "oom",
            Outcome::Preempted => "evict",
            other => other.word(),
        };
        let id = &workload.tasks[stay.task].id;
        format!("{:>9} {:>9} {id} on {} {cards:?} {how}", stay.from.0, stay.to.0, stay.node)
    };
    let mut lines: Vec<String> = run.stays.iter().map(line).collect();
    lines.sort();
    lines
}

fn theirs(case: &Value) -> Vec<String> {
    let mut open = std::collections::BTreeMap::new();
    let mut lines = Vec::new();
    for entry in case["log"].as_array().unwrap() {
        let (at, job) = (span(&entry[0]).0, entry[2].to_string());
        let mut cards: Vec<u64> = entry[4].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        cards.sort_unstable();
        match entry[1].as_str().unwrap() {
            "start" => drop(open.insert(job, at)),
            how => {
                let from = open.remove(&job).unwrap();
                lines.push(format!("{from:>9} {at:>9} {job} on {} {cards:?} {how}", entry[3]));
            }
        }
    }
    lines.sort();
    lines
}

fn agrees_on(file: &str, at_least: usize) {
    let cases: Vec<Value> = lines(file).into_iter().filter(has_our_rules).collect();
    assert!(cases.len() >= at_least, "{} cases of {file} are under our rules", cases.len());
    let mut different = String::new();
    for case in &cases {
        let (ours, theirs) = (ours(case), theirs(case));
        if let Some((a, b)) = ours.iter().zip(&theirs).find(|(a, b)| a != b) {
            writeln!(different, "{} ours: {a}; theirs: {b}", case["name"]).unwrap();
        } else if ours.len() != theirs.len() {
            writeln!(different, "{}: {} attempts, {}", case["name"], ours.len(), theirs.len()).unwrap();
        }
    }
    assert_eq!(different, "", "of {} cases", cases.len());
}

#[test]
fn random_workloads_run_as_in_the_reference_simulator() {
    agrees_on("oracle/workloads.jsonl.gz", 104);
}

#[test]
fn so_do_those_whose_jobs_age() {
    agrees_on("oracle/aged.jsonl.gz", 4);
}

/// Drawn so that the rules of both are the same; but for one of the 330, in whose run a job leaps a card.
#[test]
fn so_do_those_that_leave_no_difference_between_the_rules() {
    agrees_on("oracle/common.jsonl.gz", 329);
}

/// The reference simulator was told what three runs of each job taught, ours has seen them.
#[test]
fn what_was_learnt_leads_to_the_schedule_of_who_was_told() {
    agrees_on("oracle/learnt.jsonl.gz", 120);
}
