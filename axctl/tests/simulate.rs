//! `axctl simulate`: workloads in, tables, documents and pictures out, and what is said of mistakes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;
use std::path::Path;

use common::{Ended, Root, axctl, fits, golden};
use serde_json::Value;

/// Two cards of 100 MB: an urgent job waits for a whole card; the second queue's jobs share one.
const WORKLOAD: &str = "\
# a remark
id,arrive,runtime,estimate,gpus,mem,mem_true,priority,queue,user,ckpt
1,0,30,30,1,0,0,20,default,anna,0
2,1,20,25,1,60,60,50,default,bert,0
3,2,10,10,1,40,40,50,dev,bert,0
4,3,5,5,1,0,0,90,default,anna,0
5,4,5,5,3,0,0,50,dev,carl,0
";

/// Two queues alike, so that nothing but the order of the workload's own counts.
const CONFIG: &str = "queues:\n  - name: default\n  - name: dev\n";

fn root() -> Root {
    let root = Root::new();
    fs::write(root.0.join("w.csv"), WORKLOAD).unwrap();
    fs::write(root.0.join("c.yaml"), CONFIG).unwrap();
    fs::write(root.0.join("bad.yaml"), "queues:\n  - name: default\n    priorty: 3\n").unwrap();
    root
}

/// Runs `axctl simulate` with words in which `@` stands for the folder.
fn simulate(root: &Root, words: &str) -> Ended {
    let folder = format!("{}/", root.0.display());
    let words: Vec<String> = words.split(' ').map(|word| word.replace('@', &folder)).collect();
    let all: Vec<&str> = std::iter::once("simulate").chain(words.iter().map(String::as_str)).collect();
    let ended = axctl(root, &all);
    Ended { err: ended.err.replace(&folder, "@"), ..ended }
}

#[test]
fn a_workload_is_run_and_measured() {
    let root = root();
    let ended = simulate(&root, "@w.csv --nodes 2x100 --config @c.yaml --horizon 60");
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (0, "axctl: c: 1 job not taken; the first is 5: needs 3 cards, and node-1 has 2\n")
    );
    fits(&ended.out, 80);
    golden("simulate.txt", &ended.out);
}

#[test]
fn the_document_has_every_measure_and_those_of_queues_and_users() {
    let root = root();
    let ended = simulate(&root, "@w.csv --nodes 2x100 --config @c.yaml --limit 4 --json");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    // 1 runs on one card until 30, 2 and 3 on the other until 21 and 12; 4 then has it until 26.
    for (path, value) in [
        ("/jobs", 4.0),
        ("/done", 4.0),
        ("/makespan", 30.0),
        ("/wait_mean", 4.5),
        ("/wait_max", 18.0),
        ("/high_wait_mean", 18.0),
        ("/low_done", 1.0),
        ("/util_busy", 0.916667),
        ("/queues/default/jobs", 3.0),
        ("/queues/dev/wait_max", 0.0),
        ("/users/bert/work", 16.0),
        ("/users/anna/wait_p95", 18.0),
    ] {
        assert_eq!(document.pointer(path).and_then(Value::as_f64), Some(value), "{path}: {document:#}");
    }
}

/// One waits for its night, one comes too late for it, one can't be over by its deadline.
#[test]
fn hours_and_deadlines_of_a_workload_are_kept() {
    let root = root();
    let text = "id,arrive,runtime,window,deadline,user\n\
                1,0,7200,01:00-04:00,,anna\n2,9000,7200,01:00-04:00,,bert\n3,3700,7200,,15000,carl\n";
    fs::write(root.0.join("nights.csv"), text).unwrap();
    let ended = simulate(&root, "@nights.csv --nodes 1x100 --config @c.yaml --json");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    for (path, value) in [
        ("/done", 2.0),
        ("/failed", 1.0),
        ("/users/anna/wait_mean", 3600.0),
        // The next night: 25 hours after the beginning.
        ("/users/bert/wait_mean", 81_000.0),
    ] {
        assert_eq!(document.pointer(path).and_then(Value::as_f64), Some(value), "{path}: {document:#}");
    }
    fs::write(root.0.join("nights.csv"), text.replace("04:00,,bert", "04,,bert")).unwrap();
    let ended = simulate(&root, "@nights.csv --nodes 1x100");
    let told = "@nights.csv:3:13: window: '01:00-04' is not daily hours such as 22:00-08:00\n";
    assert!(ended.code != 0 && ended.err.ends_with(told), "{}", ended.err);
}

#[test]
fn a_tick_delays_and_a_packed_file_is_unpacked() {
    let root = root();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    packed.extend(miniz_oxide::deflate::compress_to_vec(WORKLOAD.as_bytes(), 6));
    packed.extend([0; 4]);
    packed.extend((WORKLOAD.len() as u32).to_le_bytes());
    fs::write(root.0.join("w.csv.gz"), packed).unwrap();
    let ended = simulate(&root, "@w.csv.gz --nodes 2x100 --config @c.yaml --limit 2 --tick 2.5 --json");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(document["wait_max"].as_f64(), Some(1.5));
}

#[test]
fn two_configurations_stand_side_by_side() {
    let root = root();
    let ended = simulate(&root, "@w.csv --nodes 2x100 --compare fair @c.yaml --limit 4");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    fits(&ended.out, 80);
    let heads = ended.out.lines().nth(2).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(heads, ["fair", "c"]);
    let ended = simulate(&root, "@w.csv --nodes 2x100 --compare fair throughput --limit 4 --json");
    let document: Value = serde_json::from_str(&ended.out).unwrap();
    let names: Vec<&String> = document.as_object().unwrap().keys().collect();
    assert_eq!(names, ["fair", "throughput"]);
}

/// What was asked for of the profile: on one of the workloads, and in the mean of ten others.
#[test]
fn under_throughput_what_can_wait_is_done_in_time_all_the_same() {
    let root = root();
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/scheduling/seeds");
    let run = |seed: u32| {
        let words = format!(
            "{}/{seed}.csv.gz --nodes 2x24000,2x48000 --profile throughput --tick 0.5 --load_s 10 --horizon 1740 --json",
            seeds.display()
        );
        let ended = simulate(&root, &words);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
        let document: Value = serde_json::from_str(&ended.out).unwrap();
        ["makespan", "low_done", "high_wait_mean", "oom"].map(|measure| document[measure].as_f64().unwrap())
    };
    let others: Vec<[f64; 4]> = (1001..=1010).map(run).collect();
    let mean = [0, 1, 2, 3].map(|at| others.iter().map(|measures| measures[at]).sum::<f64>() / 10.0);
    for (of, [makespan, low_done, high_wait, oom], minutes) in
        [("237", run(237), 30.8), ("the ten", mean, 32.5)]
    {
        assert!(makespan <= 60.0 * minutes, "{of}: {makespan} s");
        assert!(low_done >= 0.92, "{of}: {low_done} of those of low priority after 29 minutes");
        assert!(high_wait <= 0.5 && oom <= 8.0, "{of}: urgent jobs wait {high_wait} s, {oom} out of memory");
    }
}

#[test]
fn the_picture_shows_each_attempt_on_its_card() {
    let root = root();
    let ended = simulate(&root, "@w.csv --nodes 2x100 --config @c.yaml --limit 4 --svg @out.svg");
    assert_eq!(ended.code, 0);
    let svg = fs::read_to_string(root.0.join("out.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("<title>job 4 of anna in default: 1 whole card, 21 to 26 s, SUCCEEDED</title>"));
    assert!(!svg.contains("script"));
    // Job 3 lies beside job 2 on the second card: 60 of 100 from its edge.
    let bar = svg.lines().find(|line| line.contains("job 3 of bert")).unwrap();
    assert!(bar.contains("y=\"95.20\"") && bar.contains("height=\"12.80\""), "{bar}");
}

#[test]
fn of_many_users_those_with_most_work_are_shown() {
    let root = root();
    let line = |n: u32| format!("{n},0,{n},{n},u{n:02}\n");
    let text = format!("id,arrive,runtime,estimate,user\n{}", (1..=30).map(line).collect::<String>());
    fs::write(root.0.join("many.csv"), text).unwrap();
    let ended = simulate(&root, "@many.csv --nodes 4x100");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let users = ended.out.split("USER").nth(1).unwrap();
    assert!(users.contains("\nu30 ") && users.contains("\nu11 ") && !users.contains("\nu10 "), "{users}");
    assert!(users.ends_with("and 10 more with less work\n"), "{users}");
}

#[test]
fn what_a_configuration_lacks_is_said() {
    let root = root();
    fs::write(root.0.join("one.yaml"), "queues:\n  - name: default\n").unwrap();
    let ended = simulate(&root, "@w.csv --nodes 4x100 --config @one.yaml");
    let line = "axctl: one lacks the queue dev, added with the defaults of all keys\n";
    assert_eq!((ended.code, ended.err.as_str()), (0, line));
    let ended = simulate(&root, "@w.csv --nodes 4x100");
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

#[test]
fn mistakes_have_one_line_and_a_code() {
    let root = root();
    fs::write(root.0.join("w2.csv"), "id,arrive,runtime\n1,0,x\n").unwrap();
    for (words, code, told) in [
        ("@none.csv", 66, "cannot read @none.csv: No such file or directory"),
        ("@w2.csv", 65, "@w2.csv:2:5: runtime: 'x' is not a number of seconds"),
        ("@w.csv --config @c.yaml", 65, "say them, such as --nodes 2x24000,2x48000"),
        ("@w.csv --nodes 2y3", 2, "'2y3' is no node: write its cards and the MB of each, such as 2x24000"),
        (
            "@w.csv --nodes 2x100 --profile quick",
            2,
            "there is no profile 'quick'; there are fair and throughput",
        ),
        ("@w.csv --nodes 2x100 --config @bad.yaml", 78, "did you mean 'priority'?"),
        ("@w.csv --nodes 2x100 --tick x", 2, "a number of seconds is needed, such as 0.5"),
    ] {
        let ended = simulate(&root, words);
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{words}: {}", ended.err);
        assert!(ended.err.contains(told), "{words}: {}", ended.err);
    }
}

#[test]
fn what_is_no_record_is_told_so() {
    let root = root();
    fs::write(root.0.join("empty.json"), "[\n]\n").unwrap();
    fs::write(
        root.0.join("gap.json"),
        "[{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"boot_ms\":5,\"kind\":\"gap\"}]",
    )
    .unwrap();
    fs::write(root.0.join("cut.json"), "[\n{\"seq\": 1,").unwrap();
    for (words, told) in [
        (
            "--replay @empty.json",
            "axctl: @empty.json: nothing to begin from: no snapshot is among the events\n",
        ),
        ("--replay @gap.json", "axctl: @gap.json: nothing to begin from: no snapshot is among the events\n"),
        ("--replay @cut.json", "axctl: @cut.json: EOF while parsing a value at line 2 column 10\n"),
        ("@cut.json", "axctl: @cut.json:2:10: EOF while parsing a value\n"),
        (
            "@empty.json",
            "axctl: @empty.json: no snapshot is among the events, so the machines are not known; print them from an \
             earlier time on, or without --from\n",
        ),
    ] {
        let ended = simulate(&root, words);
        assert_eq!((ended.code, ended.err.as_str()), (65, told), "{words}");
    }
    assert_eq!(simulate(&root, "--replay @none.json").code, 66);
    assert_eq!(simulate(&root, "--replay @empty.json --profile fair").code, 2);
}
